//! The commands, their exit codes, their JSON; explain offline, online and on the wire (O04).
#![allow(clippy::unwrap_used, reason = "a test")]

use std::net::Ipv4Addr;
use std::process::Command;
use std::time::{Duration, Instant};

use portolan_tests::child::Child;
use portolan_tests::netns;
use portolan_tests::node::Node;
use portolan_tests::program::{Said, portolan};
use portolan_tests::setup::Setup;
use portolan_tests::wait::{SOON, wait_until};

const EXAMPLE: &str = "version = 1

[node]
name = \"n1\"
site = \"here\"

[dns]
listen = [\"@dns@\"]
zones = [\"@common@/choose.zone\"]
ecs = { accept_private = true }

[[isp]]
name = \"chinatelecom\"
files = \"@isp-tables@/chinatelecom.txt\"
[[isp]]
name = \"chinaunicom\"
files = \"@isp-tables@/chinaunicom.txt\"

[tables.prefixes]
offices = [\"10.1.0.0/16\", \"36.110.0.0/20\", \"127.80.0.0/16\"]

[api]
listen = \"./api.sock\"

[metrics]
listen = \"@metrics@\"

[[site]]
name = \"here\"
links = [
  { name = \"ct\", isp = [\"chinatelecom\"] },
  { name = \"cu\", isp = [\"chinaunicom\"] },
]
[[site]]
name = \"there\"

[[service]]
name = \"www.choose.test.\"
ttl = 45
choose = [\"acl\", \"isp\", \"rendezvous\"]
hash = { v4 = 24, v6 = 48 }
acl = [
  { from = [\"10.2.0.0/16\"], refuse = true },
  { from = \"offices\", only = [\"there\"] },
  { from = [\"10.3.0.0/16\"], avoid = [\"here/ct\"] },
]
members = [
  { site = \"here\", link = \"ct\", address = [\"192.0.2.1\", \"2001:db8::1\"], weight = 3 },
  { site = \"here\", link = \"cu\", address = \"192.0.2.2\" },
  { site = \"there\", address = [\"192.0.2.3\", \"2001:db8::3\"] },
  { site = \"there\", name = \"spare\", address = \"192.0.2.4\", tier = 2 },
]

[[service]]
name = \"rolled.choose.test.\"
choose = [\"weighted-random\"]
members = [{ address = \"192.0.2.1\" }, { address = \"192.0.2.2\", weight = 2 }]
";

fn setup() -> Setup {
    let mut setup = Setup::empty();
    setup.set("metrics", portolan_tests::place::own_socket());
    setup.write("portolan.toml", EXAMPLE);
    setup
}

fn start() -> Node {
    setup().start()
}

#[test]
fn check_reports_every_problem_at_once() {
    let setup = setup();
    let said = setup.cli(&["check", "-c", "portolan.toml"]).expect(0);
    assert!(!said.text().contains("warning"), "{}", said.text());
    // first the form, then what it means: whole lists of either
    let service = |keys: &str| format!("[[service]]\nname = \"a.choose.test.\"\n{keys}\n");
    let form = service("colour = \"red\"\nmembers = [{ address = \"192.0.2.1\", weight = -1 }]")
        + &service("choose = [\"geo\", \"weightd-random\"]\nmembers = [{ address = \"192.0.2\" }]");
    let meaning = service("ttl = 0\nmembers = [{ site = \"nowhere\", address = \"192.0.2.1\" }]")
        + "[[service]]\nname = \"b.elsewhere.test.\"\nmembers = []\n";
    for (text, words) in [
        (form, &["colour", "-1", "weightd-random", "weighted-random", "192.0.2"][..]),
        (meaning, &["ttl", "nowhere", "b.elsewhere.test", "members"]),
    ] {
        setup.write("bad.toml", &format!("{EXAMPLE}\n{text}"));
        let said = setup.cli(&["check", "-c", "bad.toml"]).expect(1);
        for word in words {
            assert!(said.text().contains(word), "no word about {word}:\n{}", said.text());
        }
        assert!(said.text().contains("--> bad.toml:"), "{}", said.text());
        assert!(said.text().ends_with('\n'), "the prompt begins a line of its own: {:?}", said.text());
        let json = setup.cli(&["check", "-c", "bad.toml", "--json"]).expect(1).json();
        assert!(json.to_string().contains("bad.toml") && json.to_string().contains("\"line\""), "{json}");
    }
}

/// Z23: thousands of names with many members each are read in seconds, also by an unoptimised build.
#[test]
fn a_large_config_is_checked_quickly() {
    let setup = setup();
    let members: Vec<_> = (1..=14).map(|number| format!("{{ address = \"192.0.2.{number}\" }}")).collect();
    let members = members.join(", ");
    let services: String = (0..4_000)
        .map(|number| format!("[[service]]\nname = \"n{number}.choose.test.\"\nmembers = [{members}]\n"))
        .collect();
    setup.write("large.toml", &format!("{EXAMPLE}\n{services}"));
    let begin = Instant::now();
    let _ = setup.cli(&["check", "-c", "large.toml"]).expect(0);
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    eprintln!("4,000 services of 14 members: {:?}", begin.elapsed());
}

#[test]
fn check_runs_the_operators_own_tests() {
    let setup = setup();
    let expect = |answer: &str| {
        format!(
            "{EXAMPLE}\n[[expect]]\nclient = \"10.1.0.7\"\nname = \"www.choose.test.\"\nanswer = [\"{answer}\"]\n"
        )
    };
    setup.write("good.toml", &expect("192.0.2.3"));
    let _ = setup.cli(&["check", "-c", "good.toml"]).expect(0);
    setup.write("bad.toml", &expect("192.0.2.1"));
    let said = setup.cli(&["check", "-c", "bad.toml"]).expect(1);
    assert!(said.text().contains("192.0.2.3") && said.text().contains("bad.toml:"), "{}", said.text());
}

#[test]
fn exit_codes_mean_something() {
    let setup = setup();
    let _ = setup.cli(&["frobnicate"]).expect(2);
    let _ = setup.cli(&["explain"]).expect(2);
    let _ = setup.cli(&["status", "--socket", "./nobody.sock"]).expect(3);
    let _ = setup.cli(&["status", "--json", "--socket", "./nobody.sock"]).expect(3);
    let _ = setup.cli(&["check", "-c", "missing.toml"]).expect(1);
    let _ = setup.cli(&["run", "-c", "missing.toml"]).expect(1);
    let _ = setup.cli(&["--version"]).expect(0);
    let _ = setup.cli(&["--help"]).expect(0);
    let node = setup.start();
    let _ = node.cli(&["status"]).expect(0);
    let _ = node.cli(&["services"]).expect(0);
    let _ = node.cli(&["checks"]).expect(0);
    let _ = node.cli(&["drain", "nobody.test"]).expect(1);
    let _ = node.cli(&["services", "nobody.test"]);
    let _ = node.cli(&["explain", "www.choose.test.", "--from", "not-an-address"]).expect(2);
}

#[test]
fn every_command_speaks_json() {
    let node = start();
    for args in [
        vec!["status"],
        vec!["services"],
        vec!["services", "www.choose.test"],
        vec!["checks"],
        vec!["explain", "www.choose.test.", "--from", "36.110.1.1"],
        vec!["explain", "www.choose.test.", "--from", "36.110.1.1", "-c", "portolan.toml"],
        vec!["tables", "lookup", "36.110.1.1"],
        vec!["tables", "lookup", "36.110.1.1", "-c", "portolan.toml"],
        vec!["drain", "www.choose.test/there"],
        vec!["disable", "link:here/ct"],
        vec!["force", "down", "site:there"],
        vec!["load", "www.choose.test/192.0.2.1", "--share", "0.5"],
        vec!["enable", "*"],
        vec!["reload"],
        vec!["check", "-c", "portolan.toml"],
        vec!["version"],
    ] {
        let args: Vec<_> = args.into_iter().chain(["--json"]).collect();
        let _ = node.cli(&args).expect(0).json();
    }
    let refused = node.cli(&["drain", "nobody.test", "--json"]).expect(1).json();
    assert!(refused["error"].is_string(), "{refused}");
}

#[test]
fn explain_says_why() {
    let node = start();
    let said = node.cli(&["explain", "www.choose.test.", "--from", "36.110.1.1"]).expect(0);
    for part in ["acl", "192.0.2.3", "here/ct", "chinatelecom", "scope", "ttl 45"] {
        assert!(said.stdout.contains(part), "no word about {part}:\n{}", said.stdout);
    }
    let json = node.cli(&["explain", "www.choose.test.", "--from", "36.110.17.1", "--json"]).expect(0).json();
    for key in ["answer", "scope", "ttl", "steps", "dice"] {
        assert!(!json[key].is_null(), "no {key}: {json}");
    }
    assert_eq!(json["answer"][0], "192.0.2.1");
    // the line of the table that matched
    assert!(json["tables"].to_string().contains("chinatelecom.txt:"), "{json}");
    let said = node.cli(&["explain", "missing.choose.test.", "--from", "192.0.2.1", "--json"]).expect(0);
    assert_eq!(said.json()["rcode"], "NXDOMAIN");
}

/// The dice are an argument: the same ones give the same answer, others do not always.
#[test]
fn explain_repeats_a_choice() {
    let setup = setup();
    let explain = |entropy: u64| {
        let entropy = entropy.to_string();
        let args = [
            "explain",
            "rolled.choose.test.",
            "--from",
            "192.0.2.1",
            "--entropy",
            &entropy,
            "-c",
            "portolan.toml",
            "--json",
        ];
        setup.cli(&args).expect(0).json()
    };
    let dice: Vec<_> = (0..12).map(|number| number * 1_000_000_007 * 31_337).collect();
    let first: Vec<_> = dice.iter().map(|entropy| explain(*entropy)["answer"].clone()).collect();
    let again: Vec<_> = dice.iter().map(|entropy| explain(*entropy)["answer"].clone()).collect();
    assert_eq!(first, again);
    assert_eq!(explain(dice[3])["dice"]["entropy"], dice[3]);
}

/// O04: for random clients, names, types and states the answer explained (offline and online) is the answer sent.
#[test]
fn what_is_explained_is_what_is_answered() {
    let node = start();
    let seed = fastrand::u64(..);
    let mut dice = fastrand::Rng::with_seed(seed);
    for round in 0..60 {
        let name = dice
            .choice(["www.choose.test.", "alias.choose.test.", "choose.test.", "nothing.choose.test."])
            .unwrap();
        let rrtype = dice.choice(["A", "A", "A", "AAAA", "MX", "TXT"]).unwrap();
        let subnet = random_prefix(&mut dice);
        let from = format!("127.{}.0.{}", dice.choice([80_u8, 81, 9]).unwrap(), dice.u8(1..));
        let with_ecs = dice.bool();
        let mut question = format!("{name} {rrtype} -b {from}");
        let mut args = vec!["explain", name, "--type", rrtype, "--from", &from, "--json"];
        if with_ecs {
            question += &format!(" +subnet={subnet}");
            args.extend(["--ecs", &subnet]);
        }
        if round == 30 {
            // another state; offline knows nothing of it
            let _ = node.cli(&["disable", "www.choose.test/192.0.2.3"]).expect(0);
        }
        let reply = node.dig(&question);
        let online = node.cli(&args).json();
        same(&online, &reply, &format!("seed {seed}, online: {question}"));
        if round < 30 {
            let offline = node.cli(&[&args[..], &["-c", "portolan.toml"]].concat()).json();
            same(&offline, &reply, &format!("seed {seed}, offline: {question}"));
        }
    }
}

fn random_prefix(dice: &mut fastrand::Rng) -> String {
    let first = match dice.u8(..4) {
        0 => [10, dice.u8(0..5)],
        1 => [36, dice.u8(96..128)],
        2 => [123, dice.u8(112..128)],
        _ => [dice.u8(1..127), dice.u8(..)],
    };
    let length = dice.u8(8..=32);
    let bits =
        u32::from_be_bytes([first[0], first[1], dice.u8(..), dice.u8(..)]) & (u32::MAX << (32 - length));
    format!("{}/{length}", Ipv4Addr::from(bits))
}

/// The answer section, code, scope and TTL of an explanation and of a response.
fn same(explained: &serde_json::Value, reply: &portolan_tests::dig::Reply, what: &str) {
    let context = || format!("{what}\n{explained:#}\n{}", reply.text);
    assert_eq!(explained["rcode"], *reply.status, "{}", context());
    let mut answer: Vec<_> = explained["answer"]
        .as_array()
        .unwrap()
        .iter()
        .map(|data| data.as_str().unwrap().replace('"', ""))
        .collect();
    answer.sort();
    let mut found: Vec<_> = reply.data().iter().map(|data| data.replace('"', "")).collect();
    found.sort();
    assert_eq!(answer, found, "{}", context());
    if let Some(scope) = reply.scope() {
        assert_eq!(explained["scope"], scope, "{}", context());
    }
    if let Some(record) = reply.answer.last() {
        assert_eq!(explained["ttl"], record.ttl, "{}", context());
    }
}

#[test]
fn tables_are_looked_up() {
    let node = start();
    for more in [&[][..], &["-c", "portolan.toml"]] {
        let args = [&["tables", "lookup", "36.110.1.1", "--json"], more].concat();
        let json = node.cli(&args).expect(0).json();
        let text = json["hits"].to_string();
        assert!(text.contains("chinatelecom") && text.contains("offices"), "{more:?}: {json:#}");
        let said = node.cli(&[&["tables", "lookup", "10.99.0.1"], more].concat());
        assert!(!said.stdout.contains("chinatelecom"), "{}", said.stdout);
    }
}

#[test]
fn the_api_and_the_metrics_speak_http() {
    let node = start();
    let status = node.curl(&["-f"], "/v1/status").expect(0).json();
    assert_eq!(status["node"], "n1");
    let explained = node.curl(&["-f"], "/v1/explain?name=www.choose.test.&from=10.1.0.1").expect(0).json();
    assert_eq!(explained["answer"][0], "192.0.2.3");
    let body = "{\"target\": \"www.choose.test/there\", \"action\": \"disable\", \"author\": \"curl\"}";
    let forced = node
        .curl(&["-f", "-X", "POST", "-H", "Content-Type: application/json", "-d", body], "/v1/force")
        .expect(0)
        .json();
    assert_eq!(forced["members"].as_array().unwrap().len(), 2, "{forced}");
    let openapi = node.curl(&["-f"], "/openapi.json").expect(0).json();
    assert!(openapi["paths"]["/v1/status"].is_object());
    let missing = node.curl(&["-w", "%{http_code}"], "/nothing").expect(0);
    assert!(missing.stdout.ends_with("404"), "{}", missing.stdout);

    for _ in 0..50 {
        let _ = node.data("www.choose.test. A");
    }
    let text = node.curl(&["-f"], "/metrics").expect(0).stdout;
    let sum: f64 = text
        .lines()
        .filter(|line| line.starts_with("portolan_dns_queries_total"))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum();
    assert!(sum >= 50.0, "{text}");
    assert!(text.trim_end().ends_with("# EOF"), "{text}");
    // the listener for metrics serves the same and nothing else
    let config = std::fs::read_to_string(node.path("portolan.toml")).unwrap();
    let listener = config.split("[metrics]\nlisten = \"").nth(1).unwrap().split('"').next().unwrap();
    let fetch = |path: &str| {
        let url = format!("http://{listener}{path}");
        Said::by(Command::new("curl").args(["-sS", "-o", "/dev/null", "-w", "%{http_code}", &url])).stdout
    };
    assert_eq!(fetch("/metrics"), "200");
    assert_eq!(fetch("/v1/status"), "404");
}

#[test]
fn completions_and_schema_are_printed() {
    let setup = setup();
    for shell in ["bash", "zsh", "fish"] {
        let said = setup.cli(&["completions", shell]).expect(0);
        assert!(said.stdout.contains("explain"), "{shell}");
    }
    let schema = setup.cli(&["schema"]).expect(0).json();
    assert!(schema.to_string().contains("failback_delay"));
}

#[test]
fn the_demo_runs_once_and_ends() {
    let Some(namespace) = netns::Namespace::new() else { return };
    let mut command = netns::command(Some(namespace.name()), &portolan());
    let said = Said::by(command.args(["demo", "--once"])).expect(0);
    assert!(said.stdout.contains("dig "), "{}", said.text());
}

/// Without `--once` the demo stays until Ctrl-C, and then ends cleanly with all it has started.
#[test]
fn the_demo_ends_with_ctrl_c() {
    let Some(namespace) = netns::Namespace::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut command = netns::command(Some(namespace.name()), &portolan());
    command.arg("demo").current_dir(folder.path());
    let mut demo = Child::start(command, &folder.path().join("log"));
    wait_until(Duration::from_secs(60), "the demo waits for Ctrl-C", || demo.output().contains("Ctrl-C"));
    demo.signal(libc::SIGINT);
    let exit = demo.wait(SOON);
    assert!(exit.success(), "{exit}");
    let left = Said::by(Command::new("ip").args(["netns", "pids", namespace.name()])).expect(0);
    assert_eq!(left.stdout, "", "processes are left");
}

/// Another node on the same address is an error at its start, not half of the queries.
#[test]
fn an_address_is_not_shared() {
    let node = start();
    let mut command = Command::new(portolan());
    let said = Said::by(command.args(["run", "-c", "portolan.toml"]).current_dir(node.path("."))).expect(1);
    assert!(said.text().contains(&node.dns().to_string()), "the address is named: {}", said.text());
    assert_eq!(node.data("www.choose.test. A -b 127.80.0.1"), ["192.0.2.3"]);
    let _ = node.cli(&["status"]).expect(0);
}

/// Over TCP the API wants its token.
#[test]
fn the_api_over_tcp_wants_a_token() {
    let mut setup = setup();
    let socket = portolan_tests::place::own_socket();
    setup.set("api", socket);
    setup.write("token", "a-long-secret-token\n");
    setup.write("wrong", "another-token\n");
    let both = "listen = [\"./api.sock\", \"@api@\"]\ntoken_file = \"token\"";
    setup.write("portolan.toml", &EXAMPLE.replace("listen = \"./api.sock\"", both));
    let node = setup.start();
    let url = format!("http://{socket}");
    let _ = node.cli(&["status", "--url", &url, "--token-file", "token"]).expect(0);
    let _ = node.cli(&["status", "--url", &url, "--token-file", "wrong"]).expect(1);
    let code = |args: &[&str]| {
        let url = format!("{url}/v1/status");
        Said::by(
            Command::new("curl").args(["-sS", "-o", "/dev/null", "-w", "%{http_code}"]).args(args).arg(url),
        )
        .stdout
    };
    assert_eq!(code(&[]), "401");
    assert_eq!(code(&["-H", "Authorization: Bearer nonsense"]), "401");
    assert_eq!(code(&["-H", "Authorization: Bearer a-long-secret-token"]), "200");
}

/// SIGTERM and SIGINT end the node promptly and cleanly; its socket is gone.
#[test]
fn signals_end_the_node() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let mut node = start();
        assert!(node.path("api.sock").exists());
        node.process().signal(signal);
        let begin = Instant::now();
        let exit = node.process().wait(Duration::from_secs(10));
        assert!(exit.success(), "{exit}");
        assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
        assert!(!node.path("api.sock").exists());
    }
}

/// What could not be written is no success; a reader that has enough is.
#[test]
fn output_that_cannot_be_written() {
    let shell = |script: &str| {
        let mut command = Command::new("bash");
        command.args(["-c", script]).env("PORTOLAN", portolan());
        Said::by(&mut command)
    };
    let said = shell("\"$PORTOLAN\" schema > /dev/full").expect(1);
    assert!(said.stderr.contains("cannot write"), "{}", said.text());
    let said = shell("\"$PORTOLAN\" schema | head -1; echo ${PIPESTATUS[0]}").expect(0);
    assert_eq!(said.stdout, "{\n0\n", "{}", said.text());
}
