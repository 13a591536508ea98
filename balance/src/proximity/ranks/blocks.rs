//! Where a prefix's row is: blocks by hash, in shards, and what is shorter than a block.

use super::row::{Line, Rows};
use crate::hash::mix;
use crate::proximity::Prefix;
use crate::proximity::prefix::mask;
use std::sync::Arc;

/// Bits by which a block is shorter than an entry.
pub(in crate::proximity) const BLOCK_BITS: u8 = 6;
/// Shards a family.
pub(in crate::proximity) const SHARDS: usize = 256;
/// No row.
pub(in crate::proximity) const NO_ROW: u32 = u32::MAX;

/// A block of 64 entries.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(in crate::proximity) struct Slot {
    /// The block's bits with the last one set; 0 where the slot is free.
    pub(in crate::proximity) key: u64,
    /// Which of its entries have a row.
    pub(in crate::proximity) present: u64,
    /// Which of those begin a row's run.
    pub(in crate::proximity) starts: u64,
    /// The first run's row; the others follow.
    pub(in crate::proximity) first: u32,
    /// The row for the rest, or [`NO_ROW`].
    pub(in crate::proximity) cover: u32,
}

impl Slot {
    pub(in crate::proximity) const FREE: Self =
        Self { key: 0, present: 0, starts: 0, first: 0, cover: NO_ROW };
}

/// Blocks by hash, and their rows.
#[derive(Clone, Debug)]
pub(in crate::proximity) struct Shard {
    pub(super) slots: Arc<[Slot]>,
    pub(super) rows: Arc<[Line]>,
}

impl Shard {
    pub(in crate::proximity) fn empty() -> Self {
        Self { slots: Arc::from([]), rows: Arc::from([]) }
    }

    /// Places blocks, at most 3/5 full.
    pub(in crate::proximity) fn new(blocks: &[Slot], rows: Rows) -> Self {
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
    pub(super) fn find(&self, key: u64) -> Option<&Slot> {
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
pub(in crate::proximity) fn block_key(bits: u64) -> u64 {
    bits | 1
}

/// The shard of a block.
#[inline]
pub(in crate::proximity) fn shard_of(key: u64) -> usize {
    (mix(key, 0x5eed) >> 56) as usize
}

#[inline]
pub(super) fn slot_of(key: u64, size: usize) -> usize {
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
pub(in crate::proximity) struct Family {
    pub(super) base: u8,
    pub(super) shards: Box<[Shard]>,
    /// Longest first.
    wide: Vec<Wide>,
    pub(super) wide_rows: Arc<[Line]>,
    /// Whether any shard holds a block.
    has_blocks: bool,
}

impl Family {
    pub(in crate::proximity) fn new(base: u8) -> Self {
        Self {
            base,
            shards: vec![Shard::empty(); SHARDS].into_boxed_slice(),
            wide: Vec::new(),
            wide_rows: Arc::from([]),
            has_blocks: false,
        }
    }

    pub(in crate::proximity) fn set_shard(&mut self, number: usize, shard: Shard) {
        if let Some(place) = self.shards.get_mut(number) {
            *place = shard;
        }
        self.has_blocks = self.shards.iter().any(|shard| !shard.slots.is_empty());
    }

    /// Replaces what is shorter than a block.
    pub(in crate::proximity) fn set_wide(&mut self, prefixes: &[(Prefix, u32)], rows: Rows) {
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

    pub(super) fn is_empty(&self) -> bool {
        !self.has_blocks && self.wide.is_empty()
    }

    #[inline]
    pub(super) fn wide_row(&self, bits: u64, known: u8) -> Option<u32> {
        self.wide.iter().filter(|wide| wide.length <= known).find_map(|wide| {
            let key = block_key(bits & mask(wide.length));
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

/// The row of an entry in its block, and whether it is its own.
#[inline]
pub(super) fn in_block(slot: &Slot, base: u8, bits: u64) -> Option<(u32, bool)> {
    let number = (bits >> (64 - u32::from(base))) & 63;
    if (slot.present >> number) & 1 == 0 {
        return (slot.cover != NO_ROW).then_some((slot.cover, false));
    }
    // runs that begin at or before this entry
    let before = slot.starts & (u64::MAX >> (63 - number));
    Some((slot.first + before.count_ones().saturating_sub(1), true))
}
