//! By a hash of the packet: position in the list of eligible members, so that equal weights are spread evenly.
//! Where members leave, most clients move; `rendezvous` moves the fewest.

use super::Draw;
use super::random::below;
use crate::hash::{bytes, key, mix};
use crate::set::{CandidateId, CandidateSet};
use std::net::IpAddr;

pub(super) fn by_source(
    draw: &Draw<'_>,
    set: &CandidateSet,
    v4: u8,
    v6: u8,
    picks: &mut Vec<CandidateId>,
) -> u8 {
    let (prefix, length) = draw.ask.client.cut(v4, v6);
    take(draw, set, key(draw.policy.seed, prefix), picks);
    length
}

pub(super) fn by_source_and_port(draw: &Draw<'_>, set: &CandidateSet, picks: &mut Vec<CandidateId>) -> u8 {
    let (address, length) = draw.ask.client.cut(32, 128);
    take(draw, set, mix(key(draw.policy.seed, address), u64::from(draw.ask.client.port)), picks);
    length
}

pub(super) fn by_destination(draw: &Draw<'_>, set: &CandidateSet, picks: &mut Vec<CandidateId>) -> u8 {
    let address = match draw.ask.destination {
        Some((IpAddr::V4(address), _)) => u128::from(address.to_bits()),
        Some((IpAddr::V6(address), _)) => address.to_bits(),
        None => 0,
    };
    take(draw, set, key(draw.policy.seed, address), picks);
    0
}

pub(super) fn by_payload(
    draw: &Draw<'_>,
    set: &CandidateSet,
    offset: u16,
    length: u16,
    picks: &mut Vec<CandidateId>,
) -> u8 {
    let tail = draw.ask.payload.get(usize::from(offset)..).unwrap_or_default();
    let field = tail.get(..usize::from(length)).unwrap_or(tail);
    take(draw, set, bytes(draw.policy.seed, field), picks);
    0
}

/// The member at the hash's place, weights counted, and the ones after it.
fn take(draw: &Draw<'_>, set: &CandidateSet, hash: u64, picks: &mut Vec<CandidateId>) {
    let total: u64 = set.iter().map(|id| u64::from(draw.weight(id))).sum();
    let mut spot = below(hash, total);
    let position = set.iter().position(|id| {
        let weight = u64::from(draw.weight(id));
        let here = spot < weight;
        spot = spot.saturating_sub(weight);
        here
    });
    let start = position.unwrap_or(0);
    picks.extend(set.iter().skip(start).chain(set.iter().take(start)).take(draw.answers));
}
