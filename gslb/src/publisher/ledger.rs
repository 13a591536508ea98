//! The ledger behind the publisher: facts by service, and what follows from them.

use super::Plan;
use super::facts::{Judged, Reported, Sources};
use super::words::WordBook;
use crate::peers::hearsay::{Changes, Hearsay, News};
use crate::peers::{monotonic_ms, own};
use crate::roster::{Roster, RosterServer, RosterService};
use portolan_balance::proximity::Ranks;
use portolan_balance::view::Turns;
use portolan_balance::{Fact, Service, ServiceId, Standing};
use portolan_config::{Claimant, Origin};
use portolan_peer::Claim;
use portolan_probe::{CheckKey, Runner, combine};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// Between two looks at response times, where a scheduler goes by them.
const TIMED_TICK: Duration = Duration::from_secs(5);
/// Bounds of the steps of a slow start.
const RAMP_TICK: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// What is known, and what was published of it.
pub(super) struct Ledger {
    pub(super) plan: Plan,
    /// Distances by the plan's points.
    pub(super) ranks: Arc<Ranks>,
    pub(super) turns: Arc<Turns>,
    pub(super) services: Vec<Arc<Service>>,
    pub(super) judged: Vec<Vec<Judged>>,
    /// Check → services of the roster that use it.
    pub(super) used_by: HashMap<CheckKey, Vec<usize>>,
    /// Service of the roster → those that depend on it.
    pub(super) dependents: Vec<Vec<usize>>,
    pub(super) words: WordBook,
    /// What peers say.
    pub(super) hearsay: Hearsay,
    /// What was taken of it.
    pub(super) counted: super::peers::Counted,
    /// A peer's virtual server → services of the roster that have it.
    pub(super) told_to: BTreeMap<Claimant, Vec<usize>>,
    /// Service of the roster → this node's virtual servers that are its members.
    pub(super) servers_of: Vec<Vec<usize>>,
    /// Check → this node's virtual servers that no service has.
    pub(super) servers_by: HashMap<CheckKey, Vec<usize>>,
    /// This node's virtual servers whose claims are to be made again.
    pub(super) unclaimed: BTreeSet<usize>,
    pub(super) loads: HashMap<(String, String), Reported>,
    pub(super) generation: u64,
}

impl Ledger {
    /// Makes everything that follows from the plan alone.
    pub(super) fn settle(&mut self) {
        let Plan { policies, roster, .. } = &self.plan;
        let turns = Turns::new(policies.len());
        // the n-th record type of a name goes on with the turn it had
        let mut old: HashMap<(&str, usize), u64> = HashMap::new();
        let mut seen: HashMap<&str, usize> = HashMap::new();
        for (id, service) in self.services.iter().enumerate() {
            let nth = seen.entry(&service.policy.name).or_default();
            old.insert((&service.policy.name, *nth), self.turns.peek(ServiceId(id as u32)));
            *nth += 1;
        }
        let mut seen: HashMap<&str, usize> = HashMap::new();
        for (id, policy) in policies.iter().enumerate() {
            let nth = seen.entry(&policy.name).or_default();
            if let Some(turn) = old.get(&(policy.name.as_str(), *nth)) {
                turns.set(ServiceId(id as u32), *turn);
            }
            *nth += 1;
        }
        self.turns = Arc::new(turns);
        self.services = policies
            .iter()
            .map(|policy| Arc::new(Service { policy: policy.clone(), standing: Standing::new(policy, &[]) }))
            .collect();
        self.judged =
            policies.iter().map(|policy| vec![Judged::default(); policy.candidates.len()]).collect();
        self.used_by = HashMap::new();
        self.dependents = vec![Vec::new(); roster.services.len()];
        self.told_to = BTreeMap::new();
        self.unclaimed = (0..roster.servers.len()).collect();
        self.servers_of = vec![Vec::new(); roster.services.len()];
        self.servers_by = HashMap::new();
        for (number, server) in roster.servers.iter().enumerate() {
            match server.seat {
                Some((at, _)) => {
                    self.servers_of.get_mut(at.service).into_iter().for_each(|it| it.push(number))
                }
                None => {
                    for check in &server.checks {
                        self.servers_by.entry(check.clone()).or_default().push(number);
                    }
                }
            }
        }
        for (position, service) in roster.services.iter().enumerate() {
            for claimant in claimants(service) {
                self.told_to.entry(claimant.clone()).or_default().push(position);
            }
            for check in service.members.iter().flat_map(|member| &member.seats).flat_map(|seat| &seat.checks)
            {
                let users = self.used_by.entry(check.clone()).or_default();
                if users.last() != Some(&position) {
                    users.push(position);
                }
            }
            for &on in &service.depends_on {
                if let Some(dependents) = self.dependents.get_mut(on) {
                    dependents.push(position);
                }
            }
        }
        self.loads.retain(|(service, _), _| roster.services.iter().any(|one| one.name == *service));
    }

