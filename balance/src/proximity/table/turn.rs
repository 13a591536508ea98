//! What is done at the end of a window: close, expire, merge, split, coordinates; and groups, somewhat oftener.

use super::entries::{Entry, Measured, Part};
use super::judge::score_of;
use super::{Table, stamp};
use crate::proximity::estimator::Estimator;
use crate::proximity::medians::{Group, Member};
use crate::proximity::ranks::BLOCK_BITS;
use crate::proximity::{PointId, Prefix};
use std::collections::BTreeMap;

/// Members a prefix needs to have a covering row, and an operator to have its own.
const COVER_MEMBERS: usize = 2;
const OPERATOR_MEMBERS: usize = 5;
/// Prefixes that adjust the points' coordinates in one window.
const ADJUSTING: usize = 2_000;
/// Longest silence before a silent prefix is tried again (X).
pub(super) const SILENCE_S: u32 = 86_400;
/// Windows after which a part that is silent is no witness.
const IDLE: u8 = 12;
/// How many tolerances apart the parts of an entry are when they part: more than what made them one.
const PARTING: u32 = 2;

impl Table {
    /// Does what is due. After a window, what was measured in it or waits for it is judged anew.
    pub(super) fn turn(&mut self, now_ms: u64) {
        let now_s = stamp(now_ms);
        let window = self.window_of(now_ms);
        let is_window = u64::from(window) != self.window;
        if is_window {
            self.window = u64::from(window);
            self.close(now_s, window);
            self.split(now_s);
            self.merge(now_s);
            self.adjust(now_s);
        }
        let often_s = (self.settings.window_ms / 5_000).max(1) as u32;
        if self.news > 0 && (is_window || now_s.saturating_sub(self.grouped_s) >= often_s) {
            self.grouped_s = now_s;
            self.news = 0;
            self.group(now_s);
        }
        for number in std::mem::take(&mut self.dirty) {
            let Some(prefix) = self.entries.get(number).map(|entry| entry.prefix) else { continue };
            // ages move on with every window
            if self.judge(number, now_s, is_window) | is_window {
                self.mark_shard(prefix);
            }
        }
        if self.judge_offsets(now_s, is_window) {
            self.are_offsets_dirty = true;
        }
    }

    /// Closes windows and removes what is too old.
    fn close(&mut self, now_s: u32, window: u32) {
        let settings = self.settings;
        for number in self.entries.numbers() {
            let Some(entry) = self.entries.get_mut(number) else { continue };
            let mut is_news = entry.is_pending;
            for measured in &mut entry.measured {
                is_news |= measured.estimator.close(window);
                for part in &mut measured.parts {
                    part.close();
                }
            }
            // what was asked for and never came needs its memory for as long as it is not asked again
            let asked = |asked_s: u32| asked_s != 0 && now_s.saturating_sub(asked_s) < SILENCE_S;
            let is_silent = entry.silent > 0;
            let prefix = entry.prefix;
            let before = entry.measured.len();
            entry.measured.retain(|it| {
                let stays = it.estimator.is_live(now_s, &settings) || (is_silent && asked(it.asked_s));
                if !stays && it.is_queued {
                    self.telling.remove(&(prefix, it.point));
                }
                stays
            });
            is_news |= entry.measured.len() != before;
            let is_remembered = is_silent && now_s.saturating_sub(entry.silent_s) < SILENCE_S;
            if entry.measured.is_empty() && !is_remembered {
                self.remove(number);
                self.counters.expired += 1;
            } else if is_news {
                self.mark(number);
            }
        }
    }

    /// Merges equal siblings, longest first, so that what becomes one may go on with its own sibling.
    fn merge(&mut self, now_s: u32) {
        for shorter in 0..BLOCK_BITS {
            let firsts: Vec<Prefix> = self
                .entries
                .iter()
                .map(|entry| entry.prefix)
                .filter(|prefix| prefix.length() == self.base_length(prefix) - shorter)
                .filter(|prefix| prefix.sibling().is_some_and(|sibling| *prefix < sibling))
                .collect();
            for first in firsts {
                self.merge_pair(first, now_s);
            }
        }
    }

