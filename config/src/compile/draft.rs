//! A service with its names resolved: what can be said before the prefix structure and the geography tables are built.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ipnet::IpNet;
use portolan_balance::Scheduler;
use portolan_balance::policy::SiteId;
use portolan_balance::set::{CandidateId, CandidateSet};

use super::acl::{Action, Froms, Rule};
use super::check::{Checks, Converter};
use super::geo::GeoPolicy;
use super::learned::{self, Item, Learnable, Server, Servers, Tally};
use super::member::{self, Member};
use super::names::{Lists, Sites};
use super::peers::Peers;
use super::region::Regions;
use super::virtual_server::VirtualServers;
use crate::place::{At, Span};
use crate::problem::Problem;
use crate::read::{Many, Seconds};
use crate::spec::{AclRule, Fallback, GeoOf, NetOrList, Record, Service, Spec, StepWord};
use crate::suggest;

/// A service with ids in place of names.
#[derive(Clone)]
pub(crate) struct Draft {
    pub(crate) spec: Arc<Service>,
    /// What `members` holds.
    pub(crate) items: Vec<Item>,
    /// Those that are known: configured, of this node, learned.
    pub(crate) members: Vec<Arc<Member>>,
    pub(crate) checks: Arc<Checks>,
    /// The steps before the scheduler.
    pub(crate) steps: Vec<StepWord>,
    pub(crate) scheduler: Scheduler,
    /// Rules over positions in `members`.
    pub(crate) acl: Vec<Rule>,
    /// Position in [`Shared::geo`].
    pub(crate) geo: Option<usize>,
}

/// What services look names up in, and what they add to.
pub(crate) struct Shared<'a, 's> {
    pub(crate) sites: &'a mut Sites,
    pub(crate) lists: &'a mut Lists<'s>,
    pub(crate) regions: &'a mut Regions<'s>,
    pub(crate) converter: &'a mut Converter<'s>,
    /// Virtual servers of this node.
    pub(crate) servers: &'a VirtualServers,
    /// Sites where peers stand; `None` when that is not known for certain.
    pub(crate) peer_sites: Option<HashSet<SiteId>>,
    has_peers: bool,
    has_all_servers: bool,
    pub(crate) froms: Froms,
    /// Policies in use.
    pub(crate) geo: Vec<GeoPolicy>,
    /// `[[geo]]` by name, with its position in `geo` once it is in use.
    named: HashMap<&'s str, (Span, GeoPolicy, Option<usize>)>,
    named_order: Vec<&'s str>,
    /// Whether no policy was left out.
    has_all_named: bool,
}

impl<'a, 's> Shared<'a, 's> {
    #[expect(clippy::too_many_arguments, reason = "what services look names up in")]
    pub(crate) fn new(
        spec: &'s Spec,
        sites: &'a mut Sites,
        lists: &'a mut Lists<'s>,
        regions: &'a mut Regions<'s>,
        converter: &'a mut Converter<'s>,
        servers: &'a VirtualServers,
        peers: Option<&Peers>,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let mut named: HashMap<&str, (Span, GeoPolicy, Option<usize>)> = HashMap::new();
        let mut named_order = Vec::new();
        for geo in spec.geo.iter() {
            let policy = GeoPolicy::named(geo, sites, regions, problems);
            named_order.push(geo.name.value.as_str());
            if let Some((first, ..)) = named.insert(&geo.name.value, (geo.name.at, policy, None)) {
                let message = format!("geo policy {:?} is there twice", geo.name.value);
                let problem = Problem::error("twice", geo.name.at, message).see(first, "first here");
                problems.push(problem.help("give each policy a name of its own"));
            }
        }
        Self {
            sites,
            lists,
            regions,
            converter,
            servers,
            peer_sites: peers
                .filter(|_| spec.peers.is_whole)
                .map(|peers| peers.members.iter().map(|peer| peer.site).collect()),
            has_peers: peers.is_some() || !spec.peers.is_whole,
            has_all_servers: spec.virtual_server.is_whole(),
            froms: Froms::default(),
            geo: Vec::new(),
            named,
            named_order,
            has_all_named: spec.geo.is_whole(),
        }
    }

