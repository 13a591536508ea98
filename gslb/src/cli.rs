//! The command line.

use crate::{demo, dump, offline, pki, run, sim_command};
use clap::{Args, CommandFactory, Parser, Subcommand};
use portolan_api::{ExplainQuery, LookupQuery, Version};
use portolan_ctl::run::{finish, show};
use portolan_ctl::{Exit, Online, Paint, Reach, output, print};
use std::net::IpAddr;
use std::path::PathBuf;

/// Where a packaged node has its config.
const DEFAULT_CONFIG: &str = "/etc/portolan/portolan.toml";

const EXIT_CODES: &str = "\
Exit codes:
  0  done, or the answer is yes
  1  it failed, or the answer is no (config with errors, unknown target, failed service)
  2  the command line makes no sense
  3  no node answers at the socket";

/// Global DNS load balancer: answers authoritatively, picks the site and the ISP link for each query, and explains it
#[derive(Parser, Debug)]
#[command(name = "portolan", version, after_help = EXIT_CODES, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Run a node
    #[command(
        after_help = "Examples:\n  portolan run\n  portolan run -c portolan.toml\n\nSIGHUP reloads the config, SIGTERM and Ctrl-C end the node."
    )]
    Run(Config),
    /// Read a config with all its zones and tables, report every problem, and run its [[expect]] tests
    #[command(
        after_help = "Examples:\n  portolan check -c portolan.toml\n  portolan check --json | jq '.problems[].message'"
    )]
    Check(Config),
    /// Show what would be answered to a client, and why: by the running node, or with -c by a config file
    #[command(
        after_help = "Examples:\n  portolan explain www.example.com --from 36.110.1.1\n  portolan explain www.example.com --from 192.0.2.53 --ecs 36.110.1.0/24 --type AAAA\n  portolan explain www.example.com --from 36.110.1.1 -c portolan.toml --json\n\nWith -c all members are taken as up. --entropy and --turn repeat a choice exactly."
    )]
    Explain(Explain),
    #[command(flatten)]
    Online(Online),
    /// Ask the prefix tables
    #[command(subcommand)]
    Tables(Tables),
    /// Show the other nodes and how it stands with them; exits 1 when one is not there
    #[command(
        after_help = "Examples:\n  portolan peers\n  portolan peers --json | jq '.peers[] | select(.stale)'\n  portolan peers dump --peer fra1\n  portolan peers dump peers.trace"
    )]
    Peers {
        /// Something else
        #[command(subcommand)]
        command: Option<Peers>,
    },
    /// Make the keys by which nodes know each other
    #[command(subcommand)]
    Pki(pki::Pki),
    /// Print the JSON schema of the config, for editors
    #[command(after_help = "Examples:\n  portolan schema > portolan.schema.json")]
    Schema,
    /// Print completions for a shell
    #[command(
        after_help = "Examples:\n  portolan completions bash > /etc/bash_completion.d/portolan\n  portolan completions zsh > ~/.zfunc/_portolan"
    )]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Measure decisions in a simulated world, or what agreement between many nodes costs
    #[command(
        after_help = "Examples:\n  portolan sim\n  portolan sim --world world.json --strategy portolan,geo --json\n  portolan sim --peers 100 --servers 1000\n  portolan sim generate --seed 7 -o world.json\n\ndocs/simulation.md describes world files and figures."
    )]
    Sim(sim_command::Sim),
    /// Run three sites with several ISP links each on this machine's loopback, and try them
    #[command(
        after_help = "Examples:\n  portolan demo\n  portolan demo --once\n\nIt starts small HTTP servers to check, asks for clients of several operators, stops a server and\nshows the answers change. Then it stays up for your own dig until Ctrl-C."
    )]
    Demo {
        /// End after the tour; exits 1 when an answer is not the expected one
        #[arg(long)]
        once: bool,
    },
    /// Print the version of the program
    Version,
}

#[derive(Args, Debug)]
struct Config {
    /// The config file
    #[arg(short, long, env = "PORTOLAN_CONFIG", value_name = "FILE", default_value = DEFAULT_CONFIG)]
    config: PathBuf,
}

