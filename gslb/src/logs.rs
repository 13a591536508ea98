//! Logs, to standard error or a file: for people or as JSON. Levels: a packet is trace, a change of state is info, what
//! somebody must look at is warn or error.

use portolan_config::{LogFormat, LogLevel};
use std::fs::File;
use std::sync::{Mutex, OnceLock};
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::{Layered, SubscriberExt};
use tracing_subscriber::reload::{Handle, Layer as Reloadable};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

/// Sets the filter in force.
static FILTER: OnceLock<Handle<EnvFilter, Registry>> = OnceLock::new();

/// What lines are made on top of.
type Filtered = Layered<Reloadable<EnvFilter, Registry>, Registry>;

/// Starts logging. `PORTOLAN_LOG` is stronger than the level of the config: `PORTOLAN_LOG=portolan_probe=debug,info`.
pub fn start(level: LogLevel, format: LogFormat, file: Option<File>) {
    let is_terminal = file.is_none() && portolan_ctl::Paint::stderr().is_on();
    let writer = match file {
        Some(file) => BoxMakeWriter::new(Mutex::new(file)),
        None => BoxMakeWriter::new(std::io::stderr),
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
