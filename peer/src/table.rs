//! What others claim: with author, sequence and expiry, and never taken for a fact of our own.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Place;

use serde::Serialize;

use crate::claim::{Claim, Key, Lane};
use crate::codec::{Change, Item};
use crate::mesh::Limits;

/// A claim of another node.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Held<'t> {
    /// Whose it is.
    pub author: &'t str,
    /// Its author's site.
    pub site: &'t str,
    /// What it says.
    pub claim: &'t Claim,
    /// Its author's count of changes.
    pub sequence: u64,
    /// When it came.
    pub received_at_ms: u64,
    /// Whether its author is silent or lost.
    pub is_stale: bool,
    /// When it will be gone, unless it is renewed or its author heard again.
    pub expires_at_ms: Option<u64>,
}

/// A claim as it is kept.
#[derive(Clone, Debug)]
struct Kept {
    claim: Claim,
    sequence: u64,
    received_at_ms: u64,
    expires_at_ms: Option<u64>,
}

/// A full sync that is not whole yet.
#[derive(Debug)]
pub(crate) struct Staged {
    claims: BTreeMap<Key, Kept>,
    bytes: usize,
    /// What the lane had reached when it began: what is newer came by another connection meanwhile, and stays.
    since: u64,
}

/// One lane of one author.
#[derive(Debug, Default)]
struct Shelf {
    epoch: Option<u64>,
    claims: BTreeMap<Key, Kept>,
    /// Ends of lives, with the sequence that tells them apart.
    expiry: BTreeMap<(u64, u64), Key>,
    bytes: usize,
    highest: u64,
    /// When the author was last heard while the lane was in order.
    heard_ms: u64,
    is_stale: bool,
}

/// What one author claims.
#[derive(Debug)]
struct Author {
    site: String,
    shelves: [Shelf; 2],
}

/// What changed by a batch.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) claimed: Vec<Key>,
    pub(crate) withdrawn: Vec<Key>,
    /// Older than what is held.
    pub(crate) outdated: u64,
    /// For want of room.
    pub(crate) refused: u64,
    /// The lane was stale and is not any more.
    pub(crate) is_fresh_again: bool,
}

/// What became stale or ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) author: String,
    pub(crate) keys: Vec<Key>,
    /// What is left is stale since now.
    pub(crate) is_stale: bool,
}

/// All claims of others.
#[derive(Debug)]
pub(crate) struct Table {
    authors: BTreeMap<String, Author>,
    hold_ms: u64,
    limits: Limits,
    keys: usize,
    bytes: usize,
}

impl Table {
    pub(crate) fn new(hold_ms: u64, limits: Limits) -> Self {
        Self { authors: BTreeMap::new(), hold_ms, limits, keys: 0, bytes: 0 }
    }

    /// An author is, or stays, configured.
    pub(crate) fn admit(&mut self, name: &str, site: &str) {
        let author = self
            .authors
            .entry(name.to_owned())
            .or_insert_with(|| Author { site: String::new(), shelves: Default::default() });
        site.clone_into(&mut author.site);
    }

    /// An author is no longer configured: what it claimed is gone.
    pub(crate) fn dismiss(&mut self, name: &str) -> Vec<Key> {
        let Some(author) = self.authors.remove(name) else { return Vec::new() };
        self.keys -= author.keys();
        self.bytes -= author.bytes();
        author.shelves.into_iter().flat_map(|shelf| shelf.claims.into_keys()).collect()
    }

