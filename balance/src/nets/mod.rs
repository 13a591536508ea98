//! Prefix tables: every table a config uses (ACL lists, ISP, geography) merged into one longest-prefix structure a family.
//!
//! ```text
//! entries (any order) ─overlay─► Runs ┐
//! named ACL lists     ─union───► Runs ├─ blocks ─► Trie ─► lookup(addr) ─► Leaf (class, scope per dimension)
//! mmdb networks       ─────────► Runs ┘
//! ```
//! - [`Runs`]: what a table says, as sorted disjoint ranges; made by `overlay` or `union`, or read from an mmdb.
//! - `blocks`: the runs of all dimensions cut into the largest aligned blocks over which each is constant.
//! - `trie`: a poptrie over those blocks; a query does one lookup in it.
//! - `majority`: for prefixes with longer entries below them, who holds most of the addresses (R16).

mod runs;

use std::net::IpAddr;

pub use runs::{Address, Entries, Entry, Run, Runs, SetRuns};

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
#[derive(Debug, Default)]
pub struct Nets {}

impl Nets {
    /// Merges one table a dimension. The second value lists, for each [`ClassId`], the value in every dimension.
    pub fn build(_dims: [&Runs; DIMS]) -> (Self, Vec<[u32; DIMS]>) {
        (Self {}, vec![[0; DIMS]])
    }

    /// A structure that knows nothing: every address is in class 0 with scope 0.
    pub fn empty() -> Self {
        Self::build([&Runs::default(); DIMS]).0
    }

    /// Asks the processor to load what [`Self::lookup`] of the same address reads first.
    #[inline]
    pub fn prefetch(&self, _addr: &IpAddr) {}

    /// The class of an address. An IPv4-mapped IPv6 address is its IPv4 address (R15).
    #[inline]
    pub fn lookup(&self, _addr: IpAddr) -> Leaf {
        Leaf::default()
    }

    /// The class that answers for a whole prefix (an ECS source prefix). When an entry of a consulted dimension below
    /// the prefix is longer than `len`, this is the class that holds most addresses in it, with scope `len` (R16).
    pub fn lookup_prefix(&self, addr: IpAddr, _len: u8, _consulted: [bool; DIMS]) -> Leaf {
        self.lookup(addr)
    }

    /// Bytes of heap in use.
    pub fn heap_bytes(&self) -> usize {
        0
    }
}
