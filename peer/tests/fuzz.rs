//! Replays the corpus of peers' octets, and what becomes of it under seeded damage.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

mod common;

use common::{Bench, cell, entry, hello, server};
use portolan_peer::claim::Lane;
use portolan_peer::codec::{Batch, Change, Code, Hello, Item, Keepalive, Notice};
use portolan_peer::fuzz::fuzz;
use portolan_peer::{
    Act, Ask, Claim, Digest, Frame, Key, Limits, LinkState, Outcome, Refusal, Reply, ServerState, Word,
};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/peer");

fn corpus() -> Vec<(String, Vec<u8>)> {
    let mut paths: Vec<_> = std::fs::read_dir(FOLDER).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let name = |path: &std::path::Path| path.file_name().unwrap().to_string_lossy().into_owned();
    paths.iter().map(|path| (name(path), std::fs::read(path).unwrap())).collect()
}

fn batch(lane: Lane, number: u64, sync: [bool; 3], changes: Vec<Change>) -> Frame {
    let items = changes.into_iter().zip(1..);
    let items =
        items.map(|(change, sequence)| Item { sequence, lifetime_ms: Some(60_000), change }).collect();
    let [is_sync, is_begin, is_end] = sync;
    Frame::Claims(Batch { lane, number, is_sync, is_begin, is_end, items })
}

fn urgent() -> Vec<Change> {
    let link = Claim::Link(LinkState {
        site: "two".into(),
        name: "ct".into(),
        is_up: true,
        in_bps: 1,
        out_bps: 2,
        capacity_in_bps: 3,
        capacity_out_bps: 4,
    });
    let digest = Claim::Digest(Digest {
        config: "ab".repeat(32),
        tables: vec![("chinatelecom".into(), "cd".repeat(32))],
        version: "0.1.0".into(),
    });
    let word = Claim::Word(Word {
        target: "b/www".into(),
        act: Act::Drain,
        origin: "b".into(),
        author: "ann".into(),
        reason: "new disks".into(),
        revision: 3,
        base: 1,
        left_s: 600,
    });
    [server("www", ServerState::Up), link, digest, word].into_iter().map(Change::Set).collect()
}

fn bulk() -> Vec<Change> {
    [cell(1, 9_000), entry(5, 600)].into_iter().map(Change::Set).collect()
}

/// What the corpus is made of: valid conversations of every frame and kind, and some that are not.
fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let all = [true; 3];
    let keys = urgent().iter().chain(&bulk()).map(Change::key).collect::<Vec<_>>();
    let (urgent_keys, bulk_keys): (Vec<Key>, _) =
        keys.into_iter().partition(|key| key.lane() == Lane::Urgent);
    let gone = |keys: Vec<Key>| keys.into_iter().map(Change::Withdrawn).collect::<Vec<_>>();
    let ask = Ask {
        nonce: 1,
        prefix: ("198.51.100.0".parse().unwrap(), 24),
        address: "198.51.100.7".parse().unwrap(),
        deadline_ms: 800,
    };
    let Claim::Proximity(measured) = cell(1, 9_000) else { unreachable!() };
    let reply = Reply { nonce: 1, outcome: Outcome::Measured, cells: vec![measured] };
    let refused = Reply { outcome: Outcome::Refused(Refusal::OptOut), cells: Vec::new(), ..reply.clone() };
    let ask_v6 =
        Ask { prefix: ("2001:db8::".parse().unwrap(), 48), address: "2001:db8::7".parse().unwrap(), ..ask };
    let notice = Notice { code: Code::Stopping, text: "the node stops".into() };
    let conversations: Vec<(_, u8, Vec<Frame>)> = vec![
        ("hello", 1, vec![Frame::Hello(hello())]),
        ("hello_old_version", 1, vec![Frame::Hello(Hello { highest: 1, ..hello() })]),
        ("hello_wrong_site", 1, vec![Frame::Hello(Hello { site: "x".into(), ..hello() })]),
        ("hello_twice", 0, vec![Frame::Hello(hello())]),
        ("sync_urgent", 2, vec![batch(Lane::Urgent, 1, all, urgent())]),
        ("sync_bulk", 2, vec![batch(Lane::Bulk, 1, all, bulk())]),
        (
            "sync_in_parts",
            2,
            vec![
                batch(Lane::Urgent, 1, [true, true, false], urgent()),
                batch(Lane::Urgent, 2, [true, false, true], Vec::new()),
            ],
        ),
        ("version_1", 0, vec![batch(Lane::Urgent, 1, all, urgent()), batch(Lane::Bulk, 1, all, bulk())]),
        (
            "set_and_withdraw",
            2,
            vec![
                batch(Lane::Urgent, 1, all, Vec::new()),
                batch(Lane::Bulk, 1, all, Vec::new()),
                batch(Lane::Urgent, 2, [false; 3], urgent()),
                batch(Lane::Bulk, 2, [false; 3], bulk()),
                batch(Lane::Urgent, 3, [false; 3], gone(urgent_keys)),
                batch(Lane::Bulk, 3, [false; 3], gone(bulk_keys)),
            ],
        ),
        ("gap", 2, vec![batch(Lane::Urgent, 1, all, urgent()), batch(Lane::Urgent, 9, [false; 3], urgent())]),
        ("resync", 2, vec![Frame::Resync(Lane::Urgent), Frame::Resync(Lane::Bulk)]),
        ("ask", 2, vec![Frame::Ask(ask), Frame::Ask(ask_v6)]),
        ("reply", 2, vec![Frame::Reply(reply), Frame::Reply(refused)]),
        ("keepalive", 0xfe, vec![Frame::Keepalive(Keepalive { stamp: 5, echo: 1, delay_ms: 3 }); 5]),
        ("notice", 2, vec![Frame::Notice(notice)]),
    ];
    let mut seeds = Vec::new();
    for (name, mode, frames) in conversations {
        let octets: Vec<u8> = frames.iter().flat_map(Frame::encode).collect();
        seeds.push((name, [vec![mode, 0xff], octets].concat()));
    }
    seeds.push(("unknown_frame", vec![2, 0, 0, 0, 0, 3, 99, 0, 0, 0, 1, 2, 3]));
    seeds.push(("critical_frame", vec![2, 0, 0, 0, 0, 3, 99, 1, 0, 0, 1, 2, 3]));
    seeds.push(("too_long", vec![2, 0, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0]));
    seeds.push(("field_too_long", vec![2, 0, 0, 0, 0, 3, 6, 0, 0, 0, 1, 0xff, 0xff]));
    seeds.push(("empty", vec![2, 0]));
    seeds
}

