//! Members: what is answered for each, per record type.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use portolan_balance::hash;
use portolan_balance::policy::{Candidate, SiteId};
use portolan_balance::set::MAX_CANDIDATES;
use portolan_dns::name::Name;
use portolan_dns::rrtype::RrType;

use super::check::{Checks, Converter, Subject};
use super::learned::Origin;
use super::names::{LinkId, Sites, good_name};
use crate::place::{At, Span};
use crate::problem::Problem;
use crate::spec::{InitialWord, Member as Written, MemberCheck, Record, Service};

/// A member with ids.
#[derive(Debug)]
pub(crate) struct Member {
    /// What is written: of the member itself, or of the list item that takes it in.
    pub(crate) written: Arc<Written>,
    pub(crate) name: Option<String>,
    pub(crate) site: Option<SiteId>,
    pub(crate) link: Option<LinkId>,
    pub(crate) key: u64,
    /// `site/link`, `site`, or nothing.
    pub(crate) where_: String,
    pub(crate) v4: Option<IpAddr>,
    pub(crate) v6: Option<IpAddr>,
    pub(crate) port: Option<u16>,
    pub(crate) check_address: Vec<At<IpAddr>>,
    pub(crate) inside: Vec<At<IpAddr>>,
    pub(crate) weight: u16,
    pub(crate) tier: u8,
    pub(crate) connections_max: Option<u32>,
    /// In place of the service's.
    pub(crate) checks: Option<Arc<Checks>>,
    pub(crate) origin: Origin,
}

impl Member {
    /// Reads a member of a service with this record.
    pub(crate) fn compile(
        written: &Arc<Written>,
        service: &Service,
        sites: &mut Sites,
        converter: &mut Converter<'_>,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let (site, link, where_) = place(written, sites, problems);
        if let Some(name) = &written.name {
            good_name("member", name, problems);
        }
        let (v4, v6) = families("address", &written.address.0, problems);
        families("check_address", &written.check_address.0, problems);
        families("inside", &written.inside.0, problems);
        data(written, &service.record.value, problems);
        let mut member = Self {
            written: Arc::clone(written),
            name: written.name.as_ref().map(|it| it.value.clone()),
            site,
            link,
            key: 0,
            where_,
            v4,
            v6,
            port: written.port.map(|port| port.get()),
            check_address: written.check_address.0.clone(),
            inside: written.inside.0.clone(),
            weight: written.weight.get(),
            tier: written.tier.get(),
            connections_max: written.connections_max.map(|it| it.get()),
            checks: own_checks(written, service.initial, converter, problems),
            origin: Origin::Configured,
        };
        member.key = member.make_key();
        member
    }

    /// Stable over reloads, and the same at every node that knows the member by the same place and address.
    pub(crate) fn make_key(&self) -> u64 {
        hash::bytes(0, self.identity().as_bytes())
    }

    /// What makes it this member and no other, whatever its place in the list (T10).
    fn identity(&self) -> String {
        if let Some(name) = &self.name {
            return format!("name {name}");
        }
        let mut text = format!("{}\n", self.where_);
        for address in [self.v4, self.v6].into_iter().flatten() {
            text.push_str(&format!("{address}\n"));
        }
        if let Some(target) = &self.written.target {
            text.push_str(&target.to_lowercase().to_string());
        }
        // the port of a list item that takes others in is for their checks
        if let (Some(port), Origin::Configured) = (self.port, &self.origin) {
            text.push_str(&format!(":{port}"));
        }
        text
    }

    /// For people: its name, or where it is and what is answered.
    pub(crate) fn label(&self, answered: &str) -> String {
        match (&self.name, self.where_.as_str()) {
            (Some(name), _) => name.clone(),
            (None, "") => answered.to_owned(),
            (None, place) => format!("{place} {answered}"),
        }
    }

    /// Its address, the IPv4 one where it has both.
    pub(crate) fn address_text(&self) -> String {
        self.v4.or(self.v6).map(|address| address.to_string()).unwrap_or_default()
    }

    /// Whether a reference means this member.
    pub(crate) fn is_meant(&self, reference: &str) -> bool {
        self.name.as_deref() == Some(reference)
            || self.where_ == reference
            || reference.split_once('/').is_none() && self.where_.split('/').next() == Some(reference)
    }

    /// The candidate of a lane.
    pub(crate) fn candidate(&self, answered: &str, service_threshold: Option<f32>) -> Candidate {
        let threshold = self.written.load_threshold.map(|it| it.0 as f32);
        Candidate {
            name: self.label(answered),
            key: self.key,
            site: self.site,
            weight: self.weight,
            tier: self.tier,
            load_threshold: threshold.or(service_threshold),
            connections_max: self.connections_max,
        }
    }

