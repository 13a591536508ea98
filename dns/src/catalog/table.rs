//! One flat hash table over all names: open addressing, tags beside the node ids, names compared only where tags agree.

use crate::wire::hash;

/// A slot: the upper half of the hash and a node id plus one; 0 is empty.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    tag: u32,
    node: u32,
}

/// Where a node's lower-cased name is.
#[derive(Clone, Copy, Debug)]
struct Key {
    at: u32,
    len: u8,
}

/// Lower-cased name → node id. At most half full, so a probe ends soon.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    slots: Box<[Slot]>,
    mask: usize,
    keys: Vec<Key>,
    names: Vec<u8>,
    /// Most labels of a name here: longer suffixes of a query need no look.
    labels: usize,
}

impl Table {
    /// A table of the names given, in the order of their node ids; the first of two equal names wins.
    pub(crate) fn new<'a>(lower_names: impl ExactSizeIterator<Item = &'a [u8]>) -> Self {
        let size = (lower_names.len() * 2).next_power_of_two().max(16);
        let mut table = Self {
            slots: vec![Slot::default(); size].into_boxed_slice(),
            mask: size - 1,
            keys: Vec::with_capacity(lower_names.len()),
            names: Vec::new(),
            labels: 0,
        };
        for name in lower_names {
            let node = table.keys.len() as u32;
            table.keys.push(Key { at: table.names.len() as u32, len: name.len() as u8 });
            table.names.extend_from_slice(name);
            table.labels = table.labels.max(label_count(name));
            let hash = hash::of(name);
            if table.get(name, hash).is_none() {
                table.insert(hash, node);
            }
        }
        table
    }

    fn insert(&mut self, hash: u64, node: u32) {
        let mut at = hash as usize & self.mask;
        while let Some(slot) = self.slots.get_mut(at) {
            if slot.node == 0 {
                *slot = Slot { tag: (hash >> 32) as u32, node: node + 1 };
                return;
            }
            at = (at + 1) & self.mask;
        }
    }

    /// The node with this name.
    #[inline]
    pub(crate) fn get(&self, lower: &[u8], hash: u64) -> Option<u32> {
        let mut at = hash as usize & self.mask;
        loop {
            let slot = self.slots.get(at)?;
            let node = slot.node.checked_sub(1)?;
            if slot.tag == (hash >> 32) as u32 && self.name(node) == Some(lower) {
                return Some(node);
            }
            at = (at + 1) & self.mask;
        }
    }

    /// The node with the longest proper suffix of this name, and how many octets are in front of that.
    pub(crate) fn longest_suffix(&self, lower: &[u8]) -> Option<(u32, usize)> {
        let mut spare = label_count(lower).saturating_sub(self.labels);
        let mut at = 0;
        loop {
            let length = usize::from(*lower.get(at)?);
            if length == 0 {
                return None;
            }
            at += 1 + length;
            if spare > 1 {
                spare -= 1;
                continue;
            }
            let suffix = lower.get(at..)?;
            if let Some(node) = self.get(suffix, hash::of(suffix)) {
                return Some((node, at));
            }
        }
    }

    #[inline]
    fn name(&self, node: u32) -> Option<&[u8]> {
        let key = self.keys.get(node as usize)?;
        let start = key.at as usize;
        self.names.get(start..start + usize::from(key.len))
    }

    /// Asks the processor to load the slot that [`Self::get`] reads first.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        if let Some(slot) = self.slots.get(hash as usize & self.mask) {
            crate::wire::prefetch(slot);
        }
    }

    /// The node in the slot that [`Self::get`] reads first, if its tag agrees; the name is being loaded.
    #[inline]
    pub(crate) fn likely(&self, hash: u64) -> Option<u32> {
        let slot = self.slots.get(hash as usize & self.mask)?;
        let node = slot.node.checked_sub(1)?;
        if slot.tag != (hash >> 32) as u32 {
            return None;
        }
        let key = self.keys.get(node as usize)?;
        if let Some(first) = self.names.get(key.at as usize) {
            crate::wire::prefetch(first);
        }
        Some(node)
    }
}

/// Labels of a name in wire form, without the root's.
fn label_count(wire: &[u8]) -> usize {
    let mut at = 0;
    let mut count = 0;
    while let Some(&length @ 1..) = wire.get(at) {
        at += 1 + usize::from(length);
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_names_and_suffixes() {
        let names: Vec<Vec<u8>> = (0..1000)
            .map(|i| format!("\x04{i:04}\x07example\x00").into_bytes())
            .chain([b"\x07example\x00".to_vec()])
            .collect();
        let table = Table::new(names.iter().map(Vec::as_slice));
        for (i, name) in names.iter().enumerate() {
            assert_eq!(table.get(name, hash::of(name)), Some(i as u32));
            let below = [b"\x01x\x01y", name.as_slice()].concat();
            assert_eq!(table.get(&below, hash::of(&below)), None);
            assert_eq!(table.longest_suffix(&below), Some((i as u32, 4)));
        }
        assert_eq!(table.longest_suffix(b"\x03foo\x07example\x00"), Some((1000, 4)));
        assert_eq!(table.longest_suffix(b"\x03foo\x00"), None);
        assert_eq!(table.longest_suffix(b"\x00"), None);
    }
}
