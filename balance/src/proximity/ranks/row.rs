//! A row: what is known of a prefix, and a score from each point, in as few cache lines as that takes.

use crate::proximity::{PointId, Source};
use std::sync::Arc;

/// Microseconds a unit of a score.
pub(in crate::proximity) const UNIT_US: u32 = 50;
/// The greatest score by itself.
pub(in crate::proximity) const SCORE_MAX: u16 = 0x7ffe;
/// Added to measured scores where the operator wrote others for the same client (PX2).
pub(in crate::proximity) const OUTRANKED: u16 = 0x8000;
/// No score.
const NO_SCORE: u16 = u16::MAX;
/// In the source's byte of a cell.
const PEERS: u8 = 0x80;
const WEAK: u8 = 0x40;
/// Added to monotonic seconds, so that what is older than the process has an age.
pub(in crate::proximity) const ORIGIN_S: u32 = 1 << 22;
/// Words before a row's scores.
const HEAD: usize = 4;

/// A cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub(in crate::proximity) struct Line([u32; 16]);

/// A row's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Of the client's own prefix.
    Own,
    /// Of a prefix around it, from others measured there.
    Covering,
    /// Of the client's operator.
    Operator,
    /// The operator wrote it, for some points at least.
    Written,
    /// Not to be ranked: opted out, or one address at many places (anycast).
    Skipped,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Own, Self::Covering, Self::Operator, Self::Written, Self::Skipped];
}

/// What a row is, without its scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// What it stands for.
    pub kind: Kind,
    /// The prefix length over which it holds.
    pub length: u8,
    /// How far to trust the best of it, 0..=255.
    pub confidence: u8,
    /// Attempts without an answer since the last one with (case G14).
    pub silent: u8,
    /// When the last measurement was, in the table's seconds: see [`Head::age_s`].
    pub(in crate::proximity) seen_s: u32,
    /// How many measurements are in it.
    pub samples: u32,
    /// When the last attempt without an answer was.
    pub(in crate::proximity) silent_s: u32,
}

impl Head {
    /// Seconds since the last measurement, at these monotonic seconds.
    #[must_use]
    pub fn age_s(&self, now_s: u32) -> u32 {
        (now_s + ORIGIN_S).saturating_sub(self.seen_s)
    }

    /// Seconds since the last attempt without an answer.
    #[must_use]
    pub fn silent_age_s(&self, now_s: u32) -> u32 {
        (now_s + ORIGIN_S).saturating_sub(self.silent_s)
    }
}

/// A score of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Score {
    /// In microseconds; smaller is nearer.
    pub us: u32,
    /// Where it comes from.
    pub source: Source,
    /// Whether a peer measured it.
    pub is_peers: bool,
    /// A guess that only exploration goes by.
    pub is_weak: bool,
    /// Whether the operator wrote scores for others of the row, which go before this one (PX2).
    pub is_outranked: bool,
    /// Seconds since the last measurement, to about two minutes, up to nine hours.
    pub age_s: u32,
}

/// A row that was found.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    pub(super) lines: &'a [Line],
    pub(super) offsets: &'a [u16],
}

impl Row<'_> {
    #[inline]
    fn word(&self, at: usize) -> Option<u32> {
        self.lines.get(at / 16).map(|line| line.0[at % 16])
    }

    /// What it is.
    #[must_use]
    pub fn head(&self) -> Head {
        let word = |i: usize| self.word(i).unwrap_or(0);
        let [kind, length, confidence, silent] = word(0).to_le_bytes();
        Head {
            kind: Kind::ALL.get(usize::from(kind)).copied().unwrap_or(Kind::Skipped),
            length,
            confidence,
            silent,
            seen_s: word(1),
            samples: word(2),
            silent_s: word(3),
        }
    }

    /// Whether the client's own prefix may be measured and was not.
    #[inline]
    pub(crate) fn is_unmeasured(&self) -> bool {
        let kind = self.word(0).unwrap_or(0) as u8;
        kind == Kind::Covering as u8
            || kind == Kind::Operator as u8
            || (kind == Kind::Own as u8 && self.word(2) == Some(0))
    }

    /// The prefix length over which it holds.
    #[inline]
    pub(in crate::proximity) fn length(&self) -> u8 {
        self.word(0).map_or(0, |word| (word >> 8) as u8)
    }

    /// Whether the operator wrote it.
    #[inline]
    pub(in crate::proximity) fn is_written(&self) -> bool {
        self.word(0).is_some_and(|word| word as u8 == Kind::Written as u8)
    }

    /// Whether it is not to be used.
    #[inline]
    pub(in crate::proximity) fn is_skipped(&self) -> bool {
        self.word(0).is_none_or(|word| word as u8 == Kind::Skipped as u8)
    }

    /// The score from a point, in units: what a query compares.
    #[inline]
    pub(in crate::proximity) fn units(&self, point: PointId) -> Option<u32> {
        let word = self.word(HEAD + usize::from(point.0))?;
        if word as u16 == NO_SCORE || (word >> 16) as u8 & WEAK != 0 {
            return None;
        }
        Some(self.with_offset(word, point))
    }

    /// Units, source byte and seen byte, guesses too: what exploration compares.
    #[inline]
    pub(in crate::proximity) fn guess(&self, point: PointId) -> Option<(u32, u8, u8)> {
        let word = self.word(HEAD + usize::from(point.0))?;
        (word as u16 != NO_SCORE)
            .then(|| (self.with_offset(word, point), (word >> 16) as u8, (word >> 24) as u8))
    }

    #[inline]
    fn with_offset(&self, word: u32, point: PointId) -> u32 {
        let offset = self.offsets.get(usize::from(point.0)).copied().unwrap_or(0);
        (word & 0xffff) + u32::from(offset)
    }

    /// The score from a point.
    #[must_use]
    pub fn score(&self, point: PointId, now_s: u32) -> Option<Score> {
        let (units, source, seen) = self.guess(point)?;
        let is_outranked = units >= u32::from(OUTRANKED);
        let units = if is_outranked { units - u32::from(OUTRANKED) } else { units };
        Some(Score {
            us: units * UNIT_US,
            source: source_of(source),
            is_peers: source & PEERS != 0,
            is_weak: source & WEAK != 0,
            is_outranked,
            age_s: age_of(seen, now_s),
        })
    }
}

