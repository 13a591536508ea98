//! Who is a peer and who is not: keys, certificates, names, networks without UDP, configs that differ.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::Write;
use std::net::{SocketAddr, TcpStream, UdpSocket};

use portolan_tests::cluster::PORT;
use portolan_tests::sites::{
    ALL, ASHBURN, BEIJING, FRANKFURT, NODES, SERVICE, WWW, World, keeps_answering, peer, wait_for_peer,
};
use portolan_tests::wait::{SOON, wait_for, wait_until};

/// A peer that leaves the config takes its members with it, at once.
#[test]
fn a_peer_can_leave_the_config() {
    let Some(world) = World::start(SERVICE) else { return };
    world.all_answer(WWW, &ALL);
    let node = world.node("fra1");
    let config = std::fs::read_to_string(node.path("portolan.toml")).unwrap();
    let without: Vec<_> = config.lines().filter(|line| !line.contains("name = \"bj1\"")).collect();
    node.write("portolan.toml", &without.join("\n"));
    let _ = node.cli(&["reload"]).expect(0);
    node.wait_for_data(WWW, &[ASHBURN, FRANKFURT]);
    world.node("bj1").wait_for_data(WWW, &[ASHBURN, BEIJING]);
    assert_eq!(world.node("ash1").data(WWW), ALL);
    node.write("portolan.toml", &config);
    let _ = node.cli(&["reload"]).expect(0);
    world.all_answer(WWW, &ALL);
}

/// A peer whose key is not the pinned one is not heard, and everybody else is.
#[test]
fn a_wrong_pin_is_refused() {
    let Some(mut world) = World::prepare() else { return };
    world.run("bj1", SERVICE);
    world.run("fra1", SERVICE);
    let _ = world.cluster.pki(&["issue", "stranger"]).expect(0);
    let (right, wrong) = (world.cluster.pin("bj1"), world.cluster.pin("stranger"));
    let peers = world.cluster.peers_of("ash1").replace(&right, &wrong);
    let config = world.config("ash1", SERVICE).replace("@peers@", &peers);
    world.cluster.start("ash1", &config);
    for name in ["bj1", "fra1"] {
        world.node(name).wait_for_data(WWW, if name == "bj1" { &[BEIJING, FRANKFURT] } else { &ALL });
    }
    world.node("ash1").wait_for_data(WWW, &[ASHBURN, FRANKFURT]);
    wait_for_peer(world.node("ash1"), "bj1", "refused for its key", |peer| {
        peer["state"] != "up" && peer["last_error"].to_string().contains("pin")
    });
    keeps_answering(world.node("ash1"));
    // both sides dial in vain about once a second; the reason is told once, beside a silence at the start
    let often = |peer: &serde_json::Value| peer["failures"].as_u64() >= Some(8);
    wait_for_peer(world.node("ash1"), "bj1", "dialled often", often);
    let log = std::fs::read_to_string(world.node("ash1").path("node.log")).unwrap();
    let is_told = |line: &&str| line.contains("cannot connect to a peer: ") && line.contains("peer=\"bj1\"");
    assert!((1..=2).contains(&log.lines().filter(is_told).count()), "{log}");
    // repaired by a reload
    world.node("ash1").write("portolan.toml", &config.replace(&wrong, &right));
    let _ = world.node("ash1").cli(&["reload"]).expect(0);
    world.all_answer(WWW, &ALL);
}

/// A certificate that has ended is refused by the others; renewed for the same key it is taken, the pin stays.
#[test]
fn an_expired_certificate_is_refused() {
    let Some(mut world) = World::prepare() else { return };
    world.cluster.expire_certificate("ash1");
    for (node, _) in NODES {
        world.run(node, SERVICE);
    }
    for name in ["bj1", "fra1"] {
        world.node(name).wait_for_data(WWW, &[BEIJING, FRANKFURT]);
        wait_for_peer(world.node(name), "ash1", "refused for its certificate", |peer| {
            peer["state"] != "up" && peer["last_error"].to_string().contains("expired")
        });
    }
    world.node("ash1").wait_for_data(WWW, &[ASHBURN]);
    let _ = world.cluster.pki(&["issue", "ash1", "--renew"]).expect(0);
    world.cluster.hand_out("ash1", &world.node("ash1").path("pki"));
    let _ = world.node("ash1").cli(&["reload"]).expect(0);
    world.all_answer(WWW, &ALL);
}

/// Strangers who connect and say nothing, or anything: peers go on hearing each other.
#[test]
fn strangers_stay_outside() {
    let Some(mut world) = World::start(SERVICE) else { return };
    world.all_answer(WWW, &ALL);
    let seed = fastrand::u64(..);
    eprintln!("seed {seed}");
    let mut dice = fastrand::Rng::with_seed(seed);
    let target = SocketAddr::new(world.cluster.place("fra1").address(1), PORT);
    let silent: Vec<_> = world.network().at("berlin").namespace().inside(|| {
        let udp = UdpSocket::bind("0.0.0.0:0").unwrap();
        let mut octets = [0; 1200];
        for number in 0..2000_usize {
            dice.fill(&mut octets);
            // the first octet of an Initial of QUIC 1, then its version
            octets[..5].copy_from_slice(&[0xc3, 0, 0, 0, 1]);
            let _ = udp.send_to(&octets[..1200 - number % 1190], target);
        }
        let connect = || TcpStream::connect_timeout(&target, SOON);
        let mut streams: Vec<_> = (0..300).filter_map(|_| connect().ok()).collect();
        for stream in streams.iter_mut().step_by(2) {
            dice.fill(&mut octets);
            let _ = stream.write_all(&octets);
        }
        streams
    });
    assert!(silent.len() > 100, "{}", silent.len());
    world.backend("bj1").stop();
    world.all_answer(WWW, &[ASHBURN, FRANKFURT]);
    // a peer that comes back finds its way in between
    world.cluster.node_mut("ash1").restart_after_kill();
    world.all_answer(WWW, &[ASHBURN, FRANKFURT]);
    world.wait_until_all_are_up();
}

