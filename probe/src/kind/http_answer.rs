//! An HTTP/1 answer, read piece by piece within bounds (RFC 9112).
//!
//! ```text
//!   head ──► length(n) ──► complete          a body of known length
//!     │ ├──► chunked ────► complete          chunk by chunk
//!     │ └──► until close ► complete          HTTP/1.0, or no Content-Length
//!     └────────────────► complete            HEAD, 204, 304
//! ```
//! Reading also completes when the body limit is reached: what follows is not looked at.

/// The longest head; servers that say more are not what a check expects.
const HEAD_LIMIT: usize = 16 * 1024;
/// The longest line between chunks, extensions and trailers included.
const LINE_LIMIT: usize = 1024;
/// The most trailer lines after the last chunk.
const TRAILER_LIMIT: u8 = 64;

/// The first lines of an answer.
pub(super) struct Head {
    /// The response code.
    pub(super) code: u16,
    /// Code and phrase as sent.
    pub(super) status: String,
    headers: Vec<(String, String)>,
}

impl Head {
    /// The first header of this name.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    fn all<'a, 'b>(&'a self, name: &'b str) -> impl Iterator<Item = &'a str> + use<'a, 'b> {
        let named = move |(known, _): &&(String, String)| known.eq_ignore_ascii_case(name);
        self.headers.iter().filter(named).map(|(_, value)| value.as_str())
    }

    fn parse(text: &str) -> Result<Self, &'static str> {
        let mut lines = text.lines();
        let status_line = lines.next().unwrap_or_default();
        let (version, status) = status_line.split_once(' ').ok_or("no HTTP status line")?;
        if !version.starts_with("HTTP/1.") {
            return Err("no HTTP/1 status line");
        }
        let status = status.trim();
        let code = status.split(' ').next().unwrap_or_default();
        let code = code.parse().ok().filter(|code| (100..=999).contains(code)).ok_or("no response code")?;
        let pair = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_owned(), value.trim().to_owned()))
        };
        Ok(Self { code, status: status.to_owned(), headers: lines.filter_map(pair).collect() })
    }

    /// RFC 9112 6.3, for an answer that may have a body.
    fn framing(&self) -> Result<Part, &'static str> {
        if matches!(self.code, 204 | 304) {
            return Ok(Part::Complete);
        }
        let coding = self.all("transfer-encoding").last().and_then(|codings| codings.rsplit(',').next());
        if coding.is_some_and(|coding| coding.trim().eq_ignore_ascii_case("chunked")) {
            return Ok(Part::ChunkSize);
        }
        let mut lengths = self.all("content-length");
        let Some(first) = lengths.next() else { return Ok(Part::UntilClose) };
        if lengths.any(|other| other != first) {
            return Err("two different Content-Length headers");
        }
        match first.parse() {
            Ok(0) => Ok(Part::Complete),
            Ok(length) => Ok(Part::Length(length)),
            Err(_) => Err("the Content-Length is no number"),
        }
    }
}

/// What is read next.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Head,
    Length(u64),
    UntilClose,
    ChunkSize,
    Chunk(u64),
    ChunkEnd,
    Trailer(u8),
    Complete,
}

/// An answer as far as it has arrived.
pub(super) struct Answer {
    has_body: bool,
    body_limit: usize,
    part: Part,
    head: Option<Head>,
    body: Vec<u8>,
    /// What has arrived and is not yet understood: a part of the head or of a line between chunks.
    pending: Vec<u8>,
}

impl Answer {
    pub(super) fn new(has_body: bool, body_limit: usize) -> Self {
        Self { has_body, body_limit, part: Part::Head, head: None, body: Vec::new(), pending: Vec::new() }
    }

    /// The head, once it is whole.
    pub(super) fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    /// The body so far, without chunk framing.
    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    /// True when no more will be read.
    pub(super) fn is_complete(&self) -> bool {
        self.part == Part::Complete
    }

