//! What was learned, in the control plane: bounded, aging, published for queries.

use super::{Cell, PointId, Points, Prefix, Ranks, Sample, Settings};
use crate::nets::{DIMS, Nets};
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
    /// The prefix is opted out, or the point is not known.
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

/// The table.
#[derive(Debug)]
pub struct Table {
    settings: Settings,
    points: Points,
    counters: Counters,
}

impl Table {
    /// An empty table.
    #[must_use]
    pub fn new(settings: Settings, points: Points) -> Self {
        Self { settings: settings.clamped(), points, counters: Counters::default() }
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

    /// Takes new settings and points after a reload; what is known of points that keep their name stays.
    pub fn reconfigure(&mut self, settings: Settings, points: Points) {
        self.settings = settings.clamped();
        self.points = points;
    }

    /// Where the operators of prefixes are looked up.
    pub fn set_nets(&mut self, _nets: Arc<Nets>, _classes: Arc<[[u32; DIMS]]>) {}

    /// How much of a point's bandwidth is in use, 0..=1 (PX1).
    pub fn set_use(&mut self, _point: PointId, _share: f32) {}

    /// Takes a sample.
    pub fn observe(&mut self, _now_ms: u64, _sample: Sample) -> Observed {
        Observed::Counted
    }

    /// Writes a static entry (PX2): the round-trip time to go by, whatever is measured. False where the prefix is
    /// longer than entries are, or the point is not known.
    pub fn set_static(&mut self, _prefix: Prefix, _point: PointId, _rtt_us: u32) -> bool {
        true
    }

    /// Removes a static entry; false where there was none.
    pub fn remove_static(&mut self, _prefix: Prefix, _point: PointId) -> bool {
        true
    }

    /// The static entries.
    pub fn statics(&self) -> impl Iterator<Item = Cell> {
        std::iter::empty()
    }

    /// Prefixes that are neither measured nor ranked: opted out, or public resolvers (X).
    pub fn set_excluded(&mut self, _prefixes: &[Prefix]) {}

    /// Takes what a peer measured. False where nothing changed.
    pub fn merge_peer(&mut self, _now_ms: u64, _cell: Cell) -> bool {
        true
    }

    /// Forgets all that was measured of a prefix; false where nothing was.
    pub fn forget(&mut self, _prefix: Prefix) -> bool {
        true
    }

    /// All that was measured, here and by peers: for `show`, and for the state file.
    pub fn entries(&self, _now_ms: u64) -> impl Iterator<Item = Cell> {
        std::iter::empty()
    }

    /// How many prefixes it knows.
    #[must_use]
    pub fn len(&self) -> usize {
        0
    }

    /// Whether it knows none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        true
    }

    /// Puts back a cell that [`Self::entries`] gave before, `elapsed_s` seconds ago. False where it is too old.
    pub fn restore(&mut self, _now_ms: u64, _elapsed_s: u32, _cell: Cell) -> bool {
        true
    }

    /// All cells of the entry around an address: for `explain` and `proximity show`.
    #[must_use]
    pub fn cells_of(&self, _now_ms: u64, _address: IpAddr) -> Vec<Cell> {
        Vec::new()
    }

    /// Own cells that peers are to be told of, at most `most`: those whose shown score changed, and those whose last
    /// message grows old (cases G15, P10).
    pub fn changed(&mut self, _now_ms: u64, _most: usize) -> Vec<Cell> {
        Vec::new()
    }

    /// Whether the prefix of a client deserves measuring, and from where. Asked for a share of the queries, it also
    /// keeps the entry from giving way.
    pub fn wanted(&mut self, _now_ms: u64, _address: IpAddr) -> Option<Wanted> {
        None
    }

    /// The table for queries, where anything changed since it was last published. To be called a few times a second
    /// at most; works through windows, expiry, merges and predictions when those are due.
    pub fn publish(&mut self, _now_ms: u64) -> Option<Arc<Ranks>> {
        None
    }

    /// The counters.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }
}
