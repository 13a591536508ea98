//! A network of nodes in memory, with a virtual clock: for tests, and for simulations of many nodes.
//!
//! Connections are ordered and lose nothing, as QUIC's streams and TCP are; lost packets show as delay, a cut link as
//! silence. Each node has a clock of its own, with an offset and a rate. Everything follows from the seed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use fastrand::Rng;

use crate::mesh::{ConnId, Event, Mesh, Settings};

/// Pause between a node's attempts to reach a peer.
const REDIAL_MS: u64 = 200;
/// Pause until octets are sent again over a cut link.
const RETRY_MS: u64 = 200;
/// Octets on their way in one direction of a connection; then the sender waits.
const WINDOW: usize = 256 * 1024;
/// Events of a node that nobody took.
const MAX_EVENTS: usize = 1 << 20;

/// The number of a node, in the order in which they were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub usize);

/// A node's clock against the network's: what it shows, and how fast it runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    /// What it shows at the network's zero.
    pub offset_ms: u64,
    /// Millionths by which it runs fast (or slow).
    pub drift_ppm: i32,
}

impl Clock {
    fn local(self, network_ms: u64) -> u64 {
        let rate = u64::try_from(1_000_000 + i64::from(self.drift_ppm)).unwrap_or(1);
        self.offset_ms + network_ms * rate / 1_000_000
    }

    /// The first network time at which it shows `local_ms`.
    fn network(self, local_ms: u64) -> u64 {
        let rate = u64::try_from(1_000_000 + i64::from(self.drift_ppm)).unwrap_or(1).max(1);
        (local_ms.saturating_sub(self.offset_ms)).saturating_mul(1_000_000).div_ceil(rate)
    }
}

/// The way between two nodes.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// One way.
    pub latency_ms: u64,
    /// Up to this much more.
    pub jitter_ms: u64,
    /// Thousandths of packets that must be sent again.
    pub loss_permille: u16,
    /// Nothing passes.
    pub is_cut: bool,
}

impl Default for Path {
    fn default() -> Self {
        Self { latency_ms: 20, jitter_ms: 2, loss_permille: 0, is_cut: false }
    }
}

struct Node {
    name: String,
    clock: Clock,
    mesh: Option<Mesh>,
    events: VecDeque<Event>,
    /// The deadline that is scheduled already.
    scheduled_ms: u64,
    starts: u64,
}

/// One direction of a connection.
#[derive(Default)]
struct Pipe {
    /// Arrival and octets; none: the other end closed.
    chunks: VecDeque<(u64, Option<Vec<u8>>)>,
    flying: usize,
    is_closed: bool,
    /// Its sender died and knows nothing of the connection any more.
    is_forgotten: bool,
}

struct Conn {
    ends: [NodeId; 2],
    pipes: [Pipe; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Dial(NodeId, NodeId),
    Establish(NodeId, NodeId, u64),
    /// Octets of a connection reach its second (true) or first end.
    Arrive(ConnId, bool),
    Tick(NodeId),
}

/// What a network has carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Frames, or parts of them, sent.
    pub chunks: u64,
    /// Octets sent.
    pub bytes: u64,
    /// Connections made.
    pub connections: u64,
}

/// Nodes, the ways between them, and the time.
pub struct Network {
    now_ms: u64,
    rng: Rng,
    nodes: Vec<Node>,
    paths: BTreeMap<(NodeId, NodeId), Path>,
    usual: Path,
    conns: BTreeMap<ConnId, Conn>,
    next_conn: u64,
    agenda: BinaryHeap<Reverse<(u64, u64, What)>>,
    count: u64,
    traffic: Traffic,
    dials: bool,
}

impl Network {
    /// An empty network whose ways are like `usual`.
    #[must_use]
    pub fn new(seed: u64, usual: Path) -> Self {
        Self {
            now_ms: 0,
            rng: Rng::with_seed(seed),
            nodes: Vec::new(),
            paths: BTreeMap::new(),
            usual,
            conns: BTreeMap::new(),
            next_conn: 1,
            agenda: BinaryHeap::new(),
            count: 0,
            traffic: Traffic::default(),
            dials: true,
        }
    }

