//! One interleaved run: in each round every server gets a burst in turn, so that a noisy minute hits all alike.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use crate::Result;
use crate::cpu::{self, CpuTime};
use crate::dnsperf;
use crate::load::{Depth, Load};
use crate::process;
use crate::queries::{Pool, Popularity};
use crate::servers::{self, ECHO, Running, Workload, World};
use crate::world::{self, Networks};

/// What to run.
pub struct Plan {
    /// Rounds.
    pub rounds: usize,
    /// How long a burst is measured.
    pub burst: Duration,
    /// Only servers whose name contains one of these; all when empty. The echo always runs.
    pub only: Vec<String>,
    /// The loads to give.
    pub clients: Vec<Client>,
    /// For networks and queries.
    pub seed: u64,
    /// Networks with a country; operator prefixes are about twice as many.
    pub networks: usize,
    /// How often names of the zone are asked.
    pub popularity: Popularity,
    /// The program under test.
    pub portolan: PathBuf,
    /// Keep the configurations and logs.
    pub keep: bool,
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Client {
    /// Our load source, the server always busy.
    Full,
    /// Our load source, 16 in flight.
    Shallow,
    /// dnsperf, 16 in flight.
    Dnsperf,
}

/// One burst.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub struct Burst {
    /// The round it belongs to.
    pub round: usize,
    /// Queries answered as expected.
    pub answered: u64,
    /// Of those, NXDOMAIN.
    pub no_name: u64,
    /// Not answered as expected, or not at all.
    pub failed: u64,
    /// Wall time.
    pub seconds: f64,
    /// The server's time on its core.
    pub cpu_ns: u64,
    /// Timer ticks in user space.
    pub user_ticks: u64,
    /// Timer ticks in the kernel.
    pub system_ticks: u64,
}

impl Burst {
    /// Processor microseconds per answered query.
    pub fn us_per_query(&self) -> f64 {
        self.cpu_ns as f64 / 1_000.0 / self.answered.max(1) as f64
    }
}

/// How a server came up with its zone and tables.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub struct Started {
    /// What it is asked.
    pub workload: Workload,
    /// Its name.
    pub server: &'static str,
    /// Seconds to the first answer.
    pub ready_s: f64,
    /// Megabytes it then holds.
    pub memory_mb: f64,
}

