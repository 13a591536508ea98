//! Items to octets.

use super::{Change, Item, WITHDRAWN};
use crate::claim::{
    Act, Claim, Digest, Key, LinkState, MAX_NAME, MAX_REASON, MAX_TABLES, PersistenceEntry, ProximityCell,
    ServerState, VirtualServer, Word,
};
use crate::codec::numbers::{act, field, kind, state};
use crate::codec::tlv::{Writer, cut};

/// The octets of an item.
#[must_use]
pub fn encode_item(item: &Item) -> Vec<u8> {
    let (number, flags) = match &item.change {
        Change::Set(claim) => (kind_of(&claim.key()), 0),
        Change::Withdrawn(key) => (kind_of(key), WITHDRAWN),
    };
    let mut body = Writer(Vec::with_capacity(128));
    body.0.extend_from_slice(&[number, flags]);
    body.0.extend_from_slice(&item.sequence.to_be_bytes());
    // zero means none, so a life that ends now is told as one millisecond
    body.0.extend_from_slice(&item.lifetime_ms.map_or(0, |left| left.max(1)).to_be_bytes());
    match &item.change {
        Change::Set(claim) => encode_claim(&mut body, claim),
        Change::Withdrawn(key) => encode_key(&mut body, key),
    }
    body.0
}

fn kind_of(key: &Key) -> u8 {
    match key {
        Key::VirtualServer(_) => kind::VIRTUAL_SERVER,
        Key::Link(_) => kind::LINK,
        Key::Proximity(..) => kind::PROXIMITY,
        Key::Persistence(_) => kind::PERSISTENCE,
        Key::Digest => kind::DIGEST,
        Key::Word(_) => kind::WORD,
    }
}

fn encode_key(body: &mut Writer, key: &Key) {
    match key {
        Key::VirtualServer(name) => body.text(field::server::NAME, name),
        Key::Link(path) => {
            let (site, name) = path.split_once('/').unwrap_or((path, ""));
            body.text(field::link::SITE, site);
            body.text(field::link::NAME, name);
        }
        Key::Proximity(address, length, link) => {
            body.prefix(field::cell::PREFIX, (*address, *length));
            if let Some(link) = link {
                body.text(field::cell::LINK, link);
            }
        }
        Key::Persistence(key) => body.u64(field::persistence::KEY, *key),
        Key::Digest => {}
        Key::Word(target) => body.text(field::word::TARGET, target),
    }
}

fn encode_claim(body: &mut Writer, claim: &Claim) {
    match claim {
        Claim::VirtualServer(server) => encode_server(body, server),
        Claim::Link(link) => encode_link(body, link),
        Claim::Proximity(cell) => write_cell(body, cell),
        Claim::Persistence(PersistenceEntry { key, candidate, left_s }) => {
            body.u64(field::persistence::KEY, *key);
            body.u64(field::persistence::CANDIDATE, *candidate);
            body.u32(field::persistence::LEFT_S, *left_s);
        }
        Claim::Digest(Digest { config, tables, version }) => {
            body.text(field::digest::CONFIG, config);
            for (name, id) in tables.iter().take(MAX_TABLES) {
                let name = cut(name, MAX_NAME);
                let mut pair = vec![u8::try_from(name.len()).unwrap_or(u8::MAX)];
                pair.extend_from_slice(name.as_bytes());
                pair.extend_from_slice(id.as_bytes());
                body.octets(field::digest::TABLE, &pair);
            }
            body.text(field::digest::VERSION, version);
        }
        Claim::Word(word) => encode_word(body, word),
    }
}

fn encode_server(body: &mut Writer, server: &VirtualServer) {
    let VirtualServer {
        name,
        service,
        address,
        site,
        link,
        weight,
        tier,
        state,
        reason,
        load_permille,
        connections,
        capacity,
    } = server;
    body.text(field::server::NAME, name);
    body.text(field::server::SERVICE, service);
    body.address(field::server::ADDRESS, *address);
    body.text(field::server::SITE, site);
    if let Some(link) = link {
        body.text(field::server::LINK, link);
    }
    body.u16(field::server::WEIGHT, *weight);
    body.u8(field::server::TIER, *tier);
    let state = match state {
        ServerState::Unknown => state::UNKNOWN,
        ServerState::Up => state::UP,
        ServerState::Down => state::DOWN,
        ServerState::Drain => state::DRAIN,
        ServerState::Disabled => state::DISABLED,
    };
    body.u8(field::server::STATE, state);
    body.cut_text(field::server::REASON, reason, MAX_REASON);
    if let Some(load) = load_permille {
        body.u16(field::server::LOAD_PERMILLE, *load);
    }
    if let Some(connections) = connections {
        body.u32(field::server::CONNECTIONS, *connections);
    }
    if let Some(capacity) = capacity {
        body.u32(field::server::CAPACITY, *capacity);
    }
}

fn encode_link(body: &mut Writer, link: &LinkState) {
    let LinkState { site, name, is_up, in_bps, out_bps, capacity_in_bps, capacity_out_bps } = link;
    body.text(field::link::SITE, site);
    body.text(field::link::NAME, name);
    body.u8(field::link::IS_UP, u8::from(*is_up));
    body.u64(field::link::IN_BPS, *in_bps);
    body.u64(field::link::OUT_BPS, *out_bps);
    body.u64(field::link::CAPACITY_IN_BPS, *capacity_in_bps);
    body.u64(field::link::CAPACITY_OUT_BPS, *capacity_out_bps);
}

/// The octets of a cell, as in an item.
pub(in crate::codec) fn encode_cell(cell: &ProximityCell) -> Vec<u8> {
    let mut body = Writer(Vec::with_capacity(64));
    write_cell(&mut body, cell);
    body.0
}

fn write_cell(body: &mut Writer, cell: &ProximityCell) {
    let ProximityCell { prefix, site, link, rtt_us, loss_permille, hops, samples, source, confidence, age_s } =
        cell;
    body.prefix(field::cell::PREFIX, *prefix);
    body.text(field::cell::SITE, site);
    if let Some(link) = link {
        body.text(field::cell::LINK, link);
    }
    body.u32(field::cell::RTT_US, *rtt_us);
    body.u16(field::cell::LOSS_PERMILLE, *loss_permille);
    body.u8(field::cell::HOPS, *hops);
    body.u32(field::cell::SAMPLES, *samples);
    body.u8(field::cell::SOURCE, *source);
    body.u8(field::cell::CONFIDENCE, *confidence);
    body.u32(field::cell::AGE_S, *age_s);
}

fn encode_word(body: &mut Writer, word: &Word) {
    let Word { target, act, origin, author, reason, revision, base, left_s } = word;
    body.text(field::word::TARGET, target);
    let act = match act {
        Act::ForceUp => act::FORCE_UP,
        Act::ForceDown => act::FORCE_DOWN,
        Act::Drain => act::DRAIN,
        Act::Disable => act::DISABLE,
        Act::Resume => act::RESUME,
        Act::Lift => act::LIFT,
    };
    body.u8(field::word::ACT, act);
    body.text(field::word::ORIGIN, origin);
    body.text(field::word::AUTHOR, author);
    body.cut_text(field::word::REASON, reason, MAX_REASON);
    body.u64(field::word::REVISION, *revision);
    body.u32(field::word::LEFT_S, *left_s);
    body.u64(field::word::BASE, *base);
}
