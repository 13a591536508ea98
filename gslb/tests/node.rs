//! The built program as an operator meets it.

mod common;

use common::*;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const LOOPBACK: &str = "\"127.0.0.1:0\"";

#[test]
fn the_wire_and_explain_agree() {
    let node = Node::start(LOOPBACK, "", SERVICE);
    let seed = 1;
    let mut random = fastrand::Rng::with_seed(seed);
    let mut seen = BTreeSet::new();
    for _ in 0..20 {
        let client = Ipv4Addr::from(random.u32(0x0b00_0000..0x6400_0000) & !0xff);
        let wire = node.ask("www.example.com", Some(client));
        let ecs = format!("{client}/24");
        let told =
            node.json(0, &["explain", "www.example.com", "--from", "127.0.0.1", "--ecs", &ecs, "--json"]);
        assert_eq!(told["answer"], serde_json::json!(wire.answer), "seed {seed}: {client}");
        assert_eq!(told["scope"], serde_json::json!(wire.scope.unwrap()), "seed {seed}: {client}");
        // without a node the same
        let args = [
            "explain",
            "www.example.com",
            "--from",
            "127.0.0.1",
            "--ecs",
            &ecs,
            "--json",
            "-c",
            "portolan.toml",
        ];
        assert_eq!(node.json(0, &args)["answer"], told["answer"], "seed {seed}: {client}");
        seen.insert(wire.answer);
    }
    assert_eq!(seen.len(), 2, "seed {seed}: both members are drawn");
}

#[test]
fn replies_leave_from_the_asked_address() {
    let node = Node::start("\"0.0.0.0:0\", \"[::]:0\"", "", SERVICE);
    let [v4, v6] = node.json(0, &["status", "--json"])["listen"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|at| at.as_str().unwrap().strip_prefix("udp "))
        .map(|at| at.parse::<SocketAddr>().unwrap().port())
        .collect::<Vec<_>>()[..]
    else {
        panic!()
    };
    for address in ["127.0.0.1", "127.0.0.9", "127.9.8.7"] {
        let server = SocketAddr::new(address.parse().unwrap(), v4);
        assert!(ask(server, "www.example.com", None).is_some(), "{server}");
    }
    let server = SocketAddr::new("::1".parse().unwrap(), v6);
    assert!(ask(server, "www.example.com", None).is_some(), "{server}");
}

#[test]
fn no_query_is_lost_while_the_config_is_reloaded() {
    let node = Node::start(LOOPBACK, "", SERVICE);
    let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let clients: Vec<_> = (0..2)
        .map(|_| {
            let (stop, asked, server) = (stop.clone(), asked.clone(), node.dns());
            std::thread::spawn(move || {
                let mut lost = 0;
                while !stop.load(Ordering::Relaxed) {
                    asked.fetch_add(1, Ordering::Relaxed);
                    let reply = ask(server, "www.example.com", None);
                    lost += u64::from(reply.is_none_or(|reply| reply.answer.len() != 1));
                }
                lost
            })
        })
        .collect();
    for round in 0..10_u64 {
        let before = asked.load(Ordering::Relaxed);
        let more = format!(
            "{SERVICE}\n[[service]]\nname = \"s{round}.example.com.\"\nmembers = [{{ address = \"192.0.2.{round}\" }}]\n"
        );
        node.write_config(LOOPBACK, "", &more);
        if round % 2 == 0 {
            drop(node.must(0, &["reload"]))
        } else {
            node.signal(libc::SIGHUP)
        }
        let name = format!("s{round}.example.com");
        until("the new service answers", || node.ask(&name, None).answer == [format!("192.0.2.{round}")]);
        until("queries go on", || asked.load(Ordering::Relaxed) > before + 50);
    }
    stop.store(true, Ordering::Relaxed);
    let lost: u64 = clients.into_iter().map(|client| client.join().unwrap()).sum();
    assert_eq!(lost, 0, "of {}", asked.load(Ordering::Relaxed));
}

