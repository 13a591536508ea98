//! What queries read: an immutable table from prefix to scores.
//!
//! ```text
//! address ─► block (6 bits shorter than an entry): slot { present, starts } ─► row of the entry
//!                    └ a hole in it: row that covers the block   ─┐
//!            no slot: shorter prefixes, one table a length       ─┼─► row
//!            none:    the median of the client's operator        ─┘
//! ```
//! A block's 64 entries are two bit masks in its slot, so an entry of any length within it costs the slot's cache
//! line and the row's. The slots lie in shards: publishing after a few changes makes those shards anew and shares
//! the others.

use super::{PointId, Prefix, Source};
use crate::hash::mix;
use crate::nets::prefetch;
use std::net::IpAddr;
use std::sync::Arc;

/// Microseconds a unit of a score.
pub(super) const UNIT_US: u32 = 50;
/// The greatest score by itself.
pub(super) const SCORE_MAX: u16 = 0x7ffe;
/// Added to measured scores where the operator wrote others for the same client (PX2).
pub(super) const OUTRANKED: u16 = 0x8000;
/// No score.
const NO_SCORE: u16 = u16::MAX;
/// Bits by which a block is shorter than an entry.
pub(super) const BLOCK_BITS: u8 = 6;
/// Shards a family.
pub(super) const SHARDS: usize = 256;
/// No row.
pub(super) const NO_ROW: u32 = u32::MAX;
/// In the source's byte of a cell.
const PEERS: u8 = 0x80;
const WEAK: u8 = 0x40;
/// Added to monotonic seconds, so that what is older than the process has an age.
pub(super) const ORIGIN_S: u32 = 1 << 22;
/// Words before a row's scores.
const HEAD: usize = 4;

/// A cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub(super) struct Line([u32; 16]);

/// A row's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Of the client's own prefix.
    Own,
    /// Of a prefix around it, from others measured there.
    Covering,
    /// Of the client's operator.
    Operator,
    /// The operator wrote it, for some points at least.
    Written,
    /// Not to be ranked: opted out, or one address at many places (anycast).
    Skipped,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Own, Self::Covering, Self::Operator, Self::Written, Self::Skipped];
}

/// What a row is, without its scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// What it stands for.
    pub kind: Kind,
    /// The prefix length over which it holds.
    pub length: u8,
    /// How far to trust the best of it, 0..=255.
    pub confidence: u8,
    /// Attempts without an answer since the last one with (case G14).
    pub silent: u8,
    /// When the last measurement was, in the table's seconds: see [`Head::age_s`].
    pub(super) seen_s: u32,
    /// How many measurements are in it.
    pub samples: u32,
    /// When the last attempt without an answer was.
    pub(super) silent_s: u32,
}

impl Head {
    /// Seconds since the last measurement, at these monotonic seconds.
    #[must_use]
    pub fn age_s(&self, now_s: u32) -> u32 {
        (now_s + ORIGIN_S).saturating_sub(self.seen_s)
    }

    /// Seconds since the last attempt without an answer.
    #[must_use]
    pub fn silent_age_s(&self, now_s: u32) -> u32 {
        (now_s + ORIGIN_S).saturating_sub(self.silent_s)
    }
}

/// A score of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Score {
    /// In microseconds; smaller is nearer.
    pub us: u32,
    /// Where it comes from.
    pub source: Source,
    /// Whether a peer measured it.
    pub is_peers: bool,
    /// A guess that only exploration goes by.
    pub is_weak: bool,
    /// Whether the operator wrote scores for others of the row, which go before this one (PX2).
    pub is_outranked: bool,
    /// Seconds since the last measurement, to about two minutes, up to nine hours.
    pub age_s: u32,
}

/// A row that was found.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    lines: &'a [Line],
    offsets: &'a [u16],
}

