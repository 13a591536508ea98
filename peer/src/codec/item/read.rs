//! Octets to items.

use super::{Change, ITEM_HEADER, Item, WITHDRAWN};
use crate::claim::{
    Act, Claim, Digest, Key, LinkState, MAX_NAME, MAX_REASON, MAX_TABLES, PersistenceEntry, ProximityCell,
    ServerState, VirtualServer, Word,
};
use crate::codec::numbers::{act, field, kind, state};
use crate::codec::tlv::{Field, Fields};
use crate::codec::{MAX_CLAIM, Malformed, Skipped};

/// Reads one item of a batch. One that cannot be used is counted and passed over; the others of its batch stay.
pub fn decode_item(octets: &[u8], skipped: &mut Skipped) -> Option<Item> {
    if octets.len() > MAX_CLAIM {
        skipped.oversize += 1;
        return None;
    }
    match read_item(octets, skipped) {
        Ok(item) => item,
        Err(_) => {
            skipped.malformed += 1;
            None
        }
    }
}

fn read_item(octets: &[u8], skipped: &mut Skipped) -> Result<Option<Item>, Malformed> {
    let (header, body) = octets.split_first_chunk::<ITEM_HEADER>().ok_or(Malformed::Field)?;
    let [number, flags, s0, s1, s2, s3, s4, s5, s6, s7, l0, l1, l2, l3] = *header;
    let sequence = u64::from_be_bytes([s0, s1, s2, s3, s4, s5, s6, s7]);
    let lifetime = u32::from_be_bytes([l0, l1, l2, l3]);
    let change = if flags & WITHDRAWN != 0 {
        decode_key(number, body, skipped)?.map(Change::Withdrawn)
    } else {
        let claim = decode_claim(number, body, skipped)?;
        if claim.as_ref().is_some_and(|claim| claim.check().is_err()) {
            return Err(Malformed::Value);
        }
        claim.map(Change::Set)
    };
    if change.is_none() {
        skipped.kinds += 1;
    }
    let lifetime_ms = (lifetime != 0).then_some(lifetime);
    Ok(change.map(|change| Item { sequence, lifetime_ms, change }))
}

fn decode_claim(number: u8, body: &[u8], skipped: &mut Skipped) -> Result<Option<Claim>, Malformed> {
    Ok(Some(match number {
        kind::VIRTUAL_SERVER => Claim::VirtualServer(decode_server(body, skipped)?),
        kind::LINK => Claim::Link(decode_link(body, skipped)?),
        kind::PROXIMITY => Claim::Proximity(decode_cell(body, skipped)?),
        kind::PERSISTENCE => Claim::Persistence(decode_persistence(body, skipped)?),
        kind::DIGEST => Claim::Digest(decode_digest(body, skipped)?),
        kind::WORD => Claim::Word(decode_word(body, skipped)?),
        _ => return Ok(None),
    }))
}

/// A withdrawal has only the fields that make the key; others are passed over.
fn decode_key(number: u8, body: &[u8], skipped: &mut Skipped) -> Result<Option<Key>, Malformed> {
    let (mut first, mut second, mut prefix, mut id) = (None, None, None, None);
    for field in Fields(body) {
        let field = field?;
        match (number, field.id) {
            (kind::VIRTUAL_SERVER, field::server::NAME)
            | (kind::LINK, field::link::SITE)
            | (kind::WORD, field::word::TARGET) => first = Some(field.text(MAX_NAME)?),
            (kind::LINK, field::link::NAME) | (kind::PROXIMITY, field::cell::LINK) => {
                second = Some(field.text(MAX_NAME)?);
            }
            (kind::PROXIMITY, field::cell::PREFIX) => prefix = Some(field.prefix()?),
            (kind::PERSISTENCE, field::persistence::KEY) => id = Some(field.u64()?),
            _ => skipped.fields += 1,
        }
    }
    let missing = Malformed::Missing;
    Ok(Some(match number {
        kind::VIRTUAL_SERVER => Key::VirtualServer(first.ok_or(missing)?),
        kind::LINK => Key::Link(format!("{}/{}", first.ok_or(missing)?, second.ok_or(missing)?)),
        kind::PROXIMITY => {
            let (address, length) = prefix.ok_or(missing)?;
            Key::Proximity(address, length, second)
        }
        kind::PERSISTENCE => Key::Persistence(id.ok_or(missing)?),
        kind::DIGEST => Key::Digest,
        kind::WORD => Key::Word(first.ok_or(missing)?),
        _ => return Ok(None),
    }))
}

