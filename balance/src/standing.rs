//! Facts folded ahead of queries: which candidates can be chosen now, with what share.
//!
//! Done by the control plane whenever a fact changes, so that a query finds sets and weights ready.

use crate::facts::{Fact, Forced, Load, State, Why};
use crate::policy::{Fallback, Policy, Step};
use crate::schedule::{Maglev, Scheduler};
use crate::set::{CandidateId, CandidateSet, MAX_CANDIDATES};
use std::sync::Arc;

/// A share of a weight is counted in 1/256, so that slow start and load can scale small weights.
const WHOLE: u32 = 256;

/// How a service stands.
#[derive(Clone, Debug)]
pub struct Standing {
    /// Candidates that can be chosen.
    pub usable: CandidateSet,
    /// Effective weight by candidate: weight × slow start × capacity left. With no slow start and no load it
    /// is the configured weight. At most 65,535 × 256.
    pub weights: Vec<u32>,
    /// Why each candidate is usable or not, in the order of the list.
    pub why: Vec<Why>,
    /// What the fallback may choose from; used when `usable` (or what an ACL rule leaves of it) is empty.
    pub last_resort: CandidateSet,
    /// The candidates whose load is below their threshold, for the `load` step.
    pub below_threshold: CandidateSet,
    /// Loads, for the dynamic schedulers.
    pub loads: Vec<Load>,
    /// Whether all members of equal effective weight: a draw needs no weights then.
    pub is_even: bool,
    /// Whether the steps ask for measured distance: who looks ahead loads the client's row then.
    pub has_proximity: bool,
    /// Ready table of the maglev scheduler.
    pub maglev: Option<Arc<Maglev>>,
}

impl Standing {
    /// Folds `facts` (by candidate; missing ones are "up, nothing known").
    #[must_use]
    pub fn new(policy: &Policy, facts: &[Fact]) -> Self {
        let count = policy.candidates.len().min(MAX_CANDIDATES);
        let fact = |i: usize| facts.get(i).copied().unwrap_or_default();
        let id = |i: usize| CandidateId(i as u8);
        let has_load_step = policy.steps.iter().any(|step| matches!(step, Step::Load));

        let mut why: Vec<Why> =
            policy.candidates.iter().take(count).enumerate().map(|(i, c)| judge(c, &fact(i))).collect();
        // L03: weight 0 is used only when nothing with a weight is left
        let has_weight = (0..count).any(|i| why[i] == Why::Usable && policy.candidates[i].weight > 0);
        for (i, candidate) in policy.candidates.iter().enumerate().take(count) {
            if why[i] == Why::Usable && candidate.weight == 0 && has_weight {
                why[i] = Why::WeightZero;
            }
        }
        let usable: CandidateSet = (0..count).filter(|&i| why[i] == Why::Usable).map(id).collect();

        let is_scaled = (0..count).any(|i| fact(i).ramp.is_some())
            || (has_load_step && (0..count).any(|i| fact(i).load.share.is_some()));
        let weights: Vec<u32> = (0..count)
            .map(|i| {
                let base = u32::from(policy.candidates[i].weight).max(1);
                if is_scaled { scaled(base, &fact(i), has_load_step) } else { base }
            })
            .collect();

        // what an operator took out stays out, unless that is everything
        let not_taken_out: CandidateSet = (0..count)
            .filter(|&i| !matches!(fact(i).forced, Some(Forced::Down | Forced::Drain | Forced::Disabled)))
            .map(id)
            .collect();
        let last_resort = match policy.fallback {
            Fallback::All if not_taken_out.is_empty() => CandidateSet::first_n(count),
            Fallback::All => not_taken_out,
            Fallback::Fixed | Fallback::NoData | Fallback::ServFail | Fallback::Refuse => CandidateSet::EMPTY,
        };

        let below_threshold = (0..count)
            .filter(|&i| match (policy.candidates[i].load_threshold, fact(i).load.share) {
                (Some(threshold), Some(share)) => share < threshold,
                (None, _) | (_, None) => true,
            })
            .map(id)
            .collect();

        let is_even = weights.windows(2).all(|pair| pair[0] == pair[1]);
        let maglev = matches!(policy.scheduler, Scheduler::Maglev).then(|| {
            Arc::new(Maglev::new(policy, if usable.is_empty() { &last_resort } else { &usable }, &weights))
        });
        let has_proximity = policy.steps.iter().any(|step| matches!(step, Step::Proximity { .. }));
        let loads = (0..count).map(|i| fact(i).load).collect();
        Self { usable, weights, why, last_resort, below_threshold, loads, is_even, has_proximity, maglev }
    }
}

fn judge(candidate: &crate::policy::Candidate, fact: &Fact) -> Why {
    match fact.forced {
        Some(Forced::Down) => return Why::ForcedDown,
        Some(Forced::Drain) => return Why::Draining,
        Some(Forced::Disabled) => return Why::Disabled,
        Some(Forced::Up) => return Why::Usable,
        None => {}
    }
    match fact.state {
        State::Down => return Why::CheckFailed,
        State::Unknown { counts_as_up: false } => return Why::NoVerdict,
        State::Up | State::Unknown { counts_as_up: true } => {}
    }
    if fact.ramp == Some(0) {
        return Why::Standby;
    }
    // L15: a full member is skipped like a down one, but said to be over its limit
    if let (Some(max), Some(now)) = (candidate.connections_max, fact.load.connections)
        && now >= max
    {
        return Why::OverLimit;
    }
    Why::Usable
}

/// weight × slow start × capacity left, in 1/256, at least 1.
fn scaled(base: u32, fact: &Fact, has_load_step: bool) -> u32 {
    let ramp = u32::from(fact.ramp.unwrap_or(WHOLE as u16)).min(WHOLE);
    let left = match fact.load.share {
        Some(share) if has_load_step => (f64::from((1.0 - share).clamp(0.0, 1.0)) * f64::from(WHOLE)) as u32,
        Some(_) | None => WHOLE,
    };
    (u64::from(base) * u64::from(ramp) * u64::from(left) / u64::from(WHOLE)).clamp(1, 65_535 * 256) as u32
}