#[test]
fn a_refused_reload_changes_nothing_and_says_why() {
    let node = Node::start(LOOPBACK, "", SERVICE);
    let before = node.www();
    node.write_config(LOOPBACK, "", &SERVICE.replace("ttl = 30", "tttl = 30"));
    let said = node.must(1, &["reload"]);
    assert!(said.contains("tttl") && said.contains("portolan.toml"), "{said}");
    let error = node.json(1, &["reload", "--json"]);
    assert_eq!(error["status"], 422);
    assert!(error["problems"][0]["line"].as_u64().unwrap() > 0, "{error}");
    assert_eq!(node.www(), before);
    let status = node.json(1, &["status", "--json"]);
    assert!(status["config"]["last_error"].as_str().unwrap().contains("tttl"), "{status}");
    // an address that cannot be had
    node.write_config("\"192.0.2.99:53\"", "", SERVICE);
    assert!(node.must(1, &["reload"]).contains("192.0.2.99"));
    assert_eq!(node.www(), before);
    node.write_config(LOOPBACK, "", SERVICE);
    node.must(0, &["reload"]);
    node.must(0, &["status"]);
}

#[test]
fn listen_addresses_follow_the_config() {
    let mut node = Node::start(LOOPBACK, "", SERVICE);
    let old = node.dns();
    node.write_config("\"127.0.0.3:0\"", "", SERVICE);
    node.must(0, &["reload"]);
    let status = node.json(0, &["status", "--json"]);
    let now: SocketAddr =
        status["listen"][0].as_str().unwrap().strip_prefix("udp ").unwrap().parse().unwrap();
    assert_eq!(now.ip().to_string(), "127.0.0.3");
    assert!(ask(now, "www.example.com", None).is_some());
    assert!(ask(old, "www.example.com", None).is_none());
    // another node cannot take what this one has
    let config = Node::config(&format!("\"{now}\""), "", SERVICE).replace("api.sock", "other.sock");
    let config = config.replace("state = \"state\"", "state = \"other\"");
    std::fs::write(node.path("second.toml"), config).unwrap();
    let second = node.must(1, &["run", "-c", "second.toml"]);
    assert!(second.contains("cannot listen on") && second.contains("another server"), "{second}");
    assert!(ask(now, "www.example.com", None).is_some());
    node.signal(libc::SIGTERM);
    assert!(node.wait().success());
}

#[test]
fn forced_states_hold_over_kill_and_leave_with_their_file() {
    let mut node = Node::start(LOOPBACK, "", SERVICE);
    let first = node.www();
    let target = format!("www.example.com/{}", first[0]);
    node.must(0, &["drain", &target, "--reason", "kernel update", "--author", "ops"]);
    assert_ne!(node.www(), first);
    let begin = Instant::now();
    node.kill_and_start();
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    assert_ne!(node.www(), first);
    let status = node.json(0, &["status", "--json"]);
    assert_eq!(status["forced"][0]["reason"], "kernel update");
    assert_eq!(status["forced"][0]["author"], "ops");
    // a broken file changes nothing, neither at a reload...
    let path = node.path("state/forced.json");
    let good = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, &good[..good.len() - 9]).unwrap();
    node.must(0, &["reload"]);
    assert_ne!(node.www(), first);
    assert!(node.log().contains("refused whole"), "{}", node.log());
    // ... and one that is gone clears all
    std::fs::remove_file(&path).unwrap();
    node.must(0, &["reload"]);
    assert_eq!(node.www(), first);
    // nor is it fatal at a start
    std::fs::write(&path, "{").unwrap();
    node.kill_and_start();
    assert_eq!(node.www(), first);
}

#[test]
fn force_ends_by_itself_and_globs_and_sites_are_targets() {
    let node = Node::start(LOOPBACK, "", SERVICE);
    let first = node.www();
    node.must(0, &["force", "down", &format!("*/{}", first[0]), "--ttl", "1s"]);
    assert_ne!(node.www(), first);
    until("the forced state ends", || node.www() == first);
    let said = node.must(0, &["disable", "site:a"]);
    assert_eq!(said.matches("disabled").count(), 2, "{said}");
    assert!(said.contains("no usable member left"), "{said}");
    node.must(1, &["status"]);
    assert!(!node.www().is_empty(), "the fallback answers");
    node.must(0, &["enable", "*"]);
    node.must(0, &["services"]);
    let said = node.must(1, &["drain", "link:a/z"]);
    assert!(said.contains("did you mean \"link:a/"), "{said}");
    node.must(2, &["drain"]);
    node.must(2, &["force", "sideways", "site:a"]);
}

