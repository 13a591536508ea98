//! The prober: a thin shell of sockets and timers around the [`Pacer`].
//!
//! ```text
//!   wish ─► Pacer ◄──────── done ─────────┐
//!             │ next_probe                │
//!             └─► driver: one task a probe, as many as are in flight
//!                                         └─► Sample ─► bounded channel
//! ```

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use portolan_balance::proximity::{Prefix, Sample};
use tokio::{
    runtime::Handle,
    sync::{Notify, mpsc},
    task::{AbortHandle, JoinSet},
    time::{Instant, sleep_until},
};
use tracing::warn;

use super::{
    pace::{Method, Outcome, PaceCounters, Pacer, Policy, ProbeId, Refusal, Standing, Wanted},
    shoot::Gun,
    sightings::Evidence,
};

/// How the prober is made; what may change while it runs is in [`Policy`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProberSettings {
    /// Whom to ask about the probes: goes into every echo (X).
    pub contact: String,
    /// The port that is asked by DNS and TCP, where it is not 53.
    pub port: Option<u16>,
    /// Samples that may wait for whoever takes them; more are dropped and counted.
    pub samples: usize,
}

impl Default for ProberSettings {
    fn default() -> Self {
        Self { contact: String::new(), port: None, samples: 4_096 }
    }
}

/// What a prober has done, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProberCounters {
    /// The scheduler's counts.
    pub pace: PaceCounters,
    /// Samples that nobody took in time.
    pub samples_dropped: u64,
    /// Wishes that wait.
    pub waiting: usize,
    /// Probes in flight.
    pub in_flight: usize,
    /// Prefixes whose interval is watched.
    pub held: usize,
}

/// Probes what is wanted, within its policy. With the last handle it ends.
#[derive(Clone)]
pub struct Prober {
    shared: Arc<Shared>,
    _driver: Arc<Driver>,
}

struct Shared {
    pacer: Mutex<Pacer>,
    gun: Gun,
    /// Whoever sets a policy need not be in it.
    runtime: Handle,
    started: Instant,
    wake: Notify,
    samples_dropped: AtomicU64,
}

/// Ends the driver, and so every probe, when it is dropped.
struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Prober {
    /// A prober in the current tokio runtime, and the channel of its samples.
    #[must_use]
    pub fn spawn(settings: ProberSettings, policy: Policy) -> (Self, mpsc::Receiver<Sample>) {
        let (samples, receiver) = mpsc::channel(settings.samples.max(1));
        let shared = Arc::new(Shared {
            gun: Gun::new(&settings.contact, settings.port),
            pacer: Mutex::new(Pacer::new(policy)),
            runtime: Handle::current(),
            started: Instant::now(),
            wake: Notify::new(),
            samples_dropped: AtomicU64::new(0),
        });
        shared.try_sockets();
        let driver = tokio::spawn(drive(Arc::clone(&shared), samples)).abort_handle();
        (Self { shared, _driver: Arc::new(Driver(driver)) }, receiver)
    }

    /// Somebody wants a prefix measured.
    pub fn wish(&self, wanted: Wanted) -> Result<(), Refusal> {
        let now_ms = self.shared.now_ms();
        let result = self.shared.pacer().wish(now_ms, wanted);
        if result.is_ok() {
            self.shared.wake.notify_one();
        }
        result
    }

    /// A query came from this address. Tells whether it has earned a probe by now, or why not.
    pub fn see(&self, source: IpAddr, evidence: Evidence) -> Result<(), Refusal> {
        let now_ms = self.shared.now_ms();
        self.shared.pacer().see(now_ms, source.to_canonical(), evidence)
    }

    /// Takes another policy. What is under way ends by the old one.
    pub fn set_policy(&self, policy: Policy) {
        self.shared.pacer().set_policy(policy);
        self.shared.try_sockets();
        self.shared.wake.notify_one();
    }

    /// How a prefix stands, with how long ago its last round began and how long it is left alone from now.
    #[must_use]
    pub fn standing(&self, prefix: &Prefix) -> Option<(Standing, Duration, Duration)> {
        let standing = self.shared.pacer().standing(prefix)?;
        let now_ms = self.shared.now_ms();
        let since = |from_ms: u64, to_ms: u64| Duration::from_millis(to_ms.saturating_sub(from_ms));
        Some((standing, since(standing.began_ms, now_ms), since(now_ms, standing.free_ms)))
    }

    /// What was done.
    #[must_use]
    pub fn counters(&self) -> ProberCounters {
        let pacer = self.shared.pacer();
        let (waiting, in_flight) = pacer.load();
        ProberCounters {
            pace: *pacer.counters(),
            samples_dropped: self.shared.samples_dropped.load(Ordering::Relaxed),
            waiting,
            in_flight,
            held: pacer.held(),
        }
    }
}

impl Shared {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn pacer(&self) -> MutexGuard<'_, Pacer> {
        self.pacer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says at once what would otherwise be found out at the first probe (link.md case 37). The other methods go on.
    fn try_sockets(&self) {
        let policy = self.pacer().policy().clone();
        if !policy.enabled || !policy.methods.contains(&Method::Icmp) {
            return;
        }
        let _entered = self.runtime.enter();
        let mut said = HashMap::<String, IpAddr>::new();
        for sender in &policy.senders {
            let sources = [sender.v4.map(IpAddr::V4), sender.v6.map(IpAddr::V6)];
            for source in sources.into_iter().flatten() {
                if let Err(error) = self.gun.can_ping(source.is_ipv4(), Some(source)) {
                    said.entry(error).or_insert(source);
                }
            }
            if sources == [None, None]
                && let Err(error) = self.gun.can_ping(true, None)
            {
                said.entry(error).or_insert(IpAddr::from([0; 4]));
            }
        }
        for (error, source) in said {
            warn!(%source, %error, "clients are not measured by ICMP");
        }
    }
}

/// Sends probes as the pacer hands them out, until it is aborted.
async fn drive(shared: Arc<Shared>, samples: mpsc::Sender<Sample>) {
    let mut probes: JoinSet<(ProbeId, Outcome)> = JoinSet::new();
    loop {
        let deadline_ms = advance(&shared, &samples, &mut probes);
        let deadline = deadline_ms.map(|ms| shared.started + Duration::from_millis(ms));
        tokio::select! {
            () = shared.wake.notified() => {}
            Some(joined) = probes.join_next() => {
                // one that ended by a fault is given up by the pacer when its time is over
                if let Ok((id, outcome)) = joined {
                    shared.pacer().done(shared.now_ms(), id, outcome);
                }
            }
            () = until(deadline) => {}
        }
    }
}

/// Hands out what is due. Returns when there is more.
fn advance(
    shared: &Arc<Shared>,
    samples: &mpsc::Sender<Sample>,
    probes: &mut JoinSet<(ProbeId, Outcome)>,
) -> Option<u64> {
    let mut pacer = shared.pacer();
    while let Some(sample) = pacer.next_sample() {
        if samples.try_send(sample).is_err() {
            shared.samples_dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
    let now_ms = shared.now_ms();
    while let Some(probe) = pacer.next_probe(now_ms) {
        let shared = Arc::clone(shared);
        probes.spawn(async move { (probe.id, shared.gun.shoot(&probe).await) });
    }
    pacer.deadline_ms()
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
