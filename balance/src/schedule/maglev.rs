//! Maglev (Eisenbud et al., NSDI 2016, section 3.4): a table in which every candidate has its share of slots,
//! and a change of members moves few of them.

use super::Draw;
use crate::hash::{key, mix};
use crate::policy::Policy;
use crate::set::{CandidateId, CandidateSet};

/// Slots: a prime, well above 100 slots for each of 256 candidates.
const SLOTS: usize = 65_537;

/// The lookup table.
#[derive(Debug)]
pub struct Maglev(Box<[u8]>);

impl Maglev {
    /// Fills the table for the members of `set` in proportion to `weights`.
    #[must_use]
    pub fn new(policy: &Policy, set: &CandidateSet, weights: &[u32]) -> Self {
        struct Member {
            id: u8,
            next: usize,
            skip: usize,
            weight: u64,
            credit: u64,
        }
        let mut members: Vec<Member> = set
            .iter()
            .filter_map(|id| {
                let hash = mix(policy.seed, policy.candidates.get(usize::from(id.0))?.key);
                Some(Member {
                    id: id.0,
                    next: (hash % SLOTS as u64) as usize,
                    skip: (mix(hash, 1) % (SLOTS as u64 - 1)) as usize + 1,
                    weight: u64::from(weights.get(usize::from(id.0)).copied().unwrap_or(1)),
                    credit: 0,
                })
            })
            .collect();
        // the order of the list must not matter
        members.sort_by_key(|m| (m.next, m.skip, m.id));
        let heaviest = members.iter().map(|m| m.weight).max().unwrap_or(1);
        let mut table = vec![0_u8; SLOTS];
        let mut taken = vec![false; SLOTS];
        let mut free = if members.is_empty() { 0 } else { SLOTS };
        while free > 0 {
            for member in &mut members {
                member.credit += member.weight;
                if member.credit < heaviest {
                    continue;
                }
                member.credit -= heaviest;
                while taken[member.next] {
                    member.next = (member.next + member.skip) % SLOTS;
                }
                taken[member.next] = true;
                table[member.next] = member.id;
                free -= 1;
                if free == 0 {
                    break;
                }
            }
        }
        Self(table.into_boxed_slice())
    }

    /// The candidate at a hash's slot.
    #[inline]
    #[must_use]
    pub fn at(&self, hash: u64) -> CandidateId {
        CandidateId(self.0.get((hash % SLOTS as u64) as usize).copied().unwrap_or(0))
    }
}

/// Looks the client up; a slot whose candidate an earlier step took out is hashed again, a few times, then
/// rendezvous decides.
pub(super) fn pick(draw: &Draw<'_>, set: &CandidateSet, picks: &mut Vec<CandidateId>) -> u8 {
    const TRIES: u64 = 16;
    let (address, length) = draw.ask.client.cut(32, 128);
    if let Some(table) = &draw.standing.maglev
        && draw.answers == 1
    {
        let hash = key(draw.policy.seed, address);
        let found = (0..TRIES)
            .map(|n| table.at(if n == 0 { hash } else { mix(hash, n) }))
            .find(|&id| set.contains(id));
        picks.extend(found);
    }
    if picks.is_empty() {
        super::rendezvous::pick(draw, set, address, picks);
    }
    length
}
