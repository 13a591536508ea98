//! Counters of one worker. Only the worker writes them; anybody may read.

use crate::wire::Rcode;
use crate::wire::parse::DropReason;
use std::sync::atomic::{AtomicU64, Ordering};

/// A counter with one writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// The count.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// One more. There is one writer, so no locked instruction is needed.
    #[inline]
    pub(crate) fn add_one(&self) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }
}

/// What one worker did.
#[derive(Debug, Default)]
pub struct WorkerStats {
    /// Queries over UDP from IPv4 and IPv6.
    pub udp: [Counter; 2],
    /// Queries over streams from IPv4 and IPv6.
    pub tcp: [Counter; 2],
    /// Replies by response code 0 to 15; extended codes are under 15.
    pub rcodes: [Counter; 16],
    /// Packets dropped as shorter than a header.
    pub dropped_short: Counter,
    /// Packets dropped as responses.
    pub dropped_response: Counter,
    /// Replies dropped by rate limiting.
    pub dropped_rate: Counter,
    /// Packets dropped for want of a buffer.
    pub dropped_no_room: Counter,
    /// Truncated replies, those that rate limiting let slip included.
    pub truncated: Counter,
    /// Truncated replies that rate limiting let slip.
    pub slipped: Counter,
    /// Truncated replies that ask a client to come by TCP, so that it is measured.
    pub solicited: Counter,
    /// Queries with EDNS.
    pub edns: Counter,
    /// Queries with a client subnet.
    pub ecs: Counter,
    /// Decisions made for a client subnet rather than the source.
    pub ecs_used: Counter,
    /// Queries with a good server cookie.
    pub cookie_good: Counter,
    /// Queries with another cookie.
    pub cookie_other: Counter,
    /// Decisions made.
    pub dynamic: Counter,
    /// Decisions in which a service's fallback answered.
    pub fallback: Counter,
}

impl WorkerStats {
    pub(crate) fn dropped(&self, reason: DropReason) {
        match reason {
            DropReason::TooShort => &self.dropped_short,
            DropReason::Response => &self.dropped_response,
            DropReason::RateLimited => &self.dropped_rate,
            DropReason::NoRoom => &self.dropped_no_room,
        }
        .add_one();
    }

    #[inline]
    pub(crate) fn replied(&self, rcode: Rcode) {
        if let Some(counter) = self.rcodes.get(usize::from(rcode.0.min(15))) {
            counter.add_one();
        }
    }
}
