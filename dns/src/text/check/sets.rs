//! RRsets: no record twice, one TTL (RFC 2181 5).

use std::cmp::Ordering;

use crate::record::{Place, Problem, Record};
use crate::rrtype::RrType;

use super::super::problem::fail;
use super::{Groups, Member, data_order};

/// What changes at one record, found by its index.
#[derive(Clone, Copy)]
pub(super) enum Edit {
    Drop,
    Ttl(u32),
}

/// Finds duplicates and differing TTLs.
pub(super) fn edits(groups: &Groups<'_>, warnings: &mut Vec<Problem>) -> Vec<(usize, Edit)> {
    let mut edits = Vec::new();
    let mut twice: Vec<Place> = Vec::new();
    for owner in &groups.members {
        for set in owner.chunk_by(|a, b| a.rtype == b.rtype) {
            one_ttl(set, &mut edits, warnings);
            for pair in set.windows(2) {
                if let [a, b] = pair
                    && data_order(a, b) == Ordering::Equal
                {
                    twice.push(b.at);
                    edits.push((b.index, Edit::Drop));
                }
            }
        }
    }
    if let Some(&place) = twice.iter().min() {
        warnings.push(
            fail(place, format!("records written twice: {}; each is kept once", twice.len()))
                .help("remove the copies"),
        );
    }
    edits
}

/// RRSIGs go with the sets they cover and may differ among each other (RFC 4034 3).
fn one_ttl(set: &[Member<'_>], edits: &mut Vec<(usize, Edit)>, warnings: &mut Vec<Problem>) {
    let [first, rest @ ..] = set else { return };
    if rest.iter().all(|record| record.ttl == first.ttl) || matches!(first.rtype, RrType::RRSIG | RrType::SIG)
    {
        return;
    }
    let least = rest.iter().fold(first.ttl, |least, record| least.min(record.ttl));
    let most = rest.iter().fold(first.ttl, |most, record| most.max(record.ttl));
    let place = set.iter().map(|record| record.at).max().unwrap_or_default();
    let (owner, rtype) = (&first.owner, first.rtype);
    warnings.push(
        fail(place, format!("the TTLs of {owner} {rtype} differ, from {least} to {most}; {least} is used"))
            .help("give all records of a set the same TTL"),
    );
    for record in set.iter().filter(|record| record.ttl != least) {
        edits.push((record.index, Edit::Ttl(least)));
    }
}

/// Carries the edits out.
pub(super) fn apply(edits: Vec<(usize, Edit)>, records: &mut Vec<Record>) {
    if edits.is_empty() {
        return;
    }
    let mut keep = vec![true; records.len()];
    for (index, edit) in edits {
        match edit {
            Edit::Drop => {
                if let Some(keep) = keep.get_mut(index) {
                    *keep = false;
                }
            }
            Edit::Ttl(ttl) => {
                if let Some(record) = records.get_mut(index) {
                    record.ttl = ttl;
                }
            }
        }
    }
    let mut keep = keep.into_iter();
    records.retain(|_| keep.next().unwrap_or(true));
}
