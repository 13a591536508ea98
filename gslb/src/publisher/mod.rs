//! Facts to views: what checks, operators and servers say becomes the next snapshot, swapped in one piece.
//!
//! ```text
//! probe events ─┐
//! operators ────┼─► dirty services ─► facts ─► Standing ─► View ─► Snapshot ─► ArcSwap
//! loads, ramps ─┘      (coalesced)     (only services touched are made again)
//! ```

mod facts;
mod words;

pub use facts::Judged;

use crate::clock;
use crate::engine::SharedSnapshot;
use crate::roster::{MemberAt, Roster};
use crate::state::StateDir;
use facts::{Reported, Sources};
use portolan_api::{ApiError, ForceRequest, ForceResult, ForcedEntry, LoadReport, LoadResult};
use portolan_balance::nets::{DIMS, Nets};
use portolan_balance::view::Turns;
use portolan_balance::{Fact, Policy, Service, ServiceId, Standing, View};
use portolan_dns::catalog::Catalog;
use portolan_dns::respond::{Options, Snapshot};
use portolan_probe::{CheckKey, Event, Runner};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc};
use tracing::{debug, info, warn};
use words::WordBook;

/// News that came together are published together; this is how long the first waits for the others.
const COALESCE: Duration = Duration::from_millis(2);
/// Most events taken in one go.
const EVENTS: usize = 1024;
/// Between two looks at response times, where a scheduler goes by them.
const TIMED_TICK: Duration = Duration::from_secs(5);
/// Bounds of the steps of a slow start.
const RAMP_TICK: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// The parts of a snapshot that only a reload changes.
#[derive(Debug)]
pub struct Plan {
    /// Address → class.
    pub nets: Arc<Nets>,
    /// Class → value of each dimension.
    pub classes: Arc<[[u32; DIMS]]>,
    /// By [`ServiceId`].
    pub policies: Vec<Arc<Policy>>,
    /// Names and records.
    pub catalog: Arc<Catalog>,
    /// Settings of the DNS side.
    pub options: Arc<Options>,
    /// Who is there.
    pub roster: Arc<Roster>,
}

/// Makes snapshots.
pub struct Publisher {
    snapshot: SharedSnapshot,
    runner: Runner,
    inner: Mutex<Inner>,
    /// Rung when the next deadline may have moved.
    wake: Notify,
    /// Rung when check states are worth saving.
    pub changed: Notify,
}

struct Inner {
    plan: Plan,
    turns: Arc<Turns>,
    services: Vec<Arc<Service>>,
    judged: Vec<Vec<Judged>>,
    /// Check → services of the roster that use it.
    used_by: HashMap<CheckKey, Vec<usize>>,
    /// Service of the roster → those that depend on it.
    dependents: Vec<Vec<usize>>,
    words: WordBook,
    loads: HashMap<(String, String), Reported>,
    generation: u64,
}

/// A consistent look at what is in force.
#[derive(Clone)]
pub struct Look {
    /// Who is there.
    pub roster: Arc<Roster>,
    /// The view.
    pub view: Arc<View>,
    /// What is known of each candidate, by service and candidate.
    pub judged: Vec<Vec<Judged>>,
    /// Forced states.
    pub forced: Vec<ForcedEntry>,
}

impl Publisher {
    /// Publishes the first snapshot.
    #[must_use]
    pub fn new(snapshot: SharedSnapshot, runner: Runner, state: Option<StateDir>, plan: Plan) -> Self {
        let mut inner = Inner {
            plan,
            turns: Arc::new(Turns::new(0)),
            services: Vec::new(),
            judged: Vec::new(),
            used_by: HashMap::new(),
            dependents: Vec::new(),
            words: WordBook::open(state),
            loads: HashMap::new(),
            generation: 0,
        };
        inner.settle();
        let publisher =
            Self { snapshot, runner, inner: Mutex::new(inner), wake: Notify::new(), changed: Notify::new() };
        publisher.publish_all();
        publisher
    }

