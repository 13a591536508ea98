//! Events that wait to be polled. What must not be lost is kept apart.

use std::collections::VecDeque;

use super::types::{ConnId, Event};

/// A bounded queue: beyond its bound events are counted, and the reader is told to look anew.
pub(super) struct Events {
    waiting: VecDeque<Event>,
    /// At most one a connection.
    closes: VecDeque<(ConnId, String)>,
    missed: u64,
    limit: usize,
}

impl Events {
    pub(super) fn new(limit: usize) -> Self {
        Self { waiting: VecDeque::new(), closes: VecDeque::new(), missed: 0, limit }
    }

    pub(super) fn push(&mut self, event: Event) {
        if self.waiting.len() < self.limit {
            self.waiting.push_back(event);
        } else {
            self.missed += 1;
        }
    }

    pub(super) fn close(&mut self, conn: ConnId, why: &str) {
        self.closes.push_back((conn, why.to_owned()));
    }

    pub(super) fn pop(&mut self) -> Option<Event> {
        if let Some((conn, why)) = self.closes.pop_front() {
            return Some(Event::Close { conn, why });
        }
        let next = self.waiting.pop_front();
        if next.is_none() && self.missed > 0 {
            let count = std::mem::take(&mut self.missed);
            return Some(Event::Missed { count });
        }
        next
    }
}
