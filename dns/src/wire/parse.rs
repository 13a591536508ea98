//! Reads a query in one pass over its bytes.

use super::{HEADER, Rcode, flag, hash, u16_at};
use crate::edns::{self, Edns};
use crate::name::{MAX_LABEL, MAX_NAME};
use crate::rrtype::RrType;

/// Why a packet gets no reply at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// Shorter than a header: there is no id to echo.
    TooShort,
    /// A response (QR = 1); answering one could start a loop (RFC 8906 3.2.1, case W15).
    Response,
    /// Response rate limiting.
    RateLimited,
    /// The caller's buffers did not suffice.
    NoRoom,
}

/// What is to be done with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Silence.
    Drop(DropReason),
    /// An error reply.
    Error(Rcode),
    /// A question to answer.
    Answer,
}

/// A query as read. The name in lower case is in the caller's scratch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parsed {
    pub(crate) verdict: Verdict,
    /// The query's flag word.
    pub(crate) flags: u16,
    /// Octets of the question's name, root label included; 0 where no question could be read.
    pub(crate) name_len: usize,
    pub(crate) qtype: RrType,
    pub(crate) qclass: u16,
    /// Hash of the lower-cased name.
    pub(crate) hash: u64,
    /// What the OPT record says, where there is a good one.
    pub(crate) edns: Option<Edns>,
}

impl Parsed {
    pub(crate) const NOTHING: Self = Self {
        verdict: Verdict::Drop(DropReason::TooShort),
        flags: 0,
        name_len: 0,
        qtype: RrType(0),
        qclass: 0,
        hash: 0,
        edns: None,
    };

    /// Octets of the question section in the query and in the reply.
    pub(crate) const fn question_len(&self) -> usize {
        if self.name_len == 0 { 0 } else { self.name_len + 4 }
    }
}

/// Reads `bytes`; the lower-cased name goes to `lower`.
#[inline]
pub(crate) fn query(bytes: &[u8], settings: edns::Reading, lower: &mut [u8; 256]) -> Parsed {
    let mut parsed = Parsed::NOTHING;
    let Some(header) = bytes.first_chunk::<HEADER>() else { return parsed };
    let [_, _, f1, f0, q1, q0, an1, an0, ns1, ns0, ar1, ar0] = *header;
    parsed.flags = u16::from_be_bytes([f1, f0]);
    if parsed.flags & flag::QR != 0 {
        parsed.verdict = Verdict::Drop(DropReason::Response);
        return parsed;
    }
    if parsed.flags & flag::OPCODE != 0 {
        // W13, W14: whatever follows may have another form
        parsed.verdict = Verdict::Error(Rcode::NOTIMP);
        return parsed;
    }
    parsed.verdict = Verdict::Error(Rcode::FORMERR);
    let counts = [[an1, an0], [ns1, ns0], [ar1, ar0]].map(u16::from_be_bytes);
    let mut at = HEADER;
    match u16::from_be_bytes([q1, q0]) {
        // RFC 7873 5.4: a query for a cookie alone has no question
        0 if settings.cookies => {}
        1 => {
            let Some(end) = question(bytes, lower, &mut parsed) else { return parsed };
            at = end;
        }
        // W05
        _ => return parsed,
    }
    match records(bytes, at, counts, settings, &mut parsed) {
        Ok(()) if parsed.name_len != 0 => parsed.verdict = Verdict::Answer,
        Ok(()) if parsed.edns.is_some_and(|edns| edns.cookie.is_some()) => {
            parsed.verdict = Verdict::Error(Rcode::NOERROR);
        }
        Ok(()) => {}
        Err(rcode) => parsed.verdict = Verdict::Error(rcode),
    }
    parsed
}

/// Reads the one question; returns where it ends. W01, W02, W03: no pointers, no long names, nothing cut off.
#[inline]
fn question(bytes: &[u8], lower: &mut [u8; 256], parsed: &mut Parsed) -> Option<usize> {
    let mut end = HEADER;
    loop {
        let length = usize::from(*bytes.get(end)?);
        // a pointer has both high bits set (RFC 1035 4.1.4), so it is above 63 too
        if length > MAX_LABEL {
            return None;
        }
        end += 1 + length;
        if end - HEADER > MAX_NAME {
            return None;
        }
        if length == 0 {
            break;
        }
    }
    let name = bytes.get(HEADER..end)?;
    let [t1, t0, c1, c0] = *bytes.get(end..)?.first_chunk::<4>()?;
    parsed.name_len = name.len();
    parsed.qtype = RrType(u16::from_be_bytes([t1, t0]));
    parsed.qclass = u16::from_be_bytes([c1, c0]);
    parsed.hash = hash::lower_and_hash(name, lower);
    Some(end + 4)
}

/// Walks the other three sections for the OPT record. Each record takes at least 11 octets, so the packet bounds the
/// walk. What follows the last record is left alone (W23).
fn records(
    bytes: &[u8],
    mut at: usize,
    counts: [u16; 3],
    settings: edns::Reading,
    parsed: &mut Parsed,
) -> Result<(), Rcode> {
    let [_, _, additional] = counts;
    let all: u32 = counts.into_iter().map(u32::from).sum();
    for left in (1..=all).rev() {
        let owner = at;
        at = skip_name(bytes, at).ok_or(Rcode::FORMERR)?;
        let fixed = bytes.get(at..).and_then(|rest| rest.first_chunk::<10>()).ok_or(Rcode::FORMERR)?;
        // the extended rcode octet means nothing in a query
        let [t1, t0, c1, c0, _, version, z1, z0, l1, l0] = *fixed;
        let data = at + 10;
        at = data + usize::from(u16::from_be_bytes([l1, l0]));
        let rdata = bytes.get(data..at).ok_or(Rcode::FORMERR)?;
        if u16::from_be_bytes([t1, t0]) != RrType::OPT.0 {
            continue;
        }
        // dns.md 3, W06, W07: one OPT, at the root, in the additional section
        if left > u32::from(additional) || parsed.edns.is_some() || bytes.get(owner) != Some(&0) {
            return Err(Rcode::FORMERR);
        }
        let head = Edns::new(u16::from_be_bytes([c1, c0]), u16::from_be_bytes([z1, z0]));
        let edns = parsed.edns.insert(head);
        if version != 0 {
            return Err(Rcode::BADVERS);
        }
        edns.read_options(rdata, settings)?;
    }
    Ok(())
}

/// Where the name at `at` ends: after its root label or its first pointer, which is not followed.
fn skip_name(bytes: &[u8], mut at: usize) -> Option<usize> {
    let start = at;
    loop {
        let length = usize::from(*bytes.get(at)?);
        match length {
            0 => return Some(at + 1),
            1..=MAX_LABEL => at += 1 + length,
            0xc0.. => return u16_at(bytes, at).map(|_| at + 2),
            _ => return None,
        }
        if at - start > MAX_NAME {
            return None;
        }
    }
}
