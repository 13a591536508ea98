//! `portolan peers dump`: what a node and its peers say to each other, live, or from the trace that the node wrote.

use clap::Args;
use portolan_ctl::{Exit, output};
use portolan_peer::trace::{Record, Records, TraceError};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

/// What to show.
#[derive(Args, Debug)]
pub(crate) struct Dump {
    /// The trace, as `[peers] trace` of a config makes a node write it; without it the running node's frames
    file: Option<PathBuf>,
    /// Only what went to and came from this peer
    #[arg(long, value_name = "NAME")]
    peer: Option<String>,
}

impl Dump {
    /// What to watch of the running node, where no trace is named.
    pub(crate) fn watched(&self) -> Option<portolan_ctl::Peers> {
        self.file.is_none().then(|| portolan_ctl::Peers::Watch(self.peer.clone()))
    }
}

/// Shows a trace: a line for each frame and each claim, or JSON, one object a line.
#[must_use]
pub(crate) fn run(dump: &Dump, json: bool) -> Exit {
    let Dump { file: Some(file), peer } = dump else { return Exit::Usage };
    let records = match Records::open(file) {
        Ok(records) => records,
        Err(error) => return complain(&error),
    };
    let mut out = BufWriter::new(io::stdout().lock());
    for record in records {
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                output::is_done(out.flush());
                return complain(&error);
            }
        };
        if peer.as_ref().is_some_and(|peer| *peer != record.peer) {
            continue;
        }
        if !output::is_done(show(&mut out, &record, json)) {
            return Exit::Good;
        }
    }
    output::is_done(out.flush());
    Exit::Good
}

fn show(out: &mut impl Write, record: &Record, json: bool) -> io::Result<()> {
    if json {
        serde_json::to_writer(&mut *out, &record.traced())?;
        writeln!(out)
    } else {
        writeln!(out, "{}", record.told())
    }
}

fn complain(error: &TraceError) -> Exit {
    match error {
        // the usual end of a file that is being written
        TraceError::Cut => {
            output::complain(&format!("note: {error}"));
            Exit::Good
        }
        TraceError::File { .. } | TraceError::NotATrace { .. } | TraceError::Damaged { .. } => {
            output::complain(&format!("error: {error}"));
            Exit::Bad
        }
    }
}
