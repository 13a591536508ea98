//! Three nodes that know each other: what one learns, all answer; and what is lost when peers and links fail.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use portolan_tests::netns;
use portolan_tests::node::Node;
use portolan_tests::sites::{
    ALL, ASHBURN, BEIJING, FRANKFURT, NODES, SERVICE, WWW, World, keeps_answering, peer, wait_for_peer,
};
use portolan_tests::wait::{SOON, wait_for, wait_until};
use portolan_tests::wire::{A, Message, Response, udp_within};

#[test]
fn virtual_servers_are_learned() {
    let Some(world) = World::start(SERVICE) else { return };
    world.all_answer(WWW, &ALL);
    // and by a client, of each
    for (name, _) in NODES {
        let dig = world.network().at("berlin").dig(world.node(name).dns());
        assert_eq!(dig.ask(WWW).data(), ALL, "{name}");
    }
    let members = world.node("fra1").cli(&["services", "www.choose.test", "--json"]).json();
    let members = members[0]["members"].as_array().unwrap().clone();
    let sites: Vec<_> = members.iter().map(|member| member["site"].as_str().unwrap()).collect();
    assert_eq!(sites, ["ashburn", "beijing", "frankfurt"], "{members:?}");
    assert!(members.iter().all(|member| member["state"] == "up"), "{members:?}");
}

/// Time of day of a line of the log that holds all of these; the newest.
fn logged_at(node: &Node, words: &[&str]) -> Duration {
    let log = std::fs::read_to_string(node.path("node.log")).unwrap();
    let line = log.lines().rfind(|line| words.iter().all(|word| line.contains(word)));
    let line = line.unwrap_or_else(|| panic!("no line with {words:?} in\n{log}"));
    // 2026-12-01T12:57:55.986111Z
    let number =
        |range: std::ops::Range<usize>| line.get(range).and_then(|text| text.parse::<u64>().ok()).unwrap();
    let seconds = number(11..13) * 3600 + number(14..16) * 60 + number(17..19);
    Duration::from_secs(seconds) + Duration::from_micros(number(20..26))
}

/// From one time of day to a later one.
fn between(from: Duration, to: Duration) -> Duration {
    const DAY: Duration = Duration::from_secs(86_400);
    if to >= from { to - from } else { to + DAY - from }
}

