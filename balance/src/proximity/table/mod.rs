//! What was learned, in the control plane: bounded, aging, published for queries.
//!
//! ```text
//! observe, merge_peer, restore ─► entries ─┐  every window (`turn`): close, expire, merge, split, coordinates, groups
//!                                          ├─► judge: measured, else predicted, for each point ─► shown
//! set_static, set_excluded ────────────────┴─► build: the shards that changed ─► Ranks
//! ```

mod build;
mod entries;
mod judge;
mod peers;
mod turn;
mod wanted;

use super::coordinates::Space;
use super::medians::Group;
use super::ranks::{BLOCK_BITS, ORIGIN_S, SHARDS, block_key, shard_of};
use super::shown::Shown;
use super::{Cell, PointId, Points, Prefix, Ranks, Sample, Settings};
use crate::nets::{DIMS, Dim, Nets};
use entries::{Entries, Entry, Part};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

/// What became of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observed {
    /// The first of its prefix and point.
    New,
    /// Counted.
    Counted,
    /// Too far from the others to be believed yet.
    Outlier,
    /// A source that is trusted more has spoken lately.
    LessTrusted,
    /// The prefix is opted out or wider than an entry, or the point is not known.
    Refused,
}

/// A prefix that deserves measuring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Whose.
    pub prefix: Prefix,
    /// From where, most useful first.
    pub points: Vec<PointId>,
}

/// What the table did, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Samples taken.
    pub samples: u64,
    /// Attempts without an answer.
    pub lost: u64,
    /// Samples not believed.
    pub outliers: u64,
    /// Samples of a source that is trusted less than another.
    pub less_trusted: u64,
    /// Samples refused.
    pub refused: u64,
    /// Peers' cells taken.
    pub from_peers: u64,
    /// Peers' cells that found no room.
    pub peers_dropped: u64,
    /// Entries that gave way to others.
    pub evicted: u64,
    /// Entries that grew too old.
    pub expired: u64,
    /// Pairs of entries that became one.
    pub merged: u64,
    /// Entries that became two.
    pub split: u64,
    /// Scores shown anew.
    pub shown: u64,
}

/// The blocks and shards of one family that have something to publish.
#[derive(Debug)]
struct Blocks {
    by_shard: Vec<BTreeSet<Prefix>>,
    dirty: BTreeSet<usize>,
}

impl Blocks {
    fn new() -> Self {
        Self { by_shard: vec![BTreeSet::new(); SHARDS], dirty: BTreeSet::new() }
    }
}

/// Address to class, and class to the value of each dimension.
type Operators = (Arc<Nets>, Arc<[[u32; DIMS]]>);

/// The table.
#[derive(Debug)]
pub struct Table {
    settings: Settings,
    points: Points,
    /// By point: what stands for it where it measures nothing itself: a link's site, a site's links.
    beside: Vec<Vec<PointId>>,
    entries: Entries,
    /// Written by the operator: prefix and point → round-trip time.
    statics: BTreeMap<Prefix, BTreeMap<PointId, u32>>,
    excluded: BTreeSet<Prefix>,
    nets: Option<Operators>,
    /// By point: share of its bandwidth in use, and what is added to its scores.
    used: Vec<f32>,
    offsets: Vec<Option<Shown>>,
    space: Space,
    /// What stands for prefixes that were never measured.
    covers: BTreeMap<Prefix, Group>,
    operators: BTreeMap<u32, Group>,
    /// Entries to judge.
    dirty: Vec<u32>,
    blocks: [Blocks; 2],
    is_wide_dirty: bool,
    are_offsets_dirty: bool,
    /// Cells to tell peers of.
    telling: BTreeSet<(Prefix, PointId)>,
    /// The last one that was given out.
    told: Option<(Prefix, PointId)>,
    window: u64,
    /// When groups were last made, and how much came since.
    grouped_s: u32,
    news: u64,
    ranks: Ranks,
    budget: wanted::Budget,
    counters: Counters,
}

/// Seconds as the table counts them: what is older than the process has an age, too.
fn stamp(now_ms: u64) -> u32 {
    (now_ms / 1000) as u32 + ORIGIN_S
}

