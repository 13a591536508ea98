//! Each fault of a peer has its outcome: counted, told with a reason, and never the end of the node (case P06 and
//! others).
#![allow(clippy::unwrap_used, clippy::wildcard_enum_match_arm, reason = "a test")]

mod common;

use common::{Bench, HOLD_MS, cell, entry, hello, server, server_key};
use portolan_peer::claim::Lane;
use portolan_peer::codec::{Batch, Change, Code, Hello, Item, frame_type};
use portolan_peer::{
    Ask, AskRefused, Claim, Event, Frame, Key, Limits, Outcome, PeerState, Refusal, Reply, ServerState,
    Settings,
};

fn limits() -> Limits {
    Limits::default()
}

fn up(name: &str) -> Claim {
    server(name, ServerState::Up)
}

/// The code of the NOTICE that is sent, and of the event that is told.
fn closing(bench: &mut Bench) -> Option<Code> {
    let events = bench.take_events();
    let is_closed = events.iter().any(|event| matches!(event, Event::Close { .. }));
    let found = events.iter().find_map(|event| match event {
        Event::Notice { is_theirs: false, code, .. } => Some(*code),
        _ => None,
    });
    let sent = bench.frames().into_iter().find_map(|frame| match frame {
        Frame::Notice(notice) => Some(notice.code),
        _ => None,
    });
    assert_eq!(sent, found, "told and sent alike");
    assert_eq!(is_closed, found.is_some(), "closed with a reason, or not at all");
    found
}

#[test]
fn a_hello_that_is_wrong_is_refused_with_its_reason() {
    let good = hello();
    let cases = [
        ("version", Hello { lowest: 3, highest: 9, ..good.clone() }, Code::Version),
        ("no version", Hello { lowest: 0, highest: 0, ..good.clone() }, Code::Version),
        ("another node", Hello { node: "c".into(), ..good.clone() }, Code::WrongNode),
        ("our own name", Hello { node: "a".into(), ..good.clone() }, Code::DuplicateName),
        ("another site", Hello { site: "three".into(), ..good.clone() }, Code::WrongSite),
    ];
    for (name, wrong, code) in cases {
        let mut bench = Bench::new(limits());
        bench.connect();
        bench.send(&Frame::Hello(wrong));
        assert_eq!(closing(&mut bench), Some(code), "{name}");
        let status = bench.status();
        assert_eq!((status.state, status.counters.refusals), (PeerState::Down, 1), "{name}");
        assert!(status.last_error.is_some(), "{name}");
        // and what comes after it is not heard
        bench.send(&Frame::Hello(good.clone()));
        assert_eq!(bench.status().state, PeerState::Down, "{name}");
        // a new connection is as good as any
        bench.mesh.disconnected(bench.now_ms, bench.conn, "closed");
        bench.connect();
        bench.send(&Frame::Hello(good.clone()));
        assert_eq!(bench.status().state, PeerState::Syncing, "{name}");
    }
}

#[test]
fn a_connection_without_hello_ends_in_time() {
    let mut bench = Bench::new(limits());
    bench.connect();
    bench.pass(4_999);
    assert_eq!(closing(&mut bench), None);
    bench.pass(1);
    assert_eq!(closing(&mut bench), Some(Code::Handshake));
}

#[test]
fn frames_before_or_beside_hello_close_the_connection() {
    for frame in [Frame::Resync(Lane::Bulk), Frame::Keepalive(Default::default())] {
        let mut bench = Bench::new(limits());
        bench.connect();
        bench.send(&frame);
        assert_eq!(closing(&mut bench), Some(Code::Malformed), "{frame:?} first");
    }
    let mut bench = Bench::up(limits());
    bench.send(&Frame::Hello(hello()));
    assert_eq!(closing(&mut bench), Some(Code::Malformed), "a second HELLO");
}

#[test]
fn unknown_peers_and_too_many_connections_are_closed() {
    let mut bench = Bench::new(limits());
    bench.mesh.connected(0, "mallory", portolan_peer::ConnId(99));
    assert!(matches!(bench.take_events()[..], [Event::Close { .. }]));
    for _ in 0..30 {
        bench.connect();
    }
    let closes = bench.take_events().into_iter().filter(|event| matches!(event, Event::Close { .. })).count();
    assert_eq!(closes, 17 + 10, "three stay, 17 are replaced, ten come too often");
    assert_eq!(bench.mesh.connections().count(), 3);
    assert_eq!(bench.status().counters.refusals, 10);
}

