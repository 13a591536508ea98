//! One running node: everything that is in force, and what its API can do with it.

use crate::adopt::{self, Carried};
use crate::listen::{ListenError, Listeners};
use crate::peers::{self, Line, LineError, monotonic_ms};
use crate::proximity::{self, Proximity};
use crate::publisher::Publisher;
use crate::state::StateDir;
use crate::tcp::Tcp;
use crate::{clock, doors};
use arc_swap::ArcSwap;
use portolan_api::{ApiError, Problem, ReloadResult};
use portolan_config::{Compiled, Disk, Problems, Severity};
use portolan_dns::respond::Snapshot;
use portolan_probe::{Event, Runner, RunnerSettings};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc};
use tracing::{error, info, warn};

/// What queries are answered from; replaced as a whole.
pub type SharedSnapshot = Arc<ArcSwap<Snapshot>>;

/// News that wait to be saved are saved together.
const SAVE_PAUSE: Duration = Duration::from_secs(1);
/// Remembered choices change with every query; they are saved now and then, and at the end.
const CHOICES_PAUSE: Duration = Duration::from_secs(300);

/// A running node.
pub struct Engine {
    path: PathBuf,
    pub(crate) snapshot: SharedSnapshot,
    pub(crate) publisher: Publisher,
    pub(crate) proximity: Proximity,
    pub(crate) runner: Runner,
    pub(crate) tcp: Arc<Tcp>,
    pub(crate) peers: Arc<Line>,
    /// Rung when peers have told of other members.
    pub(crate) learned: Arc<Notify>,
    /// Peers whose claims' end was told.
    pub(crate) losses_told: Mutex<BTreeSet<String>>,
    /// What peers know of remembered choices.
    pub(crate) choices: Mutex<peers::choices::Shared>,
    /// What peers said, or this node found, that people should mend, and when.
    pub(crate) peer_notices: Mutex<BTreeMap<String, (u64, String)>>,
    /// When a peer was last warned of, by kind.
    pub(crate) peers_warned: Mutex<BTreeMap<(&'static str, String), u64>>,
    pub(crate) now: Mutex<InForce>,
    listeners: Mutex<Listeners>,
    doors: Mutex<doors::Doors>,
    state: Option<StateDir>,
    /// One reload at a time.
    reloading: Mutex<Carried>,
}

/// The config in force.
pub(crate) struct InForce {
    pub(crate) config: Arc<Compiled>,
    pub(crate) loaded_unix: u64,
    pub(crate) reloads: u64,
    pub(crate) refused: u64,
    pub(crate) last_error: Option<String>,
}

/// Why a node cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address that cannot be had.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The API's or the metrics' socket.
    #[error(transparent)]
    Door(#[from] doors::DoorError),
    /// The endpoint towards peers.
    #[error(transparent)]
    Peers(#[from] LineError),
    /// The state folder.
    #[error("cannot use the state folder {path}: {cause}")]
    State {
        /// The folder.
        path: PathBuf,
        /// The system's words.
        cause: std::io::Error,
    },
}

impl Engine {
    /// Starts a node. When this returns it answers.
    pub async fn start(path: &Path, config: Compiled) -> Result<Arc<Self>, StartError> {
        let _ = clock::started_unix_s(); // fixes the moment
        let state = config.node.state.as_deref().map(|dir| {
            StateDir::open(dir).map_err(|cause| StartError::State { path: dir.to_owned(), cause })
        });
        let state = state.transpose()?;
        let (runner, events) = Runner::spawn(RunnerSettings::default());
        if let Some(state) = &state {
            // T1: the first answers go by the last states
            runner.restore(state.checks());
            if let Some(table) = &config.remembered {
                let count = state.restore_choices(table, clock::now().mono_s());
                info!(count, "choices remembered");
            }
        }
        let heard = state.as_ref().map(StateDir::heard).unwrap_or_default();
        let hearsay = heard.hearsay(&config, monotonic_ms());
        let config = learn(config, &hearsay.learned());
        let proximity = Proximity::start(&config, state.clone());
        let mut carried = Carried::measuring(proximity.measure());
        let has_peers = config.peers.as_ref().is_some_and(|peers| !peers.members.is_empty());
        let plan = adopt::plan(&config, &mut carried, has_peers);
        // no peer is lost yet
        runner.apply(plan.roster.checks(|_| false).cloned());
        let snapshot: SharedSnapshot = Arc::new(ArcSwap::from_pointee(Snapshot {
            catalog: plan.catalog.clone(),
            view: Arc::new(portolan_balance::View::empty()),
            options: plan.options.clone(),
        }));
        let line = Arc::new(Line::default());
        let publisher = Publisher::new(
            snapshot.clone(),
            runner.clone(),
            state.clone(),
            line.clone(),
            hearsay,
            plan,
            proximity.ranks(),
        );
        let peer_events = line.apply(&config).await?;
        let words = heard.words(&publisher.look().forced);
        publisher.recall(words);
        publisher.claim_all(peers::own::of_config(&config));
        let desks = std::thread::available_parallelism().map_or(1, usize::from);
        let tcp = Arc::new(Tcp::new(snapshot.clone(), adopt::limits(&config), desks));
        tcp.set_passive(proximity.passive());
        let mut listeners = Listeners::new(snapshot.clone(), tcp.clone(), config.node.threads);
        let prepared = listeners.prepare(&config.dns.listen)?;
        listeners.commit(prepared);
        let config = Arc::new(config);
        let engine = Arc::new(Self {
            path: path.to_owned(),
            snapshot,
            publisher,
            proximity,
            runner,
            tcp,
            peers: line,
            learned: Arc::default(),
            losses_told: Mutex::default(),
            choices: Mutex::default(),
            peer_notices: Mutex::default(),
            peers_warned: Mutex::default(),
            now: Mutex::new(InForce {
                config: config.clone(),
                loaded_unix: clock::unix_s(),
                reloads: 0,
                refused: 0,
                last_error: None,
            }),
            listeners: Mutex::new(listeners),
            doors: Mutex::default(),
            state,
            reloading: Mutex::new(carried),
        });
        lock(&engine.doors).apply(&config, &engine)?;
        proximity::keep(Arc::downgrade(&engine));
        engine.clone().spawn_tasks(events);
        engine.hear_peers(peer_events);
        tokio::spawn(peers::hear::relearn(Arc::downgrade(&engine)));
        tokio::spawn(peers::choices::tell(Arc::downgrade(&engine)));
        Ok(engine)
    }

    /// Hears the peers of an endpoint that has just started.
    fn hear_peers(self: &Arc<Self>, events: Option<portolan_peer::transport::Events>) {
        if let Some(events) = events {
            self.proximity.tell_all();
            tokio::spawn(peers::hear::listen(Arc::downgrade(self), events));
            tokio::spawn(peers::hear::end_waiting(Arc::downgrade(self)));
        }
    }

    fn spawn_tasks(self: Arc<Self>, events: mpsc::Receiver<Event>) {
        let engine = self.clone();
        tokio::spawn(async move {
            let publishing = tokio::spawn(async move { engine.publisher.run(events).await });
            if let Err(fault) = publishing.await {
                error!(%fault, "publishing ended by a fault of the program: states no longer change; restart the node");
            }
        });
        if self.state.is_none() {
            return;
        }
        let engine = self.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(CHOICES_PAUSE).await;
                let engine = engine.clone();
                let _ = tokio::task::spawn_blocking(move || engine.save_choices()).await;
            }
        });
        let engine = self.clone();
        tokio::spawn(async move {
            loop {
                engine.publisher.heard.notified().await;
                tokio::time::sleep(SAVE_PAUSE).await;
                let engine = engine.clone();
                let _ = tokio::task::spawn_blocking(move || engine.save_heard()).await;
            }
        });
        tokio::spawn(async move {
            loop {
                self.publisher.changed.notified().await;
                tokio::time::sleep(SAVE_PAUSE).await;
                let engine = self.clone();
                let _ = tokio::task::spawn_blocking(move || engine.save_checks()).await;
            }
        });
    }

    /// Reads the config again and puts it in force; on any error the one in force stays.
    pub fn reload(self: &Arc<Self>) -> Result<ReloadResult, ApiError> {
        let begin = Instant::now();
        let mut carried = lock(&self.reloading);
        let before = lock(&self.now).config.clone();
        let result = portolan_config::load_with(&Disk, &self.path, Some(&before))
            .map_err(|problems| refused(&problems))
            .and_then(|config| self.put_in_force(config, &before, &mut carried));
        let mut now = lock(&self.now);
        match result {
            Ok((config, generation)) => {
                let took_ms = begin.elapsed().as_millis() as u64;
                info!(generation, took_ms, "reloaded");
                let mut warnings = problems_of(&config.warnings_at(clock::unix_s()));
                warnings.extend(config.needs_restart(&before).into_iter().map(|part| self.waits(part)));
                for Problem { code, file, line, message, .. } in &warnings {
                    warn!(code, file, line, "{message}");
                }
                *now = InForce {
                    config,
                    loaded_unix: clock::unix_s(),
                    reloads: now.reloads + 1,
                    refused: now.refused,
                    last_error: None,
                };
                Ok(ReloadResult { generation, took_ms, warnings })
            }
            Err(error) => {
                error!("the reload was refused, the config in force stays: {error}");
                now.refused += 1;
                now.last_error = Some(error.rendered.clone().unwrap_or_else(|| error.error.clone()));
                Err(error)
            }
        }
    }

    /// A part of the config that changed and is not in force yet.
    fn waits(&self, part: &str) -> Problem {
        Problem {
            level: Severity::Warning.name().into(),
            code: "waits-for-start".into(),
            file: self.path.display().to_string(),
            line: 0,
            column: 0,
            message: format!("`{part}` has changed and takes effect with the next start"),
            remedy: Some("restart the node when it suits".into()),
        }
    }

    /// New sockets first: they may fail, and then nothing has changed.
    fn put_in_force(
        self: &Arc<Self>,
        config: Compiled,
        before: &Compiled,
        carried: &mut Carried,
    ) -> Result<(Arc<Compiled>, u64), ApiError> {
        let failed = |error: String| ApiError::new(422, error, Some("the config in force stays".into()));
        let prepared =
            lock(&self.listeners).prepare(&config.dns.listen).map_err(|error| failed(error.to_string()))?;
        lock(&self.doors).apply(&config, self).map_err(|error| failed(error.to_string()))?;
        self.apply_peers(&config, before).map_err(|error| failed(error.to_string()))?;
        lock(&self.listeners).commit(prepared);
        crate::logs::set_level(config.log_level);
        self.tcp.set_limits(adopt::limits(&config));
        self.publisher.dismiss_others(&config);
        let config = learn(config, &self.publisher.learned());
        move_choices(before, &config);
        self.publisher.reload_words();
        let generation = self.install(&config, carried);
        self.publisher.claim_all(peers::own::of_config(&config));
        Ok((Arc::new(config), generation))
    }

    /// Takes up other peers. Where that fails all is as it was before.
    fn apply_peers(self: &Arc<Self>, config: &Compiled, before: &Compiled) -> Result<(), LineError> {
        // a reload runs on a thread that may wait
        let apply = |config| tokio::runtime::Handle::current().block_on(self.peers.apply(config));
        let result = apply(config);
        if result.is_err() {
            if let Err(error) = lock(&self.doors).apply(before, self) {
                warn!(%error, "the API's sockets are not those of the config in force");
            }
            match apply(before) {
                Ok(events) => self.hear_peers(events),
                Err(error) => error!(%error, "the peers of the config in force cannot be talked to"),
            }
        }
        self.hear_peers(result?);
        Ok(())
    }

    fn install(&self, config: &Compiled, carried: &mut Carried) -> u64 {
        // its lock is held until the plan is in force: points and the distances from them change together
        let applied = self.proximity.apply(config);
        carried.measure = applied.measure();
        self.tcp.set_passive(applied.passive());
        let plan = adopt::plan(config, carried, self.peers.waits_until_ms().is_some());
        // checks first, so that the new view finds a state of each; those of old members go on until the swap
        self.runner.apply(plan.roster.checks(self.publisher.lost()).cloned());
        self.publisher.install(plan, applied.ranks())
    }

    /// Puts the members in force that peers tell of now.
    pub(crate) fn relearn(&self) {
        let begin = Instant::now();
        let mut carried = lock(&self.reloading);
        let before = lock(&self.now).config.clone();
        let servers = self.publisher.learned();
        match before.with_learned(&servers) {
            Ok(config) => {
                for problem in config.learned.warnings.iter() {
                    warn!(code = problem.code, "{}", problem.message);
                }
                let generation = self.install(&config, &mut carried);
                lock(&self.now).config = Arc::new(config);
                let took_ms = begin.elapsed().as_millis() as u64;
                info!(servers = servers.len(), generation, took_ms, "learned");
            }
            Err(problems) => error!("what was learned cannot be put in force: {}", problems.render(false)),
        }
    }

    /// Takes a choice that a peer remembers (WP-C3).
    pub(crate) fn remember(&self, entry: &portolan_peer::PersistenceEntry) {
        if let Some(table) = &self.config().remembered {
            lock(&self.choices).heard(table, clock::now().mono_s(), entry);
        }
    }

    /// The main config file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where DNS is answered.
    #[must_use]
    pub fn addresses(&self) -> Vec<std::net::SocketAddr> {
        lock(&self.listeners).addresses().collect()
    }

    /// The config in force.
    #[must_use]
    pub fn config(&self) -> Arc<Compiled> {
        lock(&self.now).config.clone()
    }

    /// The counters of every worker that answers.
    pub(crate) fn with_listeners<T>(&self, look: impl FnOnce(&Listeners) -> T) -> T {
        look(&lock(&self.listeners))
    }

    fn save_checks(&self) {
        if let Some(state) = &self.state {
            state.save_checks(self.runner.save());
        }
    }

    fn save_heard(&self) {
        if let Some(state) = &self.state {
            let words = self.peers.look(peers::saved::words_of);
            state.save_heard(self.publisher.hearsay(|hearsay| peers::saved::Heard::of(hearsay, words)));
        }
    }

    fn save_choices(&self) {
        if let (Some(state), Some(table)) = (&self.state, &self.config().remembered) {
            state.save_choices(table, clock::now().mono_s());
        }
    }

    /// Stops answering and saves what must outlive the process. It waits: call it on a thread that may.
    pub fn stop(&self) {
        let mut listeners = lock(&self.listeners);
        if let Ok(nothing) = listeners.prepare(&[]) {
            listeners.commit(nothing);
        }
        drop(listeners);
        lock(&self.doors).close();
        if self.peers.is_open() {
            self.save_heard();
        }
        tokio::runtime::Handle::current().block_on(self.peers.stop());
        self.save_checks();
        self.save_choices();
        self.proximity.save();
    }
}

