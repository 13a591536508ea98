//! Remembered choices: a bounded, lock-free, set-associative table.
//!
//! An entry is two words. `tag` is the whole key; `body` is expiry (32 bits, seconds), a check of the key
//! (8 bits) and the candidate's fingerprint (24 bits). A reader takes an entry only where tag and check agree,
//! so a torn pair of writes reads as a miss. A full bucket loses the entry that expires first.

use std::sync::atomic::{AtomicU64, Ordering};

const WAYS: usize = 4;

#[derive(Debug, Default)]
struct Entry {
    tag: AtomicU64,
    body: AtomicU64,
}

/// The table; shared by all threads, kept over reloads.
#[derive(Debug)]
pub struct Table {
    buckets: Box<[[Entry; WAYS]]>,
}

impl Table {
    /// A table for about `entries` choices (16 bytes each), at least 64 and at most 16 Mi.
    #[must_use]
    pub fn new(entries: usize) -> Self {
        let buckets = (entries.clamp(64, 1 << 24) / WAYS).next_power_of_two();
        Self { buckets: (0..buckets).map(|_| Default::default()).collect() }
    }

    /// How many choices fit.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.buckets.len() * WAYS
    }

    /// The 24 bits by which a candidate is remembered.
    #[must_use]
    pub fn fingerprint(candidate: u64) -> u32 {
        (candidate >> 40) as u32
    }

    fn bucket(&self, key: u64) -> &[Entry; WAYS] {
        &self.buckets[(key as usize) & (self.buckets.len() - 1)]
    }

    /// The fingerprint remembered for `key`, if it is not older than its expiry.
    #[must_use]
    pub fn get(&self, key: u64, now_s: u32) -> Option<u32> {
        self.bucket(key).iter().find_map(|entry| {
            let (tag, body) = (entry.tag.load(Ordering::Acquire), entry.body.load(Ordering::Acquire));
            let live = tag == key && body >> 24 & 0xff == check(key) && (body >> 32) as u32 > now_s;
            live.then_some(body as u32 & 0xff_ffff)
        })
    }

    /// Remembers `candidate` for `key` until `expires_s`.
    pub fn put(&self, key: u64, candidate: u64, expires_s: u32) {
        let body = u64::from(expires_s) << 32 | check(key) << 24 | u64::from(Self::fingerprint(candidate));
        let bucket = self.bucket(key);
        let slot = bucket
            .iter()
            .find(|entry| entry.tag.load(Ordering::Relaxed) == key)
            .or_else(|| bucket.iter().min_by_key(|entry| entry.body.load(Ordering::Relaxed) >> 32));
        if let Some(slot) = slot {
            slot.tag.store(key, Ordering::Release);
            slot.body.store(body, Ordering::Release);
        }
    }

    /// Every choice that has not expired, for saving: key, fingerprint, and the seconds it is still kept. A candidate
    /// `u64::from(fingerprint) << 40` puts it back.
    pub fn entries(&self, now_s: u32) -> impl Iterator<Item = (u64, u32, u32)> {
        self.buckets.iter().flatten().filter_map(move |entry| {
            let (tag, body) = (entry.tag.load(Ordering::Acquire), entry.body.load(Ordering::Acquire));
            let left_s = ((body >> 32) as u32).checked_sub(now_s).filter(|left| *left > 0)?;
            (body >> 24 & 0xff == check(tag)).then_some((tag, body as u32 & 0xff_ffff, left_s))
        })
    }

    /// Number of choices that have not expired (walks the table).
    #[must_use]
    pub fn live(&self, now_s: u32) -> usize {
        let entries = self.buckets.iter().flatten();
        entries.filter(|entry| (entry.body.load(Ordering::Relaxed) >> 32) as u32 > now_s).count()
    }
}

/// Bits of the key that its bucket does not already say.
fn check(key: u64) -> u64 {
    key >> 56
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::mix;

    #[test]
    fn remembers_until_expiry_and_stays_bounded() {
        let table = Table::new(1000);
        let capacity = table.capacity();
        for i in 0..10_000_u64 {
            table.put(mix(1, i), mix(2, i), 100);
        }
        assert!(table.live(0) <= capacity);
        let kept =
            (0..10_000).filter(|&i| table.get(mix(1, i), 99) == Some(Table::fingerprint(mix(2, i)))).count();
        assert!(kept > capacity * 9 / 10, "{kept} of {capacity}");
        assert_eq!((0..10_000).filter(|&i| table.get(mix(1, i), 100).is_some()).count(), 0);
        // saved and put back it answers the same
        let other = Table::new(1000);
        for (key, fingerprint, left_s) in table.entries(90) {
            other.put(key, u64::from(fingerprint) << 40, left_s);
        }
        assert!((0..10_000).all(|i| other.get(mix(1, i), 9) == table.get(mix(1, i), 99)));
        assert_eq!((other.live(10), table.entries(100).count()), (0, 0));
    }

    #[test]
    fn the_one_that_expires_first_gives_way() {
        let table = Table::new(64);
        let same_bucket = |i: u64| i << 32 | 5;
        for i in 0..4 {
            table.put(same_bucket(i), i << 40, 100 + i as u32);
        }
        table.put(same_bucket(9), 9 << 40, 200);
        assert_eq!(table.get(same_bucket(0), 50), None);
        assert_eq!(table.get(same_bucket(9), 50), Some(9));
        assert_eq!(table.get(same_bucket(3), 50), Some(3));
    }

    #[test]
    fn concurrent_writers_never_mix_candidates_up() {
        let table = Table::new(64);
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let table = &table;
                scope.spawn(move || {
                    for i in 0..20_000_u64 {
                        let key = mix(i % 97, thread % 2);
                        table.put(key, key, 10);
                        if let Some(found) = table.get(key, 0) {
                            assert_eq!(found, Table::fingerprint(key));
                        }
                    }
                });
            }
        });
    }
}
