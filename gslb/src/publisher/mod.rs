//! Facts to views: what checks, operators and servers say becomes the next snapshot, swapped in one piece.
//!
//! ```text
//! probe events ─┐
//! operators ────┼─► dirty services ─► facts ─► Standing ─► View ─► Snapshot ─► ArcSwap
//! loads, ramps ─┤      (coalesced)     │ (only services touched are made again)
//! peers' claims ┘                      └─► claims of this node's virtual servers ─► peers
//! ```

mod facts;
mod ledger;
mod peers;
mod words;

pub use facts::Judged;

use crate::clock;
use crate::engine::SharedSnapshot;
use crate::peers::Line;
use crate::peers::hearsay::Hearsay;
use crate::roster::{MemberAt, Roster};
use crate::state::StateDir;
use facts::Reported;
use ledger::Ledger;
use portolan_api::{ApiError, ForceRequest, ForceResult, ForcedEntry, LoadReport, LoadResult};
use portolan_balance::nets::{DIMS, Nets};
use portolan_balance::proximity::Ranks;
use portolan_balance::view::Turns;
use portolan_balance::{Policy, View};
use portolan_dns::catalog::Catalog;
use portolan_dns::respond::{Options, Snapshot};
use portolan_probe::{CheckKey, Event, Runner};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tracing::{debug, info, warn};
use words::WordBook;

