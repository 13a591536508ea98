//! All sessions of a node, its own claims, and what others claim.
//!
//! ```text
//!   publish, withdraw, speak ─► own ──┐                                ┌─► events, claims, peers
//!   connected, received, tick ─► sessions ─► judge ─► table, words ────┘
//!   poll_transmit ◄──────────────┘
//! ```

mod asks;
mod events;
mod greet;
mod hear;
mod peer;
mod types;

use std::collections::BTreeMap;

use crate::claim::{Act, Claim, Invalid, Key, Word};
use crate::codec::{Change, Code, Item, MAX_CLAIM, item::encode_item};
use crate::own::Own;
use crate::session::{Heard, MIN_HOLD_MS, Rules, Session};
use crate::table::{Ended, Held, Table};
use crate::word::{Merged, Words};
use asks::Asks;
use events::Events;
use peer::Peer;
pub use types::{
    AskRefused, ConnId, Event, Limits, PeerSettings, PeerState, PeerStatus, Published, Settings,
};

/// The node among its peers. Nothing here waits: time and octets come in; octets, events and deadlines go out.
///
/// After every call, poll: [`Self::poll_event`] until there is none, [`Self::poll_transmit`] of every connection that
/// can send, and call [`Self::tick`] when [`Self::poll_deadline`] is reached.
pub struct Mesh {
    settings: Settings,
    now_ms: u64,
    peers: BTreeMap<String, Peer>,
    sessions: BTreeMap<ConnId, Session>,
    own: Own,
    table: Table,
    words: Words,
    events: Events,
    asks: Asks,
}

impl Mesh {
    /// A node without connections.
    #[must_use]
    pub fn new(mut settings: Settings, now_ms: u64) -> Self {
        settings.hold_ms = settings.hold_ms.max(MIN_HOLD_MS);
        let limits = settings.limits;
        let peers = std::mem::take(&mut settings.peers);
        let mut mesh = Self {
            now_ms,
            peers: BTreeMap::new(),
            sessions: BTreeMap::new(),
            own: Own::new(limits.keys_per_author),
            table: Table::new(settings.hold_ms, limits),
            words: Words::default(),
            events: Events::new(limits.events),
            asks: Asks::new(limits.asks_waiting),
            settings,
        };
        mesh.set_peers(now_ms, peers);
        mesh
    }

    /// The settings, with the peers of now.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Time never goes back, whatever the caller's clock does.
    fn at(&mut self, now_ms: u64) -> u64 {
        self.now_ms = self.now_ms.max(now_ms);
        self.now_ms
    }

    /// Says `claim` to all peers, now and whenever they come. Equal to what is said already, it is no change.
    pub fn publish(&mut self, now_ms: u64, claim: Claim, lifetime_ms: Option<u64>) -> Published {
        self.at(now_ms);
        if let Err(invalid) = check(&claim) {
            return Published::Refused(invalid);
        }
        let Claim::Word(word) = claim else { return self.publish_own(claim, lifetime_ms) };
        // a word that was kept over a restart is heard again, so that an old one cannot win
        match self.merge(&word) {
            Merged::Adopted => Published::Changed,
            Merged::Conflict(kept, _) if *kept == word => Published::Changed,
            Merged::Known | Merged::Conflict(..) => Published::Same,
            Merged::Full => Published::Full,
        }
    }

    fn publish_own(&mut self, claim: Claim, lifetime_ms: Option<u64>) -> Published {
        let (published, slot) = self.own.publish(self.now_ms, claim, lifetime_ms);
        if let Some(slot) = slot {
            for session in self.sessions.values_mut() {
                session.changed(&mut self.own, slot);
            }
        }
        published
    }

    /// No longer says what it said under `key`.
    pub fn withdraw(&mut self, now_ms: u64, key: &Key) {
        self.at(now_ms);
        let Some(slot) = self.own.withdraw(key) else { return };
        for session in self.sessions.values_mut() {
            session.changed(&mut self.own, slot);
        }
        self.own.release(slot);
        self.bound_withdrawn();
    }

