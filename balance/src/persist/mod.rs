//! A client stays with its candidate (WP-C3): by a hash of its prefix, or by a remembered choice.

mod table;
pub use table::Table;

use crate::hash;
use crate::policy::Policy;
use crate::set::{CandidateId, CandidateSet};

/// Key of a remembered choice: the service and the client's prefix.
#[must_use]
pub fn entry_key(policy: &Policy, prefix: u128) -> u64 {
    hash::key(hash::bytes(policy.seed, policy.name.as_bytes()), prefix)
}

/// The remembered choice, if it is in `eligible`.
#[must_use]
pub fn recall(
    table: &Table,
    policy: &Policy,
    prefix: u128,
    now_s: u32,
    eligible: &CandidateSet,
) -> Option<CandidateId> {
    let fingerprint = table.get(entry_key(policy, prefix), now_s)?;
    eligible.iter().find(|id| {
        policy.candidates.get(usize::from(id.0)).is_some_and(|c| Table::fingerprint(c.key) == fingerprint)
    })
}
