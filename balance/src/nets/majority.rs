//! Who holds most addresses of a prefix that has longer entries below it (R16).
//!
//! Such prefixes are the inner positions of the binary trie. Each gets, at build, the class that holds most addresses,
//! for every set of dimensions that a service may consult; nearly always that is one class for all sets.

use std::collections::HashMap;

use super::{ClassId, DIMS};

/// Sets of dimensions with at least one dimension in them.
const MASKS: usize = (1 << DIMS) - 1;
/// Marks an index into `rows` instead of a class.
const ROW: u32 = 1 << 31;
/// How many classes are tallied for a prefix; with more, the least held ones are given up, so short prefixes over
/// thousands of classes stay cheap to build and are exact unless the winner hides among the small.
const TALLIED_CLASSES: usize = 64;

/// A winner: a class, or a row of [`Winners`] with a class for each set of dimensions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Winner(u32);

/// Rows for the prefixes where the sets of dimensions disagree.
#[derive(Debug, Default)]
pub(super) struct Winners {
    rows: Vec<[u32; MASKS]>,
}

impl Winners {
    pub(super) fn class(&self, winner: Winner, consulted: [bool; DIMS]) -> ClassId {
        if winner.0 & ROW == 0 {
            return ClassId(winner.0);
        }
        let mask = (0..DIMS).fold(0, |mask, dim| mask | usize::from(consulted[dim]) << dim);
        let row = self.rows.get((winner.0 & !ROW) as usize);
        ClassId(row.and_then(|row| row.get(mask.wrapping_sub(1))).copied().unwrap_or(0))
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.rows.capacity() * size_of::<[u32; MASKS]>()
    }
}

/// A class and how many addresses it holds.
type Held = (u32, u128);

/// Adds up, from the leaves towards the root, who holds what. Tallies lie on a stack: a leaf pushes one, two siblings
/// merge into their parent's.
pub(super) struct Tally<'a> {
    values: &'a [[u32; DIMS]],
    held: Vec<Held>,
    /// Where each tally on the stack starts.
    starts: Vec<usize>,
    scratch: Vec<Held>,
    ids: HashMap<[u32; MASKS], u32>,
    winners: Winners,
}

impl<'a> Tally<'a> {
    pub(super) fn new(values: &'a [[u32; DIMS]]) -> Self {
        Self {
            values,
            held: Vec::new(),
            starts: Vec::new(),
            scratch: Vec::new(),
            ids: HashMap::new(),
            winners: Winners::default(),
        }
    }

    pub(super) fn into_winners(self) -> Winners {
        self.winners
    }

    /// A block of `2^host_bits` addresses in one class.
    pub(super) fn leaf(&mut self, class: ClassId, host_bits: u8) {
        self.starts.push(self.held.len());
        // only the whole of IPv6 in one class has more addresses than fit, and that has no inner position
        self.held.push((class.0, 1u128.checked_shl(u32::from(host_bits)).unwrap_or(u128::MAX)));
    }

    /// Merges the two tallies on top of the stack, the halves of a prefix with `2^host_bits` addresses.
    pub(super) fn merge(&mut self, host_bits: u8) -> Winner {
        let right = self.starts.pop().unwrap_or(0);
        let left = self.starts.last().copied().unwrap_or(0);
        merge_sorted(&self.held[left..right], &self.held[right..], &mut self.scratch);
        if self.scratch.len() > TALLIED_CLASSES {
            self.scratch
                .select_nth_unstable_by(TALLIED_CLASSES - 1, |a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
            self.scratch.truncate(TALLIED_CLASSES);
            self.scratch.sort_unstable();
        }
        self.held.truncate(left);
        self.held.extend_from_slice(&self.scratch);
        self.winner(host_bits)
    }

    fn winner(&mut self, host_bits: u8) -> Winner {
        let tally = &self.scratch;
        let (first, most) = heaviest(tally.iter().copied());
        // more than half wins whatever is consulted, and of two the heavier does
        if tally.len() <= 2 || most > 1u128 << (host_bits - 1) {
            return Winner(first);
        }
        let values = |class: u32| self.values.get(class as usize).copied().unwrap_or_default();
        let reference = values(first);
        let varies: [bool; DIMS] =
            std::array::from_fn(|dim| tally.iter().any(|held| values(held.0)[dim] != reference[dim]));
        let varying = (0..DIMS).fold(0usize, |mask, dim| mask | usize::from(varies[dim]) << dim);
        let mut row = [first; MASKS];
        for (at, winner) in row.iter_mut().enumerate() {
            let mask = (at + 1) & varying;
            if mask != 0 && mask != varying {
                *winner = heaviest_group(tally, |class| {
                    let values = values(class);
                    std::array::from_fn(|dim| if mask >> dim & 1 == 1 { values[dim] } else { 0 })
                });
            }
        }
        if row == [first; MASKS] {
            return Winner(first);
        }
        let coming = self.winners.rows.len() as u32;
        let id = *self.ids.entry(row).or_insert(coming);
        if id == coming {
            self.winners.rows.push(row);
        }
        Winner(ROW | id)
    }
}

fn merge_sorted(mut left: &[Held], mut right: &[Held], merged: &mut Vec<Held>) {
    merged.clear();
    while let (Some((&l, more_left)), Some((&r, more_right))) = (left.split_first(), right.split_first()) {
        merged.push(match l.0.cmp(&r.0) {
            std::cmp::Ordering::Less => l,
            std::cmp::Ordering::Greater => r,
            std::cmp::Ordering::Equal => (l.0, l.1.saturating_add(r.1)),
        });
        left = if l.0 <= r.0 { more_left } else { left };
        right = if r.0 <= l.0 { more_right } else { right };
    }
    merged.extend_from_slice(left);
    merged.extend_from_slice(right);
}

/// The class that holds most, the smaller id of equals.
fn heaviest(held: impl Iterator<Item = Held>) -> Held {
    held.max_by(|a, b| a.1.cmp(&b.1).then(b.0.cmp(&a.0))).unwrap_or_default()
}

/// The heaviest class of the group of classes, equal under `key`, that holds most together.
fn heaviest_group(tally: &[Held], key: impl Fn(u32) -> [u32; DIMS]) -> u32 {
    let mut keyed: Vec<([u32; DIMS], Held)> = tally.iter().map(|&held| (key(held.0), held)).collect();
    keyed.sort_unstable();
    let groups = keyed.chunk_by(|a, b| a.0 == b.0).map(|group| {
        let together = group.iter().fold(0u128, |sum, (_, held)| sum.saturating_add(held.1));
        (heaviest(group.iter().map(|&(_, held)| held)).0, together)
    });
    heaviest(groups).0
}