impl Table {
    /// An empty table.
    #[must_use]
    pub fn new(settings: Settings, points: Points) -> Self {
        let settings = settings.clamped();
        let count = points.len();
        Self {
            ranks: Ranks::new(settings.v4, settings.v6, count),
            space: Space::new(&points),
            settings,
            beside: points.beside(),
            points,
            entries: Entries::default(),
            statics: BTreeMap::new(),
            excluded: BTreeSet::new(),
            nets: None,
            used: vec![0.0; count],
            offsets: vec![None; count],
            covers: BTreeMap::new(),
            operators: BTreeMap::new(),
            dirty: Vec::new(),
            blocks: [Blocks::new(), Blocks::new()],
            is_wide_dirty: false,
            are_offsets_dirty: true,
            telling: BTreeSet::new(),
            told: None,
            window: 0,
            grouped_s: 0,
            news: 0,
            budget: wanted::Budget::UNLIMITED,
            counters: Counters::default(),
        }
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The points.
    #[must_use]
    pub fn points(&self) -> &Points {
        &self.points
    }

    /// Takes new settings and points after a reload; what is known of points that keep their name stays. Static
    /// entries and exclusions are to be set anew.
    pub fn reconfigure(&mut self, now_ms: u64, settings: Settings, points: Points) {
        let old = std::mem::replace(self, Self::new(settings, points));
        self.nets.clone_from(&old.nets);
        self.counters = old.counters;
        self.budget = old.budget;
        self.window = old.window;
        let cells: Vec<Cell> = old.entries(now_ms).collect();
        for cell in cells {
            let point = old.points.get(cell.point);
            let Some(point) = point.and_then(|it| self.points.find(&it.site, it.link.as_deref())) else {
                continue;
            };
            self.restore(now_ms, 0, Cell { point, ..cell });
        }
    }

    /// Where the operators of prefixes are looked up.
    pub fn set_nets(&mut self, nets: Arc<Nets>, classes: Arc<[[u32; DIMS]]>) {
        self.nets = Some((nets, classes));
        for number in self.entries.numbers() {
            let operators = self.entries.get(number).map(|entry| self.operators_of(&entry.prefix));
            if let (Some(entry), Some(operators)) = (self.entries.get_mut(number), operators) {
                entry.operators = operators;
            }
        }
        // values have another meaning now
        self.operators.clear();
        self.is_wide_dirty = true;
        self.news += 1;
        self.grouped_s = 0;
    }

    fn operators_of(&self, prefix: &Prefix) -> u32 {
        let Some((nets, classes)) = &self.nets else { return 0 };
        let mut consulted = [false; DIMS];
        consulted[Dim::Isp as usize] = true;
        let leaf = nets.lookup_prefix(prefix.address(), prefix.length(), consulted);
        classes.get(leaf.class.0 as usize).map_or(0, |class| class[Dim::Isp as usize])
    }

    /// How much of a point's bandwidth is in use, 0..=1 (PX1). What it adds to scores follows slowly, as they do.
    pub fn set_use(&mut self, point: PointId, share: f32) {
        if let Some(used) = self.used.get_mut(usize::from(point.0)) {
            *used = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        }
    }

    /// The prefix of the entry that an address belongs to, where there is none yet.
    fn base(&self, prefix: Prefix) -> Prefix {
        prefix.cut(self.base_length(&prefix))
    }

    fn base_length(&self, prefix: &Prefix) -> u8 {
        if prefix.is_v6() { self.settings.v6 } else { self.settings.v4 }
    }

    /// The block around a prefix; itself where it is shorter than a block.
    fn block(&self, prefix: Prefix) -> Prefix {
        prefix.cut(self.base_length(&prefix) - BLOCK_BITS)
    }

    fn is_in_block(&self, prefix: &Prefix) -> bool {
        prefix.length() >= self.base_length(prefix) - BLOCK_BITS
    }

    fn is_excluded(&self, prefix: &Prefix) -> bool {
        // a base length's worth of look-ups at most; most configs exclude little
        !self.excluded.is_empty()
            && (0..=prefix.length()).any(|length| self.excluded.contains(&prefix.cut(length)))
    }

    /// Takes a sample.
    pub fn observe(&mut self, now_ms: u64, sample: Sample) -> Observed {
        let (now_s, window) = (stamp(now_ms), self.window_of(now_ms));
        let prefix = self.base(sample.prefix);
        if self.points.get(sample.point).is_none()
            || !sample.source.is_measured()
            || self.is_excluded(&prefix)
            // of a network wider than an entry nobody knows whom the sample is of
            || (prefix.length() < self.base_length(&prefix) && self.entries.around(&prefix).is_none())
        {
            self.counters.refused += 1;
            return Observed::Refused;
        }
        let number = self.entry_for(prefix, now_s);
        let settings = self.settings;
        let Some(entry) = self.entries.get_mut(number) else { return Observed::Refused };
        let part = entry.prefix.part_of(&prefix);
        let is_merged = entry.prefix.length() < prefix.length();
        let size = 1 << (prefix.length() - entry.prefix.length());
        let Some(rtt_us) = sample.rtt_us else {
            self.counters.lost += 1;
            entry.of_mut(sample.point).estimator.lose();
            entry.silent = entry.silent.saturating_add(1);
            entry.silent_s = now_s;
            self.mark(number);
            return Observed::Counted;
        };
        entry.silent = 0;
        let measured = entry.of_mut(sample.point);
        if is_merged && measured.parts.is_empty() {
            measured.parts = vec![Part::default(); size];
        }
        if let Some(part) = measured.parts.get_mut(part) {
            part.observe(rtt_us);
        }
        // also a value that stays has an age to show
        let is_first = measured.estimator.window != window;
        let before = measured.estimator.value();
        let observed =
            measured.estimator.observe(now_s, window, rtt_us, sample.hops, sample.source, &settings);
        let is_news = is_first || before != measured.estimator.value() || measured.estimator.is_settling();
        match observed {
            Observed::New | Observed::Counted => self.counters.samples += 1,
            Observed::Outlier => self.counters.outliers += 1,
            Observed::LessTrusted => self.counters.less_trusted += 1,
            Observed::Refused => self.counters.refused += 1,
        }
        self.news += u64::from(observed == Observed::New);
        if is_news {
            self.mark(number);
        }
        observed
    }

    fn window_of(&self, now_ms: u64) -> u32 {
        // 0 is before the first one
        (now_ms / self.settings.window_ms) as u32 + 1
    }

    /// The entry that holds a prefix, made where there is none; used now.
    fn entry_for(&mut self, prefix: Prefix, now_s: u32) -> u32 {
        if let Some(number) = self.entries.around(&prefix) {
            self.entries.touch(number, now_s);
            return number;
        }
        let operators = self.operators_of(&prefix);
        let mut entry = Entry::new(prefix, operators, self.points.len());
        entry.used_s = now_s;
        self.insert(entry)
    }

    /// Adds an entry; the one used longest ago gives way where there is no room (PX3).
    fn insert(&mut self, entry: Entry) -> u32 {
        while self.entries.len() >= self.settings.entries {
            let Some(oldest) = self.entries.oldest() else { break };
            self.remove(oldest);
            self.counters.evicted += 1;
        }
        let block = self.block(entry.prefix);
        self.blocks[usize::from(block.is_v6())].by_shard[shard_of(block_key(block.bits()))].insert(block);
        let number = self.entries.insert(entry);
        self.mark(number);
        number
    }

    fn remove(&mut self, number: u32) -> Option<Entry> {
        let entry = self.entries.remove(number)?;
        for measured in entry.measured.iter().filter(|it| it.is_queued) {
            self.telling.remove(&(entry.prefix, measured.point));
        }
        self.mark_shard(entry.prefix);
        Some(entry)
    }

    /// To be judged before the next publication.
    fn mark(&mut self, number: u32) {
        if let Some(entry) = self.entries.get_mut(number)
            && !entry.is_dirty
        {
            entry.is_dirty = true;
            self.dirty.push(number);
        }
    }

    /// To be built before the next publication.
    fn mark_shard(&mut self, prefix: Prefix) {
        let block = self.block(prefix);
        self.blocks[usize::from(block.is_v6())].dirty.insert(shard_of(block_key(block.bits())));
    }

    /// Every shard with a block in a prefix that may be shorter than one.
    fn mark_within(&mut self, prefix: Prefix) {
        if self.is_in_block(&prefix) {
            return self.mark_shard(prefix);
        }
        self.is_wide_dirty = true;
        let Blocks { by_shard, dirty } = &mut self.blocks[usize::from(prefix.is_v6())];
        let has = |blocks: &BTreeSet<Prefix>| blocks.iter().any(|block| prefix.covers(block));
        dirty.extend(by_shard.iter().enumerate().filter(|(_, blocks)| has(blocks)).map(|(i, _)| i));
    }

    /// Notes that a block has something to publish beside entries.
    fn note_block(&mut self, prefix: Prefix) {
        let block = self.block(prefix);
        if self.is_in_block(&prefix) {
            let blocks = &mut self.blocks[usize::from(block.is_v6())];
            blocks.by_shard[shard_of(block_key(block.bits()))].insert(block);
        }
    }

    /// Writes a static entry (PX2): the round-trip time to go by, whatever is measured. False where the prefix is
    /// longer than entries are, or the point is not known.
    pub fn set_static(&mut self, prefix: Prefix, point: PointId, rtt_us: u32) -> bool {
        if self.base(prefix) != prefix || self.points.get(point).is_none() {
            return false;
        }
        self.statics.entry(prefix).or_default().insert(point, rtt_us);
        self.note_block(prefix);
        self.mark_within(prefix);
        true
    }

    /// Removes a static entry; false where there was none.
    pub fn remove_static(&mut self, prefix: Prefix, point: PointId) -> bool {
        let Some(points) = self.statics.get_mut(&prefix) else { return false };
        let was = points.remove(&point).is_some();
        if points.is_empty() {
            self.statics.remove(&prefix);
        }
        self.mark_within(prefix);
        was
    }

    /// The static entries: prefix, point and round-trip time.
    pub fn statics(&self) -> impl Iterator<Item = (Prefix, PointId, u32)> {
        self.statics
            .iter()
            .flat_map(|(prefix, points)| points.iter().map(|(point, rtt_us)| (*prefix, *point, *rtt_us)))
    }

    /// Prefixes that are neither measured nor ranked: opted out, or public resolvers (X). What was known of them is
    /// forgotten; one longer than entries are takes its whole entry with it.
    pub fn set_excluded(&mut self, prefixes: &[Prefix]) {
        let before = std::mem::take(&mut self.excluded);
        self.excluded = prefixes.iter().map(|prefix| self.base(*prefix)).collect();
        let changed: Vec<Prefix> = before.symmetric_difference(&self.excluded).copied().collect();
        for prefix in changed {
            if self.excluded.contains(&prefix) {
                self.forget(prefix);
            }
            self.note_block(prefix);
            self.mark_within(prefix);
        }
    }

    /// Forgets all that was measured of a prefix and within it; false where nothing was.
    pub fn forget(&mut self, prefix: Prefix) -> bool {
        let mut numbers: Vec<u32> = self.entries.within(prefix).map(|(_, number)| number).collect();
        numbers.extend(self.entries.around(&prefix));
        numbers.dedup();
        for number in &numbers {
            self.remove(*number);
        }
        !numbers.is_empty()
    }

    /// All that was measured, here and by peers: for `show`, and for the state file.
    pub fn entries(&self, now_ms: u64) -> impl Iterator<Item = Cell> {
        self.entries.iter().flat_map(move |entry| self.cells(entry, stamp(now_ms)))
    }

    fn cells<'a>(&'a self, entry: &'a Entry, now_s: u32) -> impl Iterator<Item = Cell> + 'a {
        entry.measured.iter().filter_map(move |it| {
            let estimator = &it.estimator;
            Some(Cell {
                prefix: entry.prefix,
                point: it.point,
                rtt_us: estimator.value().filter(|_| estimator.is_live(now_s, &self.settings))?,
                loss_permille: estimator.loss_permille(),
                hops: estimator.hops,
                samples: estimator.samples,
                source: estimator.source,
                is_peers: estimator.is_peers,
                confidence: estimator.confidence(now_s, &self.settings),
                age_s: now_s.saturating_sub(estimator.seen_s),
            })
        })
    }

    /// How many prefixes it knows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it knows none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All cells of the entry around an address: for `explain` and `proximity show`.
    #[must_use]
    pub fn cells_of(&self, now_ms: u64, address: IpAddr) -> Vec<Cell> {
        let number = self.entries.around(&self.base(Prefix::new(address, u8::MAX)));
        let entry = number.and_then(|number| self.entries.get(number));
        entry.map_or_else(Vec::new, |entry| self.cells(entry, stamp(now_ms)).collect())
    }

    /// The counters.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    #[cfg(test)]
    fn check_invariants(&self) {
        self.entries.check_invariants();
        assert!(self.len() <= self.settings.entries);
        assert!(self.telling.len() <= self.entries.len() * self.points.len());
    }
}

#[cfg(test)]
mod tests;
