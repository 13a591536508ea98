//! Connections that come and go, and whether their HELLO is accepted.

use super::Mesh;
use super::types::{ConnId, Event};
use crate::claim::{Claim, Key};
use crate::codec::{Code, Hello};
use crate::session::{Session, State};

/// Retired epochs are refused while a newer one has a session, and this many hold times after. Then the older start is
/// taken back: of two nodes with one name, the one that is left must not need a person (case P09).
const RETIRED_HOLDS: u64 = 10;

impl Mesh {
    /// An authenticated connection of `peer` exists.
    pub fn connected(&mut self, now_ms: u64, peer: &str, conn: ConnId) {
        let now_ms = self.at(now_ms);
        let Some(known) = self.peers.get_mut(peer) else {
            self.events.close(conn, "the peer is not configured");
            return;
        };
        if !known.connects.take(now_ms, 1) {
            known.counters.refusals += 1;
            known.last_error = Some("connects too often".into());
            self.events.close(conn, "the peer connects too often");
            return;
        }
        self.bound_connections(peer);
        let session = Session::new(now_ms, conn, peer, self.hello(), self.rules());
        self.sessions.insert(conn, session);
        self.settle(peer);
    }

    /// More connections than allowed: the oldest go.
    fn bound_connections(&mut self, peer: &str) {
        let of_peer = |session: &&Session| session.peer == peer;
        let conns: Vec<_> = self.sessions.values().filter(of_peer).map(|session| session.conn).collect();
        let over = (conns.len() + 1).saturating_sub(self.settings.limits.connections.max(1));
        for conn in conns.into_iter().take(over) {
            self.fail(conn, Code::Replaced, "too many connections");
            self.disconnected(self.now_ms, conn, "too many connections");
        }
    }

    fn hello(&self) -> Hello {
        let settings = &self.settings;
        let config = match self.own.claim(&Key::Digest) {
            Some(Claim::Digest(digest)) => digest.config.clone(),
            _ => String::new(),
        };
        Hello {
            lowest: settings.versions.0,
            highest: settings.versions.1,
            node: settings.node.clone(),
            site: settings.site.clone(),
            epoch: settings.epoch,
            config,
            hold_ms: u32::try_from(settings.hold_ms).unwrap_or(u32::MAX),
            claims_per_s: settings.limits.claims_per_s,
            bytes_per_s: settings.limits.bytes_per_s,
            keys: u32::try_from(settings.limits.keys_per_author).unwrap_or(u32::MAX),
        }
    }

    /// A connection is gone.
    pub fn disconnected(&mut self, now_ms: u64, conn: ConnId, why: &str) {
        self.at(now_ms);
        let Some(mut session) = self.sessions.remove(&conn) else { return };
        session.let_go(&mut self.own);
        let was_up = session.is_up();
        if let Some(peer) = self.peers.get_mut(&session.peer) {
            peer.counters.add(session.counters);
            // a reason that was given, by us or by the peer, says more
            if session.state != State::Closing && !session.has_notice {
                peer.last_error = Some(why.to_owned());
            }
        }
        self.settle(&session.peer);
        if was_up {
            self.lost(&session.peer, why);
        }
    }

    /// A session is no more; where it was the last, the peer is lost.
    fn lost(&mut self, peer: &str, why: &str) {
        if !self.has_session(peer) {
            let now_ms = self.now_ms;
            if let Some(known) = self.peers.get_mut(peer) {
                known.lost_ms = now_ms;
            }
            self.events.push(Event::PeerDown { peer: peer.to_owned(), why: why.to_owned() });
        }
        if !self.is_heard(peer) {
            self.stale(peer);
        }
    }

    /// What a peer claims is stale from now on, and ends when the hold time is over.
    pub(super) fn stale(&mut self, peer: &str) {
        self.settle(peer);
        if self.table.set_stale(peer) {
            self.events.push(Event::Stale { author: peer.to_owned() });
        }
    }

