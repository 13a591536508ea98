//! `portolan run`: a node, the signals it obeys, and what it tells systemd.

use crate::clock;
use crate::engine::Engine;
use crate::{logs, udp};
use portolan_config::Compiled;
use portolan_ctl::{Exit, Paint, output};
use sd_notify::NotifyState;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tracing::{info, warn};

/// Threads of the control plane and TCP; UDP has its own.
const RUNTIME_THREADS: usize = 4;
/// What is still running when a node ends gets this long.
const LAST_MOMENTS: Duration = Duration::from_millis(200);

/// Runs a node until it is told to end.
#[must_use]
pub fn run(path: &Path) -> Exit {
    let config = match portolan_config::load(path) {
        Ok(config) => config,
        Err(problems) => {
            output::complain(&problems.render(Paint::stderr().is_on()));
            return Exit::Bad;
        }
    };
    logs::start(config.log_level, config.log_format, None);
    let warnings = config.warnings_at(clock::unix_s());
    for problem in warnings.iter() {
        let (file, line, column) = warnings.place(problem);
        warn!(code = problem.code, file, line, column, "{}", problem.message);
    }
    udp::raise_file_limit();
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            output::complain(&format!("error: cannot start: {error}"));
            return Exit::Bad;
        }
    };
    let exit = runtime.block_on(serve(path, config));
    runtime.shutdown_timeout(LAST_MOMENTS);
    logs::finish();
    exit
}

/// The runtime of the control plane.
pub(crate) fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    let threads = udp::cpus().len().clamp(1, RUNTIME_THREADS);
    tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()
}

async fn serve(path: &Path, config: Compiled) -> Exit {
    // before anything is announced, so that an early signal is not missed
    let signals = Signals::new();
    let mut signals = match signals {
        Ok(signals) => signals,
        Err(error) => {
            output::complain(&format!("error: cannot take signals: {error}"));
            return Exit::Bad;
        }
    };
    let name = config.node.name.clone();
    let engine = match Engine::start(path, config).await {
        Ok(engine) => engine,
        Err(error) => {
            logs::finish();
            output::complain(&format!("error: {error}"));
            return Exit::Bad;
        }
    };
    info!(node = name, version = env!("CARGO_PKG_VERSION"), "ready");
    tell(&[NotifyState::Ready, NotifyState::Status("answering")]);
    // beside the signals: a reload takes as long as the tables are large, an end must not wait for it
    let wanted = Arc::new(Notify::new());
    let reloads = tokio::spawn(reload_when(wanted.clone(), engine.clone()));
    while let Wish::Reload = signals.next().await {
        wanted.notify_one();
    }
    reloads.abort();
    tell(&[NotifyState::Stopping]);
    info!("ending");
    let _ = tokio::task::spawn_blocking(move || engine.stop()).await;
    Exit::Good
}

/// Reloads when it is wanted, once for all wishes that came meanwhile.
async fn reload_when(wanted: Arc<Notify>, engine: Arc<Engine>) {
    loop {
        wanted.notified().await;
        reload(&engine).await;
    }
}

async fn reload(engine: &Arc<Engine>) {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(_) => tell(&[NotifyState::Reloading]),
    }
    let engine = engine.clone();
    // what came of it is logged and in the status
    let result = tokio::task::spawn_blocking(move || engine.reload()).await;
    let is_good = matches!(result, Ok(Ok(_)));
    let status = if is_good { "answering" } else { "answering; the last reload was refused" };
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        warn!(%error, "systemd was not told");
    }
}

enum Wish {
    Reload,
    End,
}

struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> Wish {
        tokio::select! {
            _ = self.hangup.recv() => Wish::Reload,
            _ = self.terminate.recv() => Wish::End,
            _ = self.interrupt.recv() => Wish::End,
        }
    }
}
