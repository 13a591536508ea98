//! What happens when, in virtual time. What is due at the same moment happens in the order in which it was planned.

use portolan_balance::proximity::Cell;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::rc::Rc;

use crate::world::EndId;

/// A measurement under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    /// The node that wants it, and the one that does it.
    pub(super) by: usize,
    pub(super) node: usize,
    pub(super) point: usize,
    pub(super) end: EndId,
    /// Packets sent, and the best time so far.
    pub(super) tried: u32,
    pub(super) best_us: Option<u32>,
}

/// Something that is to happen.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// A cache has nothing left and asks.
    Query { asker: u32 },
    /// A node publishes its table.
    Publish { node: usize },
    /// A node tells the others.
    Tell { node: usize },
    /// Claims arrive.
    Hear { node: usize, cells: Rc<Vec<Cell>> },
    /// A node is asked to measure.
    Asked { by: usize, node: usize, point: usize, end: EndId },
    /// A probe is to be sent.
    Send(Probe),
    /// Its fate is known.
    Sent(Probe),
    /// A peer says that a target was silent.
    Silent { node: usize, point: usize, end: EndId },
    /// States and loads are looked at.
    Stand,
    /// Probe everything: the next prefix of a point.
    Sweep { point: usize, next: usize },
}

struct Item {
    at_ms: u64,
    number: u64,
    what: What,
}

impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Item {}

impl PartialOrd for Item {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Item {
    fn cmp(&self, other: &Self) -> Ordering {
        // the heap gives the greatest first
        (other.at_ms, other.number).cmp(&(self.at_ms, self.number))
    }
}

/// The agenda.
#[derive(Default)]
pub(super) struct Agenda {
    heap: BinaryHeap<Item>,
    count: u64,
}

impl Agenda {
    pub(super) fn plan(&mut self, at_ms: u64, what: What) {
        self.count += 1;
        self.heap.push(Item { at_ms, number: self.count, what });
    }

    /// What is next, if it is due before `end_ms`.
    pub(super) fn next(&mut self, end_ms: u64) -> Option<(u64, What)> {
        if self.heap.peek()?.at_ms >= end_ms {
            return None;
        }
        self.heap.pop().map(|item| (item.at_ms, item.what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_in_order_of_time_then_of_planning() {
        let mut agenda = Agenda::default();
        for (at_ms, node) in [(30, 0), (10, 1), (30, 2), (20, 3), (10, 4)] {
            agenda.plan(at_ms, What::Publish { node });
        }
        let mut order = Vec::new();
        while let Some((_, What::Publish { node })) = agenda.next(30) {
            order.push(node);
        }
        assert_eq!(order, [1, 4, 3]);
    }
}
