//! The entries: disjoint prefixes in order, bounded, the one used longest ago giving way.

use crate::proximity::coordinates::Position;
use crate::proximity::estimator::Estimator;
use crate::proximity::shown::Shown;
use crate::proximity::{PointId, Prefix, Settings};
use std::collections::BTreeMap;

/// No neighbour.
const NONE: u32 = u32::MAX;

/// What was measured from one point.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) point: PointId,
    pub(super) estimator: Estimator,
    /// In an entry that was merged: what each of its parts says.
    pub(super) parts: Vec<Part>,
    /// When it was last said to be wanted; 0 never.
    pub(super) asked_s: u32,
    /// When peers were last told; 0 never.
    pub(super) told_s: u32,
    /// The round-trip time behind what is shown: what peers are told; 0 where nothing is.
    pub(super) steady_us: u32,
    /// Whether it waits to be told.
    pub(super) is_queued: bool,
}

impl Measured {
    pub(super) fn new(point: PointId) -> Self {
        Self {
            point,
            estimator: Estimator::EMPTY,
            parts: Vec::new(),
            asked_s: 0,
            told_s: 0,
            steady_us: 0,
            is_queued: false,
        }
    }
}

/// What one part of a merged entry says: least of the open window, average of those before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Part {
    pub(super) least_us: u32,
    pub(super) mean_us: u32,
    /// Windows without a sample.
    pub(super) idle: u8,
}

impl Part {
    pub(super) fn observe(&mut self, rtt_us: u32) {
        self.least_us = if self.least_us == 0 { rtt_us } else { self.least_us.min(rtt_us) };
    }

    pub(super) fn close(&mut self) {
        let least = std::mem::take(&mut self.least_us);
        self.idle = self.idle.saturating_add(1);
        if least != 0 {
            self.idle = 0;
            self.mean_us = if self.mean_us == 0 { least } else { self.mean_us.midpoint(least) };
        }
    }
}

/// One prefix.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) prefix: Prefix,
    /// Value of the ISP dimension.
    pub(super) operators: u32,
    /// Ascending by point.
    pub(super) measured: Vec<Measured>,
    /// By point: what queries see.
    pub(super) shown: Vec<Option<Shown>>,
    /// Where the coordinates place it.
    pub(super) position: Option<Position>,
    /// Of what it was placed by: it is placed anew when that changes.
    pub(super) placed_by: u64,
    /// Whether something is to be judged at the end of the window, though no sample came.
    pub(super) is_pending: bool,
    /// Whether the times cannot be those of one place.
    pub(super) is_anycast: bool,
    /// Attempts without an answer since the last one with (case G14).
    pub(super) silent: u8,
    pub(super) silent_s: u32,
    /// When it was last used.
    pub(super) used_s: u32,
    /// Not to be merged before.
    pub(super) apart_until_s: u32,
    pub(super) is_dirty: bool,
}

impl Entry {
    /// Whether nothing is known of it but silence.
    pub(super) fn is_unmeasured(&self, now_s: u32, settings: &Settings) -> bool {
        !self.measured.iter().any(|it| it.estimator.is_live(now_s, settings))
    }

    pub(super) fn new(prefix: Prefix, operators: u32, points: usize) -> Self {
        Self {
            prefix,
            operators,
            measured: Vec::new(),
            shown: vec![None; points],
            position: None,
            placed_by: 0,
            is_pending: false,
            is_anycast: false,
            silent: 0,
            silent_s: 0,
            used_s: 0,
            apart_until_s: 0,
            is_dirty: false,
        }
    }

    pub(super) fn of(&self, point: PointId) -> Option<&Measured> {
        self.measured.binary_search_by_key(&point, |it| it.point).ok().and_then(|i| self.measured.get(i))
    }

    pub(super) fn of_mut(&mut self, point: PointId) -> &mut Measured {
        let at = match self.measured.binary_search_by_key(&point, |it| it.point) {
            Ok(at) => at,
            Err(at) => {
                self.measured.insert(at, Measured::new(point));
                at
            }
        };
        &mut self.measured[at]
    }
}

#[derive(Debug)]
struct Node {
    entry: Entry,
    newer: u32,
    older: u32,
}

/// All entries.
#[derive(Debug, Default)]
pub(super) struct Entries {
    nodes: Vec<Option<Node>>,
    free: Vec<u32>,
    index: BTreeMap<Prefix, u32>,
    /// Used last, and used longest ago.
    ends: Option<(u32, u32)>,
}

