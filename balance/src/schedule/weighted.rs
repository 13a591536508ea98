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
        // both factors are below 2^32
        let spot = draw.dice.turn % total * stride(total) % total;
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

/// Totals up to this have a ready stride near the golden ratio.
const READY: usize = 1024;

/// By total: a number near `total` / golden ratio that shares no divisor with it.
const STRIDES: [u16; READY + 1] = strides();

const fn strides() -> [u16; READY + 1] {
    let mut table = [1; READY + 1];
    let mut total = 2;
    while total <= READY {
        let mut stride = total * 618 / 1000;
        while stride > 1 && gcd(stride, total) != 1 {
            stride -= 1;
        }
        table[total] = if stride == 0 { 1 } else { stride as u16 };
        total += 1;
    }
    table
}

const fn gcd(mut a: usize, mut b: usize) -> usize {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Shares no divisor with any `total` (at most 2^32 - 2^16), so that every spot comes once in `total` turns.
fn stride(total: u64) -> u64 {
    const PRIME: u64 = 4_294_967_291;
    STRIDES.get(total as usize).map_or(PRIME, |&stride| u64::from(stride))
}
