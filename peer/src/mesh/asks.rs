//! Questions: "measure this prefix" to a peer, and what came of them (WP-C12, case P11).

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::Mesh;
use super::types::{AskRefused, Event};
use crate::claim::is_within;
use crate::codec::{Ask, Frame, Outcome, Refusal, Reply};

/// A question on its way.
struct Waiting {
    peer: String,
    asked_ms: u64,
    until_ms: u64,
}

/// Questions that wait for an answer.
pub(super) struct Asks {
    waiting: BTreeMap<u64, Waiting>,
    limit: usize,
}

impl Asks {
    pub(super) fn new(limit: usize) -> Self {
        Self { waiting: BTreeMap::new(), limit }
    }

    pub(super) fn deadline(&self) -> Option<u64> {
        self.waiting.values().map(|waiting| waiting.until_ms).min()
    }

    fn has_room(&self, peer: &str) -> bool {
        self.waiting.values().filter(|waiting| waiting.peer == peer).count() < self.limit
    }

    /// Those that no answer came to in time.
    pub(super) fn expire(&mut self, now_ms: u64) -> Vec<Event> {
        let over = self.waiting.iter().filter(|(_, waiting)| waiting.until_ms <= now_ms);
        let over: Vec<_> = over.map(|(nonce, _)| *nonce).collect();
        let events = over.into_iter().filter_map(|nonce| {
            let Waiting { peer, asked_ms, .. } = self.waiting.remove(&nonce)?;
            let reply = Reply { nonce, outcome: Outcome::TimedOut, cells: Vec::new() };
            Some(Event::Replied { peer, reply, after_ms: now_ms.saturating_sub(asked_ms) })
        });
        events.collect()
    }
}

impl Mesh {
    /// Asks a peer to measure a prefix. An [`Event::Replied`] follows in any case.
    pub fn ask(&mut self, now_ms: u64, peer: &str, ask: Ask) -> Result<(), AskRefused> {
        let now_ms = self.at(now_ms);
        if !self.peers.contains_key(peer) {
            return Err(AskRefused::Unknown);
        }
        if !self.asks.has_room(peer) || self.asks.waiting.contains_key(&ask.nonce) {
            return Err(AskRefused::Full);
        }
        self.send(peer, &Frame::Ask(ask))?;
        let until_ms = now_ms.saturating_add(u64::from(ask.deadline_ms));
        self.asks.waiting.insert(ask.nonce, Waiting { peer: peer.to_owned(), asked_ms: now_ms, until_ms });
        Ok(())
    }

    /// Answers a peer's question.
    pub fn reply(&mut self, now_ms: u64, peer: &str, reply: Reply) -> Result<(), AskRefused> {
        self.at(now_ms);
        self.send(peer, &Frame::Reply(reply))
    }

    /// Sends by the newest session of a peer.
    fn send(&mut self, peer: &str, frame: &Frame) -> Result<(), AskRefused> {
        let limit = self.settings.limits.asks_waiting;
        let of_peer = self.sessions.values_mut().rev().filter(|session| session.peer == peer);
        let session = of_peer.into_iter().find(|session| session.is_up()).ok_or(AskRefused::Down)?;
        if session.version < 2 {
            return Err(AskRefused::Version);
        }
        if session.control_waiting() >= limit || !session.control(frame) {
            session.counters.asks_dropped += 1;
            return Err(AskRefused::Full);
        }
        Ok(())
    }