#[test]
fn a_replay_within_a_connection_changes_nothing() {
    let mut bench = Bench::synced(limits(), vec![up("x")]);
    let old = {
        let item = bench.item(Change::Set(server("x", ServerState::Down)));
        bench.batch(Lane::Urgent, vec![item])
    };
    bench.send(&Frame::Claims(old.clone()));
    bench.set(up("x"));
    bench.take_events();
    for _ in 0..3 {
        bench.send(&Frame::Claims(old.clone()));
    }
    assert_eq!(bench.take_events(), []);
    assert_eq!(bench.mesh.claim("b", &server_key("x")).unwrap().claim, &up("x"));
    assert_eq!((bench.status().counters.replays, bench.status().state), (3, PeerState::Up));
}

#[test]
fn an_old_sequence_under_a_new_number_changes_nothing() {
    let mut bench = Bench::synced(limits(), vec![up("x")]);
    bench.set(server("x", ServerState::Down));
    let item = Item { sequence: 1, lifetime_ms: None, change: Change::Set(up("x")) };
    let batch = bench.batch(Lane::Urgent, vec![item]);
    bench.send(&Frame::Claims(batch));
    assert_eq!(bench.mesh.claim("b", &server_key("x")).unwrap().claim, &server("x", ServerState::Down));
    assert_eq!(bench.status().counters.outdated, 1);
}

#[test]
fn an_old_epoch_is_refused_while_a_newer_start_lives() {
    let mut bench = Bench::synced(limits(), vec![up("x")]);
    let first = bench.conn;
    bench.connect();
    bench.send(&Frame::Hello(Hello { epoch: 8, ..hello() }));
    let notices = bench.frames_of(first);
    assert!(matches!(&notices[..], [Frame::Notice(notice)] if notice.code == Code::Replaced), "{notices:?}");
    bench.mesh.disconnected(bench.now_ms, first, "closed");
    bench.sync(vec![up("y")]);
    assert!(bench.has(&server_key("y")) && !bench.has(&server_key("x")));
    // the older start, or a replay of it, comes back: two nodes with one name
    let newer = bench.conn;
    bench.take_events();
    bench.connect();
    bench.send(&Frame::Hello(hello()));
    assert_eq!(closing(&mut bench), Some(Code::OldEpoch));
    assert!(bench.has(&server_key("y")), "the newer start is untouched");
    bench.mesh.disconnected(bench.now_ms, bench.conn, "closed");
    bench.mesh.disconnected(bench.now_ms, newer, "lost");
    // long after the newer start is gone, the older one need not wait for a person (case P09)
    bench.pass(10 * HOLD_MS - 1);
    bench.take_events();
    bench.connect();
    bench.send(&Frame::Hello(hello()));
    assert_eq!(closing(&mut bench), Some(Code::OldEpoch));
    bench.mesh.disconnected(bench.now_ms, bench.conn, "closed");
    bench.pass(1);
    bench.connect();
    bench.send(&Frame::Hello(hello()));
    assert_eq!(bench.status().state, PeerState::Syncing);
}

#[test]
fn a_restart_replaces_all_claims_at_once() {
    let mut bench = Bench::synced(limits(), vec![up("kept"), up("gone"), up("changed")]);
    bench.mesh.disconnected(bench.now_ms, bench.conn, "lost");
    bench.connect();
    bench.send(&Frame::Hello(Hello { epoch: 8, ..hello() }));
    let item = bench.item(Change::Set(server("changed", ServerState::Down)));
    let batch = bench.batch(Lane::Urgent, vec![item]);
    bench.send(&Frame::Claims(Batch { is_sync: true, is_begin: true, ..batch }));
    let old = bench.mesh.claim("b", &server_key("changed")).unwrap();
    assert!(old.is_stale && old.claim == &up("changed"), "not before the sync is whole");
    assert!(bench.has(&server_key("gone")));
    bench.take_events();
    let item = bench.item(Change::Set(up("kept")));
    let batch = bench.batch(Lane::Urgent, vec![item]);
    bench.send(&Frame::Claims(Batch { is_sync: true, is_end: true, ..batch }));
    let author = || "b".to_owned();
    assert_eq!(
        bench.take_events(),
        [
            Event::Claimed { author: author(), key: server_key("changed") },
            Event::Withdrawn { author: author(), key: server_key("gone") },
            Event::Fresh { author: author() },
            Event::Synced { peer: author() },
        ]
    );
    assert!(!bench.mesh.claim("b", &server_key("kept")).unwrap().is_stale);
}

