//! From what was judged to what queries read. Only the shards that changed are made anew.

use super::judge::score_of;
use super::{Entry, Table, stamp};
use crate::proximity::medians::Group;
use crate::proximity::ranks::{
    self, BLOCK_BITS, Head, Kind, NO_ROW, OUTRANKED, Ranks, Rows, SCORE_MAX, Shard, Slot, UNIT_US, block_key,
};
use crate::proximity::{PointId, Prefix, Source};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Entries of a block.
const SLOTS: usize = 1 << BLOCK_BITS;

/// Whose row an entry's place in a block has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Owner {
    entry: Option<u32>,
    /// The longest static prefix around it.
    fixed: Option<Prefix>,
    excluded: Option<Prefix>,
}

impl Table {
    /// The table for queries, where anything changed since it was last published. To be called a few times a second
    /// at most; works through windows, expiry, merges and predictions when those are due.
    pub fn publish(&mut self, now_ms: u64) -> Option<Arc<Ranks>> {
        let now_s = stamp(now_ms);
        self.turn(now_ms);
        let mut changed = false;
        for is_v6 in [false, true] {
            let dirty = std::mem::take(&mut self.blocks[usize::from(is_v6)].dirty);
            for number in dirty {
                let shard = self.shard(is_v6, number, now_s);
                self.ranks.family_mut(is_v6).set_shard(number, shard);
                changed = true;
            }
        }
        if std::mem::take(&mut self.is_wide_dirty) {
            self.build_wide(now_s);
            changed = true;
        }
        if std::mem::take(&mut self.are_offsets_dirty) {
            self.ranks.set_offsets(self.offsets.iter().map(|it| Self::offset_units(it.as_ref())).collect());
            changed = true;
        }
        changed.then(|| {
            self.ranks.finish();
            Arc::new(self.ranks.clone())
        })
    }

    fn shard(&mut self, is_v6: bool, number: usize, now_s: u32) -> Shard {
        let Some(blocks) = self.blocks[usize::from(is_v6)].by_shard.get_mut(number) else {
            return Shard::empty();
        };
        let blocks = std::mem::take(blocks);
        let mut rows = Rows::new(self.points.len());
        let mut slots = Vec::with_capacity(blocks.len());
        let mut kept = blocks.clone();
        for block in blocks {
            let slot = self.slot(block, now_s, &mut rows);
            // a covering row is made of entries, so without one there is nothing left here
            if slot.present == 0 {
                kept.remove(&block);
            } else {
                slots.push(slot);
            }
        }
        if let Some(blocks) = self.blocks[usize::from(is_v6)].by_shard.get_mut(number) {
            *blocks = kept;
        }
        Shard::new(&slots, rows)
    }

    fn slot(&self, block: Prefix, now_s: u32, rows: &mut Rows) -> Slot {
        let owners = self.owners(block);
        let mut slot = Slot { key: block_key(block.bits()), ..Slot::FREE };
        let mut before = Owner::default();
        for (i, owner) in owners.into_iter().enumerate() {
            if owner != Owner::default() {
                slot.present |= 1 << i;
                if owner != before {
                    let row = self.push_row(rows, owner, block, now_s);
                    if slot.starts == 0 {
                        slot.first = row;
                    }
                    slot.starts |= 1 << i;
                }
            }
            before = owner;
        }
        let around =
            Owner { entry: None, fixed: self.fixed_around(&block), excluded: self.excluded_around(&block) };
        slot.cover = if around != Owner::default() {
            self.push_row(rows, around, block, now_s)
        } else {
            self.covers
                .get(&block)
                .map_or(NO_ROW, |group| push_group(rows, group, Kind::Covering, block.length()))
        };
        slot
    }

