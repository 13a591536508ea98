//! Three nodes on loopback that know each other: learned members, failures that all see, lost peers, wrong keys.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use portolan_tests::backend::Backend;
use portolan_tests::node::Node;
use portolan_tests::place;
use portolan_tests::setup::Setup;
use portolan_tests::wait::{SOON, wait_for, wait_until};

const NAMES: [&str; 3] = ["a1", "b1", "c1"];
const SITES: [&str; 3] = ["alpha", "beta", "gamma"];
const WWW: &str = "www.choose.test. A";
/// `hold` of all nodes.
const HOLD: Duration = Duration::from_millis(1500);

/// What is needed to write the nodes' configs.
struct Plan {
    sockets: Vec<SocketAddr>,
    pins: Vec<String>,
    keys: Setup,
    backends: Vec<Backend>,
}

impl Plan {
    fn new() -> Self {
        let keys = Setup::empty();
        let _ = keys.cli(&["pki", "init", "pki"]).expect(0);
        let pins = NAMES.map(|name| {
            let made = keys.cli(&["pki", "issue", "pki", name, "--json"]).expect(0).json();
            made["pin"].as_str().unwrap().to_owned()
        });
        Self {
            sockets: NAMES.iter().map(|_| place::own_socket()).collect(),
            pins: pins.to_vec(),
            keys,
            backends: NAMES.iter().map(|_| Backend::start()).collect(),
        }
    }

    /// The address of a site's virtual server.
    fn address(&self, at: usize) -> String {
        self.backends[at].address()
    }

    /// A folder with the config of a node; `service` is put into the service.
    fn setup(&self, at: usize, service: &str) -> Setup {
        let setup = Setup::empty();
        place::copy_folder(&self.keys.path("pki"), &setup.path("pki"));
        setup.write("portolan.toml", &self.config(at, service));
        setup
    }

