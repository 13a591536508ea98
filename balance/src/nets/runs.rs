//! Tables as ranges: what a table says before it is merged with the others.

/// An address as a number: `u32` for IPv4, `u128` for IPv6.
pub trait Address: Copy + Ord + std::fmt::Debug + std::hash::Hash + Default {
    /// Bits of an address.
    const BITS: u8;
    /// The last address of the family.
    const MAX: Self;
    /// The number, widened.
    fn to_u128(self) -> u128;
    /// The number, cut to this family.
    fn from_u128(value: u128) -> Self;
}

impl Address for u32 {
    const BITS: u8 = 32;
    const MAX: Self = Self::MAX;
    fn to_u128(self) -> u128 {
        u128::from(self)
    }
    fn from_u128(value: u128) -> Self {
        value as Self
    }
}

impl Address for u128 {
    const BITS: u8 = 128;
    const MAX: Self = Self::MAX;
    fn to_u128(self) -> u128 {
        self
    }
    fn from_u128(value: u128) -> Self {
        value
    }
}

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

/// One line of a source table, before precedence is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry<A> {
    /// The first address.
    pub first: A,
    /// The last address.
    pub last: A,
    /// A stronger layer has a smaller number and wins before length (R9).
    pub layer: u8,
    /// Whether this is a `!` line: it makes the item's lines unsaid here (R9).
    pub exclude: bool,
    /// What the line speaks of: an operator.
    pub item: u32,
    /// Which file, by the caller's numbering.
    pub source: u32,
    /// Line in the file, from 1.
    pub line: u32,
}

/// Lines of a table in any order.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    /// IPv4.
    pub v4: Vec<Entry<u32>>,
    /// IPv6.
    pub v6: Vec<Entry<u128>>,
}

/// Ranges whose values are ids of interned sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetRuns {
    /// Values index `sets`.
    pub runs: Runs,
    /// Each set is sorted; the first one is the empty set.
    pub sets: Vec<Vec<u32>>,
}