#[test]
fn checks_move_answers_and_their_states_outlive_the_process() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let service = SERVICE.replace("192.0.2.10", "127.0.0.1").replace("192.0.2.20", "127.0.0.2").replace(
        "ttl = 30",
        &format!("ttl = 30\ncheck.tcp = {{ port = {port}, interval = \"50ms\", rise = 1, fall = 1 }}"),
    );
    let mut node = Node::start(LOOPBACK, "", &service);
    // 127.0.0.2 has no server
    until("one member is left", || {
        (0..8).all(|i| {
            node.ask("www.example.com", Some(Ipv4Addr::new(20 + i, 0, 0, 0))).answer == ["127.0.0.1"]
        })
    });
    let checks = node.json(1, &["checks", "--json"]);
    assert_eq!(checks.as_array().unwrap().len(), 2);
    until("states are saved", || {
        std::fs::read_to_string(node.path("state/checks.json")).is_ok_and(|text| text.contains("\"down\""))
    });
    // T1: after a restart the saved state answers from the first query on
    node.write_config(LOOPBACK, "", &service.replace("50ms", "1h"));
    node.must(0, &["reload"]);
    node.write_config(LOOPBACK, "", &service);
    node.kill_and_start();
    assert_eq!(node.ask("www.example.com", Some(Ipv4Addr::new(25, 0, 0, 0))).answer, ["127.0.0.1"]);
    drop(server);
    until("the fallback answers", || node.cli(&["services"]).status.code() == Some(1));
}