/// The config with these members, or as it was: a peer's words end no node.
fn learn(config: Compiled, servers: &[portolan_config::LearnedServer]) -> Compiled {
    match config.with_learned(servers) {
        Ok(learned) => learned,
        Err(problems) => {
            error!("what was learned cannot be put in force: {}", problems.render(false));
            config
        }
    }
}

/// A table of another size takes over what the old one remembers.
fn move_choices(before: &Compiled, after: &Compiled) {
    if let (Some(old), Some(new)) = (&before.remembered, &after.remembered)
        && !Arc::ptr_eq(old, new)
    {
        let now_s = clock::now().mono_s();
        for (key, fingerprint, left_s) in old.entries(now_s) {
            new.put(key, u64::from(fingerprint) << 40, now_s.saturating_add(left_s));
        }
    }
}

fn refused(problems: &Problems) -> ApiError {
    let first = problems.iter().next();
    let text = first.map_or_else(String::new, |problem| format!(": {}", problem.message));
    ApiError::refused(format!("the config was refused{text}"), problems_of(problems), problems.render(false))
}

/// A config's problems as the API tells them.
#[must_use]
pub fn problems_of(problems: &Problems) -> Vec<Problem> {
    let one = |problem: &portolan_config::Problem| {
        let (file, line, column) = problems.place(problem);
        Problem {
            level: problem.severity.name().into(),
            code: problem.code.into(),
            file,
            line: line.unwrap_or(0),
            column: column.unwrap_or(0),
            message: problem.message.clone(),
            remedy: problem.help.clone(),
        }
    };
    problems.iter().map(one).collect()
}

/// Nothing that holds one of our locks can leave it half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