    /// Adds a node. It reaches for those of its peers whose names sort after its own, and is reached by the others.
    pub fn add(&mut self, settings: Settings, clock: Clock) -> NodeId {
        let id = NodeId(self.nodes.len());
        let name = settings.node.clone();
        let mesh = Mesh::new(settings, clock.local(self.now_ms));
        let node = Node {
            name,
            clock,
            mesh: Some(mesh),
            events: VecDeque::new(),
            scheduled_ms: u64::MAX,
            starts: 1,
        };
        self.nodes.push(node);
        for other in (0..id.0).map(NodeId) {
            let (first, second) = if self.name(id) < self.name(other) { (id, other) } else { (other, id) };
            self.dial_in(0, first, second);
        }
        id
    }

    fn name(&self, id: NodeId) -> &str {
        self.nodes.get(id.0).map_or("", |node| &node.name)
    }

    /// The network's time.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// What was carried.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// The mesh of a node; none while it is stopped.
    #[must_use]
    pub fn mesh(&self, id: NodeId) -> Option<&Mesh> {
        self.nodes.get(id.0)?.mesh.as_ref()
    }

    /// A node's clock now.
    #[must_use]
    pub fn local_ms(&self, id: NodeId) -> u64 {
        self.nodes.get(id.0).map_or(0, |node| node.clock.local(self.now_ms))
    }

    /// Does something with a node's mesh, at the node's time; what it causes is sent.
    pub fn with<T>(&mut self, id: NodeId, act: impl FnOnce(&mut Mesh, u64) -> T) -> Option<T> {
        let now_ms = self.local_ms(id);
        let mesh = self.nodes.get_mut(id.0)?.mesh.as_mut()?;
        let result = act(mesh, now_ms);
        self.settle(id, None);
        Some(result)
    }

    /// The events of a node since the last time.
    pub fn take_events(&mut self, id: NodeId) -> Vec<Event> {
        self.nodes.get_mut(id.0).map(|node| node.events.drain(..).collect()).unwrap_or_default()
    }

    /// Changes the way between two nodes.
    pub fn set_path(&mut self, one: NodeId, other: NodeId, path: Path) {
        self.paths.insert((one.min(other), one.max(other)), path);
    }

    /// Cuts, or joins, the way between two nodes.
    pub fn set_cut(&mut self, one: NodeId, other: NodeId, is_cut: bool) {
        let path = Path { is_cut, ..self.path(one, other) };
        self.set_path(one, other, path);
    }

    /// Whether nodes reach for each other by themselves; else only connections that exist go on.
    pub fn set_dialing(&mut self, dials: bool) {
        self.dials = dials;
    }

    fn path(&self, one: NodeId, other: NodeId) -> Path {
        self.paths.get(&(one.min(other), one.max(other))).copied().unwrap_or(self.usual)
    }

    /// The connections between two nodes are reset, and both ends know.
    pub fn reset(&mut self, one: NodeId, other: NodeId) {
        let is_between = |conn: &Conn| conn.ends == [one, other] || conn.ends == [other, one];
        let hit: Vec<_> = self.conns.iter().filter(|(_, conn)| is_between(conn)).map(|(id, _)| *id).collect();
        for conn in hit {
            self.drop_conn(conn, "reset");
        }
    }

    /// A node dies at once. Its peers hear nothing: their connections are half open.
    pub fn kill(&mut self, id: NodeId) {
        if let Some(node) = self.nodes.get_mut(id.0) {
            node.mesh = None;
        }
        for conn in self.conns.values_mut() {
            for (end, pipe) in conn.ends.into_iter().zip(&mut conn.pipes) {
                let is_gone = end == id;
                pipe.is_closed |= is_gone;
                pipe.is_forgotten |= is_gone;
            }
        }
    }

    /// A node starts (again), knowing nothing.
    pub fn start(&mut self, id: NodeId, settings: Settings) {
        let now_ms = self.local_ms(id);
        let Some(node) = self.nodes.get_mut(id.0) else { return };
        node.mesh = Some(Mesh::new(settings, now_ms));
        node.starts += 1;
        node.scheduled_ms = u64::MAX;
    }

    /// Runs until a time.
    pub fn run_until(&mut self, until_ms: u64) {
        while let Some(Reverse((at_ms, _, what))) = self.agenda.peek().copied() {
            if at_ms > until_ms {
                break;
            }
            self.agenda.pop();
            self.now_ms = self.now_ms.max(at_ms);
            self.happen(what);
        }
        self.now_ms = self.now_ms.max(until_ms);
    }

