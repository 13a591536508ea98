//! Where connections and the mesh meet.
//!
//! One task, [`Hub::run`], owns the mesh's deadlines and hands out what it has to send; connection tasks bring what they
//! receive. Locks are taken in the order `state`, `mesh`, and never held over an await. A connection has room for a few
//! chunks; what does not fit stays in the mesh, which bounds it.

use super::complaints::Complaints;
use super::connection::{self, Stream};
use super::dialing::Dialing;
use super::gate::Gate;
use super::quic::Quic;
use super::ring::Ring;
use super::roster::{Known, Roster, plain};
use super::status::{Counters, Link, PeerLink, Status, add};
use super::tcp::{self, Tcp};
use super::tls::{Trust, now_unix_s};
use super::{EVENTS, Kind, StartError, Timing, TransportSettings};
use crate::codec::Code;
use crate::mesh::{ConnId, Event, Mesh};
use crate::pki::certificate::Date;
use crate::pki::{EXPIRY_WARNING_DAYS, Identity, Pin};
use crate::trace::{Cutter, Direction, Tap, Tracer};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::task::{AbortHandle, JoinSet};

/// Chunks that wait for a connection's socket; the mesh makes them of at most some 16 KiB.
const CHUNKS: usize = 4;
/// Connections of a peer at a time: the one in use, and those that come and go beside it.
const PER_PEER: usize = 3;
/// Longest time between two looks at the mesh.
const IDLE_MS: u64 = 1_000;
/// How often certificates that end soon are warned about.
const WARN_MS: u64 = 86_400_000;

/// All that an endpoint is.
pub(super) struct Hub {
    pub(super) trust: Trust,
    pub(super) timing: Timing,
    pub(super) counters: Counters,
    pub(super) quic: Quic,
    pub(super) source: Option<IpAddr>,
    pub(super) node: String,
    listen: SocketAddr,
    clock: fn() -> u64,
    pub(super) mesh: Arc<Mutex<Mesh>>,
    pub(super) state: Mutex<State>,
    pub(super) gate: Mutex<Gate>,
    pub(super) quiet: Mutex<HashMap<(&'static str, IpAddr), u64>>,
    events: Arc<Ring<Event>>,
    tracer: Tracer,
    wake: Notify,
    is_stopping: AtomicBool,
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").field("node", &self.node).field("listen", &self.listen).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) dials: BTreeMap<String, Dial>,
    pub(super) conns: BTreeMap<ConnId, Conn>,
    last_conn: u64,
    pub(super) tasks: JoinSet<()>,
}

/// The dialling of one peer.
#[derive(Debug)]
pub(super) struct Dial {
    pub(super) dialing: Dialing,
    pub(super) changed: Arc<Notify>,
    pub(super) task: Option<AbortHandle>,
    pub(super) last_error: Option<String>,
    pub(super) complaints: Complaints,
}

/// One connection, as the hub sees it.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) peer: String,
    pub(super) pin: Pin,
    not_after_s: i64,
    pub(super) kind: Kind,
    pub(super) is_ours: bool,
    remote: SocketAddr,
    since_ms: u64,
    /// None once it shall close: what is in it is sent, then the end.
    out: Option<mpsc::Sender<Vec<u8>>>,
    is_starved: bool,
    cutter: Cutter,
    pub(super) why: Option<String>,
}

