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

/// Buffers for the replies to a batch: one slot a query in one contiguous block, so that `sendmmsg` can point at it.
#[derive(Debug)]
pub struct Replies {
    block: Box<[u8]>,
    stride: usize,
    capacity: usize,
    lengths: Box<[u32]>,
}

impl Replies {
    /// Room for `slots` replies of up to `capacity` octets each (at most 65,535).
    #[must_use]
    pub fn new(slots: usize, capacity: usize) -> Self {
        let capacity = capacity.clamp(crate::wire::UDP_MIN, MESSAGE_MAX);
        // an odd number of cache lines, so that the slots' heads do not all fall into one cache set
        let stride = (capacity.div_ceil(64) | 1) * 64;
        Self {
            block: vec![0; stride * slots].into_boxed_slice(),
            stride,
            capacity,
            lengths: vec![0; slots].into_boxed_slice(),
        }
    }

    /// How many queries one batch may hold.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.lengths.len()
    }

    /// The reply to query `slot`; `None` where none is sent.
    #[must_use]
    pub fn get(&self, slot: usize) -> Option<&[u8]> {
        let length = *self.lengths.get(slot)? as usize;
        let start = slot * self.stride;
        if length == 0 { None } else { self.block.get(start..start + length) }
    }

    /// The buffer of `slot`.
    pub(crate) fn slot_mut(&mut self, slot: usize) -> Option<&mut [u8]> {
        let start = slot.checked_mul(self.stride)?;
        self.block.get_mut(start..start + self.capacity)
    }

    pub(crate) fn set_len(&mut self, slot: usize, length: usize) {
        if let Some(place) = self.lengths.get_mut(slot) {
            *place = length.min(self.capacity) as u32;
        }
    }
}
