//! Clients are measured, by themselves or by probes, and distance decides (X, PX2-PX5, T6, T14, case G14).
#![allow(clippy::unwrap_used, reason = "a test")]

use portolan_tests::netns::Namespace;
use portolan_tests::node::Node;
use portolan_tests::setup::Setup;
use portolan_tests::wait::{SOON, wait_for};

const WWW: &str = "www.choose.test. A";
const THERE: &str = "192.0.2.1";
const HERE: &str = "192.0.2.2";

/// A service at two sites; without measurements the other one answers.
fn config(more: &str) -> Setup {
    Setup::config(&text("@dns@", more))
}

fn text(listen: &str, more: &str) -> String {
    format!(
        r#"version = 1
[node]
name = "n1"
site = "here"
state = "state"
[dns]
listen = ["{listen}"]
zones = ["@common@/choose.zone"]
[api]
listen = "./api.sock"
[[site]]
name = "here"
[[site]]
name = "there"
[[service]]
name = "www.choose.test."
ttl = 5
choose = ["proximity", "priority"]
members = [{{ address = "{THERE}", site = "there" }}, {{ address = "{HERE}", site = "here" }}]
[proximity]
dwell = "0s"
explore = {{ share = 0 }}
{more}"#
    )
}

fn ask(node: &Node, client: &str, question: &str) -> Vec<String> {
    node.digger().from(client.parse().unwrap()).ask(question).data()
}

fn wait_for_answer(node: &Node, client: &str, expected: &str) {
    wait_for(SOON, &format!("{client} gets {expected}"), || {
        let data = ask(node, client, WWW);
        let explained = || node.cli(&["explain", "www.choose.test", "--from", client]).text();
        if data == [expected] { Ok(()) } else { Err(format!("{data:?}\n{}", explained())) }
    });
}

fn status(node: &Node) -> serde_json::Value {
    node.cli(&["status", "--json"]).json()["proximity"].clone()
}

/// A client's own TCP connection is a measurement, for all of its /24; a restart does not forget it.
#[test]
fn a_tcp_client_is_measured() {
    let mut node = config("").start();
    let degraded = |node: &Node| node.cli(&["status"]).text().contains("no-measurements");
    assert!(degraded(&node));
    assert_eq!(ask(&node, "127.7.7.1", WWW), [THERE]);
    let explained = node.cli(&["explain", "www.choose.test", "--from", "127.7.7.1"]).expect(0).text();
    assert!(explained.contains("nothing measured for 127.7.7.0/24"), "{explained}");
    assert!(
        explained.contains("probing is off; a TCP connection of this client would measure it"),
        "{explained}"
    );
    let _ = node.cli(&["proximity", "show", "127.7.7.1"]).expect(1);

    // a miss delays nothing: this very answer is still by the next step
    assert_eq!(ask(&node, "127.7.7.1", &format!("{WWW} +tcp")), [THERE]);
    wait_for_answer(&node, "127.7.7.1", HERE);
    assert_eq!(ask(&node, "127.7.7.99", WWW), [HERE]);
    assert_eq!(ask(&node, "127.7.8.1", WWW), [THERE]);
    assert!(!degraded(&node));

    let look = |node: &Node| node.cli(&["proximity", "show", "127.7.7.99", "--json"]).expect(0).json();
    let shown = look(&node);
    assert_eq!(shown["used"]["row"], "own", "{shown}");
    let point = &shown["points"][0];
    assert_eq!((&point["prefix"], &point["site"]), (&"127.7.7.0/24".into(), &"here".into()), "{shown}");
    assert_eq!(point["source"], "resolver handshake", "{shown}");
    let explained = node.cli(&["explain", "www.choose.test", "--from", "127.7.7.1"]).expect(0).text();
    assert!(explained.contains("measured for 127.7.7.0/24, 1 samples"), "{explained}");
    assert_eq!(status(&node)["methods"][0]["answered"], 1);
    let export = node.cli(&["proximity", "export"]).expect(0).stdout;
    assert!(export.contains("127.7.7.0/24,here,,"), "{export}");

    node.restart();
    assert_eq!(ask(&node, "127.7.7.1", WWW), [HERE]);
    assert_eq!(look(&node)["points"][0]["samples"], 1);
}

