//! A queue that never makes its writers wait: when it is full the oldest is lost, and counted.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use tokio::sync::Notify;

#[derive(Debug)]
pub(crate) struct Ring<T> {
    held: Mutex<Held<T>>,
    more: Notify,
}

#[derive(Debug)]
struct Held<T> {
    queue: VecDeque<T>,
    room: usize,
    lost: u64,
    is_closed: bool,
}

impl<T> Ring<T> {
    pub(crate) fn new(room: usize) -> Self {
        let held = Held { queue: VecDeque::new(), room: room.max(1), lost: 0, is_closed: false };
        Self { held: Mutex::new(held), more: Notify::new() }
    }

    /// Adds one; gives how many were lost for it.
    pub(crate) fn push(&self, one: T) -> u64 {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lost = 0;
        while held.queue.len() >= held.room {
            held.queue.pop_front();
            lost += 1;
        }
        held.lost += lost;
        held.queue.push_back(one);
        drop(held);
        self.more.notify_one();
        lost
    }

    /// No more will come: readers get what is left, and then nothing.
    pub(crate) fn close(&self) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).is_closed = true;
        self.more.notify_one();
    }

    /// The next one, and how many were lost before it; none when it is closed and empty. For one reader.
    pub(crate) async fn next_or_end(&self) -> Option<(T, u64)> {
        loop {
            let more = self.more.notified();
            {
                let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(one) = held.queue.pop_front() {
                    return Some((one, std::mem::take(&mut held.lost)));
                }
                if held.is_closed {
                    return None;
                }
            }
            more.await;
        }
    }

    /// The next one of a queue that is never closed.
    pub(crate) async fn next(&self) -> (T, u64) {
        loop {
            if let Some(next) = self.next_or_end().await {
                return next;
            }
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_are_lost_and_counted() {
        let ring = Ring::new(3);
        let lost: u64 = (0..10).map(|number| ring.push(number)).sum();
        assert_eq!(lost, 7);
        assert_eq!(ring.next().await, (7, 7));
        assert_eq!(ring.next().await, (8, 0));
        ring.push(10);
        ring.close();
        assert_eq!(ring.next_or_end().await, Some((9, 0)));
        assert_eq!(ring.next_or_end().await, Some((10, 0)));
        assert_eq!(ring.next_or_end().await, None);
    }
}