/// One member that is checked by TCP at this port, and one that is not checked.
fn checked(port: u16, more: &str) -> String {
    format!(
        "
[[site]]
name = \"a\"
[[site]]
name = \"b\"
[[service]]
name = \"www.example.com.\"
choose = [\"load\", \"priority\"]
load.threshold = 0.9
{more}
members = [
  {{ name = \"one\", site = \"a\", address = \"127.0.0.1\",
    check.tcp = {{ port = {port}, interval = \"20ms\", rise = 1, fall = 1 }} }},
  {{ name = \"two\", site = \"b\", address = \"192.0.2.2\" }},
]
[[service]]
name = \"leaf.example.com.\"
depends_on = [\"www.example.com.\"]
choose = [\"priority\"]
members = [{{ site = \"a\", address = \"192.0.2.3\" }}, {{ site = \"b\", address = \"192.0.2.4\" }}]
"
    )
}

#[test]
fn a_member_with_manual_resume_waits_for_an_operator() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let mut node = Node::start(LOOPBACK, "", &checked(address.port(), "manual_resume = true"));
    until("it is up", || node.www() == ["127.0.0.1"]);
    drop(server);
    until("it fails", || node.www() == ["192.0.2.2"]);
    let server = std::net::TcpListener::bind(address).unwrap();
    until("its check passes", || node.cli(&["checks"]).status.success());
    assert_eq!(node.www(), ["192.0.2.2"]);
    node.kill_and_start();
    until("its check passes", || node.cli(&["checks"]).status.success());
    assert_eq!(node.www(), ["192.0.2.2"], "it waits over a restart too");
    assert!(node.must(0, &["services"]).contains("waits for `portolan enable`"));
    node.must(0, &["enable", "www.example.com/one"]);
    assert_eq!(node.www(), ["127.0.0.1"]);
    drop(server);
}

#[test]
fn slow_start_loads_and_dependencies_are_facts() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let ramp = "ramp = { standby = \"600ms\", ramp_up = \"1s\" }";
    let node = Node::start(LOOPBACK, "", &checked(address.port(), ramp));
    until("it is up", || node.www() == ["127.0.0.1"]);
    let leaf = || node.ask("leaf.example.com", None).answer;
    assert_eq!(leaf(), ["192.0.2.3"]);
    drop(server);
    until("it fails", || node.www() == ["192.0.2.2"]);
    // H20: what depends on it at its site is out with it
    assert_eq!(leaf(), ["192.0.2.4"]);
    let services = node.json(0, &["services", "leaf.example.com", "--json"]);
    assert!(
        services[0]["members"][0]["reason"].as_str().unwrap().contains("depends on www.example.com."),
        "{services}"
    );
    // M 2.9: back, but first without clients
    let server = std::net::TcpListener::bind(address).unwrap();
    until("its check passes", || node.cli(&["checks"]).status.success());
    let told = node.must(0, &["explain", "www.example.com", "--from", "127.0.0.1"]);
    assert!(told.contains("slow start") || node.www() == ["127.0.0.1"], "{told}");
    until("its standby is over", || node.www() == ["127.0.0.1"]);
    assert_eq!(leaf(), ["192.0.2.3"]);
    // a load that was reported counts, and ages out
    node.must(0, &["load", "site:a", "--share", "0.95", "--for", "1s"]);
    assert_eq!(node.www(), ["192.0.2.2"]);
    until("the report is forgotten", || node.www() == ["127.0.0.1"]);
    node.must(1, &["load", "site:a"]);
    node.must(1, &["load", "site:c", "--share", "0.1"]);
    drop(server);
}

#[test]
fn remembered_choices_outlive_the_process_and_a_change_of_size() {
    let persist = "choose = [\"persist\", \"random\"]\npersist = { kind = \"table\" }";
    let service = SERVICE.replace("choose = [\"rendezvous\"]", persist);
    let mut node = Node::start(LOOPBACK, "", &service);
    let answers = |node: &Node| -> Vec<Vec<String>> {
        (0..24).map(|i| node.ask("www.example.com", Some(Ipv4Addr::new(20 + i, 0, 0, 0))).answer).collect()
    };
    let first = answers(&node);
    assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 2);
    assert_eq!(answers(&node), first);
    let bigger = node.path("portolan.toml");
    let text = std::fs::read_to_string(&bigger)
        .unwrap()
        .replace("threads = 2", "threads = 2\npersist_entries = 4000000");
    std::fs::write(&bigger, text).unwrap();
    node.must(0, &["reload"]);
    assert_eq!(answers(&node), first);
    node.signal(libc::SIGTERM);
    assert!(node.wait().success());
    node.start_again();
    assert_eq!(answers(&node), first);
}

#[test]
fn it_ends_at_once_and_leaves_nothing() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let mut node = Node::start(LOOPBACK, "", SERVICE);
        let _idle = node.tcp();
        let begin = Instant::now();
        node.signal(signal);
        assert!(node.wait().success());
        assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
        assert!(!node.path("api.sock").exists());
        node.must(3, &["status"]);
    }
}

#[test]
fn metrics_have_a_listener_of_their_own() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let rest = format!("[metrics]\nlisten = \"127.0.0.1:{port}\"\n{SERVICE}");
    let node = Node::start(LOOPBACK, "", &rest);
    node.www();
    let get = |path: &str| {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
        let mut text = String::new();
        std::io::Read::read_to_string(&mut stream, &mut text).unwrap();
        text
    };
    let text = get("/metrics");
    assert!(
        text.contains("portolan_service_decisions_total{service=\"www.example.com.\",type=\"A\"} 1.0"),
        "{text}"
    );
    assert!(text.trim_end().contains("# EOF"));
    assert!(get("/v1/status").starts_with("HTTP/1.1 404"));
}

#[test]
fn check_says_everything_and_runs_the_operators_tests() {
    let node = Node::start(LOOPBACK, "", SERVICE);
    node.must(0, &["check", "-c", "portolan.toml"]);
    let expect = |answer: &str| {
        format!(
            "{SERVICE}\n[[expect]]\nclient = \"192.0.2.7\"\nname = \"ns1.example.com.\"\nanswer = {answer}\n"
        )
    };
    node.write_config(LOOPBACK, "", &expect("\"192.0.2.1\""));
    node.must(0, &["check", "-c", "portolan.toml"]);
    node.write_config(LOOPBACK, "", &expect("\"192.0.2.2\""));
    let said = node.json(1, &["check", "-c", "portolan.toml", "--json"]);
    assert_eq!((&said["good"], &said["problems"][0]["code"]), (&false.into(), &"expect".into()), "{said}");
    node.must(1, &["check", "-c", "missing.toml"]);
    node.must(1, &["run", "-c", "missing.toml"]);
}

#[test]
fn the_command_line_explains_itself() {
    for args in [&["--help"][..], &["version"], &["schema"], &["completions", "bash"], &["drain", "--help"]] {
        let said = command(args).output().unwrap();
        assert!(said.status.success() && !said.stdout.is_empty(), "{args:?}");
    }
    assert_eq!(command(&["dance"]).output().unwrap().status.code(), Some(2));
    // a reader that goes away is no crash
    let mut child = command(&["schema"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn the_demo_shows_what_it_promises() {
    let said = command(&["demo", "--once"]).output().unwrap();
    let text = String::from_utf8_lossy(&said.stdout);
    assert!(said.status.success(), "{text}{}", String::from_utf8_lossy(&said.stderr));
    assert!(text.contains("dig @") && text.contains("beijing/ct"), "{text}");
}
