//! What agreement between many nodes costs: octets, time of the processor, time until all know.
//!
//! Every node publishes its virtual servers. A few nodes, the observers, are connected to all others, as in a full
//! mesh; pairs of other nodes are not, for what they would tell each other changes nothing for an observer, and a
//! hundred full nodes do not fit in memory. All figures are those of observers.

use portolan_peer::memory::{Clock, Network, NodeId, Path};
use portolan_peer::{Claim, Key, Mesh, PeerSettings, ServerState, Settings, VirtualServer};
use serde::Serialize;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

/// How long claims of a silent peer live: the default of the config.
const HOLD_MS: u64 = 3_000;
/// How long the steady state is watched.
const STEADY_MS: u64 = 30_000;
/// No wait is longer.
const PATIENCE_MS: u64 = 120_000;

/// What to simulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Nodes.
    pub peers: usize,
    /// Virtual servers of each.
    pub servers: usize,
    /// Nodes that are connected to all others.
    pub observers: usize,
    /// Seed of delays.
    pub seed: u64,
}

impl Scale {
    /// Most nodes.
    pub const PEERS: usize = 500;
    /// Most virtual servers of a node: what peers keep of one author.
    pub const SERVERS: usize = 60_000;

    /// What is out of range, in words.
    pub fn check(&self) -> Result<(), String> {
        let Self { peers, servers, observers, seed: _ } = *self;
        if !(2..=Self::PEERS).contains(&peers) {
            return Err(format!("{peers} peers: give 2 to {}", Self::PEERS));
        }
        if !(1..=Self::SERVERS).contains(&servers) {
            return Err(format!("{servers} virtual servers: give 1 to {}", Self::SERVERS));
        }
        if peers * servers > 400_000 {
            return Err(format!("{} virtual servers in all: a node keeps 400,000 at most", peers * servers));
        }
        if !(1..=peers).contains(&observers) {
            return Err(format!("{observers} observers: give 1 to {peers}"));
        }
        Ok(())
    }
}

/// What it costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Costs {
    /// Nodes, and virtual servers of each.
    pub peers: usize,
    /// See `peers`.
    pub servers: usize,
    /// From nothing until observers know everything.
    pub start: Phase,
    /// When nothing happens, over half a minute.
    pub steady: Phase,
    /// One backend fails.
    pub one_failure: Phase,
    /// All virtual servers of a node fail at once.
    pub site_failure: Phase,
    /// Half of the nodes cannot be reached; until their claims are gone.
    pub partition: Phase,
    /// They can be reached again, and something changed meanwhile; until all agree.
    pub heal: Phase,
}

/// The costs of one phase, of an observer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Phase {
    /// How long it took.
    pub ms: u64,
    /// Octets sent and received.
    pub bytes: u64,
    /// Octets a second.
    pub bytes_per_s: f64,
    /// Processor time of all nodes' sessions, and the network's, by node and second of the phase, in microseconds.
    pub cpu_us_per_s: f64,
    /// Whether it came to its end.
    pub is_done: bool,
}

struct Cluster {
    scale: Scale,
    network: Network,
    nodes: Vec<NodeId>,
}

/// Simulates it.
#[must_use]
pub fn run(scale: Scale) -> Costs {
    let mut cluster = Cluster::new(scale);
    let last = scale.peers - 1;
    let start = cluster.phase(PATIENCE_MS, |it| it.all_know(|_| true));
    let steady = cluster.watch(STEADY_MS);
    cluster.fail(last, 1);
    let one_failure = cluster.phase(PATIENCE_MS, |it| it.all_see(last, 0, Some(ServerState::Down)));
    cluster.watch(HOLD_MS);
    cluster.fail(last, scale.servers);
    let end = scale.servers - 1;
    let site_failure = cluster.phase(PATIENCE_MS, |it| {
        it.all_see(last, end, Some(ServerState::Down)) && it.all_see(last, 0, Some(ServerState::Down))
    });
    cluster.watch(HOLD_MS);
    // an observer stays on the side of the first half
    let far = scale.observers.max(scale.peers / 2);
    cluster.cut(far, true);
    let partition = cluster.phase(PATIENCE_MS, |it| (far..it.scale.peers).all(|n| it.all_see(n, 0, None)));
    if far < scale.peers {
        cluster.publish(far, 0, ServerState::Drain);
    }
    cluster.cut(far, false);
    let heal = cluster.phase(PATIENCE_MS, |it| {
        it.all_know(|_| true) && (far >= scale.peers || it.all_see(far, 0, Some(ServerState::Drain)))
    });
    let Scale { peers, servers, .. } = scale;
    Costs { peers, servers, start, steady, one_failure, site_failure, partition, heal }
}

