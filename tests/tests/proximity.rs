//! Clients are answered with the site that is near in fact, measured, whatever the tables believe.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::net::IpAddr;
use std::time::{Duration, Instant};

use portolan_tests::cluster::Cluster;
use portolan_tests::node::Node;
use portolan_tests::topology::Topology;
use portolan_tests::wait::{SOON, wait_for};

const NODES: [(&str, &str); 3] = [("bj1", "beijing"), ("fra1", "frankfurt"), ("ash1", "ashburn")];
const BEIJING: &str = "36.1.0.10";
const FRANKFURT: &str = "46.1.0.10";
const ASHBURN: &str = "23.1.0.10";
const WWW: &str = "www.choose.test. A";

/// Clients: an address, where the table believes them, and which server is near in fact.
const CLIENTS: [(&str, &str, &str, &str); 4] = [
    ("shanghai", "36.2.7.1", FRANKFURT, BEIJING),
    ("berlin", "46.2.7.1", ASHBURN, FRANKFURT),
    ("newyork", "23.2.7.1", BEIJING, ASHBURN),
    // a satellite: far from everywhere, and nearest to where the table says
    ("ship", "52.2.7.1", ASHBURN, ASHBURN),
];

const GEO: &str = r#"{
  "36.2.0.0/16": { "location": { "latitude": 50.0, "longitude": 8.0 } },
  "46.2.0.0/16": { "location": { "latitude": 39.0, "longitude": -77.0 } },
  "23.2.0.0/16": { "location": { "latitude": 39.0, "longitude": 116.0 } },
  "52.2.0.0/16": { "location": { "latitude": 40.0, "longitude": -70.0 } }
}"#;

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
[tables]
geo = "geo.mmdb"
[peers]
listen = "@listen@"
identity = "@identity@"
hold = "2s"
members = [
@peers@]
[[site]]
name = "beijing"
location = { lat = 39.9, lon = 116.4 }
[[site]]
name = "frankfurt"
location = { lat = 50.1, lon = 8.7 }
[[site]]
name = "ashburn"
location = { lat = 39.0, lon = -77.5 }
[[virtual_server]]
name = "www"
service = "www.choose.test."
address = "@vip@"
mode = "external"
check = "none"
[[service]]
name = "www.choose.test."
ttl = 5
choose = ["proximity", "geo", "priority"]
members = "peers"
[proximity]
dwell = "1s"
window = "1s"
explore = { share = 0 }
"#;

/// All nodes running, with this added to each config.
fn start(more: &str) -> Option<Cluster> {
    let network = Topology::new()
        .site("beijing", "36.1.0.0/16")
        .site("frankfurt", "46.1.0.0/16")
        .site("ashburn", "23.1.0.0/16")
        .client("shanghai", "36.2.0.0/16")
        .client("berlin", "46.2.0.0/16")
        .client("newyork", "23.2.0.0/16")
        .client("ship", "52.2.0.0/16")
        .rtt("beijing", "frankfurt", 100)
        .rtt("beijing", "ashburn", 120)
        .rtt("frankfurt", "ashburn", 60)
        .rtt("shanghai", "beijing", 8)
        .rtt("shanghai", "frankfurt", 110)
        .rtt("shanghai", "ashburn", 130)
        .rtt("berlin", "beijing", 110)
        .rtt("berlin", "frankfurt", 6)
        .rtt("berlin", "ashburn", 70)
        .rtt("newyork", "beijing", 130)
        .rtt("newyork", "frankfurt", 66)
        .rtt("newyork", "ashburn", 10)
        .rtt("ship", "beijing", 300)
        .rtt("ship", "frankfurt", 260)
        .rtt("ship", "ashburn", 200)
        .start()?;
    let mut cluster = Cluster::new(network, &NODES);
    for (node, _) in NODES {
        let vip = cluster.place(node).own(10).to_string();
        let setup = cluster.setup(node, &format!("{}{more}", NODE.replace("@vip@", &vip)));
        setup.geo("geo.mmdb", GEO);
        cluster.add(node, setup);
    }
    // learned
    for (_, node) in cluster.nodes() {
        for (_, client, believed, _) in CLIENTS {
            wait_for_answer(node, client, believed);
        }
    }
    Some(cluster)
}

/// What a node would answer a client, by `explain`: nothing is learned from that.
fn explained(node: &Node, client: &str) -> serde_json::Value {
    node.cli(&["explain", "www.choose.test", "--from", client, "--json"]).json()
}

fn wait_for_answer(node: &Node, client: &str, expected: &str) {
    wait_for(SOON, &format!("{client} gets {expected}"), || {
        let explained = explained(node, client);
        if explained["answer"] == serde_json::json!([expected]) { Ok(()) } else { Err(explained.to_string()) }
    });
}

/// Asks each node by TCP from an address of a place, as a resolver does now and then.
fn comes_by_tcp(cluster: &Cluster, place: &str, address: &str) {
    let address: IpAddr = address.parse().unwrap();
    for (name, node) in cluster.nodes() {
        let reply = cluster.network().at(place).dig(node.dns()).from(address).ask(&format!("{WWW} +tcp"));
        assert_eq!(reply.status, "NOERROR", "{name}: {}", reply.text);
    }
}

