//! Logs, to standard error or a file: for people or as JSON. Levels: a packet is trace, a change of state is info, what
//! somebody must look at is warn or error.
//!
//! Nothing waits for the reader of the log: lines go through a queue to a thread that writes them. When the reader
//! stands still (a stopped journal, a pager), lines are lost and counted, and states, the API and signals go on.

use portolan_config::{LogFormat, LogLevel};
use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::{Layered, SubscriberExt};
use tracing_subscriber::reload::{Handle, Layer as Reloadable};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

/// Lines that may wait to be written.
const QUEUE: usize = 8192;
/// At the end, lines that wait are written for so long.
const LAST_LINES: Duration = Duration::from_millis(200);

/// The way to the thread that writes.
static QUEUE_IN: OnceLock<SyncSender<Item>> = OnceLock::new();
/// Lines that found no room.
static LOST: AtomicU64 = AtomicU64::new(0);
/// Sets the filter in force.
static FILTER: OnceLock<Handle<EnvFilter, Registry>> = OnceLock::new();

/// What lines are made on top of.
type Filtered = Layered<Reloadable<EnvFilter, Registry>, Registry>;

/// Starts logging. `PORTOLAN_LOG` is stronger than the level of the config: `PORTOLAN_LOG=portolan_probe=debug,info`.
pub fn start(level: LogLevel, format: LogFormat, file: Option<File>) {
    let is_terminal = file.is_none() && portolan_ctl::Paint::stderr().is_on();
    let writer = match file {
        Some(file) => BoxMakeWriter::new(Mutex::new(file)),
        None => BoxMakeWriter::new(Lines::to_stderr),
    };
    let (filter, handle) = Reloadable::new(filter(level));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(writer)
        .with_ansi(is_terminal)
        .with_target(matches!(level, LogLevel::Debug | LogLevel::Trace));
    // the journal has a clock of its own
    let has_clock = std::env::var_os("JOURNAL_STREAM").is_some();
    let lines: Box<dyn Layer<Filtered> + Send + Sync> = match (format, has_clock) {
        (LogFormat::Json, _) => lines.json().flatten_event(true).boxed(),
        (LogFormat::Text, true) => lines.without_time().boxed(),
        (LogFormat::Text, false) => lines.boxed(),
    };
    let _ = FILTER.set(handle);
    if let Err(error) = tracing_subscriber::registry().with(filter).with(lines).try_init() {
        portolan_ctl::output::complain(&format!("warning: no logs: {error}"));
    }
}

/// Logs from this level on, as a reload may say.
pub fn set_level(level: LogLevel) {
    if let Some(handle) = FILTER.get()
        && let Err(error) = handle.reload(filter(level))
    {
        tracing::warn!(%error, "the level of logs did not change");
    }
}

fn filter(level: LogLevel) -> EnvFilter {
    let words = match level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "warn,portolan=info",
        LogLevel::Debug => "info,portolan=debug",
        LogLevel::Trace => "debug,portolan=trace",
    };
    let from_environment =
        std::env::var("PORTOLAN_LOG").ok().and_then(|words| EnvFilter::try_new(words).ok());
    from_environment.unwrap_or_else(|| EnvFilter::new(words))
}

/// Writes what waits, for a short time: before the process ends.
pub fn finish() {
    let (done, is_done) = sync_channel(1);
    if let Some(queue) = QUEUE_IN.get()
        && queue.try_send(Item::Tell(done)).is_ok()
    {
        let _ = is_done.recv_timeout(LAST_LINES);
    }
}

/// What goes through the queue.
enum Item {
    Line(Vec<u8>),
    /// Everything before it is written.
    Tell(SyncSender<()>),
}

/// The writer of one line, which hands it to the queue.
struct Lines(&'static SyncSender<Item>);

impl Lines {
    fn to_stderr() -> Self {
        Self(QUEUE_IN.get_or_init(|| {
            let (queue, lines) = sync_channel(QUEUE);
            let thread = std::thread::Builder::new().name("log".into());
            if let Err(error) = thread.spawn(move || write_all(&lines, &mut io::stderr())) {
                portolan_ctl::output::complain(&format!("warning: no logs: {error}"));
            }
            queue
        }))
    }
}

impl Write for Lines {
    /// A line comes whole: the layer makes it first.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.0.try_send(Item::Line(line.to_vec())).is_err() {
            LOST.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes what comes. A log that cannot be written is no reason to stop.
fn write_all(items: &Receiver<Item>, to: &mut impl Write) {
    for item in items {
        match item {
            Item::Line(line) => {
                let _ = to.write_all(&line);
                let lost = LOST.swap(0, Ordering::Relaxed);
                if lost > 0 {
                    let _ = writeln!(to, "{lost} lines were lost here: the log was not read fast enough");
                }
            }
            Item::Tell(done) => {
                let _ = done.send(());
            }
        }
    }
}
