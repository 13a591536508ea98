//! Collects the lines of all sources before precedence is settled.

use std::collections::HashMap;
use std::path::PathBuf;

use portolan_balance::nets::{EVERY_ITEM, Entries, Entry, Line};

use super::isp::{FileStats, IspSource, Layer};
use super::prefix::Span;

/// Most entries that all tables may have together (R17).
const MAX_ENTRIES: usize = 4_000_000;

/// Entries with their operators' names numbered as they come, and one [`FileStats`] a file.
#[derive(Default)]
pub(super) struct Gather {
    entries: Entries,
    names: Vec<String>,
    ids: HashMap<String, u32>,
    files: Vec<FileStats>,
    layers: Vec<Layer>,
    /// How many entries there were when the current file began.
    before: usize,
}

impl Gather {
    /// All that follows is from this file.
    pub(super) fn begin_file(&mut self, file: PathBuf, source: &IspSource, modified_unix_s: Option<u64>) {
        self.before = self.entries.len();
        self.layers.push(source.layer);
        let source = source.name.clone();
        self.files.push(FileStats {
            file,
            source,
            entries: 0,
            duplicates: 0,
            masked: 0,
            bad_lines: 0,
            modified_unix_s,
        });
    }

    /// Entries of the current file, duplicates among them.
    pub(super) fn entries_of_file(&self) -> usize {
        self.entries.len() - self.before
    }

    /// The number of an operator.
    pub(super) fn item(&mut self, name: &str) -> u32 {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        let id = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.ids.insert(name.to_owned(), id);
        id
    }

    /// Adds an entry of the current file; fails with a remedy at the limit.
    pub(super) fn add(&mut self, span: Span, exclude: bool, item: u32, number: usize) -> Result<(), String> {
        if self.entries.len() >= MAX_ENTRIES {
            return Err(format!(
                "all ISP tables together may have {MAX_ENTRIES}; leave out what no rule needs"
            ));
        }
        let source = self.files.len().saturating_sub(1) as u32;
        let layer = self.layers.last().map_or(0, |layer| *layer as u8);
        let line = Line { layer, exclude, item, source, number: number as u32 };
        match span {
            Span::V4(first, last) => self.entries.v4.push(Entry { first, last, line }),
            Span::V6(first, last) => self.entries.v6.push(Entry { first, last, line }),
        }
        Ok(())
    }

    pub(super) fn masked(&mut self) {
        if let Some(stats) = self.files.last_mut() {
            stats.masked += 1;
        }
    }

    pub(super) fn bad_lines(&mut self, count: usize) {
        if let Some(stats) = self.files.last_mut() {
            stats.bad_lines = count;
        }
    }

    /// Sorted names, entries that use their places in that list, and the files. What a file says twice is there once
    /// and counted (R6).
    pub(super) fn finish(mut self) -> (Vec<String>, Entries, Vec<FileStats>) {
        let mut names = self.names.clone();
        names.sort_unstable();
        let place = |name: &String| names.binary_search(name).map_or(EVERY_ITEM, |place| place as u32);
        let places: Vec<u32> = self.names.iter().map(place).collect();
        settle(&mut self.entries.v4, &places, &mut self.files);
        settle(&mut self.entries.v6, &places, &mut self.files);
        (names, self.entries, self.files)
    }
}

fn settle<A: Copy + Ord>(entries: &mut Vec<Entry<A>>, places: &[u32], files: &mut [FileStats]) {
    for entry in entries.iter_mut() {
        entry.line.item = places.get(entry.line.item as usize).copied().unwrap_or(EVERY_ITEM);
    }
    entries.sort_unstable();
    entries.dedup_by(|later, earlier| {
        let again = Line { number: 0, ..later.line } == Line { number: 0, ..earlier.line }
            && (later.first, later.last) == (earlier.first, earlier.last);
        if let Some(stats) = files.get_mut(later.line.source as usize).filter(|_| again) {
            stats.duplicates += 1;
        }
        again
    });
    for entry in entries.iter() {
        if let Some(stats) = files.get_mut(entry.line.source as usize) {
            stats.entries += 1;
        }
    }
    entries.shrink_to_fit();
}