    fn merge_pair(&mut self, first: Prefix, now_s: u32) {
        let (Some(second), Some(parent)) = (first.sibling(), first.parent()) else { return };
        let number = |prefix: &Prefix| self.entries.within(*prefix).find(|it| it.0 == *prefix).map(|it| it.1);
        let (Some(a), Some(b)) = (number(&first), number(&second)) else { return };
        let (Some(left), Some(right)) = (self.entries.get(a), self.entries.get(b)) else { return };
        if !self.are_equal(left, right, now_s) {
            return;
        }
        let size = 1 << (self.base_length(&first) - first.length());
        let mut merged = Entry::new(parent, left.operators, self.points.len());
        merged.used_s = left.used_s.max(right.used_s);
        merged.shown.clone_from(&left.shown);
        for (l, r) in left.measured.iter().zip(&right.measured) {
            let mut both = l.clone();
            both.estimator = l.estimator.merged(&r.estimator);
            both.parts = [parts(l, size), parts(r, size)].concat();
            both.told_s = l.told_s.min(r.told_s);
            both.is_queued = false;
            merged.measured.push(both);
        }
        self.remove(a);
        self.remove(b);
        self.insert(merged);
        self.counters.merged += 1;
    }

    /// Whether two entries were measured from the same points, with scores that are equal.
    fn are_equal(&self, left: &Entry, right: &Entry, now_s: u32) -> bool {
        let settled = |entry: &Entry| {
            now_s >= entry.apart_until_s
                && !entry.is_anycast
                && entry.silent == 0
                && !entry.measured.is_empty()
                && entry.measured.iter().all(|it| !it.estimator.is_settling())
        };
        settled(left)
            && settled(right)
            && left.operators == right.operators
            && left.measured.len() == right.measured.len()
            && left.measured.iter().zip(&right.measured).all(|(l, r)| {
                let (a, b) = (score_of(&self.settings, &l.estimator), score_of(&self.settings, &r.estimator));
                l.point == r.point && a.zip(b).is_some_and(|(a, b)| self.settings.is_equal(a, b))
            })
            && left.shown.iter().zip(&right.shown).all(|(l, r)| match (l, r) {
                (Some(l), Some(r)) => self.settings.is_equal(l.us, r.us) || l.is_weak,
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            })
    }

    /// Parts entries whose parts differ, down to those that do not.
    fn split(&mut self, now_s: u32) {
        let mut numbers = self.entries.numbers();
        while let Some(number) = numbers.pop() {
            let Some(entry) = self.entries.get(number) else { continue };
            if !entry.measured.iter().any(|it| self.parts_differ(it)) {
                continue;
            }
            let Some(halves) = entry.prefix.halves() else { continue };
            let Some(entry) = self.remove(number) else { continue };
            for (side, prefix) in halves.into_iter().enumerate() {
                let half = self.half(&entry, side, prefix, now_s);
                numbers.push(self.insert(half));
            }
            self.counters.split += 1;
        }
    }

    fn parts_differ(&self, measured: &Measured) -> bool {
        let heard =
            || measured.parts.iter().filter(|it| it.mean_us != 0 && it.idle < IDLE).map(|it| it.mean_us);
        let (least, most) = (heard().min().unwrap_or(0), heard().max().unwrap_or(0));
        let band_us = (least as f32 * self.settings.band_percent / 100.0) as u32;
        most - least > self.settings.band_us.max(band_us) * PARTING
    }

    /// One half of an entry, with what was heard of it.
    fn half(&self, entry: &Entry, side: usize, prefix: Prefix, now_s: u32) -> Entry {
        let mut half = Entry { prefix, is_dirty: false, ..entry.clone() };
        half.apart_until_s = now_s + (self.settings.passive_ttl_ms / 1000) as u32;
        half.operators = self.operators_of(&prefix);
        for measured in &mut half.measured {
            let was = measured.estimator;
            let size = measured.parts.len() / 2;
            measured.parts = measured.parts.iter().skip(side * size).take(size).copied().collect();
            let heard = measured.parts.iter().map(|it| it.mean_us).filter(|it| *it != 0);
            let mut means: Vec<u32> = heard.collect();
            means.sort_unstable();
            if let Some(mean_us) = means.get(means.len() / 2) {
                measured.estimator = Estimator::with(*mean_us, was.samples / 2, was.source, was.seen_s);
                measured.estimator.hops = was.hops;
                measured.estimator.is_peers = was.is_peers;
            }
            if measured.parts.len() < 2 {
                measured.parts.clear();
            }
            measured.is_queued = false;
            // they have differed for a window already: what is shown follows at once
            if let Some(shown) = half.shown.get_mut(usize::from(measured.point.0)) {
                *shown = None;
            }
        }
        half
    }

