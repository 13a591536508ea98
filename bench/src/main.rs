//! The command `portolan-bench`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use portolan_bench::instructions::Verdict;
use portolan_bench::queries::Popularity;
use portolan_bench::report::Report;
use portolan_bench::run::{self, Client, Plan};
use portolan_bench::{Result, echo, instructions};

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
    /// Compare instruction counts with the committed baseline; fails when one has grown or is not in it
    Instructions(InstructionArguments),
}

#[derive(clap::Args)]
struct InstructionArguments {
    /// Folder with gungraun's summaries
    #[arg(long, default_value = "target/gungraun")]
    summaries: PathBuf,
    /// The committed counts
    #[arg(long, default_value = "bench/instructions.json")]
    baseline: PathBuf,
    /// Percent that a count may differ
    #[arg(long, default_value_t = 3.0)]
    tolerance: f64,
    /// Make the counts found the baseline
    #[arg(long)]
    write: bool,
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
        Some(Command::Instructions(arguments)) => check_instructions(&arguments),
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

fn check_instructions(arguments: &InstructionArguments) -> Result<ExitCode> {
    let found = instructions::read_summaries(&arguments.summaries)?;
    if found.is_empty() {
        return Err(format!(
            "no summaries in {}: run `make bench-instructions`",
            arguments.summaries.display()
        )
        .into());
    }
    if arguments.write {
        std::fs::write(&arguments.baseline, serde_json::to_string_pretty(&found)? + "\n")?;
    }
    let text = std::fs::read_to_string(&arguments.baseline)
        .map_err(|error| format!("{}: {error}", arguments.baseline.display()))?;
    let baseline: instructions::Counts = serde_json::from_str(&text)?;
    let verdicts = instructions::compare(&found, &baseline, arguments.tolerance / 100.0);
    let mut out = std::io::stdout().lock();
    for (name, verdict) in &verdicts {
        let count =
            |counts: &instructions::Counts| counts.get(name).map_or_else(|| "-".into(), u64::to_string);
        let word = match verdict {
            Verdict::Same => "same",
            Verdict::Better => "FEWER: write a new baseline",
            Verdict::Worse => "MORE",
            Verdict::New => "NEW: write a new baseline",
            Verdict::Gone => "GONE: write a new baseline",
        };
        writeln!(out, "{name:<40} {:>10} baseline {:>10}  {word}", count(&found), count(&baseline))?;
    }
    let holds = verdicts.values().all(|verdict| matches!(verdict, Verdict::Same | Verdict::Better));
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
