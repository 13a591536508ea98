//! Real connections under a mesh: QUIC, and TCP with TLS where UDP does not pass.
//!
//! ```text
//!  strangers ─► gate ─► quic, tcp: handshake ─► tls: who is it? ─► hub ─► connection ─► Mesh
//!  dialing: when ─► quic, tcp: dial ──────────────────┘             └─ deadlines, events ─► Events
//! ```
//! [`Endpoint::start`] runs everything in tasks; the [`Handle`] is what the node keeps. One connection carries one stream
//! of frames in each direction: over QUIC the dialler's first bidirectional stream, over TCP the TLS stream itself; both on
//! the same port number, both with ALPN `portolan/1`.
//!
//! - `roster` and `tls`: a peer is who its pinned key is, each way.
//! - `gate` and `door`: how many handshakes of strangers there may be, so that a flood of them starves nobody.
//! - `dialing` and `dialler`: who dials when, what is done when UDP gets no answer; `complaints`: what of it is logged.
//! - `hub`: the one place that joins connections and the mesh, whose lock is never held over an await.

mod complaints;
mod connection;
mod dialing;
mod dialler;
mod door;
mod gate;
mod hub;
mod quic;
pub(crate) mod ring;
mod roster;
mod status;
mod tcp;
mod tls;

use crate::claim::{Claim, Key};
use crate::mesh::{Event, Mesh, Published};
use crate::pki::{Identity, Pin};
use crate::trace::{FileSettings, Tap};
use hub::Hub;
use ring::Ring;
pub use roster::Refusal;
pub use status::{Counted, Link, PeerLink, Status};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Events that a slow reader may be behind.
const EVENTS: usize = 8_192;
/// How long a stop waits until peers know of it.
const STOP: Duration = Duration::from_millis(500);

/// By what a connection goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub enum Kind {
    /// QUIC.
    Quic,
    /// TCP with TLS.
    Tcp,
}

/// Another node, and how it is reached and recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// Its site.
    pub site: String,
    /// Where it listens.
    pub address: SocketAddr,
    /// Its key; two while a key is changed.
    pub pins: Vec<Pin>,
}

/// How an endpoint is set up.
#[derive(Clone, Debug)]
pub struct TransportSettings {
    /// Where to listen, UDP and TCP. Port 0: any that both have free.
    pub listen: SocketAddr,
    /// This node's key and certificate.
    pub identity: Identity,
    /// The other nodes.
    pub peers: Vec<Peer>,
    /// The address to dial from, if not what the system chooses.
    pub source: Option<IpAddr>,
    /// Where to write all frames, if at all.
    pub trace: Option<FileSettings>,
    /// The clock of the mesh, in milliseconds: what its users pass as `now_ms`.
    pub clock: fn() -> u64,
    /// How long things take.
    pub timing: Timing,
}

impl TransportSettings {
    /// The usual settings.
    #[must_use]
    pub fn new(listen: SocketAddr, identity: Identity, peers: Vec<Peer>) -> Self {
        let (clock, timing): (fn() -> u64, _) = (monotonic_ms, Timing::DEFAULT);
        Self { listen, identity, peers, source: None, trace: None, clock, timing }
    }
}

/// How long things take, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// UDP without an answer for so long: try TCP, too, and for as long.
    pub answer_ms: u64,
    /// A handshake, from the first packet to the first frame.
    pub handshake_ms: u64,
    /// The first wait after a failed attempt.
    pub backoff_min_ms: u64,
    /// The longest wait between attempts.
    pub backoff_max_ms: u64,
    /// The same, where the peer says that another node of this name took this one's place.
    pub displaced_max_ms: u64,
    /// How long the larger name waits for the smaller one to dial.
    pub courtesy_ms: u64,
    /// A session of this length counts as a success: the next attempt comes at once.
    pub lasting_ms: u64,
    /// The first try to come back from TCP to QUIC.
    pub quic_retry_min_ms: u64,
    /// The longest wait between such tries.
    pub quic_retry_max_ms: u64,
}

impl Timing {
    /// For the open Internet: a network that heals is found within two seconds or so.
    pub const DEFAULT: Self = Self {
        answer_ms: 1_000,
        handshake_ms: 4_000,
        backoff_min_ms: 200,
        backoff_max_ms: 1_500,
        displaced_max_ms: 60_000,
        courtesy_ms: 1_000,
        lasting_ms: 5_000,
        quic_retry_min_ms: 30_000,
        quic_retry_max_ms: 600_000,
    };
}