    /// Takes what arrived.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        let mut input = std::mem::take(&mut self.pending);
        input.extend_from_slice(bytes);
        let mut rest = input.as_slice();
        while let Some(next) = self.step(rest)? {
            rest = next;
        }
        self.pending = rest.to_vec();
        Ok(())
    }

    /// The connection ended: complete for a body that lasts until then.
    pub(super) fn close(&mut self) -> Result<(), &'static str> {
        match self.part {
            Part::UntilClose | Part::Complete => {
                self.part = Part::Complete;
                Ok(())
            }
            Part::Head if self.pending.is_empty() => Err("closed without an answer"),
            Part::Head => Err("closed before the head was complete"),
            Part::Length(_) | Part::ChunkSize | Part::Chunk(_) | Part::ChunkEnd | Part::Trailer(_) => {
                Err("closed before the body was complete")
            }
        }
    }

    /// Understands one part; none when more must arrive first, or nothing more is wanted.
    fn step<'a>(&mut self, input: &'a [u8]) -> Result<Option<&'a [u8]>, &'static str> {
        match self.part {
            Part::Complete => Ok(None),
            Part::Head => self.read_head(input),
            Part::UntilClose => {
                self.take(input);
                Ok((!input.is_empty()).then_some(&[]))
            }
            Part::Length(left) => Ok(self.take_counted(input, left, Part::Length, Part::Complete)),
            Part::Chunk(left) => Ok(self.take_counted(input, left, Part::Chunk, Part::ChunkEnd)),
            Part::ChunkSize | Part::ChunkEnd | Part::Trailer(_) => {
                let Some(at) = input.iter().position(|byte| *byte == b'\n') else {
                    return if input.len() > LINE_LIMIT { Err("a chunk line is too long") } else { Ok(None) };
                };
                let (line, rest) = input.split_at(at);
                self.part = after_line(self.part, line.trim_ascii())?;
                Ok(rest.get(1..))
            }
        }
    }

    fn read_head<'a>(&mut self, input: &'a [u8]) -> Result<Option<&'a [u8]>, &'static str> {
        // Something else than HTTP is told apart by its first octets, not by waiting for an end that never comes.
        let start = input.get(..5).unwrap_or(input);
        if !b"HTTP/".starts_with(start) {
            return Err("the answer is not HTTP");
        }
        let Some(end) = head_end(input) else {
            return if input.len() > HEAD_LIMIT { Err("the head is too long") } else { Ok(None) };
        };
        if end > HEAD_LIMIT {
            return Err("the head is too long");
        }
        let (text, rest) = input.split_at(end);
        let head = Head::parse(&String::from_utf8_lossy(text))?;
        // RFC 9110 15.2: interim answers come before the real one. 101 is final: we asked for no upgrade.
        if !(100..200).contains(&head.code) || head.code == 101 {
            self.part = if self.has_body { head.framing()? } else { Part::Complete };
            if self.body_limit == 0 {
                self.part = Part::Complete;
            }
            self.head = Some(head);
        }
        Ok(Some(rest))
    }

    fn take_counted<'a>(
        &mut self,
        input: &'a [u8],
        left: u64,
        more: fn(u64) -> Part,
        after: Part,
    ) -> Option<&'a [u8]> {
        if input.is_empty() {
            return None;
        }
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
        let (data, rest) = input.split_at(count);
        let left = left - data.len() as u64;
        self.part = if left == 0 { after } else { more(left) };
        self.take(data);
        Some(rest)
    }

    /// Adds to the body; at the limit the answer is complete.
    fn take(&mut self, data: &[u8]) {
        let room = self.body_limit - self.body.len();
        self.body.extend_from_slice(data.get(..room).unwrap_or(data));
        if self.body.len() == self.body_limit {
            self.part = Part::Complete;
        }
    }
}

/// RFC 9112 7.1: the part that follows a line of chunk framing.
fn after_line(part: Part, line: &[u8]) -> Result<Part, &'static str> {
    match part {
        Part::ChunkSize => {
            let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
            let size = std::str::from_utf8(digits).ok().and_then(|text| u64::from_str_radix(text, 16).ok());
            match size {
                None => Err("a chunk has no size"),
                Some(0) => Ok(Part::Trailer(0)),
                Some(size) => Ok(Part::Chunk(size)),
            }
        }
        Part::ChunkEnd if line.is_empty() => Ok(Part::ChunkSize),
        Part::ChunkEnd => Err("a chunk is longer than its size"),
        Part::Trailer(_) if line.is_empty() => Ok(Part::Complete),
        Part::Trailer(TRAILER_LIMIT..) => Err("too many trailers"),
        Part::Trailer(count) => Ok(Part::Trailer(count + 1)),
        Part::Head | Part::Length(_) | Part::UntilClose | Part::Chunk(_) | Part::Complete => Ok(part),
    }
}

/// Where the head ends: after the first empty line. Bare LF is accepted, as RFC 9112 2.2 advises.
fn head_end(input: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = input.get(from..)?.iter().position(|byte| *byte == b'\n') {
        let next = from + at + 1;
        match input.get(next..)? {
            [b'\n', ..] => return Some(next + 1),
            [b'\r', b'\n', ..] => return Some(next + 2),
            _ => from = next,
        }
    }
    None
}