/// Where UDP is dropped, TCP carries the session.
#[test]
fn peers_meet_over_tcp_where_udp_is_dropped() {
    let Some(mut world) = World::prepare() else { return };
    world.network().block_udp("beijing", "frankfurt");
    for (node, _) in NODES {
        world.run(node, SERVICE);
    }
    world.wait_until_all_are_up();
    world.all_answer(WWW, &ALL);
    let transport = |node: &str, other: &str| peer(world.node(node), other)["transport"].clone();
    assert_eq!(transport("fra1", "bj1"), "tcp");
    assert_eq!(transport("fra1", "ash1"), "quic");
    world.backend("bj1").stop();
    world.all_answer(WWW, &[ASHBURN, FRANKFURT]);

    // and where it is dropped later, the session moves
    world.network().block_udp("ashburn", "frankfurt");
    world.backend("fra1").stop();
    world.all_answer(WWW, &[ASHBURN]);
    wait_for_peer(world.node("fra1"), "ash1", "reached by TCP", |peer| peer["transport"] == "tcp");
}

/// Configs that answer one client differently are shown, at every node.
#[test]
fn differences_of_configs_are_shown() {
    let Some(mut world) = World::prepare() else { return };
    world.run("bj1", SERVICE);
    world.run("fra1", SERVICE);
    world.run("ash1", &SERVICE.replace("ttl = 5", "ttl = 6"));
    world.wait_until_all_are_up();
    let differs = |peer: &serde_json::Value| peer["differences"].to_string().contains("config");
    for (name, other) in [("bj1", "ash1"), ("fra1", "ash1"), ("ash1", "bj1"), ("ash1", "fra1")] {
        wait_for_peer(world.node(name), other, "of another config", differs);
    }
    wait_for_peer(world.node("bj1"), "fra1", "of the same config", |peer| !differs(peer));
    let status = world.node("bj1").cli(&["status"]).text();
    assert!(status.lines().any(|line| line.contains("ash1") && line.contains("config")), "{status}");
    world.node("ash1").replace("portolan.toml", "ttl = 6", "ttl = 5");
    let _ = world.node("ash1").cli(&["reload"]).expect(0);
    for (name, other) in [("bj1", "ash1"), ("ash1", "fra1")] {
        wait_for_peer(world.node(name), other, "of the same config", |peer| !differs(peer));
    }
}

/// A node that takes another's name, with its key even: the one that started last is heard, nobody stops answering, and
/// when it is gone the other one is heard again.
#[test]
fn two_nodes_of_one_name() {
    let Some(mut world) = World::prepare() else { return };
    // the first one is taken for a replay for ten times that
    let config =
        |world: &World, node: &str| world.config(node, SERVICE).replace("hold = \"2s\"", "hold = \"1s\"");
    for (node, _) in NODES {
        let config = config(&world, node);
        world.cluster.start(node, &config);
    }
    world.all_answer(WWW, &ALL);
    // at an address of another site, with all of bj1's keys
    let mut setup = world.cluster.setup("bj1", "");
    let place = world.network().at("ashburn");
    let address = place.own(2);
    setup.listen((address, 53).into()).within(place.namespace()).set("listen", format!("{address}:7353"));
    setup.write("portolan.toml", &config(&world, "bj1"));
    let double = setup.start();
    wait_until(SOON, "the name's second node is seen", || {
        ["fra1", "ash1"].iter().all(|name| {
            let log = std::fs::read_to_string(world.node(name).path("node.log")).unwrap();
            log.contains("two nodes named")
        })
    });
    world.cluster.nodes().for_each(|(_, node)| keeps_answering(node));
    assert_eq!(world.node("fra1").data(WWW), ALL, "the second one says the same of Beijing");
    drop(double);
    world.backend("ash1").stop();
    world.all_answer(WWW, &[BEIJING, FRANKFURT]);
}

/// `peers dump` reads what a node has written of its own sessions.
#[test]
fn traces_can_be_read() {
    let Some(mut world) = World::prepare() else { return };
    for (node, _) in NODES {
        let config =
            world.config(node, SERVICE).replace("hold = \"2s\"", "hold = \"2s\"\ntrace = \"frames.trace\"");
        world.cluster.start(node, &config);
    }
    world.all_answer(WWW, &ALL);
    let node = world.node("fra1");
    wait_for(SOON, "a trace with claims", || {
        let said = node.cli(&["peers", "dump", "frames.trace"]);
        let text = said.text();
        let is_whole = said.code == 0 && ["HELLO", "CLAIMS", BEIJING].iter().all(|word| text.contains(word));
        if is_whole { Ok(()) } else { Err(text) }
    });
}
