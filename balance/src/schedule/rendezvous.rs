//! Highest random weight (CARP): each client prefix ranks the candidates for itself. A candidate that leaves
//! moves only its own clients, and one that returns gets them back.

use super::Draw;
use crate::hash;
use crate::set::{CandidateId, CandidateSet};

/// The best-ranked for this prefix; several answers are the next best.
pub(super) fn pick(draw: &Draw<'_>, set: &CandidateSet, prefix: u128, picks: &mut Vec<CandidateId>) {
    let client = hash::key(draw.policy.seed, prefix);
    let mut left = *set;
    while picks.len() < draw.answers {
        let best =
            left.iter().min_by_key(|&id| (hash::rendezvous_score(client, draw.key(id), draw.weight(id)), id));
        let Some(best) = best else { return };
        picks.push(best);
        left.remove(best);
    }
}
