//! Which clients were told of a short while ago: a small memory that may forget, so that one busy client does not
//! fill the queue.

use std::sync::atomic::{AtomicU64, Ordering};

/// A new client is told of so often …
const FIRST: u64 = 4;
/// … this far apart, in tenths of a second: its queries have to add up to 3 over a second (X) …
const FIRST_DS: u32 = 4;
/// … and then this far apart.
const LATER_DS: u32 = 300;
/// Whoever was not told of for so long is new again.
const FORGET_DS: u32 = 36_000;

/// One word a client: a tag (24 bits), how often it was told of (8), and when last (32, tenths of a second).
#[derive(Debug)]
pub(super) struct Told {
    words: Box<[AtomicU64]>,
}

impl Told {
    pub(super) fn new(entries: usize) -> Self {
        let entries = entries.clamp(1, 1 << 24).next_power_of_two();
        Self { words: (0..entries).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Whether this client may be told of now; if so, it counts as told of. Races only make for one more or less.
    pub(super) fn is_news(&self, key: u64, mono_ms: u64) -> bool {
        let Some(place) = self.words.get(key as usize & (self.words.len() - 1)) else { return false };
        let word = place.load(Ordering::Relaxed);
        let now_ds = (mono_ms / 100) as u32;
        let since_ds = now_ds.wrapping_sub(word as u32);
        let is_ours = word >> 40 == key >> 40 && since_ds < FORGET_DS;
        let count = if is_ours { word >> 32 & 0xff } else { 0 };
        if count > 0 && since_ds < if count < FIRST { FIRST_DS } else { LATER_DS } {
            return false;
        }
        let count = (count + 1).min(FIRST);
        place.store(key >> 40 << 40 | count << 32 | u64::from(now_ds), Ordering::Relaxed);
        true
    }
}