impl Default for Timing {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Milliseconds since this process first asked.
#[must_use]
pub fn monotonic_ms() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Why an endpoint could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The sockets.
    #[error("cannot listen for peers at {listen} ({protocol}): {source}")]
    Listen {
        /// Where.
        listen: SocketAddr,
        /// UDP or TCP.
        protocol: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The address to dial from.
    #[error("cannot dial peers from {address}: {source}; [peers] source must be an address of this machine")]
    Source {
        /// The address.
        address: IpAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The trace file.
    #[error("cannot write the trace of peers' frames: {source}")]
    Trace {
        /// What the system said.
        source: io::Error,
    },
    /// rustls does not like its settings.
    #[error("cannot set up TLS: {why}")]
    Tls {
        /// Why.
        why: String,
    },
}

/// A node's door to its peers.
#[derive(Debug)]
pub struct Endpoint;

impl Endpoint {
    /// Listens, dials and drives the mesh, until the handle is stopped or dropped. Call it within a tokio runtime.
    pub async fn start(settings: TransportSettings, mesh: Arc<Mutex<Mesh>>) -> Result<Handle, StartError> {
        let hub = Hub::start(settings, mesh).await?;
        Ok(Handle { hub })
    }
}

/// What the node keeps of its endpoint.
#[derive(Debug)]
pub struct Handle {
    hub: Arc<Hub>,
}

impl Handle {
    /// Where it listens.
    #[must_use]
    pub fn local_address(&self) -> SocketAddr {
        self.hub.listen()
    }

    /// The mesh. Who changes it by himself calls [`Handle::wake`] afterwards, without its lock.
    #[must_use]
    pub fn mesh(&self) -> &Arc<Mutex<Mesh>> {
        self.hub.mesh()
    }

    /// The mesh has something to send, or another deadline.
    pub fn wake(&self) {
        self.hub.wake();
    }

    /// What happens from now on, for one reader at a time. A reader that is too slow loses the oldest events and is told
    /// how many by [`Event::Missed`].
    #[must_use]
    pub fn events(&self) -> Events {
        Events { ring: self.hub.events(), waiting: None }
    }

    /// Claims something.
    pub fn publish(&self, claim: Claim, lifetime_ms: Option<u64>) -> Published {
        let published = self.hub.with_mesh(|mesh, now_ms| mesh.publish(now_ms, claim, lifetime_ms));
        self.hub.wake();
        published
    }

    /// Claims it no longer.
    pub fn withdraw(&self, key: &Key) {
        self.hub.with_mesh(|mesh, now_ms| mesh.withdraw(now_ms, key));
        self.hub.wake();
    }

    /// Other peers than before: new ones are dialled, connections of those that are gone, or whose key is, are closed.
    pub fn set_peers(&self, peers: Vec<Peer>) {
        self.hub.set_peers(peers);
    }

    /// Another key or certificate, for connections from now on.
    pub fn set_identity(&self, identity: Identity) {
        self.hub.set_identity(identity);
    }

    /// All frames from now on; none when too many read already.
    #[must_use]
    pub fn tap(&self) -> Option<Tap> {
        self.hub.tap()
    }

    /// The connections, and what was counted. How it stands with the sessions is in [`Mesh::peers`].
    #[must_use]
    pub fn status(&self) -> Status {
        self.hub.status()
    }

    /// Tells the peers, closes everything and frees the sockets.
    pub async fn stop(self) {
        self.hub.clone().stop(STOP).await;
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.hub.abort();
    }
}

/// What happens among the peers.
#[derive(Debug)]
pub struct Events {
    ring: Arc<Ring<Event>>,
    waiting: Option<Event>,
}

impl Events {
    /// The next event; none when the endpoint has stopped.
    pub async fn next(&mut self) -> Option<Event> {
        if let Some(event) = self.waiting.take() {
            return Some(event);
        }
        let (event, count) = self.ring.next_or_end().await?;
        if count == 0 {
            return Some(event);
        }
        self.waiting = Some(event);
        Some(Event::Missed { count })
    }
}
