//! `[node]`, `[dns]`, `[api]`, `[metrics]` and `[log]`: settings of the daemon.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use portolan_balance::policy::SiteId;
use portolan_dns::cookie::{CookieSecrets, Secret};
use portolan_dns::ecs::{EcsPolicy, PrefixSet};
use portolan_dns::rrl::RrlConfig;

use super::names::{Lists, Sites};
use crate::files::FileSource;
use crate::gather::resolve;
use crate::place::{At, Span};
use crate::problem::Problem;
use crate::spec::{self, Cookies as Written, Listen, Spec};

/// This node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub site: SiteId,
    /// Folder of what is kept over a restart.
    pub state: Option<PathBuf>,
    /// Threads that answer UDP; `None`: one for each CPU the process may use.
    pub threads: Option<usize>,
}

/// The DNS server.
#[derive(Clone, Debug)]
pub struct Dns {
    /// Addresses for UDP and TCP.
    pub listen: Vec<SocketAddr>,
    /// Client subnets.
    pub ecs: EcsPolicy,
    /// Cookies.
    pub cookies: Cookies,
    /// Answer to NSID.
    pub nsid: Option<String>,
    /// Answer to version.bind.
    pub version: Option<String>,
    /// Answer to id.server.
    pub id: Option<String>,
    /// Largest UDP answer.
    pub udp_size: u16,
    /// Limits of TCP.
    pub tcp: Tcp,
    /// Response rate limiting.
    pub rrl: Option<RrlConfig>,
}

/// DNS cookies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cookies {
    /// None.
    Off,
    /// With a secret that the daemon draws.
    Drawn,
    /// With these.
    Shared(CookieSecrets),
}

/// Limits of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// Connections at once.
    pub max_connections: usize,
    /// A connection without a query is closed after this.
    pub idle_timeout: Duration,
    /// A query must arrive whole, and an answer be taken, within this.
    pub query_timeout: Duration,
    /// Queries of a connection in work at once.
    pub pipeline: usize,
}

/// The control API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Api {
    /// Unix sockets.
    pub unix: Vec<PathBuf>,
    /// TCP sockets, for clients with the token.
    pub tcp: Vec<SocketAddr>,
    /// File with the token.
    pub token_file: Option<PathBuf>,
}

pub(crate) fn node(
    spec: &Spec,
    sites: &mut Sites,
    files: &dyn FileSource,
    paths: &[PathBuf],
    problems: &mut Vec<Problem>,
) -> Node {
    let spec::Node { at: _, name, site, state, persist_entries: _, threads } = &*spec.node;
    if spec.node.is_whole {
        super::names::good_name("node", name, problems);
    }
    let state = state.as_ref().map(|folder| {
        let path = resolve(paths, folder);
        if files.is_file(&path) {
            let message = format!("{} is no folder", path.display());
            problems.push(
                Problem::error("unreadable", folder.at, message)
                    .help("name a folder; it is made when it is missing"),
            );
        }
        path
    });
    Node {
        name: name.value.clone(),
        site: Some(site)
            .filter(|_| spec.node.is_whole)
            .and_then(|site| sites.find(site, problems))
            .unwrap_or(SiteId(0)),
        state,
        threads: threads.map(|threads| threads.get::<u16>().into()),
    }
}

pub(crate) fn dns(
    spec: &Spec,
    lists: &mut Lists<'_>,
    files: &dyn FileSource,
    paths: &[PathBuf],
    problems: &mut Vec<Problem>,
) -> Dns {
    let spec::Dns { at: _, listen, zones: _, ecs, cookies, nsid, version, id, udp_size, tcp, rrl } =
        &*spec.dns;
    distinct(listen, problems);
    let mut text = |text: &Option<At<String>>| {
        let text = text.as_ref()?;
        // one character-string of a TXT record (RFC 1035 3.3.14)
        if text.is_empty() || text.len() > 255 {
            let message = format!("the text has {} octets", text.len());
            problems.push(Problem::error("bad-value", text.at, message).help("write 1 to 255 octets"));
        }
        Some(text.value.clone())
    };
    let (nsid, version, id) = (text(nsid), text(version), text(id));
    let allow = lists.resolve(&ecs.allow, problems);
    Dns {
        listen: listen.iter().map(|socket| socket.value).collect(),
        ecs: EcsPolicy {
            enabled: ecs.enabled,
            allow: (!ecs.allow.is_empty()).then(|| prefixes(&allow)),
            // where nothing is written, the prefixes decide once they are known
            accept_private: ecs.accept_private.as_ref().is_some_and(|written| written.value),
        },
        cookies: match cookies {
            Written::Off => Cookies::Off,
            Written::On => Cookies::Drawn,
            Written::Shared(shared) => {
                secrets(&shared.secret_file, files, paths, problems).map_or(Cookies::Drawn, Cookies::Shared)
            }
        },
        nsid,
        version,
        id,
        udp_size: udp_size.get(),
        tcp: Tcp {
            max_connections: tcp.max_connections.get::<u32>() as usize,
            idle_timeout: timeout(&tcp.idle_timeout, problems),
            query_timeout: timeout(&tcp.query_timeout, problems),
            pipeline: tcp.pipeline.get::<u16>().into(),
        },
        rrl: rrl.as_ref().map(|rrl| {
            let rate = rrl.rate.get();
            RrlConfig {
                responses_per_s: rate,
                nodata_per_s: rate,
                nxdomain_per_s: rate,
                referrals_per_s: rate,
                errors_per_s: rate,
                v4_prefix: rrl.ipv4_prefix.get(),
                v6_prefix: rrl.ipv6_prefix.get(),
                slip: rrl.slip.get(),
                buckets: rrl.table_size.get::<u32>() as usize,
                exempt: prefixes(&lists.resolve(&rrl.exempt, problems)),
            }
        }),
    }
}

