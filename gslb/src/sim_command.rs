//! `portolan sim`: how good decisions are in a world given as data, and what agreement between nodes costs.

use clap::{Args, Subcommand};
use portolan_ctl::run::show;
use portolan_ctl::{Exit, output};
use portolan_sim::generate::{self, Parameters};
use portolan_sim::peers::{self, Scale};
use portolan_sim::report::{Figures, Report};
use portolan_sim::{Options, Strategy, World, world};
use std::path::PathBuf;

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Sim {
    #[command(subcommand)]
    command: Option<Command>,
    /// The world file; without one the standard world is generated
    #[arg(long, value_name = "FILE")]
    world: Option<PathBuf>,
    /// Ways to choose, next to each other [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    strategy: Vec<String>,
    /// Minutes of the world's time
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=10_080))]
    minutes: u64,
    /// Another course of chance in the same world
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,
    /// Let sites see the TCP handshakes of the clients they serve
    #[arg(long)]
    handshakes: bool,
    /// Probe nobody
    #[arg(long)]
    no_probes: bool,
    /// Simulate this many nodes and what they tell each other, instead of a world
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["world", "strategy", "minutes", "handshakes", "no_probes"])]
    peers: Option<usize>,
    /// Virtual servers of each node
    #[arg(long, value_name = "NUMBER", requires = "peers", default_value_t = 1_000)]
    servers: usize,
    /// Nodes that are connected to all others, and measured
    #[arg(long, value_name = "NUMBER", requires = "peers", default_value_t = 2)]
    observers: usize,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Write a world file
    #[command(
        after_help = "Examples:\n  portolan sim generate --seed 7 -o world.json\n  portolan sim generate --sites 5 --prefixes 300 --rate 300 | jq .sites"
    )]
    Generate(Generate),
}

#[derive(Args, Debug)]
struct Generate {
    /// Seed of everything in it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Sites
    #[arg(long, default_value_t = 12)]
    sites: usize,
    /// Client prefixes
    #[arg(long, default_value_t = 20_000)]
    prefixes: usize,
    /// Lookups a second by all clients together
    #[arg(long, default_value_t = 5_000.0)]
    rate: f64,
    /// Exponent of Zipf's law over the prefixes' rates
    #[arg(long, default_value_t = 1.0)]
    zipf: f64,
    /// Share of prefixes that the geo table believes more than 1,000 km away
    #[arg(long, default_value_t = 0.10)]
    misplaced: f64,
    /// Share of prefixes that the ISP table gives to another operator
    #[arg(long, default_value_t = 0.05)]
    wrong_operator: f64,
    /// Share of prefixes that use an anycast resolver
    #[arg(long, default_value_t = 0.15)]
    anycast: f64,
    /// Share of those whose resolver tells the client's subnet
    #[arg(long, default_value_t = 0.6)]
    ecs: f64,
    /// Share of prefixes that answer no probe
    #[arg(long, default_value_t = 0.30)]
    silent: f64,
    /// How much of a path's detour its neighbours in the operator's network share
    #[arg(long, default_value_t = 0.7)]
    alike: f64,
    /// Write to this file instead of the output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(sim: Sim, json: bool) -> Exit {
    let result = match sim {
        Sim { command: Some(Command::Generate(generate)), .. } => write_world(generate),
        Sim { peers: Some(count), servers, observers, seed, .. } => {
            let scale = Scale { peers: count, servers, observers: observers.min(count), seed };
            scale.check().map(|()| {
                let costs = peers::run(scale);
                show(json, &costs, || costs.text());
            })
        }
        sim => run_world(&sim, json),
    };
    match result {
        Ok(()) => Exit::Good,
        Err(message) => {
            output::complain(&format!("error: {message}"));
            Exit::Bad
        }
    }
}

fn write_world(generate: Generate) -> Result<(), String> {
    let Generate {
        seed,
        sites,
        prefixes,
        rate,
        zipf,
        misplaced,
        wrong_operator,
        anycast,
        ecs,
        silent,
        alike,
        output,
    } = generate;
    let parameters = Parameters {
        seed,
        sites,
        prefixes,
        rate,
        zipf,
        misplaced,
        wrong_operator,
        anycast,
        ecs,
        silent,
        alike,
    };
    parameters.check()?;
    let text = world::to_text(&generate::world(&parameters));
    match output {
        Some(path) => {
            std::fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
        }
        None => {
            output::write(&text);
            Ok(())
        }
    }
}

fn run_world(sim: &Sim, json: bool) -> Result<(), String> {
    let strategies = strategies(&sim.strategy)?;
    let world = match &sim.world {
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            portolan_sim::from_text(&text)
        }
        None => World::new(&generate::world(&Parameters::default())),
    };
    let world = world.map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let file = sim.world.as_ref().map_or_else(String::new, |path| path.display().to_string());
        format!("{file} cannot be used\n  {}", lines.join("\n  "))
    })?;
    let run = |strategy| {
        let options = Options {
            strategy,
            seed: sim.seed,
            duration_ms: sim.minutes * 60_000,
            handshakes: sim.handshakes,
            probes: !sim.no_probes,
            ..Options::default()
        };
        Figures::new(&portolan_sim::run(&world, &options))
    };
    let report = Report {
        world: world.name.clone(),
        seed: sim.seed,
        seconds: sim.minutes * 60,
        strategies: strategies.into_iter().map(run).collect(),
    };
    show(json, &report, || report.text());
    Ok(())
}

fn strategies(names: &[String]) -> Result<Vec<Strategy>, String> {
    if names.is_empty() {
        return Ok(Strategy::ALL.to_vec());
    }
    let find = |name: &String| {
        let known: Vec<&str> = Strategy::ALL.into_iter().map(Strategy::name).collect();
        Strategy::ALL
            .into_iter()
            .find(|strategy| strategy.name() == name)
            .ok_or_else(|| format!("no way to choose is called {name:?}; there are {}", known.join(", ")))
    };
    names.iter().map(find).collect()
}
