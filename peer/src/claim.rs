//! What a node says of itself: claims, and the keys under which they replace each other.
//!
//! Everyone owns its own claims. A receiver keeps them with author, sequence and expiry and never takes them for facts
//! of its own. Times in a claim are ages and remaining lifetimes, never instants (T11).

use std::net::IpAddr;

use serde::Serialize;

/// Longest name of a node, site, link, virtual server or service, in octets.
pub const MAX_NAME: usize = 255;
/// Longest reason, in octets; longer ones are cut when they are sent.
pub const MAX_REASON: usize = 255;
/// Most tables in a digest.
pub const MAX_TABLES: usize = 256;

/// One thing a node says of itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Claim {
    /// An address that serves a global service (WP-C10).
    VirtualServer(VirtualServer),
    /// A physical uplink of its site.
    Link(LinkState),
    /// What it measured of a client prefix.
    Proximity(ProximityCell),
    /// Which candidate a client stays with.
    Persistence(PersistenceEntry),
    /// Ids of what should be equal at all nodes (WP-C9, R14).
    Digest(Digest),
    /// An operator's word on a target, repeated by every node (T7).
    Word(Word),
}

/// A virtual server: one address of a site that serves a service.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VirtualServer {
    /// Unique at its node.
    pub name: String,
    /// The global service it joins: a domain name in lower case with its final dot.
    pub service: String,
    /// What clients are given.
    pub address: IpAddr,
    /// Where it is.
    pub site: String,
    /// The uplink its address belongs to.
    pub link: Option<String>,
    /// Share among equals.
    pub weight: u16,
    /// Lower tiers are used first.
    pub tier: u8,
    /// Whether it serves.
    pub state: ServerState,
    /// Why its state is what it is, for people.
    pub reason: String,
    /// Load in thousandths of what it can bear.
    pub load_permille: Option<u16>,
    /// Connections now.
    pub connections: Option<u32>,
    /// Connections it can bear.
    pub capacity: Option<u32>,
}

/// Whether a virtual server serves, as its own node sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum ServerState {
    /// No verdict yet (T1).
    Unknown,
    /// It serves.
    Up,
    /// It does not.
    Down,
    /// It serves those that it has, and takes no new ones.
    Drain,
    /// An operator took it out.
    Disabled,
}

/// A physical uplink and its use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LinkState {
    /// Where it is.
    pub site: String,
    /// Its name at that site.
    pub name: String,
    /// Whether its checks pass.
    pub is_up: bool,
    /// Bits a second in, now.
    pub in_bps: u64,
    /// Bits a second out, now.
    pub out_bps: u64,
    /// Bits a second it can take in; 0 where unknown.
    pub capacity_in_bps: u64,
    /// Bits a second it can send; 0 where unknown.
    pub capacity_out_bps: u64,
}

/// What one site (and link) measured of one client prefix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProximityCell {
    /// The prefix: address and length.
    pub prefix: (IpAddr, u8),
    /// Who measured.
    pub site: String,
    /// Over which uplink.
    pub link: Option<String>,
    /// Round trip in microseconds.
    pub rtt_us: u32,
    /// Thousandths of probes without an answer.
    pub loss_permille: u16,
    /// Hops; 0 where unknown.
    pub hops: u8,
    /// Samples behind it.
    pub samples: u32,
    /// How it was measured, as the proximity table numbers it.
    pub source: u8,
    /// 0 (a guess) to 255 (many fresh samples).
    pub confidence: u8,
    /// Seconds since the last sample. Time spent waiting to be sent is added.
    pub age_s: u32,
}

/// Which candidate a client stays with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PersistenceEntry {
    /// The client's key.
    pub key: u64,
    /// The candidate's number, equal at all nodes.
    pub candidate: u64,
    /// Seconds it still lives. Time spent waiting to be sent is taken off.
    pub left_s: u32,
}

/// Ids of what should be equal at all nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Digest {
    /// SHA-256, in hex, of the part of the config that must be equal.
    pub config: String,
    /// Operator or table → its id, in order.
    pub tables: Vec<(String, String)>,
    /// The program's version.
    pub version: String,
}

/// An operator's word on a target. It outlives the node where it was spoken, for every node repeats it (T7, case H17);
/// the greater (revision, origin) wins everywhere (case P08).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Word {
    /// What it is about, as operators name it: `NODE/VIRTUAL-SERVER`, `service:NAME`, …
    pub target: String,
    /// What is to be.
    pub act: Act,
    /// The node where it was spoken.
    pub origin: String,
    /// Who spoke.
    pub author: String,
    /// Why.
    pub reason: String,
    /// Greater than that of every word on this target that its origin knew.
    pub revision: u64,
    /// The greatest revision of another origin that its origin knew when it began to speak on this target.
    pub base: u64,
    /// Seconds it still holds.
    pub left_s: u32,
}

