//! Reloads under a continuous stream of queries: none is lost, and a broken config changes nothing.
#![allow(clippy::unwrap_used, reason = "a test")]

use portolan_tests::flow::{Count, QueryStream};
use portolan_tests::node::Node;
use portolan_tests::place;
use portolan_tests::program::Said;
use portolan_tests::setup::Setup;
use portolan_tests::wait::{SOON, wait_for, wait_until};
use portolan_tests::wire::{A, Message, Response};

const HEAD: &str = "version = 1

[node]
name = \"n1\"
site = \"here\"

[dns]
listen = [\"@dns@\"]
zones = [\"zones/*.zone\"]

[api]
listen = \"./api.sock\"

[[site]]
name = \"here\"

[[service]]
name = \"www.choose.test.\"
choose = [\"priority\"]
members = [{ address = \"192.0.2.1\" }, { address = \"192.0.2.2\" }]
";

fn start() -> Node {
    let setup = Setup::empty();
    setup.write("portolan.toml", HEAD);
    let zone = std::fs::read_to_string(place::case_folder("common").join("choose.zone")).unwrap();
    setup.write("zones/choose.zone", &zone);
    setup.start()
}

/// A small zone with one host.
fn zone(origin: &str, address: &str) -> String {
    format!(
        "$ORIGIN {origin}\n@ 300 IN SOA ns1 hostmaster 1 2 3 4 5\n@ 300 IN NS ns1\nns1 300 IN A 192.0.2.9\nhost 300 IN A {address}\n"
    )
}

fn one_address(response: &Response) -> bool {
    response.rcode == 0 && response.addresses.len() == 1
}

/// The streams: over UDP to a service and to a static name, over TCP.
fn streams(node: &Node) -> Vec<QueryStream> {
    let www = || Message::query("www.choose.test.", A);
    vec![
        QueryStream::udp(node.dns(), www(), one_address),
        QueryStream::udp(node.dns(), Message::query("ns1.choose.test.", A).edns(1232, &[]), one_address),
        QueryStream::tcp(node.dns(), www(), one_address),
    ]
}

/// Every stream has got answers since: the reload has been under traffic.
fn traffic(streams: &[QueryStream]) {
    let before: Vec<_> = streams.iter().map(QueryStream::answered).collect();
    wait_until(SOON, "answers go on", || {
        streams.iter().zip(&before).all(|(stream, before)| stream.answered() > before + 50)
    });
}

fn none_lost(streams: Vec<QueryStream>) {
    for stream in streams {
        let Count { sent, answered, wrong } = stream.finish();
        assert_eq!(
            (sent - answered, &wrong),
            (0, &vec![]),
            "{answered} of {sent} queries were answered well"
        );
        assert!(sent > 500, "the stream ran: {sent}");
    }
}

fn reload(node: &Node) -> Said {
    node.cli(&["reload"])
}

/// Twenty reloads: services come and go, by hundreds; zones come and go; configs and zones are broken and mended.
#[test]
fn twenty_reloads_lose_no_query() {
    let node = start();
    let many: String = (0..1_000)
        .map(|number| {
            format!(
                "[[service]]\nname = \"s{number}.choose.test.\"\nmembers = [{{ address = \"192.0.2.3\" }}]\n"
            )
        })
        .collect();
    let streams = streams(&node);
    for round in 0..4 {
        // 1,000 services more
        node.write("portolan.toml", &format!("{HEAD}{many}"));
        let _ = reload(&node).expect(0);
        assert_eq!(node.data("s999.choose.test. A"), ["192.0.2.3"], "round {round}");
        traffic(&streams);

        // a zone more
        node.write("zones/more.zone", &zone("more.test.", "198.51.100.1"));
        let _ = reload(&node).expect(0);
        assert_eq!(node.data("host.more.test. A"), ["198.51.100.1"]);
        traffic(&streams);

        // a config that cannot be read: the one in force stays
        node.write("portolan.toml", &format!("{HEAD}\n[[service]]\nname = 7\nmembres = []\n"));
        let said = reload(&node).expect(1);
        assert!(said.text().contains("portolan.toml:") && said.text().contains("membres"), "{}", said.text());
        assert_eq!(node.data("s999.choose.test. A"), ["192.0.2.3"]);
        traffic(&streams);

        // Z19: a zone is broken: the whole reload is refused, the zone is answered as before
        node.write("portolan.toml", HEAD);
        node.write(
            "zones/more.zone",
            "$ORIGIN more.test.\n@ 300 IN SOA ns1 hostmaster 1 2 3 4 5\nhost 300 IN\n",
        );
        let said = reload(&node).expect(1);
        assert!(said.text().contains("more.zone:3"), "{}", said.text());
        assert_eq!(node.data("host.more.test. A"), ["198.51.100.1"]);
        assert_eq!(node.data("s999.choose.test. A"), ["192.0.2.3"]);
        let status = node.cli(&["status", "--json"]).expect(1).json();
        assert!(status["config"]["last_error"].as_str().unwrap().contains("more.zone"), "{status}");
        traffic(&streams);

        // all of it gone
        std::fs::remove_file(node.path("zones/more.zone")).unwrap();
        let _ = reload(&node).expect(0);
        assert_eq!(node.dig("s999.choose.test. A").status, "NXDOMAIN");
        assert_eq!(node.dig("host.more.test. A").status, "REFUSED");
        assert!(node.cli(&["status", "--json"]).expect(0).json()["config"]["last_error"].is_null());
        traffic(&streams);
    }
    none_lost(streams);
}

/// SIGHUP does what `reload` does.
#[test]
fn a_signal_reloads() {
    let mut node = start();
    let streams = streams(&node);
    for address in ["192.0.2.10", "192.0.2.11", "192.0.2.12"] {
        node.write("portolan.toml", &HEAD.replace("192.0.2.1\"", &format!("{address}\"")));
        node.process().signal(libc::SIGHUP);
        node.wait_for_data("www.choose.test. A", &[address]);
    }
    // a broken one is logged and changes nothing
    node.write("portolan.toml", "version = 2\n");
    node.process().signal(libc::SIGHUP);
    wait_for(SOON, "the refused reload is shown", || {
        let said = node.cli(&["status", "--json"]);
        if said.code == 1 { Ok(()) } else { Err(said.text()) }
    });
    assert_eq!(node.data("www.choose.test. A"), ["192.0.2.12"]);
    assert!(node.process().output().contains("version"), "the log names the reason");
    none_lost(streams);
}

/// Z19 at scale: 200 zones, one of them bad: nothing of the others' changes is taken.
#[test]
fn a_reload_is_taken_whole_or_not_at_all() {
    let node = start();
    let write_all = |address: &str| {
        for number in 0..200 {
            node.write(&format!("zones/z{number}.zone"), &zone(&format!("z{number}.test."), address));
        }
    };
    write_all("192.0.2.1");
    let _ = reload(&node).expect(0);
    write_all("192.0.2.2");
    node.write("zones/z77.zone", &zone("z77.test.", "192.0.2.2.2"));
    let said = reload(&node).expect(1);
    assert!(said.text().contains("z77.zone:5"), "{}", said.text());
    for number in [0, 76, 77, 78, 199] {
        assert_eq!(node.data(&format!("host.z{number}.test. A")), ["192.0.2.1"]);
    }
    node.write("zones/z77.zone", &zone("z77.test.", "192.0.2.2"));
    let _ = reload(&node).expect(0);
    assert_eq!(node.data("host.z199.test. A"), ["192.0.2.2"]);
}

/// G11: a GeoIP file that arrives truncated leaves the old one in force.
#[test]
fn a_broken_geo_file_changes_nothing() {
    let node = Setup::case("geo").start();
    let question = "www.choose.test. A +subnet=10.1.2.0/24";
    assert_eq!(node.data(question), ["192.0.2.1"]);
    let whole = std::fs::read(node.path("geo.mmdb")).unwrap();
    let replace = |octets: &[u8]| {
        std::fs::write(node.path("geo.mmdb.new"), octets).unwrap();
        std::fs::rename(node.path("geo.mmdb.new"), node.path("geo.mmdb")).unwrap();
    };
    for length in [0, 100, whole.len() / 2, whole.len() - 20] {
        replace(&whole[..length]);
        let said = reload(&node).expect(1);
        assert!(said.text().contains("geo.mmdb"), "{}", said.text());
        assert_eq!(node.data(question), ["192.0.2.1"], "{length} of {} octets", whole.len());
    }
    replace(&whole);
    let _ = reload(&node).expect(0);
    assert_eq!(node.data(question), ["192.0.2.1"]);
}

/// Listeners come and go with a reload; the one that stays loses nothing.
#[test]
fn listeners_come_and_go() {
    let node = start();
    let streams = streams(&node);
    let other = place::own_socket();
    let at_other = || node.digger().at(other).try_ask("www.choose.test. A +time=1");
    for _ in 0..3 {
        node.write("portolan.toml", &HEAD.replace("\"@dns@\"", &format!("\"@dns@\", \"{other}\"")));
        let _ = reload(&node).expect(0);
        assert_eq!(at_other().unwrap().data(), ["192.0.2.1"]);
        node.write("portolan.toml", HEAD);
        let _ = reload(&node).expect(0);
        wait_until(SOON, "the second listener is gone", || at_other().is_err());
    }
    none_lost(streams);
}

/// A reload that fails at its last step has changed nothing before.
#[test]
fn a_listener_moves_only_with_a_good_config() {
    let node = start();
    let other = place::own_socket();
    let text = HEAD.replace("@dns@", &other.to_string());
    // a socket cannot lie in what is no folder
    node.write("portolan.toml", &text.replace("./api.sock", "./portolan.toml/api.sock"));
    let _ = reload(&node).expect(1);
    assert_eq!(node.data("www.choose.test. A"), ["192.0.2.1"], "the old listener answers");
    assert!(node.digger().at(other).try_ask("www.choose.test. A +time=1").is_err());
    let _ = node.cli(&["status"]).expect(1);
    // an address that is not on this machine
    node.write("portolan.toml", &HEAD.replace("@dns@", "203.0.113.1:53"));
    let said = reload(&node).expect(1);
    assert!(said.text().contains("203.0.113.1:53"), "{}", said.text());
    assert_eq!(node.data("www.choose.test. A"), ["192.0.2.1"]);
}

/// dns.md 27: what a client has kept survives a reload that does not concern it.
#[test]
fn persistence_outlives_a_reload() {
    let persist = "\n[[service]]\nname = \"kept.choose.test.\"\nchoose = [\"persist\", \"round-robin\"]\n\
                   persist = { kind = \"table\" }\n\
                   members = [{ address = \"192.0.2.1\" }, { address = \"192.0.2.2\" }, { address = \"192.0.2.3\" }]\n";
    let node = start();
    node.write("portolan.toml", &format!("{HEAD}{persist}"));
    let _ = reload(&node).expect(0);
    let clients: Vec<_> =
        (0..30).map(|number| format!("kept.choose.test. A +subnet=198.51.{number}.0/24")).collect();
    let before: Vec<_> = node.digger().ask_all(&clients).iter().map(|reply| reply.data()).collect();
    // a member renamed in another service, a service more, another order here
    let changed = persist.replace(
        "{ address = \"192.0.2.1\" }, { address = \"192.0.2.2\" }",
        "{ address = \"192.0.2.2\" }, { address = \"192.0.2.1\" }",
    );
    node.write("portolan.toml", &format!("{HEAD}{changed}\n[[service]]\nname = \"new.choose.test.\"\nmembers = [{{ address = \"192.0.2.9\" }}]\n"));
    let _ = reload(&node).expect(0);
    let after: Vec<_> = node.digger().ask_all(&clients).iter().map(|reply| reply.data()).collect();
    assert_eq!(before, after);
}

/// What a reload cannot change is said by the reload.
#[test]
fn a_reload_says_what_waits_for_a_start() {
    let node = start();
    assert!(!node.cli(&["reload"]).expect(0).text().contains("next start"));
    node.write("portolan.toml", &HEAD.replace("\"n1\"", "\"n2\""));
    let said = node.cli(&["reload"]).expect(0);
    assert!(
        said.text().contains("`node` has changed and takes effect with the next start"),
        "{}",
        said.text()
    );
}