    /// Closes a connection for a reason, which is told to the other side.
    pub(super) fn fail(&mut self, conn: ConnId, code: Code, text: &str) {
        let Some(session) = self.sessions.get_mut(&conn).filter(|session| session.state != State::Closing)
        else {
            return;
        };
        let was_up = session.is_up();
        session.close(code, text, &mut self.own);
        let name = session.peer.clone();
        let is_fault = !matches!(code, Code::Stopping | Code::Replaced | Code::Unconfigured);
        if let Some(peer) = self.peers.get_mut(&name).filter(|_| is_fault) {
            peer.counters.refusals += 1;
            peer.last_error = Some(text.to_owned());
        }
        let notice = Event::Notice { peer: name.clone(), is_theirs: false, code, text: text.to_owned() };
        self.events.push(notice);
        self.events.close(conn, text);
        self.settle(&name);
        if was_up {
            self.lost(&name, text);
        }
    }

    /// Judges a HELLO, and begins the session where it is right.
    pub(super) fn greet(&mut self, conn: ConnId, hello: &Hello) {
        let Some(name) = self.sessions.get(&conn).map(|session| session.peer.clone()) else { return };
        let version = match self.judge(&name, hello) {
            Ok(version) => version,
            Err((code, text)) => return self.fail(conn, code, &text),
        };
        let now_ms = self.now_ms;
        let had_session = self.has_session(&name);
        if let Some(session) = self.sessions.get_mut(&conn) {
            session.accept(now_ms, hello, version, &mut self.own);
        }
        if let Some(peer) = self.peers.get_mut(&name) {
            peer.set_epoch(hello.epoch);
            peer.version = Some(version);
            peer.heard_ms = Some(now_ms);
        }
        self.settle(&name);
        if !had_session {
            self.events.push(Event::PeerUp { peer: name.clone() });
        }
        self.replace_others(conn, &name, hello.epoch);
    }

    /// The ordered checks of a HELLO; the version to speak where it passes them all.
    fn judge(&self, name: &str, hello: &Hello) -> Result<u16, (Code, String)> {
        let settings = &self.settings;
        let (lowest, highest) = settings.versions;
        let version = highest.min(hello.highest);
        if version < lowest.max(hello.lowest) {
            let text =
                format!("speaks versions {} to {}, we {lowest} to {highest}", hello.lowest, hello.highest);
            return Err((Code::Version, text));
        }
        if hello.node == settings.node {
            return Err((Code::DuplicateName, format!("{:?} is our own name", hello.node)));
        }
        if hello.node != name {
            return Err((Code::WrongNode, format!("the key is of {name:?}, HELLO says {:?}", hello.node)));
        }
        let Some(peer) = self.peers.get(name) else {
            return Err((Code::Unconfigured, "the peer is not configured".into()));
        };
        if hello.site != peer.site {
            let text = format!("configured at site {:?}, HELLO says {:?}", peer.site, hello.site);
            return Err((Code::WrongSite, text));
        }
        let refused_until = peer.lost_ms.saturating_add(RETIRED_HOLDS.saturating_mul(settings.hold_ms));
        let is_replaced = self.has_session(name) || self.now_ms < refused_until;
        if is_replaced && peer.retired.contains(&hello.epoch) {
            let text =
                format!("epoch {:016x} was replaced: a replay, or two nodes named {name:?}", hello.epoch);
            return Err((Code::OldEpoch, text));
        }
        Ok(version)
    }

    /// Other connections of the peer: those of another epoch go at once. Of several with one epoch the node whose name
    /// sorts first keeps the newest; the other node waits for that, or both might close the other's choice.
    fn replace_others(&mut self, conn: ConnId, name: &str, epoch: u64) {
        let decides = self.settings.node.as_str() < name;
        let others = self.sessions.values().filter(|other| other.peer == name && other.conn != conn);
        let go = others.filter(|other| other.is_up() && (other.epoch != epoch || decides));
        let go: Vec<_> = go.map(|other| (other.conn, other.epoch != epoch)).collect();
        for (other, is_restart) in go {
            let text = if is_restart { "a newer start of the node" } else { "a newer connection" };
            self.fail(other, Code::Replaced, text);
        }
    }
}