#[test]
fn a_gap_is_found_and_mended() {
    let mut bench = Bench::synced(limits(), vec![up("x")]);
    bench.batch(Lane::Urgent, Vec::new());
    bench.set(server("x", ServerState::Down));
    assert_eq!(bench.mesh.claim("b", &server_key("x")).unwrap().claim, &up("x"), "not out of order");
    let asked = |bench: &mut Bench| bench.frames().contains(&Frame::Resync(Lane::Urgent));
    assert!(asked(&mut bench));
    assert_eq!((bench.status().counters.gaps, bench.status().state), (1, PeerState::Syncing));
    // asked again when nothing comes
    bench.pass(2_000);
    bench.keepalive();
    assert!(!asked(&mut bench));
    bench.pass(1_000);
    assert!(asked(&mut bench));
    bench.sync(vec![server("x", ServerState::Drain)]);
    assert_eq!(bench.mesh.claim("b", &server_key("x")).unwrap().claim, &server("x", ServerState::Drain));
    assert_eq!(bench.status().state, PeerState::Up);
}

#[test]
fn a_flood_is_dropped_and_its_author_heard_again() {
    let small = Limits { claims_per_s: 10, floods: 3, ..limits() };
    let mut bench = Bench::synced(small, (0..40).map(|number| up(&number.to_string())).collect());
    bench.set(server("0", ServerState::Down));
    assert_eq!(bench.status().counters.floods, 1, "four seconds' worth are taken at once");
    assert_eq!(bench.mesh.claim("b", &server_key("0")).unwrap().claim, &up("0"), "nothing held is lost");
    bench.pass(999);
    assert!(!bench.frames().iter().any(|frame| matches!(frame, Frame::Resync(_))));
    bench.pass(1);
    let frames = bench.frames();
    assert!(Lane::ALL.iter().all(|lane| frames.contains(&Frame::Resync(*lane))), "{frames:?}");
    bench.sync(vec![server("0", ServerState::Down)]);
    assert_eq!(bench.mesh.claims_of("b").count(), 1);
    assert_eq!(bench.status().state, PeerState::Up);
}

#[test]
fn a_flood_without_end_ends_the_session_and_not_the_node() {
    let small = Limits { claims_per_s: 10, floods: 3, ..limits() };
    let mut bench = Bench::synced(small, (0..40).map(|number| up(&number.to_string())).collect());
    for _ in 0..4 {
        assert_eq!(closing(&mut bench), None);
        bench.set(up("0"));
    }
    assert_eq!(closing(&mut bench), Some(Code::Flood));
    assert_eq!(bench.mesh.claims_of("b").filter(|held| held.is_stale).count(), 40);
    bench.pass(HOLD_MS);
    assert_eq!(bench.mesh.claims_of("b").count(), 0);
}

#[test]
fn octets_and_resyncs_are_bounded_as_well() {
    let small = Limits { bytes_per_s: 65_536, floods: 3, ..limits() };
    let mut bench = Bench::synced(small, Vec::new());
    let mut unknown = vec![0, 0, 0xff, 0, 200, 0, 0, 0];
    unknown.resize(8 + 0xff00, 0);
    for _ in 0..5 {
        bench.send_octets(&unknown);
    }
    assert_eq!((bench.status().counters.floods, bench.status().counters.skipped.frames), (1, 4));
    let mut bench = Bench::synced(Limits { floods: 3, ..limits() }, Vec::new());
    for _ in 0..10 {
        bench.send(&Frame::Resync(Lane::Bulk));
    }
    assert_eq!(bench.status().counters.floods, 0);
    for _ in 0..4 {
        bench.send(&Frame::Resync(Lane::Bulk));
    }
    assert_eq!(closing(&mut bench), Some(Code::Flood));
}

/// A CLAIMS frame with hand-made items.
fn claims_frame(number: u8, items: &[Vec<u8>]) -> Vec<u8> {
    let mut body = vec![1, 0, 1, 0, 2, 0, 8, 0, 0, 0, 0, 0, 0, 0, number];
    for item in items {
        body.push(3);
        body.extend_from_slice(&u16::try_from(item.len()).unwrap().to_be_bytes());
        body.extend_from_slice(item);
    }
    let mut frame = u32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
    frame.extend_from_slice(&[frame_type::CLAIMS, 0, 0, 0]);
    frame.extend_from_slice(&body);
    frame
}