impl Row<'_> {
    #[inline]
    fn word(&self, at: usize) -> Option<u32> {
        self.lines.get(at / 16).map(|line| line.0[at % 16])
    }

    /// What it is.
    #[must_use]
    pub fn head(&self) -> Head {
        let word = |i: usize| self.word(i).unwrap_or(0);
        let [kind, length, confidence, silent] = word(0).to_le_bytes();
        Head {
            kind: Kind::ALL.get(usize::from(kind)).copied().unwrap_or(Kind::Skipped),
            length,
            confidence,
            silent,
            seen_s: word(1),
            samples: word(2),
            silent_s: word(3),
        }
    }

    /// Whether the client's own prefix may be measured and was not.
    #[inline]
    pub(crate) fn is_unmeasured(&self) -> bool {
        let kind = self.word(0).unwrap_or(0) as u8;
        kind == Kind::Covering as u8
            || kind == Kind::Operator as u8
            || (kind == Kind::Own as u8 && self.word(2) == Some(0))
    }

    /// The prefix length over which it holds.
    #[inline]
    pub(super) fn length(&self) -> u8 {
        self.word(0).map_or(0, |word| (word >> 8) as u8)
    }

    /// Whether the operator wrote it.
    #[inline]
    pub(super) fn is_written(&self) -> bool {
        self.word(0).is_some_and(|word| word as u8 == Kind::Written as u8)
    }

    /// Whether it is not to be used.
    #[inline]
    pub(super) fn is_skipped(&self) -> bool {
        self.word(0).is_none_or(|word| word as u8 == Kind::Skipped as u8)
    }

    /// The score from a point, in units: what a query compares.
    #[inline]
    pub(super) fn units(&self, point: PointId) -> Option<u32> {
        let word = self.word(HEAD + usize::from(point.0))?;
        if word as u16 == NO_SCORE || (word >> 16) as u8 & WEAK != 0 {
            return None;
        }
        Some(self.with_offset(word, point))
    }

    /// Units, source byte and seen byte, guesses too: what exploration compares.
    #[inline]
    pub(super) fn guess(&self, point: PointId) -> Option<(u32, u8, u8)> {
        let word = self.word(HEAD + usize::from(point.0))?;
        (word as u16 != NO_SCORE)
            .then(|| (self.with_offset(word, point), (word >> 16) as u8, (word >> 24) as u8))
    }

    #[inline]
    fn with_offset(&self, word: u32, point: PointId) -> u32 {
        let offset = self.offsets.get(usize::from(point.0)).copied().unwrap_or(0);
        (word & 0xffff) + u32::from(offset)
    }

    /// The score from a point.
    #[must_use]
    pub fn score(&self, point: PointId, now_s: u32) -> Option<Score> {
        let (units, source, seen) = self.guess(point)?;
        let is_outranked = units >= u32::from(OUTRANKED);
        let units = if is_outranked { units - u32::from(OUTRANKED) } else { units };
        Some(Score {
            us: units * UNIT_US,
            source: source_of(source),
            is_peers: source & PEERS != 0,
            is_weak: source & WEAK != 0,
            is_outranked,
            age_s: age_of(seen, now_s),
        })
    }
}

pub(super) fn source_of(byte: u8) -> Source {
    Source::from_code(byte & !(PEERS | WEAK)).unwrap_or(Source::Coordinates)
}

/// A moment in a byte.
fn seen_code(seen_s: u32) -> u8 {
    (seen_s / 128) as u8
}

/// Seconds since a moment in a byte.
#[inline]
pub(super) fn age_of(seen: u8, now_s: u32) -> u32 {
    u32::from(seen_code(now_s + ORIGIN_S).wrapping_sub(seen)) * 128
}

/// What a lookup came to.
#[derive(Clone, Copy, Debug)]
pub struct Looked<'a> {
    /// The row to go by.
    pub row: Option<Row<'a>>,
    /// The prefix length over which this lookup gives the same, apart from the operator.
    pub scope: u8,
}

/// A cell of a row that is being made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) units: u16,
    pub(super) source: Source,
    pub(super) is_peers: bool,
    pub(super) is_weak: bool,
    pub(super) seen_s: u32,
}

/// Rows of one width, one after the other.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    lines: Vec<Line>,
    lines_a_row: usize,
}

impl Rows {
    /// For rows of this many points.
    pub(super) fn new(points: usize) -> Self {
        Self { lines: Vec::new(), lines_a_row: lines_a_row(points) }
    }

