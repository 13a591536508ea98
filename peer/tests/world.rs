//! Nodes in a network that cuts, resets, loses and restarts them, from seeds. Once it heals, all agree with each
//! author's own table, and nothing of an older start is left.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

mod common;

use std::collections::BTreeMap;

use common::{cell, entry, server, server_key};
use fastrand::Rng;
use portolan_peer::memory::{Clock, Network, NodeId, Path};
use portolan_peer::{
    Act, Claim, ConnId, Event, Key, LinkState, Mesh, PeerSettings, PeerState, ServerState, Settings,
};

const HOLD_MS: u64 = 3_000;

fn name(node: usize) -> String {
    format!("node{node:02}")
}

fn settings(node: usize, of: usize, epoch: u64, hold_ms: u64, versions: (u16, u16)) -> Settings {
    let others = (0..of).filter(|other| *other != node);
    let peers =
        others.map(|other| PeerSettings { name: name(other), site: format!("site{other}") }).collect();
    Settings { peers, versions, ..Settings::new(&name(node), &format!("site{node}"), epoch, hold_ms) }
}

/// What a node says, without what changes with age.
fn shape(claim: &Claim) -> String {
    match claim {
        Claim::Proximity(cell) => format!("{:?} {}", cell.prefix, cell.rtt_us),
        Claim::Persistence(entry) => format!("{} {}", entry.key, entry.candidate),
        Claim::Word(word) => format!("{} {:?} {} {}", word.target, word.act, word.origin, word.revision),
        Claim::VirtualServer(_) | Claim::Link(_) | Claim::Digest(_) => format!("{claim:?}"),
    }
}

fn said(mesh: &Mesh, version: u16) -> BTreeMap<Key, String> {
    let is_known = |claim: &&Claim| portolan_peer::codec::since(&claim.key()) <= version;
    mesh.own_claims().filter(is_known).map(|claim| (claim.key(), shape(claim))).collect()
}

fn heard(mesh: &Mesh, author: &str) -> BTreeMap<Key, String> {
    mesh.claims_of(author).map(|held| (held.claim.key(), shape(held.claim))).collect()
}

struct World {
    network: Network,
    nodes: Vec<NodeId>,
    versions: Vec<(u16, u16)>,
    epochs: Vec<u64>,
    rng: Rng,
    hold_ms: u64,
}

impl World {
    fn new(seed: u64, hold_ms: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let path =
            Path { latency_ms: rng.u64(1..120), jitter_ms: 5, loss_permille: rng.u16(0..50), is_cut: false };
        Self::with_path(seed, hold_ms, path, rng)
    }

    fn with_path(seed: u64, hold_ms: u64, path: Path, mut rng: Rng) -> Self {
        let count = rng.usize(3..=20);
        let mut network = Network::new(seed, path);
        let versions: Vec<_> = (0..count).map(|_| if rng.u8(0..5) == 0 { (1, 1) } else { (1, 2) }).collect();
        let epochs: Vec<_> = (0..count).map(|_| rng.u64(..)).collect();
        let nodes = (0..count).map(|node| {
            // clocks that show anything, and run up to 20 % fast or slow
            let clock = Clock { offset_ms: rng.u64(0..1 << 40), drift_ppm: rng.i32(-200_000..=200_000) };
            network.add(settings(node, count, epochs[node], hold_ms, versions[node]), clock)
        });
        let nodes = nodes.collect();
        Self { network, nodes, versions, epochs, rng, hold_ms }
    }

    fn random(&mut self) -> usize {
        self.rng.usize(0..self.nodes.len())
    }

    fn pair(&mut self) -> (NodeId, NodeId) {
        let first = self.random();
        let second = (first + self.rng.usize(1..self.nodes.len())) % self.nodes.len();
        (self.nodes[first], self.nodes[second])
    }

