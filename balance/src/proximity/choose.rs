//! The step: candidates near the best one stay, the others go.
//!
//! What decides, in this order:
//! 1. No row, or one that is not to be used: the step falls through.
//! 2. The best score among the candidates left, and the band around it: who is within stays (case G15).
//! 3. A candidate without a score goes, as long as the others are a comparison: at least half of the points have a
//!    score, or the best is near by itself. Otherwise the step falls through: a few stray measurements from far away
//!    must not draw a client there.
//! 4. Now and then, by the dice, a candidate that was not seen for long is tried instead, if it is not expected to
//!    be much worse: measurements would else exist only for what is chosen anyway.

use super::ranks::{self, Head, OUTRANKED, UNIT_US};
use super::{PointId, Prefix, Score, Settings};
use crate::hash::mix;
use crate::set::{CandidateId, CandidateSet};
use crate::trace::By;

/// A best score below this is good enough to go by, whatever else is unknown: 25 ms.
const NEAR: u32 = 25_000 / UNIT_US;

/// How scores are compared, from [`Settings`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// Share of the best score, in 1/1000.
    pub permille: u32,
    /// Least width.
    pub us: u32,
    /// Share of decisions that try another candidate.
    pub explore_permille: u16,
    /// How much worse that may be.
    pub explore_limit_us: u32,
}

impl Default for Band {
    fn default() -> Self {
        Self::of(&Settings::default())
    }
}

impl Band {
    /// The band that settings say.
    #[must_use]
    pub fn of(settings: &Settings) -> Self {
        let settings = settings.clamped();
        Self {
            permille: (settings.band_percent * 10.0).round() as u32,
            us: settings.band_us,
            explore_permille: settings.explore_permille,
            explore_limit_us: settings.explore_limit_us,
        }
    }

    /// The greatest score, in units, that equals this one.
    #[inline]
    fn limit(&self, best: u32) -> u32 {
        best + (best * self.permille / 1000).max(self.us / UNIT_US)
    }
}

/// What the step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// These are within the band.
    Kept(CandidateSet),
    /// One of these is tried instead.
    Explored(CandidateSet),
    /// Nothing to go by.
    Missed(Missed),
}

/// Why the step has nothing to go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// No row covers the client.
    NoRow,
    /// The client is not to be ranked.
    Skipped,
    /// No candidate has a score.
    NoScore,
    /// Too few have one to compare.
    TooFew,
}

/// The candidates at each point.
pub type MembersAt = [(PointId, CandidateSet)];

/// Lists candidates by point, for [`crate::Step::Proximity`], from each candidate's point.
#[must_use]
pub fn members_at(
    points: impl IntoIterator<Item = (CandidateId, Option<PointId>)>,
) -> Vec<(PointId, CandidateSet)> {
    let mut at = std::collections::BTreeMap::<PointId, CandidateSet>::new();
    for (id, point) in points {
        if let Some(point) = point {
            at.entry(point).or_default().insert(id);
        }
    }
    at.into_iter().collect()
}

/// Chooses among `set` by a row.
#[inline]
pub(crate) fn choose(
    row: &ranks::Row<'_>,
    members_at: &MembersAt,
    band: &Band,
    set: &CandidateSet,
    explores: Option<Explore>,
) -> (Found, By) {
    if row.is_skipped() {
        return (Found::Missed(Missed::Skipped), By::Nothing);
    }
    let (mut best, mut scored, mut points) = (u32::MAX, 0_u32, 0_u32);
    for (point, members) in members_at {
        if set.and(members).is_empty() {
            continue;
        }
        points += 1;
        if let Some(units) = row.units(*point) {
            scored += 1;
            best = best.min(units);
        }
    }
    if let Some(explore) = explores
        && let Some(tried) = explore.choose(row, members_at, band, set, best)
    {
        return (Found::Explored(tried), By::Nothing);
    }
    if scored == 0 {
        return (Found::Missed(Missed::NoScore), By::Nothing);
    }
    // 3.
    if scored < points && best > NEAR && !row.is_written() && (scored < 2 || scored * 2 < points) {
        return (Found::Missed(Missed::TooFew), By::Nothing);
    }
    let limit = band.limit(best);
    let mut kept = CandidateSet::EMPTY;
    for (point, members) in members_at {
        if row.units(*point).is_some_and(|units| units <= limit) {
            kept = kept.or(members);
        }
    }
    (Found::Kept(kept.and(set)), By::Distance(us(best), us(limit)))
}

