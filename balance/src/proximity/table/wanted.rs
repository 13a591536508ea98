//! Which prefixes deserve measuring, and from where (X, PX4).
//!
//! First from points far apart, which tell where the client is; then from those that could be the best by what the
//! first ones said. A prefix that never answers is asked less and less (case G14).

use super::turn::SILENCE_S;
use super::{Entry, Table, Wanted, stamp};
use crate::proximity::coordinates::ENOUGH;
use crate::proximity::{PointId, Prefix};
use std::net::IpAddr;

/// Points asked for at once.
const AT_ONCE: usize = 3;
/// Silent tries before it is asked less.
const SILENT_TRIES: u8 = 3;

impl Table {
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
        let points = self.useful(entry, now_s);
        if points.is_empty() {
            return None;
        }
        let prefix = entry.prefix;
        let entry = self.entries.get_mut(number)?;
        for point in &points {
            entry.of_mut(*point).asked_s = now_s;
        }
        Some(Wanted { prefix, points })
    }

    /// Whether it was silent so often that it is left alone for now: twice as long each time, up to a day.
    fn is_silent(&self, entry: &Entry, now_s: u32) -> bool {
        let Some(more) = entry.silent.checked_sub(SILENT_TRIES) else { return false };
        let doubled = (self.settings.probe_ms / 1000) << (u32::from(more) + 1).min(17);
        let pause_s = doubled.min(u64::from(SILENCE_S)) as u32;
        now_s.saturating_sub(entry.silent_s) < pause_s
    }

    fn useful(&self, entry: &Entry, now_s: u32) -> Vec<PointId> {
        let probe_s = (self.settings.probe_ms / 1000) as u32;
        let is_due = |point: PointId| {
            entry.of(point).is_none_or(|it| {
                let is_old = !it.estimator.is_live(now_s, &self.settings)
                    || it.estimator.is_aging(now_s, &self.settings);
                is_old && (it.asked_s == 0 || now_s.saturating_sub(it.asked_s) >= probe_s)
            })
        };
        let known = entry.measured.iter().filter(|it| it.estimator.is_live(now_s, &self.settings)).count();
        let asked =
            entry.measured.iter().filter(|it| it.asked_s != 0 && now_s.saturating_sub(it.asked_s) < probe_s);
        let expected = |point: PointId| entry.shown.get(usize::from(point.0)).copied().flatten();
        let mut points: Vec<(u32, PointId)> = Vec::new();
        if known < ENOUGH.min(self.points.len()) {
            // those on their way count, so that the second ask waits for the first's answers
            let missing = ENOUGH.saturating_sub(known.max(asked.count()));
            let landmarks = self.landmarks(entry).into_iter().filter(|point| is_due(*point));
            return landmarks.take(missing).collect();
        }
        let all = self.points.iter().filter_map(|(id, _)| expected(id));
        let limit = all.map(|it| it.us).min().unwrap_or(0).saturating_add(self.settings.explore_limit_us);
        for (id, _) in self.points.iter().filter(|(id, _)| is_due(*id)) {
            match expected(id) {
                Some(shown) if shown.us <= limit => points.push((shown.us, id)),
                Some(_) => {}
                None => points.push((limit, id)),
            }
        }
        points.sort_unstable();
        points.into_iter().map(|(_, id)| id).take(AT_ONCE).collect()
    }

    /// Points to begin with: the best by what is expected, then each time the one farthest from those before.
    fn landmarks(&self, entry: &Entry) -> Vec<PointId> {
        let all: Vec<PointId> = self.points.iter().map(|(id, _)| id).collect();
        let expected = |point: &PointId| {
            entry.shown.get(usize::from(point.0)).copied().flatten().map_or(u32::MAX, |it| it.us)
        };
        let mut chosen: Vec<PointId> = entry.measured.iter().map(|it| it.point).collect();
        let before = chosen.len();
        chosen.extend(all.iter().min_by_key(|point| (expected(point), **point)).filter(|_| before == 0));
        while chosen.len() < all.len().min(before + AT_ONCE + 1) {
            let apart = |point: &PointId| {
                let each = chosen.iter().map(|other| self.space.between_ms(*point, *other));
                each.fold(f32::MAX, f32::min)
            };
            let rest = all.iter().filter(|point| !chosen.contains(point));
            let Some(next) = rest.max_by(|a, b| apart(a).total_cmp(&apart(b)).then(b.cmp(a))) else { break };
            chosen.push(*next);
        }
        // one that was measured before may be due again
        chosen
    }
}