fn decode_server(body: &[u8], skipped: &mut Skipped) -> Result<VirtualServer, Malformed> {
    let (mut name, mut service, mut address, mut site, mut link) = (None, None, None, None, None);
    let (mut weight, mut tier, mut state, mut reason) = (1, 1, ServerState::Unknown, String::new());
    let (mut load_permille, mut connections, mut capacity) = (None, None, None);
    for field in Fields(body) {
        let field = field?;
        match field.id {
            field::server::NAME => name = Some(field.text(MAX_NAME)?),
            field::server::SERVICE => service = Some(field.text(MAX_NAME)?),
            field::server::ADDRESS => address = Some(field.address()?),
            field::server::SITE => site = Some(field.text(MAX_NAME)?),
            field::server::LINK => link = Some(field.text(MAX_NAME)?),
            field::server::WEIGHT => weight = field.u16()?,
            field::server::TIER => tier = field.u8()?,
            field::server::STATE => state = decode_state(&field, skipped)?,
            field::server::REASON => reason = field.text(MAX_REASON)?,
            field::server::LOAD_PERMILLE => load_permille = Some(field.u16()?),
            field::server::CONNECTIONS => connections = Some(field.u32()?),
            field::server::CAPACITY => capacity = Some(field.u32()?),
            _ => skipped.fields += 1,
        }
    }
    let missing = Malformed::Missing;
    Ok(VirtualServer {
        name: name.ok_or(missing)?,
        service: service.ok_or(missing)?,
        address: address.ok_or(missing)?,
        site: site.ok_or(missing)?,
        link,
        weight,
        tier,
        state,
        reason,
        load_permille,
        connections,
        capacity,
    })
}

/// A state of a later version is not known here, so it is Unknown (T1).
fn decode_state(field: &Field<'_>, skipped: &mut Skipped) -> Result<ServerState, Malformed> {
    Ok(match field.u8()? {
        state::UNKNOWN => ServerState::Unknown,
        state::UP => ServerState::Up,
        state::DOWN => ServerState::Down,
        state::DRAIN => ServerState::Drain,
        state::DISABLED => ServerState::Disabled,
        _ => {
            skipped.fields += 1;
            ServerState::Unknown
        }
    })
}

fn decode_link(body: &[u8], skipped: &mut Skipped) -> Result<LinkState, Malformed> {
    let (mut site, mut name, mut is_up) = (None, None, None);
    let (mut in_bps, mut out_bps, mut capacity_in_bps, mut capacity_out_bps) = (0, 0, 0, 0);
    for field in Fields(body) {
        let field = field?;
        match field.id {
            field::link::SITE => site = Some(field.text(MAX_NAME)?),
            field::link::NAME => name = Some(field.text(MAX_NAME)?),
            field::link::IS_UP => is_up = Some(field.flag()?),
            field::link::IN_BPS => in_bps = field.u64()?,
            field::link::OUT_BPS => out_bps = field.u64()?,
            field::link::CAPACITY_IN_BPS => capacity_in_bps = field.u64()?,
            field::link::CAPACITY_OUT_BPS => capacity_out_bps = field.u64()?,
            _ => skipped.fields += 1,
        }
    }
    let missing = Malformed::Missing;
    Ok(LinkState {
        site: site.ok_or(missing)?,
        name: name.ok_or(missing)?,
        is_up: is_up.ok_or(missing)?,
        in_bps,
        out_bps,
        capacity_in_bps,
        capacity_out_bps,
    })
}

pub(in crate::codec) fn decode_cell(body: &[u8], skipped: &mut Skipped) -> Result<ProximityCell, Malformed> {
    let (mut prefix, mut site, mut link, mut rtt_us) = (None, None, None, None);
    let (mut loss_permille, mut hops, mut samples, mut source, mut confidence, mut age_s) =
        (0, 0, 0, 0, 0, 0);
    for field in Fields(body) {
        let field = field?;
        match field.id {
            field::cell::PREFIX => prefix = Some(field.prefix()?),
            field::cell::SITE => site = Some(field.text(MAX_NAME)?),
            field::cell::LINK => link = Some(field.text(MAX_NAME)?),
            field::cell::RTT_US => rtt_us = Some(field.u32()?),
            field::cell::LOSS_PERMILLE => loss_permille = field.u16()?,
            field::cell::HOPS => hops = field.u8()?,
            field::cell::SAMPLES => samples = field.u32()?,
            field::cell::SOURCE => source = field.u8()?,
            field::cell::CONFIDENCE => confidence = field.u8()?,
            field::cell::AGE_S => age_s = field.u32()?,
            _ => skipped.fields += 1,
        }
    }
    let missing = Malformed::Missing;
    Ok(ProximityCell {
        prefix: prefix.ok_or(missing)?,
        site: site.ok_or(missing)?,
        link,
        rtt_us: rtt_us.ok_or(missing)?,
        loss_permille,
        hops,
        samples,
        source,
        confidence,
        age_s,
    })
}

