//! Lines of a table in any order -> ranges of sets, by the rules of precedence.
//!
//! Over one address the strongest line wins whole: first by layer (R9), then the shortest range, which for prefixes is
//! the longest prefix (R8). Lines over the same range in the same layer make one claim, and its value is the union of
//! their items (R7). A `!` line takes its item out of its own claim and of every weaker one, so that whatever lies
//! below shows through, as if the item's lines were not there; a stronger line puts the item back.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::net::IpAddr;

use super::address::{Address, Number, number};
use super::runs::{Run, SetRuns, push_run};
use super::sets::Interner;

/// The item of a `!` line that speaks of all items.
pub const EVERY_ITEM: u32 = u32::MAX;

/// How many claims over one address are looked at: more than any nesting of prefixes has. What is weaker than that is
/// not seen, so odd tables of ranges cannot make the load quadratic.
const MAX_CLAIMS_OVER_ADDRESS: usize = 1024;

/// One line of a source table, before precedence is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry<A> {
    /// The first address.
    pub first: A,
    /// The last address.
    pub last: A,
    /// What the line says.
    pub line: Line,
}

/// What a line says of its addresses, and where it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    /// A stronger layer has a smaller number and wins before length (R9).
    pub layer: u8,
    /// A `!` line (R9).
    pub exclude: bool,
    /// What the line speaks of, an operator or a list; [`EVERY_ITEM`] with `exclude` only.
    pub item: u32,
    /// Which file, by the caller's numbering.
    pub source: u32,
    /// Number in the file.
    pub number: u32,
}

/// Lines of a table in any order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    /// IPv4.
    pub v4: Vec<Entry<u32>>,
    /// IPv6.
    pub v6: Vec<Entry<u128>>,
}

impl Entries {
    /// Adds a prefix; host bits are cut off. A prefix of IPv4-mapped addresses is the IPv4 prefix it maps (R5).
    pub fn push_prefix(&mut self, addr: IpAddr, len: u8, line: Line) {
        match (number(addr), addr) {
            (Number::V4(first), IpAddr::V6(_)) if len >= 96 => {
                push_block(&mut self.v4, first, len - 96, line)
            }
            (_, IpAddr::V6(first)) => push_block(&mut self.v6, first.into(), len, line),
            (_, IpAddr::V4(first)) => push_block(&mut self.v4, first.into(), len, line),
        }
    }

    /// How many lines there are.
    pub fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The lines that decide an address: those of the winning claim, after the `!` lines that removed stronger ones
    /// (R18). Looks at every line: for `explain`.
    pub fn explain(&self, addr: IpAddr) -> Vec<Line> {
        match number(addr) {
            Number::V4(addr) => explain(&self.v4, addr),
            Number::V6(addr) => explain(&self.v6, addr),
        }
    }
}

fn push_block<A: Address>(entries: &mut Vec<Entry<A>>, addr: A, len: u8, line: Line) {
    let first = addr.block_start(len);
    entries.push(Entry { first, last: first.block_end(len), line });
}

/// Settles precedence. The entries come back sorted.
pub fn overlay(entries: &mut Entries) -> SetRuns {
    let mut sets = Interner::new();
    let mut result = SetRuns::default();
    result.runs.v4 = overlay_family(&mut entries.v4, &mut sets);
    result.runs.v6 = overlay_family(&mut entries.v6, &mut sets);
    result.sets = sets.into_sets();
    result
}

/// All lines over the same range in the same layer.
struct Claim<A> {
    first: A,
    last: A,
    layer: u8,
    /// The union of the items, without those that the claim itself excludes.
    set: u32,
    excluded: u32,
}

/// Strongest first. Ranges of one size that overlap in part are ordered by where they start: any rule would do, but it
/// must not depend on the order of lines.
fn strength<A: Address>(first: A, last: A, layer: u8) -> (u8, u128, Reverse<A>) {
    (layer, last.widen() - first.widen(), Reverse(first))
}