#[test]
fn what_cannot_be_used_is_passed_over_and_the_rest_taken() {
    let good = |name: &str, sequence| {
        portolan_peer::codec::item::encode_item(&Item {
            sequence,
            lifetime_ms: None,
            change: Change::Set(up(name)),
        })
    };
    let mut later_kind = good("x", 100);
    later_kind[0] = 77;
    let mut later_field = good("later", 101);
    later_field.extend_from_slice(&[99, 0, 2, 1, 2]);
    let mut broken = good("broken", 102);
    broken.truncate(20);
    let mut oversize = good("oversize", 103);
    oversize.extend_from_slice(&[99, 0x40, 0]);
    oversize.resize(oversize.len() + 0x4000, 0);
    let mut not_text = good("not text", 104);
    not_text[17] = 0xff;
    let mut upper = up("upper");
    if let Claim::VirtualServer(server) = &mut upper {
        server.service = "WWW.example.com.".into();
    }
    let upper = portolan_peer::codec::item::encode_item(&Item {
        sequence: 105,
        lifetime_ms: None,
        change: Change::Set(upper),
    });
    let mut bench = Bench::synced(limits(), Vec::new());
    let items = [later_kind, later_field, broken, oversize, not_text, upper, good("good", 106)];
    bench.send_octets(&claims_frame(2, &items));
    let skipped = bench.status().counters.skipped;
    assert_eq!((skipped.kinds, skipped.fields, skipped.malformed, skipped.oversize), (1, 1, 3, 1));
    let mut keys: Vec<_> = bench.mesh.claims().map(|held| held.claim.key()).collect();
    keys.sort();
    assert_eq!(keys, [server_key("good"), server_key("later")]);
    assert_eq!(bench.status().state, PeerState::Up);
}

#[test]
fn frames_of_later_versions_are_skipped_unless_critical() {
    let mut bench = Bench::synced(limits(), Vec::new());
    bench.send_octets(&[0, 0, 0, 3, 99, 0, 0, 0, 1, 2, 3]);
    assert_eq!((bench.status().counters.skipped.frames, closing(&mut bench)), (1, None));
    bench.send_octets(&[0, 0, 0, 3, 99, 1, 0, 0, 1, 2, 3]);
    assert_eq!(closing(&mut bench), Some(Code::Malformed));
}

#[test]
fn octets_that_are_no_frame_close_the_connection() {
    for (name, octets) in [
        ("too long", &[0, 1, 0, 1, 6, 0, 0, 0][..]),
        ("a field beyond its body", &[0, 0, 0, 3, 6, 0, 0, 0, 1, 0, 8]),
        ("a number too short", &[0, 0, 0, 5, 6, 0, 0, 0, 1, 0, 2, 0, 0]),
        ("a lane that is none", &[0, 0, 0, 4, 3, 0, 0, 0, 1, 0, 1, 2]),
        ("no lane", &[0, 0, 0, 0, 3, 0, 0, 0]),
    ] {
        let mut bench = Bench::synced(limits(), vec![up("x")]);
        bench.send_octets(octets);
        assert_eq!(closing(&mut bench), Some(Code::Malformed), "{name}");
        assert!(bench.mesh.claim("b", &server_key("x")).unwrap().is_stale, "{name}");
    }
    // before HELLO only little is taken
    let mut bench = Bench::new(limits());
    bench.connect();
    bench.send_octets(&[0, 0, 0x10, 1, 1, 0, 0, 0]);
    assert_eq!(closing(&mut bench), Some(Code::Malformed));
}

#[test]
fn octets_may_come_one_by_one() {
    let mut bench = Bench::new(limits());
    bench.connect();
    for octet in Frame::Hello(hello()).encode() {
        bench.send_octets(&[octet]);
    }
    assert_eq!(bench.status().state, PeerState::Syncing);
}

