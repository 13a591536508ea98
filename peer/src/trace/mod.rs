//! Frames as they went over a node's connections: kept in a file, watched live, and told to people.
//!
//! ```text
//!  transport ─► Tracer ─┬─► File ─► FILE, FILE.1, … ─► Records ─┐
//!                       └─► Tap (live) ─────────────────────────┴─► Record ─► line, JSON
//! ```
//! A node writes only what it said and heard itself, behind TLS; nobody else's traffic can be decoded. Whatever is slow,
//! a disk or a reader, loses records, which are counted; it never holds a connection.

mod file;
mod told;

pub use file::{FileSettings, Records, TraceError};
pub use told::{Told, Traced};

use crate::codec::{self, Decoded, Malformed};
use crate::transport::ring::Ring;
use file::Sink;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Records that a live reader may be behind.
const TAP_RECORDS: usize = 1_024;
/// Live readers at a time.
const MAX_TAPS: usize = 16;

/// Which way a frame went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub enum Direction {
    /// From the peer to this node.
    Received,
    /// From this node to the peer.
    Sent,
}

/// One frame on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// When, in milliseconds since 1970 by this node's clock.
    pub at_unix_ms: u64,
    /// Which way.
    pub direction: Direction,
    /// From or to whom.
    pub peer: String,
    /// Over which of this node's connections.
    pub conn: u64,
    /// Header and body; what cannot be cut into frames comes as it is.
    pub octets: Vec<u8>,
}

impl Record {
    /// What it says. The length in the header is checked, too: what could not be cut into frames is recorded as it came.
    pub fn decode(&self) -> Result<Decoded, Malformed> {
        let mut reader = codec::Reader::new(codec::MAX_BODY);
        reader.push(&self.octets);
        match reader.next_frame()? {
            Some(decoded) if reader.waiting() == 0 => Ok(decoded),
            Some(_) | None => Err(Malformed::Field),
        }
    }
}

/// Cuts one direction of one connection into records. It follows the stream also while nobody watches, so that a reader
/// who comes later begins with a whole frame.
#[derive(Debug)]
pub(crate) struct Cutter {
    reader: codec::Reader,
    is_broken: bool,
}

impl Cutter {
    pub(crate) fn new() -> Self {
        Self { reader: codec::Reader::new(codec::MAX_BODY), is_broken: false }
    }

    /// Takes octets of the stream and gives the whole frames in them.
    fn cut(&mut self, octets: &[u8], mut each: impl FnMut(&[u8])) {
        if self.is_broken {
            return each(octets);
        }
        self.reader.push(octets);
        loop {
            match self.reader.next_octets() {
                Ok(Some(frame)) => each(frame),
                Ok(None) => return,
                Err(_) => {
                    // the session closes a connection on this; what came is worth seeing
                    self.is_broken = true;
                    return each(octets);
                }
            }
        }
    }
}

/// Where all frames of a node pass.
#[derive(Debug)]
pub(crate) struct Tracer {
    is_watched: AtomicBool,
    file: Option<Sink>,
    taps: Mutex<Vec<Weak<Ring<Record>>>>,
    dropped: AtomicU64,
}

impl Tracer {
    /// Opens the file if there is to be one.
    pub(crate) fn new(file: Option<FileSettings>) -> std::io::Result<Self> {
        let file = file.map(Sink::open).transpose()?;
        let is_watched = AtomicBool::new(file.is_some());
        Ok(Self { is_watched, file, taps: Mutex::new(Vec::new()), dropped: AtomicU64::new(0) })
    }

    /// A live reader of all frames from now on; none when too many read already.
    pub(crate) fn tap(&self) -> Option<Tap> {
        let mut taps = self.taps.lock().unwrap_or_else(PoisonError::into_inner);
        taps.retain(|tap| tap.strong_count() > 0);
        if taps.len() >= MAX_TAPS {
            return None;
        }
        let ring = Arc::new(Ring::new(TAP_RECORDS));
        taps.push(Arc::downgrade(&ring));
        self.is_watched.store(true, Ordering::Release);
        Some(Tap { ring })
    }

    /// Octets passed. Cheap while nobody watches: they are only cut.
    pub(crate) fn passed(
        &self,
        cutter: &mut Cutter,
        direction: Direction,
        peer: &str,
        conn: u64,
        octets: &[u8],
    ) {
        if !self.is_watched.load(Ordering::Acquire) {
            return cutter.cut(octets, |_| {});
        }
        let at_unix_ms = now_unix_ms();
        cutter.cut(octets, |frame| {
            let octets = frame.to_vec();
            self.record(Record { at_unix_ms, direction, peer: peer.to_owned(), conn, octets });
        });
    }

    /// Records that the file or a reader was too slow for.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed) + self.file.as_ref().map_or(0, Sink::dropped)
    }

    fn record(&self, record: Record) {
        let mut taps = self.taps.lock().unwrap_or_else(PoisonError::into_inner);
        taps.retain(|tap| {
            let Some(ring) = tap.upgrade() else { return false };
            let dropped = ring.push(record.clone());
            self.dropped.fetch_add(dropped, Ordering::Relaxed);
            true
        });
        let is_tapped = !taps.is_empty();
        drop(taps);
        match &self.file {
            Some(file) => file.write(record),
            None => self.is_watched.store(is_tapped, Ordering::Release),
        }
    }
}

/// A live reader of frames. When it is too slow the oldest are lost.
#[derive(Debug)]
pub struct Tap {
    ring: Arc<Ring<Record>>,
}

impl Tap {
    /// The next frame, and how many were lost before it. It waits until there is one.
    pub async fn next(&self) -> (Record, u64) {
        self.ring.next().await
    }
}

fn now_unix_ms() -> u64 {
    let age = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    age.map_or(0, |age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
}
