//! When a prefix may be probed next: the interval between rounds, and the back-off of the silent (case G14).

use std::collections::{BTreeSet, HashMap};

use portolan_balance::proximity::Prefix;

use super::{Limits, Refusal};

/// Doublings of the interval beyond which any back-off is at its longest.
const DOUBLINGS: u32 = 30;

/// How a prefix stands, for `explain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Rounds without an answer, since the last with one.
    pub silent_rounds: u32,
    /// When the last round began.
    pub began_ms: u64,
    /// When the next one may begin.
    pub free_ms: u64,
}

/// What was probed, and until when it is left alone. No entry is given up before that, so the limits hold whatever
/// comes; a full table refuses.
#[derive(Debug, Default)]
pub(super) struct Holds {
    all: HashMap<Prefix, Standing>,
    by_end: BTreeSet<(u64, Prefix)>,
}

impl Holds {
    pub(super) fn get(&self, prefix: &Prefix) -> Option<Standing> {
        self.all.get(prefix).copied()
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Why this prefix cannot be probed now.
    pub(super) fn check(&self, now_ms: u64, prefix: &Prefix, limits: &Limits) -> Result<(), Refusal> {
        match self.all.get(prefix) {
            Some(held) if now_ms >= held.free_ms => Ok(()),
            Some(held) if held.silent_rounds >= limits.silent_rounds => Err(Refusal::BackedOff),
            Some(_) => Err(Refusal::TooSoon),
            None if self.has_room(now_ms, limits) => Ok(()),
            None => Err(Refusal::TableFull),
        }
    }

    /// A round begins.
    pub(super) fn begin(&mut self, now_ms: u64, prefix: Prefix, limits: &Limits) -> Result<(), Refusal> {
        self.check(now_ms, &prefix, limits)?;
        let silent_rounds = self.all.get(&prefix).map_or(0, |held| held.silent_rounds);
        if !self.all.contains_key(&prefix) && self.all.len() >= limits.prefixes {
            // the one that could have been probed again for the longest time
            if let Some((_, oldest)) = self.by_end.pop_first() {
                self.all.remove(&oldest);
            }
        }
        self.put(prefix, Standing { silent_rounds, began_ms: now_ms, free_ms: now_ms + limits.interval_ms });
        Ok(())
    }

    /// A round has ended.
    pub(super) fn end(&mut self, prefix: Prefix, has_answered: bool, limits: &Limits) {
        let Some(held) = self.get(&prefix) else { return };
        let silent_rounds = if has_answered { 0 } else { held.silent_rounds.saturating_add(1) };
        let wait_ms = wait_ms(silent_rounds, limits);
        self.put(prefix, Standing { silent_rounds, free_ms: held.began_ms.saturating_add(wait_ms), ..held });
    }

    fn has_room(&self, now_ms: u64, limits: &Limits) -> bool {
        self.all.len() < limits.prefixes || self.by_end.first().is_some_and(|(free_ms, _)| *free_ms <= now_ms)
    }

    fn put(&mut self, prefix: Prefix, held: Standing) {
        if let Some(before) = self.all.insert(prefix, held) {
            self.by_end.remove(&(before.free_ms, prefix));
        }
        self.by_end.insert((held.free_ms, prefix));
    }
}

/// From one round to the next: the interval, doubled with each silent round from the third on, up to a day.
fn wait_ms(silent_rounds: u32, limits: &Limits) -> u64 {
    let doublings = (silent_rounds + 1).saturating_sub(limits.silent_rounds.max(1)).min(DOUBLINGS);
    let longest_ms = limits.longest_ms.max(limits.interval_ms);
    limits.interval_ms.saturating_mul(1 << doublings).min(longest_ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proximity::prefix::text::prefix;

    #[test]
    fn silence_is_left_alone_for_longer_and_longer() {
        let limits = Limits::default();
        let prefix = prefix("5.6.7.0/24");
        let mut holds = Holds::default();
        let mut now_ms = 77;
        let mut waits_min = Vec::new();
        for _ in 0..12 {
            holds.begin(now_ms, prefix, &limits).unwrap();
            assert!(holds.begin(now_ms + 599_999, prefix, &limits).is_err());
            holds.end(prefix, false, &limits);
            let free_ms = holds.get(&prefix).unwrap().free_ms;
            waits_min.push((free_ms - now_ms) / 60_000);
            let refusal = holds.check(free_ms - 1, &prefix, &limits).unwrap_err();
            assert_eq!(refusal == Refusal::BackedOff, waits_min.len() >= 3, "{waits_min:?}");
            now_ms = free_ms;
        }
        assert_eq!(waits_min, [10, 10, 20, 40, 80, 160, 320, 640, 1280, 1440, 1440, 1440]);
        // an answer ends it
        holds.begin(now_ms, prefix, &limits).unwrap();
        holds.end(prefix, true, &limits);
        assert_eq!(
            holds.get(&prefix),
            Some(Standing { silent_rounds: 0, began_ms: now_ms, free_ms: now_ms + 600_000 })
        );
    }

    #[test]
    fn a_full_table_forgets_only_who_is_free() {
        let limits = Limits { prefixes: 2, ..Limits::default() };
        let prefix = |n: u8| prefix(&format!("5.6.{n}.0/24"));
        let mut holds = Holds::default();
        holds.begin(0, prefix(1), &limits).unwrap();
        holds.begin(10, prefix(2), &limits).unwrap();
        assert_eq!(holds.begin(599_999, prefix(3), &limits), Err(Refusal::TableFull));
        assert_eq!(holds.begin(600_000, prefix(3), &limits), Ok(()));
        assert_eq!(holds.get(&prefix(1)), None);
        assert_eq!(holds.begin(600_000, prefix(2), &limits), Err(Refusal::TooSoon));
        assert_eq!(holds.begin(600_010, prefix(2), &limits), Ok(()));
        assert_eq!((holds.len(), holds.by_end.len()), (2, 2));
    }
}
