//! Encodes RRsets at load so that a query copies them.
//!
//! A section is written as if it followed a question for its *base*: the owner itself, or some name below a zone's apex
//! or a delegation (`?.apex`). Each compression pointer in it is noted. When the section is copied behind another name,
//! a pointer is moved by what it points at ([`Placement::moved`]):
//! - the base's first octet stands for the owner: it becomes the start of the actual name;
//! - any other octet of the base lies in a common suffix: it moves with the end of the actual name;
//! - the rest lies in the section: it moves with the section.

use super::NONE;
use crate::name::Name;
use crate::rrtype::RrType;
use crate::wire::{HEADER, u16_at};
use std::collections::HashMap;

/// Targets of pointers lie below this, so that they still fit 14 bits behind a chain of 16 aliases, each of a DNAME and a
/// CNAME of up to 267 octets.
const POINTER_LIMIT: usize = 0x1c00;

/// All sections' bytes, with what is needed to move them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    bytes: Vec<u8>,
    pointers: Vec<u16>,
    groups: Vec<Group>,
}

/// An RRset of an additional section: kept or left out as a whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    /// Octets of the additional section up to the end of this group.
    pub(crate) end: u16,
    /// Records up to the end of this group.
    pub(crate) records: u16,
}

/// Encoded answer, authority and additional records.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Section {
    at: u32,
    pointers: u32,
    groups: u32,
    pointer_count: u16,
    group_count: u16,
    /// Where the base's name ends in the imagined message.
    base_end: u16,
    /// Octets and records of the three parts.
    pub(crate) answer_len: u16,
    pub(crate) authority_len: u16,
    pub(crate) additional_len: u16,
    pub(crate) answers: u16,
    pub(crate) authorities: u16,
    pub(crate) additionals: u16,
    /// Groups that a complete reply holds: glue inside the delegation (RFC 9471).
    pub(crate) required_groups: u16,
}

/// Where a section is put.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placement {
    /// Where the actual name begins and ends in the message.
    pub(crate) name_start: usize,
    pub(crate) name_end: usize,
    /// Where the section begins.
    pub(crate) body: usize,
}

impl Placement {
    #[inline]
    fn moved(self, base_end: usize, target: usize) -> usize {
        if target == HEADER {
            self.name_start
        } else if target < base_end {
            (target + self.name_end).saturating_sub(base_end)
        } else {
            (target + self.body).saturating_sub(base_end + 4)
        }
    }
}

impl Section {
    /// Copies the first `len` octets to `out`, which is the message from `placement.body` on.
    #[inline]
    pub(crate) fn copy(&self, pool: &Pool, len: usize, placement: Placement, out: &mut [u8]) -> Option<()> {
        let from = self.at as usize;
        let out = out.get_mut(..len)?;
        out.copy_from_slice(pool.bytes.get(from..from + len)?);
        let base_end = usize::from(self.base_end);
        let as_imagined = placement.name_start == HEADER
            && placement.name_end == base_end
            && placement.body == base_end + 4;
        if as_imagined {
            return Some(());
        }
        let from = self.pointers as usize;
        for &at in pool.pointers.get(from..from + usize::from(self.pointer_count))? {
            let at = usize::from(at);
            let Some(pair) = out.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<2>()) else { break };
            let target = usize::from(u16::from_be_bytes(*pair) & 0x3fff);
            *pair = (0xc000 | placement.moved(base_end, target) as u16).to_be_bytes();
        }
        Some(())
    }

    /// Asks the processor to load the first octets.
    #[inline]
    pub(crate) fn prefetch(&self, pool: &Pool) {
        if let Some(first) = pool.bytes.get(self.at as usize) {
            crate::wire::prefetch(first);
        }
    }

    /// Octets of the answer records.
    pub(crate) fn answer<'p>(&self, pool: &'p Pool) -> &'p [u8] {
        let start = self.at as usize;
        pool.bytes.get(start..start + usize::from(self.answer_len)).unwrap_or_default()
    }

    /// TTL and data of the first record, where the data was not compressed.
    pub(crate) fn first_record<'p>(&self, pool: &'p Pool) -> Option<(u32, &'p [u8])> {
        let record = self.answer(pool);
        let ttl = u32::from_be_bytes(*record.get(6..)?.first_chunk()?);
        let len = usize::from(u16_at(record, 10)?);
        Some((ttl, record.get(12..12 + len)?))
    }

    /// Octets of all three parts.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        usize::from(self.answer_len) + usize::from(self.authority_len) + usize::from(self.additional_len)
    }

    /// The RRsets of the additional part.
    #[inline]
    pub(crate) fn groups<'p>(&self, pool: &'p Pool) -> &'p [Group] {
        let start = self.groups as usize;
        pool.groups.get(start..start + usize::from(self.group_count)).unwrap_or_default()
    }
}

