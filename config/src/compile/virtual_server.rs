//! `[[virtual_server]]`: addresses of this node's site (WP-C10), checked here and told to peers.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use portolan_balance::policy::SiteId;
use portolan_dns::name::Name;

use super::check::{Converter, MemberChecks, Subject};
use super::draft::Draft;
use super::learned::{Origin, Server};
use super::member::checks_of;
use super::names::{LinkId, Sites, good_name};
use crate::place::{At, Span};
use crate::problem::Problem;
use crate::spec::{self, ModeWord, Ports, ProtocolWord, Record, Spec};

/// A virtual server of this node's site.
#[derive(Clone, Debug)]
pub struct VirtualServer {
    /// Its name, unique at this node.
    pub name: String,
    /// The service it serves.
    pub service: Name,
    /// What is answered.
    pub address: IpAddr,
    /// The node's own site.
    pub site: SiteId,
    /// The link its address belongs to.
    pub link: Option<LinkId>,
    /// What it serves.
    pub protocol: ProtocolWord,
    /// Its ports as ranges, first and last, ascending.
    pub ports: Vec<(u16, u16)>,
    /// Who serves it.
    pub mode: ModeWord,
    /// Share.
    pub weight: u16,
    /// Tier.
    pub tier: u8,
    /// Connections it may have.
    pub connections_max: Option<u32>,
    /// Its address behind NAT.
    pub inside: Option<IpAddr>,
    /// Its checks; none: it counts as up.
    pub checks: MemberChecks,
    /// Whether a service of this node has it among its members.
    pub is_member: bool,
}

/// Most virtual servers of a node.
const LIMIT: usize = 10_000;

/// The virtual servers, and what services take in of them.
#[derive(Default)]
pub(crate) struct VirtualServers {
    pub(crate) list: Vec<VirtualServer>,
    pub(crate) by_service: HashMap<Name, Vec<Arc<Server>>>,
    /// Where each is written, for later warnings.
    at: Vec<Span>,
}

pub(crate) fn compile(
    spec: &Spec,
    own: SiteId,
    sites: &mut Sites,
    converter: &mut Converter<'_>,
    problems: &mut Vec<Problem>,
) -> VirtualServers {
    let mut servers = VirtualServers::default();
    if let Some(server) = spec.virtual_server.get(LIMIT) {
        let message = format!("more than {LIMIT} virtual servers");
        problems.push(Problem::error("too-many", server.at, message));
    }
    let mut seen = Seen::default();
    for written in spec.virtual_server.iter().take(LIMIT) {
        seen.check(written, problems);
        one(written, spec, own, sites, converter, &mut servers, problems);
    }
    servers
}

fn one(
    written: &spec::VirtualServer,
    spec: &Spec,
    own: SiteId,
    sites: &mut Sites,
    converter: &mut Converter<'_>,
    servers: &mut VirtualServers,
    problems: &mut Vec<Problem>,
) {
    let spec::VirtualServer {
        at,
        name,
        service,
        address,
        protocol,
        ports,
        mode,
        link,
        weight,
        tier,
        connections_max,
        check,
        initial,
        check_address,
        inside,
    } = written;
    good_name("virtual server", name, problems);
    has_mode(mode, problems);
    if address.is_unspecified() || address.is_multicast() {
        let message = format!("{} is no address of a server", address.value);
        problems
            .push(Problem::error("bad-value", address.at, message).help("give the address that clients use"));
    }
    // without the node's part nothing is known of its site
    let link = link.as_ref().filter(|_| spec.node.is_whole);
    let link_id = link.and_then(|link| sites.find_link(own, link, problems));
    let ports = ranges(ports, *protocol, problems);
    let checks = checks_of(check.as_ref(), *initial, converter, problems);
    if check.is_none() {
        let message = format!("virtual server {:?} is never checked: it always counts as up", name.value);
        let problem = Problem::warning("unchecked", *at, message);
        problems.push(problem.help("add check.tcp = {}, or check = \"none\" where that is meant"));
    }
    let port = ports.first().map(|(first, _)| *first).filter(|_| ports != ALL);
    let check_address: Vec<At<IpAddr>> = check_address.iter().copied().collect();
    let subject =
        Subject { port, address: Some(address.value), check_address: &check_address, target: None, at: *at };
    let checks = checks.unwrap_or_default();
    let server = VirtualServer {
        name: name.value.clone(),
        service: service.value.clone(),
        address: address.value,
        site: own,
        link: link_id,
        protocol: *protocol,
        ports,
        mode: mode.value,
        weight: weight.get(),
        tier: tier.get(),
        connections_max: connections_max.map(|it| it.get()),
        inside: inside.map(|it| it.value),
        checks: checks.of_member(&subject, problems),
        is_member: false,
    };
    let taken_in = Server {
        site_name: sites.name(own).to_owned(),
        link_name: link.map(|it| it.value.clone()),
        site: Some(own),
        link: link_id,
        address: address.value,
        weight: server.weight,
        tier: server.tier,
        connections_max: server.connections_max,
        port,
        check_address,
        inside: inside.iter().copied().collect(),
        checks: Some(checks),
        origin: Origin::Local(servers.list.len()),
    };
    servers.by_service.entry(service.value.clone()).or_default().push(Arc::new(taken_in));
    servers.list.push(server);
    servers.at.push(*at);
}