    fn change(&mut self) {
        let node = self.random();
        let number = self.rng.u8(0..30);
        let state = [ServerState::Up, ServerState::Down, ServerState::Drain][self.rng.usize(0..3)];
        let rtt_us = self.rng.u32(1..100) * 1_000;
        let lifetime_ms = self.rng.bool().then_some(600_000);
        let what = self.rng.u8(0..10);
        let link = Claim::Link(LinkState {
            site: format!("site{node}"),
            name: format!("link{}", number % 3),
            is_up: self.rng.bool(),
            in_bps: self.rng.u64(0..1 << 40),
            out_bps: 5,
            capacity_in_bps: 1 << 40,
            capacity_out_bps: 0,
        });
        self.network.with(self.nodes[node], |mesh, now_ms| match what {
            0..4 => drop(mesh.publish(now_ms, server(&number.to_string(), state), lifetime_ms)),
            4 => drop(mesh.publish(now_ms, link, None)),
            5 => drop(mesh.publish(now_ms, cell(number, rtt_us), None)),
            6 => drop(mesh.publish(now_ms, entry(number.into(), 3_600), Some(3_600_000))),
            7 => mesh.withdraw(now_ms, &server_key(&number.to_string())),
            8 => mesh.withdraw(now_ms, &Key::Persistence(number.into())),
            _ => {
                let act = if number.is_multiple_of(2) { Act::Drain } else { Act::Lift };
                mesh.speak(now_ms, &format!("target{}", number % 3), act, "ops", "why", 3_600);
            }
        });
    }

    fn harm(&mut self) {
        let (one, other) = self.pair();
        match self.rng.u8(0..6) {
            0 => self.network.set_cut(one, other, true),
            1 => self.network.set_cut(one, other, false),
            2 => self.network.reset(one, other),
            3 => self.partition(),
            4 => drop(self.network.connect(one, other)),
            _ => {
                self.network.kill(one);
                let wait_ms = self.rng.u64(0..2 * self.hold_ms);
                self.run(wait_ms);
                self.start(one.0);
            }
        }
    }

    fn start(&mut self, node: usize) {
        self.epochs[node] = self.rng.u64(..);
        let again = settings(node, self.nodes.len(), self.epochs[node], self.hold_ms, self.versions[node]);
        self.network.start(self.nodes[node], again);
    }

    /// Cuts the nodes into two halves.
    fn partition(&mut self) {
        let side: Vec<_> = self.nodes.iter().map(|_| self.rng.bool()).collect();
        for one in 0..self.nodes.len() {
            for other in 0..one {
                self.network.set_cut(self.nodes[one], self.nodes[other], side[one] != side[other]);
            }
        }
    }

    fn heal(&mut self) {
        for one in 0..self.nodes.len() {
            for other in 0..one {
                self.network.set_cut(self.nodes[one], self.nodes[other], false);
            }
        }
    }

    fn run(&mut self, ms: u64) {
        let until_ms = self.network.now_ms() + ms;
        self.network.run_until(until_ms);
        for node in &self.nodes {
            if let Some(mesh) = self.network.mesh(*node) {
                mesh.check_invariants();
            }
        }
    }

