//! Members that are learned: virtual servers of this node and of its peers that name a service (WP-C10).
//!
//! ```text
//! members = [ member, { site = … }, member, { peers = true } ]      items, in the order of the config
//!                 │          │         │          │
//! servers ────────┼──► those of the site, ────────┴──► all others, in order of place and address
//!                 ▼
//!   candidates: equal at every node that knows the same servers
//! ```

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use portolan_balance::policy::SiteId;
use portolan_balance::set::MAX_CANDIDATES;

use super::check::{Checks, Converter};
use super::member::{self, Member};
use super::names::{LinkId, Sites};
use crate::place::At;
use crate::problem::Problem;
use crate::spec::{Member as Written, PeerLossWord, Record, Service};

/// Where a member is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It is written among the members.
    Configured,
    /// A `[[virtual_server]]` of this node: its position in [`super::Compiled::virtual_servers`].
    Local(usize),
    /// Peers say so: who, in order of name. Several do when they stand at one site.
    Learned(Arc<[Claimant]>),
}

/// A peer and what it calls a virtual server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claimant {
    /// The peer's name.
    pub author: String,
    /// The virtual server's name there.
    pub name: String,
}

/// A virtual server that a peer has told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnedServer {
    /// The peer's name.
    pub author: String,
    /// The virtual server's name there.
    pub name: String,
    /// The service it serves, as a domain name.
    pub service: String,
    /// What is answered.
    pub address: IpAddr,
    /// Its site.
    pub site: String,
    /// The link of the site that its address belongs to.
    pub link: Option<String>,
    /// Share.
    pub weight: u16,
    /// Tier.
    pub tier: u8,
    /// Connections it may have.
    pub connections_max: Option<u32>,
}

/// A virtual server as services take it in.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    /// Names as they were told, known here or not.
    pub(crate) site_name: String,
    pub(crate) link_name: Option<String>,
    pub(crate) site: Option<SiteId>,
    pub(crate) link: Option<LinkId>,
    pub(crate) address: IpAddr,
    pub(crate) weight: u16,
    pub(crate) tier: u8,
    pub(crate) connections_max: Option<u32>,
    pub(crate) port: Option<u16>,
    pub(crate) check_address: Vec<At<IpAddr>>,
    pub(crate) inside: Vec<At<IpAddr>>,
    /// Of a server of this node.
    pub(crate) checks: Option<Arc<Checks>>,
    pub(crate) origin: Origin,
}

impl Server {
    /// `site/link`, or `site`: as a configured member says it, so that both have the same key.
    fn place(&self) -> String {
        match &self.link_name {
            Some(link) => format!("{}/{link}", self.site_name),
            None => self.site_name.clone(),
        }
    }
}

/// Servers of one service, each place and address once, in the order of candidates.
pub(crate) type Servers = BTreeMap<(String, IpAddr), Server>;

/// Adds a server; a server of this node is stronger than what peers say of it. Whether it was new.
pub(crate) fn add(servers: &mut Servers, server: Server) -> bool {
    use std::collections::btree_map::Entry;
    match servers.entry((server.place(), server.address)) {
        Entry::Vacant(place) => {
            place.insert(server);
            true
        }
        Entry::Occupied(mut held) => {
            if let (Origin::Learned(all), Origin::Learned(more)) = (&held.get().origin, &server.origin) {
                let mut all: Vec<Claimant> = all.iter().chain(more.iter()).cloned().collect();
                all.sort_unstable();
                all.dedup();
                held.get_mut().origin = Origin::Learned(all.into());
            }
            false
        }
    }
}

/// An item of `members`.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    /// A member.
    Member(Arc<Member>),
    /// Whatever virtual servers there are.
    Servers(Arc<Selector>),
}

/// Which virtual servers an item takes in, and what it says of them.
#[derive(Debug)]
pub(crate) struct Selector {
    pub(crate) written: Arc<Written>,
    /// In place of the service's, for direct checks.
    checks: Option<Arc<Checks>>,
}