    /// The position of a policy among those in use.
    fn geo_of(&mut self, geo: Option<&At<GeoOf>>, problems: &mut Vec<Problem>) -> Option<usize> {
        let policy = match geo {
            None => GeoPolicy::by_distance(self.sites),
            Some(At { value: GeoOf::Inline(geo), .. }) => {
                GeoPolicy::inline(geo, self.sites, self.regions, problems)
            }
            Some(At { value: GeoOf::Named(name), at }) => {
                let Some((_, policy, position)) = self.named.get_mut(name.as_str()) else {
                    if !self.has_all_named {
                        return None;
                    }
                    let mut problem =
                        Problem::error("unknown-name", *at, format!("there is no [[geo]] policy {name:?}"));
                    problem.help = suggest::remedy(name, self.named_order.iter().copied())
                        .or_else(|| Some(format!("add a [[geo]] with name = {name:?}")));
                    problems.push(problem);
                    return None;
                };
                if position.is_none() {
                    *position = Some(self.geo.len());
                    self.geo.push(policy.clone());
                }
                return *position;
            }
        };
        let position = self.geo.iter().position(|other| *other == policy);
        Some(position.unwrap_or_else(|| {
            self.geo.push(policy);
            self.geo.len() - 1
        }))
    }

    /// Warns of policies that nothing refers to.
    pub(crate) fn warn_unused(&self, problems: &mut Vec<Problem>) {
        for name in &self.named_order {
            if let Some((at, _, None)) = self.named.get(name) {
                let message = format!("no service uses the geo policy {name:?}");
                problems.push(
                    Problem::warning("unused", *at, message)
                        .help("write geo = \"…\" in a service, or remove it"),
                );
            }
        }
    }
}

impl Draft {
    pub(crate) fn compile(
        spec: &Arc<Service>,
        shared: &mut Shared<'_, '_>,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let checks = Arc::new(shared.converter.checks(&spec.check, spec.initial, problems));
        let own = shared.servers.by_service.get(&spec.name.value).map(Vec::as_slice).unwrap_or_default();
        let learnable = Learnable {
            has_peers: shared.has_peers,
            peer_sites: shared.peer_sites.as_ref(),
            own,
            has_all_own: shared.has_all_servers,
        };
        let items: Vec<Item> = spec
            .members
            .0
            .iter()
            .map(|written| Item::compile(written, spec, &learnable, shared.sites, shared.converter, problems))
            .collect();
        let learns = learns(&items);
        let mut servers = Servers::new();
        for server in own.iter().filter(|_| learns) {
            learned::add(&mut servers, Server::clone(server));
        }
        let direct = learned::direct_checks(spec, &checks);
        let members = learned::take_in(&items, direct, servers, &mut Tally::default());
        learned::check_loss(spec, &items, &checks, problems);
        member::check_together(&members, spec, learns, shared.sites, problems);
        let (steps, scheduler) = steps(spec, problems);
        let has = |step: StepWord| steps.contains(&step);
        let mut taken = Vec::new();
        let acl: Vec<Rule> = spec
            .acl
            .iter()
            .filter_map(|rule| acl_rule(rule, &members, learns, &mut taken, shared, problems))
            .collect();
        if let (Some(first), false) = (spec.acl.first(), has(StepWord::Acl)) {
            no_effect(first.at, "acl", problems);
        }
        if let (Some(geo), false) = (&spec.geo, has(StepWord::Geo)) {
            no_effect(geo.at, "geo", problems);
        }
        let mut geo = None;
        // a named policy counts as used also where the step is forgotten: that has its own warning
        if has(StepWord::Geo) || spec.geo.is_some() {
            geo = shared.geo_of(spec.geo.as_ref(), problems);
        }
        check_numbers(spec, &members, learns, &steps, problems);
        let geo = geo.filter(|_| has(StepWord::Geo));
        Self { spec: Arc::clone(spec), items, members, checks, steps, scheduler, acl, geo }
    }

