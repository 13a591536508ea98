//! How many strangers may be at the door. Pure.
//!
//! ```text
//!  first packet ─► known address, proven? ──yes──► own places per address ─► admit
//!                     │no
//!                     ▼
//!                proven address? ──no──► a few places, at a bounded rate ─► admit, else prove it first (QUIC Retry)
//!                     │yes
//!                     ▼
//!                places per address and in all, at a bounded rate ─► admit, else refuse
//! ```
//! A handshake costs memory for its time and a signature. Somebody who floods from forged addresses is answered with
//! stateless Retry packets; somebody who floods from true ones fills the places of strangers. Neither takes the places
//! of configured peers.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

/// Handshakes at a time without a proven address.
const UNPROVEN: u32 = 16;
/// Handshakes at a time of strangers.
const STRANGERS: u32 = 64;
/// Handshakes at a time of one address of strangers.
const PER_STRANGER: u32 = 4;
/// Handshakes at a time for each peer configured at an address.
const PER_PEER: u32 = 8;
/// Handshakes of strangers a second, and at once.
const RATE_PER_S: u64 = 100;
const BURST: u64 = 200;

/// What becomes of somebody at the door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Admit(Place),
    /// Prove the address first.
    Prove,
    Refuse,
}

/// A place that must be given back by [`Gate::leave`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    source: IpAddr,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Peer,
    Stranger,
    Unproven,
}

/// Who is at the door.
#[derive(Debug, Default)]
pub(super) struct Gate {
    strangers: u32,
    unproven: u32,
    /// Places taken per address, of peers and strangers; bounded by the places.
    by_source: HashMap<IpAddr, u32>,
    /// Thousandths of a handshake.
    tokens: u64,
    filled_ms: Option<u64>,
}

impl Gate {
    /// Asks for a place. `peers` is how many peers are configured at the address.
    pub(super) fn ask(&mut self, now_ms: u64, source: IpAddr, peers: usize, is_proven: bool) -> Entry {
        let source = network(source);
        let taken = self.by_source.get(&source).copied().unwrap_or(0);
        if is_proven && peers > 0 {
            let most = PER_PEER.saturating_mul(u32::try_from(peers).unwrap_or(u32::MAX));
            return if taken < most { self.admit(source, Kind::Peer) } else { Entry::Refuse };
        }
        self.fill(now_ms);
        if !is_proven {
            let is_room = self.unproven < UNPROVEN && self.take_token();
            return if is_room { self.admit(source, Kind::Unproven) } else { Entry::Prove };
        }
        if taken < PER_STRANGER && self.strangers < STRANGERS && self.take_token() {
            self.admit(source, Kind::Stranger)
        } else {
            Entry::Refuse
        }
    }

    /// Gives a place back.
    pub(super) fn leave(&mut self, place: Place) {
        let Place { source, kind } = place;
        match kind {
            Kind::Unproven => self.unproven = self.unproven.saturating_sub(1),
            Kind::Stranger => self.strangers = self.strangers.saturating_sub(1),
            Kind::Peer => {}
        }
        // an unproven address may be forged: it takes nothing from the one it names
        if kind != Kind::Unproven
            && let Some(taken) = self.by_source.get_mut(&source)
        {
            *taken -= 1;
            if *taken == 0 {
                self.by_source.remove(&source);
            }
        }
    }

    fn admit(&mut self, source: IpAddr, kind: Kind) -> Entry {
        match kind {
            Kind::Unproven => self.unproven += 1,
            Kind::Stranger => self.strangers += 1,
            Kind::Peer => {}
        }
        if kind != Kind::Unproven {
            *self.by_source.entry(source).or_default() += 1;
        }
        Entry::Admit(Place { source, kind })
    }

    fn fill(&mut self, now_ms: u64) {
        let full = BURST * 1000;
        let passed = self.filled_ms.map_or(u64::MAX, |then| now_ms.saturating_sub(then));
        self.tokens = self.tokens.saturating_add(passed.saturating_mul(RATE_PER_S)).min(full);
        self.filled_ms = Some(now_ms);
    }

    fn take_token(&mut self) -> bool {
        let left = self.tokens.checked_sub(1000);
        self.tokens = left.unwrap_or(self.tokens);
        left.is_some()
    }
}

/// One network counts once: whoever has an IPv6 address has 2^64 of them.
fn network(source: IpAddr) -> IpAddr {
    match source.to_canonical() {
        v4 @ IpAddr::V4(_) => v4,
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn admitted(entry: Entry) -> Place {
        match entry {
            Entry::Admit(place) => place,
            other @ (Entry::Prove | Entry::Refuse) => panic!("{other:?}"),
        }
    }

    #[test]
    fn forged_addresses_must_be_proven_and_take_nothing_from_peers() {
        let mut gate = Gate::default();
        let peer = address(1);
        for _ in 0..UNPROVEN {
            admitted(gate.ask(0, peer, 1, false));
        }
        assert_eq!(gate.ask(0, peer, 1, false), Entry::Prove);
        let places: Vec<_> = (0..PER_PEER).map(|_| admitted(gate.ask(0, peer, 1, true))).collect();
        assert_eq!(gate.ask(0, peer, 1, true), Entry::Refuse);
        assert!(matches!(gate.ask(0, peer, 2, true), Entry::Admit(_)), "two peers at one address have more");
        for place in places {
            gate.leave(place);
        }
        assert_eq!(gate.by_source.get(&peer), Some(&1));
    }

    #[test]
    fn strangers_have_places_of_their_own() {
        let mut gate = Gate::default();
        let mut places = Vec::new();
        for last in 0..=255 {
            for _ in 0..PER_STRANGER + 2 {
                if let Entry::Admit(place) = gate.ask(0, address(last), 0, true) {
                    places.push(place);
                }
            }
        }
        assert_eq!(places.len(), STRANGERS as usize);
        assert!(places.iter().filter(|place| place.source == address(0)).count() <= PER_STRANGER as usize);
        admitted(gate.ask(0, address(9), 1, true));
        for place in places {
            gate.leave(place);
        }
        assert_eq!((gate.strangers, gate.by_source.len()), (0, 1));
    }

    #[test]
    fn strangers_come_at_a_bounded_rate() {
        let mut gate = Gate::default();
        let mut come = |now_ms: u64| {
            let entry = gate.ask(now_ms, address(7), 0, true);
            if let Entry::Admit(place) = entry {
                gate.leave(place);
                return 1;
            }
            0
        };
        let at_once: u64 = (0..10_000).map(|_| come(5)).sum();
        assert_eq!(at_once, BURST);
        let in_a_second: u64 = (0..10_000).map(|step| come(5 + step / 10)).sum();
        assert!((RATE_PER_S - 1..=RATE_PER_S).contains(&in_a_second), "{in_a_second}");
    }

    #[test]
    fn a_network_counts_once() {
        let one = network("2001:db8::1".parse().unwrap());
        assert_eq!(one, network("2001:db8::ffff:1".parse().unwrap()));
        assert_ne!(one, network("2001:db8:0:1::1".parse().unwrap()));
        assert_eq!(network("::ffff:192.0.2.1".parse().unwrap()), address(1));
    }
}
