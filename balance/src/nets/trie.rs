//! A poptrie over the blocks of a family: a table over the first 18 bits, then nodes of six bits each.
//!
//! ```text
//! top[address >> 14] ─► words: [starts │ number │ entry │ entry │ …]   an entry is a leaf, or leads to a child
//! ```
//! A node's bit vector says at which of its 64 slots another entry starts; a slot's entry is found by a count of bits.
//! The entries lie right behind their node, so that a lookup touches one place of memory a node and not two: far from
//! the caches that is what it costs. IPv4 /24s are found with one node, IPv6 /48s with five.
//! (After Asai, Ohara: Poptrie, SIGCOMM 2015, which keeps leaves apart.)

use super::address::Address;
use super::blocks::Block;
use super::majority::{Tally, Winner, Winners};
use super::{ClassId, DIMS, Leaf};

/// Bits that the first table resolves.
const TOP_BITS: u8 = 18;
/// Bits that a node resolves.
const STRIDE: u8 = 6;
const SLOTS: usize = 1 << STRIDE;
/// In `top`: the place is a leaf's, not a node's.
const LEAF: u32 = 1 << 31;
/// Words of a node before its entries: the bit vector, and its number.
const HEAD: usize = 2;

/// What a slot leads to, in one word: class and scopes of a leaf, or [`Entry::CHILD`] and the place of a node.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Entry(u64);

impl Entry {
    /// Class ids stay far below.
    const CHILD: u64 = 1 << 31;

    #[inline]
    fn of_leaf(leaf: Leaf) -> Self {
        debug_assert!(u64::from(leaf.class.0) < Self::CHILD, "classes are fewer than prefixes");
        Self(u64::from(leaf.class.0) | u64::from(u32::from_le_bytes(leaf.scope)) << 32)
    }

    const fn of_child(place: usize) -> Self {
        Self(Self::CHILD | (place as u64) << 32)
    }

    #[inline]
    fn child(self) -> Option<usize> {
        (self.0 & Self::CHILD != 0).then_some((self.0 >> 32) as usize)
    }

    #[inline]
    fn leaf(self) -> Leaf {
        Leaf { class: ClassId(self.0 as u32), scope: ((self.0 >> 32) as u32).to_le_bytes() }
    }
}

