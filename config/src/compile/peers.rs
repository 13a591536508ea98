//! `[peers]`: who the other nodes are, and how they are known.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use portolan_balance::policy::SiteId;

use super::names::{Sites, good_name};
use crate::files::FileSource;
use crate::gather::resolve;
use crate::place::{At, Span};
use crate::problem::Problem;
use crate::spec::{self, Pin, Spec};

/// The other nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peers {
    /// Sockets that peers connect to; one in this version.
    pub listen: SocketAddr,
    /// This node's certificate and key, without their endings.
    pub identity: PathBuf,
    /// This node's certificate.
    pub certificate: PathBuf,
    /// This node's key.
    pub key: PathBuf,
    /// How long the claims of a silent peer live.
    pub hold: Duration,
    /// A peer that has nothing to say says so after this.
    pub keepalive: Duration,
    /// File of the frames that this node sends and receives.
    pub trace: Option<PathBuf>,
    /// The peers, in the order of the config.
    pub members: Vec<Peer>,
}

/// A peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub site: SiteId,
    /// Where it listens.
    pub address: SocketAddr,
    /// Pins of its key: several while it changes.
    pub pins: Vec<Pin>,
}

/// Most peers of a node; each has a connection of its own.
const LIMIT: usize = 1000;

pub(crate) fn compile(
    spec: &Spec,
    sites: &mut Sites,
    files: &dyn FileSource,
    paths: &[PathBuf],
    problems: &mut Vec<Problem>,
) -> Option<Peers> {
    let spec::Peers { at, listen, identity, hold, keepalive, trace, members } = spec.peers.as_ref()?;
    crate::read::not_empty(&listen.0, listen.at, "`listen`", problems);
    one_socket(&listen.0, problems);
    listen.iter().for_each(|socket| has_port(socket, problems));
    let (identity, certificate, key) = identity_files(identity, &spec.node.name, files, paths, problems);
    let (hold, keepalive) = times(hold, keepalive.as_ref(), problems);
    let trace = trace.as_ref().map(|file| resolve(paths, file));
    if members.is_empty() {
        let problem = Problem::warning("empty", *at, "[peers] has no members");
        problems.push(problem.help(
            "add members = [{ name = \"…\", site = \"…\", address = \"192.0.2.1:7353\", pin = \"sha256:…\" }]",
        ));
    }
    if let Some(peer) = members.get(LIMIT) {
        problems.push(Problem::error("too-many", peer.at, format!("more than {LIMIT} peers")));
    }
    let mut seen = Seen::default();
    let members = members.iter().take(LIMIT).map(|peer| {
        seen.check(peer, problems);
        if spec.node.is_whole && peer.name.value == spec.node.name.value {
            let message = format!("{:?} is this node itself", peer.name.value);
            let problem = Problem::error("bad-value", peer.name.at, message);
            let problem = problem.see(spec.node.name.at, "this node's name");
            problems.push(problem.help("remove it, or give this node another name"));
        }
        reachable(peer, &listen.0, problems);
        Peer {
            name: peer.name.value.clone(),
            site: sites.find(&peer.site, problems).unwrap_or(SiteId(0)),
            address: peer.address.value,
            pins: peer.pin.iter().map(|pin| pin.value).collect(),
        }
    });
    let members = members.collect();
    Some(Peers {
        listen: listen.0.first()?.value,
        identity,
        certificate,
        key,
        hold,
        keepalive,
        trace,
        members,
    })
}

/// The endpoint has one socket in this version. The form takes a list, so that a second one is told what is wrong.
fn one_socket(listen: &[At<SocketAddr>], problems: &mut Vec<Problem>) {
    let [first, more, ..] = listen else { return };
    let message = "this version listens for peers at one address".to_owned();
    let problem = Problem::error("too-many", more.at, message).see(first.at, "the first is here");
    problems.push(problem.help("keep the one that all peers reach; all of them must be of its family"));
}

fn times(
    hold: &At<crate::read::Length>,
    keepalive: Option<&At<crate::read::Length>>,
    problems: &mut Vec<Problem>,
) -> (Duration, Duration) {
    let held = hold.value.0;
    if !(Duration::from_millis(300)..=Duration::from_secs(3600)).contains(&held) {
        let message = format!("{held:?} is outside 300ms to 1h");
        problems.push(Problem::error("bad-value", hold.at, message).help("\"3s\" is usual"));
    }
    let Some(written) = keepalive else { return (held, held / 3) };
    let time = written.value.0;
    if !(Duration::from_millis(50)..=held / 2).contains(&time) {
        let message = format!("a keepalive of {time:?} is outside 50ms to half of `hold`, {:?}", held / 2);
        let problem = Problem::error("bad-value", written.at, message).see(hold.at, "`hold`");
        problems.push(problem.help("leave it out: it is a third of `hold` then, so that two may get lost"));
    }
    (held, time)
}