    /// Makes the standing of these services again, and of those that depend on one whose usable members changed.
    /// Returns whether anything changed.
    pub(super) fn refresh(&mut self, runner: &Runner, mut dirty: BTreeSet<usize>) -> bool {
        let roster = self.plan.roster.clone();
        let mut is_changed = false;
        // the config has no circles (case L17); the bound is for what should not be
        let mut left = roster.services.len().saturating_mul(16) + dirty.len();
        while let Some(position) = dirty.pop_first() {
            left = left.saturating_sub(1);
            if left == 0 {
                warn!("services that depend on each other do not settle");
                break;
            }
            let Some(service) = roster.services.get(position) else { continue };
            let (changed, usable_changed) = self.refresh_one(runner, &roster, service);
            is_changed |= changed;
            self.unclaimed.extend(self.servers_of.get(position).into_iter().flatten());
            if usable_changed && let Some(dependents) = self.dependents.get(position) {
                dirty.extend(dependents);
            }
        }
        is_changed
    }

    fn refresh_one(&mut self, runner: &Runner, roster: &Roster, service: &RosterService) -> (bool, bool) {
        let mut touched: BTreeSet<ServiceId> = BTreeSet::new();
        for member in &service.members {
            let missing = service
                .depends_on
                .iter()
                .filter_map(|&on| roster.services.get(on))
                .find(|on| !self.has_usable(on, member.site.as_deref()));
            let missing = missing.map(|on| on.name.as_str());
            for seat in &member.seats {
                let mut sources = Sources {
                    runner,
                    words: &mut self.words,
                    loads: &self.loads,
                    hearsay: &self.hearsay,
                    service,
                    member,
                    missing,
                };
                let judged = sources.judge(seat);
                let lane = self.judged.get_mut(seat.service.0 as usize);
                let Some(place) = lane.and_then(|lane| lane.get_mut(usize::from(seat.candidate.0))) else {
                    continue;
                };
                if place.fact != judged.fact {
                    touched.insert(seat.service);
                }
                *place = judged;
            }
        }
        self.words.save_if_changed();
        let mut is_usable_changed = false;
        for id in &touched {
            let at = id.0 as usize;
            let (Some(place), Some(judged)) = (self.services.get_mut(at), self.judged.get(at)) else {
                continue;
            };
            let facts: Vec<Fact> = judged.iter().map(|one| one.fact).collect();
            let standing = Standing::new(&place.policy, &facts);
            if standing.usable != place.standing.usable {
                is_usable_changed = true;
                let (usable, of) = (standing.usable.len(), place.policy.candidates.len());
                if standing.usable.is_empty() {
                    warn!(service = place.policy.name, of, "no usable member: the fallback answers");
                } else {
                    info!(service = place.policy.name, usable, of, "usable members changed");
                }
            }
            *place = Arc::new(Service { policy: place.policy.clone(), standing });
        }
        (!touched.is_empty(), is_usable_changed)
    }

    /// Whether a service has a usable member, at a site where one is given and it has members with sites.
    pub(super) fn has_usable(&self, service: &RosterService, site: Option<&str>) -> bool {
        let members =
            service.members.iter().filter(|member| site.is_none() || member.site.as_deref() == site);
        members.flat_map(|member| &member.seats).any(|seat| {
            let service = self.services.get(seat.service.0 as usize);
            service.is_some_and(|service| service.standing.usable.contains(seat.candidate))
        })
    }

