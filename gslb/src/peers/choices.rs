//! Remembered choices (WP-C3) told to peers, at a bounded rate, and taken from them. Pure but for the loop around it.

use super::Line;
use crate::clock;
use crate::engine::{Engine, lock};
use portolan_balance::persist::Table;
use portolan_peer::{Claim, PersistenceEntry};
use std::collections::HashMap;
use std::sync::Weak;
use std::time::{Duration, Instant};

/// Choices told at a time.
const AT_ONCE: usize = 2_000;
/// Choices that are told at all; a client beyond them is remembered at its own node only.
const MOST: usize = 20_000;
/// Between two looks at the table; more where it is so large that looking takes its time.
const PAUSE: Duration = Duration::from_secs(1);
/// A look may take this share of the time.
const SHARE: u32 = 50;
/// A choice that was renewed is told again when this much is gained, or half of what it had.
const GAIN_S: u32 = 10;

/// What peers know of choices.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Key → fingerprint and end, told or heard.
    known: HashMap<u64, (u32, u32)>,
}

impl Shared {
    /// The choices that peers are to be told of, of all that are remembered.
    fn due(&mut self, now_s: u32, entries: impl Iterator<Item = (u64, u32, u32)>) -> Vec<PersistenceEntry> {
        self.known.retain(|_, (_, ends_s)| *ends_s > now_s);
        let mut due = Vec::new();
        for (key, fingerprint, left_s) in entries {
            let ends_s = now_s.saturating_add(left_s);
            let is_known = self.known.get(&key).is_some_and(|(known, until_s)| {
                let gain_s = ends_s.saturating_sub(*until_s);
                *known == fingerprint && gain_s < GAIN_S.max(until_s.saturating_sub(now_s) / 2)
            });
            if is_known || (self.known.len() >= MOST && !self.known.contains_key(&key)) {
                continue;
            }
            self.known.insert(key, (fingerprint, ends_s));
            due.push(PersistenceEntry { key, candidate: u64::from(fingerprint) << 40, left_s });
            if due.len() >= AT_ONCE {
                break;
            }
        }
        due
    }

    /// A peer told of a choice. The client may have chosen here meanwhile: that stays.
    pub(crate) fn heard(&mut self, table: &Table, now_s: u32, entry: &PersistenceEntry) {
        if table.get(entry.key, now_s).is_some() {
            return;
        }
        let ends_s = now_s.saturating_add(entry.left_s);
        table.put(entry.key, entry.candidate, ends_s);
        if self.known.len() < MOST {
            self.known.insert(entry.key, (Table::fingerprint(entry.candidate), ends_s));
        }
    }
}

/// Tells peers of choices until the engine ends.
pub(crate) async fn tell(engine: Weak<Engine>) {
    let mut pause = PAUSE;
    loop {
        tokio::time::sleep(pause).await;
        let Some(engine) = engine.upgrade() else { return };
        let Some(table) = engine.config().remembered.clone().filter(|_| engine.peers.is_open()) else {
            pause = PAUSE;
            continue;
        };
        let looked = tokio::task::spawn_blocking(move || {
            let begin = Instant::now();
            let now_s = clock::now().mono_s();
            let due = lock(&engine.choices).due(now_s, table.entries(now_s));
            publish(&engine.peers, due);
            begin.elapsed()
        });
        pause = looked.await.map_or(PAUSE, |took| PAUSE.max(took * SHARE));
    }
}

fn publish(line: &Line, due: Vec<PersistenceEntry>) {
    if due.is_empty() {
        return;
    }
    line.change(|mesh, now_ms| {
        for entry in due {
            let lifetime_ms = u64::from(entry.left_s) * 1000;
            // what finds no room is remembered here only
            let _ = mesh.publish(now_ms, Claim::Persistence(entry), Some(lifetime_ms));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_told_once_and_again_when_it_was_renewed() {
        let mut shared = Shared::default();
        let mut due =
            |now_s, left_s, fingerprint| shared.due(now_s, std::iter::once((7, fingerprint, left_s))).len();
        for (now_s, left_s, fingerprint, count) in [
            (100, 60, 1, 1),
            (101, 60, 1, 0),
            (105, 60, 1, 0),
            (130, 60, 1, 1),
            (131, 60, 2, 1),
            (131, 60, 2, 0),
            (300, 5, 2, 1),
        ] {
            assert_eq!(due(now_s, left_s, fingerprint), count, "at {now_s}");
        }
    }

    #[test]
    fn what_was_heard_is_not_told_back_and_own_choices_stay() {
        let (mut shared, table) = (Shared::default(), Table::new(64));
        table.put(1, 5 << 40, 200);
        for key in [1, 2] {
            shared.heard(&table, 100, &PersistenceEntry { key, candidate: 9 << 40, left_s: 60 });
        }
        assert_eq!((table.get(1, 100), table.get(2, 100)), (Some(5), Some(9)));
        let due = shared.due(100, table.entries(100));
        assert_eq!(due.iter().map(|entry| entry.key).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn there_are_bounds() {
        let mut shared = Shared::default();
        let all = || (0..100_000_u64).map(|key| (key, 1, 60));
        let mut told = 0;
        for _ in 0..100 {
            let count = shared.due(5, all()).len();
            assert!(count <= AT_ONCE);
            told += count;
        }
        assert_eq!(told, MOST);
    }
}
