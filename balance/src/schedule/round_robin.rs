//! In turn.

use super::Draw;
use crate::set::{CandidateId, CandidateSet};

/// The turn's candidate, and the ones after it.
pub(super) fn pick(draw: &Draw<'_>, set: &CandidateSet, picks: &mut Vec<CandidateId>) -> u8 {
    let count = set.len();
    if count == 0 {
        return 0;
    }
    let start = (draw.dice.turn % count as u64) as usize;
    picks.extend(set.iter().skip(start).chain(set.iter().take(start)).take(draw.answers));
    0
}
