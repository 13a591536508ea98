//! What peers measured, what they are told, and what a file remembers.

use super::{Table, stamp};
use crate::proximity::estimator::Estimator;
use crate::proximity::{Cell, PointId, Prefix};

impl Table {
    /// Takes what a peer measured. What this node measured itself goes before it. False where nothing changed.
    ///
    /// A peer can fill what room is left, and never takes an entry's place (P11).
    pub fn merge_peer(&mut self, now_ms: u64, cell: Cell) -> bool {
        self.take(now_ms, 0, cell, true)
    }

    /// Puts back a cell that [`Self::entries`] gave before, `elapsed_s` seconds ago. False where it is too old.
    pub fn restore(&mut self, now_ms: u64, elapsed_s: u32, cell: Cell) -> bool {
        self.take(now_ms, elapsed_s, cell, cell.is_peers)
    }

    fn take(&mut self, now_ms: u64, elapsed_s: u32, cell: Cell, is_peers: bool) -> bool {
        let now_s = stamp(now_ms);
        let age_s = cell.age_s.saturating_add(elapsed_s);
        let prefix = self.base(cell.prefix);
        let mut estimator =
            Estimator::with(cell.rtt_us, cell.samples, cell.source, now_s.saturating_sub(age_s));
        estimator.hops = cell.hops;
        estimator.is_peers = is_peers;
        estimator.set_loss_permille(cell.loss_permille);
        if self.points.get(cell.point).is_none()
            || !cell.source.is_measured()
            || self.is_excluded(&prefix)
            || !estimator.is_live(now_s, &self.settings)
            || !self.is_in_block(&prefix)
        {
            self.counters.refused += u64::from(is_peers);
            return false;
        }
        // the entry around it, or those within it where the peer merged what is apart here
        let mut numbers: Vec<u32> = self.entries.around(&prefix).into_iter().collect();
        if numbers.is_empty() {
            numbers.extend(self.entries.within(prefix).map(|(_, number)| number));
        }
        if numbers.is_empty() {
            if is_peers && self.entries.len() >= self.settings.entries {
                self.counters.peers_dropped += 1;
                return false;
            }
            numbers.push(self.entry_for(prefix, now_s.saturating_sub(age_s)));
        }
        let mut is_changed = false;
        for number in numbers {
            is_changed |= self.set(number, cell.point, &estimator, now_s);
        }
        self.counters.from_peers += u64::from(is_changed && is_peers);
        is_changed
    }

    fn set(&mut self, number: u32, point: PointId, estimator: &Estimator, now_s: u32) -> bool {
        let settings = self.settings;
        let Some(entry) = self.entries.get_mut(number) else { return false };
        let measured = entry.of_mut(point);
        let own = &measured.estimator;
        let is_live = own.is_live(now_s, &settings);
        // own facts are never overwritten by what others say; what is older says nothing new
        if is_live && ((estimator.is_peers && !own.is_peers) || own.seen_s > estimator.seen_s) {
            return false;
        }
        let is_changed = !is_live || own.value() != estimator.value() || own.seen_s != estimator.seen_s;
        self.news += u64::from(!is_live);
        measured.estimator = *estimator;
        entry.silent = 0;
        if is_changed {
            self.mark(number);
        }
        is_changed
    }

    /// Own cells that peers are to be told of, at most `most`: those whose shown score changed, and those whose last
    /// message grows old (cases G15, P10).
    pub fn changed(&mut self, now_ms: u64, most: usize) -> Vec<Cell> {
        let now_s = stamp(now_ms);
        let mut cells = Vec::new();
        while cells.len() < most
            && let Some((prefix, point)) = self.next_to_tell()
        {
            let Some(number) = self.entries.around(&prefix) else { continue };
            let Some(entry) = self.entries.get_mut(number) else { continue };
            if entry.of(point).is_none() {
                continue;
            }
            let measured = entry.of_mut(point);
            measured.is_queued = false;
            measured.told_s = now_s;
            let steady_us = measured.steady_us;
            let Some(entry) = self.entries.get(number) else { continue };
            let cell = self.cells(entry, now_s).find(|cell| cell.point == point && !cell.is_peers);
            // what is shown, so that all show the same
            let rtt_us = |cell: &Cell| if steady_us == 0 { cell.rtt_us } else { steady_us };
            cells.extend(cell.map(|cell| Cell { rtt_us: rtt_us(&cell), ..cell }));
        }
        cells
    }

    /// In turn, so that none waits for ever where more come than are told.
    fn next_to_tell(&mut self) -> Option<(Prefix, PointId)> {
        use std::ops::Bound::{Excluded, Unbounded};
        let after = self.told.and_then(|told| self.telling.range((Excluded(told), Unbounded)).next());
        let next = after.or_else(|| self.telling.first()).copied()?;
        self.telling.remove(&next);
        self.told = Some(next);
        Some(next)
    }

    /// Every own cell, for a peer that has just come.
    pub fn own_cells(&self, now_ms: u64) -> impl Iterator<Item = Cell> {
        self.entries(now_ms).filter(|cell| !cell.is_peers)
    }

    /// Queues an own cell to be told; nothing is queued twice.
    pub(super) fn tell(&mut self, number: u32, point: PointId) {
        let Some(entry) = self.entries.get_mut(number) else { return };
        let prefix: Prefix = entry.prefix;
        if let Ok(at) = entry.measured.binary_search_by_key(&point, |it| it.point) {
            let measured = &mut entry.measured[at];
            if measured.estimator.samples > 0 && !measured.estimator.is_peers && !measured.is_queued {
                measured.is_queued = true;
                self.telling.insert((prefix, point));
            }
        }
    }
}
