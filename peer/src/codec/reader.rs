//! A stream of octets, in any cut, becomes frames.

use super::{Decoded, HEADER, Malformed, decode};

/// Cuts a stream of octets into frames. It holds at most one frame that is not whole.
#[derive(Debug)]
pub struct Reader {
    buffer: Vec<u8>,
    start: usize,
    limit: usize,
}

impl Reader {
    /// A reader that takes bodies of at most `limit` octets.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, limit }
    }

    /// From now on takes bodies of at most `limit` octets.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Takes octets as they come, in any cut. Read all frames before the next push.
    pub fn push(&mut self, octets: &[u8]) {
        self.buffer.drain(..self.start);
        self.start = 0;
        self.buffer.extend_from_slice(octets);
    }

    /// The octets of the next whole frame.
    pub fn next_octets(&mut self) -> Result<Option<&[u8]>, Malformed> {
        let rest = self.buffer.get(self.start..).unwrap_or_default();
        let Some(header) = rest.first_chunk::<HEADER>() else { return Ok(None) };
        let length = u32::from_be_bytes([header[0], header[1], header[2], header[3]]) as usize;
        if length > self.limit {
            return Err(Malformed::TooLong);
        }
        let end = self.start + HEADER + length;
        if end > self.buffer.len() {
            return Ok(None);
        }
        let octets = self.buffer.get(self.start..end);
        self.start = end;
        Ok(octets)
    }

    /// The next whole frame.
    pub fn next_frame(&mut self) -> Result<Option<Decoded>, Malformed> {
        self.next_octets()?.map(decode).transpose()
    }

    /// Octets that wait for the rest of their frame.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.buffer.len() - self.start
    }
}