impl Selector {
    fn holds(&self, server: &Server) -> bool {
        let Written { site, link, .. } = &*self.written;
        site.as_ref().is_none_or(|site| site.value == server.site_name)
            && link.as_ref().is_none_or(|link| Some(&link.value) == server.link_name.as_ref())
    }

    /// The member that a server is.
    fn member(&self, place: String, server: Server, direct: Option<&Arc<Checks>>) -> Member {
        let (v4, v6) = match server.address {
            IpAddr::V4(_) => (Some(server.address), None),
            IpAddr::V6(_) => (None, Some(server.address)),
        };
        let is_local = matches!(server.origin, Origin::Local(_));
        // a peer's word decides; checks of our own only where the service asks for them (P02)
        let checks = match server.checks {
            Some(own) => own,
            None => direct.map_or_else(Arc::default, |of_service| {
                Arc::clone(self.checks.as_ref().unwrap_or(of_service))
            }),
        };
        let is_written = |at: crate::place::Span| at != crate::place::Span::NOWHERE;
        let written = &self.written;
        let mut member = Member {
            written: Arc::clone(written),
            name: None,
            site: server.site,
            link: server.link,
            key: 0,
            where_: place,
            v4,
            v6,
            port: if is_local { server.port } else { written.port.map(|port| port.get()) },
            check_address: server.check_address,
            inside: server.inside,
            weight: if is_written(written.weight.at) { written.weight.get() } else { server.weight },
            tier: if is_written(written.tier.at) { written.tier.get() } else { server.tier.max(1) },
            connections_max: written.connections_max.map(|it| it.get()).or(server.connections_max),
            checks: Some(checks),
            origin: server.origin,
        };
        member.key = member.make_key();
        member
    }
}

impl Item {
    /// Whether a written member stands for virtual servers.
    fn is_selector(written: &Written, record: &Record) -> bool {
        let has_no_data = written.address.0.is_empty() && written.target.is_none();
        let is_site = written.site.is_some() && has_no_data && matches!(record, Record::Address);
        written.peers || is_site
    }

    pub(crate) fn compile(
        written: &Arc<Written>,
        service: &Service,
        learnable: &Learnable<'_>,
        sites: &mut Sites,
        converter: &mut Converter<'_>,
        problems: &mut Vec<Problem>,
    ) -> Self {
        if !Self::is_selector(written, &service.record.value) {
            return Self::Member(Arc::new(Member::compile(written, service, sites, converter, problems)));
        }
        let (site, ..) = member::place(written, sites, problems);
        selector_keys(written, &service.record.value, problems);
        let checks = member::own_checks(written, service.initial, converter, problems);
        learnable.check(written, site, problems);
        Self::Servers(Arc::new(Selector { written: Arc::clone(written), checks }))
    }
}

/// Keys that say something of one member.
fn selector_keys(written: &Written, record: &Record, problems: &mut Vec<Problem>) {
    let Written { at, peers, name, address, target, check_address, inside, .. } = written;
    if !matches!(record, Record::Address) {
        let problem =
            Problem::error("family", *at, "virtual servers have addresses, and this service answers none");
        problems.push(problem.help("list members with `target`, or give the service record = \"address\""));
    }
    let many = |list: &[At<IpAddr>]| list.first().map(|first| first.at);
    let keys = [
        ("name", name.as_ref().map(|it| it.at)),
        ("address", many(&address.0)),
        ("target", target.as_ref().map(|it| it.at)),
        ("check_address", many(&check_address.0)),
        ("inside", many(&inside.0)),
    ];
    for (key, place) in keys {
        let Some(place) = place else { continue };
        let message = format!("`{key}` is of one member, and this item takes in virtual servers");
        let help = match *peers {
            true => "remove it, or remove peers = true",
            false => "remove it, or add an `address`",
        };
        problems.push(Problem::error("bad-value", place, message).help(help));
    }
}

