//! Tables as ranges: what a table says before it is merged with the others.

use std::net::IpAddr;

use super::address::{Address, Number, number};

/// A range with a value, both ends inclusive. Value 0 means "nothing known".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run<A> {
    /// The first address.
    pub first: A,
    /// The last address.
    pub last: A,
    /// What the table says about the range.
    pub value: u32,
}

/// One table: sorted, disjoint ranges of both families. What no range covers has value 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    /// IPv4.
    pub v4: Vec<Run<u32>>,
    /// IPv6.
    pub v6: Vec<Run<u128>>,
}

impl Runs {
    /// The value at an address, by binary search: for `explain` and tools, not for queries.
    pub fn value(&self, addr: IpAddr) -> u32 {
        match number(addr) {
            Number::V4(addr) => value_at(&self.v4, addr),
            Number::V6(addr) => value_at(&self.v6, addr),
        }
    }
}

fn value_at<A: Address>(runs: &[Run<A>], addr: A) -> u32 {
    let after = runs.partition_point(|run| run.first <= addr);
    match after.checked_sub(1).and_then(|at| runs.get(at)) {
        Some(run) if addr <= run.last => run.value,
        Some(_) | None => 0,
    }
}

/// Adds a range behind all others; grows the last one instead when it is its continuation. Value 0 adds nothing.
pub fn push_run<A: Address>(runs: &mut Vec<Run<A>>, run: Run<A>) {
    if run.value == 0 {
        return;
    }
    debug_assert!(run.first <= run.last && runs.last().is_none_or(|last| last.last < run.first));
    match runs.last_mut() {
        Some(last) if last.value == run.value && last.last.next() == Some(run.first) => last.last = run.last,
        Some(_) | None => runs.push(run),
    }
}

/// Ranges whose values are ids of interned sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetRuns {
    /// Values index `sets`.
    pub runs: Runs,
    /// Each set is sorted; the first one is the empty set.
    pub sets: Vec<Vec<u32>>,
}
