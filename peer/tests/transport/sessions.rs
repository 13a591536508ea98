//! Nodes that reach each other, by either transport, and find each other again.

use crate::harness::{Keys, Node, Options, TIMING, introduce, peer};
use crate::proxy::Proxy;
use portolan_peer::Event;
use portolan_peer::codec::{Code, Frame};
use portolan_peer::trace::{Direction, FileSettings, Records};
use portolan_peer::transport::{Kind, Timing};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn three_nodes_share_claims_over_quic() {
    let keys = Keys::new();
    let mut nodes = Vec::new();
    for name in ["bj1", "fra1", "nyc1"] {
        let node = Node::start(name, keys.identity(name)).await;
        node.publish(&format!("www-{name}"));
        nodes.push(node);
    }
    introduce(&keys, &nodes.iter().collect::<Vec<_>>());
    for at in 0..3 {
        for other in (0..3).filter(|&other| other != at) {
            let author = nodes[other].name.clone();
            nodes[at].until_up(&author).await;
            nodes[at].until_claimed(&author, &format!("www-{author}")).await;
            assert_eq!(nodes[at].kinds(&author), [Kind::Quic]);
        }
    }
    // what changes later comes, too, and what is withdrawn goes
    nodes[2].publish("late");
    nodes[0].until_claimed("nyc1", "late").await;
    nodes[2].handle.withdraw(&portolan_peer::Key::VirtualServer("late".into()));
    nodes[0].until("the claim is gone", |node| !node.holds("nyc1", "late")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tcp_where_udp_gets_no_answer_and_quic_again_when_it_does() {
    let keys = Keys::new();
    let mut bj1 = Node::start("bj1", keys.identity("bj1")).await;
    let mut fra1 = Node::start("fra1", keys.identity("fra1")).await;
    let mut to_bj1 = Proxy::tcp_only(bj1.address()).await;
    let mut to_fra1 = Proxy::tcp_only(fra1.address()).await;
    bj1.publish("www-bj");
    fra1.publish("www-fra");
    bj1.handle.set_peers(vec![peer("fra1", to_fra1.address, keys.pin("fra1"))]);
    fra1.handle.set_peers(vec![peer("bj1", to_bj1.address, keys.pin("bj1"))]);
    for (node, other, claim) in [(&mut bj1, "fra1", "www-fra"), (&mut fra1, "bj1", "www-bj")] {
        node.until_up(other).await;
        node.until_claimed(other, claim).await;
        assert_eq!(node.kinds(other), [Kind::Tcp]);
    }
    to_bj1.open_udp().await;
    to_fra1.open_udp().await;
    for (node, other) in [(&mut bj1, "fra1"), (&mut fra1, "bj1")] {
        node.until("back to QUIC", |node| node.kinds(other) == [Kind::Quic] && node.is_up(other)).await;
    }
    bj1.publish("over-quic");
    fra1.until_claimed("bj1", "over-quic").await;
    // the connections overlapped: nobody was ever lost
    assert!(!bj1.seen.iter().any(|event| matches!(event, Event::PeerDown { .. })), "{:?}", bj1.seen);
    drop((to_bj1, to_fra1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_begins_to_drop_udp() {
    let keys = Keys::new();
    let mut bj1 = Node::start("bj1", keys.identity("bj1")).await;
    let mut fra1 = Node::start("fra1", keys.identity("fra1")).await;
    let mut to_bj1 = Proxy::both(bj1.address()).await;
    let mut to_fra1 = Proxy::both(fra1.address()).await;
    bj1.handle.set_peers(vec![peer("fra1", to_fra1.address, keys.pin("fra1"))]);
    fra1.handle.set_peers(vec![peer("bj1", to_bj1.address, keys.pin("bj1"))]);
    bj1.until_up("fra1").await;
    assert_eq!(bj1.kinds("fra1"), [Kind::Quic]);
    to_bj1.close_udp().await;
    to_fra1.close_udp().await;
    for (node, other) in [(&mut bj1, "fra1"), (&mut fra1, "bj1")] {
        node.until("over TCP", |node| node.kinds(other) == [Kind::Tcp] && node.is_up(other)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_cut_is_made_anew() {
    let keys = Keys::new();
    let mut bj1 = Node::start("bj1", keys.identity("bj1")).await;
    let mut fra1 = Node::start("fra1", keys.identity("fra1")).await;
    bj1.publish("www-bj");
    let nobody = Proxy::tcp_only(bj1.address()).await;
    nobody.close_tcp();
    for round in 0..3 {
        // only bj1 can dial, so that each round cuts what there is
        let to_fra1 = Proxy::tcp_only(fra1.address()).await;
        bj1.handle.set_peers(vec![peer("fra1", to_fra1.address, keys.pin("fra1"))]);
        fra1.handle.set_peers(vec![peer("bj1", nobody.address, keys.pin("bj1"))]);
        fra1.until_up("bj1").await;
        fra1.until_claimed("bj1", "www-bj").await;
        drop(to_fra1);
        fra1.until(&format!("cut {round}"), |node| node.kinds("bj1").is_empty()).await;
        bj1.until(&format!("cut {round}"), |node| node.kinds("fra1").is_empty()).await;
    }
    // the claim is kept over the cuts
    assert!(fra1.handle.mesh().lock().unwrap().claims().next().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn both_halves_of_a_partition_agree_after_it() {
    let keys = Keys::new();
    let options = || Options { timing: Timing::DEFAULT, hold_ms: 1_000, ..Options::default() };
    let mut bj1 = Node::start_with("bj1", keys.identity("bj1"), options()).await;
    let mut fra1 = Node::start_with("fra1", keys.identity("fra1"), options()).await;
    let to_bj1 = Proxy::both(bj1.address()).await;
    let to_fra1 = Proxy::both(fra1.address()).await;
    let addresses = (to_bj1.address, to_fra1.address);
    bj1.handle.set_peers(vec![peer("fra1", addresses.1, keys.pin("fra1"))]);
    fra1.handle.set_peers(vec![peer("bj1", addresses.0, keys.pin("bj1"))]);
    bj1.publish("www-bj");
    fra1.publish("www-fra");
    bj1.until_claimed("fra1", "www-fra").await;
    fra1.until_claimed("bj1", "www-bj").await;

    drop((to_bj1, to_fra1));
    let has_none = |node: &Node| node.handle.mesh().lock().unwrap().claims().next().is_none();
    bj1.until("the other half's claims have expired", has_none).await;
    fra1.until("the other half's claims have expired", has_none).await;
    bj1.publish("meanwhile-bj");
    fra1.publish("meanwhile-fra");

    let healed = Instant::now();
    let _to_bj1 = Proxy::again(addresses.0, bj1.address()).await;
    let _to_fra1 = Proxy::again(addresses.1, fra1.address()).await;
    for (author, name) in [("fra1", "www-fra"), ("fra1", "meanwhile-fra")] {
        bj1.until_claimed(author, name).await;
    }
    for (author, name) in [("bj1", "www-bj"), ("bj1", "meanwhile-bj")] {
        fra1.until_claimed(author, name).await;
    }
    // the longest pause between attempts and an attempt, and as much again for a busy machine
    assert!(healed.elapsed() < Duration::from_secs(8), "{:?}", healed.elapsed());
    println!("agreed {:?} after healing", healed.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_node_is_found_again() {
    let keys = Keys::new();
    for (stays, restarts) in [("bj1", "fra1"), ("fra1", "bj1")] {
        let mut node = Node::start(stays, keys.identity(stays)).await;
        let mut other = Node::start(restarts, keys.identity(restarts)).await;
        introduce(&keys, &[&node, &other]);
        other.publish("first");
        node.until_claimed(restarts, "first").await;
        other.until_up(stays).await;
        let address = other.address();
        // without a word, as when it is killed
        drop(other);
        let options = || Options { listen: address, ..Options::default() };
        let other = Node::start_with(restarts, keys.identity(restarts), options()).await;
        other.publish("second");
        other.handle.set_peers(vec![peer(stays, node.address(), keys.pin(stays))]);
        node.until_claimed(restarts, "second").await;
        node.until("the first start's claim is gone", |node| !node.holds(restarts, "first")).await;
        node.until_up(restarts).await;
    }
}

/// The displaced one of two nodes with one name and key comes back less and less often.
#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_of_one_name() {
    let keys = Keys::new();
    let fra1 = Node::start("fra1", keys.identity("fra1")).await;
    let to_fra1 = || vec![peer("fra1", fra1.address(), keys.pin("fra1"))];
    let mut first = Node::start("bj1", keys.identity("bj1")).await;
    fra1.handle.set_peers(vec![peer("bj1", first.address(), keys.pin("bj1"))]);
    first.handle.set_peers(to_fra1());
    first.until_up("fra1").await;
    let second = Node::start("bj1", keys.identity("bj1")).await;
    second.handle.set_peers(to_fra1());
    let failures =
        |node: &Node| node.status().peers.iter().find(|peer| peer.name == "fra1").map_or(0, |it| it.failures);
    let is_displaced =
        |event: &Event| matches!(event, Event::Notice { is_theirs: true, code: Code::OldEpoch, .. });
    first.until("it is displaced", |node| node.seen.iter().any(is_displaced)).await;
    let (begin, count) = (Instant::now(), failures(&first));
    first.until("eight more attempts", |node| failures(node) >= count + 8).await;
    // of 50, 100, … 3,200 ms at least half each; a network's failures are at most 400 ms apart
    assert!(begin.elapsed() > Duration::from_millis(3_000), "{:?}", begin.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn both_dial_at_once_and_one_connection_stays() {
    let keys = Keys::new();
    let timing = Timing { courtesy_ms: 0, ..TIMING };
    for round in 0..5 {
        let options = || Options { timing, ..Options::default() };
        let mut bj1 = Node::start_with("bj1", keys.identity("bj1"), options()).await;
        let mut fra1 = Node::start_with("fra1", keys.identity("fra1"), options()).await;
        introduce(&keys, &[&bj1, &fra1]);
        bj1.until_up("fra1").await;
        fra1.until_up("bj1").await;
        // two connections may come and go; then it is quiet: claims pass and the session is the same a while later
        bj1.publish("www-bj");
        fra1.until_claimed("bj1", "www-bj").await;
        let both_one = |node: &Node, other: &str| node.kinds(other).len() == 1 && node.is_up(other);
        bj1.until(&format!("one connection, round {round}"), |node| both_one(node, "fra1")).await;
        fra1.until(&format!("one connection, round {round}"), |node| both_one(node, "bj1")).await;
        let conn = |node: &Node| node.status().peers[0].links.iter().map(|link| link.conn).max();
        let before = (conn(&bj1), conn(&fra1));
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(bj1.is_up("fra1") && fra1.is_up("bj1"));
        assert!(conn(&bj1) <= before.0.max(Some(2)) && conn(&fra1) <= before.1.max(Some(2)), "no more came");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_dials_from_its_own_family_and_address() {
    let keys = Keys::new();
    let listen = |text: &str| Options { listen: text.parse().unwrap(), ..Options::default() };
    let (v4, v6, any) = ("127.0.0.1:0", "[::1]:0", "[::]:0");
    for (one, other) in [(v4, v6), (v6, v4), (any, v4), (v4, any)] {
        let mut bj1 = Node::start_with("bj1", keys.identity("bj1"), listen(one)).await;
        let mut fra1 = Node::start_with("fra1", keys.identity("fra1"), listen(other)).await;
        let reached = |node: &Node| match node.address() {
            any if any.ip().is_unspecified() => SocketAddr::from(([127, 0, 0, 1], any.port())),
            own => own,
        };
        bj1.handle.set_peers(vec![peer("fra1", reached(&fra1), keys.pin("fra1"))]);
        fra1.handle.set_peers(vec![peer("bj1", reached(&bj1), keys.pin("bj1"))]);
        bj1.until_up("fra1").await;
        fra1.until_up("bj1").await;
        assert_eq!(bj1.kinds("fra1"), [Kind::Quic], "{one} {other}");
    }
    for tcp_only in [false, true] {
        let options = Options { source: Some([127, 0, 0, 5].into()), ..Options::default() };
        let bj1 = Node::start_with("bj1", keys.identity("bj1"), options).await;
        let mut fra1 = Node::start("fra1", keys.identity("fra1")).await;
        let nobody = Proxy::tcp_only(bj1.address()).await;
        nobody.close_tcp();
        let direct = if tcp_only { None } else { Some(fra1.address()) };
        let proxy = Proxy::tcp_only(fra1.address()).await;
        bj1.handle.set_peers(vec![peer("fra1", direct.unwrap_or(proxy.address), keys.pin("fra1"))]);
        fra1.handle.set_peers(vec![peer("bj1", nobody.address, keys.pin("bj1"))]);
        fra1.until_up("bj1").await;
        let remote = fra1.status().peers[0].links[0].remote.ip();
        // through the proxy it is the proxy's
        let wanted = if tcp_only { [127, 0, 0, 1] } else { [127, 0, 0, 5] };
        assert_eq!(remote, std::net::IpAddr::from(wanted));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_stops_says_so() {
    let keys = Keys::new();
    let mut bj1 = Node::start("bj1", keys.identity("bj1")).await;
    let mut fra1 = Node::start("fra1", keys.identity("fra1")).await;
    introduce(&keys, &[&bj1, &fra1]);
    bj1.until_up("fra1").await;
    fra1.until_up("bj1").await;
    let Node { handle, mut events, .. } = fra1;
    let start = Instant::now();
    let address = handle.local_address();
    handle.stop().await;
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    bj1.until("it is told", |node| {
        node.seen.iter().any(|event| matches!(event, Event::Notice { is_theirs: true, .. }))
    })
    .await;
    bj1.until("it is lost", |node| !node.is_up("fra1") && node.kinds("fra1").is_empty()).await;
    let end = async { while events.next().await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(10), end).await.unwrap();
    // the sockets are free
    let options = Options { listen: address, ..Options::default() };
    Node::start_with("fra1", keys.identity("fra1"), options).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn peers_are_added_and_removed() {
    let keys = Keys::new();
    let mut bj1 = Node::start("bj1", keys.identity("bj1")).await;
    let mut fra1 = Node::start("fra1", keys.identity("fra1")).await;
    let mut nyc1 = Node::start("nyc1", keys.identity("nyc1")).await;
    introduce(&keys, &[&bj1, &fra1]);
    bj1.until_up("fra1").await;
    introduce(&keys, &[&bj1, &fra1, &nyc1]);
    for node in [&mut bj1, &mut fra1] {
        node.until_up("nyc1").await;
    }
    bj1.handle.set_peers(vec![peer("nyc1", nyc1.address(), keys.pin("nyc1"))]);
    bj1.until("fra1 is gone", |node| node.status().peers.len() == 1 && node.kinds("fra1").is_empty()).await;
    fra1.until("bj1 has left", |node| !node.is_up("bj1")).await;
    nyc1.until_up("bj1").await;
    nyc1.until_up("fra1").await;
    // and is refused as long as it is not configured
    fra1.until("bj1 refuses", |node| node.last_error("bj1").contains("does not know this node's pin")).await;
    assert!(bj1.refused("unknown-pin") > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_are_traced_and_tapped() {
    let keys = Keys::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("peers.trace");
    let options = Options { trace: Some(FileSettings::new(&path)), ..Options::default() };
    let mut bj1 = Node::start_with("bj1", keys.identity("bj1"), options).await;
    let mut fra1 = Node::start("fra1", keys.identity("fra1")).await;
    introduce(&keys, &[&bj1, &fra1]);
    fra1.until_up("bj1").await;
    // a reader who comes in the middle
    let tap = fra1.handle.tap().unwrap();
    bj1.publish("www-bj");
    fra1.publish("www-fra");
    fra1.until_claimed("bj1", "www-bj").await;
    bj1.until_claimed("fra1", "www-fra").await;

    let mut tapped = Vec::new();
    let watch = async {
        let has = |tapped: &[portolan_peer::trace::Record], direction, text: &str| {
            tapped
                .iter()
                .any(|record| record.direction == direction && record.told().to_string().contains(text))
        };
        while !has(&tapped, Direction::Received, "\"www-bj\"")
            || !has(&tapped, Direction::Sent, "\"www-fra\"")
        {
            let (record, lost) = tap.next().await;
            assert_eq!(lost, 0);
            assert!(record.decode().is_ok() && record.peer == "bj1", "{}", record.told());
            tapped.push(record);
        }
    };
    tokio::time::timeout(Duration::from_secs(20), watch).await.unwrap();

    bj1.handle.stop().await;
    let read = || -> Vec<_> { Records::open(&path).unwrap().map_while(Result::ok).collect() };
    let end = Instant::now() + Duration::from_secs(10);
    while !read().iter().any(|record| record.told().to_string().contains("NOTICE")) {
        assert!(Instant::now() < end, "the file is written");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let records = read();
    let hellos = records.iter().filter(|record| matches!(record.decode().unwrap().frame, Frame::Hello(_)));
    assert!(hellos.count() >= 2);
    let claim = records.iter().find(|record| {
        record.direction == Direction::Received && record.told().to_string().contains("\"www-fra\"")
    });
    let json = serde_json::to_value(claim.unwrap().traced()).unwrap();
    assert_eq!((&json["direction"], &json["peer"]), (&"received".into(), &"fra1".into()));
    assert!(json["frame"]["Claims"]["items"].is_array(), "{json}");
}