    /// Publishes another plan. Turns, forced states and loads go on; checks go on by themselves.
    pub fn install(&self, plan: Plan) -> u64 {
        {
            let mut inner = self.lock();
            inner.plan = plan;
            inner.settle();
            inner.words.reload();
        }
        self.publish_all();
        self.wake.notify_one();
        self.lock().generation
    }

    fn publish_all(&self) {
        let mut inner = self.lock();
        let all = (0..inner.plan.roster.services.len()).collect();
        inner.refresh(&self.runner, all);
        self.swap(&mut inner);
    }

    /// Publishes what changes with these services of the roster.
    fn publish(&self, inner: &mut Inner, dirty: BTreeSet<usize>) {
        if inner.refresh(&self.runner, dirty) {
            self.swap(inner);
        }
    }

    fn swap(&self, inner: &mut Inner) {
        inner.generation += 1;
        let view = View {
            nets: inner.plan.nets.clone(),
            classes: inner.plan.classes.clone(),
            services: inner.services.clone(),
            turns: inner.turns.clone(),
            generation: inner.generation,
        };
        debug!(generation = inner.generation, "published");
        self.snapshot.store(Arc::new(Snapshot {
            catalog: inner.plan.catalog.clone(),
            view: Arc::new(view),
            options: inner.plan.options.clone(),
        }));
    }

    /// Publishes as news come, until the channel closes.
    pub async fn run(&self, mut events: mpsc::Receiver<Event>) {
        let mut batch = Vec::with_capacity(EVENTS);
        loop {
            let tick = self.lock().next_tick();
            tokio::select! {
                count = events.recv_many(&mut batch, EVENTS) => {
                    if count == 0 {
                        return;
                    }
                    // a burst, like a site going dark, is one new view and not a thousand
                    tokio::time::sleep(COALESCE).await;
                    while batch.len() < EVENTS && let Ok(event) = events.try_recv() {
                        batch.push(event);
                    }
                    self.take(batch.drain(..));
                }
                () = sleep(tick) => self.tick(),
                () = self.wake.notified() => {}
            }
        }
    }

    fn take(&self, events: impl Iterator<Item = Event>) {
        let mut inner = self.lock();
        let mut dirty = BTreeSet::new();
        let mut is_changed = false;
        for event in events {
            is_changed |= event.change.is_some();
            dirty.extend(inner.used_by.get(&event.key).into_iter().flatten());
        }
        self.publish(&mut inner, dirty);
        if is_changed {
            self.changed.notify_one();
        }
    }

    fn tick(&self) {
        let mut inner = self.lock();
        let mut dirty = inner.in_motion();
        dirty.extend(inner.expire());
        self.publish(&mut inner, dirty);
    }

    /// Forces the state of members, or gives them back to their checks.
    pub fn force(&self, request: &ForceRequest) -> Result<ForceResult, ApiError> {
        let mut inner = self.lock();
        let roster = inner.plan.roster.clone();
        let members = crate::target::find(&roster, &request.target)?;
        let mut warnings = inner.words.say(&roster, &members, request)?;
        info!(
            target = request.target,
            action = request.action.text(),
            author = request.author,
            reason = request.reason,
            ttl_s = request.ttl_s,
            members = members.len(),
            "forced"
        );
        let dirty: BTreeSet<usize> = members.iter().map(|at| at.service).collect();
        self.publish(&mut inner, dirty.clone());
        for service in dirty.iter().filter_map(|&at| roster.services.get(at)) {
            if !inner.has_usable(service, None) {
                let text = format!("{} has no usable member left: its fallback answers", service.name);
                warn!(service = service.name, "no usable member left");
                warnings.push(text);
            }
        }
        drop_and_wake(inner, &self.wake, |inner| ForceResult {
            members: names(&roster, &members),
            generation: inner.generation,
            warnings,
        })
    }

    /// Takes a load report.
    pub fn load(&self, report: &LoadReport) -> Result<LoadResult, ApiError> {
        let reported = Reported::new(report)?;
        let mut inner = self.lock();
        let roster = inner.plan.roster.clone();
        let members = crate::target::find(&roster, &report.target)?;
        for (service, member) in members.iter().filter_map(|&at| roster.get(at)) {
            let who = (service.name.clone(), member.name.clone());
            inner.loads.entry(who).or_default().update(&reported);
        }
        let dirty = members.iter().map(|at| at.service).collect();
        self.publish(&mut inner, dirty);
        drop_and_wake(inner, &self.wake, |_| LoadResult { members: names(&roster, &members) })
    }