impl Cluster {
    fn new(scale: Scale) -> Self {
        let mut network = Network::new(scale.seed, Path { latency_ms: 50, jitter_ms: 10, ..Path::default() });
        let mut nodes = Vec::new();
        for number in 0..scale.peers {
            let is_known =
                |other: &usize| *other != number && (number < scale.observers || *other < scale.observers);
            let peers = (0..scale.peers).filter(is_known);
            let peers = peers.map(|other| PeerSettings { name: name(other), site: site(other) });
            let mut settings = Settings::new(&name(number), &site(number), number as u64 + 1, HOLD_MS);
            settings.peers = peers.collect();
            nodes.push(network.add(settings, Clock::default()));
        }
        for one in scale.observers..scale.peers {
            for other in one + 1..scale.peers {
                network.set_cut(NodeId(one), NodeId(other), true);
            }
        }
        let mut cluster = Self { scale, network, nodes };
        for node in 0..scale.peers {
            for server in 0..scale.servers {
                cluster.publish(node, server, ServerState::Up);
            }
        }
        cluster
    }

    fn id(&self, node: usize) -> NodeId {
        self.nodes.get(node).copied().unwrap_or(NodeId(0))
    }

    fn publish(&mut self, node: usize, server: usize, state: ServerState) {
        let id = self.id(node);
        let claim = Claim::VirtualServer(virtual_server(node, server, state));
        self.network.with(id, |mesh, now_ms| mesh.publish(now_ms, claim, None));
    }

    fn fail(&mut self, node: usize, servers: usize) {
        for server in 0..servers {
            self.publish(node, server, ServerState::Down);
        }
    }

    /// Cuts, or joins, the ways between the observers and the nodes from `far` on.
    fn cut(&mut self, far: usize, is_cut: bool) {
        for observer in 0..self.scale.observers {
            for node in far..self.scale.peers {
                self.network.set_cut(self.id(observer), self.id(node), is_cut);
            }
        }
    }

    fn observers(&self) -> impl Iterator<Item = (usize, &Mesh)> {
        (0..self.scale.observers).filter_map(|node| Some((node, self.network.mesh(self.id(node))?)))
    }

    /// Whether all observers hold all that the others publish.
    fn all_know(&self, is_asked: impl Fn(usize) -> bool) -> bool {
        self.observers().all(|(own, mesh)| {
            (0..self.scale.peers)
                .filter(|node| *node != own && is_asked(*node))
                // the last one published is the last one to come
                .all(|node| {
                    mesh.claim(&name(node), &key(self.scale.servers - 1)).is_some_and(|it| !it.is_stale)
                })
        })
    }

    fn all_see(&self, node: usize, server: usize, state: Option<ServerState>) -> bool {
        self.observers().filter(|(own, _)| *own != node).all(|(_, mesh)| {
            let held = mesh.claim(&name(node), &key(server));
            let seen = held.and_then(|held| match held.claim {
                Claim::VirtualServer(server) => Some(server.state),
                Claim::Link(_)
                | Claim::Proximity(_)
                | Claim::Persistence(_)
                | Claim::Digest(_)
                | Claim::Word(_) => None,
            });
            seen == state
        })
    }

    fn bytes(&self) -> u64 {
        let of = |mesh: &Mesh| {
            mesh.peers().iter().map(|it| it.counters.bytes_in + it.counters.bytes_out).sum::<u64>()
        };
        self.observers().map(|(_, mesh)| of(mesh)).sum::<u64>() / self.scale.observers.max(1) as u64
    }

    fn watch(&mut self, span_ms: u64) -> Phase {
        self.phase(span_ms, |_| false)
    }

