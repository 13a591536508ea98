//! Nodes of a test.

use portolan_peer::pki::{self, Identity, Making, Pin};
use portolan_peer::transport::{
    Endpoint, Events, Handle, Kind, Peer, Status, Timing, TransportSettings, monotonic_ms,
};
use portolan_peer::{Claim, Event, Key, Mesh, PeerState, ServerState, Settings, VirtualServer};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longest wait for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
pub(crate) const HOLD_MS: u64 = 3_000;

/// Quick, so that tests need not wait, and not so quick that a busy machine upsets them.
pub(crate) const TIMING: Timing = Timing {
    answer_ms: 500,
    handshake_ms: 3_000,
    backoff_min_ms: 50,
    backoff_max_ms: 400,
    displaced_max_ms: 3_200,
    courtesy_ms: 300,
    lasting_ms: 500,
    quic_retry_min_ms: 300,
    quic_retry_max_ms: 600,
};

/// A folder with a CA and keys.
pub(crate) struct Keys {
    folder: TempDir,
}

impl Keys {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        pki::init(folder.path(), &making()).unwrap();
        Self { folder }
    }

    /// A node's key and certificate; made at the first call.
    pub(crate) fn identity(&self, name: &str) -> Identity {
        self.identity_at(name, 0, None)
    }

    /// The same, issued some days from now, or before.
    pub(crate) fn identity_at(&self, name: &str, days_from_now: i64, days: Option<u32>) -> Identity {
        let path = self.folder.path().join(name);
        if !path.with_extension("key").exists() {
            let making = making();
            let making = Making { days, now_s: making.now_s + days_from_now * 86_400, ..making };
            pki::issue(self.folder.path(), name, &making).unwrap();
        }
        Identity::load(&path).unwrap()
    }

    pub(crate) fn pin(&self, name: &str) -> Pin {
        self.identity(name).pin()
    }
}

fn making() -> Making {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Making { days: None, force: false, renew: false, now_s: now.as_secs() as i64 }
}

/// A running node.
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) handle: Handle,
    pub(crate) events: Events,
    pub(crate) seen: Vec<Event>,
}

pub(crate) struct Options {
    pub(crate) listen: SocketAddr,
    pub(crate) timing: Timing,
    pub(crate) trace: Option<portolan_peer::trace::FileSettings>,
    pub(crate) hold_ms: u64,
    pub(crate) source: Option<std::net::IpAddr>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            timing: TIMING,
            trace: None,
            hold_ms: HOLD_MS,
            source: None,
        }
    }
}

impl Node {
    pub(crate) async fn start(name: &str, identity: Identity) -> Self {
        Self::start_with(name, identity, Options::default()).await
    }

    pub(crate) async fn start_with(name: &str, identity: Identity, options: Options) -> Self {
        let Options { listen, timing, trace, hold_ms, source } = options;
        let settings = Settings::new(name, &site(name), fastrand::u64(..), hold_ms);
        let mesh = Arc::new(Mutex::new(Mesh::new(settings, monotonic_ms())));
        let settings = TransportSettings {
            timing,
            trace,
            source,
            ..TransportSettings::new(listen, identity, Vec::new())
        };
        let handle = Endpoint::start(settings, mesh).await.unwrap();
        let events = handle.events();
        Self { name: name.to_owned(), handle, events, seen: Vec::new() }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.handle.local_address()
    }

    /// Waits until something holds; tells what was seen when it does not.
    pub(crate) async fn until(&mut self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !holds(self) {
            assert!(
                Instant::now() < end,
                "{}: not in time: {what}\n{:#?}\n{:#?}\n{:?}",
                self.name,
                self.status(),
                self.handle.mesh().lock().unwrap().peers(),
                self.seen
            );
            if let Ok(event) = tokio::time::timeout(Duration::from_millis(10), self.events.next()).await {
                self.seen.extend(event);
            }
        }
    }

    /// Waits for a session over a single connection.
    pub(crate) async fn until_up(&mut self, peer: &str) {
        let what = format!("a session with {peer}");
        self.until(&what, |node| node.is_up(peer) && node.kinds(peer).len() == 1).await;
    }

    pub(crate) async fn until_claimed(&mut self, author: &str, name: &str) {
        let what = format!("the claim {name} of {author}");
        self.until(&what, |node| node.holds(author, name)).await;
    }

    pub(crate) fn is_up(&self, peer: &str) -> bool {
        let peers = self.handle.mesh().lock().unwrap().peers();
        peers.iter().any(|one| one.name == peer && one.state == PeerState::Up)
    }

    pub(crate) fn holds(&self, author: &str, name: &str) -> bool {
        let mesh = self.handle.mesh().lock().unwrap();
        mesh.claim(author, &Key::VirtualServer(name.to_owned())).is_some_and(|held| !held.is_stale)
    }

    pub(crate) fn publish(&self, name: &str) {
        self.handle.publish(Claim::VirtualServer(server(name)), None);
    }

    pub(crate) fn status(&self) -> Status {
        self.handle.status()
    }

    pub(crate) fn kinds(&self, peer: &str) -> Vec<Kind> {
        let status = self.status();
        let links = status.peers.into_iter().filter(|one| one.name == peer).flat_map(|one| one.links);
        links.map(|link| link.kind).collect()
    }

    pub(crate) fn refused(&self, label: &str) -> u64 {
        let refused: BTreeMap<_, _> = self.status().counted.refused;
        refused[label]
    }

    pub(crate) fn last_error(&self, peer: &str) -> String {
        let status = self.status();
        let found = status.peers.into_iter().find(|one| one.name == peer);
        found.and_then(|one| one.last_error).unwrap_or_default()
    }
}

pub(crate) fn site(name: &str) -> String {
    format!("site-of-{name}")
}

pub(crate) fn peer(name: &str, address: SocketAddr, pin: Pin) -> Peer {
    Peer { name: name.to_owned(), site: site(name), address, pins: vec![pin] }
}

/// Makes each of the nodes a peer of all the others.
pub(crate) fn introduce(keys: &Keys, nodes: &[&Node]) {
    for node in nodes {
        let others = nodes.iter().filter(|other| other.name != node.name);
        let peers = others.map(|other| peer(&other.name, other.address(), keys.pin(&other.name)));
        node.handle.set_peers(peers.collect());
    }
}

pub(crate) fn server(name: &str) -> VirtualServer {
    VirtualServer {
        name: name.to_owned(),
        service: "www.example.com.".to_owned(),
        address: [192, 0, 2, 1].into(),
        site: "here".to_owned(),
        link: None,
        weight: 1,
        tier: 1,
        state: ServerState::Up,
        reason: String::new(),
        load_permille: None,
        connections: None,
        capacity: None,
    }
}
