//! Prefix tables: every table a config uses (ACL lists, ISP, geography) merged into one longest-prefix structure a family.
//!
//! ```text
//! entries (any order) ─overlay─► Runs ┐
//! named ACL lists     ─union───► Runs ├─ blocks ─► Trie ─► lookup(addr) ─► Leaf (class, scope per dimension)
//! mmdb networks       ─────────► Runs ┘
//! ```
//! - [`Runs`]: what a table says, as sorted disjoint ranges; made by [`overlay()`] or [`union()`], or read from an mmdb.
//! - `blocks`: the runs of all dimensions cut into the largest aligned blocks over which each is constant.
//! - `trie`: a poptrie over those blocks; a query does one lookup in it.
//! - `majority`: for prefixes with longer entries below them, who holds most of the addresses (R16).

mod address;
mod blocks;
mod majority;
mod overlay;
pub(crate) mod prefetch;
mod runs;
mod sets;
mod trie;
mod union;

#[cfg(test)]
mod tests;

use std::net::IpAddr;

pub use address::Address;
pub use overlay::{EVERY_ITEM, Entries, Entry, Line, overlay};
pub use runs::{Run, Runs, SetRuns, push_run};
pub use union::union;

use address::{Number, number};
use blocks::{Classes, blocks};
use trie::Trie;

/// A dimension of the merged structure: one table of the config.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dim {
    /// Named prefix lists that ACL rules refer to.
    Acl = 0,
    /// Operators (R).
    Isp = 1,
    /// Geography records.
    Geo = 2,
}

/// How many dimensions there are.
pub const DIMS: usize = 3;

/// A distinct combination of values, one per dimension.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u32);

/// What one lookup finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Leaf {
    /// The combination of values at the address.
    pub class: ClassId,
    /// Indexed by [`Dim`]: the length of the largest prefix around the address over which that dimension's value is
    /// constant, misses included (T2). The last byte is spare.
    pub scope: [u8; 4],
}

/// The merged structure: one lookup a query.
#[derive(Debug)]
pub struct Nets {
    v4: Trie<u32>,
    v6: Trie<u128>,
    prefixes: usize,
}

impl Nets {
    /// Merges one table a dimension. The second value lists, for each [`ClassId`], the value in every dimension; class
    /// 0 is "nothing known".
    pub fn build(dims: [&Runs; DIMS]) -> (Self, Vec<[u32; DIMS]>) {
        let mut classes = Classes::new();
        let v4 = blocks(dims.map(|runs| runs.v4.as_slice()), &mut classes);
        let v6 = blocks(dims.map(|runs| runs.v6.as_slice()), &mut classes);
        let prefixes = v4.len() + v6.len();
        let (v4, v6) = (Trie::build(&v4, classes.values()), Trie::build(&v6, classes.values()));
        (Self { v4, v6, prefixes }, classes.into_values())
    }

    /// A structure that knows nothing: every address is in class 0 with scope 0.
    pub fn empty() -> Self {
        Self::build([&Runs::default(); DIMS]).0
    }

    /// Asks the processor to load what [`Self::lookup`] of the same address reads first.
    #[inline]
    pub fn prefetch(&self, addr: &IpAddr) {
        match number(*addr) {
            Number::V4(addr) => self.v4.prefetch(addr),
            Number::V6(addr) => self.v6.prefetch(addr),
        }
    }

    /// The same for what it reads after that, in two steps, for callers that look up many addresses at once: each
    /// step over all of them takes the memory's latency off the next one.
    #[inline]
    pub fn prefetch_second(&self, addr: &IpAddr) {
        match number(*addr) {
            Number::V4(addr) => self.v4.prefetch_second(addr),
            Number::V6(addr) => self.v6.prefetch_second(addr),
        }
    }

    /// The step after [`Self::prefetch_second`].
    #[inline]
    pub fn prefetch_third(&self, addr: &IpAddr) {
        match number(*addr) {
            Number::V4(addr) => self.v4.prefetch_third(addr),
            Number::V6(addr) => self.v6.prefetch_third(addr),
        }
    }

    /// The class of an address. An IPv4-mapped IPv6 address is its IPv4 address (R15).
    #[inline]
    pub fn lookup(&self, addr: IpAddr) -> Leaf {
        match number(addr) {
            Number::V4(addr) => self.v4.lookup(addr),
            Number::V6(addr) => self.v6.lookup(addr),
        }
    }

    /// The class that answers for a whole prefix (an ECS source prefix). When an entry of a consulted dimension below
    /// the prefix is longer than `len`, this is the class that holds most addresses in it, with no scope longer than
    /// `len` (R16).
    ///
    /// Classes are told apart by the consulted dimensions only; the others' values in the class found are those of some
    /// address in the prefix. A prefix of IPv4-mapped addresses is the IPv4 prefix it maps.
    #[inline]
    pub fn lookup_prefix(&self, addr: IpAddr, len: u8, consulted: [bool; DIMS]) -> Leaf {
        match (number(addr), addr) {
            (Number::V4(first), IpAddr::V6(_)) if len >= 96 => {
                self.v4.lookup_prefix(first, (len - 96).min(32), consulted)
            }
            (_, IpAddr::V6(first)) => self.v6.lookup_prefix(first.into(), len.min(128), consulted),
            (_, IpAddr::V4(first)) => self.v4.lookup_prefix(first.into(), len.min(32), consulted),
        }
    }

    /// Into how many prefixes the two families fall, each with one answer.
    pub fn prefixes(&self) -> usize {
        self.prefixes
    }

    /// Bytes of heap in use.
    pub fn heap_bytes(&self) -> usize {
        self.v4.heap_bytes() + self.v6.heap_bytes()
    }
}

impl Default for Nets {
    fn default() -> Self {
        Self::empty()
    }
}