    /// Takes news of peers. Returns what changed, and the services that it touches.
    pub(super) fn hear(&mut self, news: Vec<News>) -> (Changes, BTreeSet<usize>) {
        let changes = self.hearsay.take(monotonic_ms(), news);
        let touched = changes.servers.iter().filter_map(|claimant| self.told_to.get(claimant));
        let touched = touched.flatten().copied().collect();
        (changes, touched)
    }

    /// Notes virtual servers that no service here has, and that this check is about.
    pub(super) fn checked(&mut self, check: &CheckKey) {
        self.unclaimed.extend(self.servers_by.get(check).into_iter().flatten());
    }

    /// The claims of this node's virtual servers that may have changed.
    pub(super) fn claims(&mut self, runner: &Runner) -> Vec<Claim> {
        let roster = self.plan.roster.clone();
        let unclaimed = std::mem::take(&mut self.unclaimed);
        let servers = unclaimed.into_iter().filter_map(|at| roster.servers.get(at));
        servers.map(|server| Claim::VirtualServer(self.claim(runner, &roster, server))).collect()
    }

    fn claim(&self, runner: &Runner, roster: &Roster, server: &RosterServer) -> portolan_peer::VirtualServer {
        let judged = server.seat.and_then(|(at, seat)| {
            let seat = roster.get(at)?.1.seats.get(seat)?;
            self.judged.get(seat.service.0 as usize)?.get(usize::from(seat.candidate.0))
        });
        if let Some(judged) = judged {
            return own::of_member(server, judged);
        }
        let healths: Vec<_> =
            server.checks.iter().filter_map(|key| Some((key.to_string(), runner.health(key)?))).collect();
        let lines = healths.iter().map(|(label, health)| (label.clone(), health));
        own::of_checks(server, &combine(server.require, lines))
    }

    /// Services whose facts change with time alone.
    pub(super) fn in_motion(&self) -> BTreeSet<usize> {
        let services = self.plan.roster.services.iter().enumerate();
        services
            .filter(|(_, service)| service.is_timed || self.is_ramping(service))
            .map(|(at, _)| at)
            .collect()
    }

    fn is_ramping(&self, service: &RosterService) -> bool {
        service.ramp.is_some()
            && service.members.iter().flat_map(|member| &member.seats).any(|seat| {
                let judged = self.judged.get(seat.service.0 as usize);
                judged
                    .and_then(|lane| lane.get(usize::from(seat.candidate.0)))
                    .is_some_and(|it| it.fact.ramp.is_some())
            })
    }

    /// Forgets forced states and loads whose time is over. Returns the services they were about.
    pub(super) fn expire(&mut self) -> BTreeSet<usize> {
        let now = Instant::now();
        let mut over = self.words.expire(now);
        self.loads.retain(|who, load| {
            let is_live = load.ends.is_some_and(|ends| ends > now);
            if !is_live {
                over.push(who.clone());
            }
            is_live
        });
        let services = &self.plan.roster.services;
        over.iter().filter_map(|(name, _)| services.iter().position(|one| one.name == *name)).collect()
    }

    /// How long until something changes by itself; `None` where nothing will.
    pub(super) fn next_tick(&self) -> Option<Duration> {
        let now = Instant::now();
        let services = &self.plan.roster.services;
        let ramp = services
            .iter()
            .filter(|service| self.is_ramping(service))
            .filter_map(|service| service.ramp)
            .map(|ramp| (ramp.ramp_up / 64).clamp(RAMP_TICK.0, RAMP_TICK.1))
            .min();
        let timed = services.iter().any(|service| service.is_timed).then_some(TIMED_TICK);
        let ends = self.loads.values().filter_map(|load| load.ends).chain(self.words.ends()).min();
        let ends = ends.map(|end| end.saturating_duration_since(now) + Duration::from_millis(1));
        [ramp, timed, ends].into_iter().flatten().min()
    }
}

/// Who speaks for members of a service.
fn claimants(service: &RosterService) -> BTreeSet<&Claimant> {
    let seats = service.members.iter().flat_map(|member| &member.seats);
    let learned = seats.filter_map(|seat| match &seat.origin {
        Origin::Learned(claimants) => Some(claimants),
        Origin::Configured | Origin::Local(_) => None,
    });
    learned.flat_map(|claimants| claimants.iter()).collect()
}
