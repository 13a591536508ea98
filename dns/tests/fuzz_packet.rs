//! Replays the packet corpus, and what becomes of it under seeded damage.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use portolan_dns::fuzz::fuzz_packet;

fn corpus() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/packet");
    let mut names: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    names.iter().map(|name| std::fs::read(name).unwrap()).collect()
}

#[test]
fn the_corpus_replays() {
    let corpus = corpus();
    assert!(corpus.len() > 20);
    for data in &corpus {
        for settings in 0..16 {
            let mut data = data.clone();
            data[0] = settings;
            fuzz_packet(&data);
        }
    }
}

/// `PORTOLAN_FUZZ_ROUNDS=10000000 cargo test --release -p portolan-dns --test fuzz_packet` fuzzes for longer, and
/// `PORTOLAN_FUZZ_SEED` begins elsewhere.
#[test]
fn damaged_corpus() {
    let number = |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let seed = number("PORTOLAN_FUZZ_SEED", 1);
    println!("seed {seed}");
    let corpus = corpus();
    let mut state = seed;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below.max(1)
    };
    for _ in 0..number("PORTOLAN_FUZZ_ROUNDS", 20_000) {
        let mut data = corpus[random(corpus.len())].clone();
        for _ in 0..=random(4) {
            let at = random(data.len());
            match random(6) {
                0 => data[at] ^= 1 << random(8),
                1 => data[at] = [0, 1, 0x3f, 0x40, 0xc0, 0xff, b'*'][random(7)],
                2 => data.truncate(at.max(1)),
                3 => data.insert(at, random(256) as u8),
                4 => data.extend_from_within(at..),
                _ => {
                    let other = &corpus[random(corpus.len())];
                    data.extend_from_slice(&other[random(other.len())..]);
                }
            }
            data.truncate(4096);
        }
        fuzz_packet(&data);
    }
}
