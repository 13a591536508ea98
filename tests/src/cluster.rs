//! Several nodes that know each other by real keys, each at a site of a [`Network`].
//!
//! ```text
//!  Network ─► Cluster::new: portolan pki init, issue, pin ─► start(node, config) ─► Node
//!                             (one folder, copied to each)     @peers@ filled in
//! ```

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::node::Node;
use crate::program::{Said, portolan};
use crate::setup::Setup;
use crate::topology::{Network, Place};

/// Where nodes listen for their peers.
pub const PORT: u16 = 7353;

/// Nodes, and the network between them.
pub struct Cluster {
    // in this order they end
    nodes: BTreeMap<String, Node>,
    keys: TempDir,
    network: Network,
    /// Node and site.
    members: Vec<(String, String)>,
}

impl Cluster {
    /// Keys for one node at each of these sites; none runs yet.
    #[must_use]
    pub fn new(network: Network, members: &[(&str, &str)]) -> Self {
        let keys = tempfile::Builder::new().prefix("portolan-").tempdir().unwrap();
        let members = members.iter().map(|(node, site)| ((*node).to_owned(), (*site).to_owned())).collect();
        let cluster = Self { nodes: BTreeMap::new(), keys, network, members };
        let _ = cluster.pki(&["init"]).expect(0);
        for (node, _) in &cluster.members {
            let _ = cluster.pki(&["issue", node]).expect(0);
        }
        cluster
    }

    /// `portolan pki COMMAND FOLDER ARGS` with the folder of all keys.
    #[must_use]
    pub fn pki(&self, words: &[&str]) -> Said {
        let (command, args) = words.split_first().expect("a command");
        Said::by(
            Command::new(portolan()).args(["pki", command]).arg(self.keys.path()).args(args).arg("--json"),
        )
    }

    /// The folder with the CA and all keys and certificates, from which a node that starts gets its own.
    #[must_use]
    pub fn keys(&self) -> &Path {
        self.keys.path()
    }

    /// The pin of a node's key.
    #[must_use]
    pub fn pin(&self, node: &str) -> String {
        self.pki(&["pin", node]).expect(0).json()["pin"].as_str().unwrap().to_owned()
    }

    /// The network.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Where a node stands.
    #[must_use]
    pub fn place(&self, node: &str) -> &Place {
        let member = self.members.iter().find(|(name, _)| name == node);
        self.network.at(&member.unwrap_or_else(|| panic!("no node is called {node}")).1)
    }

    /// Names of all nodes, also of those that do not run.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|(node, _)| node.as_str())
    }

    /// A running node.
    #[must_use]
    pub fn node(&self, name: &str) -> &Node {
        self.nodes.get(name).unwrap_or_else(|| panic!("{name} does not run"))
    }

    /// A running node, to stop or kill it.
    pub fn node_mut(&mut self, name: &str) -> &mut Node {
        self.nodes.get_mut(name).unwrap_or_else(|| panic!("{name} does not run"))
    }

    /// All running nodes.
    pub fn nodes(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.nodes.iter().map(|(name, node)| (name.as_str(), node))
    }

    /// The entries of `[peers] members` for a node.
    #[must_use]
    pub fn peers_of(&self, node: &str) -> String {
        let others = self.members.iter().filter(|(name, _)| name != node).map(|(name, site)| {
            let address = SocketAddr::new(self.network.at(site).address(1), PORT);
            let pin = self.pin(name);
            format!(
                "  {{ name = \"{name}\", site = \"{site}\", address = \"{address}\", pin = \"{pin}\" }},\n"
            )
        });
        others.collect()
    }

    /// Starts a node. In the config `@node@` and `@site@` are its own, `@listen@` is where it listens for peers,
    /// `@identity@` its key and `@peers@` the entries for all others.
    pub fn start(&mut self, name: &str, config: &str) {
        self.add(name, self.setup(name, config));
    }

    /// Starts a node in its folder.
    pub fn add(&mut self, name: &str, setup: Setup) {
        self.nodes.insert(name.to_owned(), setup.start());
    }

    /// The folder of a node that is not started yet.
    #[must_use]
    pub fn setup(&self, name: &str, config: &str) -> Setup {
        let place = self.place(name);
        let site = self.members.iter().find(|(node, _)| node == name).map(|(_, site)| site.as_str());
        let mut setup = place.setup("");
        setup
            .set("node", name)
            .set("site", site.unwrap_or_default())
            .set("listen", SocketAddr::new(place.address(1), PORT))
            .set("identity", format!("pki/{name}"))
            .set("peers", self.peers_of(name));
        self.hand_out(name, &setup.path("pki"));
        setup.write("portolan.toml", config);
        setup
    }

    /// Copies what a node needs of the keys.
    pub fn hand_out(&self, name: &str, folder: &Path) {
        std::fs::create_dir_all(folder).unwrap();
        for file in ["ca.crt".to_owned(), format!("{name}.crt"), format!("{name}.key")] {
            std::fs::copy(self.key_file(&file), folder.join(&file)).unwrap();
        }
    }

    /// Ends a node for good.
    pub fn stop(&mut self, name: &str) {
        self.nodes.remove(name).unwrap_or_else(|| panic!("{name} does not run"));
    }

    /// Makes a node's certificate anew for the same key, valid until yesterday.
    pub fn expire_certificate(&self, name: &str) {
        std::fs::write(
            self.key_file("extensions"),
            format!(
                "subjectAltName=DNS:{name}\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\n"
            ),
        )
        .unwrap();
        let openssl = |args: &str| {
            let words = args.split_whitespace();
            let said = Said::by(Command::new("openssl").args(words).current_dir(self.keys.path()));
            let _ = said.expect(0);
        };
        openssl(&format!("req -new -key {name}.key -subj /CN={name} -out request"));
        openssl(&format!(
            "x509 -req -in request -CA ca.crt -CAkey ca.key -days -1 -extfile extensions -out {name}.crt"
        ));
    }

    fn key_file(&self, name: &str) -> PathBuf {
        self.keys.path().join(name)
    }
}