    /// Adds a row; returns its number.
    pub(super) fn push(&mut self, head: &Head, scores: impl Iterator<Item = (PointId, Entry)>) -> u32 {
        let number = (self.lines.len() / self.lines_a_row) as u32;
        let start = self.lines.len();
        let blank = Line([u32::from(NO_SCORE) | 0xffff_0000; 16]);
        self.lines.resize(start + self.lines_a_row, blank);
        let first = u32::from_le_bytes([head.kind as u8, head.length, head.confidence, head.silent]);
        let words = [first, head.seen_s, head.samples, head.silent_s];
        for (i, word) in words.into_iter().enumerate() {
            self.lines[start].0[i] = word;
        }
        for (point, entry) in scores {
            let flags = (u8::from(entry.is_peers) * PEERS) | (u8::from(entry.is_weak) * WEAK);
            let [low, high] = entry.units.to_le_bytes();
            let word = u32::from_le_bytes([low, high, entry.source.code() | flags, seen_code(entry.seen_s)]);
            let at = HEAD + usize::from(point.0);
            if let Some(line) = self.lines.get_mut(start + at / 16) {
                line.0[at % 16] = word;
            }
        }
        number
    }

    /// Sets the length over which a row holds.
    pub(super) fn set_length(&mut self, row: u32, length: u8) {
        if let Some(line) = self.lines.get_mut(row as usize * self.lines_a_row) {
            line.0[0] = line.0[0] & !0xff00 | u32::from(length) << 8;
        }
    }

    /// For publishing.
    pub(super) fn into_lines(self) -> Arc<[Line]> {
        Arc::from(self.lines)
    }
}

fn lines_a_row(points: usize) -> usize {
    (HEAD + points).div_ceil(16).max(1)
}

/// A block of 64 entries.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(super) struct Slot {
    /// The block's bits with the last one set; 0 where the slot is free.
    pub(super) key: u64,
    /// Which of its entries have a row.
    pub(super) present: u64,
    /// Which of those begin a row's run.
    pub(super) starts: u64,
    /// The first run's row; the others follow.
    pub(super) first: u32,
    /// The row for the rest, or [`NO_ROW`].
    pub(super) cover: u32,
}

impl Slot {
    pub(super) const FREE: Self = Self { key: 0, present: 0, starts: 0, first: 0, cover: NO_ROW };
}

/// Blocks by hash, and their rows.
#[derive(Clone, Debug)]
pub(super) struct Shard {
    slots: Arc<[Slot]>,
    rows: Arc<[Line]>,
}

impl Shard {
    pub(super) fn empty() -> Self {
        Self { slots: Arc::from([]), rows: Arc::from([]) }
    }

    /// Places blocks, at most 3/5 full.
    pub(super) fn new(blocks: &[Slot], rows: Rows) -> Self {
        if blocks.is_empty() {
            return Self::empty();
        }
        let size = (blocks.len() * 5 / 3 + 1).next_power_of_two();
        let mut slots = vec![Slot::FREE; size];
        for block in blocks {
            let mut at = slot_of(block.key, size);
            while slots[at].key != 0 {
                at = (at + 1) & (size - 1);
            }
            slots[at] = *block;
        }
        Self { slots: Arc::from(slots), rows: rows.into_lines() }
    }

    #[inline]
    fn find(&self, key: u64) -> Option<&Slot> {
        let size = self.slots.len();
        let mut at = slot_of(key, size.max(1));
        loop {
            let slot = self.slots.get(at)?;
            if slot.key == key {
                return Some(slot);
            }
            if slot.key == 0 {
                return None;
            }
            at = (at + 1) & (size - 1);
        }
    }
}

/// The key of a block.
#[inline]
pub(super) fn block_key(bits: u64) -> u64 {
    bits | 1
}

/// The shard of a block.
#[inline]
pub(super) fn shard_of(key: u64) -> usize {
    (mix(key, 0x5eed) >> 56) as usize
}

#[inline]
fn slot_of(key: u64, size: usize) -> usize {
    mix(key, 0x5eed) as usize & (size - 1)
}

/// Rows of prefixes shorter than a block, all of one length.
#[derive(Clone, Debug)]
struct Wide {
    length: u8,
    /// Key and row; a key of 0 is free.
    slots: Arc<[(u64, u32)]>,
}

