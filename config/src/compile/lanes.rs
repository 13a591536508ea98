//! Drafts to policies: one lane for each record type a service answers.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use portolan_balance::persist::Table;
use portolan_balance::policy::{Fallback, GeoTable, IspTable, Persist, Policy, SiteId, Step};
use portolan_balance::proximity::{Band, Points, choose};
use portolan_balance::set::{CandidateId, CandidateSet, MAX_CANDIDATES};
use portolan_balance::{Scheduler, ServiceId};
use portolan_dns::catalog::{Lane, ServiceBinding};
use portolan_dns::name::Name;
use portolan_dns::rrtype::RrType;

use super::acl::{AclTables, Rule};
use super::check::{Checks, MemberChecks};
use super::draft::Draft;
use super::learned::Origin;
use super::member::{self, Member};
use super::names::{LinkId, Sites};
use super::points::point_of;
use crate::place::Span;
use crate::problem::Problem;
use crate::spec::{self, FallbackWord, PersistKind, Record, StepWord};
use crate::tables::IspTables;

/// One lane's place: which service and which member each candidate is, and how it is checked.
#[derive(Clone, Debug)]
pub struct LaneInfo {
    /// Position of the service in [`super::Compiled::services`].
    pub service: usize,
    /// What it answers.
    pub rtype: RrType,
    /// By candidate.
    pub members: Vec<MemberInfo>,
}

/// What is known of a candidate beside its [`portolan_balance::Candidate`].
#[derive(Clone, Debug)]
pub struct MemberInfo {
    /// Position in the service's members: the same in every lane.
    pub member: usize,
    /// What is answered: an address, or the target's name.
    pub data: String,
    /// The link its address belongs to.
    pub link: Option<LinkId>,
    /// Bandwidth of the link, bits per second.
    pub capacity_bps: Option<u64>,
    /// Its address behind NAT.
    pub inside: Option<IpAddr>,
    /// `enabled = false` takes it out of service.
    pub enabled: bool,
    /// Its checks. Of a learned member they say how it looks from here, and only its service's `on_peer_loss` makes
    /// them count.
    pub checks: MemberChecks,
    /// Where it is from.
    pub origin: Origin,
}

/// A candidate of a lane: its position in the service's members, the member, and what it answers.
type Chosen<'a> = (usize, &'a Member, String);

/// A lane before it has its place among the others.
pub(crate) struct Made {
    pub(crate) policy: Policy,
    pub(crate) members: Vec<MemberInfo>,
    /// The members' records.
    pub(crate) data: Vec<Box<[u8]>>,
}

/// What all services share.
pub(crate) struct World<'a> {
    pub(crate) sites: &'a Sites,
    /// `None` where they could not be read.
    pub(crate) isp: Option<&'a IspTables>,
    /// Sets of lists, by value of the ACL dimension.
    pub(crate) acl_sets: &'a [Vec<u32>],
    pub(crate) geo: &'a [Option<Arc<GeoTable>>],
    /// Whether there is a GeoIP file, and whether it could be read.
    pub(crate) has_geo: bool,
    pub(crate) is_geo_read: bool,
    /// Where remembered choices go.
    pub(crate) remembered: Option<Arc<Table>>,
    /// What clients' distances are measured from.
    pub(crate) points: &'a Points,
    /// How scores are compared.
    pub(crate) band: Band,
}

/// Everything compiled of all services so far.
pub(crate) struct Lanes<'a> {
    world: World<'a>,
    pub(crate) policies: Vec<Arc<Policy>>,
    pub(crate) info: Vec<LaneInfo>,
    /// One a name.
    pub(crate) bindings: Vec<ServiceBinding>,
    /// Where the first service of each binding is written.
    pub(crate) bound_at: Vec<Span>,
    by_name: HashMap<Name, usize>,
    acl: AclTables,
    isp: HashMap<Vec<Option<LinkId>>, Option<Arc<IspTable>>>,
}

