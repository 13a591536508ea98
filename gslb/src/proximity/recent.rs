//! What is remembered of prefixes for a while: a memory of two halves that may forget.

use portolan_balance::proximity::Prefix;
use std::collections::HashMap;

/// Prefixes in a half.
const HALF: usize = 4096;

/// Something about the prefixes of late.
#[derive(Debug)]
pub(super) struct Recent<V> {
    newer: HashMap<Prefix, V>,
    older: HashMap<Prefix, V>,
}

impl<V> Default for Recent<V> {
    fn default() -> Self {
        Self { newer: HashMap::new(), older: HashMap::new() }
    }
}

impl<V: Copy> Recent<V> {
    pub(super) fn put(&mut self, prefix: Prefix, value: V) {
        self.newer.insert(prefix, value);
        if self.newer.len() >= HALF {
            self.older = std::mem::take(&mut self.newer);
        }
    }

    pub(super) fn get(&self, prefix: &Prefix) -> Option<V> {
        self.newer.get(prefix).or_else(|| self.older.get(prefix)).copied()
    }
}
