//! What one node bears: 100 peers with 1,000 virtual servers each.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

mod common;

use std::time::Instant;

use common::{server, server_key};
use portolan_peer::{ConnId, Event, Mesh, PeerSettings, ServerState, Settings};

const PEERS: usize = 100;
const SERVERS: usize = 1_000;

fn name(peer: usize) -> String {
    format!("peer{peer:03}")
}

/// Carries octets both ways until both are silent; how many.
fn carry(hub: &mut Mesh, peer: &mut Mesh, conn: ConnId, now_ms: u64) -> usize {
    let mut octets = 0;
    loop {
        let (to_peer, to_hub) = (hub.poll_transmit(conn), peer.poll_transmit(conn));
        if to_peer.is_none() && to_hub.is_none() {
            return octets;
        }
        if let Some(frame) = to_peer {
            peer.received(now_ms, conn, &frame);
        }
        if let Some(frame) = to_hub {
            octets += frame.len();
            hub.received(now_ms, conn, &frame);
        }
    }
}

#[test]
fn a_hundred_peers_with_a_thousand_servers_each() {
    let peers = (0..PEERS).map(|peer| PeerSettings { name: name(peer), site: "far".into() }).collect();
    let mut hub = Mesh::new(Settings { peers, ..Settings::new("hub", "here", 1, 3_000) }, 0);
    let mut others = Vec::new();
    let mut octets = 0;
    let start = Instant::now();
    for number in 0..PEERS {
        let peers = vec![PeerSettings { name: "hub".into(), site: "here".into() }];
        let settings = Settings { peers, ..Settings::new(&name(number), "far", 7 + number as u64, 3_000) };
        let mut peer = Mesh::new(settings, 0);
        for server_number in 0..SERVERS {
            peer.publish(0, server(&format!("server{server_number}"), ServerState::Up), None);
        }
        let conn = ConnId(number as u64);
        hub.connected(0, &name(number), conn);
        peer.connected(0, "hub", conn);
        octets += carry(&mut hub, &mut peer, conn, 0);
        others.push(peer);
    }
    let (keys, bytes) = hub.totals();
    println!("full sync: {} ms, {octets} octets on the wire, {bytes} held", start.elapsed().as_millis());
    assert_eq!(keys, PEERS * SERVERS);
    assert!(hub.is_synced());
    assert!(octets / keys < 160, "{} octets a claim on the wire", octets / keys);
    assert!(bytes / keys < 480, "{} octets a claim held", bytes / keys);
    hub.check_invariants();
    while hub.poll_event().is_some() {}

    // every peer changes one server: what it costs to hear of it
    let start = Instant::now();
    let mut changed = 0;
    for (number, peer) in others.iter_mut().enumerate() {
        peer.publish(500, server("server7", ServerState::Down), None);
        changed += carry(&mut hub, peer, ConnId(number as u64), 500);
    }
    let told = std::iter::from_fn(|| hub.poll_event());
    let told =
        told.filter(|event| matches!(event, Event::Claimed { key, .. } if *key == server_key("server7")));
    assert_eq!(told.count(), PEERS);
    println!("{PEERS} changes: {} us, {} octets each", start.elapsed().as_micros(), changed / PEERS);

    // and to tell all of one's own
    let start = Instant::now();
    hub.publish(600, server("own", ServerState::Up), None);
    let sent: usize = (0..PEERS).map(|number| hub.poll_transmit(ConnId(number as u64)).unwrap().len()).sum();
    println!("one change told to {PEERS}: {} us, {sent} octets", start.elapsed().as_micros());
    let start = Instant::now();
    for _ in 0..1_000 {
        hub.tick(600);
        assert!(hub.poll_deadline().is_some());
    }
    println!("a tick: {} us", start.elapsed().as_micros() / 1_000);
}
