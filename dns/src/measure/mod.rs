//! What queries tell those who measure clients, and which clients are asked to come by TCP so that they can be.
//!
//! ```text
//! decision without a measured row ─► told of late? ─► Sighting ─► bounded queue ─► control plane (probes, ages)
//!                                └─► Solicit: within its limits? ─► TC=1, and the client's handshake is a measurement
//! ```
//! All workers share one of these without a lock. A full queue drops and counts; no query waits.

mod solicit;
mod told;

use self::solicit::Solicit;
use self::told::Told;
use crate::ecs::PrefixSet;
use crate::rrl::mix;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// The most of a million queries that may be asked to come by TCP (X 3).
const MOST_PER_MILLION: u32 = 5_000;
/// A prefix is asked no sooner again than after this (X 3).
const LEAST_EVERY_S: u32 = 600;
/// What one such query costs of the credit that queries earn.
const PRICE: u32 = 1_000_000;
/// Queries that may be asked at once after long silence.
const SAVED: u32 = 4;
/// Of the decisions that have a measured row one in so many is told of, so that rows in use do not age out.
const REFRESH: u32 = 32;

/// What an operator can set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasureSettings {
    /// Whether clients of decisions by distance are told of.
    pub tell: bool,
    /// Whether clients without a measurement are asked to come by TCP.
    pub solicit: bool,
    /// How many of a million queries over UDP may be asked at most; 5,000 is the most that can be set.
    pub per_million: u32,
    /// Seconds after which a prefix that came is asked again at the earliest; 600 is the least that can be set.
    pub every_s: u32,
    /// Bits of an IPv4 address that are measured as one.
    pub v4_prefix: u8,
    /// Bits of an IPv6 address that are measured as one.
    pub v6_prefix: u8,
    /// Who is never asked: resolvers of anycast addresses, those who do not want to be measured.
    pub exempt: PrefixSet,
    /// Prefixes that are remembered as asked, and clients as told of.
    pub entries: usize,
}

impl Default for MeasureSettings {
    fn default() -> Self {
        Self {
            tell: true,
            solicit: false,
            per_million: MOST_PER_MILLION,
            every_s: LEAST_EVERY_S,
            v4_prefix: 24,
            v6_prefix: 48,
            exempt: PrefixSet::default(),
            entries: 1 << 16,
        }
    }
}

/// What a query shows about its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Nothing: the source of a datagram can be forged.
    Plain,
    /// A server cookie of ours that was made for this address.
    Cookie,
    /// A stream.
    Stream,
}

/// A client for whom distance would have decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Who asked.
    pub source: IpAddr,
    /// For which clients, where the query said so and that was used.
    pub subnet: Option<(IpAddr, u8)>,
    /// What the query shows about its source.
    pub evidence: Evidence,
    /// Whether there was no measured row; otherwise this only says that the row is in use.
    pub is_unmeasured: bool,
}

/// Counters of measuring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeasureCounters {
    /// Sightings handed on.
    pub told: u64,
    /// Sightings for which the queue had no room.
    pub dropped: u64,
    /// Queries that were asked to come by TCP.
    pub solicited: u64,
    /// Of those, prefixes that came.
    pub came: u64,
}

/// What the workers share.
#[derive(Debug)]
pub struct Measure {
    settings: MeasureSettings,
    solicit: Arc<Solicit>,
    told: Arc<Told>,
    queue: SyncSender<Sighting>,
    counts: Arc<Counts>,
    seed: u64,
}

#[derive(Debug, Default)]
struct Counts {
    told: AtomicU64,
    dropped: AtomicU64,
    solicited: AtomicU64,
    came: AtomicU64,
}

/// One worker's account: each query earns a little, each solicitation costs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Credit {
    saved: u32,
    turn: u32,
}

impl Credit {
    /// A query over UDP was answered.
    const fn earn(&mut self, per_million: u32) {
        let saved = self.saved + per_million;
        self.saved = if saved > SAVED * PRICE { SAVED * PRICE } else { saved };
    }

    /// Whether a decision by a measured row is told of.
    pub(crate) const fn refreshes(&mut self) -> bool {
        self.turn = self.turn.wrapping_add(1);
        self.turn.is_multiple_of(REFRESH)
    }
}

impl Measure {
    /// Tells the second value, which has room for `room` sightings. `seed` should be drawn anew by each process.
    #[must_use]
    pub fn new(settings: MeasureSettings, room: usize, seed: u64) -> (Self, Receiver<Sighting>) {
        let (queue, receiver) = sync_channel(room.max(1));
        let solicit = Arc::new(Solicit::new(settings.entries));
        let told = Arc::new(Told::new(settings.entries));
        (Self { solicit, told, queue, counts: Arc::default(), seed, settings }, receiver)
    }