/// The corpus holds the seeds as they are now; `PORTOLAN_WRITE_CORPUS=1` writes them.
#[test]
fn the_corpus_replays() {
    if std::env::var_os("PORTOLAN_WRITE_CORPUS").is_some() {
        std::fs::create_dir_all(FOLDER).unwrap();
        for (name, octets) in seeds() {
            std::fs::write(format!("{FOLDER}/{name}"), octets).unwrap();
        }
    }
    let corpus = corpus();
    for (name, octets) in seeds() {
        let kept = corpus.iter().find(|(other, _)| other == name);
        assert_eq!(kept.map(|(_, octets)| octets), Some(&octets), "{name}: the wire format changed");
    }
    for (name, octets) in &corpus {
        println!("{name}");
        for mode in 0..=16 {
            fuzz(&[&[mode, 0], octets.get(2..).unwrap_or_default()].concat());
        }
        fuzz(octets);
    }
}

/// `PORTOLAN_FUZZ_ROUNDS=10000000 cargo test --release -p portolan-peer --test fuzz` fuzzes for longer, and
/// `PORTOLAN_FUZZ_SEED` begins elsewhere.
#[test]
fn damaged_corpus() {
    let number = |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let seed = number("PORTOLAN_FUZZ_SEED", 1);
    println!("seed {seed}");
    let corpus = corpus();
    let mut rng = fastrand::Rng::with_seed(seed);
    for _ in 0..number("PORTOLAN_FUZZ_ROUNDS", 20_000) {
        let mut data = corpus[rng.usize(0..corpus.len())].1.clone();
        for _ in 0..=rng.usize(0..4) {
            let at = rng.usize(0..data.len().max(1));
            match rng.u8(0..7) {
                0 if at < data.len() => data[at] ^= 1 << rng.u8(0..8),
                1 if at < data.len() => data[at] = [0, 1, 2, 3, 0x7f, 0xff][rng.usize(0..6)],
                2 => data.truncate(at.max(2)),
                3 => data.insert(at.min(data.len()), rng.u8(..)),
                4 => data.extend_from_within(at.min(data.len())..),
                5 => data.extend((0..rng.usize(0..40)).map(|_| rng.u8(..))),
                _ => {
                    let other = &corpus[rng.usize(0..corpus.len())].1;
                    data.extend_from_slice(&other[rng.usize(0..=other.len())..]);
                }
            }
            data.truncate(8_192);
        }
        fuzz(&data);
    }
}

/// Every frame and claim comes back as it went, and no part of it is read as a whole.
#[test]
fn frames_come_back_as_they_went() {
    for (name, octets) in seeds() {
        let mut reader = portolan_peer::codec::Reader::new(65_536);
        reader.push(&octets[2..]);
        while let Ok(Some(frame)) = reader.next_octets() {
            let Ok(decoded) = portolan_peer::codec::decode(frame) else { continue };
            if !matches!(decoded.frame, Frame::Unknown(_)) {
                assert_eq!(decoded.frame.encode(), frame, "{name}");
            }
        }
        for end in 2..octets.len().min(12) {
            let mut bench = Bench::new(Limits::default());
            bench.connect();
            bench.send_octets(&octets[2..end]);
            assert_eq!(bench.status().counters.frames_in, 0, "{name}: {end}");
        }
    }
}
