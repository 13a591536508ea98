//! Whom to probe and when. Pure: the time comes in, probes and deadlines go out.
//!
//! ```text
//! Wanted ─► may it be probed? has it earned it? is it time? ─► queue ─► Round ─► Probe ─► (socket)
//!             └── Refusal, counted                            pace, in flight   ▲            │
//!                                        Sample ◄── Round ◄── done(Outcome) ◄───┴────────────┘
//! ```
//! T14: the limits are part of the design. They hold over any sequence of wishes: whatever has no room is refused and
//! counted, and nothing is forgotten that a limit rests on.

use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    net::IpAddr,
};

use self::{
    bucket::Bucket,
    hold::Holds,
    round::{Next, Place, Round},
};
use portolan_balance::proximity::{Prefix, Sample};

pub use self::{
    hold::Standing,
    policy::{Limits, MOST_IN_FLIGHT, MOST_PER_S, Method, Policy, Sender},
    refusal::Refusal,
    wanted::{AskedBy, Wanted},
};
use super::sightings::{Evidence, Sightings};

mod bucket;
mod hold;
mod policy;
mod refusal;
mod round;
#[cfg(test)]
mod tests;
mod wanted;

/// Peers whose requests are counted; of more no request is taken.
const PEERS: usize = 1_024;
/// How long after its timeout a probe is given up whose fate nobody has told.
const LOST_MS: u64 = 1_000;

/// A probe to send now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Names it in [`Pacer::done`].
    pub id: ProbeId,
    /// How.
    pub method: Method,
    /// To whom.
    pub target: IpAddr,
    /// From which address.
    pub source: Option<IpAddr>,
    /// How long to wait.
    pub timeout_ms: u64,
}

/// A probe's name, never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProbeId(u64);

/// What became of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The target answered.
    Answered {
        /// After so many microseconds.
        rtt_us: u32,
        /// Over so many routers.
        hops: Option<u8>,
    },
    /// Nothing came.
    Silent,
    /// Somebody on the way, or the target, said that it is of no use.
    Refused,
    /// Nothing was sent: no right, no route, no such source address.
    Unable,
}

/// What was done since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PaceCounters {
    /// Wishes taken into the queue.
    pub taken: u64,
    /// By [`Refusal`].
    pub refused: [u64; Refusal::COUNT],
    /// Rounds begun.
    pub rounds: u64,
    /// Rounds in which nothing was answered.
    pub silent_rounds: u64,
    /// Probes sent.
    pub sent: u64,
    /// Answers.
    pub answered: u64,
    /// Probes that could not be sent.
    pub unable: u64,
    /// Samples that nobody took in time.
    pub samples_dropped: u64,
}

/// The scheduler.
#[derive(Debug)]
pub struct Pacer {
    policy: Policy,
    bucket: Bucket,
    sightings: Sightings,
    peers: HashMap<u16, Bucket>,
    queue: VecDeque<(u64, Wanted)>,
    /// Prefixes that wait in the queue or are being measured.
    busy: HashSet<Prefix>,
    holds: Holds,
    rounds: HashMap<u64, Round>,
    /// Rounds whose next probe is due, by when.
    ready: BTreeSet<(u64, u64)>,
    /// Probes in flight: when they are given up, their names, their rounds.
    flights: HashMap<ProbeId, (u64, u64)>,
    flight_ends: BTreeSet<(u64, ProbeId)>,
    samples: VecDeque<Sample>,
    next_id: u64,
    counters: PaceCounters,
}

