//! In proportion to weight: by turn or by chance.

use super::Draw;
use super::random::below;
use crate::hash::mix;
use crate::set::{CandidateId, CandidateSet};

/// In turn: over any run of as many turns as the sum of weights, each member comes exactly as often as it
/// weighs. A stride of the golden ratio interleaves them.
pub(super) fn by_turn(draw: &Draw<'_>, set: &CandidateSet, picks: &mut Vec<CandidateId>) -> u8 {
    let total = total(draw, set);
    if total > 0 {
        let spot = (u128::from(draw.dice.turn) * u128::from(stride(total)) % u128::from(total)) as u64;
        fill(draw, set, spot, total, picks);
    }
    0
}

/// By chance.
pub(super) fn by_chance(draw: &Draw<'_>, set: &CandidateSet, picks: &mut Vec<CandidateId>) -> u8 {
    if draw.standing.is_even && draw.answers == 1 {
        return super::random::pick(draw, set, picks);
    }
    let total = total(draw, set);
    if total > 0 {
        fill(draw, set, below(draw.dice.entropy, total), total, picks);
    }
    0
}

fn total(draw: &Draw<'_>, set: &CandidateSet) -> u64 {
    set.iter().map(|id| u64::from(draw.weight(id))).sum()
}

/// The member at `spot`, then more by chance without putting any back.
fn fill(draw: &Draw<'_>, set: &CandidateSet, spot: u64, mut total: u64, picks: &mut Vec<CandidateId>) {
    let mut left = *set;
    let mut spot = spot;
    let mut entropy = draw.dice.entropy;
    loop {
        let Some(id) = at(draw, &left, spot) else { return };
        picks.push(id);
        left.remove(id);
        total -= u64::from(draw.weight(id));
        if picks.len() >= draw.answers || total == 0 {
            return;
        }
        entropy = mix(entropy, picks.len() as u64);
        spot = below(entropy, total);
    }
}

fn at(draw: &Draw<'_>, set: &CandidateSet, mut spot: u64) -> Option<CandidateId> {
    for id in set {
        let weight = u64::from(draw.weight(id));
        if spot < weight {
            return Some(id);
        }
        spot -= weight;
    }
    None
}

/// A number near `total` / golden ratio that shares no divisor with it.
fn stride(total: u64) -> u64 {
    let mut stride = (total as f64 * 0.618_033_988_749_894_9) as u64;
    loop {
        stride = stride.max(1);
        if gcd(stride, total) == 1 {
            return stride;
        }
        stride -= 1;
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