    fn config(&self, at: usize, service: &str) -> String {
        let members = (0..NAMES.len()).filter(|other| *other != at).map(|other| {
            format!(
                "  {{ name = \"{}\", site = \"{}\", address = \"{}\", pin = \"{}\" }},\n",
                NAMES[other], SITES[other], self.sockets[other], self.pins[other]
            )
        });
        let members: String = members.collect();
        let sites: String = SITES.map(|site| format!("[[site]]\nname = \"{site}\"\n")).concat();
        format!(
            "version = 1
[node]
name = \"{name}\"
site = \"{site}\"
state = \"state\"
[dns]
listen = [\"@dns@\"]
zones = [\"@common@/choose.zone\"]
[api]
listen = \"./api.sock\"
[peers]
listen = \"{listen}\"
identity = \"pki/{name}\"
hold = \"{hold}ms\"
trace = \"peers.trace\"
members = [
{members}]
{sites}
[[service]]
name = \"www.choose.test.\"
ttl = 5
choose = [\"round-robin\"]
answers = 8
{service}
[[virtual_server]]
name = \"www-{site}\"
service = \"www.choose.test.\"
address = \"{address}\"
ports = [{port}]
mode = \"external\"
check.tcp = {{ interval = \"50ms\", timeout = \"1s\", rise = 1, fall = 1 }}
",
            name = NAMES[at],
            site = SITES[at],
            listen = self.sockets[at],
            hold = HOLD.as_millis(),
            address = self.address(at),
            port = self.backends[at].port(),
        )
    }

    fn start(&self, service: &str) -> Vec<Node> {
        (0..NAMES.len()).map(|at| self.setup(at, service).start()).collect()
    }

    /// The addresses of these sites, in the order in which answers are compared.
    fn addresses(&self, of: &[usize]) -> Vec<String> {
        let mut addresses: Vec<String> = of.iter().map(|at| self.address(*at)).collect();
        addresses.sort();
        addresses
    }

    /// Waits until a node answers with these sites' addresses and no others.
    fn wait(&self, node: &Node, of: &[usize]) {
        let expected = self.addresses(of);
        node.wait_for_data(WWW, &expected.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

const LEARNS: &str = "fallback = \"nodata\"\nmembers = \"peers\"";

fn peer(node: &Node, name: &str) -> serde_json::Value {
    let peers = node.cli(&["peers", "--json"]).json();
    let found = peers["peers"].as_array().unwrap().iter().find(|peer| peer["name"] == name);
    found.unwrap_or_else(|| panic!("no peer {name}: {peers}")).clone()
}

/// What a node shows of the member at an address.
fn member(node: &Node, address: &str) -> serde_json::Value {
    let services = node.cli(&["services", "--json"]).json();
    let members = services[0]["members"].as_array().unwrap();
    let found = members.iter().find(|member| member["address"] == address);
    found.unwrap_or_else(|| panic!("no member {address}: {services}")).clone()
}

#[test]
fn a_failure_at_one_site_changes_the_answers_of_all() {
    let mut plan = Plan::new();
    let nodes = plan.start(LEARNS);
    for node in &nodes {
        plan.wait(node, &[0, 1, 2]);
    }
    let first = nodes[0].cli(&["peers"]).expect(0);
    assert!(first.text().contains("b1") && first.text().contains("quic"), "{}", first.text());
    let status = nodes[0].cli(&["status", "--json"]).expect(0).json();
    assert_eq!(status["peers"]["peers"].as_array().unwrap().len(), 2, "{status}");
    assert_eq!(status["degraded"].as_array().unwrap().len(), 0, "{status}");

    plan.backends[1].stop();
    plan.wait(&nodes[1], &[0, 2]);
    let verdict = Instant::now();
    plan.wait(&nodes[0], &[0, 2]);
    plan.wait(&nodes[2], &[0, 2]);
    let took = verdict.elapsed();
    println!("from the answer of the failed site's own node to those of the others: {took:?}");
    assert!(took < Duration::from_secs(1), "{took:?}");

    let explained = nodes[0].cli(&["explain", "www.choose.test.", "--from", "192.0.2.1", "--json"]).expect(0);
    let explained = explained.json();
    let claims = explained["claims"].as_array().unwrap();
    let of_b = claims.iter().find(|it| it["claim"]["author"] == "b1").unwrap();
    assert_eq!(of_b["claim"]["state"], "down", "{of_b}");
    assert_eq!(of_b["claim"]["stale"], false, "{of_b}");
    assert!(of_b["claim"]["reason"].as_str().unwrap().contains("tcp"), "{of_b}");

    plan.backends[1].resume();
    for node in &nodes {
        plan.wait(node, &[0, 1, 2]);
    }
}

#[test]
fn a_killed_node_is_stale_then_gone_and_comes_back() {
    let plan = Plan::new();
    let mut nodes = plan.start(LEARNS);
    for node in &nodes {
        plan.wait(node, &[0, 1, 2]);
    }
    nodes[2].process().kill();
    let killed = Instant::now();
    wait_until(SOON, "the peer is stale", || peer(&nodes[0], "c1")["stale"] == true);
    // its address would still answer, and does so until `hold` is over
    if killed.elapsed() < HOLD / 2 {
        assert_eq!(nodes[0].data(WWW), plan.addresses(&[0, 1, 2]));
    }
    plan.wait(&nodes[0], &[0, 1]);
    let gone = killed.elapsed();
    println!("gone {gone:?} after the kill, with a hold of {HOLD:?}");
    assert!(gone > HOLD / 2, "{gone:?}");
    plan.wait(&nodes[1], &[0, 1]);
    let lost = member(&nodes[0], &plan.address(2));
    let reason = lost["reason"].as_str().unwrap();
    assert!(reason.starts_with("peer c1 silent for "), "{lost}");
    assert_eq!(lost["claim"]["expired"], true, "{lost}");
    let status = nodes[0].cli(&["status", "--json"]).json();
    assert!(status["degraded"].to_string().contains("peer-lost"), "{status}");
    let _ = nodes[0].cli(&["peers"]).expect(1);

    // a node that starts while a peer is away knows it of before, and answers at once with the others (T1)
    nodes[1].restart_after_kill();
    plan.wait(&nodes[1], &[0, 1]);
    nodes[2].restart_after_kill();
    for node in &nodes {
        plan.wait(node, &[0, 1, 2]);
        wait_until(SOON, "all peers are fresh", || {
            let peers = node.cli(&["peers", "--json"]).json();
            peers["peers"]
                .as_array()
                .unwrap()
                .iter()
                .all(|peer| peer["stale"] == false && peer["state"] == "up")
        });
    }
}

/// Cases P01 and P02: what becomes of a lost peer's servers, each service says.
#[test]
fn a_lost_peer_is_kept_or_checked_directly_where_a_service_says_so() {
    let mut plan = Plan::new();
    let port = plan.backends[2].port();
    let keep = format!("{LEARNS}\non_peer_loss = \"keep\"");
    let direct = format!(
        "{LEARNS}\non_peer_loss = \"direct-check\"\ncheck.tcp = {{ port = {port}, interval = \"50ms\", timeout = \"1s\", rise = 1, fall = 1 }}"
    );
    let mut nodes =
        vec![plan.setup(0, &keep).start(), plan.setup(1, &direct).start(), plan.setup(2, &keep).start()];
    for node in &nodes {
        plan.wait(node, &[0, 1, 2]);
    }
    let asked = plan.backends[2].connections();
    assert!(asked > 0);
    nodes[2].process().kill();
    for node in &nodes[..2] {
        wait_until(SOON, "its claims have expired", || peer(node, "c1")["expired"] == true);
    }
    let before = plan.backends[2].connections();
    wait_until(SOON, "the lost peer's server is checked directly", || {
        plan.backends[2].connections() > before + 2
    });
    plan.wait(&nodes[0], &[0, 1, 2]);
    plan.wait(&nodes[1], &[0, 1, 2]);
    plan.backends[2].stop();
    plan.wait(&nodes[1], &[0, 1]);
    assert_eq!(nodes[0].data(WWW), plan.addresses(&[0, 1, 2]), "kept as it was");
    plan.backends[2].resume();
    plan.wait(&nodes[1], &[0, 1, 2]);

    nodes[2].restart_after_kill();
    for node in &nodes[..2] {
        wait_until(SOON, "the peer is back", || peer(node, "c1")["expired"] == false);
        plan.wait(node, &[0, 1, 2]);
    }
}

#[test]
fn a_wrong_key_is_refused_and_logged() {
    let plan = Plan::new();
    let mut nodes = [plan.setup(0, LEARNS).start(), plan.setup(1, LEARNS).start()];
    let wrong = plan.setup(2, LEARNS);
    let _ = wrong.cli(&["pki", "issue", "pki", "c1", "--force"]).expect(0);
    let mut wrong = wrong.start();
    wait_until(SOON, "the refusal is logged", || {
        nodes.iter_mut().any(|node| node.process().output().contains("pin"))
    });
    plan.wait(&nodes[0], &[0, 1]);
    assert_eq!(peer(&nodes[0], "c1")["state"], "down");
    // it has only its own, and says that its peers are not there
    plan.wait(&wrong, &[2]);
    assert!(wrong.cli(&["status", "--json"]).json()["degraded"].to_string().contains("peer-lost"));
    assert!(!wrong.process().output().contains("panicked"));
}

#[test]
fn configs_that_differ_are_shown() {
    let plan = Plan::new();
    let nodes = [plan.setup(0, LEARNS).start(), plan.setup(1, &format!("{LEARNS}\nminimum = 2")).start()];
    let differences = wait_for(SOON, "the difference is found", || {
        let found = peer(&nodes[0], "b1")["differences"].clone();
        if found.as_array().unwrap().is_empty() { Err("none".into()) } else { Ok(found) }
    });
    assert_eq!(differences, serde_json::json!(["config: services"]));
    let status = nodes[0].cli(&["status"]).text();
    assert!(status.contains("peer-differs") && status.contains("config: services"), "{status}");
    // without a restart of either they agree again
    nodes[1].replace("portolan.toml", "minimum = 2\n", "\n");
    let _ = nodes[1].cli(&["reload"]).expect(0);
    wait_until(SOON, "no difference is left", || {
        peer(&nodes[0], "b1")["differences"].as_array().unwrap().is_empty()
    });
}

/// T7 and case H17: what an operator says at one node holds at all.
#[test]
fn an_operators_word_holds_at_all_nodes() {
    let plan = Plan::new();
    let mut nodes = plan.start(LEARNS);
    for node in &nodes {
        plan.wait(node, &[0, 1, 2]);
    }
    let target = format!("www.choose.test./{}", plan.address(2));
    let _ = nodes[0].cli(&["drain", &target, "--reason", "kernel", "--author", "ann"]).expect(0);
    for node in &nodes {
        plan.wait(node, &[0, 1]);
        let forced = member(node, &plan.address(2))["forced"].clone();
        assert_eq!((&forced["author"], &forced["reason"]), (&"ann".into(), &"kernel".into()), "{forced}");
    }
    // also over the restart of a node, and of the one where it was said
    nodes[2].restart();
    nodes[0].restart();
    for node in &nodes {
        plan.wait(node, &[0, 1]);
    }
    let _ = nodes[1].cli(&["enable", &target]).expect(0);
    for node in &nodes {
        plan.wait(node, &[0, 1, 2]);
        let status = node.cli(&["status", "--json"]).json();
        assert_eq!(status["forced"].as_array().unwrap().len(), 0, "{status}");
    }
}

/// Case H17: who may serve again after a failure is said once, at any node.
#[test]
fn a_member_that_waits_for_an_operator_is_enabled_at_all_nodes() {
    let plan = Plan::new();
    let mut shared = Backend::start();
    let service = format!(
        "fallback = \"nodata\"\nmanual_resume = true
check.tcp = {{ port = {}, interval = \"50ms\", timeout = \"1s\", rise = 1, fall = 1 }}
members = [{{ site = \"alpha\", address = \"{}\" }}]",
        shared.port(),
        shared.address()
    );
    let nodes = [plan.setup(0, &service).start(), plan.setup(1, &service).start()];
    let address = shared.address();
    for node in &nodes {
        node.wait_for_data(WWW, &[&address]);
        wait_until(SOON, "the peer is there", || {
            node.cli(&["peers", "--json"]).json()["peers"].to_string().contains("\"up\"")
        });
    }
    shared.stop();
    nodes.iter().for_each(|node| node.wait_for_data(WWW, &[]));
    shared.resume();
    for node in &nodes {
        wait_until(SOON, "its checks pass, and it waits", || {
            let reason = member(node, &address)["reason"].as_str().unwrap().to_owned();
            reason.contains("waits for") && reason.contains(" up: ")
        });
    }
    assert!(nodes.iter().all(|node| node.data(WWW).is_empty()));
    let _ = nodes[1].cli(&["enable", "www.choose.test"]).expect(0);
    nodes.iter().for_each(|node| node.wait_for_data(WWW, &[&address]));
}

/// WP-C3: a client keeps its choice also where another node answers it.
#[test]
fn remembered_choices_are_told() {
    let plan = Plan::new();
    let service = format!("persist = {{ kind = \"table\", ttl = 600 }}\n{LEARNS}");
    let change = |setup: Setup| {
        let text = std::fs::read_to_string(setup.path("portolan.toml")).unwrap();
        let text = text.replace("choose = [\"round-robin\"]", "choose = [\"persist\", \"random\"]");
        setup.write("portolan.toml", &text.replace("answers = 8", "answers = 1"));
        setup.start()
    };
    let nodes: Vec<Node> = (0..3).map(|at| change(plan.setup(at, &service))).collect();
    for node in &nodes {
        wait_until(SOON, "three members are known", || {
            node.cli(&["services", "--json"]).json()[0]["members"].as_array().unwrap().len() == 3
        });
    }
    // of 20 clients that each asked one node, chance alone would not agree at the others
    let ask = |node: &Node, client: u8| node.data(&format!("{WWW} +subnet=198.51.{client}.0/24"));
    let chosen: Vec<_> = (0..20).map(|client| ask(&nodes[usize::from(client) % 3], client)).collect();
    wait_until(SOON, "the choices are told", || {
        let metrics = |node: &Node| node.curl(&["-f"], "/metrics").expect(0).stdout;
        // those of the other two, beside their servers and digests
        nodes.iter().zip([13.0, 13.0, 14.0]).all(|(node, choices)| {
            let text = metrics(node);
            let claims = text.lines().filter(|line| line.starts_with("portolan_peer_claims{"));
            claims.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>()
                >= choices + 4.0
        })
    });
    for (client, chosen) in (0..).zip(&chosen) {
        for node in &nodes {
            assert_eq!(ask(node, client), *chosen, "client {client}");
        }
    }
}

#[test]
fn frames_are_told_live_and_from_the_trace() {
    let plan = Plan::new();
    let mut nodes = [plan.setup(0, LEARNS).start(), plan.setup(1, LEARNS).start()];
    plan.wait(&nodes[0], &[0, 1]);
    let live = nodes[0].curl(&["-N", "--max-time", "2"], "/v1/peers/frames?peer=b1");
    assert!(live.stdout.contains("KEEPALIVE") && live.stdout.contains("\"peer\":\"b1\""), "{}", live.text());
    let unknown = nodes[0].cli(&["peers", "dump", "--peer", "nobody"]).expect(1);
    assert!(unknown.text().contains("nobody"), "{}", unknown.text());
    nodes[0].process().signal(libc::SIGTERM);
    assert!(nodes[0].process().wait(SOON).success());
    let trace = nodes[0].cli(&["peers", "dump", "peers.trace"]).expect(0);
    for word in ["HELLO", "CLAIMS", "www-beta", "KEEPALIVE", "NOTICE"] {
        assert!(trace.stdout.contains(word), "no {word} in\n{}", trace.text());
    }
}

/// A listener that cannot be had is an error that names it; a reload leaves all as it was.
#[test]
fn peers_change_with_a_reload() {
    let plan = Plan::new();
    let nodes = [plan.setup(0, LEARNS).start(), plan.setup(1, LEARNS).start()];
    plan.wait(&nodes[0], &[0, 1]);
    let since = peer(&nodes[0], "b1")["since_unix"].clone();
    let held = std::net::UdpSocket::bind(place::own_socket()).unwrap();
    let taken = held.local_addr().unwrap().to_string();
    let mine = plan.sockets[0].to_string();
    nodes[0].replace("portolan.toml", &format!("listen = \"{mine}\""), &format!("listen = \"{taken}\""));
    let refused = nodes[0].cli(&["reload"]).expect(1);
    assert!(refused.text().contains(&taken), "{}", refused.text());
    nodes[0].replace("portolan.toml", &format!("listen = \"{taken}\""), &format!("listen = \"{mine}\""));

    // a peer less: the session with the other is the same one
    let gone = format!("name = \"{}\"", NAMES[2]);
    let text = std::fs::read_to_string(nodes[0].path("portolan.toml")).unwrap();
    let fewer: String =
        text.lines().filter(|line| !line.contains(&gone)).map(|line| format!("{line}\n")).collect();
    nodes[0].write("portolan.toml", &fewer);
    let _ = nodes[0].cli(&["reload"]).expect(0);
    assert_eq!(peer(&nodes[0], "b1")["since_unix"], since);
    assert_eq!(nodes[0].cli(&["peers", "--json"]).json()["peers"].as_array().unwrap().len(), 1);

    // no peers at all: what was learned is gone
    let from = text.find("[peers]").unwrap();
    let to = text.find("[[site]]").unwrap();
    nodes[0].write("portolan.toml", &format!("{}{}", &text[..from], &text[to..]));
    let _ = nodes[0].cli(&["reload"]).expect(0);
    plan.wait(&nodes[0], &[0]);
    plan.wait(&nodes[1], &[1]);
    nodes[0].write("portolan.toml", &text);
    let _ = nodes[0].cli(&["reload"]).expect(0);
    plan.wait(&nodes[0], &[0, 1]);
    plan.wait(&nodes[1], &[0, 1]);
}
