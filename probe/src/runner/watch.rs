//! One check's task: wait, run, observe, tell.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Semaphore, mpsc},
    time::{Instant, sleep_until},
};
use tracing::{debug, info};

use super::{Event, Stats, schedule};
use crate::{
    health::{Basis, Health, Saved},
    target::CheckKey,
    transport::{Pingers, Prober},
};

/// What all checks share.
pub(super) struct Means {
    pub(super) started: Instant,
    pub(super) budget: Semaphore,
    pub(super) events: mpsc::Sender<Event>,
    pub(super) pingers: Arc<Pingers>,
    pub(super) counts: Counts,
}

/// Sums over all checks, past ones included.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) good: AtomicU64,
    pub(super) bad: AtomicU64,
    pub(super) skipped: AtomicU64,
    pub(super) waits: AtomicU64,
    pub(super) waited_us: AtomicU64,
}

impl Means {
    pub(super) fn now_ms(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX)
    }
}

/// One check's line in the table.
pub(super) struct Cell {
    pub(super) health: Health,
    /// The state it started with, when that was a saved one.
    pub(super) restored: Option<Saved>,
    pub(super) stats: Stats,
}

/// Runs the check until the task is aborted or nobody listens any more.
pub(super) async fn watch(means: Arc<Means>, key: CheckKey, cell: Arc<Mutex<Cell>>, first: Duration) {
    let prober = Prober::new(key.clone(), Arc::clone(&means.pingers));
    let timing = key.def().timing();
    let jitter = f64::from(timing.jitter_percent) / 100.0;
    let mut due = Instant::now() + first;
    loop {
        sleep_until(due).await;
        let Some(event) = run_once(&means, &key, &prober, &cell).await else { return };
        if let Some(event) = event
            && means.events.send(event).await.is_err()
        {
            return;
        }
        let (next, skipped) =
            schedule::next_due(due, Instant::now(), timing.interval, jitter, fastrand::f64());
        if skipped > 0 {
            means.counts.skipped.fetch_add(skipped, Ordering::Relaxed);
            cell.lock().unwrap_or_else(PoisonError::into_inner).stats.skipped += skipped;
        }
        due = next;
    }
}

/// One run within the budget. The outer none means that the runner is gone, the inner that there is no news.
async fn run_once(
    means: &Means,
    key: &CheckKey,
    prober: &Prober,
    cell: &Mutex<Cell>,
) -> Option<Option<Event>> {
    let permit = match means.budget.try_acquire() {
        Ok(permit) => permit,
        Err(_) => {
            let waiting = Instant::now();
            let permit = means.budget.acquire().await.ok()?;
            let waited_us = u64::try_from(waiting.elapsed().as_micros()).unwrap_or(u64::MAX);
            means.counts.waits.fetch_add(1, Ordering::Relaxed);
            means.counts.waited_us.fetch_add(waited_us, Ordering::Relaxed);
            permit
        }
    };
    let started = Instant::now();
    let verdict = prober.run().await;
    let latency = started.elapsed();
    drop(permit);

    let good = verdict.is_good();
    debug!(check = %key, good, ?latency, "checked");
    let count = if good { &means.counts.good } else { &means.counts.bad };
    count.fetch_add(1, Ordering::Relaxed);
    let mut cell = cell.lock().unwrap_or_else(PoisonError::into_inner);
    let count = if good { &mut cell.stats.good } else { &mut cell.stats.bad };
    *count += 1;
    let (basis, load) = (cell.health.basis, cell.health.load());
    let change = cell.health.observe(key.def().timing(), means.now_ms(), verdict, latency);
    if let Some(change) = change {
        let from = if basis == Basis::Initial { "unknown" } else { change.from.name() };
        info!(check = %key, from, to = change.to.name(), reason = cell.health.reason, "state changed");
    }
    let news = change.is_some() || basis != Basis::Observed || load != cell.health.load();
    Some(news.then(|| Event { key: key.clone(), health: cell.health.clone(), change }))
}