/// A connection that was let in, for its task.
pub(super) struct Adopted {
    pub(super) id: ConnId,
    pub(super) peer: String,
    pub(super) out: mpsc::Receiver<Vec<u8>>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hub {
    /// Opens the sockets and starts the tasks.
    pub(super) async fn start(
        settings: TransportSettings,
        mesh: Arc<Mutex<Mesh>>,
    ) -> Result<Arc<Self>, StartError> {
        let TransportSettings { listen, identity, peers, source, trace, clock, timing } = settings;
        let tracer = Tracer::new(trace).map_err(|source| StartError::Trace { source })?;
        let (node, hold_ms) = {
            let mesh = lock(&mesh);
            (mesh.settings().node.clone(), mesh.settings().hold_ms)
        };
        let trust = Trust::new(identity, Roster::default());
        let (tcp, udp) = tcp::bind(listen).await?;
        let listen =
            tcp.local_addr().map_err(|source| StartError::Listen { listen, protocol: "TCP", source })?;
        let quic = Quic::new(udp, source, &trust, hold_ms)?;
        let hub = Arc::new(Self {
            trust,
            timing,
            counters: Counters::default(),
            quic,
            source,
            node,
            listen,
            clock,
            mesh,
            state: Mutex::default(),
            gate: Mutex::default(),
            quiet: Mutex::default(),
            events: Arc::new(Ring::new(EVENTS)),
            tracer,
            wake: Notify::new(),
            is_stopping: AtomicBool::new(false),
        });
        hub.set_peers(peers);
        hub.spawn(hub.clone().run());
        hub.spawn(hub.clone().accept_quic());
        hub.spawn(Tcp(tcp).accept(hub.clone()));
        Ok(hub)
    }

    pub(super) fn now_ms(&self) -> u64 {
        (self.clock)()
    }

    pub(super) fn listen(&self) -> SocketAddr {
        self.listen
    }

    pub(super) fn mesh(&self) -> &Arc<Mutex<Mesh>> {
        &self.mesh
    }

    pub(super) fn with_mesh<T>(&self, change: impl FnOnce(&mut Mesh, u64) -> T) -> T {
        let now_ms = self.now_ms();
        change(&mut lock(&self.mesh), now_ms)
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    pub(super) fn wake(&self) {
        self.wake.notify_one();
    }

    pub(super) fn tap(&self) -> Option<Tap> {
        self.tracer.tap()
    }

    pub(super) fn events(&self) -> Arc<Ring<Event>> {
        self.events.clone()
    }

    pub(super) fn set_identity(&self, identity: Identity) {
        tracing::info!(pin = %identity.pin(), "another identity towards peers");
        self.trust.set_identity(identity);
        self.warn();
    }

    /// Warns of certificates, the own one and those of connected peers, before they are refused.
    fn warn(&self) {
        let now_s = now_unix_s();
        for warning in self.trust.identity().warnings(now_s) {
            tracing::warn!("{warning}");
        }
        for conn in lock(&self.state).conns.values() {
            conn.warn(now_s);
        }
    }

    /// Runs a task that ends with the endpoint.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let task = lock(&self.state).tasks.spawn(task);
        if self.is_stopping() {
            task.abort();
        }
        task
    }

    /// Owns the deadlines, and wakes whenever somebody changed the mesh.
    async fn run(self: Arc<Self>) {
        let mut warn_at_ms = self.now_ms();
        loop {
            if self.now_ms() >= warn_at_ms {
                self.warn();
                warn_at_ms = self.now_ms() + WARN_MS;
            }
            let deadline_ms = self.pump();
            let now_ms = self.now_ms();
            // a deadline that has passed while it was pumped is looked at in a moment: this task never spins
            let wait_ms = deadline_ms.map_or(IDLE_MS, |at| at.saturating_sub(now_ms).clamp(1, IDLE_MS));
            tokio::select! {
                () = self.wake.notified() => {}
                () = tokio::time::sleep(Duration::from_millis(wait_ms)) => {}
            }
        }
    }

    /// Does what is due, passes events on, and fills the connections. Gives the next deadline.
    fn pump(&self) -> Option<u64> {
        let mut state = lock(&self.state);
        let mut mesh = lock(&self.mesh);
        let now_ms = self.now_ms();
        if mesh.poll_deadline().is_some_and(|at| at <= now_ms) {
            mesh.tick(now_ms);
        }
        let State { dials, conns, tasks, .. } = &mut *state;
        while tasks.try_join_next().is_some() {}
        while let Some(event) = mesh.poll_event() {
            if let Event::Close { conn, why } = event {
                if let Some(conn) = conns.get_mut(&conn) {
                    conn.why.get_or_insert(why);
                }
                continue;
            }
            if let Event::PeerUp { peer } = &event
                && let Some(dial) = dials.get_mut(peer)
            {
                dial.dialing.settled(now_ms);
                dial.last_error = None;
                dial.complaints.settled();
            }
            if let Event::Notice { peer, is_theirs: true, code: Code::OldEpoch | Code::DuplicateName, .. } =
                &event
                && let Some(dial) = dials.get_mut(peer)
            {
                dial.dialing.displaced(now_ms, &self.timing, fastrand::u64(..));
            }
            self.counters.events_dropped.fetch_add(self.events.push(event), Ordering::Relaxed);
        }
        for (id, conn) in conns {
            self.fill(&mut mesh, *id, conn);
        }
        mesh.poll_deadline()
    }

    fn fill(&self, mesh: &mut Mesh, id: ConnId, conn: &mut Conn) {
        let Some(out) = &conn.out else { return };
        conn.is_starved = false;
        loop {
            let Ok(room) = out.try_reserve() else {
                conn.is_starved = true;
                return;
            };
            let Some(octets) = mesh.poll_transmit(id) else { break };
            self.tracer.passed(&mut conn.cutter, Direction::Sent, &conn.peer, id.0, &octets);
            room.send(octets);
        }
        // all that the mesh had to say, a NOTICE at the end, is on its way
        if conn.why.is_some() {
            conn.out = None;
        }
    }

    /// A connection's socket took a chunk.
    pub(super) fn took(&self, id: ConnId) {
        if lock(&self.state).conns.get(&id).is_some_and(|conn| conn.is_starved) {
            self.wake();
        }
    }

    /// A connection received something.
    pub(super) fn received(&self, adopted: (ConnId, &str), cutter: &mut Cutter, octets: &[u8]) {
        let (id, peer) = adopted;
        self.tracer.passed(cutter, Direction::Received, peer, id.0, octets);
        self.with_mesh(|mesh, now_ms| mesh.received(now_ms, id, octets));
        self.wake();
    }

    /// Takes a connection whose other end is known, and starts its task.
    pub(super) fn adopt(self: &Arc<Self>, known: Known, is_ours: bool, remote: SocketAddr, stream: Stream) {
        let Known { name, pin, not_after_s } = known;
        let now_ms = self.now_ms();
        let kind = stream.kind();
        let mut state = lock(&self.state);
        if self.is_stopping() || !self.trust.roster().allows(&name, pin) {
            drop(state);
            add(&self.counters.handshakes_failed);
            self.spawn(stream.refuse("not, or no longer, a peer"));
            return;
        }
        state.last_conn += 1;
        let id = ConnId(state.last_conn);
        let (out, chunks) = mpsc::channel(CHUNKS);
        let remote = plain(remote);
        let conn = Conn {
            peer: name.clone(),
            pin,
            not_after_s,
            kind,
            is_ours,
            remote,
            since_ms: now_ms,
            out: Some(out),
            is_starved: false,
            cutter: Cutter::new(),
            why: None,
        };
        conn.warn(now_unix_s());
        state.conns.insert(id, conn);
        if let Some(dial) = state.dials.get_mut(&name) {
            dial.dialing.connected(now_ms, kind, &self.timing, fastrand::u64(..));
            dial.changed.notify_one();
        }
        state.bound(&name);
        add(&self.counters.connections);
        tracing::info!(peer = %name, ?kind, %remote, is_ours, "connected");
        // with the state still locked, so that nothing is asked of the mesh for a connection it does not know
        lock(&self.mesh).connected(now_ms, &name, id);
        let adopted = Adopted { id, peer: name, out: chunks };
        state.tasks.spawn(connection::run(self.clone(), adopted, stream));
        drop(state);
        self.wake();
    }

    /// A connection's task has ended.
    pub(super) fn ended(&self, id: ConnId, why: &str) {
        let now_ms = self.now_ms();
        let mut state = lock(&self.state);
        let Some(conn) = state.conns.remove(&id) else { return };
        let why = conn.why.as_deref().unwrap_or(why);
        lock(&self.mesh).disconnected(now_ms, id, why);
        let is_last = !state.conns.values().any(|other| other.peer == conn.peer);
        if let Some(dial) = state.dials.get_mut(&conn.peer) {
            if is_last {
                dial.dialing.lost(now_ms, &self.timing, fastrand::u64(..));
                dial.last_error = Some(why.to_owned());
            }
            dial.changed.notify_one();
        }
        tracing::info!(peer = %conn.peer, kind = ?conn.kind, remote = %conn.remote, why, "connection ended");
        drop(state);
        self.wake();
    }

    pub(super) fn status(&self) -> Status {
        let now_s = now_unix_s();
        let identity = self.trust.identity();
        let roster = self.trust.roster();
        let state = lock(&self.state);
        let link = |(id, conn): (&ConnId, &Conn)| Link {
            conn: id.0,
            kind: conn.kind,
            is_ours: conn.is_ours,
            remote: conn.remote,
            since_ms: conn.since_ms,
            pin: conn.pin,
            certificate_left_s: (conn.not_after_s - now_s).max(0),
        };
        let peers = roster.peers().iter().map(|peer| PeerLink {
            name: peer.name.clone(),
            address: peer.address,
            links: state.conns.iter().filter(|(_, conn)| conn.peer == peer.name).map(link).collect(),
            failures: state.dials.get(&peer.name).map_or(0, |dial| dial.dialing.failures()),
            last_error: state.dials.get(&peer.name).and_then(|dial| dial.last_error.clone()),
        });
        Status {
            listen: self.listen,
            pin: identity.pin(),
            certificate_left_s: identity.validity().left_s(now_s),
            warnings: identity.warnings(now_s),
            peers: peers.collect(),
            counted: self.counters.counted(self.tracer.dropped()),
        }
    }

    /// Says good-bye and waits until that is on its way, but not for long.
    pub(super) async fn stop(self: Arc<Self>, longest: Duration) {
        self.is_stopping.store(true, Ordering::Release);
        for dial in lock(&self.state).dials.values_mut() {
            if let Some(task) = dial.task.take() {
                task.abort();
            }
        }
        self.with_mesh(|mesh, now_ms| mesh.stop(now_ms));
        for conn in lock(&self.state).conns.values_mut() {
            conn.why.get_or_insert_with(|| "this node stops".into());
        }
        self.wake();
        let gone = async {
            while !lock(&self.state).conns.is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            self.quic.closed().await;
        };
        let _ = tokio::time::timeout(longest, gone).await;
        self.abort();
        // what they hold is free when they have ended, the sockets above all
        let mut tasks = std::mem::take(&mut lock(&self.state).tasks);
        while tasks.join_next().await.is_some() {}
    }

    /// Ends all tasks.
    pub(super) fn abort(&self) {
        self.is_stopping.store(true, Ordering::Release);
        self.quic.close();
        let mut state = lock(&self.state);
        state.tasks.abort_all();
        let ended = std::mem::take(&mut state.conns);
        let mut mesh = lock(&self.mesh);
        let now_ms = self.now_ms();
        for id in ended.keys() {
            mesh.disconnected(now_ms, *id, "this node stops");
        }
        self.events.close();
    }
}

impl Conn {
    fn warn(&self, now_s: i64) {
        let left_s = self.not_after_s - now_s;
        if left_s < EXPIRY_WARNING_DAYS * 86_400 {
            let (peer, ends) = (&self.peer, Date(self.not_after_s));
            tracing::warn!(%peer, %ends, "the peer's certificate ends soon; connections made after that are refused");
        }
    }
}

impl State {
    /// Closes the oldest connections of a peer that has too many.
    fn bound(&mut self, peer: &str) {
        let count = self.conns.values().filter(|conn| conn.peer == peer && conn.why.is_none()).count();
        let of_peer = self.conns.values_mut().filter(|conn| conn.peer == peer && conn.why.is_none());
        for conn in of_peer.take(count.saturating_sub(PER_PEER)) {
            conn.why = Some("newer connections of the same peer stand".into());
            conn.out = None;
        }
    }
}
