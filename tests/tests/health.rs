//! Health: real servers behind the node stop and start, and the answers follow.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use portolan_tests::backend::{Backend, response};
use portolan_tests::netns::Namespace;
use portolan_tests::node::Node;
use portolan_tests::place;
use portolan_tests::setup::Setup;
use portolan_tests::wait::{SOON, wait_for, wait_until};

const HEAD: &str = "version = 1

[node]
name = \"n1\"
site = \"here\"
state = \"state\"

[dns]
listen = [\"@dns@\"]
zones = [\"@common@/choose.zone\"]

[api]
listen = \"./api.sock\"

[[site]]
name = \"here\"
[[site]]
name = \"there\"
";

const FAST: &str = "interval = \"50ms\", timeout = \"2s\", rise = 1, fall = 1";

/// `www` with one member a backend, the first of which is preferred.
fn www(backends: &[&Backend], keys: &str) -> String {
    let members: Vec<_> = backends
        .iter()
        .map(|backend| format!("{{ address = \"{}\", port = {} }}", backend.address(), backend.port()))
        .collect();
    format!(
        "[[service]]\nname = \"www.choose.test.\"\nchoose = [\"priority\"]\n{keys}\nmembers = [{}]\n",
        members.join(", ")
    )
}

fn start(services: &str) -> Node {
    Setup::config(&format!("{HEAD}{services}")).start()
}

fn served_by(node: &Node, backend: &Backend) {
    node.wait_for_data("www.choose.test. A", &[&backend.address()]);
}

/// What `services` says of the members of a service.
fn members(node: &Node, service: &str) -> Vec<serde_json::Value> {
    let said = node.cli(&["services", service, "--json"]);
    said.json()[0]["members"].as_array().unwrap().clone()
}

fn wait_for_states(node: &Node, service: &str, expected: &[&str]) {
    wait_for(SOON, &format!("{service} is {expected:?}"), || {
        let states: Vec<_> = members(node, service)
            .iter()
            .map(|member| member["state"].as_str().unwrap().to_owned())
            .collect();
        if states == expected { Ok(()) } else { Err(format!("{states:?}")) }
    });
}

#[test]
fn answers_follow_a_server_that_stops_and_returns() {
    let (mut first, second) = (Backend::start(), Backend::start());
    let node = start(&www(&[&first, &second], &format!("check.http = {{ {FAST} }}")));
    served_by(&node, &first);
    wait_for_states(&node, "www.choose.test", &["up", "up"]);
    first.stop();
    served_by(&node, &second);
    wait_for_states(&node, "www.choose.test", &["down", "up"]);
    first.resume();
    served_by(&node, &first);
    // H23: what is shown is what is used
    let members = members(&node, "www.choose.test");
    assert_eq!(members[0]["state"], "up");
    assert_eq!(members[0]["usable"], true);
}

/// Each kind that needs no privilege, good and bad.
#[test]
fn kinds_of_checks() {
    let good = Backend::start();
    let bad = Backend::start();
    bad.answer_code(503);
    for check in [
        "check.http = { FAST, path = \"/healthz\" }",
        "check.http = { FAST, body = \"ok\", expect = \"200-599\" }",
        "check.http = { FAST, body_regex = \"^o.$\", expect = \"200-599\" }",
        "check.tcp = { FAST, send = \"GET / HTTP/1.0\\r\\n\\r\\n\", expect = \" 200 \" }",
        "check.command = { FAST, argv = [\"/bin/sh\", \"-c\", \"test $PORTOLAN_TARGET = GOOD\"] }",
    ] {
        let check = check.replace("FAST", FAST).replace("GOOD", &good.address());
        // the bad one first: it is left as soon as its first verdict is there
        let node = start(&www(&[&bad, &good], &check));
        served_by(&node, &good);
        wait_for_states(&node, "www.choose.test", &["down", "up"]);
    }
}

/// A DNS check of one node by another.
#[test]
fn dns_checks_ask_a_name_server() {
    let asked = Setup::case("siblings").start();
    let (address, port) = (asked.dns().ip(), asked.dns().port());
    let keys = format!(
        "check.dns = {{ {FAST}, port = {port}, name = \"www.choose.test.\", type = \"A\", answer = \"192.0.2.1\" }}"
    );
    let services = format!(
        "[[service]]\nname = \"www.choose.test.\"\nchoose = [\"priority\"]\n{keys}\n\
         members = [{{ address = \"{}\" }}, {{ address = \"{address}\" }}]\n",
        place::own_address()
    );
    let node = start(&services);
    wait_for_states(&node, "www.choose.test", &["down", "up"]);
    node.wait_for_data("www.choose.test. A", &[&address.to_string()]);
}

/// H04: a success between two failures keeps the server up with `fall = 2`; two in a row take it down.
#[test]
fn one_failure_is_not_two() {
    let (first, second) = (Backend::start(), Backend::start());
    // every second request fails
    let count = AtomicUsize::new(0);
    first.answer(move |_| {
        let turn = count.fetch_add(1, Ordering::SeqCst);
        response(if turn % 2 == 1 { 500 } else { 200 }, "")
    });
    let node = start(&www(
        &[&first, &second],
        "check.http = { interval = \"20ms\", rise = 1, fall = 2, jitter = 0 }",
    ));
    let flap = |requests: usize| {
        wait_until(SOON, "checks", || first.requests().len() >= requests);
    };
    flap(30);
    assert_eq!(node.data("www.choose.test. A"), [first.address()]);
    first.answer_code(500);
    served_by(&node, &second);
}

/// H18, dns.md 23: a server that changes all the time changes the answer at most once a delay.
#[test]
fn a_flapping_server_stays_out() {
    let (first, second) = (Backend::start(), Backend::start());
    let node = start(&www(
        &[&first, &second],
        "check.http = { interval = \"20ms\", rise = 1, fall = 1, jitter = 0, failback_delay = \"30s\" }",
    ));
    served_by(&node, &first);
    first.answer_code(500);
    served_by(&node, &second);
    for code in [200, 500].into_iter().cycle().take(10) {
        first.answer_code(code);
        let seen = first.requests().len();
        wait_until(SOON, "two more checks", || first.requests().len() >= seen + 2);
        assert_eq!(node.data("www.choose.test. A"), [second.address()]);
    }
}

/// H07, T8: one check per target and definition, however many members want it. H06: what leaves the config is no
/// longer checked, what stays goes on without a new start.
#[test]
fn equal_checks_run_once_and_removed_ones_stop() {
    let shared = Backend::start();
    let service = |name: &str, path: &str| {
        format!(
            "[[service]]\nname = \"{name}.choose.test.\"\ncheck.http = {{ path = \"{path}\", interval = \"1h\" }}\n\
             members = [{{ address = \"{}\", port = {} }}]\n",
            shared.address(),
            shared.port()
        )
    };
    let many: String = (0..20).map(|number| service(&format!("s{number}"), "/same")).collect();
    let node = start(&format!("{many}{}", service("other", "/other")));
    let checks = || node.cli(&["checks", "--json"]).json().as_array().unwrap().clone();
    wait_until(SOON, "both checks have a verdict", || {
        checks().iter().all(|check| check["state"] == "up") && shared.requests().len() >= 2
    });
    assert_eq!(checks().len(), 2);
    assert_eq!(shared.connections(), 2);

    node.write("portolan.toml", &format!("{HEAD}{}{}", service("s0", "/same"), service("new", "/new")));
    let _ = node.cli(&["reload"]).expect(0);
    wait_until(SOON, "the new check has asked", || shared.requests().len() >= 3);
    let checks = checks();
    assert_eq!(checks.len(), 2, "{checks:?}");
    let paths: Vec<_> =
        shared.requests().iter().map(|head| head.split(' ').nth(1).unwrap().to_owned()).collect();
    assert_eq!(paths[2], "/new", "{paths:?}");
    assert!(checks.iter().all(|check| !check.to_string().contains("/other")), "{checks:?}");
}

/// H11: a User-Agent is sent; other codes can be good; headers can be added.
#[test]
fn requests_as_servers_want_them() {
    let (picky, second) = (Backend::start(), Backend::start());
    picky.answer(|head| {
        let head = head.to_lowercase();
        let is_known =
            head.contains("\r\nuser-agent: portolan-check/") && head.contains("\r\nx-api-key: secret\r\n");
        response(if is_known && head.contains("\r\nhost: www.choose.test\r\n") { 301 } else { 403 }, "")
    });
    second.answer_code(204);
    let node = start(&www(
        &[&picky, &second],
        &format!(
            "check.http = {{ {FAST}, host = \"www.choose.test\", headers = {{ X-API-Key = \"secret\" }}, expect = [204, \"300-399\"] }}"
        ),
    ));
    wait_for_states(&node, "www.choose.test", &["up", "up"]);
    served_by(&node, &picky);
}

/// H13: all, any, at least N.
#[test]
fn several_checks_together() {
    let (main, side) = (Backend::start(), Backend::start());
    let mut third = Backend::start();
    let checks = |require: &str| {
        format!(
            "check = {{ require = {require}, http = [{{ {FAST} }}, {{ {FAST}, address = \"{}\", port = {} }}], \
             tcp = {{ {FAST}, address = \"{}\", port = {} }} }}",
            side.address(),
            side.port(),
            third.address(),
            third.port()
        )
    };
    let all = start(&www(&[&main], &checks("\"all\"")));
    let any = start(&www(&[&main], &checks("\"any\"")));
    let two = start(&www(&[&main], &checks("2")));
    let expect = |states: [&str; 3]| {
        for (node, state) in [&all, &any, &two].into_iter().zip(states) {
            wait_for_states(node, "www.choose.test", &[state]);
        }
    };
    expect(["up", "up", "up"]);
    side.answer_code(500);
    expect(["down", "up", "up"]);
    third.stop();
    expect(["down", "up", "down"]);
    main.answer_code(500);
    expect(["down", "down", "down"]);
}

/// H20: a service that depends on another one is out where that one is out.
#[test]
fn dependencies_between_services() {
    let mail = Backend::start();
    let services = format!(
        "[[service]]\nname = \"mail.choose.test.\"\ncheck.http = {{ {FAST} }}\n\
         members = [{{ site = \"here\", address = \"{}\", port = {} }}]\n\
         [[service]]\nname = \"www.choose.test.\"\nchoose = [\"priority\"]\ndepends_on = [\"mail.choose.test.\"]\n\
         members = [{{ site = \"here\", address = \"192.0.2.1\" }}]\nfallback = \"nodata\"\n",
        mail.address(),
        mail.port()
    );
    let node = start(&services);
    node.wait_for_data("www.choose.test. A", &["192.0.2.1"]);
    mail.answer_code(500);
    node.wait_for_data("www.choose.test. A", &[]);
    mail.answer_code(200);
    node.wait_for_data("www.choose.test. A", &["192.0.2.1"]);
}

/// H22: the second one has no check: it takes over. Both have one and both are bad: the fallback of the config.
#[test]
fn a_member_without_a_check_counts_as_up() {
    let first = Backend::start();
    first.answer_code(500);
    let members = format!(
        "[[service]]\nname = \"www.choose.test.\"\nchoose = [\"priority\"]\ncheck.http = {{ {FAST} }}\n\
         members = [{{ address = \"{}\", port = {} }}, {{ address = \"192.0.2.2\", check = \"none\" }}]\n",
        first.address(),
        first.port()
    );
    let node = start(&members);
    node.wait_for_data("www.choose.test. A", &["192.0.2.2"]);
}

/// H01, T1: a dead server is not handed out after a kill and restart, before any check has run; and the node serves
/// again within a second.
#[test]
fn states_outlive_a_kill() {
    let (mut first, second) = (Backend::start(), Backend::start());
    let mut node = start(&www(&[&first, &second], &format!("check.http = {{ {FAST} }}")));
    wait_for_states(&node, "www.choose.test", &["up", "up"]);
    first.stop();
    wait_for_states(&node, "www.choose.test", &["down", "up"]);
    wait_until(SOON, "the state is written", || {
        std::fs::read_to_string(node.path("state/checks.json")).is_ok_and(|text| text.contains("down"))
    });
    // from now on it accepts and says nothing: no verdict until the timeout, so the saved state must answer
    let silent = TcpListener::bind(first.socket()).unwrap();
    let took = node.restart_after_kill();
    let found = node.data("www.choose.test. A");
    let shown = node.cli(&["services"]).text();
    assert_eq!(found, [second.address()], "{shown}");
    assert!(took < Duration::from_secs(1), "served again only after {took:?}");
    drop(silent);
    first.resume();
    served_by(&node, &first);
}

/// T1, dns.md 24: unknown counts as `initial` says.
#[test]
fn before_the_first_verdict() {
    for (initial, expected) in [("up", "192.0.2.1"), ("down", "192.0.2.2")] {
        // 192.0.2.1 answers nobody here: no verdict for an hour
        let node = start(&format!(
            "[[service]]\nname = \"www.choose.test.\"\nchoose = [\"priority\"]\ninitial = \"{initial}\"\n\
             members = [\
             {{ address = \"192.0.2.1\", check = {{ command = {{ argv = [\"/bin/sleep\", \"600\"], timeout = \"1h\" }} }} }},\
             {{ address = \"192.0.2.2\", check = \"none\" }}]\n"
        ));
        assert_eq!(node.data("www.choose.test. A"), [expected], "initial = {initial}");
    }
}

/// dns.md 24: checks of hundreds of targets start spread out, and all get their verdict.
#[test]
fn many_checks_at_start() {
    let backend = Backend::start();
    let services: String = (0..400)
        .map(|number| {
            format!(
                "[[service]]\nname = \"s{number}.choose.test.\"\n\
                 check.http = {{ path = \"/{number}\", interval = \"1s\" }}\n\
                 members = [{{ address = \"{}\", port = {} }}]\n",
                backend.address(),
                backend.port()
            )
        })
        .collect();
    let begin = Instant::now();
    let node = start(&services);
    wait_for(SOON, "all checks are up", || {
        let status = node.cli(&["status", "--json"]).json();
        if status["checks"]["up"] == 400 { Ok(()) } else { Err(status["checks"].to_string()) }
    });
    assert!(begin.elapsed() < SOON);
}

/// H10: forced states win over the checks, end by themselves, and the real state is there again afterwards.
#[test]
fn forced_states() {
    let (first, second) = (Backend::start(), Backend::start());
    let node = start(&www(&[&first, &second], &format!("check.http = {{ {FAST} }}")));
    let target = format!("www.choose.test/{}", first.address());
    served_by(&node, &first);

    let _ = node.cli(&["force", "down", &target, "--reason", "a test", "--author", "me"]).expect(0);
    served_by(&node, &second);
    let shown = node.cli(&["status", "--json"]).json();
    assert_eq!(shown["forced"][0]["reason"], "a test", "{shown}");
    assert_eq!(shown["forced"][0]["author"], "me");
    // both are visible: what is forced and what the checks say
    let member = &members(&node, "www.choose.test")[0];
    assert_eq!(member["forced"]["action"], "down", "{member}");
    assert_eq!(member["state"], "up", "the checks go on: {member}");
    assert_eq!(member["usable"], false);

    let _ = node.cli(&["enable", &target]).expect(0);
    served_by(&node, &first);

    // the real state changes while forced: seen, but without effect
    let _ = node.cli(&["force", "up", &target]).expect(0);
    first.answer_code(500);
    wait_for_states(&node, "www.choose.test", &["down", "up"]);
    assert_eq!(node.data("www.choose.test. A"), [first.address()]);
    let _ = node.cli(&["enable", "*"]).expect(0);
    served_by(&node, &second);

    // a pattern, and an end
    first.answer_code(200);
    served_by(&node, &first);
    let _ =
        node.cli(&["force", "down", &format!("*.choose.test/{}", first.address()), "--ttl", "1s"]).expect(0);
    served_by(&node, &second);
    served_by(&node, &first);
    assert_eq!(node.cli(&["status", "--json"]).json()["forced"].as_array().map(Vec::len), Some(0));

    // O07, H10: what does not exist is refused and changes nothing
    let _ = node.cli(&["drain", "www.choose.test/nobody"]).expect(1);
    let _ = node.cli(&["drain", "nobody.choose.test"]).expect(1);
}

/// T7, O05: forced states outlive a restart; a file with an error is refused whole and the node starts.
#[test]
fn forced_states_outlive_a_restart() {
    let (first, second) = (Backend::start(), Backend::start());
    let mut node = start(&www(&[&first, &second], ""));
    served_by(&node, &first);
    let _ = node.cli(&["disable", &format!("www.choose.test/{}", first.address())]).expect(0);
    served_by(&node, &second);
    node.restart_after_kill();
    assert_eq!(node.data("www.choose.test. A"), [second.address()]);
    for entry in std::fs::read_dir(node.path("state")).unwrap() {
        std::fs::write(entry.unwrap().path(), "{ \"forced\": [").unwrap();
    }
    node.restart_after_kill();
    assert!(!node.data("www.choose.test. A").is_empty());
}

/// Choices remembered by `persist.kind = "table"` outlive a restart.
#[test]
fn remembered_choices_outlive_a_restart() {
    let members: Vec<_> = (1..=9).map(|number| format!("{{ address = \"192.0.2.{number}\" }}")).collect();
    let mut node = start(&format!(
        "[[service]]\nname = \"www.choose.test.\"\nchoose = [\"persist\", \"random\"]\npersist = {{ kind = \"table\" }}\n\
         members = [{}]\n",
        members.join(", ")
    ));
    let clients: Vec<_> =
        (0..40).map(|number| format!("www.choose.test. A +subnet=198.51.{number}.0/24")).collect();
    let ask = |node: &Node| -> Vec<_> {
        node.digger().ask_all(&clients).iter().map(|reply| reply.data()).collect()
    };
    let before = ask(&node);
    node.restart();
    assert_eq!(before, ask(&node));
}

/// H10: removing the file and reloading clears all forced states.
#[test]
fn removing_the_file_clears_forced_states() {
    let (first, second) = (Backend::start(), Backend::start());
    let node = start(&www(&[&first, &second], ""));
    let _ = node.cli(&["disable", &format!("www.choose.test/{}", first.address())]).expect(0);
    served_by(&node, &second);
    std::fs::remove_file(node.path("state/forced.json")).unwrap();
    let _ = node.cli(&["reload"]).expect(0);
    served_by(&node, &first);
}

/// T16: a member that failed waits for a person.
#[test]
fn manual_resume() {
    let (first, second) = (Backend::start(), Backend::start());
    let node = start(&www(&[&first, &second], &format!("manual_resume = true\ncheck.http = {{ {FAST} }}")));
    wait_for_states(&node, "www.choose.test", &["up", "up"]);
    served_by(&node, &first);
    first.answer_code(500);
    served_by(&node, &second);
    first.answer_code(200);
    let seen = first.requests().len();
    wait_until(SOON, "good checks", || first.requests().len() >= seen + 3);
    assert_eq!(node.data("www.choose.test. A"), [second.address()]);
    let _ = node.cli(&["enable", &format!("www.choose.test/{}", first.address())]).expect(0);
    served_by(&node, &first);
}

/// dns.md 21: states belong to addresses, not to places in the list.
#[test]
fn states_are_keyed_by_address() {
    let (first, second) = (Backend::start(), Backend::start());
    second.answer_code(500);
    let service =
        |backends: &[&Backend]| format!("{HEAD}{}", www(backends, "check.http = { interval = \"1h\" }"));
    let node = Setup::config(&service(&[&first, &second])).start();
    wait_for_states(&node, "www.choose.test", &["up", "down"]);
    let asked = (first.connections(), second.connections());
    node.write("portolan.toml", &service(&[&second, &first]));
    let _ = node.cli(&["reload"]).expect(0);
    wait_for_states(&node, "www.choose.test", &["down", "up"]);
    assert_eq!(node.data("www.choose.test. A"), [first.address()]);
    // dns.md 27: no new check storm
    assert_eq!((first.connections(), second.connections()), asked);
}

/// Echoes, in a network of its own: one address answers, the other is nobody's.
#[test]
fn echo_checks() {
    let Some(namespace) = Namespace::new() else { return };
    namespace.interface("net", &["10.6.0.1/24", "fd06::1/64"]);
    let mut setup = Setup::config(&format!(
        "{HEAD}[[service]]\nname = \"www.choose.test.\"\nchoose = [\"priority\"]\n\
         check.icmp = {{ interval = \"100ms\", timeout = \"300ms\", rise = 1, fall = 1 }}\n\
         members = [{{ address = [\"10.6.0.99\", \"fd06::99\"] }}, {{ address = \"10.6.0.1\" }}, {{ address = \"fd06::1\" }}]\n"
    ));
    setup.within(&namespace);
    let node = setup.start();
    wait_for_states(&node, "www.choose.test", &["down", "up", "up"]);
    node.wait_for_data("www.choose.test. A", &["10.6.0.1"]);
    node.wait_for_data("www.choose.test. AAAA", &["fd06::1"]);
}

/// Slow start: a member that returns waits out its standby, while others serve.
#[test]
fn a_recovered_member_waits_in_standby() {
    let (first, second) = (Backend::start(), Backend::start());
    let ramp = |standby: &str| {
        format!("check.http = {{ {FAST} }}\nramp = {{ standby = \"{standby}\", ramp_up = \"0s\" }}")
    };
    for (standby, returns) in [("1h", false), ("300ms", true)] {
        let node = start(&www(&[&first, &second], &ramp(standby)));
        wait_for_states(&node, "www.choose.test", &["up", "up"]);
        served_by(&node, &first);
        first.answer_code(500);
        served_by(&node, &second);
        first.answer_code(200);
        wait_for_states(&node, "www.choose.test", &["up", "up"]);
        if returns {
            served_by(&node, &first);
        } else {
            assert_eq!(node.data("www.choose.test. A"), [second.address()]);
        }
    }
}

/// A server reports its own load in a header of its health page.
#[test]
fn loads_come_with_checks() {
    let (first, second) = (Backend::start(), Backend::start());
    let with_load = |load: &str| {
        let load = load.to_owned();
        move |_: &str| format!("HTTP/1.1 200 OK\r\nX-Load: {load}\r\nContent-Length: 0\r\n\r\n")
    };
    second.answer(with_load("10%"));
    first.answer(with_load("0.2"));
    let node = start(
        &www(
            &[&first, &second],
            &format!("load = {{ threshold = 0.8 }}\ncheck.http = {{ {FAST}, load_header = \"X-Load\" }}"),
        )
        .replace("choose = [", "choose = [\"load\", "),
    );
    served_by(&node, &first);
    first.answer(with_load("93%"));
    served_by(&node, &second);
    first.answer(with_load("0.1"));
    served_by(&node, &first);
}