/// What each node answers by UDP, asked by the client itself.
fn all_answer(cluster: &Cluster, place: &str, address: &str, expected: &str) {
    let address: IpAddr = address.parse().unwrap();
    for (name, node) in cluster.nodes() {
        let dig = cluster.network().at(place).dig(node.dns()).from(address);
        wait_for(SOON, &format!("{name} answers {place} with {expected}"), || {
            let data = dig.ask(WWW).data();
            if data == [expected] {
                Ok(())
            } else {
                Err(format!("{data:?}: {}", explained(node, &address.to_string())))
            }
        });
    }
}

/// Round-trip times of the clients' own connections, each measured by the node it came to, told to all others.
#[test]
fn clients_get_their_nearest_site() {
    let Some(cluster) = start("") else { return };
    for (place, address, _, near) in CLIENTS {
        comes_by_tcp(&cluster, place, address);
        let begin = Instant::now();
        all_answer(&cluster, place, address, near);
        eprintln!("{place}: all sites go by what was measured after {:.2} s", begin.elapsed().as_secs_f64());
    }
    // a neighbour in another /24 was never measured; whatever it gets, it gets at once and everywhere the same
    let berlin = cluster.network().at("berlin");
    let answers: Vec<_> = cluster
        .nodes()
        .map(|(_, node)| berlin.dig(node.dns()).from("46.2.99.1".parse().unwrap()).ask(WWW).data())
        .collect();
    assert!(answers.iter().all(|answer| answer.len() == 1), "{answers:?}");
    // the row that was used is shown, at a node which the client is not near to
    let shown =
        cluster.node("ash1").cli(&["explain", "www.choose.test", "--from", "46.2.7.1"]).expect(0).text();
    assert!(shown.contains("46.2.7.0/24") && shown.contains("ms"), "{shown}");
    let shown = cluster.node("bj1").cli(&["proximity", "show", "46.2.7.1"]).expect(0).text();
    assert!(NODES.iter().all(|(_, site)| shown.contains(site)), "{shown}");
}

/// Queries by UDP are enough where probes are on: every site measures who has asked one of them, once the client has
/// shown that it is there. A single query could have anybody's address on it.
#[test]
fn every_site_probes_who_asked_one() {
    let probes =
        "[proximity.active]\nicmp = true\ntrust_peers = true\ncontact = \"https://example.com/probes\"\n";
    let Some(cluster) = start(probes) else { return };
    // queries earn probes, a few in a hundred
    let _ = cluster.node("ash1").digger().ask_all(&vec![WWW.to_owned(); 1000]);
    for (place, address, _, near) in CLIENTS {
        let dig = cluster.network().at(place).dig(cluster.node("ash1").dns()).from(address.parse().unwrap());
        wait_for(SOON, &format!("{place} is measured"), || {
            let _ = dig.ask(WWW);
            let explained = explained(cluster.node("ash1"), address);
            if explained["answer"] == serde_json::json!([near]) { Ok(()) } else { Err(explained.to_string()) }
        });
        for (_, node) in cluster.nodes() {
            wait_for_answer(node, address, near);
        }
    }
}

/// A route changes: the answers follow once it is measured anew.
#[test]
fn answers_follow_the_routes() {
    let Some(cluster) = start("") else { return };
    let berlin = "46.2.7.1";
    comes_by_tcp(&cluster, "berlin", berlin);
    all_answer(&cluster, "berlin", berlin, FRANKFURT);
    for (from, to) in [("berlin", "frankfurt"), ("frankfurt", "berlin")] {
        cluster.network().change(from, to, |path| path.delay = Duration::from_millis(90));
    }
    wait_for(SOON, "Berlin is near to Ashburn", || {
        comes_by_tcp(&cluster, "berlin", berlin);
        let explained = explained(cluster.node("bj1"), berlin);
        if explained["answer"] == serde_json::json!([ASHBURN]) { Ok(()) } else { Err(explained.to_string()) }
    });
    all_answer(&cluster, "berlin", berlin, ASHBURN);
}

/// What is measured outlives the near site's loss, a restart of all nodes, and an operator's word beats it.
#[test]
fn measured_clients_are_remembered() {
    let Some(mut cluster) = start("") else { return };
    let berlin = "46.2.7.1";
    comes_by_tcp(&cluster, "berlin", berlin);
    all_answer(&cluster, "berlin", berlin, FRANKFURT);

    // the nearest of those that are left
    cluster.network().isolate("frankfurt");
    for name in ["bj1", "ash1"] {
        wait_for_answer(cluster.node(name), berlin, ASHBURN);
    }
    cluster.network().heal_all();
    all_answer(&cluster, "berlin", berlin, FRANKFURT);

    for (name, _) in NODES {
        cluster.node_mut(name).restart();
    }
    for (_, node) in cluster.nodes() {
        wait_for_answer(node, berlin, FRANKFURT);
    }

    let set = ["proximity", "set", "46.2.7.0/24", "--site", "beijing", "--rtt", "1ms"];
    let _ = cluster.node("fra1").cli(&set).expect(0);
    wait_for_answer(cluster.node("fra1"), berlin, BEIJING);
}