/// What an operator writes beats what is measured, outlives a restart, and ends.
#[test]
fn operators_write_distances() {
    let mut node =
        config("static = [{ prefix = \"127.9.0.0/16\", site = \"here\", rtt = \"3ms\" }]\n").start();
    assert_eq!(ask(&node, "127.9.1.1", WWW), [HERE]);
    let _ = ask(&node, "127.7.7.1", &format!("{WWW} +tcp"));
    wait_for_answer(&node, "127.7.7.1", HERE);
    let set =
        ["proximity", "set", "127.7.0.0/16", "--site", "there", "--rtt", "40ms", "--reason", "leased line"];
    let said = node.cli(&set).expect(0).text();
    assert!(said.contains("127.7.0.0/16 is 40.0 ms from there"), "{said}");
    wait_for_answer(&node, "127.7.7.1", THERE);
    let shown = node.cli(&["proximity", "show", "127.7.7.1"]).expect(0).text();
    assert!(shown.contains("leased line") && shown.contains("behind what the operator wrote"), "{shown}");

    node.restart();
    assert_eq!(ask(&node, "127.7.7.1", WWW), [THERE]);
    assert_eq!(ask(&node, "127.9.1.1", WWW), [HERE]);
    let _ = node.cli(&["reload"]).expect(0);
    assert_eq!(ask(&node, "127.7.7.1", WWW), [THERE]);
    let _ = node.cli(&["proximity", "unset", "127.7.0.0/16", "--site", "there"]).expect(0);
    wait_for_answer(&node, "127.7.7.1", HERE);

    for (args, said) in [
        (["set", "nonsense", "--site", "here", "--rtt", "5ms"].as_slice(), "no prefix"),
        (&["set", "10.0.0.0/25", "--site", "here", "--rtt", "5ms"], "longer than the /24"),
        (&["set", "10.0.0.0/24", "--site", "mars", "--rtt", "5ms"], "here, there"),
        (&["set", "10.0.0.0/24", "--site", "here", "--link", "ct", "--rtt", "5ms"], "here/ct"),
        (&["set", "10.0.0.0/24", "--site", "here", "--rtt", "50us"], "outside 1 ms to 10 s"),
        (&["unset", "10.0.0.0/24", "--site", "here"], "no operator wrote"),
        (&["unset", "127.9.0.0/16", "--site", "here"], "in the config"),
    ] {
        let args = [&["proximity"], args].concat();
        let text = node.cli(&args).expect(1).text();
        assert!(text.contains(said), "{text}");
    }
    let _ = node.cli(&["proximity", "set", "10.0.0.0/24", "--site", "here", "--rtt", "5"]).expect(2);
    let set = ["proximity", "set", "127.7.0.0/16", "--site", "there", "--rtt", "40ms", "--ttl", "1s"];
    let _ = node.cli(&set).expect(0);
    wait_for_answer(&node, "127.7.7.1", THERE);
    wait_for_answer(&node, "127.7.7.1", HERE);

    // a folder in the way of the new file: as good as a full disk
    std::fs::create_dir(node.path("state/proximity-set.new")).unwrap();
    let said = node.cli(&set).expect(0).text();
    assert!(said.contains("could not be saved"), "{said}");
}

/// Whatever lies in the state folder, the node starts, and keeps it for whoever wants to know why.
#[test]
fn a_state_file_that_is_no_use() {
    for broken in ["", "nonsense", "PORTCHO1 and more of another file"] {
        let setup = config("");
        setup.write("state/proximity.bin", broken);
        setup.write("state/proximity-set.json", broken);
        let mut node = setup.start();
        assert_eq!(std::fs::read_to_string(node.path("state/proximity.bin.broken")).unwrap(), broken);
        // the log is written beside, when there is time
        wait_for(SOON, "the log says so", || {
            let log = std::fs::read_to_string(node.path("node.log")).unwrap();
            if log.contains("is broken or of another kind") { Ok(()) } else { Err(log) }
        });
        let _ = ask(&node, "127.7.7.1", &format!("{WWW} +tcp"));
        wait_for_answer(&node, "127.7.7.1", HERE);
        node.restart();
        assert_eq!(ask(&node, "127.7.7.1", WWW), [HERE]);
    }
}

/// Measurements go by the names of their points: another order of sites in a new config changes nothing.
#[test]
fn a_reload_with_other_sites() {
    let node = config("").start();
    let _ = ask(&node, "127.7.7.1", &format!("{WWW} +tcp"));
    wait_for_answer(&node, "127.7.7.1", HERE);
    node.replace(
        "portolan.toml",
        "[[site]]\nname = \"here\"\n",
        "[[site]]\nname = \"new\"\n[[site]]\nname = \"first\"\n",
    );
    node.replace("portolan.toml", "name = \"there\"\n", "name = \"there\"\n[[site]]\nname = \"here\"\n");
    let _ = node.cli(&["reload"]).expect(0);
    assert_eq!(ask(&node, "127.7.7.1", WWW), [HERE]);
    assert_eq!(ask(&node, "127.7.8.1", WWW), [THERE]);
    // what resolvers at many places bring is not taken
    node.replace("portolan.toml", "[proximity]\n", "[proximity]\nanycast = [\"127.7.7.0/24\"]\n");
    let _ = node.cli(&["reload"]).expect(0);
    assert_eq!(ask(&node, "127.7.7.1", WWW), [THERE]);
}

/// Offline, what the config writes decides.
#[test]
fn explained_without_a_node() {
    let setup = config("static = [{ prefix = \"127.9.0.0/16\", site = \"here\", rtt = \"3ms\" }]\n");
    let said =
        setup.cli(&["explain", "www.choose.test", "--from", "127.9.1.1", "-c", "portolan.toml"]).expect(0);
    assert!(
        said.stdout.contains("the operator wrote it for 127.9.0.0/16") && said.stdout.contains(HERE),
        "{}",
        said.text()
    );
}

const CLIENT: &str = "10.8.0.2";

