//! Operators' words: forced state, drain and resume as objects that every node repeats (T7, case H17).
//!
//! Each node claims the word that holds for a target, whoever spoke it. The greater (revision, origin) wins, so all
//! nodes come to the same whatever the order (case P08). No node leads (case P09).

use std::collections::BTreeMap;

use crate::claim::{Act, Word};

/// Most targets with a word.
const MAX_WORDS: usize = 4_096;

/// What became of a word that was heard.
#[derive(Debug, PartialEq)]
pub(crate) enum Merged {
    /// It holds now, and is repeated.
    Adopted,
    /// It holds already, or is older.
    Known,
    /// It and the one held were spoken without knowledge of each other. The first holds.
    Conflict(Box<Word>, Box<Word>),
    /// There are too many.
    Full,
}

/// The words that hold.
#[derive(Default)]
pub(crate) struct Words {
    held: BTreeMap<String, (Word, u64)>,
    /// Target → the word that last lost against the one that holds, so that it is told once.
    dropped: BTreeMap<String, Word>,
}

impl Words {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Word> {
        self.held.values().map(|(word, _)| word).filter(|word| word.act != Act::Lift)
    }

    pub(crate) fn get(&self, target: &str) -> Option<&Word> {
        self.held.get(target).map(|(word, _)| word)
    }

    /// Makes `word` newer than what is held of its target, and holds it; false where there are too many.
    pub(crate) fn speak(&mut self, now_ms: u64, word: &mut Word) -> bool {
        if let Some((old, until_ms)) = self.held.get(&word.target) {
            word.revision = old.revision.saturating_add(1);
            word.base = if old.origin == word.origin { old.base } else { old.revision };
            // it must outlive what it replaces, or that would come back from a node that was away
            let left_s = until_ms.saturating_sub(now_ms).div_ceil(1000);
            if word.act == Act::Lift {
                word.left_s = word.left_s.max(u32::try_from(left_s).unwrap_or(u32::MAX));
            }
        } else {
            (word.revision, word.base) = (1, 0);
        }
        self.hold(now_ms, word.clone())
    }

    fn hold(&mut self, now_ms: u64, word: Word) -> bool {
        let has_room = self.held.len() < MAX_WORDS || self.held.contains_key(&word.target);
        if has_room {
            let until_ms = now_ms.saturating_add(u64::from(word.left_s) * 1000);
            self.held.insert(word.target.clone(), (word, until_ms));
        }
        has_room
    }

    /// Hears a word from a peer.
    pub(crate) fn merge(&mut self, now_ms: u64, word: &Word) -> Merged {
        let Some((held, _)) = self.held.get(&word.target) else {
            let has_room = word.left_s > 0 && self.hold(now_ms, word.clone());
            return if has_room { Merged::Adopted } else { Merged::Full };
        };
        let held = held.clone();
        let is_newer = (word.revision, &word.origin) > (held.revision, &held.origin);
        let (newer, older) = if is_newer { (word, &held) } else { (&held, word) };
        let is_apart = newer.origin != older.origin && older.revision > newer.base;
        let is_told = self.dropped.get(&word.target).is_some_and(|told| is_same(told, older));
        let conflict = (is_apart && !is_told).then(|| (newer.clone(), older.clone()));
        if let Some((_, older)) = &conflict {
            self.dropped.insert(older.target.clone(), older.clone());
        }
        if is_newer {
            self.hold(now_ms, word.clone());
        }
        match (conflict, is_newer) {
            (Some((kept, dropped)), _) => Merged::Conflict(Box::new(kept), Box::new(dropped)),
            (None, true) => Merged::Adopted,
            (None, false) => Merged::Known,
        }
    }

    /// The targets whose word no longer holds.
    pub(crate) fn expire(&mut self, now_ms: u64) -> Vec<String> {
        let over = self.held.iter().filter(|(_, (_, until_ms))| *until_ms <= now_ms);
        let over: Vec<_> = over.map(|(target, _)| target.clone()).collect();
        for target in &over {
            self.held.remove(target);
            self.dropped.remove(target);
        }
        over
    }

    pub(crate) fn deadline(&self) -> Option<u64> {
        self.held.values().map(|(_, until_ms)| *until_ms).min()
    }
}

/// Whether both are the same speech: how long it still holds differs from node to node.
fn is_same(left: &Word, right: &Word) -> bool {
    (left.revision, &left.origin) == (right.revision, &right.origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(act: Act, origin: &str) -> Word {
        Word {
            target: "fra1/www".into(),
            act,
            origin: origin.into(),
            author: "ops".into(),
            reason: "maintenance".into(),
            revision: 0,
            base: 0,
            left_s: 60,
        }
    }

    #[test]
    fn the_same_word_holds_whatever_the_order() {
        let (mut a, mut b) = (Words::default(), Words::default());
        let (mut drain, mut force) = (word(Act::Drain, "a"), word(Act::ForceUp, "b"));
        assert!(a.speak(0, &mut drain) && b.speak(0, &mut force));
        let conflict = Merged::Conflict(Box::new(force.clone()), Box::new(drain.clone()));
        assert_eq!(a.merge(5, &force), conflict, "found where the word is dropped");
        assert_eq!(b.merge(5, &drain), conflict, "and where it is kept");
        assert_eq!(a.iter().collect::<Vec<_>>(), b.iter().collect::<Vec<_>>());
        assert_eq!(a.merge(6, &force), Merged::Known);
    }

    #[test]
    fn a_word_upon_a_known_word_is_no_conflict() {
        let (mut a, mut b) = (Words::default(), Words::default());
        let (mut drain, mut lift) = (word(Act::Drain, "a"), word(Act::Lift, "b"));
        assert!(a.speak(0, &mut drain));
        assert_eq!(b.merge(0, &drain), Merged::Adopted);
        lift.left_s = 1;
        assert!(b.speak(10_000, &mut lift));
        assert_eq!((lift.revision, lift.base, lift.left_s), (2, 1, 50), "outlives what it lifts");
        assert_eq!(a.merge(10_000, &lift), Merged::Adopted);
        assert_eq!(a.iter().count(), 0, "lifted");
        assert_eq!(a.merge(10_001, &drain), Merged::Known, "and does not come back");
    }

    #[test]
    fn several_words_in_a_row_still_conflict_with_one_they_did_not_know() {
        let (mut a, mut b) = (Words::default(), Words::default());
        let mut last = word(Act::Drain, "a");
        for _ in 0..3 {
            assert!(a.speak(0, &mut last));
        }
        let mut other = word(Act::ForceDown, "b");
        assert!(b.speak(0, &mut other));
        assert!(matches!(b.merge(0, &last), Merged::Conflict(kept, _) if *kept == last));
    }

    #[test]
    fn words_end() {
        let mut words = Words::default();
        assert!(words.speak(1_000, &mut word(Act::Drain, "a")));
        assert_eq!(words.deadline(), Some(61_000));
        assert_eq!(words.expire(60_999), [""; 0]);
        assert_eq!(words.expire(61_000), ["fra1/www"]);
    }
}
