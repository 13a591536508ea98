//! The runner: keeps a set of checks running and tells what changes.
//!
//! ```text
//!   apply(generation) ─► missing started · gone stopped · the same kept, with their state
//!                              │
//!                   one task a check ──► budget ──► Prober ──► Health ──► table (status, metrics)
//!                                                                 └────► Event (only when there is news)
//!   restore(saved) ─► the state a check starts with               table ─► save()
//! ```

use std::{
    collections::{HashMap, hash_map::Entry as MapEntry},
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::{
    runtime::Handle,
    sync::{Semaphore, mpsc},
    task::AbortHandle,
    time::Instant,
};

use self::watch::{Cell, Counts, Means};
use crate::{
    health::{Change, Health, Saved},
    target::CheckKey,
    transport::Pingers,
};

mod schedule;
mod watch;

/// Limits of a runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunnerSettings {
    /// Checks that may run at the same time; others wait, and the wait is counted.
    pub in_flight: usize,
    /// New checks that start at once; the others of the same generation are spread over their interval.
    pub burst: usize,
    /// A saved state whose last verdict is older than this is forgotten.
    pub saved_max_age: Duration,
    /// Events that may wait for the publisher; when there are more, checks with news wait.
    pub events: usize,
}

impl Default for RunnerSettings {
    fn default() -> Self {
        Self { in_flight: 256, burst: 50, saved_max_age: Duration::from_secs(3600), events: 1024 }
    }
}

/// News of one check: a change, its first verdict, or another load. The last news of a check may still be under way
/// when [`Runner::apply`] has removed it.
#[derive(Clone, Debug)]
pub struct Event {
    /// Which check.
    pub key: CheckKey,
    /// Its state now.
    pub health: Health,
    /// The change, when the state changed.
    pub change: Option<Change>,
}

/// One line of the table.
#[derive(Clone, Debug)]
pub struct Status {
    /// Which check.
    pub key: CheckKey,
    /// Its state now; the one that events carry.
    pub health: Health,
    /// What was counted since it started.
    pub stats: Stats,
}

/// Counts of one check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Good verdicts.
    pub good: u64,
    /// Bad verdicts.
    pub bad: u64,
    /// Starts left out because the check was still running when they were due (HC5).
    pub skipped: u64,
}

/// Counts of a runner since it started, removed checks included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Checks there are.
    pub checks: usize,
    /// Checks running at this moment.
    pub in_flight: usize,
    /// Good verdicts.
    pub good: u64,
    /// Bad verdicts.
    pub bad: u64,
    /// Starts left out because the check was still running when they were due.
    pub skipped: u64,
    /// Starts that had to wait for the budget.
    pub waits: u64,
    /// How long those waited in all.
    pub waited: Duration,
}

/// What a new generation changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Checks that are new.
    pub started: usize,
    /// Checks that are gone.
    pub stopped: usize,
    /// Checks that go on with their state.
    pub kept: usize,
}

/// Runs checks. Clones are handles of the same runner; with the last one all checks end.
#[derive(Clone)]
pub struct Runner {
    inner: Arc<Inner>,
}

struct Inner {
    settings: RunnerSettings,
    runtime: Handle,
    means: Arc<Means>,
    table: Mutex<HashMap<CheckKey, Entry>>,
    /// States of a former process, and of checks that left the configuration a short while ago.
    saved: Mutex<HashMap<String, Saved>>,
}

struct Entry {
    id: String,
    cell: Arc<Mutex<Cell>>,
    /// None until the task is spawned.
    task: Option<AbortHandle>,
}

impl Drop for Entry {
    /// Whatever the check was doing ends here: sockets close, a command's process group is killed.
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl Entry {
    fn cell(&self) -> MutexGuard<'_, Cell> {
        lock(&self.cell)
    }

    fn save(&self, now_ms: i64, unix_now_s: u64) -> Option<Saved> {
        let cell = self.cell();
        cell.health.save(now_ms, unix_now_s, cell.restored.as_ref())
    }
}

impl Runner {
    /// A runner without checks, in the current tokio runtime, and the channel of its events.
    pub fn spawn(settings: RunnerSettings) -> (Self, mpsc::Receiver<Event>) {
        let (events, receiver) = mpsc::channel(settings.events.max(1));
        let means = Means {
            started: Instant::now(),
            budget: Semaphore::new(settings.in_flight.clamp(1, Semaphore::MAX_PERMITS)),
            events,
            pingers: Arc::new(Pingers::default()),
            counts: Counts::default(),
        };
        let inner = Inner {
            settings,
            runtime: Handle::current(),
            means: Arc::new(means),
            table: Mutex::default(),
            saved: Mutex::default(),
        };
        (Self { inner: Arc::new(inner) }, receiver)
    }