#[test]
fn a_half_open_connection_makes_claims_stale_and_then_ends_them() {
    let mut bench = Bench::synced(limits(), vec![up("x"), cell(1, 20_000)]);
    let heard_ms = bench.now_ms;
    bench.pass(1_999);
    assert_eq!(bench.status().state, PeerState::Up);
    assert!(!bench.mesh.claim("b", &server_key("x")).unwrap().is_stale);
    bench.take_events();
    bench.pass(1);
    assert_eq!(bench.take_events(), [Event::Stale { author: "b".into() }]);
    let held = bench.mesh.claim("b", &server_key("x")).unwrap();
    assert_eq!((held.is_stale, held.expires_at_ms), (true, Some(heard_ms + HOLD_MS)));
    assert_eq!((bench.status().state, bench.status().is_stale), (PeerState::Silent, true));
    // a word in time makes them fresh
    bench.keepalive();
    assert_eq!(bench.take_events(), [Event::Fresh { author: "b".into() }]);
    assert_eq!(bench.mesh.claim("b", &server_key("x")).unwrap().expires_at_ms, None);
    bench.pass(HOLD_MS);
    let events = bench.take_events();
    let expired = events.iter().find_map(|event| match event {
        Event::Expired { keys, .. } => Some(keys.len()),
        _ => None,
    });
    assert_eq!(expired, Some(2), "{events:?}");
    assert!(events.contains(&Event::PeerDown { peer: "b".into(), why: "nothing heard for 3000 ms".into() }));
    assert_eq!(bench.mesh.claims().count(), 0);
}

#[test]
fn a_lost_connection_makes_claims_stale_at_once() {
    let mut bench = Bench::synced(limits(), vec![up("x")]);
    bench.pass(500);
    bench.mesh.disconnected(bench.now_ms, bench.conn, "reset");
    assert!(bench.mesh.claim("b", &server_key("x")).unwrap().is_stale);
    bench.pass(HOLD_MS - 501);
    assert!(bench.has(&server_key("x")));
    bench.pass(1);
    assert!(!bench.has(&server_key("x")));
}

#[test]
fn a_peer_that_only_says_that_it_lives_does_not_keep_old_claims_alive() {
    let mut bench = Bench::synced(limits(), vec![up("x")]);
    bench.mesh.disconnected(bench.now_ms, bench.conn, "reset");
    bench.connect();
    bench.send(&Frame::Hello(hello()));
    for _ in 0..3 {
        bench.pass(999);
        bench.keepalive();
    }
    assert!(bench.has(&server_key("x")));
    bench.pass(3);
    assert!(!bench.has(&server_key("x")));
}

/// The same where its connection was never lost: a lane that is not in order any more ages.
#[test]
fn claims_of_a_lane_out_of_order_age_whatever_the_peer_says() {
    let gap = |bench: &mut Bench| {
        bench.batch(Lane::Urgent, Vec::new());
        bench.set(up("x"));
    };
    let restart = |bench: &mut Bench| {
        bench.connect();
        bench.send(&Frame::Hello(Hello { epoch: 8, ..hello() }));
    };
    for harm in [&gap as &dyn Fn(&mut Bench), &restart] {
        let mut bench = Bench::synced(limits(), vec![up("x"), cell(1, 9_000)]);
        harm(&mut bench);
        for _ in 0..2 {
            assert!(!bench.mesh.claim("b", &server_key("x")).unwrap().is_stale);
            bench.pass(999);
            bench.keepalive();
        }
        bench.take_events();
        bench.pass(2);
        assert_eq!(bench.take_events(), [Event::Stale { author: "b".into() }]);
        assert!(bench.mesh.claim("b", &server_key("x")).unwrap().is_stale);
        bench.keepalive();
        bench.pass(1_000);
        assert!(!bench.has(&server_key("x")));
        assert_eq!(bench.status().state, PeerState::Syncing, "the session stands");
    }
}

#[test]
fn an_author_has_so_many_claims_and_no_more() {
    let small = Limits { keys_per_author: 3, ..limits() };
    let mut bench = Bench::synced(small, vec![up("1"), up("2")]);
    bench.set(up("3"));
    bench.set(up("4"));
    bench.set(up("5"));
    assert_eq!(bench.status().counters.refused, 2);
    let notices = bench.frames().into_iter().filter(|frame| matches!(frame, Frame::Notice(_))).count();
    assert_eq!(notices, 1, "told once");
    bench.set(server("3", ServerState::Down));
    bench.change(Change::Withdrawn(server_key("1")));
    bench.set(up("5"));
    let mut keys: Vec<_> = bench.mesh.claims().map(|held| held.claim.key()).collect();
    keys.sort();
    assert_eq!(keys, ["2", "3", "5"].map(server_key));
    // neither by a full sync
    bench.sync((0..9).map(|number| up(&number.to_string())).collect());
    assert_eq!(bench.mesh.claims().count(), 3);
}