    /// Runs until `is_so`, looking every millisecond in which something happens; when that was, or none by `until_ms`.
    pub fn run_until_so(&mut self, until_ms: u64, mut is_so: impl FnMut(&Self) -> bool) -> Option<u64> {
        loop {
            if is_so(self) {
                return Some(self.now_ms);
            }
            let next_ms = self.agenda.peek().map(|Reverse((at_ms, ..))| (*at_ms).max(self.now_ms))?;
            if next_ms > until_ms {
                self.run_until(until_ms);
                return is_so(self).then_some(self.now_ms);
            }
            self.run_until(next_ms);
        }
    }

    fn plan(&mut self, at_ms: u64, what: What) {
        self.count += 1;
        self.agenda.push(Reverse((at_ms.max(self.now_ms), self.count, what)));
    }

    fn dial_in(&mut self, wait_ms: u64, first: NodeId, second: NodeId) {
        let jitter_ms = self.rng.u64(0..=REDIAL_MS / 4);
        self.plan(self.now_ms + wait_ms + jitter_ms, What::Dial(first, second));
    }

    fn happen(&mut self, what: What) {
        match what {
            What::Dial(first, second) => self.dial(first, second),
            What::Establish(first, second, starts) => self.establish(first, second, starts),
            What::Arrive(conn, to_second) => self.arrive(conn, to_second),
            What::Tick(id) => self.tick(id),
        }
    }

    fn dial(&mut self, first: NodeId, second: NodeId) {
        self.dial_in(REDIAL_MS, first, second);
        // the dialer has a connection that it believes in
        let is_between = |conn: &Conn| conn.ends == [first, second] && !conn.pipes[0].is_closed;
        let path = self.path(first, second);
        if !self.dials || path.is_cut || self.conns.values().any(is_between) {
            return;
        }
        let run = |id: NodeId| self.nodes.get(id.0).is_some_and(|node| node.mesh.is_some());
        if run(first) && run(second) {
            let starts = self.starts(first) + self.starts(second);
            self.plan(self.now_ms + 2 * path.latency_ms, What::Establish(first, second, starts));
        }
    }

    fn starts(&self, id: NodeId) -> u64 {
        self.nodes.get(id.0).map_or(0, |node| node.starts)
    }

    fn establish(&mut self, first: NodeId, second: NodeId, starts: u64) {
        let both_run = self.mesh(first).is_some() && self.mesh(second).is_some();
        if self.path(first, second).is_cut || !both_run || self.starts(first) + self.starts(second) != starts
        {
            return;
        }
        self.connect(first, second);
    }

    /// Connects two nodes now, whatever connections they have.
    pub fn connect(&mut self, first: NodeId, second: NodeId) -> ConnId {
        let conn = ConnId(self.next_conn);
        self.next_conn += 1;
        self.traffic.connections += 1;
        self.conns.insert(conn, Conn { ends: [first, second], pipes: Default::default() });
        for (here, there) in [(first, second), (second, first)] {
            let name = self.name(there).to_owned();
            self.with(here, |mesh, now_ms| mesh.connected(now_ms, &name, conn));
        }
        conn
    }

    fn tick(&mut self, id: NodeId) {
        if let Some(node) = self.nodes.get_mut(id.0) {
            node.scheduled_ms = u64::MAX;
        }
        self.with(id, |mesh, now_ms| mesh.tick(now_ms));
    }

    fn arrive(&mut self, id: ConnId, to_second: bool) {
        let Some(conn) = self.conns.get(&id) else { return };
        let [first, second] = conn.ends;
        let is_forgotten = conn.pipes[usize::from(to_second)].is_forgotten;
        let (here, there) = if to_second { (second, first) } else { (first, second) };
        let now_ms = self.now_ms;
        if self.path(first, second).is_cut {
            self.plan(now_ms + RETRY_MS, What::Arrive(id, to_second));
            return;
        }
        // a node that started anew resets what it does not know
        if is_forgotten && self.mesh(here).is_some() {
            self.conns.remove(&id);
            self.with(there, |mesh, now_ms| mesh.disconnected(now_ms, id, "reset"));
            return;
        }
        let Some(pipe) = self.conns.get_mut(&id).map(|conn| &mut conn.pipes[usize::from(!to_second)]) else {
            return;
        };
        let mut came = Vec::new();
        let mut is_closed = false;
        while let Some((at_ms, _)) = pipe.chunks.front()
            && *at_ms <= now_ms
        {
            match pipe.chunks.pop_front() {
                Some((_, Some(octets))) => {
                    pipe.flying -= octets.len();
                    came.extend_from_slice(&octets);
                }
                Some((_, None)) => is_closed = true,
                None => {}
            }
        }
        if !came.is_empty() {
            let now_ms = self.local_ms(here);
            if let Some(mesh) = self.nodes.get_mut(here.0).and_then(|node| node.mesh.as_mut()) {
                mesh.received(now_ms, id, &came);
            }
            self.settle(here, Some(id));
            self.flush(there, id);
        }
        if is_closed {
            self.with(here, |mesh, now_ms| mesh.disconnected(now_ms, id, "closed by the peer"));
            self.conns.remove(&id);
        }
    }