/// One address family.
#[derive(Clone, Debug)]
pub(super) struct Family {
    base: u8,
    shards: Box<[Shard]>,
    /// Longest first.
    wide: Vec<Wide>,
    wide_rows: Arc<[Line]>,
    /// Whether any shard holds a block.
    has_blocks: bool,
}

impl Family {
    pub(super) fn new(base: u8) -> Self {
        Self {
            base,
            shards: vec![Shard::empty(); SHARDS].into_boxed_slice(),
            wide: Vec::new(),
            wide_rows: Arc::from([]),
            has_blocks: false,
        }
    }

    pub(super) fn set_shard(&mut self, number: usize, shard: Shard) {
        if let Some(place) = self.shards.get_mut(number) {
            *place = shard;
        }
        self.has_blocks = self.shards.iter().any(|shard| !shard.slots.is_empty());
    }

    /// Replaces what is shorter than a block.
    pub(super) fn set_wide(&mut self, prefixes: &[(Prefix, u32)], rows: Rows) {
        let mut lengths: Vec<u8> = prefixes.iter().map(|(prefix, _)| prefix.length()).collect();
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        lengths.dedup();
        self.wide = lengths
            .into_iter()
            .map(|length| {
                let of_length: Vec<_> = prefixes.iter().filter(|(p, _)| p.length() == length).collect();
                let size = (of_length.len() * 5 / 3 + 1).next_power_of_two();
                let mut slots = vec![(0, NO_ROW); size];
                for (prefix, row) in of_length {
                    let key = block_key(prefix.bits());
                    let mut at = slot_of(key, size);
                    while slots[at].0 != 0 {
                        at = (at + 1) & (size - 1);
                    }
                    slots[at] = (key, *row);
                }
                Wide { length, slots: Arc::from(slots) }
            })
            .collect();
        self.wide_rows = rows.into_lines();
    }

    fn is_empty(&self) -> bool {
        !self.has_blocks && self.wide.is_empty()
    }

    #[inline]
    fn wide_row(&self, bits: u64, known: u8) -> Option<u32> {
        self.wide.iter().filter(|wide| wide.length <= known).find_map(|wide| {
            let key = block_key(bits & super::prefix::mask(wide.length));
            let mut at = slot_of(key, wide.slots.len());
            loop {
                match *wide.slots.get(at)? {
                    (found, row) if found == key => return Some(row),
                    (0, _) => return None,
                    _ => at = (at + 1) & (wide.slots.len() - 1),
                }
            }
        })
    }
}

/// The table that queries read.
#[derive(Clone, Debug)]
pub struct Ranks {
    v4: Family,
    v6: Family,
    lines_a_row: usize,
    operators: Arc<[Line]>,
    /// Value of the ISP dimension → row, or [`NO_ROW`].
    operator_rows: Arc<[u32]>,
    /// Added to every score from a point: what its link costs and how full it is.
    offsets: Arc<[u16]>,
    is_empty: bool,
}

impl Default for Ranks {
    fn default() -> Self {
        Self::empty()
    }
}

impl Ranks {
    /// Ranks that know nothing.
    #[must_use]
    pub fn empty() -> Self {
        Self::new(24, 48, 0)
    }

    /// Empty ranks for entries of these lengths and this many points.
    pub(super) fn new(v4: u8, v6: u8, points: usize) -> Self {
        Self {
            v4: Family::new(v4),
            v6: Family::new(v6),
            lines_a_row: lines_a_row(points),
            operators: Arc::from([]),
            operator_rows: Arc::from([]),
            offsets: Arc::from(vec![0; points]),
            is_empty: true,
        }
    }

    pub(super) fn family_mut(&mut self, is_v6: bool) -> &mut Family {
        if is_v6 { &mut self.v6 } else { &mut self.v4 }
    }

    pub(super) fn set_operators(&mut self, numbers: Vec<u32>, rows: Rows) {
        self.operator_rows = Arc::from(numbers);
        self.operators = rows.into_lines();
    }

    pub(super) fn set_offsets(&mut self, offsets: Vec<u16>) {
        self.offsets = Arc::from(offsets);
    }