/// Certificate and key. They may be missing: a config is also checked where its secrets are not.
fn identity_files(
    identity: &At<PathBuf>,
    node: &str,
    files: &dyn FileSource,
    paths: &[PathBuf],
    problems: &mut Vec<Problem>,
) -> (PathBuf, PathBuf, PathBuf) {
    let path = resolve(paths, identity);
    if let Some(ending) = path.extension().filter(|it| *it == "crt" || *it == "key" || *it == "pem") {
        let message = format!("the identity {} ends with .{}", path.display(), ending.display());
        let stem = identity.value.with_extension("");
        problems.push(
            Problem::error("bad-value", identity.at, message)
                .help(format!("write it without the ending: {:?}", stem.display().to_string())),
        );
        let path = path.with_extension("");
        let (certificate, key) = (with_ending(&path, "crt"), with_ending(&path, "key"));
        return (path, certificate, key);
    }
    let (certificate, key) = (with_ending(&path, "crt"), with_ending(&path, "key"));
    let folder = path.parent().unwrap_or(Path::new(".")).display();
    for file in [&certificate, &key] {
        if !files.is_file(file) {
            let message = format!("there is no file {}: this node cannot speak to its peers", file.display());
            problems.push(
                Problem::warning("unreadable", identity.at, message)
                    .help(format!("make it with `portolan pki issue {folder} {node}`")),
            );
        }
    }
    if let Some(mode) = files.mode(&key).filter(|mode| mode & 0o077 != 0) {
        let message = format!("others may read the key {} (mode {mode:04o})", key.display());
        problems.push(
            Problem::warning("permissions", identity.at, message)
                .help(format!("chmod 600 {}; if anybody else had it, issue a new one", key.display())),
        );
    }
    (path, certificate, key)
}

/// `bj1.example` is a name, not a stem.
fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

fn has_port(socket: &At<SocketAddr>, problems: &mut Vec<Problem>) {
    if socket.port() == 0 {
        let message = format!("{} has no port", socket.value);
        problems.push(Problem::error("bad-value", socket.at, message).help("7353 is usual"));
    }
}

/// Whether a peer can be reached from where this node listens: connections to it leave from there.
fn reachable(peer: &spec::Peer, listen: &[At<SocketAddr>], problems: &mut Vec<Problem>) {
    let address = &peer.address;
    has_port(address, problems);
    let ip = address.ip().to_canonical();
    if ip.is_unspecified() || ip.is_multicast() {
        let message = format!("{ip} is no address of a peer");
        problems.push(
            Problem::error("bad-value", address.at, message)
                .help("give the address that it can be reached at"),
        );
        return;
    }
    if listen.is_empty() {
        return;
    }
    let same: Vec<IpAddr> = listen
        .iter()
        .map(|socket| socket.ip().to_canonical())
        .filter(|mine| mine.is_ipv4() == ip.is_ipv4())
        .collect();
    let first = listen.first().map_or(Span::NOWHERE, |socket| socket.at);
    if same.is_empty() {
        let (family, any) = if ip.is_ipv4() { ("IPv4", "0.0.0.0") } else { ("IPv6", "[::]") };
        let message =
            format!("peer {:?} is at {ip}, and this node listens at no {family} address", peer.name.value);
        let problem = Problem::error("family", address.at, message).see(first, "`listen`");
        let port = listen.first().map_or(7353, |socket| socket.port());
        problems.push(problem.help(format!(
            "peers are of one family: listen at \"{any}:{port}\" instead, or give its other address"
        )));
    } else if !ip.is_loopback() && same.iter().all(IpAddr::is_loopback) {
        let message = format!("peer {:?} at {ip} cannot be reached from a loopback address", peer.name.value);
        let problem = Problem::warning("family", address.at, message).see(first, "`listen`");
        problems.push(problem.help("listen at an address that peers can reach"));
    }
}

/// What only one peer may have.
#[derive(Default)]
struct Seen {
    names: HashMap<String, Span>,
    addresses: HashMap<SocketAddr, Span>,
    pins: HashMap<Pin, Span>,
}

impl Seen {
    fn check(&mut self, peer: &spec::Peer, problems: &mut Vec<Problem>) {
        good_name("peer", &peer.name, problems);
        crate::read::not_empty(&peer.pin.0, peer.pin.at, "`pin`", problems);
        let name = &peer.name;
        let message = format!("peer {:?} is there twice", name.value);
        once(
            &mut self.names,
            name.value.clone(),
            name.at,
            message,
            "give each node a name of its own",
            problems,
        );
        let address = &peer.address;
        let message = format!("two peers are at {}", address.value);
        once(&mut self.addresses, address.value, address.at, message, "correct one of the two", problems);
        for pin in peer.pin.iter() {
            let message = "two pins are the same: each node has a key of its own".to_owned();
            let help = "print the right one with `portolan pki pin DIR NAME`";
            once(&mut self.pins, pin.value, pin.at, message, help, problems);
        }
    }
}

fn once<K: Eq + Hash>(
    seen: &mut HashMap<K, Span>,
    key: K,
    at: Span,
    message: String,
    help: &str,
    problems: &mut Vec<Problem>,
) {
    if let Some(first) = seen.insert(key, at) {
        problems.push(Problem::error("twice", at, message).see(first, "first here").help(help));
    }
}