impl Pool {
    /// Stores a record without its owner: type, class, TTL, length, data. `None` where the data is too long.
    pub(crate) fn record(&mut self, rtype: RrType, ttl: u32, rdata: &[u8]) -> Option<(u32, u16)> {
        let at = u32::try_from(self.bytes.len()).ok()?;
        let rdlen = u16::try_from(rdata.len()).ok()?;
        let len = rdlen.checked_add(10)?;
        self.bytes.extend_from_slice(&rtype.0.to_be_bytes());
        self.bytes.extend_from_slice(&1_u16.to_be_bytes());
        self.bytes.extend_from_slice(&ttl.to_be_bytes());
        self.bytes.extend_from_slice(&rdlen.to_be_bytes());
        self.bytes.extend_from_slice(rdata);
        Some((at, len))
    }

    /// Octets stored with [`Self::record`].
    #[inline]
    pub(crate) fn stored(&self, at: u32, len: u16) -> &[u8] {
        let start = at as usize;
        self.bytes.get(start..start + usize::from(len)).unwrap_or_default()
    }

    /// Gives back what growing left over.
    pub(crate) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.pointers.shrink_to_fit();
        self.groups.shrink_to_fit();
    }
}

/// A section under construction.
pub(crate) struct Encoder<'p> {
    pool: &'p mut Pool,
    /// The base in lower case.
    base: Vec<u8>,
    /// Octets of the base in front of the first suffix a pointer may mean.
    skip: usize,
    /// Suffix in lower case → offset in the imagined message; filled when the first name is written.
    known: HashMap<Box<[u8]>, usize>,
    section: Section,
    fits: bool,
}

impl<'p> Encoder<'p> {
    /// A section for `name` itself. Behind a wildcard the actual name differs, so only its suffixes are pointed at.
    pub(crate) fn of(pool: &'p mut Pool, name: &Name) -> Self {
        let skip = if name.is_wildcard() { 2 } else { 0 };
        Self::new(pool, name.as_wire().to_ascii_lowercase(), skip)
    }

    /// A section for any name at or below `name`.
    pub(crate) fn below(pool: &'p mut Pool, name: &Name) -> Self {
        let base = [b"\x01?", name.as_wire()].concat().to_ascii_lowercase();
        Self::new(pool, base, 2)
    }

    fn new(pool: &'p mut Pool, base: Vec<u8>, skip: usize) -> Self {
        let section = Section {
            at: u32::try_from(pool.bytes.len()).unwrap_or(NONE),
            pointers: u32::try_from(pool.pointers.len()).unwrap_or(NONE),
            groups: u32::try_from(pool.groups.len()).unwrap_or(NONE),
            base_end: (HEADER + base.len()) as u16,
            ..Section::default()
        };
        let fits = section.at != NONE && section.pointers != NONE && section.groups != NONE;
        Self { pool, base, skip, known: HashMap::new(), section, fits }
    }

    /// An answer record; its owner is whatever name was asked. Returns where it begins in the section.
    pub(crate) fn answer(&mut self, rtype: RrType, ttl: u32, rdata: &[u8]) -> usize {
        let start = self.position();
        self.pointer(HEADER);
        self.rest(rtype, ttl, rdata);
        self.section.answers = self.section.answers.saturating_add(1);
        self.section.answer_len = self.len_since(0);
        start
    }

    /// An authority record.
    pub(crate) fn authority(&mut self, owner: &Name, rtype: RrType, ttl: u32, rdata: &[u8]) {
        self.name(owner.as_wire(), true);
        self.rest(rtype, ttl, rdata);
        self.section.authorities = self.section.authorities.saturating_add(1);
        self.section.authority_len = self.len_since(self.section.answer_len);
    }

    /// An RRset of the additional section.
    pub(crate) fn additional(
        &mut self,
        owner: &Name,
        rtype: RrType,
        ttl: u32,
        rdatas: &[&[u8]],
        is_required: bool,
    ) {
        for rdata in rdatas {
            self.name(owner.as_wire(), true);
            self.rest(rtype, ttl, rdata);
            self.section.additionals = self.section.additionals.saturating_add(1);
        }
        let before = self.section.answer_len.saturating_add(self.section.authority_len);
        self.section.additional_len = self.len_since(before);
        self.pool.groups.push(Group { end: self.section.additional_len, records: self.section.additionals });
        self.section.group_count = self.section.group_count.saturating_add(1);
        if is_required {
            self.section.required_groups = self.section.group_count;
        }
    }

    /// The section; `None` where it can fit no message.
    pub(crate) fn finish(self) -> Option<Section> {
        let len = self.pool.bytes.len() - self.section.at as usize;
        let pointers = self.pool.pointers.len() - self.section.pointers as usize;
        let section = Section { pointer_count: u16::try_from(pointers).ok()?, ..self.section };
        // the longest question and OPT record leave this much
        (self.fits && len <= 64_000).then_some(section)
    }

