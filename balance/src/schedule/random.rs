//! At random, each as likely as the other.

use super::Draw;
use crate::hash::mix;
use crate::set::{CandidateId, CandidateSet};

/// A uniform draw below `bound` (multiply and shift; the bias is below 2^-32 for our bounds).
#[inline]
pub(super) fn below(entropy: u64, bound: u64) -> u64 {
    ((u128::from(entropy) * u128::from(bound)) >> 64) as u64
}

/// Distinct members at random, in random order.
pub(super) fn pick(draw: &Draw<'_>, set: &CandidateSet, picks: &mut Vec<CandidateId>) -> u8 {
    if draw.answers == 1 {
        picks.extend(set.iter().nth(below(draw.dice.entropy, set.len() as u64) as usize));
    } else {
        all(draw, set, picks);
        picks.truncate(draw.answers);
    }
    0
}

/// Every member, in random order (L13).
pub(super) fn all(draw: &Draw<'_>, set: &CandidateSet, picks: &mut Vec<CandidateId>) -> u8 {
    picks.extend(set.iter());
    let mut entropy = draw.dice.entropy;
    for last in (1..picks.len()).rev() {
        picks.swap(last, below(entropy, last as u64 + 1) as usize);
        entropy = mix(entropy, last as u64);
    }
    0
}
