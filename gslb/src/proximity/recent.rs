//! What became of the last wish for each prefix, for explanations: a memory of two halves that may forget.

use portolan_balance::proximity::Prefix;
use portolan_probe::proximity::Refusal;
use std::collections::HashMap;

/// Prefixes in a half.
const HALF: usize = 4096;

/// The wishes of late.
#[derive(Debug, Default)]
pub(super) struct Recent {
    newer: HashMap<Prefix, Result<(), Refusal>>,
    older: HashMap<Prefix, Result<(), Refusal>>,
}

impl Recent {
    pub(super) fn put(&mut self, prefix: Prefix, result: Result<(), Refusal>) {
        self.newer.insert(prefix, result);
        if self.newer.len() >= HALF {
            self.older = std::mem::take(&mut self.newer);
        }
    }

    pub(super) fn get(&self, prefix: &Prefix) -> Option<Result<(), Refusal>> {
        self.newer.get(prefix).or_else(|| self.older.get(prefix)).copied()
    }
}