    /// Whether members may come and go.
    pub(crate) fn learns(&self) -> bool {
        learns(&self.items)
    }

    /// Whether all of them do.
    pub(crate) fn learns_only(&self) -> bool {
        self.items.iter().all(|item| matches!(item, Item::Servers(_)))
    }

    /// The same with other members.
    pub(crate) fn with_members(&self, members: Vec<Arc<Member>>) -> Self {
        let mut acl = self.acl.clone();
        // a rule for each that is written: a config in which one could not be read is none
        for (rule, written) in acl.iter_mut().zip(&self.spec.acl) {
            let AclRule { at: _, from: _, only, prefer, avoid, refuse: _ } = written;
            let references = [only, prefer, avoid].into_iter().flatten().flat_map(|list| list.value.iter());
            rule.members = references.fold(CandidateSet::EMPTY, |set, one| set.or(&set_of(one, &members)));
        }
        Self { members, acl, ..self.clone() }
    }
}

fn learns(items: &[Item]) -> bool {
    items.iter().any(|item| matches!(item, Item::Servers(_)))
}

fn no_effect(at: Span, key: &str, problems: &mut Vec<Problem>) {
    let message = format!("`{key}` does nothing: `choose` has no step \"{key}\"");
    problems.push(Problem::warning("no-effect", at, message).help(format!("add \"{key}\" to `choose`")));
}

/// The steps, and the scheduler at their end.
fn steps(service: &Service, problems: &mut Vec<Problem>) -> (Vec<StepWord>, Scheduler) {
    let choose = &service.choose;
    let is_default = choose.at == Span::NOWHERE;
    let mut steps = Vec::new();
    let mut last: Option<(Scheduler, Span)> = None;
    for (position, step) in choose.value.iter().enumerate() {
        if let Some(scheduler) = scheduler(step.value, service) {
            if position + 1 != choose.value.len() {
                let message = format!("the scheduler {:?} stands before other steps", step.name());
                problems
                    .push(Problem::error("choose", step.at, message).help("a scheduler is the last step"));
            }
            last = Some((scheduler, step.at));
        } else if steps.contains(&step.value) {
            let message = format!("step {:?} is there twice", step.name());
            problems.push(Problem::error("twice", step.at, message).help("remove one of the two"));
        } else {
            steps.push(step.value);
        }
    }
    match last {
        None => {
            let problem = Problem::error("choose", choose.at, "the last step must be a scheduler");
            problems.push(problem.help("end the list with a scheduler, like \"weighted-round-robin\""));
        }
        Some((Scheduler::DestinationHash | Scheduler::UdpPayloadHash { .. }, at)) => {
            let problem =
                Problem::warning("no-effect", at, "a DNS query has nothing that this scheduler hashes");
            problems.push(problem.help("use \"source-hash\" or \"rendezvous\""));
        }
        Some(_) => {}
    }
    match (&service.persist, steps.contains(&StepWord::Persist)) {
        // WP-O: persistence comes first
        (Some(_), false) if is_default => steps.insert(0, StepWord::Persist),
        (Some(persist), false) => no_effect(persist.at, "persist", problems),
        (None, true) => {
            let problem = Problem::error("missing-key", choose.at, "the step \"persist\" needs `persist`");
            problems.push(problem.help("add persist = { kind = \"hash\" }"));
        }
        _ => {}
    }
    let scheduler = last.map_or(Scheduler::WeightedRoundRobin, |(scheduler, _)| scheduler);
    (steps, scheduler)
}

