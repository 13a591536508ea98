//! By load facts (M 2.3). A candidate that reports nothing counts as idle; ties are broken by the dice.

use super::Draw;
use super::random::below;
use crate::hash::mix;
use crate::set::{CandidateId, CandidateSet};

pub(super) fn least_connections(
    draw: &Draw<'_>,
    set: &CandidateSet,
    is_weighted: bool,
    picks: &mut Vec<CandidateId>,
) -> u8 {
    least(draw, set, picks, |id| {
        let connections = u64::from(draw.load(id).connections.unwrap_or(0));
        if is_weighted { (connections << 20) / u64::from(draw.weight(id).max(1)) } else { connections }
    })
}

pub(super) fn least_time(draw: &Draw<'_>, set: &CandidateSet, picks: &mut Vec<CandidateId>) -> u8 {
    least(draw, set, picks, |id| u64::from(draw.load(id).response_us.unwrap_or(0)))
}

pub(super) fn max_bandwidth(draw: &Draw<'_>, set: &CandidateSet, picks: &mut Vec<CandidateId>) -> u8 {
    least(draw, set, picks, |id| u64::MAX - draw.load(id).bandwidth_free_bps())
}

/// By chance, in proportion to free bandwidth × weight; where none is free or known, to weight alone.
pub(super) fn bandwidth(draw: &Draw<'_>, set: &CandidateSet, picks: &mut Vec<CandidateId>) -> u8 {
    let share = |id: CandidateId, known: bool| -> u64 {
        let free = if known { draw.load(id).bandwidth_free_bps() / 1000 } else { 1 };
        free.saturating_mul(u64::from(draw.weight(id)))
    };
    let total = |left: &CandidateSet, known: bool| {
        left.iter().fold(0_u64, |sum, id| sum.saturating_add(share(id, known)))
    };
    let mut left = *set;
    let mut entropy = draw.dice.entropy;
    while picks.len() < draw.answers && !left.is_empty() {
        let known = total(&left, true) > 0;
        let mut spot = below(entropy, total(&left, known));
        let chosen = left.iter().find(|&id| {
            let here = spot < share(id, known);
            spot = spot.saturating_sub(share(id, known));
            here
        });
        let Some(id) = chosen.or_else(|| left.iter().next()) else { break };
        picks.push(id);
        left.remove(id);
        entropy = mix(entropy, picks.len() as u64);
    }
    0
}

fn least(
    draw: &Draw<'_>,
    set: &CandidateSet,
    picks: &mut Vec<CandidateId>,
    cost: impl Fn(CandidateId) -> u64,
) -> u8 {
    let mut left = *set;
    while picks.len() < draw.answers {
        let best = left.iter().min_by_key(|&id| (cost(id), mix(draw.dice.entropy, u64::from(id.0))));
        let Some(best) = best else { break };
        picks.push(best);
        left.remove(best);
    }
    0
}
