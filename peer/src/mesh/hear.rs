//! What frames mean for the table, the words and the events.

use super::Mesh;
use super::types::{ConnId, Event};
use crate::claim::{Claim, Key, Lane, Word};
use crate::codec::{Batch, Code, Frame, Notice};
use crate::session::{Heard, Verdict};
use crate::table::Changes;

impl Mesh {
    pub(super) fn hear(&mut self, conn: ConnId, heard: Heard) {
        let Some(peer) = self.sessions.get(&conn).map(|session| session.peer.clone()) else { return };
        match heard {
            Heard::Nothing => {}
            Heard::Broken(code, text) => self.fail(conn, code, &text),
            Heard::Hello(hello) => self.greet(conn, &hello),
            Heard::Batch(batch, Verdict::Apply) => self.apply(conn, &peer, batch),
            Heard::Batch(batch, Verdict::Stage) => self.stage(conn, &peer, batch),
            // counted, and a full sync asked for
            Heard::Batch(_, Verdict::Replay | Verdict::Gap | Verdict::Waiting) => {}
            Heard::Other(Frame::Ask(ask)) => self.asked(&peer, ask),
            Heard::Other(Frame::Reply(reply)) => self.replied(&peer, reply),
            Heard::Other(Frame::Notice(notice)) => self.noticed(conn, &peer, notice),
            Heard::Other(
                Frame::Hello(_)
                | Frame::Claims(_)
                | Frame::Resync(_)
                | Frame::Keepalive(_)
                | Frame::Unknown(_),
            ) => {}
        }
    }

    /// Octets came by a session: lanes that are in order live on.
    pub(super) fn alive(&mut self, conn: ConnId) {
        let now_ms = self.now_ms;
        let Some(session) = self.sessions.get_mut(&conn).filter(|session| session.is_up()) else { return };
        if session.heard_ms != now_ms {
            return;
        }
        session.is_silent = false;
        let name = session.peer.clone();
        let mut was_stale = false;
        for lane in Lane::ALL.into_iter().filter(|lane| session.inbox[*lane as usize].is_synced) {
            was_stale |= self.table.heard(&name, lane, now_ms) && lane == Lane::Urgent;
        }
        if let Some(peer) = self.peers.get_mut(&name) {
            peer.heard_ms = Some(now_ms);
        }
        self.settle(&name);
        if was_stale {
            self.events.push(Event::Fresh { author: name });
        }
    }

    fn apply(&mut self, conn: ConnId, peer: &str, batch: Batch) {
        let Some(epoch) = self.sessions.get(&conn).map(|session| session.epoch) else { return };
        let changes = self.table.apply(peer, epoch, self.now_ms, batch.items);
        self.tell(conn, peer, changes, 0);
    }

    fn stage(&mut self, conn: ConnId, peer: &str, batch: Batch) {
        let now_ms = self.now_ms;
        let Batch { lane, is_begin, is_end, items, .. } = batch;
        let Some(session) = self.sessions.get_mut(&conn) else { return };
        let (epoch, inbox) = (session.epoch, &mut session.inbox[lane as usize]);
        if is_begin {
            inbox.begin(self.table.stage(peer, lane, epoch));
        }
        let Some(staged) = inbox.staged() else { return };
        let refused = self.table.put_aside(staged, now_ms, items);
        self.table.renew(peer, lane, now_ms);
        let whole = is_end.then(|| inbox.end()).flatten();
        session.counters.syncs_received += u64::from(whole.is_some());
        let Some(whole) = whole else { return self.tell(conn, peer, Changes::default(), refused) };
        let changes = self.table.replace(peer, lane, epoch, now_ms, whole);
        let is_fresh_again = changes.is_fresh_again && lane == Lane::Urgent;
        self.tell(conn, peer, changes, refused);
        self.settle(peer);
        if is_fresh_again {
            self.events.push(Event::Fresh { author: peer.to_owned() });
        }
        if lane == Lane::Urgent {
            self.events.push(Event::Synced { peer: peer.to_owned() });
        }
    }

    /// Counts and tells what changed.
    fn tell(&mut self, conn: ConnId, peer: &str, changes: Changes, refused_before: u64) {
        let Changes { claimed, withdrawn, outdated, refused, is_fresh_again: _ } = changes;
        let refused = refused + refused_before;
        if let Some(session) = self.sessions.get_mut(&conn) {
            let is_first = session.counters.refused == 0 && refused > 0;
            session.counters.outdated += outdated;
            session.counters.refused += refused;
            if is_first {
                let text = format!("{refused} claims refused: there are too many, or too many octets");
                session.control(&Frame::Notice(Notice { code: Code::Refused, text: text.clone() }));
                let notice =
                    Event::Notice { peer: peer.to_owned(), is_theirs: false, code: Code::Refused, text };
                self.events.push(notice);
            }
        }
        let words: Vec<_> = claimed.iter().filter_map(|key| self.word_of(peer, key)).collect();
        for key in claimed {
            self.events.push(Event::Claimed { author: peer.to_owned(), key });
        }
        for key in withdrawn {
            self.events.push(Event::Withdrawn { author: peer.to_owned(), key });
        }
        for word in words {
            self.merge(&word);
        }
    }

    fn word_of(&self, peer: &str, key: &Key) -> Option<Word> {
        match self.table.claim(peer, key)?.claim {
            Claim::Word(word) => Some(word.clone()),
            Claim::VirtualServer(_)
            | Claim::Link(_)
            | Claim::Proximity(_)
            | Claim::Persistence(_)
            | Claim::Digest(_) => None,
        }
    }

    fn noticed(&mut self, conn: ConnId, peer: &str, notice: Notice) {
        let Notice { code, text } = notice;
        if let Some(session) = self.sessions.get_mut(&conn) {
            session.has_notice = true;
        }
        if let Some(known) = self.peers.get_mut(peer) {
            known.last_error = Some(format!("the peer says: {text}"));
        }
        self.events.push(Event::Notice { peer: peer.to_owned(), is_theirs: true, code, text });
    }
}
