//! The demo's world: sites, links, addresses on loopback, keys, and the files its nodes read.

use super::Failure;
use crate::clock;
use portolan_peer::pki::{self, Making, Pin};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

// TABLES: the shipped ISP tables, by file name
include!(concat!(env!("OUT_DIR"), "/tables.rs"));

/// The name that is balanced.
pub(super) const SERVICE: &str = "www.demo.example.";
/// Where backends are stopped and started.
pub(super) const CONTROL: Ipv4Addr = Ipv4Addr::new(127, 20, 0, 1);

/// A site with its links.
pub(super) struct Site {
    pub(super) name: &'static str,
    pub(super) node: &'static str,
    /// Link, its operator, weight.
    pub(super) links: &'static [(&'static str, &'static str, u16)],
}

/// The sites; each has its own node.
pub(super) const SITES: [Site; 3] = [
    Site {
        name: "beijing",
        node: "bj1",
        links: &[("ct", "chinatelecom", 1), ("cu", "chinaunicom", 1), ("cm", "chinamobile", 1)],
    },
    Site { name: "frankfurt", node: "fra1", links: &[("dtag", "dtag", 2), ("level3", "level3", 1)] },
    Site { name: "ashburn", node: "iad1", links: &[("comcast", "comcast", 1), ("verizon", "verizon", 1)] },
];

/// A client to ask for: who it is, its subnet, and the link it should get.
pub(super) struct Client {
    pub(super) who: &'static str,
    pub(super) subnet: &'static str,
    /// `site/link`, or a site where several of its links are right.
    pub(super) right: &'static str,
}

/// The clients of the tour.
pub(super) const CLIENTS: [Client; 6] = [
    Client { who: "China Telecom, Beijing", subnet: "36.110.1.0/24", right: "beijing/ct" },
    Client { who: "China Unicom, Beijing", subnet: "123.112.1.0/24", right: "beijing/cu" },
    Client { who: "China Mobile, Beijing", subnet: "111.13.1.0/24", right: "beijing/cm" },
    Client { who: "Deutsche Telekom", subnet: "80.128.1.0/24", right: "frankfurt/dtag" },
    Client { who: "Orange, France", subnet: "90.1.1.0/24", right: "frankfurt" },
    Client { who: "Comcast, USA", subnet: "73.10.1.0/24", right: "ashburn/comcast" },
];

/// The address of a site's link: the demo's backends live there.
pub(super) fn address(site: usize, link: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 20, site as u8 + 1, (link as u8 + 1) * 10)
}

/// Where a site's node answers.
pub(super) fn node_address(site: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 20, site as u8 + 1, 1)
}

/// `site/link` of an answered address.
pub(super) fn place_of(answer: &str) -> Option<String> {
    places().find(|(address, _)| address.to_string() == answer).map(|(_, place)| place)
}

/// Every link's address and `site/link`.
pub(super) fn places() -> impl Iterator<Item = (Ipv4Addr, String)> {
    SITES.iter().enumerate().flat_map(|(s, site)| {
        site.links
            .iter()
            .enumerate()
            .map(move |(l, (link, ..))| (address(s, l), format!("{}/{link}", site.name)))
    })
}

/// Where things of the demo listen.
pub(super) struct Sockets {
    /// Port of the backends.
    pub(super) backends: u16,
    /// Where each node answers.
    pub(super) dns: Vec<SocketAddr>,
    /// Where each node talks to the others.
    pub(super) peers: Vec<SocketAddr>,
}

/// Writes everything the nodes read.
pub(super) fn write(dir: &Path, sockets: &Sockets) -> Result<(), Failure> {
    let tables = dir.join("isp-tables");
    std::fs::create_dir_all(&tables)?;
    for (name, bytes) in TABLES {
        std::fs::write(tables.join(name), bytes)?;
    }
    std::fs::write(dir.join("demo.example.zone"), ZONE)?;
    let pins = keys(&dir.join("pki"))?;
    for (at, site) in SITES.iter().enumerate() {
        std::fs::write(dir.join(format!("{}.toml", site.node)), config(at, sockets, &pins))?;
    }
    Ok(())
}

