//! A poptrie over the blocks of a family: a table over the first 18 bits, then nodes of six bits each.
//!
//! A node has two bit vectors over its 64 slots: which slots go on to a child, and at which slots the leaf differs from
//! the one before it. Children and leaves of a node lie side by side, so a slot's place is the node's first one plus a
//! count of bits. IPv4 /24s are found with one node, IPv6 /48s with five.
//! (Asai, Ohara: Poptrie, SIGCOMM 2015.)

use super::address::Address;
use super::blocks::Block;
use super::majority::{Tally, Winner, Winners};
use super::{DIMS, Leaf};

/// Bits that the first table resolves.
const TOP_BITS: u8 = 18;
/// Bits that a node resolves.
const STRIDE: u8 = 6;
const SLOTS: usize = 1 << STRIDE;
/// Marks a place in `leaves` instead of `nodes`.
const LEAF: u32 = 1 << 31;

#[derive(Clone, Copy, Debug, Default)]
struct Node {
    /// Slots that go on to a child.
    inner: u64,
    /// Slots at which another leaf starts.
    starts: u64,
    first_child: u32,
    first_leaf: u32,
}

impl Node {
    /// Where a slot leads, given as its bit: a child's place, or a leaf's with [`LEAF`].
    #[inline]
    fn step(&self, slot: u64) -> u32 {
        let before = slot - 1;
        if self.inner & slot == 0 {
            LEAF | (self.first_leaf + (self.starts & (slot | before)).count_ones() - 1)
        } else {
            self.first_child + (self.inner & before).count_ones()
        }
    }
}

/// The winners of the inner positions inside a node: position 1 is the node's own prefix, 2n and 2n+1 are the halves
/// of n. Apart from [`Node`], because few queries need it.
#[derive(Clone, Copy, Debug, Default)]
struct NodeWinners {
    positions: u64,
    first: u32,
}

/// One family's part of the merged structure.
#[derive(Debug)]
pub(super) struct Trie<A> {
    /// [`TOP_BITS`], or 0 when the whole family is one leaf.
    top_bits: u8,
    top: Vec<u32>,
    nodes: Vec<Node>,
    leaves: Vec<Leaf>,
    top_winners: Vec<Winner>,
    node_winners: Vec<NodeWinners>,
    inner_winners: Vec<Winner>,
    winners: Winners,
    family: std::marker::PhantomData<A>,
}

impl<A: Address> Trie<A> {
    /// Builds over a partition of the family.
    pub(super) fn build(blocks: &[Block<A>], values: &[[u32; DIMS]]) -> Self {
        let top_bits = if blocks.len() > 1 { TOP_BITS } else { 0 };
        let mut builder = Builder { blocks, trie: Self::unfilled(top_bits), tally: Tally::new(values) };
        builder.fill_top(Span { position: 1, depth: 0, low: 0, high: blocks.len() });
        let Builder { mut trie, tally, .. } = builder;
        trie.winners = tally.into_winners();
        trie.nodes.shrink_to_fit();
        trie.leaves.shrink_to_fit();
        trie.node_winners.shrink_to_fit();
        trie.inner_winners.shrink_to_fit();
        trie
    }

    fn unfilled(top_bits: u8) -> Self {
        Self {
            top_bits,
            top: vec![0; 1 << top_bits],
            nodes: Vec::new(),
            leaves: Vec::new(),
            top_winners: vec![Winner::default(); 1 << top_bits],
            node_winners: Vec::new(),
            inner_winners: Vec::new(),
            winners: Winners::default(),
            family: std::marker::PhantomData,
        }
    }

    #[inline]
    pub(super) fn prefetch(&self, addr: A) {
        super::prefetch::read(self.top.as_slice(), addr.top(self.top_bits));
    }

    /// Loads ahead what a lookup reads second; what it reads first should be there by then.
    #[inline]
    pub(super) fn prefetch_second(&self, addr: A) {
        self.prefetch_at(self.top[addr.top(self.top_bits)]);
    }