/// Units in microseconds, without what puts a measured score behind the operator's.
fn us(units: u32) -> u32 {
    (units % u32::from(OUTRANKED)) * UNIT_US
}

/// A decision that the dice let explore.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Explore {
    bits: u64,
    now_s: u32,
    /// What has room for it.
    roomy: CandidateSet,
}

impl Explore {
    /// Whether this decision explores: by bits of the dice that no scheduler uses, among what is not over its load
    /// threshold: later steps could not put that right.
    #[inline]
    pub(crate) fn by_dice(band: &Band, entropy: u64, now_s: u32, roomy: &CandidateSet) -> Option<Self> {
        if band.explore_permille == 0 {
            return None;
        }
        let bits = mix(entropy, 0x0e_7071);
        // the low bits say whether, the high ones whom
        (((bits & 0xffff) * 1000) >> 16 < u64::from(band.explore_permille)).then_some(Self {
            bits,
            now_s,
            roomy: *roomy,
        })
    }

    /// One of the points that are not expected to be much worse, of those not seen for longest.
    #[cold]
    fn choose(
        &self,
        row: &ranks::Row<'_>,
        members_at: &MembersAt,
        band: &Band,
        set: &CandidateSet,
        best: u32,
    ) -> Option<CandidateSet> {
        // what the operator wrote is not put to the test (PX2)
        let can = |point: PointId| {
            let (units, source, seen) = row.guess(point)?;
            let source = ranks::source_of(source);
            let age_s = if source.is_measured() { ranks::age_of(seen, self.now_s) } else { u32::MAX };
            let within = units <= best.saturating_add(band.explore_limit_us / UNIT_US);
            (within && units < u32::from(OUTRANKED) && source != super::Source::Static).then_some(age_s)
        };
        if best == u32::MAX {
            return None;
        }
        let set = set.and(&self.roomy);
        let here = |members: &CandidateSet| Some(set.and(members)).filter(|set| !set.is_empty());
        let points = || members_at.iter().filter_map(|(p, members)| here(members).zip(can(*p)));
        let oldest = points().map(|(_, age_s)| age_s).max()?;
        let old = || points().filter(|(_, age_s)| *age_s >= oldest / 2);
        let number = (self.bits >> 16) as usize % old().count().max(1);
        old().nth(number).map(|(members, _)| members)
    }
}

/// What a trace says of a row: for `explain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The prefix it holds for.
    pub prefix: Prefix,
    /// What it is.
    pub head: Head,
    /// Seconds since the last measurement.
    pub age_s: u32,
    /// Seconds since the last attempt without an answer (case G14).
    pub silent_age_s: u32,
}

impl Told {
    pub(crate) fn new(row: &ranks::Row<'_>, address: std::net::IpAddr, now_s: u32) -> Self {
        let head = row.head();
        let prefix = Prefix::new(address, head.length);
        Self { prefix, head, age_s: head.age_s(now_s), silent_age_s: head.silent_age_s(now_s) }
    }
}

/// Each candidate's score, in their order.
pub(crate) fn scores(
    row: &ranks::Row<'_>,
    members_at: &MembersAt,
    set: &CandidateSet,
    now_s: u32,
) -> Vec<(CandidateId, Option<Score>)> {
    let of = |id: CandidateId| {
        members_at
            .iter()
            .find(|(_, members)| members.contains(id))
            .and_then(|(point, _)| row.score(*point, now_s))
    };
    set.iter().map(|id| (id, of(id))).collect()
}