#[test]
fn all_authors_have_so_many_octets_and_no_more() {
    let one = up("1").footprint();
    for limits in [
        Limits { bytes_per_author: 3 * one, ..limits() },
        Limits { bytes: 3 * one, ..limits() },
        Limits { keys: 3, ..limits() },
    ] {
        let mut bench = Bench::synced(limits, (0..9).map(|number| up(&number.to_string())).collect());
        bench.set(up("x"));
        assert_eq!(bench.mesh.totals().0, 3, "{limits:?}");
        assert!(bench.mesh.totals().1 <= 3 * one);
        assert_eq!(bench.status().state, PeerState::Up);
    }
}

#[test]
fn only_the_newest_value_of_a_key_waits_for_a_slow_peer() {
    let mut bench = Bench::up(limits());
    bench.frames();
    for round in 0..1_000 {
        for name in 0..10 {
            let state = if round % 2 == 0 { ServerState::Up } else { ServerState::Down };
            bench.mesh.publish(bench.now_ms, server(&name.to_string(), state), None);
        }
    }
    assert_eq!(bench.mesh.waiting(bench.conn), 10);
    let frames = bench.frames();
    let [Frame::Claims(batch)] = &frames[..] else { panic!("{frames:?}") };
    let downs = batch.items.iter().filter(|item| match &item.change {
        Change::Set(Claim::VirtualServer(server)) => server.state == ServerState::Down,
        _ => false,
    });
    assert_eq!((batch.items.len(), downs.count()), (10, 10));
}

#[test]
fn withdrawn_keys_do_not_pile_up_for_a_slow_peer() {
    let mut bench = Bench::up(Limits { withdrawn: 100, ..limits() });
    bench.frames();
    bench.mesh.publish(bench.now_ms, up("stays"), None);
    for name in 0..1_000 {
        bench.mesh.publish(bench.now_ms, up(&name.to_string()), None);
        bench.frames();
        bench.mesh.publish(bench.now_ms, server(&name.to_string(), ServerState::Down), None);
        bench.mesh.withdraw(bench.now_ms, &server_key(&name.to_string()));
        bench.mesh.check_invariants();
    }
    for name in 0..1_000 {
        bench.mesh.publish(bench.now_ms, up(&name.to_string()), None);
    }
    bench.frames();
    for name in 0..1_000 {
        bench.mesh.withdraw(bench.now_ms, &server_key(&name.to_string()));
        bench.mesh.check_invariants();
    }
    let frames = bench.frames();
    let Some(Frame::Claims(sync)) = frames.first() else { panic!("{frames:?}") };
    assert!(sync.is_begin && sync.is_end, "everything anew instead");
    assert_eq!(sync.items.len(), 1);
}

#[test]
fn urgent_claims_go_ahead_of_bulk() {
    let mut bench = Bench::up(limits());
    bench.frames();
    for key in 0..2_560 {
        bench.mesh.publish(bench.now_ms, entry(key, 60), None);
    }
    let first = bench.mesh.poll_transmit(bench.conn).unwrap();
    assert!(first.len() < 20_000, "a batch is short: {}", first.len());
    bench.mesh.publish(bench.now_ms, server("x", ServerState::Down), None);
    let frames = bench.frames();
    let Some(Frame::Claims(next)) = frames.first() else { panic!("{frames:?}") };
    assert_eq!((next.lane, next.items.len()), (Lane::Urgent, 1));
}

#[test]
fn the_sender_keeps_to_half_of_what_the_receiver_takes() {
    let mut bench = Bench::new(limits());
    for key in 0..1_000 {
        bench.mesh.publish(bench.now_ms, entry(key, 3_600), None);
    }
    bench.connect();
    bench.send(&Frame::Hello(Hello { claims_per_s: 100, ..hello() }));
    let count = |frames: &[Frame]| -> usize {
        frames.iter().map(|frame| if let Frame::Claims(batch) = frame { batch.items.len() } else { 0 }).sum()
    };
    let mut sent = count(&bench.frames());
    // two seconds' worth at once, and at most one batch of a second's worth beyond
    assert!((200..=300).contains(&sent), "{sent}");
    let start_ms = bench.now_ms;
    while sent < 1_000 && bench.now_ms < start_ms + 60_000 {
        bench.pass(100);
        bench.keepalive();
        sent += count(&bench.frames());
        let most = 400 + 100 * (bench.now_ms - start_ms) / 1_000;
        assert!(sent as u64 <= most, "{sent} after {} ms", bench.now_ms - start_ms);
    }
    assert_eq!(sent, 1_000);
    assert!(bench.now_ms - start_ms <= 17_000, "{} ms", bench.now_ms - start_ms);
}