    /// What is in force now.
    #[must_use]
    pub fn look(&self) -> Look {
        let inner = self.lock();
        Look {
            roster: inner.plan.roster.clone(),
            view: self.snapshot.load().view.clone(),
            judged: inner.judged.clone(),
            forced: inner.words.entries(),
        }
    }

    /// The services of the roster that use a check.
    #[must_use]
    pub fn used_by(&self, check: &CheckKey) -> Vec<usize> {
        self.lock().used_by.get(check).cloned().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn drop_and_wake<T>(
    inner: MutexGuard<'_, Inner>,
    wake: &Notify,
    result: impl FnOnce(&Inner) -> T,
) -> Result<T, ApiError> {
    let result = result(&inner);
    drop(inner);
    wake.notify_one();
    Ok(result)
}

fn names(roster: &Roster, members: &[MemberAt]) -> Vec<String> {
    let known = members.iter().filter_map(|&at| roster.get(at));
    known.map(|(service, member)| format!("{}/{}", service.name, member.name)).collect()
}

/// Sleeps so long, or for ever.
async fn sleep(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

impl Inner {
    /// Makes everything that follows from the plan alone.
    fn settle(&mut self) {
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
        for (position, service) in roster.services.iter().enumerate() {
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
    fn refresh(&mut self, runner: &Runner, mut dirty: BTreeSet<usize>) -> bool {
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
            if usable_changed && let Some(dependents) = self.dependents.get(position) {
                dirty.extend(dependents);
            }
        }
        is_changed
    }

    fn refresh_one(
        &mut self,
        runner: &Runner,
        roster: &Roster,
        service: &crate::roster::RosterService,
    ) -> (bool, bool) {
        let mut touched: BTreeSet<ServiceId> = BTreeSet::new();
        for member in &service.members {
            let missing = service
                .depends_on
                .iter()
                .filter_map(|&on| roster.services.get(on))
                .find(|on| !self.has_usable(on, member.site.as_deref()));
            let missing = missing.map(|on| on.name.as_str());
            for seat in &member.seats {
                let mut sources =
                    Sources { runner, words: &mut self.words, loads: &self.loads, service, member, missing };
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
    fn has_usable(&self, service: &crate::roster::RosterService, site: Option<&str>) -> bool {
        let members =
            service.members.iter().filter(|member| site.is_none() || member.site.as_deref() == site);
        members.flat_map(|member| &member.seats).any(|seat| {
            let service = self.services.get(seat.service.0 as usize);
            service.is_some_and(|service| service.standing.usable.contains(seat.candidate))
        })
    }

    /// Services whose facts change with time alone.
    fn in_motion(&self) -> BTreeSet<usize> {
        let services = self.plan.roster.services.iter().enumerate();
        services
            .filter(|(_, service)| service.is_timed || self.is_ramping(service))
            .map(|(at, _)| at)
            .collect()
    }

    fn is_ramping(&self, service: &crate::roster::RosterService) -> bool {
        service.ramp.is_some()
            && service.members.iter().flat_map(|member| &member.seats).any(|seat| {
                let judged = self.judged.get(seat.service.0 as usize);
                judged
                    .and_then(|lane| lane.get(usize::from(seat.candidate.0)))
                    .is_some_and(|it| it.fact.ramp.is_some())
            })
    }

    /// Forgets forced states and loads whose time is over. Returns the services they were about.
    fn expire(&mut self) -> BTreeSet<usize> {
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
    fn next_tick(&self) -> Option<Duration> {
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

/// Seconds since 1970 of a moment on the runner's clock.
#[must_use]
pub fn unix_of(runner: &Runner, at_ms: i64) -> u64 {
    let age_s = u64::try_from(runner.now_ms().saturating_sub(at_ms).max(0)).unwrap_or(0) / 1000;
    clock::unix_s().saturating_sub(age_s)
}
