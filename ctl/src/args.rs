//! Options and help of the commands that need a running node.

use crate::time::{parse_micros, parse_seconds};
use clap::{Args, Subcommand};
use portolan_api::{ApiError, Client, ClientError, DEFAULT_SOCKET, Endpoint};
use std::path::PathBuf;

const REACH: &str = "To reach a running node";

/// How to reach the node. These stand behind any online command.
#[derive(Args, Clone, Debug, Default)]
pub struct Reach {
    /// Unix socket of the node's API
    #[arg(long, global = true, help_heading = REACH, env = "PORTOLAN_SOCKET", value_name = "PATH", default_value = DEFAULT_SOCKET)]
    pub socket: PathBuf,
    /// TCP address of the node's API, e.g. http://192.0.2.1:8053, in place of the socket
    #[arg(long, global = true, help_heading = REACH, env = "PORTOLAN_URL", value_name = "URL", requires = "token_file")]
    pub url: Option<String>,
    /// File with the bearer token for --url
    #[arg(long, global = true, help_heading = REACH, env = "PORTOLAN_TOKEN_FILE", value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

impl Reach {
    /// A client of that node.
    pub fn client(&self) -> Result<Client, ClientError> {
        let endpoint = match (&self.url, &self.token_file) {
            (Some(url), Some(file)) => {
                let token = std::fs::read_to_string(file).map_err(|error| {
                    let error = format!("cannot read the token file {}: {error}", file.display());
                    let remedy = "name a file that holds the node's token with --token-file";
                    ClientError::Refused(Box::new(ApiError::new(0, error, Some(remedy.into()))))
                })?;
                Endpoint::Tcp { url: url.clone(), token: token.trim().to_owned() }
            }
            (None, _) | (_, None) => Endpoint::Socket(self.socket.clone()),
        };
        Client::new(endpoint)
    }
}

const TARGETS: &str = "\
Targets:
  SERVICE             every member of a service:   www.example.com
  SERVICE/MEMBER      one member, by its name, address, site or site/link:
                      www.example.com/192.0.2.10   www.example.com/beijing/ct
  site:NAME           every member at a site:      site:beijing
  link:SITE/NAME      every member on a link:      link:beijing/ct
  * and ? match anything within a part:            '*.example.com/beijing*'";

/// Whom a command is about, and why.
#[derive(Args, Clone, Debug)]
pub struct Action {
    /// Service, service/member, site:NAME or link:SITE/NAME
    pub target: String,
    /// Why, for those who look at `portolan status` later
    #[arg(long, short, default_value = "", value_name = "TEXT")]
    pub reason: String,
    /// Who; the login name when left out
    #[arg(long, value_name = "NAME")]
    pub author: Option<String>,
    /// End by itself after this long: 90s, 15m, 2h
    #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
    pub ttl: Option<u64>,
}

/// The commands that need a running node.
#[derive(Subcommand, Clone, Debug)]
pub enum Online {
    /// Show the node in one look; exits 1 when a service has failed or the last reload was refused
    #[command(after_help = "Examples:\n  portolan status\n  portolan status --json | jq .services")]
    Status,
    /// Show services and the state of their members; exits 1 when one shown has failed
    #[command(after_help = "Examples:\n  portolan services\n  portolan services '*.example.com' --json")]
    Services {
        /// Only services whose name matches; * and ? match anything
        name: Option<String>,
    },
    /// Show health checks; exits 1 when one is down
    #[command(
        after_help = "Examples:\n  portolan checks\n  portolan checks --json | jq '.[] | select(.state==\"down\")'"
    )]
    Checks,
    /// Give members no new clients; those there may finish
    #[command(after_help = format!("Examples:\n  portolan drain www.example.com/192.0.2.10 --reason 'kernel update'\n  portolan drain site:beijing --ttl 2h\n\n{TARGETS}"))]
    Drain(Action),
    /// Take members out of service
    #[command(after_help = format!("Examples:\n  portolan disable www.example.com/beijing/ct --reason 'link replaced'\n\n{TARGETS}"))]
    Disable(Action),
    /// Give members back to their checks: ends drain, disable, force, and a wait for manual resume
    #[command(after_help = format!("Examples:\n  portolan enable www.example.com/192.0.2.10\n  portolan enable '*'\n\n{TARGETS}"))]
    Enable(Action),
    /// Count members as up or down whatever their checks say
    #[command(after_help = format!("Examples:\n  portolan force down www.example.com/192.0.2.10 --ttl 15m\n  portolan force up link:beijing/ct\n\n{TARGETS}"))]
    Force {
        /// up or down
        #[arg(value_enum, hide_possible_values = true)]
        state: ForcedState,
        /// Whom, and why
        #[command(flatten)]
        action: Action,
    },
    /// Report the load of members, for the load step and the dynamic schedulers
    #[command(after_help = format!("Examples:\n  portolan load www.example.com/192.0.2.10 --share 0.8\n  portolan load site:beijing --connections 1200 --for 5m\n\n{TARGETS}"))]
    Load(LoadArgs),
    /// How far clients are from sites and links: show it, write it, take it away
    #[command(subcommand)]
    Proximity(Proximity),
    /// Read the config again; on any error the one in force stays
    #[command(
        after_help = "Examples:\n  portolan reload\n  portolan check -c /etc/portolan/portolan.toml && portolan reload"
    )]
    Reload,
}