const MODES: &[ModeWord] = &[ModeWord::External];

fn has_mode(mode: &At<ModeWord>, problems: &mut Vec<Problem>) {
    if !MODES.contains(&mode.value) {
        let message = format!("this version has no virtual servers of mode {:?}", mode.value.name());
        let known: Vec<String> = MODES.iter().map(|mode| format!("{:?}", mode.name())).collect();
        let help = format!(
            "the modes it has: {} (somebody else serves the address, and it is only checked)",
            known.join(", ")
        );
        problems.push(Problem::error("bad-value", mode.at, message).help(help));
    }
}

const ALL: [(u16, u16); 1] = [(1, 65535)];

fn ranges(ports: &At<Ports>, protocol: ProtocolWord, problems: &mut Vec<Problem>) -> Vec<(u16, u16)> {
    let Ports::Some(written) = &ports.value else { return ALL.to_vec() };
    if protocol == ProtocolWord::Any {
        let problem =
            Problem::error("bad-value", ports.at, "protocol \"any\" is every packet: it has no ports");
        problems.push(problem.help("leave `ports` out, or give the protocol: \"tcp\" or \"udp\""));
    }
    let mut sorted: Vec<&At<(u16, u16)>> = written.iter().collect();
    sorted.sort_by_key(|range| range.value);
    for pair in sorted.windows(2) {
        if let [first, second] = pair
            && second.value.0 <= first.value.1
        {
            let message = format!("port {} is there twice", second.value.0);
            let problem = Problem::error("twice", second.at, message).see(first.at, "first here");
            problems.push(problem.help("give each port once"));
        }
    }
    sorted.into_iter().map(|range| range.value).collect()
}

/// What only one virtual server may have.
#[derive(Default)]
struct Seen {
    names: HashMap<String, Span>,
    places: HashMap<(Name, IpAddr), Span>,
}

impl Seen {
    fn check(&mut self, server: &spec::VirtualServer, problems: &mut Vec<Problem>) {
        let name = &server.name;
        if let Some(first) = self.names.insert(name.value.clone(), name.at) {
            let message = format!("virtual server {:?} is there twice", name.value);
            let problem = Problem::error("twice", name.at, message).see(first, "first here");
            problems.push(problem.help("give each virtual server a name of its own"));
        }
        let address = &server.address;
        if let Some(first) = self.places.insert((server.service.value.clone(), address.value), address.at) {
            let message = format!("{} serves {} twice", address.value, server.service.value);
            let problem = Problem::error("twice", address.at, message).see(first, "first here");
            problems.push(problem.help("one virtual server may have several ports: ports = [80, 443]"));
        }
    }
}

impl VirtualServers {
    /// Says which servers services have taken in, and warns of those that none has.
    pub(crate) fn settle(&mut self, spec: &Spec, drafts: &[Draft], problems: &mut Vec<Problem>) {
        let members = drafts.iter().flat_map(|draft| &draft.members);
        for member in members {
            if let Origin::Local(at) = member.origin
                && let Some(server) = self.list.get_mut(at)
            {
                server.is_member = true;
            }
        }
        let mut by_name: HashMap<&Name, Vec<&Draft>> = HashMap::new();
        for draft in drafts {
            by_name.entry(&draft.spec.name.value).or_default().push(draft);
        }
        let has_peers = spec.peers.is_some() || !spec.peers.is_whole;
        for ((server, at), written) in self.list.iter().zip(&self.at).zip(spec.virtual_server.iter()) {
            let Some(drafts) = by_name.get(&server.service) else {
                if spec.service.is_whole() {
                    problems.push(without_service(server, written, has_peers));
                }
                continue;
            };
            if drafts.iter().all(|draft| !matches!(draft.spec.record.value, Record::Address)) {
                let message = format!("service {} answers no addresses", server.service);
                let problem = Problem::error("family", written.service.at, message);
                problems.push(problem.help("give the virtual server a service with record = \"address\""));
                continue;
            }
            let answered: HashSet<IpAddr> = drafts
                .iter()
                .flat_map(|draft| &draft.members)
                .flat_map(|member| [member.v4, member.v6])
                .flatten()
                .collect();
            if !answered.contains(&server.address) {
                let message = format!(
                    "service {} does not take in virtual server {:?}: it is not among its members here",
                    server.service, server.name
                );
                let problem = Problem::warning("no-effect", *at, message);
                problems
                    .push(problem.help("add { peers = true } to its members, or write members = \"peers\""));
            }
        }
    }
}

fn without_service(server: &VirtualServer, written: &spec::VirtualServer, has_peers: bool) -> Problem {
    let (what, help) = match has_peers {
        true => ("only peers take it in", "add the service, or leave it so where others answer for the name"),
        false => ("nothing takes it in", "add the service with members = \"peers\""),
    };
    let message = format!("there is no service {} at this node: {what}", server.service);
    Problem::warning("no-service", written.service.at, message).help(help)
}