fn overlay_family<A: Address>(entries: &mut [Entry<A>], sets: &mut Interner) -> Vec<Run<A>> {
    entries.sort_unstable();
    let claims = claims(entries, sets);
    let mut runs = Vec::new();
    let mut active = BTreeSet::new();
    let mut ends = BinaryHeap::new();
    let mut coming = claims.iter().enumerate().peekable();
    let mut here = A::default();
    loop {
        while let Some((index, claim)) = coming.next_if(|(_, claim)| claim.first <= here) {
            active.insert((strength(claim.first, claim.last, claim.layer), index));
            ends.push(Reverse((claim.last, index)));
        }
        while let Some(&Reverse((last, index))) = ends.peek().filter(|end| end.0.0 < here) {
            ends.pop();
            if let Some(claim) = claims.get(index) {
                active.remove(&(strength(claim.first, last, claim.layer), index));
            }
        }
        let next_start = coming.peek().map(|(_, claim)| claim.first);
        let next_end = ends.peek().map(|end| end.0.0);
        let last = match (next_start, next_end) {
            (Some(start), Some(end)) => start.before().min(end),
            (Some(start), None) => start.before(),
            (None, Some(end)) => end,
            (None, None) => break,
        };
        let over = active.iter().filter_map(|&(_, index)| claims.get(index));
        push_run(&mut runs, Run { first: here, last, value: winner(over, sets) });
        let Some(next) = last.next() else { break };
        here = next;
    }
    runs
}

fn claims<A: Address>(entries: &[Entry<A>], sets: &mut Interner) -> Vec<Claim<A>> {
    let mut claims = Vec::new();
    let mut scratch = (Vec::new(), Vec::new());
    for group in entries.chunk_by(|a, b| (a.first, a.last, a.line.layer) == (b.first, b.last, b.line.layer)) {
        let Some(&Entry { first, last, line }) = group.first() else {
            continue;
        };
        let (items, excluded) = &mut scratch;
        collect_items(group, items, excluded);
        claims.push(Claim {
            first,
            last,
            layer: line.layer,
            set: sets.id(items),
            excluded: sets.id(excluded),
        });
    }
    claims
}

/// The items that a group of lines over one range gives, and those that it takes away; both sorted.
fn collect_items<A: Address>(group: &[Entry<A>], items: &mut Vec<u32>, excluded: &mut Vec<u32>) {
    for (list, exclude) in [(&mut *excluded, true), (&mut *items, false)] {
        list.clear();
        list.extend(group.iter().filter(|entry| entry.line.exclude == exclude).map(|entry| entry.line.item));
        list.sort_unstable();
        list.dedup();
    }
    items.retain(|&item| !holds(excluded, item));
}

fn holds(excluded: &[u32], item: u32) -> bool {
    excluded.last() == Some(&EVERY_ITEM) || excluded.binary_search(&item).is_ok()
}

/// The set over an address, given the claims over it, strongest first.
fn winner<'a, A: Address + 'a>(over: impl Iterator<Item = &'a Claim<A>>, sets: &mut Interner) -> u32 {
    let mut removed: Vec<u32> = Vec::new();
    for claim in over.take(MAX_CLAIMS_OVER_ADDRESS) {
        if claim.excluded != 0 {
            removed.extend_from_slice(sets.get(claim.excluded));
            removed.sort_unstable();
            removed.dedup();
        }
        if removed.is_empty() && claim.set != 0 {
            return claim.set;
        }
        let left: Vec<u32> =
            sets.get(claim.set).iter().copied().filter(|&item| !holds(&removed, item)).collect();
        if !left.is_empty() {
            return sets.id(&left);
        }
    }
    0
}

fn explain<A: Address>(entries: &[Entry<A>], addr: A) -> Vec<Line> {
    let mut over: Vec<Entry<A>> =
        entries.iter().copied().filter(|entry| entry.first <= addr && addr <= entry.last).collect();
    over.sort_unstable_by_key(|entry| (strength(entry.first, entry.last, entry.line.layer), *entry));
    let mut removed: Vec<u32> = Vec::new();
    let mut holes = Vec::new();
    let (mut items, mut excluded) = (Vec::new(), Vec::new());
    let groups = over.chunk_by(|a, b| (a.first, a.last, a.line.layer) == (b.first, b.last, b.line.layer));
    for group in groups.take(MAX_CLAIMS_OVER_ADDRESS) {
        collect_items(group, &mut items, &mut excluded);
        removed.append(&mut excluded);
        removed.sort_unstable();
        holes.extend(group.iter().map(|entry| entry.line).filter(|line| line.exclude));
        let mut won =
            group.iter().map(|entry| entry.line).filter(|line| !line.exclude && !holds(&removed, line.item));
        if let Some(first) = won.next() {
            holes.push(first);
            holes.extend(won);
            break;
        }
    }
    holes
}
