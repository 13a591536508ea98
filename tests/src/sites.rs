//! Three sites with a server and a node each, as most cases about peers have them.
//!
//! ```text
//!  berlin ─ 4 ms ─ frankfurt: fra1, a server ─ 40 ms ─ ashburn: ash1, a server
//!                         └───── 60 ms ─ beijing: bj1, a server ─ 80 ms ─┘
//! ```

use crate::backend::Backend;
use crate::cluster::Cluster;
use crate::node::Node;
use crate::topology::{Network, Topology};
use crate::wait::{SOON, wait_for};

/// Nodes and their sites.
pub const NODES: [(&str, &str); 3] = [("bj1", "beijing"), ("fra1", "frankfurt"), ("ash1", "ashburn")];
/// The address of Beijing's server.
pub const BEIJING: &str = "36.1.0.10";
/// The address of Frankfurt's server.
pub const FRANKFURT: &str = "46.1.0.10";
/// The address of Ashburn's server.
pub const ASHBURN: &str = "23.1.0.10";
/// All of them, sorted as data of answers are.
pub const ALL: [&str; 3] = [ASHBURN, BEIJING, FRANKFURT];
/// The question of the cases.
pub const WWW: &str = "www.choose.test. A";

/// The config of a node without its services.
const NODE: &str = r#"version = 1
[node]
name = "@node@"
site = "@site@"
state = "state"
[dns]
listen = ["@dns@"]
zones = ["@common@/choose.zone"]
[api]
listen = "./api.sock"
[peers]
listen = "@listen@"
identity = "@identity@"
hold = "2s"
members = [
@peers@]
[[site]]
name = "beijing"
[[site]]
name = "frankfurt"
[[site]]
name = "ashburn"
[[virtual_server]]
name = "www"
service = "www.choose.test."
address = "@vip@"
ports = 80
mode = "external"
check.http = { interval = "50ms", timeout = "2s", rise = 1, fall = 1 }
"#;

/// The service of [`WWW`]: all virtual servers that there are.
pub const SERVICE: &str = r#"
[[service]]
name = "www.choose.test."
ttl = 5
choose = ["all"]
members = "peers"
"#;

fn network() -> Option<Network> {
    Topology::new()
        .site("beijing", "36.1.0.0/16")
        .site("frankfurt", "46.1.0.0/16")
        .site("ashburn", "23.1.0.0/16")
        .client("berlin", "46.2.0.0/16")
        .rtt("beijing", "frankfurt", 60)
        .rtt("beijing", "ashburn", 80)
        .rtt("frankfurt", "ashburn", 40)
        .rtt("berlin", "frankfurt", 4)
        .start()
}

/// Three sites with a server and a node each.
pub struct World {
    /// The nodes.
    pub cluster: Cluster,
    /// The servers, in the order of [`NODES`].
    pub backends: Vec<Backend>,
}

impl World {
    /// With nodes that are still to be started.
    #[must_use]
    pub fn prepare() -> Option<Self> {
        let cluster = Cluster::new(network()?, &NODES);
        let backends = NODES.iter().map(|(node, _)| cluster.place(node).backend(10, 80)).collect();
        Some(Self { cluster, backends })
    }

    /// With all nodes running, this added to the config of each, and everything learned.
    #[must_use]
    pub fn start(services: &str) -> Option<Self> {
        let mut world = Self::prepare()?;
        for (node, _) in NODES {
            world.run(node, services);
        }
        world.wait_until_all_are_up();
        Some(world)
    }

    /// Starts a node, with this added to its config.
    pub fn run(&mut self, node: &str, services: &str) {
        let config = self.config(node, services);
        self.cluster.start(node, &config);
    }

    /// The config of a node with this added.
    #[must_use]
    pub fn config(&self, node: &str, services: &str) -> String {
        let vip = self.cluster.place(node).address(10);
        format!("{}{services}", NODE.replace("@vip@", &vip.to_string()))
    }

    /// A running node.
    #[must_use]
    pub fn node(&self, name: &str) -> &Node {
        self.cluster.node(name)
    }

    /// The server at a node's site.
    pub fn backend(&mut self, node: &str) -> &mut Backend {
        let place = NODES.iter().position(|(name, _)| *name == node).unwrap();
        &mut self.backends[place]
    }

    /// The network.
    #[must_use]
    pub fn network(&self) -> &Network {
        self.cluster.network()
    }

    /// Every running node hears all others.
    pub fn wait_until_all_are_up(&self) {
        for (name, node) in self.cluster.nodes() {
            for (other, _) in NODES.iter().filter(|(other, _)| *other != name) {
                wait_for_state(node, other, "up");
            }
        }
    }

    /// Every running node answers this.
    pub fn all_answer(&self, question: &str, expected: &[&str]) {
        self.cluster.nodes().for_each(|(_, node)| node.wait_for_data(question, expected));
    }
}

/// What a node says of a peer.
#[must_use]
pub fn peer(node: &Node, name: &str) -> serde_json::Value {
    let status = node.cli(&["peers", "--json"]).json();
    let peers = status["peers"].as_array().unwrap_or_else(|| panic!("no list: {status}"));
    peers.iter().find(|peer| peer["name"] == name).cloned().unwrap_or_default()
}

/// Waits until a node says so of a peer.
pub fn wait_for_peer(node: &Node, name: &str, what: &str, is_so: impl Fn(&serde_json::Value) -> bool) {
    wait_for(SOON, &format!("{name} is {what}"), || {
        let peer = peer(node, name);
        if is_so(&peer) { Ok(()) } else { Err(peer.to_string()) }
    });
}

/// Waits until a node gives a peer this state.
pub fn wait_for_state(node: &Node, name: &str, state: &str) {
    wait_for_peer(node, name, state, |peer| peer["state"] == state);
}

/// Asks it some more: each answer is good.
pub fn keeps_answering(node: &Node) {
    for _ in 0..20 {
        let reply = node.dig(WWW);
        assert!(reply.status == "NOERROR" && !reply.answer.is_empty(), "{}", reply.text);
    }
}
