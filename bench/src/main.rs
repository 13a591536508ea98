//! The command `portolan-bench`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use portolan_bench::queries::Popularity;
use portolan_bench::report::Report;
use portolan_bench::run::{self, Client, Plan};
use portolan_bench::{Result, echo};

#[derive(Parser)]
#[command(about = "Compares Portolan's cost per query with other DNS servers in one run")]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArguments,
}

#[derive(Subcommand)]
enum Command {
    /// The floor: receive, send back, nothing else
    Echo {
        /// UDP port on 127.0.0.1
        #[arg(long)]
        port: u16,
    },
}

#[derive(clap::Args)]
struct RunArguments {
    /// Rounds; every server gets one burst of each client a round
    #[arg(long, default_value_t = 8)]
    rounds: usize,
    /// Milliseconds a burst is measured
    #[arg(long, default_value_t = 1_000)]
    burst_ms: u64,
    /// Only servers whose name contains this (repeatable); the echo always runs
    #[arg(long)]
    only: Vec<String>,
    /// Who asks
    #[arg(long, value_delimiter = ',', default_value = "full,shallow,dnsperf")]
    clients: Vec<Client>,
    /// Seed of networks and queries
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Networks with a country; operator prefixes are about twice as many
    #[arg(long, default_value_t = 500_000)]
    networks: usize,
    /// How often the names of the zone are asked
    #[arg(long, value_enum, default_value_t = Popularity::Uniform)]
    names: Popularity,
    /// The program under test
    #[arg(long, default_value = "target/release/portolan")]
    portolan: PathBuf,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
    /// Fail when a bar is missed
    #[arg(long)]
    strict: bool,
    /// Keep configurations and logs
    #[arg(long)]
    keep: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.command {
        None => compare(arguments.run),
        Some(Command::Echo { port }) => echo::serve(port).map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|error| {
        let _ = writeln!(std::io::stderr(), "portolan-bench: {error}");
        ExitCode::from(2)
    })
}

fn compare(arguments: RunArguments) -> Result<ExitCode> {
    let plan = Plan {
        rounds: arguments.rounds,
        burst: Duration::from_millis(arguments.burst_ms),
        only: arguments.only,
        clients: arguments.clients,
        seed: arguments.seed,
        networks: arguments.networks,
        popularity: arguments.names,
        portolan: arguments.portolan,
        keep: arguments.keep,
    };
    let report = Report::of(run::run(&plan, &mut std::io::stderr())?);
    let mut out = std::io::stdout().lock();
    if arguments.json {
        serde_json::to_writer_pretty(&mut out, &report)?;
        writeln!(out)?;
    } else {
        write!(out, "{report}")?;
    }
    let failed = arguments.strict && !report.all_met();
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
