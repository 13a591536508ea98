//! Who has earned a probe: addresses that have shown to be where they say they are.
//!
//! ```text
//! cookie, TCP ───────────────────────────────► earned (24 h)
//! plain UDP ─► strangers: counted ─► 3 queries over 1 s or more ─┘
//! ```
//! The source of a datagram can be forged; probing whoever is named would make us a reflector (X, peers' part). Both
//! tables are bounded, and apart: a flood of forged sources pushes out strangers, never those who have earned it.

use std::{collections::HashMap, hash::Hash, net::IpAddr};

/// What a query shows about its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Nothing: a datagram.
    Plain,
    /// A server cookie of ours that was made for this address (RFC 7873).
    Cookie,
    /// A stream, which takes a handshake.
    Stream,
}

/// Queries without other evidence that an address must have sent …
const QUERIES: u8 = 3;
/// … over at least this.
const OVER_MS: u64 = 1_000;
/// Queries further apart than this do not add up.
const STRANGER_MS: u64 = 3_600_000;
/// What was earned holds for so long.
const EARNED_MS: u64 = 86_400_000;

/// Strangers, and those who have earned it.
#[derive(Debug)]
pub(super) struct Sightings {
    strangers: Bounded<IpAddr, Stranger>,
    /// With the time of the last query.
    earned: Bounded<IpAddr, u64>,
}

#[derive(Clone, Copy, Debug)]
struct Stranger {
    first_ms: u64,
    last_ms: u64,
    queries: u8,
}

impl Sightings {
    pub(super) fn new(capacity: usize) -> Self {
        Self { strangers: Bounded::new(capacity), earned: Bounded::new(capacity) }
    }

    /// A query came from this address.
    pub(super) fn see(&mut self, now_ms: u64, address: IpAddr, evidence: Evidence) {
        let has_earned = match evidence {
            Evidence::Cookie | Evidence::Stream => true,
            Evidence::Plain => self.has_earned(now_ms, address) || self.count(now_ms, address),
        };
        if has_earned {
            self.earned.put(address, now_ms);
        }
    }

    /// Whether this address may be probed.
    pub(super) fn has_earned(&self, now_ms: u64, address: IpAddr) -> bool {
        self.earned.get(&address).is_some_and(|last_ms| now_ms.saturating_sub(last_ms) <= EARNED_MS)
    }

    /// Counts a stranger's query. True when it was enough.
    fn count(&mut self, now_ms: u64, address: IpAddr) -> bool {
        let known = self.strangers.get(&address);
        let known = known.filter(|known| now_ms.saturating_sub(known.last_ms) <= STRANGER_MS);
        let before = known.unwrap_or(Stranger { first_ms: now_ms, last_ms: now_ms, queries: 0 });
        let after = Stranger { last_ms: now_ms, queries: before.queries.saturating_add(1), ..before };
        self.strangers.put(address, after);
        after.queries >= QUERIES && now_ms.saturating_sub(after.first_ms) >= OVER_MS
    }
}

/// A map of two halves: when the newer one is full the older one is forgotten. What is used moves to the newer one.
#[derive(Debug)]
struct Bounded<K, V> {
    half: usize,
    newer: HashMap<K, V>,
    older: HashMap<K, V>,
}

impl<K: Copy + Eq + Hash, V: Copy> Bounded<K, V> {
    fn new(capacity: usize) -> Self {
        Self { half: (capacity / 2).max(1), newer: HashMap::new(), older: HashMap::new() }
    }

    fn get(&self, key: &K) -> Option<V> {
        self.newer.get(key).or_else(|| self.older.get(key)).copied()
    }

    fn put(&mut self, key: K, value: V) {
        self.older.remove(&key);
        self.newer.insert(key, value);
        if self.newer.len() >= self.half {
            self.older = std::mem::take(&mut self.newer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHO: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(5, 6, 7, 8));

    #[test]
    fn what_earns_a_probe() {
        use Evidence::{Cookie, Plain, Stream};
        const DAY: u64 = EARNED_MS;
        type Case = (&'static [(u64, Evidence)], u64, bool);
        let table: &[Case] = &[
            (&[], 0, false),
            (&[(0, Plain)], 5_000, false),
            (&[(0, Plain), (2_000, Plain)], 2_000, false),
            (&[(0, Plain), (500, Plain), (999, Plain)], 999, false),
            (&[(0, Plain), (500, Plain), (1_000, Plain)], 1_000, true),
            (&[(0, Plain), (1, Plain), (2, Plain), (3, Plain), (1_001, Plain)], 1_001, true),
            (&[(0, Plain), (1, Plain), (4_000_000, Plain)], 4_000_000, false),
            (&[(0, Plain), (3_500_000, Plain), (7_000_000, Plain)], 7_000_000, true),
            (&[(0, Cookie)], 0, true),
            (&[(0, Stream)], DAY, true),
            (&[(0, Stream)], DAY + 1, false),
            (&[(0, Stream), (DAY, Plain)], 2 * DAY, true),
            (&[(0, Stream), (DAY + 1, Plain)], DAY + 1, false),
        ];
        for (queries, now_ms, expected) in table {
            let mut sightings = Sightings::new(64);
            for (at, evidence) in *queries {
                sightings.see(*at, WHO, *evidence);
            }
            assert_eq!(sightings.has_earned(*now_ms, WHO), *expected, "{queries:?}");
        }
    }

    #[test]
    fn forged_sources_push_out_only_strangers() {
        let mut sightings = Sightings::new(64);
        sightings.see(0, WHO, Evidence::Cookie);
        for number in 0..10_000_u32 {
            sightings.see(1, std::net::Ipv4Addr::from_bits(0x1600_0000 + number).into(), Evidence::Plain);
        }
        assert!(sightings.has_earned(1, WHO));
        assert!(sightings.strangers.newer.len() + sightings.strangers.older.len() <= 64);
        assert_eq!(sightings.earned.newer.len(), 1);
    }
}