/// A node and a client on a wire of their own.
fn on_a_wire(more: &str) -> Option<(Namespace, Namespace, Node)> {
    let (server, client) = (Namespace::new()?, Namespace::new()?);
    server.wire("net", &client, "net");
    server.address("net", "10.8.0.1/24");
    client.address("net", &format!("{CLIENT}/24"));
    let mut setup = Setup::config(&text("10.8.0.1:53", &format!("passive = {{ tcp = false }}\n{more}")));
    setup.listen("10.8.0.1:53".parse().unwrap()).within(&server);
    let node = setup.start();
    Some((server, client, node))
}

/// Echoes that came to a network, by the kernel's own count.
fn echoes(namespace: &Namespace) -> u64 {
    let text = namespace.inside(|| std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap());
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Icmp: "));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let mut both = names.split(' ').zip(values.split(' '));
    both.find(|(name, _)| *name == "InEchos").unwrap().1.parse().unwrap()
}

/// Asks until the node says this of itself.
fn ask_until(node: &Node, client: &Namespace, what: &str, is_so: impl Fn(&serde_json::Value) -> bool) {
    let dig = node.digger().within(Some(client.name()));
    wait_for(SOON, what, || {
        let _ = dig.ask(WWW);
        let status = status(node);
        if is_so(&status) { Ok(()) } else { Err(status.to_string()) }
    });
}

fn refused(status: &serde_json::Value, reason: &str) -> u64 {
    let all = status["refused"].as_array().unwrap();
    all.iter().find(|it| it["reason"] == reason).map_or(0, |it| it["count"].as_u64().unwrap())
}

const ACTIVE: &str =
    "active = { icmp = true, also = [\"10.0.0.0/8\"], contact = \"https://example.com/probes\" }\n";

/// Probes are off unless enabled; enabled, they go to who asked, and change the answer.
#[test]
fn probes_are_sent_only_when_enabled() {
    let Some((_server, client, node)) = on_a_wire("") else { return };
    let dig = node.digger().within(Some(client.name()));
    // enough to earn a probe: the last of the first sightings comes more than a second after the first
    wait_for(SOON, "the client was told of four times", || {
        let _ = dig.ask(WWW);
        let metrics = node.curl(&[], "/metrics").stdout;
        let told = "portolan_proximity_sightings_total{event=\"told\"} 4";
        if metrics.contains(told) { Ok(()) } else { Err(metrics) }
    });
    assert_eq!((echoes(&client), dig.ask(WWW).data()), (0, vec![THERE.to_owned()]));
    assert_eq!((&status(&node)["probing"], &status(&node)["probes"]), (&false.into(), &0.into()));

    node.replace("portolan.toml", "passive", &format!("{ACTIVE}passive"));
    let _ = node.cli(&["reload"]).expect(0);
    // strangers have to show themselves again: the queries before were of no use to anybody
    let mut restarted = node;
    restarted.restart();
    ask_until(&restarted, &client, "the client is probed", |status| status["methods"][0]["method"] == "icmp");
    wait_for(SOON, "the near site answers", || {
        let data = dig.ask(WWW).data();
        if data == [HERE] { Ok(()) } else { Err(format!("{data:?}")) }
    });
    assert!((1..=3).contains(&echoes(&client)), "{}", echoes(&client));
    let explained = restarted.cli(&["explain", "www.choose.test", "--from", CLIENT]).expect(0).text();
    assert!(explained.contains("(icmp)"), "{explained}");
}

/// Who opted out, and who is not of the public network, gets no probe, and that is said.
#[test]
fn opt_outs_are_respected() {
    for (more, reason, words) in [
        (ACTIVE.replace("icmp", "exclude = [\"10.8.0.0/24\"], icmp"), "opted-out", "it is opted out"),
        (ACTIVE.replace("10.0.0.0/8", "172.16.0.0/12"), "private", "the address is private"),
    ] {
        let Some((_server, client, node)) = on_a_wire(&more) else { return };
        ask_until(&node, &client, reason, |status| refused(status, reason) >= 1);
        assert_eq!((echoes(&client), &status(&node)["probes"]), (0, &0.into()));
        let explained = node.cli(&["explain", "www.choose.test", "--from", CLIENT]).expect(0).text();
        assert!(explained.contains(words), "{explained}");
    }
}

/// A client that answers no probe gets its answers by the next step, and is left alone (case G14).
#[test]
fn a_client_that_never_answers() {
    let Some((_server, client, node)) = on_a_wire(ACTIVE) else { return };
    client.inside(|| std::fs::write("/proc/sys/net/ipv4/icmp_echo_ignore_all", "1").unwrap());
    ask_until(&node, &client, "a lost probe", |status| status["methods"][0]["lost"] == 1);
    let dig = node.digger().within(Some(client.name()));
    let explained = node.cli(&["explain", "www.choose.test", "--from", CLIENT]).expect(0).text();
    assert!(
        explained.contains("no RTT: probe failed 1x, last ") && explained.contains("left alone for"),
        "{explained}"
    );
    assert_eq!((echoes(&client), dig.ask(WWW).data()), (3, vec![THERE.to_owned()]));
}