    fn len_since(&mut self, before: u16) -> u16 {
        let len = self.pool.bytes.len() - self.section.at as usize;
        u16::try_from(len).map_or_else(
            |_| {
                self.fits = false;
                u16::MAX
            },
            |len| len.saturating_sub(before),
        )
    }

    fn position(&self) -> usize {
        self.pool.bytes.len() - self.section.at as usize
    }

    /// Type, class, TTL, length and data.
    fn rest(&mut self, rtype: RrType, ttl: u32, rdata: &[u8]) {
        let bytes = &mut self.pool.bytes;
        bytes.extend_from_slice(&rtype.0.to_be_bytes());
        bytes.extend_from_slice(&1_u16.to_be_bytes());
        bytes.extend_from_slice(&ttl.to_be_bytes());
        bytes.extend_from_slice(&[0, 0]);
        let start = bytes.len();
        self.rdata(rtype, rdata);
        let Ok(rdlen) = u16::try_from(self.pool.bytes.len() - start) else {
            self.fits = false;
            return;
        };
        if let Some(place) = self.pool.bytes.get_mut(start - 2..start) {
            place.copy_from_slice(&rdlen.to_be_bytes());
        }
    }

    /// Only the names of RFC 1035's own types may be compressed (RFC 3597 4). An alias's target is left whole, because
    /// it is the name that what follows in the chain points at.
    fn rdata(&mut self, rtype: RrType, rdata: &[u8]) {
        let (prefix, names) = match rtype {
            RrType::NS | RrType::PTR | RrType::MD | RrType::MF | RrType::MB | RrType::MG | RrType::MR => {
                (0, 1)
            }
            RrType::MX => (2, 1),
            RrType::SOA | RrType::MINFO => (0, 2),
            _ => (rdata.len(), 0),
        };
        let (plain, mut rest) = rdata.split_at_checked(prefix).unwrap_or((rdata, &[]));
        self.pool.bytes.extend_from_slice(plain);
        for _ in 0..names {
            let Ok(len) = crate::name::wire_len(rest) else { break };
            let (name, tail) = rest.split_at_checked(len).unwrap_or((rest, &[]));
            self.name(name, true);
            rest = tail;
        }
        self.pool.bytes.extend_from_slice(rest);
    }

    fn pointer(&mut self, target: usize) {
        let at = self.position();
        match u16::try_from(at) {
            Ok(at) => self.pool.pointers.push(at),
            Err(_) => self.fits = false,
        }
        self.pool.bytes.extend_from_slice(&(0xc000 | target as u16).to_be_bytes());
    }

    /// A name, its longest known suffix as a pointer. What is written becomes known.
    fn name(&mut self, wire: &[u8], compress: bool) {
        self.know_base();
        let lower = wire.to_ascii_lowercase();
        let mut at = 0;
        while let Some(&length @ 1..) = wire.get(at) {
            let suffix = lower.get(at..).unwrap_or_default();
            match self.known.get(suffix) {
                Some(&target) if compress => return self.pointer(target),
                Some(_) => {}
                None => {
                    let here = usize::from(self.section.base_end) + 4 + self.position();
                    if here < POINTER_LIMIT {
                        self.known.insert(suffix.into(), here);
                    }
                }
            }
            let end = at + 1 + usize::from(length);
            self.pool.bytes.extend_from_slice(wire.get(at..end).unwrap_or_default());
            at = end;
        }
        self.pool.bytes.push(0);
    }

    fn know_base(&mut self) {
        if !self.known.is_empty() {
            return;
        }
        let mut at = self.skip;
        while let Some(&length @ 1..) = self.base.get(at) {
            if let Some(suffix) = self.base.get(at..) {
                self.known.insert(suffix.into(), HEADER + at);
            }
            at += 1 + usize::from(length);
        }
    }
}

/// The name in the data of these types whose addresses help the client: NS, MX, SRV, SVCB and their kin.
pub(crate) fn target(rtype: RrType, rdata: &[u8], owner: &Name) -> Option<Name> {
    let rest = rdata.get(target_at(rtype)?..)?;
    let name = Name::from_wire(rest.get(..crate::name::wire_len(rest).ok()?)?).ok()?;
    if !name.is_root() {
        return Some(name);
    }
    // RFC 9460 2.5: "." in service mode stands for the owner
    let is_service = matches!(rtype, RrType::SVCB | RrType::HTTPS) && u16_at(rdata, 0) != Some(0);
    is_service.then(|| owner.clone())
}

/// Octets in front of the name in the data of these types.
pub(crate) fn target_at(rtype: RrType) -> Option<usize> {
    match rtype {
        RrType::NS => Some(0),
        RrType::MX | RrType::KX | RrType::AFSDB | RrType::RT | RrType::SVCB | RrType::HTTPS => Some(2),
        RrType::SRV => Some(6),
        _ => None,
    }
}