    /// A slow peer may not make us remember withdrawn keys without end: it gets everything anew instead.
    fn bound_withdrawn(&mut self) {
        for _ in 0..self.sessions.len() {
            if self.own.withdrawn() <= self.settings.limits.withdrawn {
                return;
            }
            if let Some(slowest) = self.sessions.values_mut().max_by_key(|session| session.waiting()) {
                slowest.sync_all(&mut self.own);
            }
        }
    }

    /// Speaks an operator's word on `target`, which all nodes will repeat until `lifetime_s` is over or a newer word
    /// is spoken anywhere.
    pub fn speak(
        &mut self,
        now_ms: u64,
        target: &str,
        act: Act,
        author: &str,
        reason: &str,
        lifetime_s: u32,
    ) -> Published {
        self.at(now_ms);
        let mut word = Word {
            target: target.to_owned(),
            act,
            origin: self.settings.node.clone(),
            author: author.to_owned(),
            reason: reason.to_owned(),
            revision: 0,
            base: 0,
            left_s: lifetime_s,
        };
        if let Err(invalid) = check(&Claim::Word(word.clone())) {
            return Published::Refused(invalid);
        }
        if !self.words.speak(self.now_ms, &mut word) {
            return Published::Full;
        }
        self.repeat(word)
    }

    /// Claims a word as one that holds.
    fn repeat(&mut self, word: Word) -> Published {
        self.events.push(Event::Spoken { target: word.target.clone() });
        let lifetime_ms = u64::from(word.left_s) * 1000;
        self.publish_own(Claim::Word(word), Some(lifetime_ms))
    }

    fn merge(&mut self, word: &Word) -> Merged {
        let merged = self.words.merge(self.now_ms, word);
        let is_new = match &merged {
            Merged::Adopted => true,
            Merged::Conflict(kept, dropped) => {
                let (kept, dropped) = (kept.as_ref().clone(), dropped.as_ref().clone());
                let is_new = kept == *word;
                self.events.push(Event::Conflict { kept, dropped });
                is_new
            }
            Merged::Known | Merged::Full => false,
        };
        if is_new {
            self.repeat(word.clone());
        }
        merged
    }

    /// Operators' words that hold.
    pub fn words(&self) -> impl Iterator<Item = &Word> {
        self.words.iter()
    }

    /// The word that holds on `target`.
    #[must_use]
    pub fn word(&self, target: &str) -> Option<&Word> {
        self.words.get(target).filter(|word| word.act != Act::Lift)
    }

    /// Octets came, in any cut.
    pub fn received(&mut self, now_ms: u64, conn: ConnId, bytes: &[u8]) {
        let now_ms = self.at(now_ms);
        if let Some(session) = self.sessions.get_mut(&conn) {
            session.push(bytes);
        }
        // each round takes at least a header off what came
        while let Some(session) = self.sessions.get_mut(&conn) {
            match session.next(now_ms, &mut self.own) {
                Some(Heard::Broken(code, text)) => self.fail(conn, code, &text),
                Some(heard) => self.hear(conn, heard),
                None => break,
            }
        }
        self.alive(conn);
        self.tick_session(conn);
    }