fn scheduler(word: StepWord, service: &Service) -> Option<Scheduler> {
    let (v4, v6) = (service.hash.v4.get(), service.hash.v6.get());
    Some(match word {
        StepWord::Persist
        | StepWord::Acl
        | StepWord::Proximity
        | StepWord::Isp
        | StepWord::Geo
        | StepWord::Load => return None,
        StepWord::RoundRobin => Scheduler::RoundRobin,
        StepWord::WeightedRoundRobin => Scheduler::WeightedRoundRobin,
        StepWord::Random => Scheduler::Random,
        StepWord::WeightedRandom => Scheduler::WeightedRandom,
        StepWord::SourceHash => Scheduler::SourceHash { v4, v6 },
        StepWord::SourceIpPortHash => Scheduler::SourcePortHash,
        StepWord::DestinationHash => Scheduler::DestinationHash,
        StepWord::UdpPayloadHash => Scheduler::UdpPayloadHash { offset: 0, length: u16::MAX },
        StepWord::Rendezvous => Scheduler::Rendezvous { v4, v6 },
        StepWord::Maglev => Scheduler::Maglev,
        StepWord::LeastConnections => Scheduler::LeastConnections,
        StepWord::WeightedLeastConnections => Scheduler::WeightedLeastConnections,
        StepWord::LeastTime => Scheduler::LeastTime,
        StepWord::Bandwidth => Scheduler::Bandwidth,
        StepWord::MaxBandwidth => Scheduler::MaxBandwidth,
        StepWord::Priority => Scheduler::Priority,
        StepWord::All => Scheduler::All,
    })
}

fn acl_rule(
    rule: &AclRule,
    members: &[Arc<Member>],
    learns: bool,
    taken: &mut Vec<IpNet>,
    shared: &mut Shared<'_, '_>,
    problems: &mut Vec<Problem>,
) -> Option<Rule> {
    let AclRule { at, from, only, prefer, avoid, refuse } = rule;
    crate::read::not_empty(&from.0, from.at, "`from`", problems);
    let nets = shared.lists.resolve(&from.0, problems);
    let words = from.iter().map(|item| match &item.value {
        NetOrList::Net(net) => net.to_string(),
        NetOrList::List(name) => name.clone(),
    });
    let words = words.collect::<Vec<_>>().join(", ");
    if !nets.is_empty() && nets.iter().all(|net| is_within(net, taken)) {
        let problem = Problem::warning("hidden-rule", *at, format!("this rule for {words} is never reached"));
        problems.push(problem.help("earlier rules take all of its clients: put the smaller prefixes first"));
    }
    taken.extend(&nets);
    *taken = IpNet::aggregate(taken);
    taken.sort_unstable();
    let list = shared.froms.number(nets);
    let mut actions = Vec::new();
    for (action, references) in [(Action::Only, only), (Action::Prefer, prefer), (Action::Avoid, avoid)] {
        if let Some(references) = references {
            actions.push((action, meant(references, members, learns, shared.sites, problems)));
        }
    }
    match refuse {
        Some(At { value: true, .. }) => actions.push((Action::Refuse, CandidateSet::EMPTY)),
        Some(At { value: false, at }) => {
            problems.push(Problem::error("bad-value", *at, "`refuse` is true or left out").help("remove it"));
        }
        None => {}
    }
    let [(action, members)] = actions.as_slice() else {
        let problem = Problem::error("bad-value", *at, "an ACL rule says exactly one thing");
        problems.push(
            problem.help("one of `only`, `prefer`, `avoid` with sites, links or members, or refuse = true"),
        );
        return None;
    };
    Some(Rule { from: words, list, action: *action, members: *members })
}

/// Whether a prefix lies in one of these, which are sorted and disjoint.
fn is_within(net: &IpNet, sorted: &[IpNet]) -> bool {
    let after = sorted.partition_point(|other| other.network() <= net.network());
    after.checked_sub(1).and_then(|at| sorted.get(at)).is_some_and(|other| other.contains(net))
}

/// The members that a reference means.
fn set_of(reference: &str, members: &[Arc<Member>]) -> CandidateSet {
    let meant = members.iter().enumerate().filter(|(_, member)| member.is_meant(reference));
    meant.filter_map(|(position, _)| u8::try_from(position).ok().map(CandidateId)).collect()
}