/// The commands about peers that need a running node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peers {
    /// How it stands with each; exits 1 when one is not there.
    List,
    /// Frames as they come, of one or of all.
    Watch(Option<String>),
}

/// What can be done with distances.
#[derive(Subcommand, Clone, Debug)]
pub enum Proximity {
    /// Show what was measured, and what a query would go by; exits 1 when nothing is known of an address or prefix
    #[command(
        after_help = "Examples:\n  portolan proximity show\n  portolan proximity show 36.110.1.1\n  portolan proximity show 36.110.0.0/16 --limit 1000 --json"
    )]
    Show {
        /// A client's address, or a prefix; everything when left out
        #[arg(value_name = "PREFIX|ADDRESS")]
        of: Option<String>,
        /// Most prefixes to show
        #[arg(long, value_name = "COUNT")]
        limit: Option<u32>,
    },
    /// Write a round-trip time that goes before what is measured
    #[command(
        after_help = "Examples:\n  portolan proximity set 36.110.0.0/16 --site beijing --rtt 12ms --reason 'leased line'\n  portolan proximity set 2001:db8::/48 --site beijing --link ct --rtt 30ms --ttl 2h\n\nWhat is known of other sites stays, but goes behind what is written for the same clients."
    )]
    Set {
        /// Whose, and from where
        #[command(flatten)]
        place: Place,
        /// The round-trip time, 1ms to 10s: 12ms, 1.5ms, 0.2s
        #[arg(long, value_name = "TIME", value_parser = parse_micros)]
        rtt: u32,
        /// End by itself after this long: 90s, 15m, 2h
        #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
        ttl: Option<u64>,
    },
    /// Take a written round-trip time away
    #[command(after_help = "Examples:\n  portolan proximity unset 36.110.0.0/16 --site beijing")]
    Unset {
        /// Whose, and from where
        #[command(flatten)]
        place: Place,
    },
    /// Print everything that is known, as CSV or with --json
    #[command(
        after_help = "Examples:\n  portolan proximity export > distances.csv\n  portolan proximity export --json | jq '.[] | select(.source==\"icmp\")'"
    )]
    Export,
}

/// Whose distance, and from where.
#[derive(Args, Clone, Debug)]
pub struct Place {
    /// The clients
    pub prefix: String,
    /// The site
    #[arg(long, value_name = "SITE")]
    pub site: String,
    /// A link of the site
    #[arg(long, value_name = "LINK")]
    pub link: Option<String>,
    /// Why, for those who look later
    #[arg(long, short, default_value = "", value_name = "TEXT")]
    pub reason: String,
    /// Who; the login name when left out
    #[arg(long, value_name = "NAME")]
    pub author: Option<String>,
}

/// States that can be forced.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForcedState {
    /// Usable
    Up,
    /// Not usable
    Down,
}

/// A load to report.
#[derive(Args, Clone, Debug)]
pub struct LoadArgs {
    /// Service, service/member, site:NAME or link:SITE/NAME
    pub target: String,
    /// Share of capacity in use: 0.0 idle, 1.0 full
    #[arg(long, value_name = "SHARE")]
    pub share: Option<f32>,
    /// Open connections
    #[arg(long, value_name = "COUNT")]
    pub connections: Option<u32>,
    /// Bandwidth in use, bits per second
    #[arg(long, value_name = "BPS")]
    pub bandwidth: Option<u64>,
    /// Bandwidth there is, bits per second
    #[arg(long, value_name = "BPS")]
    pub bandwidth_max: Option<u64>,
    /// Time to answer, microseconds
    #[arg(long, value_name = "MICROSECONDS")]
    pub response: Option<u32>,
    /// Forget the report after this long
    #[arg(long = "for", value_name = "TIME", default_value = "60s", value_parser = parse_seconds)]
    pub ttl: u64,
}
