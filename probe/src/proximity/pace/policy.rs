//! What an operator can set about probing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use portolan_balance::proximity::PointId;

use super::round::Place;
use crate::proximity::{
    address::AddressRules,
    prefix::{Lengths, Prefixes},
};

/// The most probes a second that can be set.
pub const MOST_PER_S: u32 = 1_000;
/// The most probes in flight that can be set.
pub const MOST_IN_FLIGHT: usize = 100;
/// How much is probed, and how fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Probes a second, every packet counted.
    pub per_s: u32,
    /// Probes that wait for an answer.
    pub in_flight: usize,
    /// Probes to a target by one method; their minimum counts.
    pub tries: u8,
    /// How long an answer is waited for. Less than TCP takes to repeat a SYN, or that would look like a long way.
    pub timeout_ms: u64,
    /// Between two probes to the same target.
    pub gap_ms: u64,
    /// Between the beginnings of two rounds of a prefix.
    pub interval_ms: u64,
    /// After so many rounds without an answer the interval doubles with each more …
    pub silent_rounds: u32,
    /// … up to this.
    pub longest_ms: u64,
    /// Wishes that wait.
    pub queue: usize,
    /// A wish that has waited for so long is dropped.
    pub patience_ms: u64,
    /// Prefixes whose interval is watched.
    pub prefixes: usize,
    /// Addresses that are known to have asked.
    pub sources: usize,
    /// Requests of one peer a second.
    pub peer_per_s: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            per_s: 100,
            in_flight: 100,
            tries: 3,
            timeout_ms: 900,
            gap_ms: 50,
            interval_ms: 600_000,
            silent_rounds: 3,
            longest_ms: 86_400_000,
            queue: 4_096,
            patience_ms: 60_000,
            prefixes: 262_144,
            sources: 131_072,
            peer_per_s: 10,
        }
    }
}

impl Limits {
    /// The same, within what can be set at all.
    #[must_use]
    fn clamped(self) -> Self {
        Self {
            per_s: self.per_s.clamp(1, MOST_PER_S),
            in_flight: self.in_flight.clamp(1, MOST_IN_FLIGHT),
            interval_ms: self.interval_ms.max(1),
            prefixes: self.prefixes.max(1),
            ..self
        }
    }
}

/// How a target is asked, in the order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// An ICMP echo.
    Icmp,
    /// A DNS query for the name servers of the root, without recursion: every server can answer or refuse it.
    Dns,
    /// Opening a TCP connection to port 53.
    Tcp,
}

/// From where this site probes: a point, and the addresses to send from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The site, or one of its links.
    pub point: PointId,
    /// The address to send from. Without one of the target's family the point cannot measure it, unless it has none
    /// at all: then the system chooses.
    pub v4: Option<Ipv4Addr>,
    /// Likewise.
    pub v6: Option<Ipv6Addr>,
}

impl Sender {
    pub(super) fn place(&self, target: IpAddr) -> Option<Place> {
        let source = match target {
            IpAddr::V4(_) => self.v4.map(IpAddr::V4),
            IpAddr::V6(_) => self.v6.map(IpAddr::V6),
        };
        (source.is_some() || (self.v4.is_none() && self.v6.is_none())).then_some((self.point, source))
    }
}

/// What may be probed, from where, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Off unless it says so (X 7).
    pub enabled: bool,
    /// Pace and bounds.
    pub limits: Limits,
    /// What the operator says of addresses.
    pub addresses: AddressRules,
    /// How long measured prefixes are.
    pub lengths: Lengths,
    /// In the order they are tried; empty is ICMP, DNS, TCP.
    pub methods: Vec<Method>,
    /// From where.
    pub senders: Vec<Sender>,
    /// Resolvers whose word about their clients' subnets is taken: the address that stands for such a subnet is
    /// probed though nobody in it has asked us. Anybody else could name a victim.
    pub trusted_resolvers: Prefixes,
    /// Whether a peer's word is taken that an address has asked it. Otherwise a peer's request is carried out only
    /// where the address has asked here, too (case P11).
    pub trust_peers: bool,
}

impl Policy {
    /// The same, within what can be set at all, and with the usual methods where none are named.
    pub(super) fn usable(self) -> Self {
        let methods =
            if self.methods.is_empty() { vec![Method::Icmp, Method::Dns, Method::Tcp] } else { self.methods };
        Self { limits: self.limits.clamped(), methods, ..self }
    }
}