    /// Loads ahead what a lookup reads third; the first and second should be there by then.
    #[inline]
    pub(super) fn prefetch_third(&self, addr: A) {
        let place = self.top[addr.top(self.top_bits)];
        if place & LEAF == 0 {
            self.prefetch_at(self.nodes[place as usize].step(1 << addr.slot(self.top_bits)));
        }
    }

    #[inline]
    fn prefetch_at(&self, place: u32) {
        if place & LEAF == 0 {
            super::prefetch::read(self.nodes.as_slice(), place as usize);
        } else {
            super::prefetch::read(self.leaves.as_slice(), (place & !LEAF) as usize);
        }
    }

    #[inline]
    pub(super) fn lookup(&self, addr: A) -> Leaf {
        let mut place = self.top[addr.top(self.top_bits)];
        let mut depth = self.top_bits;
        while place & LEAF == 0 {
            place = self.nodes[place as usize].step(1 << addr.slot(depth));
            depth += STRIDE;
        }
        self.leaves[(place & !LEAF) as usize]
    }

    #[inline]
    pub(super) fn lookup_prefix(&self, addr: A, len: u8, consulted: [bool; DIMS]) -> Leaf {
        let leaf = self.lookup(addr);
        let scopes = consulted.iter().zip(leaf.scope);
        let longest = scopes.fold(0, |longest, (&consulted, scope)| longest.max(scope * u8::from(consulted)));
        if longest <= len { leaf } else { self.majority(addr, len, consulted, leaf) }
    }

    /// The leaf that stands for a prefix with longer entries below it (R16). Apart, to keep the usual way short.
    #[cold]
    fn majority(&self, addr: A, len: u8, consulted: [bool; DIMS], leaf: Leaf) -> Leaf {
        let class = self.winners.class(self.winner(addr, len), consulted);
        Leaf { class, scope: leaf.scope.map(|scope| scope.min(len)) }
    }

    /// The winner of an inner position.
    fn winner(&self, addr: A, len: u8) -> Winner {
        if len < self.top_bits {
            return self.top_winners[1 << len | addr.top(len)];
        }
        let mut index = self.top[addr.top(self.top_bits)];
        let mut depth = self.top_bits;
        while len >= depth + STRIDE {
            let node = &self.nodes[index as usize];
            index = node.first_child + (node.inner & ((1u64 << addr.slot(depth)) - 1)).count_ones();
            depth += STRIDE;
        }
        let position = (SLOTS | addr.slot(depth)) >> (depth + STRIDE - len);
        let winners = &self.node_winners[index as usize];
        let before = (winners.positions & ((1u64 << position) - 1)).count_ones();
        self.inner_winners[(winners.first + before) as usize]
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.top.capacity() * size_of::<u32>()
            + self.nodes.capacity() * size_of::<Node>()
            + self.leaves.capacity() * size_of::<Leaf>()
            + (self.top_winners.capacity() + self.inner_winners.capacity()) * size_of::<Winner>()
            + self.node_winners.capacity() * size_of::<NodeWinners>()
            + self.winners.heap_bytes()
    }
}

/// The blocks `low..high` that make up the prefix of length `depth` at a position of a binary tree.
#[derive(Clone, Copy)]
struct Span {
    position: usize,
    depth: u8,
    low: usize,
    high: usize,
}

struct Builder<'a, A> {
    blocks: &'a [Block<A>],
    trie: Trie<A>,
    tally: Tally<'a>,
}

/// A node whose inside is being tallied.
struct Inside {
    base: u8,
    next_child: u32,
    winners: [Winner; SLOTS],
    positions: u64,
}