    /// The next frame for a connection. Ask only when it can be sent: what waits here stays newest.
    pub fn poll_transmit(&mut self, conn: ConnId) -> Option<Vec<u8>> {
        self.sessions.get_mut(&conn)?.transmit(self.now_ms, &mut self.own)
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    /// When [`Self::tick`] has something to do.
    #[must_use]
    pub fn poll_deadline(&self) -> Option<u64> {
        let sessions = self.sessions.values().filter_map(|session| session.deadline(self.now_ms));
        let others =
            [self.own.deadline(), self.table.deadline(), self.words.deadline(), self.asks.deadline()];
        sessions.chain(others.into_iter().flatten()).min()
    }

    /// Does what is due.
    pub fn tick(&mut self, now_ms: u64) {
        let now_ms = self.at(now_ms);
        self.own.expire(now_ms);
        for target in self.words.expire(now_ms) {
            self.withdraw(now_ms, &Key::Word(target.clone()));
            self.events.push(Event::Spoken { target });
        }
        let conns: Vec<_> = self.sessions.keys().copied().collect();
        for conn in conns {
            self.tick_session(conn);
        }
        for ended in self.table.expire(now_ms) {
            let Ended { author, keys, is_stale } = ended;
            if is_stale {
                self.events.push(Event::Stale { author: author.clone() });
            }
            if !keys.is_empty() {
                self.events.push(Event::Expired { author, keys });
            }
        }
        for event in self.asks.expire(now_ms) {
            self.events.push(event);
        }
    }

    fn tick_session(&mut self, conn: ConnId) {
        let now_ms = self.now_ms;
        let Some(session) = self.sessions.get_mut(&conn) else { return };
        if let Some((code, text)) = session.tick(now_ms) {
            self.fail(conn, code, &text);
        } else if session.is_up() && !session.is_silent && now_ms >= session.silent_at() {
            session.is_silent = true;
            let peer = session.peer.clone();
            if !self.is_heard(&peer) {
                self.stale(&peer);
            }
        }
    }

    /// What others claim.
    pub fn claims(&self) -> impl Iterator<Item = Held<'_>> {
        self.table.claims()
    }

    /// What one of them claims.
    pub fn claims_of(&self, author: &str) -> impl Iterator<Item = Held<'_>> {
        self.table.claims_of(author)
    }

    /// One claim.
    #[must_use]
    pub fn claim(&self, author: &str, key: &Key) -> Option<Held<'_>> {
        self.table.claim(author, key)
    }

    /// What this node claims.
    pub fn own_claims(&self) -> impl Iterator<Item = &Claim> {
        self.own.claims()
    }

    /// Claims of others that are held, and the octets they take, about.
    #[must_use]
    pub fn totals(&self) -> (usize, usize) {
        self.table.totals()
    }

    /// Frames and claims that wait for a connection that does not send.
    #[must_use]
    pub fn waiting(&self, conn: ConnId) -> usize {
        self.sessions.get(&conn).map_or(0, |session| session.control_waiting() + session.waiting())
    }

    /// The connections that are known, so that each can be polled.
    pub fn connections(&self) -> impl Iterator<Item = ConnId> {
        self.sessions.keys().copied()
    }

    /// Holds what must hold, for tests.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        self.own.check_invariants();
        self.table.check_invariants();
        assert!(self.own.withdrawn() <= self.settings.limits.withdrawn, "withdrawn keys");
        for session in self.sessions.values() {
            assert!(session.waiting() <= self.own.live() + self.own.withdrawn(), "a key waits twice");
        }
    }

    fn rules(&self) -> Rules {
        let Settings { hold_ms, keepalive_ms, handshake_ms, limits, .. } = self.settings;
        Rules { hold_ms, keepalive_ms, handshake_ms, limits }
    }

    /// Says good-bye to all.
    pub fn stop(&mut self, now_ms: u64) {
        self.at(now_ms);
        let conns: Vec<_> = self.sessions.keys().copied().collect();
        for conn in conns {
            self.fail(conn, Code::Stopping, "the node stops");
        }
    }
}

fn check(claim: &Claim) -> Result<(), Invalid> {
    claim.check()?;
    // only a digest is made of many parts; all others are bounded by those they have
    if let Claim::Digest(_) = claim {
        let item = Item { sequence: 0, lifetime_ms: None, change: Change::Set(claim.clone()) };
        if encode_item(&item).len() > MAX_CLAIM {
            return Err(Invalid::Size);
        }
    }
    Ok(())
}
