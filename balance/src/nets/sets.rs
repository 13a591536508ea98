//! Sets of operators or lists, each kept once.

use std::collections::HashMap;

/// Gives equal sets equal ids; id 0 is the empty set.
pub(super) struct Interner {
    ids: HashMap<Vec<u32>, u32>,
    sets: Vec<Vec<u32>>,
}

impl Interner {
    pub(super) fn new() -> Self {
        Self { ids: HashMap::from([(Vec::new(), 0)]), sets: vec![Vec::new()] }
    }

    /// The id of a sorted set.
    pub(super) fn id(&mut self, set: &[u32]) -> u32 {
        debug_assert!(set.is_sorted());
        if let Some(&id) = self.ids.get(set) {
            return id;
        }
        let id = self.sets.len() as u32;
        self.sets.push(set.to_vec());
        self.ids.insert(set.to_vec(), id);
        id
    }

    pub(super) fn get(&self, id: u32) -> &[u32] {
        self.sets.get(id as usize).map_or(&[], Vec::as_slice)
    }

    pub(super) fn into_sets(self) -> Vec<Vec<u32>> {
        self.sets
    }
}