#[derive(Args, Debug)]
struct Explain {
    /// The name asked for
    name: String,
    /// Where the query comes from: a client, or the resolver it uses
    #[arg(long, value_name = "ADDRESS")]
    from: IpAddr,
    /// The client subnet in the query
    #[arg(long, value_name = "PREFIX")]
    ecs: Option<String>,
    /// The record type asked for
    #[arg(long = "type", value_name = "TYPE", default_value = "A")]
    rrtype: String,
    /// Dice to repeat a choice with
    #[arg(long, value_name = "NUMBER")]
    entropy: Option<u64>,
    /// Turn of round robin to repeat a choice with
    #[arg(long, value_name = "NUMBER")]
    turn: Option<u64>,
    /// Decide by this config file, without a node
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
enum Peers {
    /// Decode the frames that a node and its peers say to each other: live, or from a trace that the node wrote
    #[command(
        after_help = "Examples:\n  portolan peers dump\n  portolan peers dump --peer fra1\n  portolan peers dump peers.trace\n  portolan peers dump peers.trace --peer fra1 --json | jq -c .frame.Hello\n\nWithout a file it shows the frames of the running node from now on, until Ctrl-C."
    )]
    Dump(dump::Dump),
}

#[derive(Subcommand, Debug)]
enum Tables {
    /// Show what the tables say of an address, and in which line
    #[command(
        after_help = "Examples:\n  portolan tables lookup 36.110.1.1\n  portolan tables lookup 2001:db8::1 -c portolan.toml"
    )]
    Lookup {
        /// The address
        address: IpAddr,
        /// Look in the tables of this config file, without a node
        #[arg(short, long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
}

/// Reads the command line and does what it says.
#[must_use]
pub fn main() -> Exit {
    // one provider for the checks' TLS and the API's client; a second call would only say that it is there
    let _ = rustls::crypto::ring::default_provider().install_default();
    let Cli { command, json, reach } = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            output::is_done(error.print());
            return if error.use_stderr() { Exit::Usage } else { Exit::Good };
        }
    };
    match command {
        Command::Run(Config { config }) => run::run(&config),
        Command::Check(Config { config }) => offline::check(&config, json),
        Command::Explain(explain) => explain_it(explain, &reach, json),
        Command::Online(online) => block_on(portolan_ctl::run(&online, &reach, json)),
        Command::Tables(Tables::Lookup { address, config: Some(config) }) => {
            offline::lookup(&config, address, json)
        }
        Command::Tables(Tables::Lookup { address, config: None }) => block_on(async {
            let result = async {
                let lookup = reach.client()?.lookup(&LookupQuery { address }).await?;
                show(json, &lookup, || print::lookup(&lookup, Paint::stdout()));
                Ok(if lookup.hits.is_empty() { Exit::Bad } else { Exit::Good })
            };
            finish(json, result.await)
        }),
        Command::Peers { command: None } => {
            block_on(portolan_ctl::run::peers(&portolan_ctl::Peers::List, &reach, json))
        }
        Command::Peers { command: Some(Peers::Dump(dump)) } => match dump.watched() {
            Some(watch) => block_on(portolan_ctl::run::peers(&watch, &reach, json)),
            None => dump::run(&dump, json),
        },
        Command::Pki(command) => pki::run(&command, json),
        Command::Schema => {
            output::write_json(&portolan_config::json_schema());
            Exit::Good
        }
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "portolan", &mut script);
            output::write(&String::from_utf8_lossy(&script));
            Exit::Good
        }
        Command::Sim(sim) => sim_command::run(sim, json),
        Command::Demo { once } => demo::run(once),
        Command::Version => {
            let version =
                Version { version: env!("CARGO_PKG_VERSION").into(), api: portolan_api::API_VERSION };
            show(json, &version, || format!("portolan {}\n", version.version));
            Exit::Good
        }
    }
}

fn explain_it(explain: Explain, reach: &Reach, json: bool) -> Exit {
    let Explain { name, from, ecs, rrtype, entropy, turn, config } = explain;
    let query = ExplainQuery { name, rrtype, from, ecs, entropy, turn };
    if let Some(config) = config {
        return offline::explain(&config, &query, json);
    }
    block_on(async {
        let result = async {
            let explained = reach.client()?.explain(&query).await?;
            show(json, &explained, || print::explained(&explained, Paint::stdout()));
            Ok(Exit::Good)
        };
        finish(json, result.await)
    })
}

/// Runs a command that waits for an answer.
fn block_on(command: impl Future<Output = Exit>) -> Exit {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(command),
        Err(error) => {
            output::complain(&format!("error: cannot start: {error}"));
            Exit::Bad
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }
}
