//! The last step: one file an algorithm (M 2.3). Each takes the eligible set and fills the picks.

mod dynamic;
mod hash;
mod maglev;
mod random;
mod rendezvous;
mod round_robin;
mod weighted;

pub use maglev::Maglev;

use crate::ask::{Ask, Dice};
use crate::fold::Row;
use crate::policy::{Persist, Policy, Step};
use crate::set::CandidateId;
use crate::standing::Standing;
use crate::trace::{Event, Trace};

/// The schedulers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// In turn.
    RoundRobin,
    /// In turn, in proportion to weight.
    WeightedRoundRobin,
    /// At random.
    Random,
    /// At random, in proportion to weight.
    WeightedRandom,
    /// By the client's address, cut to a prefix.
    SourceHash {
        /// Bits of an IPv4 client that count.
        v4: u8,
        /// Bits of an IPv6 client that count.
        v6: u8,
    },
    /// By the client's address and port.
    SourcePortHash,
    /// By the destination's address (outbound and gateways; a DNS query has none and hashes nothing).
    DestinationHash,
    /// By bytes of the UDP payload.
    UdpPayloadHash {
        /// First byte.
        offset: u16,
        /// Number of bytes.
        length: u16,
    },
    /// Highest random weight over the client's prefix (CARP).
    Rendezvous {
        /// Bits of an IPv4 client that count.
        v4: u8,
        /// Bits of an IPv6 client that count.
        v6: u8,
    },
    /// Maglev's table over the client's address.
    Maglev,
    /// Fewest connections.
    LeastConnections,
    /// Fewest connections for its weight.
    WeightedLeastConnections,
    /// Shortest time to answer.
    LeastTime,
    /// In proportion to free bandwidth (M 2.3: times weight).
    Bandwidth,
    /// The one with most free bandwidth.
    MaxBandwidth,
    /// The first of the list (global availability).
    Priority,
    /// All of them.
    All,
}

impl Scheduler {
    /// The names `choose` may end with.
    pub const NAMES: [&'static str; 17] = [
        "round-robin",
        "weighted-round-robin",
        "random",
        "weighted-random",
        "source-hash",
        "source-ip-port-hash",
        "destination-hash",
        "udp-payload-hash",
        "rendezvous",
        "maglev",
        "least-connections",
        "weighted-least-connections",
        "least-time",
        "bandwidth",
        "max-bandwidth",
        "priority",
        "all",
    ];

    /// The name in `choose`.
    #[must_use]
    pub fn name(self) -> &'static str {
        let position = match self {
            Self::RoundRobin => 0,
            Self::WeightedRoundRobin => 1,
            Self::Random => 2,
            Self::WeightedRandom => 3,
            Self::SourceHash { .. } => 4,
            Self::SourcePortHash => 5,
            Self::DestinationHash => 6,
            Self::UdpPayloadHash { .. } => 7,
            Self::Rendezvous { .. } => 8,
            Self::Maglev => 9,
            Self::LeastConnections => 10,
            Self::WeightedLeastConnections => 11,
            Self::LeastTime => 12,
            Self::Bandwidth => 13,
            Self::MaxBandwidth => 14,
            Self::Priority => 15,
            Self::All => 16,
        };
        Self::NAMES[position]
    }

    /// What its choice depends on, in words.
    #[must_use]
    pub fn decided_by(self) -> &'static str {
        match self {
            Self::RoundRobin | Self::WeightedRoundRobin => "the turn decides",
            Self::Random | Self::WeightedRandom => "the dice decide",
            Self::SourceHash { .. } | Self::Rendezvous { .. } => "the client's prefix decides",
            Self::SourcePortHash => "the client's address and port decide",
            Self::DestinationHash => "the destination decides",
            Self::UdpPayloadHash { .. } => "the payload decides",
            Self::Maglev => "the client's address decides",
            Self::LeastConnections | Self::WeightedLeastConnections => "the fewest connections decide",
            Self::LeastTime => "the shortest time to answer decides",
            Self::Bandwidth => "the dice decide, in proportion to free bandwidth",
            Self::MaxBandwidth => "the most free bandwidth decides",
            Self::Priority => "the order of the list decides",
            Self::All => "all of them, in the order of the dice",
        }
    }

    /// Whether a turn is taken with each ask.
    #[inline]
    #[must_use]
    pub fn takes_turns(self) -> bool {
        matches!(self, Self::RoundRobin | Self::WeightedRoundRobin)
    }
}