/// Who there is to learn from.
pub(crate) struct Learnable<'a> {
    /// Whether there are peers, or their part was not understood.
    pub(crate) has_peers: bool,
    /// Sites where peers stand; `None` when that is not known for certain.
    pub(crate) peer_sites: Option<&'a HashSet<SiteId>>,
    /// Virtual servers of this node that name the service.
    pub(crate) own: &'a [Arc<Server>],
    /// Whether all of this node's were understood.
    pub(crate) has_all_own: bool,
}

impl Learnable<'_> {
    fn check(&self, written: &Written, site: Option<SiteId>, problems: &mut Vec<Problem>) {
        let has_own = !self.has_all_own || self.own.iter().any(|own| site.is_none() || own.site == site);
        if has_own {
            return;
        }
        if !self.has_peers {
            let (message, help) = match written.peers {
                true => (
                    "members learned from peers need [peers], or a [[virtual_server]] of this service",
                    "add one of them, or list the members: members = [{ site = \"…\", address = \"…\" }]",
                ),
                false => (
                    "this member has no address, and without [peers] there are no virtual servers to learn of",
                    "add address = \"192.0.2.10\", or [peers]",
                ),
            };
            problems.push(Problem::error("missing-key", written.at, message).help(help));
        } else if let (Some(sites), Some(site), Some(name)) = (self.peer_sites, site, &written.site)
            && !sites.contains(&site)
        {
            let message =
                format!("no peer stands at site {:?}, so that nothing is learned of it", name.value);
            let problem = Problem::warning("no-effect", name.at, message);
            problems.push(problem.help("add the peer to [peers], or an `address` to this member"));
        }
    }
}

/// What became of servers that were told of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Candidates of a service.
    pub taken: usize,
    /// The same place and address as one that is there already, or as a configured member.
    pub known: usize,
    /// No service of this node learns members, or none of its items holds them.
    pub unwanted: usize,
    /// Beyond the 256 candidates that a service may have.
    pub beyond: usize,
    /// At a site or link that this config does not know: without place and operator, but usable.
    pub unplaced: usize,
    /// With an address that no client can use.
    pub unusable: usize,
}

/// The members of a service in the order of its items.
pub(crate) fn take_in(
    items: &[Item],
    direct: Option<&Arc<Checks>>,
    servers: Servers,
    tally: &mut Tally,
) -> Vec<Arc<Member>> {
    let mut configured: HashSet<IpAddr> = HashSet::new();
    let mut count = 0;
    for item in items {
        if let Item::Member(member) = item {
            configured.extend([member.v4, member.v6].into_iter().flatten());
            count += 1;
        }
    }
    let mut taken: Vec<(usize, Arc<Member>)> = Vec::new();
    for ((place, address), server) in servers {
        if configured.contains(&address) {
            tally.known += 1;
            continue;
        }
        let found = items.iter().enumerate().find_map(|(at, item)| match item {
            Item::Servers(selector) if selector.holds(&server) => Some((at, selector)),
            Item::Servers(_) | Item::Member(_) => None,
        });
        let Some((at, selector)) = found else {
            tally.unwanted += 1;
            continue;
        };
        taken.push((at, Arc::new(selector.member(place, server, direct))));
    }
    let room = MAX_CANDIDATES.saturating_sub(count);
    if taken.len() > room {
        tally.beyond += taken.len() - room;
        taken = best(taken, room);
    }
    tally.taken += taken.len();
    let mut by_item: HashMap<usize, Vec<Arc<Member>>> = HashMap::new();
    for (at, member) in taken {
        by_item.entry(at).or_default().push(member);
    }
    let mut members = Vec::with_capacity(count + room.min(MAX_CANDIDATES));
    for (at, item) in items.iter().enumerate() {
        match item {
            Item::Member(member) => members.push(Arc::clone(member)),
            Item::Servers(_) => members.extend(by_item.remove(&at).unwrap_or_default()),
        }
    }
    members
}

