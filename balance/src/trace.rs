//! Why: what a decision considered, in order. A silent trace costs nothing.

use crate::proximity::{Missed, Prefix, Score, choose::Told};
use crate::set::{CandidateId, CandidateSet};

/// One thing a decision did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Where it began: all candidates, and those that facts leave (the reasons are in the standing).
    Began {
        /// Every candidate.
        all: CandidateSet,
        /// Those that can be chosen.
        usable: CandidateSet,
    },
    /// Nothing was usable; the fallback decides over this set.
    FellBack {
        /// What the fallback may choose from (empty for fixed answers).
        set: CandidateSet,
    },
    /// This tier is the first with the minimum of usable members.
    Tier {
        /// The tier.
        tier: u8,
        /// Before and after.
        set: Change,
    },
    /// No tier had the minimum; all usable members of all tiers are used.
    NoTier,
    /// A step kept part of the set.
    Kept {
        /// Which step.
        step: StepName,
        /// Before and after.
        set: Change,
        /// Rule, group or operator set that matched.
        by: By,
    },
    /// A step had nothing to say, or would have emptied the set.
    FellThrough {
        /// Which step.
        step: StepName,
        /// Why it fell through.
        because: FellThrough,
        /// What matched, where something did.
        by: By,
    },
    /// The row that measured distance goes by.
    Ranked {
        /// Which row.
        row: Told,
        /// Each candidate's score.
        scores: Vec<(CandidateId, Option<Score>)>,
    },
    /// Measured distance has nothing to go by.
    NotRanked {
        /// The prefix that would be measured.
        prefix: Prefix,
        /// What is missing.
        because: Missed,
    },
    /// The dice let this decision try other candidates than the nearest, to measure them.
    Explored {
        /// What could have been chosen, and what is tried.
        set: Change,
    },
    /// An ACL rule refused the client.
    Refused {
        /// Position of the rule.
        rule: u16,
    },
    /// A remembered choice was used.
    Remembered {
        /// The candidate.
        id: CandidateId,
    },
    /// The last step chose.
    Picked {
        /// The candidates in answering order.
        ids: Vec<CandidateId>,
        /// Their odds at that moment: (candidate, weight), for the weighted ones.
        weights: Vec<(CandidateId, u32)>,
        /// Whether the client's prefix decided instead of dice.
        by_hash: bool,
    },
}

/// A narrowing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The set before.
    pub before: CandidateSet,
    /// The set after.
    pub after: CandidateSet,
}

/// The steps by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepName {
    /// Client prefix rules.
    Acl,
    /// Measured distance.
    Proximity,
    /// The client's operator.
    Isp,
    /// The client's place.
    Geo,
    /// Load thresholds.
    Load,
}

impl StepName {
    /// The name as in `choose`.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Acl => "acl",
            Self::Proximity => "proximity",
            Self::Isp => "isp",
            Self::Geo => "geo",
            Self::Load => "load",
        }
    }
}

/// What matched in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Nothing.
    Nothing,
    /// Position of the ACL rule.
    Rule(u16),
    /// Value of the ISP dimension.
    Operators(u32),
    /// The best score and the greatest one that equals it, in microseconds.
    Distance(u32, u32),
    /// Position of the ranking, and of the group in it.
    Ranking(u32, u16),
}

/// Why a step changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FellThrough {
    /// Nothing is known of the client in this dimension.
    Unknown,
    /// It would have left nothing.
    WouldEmpty,
    /// Nothing was measured for this client.
    NotMeasured,
}

/// Where events go.
pub trait Trace {
    /// Whether anybody listens; callers build events only then.
    fn is_on(&self) -> bool;
    /// Takes one event.
    fn event(&mut self, event: Event);
}

/// Nobody listens.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Trace for Silent {
    #[inline]
    fn is_on(&self) -> bool {
        false
    }
    #[inline]
    fn event(&mut self, _: Event) {}
}

/// Keeps every event.
impl Trace for Vec<Event> {
    fn is_on(&self) -> bool {
        true
    }
    fn event(&mut self, event: Event) {
        self.push(event);
    }
}
