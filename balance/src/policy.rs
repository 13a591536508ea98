//! What the operator wrote, compiled: ids, sets and tables, no names on the way of a query.

use crate::nets::{DIMS, Dim};
use crate::proximity::{Band, PointId};
use crate::schedule::Scheduler;
use crate::set::{CandidateId, CandidateSet};
use std::sync::Arc;

/// Position of a `[[site]]` in the config.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteId(pub u16);

/// One thing that can be chosen: a virtual server, an address, a link or a backend.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// What people see, e.g. `beijing/ct 192.0.2.10`.
    pub name: String,
    /// Stable identity over reloads and peers, independent of the order in the list: hashes and persistence
    /// use it.
    pub key: u64,
    /// Where it is.
    pub site: Option<SiteId>,
    /// Relative share, 0..=65535 (L03: 0 is used only when nothing else is left).
    pub weight: u16,
    /// Tiers are tried in ascending order (T4).
    pub tier: u8,
    /// Load share from which the `load` step drops it.
    pub load_threshold: Option<f32>,
    /// Connections it may have; at or over that it counts as over its limit.
    pub connections_max: Option<u32>,
}

/// What an ACL rule does with the candidates it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AclAction {
    /// Nothing but these, also when they are down: then the service's fallback answers.
    Only,
    /// These when any is usable.
    Prefer,
    /// Not these while another is usable.
    Avoid,
    /// The client gets no answer from this service.
    Refuse,
}

/// One ordered ACL rule of a service. The first rule whose `from` holds the client applies.
#[derive(Clone, Debug, PartialEq)]
pub struct AclRule {
    /// What the operator wrote after `from`, for explanations.
    pub from: String,
    /// What happens.
    pub action: AclAction,
    /// To whom (unused by [`AclAction::Refuse`]).
    pub members: CandidateSet,
}

/// ACL rules and which of them applies to each value of the ACL dimension.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AclTable {
    /// The rules in the order of the config (T10).
    pub rules: Vec<AclRule>,
    /// Value of [`crate::nets::Dim::Acl`] → position in `rules`; `u16::MAX` where none applies.
    pub rule_of: Vec<u16>,
}

/// Candidates on each set of operators.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IspTable {
    /// Value of [`crate::nets::Dim::Isp`] → candidates on one of these operators.
    pub members_of: Vec<CandidateSet>,
}

/// A ranking of sites for each place, shared by all services that use the same geo policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GeoTable {
    /// Value of [`crate::nets::Dim::Geo`] → position in `rankings`; `u32::MAX` where the place is unknown.
    pub ranking_of: Vec<u32>,
    /// Sites in order of preference.
    pub rankings: Vec<Ranking>,
}

/// Sites in order of preference; sites of one group are equal (G12).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ranking {
    /// Best first.
    pub groups: Vec<Vec<SiteId>>,
    /// Why they are in this order, for explanations: the region rule's text, or `nearest`.
    pub reason: String,
}

/// A narrowing or a ranking, in the order of the service's `choose`.
#[derive(Clone, Debug)]
pub enum Step {
    /// The client stays with its candidate.
    Persist,
    /// Ordered rules by client prefix.
    Acl(Arc<AclTable>),
    /// Measured round-trip times. Without a measurement for the client it falls through.
    Proximity {
        /// The candidates at each point, from [`crate::proximity::choose::members_at`].
        members_at: Vec<(PointId, CandidateSet)>,
        /// How scores are compared.
        band: Band,
    },
    /// The client's operator.
    Isp(Arc<IspTable>),
    /// The client's place.
    Geo {
        /// Place → ranking of sites.
        table: Arc<GeoTable>,
        /// Site → its candidates.
        members_at: Vec<CandidateSet>,
        /// Leave out the best group when there is another (G10).
        skip_first: bool,
    },
    /// Drop what is over its threshold.
    Load,
}

/// How long and by what a client stays with its candidate (WP-C3).
#[derive(Clone, Debug)]
pub enum Persist {
    /// The last step draws by the client's prefix: no state, the same at every peer.
    Hash {
        /// Bits of an IPv4 client that count.
        v4: u8,
        /// Bits of an IPv6 client that count.
        v6: u8,
    },
    /// Remembered choices, bounded, with an age.
    Table {
        /// Bits of an IPv4 client that count.
        v4: u8,
        /// Bits of an IPv6 client that count.
        v6: u8,
        /// Seconds without a query after which a choice is forgotten.
        ttl_s: u32,
        /// The remembered choices.
        table: Arc<crate::persist::Table>,
    },
}

/// What answers when no candidate is usable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// Every candidate that no operator took out, as if it were up.
    All,
    /// The fixed records of the service: an address or a name; what they are is the front end's business.
    Fixed,
    /// No data of this type.
    NoData,
    /// A server failure.
    ServFail,
    /// Refused.
    Refuse,
}

/// All that is compiled of one service for one kind of answer (its IPv4 and IPv6 addresses are two).
#[derive(Clone, Debug)]
pub struct Policy {
    /// The service's name.
    pub name: String,
    /// What can be chosen, at most 256, in the order of the config (T10).
    pub candidates: Vec<Candidate>,
    /// The steps before the last one.
    pub steps: Vec<Step>,
    /// The last step.
    pub scheduler: Scheduler,
    /// What `Step::Persist` means.
    pub persist: Option<Persist>,
    /// Usable members a tier needs to be used (T16).
    pub minimum: u16,
    /// How many candidates one answer holds.
    pub answers: u16,
    /// Seconds an answer may be kept.
    pub ttl_s: u32,
    /// What answers when nothing is usable.
    pub fallback: Fallback,
    /// Seed of hashes; the same at every peer.
    pub seed: u64,
    /// Candidates of each tier, in ascending order of tier.
    pub tiers: Vec<(u8, CandidateSet)>,
    /// Dimensions the steps look at, from [`Policy::consulted_by`].
    pub consulted: [bool; DIMS],
}

impl Policy {
    /// The dimensions of [`crate::nets`] its steps look at; the ECS scope is taken over these (T2).
    #[inline]
    #[must_use]
    pub fn consulted(&self) -> [bool; DIMS] {
        self.consulted
    }

    /// What [`Policy::consulted`] has to say for these steps.
    #[must_use]
    pub fn consulted_by(steps: &[Step]) -> [bool; DIMS] {
        let mut dims = [false; DIMS];
        for step in steps {
            match step {
                Step::Acl(_) => dims[Dim::Acl as usize] = true,
                // without a row of its own prefix the client's operator may have one
                Step::Isp(_) | Step::Proximity { .. } => dims[Dim::Isp as usize] = true,
                Step::Geo { .. } => dims[Dim::Geo as usize] = true,
                Step::Persist | Step::Load => {}
            }
        }
        dims
    }

    /// Groups candidates by tier, for [`Policy::tiers`].
    #[must_use]
    pub fn tiers_of(candidates: &[Candidate]) -> Vec<(u8, CandidateSet)> {
        let mut tiers = std::collections::BTreeMap::<u8, CandidateSet>::new();
        for (i, candidate) in candidates.iter().enumerate().take(crate::set::MAX_CANDIDATES) {
            tiers.entry(candidate.tier).or_default().insert(CandidateId(i as u8));
        }
        tiers.into_iter().collect()
    }
}