    /// A peer asks. What no node may be asked for is refused here; the rest is for who measures to judge.
    pub(super) fn asked(&mut self, peer: &str, ask: Ask) {
        let now_ms = self.now_ms;
        let has_rate = self.peers.get_mut(peer).is_some_and(|peer| peer.asks.take(now_ms, 1));
        let refusal = if !has_rate {
            Some(Refusal::Rate)
        } else if !is_target(&ask, self.settings.allow_private_asks) {
            Some(Refusal::Target)
        } else {
            None
        };
        let Some(refusal) = refusal else {
            self.events.push(Event::Asked { peer: peer.to_owned(), ask });
            return;
        };
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.counters.asks_refused += 1;
        }
        let reply = Reply { nonce: ask.nonce, outcome: Outcome::Refused(refusal), cells: Vec::new() };
        // no room is counted where it is missing; the asker has its deadline
        let _ = self.send(peer, &Frame::Reply(reply));
    }

    /// A peer answers.
    pub(super) fn replied(&mut self, peer: &str, reply: Reply) {
        let is_awaited = self.asks.waiting.get(&reply.nonce).is_some_and(|waiting| waiting.peer == peer);
        let waiting = is_awaited.then(|| self.asks.waiting.remove(&reply.nonce)).flatten();
        match (waiting, self.peers.get_mut(peer)) {
            (Some(Waiting { peer, asked_ms, .. }), _) => {
                let after_ms = self.now_ms.saturating_sub(asked_ms);
                self.events.push(Event::Replied { peer, reply, after_ms });
            }
            (None, Some(peer)) => peer.counters.replies_unasked += 1,
            (None, None) => {}
        }
    }
}

/// Whether a question's target may be measured at all: one unicast address within a prefix that is not too wide.
fn is_target(ask: &Ask, allow_private: bool) -> bool {
    let (_, length) = ask.prefix;
    let is_wide = match ask.address {
        IpAddr::V4(_) => length < 8,
        IpAddr::V6(_) => length < 16,
    };
    let is_fit = match ask.address {
        IpAddr::V4(v4) => {
            let is_special = v4.is_unspecified()
                || v4.is_loopback()
                || v4.is_multicast()
                || v4.is_broadcast()
                || v4.is_link_local()
                || v4.octets()[0] == 0
                || v4.octets()[0] >= 240;
            // RFC 1918, and RFC 6598's shared space
            let is_shared = v4.octets()[0] == 100 && v4.octets()[1] & 0xc0 == 64;
            !is_special && (allow_private || !(v4.is_private() || is_shared))
        }
        IpAddr::V6(v6) => {
            let is_special = v6.is_unspecified()
                || v6.is_loopback()
                || v6.is_multicast()
                || v6.is_unicast_link_local()
                || v6.to_ipv4().is_some();
            // 2000::/3 is all that is routed
            let is_global = v6.segments()[0] & 0xe000 == 0x2000;
            !is_special && (is_global || allow_private && v6.is_unique_local())
        }
    };
    is_fit && !is_wide && is_within(ask.address, ask.prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unicast_addresses_within_their_prefix_are_targets() {
        for (prefix, length, address, public, lab) in [
            ("198.51.100.0", 24, "198.51.100.7", true, true),
            ("198.51.100.0", 24, "198.51.101.7", false, false),
            ("0.0.0.0", 0, "198.51.100.7", false, false),
            ("10.0.0.0", 24, "10.0.0.1", false, true),
            ("100.64.0.0", 24, "100.64.0.1", false, true),
            ("127.0.0.0", 24, "127.0.0.1", false, false),
            ("224.0.0.0", 24, "224.0.0.5", false, false),
            ("255.255.255.0", 24, "255.255.255.255", false, false),
            ("169.254.0.0", 24, "169.254.0.1", false, false),
            ("0.0.0.0", 24, "0.0.0.1", false, false),
            ("2001:db8::", 48, "2001:db8::1", true, true),
            ("2001:db8::", 48, "198.51.100.7", false, false),
            ("fd00::", 48, "fd00::1", false, true),
            ("fe80::", 48, "fe80::1", false, false),
            ("ff02::", 48, "ff02::1", false, false),
            ("::", 96, "::ffff:198.51.100.7", false, false),
        ] {
            let ask = Ask {
                nonce: 1,
                prefix: (prefix.parse().unwrap(), length),
                address: address.parse().unwrap(),
                deadline_ms: 1000,
            };
            assert_eq!(is_target(&ask, false), public, "{address} in {prefix}/{length}");
            assert_eq!(is_target(&ask, true), lab, "{address} in {prefix}/{length} in a lab");
        }
    }
}
