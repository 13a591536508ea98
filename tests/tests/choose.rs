//! Choosing over many queries: shares, persistence, who moves when a member goes.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};

use portolan_tests::node::Node;
use portolan_tests::setup::Setup;
use portolan_tests::wire::{A, AAAA, Message, PATIENCE, Response, subnet};

const HEAD: &str = "version = 1

[node]
name = \"n1\"
site = \"here\"

[dns]
listen = [\"@dns@\"]
zones = [\"@common@/choose.zone\"]
ecs = { accept_private = true }

[api]
listen = \"./api.sock\"

[[site]]
name = \"here\"
";

fn start(service: &str) -> Node {
    Setup::config(&format!("{HEAD}\n[[service]]\nname = \"www.choose.test.\"\n{service}")).start()
}

/// Answers to many queries, some in flight at once: the addresses of each, and the scope.
fn ask_all(node: &Node, queries: &[Message]) -> Vec<(Vec<IpAddr>, Option<u8>)> {
    collect(node, queries, &[0])
}

fn collect(node: &Node, queries: &[Message], codes: &[u16]) -> Vec<(Vec<IpAddr>, Option<u8>)> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(node.dns()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut buffer = [0; 4096];
    let mut answers = Vec::new();
    for window in queries.chunks(32) {
        for (id, query) in (0_u16..).zip(window) {
            let mut octets = query.bytes();
            octets[..2].copy_from_slice(&id.to_be_bytes());
            socket.send(&octets).unwrap();
        }
        let mut by_id = BTreeMap::new();
        for _ in window {
            let length = socket.recv(&mut buffer).unwrap();
            let response = Response::parse(&buffer[..length]).unwrap();
            assert!(codes.contains(&response.rcode), "{response:?}");
            let scope = response.options.iter().find(|(code, _)| *code == 8).map(|(_, data)| data[3]);
            by_id.insert(response.id, (sorted(response.addresses), scope));
        }
        assert_eq!(by_id.len(), window.len(), "each query has its answer");
        answers.extend(by_id.into_values());
    }
    answers
}

fn sorted(mut addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    addresses.sort_unstable();
    addresses
}

/// The same where some are refused: those have no addresses.
fn answers_or_codes(node: &Node, queries: &[Message]) -> Vec<(Vec<IpAddr>, Option<u8>)> {
    collect(node, queries, &[0, 5])
}

fn plain(count: usize, rrtype: u16) -> Vec<Message> {
    (0..count).map(|_| Message::query("www.choose.test.", rrtype)).collect()
}

/// A query from each of so many /24.
fn from_prefixes(count: u32) -> Vec<Message> {
    (0..count)
        .map(|number| {
            let [_, _, high, low] = number.to_be_bytes();
            Message::query("www.choose.test.", A).edns(1232, &subnet(&format!("10.{high}.{low}.0/24")))
        })
        .collect()
}

/// Share of the answers that hold this address, in percent.
fn share(answers: &[(Vec<IpAddr>, Option<u8>)], address: &str) -> f64 {
    let address: IpAddr = address.parse().unwrap();
    let count = answers.iter().filter(|(addresses, _)| addresses.contains(&address)).count();
    100.0 * count as f64 / answers.len() as f64
}

const ONE_TWO_SEVEN: &str = "members = [
  { address = \"192.0.2.1\", weight = 1 },
  { address = \"192.0.2.2\", weight = 2 },
  { address = \"192.0.2.7\", weight = 7 },
  { address = \"192.0.2.9\", weight = 0 },
]";

/// dns.md 26, L04: weights 1:2:7 within 1 %, weight 0 gets nothing, one address an answer.
#[test]
fn shares_follow_weights() {
    for scheduler in ["weighted-round-robin", "weighted-random"] {
        let node = start(&format!("choose = [\"{scheduler}\"]\n{ONE_TWO_SEVEN}"));
        let answers = ask_all(&node, &plain(40_000, A));
        assert!(answers.iter().all(|(addresses, _)| addresses.len() == 1));
        for (address, expected) in
            [("192.0.2.1", 10.0), ("192.0.2.2", 20.0), ("192.0.2.7", 70.0), ("192.0.2.9", 0.0)]
        {
            let share = share(&answers, address);
            assert!((share - expected).abs() < 1.0, "{scheduler}: {address} has {share} %");
        }
    }
}

/// Hashes over clients: the same weights, and one member that goes moves only its own clients.
#[test]
fn hashes_move_only_the_clients_of_the_lost_member() {
    for scheduler in ["rendezvous", "maglev"] {
        let node = start(&format!("choose = [\"{scheduler}\"]\nhash = {{ v4 = 24 }}\n{ONE_TWO_SEVEN}"));
        let before = ask_all(&node, &from_prefixes(10_000));
        assert!(
            (share(&before, "192.0.2.2") - 20.0).abs() < 2.0,
            "{scheduler}: {}",
            share(&before, "192.0.2.2")
        );
        assert!(before == ask_all(&node, &from_prefixes(10_000)), "{scheduler}: a client keeps its member");
        assert!(
            before.iter().all(|(_, scope)| *scope == Some(24)),
            "{scheduler}: the whole prefix was hashed"
        );

        let _ = node.cli(&["disable", "www.choose.test/192.0.2.2"]).expect(0);
        let after = ask_all(&node, &from_prefixes(10_000));
        let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count();
        let owned: IpAddr = "192.0.2.2".parse().unwrap();
        let due = before.iter().filter(|(addresses, _)| addresses.contains(&owned)).count();
        assert!(after.iter().all(|(addresses, _)| !addresses.contains(&owned)));
        // Maglev moves a few others (its table is filled anew), rendezvous none
        let extra = if scheduler == "maglev" { 500 } else { 0 };
        assert!(moved >= due && moved <= due + extra, "{scheduler}: {moved} moved, {due} had to");
    }
}

/// L03: weight 0 serves when nobody else is there.
#[test]
fn weight_zero_is_the_last_resort() {
    let node = start(&format!("choose = [\"weighted-random\"]\n{ONE_TWO_SEVEN}"));
    for member in ["192.0.2.1", "192.0.2.2", "192.0.2.7"] {
        let _ = node.cli(&["disable", &format!("www.choose.test/{member}")]).expect(0);
    }
    node.wait_for_data("www.choose.test. A", &["192.0.2.9"]);
}

/// L01, L09: with members of one family each, an answer is never empty and never of the wrong family.
#[test]
fn families_are_balanced_apart() {
    let node = start(
        "choose = [\"weighted-random\"]\nmembers = [
  { address = [\"192.0.2.1\", \"2001:db8::1\"], weight = 50 },
  { address = \"192.0.2.2\", weight = 100 },
  { address = \"2001:db8::3\", weight = 100 },
]",
    );
    for rrtype in [A, AAAA] {
        for (addresses, _) in ask_all(&node, &plain(2_000, rrtype)) {
            assert_eq!(addresses.len(), 1);
            assert_eq!(addresses[0].is_ipv4(), rrtype == A);
        }
    }
}

/// Persistence: `hash` stores nothing and keeps a prefix, `table` keeps what round robin gave first.
#[test]
fn clients_keep_their_member() {
    for kind in ["hash", "table"] {
        let node = start(&format!(
            "choose = [\"persist\", \"round-robin\"]\npersist = {{ kind = \"{kind}\", v4 = 24 }}\nmembers = [
  {{ address = \"192.0.2.1\" }}, {{ address = \"192.0.2.2\" }}, {{ address = \"192.0.2.3\" }} ]"
        ));
        let first = ask_all(&node, &from_prefixes(300));
        for _ in 0..3 {
            assert!(first == ask_all(&node, &from_prefixes(300)), "{kind}");
        }
        for member in ["192.0.2.1", "192.0.2.2", "192.0.2.3"] {
            assert!(share(&first, member) > 20.0, "{kind}: {member}");
        }
        let _ = node.cli(&["disable", "www.choose.test/192.0.2.3"]).expect(0);
        let after = ask_all(&node, &from_prefixes(300));
        let lost: IpAddr = "192.0.2.3".parse().unwrap();
        for (before, after) in first.iter().zip(&after) {
            assert!(before == after || before.0.contains(&lost), "{kind}: {before:?} -> {after:?}");
        }
    }
}

/// `answers = N`: so many different members, each in its turn.
#[test]
fn several_members_in_an_answer() {
    let node = start(
        "choose = [\"weighted-random\"]\nanswers = 2\nmembers = [
  { address = \"192.0.2.1\" }, { address = \"192.0.2.2\" }, { address = \"192.0.2.3\" } ]",
    );
    let answers = ask_all(&node, &plain(3_000, A));
    assert!(answers.iter().all(|(addresses, _)| addresses.len() == 2 && addresses[0] != addresses[1]));
    for member in ["192.0.2.1", "192.0.2.2", "192.0.2.3"] {
        let share = share(&answers, member);
        assert!((share - 66.7).abs() < 5.0, "{member}: {share} %");
    }
}

/// dns.md 29: 256 members in one answer: truncated over UDP, whole over TCP.
#[test]
fn the_biggest_answer() {
    let members: Vec<_> = (0..=255).map(|number| format!("{{ address = \"192.0.2.{number}\" }}")).collect();
    let node = start(&format!("choose = [\"all\"]\nanswers = 256\nmembers = [{}]", members.join(", ")));
    let cut = node.dig("www.choose.test. A +ignore");
    assert!(cut.has("tc") && cut.size <= 1232, "{}", cut.text);
    let whole = node.dig("www.choose.test. A");
    assert_eq!(whole.data().len(), 256, "{}", whole.text);
    let ttls: Vec<_> = whole.answer.iter().map(|record| record.ttl).collect();
    assert!(ttls.iter().all(|ttl| *ttl == 30), "dns.md 13: one TTL for the whole set: {ttls:?}");
}

/// A scope says: the whole prefix gets this answer (T2). Other clients within it are asked, also at its ends.
#[test]
fn scopes_are_honest() {
    let seed = fastrand::u64(..);
    let mut dice = fastrand::Rng::with_seed(seed);
    for case in ["ecs-scope", "acl", "geo", "isp"] {
        let node = Setup::case(case).start();
        let ask = |clients: &[u32]| {
            let prefixes =
                clients.iter().map(|client| format!("{}/24", Ipv4Addr::from(client & 0xffff_ff00)));
            let query = |prefix: String| Message::query("www.choose.test.", A).edns(1232, &subnet(&prefix));
            answers_or_codes(&node, &prefixes.map(query).collect::<Vec<_>>())
        };
        for _ in 0..150 {
            let client = u32::from_be_bytes([10, dice.u8(..64), dice.u8(..), 0]);
            let (answer, scope) = ask(&[client]).remove(0);
            let below = u32::MAX.checked_shr(scope.unwrap().min(24).into()).unwrap_or(0);
            let mut inside: Vec<_> = (0..20).map(|_| client ^ (dice.u32(..) & below)).collect();
            inside.extend([client & !below, client | below]);
            for (other, (found, _)) in inside.iter().zip(ask(&inside)) {
                let [client, other] = [client, *other].map(Ipv4Addr::from);
                assert_eq!(
                    found, answer,
                    "seed {seed}, {case}: {client} has scope {scope:?}, which holds {other}"
                );
            }
        }
    }
}

/// The step `load`: who is over the threshold gets nobody, until the report is forgotten.
#[test]
fn loaded_members_rest() {
    let node = start(
        "choose = [\"load\", \"priority\"]\nload = { threshold = 0.8 }\nmembers = [
  { address = \"192.0.2.1\" }, { address = \"192.0.2.2\", load_threshold = 0.95 } ]",
    );
    let report = |member: &str, share: &str, time: &str| {
        let member = format!("www.choose.test/{member}");
        let _ = node.cli(&["load", &member, "--share", share, "--for", time]).expect(0);
    };
    assert_eq!(node.data("www.choose.test. A"), ["192.0.2.1"]);
    report("192.0.2.1", "0.9", "1h");
    node.wait_for_data("www.choose.test. A", &["192.0.2.2"]);
    report("192.0.2.2", "0.9", "1h");
    assert_eq!(node.data("www.choose.test. A"), ["192.0.2.2"], "its own threshold is higher");
    // all over the limit: the step is passed over
    report("192.0.2.2", "0.99", "1h");
    node.wait_for_data("www.choose.test. A", &["192.0.2.1"]);
    report("192.0.2.2", "0.1", "1h");
    node.wait_for_data("www.choose.test. A", &["192.0.2.2"]);
    report("192.0.2.1", "0.9", "1s");
    node.wait_for_data("www.choose.test. A", &["192.0.2.1"]);
}

/// Schedulers that go by reported loads.
#[test]
fn dynamic_schedulers_follow_reports() {
    for (scheduler, light, heavy) in [
        ("least-connections", ["--connections", "3"], ["--connections", "30"]),
        ("weighted-least-connections", ["--connections", "3"], ["--connections", "30"]),
        ("least-time", ["--response", "900"], ["--response", "90000"]),
    ] {
        let node = start(&format!(
            "choose = [\"{scheduler}\"]\nmembers = [{{ address = \"192.0.2.1\" }}, {{ address = \"192.0.2.2\" }}]"
        ));
        let load = |member: &str, report: [&str; 2]| {
            let member = format!("www.choose.test/{member}");
            let _ = node.cli(&[&["load", &member, "--for", "1h"], &report[..]].concat()).expect(0);
        };
        load("192.0.2.1", heavy);
        load("192.0.2.2", light);
        let answers = ask_all(&node, &plain(200, A));
        assert!(share(&answers, "192.0.2.2") > 95.0, "{scheduler}: {}", share(&answers, "192.0.2.2"));
        load("192.0.2.1", light);
        load("192.0.2.2", heavy);
        let answers = ask_all(&node, &plain(200, A));
        assert!(share(&answers, "192.0.2.1") > 95.0, "{scheduler}: {}", share(&answers, "192.0.2.1"));
    }
}