/// Asks a node from beside it until the answer no longer has the address; the time of day of that.
fn gone_at(node: &Node, address: &str) -> Option<Duration> {
    let question = Message::query("www.choose.test.", A);
    let address = address.parse().unwrap();
    let (dns, begin) = (node.dns(), Instant::now());
    netns::inside(node.namespace(), || {
        while begin.elapsed() < SOON {
            let Some(octets) = udp_within(dns, &question.bytes(), Duration::from_secs(2)) else { continue };
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            if !Response::parse(&octets).unwrap().addresses.contains(&address) {
                return Some(
                    Duration::from_secs(now.as_secs() % 86_400)
                        + Duration::from_nanos(now.subsec_nanos().into()),
                );
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        None
    })
}

/// A server's failure changes the answers of all sites within a second of its detection.
#[test]
fn failures_travel_fast() {
    let Some(mut world) = World::start(SERVICE) else { return };
    world.all_answer(WWW, &ALL);
    for turn in 0..3 {
        let World { cluster, backends } = &mut world;
        let gone: Vec<_> = std::thread::scope(|scope| {
            let watchers: Vec<_> = cluster
                .nodes()
                .map(|(name, node)| (name.to_owned(), scope.spawn(|| gone_at(node, FRANKFURT))))
                .collect();
            backends[1].stop();
            watchers.into_iter().map(|(name, watcher)| (name, watcher.join().unwrap())).collect()
        });
        let detected = logged_at(world.node("fra1"), &["state changed", FRANKFURT, "down"]);
        for (name, gone) in gone {
            let gone = gone.unwrap_or_else(|| panic!("{name} still answers {FRANKFURT}"));
            let took = between(detected, gone);
            eprintln!("turn {turn}: {name} without it {:.1} ms after detection", took.as_secs_f64() * 1e3);
            // half a day means: seen before it was logged
            let took = if took > Duration::from_secs(43_200) { Duration::ZERO } else { took };
            assert!(took < Duration::from_secs(1), "{name}: {took:?}");
        }
        world.backend("fra1").resume();
        world.all_answer(WWW, &ALL);
    }
}

/// A site without any link: its claims are stale, then gone; after it heals all agree again.
#[test]
fn a_site_that_is_cut_off_leaves_and_returns() {
    // long enough to look around in
    const LONG_HOLD: Duration = Duration::from_secs(6);
    let Some(mut world) = World::prepare() else { return };
    for (node, _) in NODES {
        let config = world.config(node, SERVICE).replace("hold = \"2s\"", "hold = \"6s\"");
        world.cluster.start(node, &config);
    }
    world.all_answer(WWW, &ALL);
    let (beijing, frankfurt) = (world.node("bj1"), world.node("fra1"));
    let begin = Instant::now();
    world.network().isolate("beijing");
    // stale before it is gone, and answered until then
    wait_for_peer(frankfurt, "bj1", "stale", |peer| peer["stale"] == true);
    let explained = frankfurt.cli(&["explain", "www.choose.test", "--from", "46.2.0.1"]).text();
    let status = frankfurt.cli(&["status"]).text();
    let data = frankfurt.data(WWW);
    assert_eq!(peer(frankfurt, "bj1")["expired"], false, "seen after {:?}", begin.elapsed());
    assert_eq!(data, ALL);
    assert!(explained.contains("bj1") && explained.contains("stale"), "{explained}");
    assert!(status.lines().any(|line| line.contains("bj1") && line.contains("stale")), "{status}");
    for name in ["fra1", "ash1"] {
        world.node(name).wait_for_data(WWW, &[ASHBURN, FRANKFURT]);
    }
    let took = begin.elapsed();
    eprintln!("gone everywhere {:.2} s after the cut", took.as_secs_f64());
    // since it was last heard: a keepalive and a way before the cut at most
    assert!(took >= LONG_HOLD / 2, "gone after {took:?}");
    beijing.wait_for_data(WWW, &[BEIJING]);
    for (_, node) in world.cluster.nodes() {
        keeps_answering(node);
    }

    let begin = Instant::now();
    world.network().heal_all();
    world.all_answer(WWW, &ALL);
    let took = begin.elapsed();
    eprintln!("agreed again {:.2} s after it healed", took.as_secs_f64());
    assert!(took < LONG_HOLD, "{took:?}");
    world.wait_until_all_are_up();
    wait_for_peer(frankfurt, "bj1", "fresh", |peer| peer["stale"] == false);
}

/// Both halves go on, each with what it knows; a failure while they are parted is known to all after.
#[test]
fn both_halves_of_a_partition_answer() {
    let Some(mut world) = World::start(SERVICE) else { return };
    world.all_answer(WWW, &ALL);
    world.network().partition(&[&["beijing"], &["frankfurt", "ashburn"]]);
    world.node("bj1").wait_for_data(WWW, &[BEIJING]);
    for name in ["fra1", "ash1"] {
        world.node(name).wait_for_data(WWW, &[ASHBURN, FRANKFURT]);
        keeps_answering(world.node(name));
    }
    world.backend("ash1").stop();
    world.node("fra1").wait_for_data(WWW, &[FRANKFURT]);
    assert_eq!(world.node("bj1").data(WWW), [BEIJING]);
    world.network().heal_all();
    world.all_answer(WWW, &[BEIJING, FRANKFURT]);
    world.backend("ash1").resume();
    world.all_answer(WWW, &ALL);
}

/// Only one of three links: those two nodes lose each other, the third hears both.
#[test]
fn one_link_is_not_the_mesh() {
    let Some(world) = World::start(SERVICE) else { return };
    world.all_answer(WWW, &ALL);
    world.network().cut("beijing", "frankfurt");
    world.node("bj1").wait_for_data(WWW, &[ASHBURN, BEIJING]);
    world.node("fra1").wait_for_data(WWW, &[ASHBURN, FRANKFURT]);
    assert_eq!(world.node("ash1").data(WWW), ALL);
    world.network().heal_all();
    world.all_answer(WWW, &ALL);
}

/// Killed without a word, and started again.
#[test]
fn a_node_that_is_killed_comes_back() {
    let Some(mut world) = World::start(SERVICE) else { return };
    world.all_answer(WWW, &ALL);
    world.cluster.node_mut("bj1").process().kill();
    for name in ["fra1", "ash1"] {
        world.node(name).wait_for_data(WWW, &[ASHBURN, FRANKFURT]);
    }
    let took = world.cluster.node_mut("bj1").restart_after_kill();
    eprintln!("answers {:.2} s after its start", took.as_secs_f64());
    world.all_answer(WWW, &ALL);

    // a service manager's restart: the others are told, and it has everything again at once
    world.cluster.node_mut("bj1").restart();
    world.all_answer(WWW, &ALL);
}

/// Stopped in its tracks, as a machine that swaps or a paused guest is: it leaves after `hold` and is back when it goes on.
#[test]
fn a_node_that_hangs_leaves_and_returns() {
    let Some(mut world) = World::start(SERVICE) else { return };
    world.all_answer(WWW, &ALL);
    world.cluster.node_mut("bj1").process().signal(libc::SIGSTOP);
    for name in ["fra1", "ash1"] {
        world.node(name).wait_for_data(WWW, &[ASHBURN, FRANKFURT]);
    }
    world.backend("ash1").stop();
    world.node("fra1").wait_for_data(WWW, &[FRANKFURT]);
    world.cluster.node_mut("bj1").process().signal(libc::SIGCONT);
    world.all_answer(WWW, &[BEIJING, FRANKFURT]);
}

/// What it had saved of its peers is no longer readable: it starts, and hears everything anew.
#[test]
fn a_broken_state_file_keeps_no_node_down() {
    let Some(mut world) = World::start(SERVICE) else { return };
    world.all_answer(WWW, &ALL);
    for text in ["", "{", "{\"servers\": 7}", "\u{0}\u{0}"] {
        world.cluster.node_mut("fra1").process().kill();
        for entry in std::fs::read_dir(world.node("fra1").path("state")).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "json") {
                std::fs::write(path, text).unwrap();
            }
        }
        world.cluster.node_mut("fra1").restart_after_kill();
        world.all_answer(WWW, &ALL);
    }
}

