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
//! the others. `blocks` finds a row, `row` reads it.

mod blocks;
mod row;

pub(super) use blocks::{BLOCK_BITS, NO_ROW, SHARDS, Shard, Slot, block_key, shard_of};
pub(super) use row::{Entry, ORIGIN_S, OUTRANKED, Rows, SCORE_MAX, UNIT_US, age_of, source_of};
pub use row::{Head, Kind, Row, Score};

use super::Prefix;
use crate::nets::prefetch;
use blocks::{Family, in_block, slot_of};
use row::{Line, lines_a_row};
use std::net::IpAddr;
use std::sync::Arc;

/// What a lookup came to.
#[derive(Clone, Copy, Debug)]
pub struct Looked<'a> {
    /// The row to go by.
    pub row: Option<Row<'a>>,
    /// The prefix length over which this lookup gives the same, apart from the operator.
    pub scope: u8,
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