/// Keys for all nodes, as `portolan pki init` and `portolan pki issue` make them.
fn keys(dir: &Path) -> Result<Vec<Pin>, Failure> {
    let now_s = i64::try_from(clock::unix_s())?;
    let making = Making { days: None, force: true, renew: false, now_s };
    pki::init(dir, &making)?;
    let pins = SITES.iter().map(|site| Ok(pki::issue(dir, site.node, &making)?.pin));
    pins.collect()
}

const ZONE: &str = "\
$ORIGIN demo.example.
$TTL 300
@       SOA  ns1 hostmaster 1 3600 600 604800 60
        NS   ns1
        NS   ns2
        NS   ns3
        MX   10 mail
ns1     A    127.20.1.1
ns2     A    127.20.2.1
ns3     A    127.20.3.1
mail    A    127.20.1.25
static  TXT  \"an ordinary record beside the balanced name\"
";

fn config(at: usize, sockets: &Sockets, pins: &[Pin]) -> String {
    let (Some(site), Some(dns), Some(listen)) = (SITES.get(at), sockets.dns.get(at), sockets.peers.get(at))
    else {
        return String::new();
    };
    let mut text = format!(
        r#"version = 1

[node]
name = "{node}"
site = "{name}"
state = "state-{node}"

[dns]
listen = ["{dns}"]
zones = ["demo.example.zone"]

[tables]
isp = "isp-tables/"

[tables.prefixes]                # who is near which site, by hand; a GeoIP file would do it for the whole world
asia = ["36.96.0.0/11", "111.0.0.0/10", "123.112.0.0/12"]
europe = ["80.128.0.0/12", "90.0.0.0/9"]
america = ["73.0.0.0/8", "71.96.0.0/11"]

[api]
listen = "./{node}.sock"

[peers]                          # the other nodes: each knows them by their keys
listen = "{listen}"
identity = "pki/{node}"
trace = "{node}.trace"
members = [
"#,
        node = site.node,
        name = site.name,
    );
    for ((other, peers), pin) in SITES.iter().zip(&sockets.peers).zip(pins) {
        if other.node != site.node {
            text += &format!(
                "  {{ name = \"{}\", site = \"{}\", address = \"{peers}\", pin = \"{pin}\" }},\n",
                other.node, other.name
            );
        }
    }
    text += "]\n\n";
    for site in &SITES {
        let links =
            site.links.iter().map(|(link, isp, _)| format!("{{ name = \"{link}\", isp = \"{isp}\" }}"));
        let links = links.collect::<Vec<_>>().join(", ");
        text += &format!("[[site]]\nname = \"{}\"\nlinks = [{links}]\n\n", site.name);
    }
    text += &format!(
        r#"[[service]]
name = "{SERVICE}"
ttl = 5
choose = ["acl", "isp", "weighted-round-robin"]
members = "peers"                # every virtual server of this service, here and at the other sites
acl = [
  {{ from = "asia", prefer = "beijing" }},
  {{ from = "europe", prefer = "frankfurt" }},
  {{ from = "america", prefer = "ashburn" }},
]
"#
    );
    for (l, (link, _, weight)) in site.links.iter().enumerate() {
        let (address, port) = (address(at, l), sockets.backends);
        text += &format!(
            r#"
[[virtual_server]]
name = "www-{link}"
service = "{SERVICE}"
link = "{link}"
address = "{address}"
weight = {weight}
ports = [{port}]
mode = "external"
check.http = {{ path = "/healthz", interval = "500ms", timeout = "400ms", rise = 1, fall = 1 }}
"#
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configs_are_good() {
        let dir = tempfile::tempdir().unwrap();
        let at = |port| (0..3).map(|site| (node_address(site), port).into()).collect();
        write(dir.path(), &Sockets { backends: 8080, dns: at(0), peers: at(7353) }).unwrap();
        for site in &SITES {
            let config = portolan_config::load(&dir.path().join(format!("{}.toml", site.node)));
            let config = config.unwrap_or_else(|problems| panic!("{}", problems.render(false)));
            assert!(config.warnings.is_empty(), "{}", config.warnings.render(false));
        }
        assert_eq!(places().count(), 7);
        assert_eq!(place_of("127.20.2.20").as_deref(), Some("frankfurt/level3"));
    }
}