    /// Lets well-measured prefixes pull at the points' coordinates.
    fn adjust(&mut self, now_s: u32) {
        let enough = crate::proximity::coordinates::ENOUGH + 1;
        let usable =
            || self.entries.iter().filter(|entry| entry.measured.len() >= enough && !entry.is_anycast);
        let stride = usable().count().div_ceil(ADJUSTING).max(1);
        // each window others, so that all have their say
        let first = self.window as usize % stride;
        let measured: Vec<Vec<(PointId, f32)>> = usable()
            .skip(first)
            .step_by(stride)
            .map(|entry| {
                let live = entry.measured.iter().filter(|it| it.estimator.is_live(now_s, &self.settings));
                live.filter_map(|it| it.estimator.value().map(|us| (it.point, us as f32 / 1000.0))).collect()
            })
            .collect();
        self.space.adjust(measured.iter().map(Vec::as_slice));
    }

    /// Makes the rows that stand for prefixes that were never measured.
    fn group(&mut self, now_s: u32) {
        let mut around = BTreeMap::<Prefix, Vec<Member>>::new();
        let mut of_operator = BTreeMap::<u32, Vec<Member>>::new();
        for entry in self.entries.iter().filter(|entry| !entry.is_anycast) {
            let live = entry.measured.iter().filter(|it| it.estimator.is_live(now_s, &self.settings));
            let member: Member =
                live.filter_map(|it| Some((it.point, self.steady_score(entry, it)?))).collect();
            if member.len() < 2 {
                continue;
            }
            if entry.operators != 0 {
                of_operator.entry(entry.operators).or_default().push(member.clone());
            }
            around.entry(self.block(entry.prefix)).or_default().push(member.clone());
            around.entry(self.wide(entry.prefix)).or_default().push(member);
        }
        let settings = self.settings;
        let covers = std::mem::take(&mut self.covers);
        self.covers = around
            .into_iter()
            .filter_map(|(prefix, members)| {
                Some((
                    prefix,
                    Group::of(&members, COVER_MEMBERS, &settings)?.steadied(covers.get(&prefix), &settings),
                ))
            })
            .collect();
        let changed: Vec<Prefix> = covers
            .keys()
            .chain(self.covers.keys())
            .filter(|prefix| covers.get(prefix) != self.covers.get(prefix))
            .copied()
            .collect();
        for prefix in changed {
            if self.is_in_block(&prefix) {
                self.mark_shard(prefix);
            } else {
                self.mark_within(prefix);
            }
        }
        let operators: BTreeMap<u32, Group> = of_operator
            .into_iter()
            .filter_map(|(value, members)| {
                let group = Group::of(&members, OPERATOR_MEMBERS, &settings)?;
                Some((value, group.steadied(self.operators.get(&value), &settings)))
            })
            .collect();
        let before = std::mem::replace(&mut self.operators, operators);
        self.is_wide_dirty |= before != self.operators;
        let waits = |entry: &&Entry| {
            entry.is_unmeasured(now_s, &settings)
                && before.get(&entry.operators) != self.operators.get(&entry.operators)
        };
        let waiting: Vec<Prefix> = self.entries.iter().filter(waits).map(|entry| entry.prefix).collect();
        for prefix in waiting {
            self.mark_shard(prefix);
        }
    }
}

/// The parts of one that is to be merged; itself where it has none.
fn parts(measured: &Measured, size: usize) -> Vec<Part> {
    if measured.parts.len() == size {
        return measured.parts.clone();
    }
    let mean_us = measured.estimator.value().unwrap_or(0);
    vec![Part { mean_us, ..Part::default() }; size]
}
