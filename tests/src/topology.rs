//! Sites and clients far apart: a namespace each, joined by a [`Relay`] with the delays of a wide-area network.
//!
//! ```text
//!  Topology (sites, clients, round trips) ─► start ─► Network
//!                                                      ├─ at("frankfurt"): Place ─ setup, backend, dig, ping, run
//!                                                      └─ cut, heal, partition, block_udp, change
//! ```
//! A place owns the first address of each of its prefixes. A client answers at *every* address of its prefixes, so that
//! it stands for as many client networks as a test wants; a site has what [`Place::own`] gives it.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path as FilePath;
use std::time::Duration;

use ipnet::IpNet;

use crate::backend::Backend;
use crate::dig::Dig;
use crate::netns::{self, Namespace};
use crate::ping::{self, Echo};
use crate::program::Said;
use crate::relay::{Counts, Path, Port, Relay};
use crate::setup::Setup;

/// The device by which a place reaches all others.
const DEVICE: &str = "wan";

/// A network in the making.
pub struct Topology {
    places: Vec<(String, Vec<IpNet>, Kind)>,
    paths: Vec<(String, String, Path)>,
    seed: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Site,
    Client,
}

impl Topology {
    /// Without any place. The seed of jitter and loss is printed, and so shown when the test fails.
    #[must_use]
    pub fn new() -> Self {
        let seed = fastrand::u64(..);
        eprintln!("the network's seed: {seed}");
        Self { places: Vec::new(), paths: Vec::new(), seed }
    }

    /// The same jitter and losses again.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// A site with these prefixes, parted by blanks.
    #[must_use]
    pub fn site(self, name: &str, prefixes: &str) -> Self {
        self.place(name, prefixes, Kind::Site)
    }

    /// A network of clients with these prefixes, every address of which answers.
    #[must_use]
    pub fn client(self, name: &str, prefixes: &str) -> Self {
        self.place(name, prefixes, Kind::Client)
    }

    /// The round trip between two places in milliseconds, half of it each way. Without it there is no delay.
    #[must_use]
    pub fn rtt(self, one: &str, other: &str, ms: u32) -> Self {
        let path = Path { delay: Duration::from_millis(ms.into()) / 2, ..Path::default() };
        self.path(one, other, path).path(other, one, path)
    }

    /// The path one way, with all that can be said of it.
    #[must_use]
    pub fn path(mut self, from: &str, to: &str, path: Path) -> Self {
        self.paths.push((from.to_owned(), to.to_owned(), path));
        self
    }

    fn place(mut self, name: &str, prefixes: &str, kind: Kind) -> Self {
        let nets = prefixes.split_whitespace().map(|text| {
            let net: IpNet = text.parse().unwrap_or_else(|error| panic!("{name}: {text}: {error}"));
            net.trunc()
        });
        self.places.push((name.to_owned(), nets.collect(), kind));
        self
    }

    /// Makes it; none, with the reason printed, where this user may make none.
    #[must_use]
    pub fn start(self) -> Option<Network> {
        let mut places = Vec::new();
        for (name, nets, kind) in &self.places {
            places.push(Place {
                name: name.clone(),
                nets: nets.clone(),
                namespace: Namespace::new()?,
                kind: *kind,
            });
        }
        let port = |place: &Place| Port {
            namespace: place.namespace.name().to_owned(),
            device: DEVICE.to_owned(),
            nets: place.nets.clone(),
        };
        let relay = match Relay::start(places.iter().map(port).collect(), self.seed) {
            Ok(relay) => relay,
            Err(error) => {
                eprintln!("skipped: no TUN devices here: {error}");
                return None;
            }
        };
        places.iter().for_each(Place::connect);
        let network = Network { relay, places };
        for (from, to, wanted) in self.paths {
            network.change(&from, &to, |path| *path = wanted);
        }
        Some(network)
    }
}

impl Default for Topology {
    fn default() -> Self {
        Self::new()
    }
}

/// A running network; taken down when dropped.
pub struct Network {
    // first, so that its devices go before their namespaces
    relay: Relay,
    places: Vec<Place>,
}

impl Network {
    /// A place.
    #[must_use]
    pub fn at(&self, name: &str) -> &Place {
        &self.places[self.port(name)]
    }

    /// Lets nothing through between two places, not even what is on its way.
    pub fn cut(&self, one: &str, other: &str) {
        self.both(one, other, |path| path.is_cut = true);
    }

    /// Lets everything through again.
    pub fn heal(&self, one: &str, other: &str) {
        self.both(one, other, |path| (path.is_cut, path.drops_udp) = (false, false));
    }

    /// Cuts a place off from all others.
    pub fn isolate(&self, name: &str) {
        self.places.iter().filter(|place| place.name != name).for_each(|place| self.cut(name, &place.name));
    }

