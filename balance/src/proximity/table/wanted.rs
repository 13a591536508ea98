//! Which prefixes deserve measuring, and from where (X, PX4).
//!
//! A probe must be worth its while: they are few (a share of the queries), and most clients are like their neighbours.
//! 1. From where the client is expected to be nearest, until that is measured: what disappoints is followed by the next.
//! 2. Where nothing is expected: from here, then from points far apart, which tell where the client is.
//! 3. With what is left over: from those that could be better.
//!
//! A prefix that has never answered is asked from one point at a time, and less and less (case G14).

use super::turn::SILENCE_S;
use super::{Entry, Table, Wanted, stamp};
use crate::proximity::coordinates::ENOUGH;
use crate::proximity::{PointId, Prefix};
use std::net::IpAddr;

/// Points asked for at once.
const AT_ONCE: usize = 3;
/// Silent tries before it is asked less; one where it never answered.
const SILENT_TRIES: u8 = 3;
/// How long an answer may take: probes, and claims of peers.
const ON_ITS_WAY_S: u32 = 10;
/// A client that is so near is well served, whatever else there is.
const NEAR_US: u32 = 25_000;
/// Added to what a prediction may be wrong by.
const NOISE_US: u32 = 10_000;
/// Probes before the first query has paid for any.
const FIRST: u64 = 5;
/// Most probes that may be saved up.
const SAVED: u64 = 200;

/// Probes that queries have brought in, in 1/1000.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// None until the table is told of queries: then there is no such limit.
    left: Option<u64>,
}

impl Budget {
    pub(super) const UNLIMITED: Self = Self { left: None };

    fn earn(&mut self, queries: u64, permille: u16) {
        let left = self.left.unwrap_or(FIRST * 1000);
        self.left = Some(left.saturating_add(queries.saturating_mul(u64::from(permille))).min(SAVED * 1000));
    }

    /// Takes up to so many probes. What is not pressing leaves half of what can be saved up.
    fn take(&mut self, most: usize, is_pressing: bool) -> usize {
        let Some(left) = &mut self.left else { return most };
        let kept = if is_pressing { 0 } else { SAVED * 1000 / 2 };
        let taken = (left.saturating_sub(kept) / 1000).min(most as u64);
        *left -= taken * 1000;
        taken as usize
    }
}

/// What would be worth knowing.
#[derive(Debug)]
struct Useful {
    points: Vec<PointId>,
    /// Whether the client may be badly served until then.
    is_pressing: bool,
}

impl Useful {
    const NOTHING: Self = Self { points: Vec::new(), is_pressing: false };
}

impl Table {
    /// Counts queries: each brings in its share of a probe ([`Settings::probe_permille`]).
    ///
    /// [`Settings::probe_permille`]: crate::proximity::Settings::probe_permille
    pub fn queries(&mut self, count: u64) {
        self.budget.earn(count, self.settings.probe_permille);
    }

    /// A client whose prefix is known was seen: its entry does not give way to others so soon.
    pub fn touch(&mut self, now_ms: u64, address: IpAddr) {
        let prefix = self.base(Prefix::new(address, u8::MAX));
        if let Some(number) = self.entries.around(&prefix) {
            self.entries.touch(number, stamp(now_ms));
        }
    }

    /// Whether the prefix of a client deserves measuring, and from where. Asked for a share of the queries, it also
    /// keeps the entry from giving way.
    pub fn wanted(&mut self, now_ms: u64, address: IpAddr) -> Option<Wanted> {
        let now_s = stamp(now_ms);
        let prefix = self.base(Prefix::new(address, u8::MAX));
        if self.is_excluded(&prefix) || self.points.is_empty() {
            return None;
        }
        let number = self.entry_for(prefix, now_s);
        let entry = self.entries.get(number)?;
        if entry.is_anycast || self.is_silent(entry, now_s) {
            return None;
        }
        let Useful { mut points, is_pressing } = self.useful(entry, now_s);
        let prefix = entry.prefix;
        points.truncate(self.budget.take(points.len(), is_pressing));
        if points.is_empty() {
            return None;
        }
        let entry = self.entries.get_mut(number)?;
        for point in &points {
            entry.of_mut(*point).asked_s = now_s;
        }
        Some(Wanted { prefix, points })
    }

    /// Whether it was silent so often that it is left alone for now: twice as long each time, up to a day.
    fn is_silent(&self, entry: &Entry, now_s: u32) -> bool {
        let tries = if has_answered(entry) { SILENT_TRIES } else { 1 };
        let Some(more) = entry.silent.checked_sub(tries) else { return false };
        let doubled = (self.settings.probe_ms / 1000) << (u32::from(more) + 1).min(17);
        let pause_s = doubled.min(u64::from(SILENCE_S)) as u32;
        now_s.saturating_sub(entry.silent_s) < pause_s
    }