/// Cases P12 and T1: what nobody has told yet is no reason to say that there is nothing; what was told before a crash is
/// remembered while it may still hold.
#[test]
fn a_node_that_starts_waits_for_its_peers() {
    let Some(mut world) = World::prepare() else { return };
    // it serves nothing of its own
    let config = world.config("fra1", SERVICE).replace("hold = \"2s\"", "hold = \"4s\"");
    let (head, rest) = config.split_once("[[virtual_server]]").unwrap();
    let (_, services) = rest.split_once("[[service]]").unwrap();
    let config = format!("{head}[[service]]{services}fallback = \"nodata\"\n");
    world.network().isolate("frankfurt");
    world.cluster.start("fra1", &config);
    assert_eq!(world.node("fra1").dig(WWW).status, "SERVFAIL");
    wait_for(SOON, "an answer without peers", || {
        let reply = world.node("fra1").dig(WWW);
        if reply.status == "NOERROR" && reply.answer.is_empty() { Ok(()) } else { Err(reply.text) }
    });
    world.run("bj1", SERVICE);
    world.run("ash1", SERVICE);
    world.network().heal_all();
    let others = [ASHBURN, BEIJING];
    world.node("fra1").wait_for_data(WWW, &others);
    wait_until(SOON, "what was heard is saved", || {
        std::fs::read_to_string(world.node("fra1").path("state/peers.json"))
            .is_ok_and(|text| others.iter().all(|address| text.contains(address)))
    });
    world.network().isolate("frankfurt");
    world.cluster.node_mut("fra1").restart_after_kill();
    assert_eq!(world.node("fra1").data(WWW), others);
}