/// What an operator wants of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Act {
    /// Taken as up whatever checks say.
    ForceUp,
    /// Taken as down whatever checks say.
    ForceDown,
    /// No new clients.
    Drain,
    /// Out.
    Disable,
    /// May serve again after a failure that asked for a person (case H17).
    Resume,
    /// Earlier words no longer hold.
    Lift,
}

/// Under which a claim of one author replaces an earlier one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum Key {
    /// By name.
    VirtualServer(String),
    /// By `SITE/NAME`.
    Link(String),
    /// By prefix and link; the site is the author's.
    Proximity(IpAddr, u8, Option<String>),
    /// By the client's key.
    Persistence(u64),
    /// There is one.
    Digest,
    /// By target.
    Word(String),
}

/// Claims that must not wait for others: the state of servers goes ahead of bulk measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum Lane {
    /// Virtual servers, links, digests, operators' words.
    Urgent,
    /// Proximity and persistence.
    Bulk,
}

impl Lane {
    /// Both, in the order in which they are sent.
    pub const ALL: [Self; 2] = [Self::Urgent, Self::Bulk];
}

/// Why a claim cannot be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, thiserror::Error)]
pub enum Invalid {
    /// A name is empty where it must not be, or longer than [`MAX_NAME`].
    #[error("a name is empty or longer than {MAX_NAME} octets")]
    Name,
    /// A prefix is longer than its family's addresses, or has bits beyond its length.
    #[error("a prefix is too long or has bits beyond its length")]
    Prefix,
    /// Too many tables in a digest.
    #[error("a digest has more than {MAX_TABLES} tables")]
    Tables,
    /// A service is no domain name in lower case with its final dot.
    #[error("a service is no domain name in lower case with a final dot")]
    Service,
    /// A site or link has a slash in its name.
    #[error("the name of a link's site has a slash")]
    Slash,
    /// The whole is larger than a receiver takes.
    #[error("the claim is too large")]
    Size,
}

impl Claim {
    /// The key under which it replaces an earlier one.
    #[must_use]
    pub fn key(&self) -> Key {
        match self {
            Self::VirtualServer(server) => Key::VirtualServer(server.name.clone()),
            Self::Link(link) => Key::Link(format!("{}/{}", link.site, link.name)),
            Self::Proximity(cell) => Key::Proximity(cell.prefix.0, cell.prefix.1, cell.link.clone()),
            Self::Persistence(entry) => Key::Persistence(entry.key),
            Self::Digest(_) => Key::Digest,
            Self::Word(word) => Key::Word(word.target.clone()),
        }
    }

    /// Whether it is within what the protocol can carry.
    pub fn check(&self) -> Result<(), Invalid> {
        let (names, links): (&[&str], Option<&str>) = match self {
            Self::VirtualServer(server) => {
                check_service(&server.service)?;
                (&[&server.name, &server.service, &server.site], server.link.as_deref())
            }
            Self::Link(link) if link.site.contains('/') => return Err(Invalid::Slash),
            Self::Link(link) => (&[&link.site, &link.name], None),
            Self::Proximity(cell) => {
                check_prefix(cell.prefix)?;
                (&[&cell.site], cell.link.as_deref())
            }
            Self::Persistence(_) => (&[], None),
            Self::Digest(digest) => return check_digest(digest),
            Self::Word(word) => (&[&word.target, &word.origin, &word.author], None),
        };
        names.iter().copied().chain(links).try_for_each(check_name)
    }

    /// The same after `waited_ms`: ages grow, remaining lifetimes shrink (T11).
    #[must_use]
    pub fn aged(&self, waited_ms: u64) -> Self {
        let waited_s = u32::try_from(waited_ms / 1000).unwrap_or(u32::MAX);
        let mut aged = self.clone();
        match &mut aged {
            Self::Proximity(cell) => cell.age_s = cell.age_s.saturating_add(waited_s),
            Self::Persistence(entry) => entry.left_s = entry.left_s.saturating_sub(waited_s),
            Self::Word(word) => word.left_s = word.left_s.saturating_sub(waited_s),
            Self::VirtualServer(_) | Self::Link(_) | Self::Digest(_) => {}
        }
        aged
    }

    /// Octets it takes in memory, about.
    #[must_use]
    pub fn footprint(&self) -> usize {
        let text = match self {
            Self::VirtualServer(server) => {
                let link = server.link.as_ref().map_or(0, String::len);
                // the name is in the key, too
                2 * server.name.len() + server.service.len() + server.site.len() + link + server.reason.len()
            }
            Self::Link(link) => 2 * (link.site.len() + link.name.len()),
            Self::Proximity(cell) => cell.site.len() + 2 * cell.link.as_ref().map_or(0, String::len),
            Self::Persistence(_) => 0,
            Self::Digest(digest) => {
                let tables = digest.tables.iter().map(|(name, id)| 48 + name.len() + id.len());
                digest.config.len() + digest.version.len() + tables.sum::<usize>()
            }
            Self::Word(word) => {
                2 * word.target.len() + word.origin.len() + word.author.len() + word.reason.len()
            }
        };
        size_of::<Self>() + size_of::<Key>() + 32 + text
    }
}