/// The members that references mean; a reference without members is reported, unless some may come.
fn meant(
    references: &At<Many<At<String>>>,
    members: &[Arc<Member>],
    learns: bool,
    sites: &Sites,
    problems: &mut Vec<Problem>,
) -> CandidateSet {
    crate::read::not_empty(&references.0, references.at, "the list", problems);
    let mut set = CandidateSet::EMPTY;
    for reference in references.iter() {
        let found = set_of(reference, members);
        set = set.or(&found);
        let may_come = learns && sites.has_place(reference);
        // a member at a site that was left out is at no site here
        if found.is_empty() && !may_come && sites.is_whole {
            let message = format!("no member of this service is {:?}", reference.value);
            let mut problem = Problem::error("unknown-name", reference.at, message);
            let names = members.iter().filter_map(|member| member.name.as_deref());
            let places = members.iter().filter_map(|member| member.site).map(|site| sites.name(site));
            let to_come = sites.list.iter().map(|site| site.name.as_str()).filter(|_| learns);
            let mut known: Vec<&str> = names.chain(places).chain(to_come).collect();
            known.sort_unstable();
            known.dedup();
            problem.help = suggest::remedy(reference, known);
            problems.push(problem);
        }
    }
    set
}

/// Numbers that only make sense together.
fn check_numbers(
    service: &Service,
    members: &[Arc<Member>],
    learns: bool,
    steps: &[StepWord],
    problems: &mut Vec<Problem>,
) {
    let name = &service.name.value;
    let ttls =
        [Some(&service.ttl), service.fallback_ttl.as_ref(), service.persist.as_ref().map(|it| &it.ttl)];
    for At { value: Seconds(seconds), at } in ttls.into_iter().flatten() {
        if !(1..=604_800).contains(seconds) {
            let message = format!("{seconds} is outside 1 to 604800 seconds");
            problems.push(
                Problem::error("bad-value", *at, message)
                    .help("30 is usual; 0 would be asked for at every use"),
            );
        }
    }
    if !learns && usize::from(service.minimum.get::<u16>()) > members.len().max(1) {
        let message = format!(
            "`minimum` is {}, and service {name} has {} members",
            service.minimum.get::<u16>(),
            members.len()
        );
        problems
            .push(Problem::error("bad-value", service.minimum.at, message).help("lower it, or add members"));
    }
    if let Some(threshold) = &service.load.threshold {
        if !(threshold.0 > 0.0 && threshold.0 <= 1.0) {
            problems.push(member::share(threshold.at, threshold.0));
        } else if !steps.contains(&StepWord::Load) {
            no_effect(threshold.at, "load", problems);
        }
    }
    // L16: a name has one CNAME
    if matches!(service.record.value, Record::Cname) {
        let is_all = service.choose.value.last().is_some_and(|step| step.value == StepWord::All);
        if service.answers.get::<u16>() > 1 || is_all {
            let message = format!("service {name} would answer several CNAMEs");
            problems.push(
                Problem::error("bad-value", service.record.at, message)
                    .help("a name has one CNAME: answers = 1, and a scheduler other than \"all\""),
            );
        }
    }
    if let Record::Https(https) = &service.record.value {
        for id in https.alpn.iter().filter(|id| id.is_empty() || id.len() > 255) {
            let message = format!("{:?} is no ALPN protocol", id.value);
            problems.push(Problem::error("bad-value", id.at, message).help("write it like \"h2\""));
        }
    }
    match &service.fallback.value {
        Fallback::Address(addresses) if !matches!(service.record.value, Record::Address) => {
            if let Some(first) = addresses.first() {
                let problem = Problem::error(
                    "family",
                    first.at,
                    "only a service with addresses can fall back to addresses",
                );
                problems.push(problem.help("use fallback = { cname = \"…\" } or \"nodata\""));
            }
        }
        Fallback::Cname(target) if target.value == *name => {
            let problem = Problem::error("cycle", target.at, "the fallback is an alias of itself");
            problems.push(problem.help("name another host"));
        }
        Fallback::Address(_) | Fallback::Cname(_) | Fallback::Word(_) => {}
    }
    if let Some(ramp) = &service.ramp {
        for length in [ramp.standby, ramp.ramp_up] {
            if length.0.as_secs() > 86_400 {
                problems.push(Problem::error("bad-value", length.at, "the time is longer than a day"));
            }
        }
    }
}
