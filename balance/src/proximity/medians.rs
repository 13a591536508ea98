//! What the measured prefixes of a group have in common: those around a prefix, or of one operator.
//!
//! A group's row stands for its members that were never measured only where those that were agree: where the point
//! that is best by the medians is good for most of them. An operator whose clients are all over the world has no
//! row, and the next steps decide.

use super::{PointId, Settings};

/// Another point takes a group over where it is better by this, or by a fifth.
const MUCH_US: u32 = 10_000;
/// Most members looked at.
const MEMBERS_MAX: usize = 512;
/// Share of the members that must agree, in percent.
const AGREE_PERCENT: usize = 70;

/// The measured scores of one member, in microseconds, by point.
pub(super) type Member = Vec<(PointId, u32)>;

/// What a group comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// Median score by point, ascending by point.
    pub(super) medians: Vec<(PointId, u32)>,
    /// How many members it is made of.
    pub(super) members: u32,
    /// Share of them that agree, in percent.
    pub(super) agree_percent: u8,
}

impl Group {
    /// Makes a row of a group with at least `fewest` members that were measured from two points or more: of others
    /// it is known only that somebody sent them there.
    pub(super) fn of(members: &[Member], fewest: usize, settings: &Settings) -> Option<Self> {
        let usable = || members.iter().filter(|member| member.len() >= 2);
        let count = usable().count();
        if count < fewest.max(1) {
            return None;
        }
        // at even distances, so that one corner of a big group does not speak for all
        let stride = count.div_ceil(MEMBERS_MAX);
        let members: Vec<&Member> = usable().step_by(stride).collect();
        let mut scores: Vec<(PointId, u32)> = members.iter().flat_map(|it| it.iter().copied()).collect();
        scores.sort_unstable();
        let fewest = fewest.min(members.len());
        let medians: Vec<(PointId, u32)> = scores
            .chunk_by(|a, b| a.0 == b.0)
            .filter(|of_point| of_point.len() >= fewest)
            .filter_map(|of_point| of_point.get(of_point.len() / 2).copied())
            .collect();
        let mut compared = 0;
        let mut agree = 0;
        for member in &members {
            let of = |point: PointId| member.iter().find(|it| it.0 == point).map(|it| it.1);
            let shared = || medians.iter().filter_map(|(p, median)| of(*p).map(|own| (*median, own)));
            if shared().count() < 2 {
                continue;
            }
            compared += 1;
            // the worst that the medians may lead it to
            let least = shared().map(|it| it.0).min().unwrap_or(0);
            let near = shared().filter(|it| settings.is_equal(least, it.0));
            let by_median = near.map(|it| it.1).max().unwrap_or(u32::MAX);
            let best = shared().map(|(_, own)| own).min().unwrap_or(0);
            agree += usize::from(settings.is_equal(best, by_median));
        }
        let is_one = compared >= fewest && agree * 100 >= compared * AGREE_PERCENT;
        is_one.then(|| Self {
            medians,
            members: count as u32,
            agree_percent: (agree * 100 / compared.max(1)) as u8,
        })
    }

    /// The same, with the medians of before where those are equal: what stands for many must not waver.
    pub(super) fn steadied(mut self, before: Option<&Self>, settings: &Settings) -> Self {
        let Some(before) = before else { return self };
        for (point, us) in &mut self.medians {
            if let Some(old) = before.get(*point)
                && settings.is_equal(old, *us)
            {
                *us = old;
            }
        }
        self.keep_leader(before, settings);
        self
    }

    /// Lets the point that was best go on while no other is better by much: what stands for many moves many.
    fn keep_leader(&mut self, before: &Self, settings: &Settings) {
        let Some((leader, was_us)) = before.medians.iter().min_by_key(|it| (it.1, it.0)).copied() else {
            return;
        };
        let Some(leader_us) = self.get(leader) else { return };
        let best_us = self.medians.iter().map(|it| it.1).min().unwrap_or(leader_us);
        if leader_us > best_us.saturating_add((best_us / 5).max(MUCH_US)) {
            return;
        }
        let band_us = settings.band_us.max((leader_us as f32 * settings.band_percent / 100.0) as u32);
        for (point, us) in &mut self.medians {
            // those that were as good before are no news
            let was_equal = before.get(*point).is_some_and(|old| settings.is_equal(was_us, old));
            if *point != leader && !was_equal {
                *us = (*us).max(leader_us.saturating_add(band_us + 1_000));
            }
        }
    }

    /// The median from a point.
    pub(super) fn get(&self, point: PointId) -> Option<u32> {
        self.medians
            .binary_search_by_key(&point, |it| it.0)
            .ok()
            .and_then(|i| self.medians.get(i))
            .map(|it| it.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(scores: &[u32]) -> Member {
        scores.iter().enumerate().map(|(i, ms)| (PointId(i as u16), ms * 1000)).collect()
    }

    #[test]
    fn members_that_agree_make_a_row() {
        let settings = Settings::default();
        let alike = [member(&[20, 80]), member(&[25, 90]), member(&[22, 70]), member(&[20])];
        let group = Group::of(&alike, 2, &settings).unwrap();
        assert_eq!((group.get(PointId(0)), group.get(PointId(1))), (Some(22_000), Some(80_000)));
        assert_eq!((group.members, group.agree_percent, group.get(PointId(9))), (3, 100, None));
        assert_eq!(Group::of(&alike, 4, &settings), None, "too few");
        // half of them are elsewhere
        let apart = [member(&[20, 80]), member(&[80, 20]), member(&[20, 90]), member(&[90, 20])];
        assert_eq!(Group::of(&apart, 2, &settings), None);
        assert_eq!(Group::of(&[], 0, &settings), None);
        let single = [member(&[20]), member(&[30])];
        assert_eq!(Group::of(&single, 2, &settings), None, "only where they were sent");
    }
}
