//! Whom to ask to come by TCP (X 3), remembered without a lock.
//!
//! An entry is one word: a tag of its prefix (30 bits), a state (2), and the second at which it was asked (32).
//!
//! ```text
//!   free ──may_ask──► Asked ── a query over TCP ──► Came
//!    ▲ 24 h ────────────┘                            │
//!    └ every_s ──────────────────────────────────────┘
//! ```
//! An entry that is not free is never given up, so nobody is asked twice within its time; where all places are taken
//! nobody is asked. Two prefixes that look alike are one: then one of them is asked less, never more.

use std::sync::atomic::{AtomicU64, Ordering};

/// A handshake this long after the question is its answer.
const ANSWER_S: u32 = 600;
/// Whoever did not come may not be able to, and pays for each attempt with a query that fails: not for a day.
const ASKED_S: u32 = 86_400;
/// Entries that a prefix may use: one cache line.
const WAYS: usize = 8;

const ASKED: u64 = 1;
const CAME: u64 = 2;
const STATE: u64 = 3 << 32;

/// The prefixes that were asked.
#[derive(Debug)]
pub(super) struct Solicit {
    groups: Box<[[AtomicU64; WAYS]]>,
}

impl Solicit {
    pub(super) fn new(entries: usize) -> Self {
        let groups = (entries.clamp(WAYS, 1 << 24) / WAYS).next_power_of_two();
        Self { groups: (0..groups).map(|_| Default::default()).collect() }
    }

    /// Whether this prefix may be asked now; if so, it counts as asked.
    pub(super) fn may_ask(&self, key: u64, now_s: u32, every_s: u32) -> bool {
        let Some((group, tag)) = self.group(key) else { return false };
        let word = tag | ASKED << 32 | u64::from(now_s);
        let mut place = None;
        for way in group {
            let found = way.load(Ordering::Relaxed);
            let is_free = is_free(found, now_s, every_s);
            if is_ours(found, tag) && !is_free {
                return false;
            }
            if is_free && (place.is_none() || is_ours(found, tag)) {
                place = Some((way, found));
            }
        }
        let Some((way, before)) = place else { return false };
        if way.compare_exchange(before, word, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return false;
        }
        // another worker may have found another place for the same prefix
        let is_alone = group
            .iter()
            .filter(|other| !std::ptr::eq(*other, way))
            .map(|other| other.load(Ordering::Acquire))
            .all(|other| !is_ours(other, tag) || is_free(other, now_s, every_s));
        if !is_alone {
            let _ = way.compare_exchange(word, before, Ordering::AcqRel, Ordering::Relaxed);
        }
        is_alone
    }

    /// A query of this prefix came by TCP. True where it had been asked to.
    pub(super) fn came(&self, key: u64, now_s: u32, every_s: u32) -> bool {
        self.find(key, now_s, every_s).is_some_and(|(way, word)| {
            let came = word & !STATE | CAME << 32;
            word & STATE == ASKED << 32
                && way.compare_exchange(word, came, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })
    }

    /// Whether this prefix was asked within the last minutes.
    pub(super) fn has_asked(&self, key: u64, now_s: u32, every_s: u32) -> bool {
        self.find(key, now_s, every_s).is_some_and(|(_, word)| now_s.wrapping_sub(word as u32) < ANSWER_S)
    }

    fn find(&self, key: u64, now_s: u32, every_s: u32) -> Option<(&AtomicU64, u64)> {
        let (group, tag) = self.group(key)?;
        let words = group.iter().map(|way| (way, way.load(Ordering::Acquire)));
        words.into_iter().find(|(_, word)| is_ours(*word, tag) && !is_free(*word, now_s, every_s))
    }

    /// Where a prefix may be, and its tag in the word's upper bits.
    fn group(&self, key: u64) -> Option<(&[AtomicU64; WAYS], u64)> {
        let group = self.groups.get(key as usize & (self.groups.len() - 1))?;
        Some((group, key >> 34 << 34))
    }
}

const fn is_ours(word: u64, tag: u64) -> bool {
    word & STATE != 0 && word >> 34 == tag >> 34
}

/// Whoever came is asked again after `every_s`.
const fn is_free(word: u64, now_s: u32, every_s: u32) -> bool {
    let age_s = now_s.wrapping_sub(word as u32);
    match (word & STATE) >> 32 {
        ASKED => age_s >= ASKED_S,
        CAME => age_s >= every_s,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn one_prefix_through_its_day() {
        let solicit = Solicit::new(64);
        let key = 0x1234_5678_9abc_def0;
        // second, what happens, what comes of it
        let may_ask = |now_s| solicit.may_ask(key, now_s, 600);
        assert!(!solicit.came(key, 5, 600) && !solicit.has_asked(key, 5, 600));
        assert!(may_ask(10) && !may_ask(10) && !may_ask(609) && !may_ask(86_409));
        assert!(solicit.has_asked(key, 609, 600) && !solicit.has_asked(key, 610, 600));
        assert!(may_ask(86_410));
        assert!(solicit.came(key, 86_411, 600) && !solicit.came(key, 86_412, 600));
        assert!(!may_ask(87_009) && may_ask(87_010));
        // a failure may turn out to be none
        assert!(!may_ask(90_000) && solicit.came(key, 90_000, 600) && may_ask(90_000));
    }

    #[test]
    fn a_full_group_asks_nobody_new() {
        let solicit = Solicit::new(8);
        let asked = (1..=20_u64).filter(|tag| solicit.may_ask(tag << 34, 100, 600)).count();
        assert_eq!(asked, WAYS);
        assert!(solicit.came(1 << 34, 100, 600));
        assert!(!solicit.may_ask(20 << 34, 699, 600) && solicit.may_ask(20 << 34, 700, 600));
    }

    #[test]
    fn of_many_workers_one_asks() {
        let solicit = Solicit::new(64);
        let (asked, barrier) = (AtomicUsize::new(0), std::sync::Barrier::new(4));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..500_u64 {
                        barrier.wait();
                        if solicit.may_ask(round << 34, 86_400 * round as u32, 600) {
                            asked.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        let asked = asked.into_inner();
        assert!((450..=500).contains(&asked), "{asked}");
    }
}