impl<A: Address> Builder<'_, A> {
    /// The block that covers the whole span, if one does.
    fn single(&self, span: Span) -> Option<Block<A>> {
        let block = self.blocks[span.low];
        debug_assert!(span.low < span.high);
        (span.high - span.low == 1 && block.len <= span.depth).then_some(block)
    }

    fn halves(&self, span: Span) -> (Span, Span) {
        let Span { position, depth, low, high } = span;
        let blocks = &self.blocks[low..high];
        let bit = 1u128 << (A::BITS - 1 - depth);
        let middle = low + blocks.partition_point(|block| block.first.widen() & bit == 0);
        (
            Span { position: position * 2, depth: depth + 1, low, high: middle },
            Span { position: position * 2 + 1, depth: depth + 1, low: middle, high },
        )
    }

    fn fill_top(&mut self, span: Span) {
        let top_bits = self.trie.top_bits;
        if let Some(block) = self.single(span) {
            let place = LEAF | self.trie.leaves.len() as u32;
            self.trie.leaves.push(block.leaf);
            let below = top_bits - span.depth;
            let first = (span.position << below) & ((1 << top_bits) - 1);
            self.trie.top[first..first + (1 << below)].fill(place);
            self.tally.leaf(block.leaf.class, A::BITS - span.depth);
        } else if span.depth == top_bits {
            let index = self.trie.nodes.len();
            self.reserve_nodes(1);
            self.trie.top[span.position & ((1 << top_bits) - 1)] = index as u32;
            self.fill_node(index, span);
        } else {
            let (left, right) = self.halves(span);
            self.fill_top(left);
            self.fill_top(right);
            self.trie.top_winners[span.position] = self.tally.merge(A::BITS - span.depth);
        }
    }

    fn reserve_nodes(&mut self, count: usize) {
        let count = self.trie.nodes.len() + count;
        self.trie.nodes.resize(count, Node::default());
        self.trie.node_winners.resize(count, NodeWinners::default());
    }

    fn fill_node(&mut self, index: usize, span: Span) {
        let first_leaf = self.trie.leaves.len() as u32;
        let (inner, starts) = self.fill_slots(span);
        let first_child = self.trie.nodes.len() as u32;
        self.reserve_nodes(inner.count_ones() as usize);
        self.trie.nodes[index] = Node { inner, starts, first_child, first_leaf };

        let mut inside = Inside {
            base: span.depth,
            next_child: first_child,
            winners: [Winner::default(); SLOTS],
            positions: 0,
        };
        self.fill_inside(Span { position: 1, ..span }, &mut inside);
        let first = self.trie.inner_winners.len() as u32;
        self.trie.node_winners[index] = NodeWinners { positions: inside.positions, first };
        let used = (0..SLOTS).filter(|&position| inside.positions >> position & 1 == 1);
        self.trie.inner_winners.extend(used.map(|position| inside.winners[position]));
    }

    /// The two bit vectors of a node; pushes its leaves.
    fn fill_slots(&mut self, span: Span) -> (u64, u64) {
        let (mut inner, mut starts) = (0, 0);
        let mut before = None;
        let mut low = span.low;
        while low < span.high {
            let block = self.blocks[low];
            let slot = block.first.slot(span.depth);
            if block.len <= span.depth + STRIDE {
                if before != Some(block.leaf) {
                    starts |= 1 << slot;
                    self.trie.leaves.push(block.leaf);
                    before = Some(block.leaf);
                }
                low += 1;
            } else {
                inner |= 1 << slot;
                let rest = &self.blocks[low..span.high];
                low += rest.partition_point(|block| block.first.slot(span.depth) == slot);
            }
        }
        (inner, starts)
    }

    fn fill_inside(&mut self, span: Span, inside: &mut Inside) {
        if let Some(block) = self.single(span) {
            self.tally.leaf(block.leaf.class, A::BITS.saturating_sub(span.depth));
        } else if span.depth == inside.base + STRIDE {
            let child = inside.next_child as usize;
            inside.next_child += 1;
            self.fill_node(child, span);
        } else {
            let (left, right) = self.halves(span);
            self.fill_inside(left, inside);
            self.fill_inside(right, inside);
            inside.winners[span.position] = self.tally.merge(A::BITS - span.depth);
            inside.positions |= 1 << span.position;
        }
    }
}