#[test]
fn lives_end_at_both_sides() {
    let mut bench = Bench::synced(limits(), Vec::new());
    let item = bench.item(Change::Set(entry(1, 2)));
    let batch = bench.batch(Lane::Bulk, vec![Item { lifetime_ms: Some(2_000), ..item }]);
    bench.send(&Frame::Claims(batch));
    assert_eq!(
        bench.mesh.claim("b", &Key::Persistence(1)).unwrap().expires_at_ms,
        Some(bench.now_ms + 2_000)
    );
    bench.pass(1_999);
    bench.keepalive();
    assert!(bench.has(&Key::Persistence(1)));
    bench.pass(1);
    assert!(!bench.has(&Key::Persistence(1)));
    // and our own: a renewal is sent when half of the life is over, not before
    bench.frames();
    let publish = |bench: &mut Bench| {
        bench.mesh.publish(bench.now_ms, up("x"), Some(4_000));
        let frames = bench.frames();
        frames.iter().filter(|frame| matches!(frame, Frame::Claims(_))).count()
    };
    assert_eq!(publish(&mut bench), 1);
    bench.pass(1_900);
    bench.keepalive();
    assert_eq!(publish(&mut bench), 0);
    bench.pass(200);
    assert_eq!(publish(&mut bench), 1);
    bench.keepalive();
    bench.pass(2_900);
    bench.keepalive();
    bench.pass(1_099);
    assert_eq!(bench.mesh.own_claims().count(), 1);
    bench.pass(1);
    assert_eq!(bench.mesh.own_claims().count(), 0);
}

#[test]
fn small_differences_of_measurements_are_not_told() {
    let mut bench = Bench::up(limits());
    bench.frames();
    let told = |bench: &mut Bench, claim| {
        bench.mesh.publish(bench.now_ms, claim, None);
        bench.frames().iter().any(|frame| matches!(frame, Frame::Claims(_)))
    };
    assert!(told(&mut bench, cell(1, 20_000)));
    assert!(!told(&mut bench, cell(1, 21_900)));
    assert!(told(&mut bench, cell(1, 22_100)));
    assert!(told(&mut bench, entry(1, 600)));
    assert!(!told(&mut bench, entry(1, 600)));
    bench.pass(100_000);
    bench.connect();
    bench.send(&Frame::Hello(hello()));
    bench.frames();
    assert!(!told(&mut bench, entry(1, 600)));
    bench.pass(2_000);
    bench.pass(200_000);
    bench.connect();
    bench.send(&Frame::Hello(hello()));
    bench.frames();
    assert!(told(&mut bench, entry(1, 600)), "renewed");
}

#[test]
fn events_that_nobody_takes_are_counted() {
    let mut bench = Bench::synced(Limits { events: 5, ..limits() }, Vec::new());
    for name in 0..9 {
        bench.set(up(&name.to_string()));
    }
    bench.send_octets(&[0xff; 8]);
    let events = bench.take_events();
    assert!(matches!(events[0], Event::Close { .. }), "closing is never lost");
    // four claims, the notice, that the peer is down, that it is stale
    assert_eq!(events.last(), Some(&Event::Missed { count: 7 }));
    assert_eq!(events.len(), 7);
}

fn ask(nonce: u64) -> Ask {
    Ask {
        nonce,
        prefix: ("198.51.100.0".parse().unwrap(), 24),
        address: "198.51.100.7".parse().unwrap(),
        deadline_ms: 800,
    }
}

#[test]
fn questions_of_a_peer_are_limited() {
    let mut bench = Bench::synced(Limits { asks_per_s: 2, asks_burst: 3, ..limits() }, Vec::new());
    for nonce in 0..5 {
        bench.send(&Frame::Ask(ask(nonce)));
    }
    let asked = bench.take_events();
    assert_eq!(asked.len(), 3, "{asked:?}");
    assert_eq!(asked[0], Event::Asked { peer: "b".into(), ask: ask(0) });
    let refused =
        |refusal, nonce| Frame::Reply(Reply { nonce, outcome: Outcome::Refused(refusal), cells: Vec::new() });
    assert_eq!(bench.frames(), [refused(Refusal::Rate, 3), refused(Refusal::Rate, 4)]);
    bench.pass(500);
    bench.frames();
    bench.send(&Frame::Ask(Ask { address: "198.51.101.7".parse().unwrap(), ..ask(6) }));
    assert_eq!(bench.frames(), [refused(Refusal::Target, 6)]);
    assert_eq!(bench.status().counters.asks_refused, 3);
    // a peer that does not take its replies cannot make them pile up
    for nonce in 0..1_000 {
        bench.send(&Frame::Ask(ask(nonce)));
    }
    assert!(bench.mesh.waiting(bench.conn) <= 64);
    assert!(bench.status().counters.asks_dropped > 900);
}

