//! What is known of a peer over its connections, and how it stands with it.

use std::collections::{BTreeMap, VecDeque};

use super::Mesh;
use super::types::{Event, Limits, PeerSettings, PeerState, PeerStatus};
use crate::bucket::Bucket;
use crate::claim::{Claim, Digest, Key};
use crate::codec::Code;
use crate::session::{Counters, Session, State};

/// Epochs that a newer start has replaced, of which so many are remembered.
const MAX_RETIRED: usize = 8;

/// A configured peer.
pub(super) struct Peer {
    pub(super) site: String,
    /// Of connections that are gone, and of what belongs to none.
    pub(super) counters: Counters,
    pub(super) last_error: Option<String>,
    pub(super) state: PeerState,
    pub(super) since_ms: u64,
    pub(super) heard_ms: Option<u64>,
    /// When its last session ended.
    pub(super) lost_ms: u64,
    pub(super) epoch: Option<u64>,
    pub(super) retired: VecDeque<u64>,
    pub(super) version: Option<u16>,
    pub(super) connects: Bucket,
    pub(super) asks: Bucket,
}

impl Peer {
    fn new(now_ms: u64, site: String, limits: Limits) -> Self {
        Self {
            site,
            counters: Counters::default(),
            last_error: None,
            state: PeerState::Down,
            since_ms: now_ms,
            heard_ms: None,
            lost_ms: now_ms,
            epoch: None,
            retired: VecDeque::new(),
            version: None,
            connects: Bucket::new(now_ms, 2, 20),
            asks: Bucket::new(now_ms, limits.asks_per_s.into(), limits.asks_burst.into()),
        }
    }

    /// The epoch of now; the one before is retired.
    pub(super) fn set_epoch(&mut self, epoch: u64) {
        self.retired.retain(|retired| *retired != epoch);
        if let Some(old) = self.epoch.replace(epoch).filter(|old| *old != epoch) {
            self.retired.push_back(old);
            if self.retired.len() > MAX_RETIRED {
                self.retired.pop_front();
            }
        }
    }
}

impl Mesh {
    /// Takes another list of peers. Sessions and claims of those that stay are not touched.
    pub fn set_peers(&mut self, now_ms: u64, peers: Vec<PeerSettings>) {
        let now_ms = self.at(now_ms);
        let wanted: BTreeMap<_, _> = peers.iter().map(|peer| (&peer.name, &peer.site)).collect();
        let is_gone = |name: &String, peer: &Peer| wanted.get(name).is_none_or(|site| **site != peer.site);
        let gone: Vec<_> = self.peers.iter().filter(|(name, peer)| is_gone(name, peer)).collect();
        let gone: Vec<_> = gone.into_iter().map(|(name, _)| name.clone()).collect();
        for name in gone {
            self.remove_peer(&name);
        }
        for PeerSettings { name, site } in &peers {
            // a peer with our own name would be ourselves
            if *name != self.settings.node {
                let new = || Peer::new(now_ms, site.clone(), self.settings.limits);
                self.peers.entry(name.clone()).or_insert_with(new);
                self.table.admit(name, site);
            }
        }
        self.settings.peers = peers;
    }

    fn remove_peer(&mut self, name: &str) {
        let of_peer = self.sessions.values().filter(|session| session.peer == name);
        let conns: Vec<_> = of_peer.map(|session| session.conn).collect();
        for conn in conns {
            self.fail(conn, Code::Unconfigured, "the peer is no longer configured");
        }
        self.peers.remove(name);
        let keys = self.table.dismiss(name);
        if !keys.is_empty() {
            self.events.push(Event::Expired { author: name.to_owned(), keys });
        }
    }

    fn sessions_of<'m>(&'m self, peer: &'m str) -> impl Iterator<Item = &'m Session> {
        self.sessions.values().filter(move |session| session.peer == peer)
    }

    /// Whether a session stands.
    pub(super) fn has_session(&self, peer: &str) -> bool {
        self.sessions_of(peer).any(Session::is_up)
    }

    /// Whether a session stands that is not silent.
    pub(super) fn is_heard(&self, peer: &str) -> bool {
        self.sessions_of(peer).any(|session| session.is_up() && !session.is_silent)
    }

    /// Finds out anew how it stands with a peer.
    pub(super) fn settle(&mut self, name: &str) {
        let state = self.state_of(name);
        let now_ms = self.now_ms;
        if let Some(peer) = self.peers.get_mut(name).filter(|peer| peer.state != state) {
            (peer.state, peer.since_ms) = (state, now_ms);
        }
    }

    fn state_of(&self, name: &str) -> PeerState {
        let rank = |session: &Session| match session.state {
            State::Closing => None,
            State::Greeting { .. } => Some((0, PeerState::Greeting)),
            State::Up if session.is_silent => Some((1, PeerState::Silent)),
            State::Up if !session.is_synced() => Some((2, PeerState::Syncing)),
            State::Up => Some((3, PeerState::Up)),
        };
        let best = self.sessions_of(name).filter_map(rank).max_by_key(|(rank, _)| *rank);
        best.map_or(PeerState::Down, |(_, state)| state)
    }

    /// How it stands with each peer.
    #[must_use]
    pub fn peers(&self) -> Vec<PeerStatus> {
        self.peers.iter().map(|(name, peer)| self.status(name, peer)).collect()
    }

    fn status(&self, name: &str, peer: &Peer) -> PeerStatus {
        let mut counters = peer.counters;
        let mut newest = None;
        for session in self.sessions_of(name) {
            counters.add(session.counters);
            newest = if session.is_up() { Some(session) } else { newest };
        }
        let (claims, bytes, is_stale) = self.table.amount(name);
        PeerStatus {
            name: name.to_owned(),
            site: peer.site.clone(),
            state: peer.state,
            since_ms: peer.since_ms,
            heard_ms: peer.heard_ms,
            version: peer.version,
            epoch: peer.epoch,
            rtt_ms: newest.and_then(|session| session.rtt_ms),
            claims,
            bytes,
            is_stale,
            counters,
            last_error: peer.last_error.clone(),
            differences: self.differences(name),
        }
    }

    /// What should be equal at this node and a peer, and is not (WP-C9, R14).
    fn differences(&self, name: &str) -> Vec<String> {
        let theirs = self.table.claim(name, &Key::Digest).map(|held| held.claim);
        match (self.own.claim(&Key::Digest), theirs) {
            (Some(Claim::Digest(own)), Some(Claim::Digest(theirs))) => differences(own, theirs),
            _ => Vec::new(),
        }
    }

    /// Whether the urgent claims of every peer are here. A node that has just joined waits for that, up to the hold
    /// time (case P12).
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.peers.keys().all(|name| self.sessions_of(name).any(Session::is_synced))
    }
}

fn differences(own: &Digest, theirs: &Digest) -> Vec<String> {
    let mut found = Vec::new();
    if own.config != theirs.config {
        found.push("config".to_owned());
    }
    let pairs = |digest: &Digest| digest.tables.iter().cloned().collect::<BTreeMap<_, _>>();
    let (ours, others) = (pairs(own), pairs(theirs));
    let names = ours.keys().chain(others.keys()).collect::<std::collections::BTreeSet<_>>();
    let unequal = names.into_iter().filter(|name| ours.get(*name) != others.get(*name));
    found.extend(unequal.map(|name| format!("table {name}")));
    if own.version != theirs.version {
        found.push("version".to_owned());
    }
    found
}