impl Pacer {
    /// A scheduler without wishes.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        let policy = policy.usable();
        let limits = policy.limits;
        Self {
            bucket: Bucket::new(limits.per_s),
            sightings: Sightings::new(limits.sources),
            policy,
            peers: HashMap::new(),
            queue: VecDeque::new(),
            busy: HashSet::new(),
            holds: Holds::default(),
            rounds: HashMap::new(),
            ready: BTreeSet::new(),
            flights: HashMap::new(),
            flight_ends: BTreeSet::new(),
            samples: VecDeque::new(),
            next_id: 0,
            counters: PaceCounters::default(),
        }
    }

    /// Takes another policy. What is under way ends by the old one; what waits is looked at again when its turn comes.
    pub fn set_policy(&mut self, policy: Policy) {
        let policy = policy.usable();
        self.bucket.set(policy.limits.per_s);
        if policy.limits.peer_per_s != self.policy.limits.peer_per_s {
            self.peers.clear();
        }
        if !policy.enabled {
            for (_, wanted) in self.queue.drain(..) {
                self.busy.remove(&wanted.prefix);
            }
        }
        self.policy = policy;
    }

    /// The policy in force.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Somebody wants a prefix measured.
    pub fn wish(&mut self, now_ms: u64, wanted: Wanted) -> Result<(), Refusal> {
        let result = self.accept(now_ms, wanted);
        match result {
            Ok(()) => self.counters.taken += 1,
            Err(refusal) => self.refuse(refusal),
        }
        result
    }

    /// A query came from this address. Tells whether it has earned a probe by now.
    pub fn see(&mut self, now_ms: u64, source: IpAddr, evidence: Evidence) -> Result<(), Refusal> {
        if !self.policy.enabled {
            return Err(Refusal::Off);
        }
        self.sightings.see(now_ms, source, evidence);
        if self.sightings.has_earned(now_ms, source) {
            return Ok(());
        }
        self.refuse(Refusal::NotEarned);
        Err(Refusal::NotEarned)
    }

    fn accept(&mut self, now_ms: u64, wanted: Wanted) -> Result<(), Refusal> {
        let limits = self.policy.limits;
        if !self.policy.enabled {
            return Err(Refusal::Off);
        }
        // who has asked is remembered even if this very wish comes to nothing
        match wanted.asked_by {
            AskedBy::Client(evidence) => self.sightings.see(now_ms, wanted.address, evidence),
            AskedBy::Resolver { source, evidence } => self.sightings.see(now_ms, source, evidence),
            AskedBy::Peer(peer) => self.admit(now_ms, peer)?,
            AskedBy::Operator => {}
        }
        if self.policy.lengths.prefix_of(wanted.address) != wanted.prefix {
            return Err(Refusal::WrongPrefix);
        }
        self.policy.addresses.check(wanted.address)?;
        if self.busy.contains(&wanted.prefix) {
            return Err(Refusal::Waiting);
        }
        self.holds.check(now_ms, &wanted.prefix, &limits)?;
        self.check_earned(now_ms, &wanted)?;
        if self.places(wanted.address).is_empty() {
            return Err(Refusal::NoPoint);
        }
        if self.queue.len() >= limits.queue {
            return Err(Refusal::QueueFull);
        }
        self.queue.push_back((now_ms, wanted));
        self.busy.insert(wanted.prefix);
        Ok(())
    }

    /// A peer's own budget: one that asks too much is not heard.
    fn admit(&mut self, now_ms: u64, peer: u16) -> Result<(), Refusal> {
        if self.peers.len() >= PEERS && !self.peers.contains_key(&peer) {
            return Err(Refusal::PeerRate);
        }
        let per_s = self.policy.limits.peer_per_s;
        let bucket = self.peers.entry(peer).or_insert_with(|| Bucket::new(per_s));
        if bucket.take(now_ms) { Ok(()) } else { Err(Refusal::PeerRate) }
    }

    /// Never a reflector: only who has shown to be there is probed (X, peers' part).
    fn check_earned(&self, now_ms: u64, wanted: &Wanted) -> Result<(), Refusal> {
        let is_earned = match wanted.asked_by {
            AskedBy::Operator => true,
            AskedBy::Client(_) => self.sightings.has_earned(now_ms, wanted.address),
            AskedBy::Peer(_) => self.policy.trust_peers || self.sightings.has_earned(now_ms, wanted.address),
            // Counted datagrams do not do here: their source may be forged, and it is not the source that is probed.
            AskedBy::Resolver { source, evidence } => {
                let is_proven = evidence != Evidence::Plain && self.policy.trusted_resolvers.contains(source);
                if !is_proven {
                    return Err(Refusal::UntrustedSubnet);
                }
                true
            }
        };
        if is_earned { Ok(()) } else { Err(Refusal::NotEarned) }
    }

    fn places(&self, target: IpAddr) -> Vec<Place> {
        self.policy.senders.iter().filter_map(|sender| sender.place(target)).collect()
    }

    /// The next probe, if one may be sent now.
    pub fn next_probe(&mut self, now_ms: u64) -> Option<Probe> {
        self.give_up(now_ms);
        if self.flights.len() >= self.policy.limits.in_flight || self.bucket.next_ms() > now_ms {
            return None;
        }
        let number = match self.ready.first() {
            Some(&(ready_ms, number)) if ready_ms <= now_ms => {
                self.ready.pop_first();
                number
            }
            Some(_) | None => self.begin(now_ms)?,
        };
        let (method, source) = self.rounds.get(&number)?.due()?;
        let target = self.rounds.get(&number)?.wanted.address;
        // cannot fail: it was asked above
        let _ = self.bucket.take(now_ms);
        let id = ProbeId(self.name());
        let timeout_ms = self.policy.limits.timeout_ms;
        let ends_ms = now_ms.saturating_add(timeout_ms).saturating_add(LOST_MS);
        self.flights.insert(id, (ends_ms, number));
        self.flight_ends.insert((ends_ms, id));
        self.counters.sent += 1;
        Some(Probe { id, method, target, source, timeout_ms })
    }

    /// Begins a round for the first wish that is still good.
    fn begin(&mut self, now_ms: u64) -> Option<u64> {
        let limits = self.policy.limits;
        // Rounds between two probes are not in flight; they, too, are bounded.
        while self.rounds.len() < 2 * limits.in_flight {
            let (since_ms, wanted) = self.queue.pop_front()?;
            match self.round(now_ms, since_ms, wanted) {
                Ok(round) => {
                    let number = self.name();
                    self.rounds.insert(number, round);
                    self.counters.rounds += 1;
                    return Some(number);
                }
                Err(refusal) => {
                    self.busy.remove(&wanted.prefix);
                    self.refuse(refusal);
                }
            }
        }
        None
    }

    fn round(&mut self, now_ms: u64, since_ms: u64, wanted: Wanted) -> Result<Round, Refusal> {
        let limits = self.policy.limits;
        if now_ms.saturating_sub(since_ms) > limits.patience_ms {
            return Err(Refusal::WaitedTooLong);
        }
        // the policy may be another than when the wish came
        self.policy.addresses.check(wanted.address)?;
        let places = self.places(wanted.address);
        let round = Round::new(wanted, places, &self.policy.methods, limits.tries).ok_or(Refusal::NoPoint)?;
        self.holds.begin(now_ms, wanted.prefix, &limits)?;
        Ok(round)
    }

    /// What became of a probe. A second word on the same one is ignored.
    pub fn done(&mut self, now_ms: u64, id: ProbeId, outcome: Outcome) {
        let Some((ends_ms, number)) = self.flights.remove(&id) else { return };
        self.flight_ends.remove(&(ends_ms, id));
        match outcome {
            Outcome::Answered { .. } => self.counters.answered += 1,
            Outcome::Unable => self.counters.unable += 1,
            Outcome::Silent | Outcome::Refused => {}
        }
        let Some(round) = self.rounds.get_mut(&number) else { return };
        let (sample, next) = round.step(outcome);
        if let Some(sample) = sample {
            if self.samples.len() < self.policy.limits.queue.max(1) {
                self.samples.push_back(sample);
            } else {
                self.counters.samples_dropped += 1;
            }
        }
        match next {
            Next::Probe => {
                self.ready.insert((now_ms.saturating_add(self.policy.limits.gap_ms), number));
            }
            Next::End(answered) => {
                let prefix = round.wanted.prefix;
                self.rounds.remove(&number);
                self.busy.remove(&prefix);
                // a round that could send nothing says nothing of the target
                if let Some(has_answered) = answered {
                    self.holds.end(prefix, has_answered, &self.policy.limits);
                    self.counters.silent_rounds += u64::from(!has_answered);
                }
            }
        }
    }

    /// Probes whose sender has vanished must not take up room for ever.
    fn give_up(&mut self, now_ms: u64) {
        while let Some(&(ends_ms, id)) = self.flight_ends.first()
            && ends_ms <= now_ms
        {
            self.done(now_ms, id, Outcome::Silent);
        }
    }

    /// The next sample, if a round has made one.
    pub fn next_sample(&mut self) -> Option<Sample> {
        self.samples.pop_front()
    }

    /// When to ask again for a probe, if nothing else happens before.
    #[must_use]
    pub fn deadline_ms(&self) -> Option<u64> {
        let lost = self.flight_ends.first().map(|(ends_ms, _)| *ends_ms);
        if self.flights.len() >= self.policy.limits.in_flight {
            return lost;
        }
        let ready = self.ready.first().map(|(ready_ms, _)| *ready_ms);
        let can_begin = !self.queue.is_empty() && self.rounds.len() < 2 * self.policy.limits.in_flight;
        let work = if can_begin { Some(0) } else { ready };
        let work = work.map(|work_ms| work_ms.max(self.bucket.next_ms()));
        [work, lost].into_iter().flatten().min()
    }

    /// How a prefix stands.
    #[must_use]
    pub fn standing(&self, prefix: &Prefix) -> Option<Standing> {
        self.holds.get(prefix)
    }

    /// What was done.
    #[must_use]
    pub const fn counters(&self) -> &PaceCounters {
        &self.counters
    }

    /// Wishes that wait, and probes in flight.
    #[must_use]
    pub fn load(&self) -> (usize, usize) {
        (self.queue.len(), self.flights.len())
    }

    /// Prefixes whose interval is watched.
    #[must_use]
    pub fn held(&self) -> usize {
        self.holds.len()
    }

    fn refuse(&mut self, refusal: Refusal) {
        if let Some(count) = self.counters.refused.get_mut(refusal as usize) {
            *count += 1;
        }
    }

    fn name(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}