    /// Where a node's table differs from what an author says.
    fn disagreement(network: &Network, nodes: &[NodeId], versions: &[(u16, u16)]) -> Option<String> {
        for author in nodes {
            for reader in nodes.iter().filter(|reader| *reader != author) {
                let [said_by, read_by] = [author, reader].map(|node| network.mesh(*node).unwrap());
                let version = versions[author.0].1.min(versions[reader.0].1);
                let (said, heard) = (said(said_by, version), heard(read_by, &name(author.0)));
                if said != heard {
                    return Some(format!("{reader:?} of {author:?}\n says {said:?}\nheard {heard:?}"));
                }
            }
        }
        None
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// `PORTOLAN_WORLDS=1000 cargo test -p portolan-peer --test world` tries more; `PORTOLAN_SEED` begins elsewhere.
#[test]
fn all_agree_once_the_network_heals() {
    let first = number("PORTOLAN_SEED", 1);
    for seed in first..first + number("PORTOLAN_WORLDS", 12) {
        println!("seed {seed}");
        let mut world = World::new(seed, HOLD_MS);
        for _ in 0..world.rng.usize(20..60) {
            for _ in 0..world.rng.usize(0..20) {
                world.change();
            }
            if world.rng.bool() {
                world.harm();
            }
            let pause_ms = world.rng.u64(0..1_500);
            world.run(pause_ms);
        }
        world.heal();
        // half-open connections may last for a hold time, and then a new one is made
        let healed_ms = world.network.now_ms();
        let World { network, nodes, versions, .. } = &mut world;
        let limit_ms = healed_ms + 2 * HOLD_MS + 3_000;
        let found = loop {
            let until_ms = network.now_ms() + 250;
            network.run_until(until_ms);
            let found = World::disagreement(network, nodes, versions);
            if found.is_none() || until_ms > limit_ms {
                break found;
            }
        };
        assert_eq!(found, None, "seed {seed}");
        world.run(HOLD_MS);
        check_epochs(&world, seed);
        check_words(&world, seed);
    }
}

/// All sessions are with the starts that run, and nothing is stale.
fn check_epochs(world: &World, seed: u64) {
    for node in &world.nodes {
        let mesh = world.network.mesh(*node).unwrap();
        for (peer, status) in mesh.peers().into_iter().map(|status| (status.name.clone(), status)) {
            let author: usize = peer.trim_start_matches("node").parse().unwrap();
            assert_eq!(status.epoch, Some(world.epochs[author]), "seed {seed}: {node:?} of {peer}");
            assert_eq!(status.state, PeerState::Up, "seed {seed}: {node:?} of {peer}");
            assert!(!status.is_stale, "seed {seed}: {node:?} of {peer}");
            assert_eq!(status.counters.floods, 0, "seed {seed}: {node:?} of {peer}");
            let skipped = status.counters.skipped;
            assert_eq!(skipped, Default::default(), "seed {seed}: {node:?} of {peer}");
        }
        assert!(mesh.claims().all(|held| !held.is_stale), "seed {seed}: {node:?}");
        assert!(mesh.is_synced(), "seed {seed}: {node:?}");
    }
}

/// Nodes that know of operators' words hold the same ones.
fn check_words(world: &World, seed: u64) {
    let words = |node: &NodeId| -> Vec<_> {
        let mesh = world.network.mesh(*node).unwrap();
        mesh.words().map(|word| shape(&Claim::Word(word.clone()))).collect()
    };
    let mut knowing = world.nodes.iter().filter(|node| world.versions[node.0].1 >= 2);
    let Some(first) = knowing.next() else { return };
    for node in knowing {
        assert_eq!(words(first), words(node), "seed {seed}: {first:?} and {node:?}");
    }
}

fn pair(versions: [(u16, u16); 2]) -> (Network, [NodeId; 2]) {
    let mut network = Network::new(1, Path::default());
    let nodes = [0, 1].map(|node| {
        network.add(settings(node, 2, 10 + node as u64, HOLD_MS, versions[node]), Clock::default())
    });
    network.run_until(1_000);
    (network, nodes)
}

/// Versions N and N-1 talk in either order (case P07).
#[test]
fn versions_interoperate_both_ways() {
    for (versions, spoken) in [
        ([(1, 2), (1, 2)], 2),
        ([(1, 2), (1, 1)], 1),
        ([(1, 1), (1, 2)], 1),
        ([(1, 1), (1, 1)], 1),
        ([(2, 2), (1, 2)], 2),
    ] {
        let (mut network, nodes) = pair(versions);
        for node in nodes {
            network.with(node, |mesh, now_ms| {
                for claim in [server("x", ServerState::Up), cell(1, 9_000), entry(5, 600)] {
                    mesh.publish(now_ms, claim, None);
                }
                mesh.speak(now_ms, "target", Act::Drain, "ops", "why", 600);
            });
        }
        network.run_until(2_000);
        for (node, other) in [(nodes[0], 1), (nodes[1], 0)] {
            let mesh = network.mesh(node).unwrap();
            let status = &mesh.peers()[0];
            assert_eq!((status.version, status.state), (Some(spoken), PeerState::Up), "{versions:?}");
            assert_eq!(mesh.claims_of(&name(other)).count(), if spoken == 2 { 4 } else { 2 }, "{versions:?}");
            assert_eq!(status.counters.skipped, Default::default(), "{versions:?}");
            assert_eq!(status.rtt_ms.map(|rtt_ms| (38..=48).contains(&rtt_ms)), Some(true), "{status:?}");
            let can_ask = network.with(node, |mesh, now_ms| {
                let ask = portolan_peer::Ask {
                    nonce: 1,
                    prefix: ("198.51.100.0".parse().unwrap(), 24),
                    address: "198.51.100.7".parse().unwrap(),
                    deadline_ms: 500,
                };
                mesh.ask(now_ms, &name(other), ask).is_ok()
            });
            assert_eq!(can_ask, Some(spoken == 2), "{versions:?}");
        }
    }
    let (network, nodes) = pair([(1, 1), (2, 2)]);
    assert_eq!(network.mesh(nodes[0]).unwrap().peers()[0].state, PeerState::Down, "nothing in common");
}

/// Both halves of a partition keep what they know, mark the rest, and agree again within one interval of claims
/// after the heal.
#[test]
fn halves_converge_after_a_partition() {
    // packets that are lost and sent again come on top of this
    let path = Path { latency_ms: 100, jitter_ms: 10, loss_permille: 0, is_cut: false };
    let mut world = World::with_path(3, HOLD_MS, path, Rng::with_seed(3));
    for _ in 0..200 {
        world.change();
    }
    world.run(2_000);
    world.partition();
    world.run(2_400);
    let stale = |world: &World| -> usize {
        let meshes = world.nodes.iter().map(|node| world.network.mesh(*node).unwrap());
        meshes.map(|mesh| mesh.claims().filter(|held| held.is_stale).count()).sum()
    };
    assert!(stale(&world) > 0, "marked");
    for _ in 0..200 {
        world.change();
    }
    // past the hold time both ends have given the cut connections up
    world.run(3 * HOLD_MS);
    assert_eq!(stale(&world), 0, "gone");
    world.heal();
    let healed_ms = world.network.now_ms();
    let World { network, nodes, versions, .. } = &mut world;
    let agreed_ms = network
        .run_until_so(healed_ms + 5_000, |network| World::disagreement(network, nodes, versions).is_none())
        .unwrap();
    println!("agreed {} ms after the heal", agreed_ms - healed_ms);
    assert!(agreed_ms - healed_ms <= HOLD_MS / 3, "{} ms", agreed_ms - healed_ms);
}

/// A change reaches everybody in one way's time, for nothing polls.
#[test]
fn a_change_takes_one_way() {
    let mut network = Network::new(9, Path { latency_ms: 80, jitter_ms: 0, loss_permille: 0, is_cut: false });
    let nodes: Vec<_> = (0..5)
        .map(|node| network.add(settings(node, 5, node as u64 + 1, HOLD_MS, (1, 2)), Clock::default()))
        .collect();
    network.run_until(2_000);
    network.with(nodes[2], |mesh, now_ms| mesh.publish(now_ms, server("x", ServerState::Down), None));
    network.run_until(2_079);
    assert!(network.mesh(nodes[0]).unwrap().claim("node02", &server_key("x")).is_none());
    network.run_until(2_080);
    for node in nodes.iter().filter(|node| **node != nodes[2]) {
        assert!(network.mesh(*node).unwrap().claim("node02", &server_key("x")).is_some(), "{node:?}");
    }
}

/// Both ends connect at the same time, or one comes back by another way: one connection is left, the same at both.
#[test]
fn of_two_connections_one_is_left() {
    for order in [[0, 1], [1, 0]] {
        let (mut network, nodes) = pair([(1, 2); 2]);
        network.connect(nodes[order[0]], nodes[order[1]]);
        network.connect(nodes[order[1]], nodes[order[0]]);
        network.run_until(3_000);
        let left = nodes.map(|node| network.mesh(node).unwrap().connections().collect::<Vec<_>>());
        assert_eq!(left[0], left[1]);
        assert_eq!(left[0].len(), 1);
        for node in nodes {
            let events = network.take_events(node);
            let downs = events.iter().filter(|event| matches!(event, Event::PeerDown { .. })).count();
            assert_eq!(downs, 0, "the peer was never lost");
        }
    }
}

/// An operator's word outlives the node where it was spoken (case H17), and two words spoken on both sides of a
/// partition end alike everywhere, with the conflict told (case P08).
#[test]
fn words_outlive_their_node_and_conflicts_are_told() {
    let mut network = Network::new(4, Path::default());
    let nodes: Vec<_> = (0..3)
        .map(|node| network.add(settings(node, 3, node as u64 + 1, HOLD_MS, (1, 2)), Clock::default()))
        .collect();
    network.run_until(1_000);
    network
        .with(nodes[0], |mesh, now_ms| mesh.speak(now_ms, "site0/www", Act::Disable, "ann", "fire", 3_600));
    network.run_until(1_500);
    network.kill(nodes[0]);
    network.run_until(20_000);
    for node in &nodes[1..] {
        let word = network.mesh(*node).unwrap().word("site0/www").unwrap().clone();
        assert_eq!((word.act, word.author.as_str(), word.origin.as_str()), (Act::Disable, "ann", "node00"));
    }
    network.start(nodes[0], settings(0, 3, 77, HOLD_MS, (1, 2)));
    network.run_until(22_000);
    assert!(network.mesh(nodes[0]).unwrap().word("site0/www").is_some(), "it hears its own word again");
    network.set_cut(nodes[0], nodes[1], true);
    network.set_cut(nodes[0], nodes[2], true);
    network.run_until(30_000);
    network
        .with(nodes[0], |mesh, now_ms| mesh.speak(now_ms, "site0/www", Act::Resume, "ann", "fixed", 3_600));
    network.with(nodes[2], |mesh, now_ms| {
        mesh.speak(now_ms, "site0/www", Act::ForceDown, "bob", "flood", 3_600)
    });
    network.run_until(31_000);
    for node in &nodes {
        network.take_events(*node);
    }
    network.set_cut(nodes[0], nodes[1], false);
    network.set_cut(nodes[0], nodes[2], false);
    network.run_until(34_000);
    for node in &nodes {
        let word = network.mesh(*node).unwrap().word("site0/www").unwrap().clone();
        assert_eq!((word.act, word.origin.as_str()), (Act::ForceDown, "node02"), "{node:?}");
        let events = network.take_events(*node);
        let conflicts = events.iter().filter(|event| matches!(event, Event::Conflict { .. })).count();
        // where a word was dropped it is told; the others need not have heard it at all
        assert!(conflicts == 1 || conflicts == 0 && *node != nodes[0], "{node:?}: {events:?}");
    }
    network.with(nodes[1], |mesh, now_ms| mesh.speak(now_ms, "site0/www", Act::Lift, "bob", "over", 1));
    network.run_until(36_000);
    assert!(nodes.iter().all(|node| network.mesh(*node).unwrap().word("site0/www").is_none()));
}

/// A stop says so: the peers know at once that what they hold is stale.
#[test]
fn a_stopping_node_says_so() {
    let (mut network, nodes) = pair([(1, 2); 2]);
    network.with(nodes[0], |mesh, now_ms| mesh.publish(now_ms, server("x", ServerState::Up), None));
    network.run_until(1_200);
    network.set_dialing(false);
    network.take_events(nodes[1]);
    network.with(nodes[0], Mesh::stop);
    network.run_until(1_300);
    let events = network.take_events(nodes[1]);
    assert!(events.contains(&Event::Stale { author: name(0) }), "{events:?}");
    assert_eq!(
        network.mesh(nodes[1]).unwrap().peers()[0].last_error.as_deref(),
        Some("the peer says: the node stops")
    );
    assert!(network.mesh(nodes[1]).unwrap().waiting(ConnId(1)) == 0);
}