    /// Runs until it is so, at most so long, looking every ten milliseconds.
    fn phase(&mut self, most_ms: u64, is_so: impl Fn(&Self) -> bool) -> Phase {
        let (since_ms, before) = (self.network.now_ms(), self.bytes());
        let mut cpu = std::time::Duration::ZERO;
        let mut is_done = is_so(self);
        while !is_done && self.network.now_ms() - since_ms < most_ms {
            let start = Instant::now();
            self.network.run_until(self.network.now_ms() + 10);
            cpu += start.elapsed();
            is_done = is_so(self);
        }
        let ms = self.network.now_ms() - since_ms;
        let bytes = self.bytes().saturating_sub(before);
        let seconds = ms.max(1) as f64 / 1000.0;
        // an observer has one session with each other node, and each of those has its end of it
        let nodes = 2.0 * self.scale.observers as f64;
        Phase {
            ms,
            bytes,
            bytes_per_s: (bytes as f64 / seconds).round(),
            cpu_us_per_s: (cpu.as_micros() as f64 / seconds / nodes).round(),
            is_done,
        }
    }
}

fn name(node: usize) -> String {
    format!("node{node:03}")
}

fn site(node: usize) -> String {
    format!("site{node:03}")
}

fn key(server: usize) -> Key {
    Key::VirtualServer(format!("vs{server:05}"))
}

fn virtual_server(node: usize, server: usize, state: ServerState) -> VirtualServer {
    VirtualServer {
        name: format!("vs{server:05}"),
        service: format!("service{server}.example.com."),
        address: IpAddr::V4(Ipv4Addr::from(0xf000_0000 + ((node as u32) << 16) + server as u32)),
        site: site(node),
        link: None,
        weight: 1,
        tier: 1,
        state,
        reason: String::new(),
        load_permille: None,
        connections: None,
        capacity: None,
    }
}

impl Costs {
    /// A table to read.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!(
            "{} nodes with {} virtual servers each; figures of one node that is connected to all\n\n{:<34}{:>9}{:>13}{:>12}{:>14}\n",
            self.peers, self.servers, "", "ms", "bytes", "bytes/s", "cpu us/s"
        );
        for (what, phase) in [
            ("start, until all is known", &self.start),
            ("steady state", &self.steady),
            ("one backend fails", &self.one_failure),
            ("all of a node's servers fail", &self.site_failure),
            ("half cut off, until claims are gone", &self.partition),
            ("joined again, until all agree", &self.heal),
        ] {
            let end = if phase.is_done || what == "steady state" { "" } else { "  not done" };
            text += &format!(
                "{what:<36}{:>7}{:>13}{:>12}{:>14}{end}\n",
                phase.ms, phase.bytes, phase.bytes_per_s, phase.cpu_us_per_s
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agreement_is_cheap_and_quick() {
        let scale = Scale { peers: 12, servers: 50, observers: 2, seed: 7 };
        let costs = run(scale);
        println!("{}", costs.text());
        for phase in [costs.start, costs.one_failure, costs.site_failure, costs.partition, costs.heal] {
            assert!(phase.is_done, "{costs:?}");
        }
        // within a second of its detection everywhere
        assert!(costs.one_failure.ms <= 1_000, "{costs:?}");
        assert!(costs.site_failure.ms <= 1_000, "{costs:?}");
        // claims live for `hold` after the last word, and are exchanged anew within one claim interval
        assert!((HOLD_MS / 2..=2 * HOLD_MS).contains(&costs.partition.ms), "{costs:?}");
        assert!(costs.heal.ms <= 2_000, "{costs:?}");
        // nothing but keepalives
        assert!(costs.steady.bytes_per_s <= 200.0 * scale.peers as f64, "{costs:?}");
        assert!(costs.one_failure.bytes <= 2_000 + 400 * scale.peers as u64, "{costs:?}");
    }

    #[test]
    fn says_what_is_out_of_range() {
        let good = Scale { peers: 100, servers: 1_000, observers: 2, seed: 1 };
        assert_eq!(good.check(), Ok(()));
        for bad in [
            Scale { peers: 1, ..good },
            Scale { servers: 0, ..good },
            Scale { observers: 101, ..good },
            Scale { peers: 400, servers: 2_000, ..good },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