/// What one algorithm sees.
struct Draw<'a> {
    policy: &'a Policy,
    standing: &'a Standing,
    ask: &'a Ask<'a>,
    dice: Dice,
    /// How many to choose, at least 1.
    answers: usize,
}

impl Draw<'_> {
    fn weight(&self, id: CandidateId) -> u32 {
        self.standing.weights.get(usize::from(id.0)).copied().unwrap_or(1)
    }

    fn load(&self, id: CandidateId) -> crate::facts::Load {
        self.standing.loads.get(usize::from(id.0)).copied().unwrap_or_default()
    }

    fn key(&self, id: CandidateId) -> u64 {
        self.policy.candidates.get(usize::from(id.0)).map_or(0, |candidate| candidate.key)
    }
}

/// Chooses from `row.set` into `row.picks`; returns the prefix length the choice depends on (0: none).
pub(crate) fn pick(
    policy: &Policy,
    standing: &Standing,
    ask: &Ask<'_>,
    dice: Dice,
    row: &mut Row,
    trace: &mut impl Trace,
) -> u8 {
    let draw = Draw { policy, standing, ask, dice, answers: usize::from(policy.answers.max(1)) };
    let (set, picks) = (&row.set, &mut row.picks);
    let persist = match &policy.persist {
        Some(Persist::Hash { v4, v6 }) if policy.steps.iter().any(|step| matches!(step, Step::Persist)) => {
            Some((*v4, *v6))
        }
        Some(_) | None => None,
    };
    let scope = match (persist, policy.scheduler) {
        // one candidate needs no draw, but the prefix that led here still bounds the scope
        (Some((v4, v6)), _) | (None, Scheduler::Rendezvous { v4, v6 }) => {
            let (prefix, length) = ask.client.cut(v4, v6);
            rendezvous::pick(&draw, set, prefix, picks);
            length
        }
        (None, Scheduler::RoundRobin) => round_robin::pick(&draw, set, picks),
        (None, Scheduler::WeightedRoundRobin) => weighted::by_turn(&draw, set, picks),
        (None, Scheduler::Random) => random::pick(&draw, set, picks),
        (None, Scheduler::WeightedRandom) => weighted::by_chance(&draw, set, picks),
        (None, Scheduler::SourceHash { v4, v6 }) => hash::by_source(&draw, set, v4, v6, picks),
        (None, Scheduler::SourcePortHash) => hash::by_source_and_port(&draw, set, picks),
        (None, Scheduler::DestinationHash) => hash::by_destination(&draw, set, picks),
        (None, Scheduler::UdpPayloadHash { offset, length }) => {
            hash::by_payload(&draw, set, offset, length, picks)
        }
        (None, Scheduler::Maglev) => maglev::pick(&draw, set, picks),
        (None, Scheduler::LeastConnections) => dynamic::least_connections(&draw, set, false, picks),
        (None, Scheduler::WeightedLeastConnections) => dynamic::least_connections(&draw, set, true, picks),
        (None, Scheduler::LeastTime) => dynamic::least_time(&draw, set, picks),
        (None, Scheduler::Bandwidth) => dynamic::bandwidth(&draw, set, picks),
        (None, Scheduler::MaxBandwidth) => dynamic::max_bandwidth(&draw, set, picks),
        (None, Scheduler::Priority) => first(set, draw.answers, picks),
        (None, Scheduler::All) => random::all(&draw, set, picks),
    };
    if trace.is_on() {
        let weights = row.set.iter().map(|id| (id, draw.weight(id))).collect();
        trace.event(Event::Picked { ids: row.picks.clone(), weights, by_hash: scope > 0 });
    }
    scope
}

/// The first of the list, in the order of the config (L05).
fn first(set: &crate::CandidateSet, answers: usize, picks: &mut Vec<CandidateId>) -> u8 {
    picks.extend(set.iter().take(answers));
    0
}