    pub(crate) fn claims(&self) -> impl Iterator<Item = Held<'_>> {
        self.authors.keys().flat_map(|name| self.claims_of(name))
    }

    pub(crate) fn claims_of(&self, name: &str) -> impl Iterator<Item = Held<'_>> {
        self.authors.get_key_value(name).into_iter().flat_map(move |(name, author)| {
            author.shelves.iter().flat_map(move |shelf| {
                shelf.claims.values().map(move |kept| self.held(name, author, shelf, kept))
            })
        })
    }

    pub(crate) fn claim(&self, name: &str, key: &Key) -> Option<Held<'_>> {
        let (name, author) = self.authors.get_key_value(name)?;
        let shelf = &author.shelves[key.lane() as usize];
        shelf.claims.get(key).map(|kept| self.held(name, author, shelf, kept))
    }

    fn held<'t>(&self, name: &'t str, author: &'t Author, shelf: &Shelf, kept: &'t Kept) -> Held<'t> {
        let end = shelf.is_stale.then(|| shelf.heard_ms.saturating_add(self.hold_ms));
        Held {
            author: name,
            site: &author.site,
            claim: &kept.claim,
            sequence: kept.sequence,
            received_at_ms: kept.received_at_ms,
            is_stale: shelf.is_stale,
            expires_at_ms: [kept.expires_at_ms, end].into_iter().flatten().min(),
        }
    }

    /// Claims held of an author, their octets, and whether the urgent ones are stale.
    pub(crate) fn amount(&self, name: &str) -> (usize, usize, bool) {
        self.authors.get(name).map_or((0, 0, false), |author| {
            (author.keys(), author.bytes(), author.shelves[Lane::Urgent as usize].is_stale)
        })
    }

    /// Claims held of all authors, and their octets.
    pub(crate) fn totals(&self) -> (usize, usize) {
        (self.keys, self.bytes)
    }

    fn shelf_mut(&mut self, name: &str, lane: Lane) -> Option<&mut Shelf> {
        self.authors.get_mut(name).map(|author| &mut author.shelves[lane as usize])
    }

    /// Begins a full sync of a lane by a session of `epoch`.
    pub(crate) fn stage(&self, name: &str, lane: Lane, epoch: u64) -> Staged {
        let shelf = self.authors.get(name).map(|author| &author.shelves[lane as usize]);
        let since = shelf.filter(|shelf| shelf.epoch == Some(epoch)).map_or(0, |shelf| shelf.highest);
        Staged { claims: BTreeMap::new(), bytes: 0, since }
    }

    /// Puts aside a batch of a sync; the number of items that found no room.
    pub(crate) fn put_aside(&self, staged: &mut Staged, now_ms: u64, items: Vec<Item>) -> u64 {
        let mut refused = 0;
        for item in items {
            let key = item.change.key();
            if let Some(old) = staged.claims.remove(&key) {
                staged.bytes -= old.claim.footprint();
            }
            let Some(kept) = keep(item, now_ms) else { continue };
            let bytes = kept.claim.footprint();
            let is_full = staged.claims.len() >= self.limits.keys_per_author
                || staged.bytes + bytes > self.limits.bytes_per_author;
            if is_full {
                refused += 1;
            } else {
                staged.bytes += bytes;
                staged.claims.insert(key, kept);
            }
        }
        refused
    }

    /// A sync is whole: what the lane holds is replaced at once.
    pub(crate) fn replace(
        &mut self,
        name: &str,
        lane: Lane,
        epoch: u64,
        now_ms: u64,
        staged: Staged,
    ) -> Changes {
        let mut changes = Changes::default();
        let Some(shelf) = self.shelf_mut(name, lane) else { return changes };
        let is_same_epoch = shelf.epoch == Some(epoch);
        let mut old = std::mem::take(shelf);
        shelf.epoch = Some(epoch);
        shelf.heard_ms = now_ms;
        shelf.highest = if is_same_epoch { old.highest } else { 0 };
        changes.is_fresh_again = old.is_stale;
        let (old_keys, old_bytes) = (old.claims.len(), old.bytes);
        self.keys -= old_keys;
        self.bytes -= old_bytes;
        for (key, kept) in staged.claims {
            let before = old.claims.remove(&key);
            let (was_held, is_change) = match &before {
                Some(before) => (true, before.claim != kept.claim),
                None => (false, true),
            };
            let newer = before.filter(|before| is_same_epoch && before.sequence > kept.sequence);
            let is_change = is_change && newer.is_none();
            if self.insert(name, lane, key.clone(), newer.unwrap_or(kept)) {
                changes.claimed.extend(is_change.then_some(key));
            } else {
                changes.refused += 1;
                changes.withdrawn.extend(was_held.then_some(key));
            }
        }
        for (key, kept) in old.claims {
            let came_meanwhile = is_same_epoch && kept.sequence > staged.since;
            if !(came_meanwhile && self.insert(name, lane, key.clone(), kept)) {
                changes.withdrawn.push(key);
            }
        }
        changes
    }

    /// Applies a batch to what is held.
    pub(crate) fn apply(&mut self, name: &str, epoch: u64, now_ms: u64, items: Vec<Item>) -> Changes {
        let mut changes = Changes::default();
        for item in items {
            let key = item.change.key();
            let lane = key.lane();
            let Some(shelf) = self.shelf_mut(name, lane) else { return changes };
            let held = shelf.claims.get(&key);
            if shelf.epoch != Some(epoch) || held.is_some_and(|held| held.sequence >= item.sequence) {
                changes.outdated += 1;
                continue;
            }
            shelf.highest = shelf.highest.max(item.sequence);
            let is_change = match (&item.change, held) {
                (Change::Set(claim), Some(held)) => held.claim != *claim,
                (Change::Set(_), None) => true,
                (Change::Withdrawn(_), held) => held.is_some(),
            };
            let old = self.remove(name, lane, &key);
            match keep(item, now_ms) {
                Some(kept) => {
                    if self.insert(name, lane, key.clone(), kept) {
                        changes.claimed.extend(is_change.then_some(key));
                    } else {
                        changes.refused += 1;
                        changes.withdrawn.extend(old.map(|_| key));
                    }
                }
                None => changes.withdrawn.extend(is_change.then_some(key)),
            }
        }
        changes
    }

    fn insert(&mut self, name: &str, lane: Lane, key: Key, kept: Kept) -> bool {
        let Some(author) = self.authors.get_mut(name) else { return false };
        let bytes = kept.claim.footprint();
        let is_full = author.keys() >= self.limits.keys_per_author
            || author.bytes() + bytes > self.limits.bytes_per_author
            || self.keys >= self.limits.keys
            || self.bytes + bytes > self.limits.bytes;
        if is_full {
            return false;
        }
        let shelf = &mut author.shelves[lane as usize];
        shelf.highest = shelf.highest.max(kept.sequence);
        if let Some(expires_at_ms) = kept.expires_at_ms {
            shelf.expiry.insert((expires_at_ms, kept.sequence), key.clone());
        }
        match shelf.claims.entry(key) {
            Place::Occupied(_) => debug_assert!(false, "removed before"),
            Place::Vacant(place) => {
                place.insert(kept);
                shelf.bytes += bytes;
                self.keys += 1;
                self.bytes += bytes;
            }
        }
        true
    }

    fn remove(&mut self, name: &str, lane: Lane, key: &Key) -> Option<Kept> {
        let shelf = self.shelf_mut(name, lane)?;
        let kept = shelf.claims.remove(key)?;
        if let Some(expires_at_ms) = kept.expires_at_ms {
            shelf.expiry.remove(&(expires_at_ms, kept.sequence));
        }
        let bytes = kept.claim.footprint();
        shelf.bytes -= bytes;
        self.keys -= 1;
        self.bytes -= bytes;
        Some(kept)
    }

    /// The author was heard and the lane is in order; true where it had been stale.
    pub(crate) fn heard(&mut self, name: &str, lane: Lane, now_ms: u64) -> bool {
        self.shelf_mut(name, lane).is_some_and(|shelf| {
            shelf.heard_ms = now_ms;
            std::mem::take(&mut shelf.is_stale)
        })
    }

    /// A sync of the lane is coming in: what is held of it stays stale, but lives on.
    pub(crate) fn renew(&mut self, name: &str, lane: Lane, now_ms: u64) {
        if let Some(shelf) = self.shelf_mut(name, lane) {
            shelf.heard_ms = now_ms;
        }
    }

    /// The author is silent or lost; true where its claims were not stale before.
    pub(crate) fn set_stale(&mut self, name: &str) -> bool {
        let Some(author) = self.authors.get_mut(name) else { return false };
        let mut is_new = false;
        for shelf in &mut author.shelves {
            let has_claims = !shelf.claims.is_empty();
            is_new |= has_claims && !shelf.is_stale;
            shelf.is_stale = has_claims;
        }
        is_new
    }

    /// The claims whose time is over.
    pub(crate) fn expire(&mut self, now_ms: u64) -> Vec<Ended> {
        let hold_ms = self.hold_ms;
        let mut ended = Vec::new();
        for (name, author) in &mut self.authors {
            let mut keys = Vec::new();
            let mut is_stale = false;
            for shelf in &mut author.shelves {
                is_stale |= shelf.age(now_ms, hold_ms);
                let before = (shelf.claims.len(), shelf.bytes);
                shelf.expire(now_ms, hold_ms, &mut keys);
                self.keys -= before.0 - shelf.claims.len();
                self.bytes -= before.1 - shelf.bytes;
            }
            if is_stale || !keys.is_empty() {
                keys.sort_unstable();
                ended.push(Ended { author: name.clone(), keys, is_stale });
            }
        }
        ended
    }

    pub(crate) fn deadline(&self) -> Option<u64> {
        let shelves = self.authors.values().flat_map(|author| &author.shelves);
        shelves.filter_map(|shelf| shelf.deadline(self.hold_ms)).min()
    }

    pub(crate) fn check_invariants(&self) {
        let (mut keys, mut bytes) = (0, 0);
        for author in self.authors.values() {
            for shelf in &author.shelves {
                let sum: usize = shelf.claims.values().map(|kept| kept.claim.footprint()).sum();
                assert_eq!(sum, shelf.bytes);
                let lives = shelf.claims.values().filter(|kept| kept.expires_at_ms.is_some()).count();
                assert_eq!(lives, shelf.expiry.len());
            }
            assert!(author.keys() <= self.limits.keys_per_author);
            assert!(author.bytes() <= self.limits.bytes_per_author);
            keys += author.keys();
            bytes += author.bytes();
        }
        assert_eq!((keys, bytes), (self.keys, self.bytes));
        assert!(keys <= self.limits.keys && bytes <= self.limits.bytes);
    }
}