fn decode_persistence(body: &[u8], skipped: &mut Skipped) -> Result<PersistenceEntry, Malformed> {
    let (mut key, mut candidate, mut left_s) = (None, None, None);
    for field in Fields(body) {
        let field = field?;
        match field.id {
            field::persistence::KEY => key = Some(field.u64()?),
            field::persistence::CANDIDATE => candidate = Some(field.u64()?),
            field::persistence::LEFT_S => left_s = Some(field.u32()?),
            _ => skipped.fields += 1,
        }
    }
    let missing = Malformed::Missing;
    Ok(PersistenceEntry {
        key: key.ok_or(missing)?,
        candidate: candidate.ok_or(missing)?,
        left_s: left_s.ok_or(missing)?,
    })
}

fn decode_digest(body: &[u8], skipped: &mut Skipped) -> Result<Digest, Malformed> {
    let mut digest = Digest::default();
    for field in Fields(body) {
        let field = field?;
        match field.id {
            field::digest::CONFIG => digest.config = field.text(MAX_NAME)?,
            field::digest::TABLE if digest.tables.len() == MAX_TABLES => return Err(Malformed::Value),
            field::digest::TABLE => digest.tables.push(decode_table(field.octets())?),
            field::digest::VERSION => digest.version = field.text(MAX_NAME)?,
            _ => skipped.fields += 1,
        }
    }
    Ok(digest)
}

/// The length of the name, the name, and the id.
fn decode_table(octets: &[u8]) -> Result<(String, String), Malformed> {
    let (&length, rest) = octets.split_first().ok_or(Malformed::Value)?;
    let (name, id) = rest.split_at_checked(usize::from(length)).ok_or(Malformed::Value)?;
    let text = |octets: &[u8]| str::from_utf8(octets).map(str::to_owned).map_err(|_| Malformed::Value);
    if id.len() > MAX_NAME { Err(Malformed::Value) } else { Ok((text(name)?, text(id)?)) }
}

fn decode_word(body: &[u8], skipped: &mut Skipped) -> Result<Word, Malformed> {
    let (mut target, mut act, mut origin, mut author) = (None, None, None, None);
    let (mut reason, mut revision, mut base, mut left_s) = (String::new(), None, 0, None);
    for field in Fields(body) {
        let field = field?;
        match field.id {
            field::word::TARGET => target = Some(field.text(MAX_NAME)?),
            field::word::ACT => act = Some(decode_act(&field)?),
            field::word::ORIGIN => origin = Some(field.text(MAX_NAME)?),
            field::word::AUTHOR => author = Some(field.text(MAX_NAME)?),
            field::word::REASON => reason = field.text(MAX_REASON)?,
            field::word::REVISION => revision = Some(field.u64()?),
            field::word::LEFT_S => left_s = Some(field.u32()?),
            field::word::BASE => base = field.u64()?,
            _ => skipped.fields += 1,
        }
    }
    let missing = Malformed::Missing;
    Ok(Word {
        target: target.ok_or(missing)?,
        act: act.ok_or(missing)?,
        origin: origin.ok_or(missing)?,
        author: author.ok_or(missing)?,
        reason,
        revision: revision.ok_or(missing)?,
        base,
        left_s: left_s.ok_or(missing)?,
    })
}

fn decode_act(field: &Field<'_>) -> Result<Act, Malformed> {
    match field.u8()? {
        act::FORCE_UP => Ok(Act::ForceUp),
        act::FORCE_DOWN => Ok(Act::ForceDown),
        act::DRAIN => Ok(Act::Drain),
        act::DISABLE => Ok(Act::Disable),
        act::RESUME => Ok(Act::Resume),
        act::LIFT => Ok(Act::Lift),
        _ => Err(Malformed::Value),
    }
}