/// News that came together are published together; this is how long the first waits for the others.
const COALESCE: Duration = Duration::from_millis(2);
/// Most events taken in one go.
const EVENTS: usize = 1024;

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
    /// To the peers.
    line: Arc<Line>,
    ledger: Mutex<Ledger>,
    /// Rung when the next deadline may have moved.
    wake: Notify,
    /// Rung when check states are worth saving.
    pub changed: Notify,
    /// Rung when what peers say is worth saving.
    pub heard: Notify,
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
    pub fn new(
        snapshot: SharedSnapshot,
        runner: Runner,
        state: Option<StateDir>,
        line: Arc<Line>,
        hearsay: Hearsay,
        plan: Plan,
        ranks: Arc<Ranks>,
    ) -> Self {
        let mut ledger = Ledger {
            plan,
            ranks,
            turns: Arc::new(Turns::new(0)),
            services: Vec::new(),
            judged: Vec::new(),
            used_by: HashMap::new(),
            dependents: Vec::new(),
            words: WordBook::open(state),
            hearsay,
            counted: peers::Counted::default(),
            told_to: BTreeMap::new(),
            servers_of: Vec::new(),
            servers_by: HashMap::new(),
            unclaimed: BTreeSet::new(),
            loads: HashMap::new(),
            generation: 0,
        };
        ledger.settle();
        let publisher = Self {
            snapshot,
            runner,
            line,
            ledger: Mutex::new(ledger),
            wake: Notify::new(),
            changed: Notify::new(),
            heard: Notify::new(),
        };
        publisher.publish_all(&mut publisher.lock());
        publisher
    }

    /// Publishes another plan, together with ranks by its points. Turns, forced states and loads go on; checks go on by
    /// themselves.
    pub fn install(&self, plan: Plan, ranks: Arc<Ranks>) -> u64 {
        // under one lock: nobody publishes a plan whose facts are not yet told
        let mut ledger = self.lock();
        ledger.plan = plan;
        ledger.ranks = ranks;
        ledger.settle();
        self.publish_all(&mut ledger);
        self.wake.notify_one();
        ledger.generation
    }

    fn publish_all(&self, ledger: &mut Ledger) {
        let all = (0..ledger.plan.roster.services.len()).collect();
        ledger.refresh(&self.runner, all);
        self.swap(ledger);
        self.line.publish(ledger.claims(&self.runner));
    }

    /// Publishes what changes with these services of the roster.
    fn publish(&self, ledger: &mut Ledger, dirty: BTreeSet<usize>) {
        if ledger.refresh(&self.runner, dirty) {
            self.swap(ledger);
        }
        // under the same lock, so that an older state is never told after a newer one
        self.line.publish(ledger.claims(&self.runner));
    }

    /// Publishes what is newly known of distances. It is no change of state: the generation stays.
    pub fn rank(&self, ranks: Arc<Ranks>) {
        let mut ledger = self.lock();
        ledger.ranks = ranks;
        self.store(&ledger);
    }

    fn swap(&self, ledger: &mut Ledger) {
        ledger.generation += 1;
        self.store(ledger);
        debug!(generation = ledger.generation, "published");
    }

    fn store(&self, ledger: &Ledger) {
        let view = View {
            nets: ledger.plan.nets.clone(),
            classes: ledger.plan.classes.clone(),
            proximity: ledger.ranks.clone(),
            services: ledger.services.clone(),
            turns: ledger.turns.clone(),
            generation: ledger.generation,
        };
        self.snapshot.store(Arc::new(Snapshot {
            catalog: ledger.plan.catalog.clone(),
            view: Arc::new(view),
            options: ledger.plan.options.clone(),
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
        let mut ledger = self.lock();
        let mut dirty = BTreeSet::new();
        let mut is_changed = false;
        for event in events {
            is_changed |= event.change.is_some();
            ledger.checked(&event.key);
            dirty.extend(ledger.used_by.get(&event.key).into_iter().flatten());
        }
        self.publish(&mut ledger, dirty);
        if is_changed {
            self.changed.notify_one();
        }
    }

    fn tick(&self) {
        let mut ledger = self.lock();
        let mut dirty = ledger.in_motion();
        dirty.extend(ledger.expire());
        self.publish(&mut ledger, dirty);
    }

    /// Forces the state of members, or gives them back to their checks.
    pub fn force(&self, request: &ForceRequest) -> Result<ForceResult, ApiError> {
        let mut ledger = self.lock();
        let roster = ledger.plan.roster.clone();
        let members = crate::target::find(&roster, &request.target)?;
        let mut warnings = ledger.words.say(&roster, &members, request)?;
        self.tell_words(&roster, &members, request);
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
        self.publish(&mut ledger, dirty.clone());
        for service in dirty.iter().filter_map(|&at| roster.services.get(at)) {
            if !ledger.has_usable(service, None) {
                let text = format!("{} has no usable member left: its fallback answers", service.name);
                warn!(service = service.name, "no usable member left");
                warnings.push(text);
            }
        }
        drop_and_wake(ledger, &self.wake, |ledger| ForceResult {
            members: names(&roster, &members),
            generation: ledger.generation,
            warnings,
        })
    }

    /// Takes a load report.
    pub fn load(&self, report: &LoadReport) -> Result<LoadResult, ApiError> {
        let reported = Reported::new(report)?;
        let mut ledger = self.lock();
        let roster = ledger.plan.roster.clone();
        let members = crate::target::find(&roster, &report.target)?;
        for (service, member) in members.iter().filter_map(|&at| roster.get(at)) {
            let who = (service.name.clone(), member.name.clone());
            ledger.loads.entry(who).or_default().update(&reported);
        }
        let dirty = members.iter().map(|at| at.service).collect();
        self.publish(&mut ledger, dirty);
        drop_and_wake(ledger, &self.wake, |_| LoadResult { members: names(&roster, &members) })
    }

    /// What is in force now.
    #[must_use]
    pub fn look(&self) -> Look {
        let ledger = self.lock();
        Look {
            roster: ledger.plan.roster.clone(),
            view: self.snapshot.load().view.clone(),
            judged: ledger.judged.clone(),
            forced: ledger.words.entries(),
        }
    }

    /// The services of the roster that use a check.
    #[must_use]
    pub fn used_by(&self, check: &CheckKey) -> Vec<usize> {
        self.lock().used_by.get(check).cloned().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn drop_and_wake<T>(
    ledger: MutexGuard<'_, Ledger>,
    wake: &Notify,
    result: impl FnOnce(&Ledger) -> T,
) -> Result<T, ApiError> {
    let result = result(&ledger);
    drop(ledger);
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

/// Seconds since 1970 of a moment on the runner's clock.
#[must_use]
pub fn unix_of(runner: &Runner, at_ms: i64) -> u64 {
    let age_s = u64::try_from(runner.now_ms().saturating_sub(at_ms).max(0)).unwrap_or(0) / 1000;
    clock::unix_s().saturating_sub(age_s)
}