impl Author {
    fn keys(&self) -> usize {
        self.shelves.iter().map(|shelf| shelf.claims.len()).sum()
    }

    fn bytes(&self) -> usize {
        self.shelves.iter().map(|shelf| shelf.bytes).sum()
    }
}

impl Shelf {
    fn deadline(&self, hold_ms: u64) -> Option<u64> {
        let first = self.expiry.first_key_value().map(|((at_ms, _), _)| *at_ms);
        let wait_ms = if self.is_stale { hold_ms } else { hold_ms - hold_ms / 3 };
        let end = (!self.claims.is_empty()).then(|| self.heard_ms.saturating_add(wait_ms));
        [first, end].into_iter().flatten().min()
    }

    /// Marks what is not heard of for two thirds of the hold time, whatever else its author says; true where it was not.
    fn age(&mut self, now_ms: u64, hold_ms: u64) -> bool {
        let is_old = now_ms >= self.heard_ms.saturating_add(hold_ms - hold_ms / 3);
        let is_new = is_old && !self.is_stale && !self.claims.is_empty();
        self.is_stale |= is_new;
        is_new
    }

    fn expire(&mut self, now_ms: u64, hold_ms: u64, keys: &mut Vec<Key>) {
        if now_ms >= self.heard_ms.saturating_add(hold_ms) {
            keys.extend(std::mem::take(&mut self.claims).into_keys());
            self.expiry.clear();
            (self.bytes, self.is_stale) = (0, false);
            return;
        }
        while let Some(first) = self.expiry.first_entry() {
            if first.key().0 > now_ms {
                break;
            }
            let key = first.remove();
            if let Some(kept) = self.claims.remove(&key) {
                self.bytes -= kept.claim.footprint();
                keys.push(key);
            }
        }
    }
}

fn keep(item: Item, now_ms: u64) -> Option<Kept> {
    let Item { sequence, lifetime_ms, change } = item;
    let claim = match change {
        Change::Set(claim) => claim,
        Change::Withdrawn(_) => return None,
    };
    let expires_at_ms = lifetime_ms.map(|left| now_ms.saturating_add(u64::from(left)));
    Some(Kept { claim, sequence, received_at_ms: now_ms, expires_at_ms })
}