/// Packets late, out of time and lost: sessions stand, news arrive.
#[test]
fn bad_links_lose_no_peer() {
    let Some(mut world) = World::prepare() else { return };
    for (number, (_, one)) in NODES.iter().enumerate() {
        for (_, other) in &NODES[..number] {
            for (from, to) in [(one, other), (other, one)] {
                world.network().change(from, to, |path| {
                    path.loss_permille = 50;
                    path.jitter = Duration::from_millis(20);
                });
            }
        }
    }
    for (node, _) in NODES {
        world.run(node, SERVICE);
    }
    world.all_answer(WWW, &ALL);
    for _ in 0..3 {
        world.backend("bj1").stop();
        world.all_answer(WWW, &[ASHBURN, FRANKFURT]);
        world.backend("bj1").resume();
        world.all_answer(WWW, &ALL);
    }
    let counts = world.network().counts();
    assert!(counts.lost > 0, "{counts:?}");
    for (name, node) in world.cluster.nodes() {
        let log = std::fs::read_to_string(node.path("node.log")).unwrap();
        assert!(!log.contains("expired"), "{name}:\n{log}");
    }
}

/// What a service wants when a peer is lost. The peer dies, its server lives on at first.
#[test]
fn on_peer_loss() {
    let services: String = ["expire", "keep", "direct-check"]
        .iter()
        .map(|word| {
            format!(
                "[[virtual_server]]\nname = \"{word}\"\nservice = \"{word}.choose.test.\"\naddress = \"@vip@\"\n\
                 ports = 80\nmode = \"external\"\ncheck.http = {{ interval = \"50ms\", rise = 1, fall = 1 }}\n\
                 [[service]]\nname = \"{word}.choose.test.\"\nchoose = [\"all\"]\nmembers = \"peers\"\n\
                 on_peer_loss = \"{word}\"\nfallback = \"nodata\"\n\
                 check.http = {{ port = 80, interval = \"50ms\", timeout = \"2s\", rise = 1, fall = 1 }}\n"
            )
        })
        .collect();
    let Some(mut world) = World::prepare() else { return };
    for (node, _) in NODES {
        let vip = world.cluster.place(node).address(10).to_string();
        world.run(node, &format!("{}{SERVICE}", services.replace("@vip@", &vip)));
    }
    let ask = |world: &World, word: &str, expected: &[&str]| {
        world.node("fra1").wait_for_data(&format!("{word}.choose.test. A"), expected);
    };
    let without_beijing = [ASHBURN, FRANKFURT];
    for word in ["expire", "keep", "direct-check"] {
        ask(&world, word, &ALL);
    }
    let asked = world.backend("bj1").connections();
    world.cluster.stop("bj1");
    ask(&world, "expire", &without_beijing);
    // checked by those that need it from now on
    wait_until(SOON, "direct checks", || world.backend("bj1").connections() > asked + 20);
    for word in ["keep", "direct-check"] {
        assert_eq!(world.node("fra1").data(&format!("{word}.choose.test. A")), ALL, "{word}");
    }
    world.backend("bj1").stop();
    ask(&world, "direct-check", &without_beijing);
    ask(&world, "keep", &ALL);
    world.backend("bj1").resume();
    ask(&world, "direct-check", &ALL);
}

/// What an operator says at one node holds at all (T7).
#[test]
fn words_of_operators_travel() {
    let Some(world) = World::start(SERVICE) else { return };
    world.all_answer(WWW, &ALL);
    let _ = world.node("fra1").cli(&["drain", &format!("www.choose.test/{BEIJING}")]).expect(0);
    world.all_answer(WWW, &[ASHBURN, FRANKFURT]);
    let _ = world.node("ash1").cli(&["enable", "www.choose.test/*"]).expect(0);
    world.all_answer(WWW, &ALL);
}