/// The winners of the inner positions inside a node: position 1 is the node's own prefix, 2n and 2n+1 are the halves
/// of n. Apart from the node, because few queries need it.
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
    /// Nodes with their entries, and the leaves that `top` leads to.
    words: Vec<u64>,
    top_winners: Vec<Winner>,
    /// By a node's number.
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
        trie.words.shrink_to_fit();
        trie.node_winners.shrink_to_fit();
        trie.inner_winners.shrink_to_fit();
        trie
    }

    fn unfilled(top_bits: u8) -> Self {
        Self {
            top_bits,
            top: vec![0; 1 << top_bits],
            words: Vec::new(),
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
            super::prefetch::read(&self.words, self.entry_at(place as usize, addr.slot(self.top_bits)));
        }
    }

    #[inline]
    fn prefetch_at(&self, place: u32) {
        super::prefetch::read(&self.words, (place & !LEAF) as usize);
    }

    /// Where the entry of a node's slot is.
    #[inline]
    fn entry_at(&self, node: usize, slot: usize) -> usize {
        let up_to_slot = u64::MAX >> (SLOTS - 1 - slot);
        node + (HEAD - 1) + (self.words[node] & up_to_slot).count_ones() as usize
    }

    #[inline]
    fn entry(&self, node: usize, slot: usize) -> Entry {
        Entry(self.words[self.entry_at(node, slot)])
    }

    #[inline]
    pub(super) fn lookup(&self, addr: A) -> Leaf {
        let place = self.top[addr.top(self.top_bits)];
        if place & LEAF != 0 {
            return Entry(self.words[(place & !LEAF) as usize]).leaf();
        }
        let mut depth = self.top_bits;
        let mut entry = self.entry(place as usize, addr.slot(depth));
        while let Some(child) = entry.child() {
            depth += STRIDE;
            entry = self.entry(child, addr.slot(depth));
        }
        entry.leaf()
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
        let mut node = self.top[addr.top(self.top_bits)] as usize;
        let mut depth = self.top_bits;
        while len >= depth + STRIDE
            && let Some(child) = self.entry(node, addr.slot(depth)).child()
        {
            node = child;
            depth += STRIDE;
        }
        let position = (SLOTS | addr.slot(depth)) >> (depth + STRIDE - len);
        let winners = &self.node_winners[self.words[node + 1] as usize];
        let before = (winners.positions & ((1u64 << position) - 1)).count_ones();
        self.inner_winners[(winners.first + before) as usize]
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.top.capacity() * size_of::<u32>()
            + self.words.capacity() * size_of::<u64>()
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
    /// Where the entry of the next child is.
    next_child: usize,
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
            let place = LEAF | self.trie.words.len() as u32;
            self.trie.words.push(Entry::of_leaf(block.leaf).0);
            let below = top_bits - span.depth;
            let first = (span.position << below) & ((1 << top_bits) - 1);
            self.trie.top[first..first + (1 << below)].fill(place);
            self.tally.leaf(block.leaf.class, A::BITS - span.depth);
        } else if span.depth == top_bits {
            let node = self.fill_node(span);
            self.trie.top[span.position & ((1 << top_bits) - 1)] = node as u32;
        } else {
            let (left, right) = self.halves(span);
            self.fill_top(left);
            self.fill_top(right);
            self.trie.top_winners[span.position] = self.tally.merge(A::BITS - span.depth);
        }
    }

    /// Returns where the node is.
    fn fill_node(&mut self, span: Span) -> usize {
        let number = self.trie.node_winners.len();
        self.trie.node_winners.push(NodeWinners::default());
        // a bit vector and its number in one cache line
        let node = self.trie.words.len().next_multiple_of(HEAD);
        self.trie.words.resize(node + HEAD, number as u64);
        self.trie.words[node] = self.fill_entries(span);

        let mut inside = Inside {
            base: span.depth,
            next_child: node + HEAD,
            winners: [Winner::default(); SLOTS],
            positions: 0,
        };
        self.fill_inside(Span { position: 1, ..span }, &mut inside);
        let first = self.trie.inner_winners.len() as u32;
        self.trie.node_winners[number] = NodeWinners { positions: inside.positions, first };
        let used = (0..SLOTS).filter(|&position| inside.positions >> position & 1 == 1);
        self.trie.inner_winners.extend(used.map(|position| inside.winners[position]));
        node
    }

    /// Pushes a node's entries, those of children without their place, and returns its bit vector.
    fn fill_entries(&mut self, span: Span) -> u64 {
        let mut starts = 0;
        let mut before = None;
        let mut low = span.low;
        while low < span.high {
            let block = self.blocks[low];
            let slot = block.first.slot(span.depth);
            let entry = if block.len <= span.depth + STRIDE {
                low += 1;
                Entry::of_leaf(block.leaf)
            } else {
                let rest = &self.blocks[low..span.high];
                low += rest.partition_point(|block| block.first.slot(span.depth) == slot);
                Entry::of_child(0)
            };
            // each child has an entry of its own
            if before != Some(entry) || entry.child().is_some() {
                starts |= 1 << slot;
                self.trie.words.push(entry.0);
                before = Some(entry);
            }
        }
        starts
    }

    fn fill_inside(&mut self, span: Span, inside: &mut Inside) {
        if let Some(block) = self.single(span) {
            self.tally.leaf(block.leaf.class, A::BITS.saturating_sub(span.depth));
        } else if span.depth == inside.base + STRIDE {
            while Entry(self.trie.words[inside.next_child]).child().is_none() {
                inside.next_child += 1;
            }
            let child = self.fill_node(span);
            self.trie.words[inside.next_child] = Entry::of_child(child).0;
            inside.next_child += 1;
        } else {
            let (left, right) = self.halves(span);
            self.fill_inside(left, inside);
            self.fill_inside(right, inside);
            inside.winners[span.position] = self.tally.merge(A::BITS - span.depth);
            inside.positions |= 1 << span.position;
        }
    }
}