impl Entries {
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// The entry that holds a prefix: itself, or one around it.
    pub(super) fn around(&self, prefix: &Prefix) -> Option<u32> {
        // entries are disjoint, so only the last one at or before it can hold it
        let (found, number) = self.index.range(..=*prefix).next_back()?;
        found.covers(prefix).then_some(*number)
    }

    /// The entries within a prefix, in order.
    pub(super) fn within(&self, prefix: Prefix) -> impl Iterator<Item = (Prefix, u32)> + '_ {
        self.index
            .range(prefix..)
            .take_while(move |(found, _)| prefix.covers(found))
            .map(|(found, number)| (*found, *number))
    }

    pub(super) fn get(&self, number: u32) -> Option<&Entry> {
        self.nodes.get(number as usize)?.as_ref().map(|node| &node.entry)
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut Entry> {
        self.nodes.get_mut(number as usize)?.as_mut().map(|node| &mut node.entry)
    }

    /// All of them, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.index.values().filter_map(|number| self.get(*number))
    }

    /// Their numbers, in order.
    pub(super) fn numbers(&self) -> Vec<u32> {
        self.index.values().copied().collect()
    }

    /// Adds an entry as the one used last. The caller has made sure that nothing overlaps it.
    pub(super) fn insert(&mut self, entry: Entry) -> u32 {
        let prefix = entry.prefix;
        let node = Some(Node { entry, newer: NONE, older: NONE });
        let number = match self.free.pop() {
            Some(number) => {
                self.nodes[number as usize] = node;
                number
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        };
        self.index.insert(prefix, number);
        self.link(number);
        number
    }

    /// Takes an entry out.
    pub(super) fn remove(&mut self, number: u32) -> Option<Entry> {
        self.get(number)?;
        self.unlink(number);
        let node = self.nodes.get_mut(number as usize)?.take()?;
        self.index.remove(&node.entry.prefix);
        self.free.push(number);
        Some(node.entry)
    }

    /// The entry used longest ago.
    pub(super) fn oldest(&self) -> Option<u32> {
        self.ends.map(|(_, oldest)| oldest)
    }

    /// Makes it the one used last.
    pub(super) fn touch(&mut self, number: u32, now_s: u32) {
        if let Some(entry) = self.get_mut(number) {
            entry.used_s = now_s;
            self.unlink(number);
            self.link(number);
        }
    }

    fn node(&mut self, number: u32) -> Option<&mut Node> {
        self.nodes.get_mut(number as usize)?.as_mut()
    }

    fn link(&mut self, number: u32) {
        let newest = self.ends.map_or(NONE, |(newest, _)| newest);
        if let Some(node) = self.node(number) {
            (node.newer, node.older) = (NONE, newest);
        }
        if let Some(node) = self.node(newest) {
            node.newer = number;
        }
        let oldest = self.ends.map_or(number, |(_, oldest)| oldest);
        self.ends = Some((number, oldest));
    }

    fn unlink(&mut self, number: u32) {
        let Some(&mut Node { newer, older, .. }) = self.node(number) else { return };
        if let Some(node) = self.node(newer) {
            node.older = older;
        }
        if let Some(node) = self.node(older) {
            node.newer = newer;
        }
        self.ends = self.ends.and_then(|(newest, oldest)| {
            let newest = if newest == number { older } else { newest };
            let oldest = if oldest == number { newer } else { oldest };
            (newest != NONE && oldest != NONE).then_some((newest, oldest))
        });
    }

    #[cfg(test)]
    pub(super) fn check_invariants(&self) {
        let mut last: Option<Prefix> = None;
        for (prefix, number) in &self.index {
            assert_eq!(self.get(*number).map(|entry| entry.prefix), Some(*prefix));
            assert!(last.is_none_or(|last| !last.covers(prefix)), "{last:?} overlaps {prefix}");
            last = Some(*prefix);
        }
        let mut seen = 0;
        let mut at = self.ends.map_or(NONE, |(newest, _)| newest);
        while let Some(node) = self.nodes.get(at as usize).and_then(Option::as_ref) {
            seen += 1;
            assert!(seen <= self.len(), "a ring");
            at = node.older;
        }
        assert_eq!(seen, self.len());
    }
}