    fn owners(&self, block: Prefix) -> [Owner; SLOTS] {
        let base = block.length() + BLOCK_BITS;
        let places = |prefix: &Prefix| {
            let first = (prefix.bits() >> (64 - u32::from(base))) as usize % SLOTS;
            first..first + (1 << (base - prefix.length().min(base)))
        };
        let around =
            Owner { entry: None, fixed: self.fixed_around(&block), excluded: self.excluded_around(&block) };
        let mut owners = [around; SLOTS];
        // in order, so that a longer prefix comes after the one around it
        let inner = |prefix: &Prefix| block.covers(prefix) && *prefix != block;
        for prefix in self.statics.range(block..).map(|it| *it.0).take_while(|p| block.covers(p)) {
            for owner in owners.get_mut(places(&prefix)).into_iter().flatten().filter(|_| inner(&prefix)) {
                owner.fixed = Some(prefix);
            }
        }
        for (prefix, number) in self.entries.within(block) {
            for owner in owners.get_mut(places(&prefix)).into_iter().flatten() {
                owner.entry = Some(number);
            }
        }
        for prefix in self.excluded.range(block..).copied().take_while(|p| block.covers(p)) {
            for owner in owners.get_mut(places(&prefix)).into_iter().flatten() {
                owner.excluded = Some(owner.excluded.unwrap_or(prefix));
            }
        }
        for owner in &mut owners {
            if owner.excluded.is_some() {
                (owner.entry, owner.fixed) = (None, None);
            }
        }
        owners
    }

    fn fixed_around(&self, prefix: &Prefix) -> Option<Prefix> {
        if self.statics.is_empty() {
            return None;
        }
        (0..=prefix.length()).rev().map(|l| prefix.cut(l)).find(|it| self.statics.contains_key(it))
    }

    fn excluded_around(&self, prefix: &Prefix) -> Option<Prefix> {
        if self.excluded.is_empty() {
            return None;
        }
        (0..=prefix.length()).map(|l| prefix.cut(l)).find(|it| self.excluded.contains(it))
    }

    fn push_row(&self, rows: &mut Rows, owner: Owner, block: Prefix, now_s: u32) -> u32 {
        let base = block.length() + BLOCK_BITS;
        let fixed = owner.fixed.and_then(|prefix| self.statics.get(&prefix).map(|it| (prefix, it)));
        if let Some(excluded) = owner.excluded {
            return rows.push(&head(Kind::Skipped, excluded.length()), std::iter::empty());
        }
        let Some(entry) = owner.entry.and_then(|number| self.entries.get(number)) else {
            let Some((prefix, written)) = fixed else {
                return rows.push(&head(Kind::Skipped, base), std::iter::empty());
            };
            // around the block it is one row; within, others may lie beside it
            let length = if prefix.length() <= block.length() { block.length() } else { base };
            let head = Head { confidence: Source::Static.trust(), samples: 1, ..head(Kind::Written, length) };
            return rows.push(&head, self.written(written));
        };
        let length = entry.prefix.length().max(fixed.map_or(0, |it| it.0.length()));
        let mut head = self.entry_head(entry, length, now_s);
        if fixed.is_some() {
            head.kind = Kind::Written;
        }
        if fixed.is_none() && entry.is_unmeasured(now_s, &self.settings) {
            // like a look-up that finds no entry, so that nodes that heard its silence answer like others
            let (group, source) = self.standing_for(entry);
            let medians = group.into_iter().flat_map(|group| &group.medians);
            return rows.push(&head, medians.map(|(point, us)| (*point, cell(*us, source))));
        }
        let written = fixed.map(|it| it.1);
        let outranked = if written.is_some() { OUTRANKED } else { 0 };
        let measured = (0..).map(PointId).zip(&entry.shown).filter_map(|(point, shown)| {
            let shown = shown.as_ref()?;
            if written.is_some_and(|written| written.contains_key(&point)) {
                return None;
            }
            let units = shown.units().min(SCORE_MAX) | outranked;
            Some((
                point,
                ranks::Entry {
                    units,
                    source: shown.source,
                    is_peers: shown.is_peers,
                    is_weak: shown.is_weak,
                    seen_s: shown.seen_s,
                },
            ))
        });
        rows.push(&head, measured.chain(written.into_iter().flat_map(|written| self.written(written))))
    }