#[test]
fn questions_to_a_peer_end_in_any_case() {
    let mut bench = Bench::synced(Limits { asks_waiting: 3, ..limits() }, Vec::new());
    assert_eq!(bench.mesh.ask(bench.now_ms, "nobody", ask(1)), Err(AskRefused::Unknown));
    assert_eq!(bench.mesh.ask(bench.now_ms, "c", ask(1)), Err(AskRefused::Down));
    for nonce in 1..=3 {
        assert_eq!(bench.mesh.ask(bench.now_ms, "b", ask(nonce)), Ok(()));
    }
    assert_eq!(bench.mesh.ask(bench.now_ms, "b", ask(4)), Err(AskRefused::Full));
    assert_eq!(bench.frames(), [1, 2, 3].map(|nonce| Frame::Ask(ask(nonce))));
    bench.pass(80);
    let Claim::Proximity(cell) = cell(100, 9_000) else { unreachable!() };
    let reply = Reply { nonce: 2, outcome: Outcome::Measured, cells: vec![cell] };
    bench.send(&Frame::Reply(reply.clone()));
    bench.send(&Frame::Reply(reply.clone()));
    bench.send(&Frame::Reply(Reply { nonce: 99, ..reply.clone() }));
    assert_eq!(bench.take_events(), [Event::Replied { peer: "b".into(), reply, after_ms: 80 }]);
    assert_eq!(bench.status().counters.replies_unasked, 2);
    bench.pass(719);
    assert_eq!(bench.take_events(), []);
    bench.pass(1);
    let nonces = bench.take_events().into_iter().map(|event| match event {
        Event::Replied { reply, after_ms: 800, .. } => (reply.nonce, reply.outcome),
        other => panic!("{other:?}"),
    });
    assert_eq!(nonces.collect::<Vec<_>>(), [(1, Outcome::TimedOut), (3, Outcome::TimedOut)]);
}

#[test]
fn peers_come_and_go_by_reload() {
    let mut bench = Bench::synced(limits(), vec![up("x")]);
    bench.mesh.set_peers(bench.now_ms, common::peers(&[("b", "two"), ("d", "four")]));
    assert!(bench.has(&server_key("x")), "untouched");
    bench.mesh.set_peers(bench.now_ms, common::peers(&[("d", "four")]));
    assert_eq!(closing(&mut bench), Some(Code::Unconfigured));
    assert_eq!(bench.mesh.claims().count(), 0);
    assert_eq!(bench.mesh.peers().iter().map(|peer| peer.name.as_str()).collect::<Vec<_>>(), ["d"]);
    bench.mesh.disconnected(bench.now_ms, bench.conn, "closed");
    bench.mesh.check_invariants();
}

#[test]
fn differences_are_shown() {
    let digest = |config: &str, table: &str| {
        Claim::Digest(portolan_peer::Digest {
            config: config.into(),
            tables: vec![("ct".into(), "1".into()), ("geo".into(), table.into())],
            version: "0.1.0".into(),
        })
    };
    let mut bench = Bench::synced(limits(), vec![digest("aa", "1")]);
    assert_eq!(bench.status().differences, [""; 0], "nothing to compare with");
    bench.mesh.publish(bench.now_ms, digest("bb", "2"), None);
    assert_eq!(bench.status().differences, ["config", "table geo"]);
    bench.set(digest("bb", "2"));
    assert_eq!(bench.status().differences, [""; 0]);
}

#[test]
fn a_hold_of_nothing_does_no_harm() {
    let mut bench =
        Bench::with(Settings { peers: common::peers(&[("b", "two")]), ..Settings::new("a", "one", 1, 0) });
    bench.connect();
    bench.send(&Frame::Hello(Hello { hold_ms: 0, claims_per_s: 0, bytes_per_s: 0, ..hello() }));
    bench.frames();
    for _ in 0..2 {
        bench.pass(99);
        assert_eq!(bench.frames(), []);
        bench.pass(1);
        assert!(matches!(bench.frames()[..], [Frame::Keepalive(_)]), "one each 100 ms, not more");
    }
}
