//! What queries are to see of an entry: for each point what was measured, else what is to be expected.

use super::entries::Measured;
use super::{Entry, Table};
use crate::geo;
use crate::hash::mix;
use crate::proximity::coordinates::ENOUGH;
use crate::proximity::estimator::Estimator;
use crate::proximity::medians::Group;
use crate::proximity::shown::{Shown, Target, show};
use crate::proximity::{PointId, Prefix, Settings, Source};

/// Light in fibre goes this far and back in a millisecond: nothing is quicker.
const KM_A_MS: f64 = 100.0;
/// What is predicted beside something measured must look better by this to be as good: predictions are often wrong,
/// and the best of many is more often so than not.
const DOUBT_PERCENT: u32 = 20;
const DOUBT_US: u32 = 10_000;
/// A placed prefix whose measurements fit worse than this is a guess.
const FITS: f32 = 0.25;

/// The score of a round-trip time with hops and loss, in microseconds (PX1). What is the point's own, its cost and
/// its use, is added to whole columns.
fn score(settings: &Settings, rtt_us: f32, hops: u8, loss_permille: u16) -> u32 {
    let weights = &settings.weights;
    let added_ms = weights.hops * f32::from(hops) + weights.loss * f32::from(loss_permille) / 10.0;
    (weights.rtt * rtt_us + added_ms * 1000.0).clamp(0.0, 10_000_000.0) as u32
}

pub(super) fn score_of(settings: &Settings, estimator: &Estimator) -> Option<u32> {
    let rtt_us = estimator.value()?;
    Some(score(settings, rtt_us as f32, estimator.hops, estimator.loss_permille()))
}

impl Table {
    /// Judges one entry. True where something changed for queries.
    pub(super) fn judge(&mut self, number: u32, now_s: u32, is_window: bool) -> bool {
        let Some(entry) = self.entries.get_mut(number) else { return false };
        entry.is_dirty = false;
        let settings = self.settings;
        let live: Vec<(PointId, u32)> = entry
            .measured
            .iter()
            .filter(|it| it.estimator.is_live(now_s, &settings))
            .filter_map(|it| it.estimator.value().map(|rtt_us| (it.point, rtt_us)))
            .collect();
        let in_ms: Vec<(PointId, f32)> = live.iter().map(|(p, us)| (*p, *us as f32 / 1000.0)).collect();
        let by = live
            .iter()
            .fold(live.len() as u64, |by, (point, us)| mix(by, u64::from(point.0) << 32 | u64::from(*us)));
        if by != entry.placed_by {
            entry.placed_by = by;
            entry.position = self.space.place(&in_ms);
        }
        let is_anycast = self.is_anycast(&live);
        let Some(entry) = self.entries.get(number) else { return false };
        let around: Vec<&Group> = self.covers_around(&entry.prefix).collect();
        let target = |(point, _)| self.target(entry, point, &in_ms, &around, now_s);
        let targets: Vec<Option<Target>> = self.points.iter().map(target).collect();
        let Some(entry) = self.entries.get_mut(number) else { return false };
        let mut changed = entry.is_anycast != is_anycast;
        entry.is_anycast = is_anycast;
        let mut told = Vec::new();
        for ((shown, target), point) in entry.shown.iter_mut().zip(targets).zip((0..).map(PointId)) {
            let before_us = shown.map(|it| it.us);
            if show(shown, target, is_window, now_s, &settings) {
                changed = true;
                self.counters.shown += 1;
                told.push(point);
                if let Ok(at) = entry.measured.binary_search_by_key(&point, |it| it.point)
                    && let Some(us) = entry.measured[at].estimator.value()
                    && (before_us != shown.map(|it| it.us) || entry.measured[at].steady_us == 0)
                {
                    entry.measured[at].steady_us = us;
                }
            }
        }
        // others may be known around it by the next window, or what is shown waits for a second one
        entry.is_pending = live.len() < ENOUGH || entry.shown.iter().flatten().any(Shown::is_waiting);
        // a message grows old at half of the life of what it says
        let old = entry.measured.iter().filter(|it| {
            let is_old = now_s.saturating_sub(it.told_s) >= it.estimator.ttl_s(&settings) / 2;
            it.told_s != 0 && is_old && it.estimator.seen_s > it.told_s
        });
        told.extend(old.map(|it| it.point));
        for point in told {
            self.tell(number, point);
        }
        changed
    }

    /// Whether one place cannot be so near to two points that are so far apart: an address at many places.
    fn is_anycast(&self, live: &[(PointId, u32)]) -> bool {
        let place = |id: PointId| self.points.get(id).and_then(|point| point.place);
        live.iter().enumerate().any(|(i, (a, a_us))| {
            live.iter().skip(i + 1).any(|(b, b_us)| match (place(*a), place(*b)) {
                (Some(from), Some(to)) => {
                    let most_km = (f64::from(*a_us) + f64::from(*b_us)) / 1000.0 * KM_A_MS;
                    geo::distance_km(from, to) > most_km
                }
                (None, _) | (_, None) => false,
            })
        })
    }