    /// To be called after a change.
    pub(super) fn finish(&mut self) {
        self.is_empty = self.v4.is_empty() && self.v6.is_empty() && self.operator_rows.is_empty();
    }

    /// Whether nothing is known of anybody.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Asks the processor to load what [`Self::find`] of the same address reads first.
    #[inline]
    pub fn prefetch(&self, address: &IpAddr) {
        let (family, bits) = self.family(*address);
        let key = block_key(bits & super::prefix::mask(family.base - BLOCK_BITS));
        if let Some(shard) = family.shards.get(shard_of(key)) {
            prefetch::read(&shard.slots, slot_of(key, shard.slots.len().max(1)));
        }
    }

    /// The same for what it reads after that.
    #[inline]
    pub fn prefetch_row(&self, address: &IpAddr) {
        let (family, bits) = self.family(*address);
        if let Some((shard, slot)) = self.slot(family, bits)
            && let Some((row, _)) = in_block(slot, family.base, bits)
        {
            prefetch::read(&shard.rows, row as usize * self.lines_a_row);
        }
    }

    #[inline]
    fn family(&self, address: IpAddr) -> (&Family, u64) {
        let whole = Prefix::new(address, u8::MAX);
        (if whole.is_v6() { &self.v6 } else { &self.v4 }, whole.bits())
    }

    #[inline]
    fn slot<'a>(&self, family: &'a Family, bits: u64) -> Option<(&'a Shard, &'a Slot)> {
        let key = block_key(bits & super::prefix::mask(family.base - BLOCK_BITS));
        let shard = family.shards.get(shard_of(key))?;
        shard.find(key).map(|slot| (shard, slot))
    }

    #[inline]
    fn row<'a>(&'a self, lines: &'a [Line], number: u32) -> Option<Row<'a>> {
        let start = number as usize * self.lines_a_row;
        let lines = lines.get(start..start + self.lines_a_row)?;
        Some(Row { lines, offsets: &self.offsets })
    }

    /// The row for a client of whose address the first `known` bits are known (all of them for a source address), and
    /// that is with these `operators` (a value of the ISP dimension).
    #[inline]
    #[must_use]
    pub fn find(&self, address: IpAddr, known: u8, operators: u32) -> Looked<'_> {
        if self.is_empty {
            return Looked { row: None, scope: 0 };
        }
        let (family, bits) = self.family(address);
        let block = family.base - BLOCK_BITS;
        let mut scope = block;
        if known >= block
            && let Some((shard, slot)) = self.slot(family, bits)
        {
            scope = family.base;
            if let Some((number, is_own)) = in_block(slot, family.base, bits)
                && let Some(row) = self.row(&shard.rows, number)
                // a row of a part of what is known says nothing of the rest
                && row.length() <= known
            {
                return Looked { row: Some(row), scope: if is_own { row.length() } else { scope } };
            }
            if known < family.base
                && slot.cover != NO_ROW
                && let Some(row) = self.row(&shard.rows, slot.cover)
            {
                return Looked { row: Some(row), scope };
            }
        }
        if let Some(number) = family.wide_row(bits, known)
            && let Some(row) = self.row(&family.wide_rows, number)
        {
            return Looked { row: Some(row), scope };
        }
        let row = self
            .operator_rows
            .get(operators as usize)
            .filter(|number| **number != NO_ROW)
            .and_then(|number| self.row(&self.operators, *number));
        Looked { row, scope }
    }

    /// The prefix of an entry around an address: what would be measured.
    #[must_use]
    pub fn key(&self, address: IpAddr) -> Prefix {
        let (family, _) = self.family(address);
        Prefix::new(address, family.base)
    }
}

/// The row of an entry in its block, and whether it is its own.
#[inline]
fn in_block(slot: &Slot, base: u8, bits: u64) -> Option<(u32, bool)> {
    let number = (bits >> (64 - u32::from(base))) & 63;
    if (slot.present >> number) & 1 == 0 {
        return (slot.cover != NO_ROW).then_some((slot.cover, false));
    }
    // runs that begin at or before this entry
    let before = slot.starts & (u64::MAX >> (63 - number));
    Some((slot.first + before.count_ones().saturating_sub(1), true))
}