/// All bursts of a run, and what could not be run.
#[derive(Default)]
pub struct Outcome {
    /// Bursts by workload, client and server.
    pub bursts: BTreeMap<(Workload, Client, &'static str), Vec<Burst>>,
    /// Servers that were left out, with the reason.
    pub skipped: Vec<(Workload, &'static str, String)>,
    /// How each server came up.
    pub started: Vec<Started>,
    /// How many networks had a country, and prefixes an operator.
    pub networks: (usize, usize),
}

/// dnsperf starts anew for each burst; three rounds show enough.
const DNSPERF_ROUNDS: usize = 3;
/// After the others' bursts the caches are not the server's own; this long is not measured.
const WARM_UP: Duration = Duration::from_millis(150);

/// Runs the plan; `progress` gets a line for what happens.
///
/// # Errors
/// When the data cannot be made or the machine has one core only.
pub fn run(plan: &Plan, progress: &mut dyn Write) -> Result<Outcome> {
    let cores = process::cores()?;
    let &[server_core, load_core, ..] = &cores[..] else {
        return Err("server and load need a core each, and this process has only one".into());
    };
    let folder = tempfile::Builder::new().prefix("portolan-bench-").disable_cleanup(plan.keep).tempdir()?;
    let networks = Networks::generate(plan.seed, plan.networks);
    writeln!(
        progress,
        "{} networks with a country, {} prefixes with an operator; server on core {server_core}, load on {load_core}; files in {}",
        networks.geo_len(),
        networks.isp_len(),
        folder.path().display()
    )?;
    let world = write_world(&networks, folder.path().to_owned(), plan.portolan.clone())?;
    let mut outcome = Outcome { networks: (networks.geo_len(), networks.isp_len()), ..Outcome::default() };
    let mut running = start(plan, &world, folder.path(), server_core, &mut outcome, progress)?;
    let pools = Pools {
        fixed: Pool::of_static_names(plan.seed, plan.popularity),
        dynamic: Pool::of_dynamic_names(plan.seed, &networks),
    };
    drop(networks);
    for (workload, pool) in [(Workload::Static, &pools.fixed), (Workload::Dynamic, &pools.dynamic)] {
        std::fs::write(questions(folder.path(), workload), pool.as_text(20_000))?;
    }
    process::pin(load_core)?;
    for round in 0..plan.rounds {
        writeln!(progress, "round {} of {}", round + 1, plan.rounds)?;
        for client in plan.clients.iter().copied() {
            if client == Client::Dnsperf && round >= DNSPERF_ROUNDS {
                continue;
            }
            // another server begins each round, so none always runs after the same one
            let turn = round % running.len().max(1);
            running.rotate_left(turn);
            let mut failed = Vec::new();
            for one in &running {
                let key = (one.server.workload, client, one.server.name);
                let try_once = || burst(plan, round, client, one, &pools, load_core, folder.path());
                // on a busy machine a burst can go wrong; one that does so twice is the server's fault
                match try_once().or_else(|_| try_once()) {
                    Ok(burst) => outcome.bursts.entry(key).or_default().push(burst),
                    Err(error) => {
                        writeln!(progress, "{:?} {}: {error}", one.server.workload, one.server.name)?;
                        outcome.skipped.push((one.server.workload, one.server.name, error.to_string()));
                        failed.push((one.server.workload, one.server.name));
                    }
                }
            }
            // a server that fails is out: its figures would not be comparable
            running.retain(|one| !failed.contains(&(one.server.workload, one.server.name)));
            outcome.bursts.retain(|&(workload, _, name), _| !failed.contains(&(workload, name)));
        }
    }
    Ok(outcome)
}

struct Pools {
    fixed: Pool,
    dynamic: Pool,
}

impl Pools {
    fn of(&self, workload: Workload) -> &Pool {
        match workload {
            Workload::Static => &self.fixed,
            Workload::Dynamic => &self.dynamic,
        }
    }
}

fn questions(folder: &std::path::Path, workload: Workload) -> PathBuf {
    folder.join(format!("{workload:?}.questions"))
}

fn write_world(networks: &Networks, folder: PathBuf, portolan: PathBuf) -> Result<World> {
    let mmdb = folder.join("GeoLite2-City.mmdb");
    networks.write_mmdb(&mmdb)?;
    let isp_folder = folder.join("isp");
    std::fs::create_dir(&isp_folder)?;
    let operators = networks.write_isp_tables(&isp_folder)?;
    Ok(World { mmdb, isp_folder, operators, health_port: world::start_backends()?, portolan })
}

fn start(
    plan: &Plan,
    world: &World,
    folder: &std::path::Path,
    core: usize,
    outcome: &mut Outcome,
    progress: &mut dyn Write,
) -> Result<Vec<Running>> {
    let mut running = Vec::new();
    for server in servers::ALL {
        let wanted = plan.only.is_empty() || plan.only.iter().any(|part| server.name.contains(part.as_str()));
        if !wanted && server.name != ECHO {
            continue;
        }
        let own = folder.join(format!("{:?}-{}", server.workload, server.name));
        match server.start(world, &own, core) {
            Ok(one) => {
                outcome.started.push(Started {
                    workload: server.workload,
                    server: server.name,
                    ready_s: one.ready_s,
                    memory_mb: cpu::memory_mb(one.process.id()),
                });
                running.push(one);
            }
            Err(error) => {
                writeln!(progress, "{:?} {}: skipped, {error}", server.workload, server.name)?;
                outcome.skipped.push((server.workload, server.name, error.to_string()));
            }
        }
    }
    Ok(running)
}

fn burst(
    plan: &Plan,
    round: usize,
    client: Client,
    one: &Running,
    pools: &Pools,
    load_core: usize,
    folder: &std::path::Path,
) -> Result<Burst> {
    let pool = pools.of(one.server.workload);
    let pid = one.process.id();
    let depth = match client {
        Client::Full => Depth::Full,
        Client::Shallow => Depth::Shallow,
        Client::Dnsperf => {
            let before = CpuTime::of_tree(pid);
            let seconds = plan.burst.as_secs().max(1) as u32;
            let log = folder.join("dnsperf.log");
            let answered =
                dnsperf::run(one.address, &questions(folder, one.server.workload), seconds, load_core, &log)?;
            let used = CpuTime::of_tree(pid).since(before);
            return Ok(Burst {
                round,
                answered,
                no_name: 0,
                failed: 0,
                seconds: f64::from(seconds),
                cpu_ns: used.run_ns,
                user_ticks: used.user_ticks,
                system_ticks: used.system_ticks,
            });
        }
    };
    let mut load = Load::new(one.address, pool, depth, one.server.name == ECHO)?;
    // all servers of a round get the same queries, another stretch of the pool each round
    load.start_at(round * 100_000);
    load.run(WARM_UP)?;
    let before = CpuTime::of_tree(pid);
    let tally = load.run(plan.burst)?;
    let used = CpuTime::of_tree(pid).since(before);
    tally.check()?;
    Ok(Burst {
        round,
        answered: tally.answered(),
        no_name: tally.no_name,
        failed: tally.wrong + tally.lost,
        seconds: tally.seconds,
        cpu_ns: used.run_ns,
        user_ticks: used.user_ticks,
        system_ticks: used.system_ticks,
    })
}
