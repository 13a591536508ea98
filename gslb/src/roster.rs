//! Who is there: services and members by name, and where each member stands in the view.

use portolan_balance::{CandidateId, ServiceId};
use portolan_probe::{CheckKey, Ramp, Require};

/// All services of a config, in its order.
#[derive(Clone, Debug, Default)]
pub struct Roster {
    /// The services.
    pub services: Vec<RosterService>,
}

/// A service of the config. Its records may be of several types, each a service of the view.
#[derive(Clone, Debug, Default)]
pub struct RosterService {
    /// Its name, with the final dot.
    pub name: String,
    /// Its members, in the order of the config.
    pub members: Vec<RosterMember>,
    /// Slow start of its members.
    pub ramp: Option<Ramp>,
    /// Whether a member that failed waits for an operator (T16).
    pub manual_resume: bool,
    /// Whether its scheduler goes by response times, so that these are facts.
    pub is_timed: bool,
    /// Positions of the services it depends on (case H20).
    pub depends_on: Vec<usize>,
}

/// A member of a service.
#[derive(Clone, Debug, Default)]
pub struct RosterMember {
    /// Its name: its identity over reloads and restarts.
    pub name: String,
    /// What is answered: addresses, or a target's name.
    pub data: Vec<String>,
    /// Its addresses behind NAT.
    pub inside: Vec<String>,
    /// Where it is.
    pub site: Option<String>,
    /// The link of the site.
    pub link: Option<String>,
    /// Its weight.
    pub weight: u16,
    /// Its tier.
    pub tier: u8,
    /// Whether the config takes it out of service.
    pub is_disabled: bool,
    /// Bandwidth of its link, bits per second.
    pub capacity_bps: Option<u64>,
    /// Where it stands in the view: once a record type.
    pub seats: Vec<Seat>,
}

/// A member's place among the candidates of one record type.
#[derive(Clone, Debug)]
pub struct Seat {
    /// The service of the view.
    pub service: ServiceId,
    /// The candidate.
    pub candidate: CandidateId,
    /// Its checks.
    pub checks: Vec<CheckKey>,
    /// How many of them must pass.
    pub require: Require,
}

/// A member by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberAt {
    /// The service in [`Roster::services`].
    pub service: usize,
    /// The member in it.
    pub member: usize,
}

impl Roster {
    /// The member at a position.
    #[must_use]
    pub fn get(&self, at: MemberAt) -> Option<(&RosterService, &RosterMember)> {
        let service = self.services.get(at.service)?;
        Some((service, service.members.get(at.member)?))
    }

    /// All checks, equal ones as often as they are used.
    pub fn checks(&self) -> impl Iterator<Item = &CheckKey> {
        let members = self.services.iter().flat_map(|service| &service.members);
        members.flat_map(|member| &member.seats).flat_map(|seat| &seat.checks)
    }
}

impl RosterMember {
    /// `site/link`, where it has a link.
    #[must_use]
    pub fn place(&self) -> Option<String> {
        Some(format!("{}/{}", self.site.as_deref()?, self.link.as_deref()?))
    }
}