impl<'a> Lanes<'a> {
    pub(crate) fn new(world: World<'a>) -> Self {
        Self {
            world,
            policies: Vec::new(),
            info: Vec::new(),
            bindings: Vec::new(),
            bound_at: Vec::new(),
            by_name: HashMap::new(),
            acl: AclTables::default(),
            isp: HashMap::new(),
        }
    }

    /// Compiles a service; returns its lanes.
    pub(crate) fn add(
        &mut self,
        position: usize,
        draft: &Draft,
        problems: &mut Vec<Problem>,
    ) -> Vec<ServiceId> {
        let service = &*draft.spec;
        let types: &[RrType] = match service.record.value {
            Record::Address => &[RrType::A, RrType::AAAA],
            Record::Cname => &[RrType::CNAME],
            Record::Srv(_) => &[RrType::SRV],
            Record::Mx(_) => &[RrType::MX],
            Record::Https(_) => &[RrType::HTTPS],
        };
        let mut ids = Vec::new();
        for &rtype in types {
            let Some(Made { policy, members, data }) = self.make(draft, rtype, problems) else { continue };
            let id = ServiceId(u32::try_from(self.policies.len()).unwrap_or(u32::MAX));
            ids.push(id);
            self.policies.push(Arc::new(policy));
            self.info.push(LaneInfo { service: position, rtype, members });
            self.bind(service, lane(service, rtype, id, data), problems);
        }
        warn_empty_steps(draft, &self.world, problems);
        ids
    }

    /// A lane of a service, if it has one of this type. A service that learns members has both families always, so
    /// that a lane's number holds while members come and go.
    pub(crate) fn make(&mut self, draft: &Draft, rtype: RrType, problems: &mut Vec<Problem>) -> Option<Made> {
        let service = &*draft.spec;
        let members = draft.members.iter().take(MAX_CANDIDATES).enumerate();
        let mut chosen: Vec<Chosen<'_>> = Vec::new();
        let mut data = Vec::new();
        for (position, member) in members.clone() {
            if let Some((shown, wire)) = member::rdata(rtype, &service.record.value, member) {
                chosen.push((position, member, shown));
                data.push(wire);
            }
        }
        let has_fallback = fallback_has(&service.fallback.value, rtype);
        if chosen.is_empty() && !has_fallback && !draft.learns() {
            return None;
        }
        let policy = if !chosen.is_empty() {
            self.policy(draft, &chosen)
        } else if has_fallback || draft.members.is_empty() {
            chosen = members.map(|(at, member)| (at, &**member, member.address_text())).collect();
            let policy = health_only(self.policy(draft, &chosen));
            // a family without a fixed address has no data, as where the members are known
            if has_fallback || policy.fallback != Fallback::Fixed { policy } else { silent(policy) }
        } else {
            silent(self.policy(draft, &chosen))
        };
        let members = chosen
            .iter()
            .map(|(at, member, _)| self.member_info(draft, *at, member, rtype, problems))
            .collect();
        Some(Made { policy, members, data })
    }

    fn bind(&mut self, service: &spec::Service, lane: Lane, problems: &mut Vec<Problem>) {
        let name = &service.name;
        if let Some(&at) = self.by_name.get(&name.value)
            && let (Some(binding), Some(&first)) = (self.bindings.get_mut(at), self.bound_at.get(at))
        {
            let twice = |message| Problem::error("twice", name.at, message).see(first, "first here");
            if binding.lanes.iter().any(|other| other.rtype == lane.rtype) {
                let problem = twice(format!("service {} answers {} already", name.value, lane.rtype));
                problems.push(problem.help("join the two services, or give one another `record`"));
            } else if binding.ecs != service.ecs {
                problems.push(
                    twice(format!("`ecs` of {} differs between its services", name.value))
                        .help("write the same in both"),
                );
            } else {
                binding.lanes.push(lane);
            }
            return;
        }
        self.by_name.insert(name.value.clone(), self.bindings.len());
        self.bindings.push(ServiceBinding { name: name.value.clone(), lanes: vec![lane], ecs: service.ecs });
        self.bound_at.push(name.at);
    }