    /// Heals everything.
    pub fn heal_all(&self) {
        for (number, one) in self.places.iter().enumerate() {
            self.places[..number].iter().for_each(|other| self.heal(&one.name, &other.name));
        }
    }

    /// Parts the network: nothing passes from one group to another. Places in no group reach all.
    pub fn partition(&self, groups: &[&[&str]]) {
        for (number, group) in groups.iter().enumerate() {
            for one in *group {
                for other in groups[..number].iter().copied().flatten() {
                    self.cut(one, other);
                }
            }
        }
    }

    /// Drops UDP between two places, as some firewalls do, and nothing else.
    pub fn block_udp(&self, one: &str, other: &str) {
        self.both(one, other, |path| path.drops_udp = true);
    }

    /// Changes the path one way.
    pub fn change(&self, from: &str, to: &str, change: impl FnOnce(&mut Path)) {
        self.relay.change(self.port(from), self.port(to), change);
    }

    /// What became of all packets so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.relay.counts()
    }

    fn both(&self, one: &str, other: &str, change: impl Fn(&mut Path)) {
        self.change(one, other, &change);
        self.change(other, one, &change);
    }

    fn port(&self, name: &str) -> usize {
        self.places
            .iter()
            .position(|place| place.name == name)
            .unwrap_or_else(|| panic!("no place is called {name}"))
    }
}

/// A site, or a network of clients.
pub struct Place {
    name: String,
    nets: Vec<IpNet>,
    namespace: Namespace,
    kind: Kind,
}

impl Place {
    /// Its namespace.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// The n-th address of its first prefix; the first one is its own.
    #[must_use]
    pub fn address(&self, n: u32) -> IpAddr {
        nth(self.nets[0], n)
    }

    /// The n-th address of its first IPv6 prefix.
    #[must_use]
    pub fn address_v6(&self, n: u32) -> IpAddr {
        let net = self.nets.iter().find(|net| net.addr().is_ipv6());
        nth(*net.unwrap_or_else(|| panic!("{} has no IPv6", self.name)), n)
    }

    /// Where a node of this site answers DNS.
    #[must_use]
    pub fn dns(&self) -> SocketAddr {
        SocketAddr::new(self.address(1), 53)
    }

    /// Takes the n-th address of its first prefix, and returns it.
    pub fn own(&self, n: u32) -> IpAddr {
        let address = self.address(n);
        self.namespace.address(DEVICE, &IpNet::from(address).to_string());
        address
    }

    /// A folder for a node that runs here and answers at [`Place::dns`], with this config.
    #[must_use]
    pub fn setup(&self, config: &str) -> Setup {
        let mut setup = Setup::empty();
        setup.listen(self.dns()).within(&self.namespace);
        setup.write("portolan.toml", config);
        setup
    }

    /// An HTTP server here, at the n-th address, which the place takes.
    #[must_use]
    pub fn backend(&self, n: u32, port: u16) -> Backend {
        Backend::start_within(&self.namespace, SocketAddr::new(self.own(n), port))
    }

    /// dig from here.
    #[must_use]
    pub fn dig(&self, server: SocketAddr) -> Dig {
        Dig::new(server).within(Some(self.namespace.name()))
    }

    /// An echo from here.
    #[must_use]
    pub fn ping(&self, target: IpAddr, limit: Duration) -> Option<Echo> {
        self.namespace.inside(|| ping::ping(target, limit))
    }

    /// A command here: a program and its arguments.
    #[must_use]
    pub fn run(&self, program: &str, args: &[&str]) -> Said {
        Said::by(netns::command(Some(self.namespace.name()), FilePath::new(program)).args(args))
    }

    fn connect(&self) {
        self.namespace.ip(&format!("link set {DEVICE} up"));
        for net in &self.nets {
            self.namespace.address(DEVICE, &IpNet::from(nth(*net, 1)).to_string());
            if self.kind == Kind::Client {
                // every address of it is this host's
                self.namespace.ip(&format!("route add local {net} dev lo"));
            }
        }
        let families: BTreeMap<_, _> = self
            .nets
            .iter()
            .map(|net| (net.addr().is_ipv4(), if net.addr().is_ipv4() { "-4" } else { "-6" }))
            .collect();
        for family in families.values() {
            self.namespace.ip(&format!("{family} route add default dev {DEVICE}"));
        }
    }
}

fn nth(net: IpNet, n: u32) -> IpAddr {
    let address = match net.network() {
        IpAddr::V4(base) => IpAddr::from((u32::from(base) + n).to_be_bytes()),
        IpAddr::V6(base) => IpAddr::from((u128::from(base) + u128::from(n)).to_be_bytes()),
    };
    assert!(net.contains(&address), "{net} has no address number {n}");
    address
}
