//! The test bed of several sites itself: delays, hops, cuts, and a node asked from far away.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::net::IpAddr;
use std::time::Duration;

use portolan_tests::relay::Path;
use portolan_tests::topology::{Network, Topology};

/// For what must arrive; a loaded machine is slow.
const LONG: Duration = Duration::from_secs(5);
/// For what must not arrive. Nothing is late by so much, and were it, the test would only fail to notice.
const SHORT: Duration = Duration::from_millis(300);

fn three() -> Option<Network> {
    Topology::new()
        .site("beijing", "36.1.0.0/16 2400:1::/32")
        .site("frankfurt", "46.1.0.0/16 2a01:1::/32")
        .client("berlin", "46.2.0.0/16 2a01:2::/32")
        .rtt("beijing", "frankfurt", 120)
        .rtt("berlin", "beijing", 130)
        .rtt("berlin", "frankfurt", 16)
        .start()
}

/// The round trip, the smallest of some: what the machine adds is not the network's.
fn rtt(network: &Network, from: &str, to: IpAddr) -> Duration {
    let echoes = (0..5).filter_map(|_| network.at(from).ping(to, LONG));
    echoes.map(|echo| echo.rtt).min().unwrap_or_else(|| panic!("{to} is silent for {from}"))
}

fn reaches(network: &Network, from: &str, to: &str) -> bool {
    network.at(from).ping(network.at(to).address(1), LONG).is_some()
}

fn is_silent(network: &Network, from: &str, to: &str) -> bool {
    network.at(from).ping(network.at(to).address(1), SHORT).is_none()
}

#[test]
fn round_trips_take_as_long_as_told() {
    let Some(network) = three() else { return };
    for (one, other, ms) in
        [("beijing", "frankfurt", 120), ("berlin", "beijing", 130), ("berlin", "frankfurt", 16)]
    {
        for (from, to) in [(one, other), (other, one)] {
            let told = Duration::from_millis(ms);
            for address in [network.at(to).address(1), network.at(to).address_v6(1)] {
                let found = rtt(&network, from, address);
                eprintln!("{from} -> {address}: {:.2} ms more than {ms}", (found - told).as_secs_f64() * 1e3);
                assert!(
                    found >= told && found < told + SHORT,
                    "{from} -> {address}: {found:?}, not {told:?}"
                );
            }
        }
    }
    assert_eq!(network.counts().refused, 0, "{:?}", network.counts());
}

/// A client stands for all networks in its prefixes; a site has only what it has taken.
#[test]
fn clients_answer_everywhere() {
    let Some(network) = three() else { return };
    let far: IpAddr = "46.2.77.13".parse().unwrap();
    assert!(network.at("beijing").ping(far, LONG).is_some());
    assert!(network.at("berlin").ping(network.at("beijing").address(9), SHORT).is_none());
    let taken = network.at("beijing").own(9);
    assert!(network.at("berlin").ping(taken, LONG).is_some());
}

#[test]
fn hops_are_real() {
    let Some(network) = three() else { return };
    network.change("frankfurt", "berlin", |path| path.hops = 11);
    let echo = network.at("berlin").ping(network.at("frankfurt").address(1), LONG).unwrap();
    assert_eq!(echo.ttl, Some(64 - 11));
    let echo = network.at("berlin").ping(network.at("beijing").address(1), LONG).unwrap();
    assert_eq!(echo.ttl, Some(64 - 1));
}

#[test]
fn links_are_cut_and_healed() {
    let Some(network) = three() else { return };
    network.cut("beijing", "frankfurt");
    assert!(is_silent(&network, "beijing", "frankfurt"));
    assert!(is_silent(&network, "frankfurt", "beijing"));
    assert!(reaches(&network, "berlin", "beijing"));
    network.heal("beijing", "frankfurt");
    assert!(reaches(&network, "beijing", "frankfurt"));

    network.isolate("berlin");
    assert!(is_silent(&network, "berlin", "beijing") && is_silent(&network, "frankfurt", "berlin"));
    assert!(reaches(&network, "beijing", "frankfurt"));
    network.heal_all();
    assert!(reaches(&network, "berlin", "beijing"));

    network.partition(&[&["beijing"], &["frankfurt", "berlin"]]);
    assert!(is_silent(&network, "frankfurt", "beijing") && is_silent(&network, "berlin", "beijing"));
    assert!(reaches(&network, "berlin", "frankfurt"));
    assert!(network.counts().cut > 0);
}

/// What is lost one way is missed both ways.
#[test]
fn paths_can_be_bad_in_parts() {
    let Some(network) = three() else { return };
    network.change("berlin", "frankfurt", |path| path.loss_permille = 1000);
    assert!(is_silent(&network, "frankfurt", "berlin"));
    network.change("berlin", "frankfurt", |path| *path = Path::default());
    assert!(reaches(&network, "frankfurt", "berlin"));
}

const NODE: &str = "version = 1
[node]
name = \"fra1\"
site = \"frankfurt\"
[dns]
listen = [\"@dns@\"]
zones = [\"@common@/choose.zone\"]
[tables]
geo = \"geo.mmdb\"
[[site]]
name = \"beijing\"
location = { lat = 39.9, lon = 116.4 }
[[site]]
name = \"frankfurt\"
location = { lat = 50.1, lon = 8.7 }
[[service]]
name = \"www.choose.test.\"
choose = [\"geo\", \"priority\"]
check.http = { interval = \"50ms\", timeout = \"3s\", rise = 1, fall = 1, port = 80 }
members = [{ site = \"beijing\", address = \"36.1.0.10\" }, { site = \"frankfurt\", address = \"46.1.0.10\" }]
";

/// One node, asked from far away, with servers at two sites that it checks through the network.
#[test]
fn a_node_serves_the_network() {
    let Some(network) = three() else { return };
    let _beijing = network.at("beijing").backend(10, 80);
    let mut frankfurt = network.at("frankfurt").backend(10, 80);
    let setup = network.at("frankfurt").setup(NODE);
    setup.geo(
        "geo.mmdb",
        "{ \"46.2.0.0/16\": { \"location\": { \"latitude\": 52.5, \"longitude\": 13.4 } },
           \"36.1.0.0/16\": { \"location\": { \"latitude\": 39.9, \"longitude\": 116.4 } } }",
    );
    let node = setup.start();
    let berlin = network.at("berlin").dig(node.dns()).from("46.2.7.1".parse().unwrap());
    let beijing = network.at("beijing").dig(node.dns());
    assert_eq!(berlin.ask("www.choose.test. A").data(), ["46.1.0.10"]);
    assert_eq!(beijing.ask("www.choose.test. A").data(), ["36.1.0.10"]);
    frankfurt.stop();
    node.wait_for_data("www.choose.test. A +subnet=46.2.0.0/16", &["36.1.0.10"]);
    assert_eq!(berlin.ask("www.choose.test. A").data(), ["36.1.0.10"]);

    frankfurt.resume();
    node.wait_for_data("www.choose.test. A +subnet=46.2.0.0/16", &["46.1.0.10"]);
    network.cut("frankfurt", "beijing");
    node.wait_for_data("www.choose.test. A +subnet=36.1.0.0/16", &["46.1.0.10"]);
    network.block_udp("frankfurt", "berlin");
    assert!(berlin.try_ask("www.choose.test. A +time=1").is_err());
    assert_eq!(berlin.ask("www.choose.test. A +tcp").data(), ["46.1.0.10"]);
}
