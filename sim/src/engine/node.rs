//! What one site's node knows and did: its table, and the limits on its probes (X).

use super::Options;
use crate::world::{EndId, World};
use portolan_balance::proximity::{Ranks, Table};
use std::sync::Arc;

/// A source that asked so often has earned a probe (X, peers' part).
const EARNED: u8 = 3;
/// Most wishes that wait.
const QUEUE: u64 = 4_096;
/// Longest time between probes of a silent target.
const LONGEST_MS: u64 = 86_400_000;
/// Silent rounds before a target is left alone for longer.
const SILENT_ROUNDS: u8 = 3;

/// How a node stands with an end.
#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    /// Queries seen, up to those that matter.
    queries: u8,
    silent: u8,
    /// When it was last solicited, and last probed, in seconds and one more; 0 is never.
    solicited_s: u32,
    probed_s: u32,
}

/// A node.
pub(super) struct Node {
    pub(super) table: Table,
    pub(super) ranks: Arc<Ranks>,
    ends: Vec<Standing>,
    points: usize,
    /// By end and point: when it was last probed.
    queries: u64,
    solicited: u64,
    next_ms: u64,
    pub(super) in_flight: usize,
    /// Probes refused for want of room, time or merit.
    pub(super) refused: u64,
}

impl Node {
    pub(super) fn new(world: &World, table: Table) -> Self {
        Self {
            table,
            ranks: Arc::new(Ranks::empty()),
            ends: vec![Standing::default(); world.ends.len() * world.points.len().max(1)],
            points: world.points.len().max(1),
            queries: 0,
            solicited: 0,
            next_ms: 0,
            in_flight: 0,
            refused: 0,
        }
    }

    fn at(&self, end: EndId, point: usize) -> usize {
        end.0 as usize * self.points + point
    }

    /// Counts a query; the end's own standing is kept with its first point.
    pub(super) fn see(&mut self, source: EndId) {
        self.queries += 1;
        let at = self.at(source, 0);
        if let Some(it) = self.ends.get_mut(at) {
            it.queries = it.queries.saturating_add(1);
        }
    }

    pub(super) fn has_earned(&self, source: EndId) -> bool {
        self.ends.get(self.at(source, 0)).is_some_and(|it| it.queries >= EARNED)
    }

    /// Whether this query may be answered truncated (X 3).
    pub(super) fn may_solicit(&mut self, now_ms: u64, source: EndId, permille: u16) -> bool {
        let now_s = (now_ms / 1000) as u32 + 1;
        let at = self.at(source, 0);
        let Some(it) = self.ends.get_mut(at) else { return false };
        let is_due = it.solicited_s == 0 || now_s - it.solicited_s >= 600;
        if !is_due || (self.solicited + 1) * 1000 > self.queries * u64::from(permille) {
            return false;
        }
        it.solicited_s = now_s;
        self.solicited += 1;
        true
    }

    /// Takes a wish to probe; when the probe may be sent.
    pub(super) fn admit(&mut self, now_ms: u64, end: EndId, point: usize, options: &Options) -> Option<u64> {
        let interval_ms = options.proximity.probe_ms;
        let at = self.at(end, point);
        let waiting_ms = self.next_ms.saturating_sub(now_ms);
        let is_full = waiting_ms * u64::from(options.probes_per_s) / 1000 > QUEUE;
        let now_s = (now_ms / 1000) as u32 + 1;
        let it = self.ends.get_mut(at)?;
        let more = u32::from(it.silent.saturating_sub(SILENT_ROUNDS - 1)).min(16);
        let pause_ms = (interval_ms << more).min(LONGEST_MS);
        let is_due = it.probed_s == 0 || u64::from(now_s - it.probed_s) * 1000 >= pause_ms;
        if !is_due || is_full {
            self.refused += 1;
            return None;
        }
        it.probed_s = now_s;
        Some(self.slot(now_ms, options))
    }

    /// When the next packet may be sent.
    pub(super) fn slot(&mut self, now_ms: u64, options: &Options) -> u64 {
        let at_ms = self.next_ms.max(now_ms);
        self.next_ms = at_ms + 1000 / u64::from(options.probes_per_s.clamp(1, 1000));
        at_ms
    }

    pub(super) fn note(&mut self, end: EndId, point: usize, has_answered: bool) {
        let at = self.at(end, point);
        if let Some(it) = self.ends.get_mut(at) {
            it.silent = if has_answered { 0 } else { it.silent.saturating_add(1) };
        }
    }
}