fn check_name(name: &str) -> Result<(), Invalid> {
    if name.is_empty() || name.len() > MAX_NAME { Err(Invalid::Name) } else { Ok(()) }
}

fn check_service(service: &str) -> Result<(), Invalid> {
    let is_lower = !service.bytes().any(|octet| octet.is_ascii_uppercase());
    if service.ends_with('.') && is_lower { Ok(()) } else { Err(Invalid::Service) }
}

fn check_digest(digest: &Digest) -> Result<(), Invalid> {
    if digest.tables.len() > MAX_TABLES {
        return Err(Invalid::Tables);
    }
    let is_long = |text: &String| text.len() > MAX_NAME;
    let pairs = digest.tables.iter().any(|(name, id)| is_long(name) || is_long(id));
    if pairs || is_long(&digest.config) || is_long(&digest.version) { Err(Invalid::Name) } else { Ok(()) }
}

/// Whether `prefix` is one: not longer than its family's addresses, and without bits beyond its length.
pub fn check_prefix((address, length): (IpAddr, u8)) -> Result<(), Invalid> {
    let (bits, width) = match address {
        IpAddr::V4(v4) => (u128::from(u32::from(v4)) << 96, 32),
        IpAddr::V6(v6) => (u128::from(v6), 128),
    };
    let beyond = bits.checked_shl(u32::from(length)).unwrap_or(0);
    if length > width || beyond != 0 { Err(Invalid::Prefix) } else { Ok(()) }
}

/// Whether `address` lies in `prefix`.
#[must_use]
pub fn is_within(address: IpAddr, (prefix, length): (IpAddr, u8)) -> bool {
    let (left, right) = match (address, prefix) {
        (IpAddr::V4(left), IpAddr::V4(right)) => {
            (u128::from(u32::from(left)) << 96, u128::from(u32::from(right)) << 96)
        }
        (IpAddr::V6(left), IpAddr::V6(right)) => (u128::from(left), u128::from(right)),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => return false,
    };
    (left ^ right).checked_shr(128 - u32::from(length.min(128))).unwrap_or(0) == 0
}

impl Key {
    /// Which claims it must not wait for.
    #[must_use]
    pub fn lane(&self) -> Lane {
        match self {
            Self::VirtualServer(_) | Self::Link(_) | Self::Digest | Self::Word(_) => Lane::Urgent,
            Self::Proximity(..) | Self::Persistence(_) => Lane::Bulk,
        }
    }
}

impl From<VirtualServer> for Claim {
    fn from(server: VirtualServer) -> Self {
        Self::VirtualServer(server)
    }
}

impl From<LinkState> for Claim {
    fn from(link: LinkState) -> Self {
        Self::Link(link)
    }
}

impl From<ProximityCell> for Claim {
    fn from(cell: ProximityCell) -> Self {
        Self::Proximity(cell)
    }
}

impl From<PersistenceEntry> for Claim {
    fn from(entry: PersistenceEntry) -> Self {
        Self::Persistence(entry)
    }
}

impl From<Digest> for Claim {
    fn from(digest: Digest) -> Self {
        Self::Digest(digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn prefixes_have_no_bits_beyond_their_length() {
        for (text, length, is_good) in [
            ("0.0.0.0", 0, true),
            ("192.0.2.0", 24, true),
            ("192.0.2.1", 24, false),
            ("192.0.2.1", 32, true),
            ("192.0.2.0", 33, false),
            ("2001:db8::", 48, true),
            ("2001:db8::1", 127, false),
            ("2001:db8::1", 128, true),
            ("::", 0, true),
            ("2001:db8::1", 129, false),
        ] {
            assert_eq!(check_prefix((address(text), length)).is_ok(), is_good, "{text}/{length}");
        }
    }

    #[test]
    fn addresses_lie_in_their_prefix() {
        for (text, prefix, length, is_in) in [
            ("192.0.2.77", "192.0.2.0", 24, true),
            ("192.0.3.77", "192.0.2.0", 24, false),
            ("192.0.3.77", "0.0.0.0", 0, true),
            ("2001:db8::1", "2001:db8::", 48, true),
            ("2001:db8:0:1::1", "2001:db8::", 64, false),
            ("2001:db8::1", "0.0.0.0", 0, false),
        ] {
            assert_eq!(
                is_within(address(text), (address(prefix), length)),
                is_in,
                "{text} {prefix}/{length}"
            );
        }
    }

    #[test]
    fn waiting_ages_what_has_an_age() {
        let entry = Claim::Persistence(PersistenceEntry { key: 1, candidate: 2, left_s: 10 });
        assert_eq!(
            entry.aged(3_999),
            Claim::Persistence(PersistenceEntry { key: 1, candidate: 2, left_s: 7 })
        );
        assert_eq!(
            entry.aged(60_000),
            Claim::Persistence(PersistenceEntry { key: 1, candidate: 2, left_s: 0 })
        );
    }
}