fn prefixes(nets: &[IpNet]) -> PrefixSet {
    PrefixSet::new(nets.iter().map(|net| (net.network(), net.prefix_len())))
}

fn timeout(length: &At<crate::read::Length>, problems: &mut Vec<Problem>) -> Duration {
    let time = length.value.0;
    if !(Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&time) {
        problems.push(Problem::error("bad-value", length.at, format!("{time:?} is outside 100ms to 1h")));
    }
    time
}

/// Reads one or two secrets of 32 hex digits.
fn secrets(
    file: &At<PathBuf>,
    files: &dyn FileSource,
    paths: &[PathBuf],
    problems: &mut Vec<Problem>,
) -> Option<CookieSecrets> {
    let path = resolve(paths, file);
    let octets = match files.read(&path) {
        Ok(octets) => octets,
        Err(error) => {
            let message = format!("cannot read {}: {error}", path.display());
            problems.push(Problem::error("unreadable", file.at, message));
            return None;
        }
    };
    let text = String::from_utf8_lossy(&octets);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let secrets: Option<Vec<Secret>> = lines.map(secret).collect();
    match secrets.as_deref() {
        Some([current]) => Some(CookieSecrets { current: *current, previous: None }),
        Some([current, previous]) => Some(CookieSecrets { current: *current, previous: Some(*previous) }),
        // the secrets themselves are not shown
        Some(_) | None => {
            let message = format!("{} must hold one or two lines of 32 hex digits", path.display());
            problems.push(
                Problem::error("bad-value", file.at, message).help("make one with `openssl rand -hex 16`"),
            );
            None
        }
    }
}

fn secret(line: &str) -> Option<Secret> {
    let is_hex = line.len() == 32 && line.bytes().all(|octet| octet.is_ascii_hexdigit());
    is_hex.then(|| u128::from_str_radix(line, 16).ok()).flatten().map(u128::to_be_bytes)
}

pub(crate) fn api(
    spec: &Spec,
    files: &dyn FileSource,
    paths: &[PathBuf],
    problems: &mut Vec<Problem>,
) -> Option<Api> {
    let spec::Api { at: _, listen, token_file } = spec.api.as_ref()?;
    crate::read::not_empty(&listen.0, listen.at, "`listen`", problems);
    let mut api = Api::default();
    for socket in listen.iter() {
        match &socket.value {
            Listen::Unix(path) => api.unix.push(resolve(paths, &At { value: path.clone(), at: socket.at })),
            Listen::Tcp(address) => {
                if token_file.is_none() {
                    let message = format!("{address} would let anybody in");
                    let problem = Problem::error("missing-key", socket.at, message);
                    problems.push(problem.help("add token_file = \"FILE\", or listen on a unix socket"));
                }
                api.tcp.push(*address);
            }
        }
    }
    api.token_file = token_file.as_ref().map(|file| {
        let path = resolve(paths, file);
        if !files.is_file(&path) {
            problems.push(Problem::error(
                "unreadable",
                file.at,
                format!("there is no file {}", path.display()),
            ));
        }
        path
    });
    Some(api)
}

pub(crate) fn metrics(spec: &Spec, problems: &mut Vec<Problem>) -> Vec<SocketAddr> {
    let Some(metrics) = &*spec.metrics else { return Vec::new() };
    crate::read::not_empty(&metrics.listen.0, metrics.listen.at, "`listen`", problems);
    distinct(&metrics.listen.0, problems);
    metrics.listen.iter().map(|socket| socket.value).collect()
}

pub(crate) fn distinct(sockets: &[At<SocketAddr>], problems: &mut Vec<Problem>) {
    let mut seen: HashMap<SocketAddr, Span> = HashMap::new();
    for socket in sockets {
        if let Some(first) = seen.insert(socket.value, socket.at) {
            let problem = Problem::error("twice", socket.at, format!("{} is there twice", socket.value));
            problems.push(problem.see(first, "first here").help("remove one of the two"));
        }
    }
}
