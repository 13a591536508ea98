//! Writes a reply into a caller's buffer: header, question, sections, OPT.

use super::HEADER;
use crate::catalog::{Placement, Pool, Section};
use crate::cookie;
use crate::ecs::Ecs;
use crate::edns::{ExtendedError, OPT_LEN, option};
use crate::rrtype::RrType;

/// Where an uncompressed name is in the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NameAt {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// Options of the reply's OPT record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OptOut<'a> {
    pub(crate) udp_size: u16,
    pub(crate) dnssec_ok: bool,
    pub(crate) nsid: Option<&'a [u8]>,
    pub(crate) cookie: Option<([u8; cookie::CLIENT], [u8; cookie::SERVER])>,
    pub(crate) ecs: Option<(Ecs, u8)>,
    /// Left out where there is no room for it.
    pub(crate) extended_error: Option<ExtendedError>,
}

impl OptOut<'_> {
    /// Octets of the record without the extended error.
    fn len(&self) -> usize {
        OPT_LEN
            + self.nsid.map_or(0, |id| 4 + id.len())
            + self.cookie.map_or(0, |_| 4 + cookie::CLIENT + cookie::SERVER)
            + self.ecs.map_or(0, |(ecs, _)| 8 + ecs.octets().len())
    }
}

/// The end of a reply under construction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    at: usize,
    additionals: u16,
}

/// A reply under construction. Once something did not fit it is truncated: the rest is ignored.
pub(crate) struct Writer<'b> {
    buffer: &'b mut [u8],
    at: usize,
    body: usize,
    /// Where records must end, so that OPT still fits.
    limit: usize,
    answers: u16,
    authorities: u16,
    additionals: u16,
    is_truncated: bool,
}

impl<'b> Writer<'b> {
    /// Begins with the query's id and question, letters as they came (dns.md 6). `None` where not even that fits.
    #[inline]
    pub(crate) fn new(buffer: &'b mut [u8], query: &[u8], question_len: usize, limit: usize) -> Option<Self> {
        let body = HEADER + question_len;
        let head = query.get(..body)?;
        buffer.get_mut(..body)?.copy_from_slice(head);
        let limit = limit.min(buffer.len());
        Some(Self {
            buffer,
            at: body,
            body,
            limit,
            answers: 0,
            authorities: 0,
            additionals: 0,
            is_truncated: false,
        })
    }

    /// Keeps room for an OPT record.
    #[inline]
    pub(crate) fn reserve(&mut self, opt: &OptOut<'_>) {
        self.limit = self.limit.saturating_sub(opt.len());
    }