    fn useful(&self, entry: &Entry, now_s: u32) -> Useful {
        let probe_s = (self.settings.probe_ms / 1000) as u32;
        let is_live =
            |point: PointId| entry.of(point).is_some_and(|it| it.estimator.is_live(now_s, &self.settings));
        let is_fresh = |point: PointId| {
            is_live(point) && entry.of(point).is_some_and(|it| !it.estimator.is_aging(now_s, &self.settings))
        };
        let was_asked = |point: PointId, within_s: u32| {
            entry.of(point).is_some_and(|it| it.asked_s != 0 && now_s.saturating_sub(it.asked_s) < within_s)
        };
        let is_due = |point: &PointId| !is_fresh(*point) && !was_asked(*point, probe_s);
        let all = || self.points.iter().map(|(point, _)| point);
        let is_on_its_way = |point: &PointId| !is_fresh(*point) && was_asked(*point, ON_ITS_WAY_S);
        if all().any(|point| is_on_its_way(&point)) {
            return Useful::NOTHING;
        }
        let known = all().filter(|point| is_live(*point)).count();
        let mut by_us: Vec<(u32, PointId)> =
            all().filter_map(|point| Some((self.expected(entry, point, known)?, point))).collect();
        by_us.sort_unstable();
        let landmarks = || {
            let most = if has_answered(entry) { ENOUGH.saturating_sub(known).min(AT_ONCE) } else { 1 };
            let points = self.landmarks(entry).into_iter().filter(is_due).take(most).collect();
            Useful { points, is_pressing: true }
        };
        let Some((best_us, best)) = by_us.first().copied() else { return landmarks() };
        if !is_fresh(best) {
            // the next one, where this one cannot be had
            let due = by_us.iter().find(|(_, point)| is_fresh(*point) || is_due(point));
            let points: Vec<PointId> = due.map(|it| it.1).filter(is_due).into_iter().collect();
            return Useful { points, is_pressing: known > 0 };
        }
        if best_us > NEAR_US && known < ENOUGH.min(self.points.len()) {
            return landmarks();
        }
        // the worse the best one is, the less predictions that put others behind it are believed
        let shown = |point: PointId| entry.shown.get(usize::from(point.0)).copied().flatten();
        let sure = all().filter(|point| shown(*point).is_some_and(|it| !it.is_weak)).count();
        // too few to compare, so that queries do not go by them: see `choose`
        let is_few = best_us > NEAR_US && sure * 2 < self.points.len();
        let limit = if is_few { u32::MAX } else { best_us.saturating_mul(2).saturating_add(NOISE_US) };
        let others = by_us.iter().filter(|(us, point)| *us <= limit && is_due(point));
        Useful { points: others.map(|it| it.1).take(AT_ONCE).collect(), is_pressing: false }
    }

    /// The score to expect: measured, or of those around, or of the operator; a guess only once there is enough to go
    /// by.
    fn expected(&self, entry: &Entry, point: PointId, known: usize) -> Option<u32> {
        let shown = entry.shown.get(usize::from(point.0)).copied().flatten();
        let around = || self.covers_around(&entry.prefix).find_map(|group| group.get(point));
        let operator = || self.operators.get(&entry.operators).and_then(|group| group.get(point));
        let guess = || shown.filter(|_| known >= ENOUGH);
        let sure = shown.filter(|shown| !shown.is_weak).map(|shown| shown.us);
        sure.or_else(around).or_else(operator).or_else(|| guess().map(|shown| shown.us))
    }

    /// Points to begin with: of this node, then each time the one farthest from those before.
    fn landmarks(&self, entry: &Entry) -> Vec<PointId> {
        let mut chosen: Vec<PointId> = entry.measured.iter().map(|it| it.point).collect();
        let before = chosen.len();
        let all = || self.points.iter().map(|(id, _)| id);
        if before == 0 {
            // resolvers mostly ask the name server that is near to them
            chosen.extend(self.points.iter().find(|(_, point)| point.is_own).map(|(id, _)| id));
        }
        while chosen.len() < self.points.len().min(before + AT_ONCE + 1) {
            let apart = |point: &PointId| {
                let each = chosen.iter().map(|other| self.space.between_ms(*point, *other));
                each.fold(f32::MAX, f32::min)
            };
            let rest = all().filter(|point| !chosen.contains(point));
            let Some(next) = rest.max_by(|a, b| apart(a).total_cmp(&apart(b)).then(b.cmp(a))) else { break };
            chosen.push(next);
        }
        // one that was measured before may be due again
        chosen
    }
}

/// Whether it ever answered a probe, as far as is remembered.
fn has_answered(entry: &Entry) -> bool {
    entry.measured.iter().any(|it| it.estimator.samples > 0 && !it.estimator.source.is_passive())
}
