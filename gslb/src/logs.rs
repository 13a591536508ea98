//! Logs, to standard error or a file: for people or as JSON. Levels: a packet is trace, a change of state is info, what
//! somebody must look at is warn or error.

use portolan_config::{LogFormat, LogLevel};
use std::fs::File;
use std::sync::Mutex;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

/// Starts logging. `PORTOLAN_LOG` is stronger than the level of the config: `PORTOLAN_LOG=portolan_probe=debug,info`.
pub fn start(level: LogLevel, format: LogFormat, file: Option<File>) {
    let words = match level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "warn,portolan=info",
        LogLevel::Debug => "info,portolan=debug",
        LogLevel::Trace => "debug,portolan=trace",
    };
    let filter = std::env::var("PORTOLAN_LOG").ok().and_then(|words| EnvFilter::try_new(words).ok());
    let writer = match file {
        Some(file) => BoxMakeWriter::new(Mutex::new(file)),
        None => BoxMakeWriter::new(std::io::stderr),
    };
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter.unwrap_or_else(|| EnvFilter::new(words)))
        .with_writer(writer)
        .with_ansi(is_terminal)
        .with_target(matches!(level, LogLevel::Debug | LogLevel::Trace));
    // the journal has a clock of its own
    let has_clock = std::env::var_os("JOURNAL_STREAM").is_some();
    let result = match (format, has_clock) {
        (LogFormat::Json, _) => builder.json().flatten_event(true).try_init(),
        (LogFormat::Text, true) => builder.without_time().try_init(),
        (LogFormat::Text, false) => builder.try_init(),
    };
    if let Err(error) = result {
        portolan_ctl::output::complain(&format!("warning: no logs: {error}"));
    }
}
