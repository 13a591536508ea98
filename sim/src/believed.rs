//! What the program is told of the world: prefix tables and a policy over them. Both are wrong where the world says so.

use crate::world::World;
use portolan_balance::facts::{Fact, Load, State};
use portolan_balance::geo;
use portolan_balance::nets::{Nets, Run, Runs, push_run};
use portolan_balance::policy::{Candidate, GeoTable, IspTable, Policy, Ranking, SiteId, Step};
use portolan_balance::proximity::choose::members_at;
use portolan_balance::proximity::{Band, PointId, Points, Settings};
use portolan_balance::view::Turns;
use portolan_balance::{CandidateId, CandidateSet, Fallback, Scheduler, Service, Standing, View, nets::DIMS};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Load share from which a member is avoided.
const FULL: f32 = 0.9;

/// How sites are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Proximity, then operator, then geography; measuring as the program does.
    Portolan,
    /// The same, and every point probes every prefix every ten minutes.
    ProbeEverything,
    /// The nearest site by the geo table.
    Geo,
    /// A link of the client's operator by the ISP table, by turns.
    Isp,
    /// By turns.
    RoundRobin,
}

impl Strategy {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 5] =
        [Self::Portolan, Self::Geo, Self::Isp, Self::RoundRobin, Self::ProbeEverything];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Portolan => "portolan",
            Self::ProbeEverything => "probe-everything",
            Self::Geo => "geo",
            Self::Isp => "isp",
            Self::RoundRobin => "round-robin",
        }
    }

    /// Whether it measures.
    #[must_use]
    pub fn measures(self) -> bool {
        matches!(self, Self::Portolan | Self::ProbeEverything)
    }
}

/// The parts of a view that nodes share.
pub(crate) struct Believed {
    pub(crate) nets: Arc<Nets>,
    pub(crate) classes: Arc<[[u32; DIMS]]>,
    /// One service; the second one is the same without exploring.
    policies: [Arc<Policy>; 2],
}

impl Believed {
    pub(crate) fn new(world: &World, strategy: Strategy, settings: &Settings) -> Self {
        let (nets, classes, ranking_of, rankings) = tables(world);
        let geo = Step::Geo {
            table: Arc::new(GeoTable { ranking_of, rankings }),
            members_at: members_at_site(world),
            skip_first: false,
        };
        let isp = || Step::Isp(Arc::new(IspTable { members_of: members_of(world) }));
        let proximity = |explore_permille| Step::Proximity {
            members_at: members_at(
                (0..world.points.len()).map(|p| (CandidateId(p as u8), Some(PointId(p as u16)))),
            ),
            band: Band { explore_permille, ..Band::of(settings) },
        };
        let load = || Step::Load;
        let has_capacity = world.points.iter().any(|point| point.capacity.is_some());
        let policy = |explore_permille| {
            let mut steps = Vec::new();
            if has_capacity {
                steps.push(load());
            }
            let (more, scheduler) = match strategy {
                Strategy::Portolan | Strategy::ProbeEverything => {
                    (vec![proximity(explore_permille), isp(), geo.clone()], steady())
                }
                Strategy::Geo => (vec![geo.clone()], steady()),
                Strategy::Isp => (vec![isp()], Scheduler::RoundRobin),
                Strategy::RoundRobin => (Vec::new(), Scheduler::RoundRobin),
            };
            steps.extend(more);
            Arc::new(policy(world, steps, scheduler))
        };
        let policies = [policy(settings.explore_permille), policy(0)];
        Self { nets: Arc::new(nets), classes: Arc::from(classes), policies }
    }

    /// A view in which these points are up, with these loads.
    pub(crate) fn view(&self, is_up: &[bool], loads: &[Option<f32>]) -> View {
        let fact = |(up, share): (&bool, &Option<f32>)| Fact {
            state: if *up { State::Up } else { State::Down },
            load: Load { share: *share, ..Load::default() },
            ..Fact::default()
        };
        let facts: Vec<Fact> = is_up.iter().zip(loads).map(fact).collect();
        let service = |policy: &Arc<Policy>| {
            Arc::new(Service { policy: policy.clone(), standing: Standing::new(policy, &facts) })
        };
        View {
            nets: self.nets.clone(),
            classes: self.classes.clone(),
            services: self.policies.iter().map(service).collect(),
            turns: Arc::new(Turns::new(2)),
            ..View::empty()
        }
    }
}

/// What is equal is settled by the client's prefix, so that it stays settled.
fn steady() -> Scheduler {
    Scheduler::Rendezvous { v4: 24, v6: 48 }
}