    /// The same queue and memory under other settings; the size of the memory stays.
    #[must_use]
    pub fn with_settings(&self, settings: MeasureSettings) -> Self {
        Self {
            settings,
            solicit: self.solicit.clone(),
            told: self.told.clone(),
            queue: self.queue.clone(),
            counts: self.counts.clone(),
            seed: self.seed,
        }
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &MeasureSettings {
        &self.settings
    }

    /// What was done.
    #[must_use]
    pub fn counters(&self) -> MeasureCounters {
        let Counts { told, dropped, solicited, came } = &*self.counts;
        let [told, dropped, solicited, came] =
            [told, dropped, solicited, came].map(|count| count.load(Ordering::Relaxed));
        MeasureCounters { told, dropped, solicited, came }
    }

    /// Whether this source's prefix was asked to come by TCP in the last minutes: what its handshake is then called.
    #[must_use]
    pub fn has_solicited(&self, source: IpAddr, mono_s: u32) -> bool {
        self.settings.solicit && self.solicit.has_asked(self.key(source), mono_s, self.every_s())
    }

    /// Hands a sighting on, unless the same client was told of a short while ago.
    pub(crate) fn tell(&self, sighting: Sighting, mono_ms: u64) {
        let subnet = sighting.subnet.map_or(0, |(address, length)| mix(number(address) ^ u64::from(length)));
        if !self.settings.tell
            || !self.told.is_news(mix(self.seed ^ number(sighting.source) ^ subnet), mono_ms)
        {
            return;
        }
        let count = match self.queue.try_send(sighting) {
            Ok(()) => &self.counts.told,
            Err(_) => &self.counts.dropped,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// A query came over a stream.
    pub(crate) fn came(&self, source: IpAddr, mono_s: u32) {
        if self.settings.solicit && self.solicit.came(self.key(source), mono_s, self.every_s()) {
            self.counts.came.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A query over UDP was answered: earns its share of a solicitation.
    pub(crate) fn earn(&self, credit: &mut Credit) {
        if self.settings.solicit {
            credit.earn(self.settings.per_million.min(MOST_PER_MILLION));
        }
    }

    /// Whether this query is to be asked to come by TCP. `subnet` is what its decision went by.
    pub(crate) fn solicits(
        &self,
        source: IpAddr,
        subnet: Option<(IpAddr, u8)>,
        mono_s: u32,
        credit: &mut Credit,
    ) -> bool {
        if !self.settings.solicit || credit.saved < PRICE {
            return false;
        }
        // the handshake would measure the resolver, which is elsewhere
        let is_at_home = subnet.is_none_or(|(address, _)| self.prefix(address) == self.prefix(source));
        if !is_at_home
            || self.settings.exempt.contains(source)
            || !self.solicit.may_ask(self.key(source), mono_s, self.every_s())
        {
            return false;
        }
        credit.saved -= PRICE;
        self.counts.solicited.fetch_add(1, Ordering::Relaxed);
        true
    }

    fn every_s(&self) -> u32 {
        self.settings.every_s.max(LEAST_EVERY_S)
    }

    fn key(&self, source: IpAddr) -> u64 {
        mix(self.seed ^ number(self.prefix(source)))
    }

    fn prefix(&self, address: IpAddr) -> IpAddr {
        match address.to_canonical() {
            IpAddr::V4(v4) => {
                let host = 32_u32.saturating_sub(self.settings.v4_prefix.into());
                let mask = u32::MAX.checked_shl(host).unwrap_or(0);
                IpAddr::V4((v4.to_bits() & mask).into())
            }
            IpAddr::V6(v6) => {
                let host = 128_u32.saturating_sub(self.settings.v6_prefix.into());
                let mask = u128::MAX.checked_shl(host).unwrap_or(0);
                IpAddr::V6((v6.to_bits() & mask).into())
            }
        }
    }
}

/// An address in a word; IPv6 is hashed.
fn number(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => mix(v6.to_bits() as u64 ^ mix((v6.to_bits() >> 64) as u64 | 1 << 63)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn measure(settings: MeasureSettings) -> (Measure, Receiver<Sighting>) {
        Measure::new(settings, 16, fastrand::u64(..))
    }

    /// X 3 against a model that remembers everything: at most one query per prefix and 10 minutes, at most 0.5 % of
    /// the queries, and never again for a day where nobody came.
    #[test]
    fn soliciting_keeps_its_limits() {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        for round in 0..20 {
            let (entries, every_s) = ([16, 1 << 10][round % 2], [0, 600, 5_000][round % 3]);
            let settings = MeasureSettings { solicit: true, entries, every_s, ..MeasureSettings::default() };
            let (measure, _queue) = measure(settings);
            let mut credits = [Credit::default(), Credit::default()];
            let mut queries = [0_u64; 2];
            let mut asked_of = [0_u64; 2];
            // prefix → when it was asked last, and whether it came since
            let mut asked: BTreeMap<u8, (u32, bool)> = BTreeMap::new();
            let mut mono_s = random.u32(..100_000);
            for _ in 0..60_000 {
                mono_s += u32::from(random.u8(..) == 0) * random.u32(..4_000);
                let (net, worker) = (random.u8(..40), random.usize(..2));
                let source = IpAddr::from([198, 51, net, random.u8(..)]);
                let is_deaf = net % 4 == 0;
                if !is_deaf && random.u8(..) < 3 {
                    measure.came(source, mono_s);
                    if let Some(entry) = asked.get_mut(&net) {
                        entry.1 = true;
                    }
                    continue;
                }
                queries[worker] += 1;
                let credit = &mut credits[worker];
                measure.earn(credit);
                if !measure.solicits(source, None, mono_s, credit) {
                    continue;
                }
                asked_of[worker] += 1;
                if let Some((before_s, came)) = asked.insert(net, (mono_s, false)) {
                    let least_s = if came { every_s.max(600) } else { 86_400 };
                    let after_s = mono_s - before_s;
                    assert!(after_s >= least_s, "seed {seed}: {net} again after {after_s} s, came: {came}");
                }
                assert!(measure.has_solicited(source, mono_s));
            }
            for (asked, queries) in asked_of.into_iter().zip(queries) {
                assert!(asked * 200 <= queries, "seed {seed}: {asked} of {queries}");
                assert!(asked > 0, "seed {seed}: nothing was tested");
            }
            assert_eq!(measure.counters().solicited, asked_of.iter().sum::<u64>());
            assert!(measure.counters().came > 0);
        }
    }

    #[test]
    fn who_is_not_solicited() {
        let settings = MeasureSettings {
            solicit: true,
            exempt: PrefixSet::new([([8, 8, 8, 0].into(), 24)]),
            ..MeasureSettings::default()
        };
        let (measure, _queue) = measure(settings.clone());
        let rich = || Credit { saved: PRICE, turn: 0 };
        let ask = |measure: &Measure, source: &str, subnet: Option<(&str, u8)>, mut credit: Credit| {
            let subnet = subnet.map(|(address, length)| (address.parse().unwrap(), length));
            measure.solicits(source.parse().unwrap(), subnet, 5, &mut credit)
        };
        assert!(!ask(&measure, "5.6.7.8", None, Credit { saved: PRICE - 1, turn: 0 }));
        assert!(!ask(&measure, "8.8.8.8", None, rich()));
        assert!(!ask(&measure, "5.6.7.8", Some(("5.6.9.0", 24)), rich()));
        assert!(!ask(&measure, "5.6.7.8", Some(("2a00::", 48)), rich()));
        assert!(ask(&measure, "5.6.7.8", Some(("5.6.7.0", 24)), rich()));
        assert!(!ask(&measure, "::ffff:5.6.7.9", None, rich()));
        assert!(ask(&measure, "2a00:1:2:3::4", None, rich()));
        assert!(!ask(&measure, "2a00:1:2:4::4", None, rich()));
        assert!(ask(&measure, "2a00:1:3::4", None, rich()));
        // the memory outlives other settings
        let off = measure.with_settings(MeasureSettings { solicit: false, ..settings.clone() });
        assert!(!ask(&off, "5.1.1.1", None, rich()));
        assert!(!off.has_solicited([5, 6, 7, 8].into(), 5));
        let on = off.with_settings(settings);
        assert!(!ask(&on, "5.6.7.8", None, rich()) && on.has_solicited([5, 6, 7, 8].into(), 5));
        assert_eq!(on.counters().solicited, 3);
    }

    /// A client is told of often enough to earn a probe (3 queries over a second), then rarely.
    #[test]
    fn how_often_a_client_is_told_of() {
        let (measure, queue) = measure(MeasureSettings::default());
        let sighting = |source: [u8; 4], subnet| Sighting {
            source: source.into(),
            subnet,
            evidence: Evidence::Plain,
            is_unmeasured: true,
        };
        let mut told_ms = Vec::new();
        for ms in (0..70_000_u64).step_by(10) {
            measure.tell(sighting([5, 6, 7, 8], None), 1_000_000 + ms);
            told_ms.extend(queue.try_iter().map(|_| ms));
        }
        assert_eq!(told_ms, [0, 400, 800, 1_200, 31_200, 61_200]);
        // others, and the same for others, are news of their own
        measure.tell(sighting([5, 6, 7, 9], None), 1_070_000);
        measure.tell(sighting([5, 6, 7, 8], Some(([9, 9, 9, 0].into(), 24))), 1_070_000);
        assert_eq!(queue.try_iter().count(), 2);
        // nobody listens: dropped and counted
        for last in 0..100 {
            measure.tell(sighting([5, 6, 8, last], None), 1_070_000);
        }
        let MeasureCounters { told, dropped, .. } = measure.counters();
        assert_eq!((told, dropped), (8 + 16, 100 - 16));
        let quiet = measure.with_settings(MeasureSettings { tell: false, ..MeasureSettings::default() });
        quiet.tell(sighting([5, 6, 9, 1], None), 1_070_000);
        assert_eq!(quiet.counters(), measure.counters());
    }
}
