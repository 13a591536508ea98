//! A continuous stream of queries that counts what was sent and what was answered.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::stream::Stream;
use crate::wire::{Message, Response};

/// Queries in flight at once: enough to have the node always at work, too few for any socket buffer to overflow.
const WINDOW: usize = 16;
/// An answer that has not come by then is lost.
const LOST_AFTER: Duration = Duration::from_secs(3);

/// What a stream has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Queries sent.
    pub sent: u64,
    /// Good answers.
    pub answered: u64,
    /// Answers that were wrong, the first few.
    pub wrong: Vec<String>,
}

/// A running stream.
pub struct QueryStream {
    is_ending: Arc<AtomicBool>,
    so_far: Arc<AtomicU64>,
    thread: JoinHandle<Count>,
}

impl QueryStream {
    /// Over UDP from one socket; `is_good` judges every answer.
    #[must_use]
    pub fn udp(server: SocketAddr, query: Message, is_good: fn(&Response) -> bool) -> Self {
        Self::start(move |is_ending, so_far| {
            let socket = UdpSocket::bind(if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }).unwrap();
            socket.connect(server).unwrap();
            socket.set_read_timeout(Some(LOST_AFTER)).unwrap();
            let mut count = Count::default();
            let mut buffer = vec![0; 65_535];
            while !is_ending.load(Ordering::SeqCst) {
                for _ in 0..WINDOW {
                    socket.send(&query.bytes()).unwrap();
                    count.sent += 1;
                }
                for _ in 0..WINDOW {
                    let Ok(length) = socket.recv(&mut buffer) else { break };
                    count.note(&buffer[..length], is_good);
                }
                so_far.store(count.answered, Ordering::SeqCst);
            }
            count
        })
    }

    /// Over one TCP connection.
    #[must_use]
    pub fn tcp(server: SocketAddr, query: Message, is_good: fn(&Response) -> bool) -> Self {
        Self::start(move |is_ending, so_far| {
            let mut stream = Stream::connect(server);
            stream.patience(LOST_AFTER);
            let mut count = Count::default();
            while !is_ending.load(Ordering::SeqCst) {
                stream.send(&query.bytes());
                count.sent += 1;
                let Ok(message) = stream.receive() else { break };
                count.note(&message, is_good);
                so_far.store(count.answered, Ordering::SeqCst);
            }
            count
        })
    }

    fn start(run: impl FnOnce(&AtomicBool, &AtomicU64) -> Count + Send + 'static) -> Self {
        let (is_ending, so_far) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (ending, so_far_too) = (Arc::clone(&is_ending), Arc::clone(&so_far));
        let thread = std::thread::spawn(move || run(&ending, &so_far_too));
        Self { is_ending, so_far, thread }
    }

    /// Answers so far.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.so_far.load(Ordering::SeqCst)
    }

    /// Ends it.
    #[must_use]
    pub fn finish(self) -> Count {
        self.is_ending.store(true, Ordering::SeqCst);
        self.thread.join().unwrap()
    }
}

impl Count {
    fn note(&mut self, octets: &[u8], is_good: fn(&Response) -> bool) {
        match Response::parse(octets) {
            Ok(response) if is_good(&response) => self.answered += 1,
            other if self.wrong.len() < 5 => self.wrong.push(format!("{other:?}")),
            _ => {}
        }
    }
}
