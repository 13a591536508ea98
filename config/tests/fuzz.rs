//! The committed corpus, and damaged copies of it, never panic the loader.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use portolan_config::fuzz::fuzz_config;

fn corpus() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/config");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| std::fs::read(path).unwrap()).collect()
}

#[test]
fn the_corpus_replays() {
    let corpus = corpus();
    assert!(corpus.len() >= 5, "{} files", corpus.len());
    corpus.iter().for_each(|data| fuzz_config(data));
}

/// `PORTOLAN_SEEDS=100000` tries more.
#[test]
fn damaged_configs_never_panic() {
    let corpus = corpus();
    let seeds = std::env::var("PORTOLAN_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(300_u64);
    for seed in 0..seeds {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % below.max(1) as u64) as usize
        };
        let mut data = corpus[next(corpus.len())].clone();
        for _ in 0..=next(8) {
            if data.is_empty() {
                break;
            }
            let at = next(data.len());
            match next(4) {
                0 => data[at] = next(256) as u8,
                1 => {
                    data.remove(at);
                }
                2 => data.insert(at, b"\"[]{}=.,/-0\n\xff"[next(13)]),
                _ => {
                    let to = (at + next(40)).min(data.len());
                    let piece = data[at..to].to_vec();
                    let into = next(data.len());
                    data.splice(into..into, piece);
                }
            }
        }
        let result = std::panic::catch_unwind(|| fuzz_config(&data));
        assert!(result.is_ok(), "seed {seed}: {}", String::from_utf8_lossy(&data));
    }
}
