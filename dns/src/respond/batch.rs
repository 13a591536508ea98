//! What goes in and out of one call: queries, the time, and the buffers of the replies.

use crate::wire::MESSAGE_MAX;
use std::net::SocketAddr;

/// How a query came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A datagram; the reply is limited by EDNS and may be truncated.
    Udp,
    /// A stream: TCP, TLS, HTTPS or QUIC; a reply has up to 65,535 octets.
    Tcp,
}

/// One query as it came.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The message, without a stream's length prefix.
    pub bytes: &'a [u8],
    /// Who sent it.
    pub source: SocketAddr,
    /// How it came.
    pub transport: Transport,
}

/// The time, from outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Monotonic milliseconds since some fixed moment of the process.
    pub mono_ms: u64,
    /// Seconds since 1970, for cookies only; wraps around.
    pub unix_s: u32,
}

impl Now {
    /// Monotonic seconds.
    #[must_use]
    pub const fn mono_s(&self) -> u32 {
        (self.mono_ms / 1000) as u32
    }
}

/// Replies begin at multiples of this.
const ALIGN: usize = 16;

/// Buffers for the replies to a batch in one block, so that `sendmmsg` can point at it.
///
/// Each reply begins where the one before it ended: most are short, and lie in few pages and cache lines.
#[derive(Debug)]
pub struct Replies {
    block: Box<[u8]>,
    capacity: usize,
    /// Where the next reply begins.
    end: usize,
    /// Where each reply begins, and its length.
    replies: Box<[(u32, u32)]>,
}

impl Replies {
    /// Room for `slots` replies of up to `capacity` octets each (at most 65,535).
    #[must_use]
    pub fn new(slots: usize, capacity: usize) -> Self {
        let capacity = capacity.clamp(crate::wire::UDP_MIN, MESSAGE_MAX);
        Self {
            block: vec![0; capacity.next_multiple_of(ALIGN) * slots].into_boxed_slice(),
            capacity,
            end: 0,
            replies: vec![(0, 0); slots].into_boxed_slice(),
        }
    }

    /// How many queries one batch may hold.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.replies.len()
    }

    /// The reply to query `slot`; `None` where none is sent.
    #[must_use]
    pub fn get(&self, slot: usize) -> Option<&[u8]> {
        let (start, length) = *self.replies.get(slot)?;
        if length == 0 { None } else { self.block.get(start as usize..(start + length) as usize) }
    }

    /// Forgets the replies of the batch before.
    pub(crate) fn clear(&mut self) {
        self.end = 0;
    }

    /// The buffer of the next reply.
    pub(crate) fn buffer(&mut self) -> Option<&mut [u8]> {
        self.block.get_mut(self.end..self.end + self.capacity)
    }

    /// The next reply, in its buffer, is the one to query `slot`, and so long.
    pub(crate) fn push(&mut self, slot: usize, length: usize) {
        if let Some(place) = self.replies.get_mut(slot) {
            let length = length.min(self.capacity);
            *place = (self.end as u32, length as u32);
            self.end += length.next_multiple_of(ALIGN);
        }
    }
}