    /// What its checks need, in a lane that answers `address`.
    pub(crate) fn subject(&self, address: Option<IpAddr>) -> Subject<'_> {
        Subject {
            port: self.port,
            address: address.or(self.v4).or(self.v6),
            check_address: &self.check_address,
            target: self.written.target.as_ref().filter(|name| !name.is_root()).map(|name| name.to_string()),
            at: self.written.at,
        }
    }
}

/// Where a member is: its site, its link, and both in words.
pub(crate) fn place(
    written: &Written,
    sites: &mut Sites,
    problems: &mut Vec<Problem>,
) -> (Option<SiteId>, Option<LinkId>, String) {
    let site = written.site.as_ref().and_then(|name| sites.find(name, problems));
    let link = match (&written.link, site) {
        (Some(link), Some(site)) => sites.find_link(site, link, problems),
        (Some(link), None) if written.site.is_none() => {
            let message = format!("link {:?} needs a site", link.value);
            problems
                .push(Problem::error("missing-key", link.at, message).help("add site = \"…\" to the member"));
            None
        }
        _ => None,
    };
    let where_ = match (site, link.and_then(|id| sites.link(id))) {
        (Some(site), Some(link)) => format!("{}/{}", sites.name(site), link.name),
        (Some(site), None) => sites.name(site).to_owned(),
        (None, _) => String::new(),
    };
    (site, link, where_)
}