    /// Takes saved states. Checks that start from now on begin with theirs, when it is not too old (T1).
    pub fn restore(&self, states: impl IntoIterator<Item = (String, Saved)>) {
        lock(&self.inner.saved).extend(states);
    }

    /// Makes the set of running checks equal to this one: missing ones start, those that are not in it stop at once
    /// (case H06), the others go on undisturbed (dns.md case 27). Equal keys are one check (case H07).
    pub fn apply(&self, generation: impl IntoIterator<Item = CheckKey>) -> Applied {
        let Inner { settings, means, .. } = &*self.inner;
        let (now_ms, unix_now_s) = (means.now_ms(), unix_now_s());
        let mut table = lock(&self.inner.table);
        let mut saved = lock(&self.inner.saved);
        let mut old = std::mem::take(&mut *table);
        let mut new = Vec::new();
        let mut applied = Applied::default();
        for key in generation {
            if let Some((key, entry)) = old.remove_entry(&key) {
                table.insert(key, entry);
                applied.kept += 1;
            } else if let MapEntry::Vacant(place) = table.entry(key) {
                // A place in the table keeps a second equal key out.
                new.push(place.key().clone());
                let entry = self.entry(place.key(), &saved, now_ms, unix_now_s);
                place.insert(entry);
            }
        }
        applied.started = new.len();
        applied.stopped = old.len();
        // A check that comes back soon, as after a mistaken reload, knows its state.
        saved.extend(
            old.values().filter_map(|entry| Some((entry.id.clone(), entry.save(now_ms, unix_now_s)?))),
        );
        saved.retain(|_, state| {
            unix_now_s.saturating_sub(state.seen_unix_s) <= settings.saved_max_age.as_secs()
        });
        for (at, key) in new.iter().enumerate() {
            let Some(entry) = table.get_mut(key) else { continue };
            let interval = key.def().timing().interval;
            let first = schedule::first_delay(at, new.len(), settings.burst, interval);
            let task = watch::watch(Arc::clone(means), key.clone(), Arc::clone(&entry.cell), first);
            entry.task = Some(self.inner.runtime.spawn(task).abort_handle());
        }
        applied
    }

    /// What must outlive this process: a text for each check that has a state, and the state.
    pub fn save(&self) -> Vec<(String, Saved)> {
        let (now_ms, unix_now_s) = (self.now_ms(), unix_now_s());
        let table = lock(&self.inner.table);
        table.values().filter_map(|entry| Some((entry.id.clone(), entry.save(now_ms, unix_now_s)?))).collect()
    }

    /// The state of one check; none when it is not in the current generation.
    pub fn health(&self, key: &CheckKey) -> Option<Health> {
        lock(&self.inner.table).get(key).map(|entry| entry.cell().health.clone())
    }

    /// All checks, ordered by what they are called.
    pub fn snapshot(&self) -> Vec<Status> {
        let table = lock(&self.inner.table);
        let line = |(key, entry): (&CheckKey, &Entry)| {
            let cell = entry.cell();
            (entry.id.clone(), Status { key: key.clone(), health: cell.health.clone(), stats: cell.stats })
        };
        let mut lines: Vec<_> = table.iter().map(line).collect();
        drop(table);
        lines.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        lines.into_iter().map(|(_, status)| status).collect()
    }

    /// Sums for metrics.
    pub fn totals(&self) -> Totals {
        let Inner { settings, means, table, .. } = &*self.inner;
        let Counts { good, bad, skipped, waits, waited_us } = &means.counts;
        Totals {
            checks: lock(table).len(),
            in_flight: settings.in_flight.saturating_sub(means.budget.available_permits()),
            good: good.load(Ordering::Relaxed),
            bad: bad.load(Ordering::Relaxed),
            skipped: skipped.load(Ordering::Relaxed),
            waits: waits.load(Ordering::Relaxed),
            waited: Duration::from_micros(waited_us.load(Ordering::Relaxed)),
        }
    }

    /// Now on the clock of [`Health`]'s times.
    pub fn now_ms(&self) -> i64 {
        self.inner.means.now_ms()
    }

    /// A line in the table for a check that does not run yet.
    fn entry(&self, key: &CheckKey, saved: &HashMap<String, Saved>, now_ms: i64, unix_now_s: u64) -> Entry {
        let id = key.id();
        let max_age = self.inner.settings.saved_max_age;
        let restored = saved.get(&id).cloned();
        let health = restored.as_ref().and_then(|saved| Health::restored(saved, max_age, now_ms, unix_now_s));
        let initial = key.def().timing().initial;
        let health = health.unwrap_or_else(|| Health::initial(initial, now_ms));
        let cell = Arc::new(Mutex::new(Cell { health, restored, stats: Stats::default() }));
        Entry { id, cell, task: None }
    }
}

fn unix_now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Nothing that holds one of our locks can leave it half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
