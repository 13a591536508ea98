//! What strangers may send and hold open. They come from other loopback addresses than the peers.

use crate::harness::{Keys, Node, Options, TIMING, introduce};
use portolan_peer::transport::Timing;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream, UdpSocket};

/// Two nodes that are connected.
async fn pair(keys: &Keys) -> (Node, Node) {
    let mut bj1 = Node::start("bj1", keys.identity("bj1")).await;
    let mut fra1 = Node::start("fra1", keys.identity("fra1")).await;
    introduce(keys, &[&bj1, &fra1]);
    bj1.until_up("fra1").await;
    fra1.until_up("bj1").await;
    (bj1, fra1)
}

async fn tcp_from(source: [u8; 4], to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((source, 0)))?;
    socket.connect(to).await
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_on_both_ports() {
    let keys = Keys::new();
    let (mut bj1, mut fra1) = pair(&keys).await;
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let udp = UdpSocket::bind("127.0.0.3:0").await.unwrap();
    for round in 0..300 {
        let mut octets = vec![0; random.usize(1..1_400)];
        random.fill(&mut octets);
        if round % 2 == 0 {
            // the first octet of a long header, and version 1
            octets[0] |= 0xc0;
            if octets.len() > 5 {
                octets[1..5].copy_from_slice(&[0, 0, 0, 1]);
            }
        }
        udp.send_to(&octets, bj1.address()).await.unwrap();
        if round % 10 == 0 {
            let Ok(mut tcp) = tcp_from([127, 0, 0, 3], bj1.address()).await else { continue };
            if round % 20 == 0 {
                // a TLS record header
                octets.splice(..0, [22, 3, 1, 2, 0]);
            }
            let _ = tcp.write_all(&octets).await;
            let _ = tcp.shutdown().await;
            let _ = tokio::time::timeout(Duration::from_secs(10), tcp.read_to_end(&mut Vec::new())).await;
        }
    }
    fra1.publish("after");
    bj1.until_claimed("fra1", "after").await;
    fra1.until_up("bj1").await;
    let counted = bj1.status().counted;
    assert!(counted.handshakes_failed + counted.handshakes_timed_out > 0, "seed {seed}: {counted:?}");
    assert!(
        !bj1.seen.iter().any(|event| matches!(event, portolan_peer::Event::PeerDown { .. })),
        "seed {seed}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn handshakes_that_do_not_go_on_are_ended_and_starve_nobody() {
    let keys = Keys::new();
    let options = || Options { timing: Timing { handshake_ms: 2_000, ..TIMING }, ..Options::default() };
    let mut bj1 = Node::start_with("bj1", keys.identity("bj1"), options()).await;
    // 64 addresses with 8 connections each: more than all places
    let mut held = Vec::new();
    for last in 10..74 {
        for _ in 0..8 {
            held.push(tcp_from([127, 0, 1, last], bj1.address()).await.unwrap());
        }
    }
    for stream in &mut held {
        // a ClientHello of which no more comes
        let _ = stream.write_all(&[22, 3, 1, 2, 0, 1]).await;
    }
    bj1.until("strangers are turned away", |node| node.status().counted.turned_away >= 64).await;
    // the peer comes while all places are taken
    let mut fra1 = Node::start_with("fra1", keys.identity("fra1"), options()).await;
    let start = Instant::now();
    introduce(&keys, &[&bj1, &fra1]);
    bj1.until_up("fra1").await;
    fra1.until_up("bj1").await;
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    bj1.until("the others are ended", |node| node.status().counted.handshakes_timed_out >= 16).await;
    let mut ended = 0;
    for stream in &mut held {
        let read = tokio::time::timeout(Duration::from_secs(10), stream.read(&mut [0; 64])).await;
        ended += usize::from(matches!(read, Ok(Ok(0) | Err(_))));
    }
    assert_eq!(ended, held.len());
}

/// First packets of QUIC handshakes, each of another connection.
async fn first_packets(count: usize) -> Vec<Vec<u8>> {
    let sink = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let to = sink.local_addr().unwrap();
    let mut tls =
        rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
    tls.alpn_protocols = vec![b"portolan/1".to_vec()];
    let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(tls).unwrap();
    let client = quinn::ClientConfig::new(Arc::new(crypto));
    let endpoint = quinn::Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let mut packets = Vec::new();
    let mut octets = [0; 2_000];
    while packets.len() < count {
        let connecting = endpoint.connect_with(client.clone(), to, "portolan").unwrap();
        let (length, _) = sink.recv_from(&mut octets).await.unwrap();
        packets.push(octets[..length].to_vec());
        drop(connecting);
    }
    packets
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_first_packets_starves_nobody() {
    let keys = Keys::new();
    let (mut bj1, fra1) = pair(&keys).await;
    let packets = first_packets(300).await;
    let to = bj1.address();
    let flood = tokio::spawn(async move {
        let mut sockets = Vec::new();
        for last in 20..28 {
            sockets.push(UdpSocket::bind(SocketAddr::from(([127, 0, 2, last], 0))).await.unwrap());
        }
        for round in 0.. {
            for (at, packet) in packets.iter().enumerate() {
                let _ = sockets[(at + round) % sockets.len()].send_to(packet, to).await;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    bj1.until("they must prove their addresses", |node| node.status().counted.proofs_wanted >= 100).await;
    // the session goes on, and a peer that comes now gets in: it proves its address
    fra1.publish("during");
    bj1.until_claimed("fra1", "during").await;
    let mut nyc1 = Node::start("nyc1", keys.identity("nyc1")).await;
    introduce(&keys, &[&bj1, &fra1, &nyc1]);
    let start = Instant::now();
    nyc1.until_up("bj1").await;
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    bj1.until_up("nyc1").await;
    assert!(bj1.is_up("fra1"));
    assert!(!flood.is_finished());
    flood.abort();
    assert!(
        !bj1.seen.iter().any(|event| matches!(event, portolan_peer::Event::PeerDown { .. })),
        "{:?}",
        bj1.seen
    );
}