    /// The group that stands for an entry that was never measured.
    fn standing_for(&self, entry: &Entry) -> (Option<&Group>, Source) {
        match self.covers_around(&entry.prefix).next() {
            Some(group) => (Some(group), Source::Covering),
            None => (self.operators.get(&entry.operators), Source::Operator),
        }
    }

    fn written<'a>(
        &'a self,
        written: &'a BTreeMap<PointId, u32>,
    ) -> impl Iterator<Item = (PointId, ranks::Entry)> + 'a {
        written.iter().map(|(point, rtt_us)| {
            (*point, cell((*rtt_us as f32 * self.settings.weights.rtt) as u32, Source::Static))
        })
    }

    fn entry_head(&self, entry: &Entry, length: u8, now_s: u32) -> Head {
        let live = || entry.measured.iter().filter(|it| it.estimator.is_live(now_s, &self.settings));
        let best = live().min_by_key(|it| (score_of(&self.settings, &it.estimator), it.point));
        let samples: u32 = live().fold(0, |sum, it| sum.saturating_add(it.estimator.samples));
        Head {
            kind: if entry.is_anycast { Kind::Skipped } else { Kind::Own },
            length,
            confidence: best.map_or(0, |it| it.estimator.confidence(now_s, &self.settings)),
            silent: entry.silent,
            seen_s: live().map(|it| it.estimator.seen_s).max().unwrap_or(now_s),
            samples,
            silent_s: entry.silent_s,
        }
    }

    /// What is shorter than a block, and what operators have in common.
    fn build_wide(&mut self, now_s: u32) {
        for is_v6 in [false, true] {
            let base = if is_v6 { self.settings.v6 } else { self.settings.v4 };
            let block = base - BLOCK_BITS;
            let mut prefixes: Vec<Prefix> = self
                .statics
                .keys()
                .chain(&self.excluded)
                .chain(self.covers.keys())
                .filter(|prefix| prefix.is_v6() == is_v6 && prefix.length() < block)
                .copied()
                .collect();
            prefixes.sort_unstable();
            prefixes.dedup();
            let mut rows = Rows::new(self.points.len());
            let mut numbered = Vec::with_capacity(prefixes.len());
            for prefix in prefixes {
                let (fixed, excluded) = (self.fixed_around(&prefix), self.excluded_around(&prefix));
                let owner = Owner { entry: None, fixed, excluded };
                let row = match self.covers.get(&prefix) {
                    Some(group) if owner == Owner::default() => {
                        push_group(&mut rows, group, Kind::Covering, prefix.length())
                    }
                    Some(_) | None => {
                        let row = self.push_row(&mut rows, owner, prefix, now_s);
                        rows.set_length(row, prefix.length());
                        row
                    }
                };
                numbered.push((prefix, row));
            }
            self.ranks.family_mut(is_v6).set_wide(&numbered, rows);
        }
        let mut rows = Rows::new(self.points.len());
        let size = self.operators.keys().next_back().map_or(0, |last| *last as usize + 1);
        let mut numbers = vec![NO_ROW; size];
        for (value, group) in &self.operators {
            if let Some(number) = numbers.get_mut(*value as usize) {
                *number = push_group(&mut rows, group, Kind::Operator, 0);
            }
        }
        self.ranks.set_operators(numbers, rows);
    }
}

fn head(kind: Kind, length: u8) -> Head {
    Head { kind, length, confidence: 0, silent: 0, seen_s: 0, samples: 0, silent_s: 0 }
}

fn cell(us: u32, source: Source) -> ranks::Entry {
    let units = (us / UNIT_US).min(u32::from(SCORE_MAX)) as u16;
    ranks::Entry { units, source, is_peers: false, is_weak: false, seen_s: 0 }
}

fn push_group(rows: &mut Rows, group: &Group, kind: Kind, length: u8) -> u32 {
    let source = if kind == Kind::Operator { Source::Operator } else { Source::Covering };
    let confidence = (u32::from(source.trust()) * u32::from(group.agree_percent) / 100) as u8;
    let head = Head { confidence, samples: group.members, ..head(kind, length) };
    rows.push(&head, group.medians.iter().map(|(point, us)| (*point, cell(*us, source))))
}
