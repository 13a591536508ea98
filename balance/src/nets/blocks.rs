//! The runs of all dimensions, cut into blocks.
//!
//! A dimension's maximal runs of one value (gaps count as value 0) fall apart into the largest aligned blocks; the
//! length of such a block is the dimension's scope everywhere in it (T2). Blocks nest or are disjoint, so over any
//! address the smallest block of the dimensions holds all of them constant: those blocks partition the family.

use std::collections::HashMap;

use super::address::Address;
use super::runs::Run;
use super::{ClassId, DIMS, Leaf};

/// A part of the partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block<A> {
    pub(super) first: A,
    pub(super) len: u8,
    pub(super) leaf: Leaf,
}

/// Numbers the distinct combinations of values; class 0 is "nothing known in any dimension".
pub(super) struct Classes {
    ids: HashMap<[u32; DIMS], u32>,
    values: Vec<[u32; DIMS]>,
    last: ([u32; DIMS], u32),
}

impl Classes {
    pub(super) fn new() -> Self {
        let unknown = [0; DIMS];
        Self { ids: HashMap::from([(unknown, 0)]), values: vec![unknown], last: (unknown, 0) }
    }

    fn id(&mut self, values: [u32; DIMS]) -> ClassId {
        if self.last.0 != values {
            let coming = self.values.len() as u32;
            let id = *self.ids.entry(values).or_insert(coming);
            if id == coming {
                self.values.push(values);
            }
            self.last = (values, id);
        }
        ClassId(self.last.1)
    }

    pub(super) fn values(&self) -> &[[u32; DIMS]] {
        &self.values
    }

    pub(super) fn into_values(self) -> Vec<[u32; DIMS]> {
        self.values
    }
}

/// The partition of a family, in order of address.
pub(super) fn blocks<A: Address>(dims: [&[Run<A>]; DIMS], classes: &mut Classes) -> Vec<Block<A>> {
    let mut cutters = dims.map(Cutter::new);
    let mut blocks = Vec::new();
    let mut first = A::default();
    loop {
        let mut leaf = Leaf::default();
        let mut len = 0;
        let mut values = [0; DIMS];
        for ((cutter, value), scope) in cutters.iter_mut().zip(&mut values).zip(&mut leaf.scope) {
            (*value, *scope) = cutter.block_at(first);
            len = len.max(*scope);
        }
        leaf.class = classes.id(values);
        blocks.push(Block { first, len, leaf });
        let Some(next) = first.block_end(len).next() else {
            break;
        };
        first = next;
    }
    blocks
}

/// Walks one dimension's blocks.
struct Cutter<'a, A> {
    /// Runs not yet begun.
    coming: &'a [Run<A>],
    /// The maximal run being cut.
    value: u32,
    last: A,
    /// The block being walked.
    block: (A, u8),
}

impl<'a, A: Address> Cutter<'a, A> {
    fn new(runs: &'a [Run<A>]) -> Self {
        debug_assert!(runs.iter().all(|run| run.first <= run.last));
        debug_assert!(runs.is_sorted_by(|a, b| a.last < b.first), "runs must be sorted and disjoint");
        let mut cutter = Self { coming: runs, value: 0, last: A::default(), block: (A::default(), 0) };
        cutter.begin_run(A::default());
        cutter.begin_block(A::default());
        cutter
    }

    /// Value and scope at an address; addresses must come in order, none beyond the end of a block left out.
    fn block_at(&mut self, addr: A) -> (u32, u8) {
        if self.block.0 < addr {
            if self.last < addr {
                self.begin_run(addr);
            }
            self.begin_block(addr);
        }
        (self.value, self.block.1)
    }

    fn begin_run(&mut self, first: A) {
        (self.value, self.last) = self.piece(first);
        while let Some(next) = self.last.next() {
            let before = self.coming;
            let (value, last) = self.piece(next);
            if value != self.value {
                self.coming = before;
                break;
            }
            self.last = last;
        }
    }

    /// The run or gap that starts at an address.
    fn piece(&mut self, first: A) -> (u32, A) {
        match self.coming.split_first() {
            Some((run, rest)) if run.first <= first => {
                self.coming = rest;
                (run.value, run.last.max(first))
            }
            Some((run, _)) => (0, run.first.before()),
            None => (0, A::MAX),
        }
    }

    fn begin_block(&mut self, first: A) {
        let bits = u32::from(A::BITS);
        let aligned = first.widen().trailing_zeros().min(bits);
        let fits = match (self.last.widen() - first.widen()).checked_add(1) {
            Some(addresses) => addresses.ilog2(),
            None => bits,
        };
        let len = (bits - aligned.min(fits)) as u8;
        // the block's last address, so that `block_at` knows when it is left
        self.block = (first.block_end(len), len);
    }
}