    fn drop_conn(&mut self, id: ConnId, why: &str) {
        if let Some(conn) = self.conns.remove(&id) {
            for end in conn.ends {
                self.with(end, |mesh, now_ms| mesh.disconnected(now_ms, id, why));
            }
        }
    }

    /// Takes a node's events, sends what it has to send, and plans its next tick.
    fn settle(&mut self, id: NodeId, only: Option<ConnId>) {
        let mut closing = Vec::new();
        // a word that is repeated goes to all
        let mut is_spoken = false;
        if let Some(node) = self.nodes.get_mut(id.0)
            && let Some(mesh) = node.mesh.as_mut()
        {
            while let Some(event) = mesh.poll_event() {
                if let Event::Close { conn, .. } = &event {
                    closing.push(*conn);
                }
                is_spoken |= matches!(event, Event::Spoken { .. });
                if node.events.len() < MAX_EVENTS {
                    node.events.push_back(event);
                }
            }
        }
        let conns: Vec<_> = match only {
            Some(conn) if closing.is_empty() && !is_spoken => vec![conn],
            _ => self.mesh(id).map(|mesh| mesh.connections().collect()).unwrap_or_default(),
        };
        for conn in conns {
            self.flush(id, conn);
        }
        for conn in closing {
            self.close(id, conn);
        }
        self.plan_tick(id);
    }

    fn plan_tick(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get_mut(id.0) else { return };
        let Some(deadline) = node.mesh.as_ref().and_then(Mesh::poll_deadline) else { return };
        let at_ms = node.clock.network(deadline).max(self.now_ms);
        if at_ms < node.scheduled_ms {
            node.scheduled_ms = at_ms;
            self.plan(at_ms, What::Tick(id));
        }
    }

    /// Sends what fits the window.
    fn flush(&mut self, id: NodeId, conn_id: ConnId) {
        let Some(ends) = self.conns.get(&conn_id).map(|conn| conn.ends) else { return };
        let is_first = ends[0] == id;
        let path = self.path(ends[0], ends[1]);
        loop {
            let Some(conn) = self.conns.get_mut(&conn_id) else { return };
            let pipe = &mut conn.pipes[usize::from(!is_first)];
            if pipe.is_closed || pipe.flying >= WINDOW {
                return;
            }
            let mesh = self.nodes.get_mut(id.0).and_then(|node| node.mesh.as_mut());
            let Some(frame) = mesh.and_then(|mesh| mesh.poll_transmit(conn_id)) else { return };
            self.traffic.chunks += 1;
            self.traffic.bytes += frame.len() as u64;
            let mut delay_ms = path.latency_ms + self.rng.u64(0..=path.jitter_ms);
            // sent again until it arrives, each time a round trip later
            while path.loss_permille > 0 && self.rng.u16(0..1000) < path.loss_permille {
                delay_ms += 2 * path.latency_ms + 10;
            }
            pipe.flying += frame.len();
            let before_ms = pipe.chunks.back().map_or(0, |(at_ms, _)| *at_ms);
            let at_ms = (self.now_ms + delay_ms).max(before_ms);
            pipe.chunks.push_back((at_ms, Some(frame)));
            self.plan(at_ms, What::Arrive(conn_id, is_first));
        }
    }

    /// One end closes: the other learns of it when that reaches it.
    fn close(&mut self, id: NodeId, conn_id: ConnId) {
        if let Some(conn) = self.conns.get_mut(&conn_id) {
            let is_first = conn.ends[0] == id;
            let pipe = &mut conn.pipes[usize::from(!is_first)];
            let before_ms = pipe.chunks.back().map_or(0, |(at_ms, _)| *at_ms);
            pipe.is_closed = true;
            let at_ms = before_ms.max(self.now_ms + self.usual.latency_ms);
            pipe.chunks.push_back((at_ms, None));
            self.plan(at_ms, What::Arrive(conn_id, is_first));
        }
        self.with(id, |mesh, now_ms| mesh.disconnected(now_ms, conn_id, "closed"));
    }
}