    fn policy(&mut self, draft: &Draft, chosen: &[Chosen<'_>]) -> Policy {
        let service = &*draft.spec;
        let threshold = service.load.threshold.map(|it| it.0 as f32);
        let candidates: Vec<_> =
            chosen.iter().map(|(_, member, shown)| member.candidate(shown, threshold)).collect();
        let steps: Vec<Step> =
            draft.steps.iter().filter_map(|step| self.step(*step, draft, chosen)).collect();
        let persist = service.persist.as_ref().and_then(|persist| {
            let (v4, v6) = (persist.v4.get(), persist.v6.get());
            match persist.kind {
                PersistKind::Hash => Some(Persist::Hash { v4, v6 }),
                PersistKind::Table => self.world.remembered.as_ref().map(|table| Persist::Table {
                    v4,
                    v6,
                    ttl_s: persist.ttl.0,
                    table: Arc::clone(table),
                }),
            }
        });
        Policy {
            name: service.name.value.to_string(),
            steps,
            scheduler: draft.scheduler,
            persist,
            minimum: service.minimum.get(),
            answers: service.answers.get(),
            ttl_s: service.ttl.0,
            fallback: match &service.fallback.value {
                spec::Fallback::Word(FallbackWord::All) => Fallback::All,
                spec::Fallback::Word(FallbackWord::NoData) => Fallback::NoData,
                spec::Fallback::Word(FallbackWord::ServFail) => Fallback::ServFail,
                spec::Fallback::Word(FallbackWord::Refuse) => Fallback::Refuse,
                spec::Fallback::Address(_) | spec::Fallback::Cname(_) => Fallback::Fixed,
            },
            seed: service.seed.get(),
            tiers: Policy::tiers_of(&candidates),
            consulted: [false; 3],
            candidates,
        }
        .with_consulted()
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "all the others are schedulers")]
    /// A step, unless it has nothing to go by: then it would only lengthen ECS scopes (T2).
    fn step(&mut self, step: StepWord, draft: &Draft, chosen: &[Chosen<'_>]) -> Option<Step> {
        match step {
            StepWord::Persist => Some(Step::Persist),
            StepWord::Proximity => {
                let World { points, sites, band, .. } = &self.world;
                let members_at = choose::members_at(
                    (0..=u8::MAX)
                        .map(CandidateId)
                        .zip(chosen)
                        .map(|(id, (_, member, _))| (id, point_of(points, sites, member))),
                );
                // members at one point are equally far
                (members_at.len() > 1).then_some(Step::Proximity { members_at, band: *band })
            }
            StepWord::Acl => {
                let rules: Vec<Rule> = draft
                    .acl
                    .iter()
                    .map(|rule| Rule { members: in_lane(&rule.members, chosen), ..rule.clone() })
                    .collect();
                (!rules.is_empty()).then(|| Step::Acl(self.acl.table(rules, self.world.acl_sets)))
            }
            StepWord::Isp => {
                let links: Vec<Option<LinkId>> = chosen.iter().map(|(_, member, _)| member.link).collect();
                let World { isp, sites, .. } = &self.world;
                let make = |links: &Vec<Option<LinkId>>| isp_table((*isp)?, sites, links);
                self.isp.entry(links).or_insert_with_key(make).clone().map(Step::Isp)
            }
            StepWord::Geo => {
                let table = self.world.geo.get(draft.geo?)?.clone()?;
                let mut members_at: Vec<CandidateSet> = Vec::new();
                for (id, (_, member, _)) in (0..=u8::MAX).zip(chosen) {
                    let Some(SiteId(site)) = member.site else { continue };
                    let site = usize::from(site);
                    if members_at.len() <= site {
                        members_at.resize(site + 1, CandidateSet::EMPTY);
                    }
                    if let Some(members) = members_at.get_mut(site) {
                        members.insert(CandidateId(id));
                    }
                }
                let skip_first = draft.spec.geo_skip_first.value;
                (!members_at.is_empty()).then_some(Step::Geo { table, members_at, skip_first })
            }
            StepWord::Load => {
                let has = |member: &Member| {
                    member.written.load_threshold.is_some() || member.connections_max.is_some()
                };
                let any =
                    draft.spec.load.threshold.is_some() || chosen.iter().any(|(_, member, _)| has(member));
                any.then_some(Step::Load)
            }
            // the scheduler is no step of these
            _ => None,
        }
    }

    fn member_info(
        &self,
        draft: &Draft,
        position: usize,
        member: &Member,
        rtype: RrType,
        problems: &mut Vec<Problem>,
    ) -> MemberInfo {
        let address = if rtype == RrType::AAAA { member.v6 } else { member.v4 };
        let checks: &Checks = member.checks.as_ref().unwrap_or(&draft.checks);
        // what is wrong with a virtual server's checks was said of the virtual server
        let mut elsewhere = Vec::new();
        let problems = if member.origin == Origin::Configured { problems } else { &mut elsewhere };
        let checks = checks.of_member(&member.subject(address), problems);
        let inside = &member.inside;
        let same =
            |other: &&crate::place::At<IpAddr>| address.is_none_or(|mine| mine.is_ipv4() == other.is_ipv4());
        let target = || member.written.target.as_ref().map(|target| target.to_string());
        let answered = || match rtype {
            RrType::A | RrType::AAAA => address.map_or_else(|| member.address_text(), |it| it.to_string()),
            _ => target().unwrap_or_default(),
        };
        MemberInfo {
            member: position,
            data: answered(),
            link: member.link,
            capacity_bps: member
                .link
                .and_then(|id| self.world.sites.link(id))
                .and_then(|link| link.capacity_bps),
            inside: inside.iter().find(same).or_else(|| inside.first()).map(|it| it.value),
            enabled: member.written.enabled,
            checks,
            origin: member.origin.clone(),
        }
    }
}

/// Whether the fallback has data of a type that no member has.
fn fallback_has(fallback: &spec::Fallback, rtype: RrType) -> bool {
    match fallback {
        spec::Fallback::Word(_) => false,
        spec::Fallback::Address(addresses) => {
            addresses.iter().any(|address| address.is_ipv4() == (rtype == RrType::A))
        }
        spec::Fallback::Cname(_) => true,
    }
}

/// The policy of a lane without data, which only tells whether the fallback answers: by the members' health and the
/// rules that refuse or confine a client. Nothing is chosen that anybody would see or remember.
fn health_only(mut policy: Policy) -> Policy {
    policy.steps.retain(|step| matches!(step, Step::Acl(_)));
    Policy { scheduler: Scheduler::Priority, persist: None, answers: 1, ..policy }.with_consulted()
}

/// The policy of a lane that has no data while the service has some of the other family (Z21).
fn silent(policy: Policy) -> Policy {
    let policy = Policy { candidates: Vec::new(), tiers: Vec::new(), steps: Vec::new(), ..policy };
    Policy { fallback: Fallback::NoData, scheduler: Scheduler::Priority, persist: None, ..policy }
        .with_consulted()
}

trait WithConsulted {
    fn with_consulted(self) -> Self;
}

impl WithConsulted for Policy {
    fn with_consulted(mut self) -> Self {
        self.consulted = Self::consulted_by(&self.steps);
        self
    }
}

/// A set of members as the candidates they are in a lane.
fn in_lane(members: &CandidateSet, chosen: &[Chosen<'_>]) -> CandidateSet {
    let is_in = |position: usize| u8::try_from(position).is_ok_and(|id| members.contains(CandidateId(id)));
    (0..=u8::MAX)
        .zip(chosen)
        .filter(|(_, (position, ..))| is_in(*position))
        .map(|(id, _)| CandidateId(id))
        .collect()
}

/// Candidates for each set of operators; `None` when no link leads to an operator.
fn isp_table(isp: &IspTables, sites: &Sites, links: &[Option<LinkId>]) -> Option<Arc<IspTable>> {
    let mut on: Vec<CandidateSet> = vec![CandidateSet::EMPTY; isp.operators.len()];
    let mut any = false;
    for (id, link) in (0..=u8::MAX).zip(links) {
        let Some(link) = link.and_then(|id| sites.link(id)) else { continue };
        for operator in &link.operators {
            if let Ok(at) = isp.operators.binary_search(operator)
                && let Some(members) = on.get_mut(at)
            {
                members.insert(CandidateId(id));
                any = true;
            }
        }
    }
    let members_of = isp.sets.iter().map(|set| {
        let each = set.iter().filter_map(|operator| on.get(operator.0 as usize));
        each.fold(CandidateSet::EMPTY, |all, members| all.or(members))
    });
    any.then(|| Arc::new(IspTable { members_of: members_of.collect() }))
}

pub(crate) fn lane(service: &spec::Service, rtype: RrType, id: ServiceId, members: Vec<Box<[u8]>>) -> Lane {
    let mut fixed = Vec::new();
    let mut fixed_cname = None;
    match &service.fallback.value {
        spec::Fallback::Word(_) => {}
        spec::Fallback::Address(addresses) => {
            let of_lane = addresses.iter().filter(|address| address.is_ipv4() == (rtype == RrType::A));
            fixed = of_lane.map(|address| member::address_octets(address.value)).collect();
        }
        spec::Fallback::Cname(name) => fixed_cname = Some(name.value.clone()),
    }
    let ttl = service.ttl.0;
    let fallback_ttl = service.fallback_ttl.map_or(ttl, |it| it.0);
    Lane { rtype, service: id, members, fixed, fixed_cname, ttl, fallback_ttl }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "all the others have something to go by")]
/// Warns of steps that were written and have nothing to go by.
fn warn_empty_steps(draft: &Draft, world: &World<'_>, problems: &mut Vec<Problem>) {
    let service = &*draft.spec;
    if service.choose.at == Span::NOWHERE {
        return;
    }
    for step in &service.choose.value {
        let (why, help) = match step.value {
            StepWord::Acl if service.acl.is_empty() => {
                ("there are no rules", "add acl = [{ from = …, only = … }]")
            }
            // tables that could not be read have errors of their own
            StepWord::Isp if world.isp.is_some_and(|isp| isp.operators.is_empty()) => {
                ("there are no ISP tables", "add [tables] isp = \"isp-tables/\"")
            }
            StepWord::Isp if !draft.learns() && !draft.members.iter().any(|member| member.link.is_some()) => {
                ("no member has a link", "add link = \"…\" to the members")
            }
            StepWord::Geo if !draft.learns() && !draft.members.iter().any(|member| member.site.is_some()) => {
                ("no member has a site", "add site = \"…\" to the members")
            }
            StepWord::Geo if !world.has_geo => {
                ("there is no GeoIP file, so that every place is unknown", "add [tables] geo = \"FILE.mmdb\"")
            }
            StepWord::Geo
                if world.is_geo_read
                    && draft.geo.is_some_and(|at| world.geo.get(at).is_none_or(Option::is_none)) =>
            {
                ("no site has a location", "add location = { lat = …, lon = … } to the sites")
            }
            _ => continue,
        };
        let message = format!("step {:?} does nothing: {why}", step.value.name());
        problems.push(Problem::warning("no-effect", step.at, message).help(help));
    }
}