pub(in crate::proximity) fn source_of(byte: u8) -> Source {
    Source::from_code(byte & !(PEERS | WEAK)).unwrap_or(Source::Coordinates)
}

/// A moment in a byte.
fn seen_code(seen_s: u32) -> u8 {
    (seen_s / 128) as u8
}

/// Seconds since a moment in a byte.
#[inline]
pub(in crate::proximity) fn age_of(seen: u8, now_s: u32) -> u32 {
    u32::from(seen_code(now_s + ORIGIN_S).wrapping_sub(seen)) * 128
}

/// A cell of a row that is being made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::proximity) struct Entry {
    pub(in crate::proximity) units: u16,
    pub(in crate::proximity) source: Source,
    pub(in crate::proximity) is_peers: bool,
    pub(in crate::proximity) is_weak: bool,
    pub(in crate::proximity) seen_s: u32,
}

/// Rows of one width, one after the other.
#[derive(Clone, Debug)]
pub(in crate::proximity) struct Rows {
    lines: Vec<Line>,
    lines_a_row: usize,
}

impl Rows {
    /// For rows of this many points.
    pub(in crate::proximity) fn new(points: usize) -> Self {
        Self { lines: Vec::new(), lines_a_row: lines_a_row(points) }
    }

    /// Adds a row; returns its number.
    pub(in crate::proximity) fn push(
        &mut self,
        head: &Head,
        scores: impl Iterator<Item = (PointId, Entry)>,
    ) -> u32 {
        let number = (self.lines.len() / self.lines_a_row) as u32;
        let start = self.lines.len();
        let blank = Line([u32::from(NO_SCORE) | 0xffff_0000; 16]);
        self.lines.resize(start + self.lines_a_row, blank);
        let first = u32::from_le_bytes([head.kind as u8, head.length, head.confidence, head.silent]);
        let words = [first, head.seen_s, head.samples, head.silent_s];
        for (i, word) in words.into_iter().enumerate() {
            self.lines[start].0[i] = word;
        }
        for (point, entry) in scores {
            let flags = (u8::from(entry.is_peers) * PEERS) | (u8::from(entry.is_weak) * WEAK);
            let [low, high] = entry.units.to_le_bytes();
            let word = u32::from_le_bytes([low, high, entry.source.code() | flags, seen_code(entry.seen_s)]);
            let at = HEAD + usize::from(point.0);
            if let Some(line) = self.lines.get_mut(start + at / 16) {
                line.0[at % 16] = word;
            }
        }
        number
    }

    /// Sets the length over which a row holds.
    pub(in crate::proximity) fn set_length(&mut self, row: u32, length: u8) {
        if let Some(line) = self.lines.get_mut(row as usize * self.lines_a_row) {
            line.0[0] = line.0[0] & !0xff00 | u32::from(length) << 8;
        }
    }

    /// For publishing.
    pub(in crate::proximity) fn into_lines(self) -> Arc<[Line]> {
        Arc::from(self.lines)
    }
}

pub(in crate::proximity) fn lines_a_row(points: usize) -> usize {
    (HEAD + points).div_ceil(16).max(1)
}
