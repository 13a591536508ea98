//! Who is there: services and members by name, and where each member stands in the view.

use portolan_balance::{CandidateId, ServiceId};
use portolan_config::{Origin, PeerLossWord};
use portolan_peer::VirtualServer;
use portolan_probe::{CheckKey, Ramp, Require};

/// All services of a config, in its order.
#[derive(Clone, Debug, Default)]
pub struct Roster {
    /// The services.
    pub services: Vec<RosterService>,
    /// Virtual servers of this node: what peers are told of.
    pub servers: Vec<RosterServer>,
}

/// A virtual server of this node (WP-C10).
#[derive(Clone, Debug)]
pub struct RosterServer {
    /// What peers are told, but for its state.
    pub claim: VirtualServer,
    /// Its checks.
    pub checks: Vec<CheckKey>,
    /// How many of them must pass.
    pub require: Require,
    /// Where it is a member of a service here: what is said of the member is said of it.
    pub seat: Option<(MemberAt, usize)>,
}

/// A service of the config. Its records may be of several types, each a service of the view.
#[derive(Clone, Debug)]
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
    /// What becomes of learned members when their peer is lost (case P01).
    pub on_peer_loss: PeerLossWord,
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
    /// Where the candidate is from.
    pub origin: Origin,
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

    /// All seats.
    pub fn seats(&self) -> impl Iterator<Item = (&RosterService, &Seat)> {
        self.services.iter().flat_map(|service| {
            service.members.iter().flat_map(|member| &member.seats).map(move |seat| (service, seat))
        })
    }

    /// All checks that are to run, equal ones as often as they are used. Learned members are checked from here only
    /// while nobody who is not lost speaks for them (case P02).
    pub fn checks(&self, is_lost: impl Fn(&str) -> bool) -> impl Iterator<Item = &CheckKey> {
        let seats = self.seats().filter(move |(service, seat)| match &seat.origin {
            Origin::Configured | Origin::Local(_) => true,
            Origin::Learned(claimants) => {
                service.on_peer_loss == PeerLossWord::DirectCheck
                    && claimants.iter().all(|claimant| is_lost(&claimant.author))
            }
        });
        let of_seats = seats.flat_map(|(_, seat)| &seat.checks);
        of_seats.chain(self.servers.iter().flat_map(|server| &server.checks))
    }
}

impl Default for RosterService {
    fn default() -> Self {
        Self {
            name: String::new(),
            members: Vec::new(),
            ramp: None,
            manual_resume: false,
            is_timed: false,
            depends_on: Vec::new(),
            on_peer_loss: PeerLossWord::Expire,
        }
    }
}

impl RosterMember {
    /// `site/link`, where it has a link.
    #[must_use]
    pub fn place(&self) -> Option<String> {
        Some(format!("{}/{}", self.site.as_deref()?, self.link.as_deref()?))
    }
}