    /// X: measured, the site's or links' own, coordinates, those around, the operator's, a guess.
    fn target(
        &self,
        entry: &Entry,
        point: PointId,
        live: &[(PointId, f32)],
        around: &[&Group],
        now_s: u32,
    ) -> Option<Target> {
        if let Some(target) = self.measured(entry, point, now_s) {
            return Some(target);
        }
        let beside = self.beside.get(usize::from(point.0)).into_iter().flatten();
        let beside = beside.filter_map(|other| self.measured(entry, *other, now_s));
        if let Some(target) = beside.min_by_key(|target| target.us) {
            return Some(target);
        }
        let doubt = |us: u32| if live.is_empty() { 0 } else { (us / 100 * DOUBT_PERCENT).max(DOUBT_US) };
        let predicted = |us: u32, source: Source| Target {
            us: us.saturating_add(doubt(us)),
            source,
            is_peers: false,
            is_weak: false,
            is_settling: false,
            seen_s: now_s,
        };
        let by_coordinates = entry.position.as_ref().and_then(|position| {
            let ms = self.space.predict_ms(position, point)?;
            let target = predicted(score(&self.settings, ms * 1000.0, 0, 0), Source::Coordinates);
            Some(Target { is_weak: position.error > FITS, ..target })
        });
        if let Some(target) = by_coordinates.filter(|target| !target.is_weak) {
            return Some(target);
        }
        let cover = around.iter().find_map(|group| group.get(point));
        if let Some(us) = cover {
            return Some(predicted(us, Source::Covering));
        }
        let operator = self.operators.get(&entry.operators).and_then(|group| group.get(point));
        if let Some(us) = operator {
            return Some(predicted(us, Source::Operator));
        }
        by_coordinates.or_else(|| {
            let ms = self.guess_ms(point, live)?;
            let target = predicted(score(&self.settings, ms * 1000.0, 0, 0), Source::Coordinates);
            Some(Target { is_weak: true, ..target })
        })
    }

    /// The score that groups are made of: as shown, so that they are the same at all who know the same.
    pub(super) fn steady_score(&self, entry: &Entry, measured: &Measured) -> Option<u32> {
        let shown = entry.shown.get(usize::from(measured.point.0)).copied().flatten();
        let now = score_of(&self.settings, &measured.estimator)?;
        Some(shown.filter(|shown| shown.source.is_measured()).map_or(now, |shown| shown.us))
    }

    fn measured(&self, entry: &Entry, point: PointId, now_s: u32) -> Option<Target> {
        let estimator = &entry.of(point)?.estimator;
        Some(Target {
            us: score_of(&self.settings, estimator).filter(|_| estimator.is_live(now_s, &self.settings))?,
            source: estimator.source,
            is_peers: estimator.is_peers,
            is_weak: false,
            is_settling: estimator.is_settling(),
            seen_s: estimator.seen_s,
        })
    }

    /// The groups around a prefix, the nearest first.
    pub(super) fn covers_around(&self, prefix: &Prefix) -> impl Iterator<Item = &Group> {
        [self.block(*prefix), self.wide(*prefix)].into_iter().filter_map(|around| self.covers.get(&around))
    }

    /// The prefix of the second, wider group: /16 and /32 by default.
    pub(super) fn wide(&self, prefix: Prefix) -> Prefix {
        let (base, bits) = if prefix.is_v6() { (self.settings.v6, 16) } else { (self.settings.v4, 8) };
        prefix.cut(base.saturating_sub(bits))
    }

    /// With too few measurements for coordinates: as far as across a corner, for nobody knows the direction.
    fn guess_ms(&self, point: PointId, live: &[(PointId, f32)]) -> Option<f32> {
        if live.is_empty() || live.len() >= ENOUGH {
            return None;
        }
        let across = |(from, rtt): &(PointId, f32)| self.space.between_ms(*from, point).hypot(*rtt);
        Some(live.iter().map(across).sum::<f32>() / live.len() as f32)
    }

    /// What the points add: cost, and how much of the link is in use (PX1). True where it changed.
    pub(super) fn judge_offsets(&mut self, now_s: u32, is_window: bool) -> bool {
        let settings = self.settings;
        let mut changed = false;
        for ((point, used), shown) in self.points.iter().zip(&self.used).zip(&mut self.offsets) {
            let cost = if point.1.cost.is_finite() { point.1.cost.max(0.0) } else { 0.0 };
            let ms = settings.weights.cost * cost + settings.weights.bandwidth * used;
            let target = Target {
                us: (ms * 1000.0).clamp(0.0, 10_000_000.0) as u32,
                source: Source::Icmp,
                is_peers: false,
                is_weak: false,
                is_settling: false,
                seen_s: now_s,
            };
            changed |= show(shown, Some(target), is_window, now_s, &settings);
        }
        changed
    }

    pub(super) fn offset_units(shown: Option<&Shown>) -> u16 {
        // an offset never lifts a score over the mark of what is outranked
        shown.map_or(0, |shown| shown.units().min(0x1fff))
    }
}