/// The `room` that stay when there are too many: by tier, then some of every site, by key; so every node keeps the same.
fn best(taken: Vec<(usize, Arc<Member>)>, room: usize) -> Vec<(usize, Arc<Member>)> {
    let site = |member: &Member| member.where_.split('/').next().unwrap_or_default().to_owned();
    let mut order: Vec<(u8, String, u64, usize)> = taken
        .iter()
        .enumerate()
        .map(|(number, (_, member))| (member.tier, site(member), member.key, number))
        .collect();
    order.sort_unstable();
    let mut ranked: Vec<(u8, usize, u64, usize)> = Vec::with_capacity(order.len());
    let (mut rank, mut before) = (0, None);
    for (tier, site, key, number) in order {
        rank = if before.as_ref() == Some(&(tier, site.clone())) { rank + 1 } else { 0 };
        before = Some((tier, site));
        ranked.push((tier, rank, key, number));
    }
    ranked.sort_unstable();
    let kept: HashSet<usize> = ranked.into_iter().take(room).map(|(.., number)| number).collect();
    let numbered = taken.into_iter().enumerate();
    numbered.filter(|(number, _)| kept.contains(number)).map(|(_, member)| member).collect()
}

/// The checks that learned members of a service get.
pub(crate) fn direct_checks<'a>(service: &Service, checks: &'a Arc<Checks>) -> Option<&'a Arc<Checks>> {
    (service.on_peer_loss.value == PeerLossWord::DirectCheck).then_some(checks)
}

/// What only makes sense with learned members.
pub(crate) fn check_loss(service: &Service, items: &[Item], checks: &Checks, problems: &mut Vec<Problem>) {
    let word = &service.on_peer_loss;
    let selectors: Vec<&Arc<Selector>> = items
        .iter()
        .filter_map(|item| match item {
            Item::Servers(selector) => Some(selector),
            Item::Member(_) => None,
        })
        .collect();
    if selectors.is_empty() {
        if word.at != crate::place::Span::NOWHERE {
            let problem =
                Problem::warning("no-effect", word.at, "`on_peer_loss` does nothing: no member is learned");
            problems.push(problem.help("write members = \"peers\", or remove it"));
        }
        return;
    }
    let is_direct = word.value == PeerLossWord::DirectCheck;
    let learns_only = items.iter().all(|item| matches!(item, Item::Servers(_)));
    if learns_only && !is_direct && !checks.is_empty() {
        let message = "`check` does nothing: all members are learned, and checked where they are";
        let problem = Problem::warning("no-effect", service.check.at, message);
        problems.push(problem.help("add on_peer_loss = \"direct-check\", or remove it"));
    }
    for selector in selectors {
        let own = selector.checks.as_deref();
        if !is_direct {
            if let (Some(_), Some(check)) = (own, check_at(&selector.written)) {
                let message = "`check` does nothing here: peers check their virtual servers themselves";
                let problem = Problem::warning("no-effect", check, message);
                problems
                    .push(problem.help("add on_peer_loss = \"direct-check\" to the service, or remove it"));
            }
            continue;
        }
        let used = own.unwrap_or(checks);
        let is_meant = own.is_some() && used.is_empty();
        if used.is_empty() && !is_meant {
            let problem = Problem::error(
                "missing-key",
                word.at,
                "\"direct-check\" needs checks, and the service has none",
            );
            problems.push(problem.help("add check.tcp = { port = 443 }, or write \"expire\" or \"keep\""));
            return;
        }
        if selector.written.port.is_none()
            && let Some(at) = used.without_port()
        {
            let problem = Problem::error(
                "missing-key",
                at,
                "this check has no port, and learned members have none either",
            );
            let problem = problem.see(word.at, "they are checked with it");
            problems.push(problem.help("add port = 443 to the check, or to the item that takes them in"));
        }
    }
}

fn check_at(written: &Written) -> Option<crate::place::Span> {
    match written.check.as_ref()? {
        crate::spec::MemberCheck::None => Some(written.at),
        crate::spec::MemberCheck::Own(own) => Some(own.at),
    }
}