fn policy(world: &World, steps: Vec<Step>, scheduler: Scheduler) -> Policy {
    let candidates: Vec<Candidate> = world
        .points
        .iter()
        .enumerate()
        .map(|(p, point)| Candidate {
            name: world.point_name(p),
            key: portolan_balance::hash::bytes(1, world.point_name(p).as_bytes()),
            site: Some(SiteId(point.site as u16)),
            weight: 1,
            tier: 1,
            load_threshold: point.capacity.map(|_| FULL),
            connections_max: None,
        })
        .collect();
    Policy {
        name: "www.example.com.".into(),
        tiers: Policy::tiers_of(&candidates),
        consulted: Policy::consulted_by(&steps),
        candidates,
        steps,
        scheduler,
        persist: None,
        minimum: 1,
        answers: 1,
        ttl_s: world.ttl_s,
        fallback: Fallback::All,
        seed: 7,
    }
}

fn members_at_site(world: &World) -> Vec<CandidateSet> {
    let mut sets = vec![CandidateSet::EMPTY; world.sites.len()];
    for (p, point) in world.points.iter().enumerate() {
        if let Some(set) = sets.get_mut(point.site) {
            set.insert(CandidateId(p as u8));
        }
    }
    sets
}

/// Value 0 of the dimension is no operator.
fn members_of(world: &World) -> Vec<CandidateSet> {
    let mut sets = vec![CandidateSet::EMPTY; world.operators.len() + 1];
    for (p, point) in world.points.iter().enumerate() {
        for operator in &point.operators {
            if let Some(set) = sets.get_mut(*operator as usize + 1) {
                set.insert(CandidateId(p as u8));
            }
        }
    }
    sets
}

type Tables = (Nets, Vec<[u32; DIMS]>, Vec<u32>, Vec<Ranking>);

/// The prefix tables, and the ranking of sites for each place in them.
fn tables(world: &World) -> Tables {
    let mut order: Vec<usize> = (0..world.ends.len()).collect();
    order.sort_by_key(|i| world.ends.get(*i).map(|end| end.network));
    let sites: Vec<geo::Place> = world
        .sites
        .iter()
        .enumerate()
        .map(|(i, site)| geo::Place { site: SiteId(i as u16), point: site.place, bias_km: 0.0 })
        .collect();
    let (mut isp, mut geo_runs) = (Runs::default(), Runs::default());
    let mut places: BTreeMap<(i64, i64), u32> = BTreeMap::new();
    let mut ranks: BTreeMap<Vec<Vec<SiteId>>, u32> = BTreeMap::new();
    let mut ranking_of = vec![u32::MAX];
    for end in order.into_iter().filter_map(|i| world.ends.get(i)) {
        if let Some(operator) = end.believed_operator {
            push(&mut isp, end.network, end.length, operator + 1);
        }
        let Some(place) = end.believed_place else { continue };
        let key = ((place.lat * 100.0).round() as i64, (place.lon * 100.0).round() as i64);
        let next = ranking_of.len() as u32;
        let value = *places.entry(key).or_insert(next);
        if value == next {
            let groups = geo::rank(place, &sites);
            let number = ranks.len() as u32;
            ranking_of.push(*ranks.entry(groups).or_insert(number));
        }
        push(&mut geo_runs, end.network, end.length, value);
    }
    let mut rankings = vec![Ranking::default(); ranks.len()];
    for (groups, number) in ranks {
        if let Some(ranking) = rankings.get_mut(number as usize) {
            *ranking = Ranking { groups, reason: "nearest".into() };
        }
    }
    let (nets, classes) = Nets::build([&Runs::default(), &isp, &geo_runs]);
    (nets, classes, ranking_of, rankings)
}

fn push(runs: &mut Runs, network: IpAddr, length: u8, value: u32) {
    match network {
        IpAddr::V4(first) => {
            let host = u32::MAX.checked_shr(u32::from(length)).unwrap_or(0);
            let first = first.to_bits();
            push_run(&mut runs.v4, Run { first, last: first | host, value });
        }
        IpAddr::V6(first) => {
            let host = u128::MAX.checked_shr(u32::from(length)).unwrap_or(0);
            let first = first.to_bits();
            push_run(&mut runs.v6, Run { first, last: first | host, value });
        }
    }
}

/// What is measured from, as the node at a site sees it.
pub(crate) fn points(world: &World, own: Option<usize>) -> Points {
    Points::new(world.points.iter().map(|point| portolan_balance::proximity::Point {
        site: world.sites.get(point.site).map_or(String::new(), |site| site.name.clone()),
        link: point.link.clone(),
        place: world.sites.get(point.site).map(|site| site.place),
        cost: 0.0,
        is_own: own.is_none_or(|own| own == point.site),
    }))
}