/// The checks in place of the service's; also what is wrong with numbers of a member or of an item that takes some in.
pub(crate) fn own_checks(
    written: &Written,
    initial: InitialWord,
    converter: &mut Converter<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Arc<Checks>> {
    if let Some(threshold) = &written.load_threshold
        && !(threshold.0 > 0.0 && threshold.0 <= 1.0)
    {
        problems.push(share(threshold.at, threshold.0));
    }
    checks_of(written.check.as_ref(), initial, converter, problems)
}

pub(crate) fn checks_of(
    check: Option<&MemberCheck>,
    initial: InitialWord,
    converter: &mut Converter<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Arc<Checks>> {
    match check? {
        MemberCheck::None => Some(Arc::new(Checks::NONE)),
        MemberCheck::Own(own) => Some(Arc::new(converter.checks(own, initial, problems))),
    }
}

/// A share of capacity that makes no sense.
pub(crate) fn share(at: Span, value: f64) -> Problem {
    Problem::error("bad-value", at, format!("{value} is not above 0 and at most 1"))
        .help("write a share of the capacity: 0.9")
}

/// The address of each family; more than one is reported.
fn families(
    key: &str,
    addresses: &[At<IpAddr>],
    problems: &mut Vec<Problem>,
) -> (Option<IpAddr>, Option<IpAddr>) {
    let mut family = |is_v4: bool| {
        let mut of = addresses.iter().filter(|address| address.is_ipv4() == is_v4);
        let first = of.next();
        if let (Some(first), Some(second)) = (first, of.next()) {
            let name = if is_v4 { "IPv4" } else { "IPv6" };
            let problem = Problem::error("twice", second.at, format!("a member has one {name} `{key}`"));
            problems
                .push(problem.see(first.at, "the first one").help("make each address a member of its own"));
        }
        first.map(|address| address.value)
    };
    (family(true), family(false))
}

/// Whether the member has what the service answers with.
fn data(member: &Written, record: &Record, problems: &mut Vec<Problem>) {
    let needs_target = !matches!(record, Record::Address);
    match (&member.target, needs_target) {
        (None, true) => {
            let problem =
                Problem::error("missing-key", member.at, "a member of this service needs a `target`");
            problems.push(problem.help("add target = \"host.example.net.\""));
        }
        (Some(target), false) => {
            let problem =
                Problem::error("bad-value", target.at, "a service with addresses answers no `target`");
            problems.push(problem.help("give the member an address, or the service record = \"cname\""));
        }
        _ => {}
    }
    if !needs_target && member.address.0.is_empty() {
        let problem = Problem::error("missing-key", member.at, "this member has no address");
        problems.push(problem.help("add address = \"192.0.2.10\""));
    }
    if let Record::Srv(srv) = record
        && srv.port.is_none()
        && member.port.is_none()
    {
        let problem = Problem::error("missing-key", member.at, "this member of an SRV service has no port");
        problems.push(problem.help("add `port` to the member, or to record.srv for all of them"));
    }
}

/// Members that cannot be told apart, names that mean two things, too many, all of weight 0. More may be learned.
pub(crate) fn check_together(
    members: &[Arc<Member>],
    service: &Service,
    learns: bool,
    sites: &mut Sites,
    problems: &mut Vec<Problem>,
) {
    let at = service.members.at;
    if members.is_empty() && !learns {
        let problem = Problem::error("empty", at, format!("service {} has no members", service.name.value));
        problems.push(problem.help("add members = [{ address = \"192.0.2.10\" }]"));
    }
    if members.len() > MAX_CANDIDATES {
        let message = format!("{} members are more than {MAX_CANDIDATES}", members.len());
        problems.push(Problem::error("too-many", at, message).help("split them over several services"));
    }
    if !learns && !members.is_empty() && members.iter().all(|member| member.weight == 0) {
        let message = format!("all weights of service {} are 0", service.name.value);
        problems
            .push(Problem::error("weights", at, message).help("give at least one member a weight above 0"));
    }
    let mut by_key: HashMap<u64, Span> = HashMap::new();
    let mut by_address: HashMap<IpAddr, Span> = HashMap::new();
    for member in members {
        let place = member.written.at;
        if let Some(first) = by_key.insert(member.key, place) {
            let message = match &member.name {
                Some(name) => format!("two members of this service have the name {name:?}"),
                None => "this member is there twice".to_owned(),
            };
            let problem = Problem::error("twice", place, message).see(first, "first here");
            problems.push(problem.help("remove one, or give each a name of its own"));
            continue;
        }
        if let Some(name) = &member.written.name
            && sites.get(&name.value).is_some()
        {
            let message = format!("{:?} is also a site: references would mean both", name.value);
            problems.push(Problem::error("twice", name.at, message).help("name the member otherwise"));
        }
        for address in [member.v4, member.v6].into_iter().flatten() {
            if let Some(first) = by_address.insert(address, place)
                && matches!(service.record.value, Record::Address)
            {
                let message = format!("{address} is answered for two members");
                let problem = Problem::warning("twice", place, message).see(first, "first here");
                problems.push(problem.help("give each member an address of its own"));
            }
        }
    }
}

/// The data of a member's record in wire form.
pub(crate) fn rdata(rtype: RrType, record: &Record, member: &Member) -> Option<(String, Box<[u8]>)> {
    let address = match rtype {
        RrType::A => member.v4,
        RrType::AAAA => member.v6,
        _ => None,
    };
    if let Some(address) = address {
        return Some((address.to_string(), address_octets(address)));
    }
    let target = &member.written.target.as_ref()?.value;
    let port = |own: Option<u16>| member.port.or(own);
    let wire = match record {
        Record::Address => return None,
        Record::Cname => target.as_wire().to_vec(),
        Record::Srv(srv) => {
            // RFC 2782: priority, weight, port, target
            let numbers = [srv.priority.get(), member.weight, port(srv.port.map(|it| it.get()))?];
            with_target(&numbers, target)
        }
        Record::Mx(mx) => with_target(&[mx.preference.get()], target),
        Record::Https(https) => {
            // RFC 9460 2.2: priority, target, parameters in ascending order of their keys
            let mut wire = with_target(&[https.priority.get()], target);
            if !https.alpn.is_empty() {
                let mut value = Vec::new();
                for id in &https.alpn {
                    value.push(u8::try_from(id.len()).ok()?);
                    value.extend(id.as_bytes());
                }
                parameter(&mut wire, 1, &value);
            }
            if let Some(port) = port(https.port.map(|it| it.get())) {
                parameter(&mut wire, 3, &port.to_be_bytes());
            }
            wire
        }
    };
    let shown = match record {
        Record::Srv(srv) => format!("{target}:{}", port(srv.port.map(|it| it.get()))?),
        Record::Address | Record::Cname | Record::Mx(_) | Record::Https(_) => target.to_string(),
    };
    Some((shown, wire.into()))
}

/// An address as the data of its record.
pub(crate) fn address_octets(address: IpAddr) -> Box<[u8]> {
    match address {
        IpAddr::V4(address) => address.octets().into(),
        IpAddr::V6(address) => address.octets().into(),
    }
}

fn with_target(numbers: &[u16], target: &Name) -> Vec<u8> {
    let mut wire: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
    wire.extend(target.as_wire());
    wire
}

fn parameter(wire: &mut Vec<u8>, key: u16, value: &[u8]) {
    wire.extend(key.to_be_bytes());
    wire.extend(u16::try_from(value.len()).unwrap_or(u16::MAX).to_be_bytes());
    wire.extend(value);
}