    /// Where the next record begins.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    pub(crate) fn is_truncated(&self) -> bool {
        self.is_truncated
    }

    /// The octets of a name written before.
    pub(crate) fn name(&self, name: NameAt) -> &[u8] {
        self.buffer.get(name.start..name.end).unwrap_or_default()
    }

    /// Takes back every record.
    pub(crate) fn clear(&mut self) {
        self.at = self.body;
        self.answers = 0;
        self.authorities = 0;
        self.additionals = 0;
    }

    /// Leaves no record, and tells the client to come by a stream (RFC 2181 9: no partial RRset).
    pub(crate) fn truncate(&mut self) {
        self.clear();
        self.is_truncated = true;
    }

    /// Copies a section behind the name `owner`.
    #[inline]
    pub(crate) fn section(&mut self, pool: &Pool, section: &Section, owner: NameAt) {
        if self.is_truncated {
            return;
        }
        let must = usize::from(section.answer_len) + usize::from(section.authority_len);
        let room = self.limit.saturating_sub(self.at);
        if must > room {
            return self.truncate();
        }
        let mut len = section.len();
        let mut additionals = section.additionals;
        if len > room {
            // whole RRsets of additional records as far as they fit; only glue is missed (RFC 2181 9, RFC 9471)
            let groups = section.groups(pool);
            let kept = groups.partition_point(|group| must + usize::from(group.end) <= room);
            let last = kept.checked_sub(1).and_then(|last| groups.get(last));
            len = must + last.map_or(0, |group| usize::from(group.end));
            additionals = last.map_or(0, |group| group.records);
            self.is_truncated = kept < usize::from(section.required_groups);
        }
        let placement = Placement { name_start: owner.start, name_end: owner.end, body: self.at };
        let Some(out) = self.buffer.get_mut(self.at..) else { return };
        if section.copy(pool, len, placement, out).is_none() {
            return self.truncate();
        }
        self.at += len;
        self.answers += section.answers;
        self.authorities += section.authorities;
        self.additionals += additionals;
    }

    /// An answer record from its stored form (type, class, TTL, length, data), owned by the name at `owner`.
    /// Returns where its data is.
    #[inline]
    pub(crate) fn record(&mut self, owner: usize, stored: &[u8], ttl: u32) -> Option<NameAt> {
        if self.is_truncated {
            return None;
        }
        let end = self.at + 2 + stored.len();
        if end > self.limit {
            self.truncate();
            return None;
        }
        let out = self.buffer.get_mut(self.at..end)?;
        let (pointer, rest) = out.split_first_chunk_mut::<2>()?;
        *pointer = (0xc000 | owner as u16).to_be_bytes();
        rest.copy_from_slice(stored);
        rest.get_mut(4..8)?.copy_from_slice(&ttl.to_be_bytes());
        let data = NameAt { start: self.at + 12, end };
        self.at = end;
        self.answers += 1;
        Some(data)
    }

    /// Where to come back to with [`Self::rewind`].
    pub(crate) fn mark(&self) -> Mark {
        Mark { at: self.at, additionals: self.additionals }
    }

    /// Takes back the additional records written since.
    pub(crate) fn rewind(&mut self, mark: Mark) {
        self.at = mark.at;
        self.additionals = mark.additionals;
    }

    /// The pointer that stands for the name at `at`, if one can. A name that is a pointer itself is passed on.
    pub(crate) fn pointer_to(&self, at: usize) -> Option<u16> {
        let first = u16::from_be_bytes(*self.buffer.get(at..self.at)?.first_chunk()?);
        if first >= 0xc000 { Some(first) } else { (at < 0x4000).then_some(0xc000 | at as u16) }
    }

    /// An additional record from its stored form, owned by the name that `owner` points at; its TTL is the stored one
    /// unless another is given. `false` where there is no room for it.
    pub(crate) fn additional(&mut self, owner: u16, stored: &[u8], ttl: Option<u32>) -> bool {
        let end = self.at + 2 + stored.len();
        let Some(out) = self.buffer.get_mut(self.at..end).filter(|_| end <= self.limit) else { return false };
        let Some((pointer, rest)) = out.split_first_chunk_mut::<2>() else { return false };
        *pointer = owner.to_be_bytes();
        rest.copy_from_slice(stored);
        if let (Some(ttl), Some(place)) = (ttl, rest.get_mut(4..8)) {
            place.copy_from_slice(&ttl.to_be_bytes());
        }
        self.at = end;
        self.additionals += 1;
        true
    }

    /// The CNAME that a DNAME makes: `front` labels of the name at `owner`, then `target` (RFC 6672 3.1).
    pub(crate) fn synthesized(
        &mut self,
        owner: NameAt,
        front: usize,
        target: &[u8],
        ttl: u32,
    ) -> Option<NameAt> {
        let data = front + target.len();
        let end = self.at + 12 + data;
        if self.is_truncated {
            return None;
        }
        if end > self.limit {
            self.truncate();
            return None;
        }
        let start = self.at + 12;
        self.buffer.copy_within(owner.start..owner.start + front, start);
        self.buffer.get_mut(start + front..end)?.copy_from_slice(target);
        let [t1, t0] = RrType::CNAME.0.to_be_bytes();
        let [o1, o0] = (0xc000 | owner.start as u16).to_be_bytes();
        let [l3, l2, l1, l0] = ttl.to_be_bytes();
        let [d1, d0] = (data as u16).to_be_bytes();
        let head = [o1, o0, t1, t0, 0, 1, l3, l2, l1, l0, d1, d0];
        self.buffer.get_mut(self.at..start)?.copy_from_slice(&head);
        self.at = end;
        self.answers += 1;
        Some(NameAt { start, end })
    }

    /// Writes OPT and the header; returns the length of the reply.
    #[inline]
    pub(crate) fn finish(mut self, flags: u16, rcode: u16, opt: Option<&OptOut<'_>>) -> usize {
        if let Some(opt) = opt {
            let room = self.limit + opt.len() - self.at;
            let len = self.opt(opt, rcode, room);
            self.at += len;
            self.additionals += u16::from(len != 0);
        }
        let tc = if self.is_truncated { super::flag::TC } else { 0 };
        let flags = super::flag::QR | flags | tc | (rcode & 0xf);
        let questions = u16::from(self.body > HEADER);
        let words = [flags, questions, self.answers, self.authorities, self.additionals];
        if let Some(header) = self.buffer.get_mut(2..HEADER) {
            for (place, word) in header.chunks_exact_mut(2).zip(words) {
                place.copy_from_slice(&word.to_be_bytes());
            }
        }
        self.at
    }

    fn opt(&mut self, opt: &OptOut<'_>, rcode: u16, room: usize) -> usize {
        let len = opt.len();
        let extended = opt.extended_error.filter(|_| len + 6 <= room);
        let len = len + extended.map_or(0, |_| 6);
        let Some(out) = self.buffer.get_mut(self.at..self.at + len) else { return 0 };
        let mut put = Put { out, at: 0 };
        put.bytes(&[0, 0, RrType::OPT.0 as u8]);
        put.word(opt.udp_size);
        put.bytes(&[(rcode >> 4) as u8, 0]);
        put.word(if opt.dnssec_ok { 0x8000 } else { 0 });
        put.word((len - OPT_LEN) as u16);
        if let Some(id) = opt.nsid {
            put.word(option::NSID);
            put.word(id.len() as u16);
            put.bytes(id);
        }
        if let Some((client, server)) = &opt.cookie {
            put.word(option::COOKIE);
            put.word((client.len() + server.len()) as u16);
            put.bytes(client);
            put.bytes(server);
        }
        if let Some((ecs, scope)) = &opt.ecs {
            let octets = ecs.octets();
            put.word(option::ECS);
            put.word(4 + octets.len() as u16);
            put.word(ecs.family);
            put.bytes(&[ecs.source, *scope]);
            put.bytes(octets);
        }
        if let Some(code) = extended {
            put.word(option::EDE);
            put.word(2);
            put.word(code as u16);
        }
        len
    }
}

/// Appends to a slice that was measured before.
struct Put<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl Put<'_> {
    #[inline]
    fn bytes(&mut self, bytes: &[u8]) {
        let end = self.at + bytes.len();
        if let Some(place) = self.out.get_mut(self.at..end) {
            place.copy_from_slice(bytes);
        }
        self.at = end;
    }

    #[inline]
    fn word(&mut self, word: u16) {
        self.bytes(&word.to_be_bytes());
    }
}
