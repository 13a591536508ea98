//! This node's own claims, and for which sessions a change still waits.
//!
//! A claim has a slot. A session's queue holds slots, each at most once, so that only the newest value of a key waits
//! for a slow peer. The slot of a withdrawn key stays until no queue holds it.

use std::collections::{BTreeMap, BTreeSet};

use crate::claim::{Claim, Key, Lane, ProximityCell};
use crate::codec::{Change, Item};
use crate::mesh::Published;

/// The number of a slot.
pub(crate) type SlotId = u32;

struct Slot {
    key: Key,
    /// None: withdrawn.
    claim: Option<Claim>,
    sequence: u64,
    published_ms: u64,
    expires_ms: Option<u64>,
    /// Queues that hold it.
    queues: u32,
}

/// All claims of this node.
pub(crate) struct Own {
    slots: Vec<Option<Slot>>,
    free: Vec<SlotId>,
    keys: BTreeMap<Key, SlotId>,
    expiry: BTreeSet<(u64, SlotId)>,
    sequence: u64,
    live: usize,
    limit: usize,
}

impl Own {
    pub(crate) fn new(limit: usize) -> Self {
        let limit = limit.min(SlotId::MAX as usize / 2);
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            keys: BTreeMap::new(),
            expiry: BTreeSet::new(),
            sequence: 0,
            live: 0,
            limit,
        }
    }

    /// Claims that hold.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// Withdrawn keys that some queue still holds.
    pub(crate) fn withdrawn(&self) -> usize {
        self.keys.len() - self.live
    }

    pub(crate) fn claim(&self, key: &Key) -> Option<&Claim> {
        self.slot(*self.keys.get(key)?)?.claim.as_ref()
    }

    pub(crate) fn claims(&self) -> impl Iterator<Item = &Claim> {
        self.slots.iter().flatten().filter_map(|slot| slot.claim.as_ref())
    }

    fn slot(&self, id: SlotId) -> Option<&Slot> {
        self.slots.get(id as usize)?.as_ref()
    }

    fn slot_mut(&mut self, id: SlotId) -> Option<&mut Slot> {
        self.slots.get_mut(id as usize)?.as_mut()
    }

    /// Publishes `claim`; the slot is returned where peers must be told.
    pub(crate) fn publish(
        &mut self,
        now_ms: u64,
        claim: Claim,
        lifetime_ms: Option<u64>,
    ) -> (Published, Option<SlotId>) {
        let key = claim.key();
        let expires_ms = lifetime_ms.map(|lifetime| now_ms.saturating_add(lifetime));
        let known = self.keys.get(&key).copied();
        let old = known.and_then(|id| self.slot(id));
        if old.is_some_and(|old| is_told(old, now_ms, &claim, lifetime_ms)) {
            return (Published::Same, None);
        }
        let was_live = old.is_some_and(|old| old.claim.is_some());
        let queues = old.map_or(0, |old| old.queues);
        let ended_ms = old.and_then(|old| old.expires_ms);
        if !was_live && self.live >= self.limit {
            return (Published::Full, None);
        }
        self.sequence += 1;
        if let (Some(id), Some(ended_ms)) = (known, ended_ms) {
            self.expiry.remove(&(ended_ms, id));
        }
        let slot = Slot {
            key: key.clone(),
            claim: Some(claim),
            sequence: self.sequence,
            published_ms: now_ms,
            expires_ms,
            queues,
        };
        let id = known.unwrap_or_else(|| self.room(key));
        if let Some(room) = self.slots.get_mut(id as usize) {
            *room = Some(slot);
        }
        self.live += usize::from(!was_live);
        self.expiry.extend(expires_ms.map(|expires_ms| (expires_ms, id)));
        (Published::Changed, Some(id))
    }

    fn room(&mut self, key: Key) -> SlotId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            // the limit keeps their number far below
            SlotId::try_from(self.slots.len() - 1).unwrap_or(SlotId::MAX)
        });
        self.keys.insert(key, id);
        id
    }

    /// Withdraws `key`; the slot is returned where peers must be told. Call [`Self::release`] when they were queued.
    pub(crate) fn withdraw(&mut self, key: &Key) -> Option<SlotId> {
        let id = *self.keys.get(key)?;
        self.end(id).then_some(id)
    }

    fn end(&mut self, id: SlotId) -> bool {
        self.sequence += 1;
        let sequence = self.sequence;
        let Some(slot) = self.slot_mut(id) else { return false };
        let was_live = slot.claim.take().is_some();
        slot.sequence = sequence;
        if let Some(expires_ms) = slot.expires_ms.take() {
            self.expiry.remove(&(expires_ms, id));
        }
        self.live -= usize::from(was_live);
        was_live
    }

    /// Ends what has outlived its time. Peers do the same by themselves and are not told.
    pub(crate) fn expire(&mut self, now_ms: u64) -> Vec<Key> {
        let mut ended = Vec::new();
        while let Some(&(expires_ms, id)) = self.expiry.first() {
            if expires_ms > now_ms {
                break;
            }
            self.expiry.remove(&(expires_ms, id));
            ended.extend(self.slot(id).map(|slot| slot.key.clone()));
            self.end(id);
            self.release(id);
        }
        ended
    }

    pub(crate) fn deadline(&self) -> Option<u64> {
        self.expiry.first().map(|&(expires_ms, _)| expires_ms)
    }

    /// A queue took the slot in.
    pub(crate) fn hold(&mut self, id: SlotId) {
        if let Some(slot) = self.slot_mut(id) {
            slot.queues += 1;
        }
    }

    /// A queue let the slot go.
    pub(crate) fn let_go(&mut self, id: SlotId) {
        if let Some(slot) = self.slot_mut(id) {
            slot.queues = slot.queues.saturating_sub(1);
        }
        self.release(id);
    }

    /// Frees the slot of a withdrawn key that no queue holds.
    pub(crate) fn release(&mut self, id: SlotId) {
        if self.slot(id).is_some_and(|slot| slot.claim.is_none() && slot.queues == 0)
            && let Some(slot) = self.slots.get_mut(id as usize).and_then(Option::take)
        {
            self.keys.remove(&slot.key);
            self.free.push(id);
        }
    }

    /// The slots of a lane whose kinds `version` has.
    pub(crate) fn lane(&self, lane: Lane, version: u16) -> Vec<SlotId> {
        let ids =
            self.keys.iter().filter(|(key, _)| key.lane() == lane && crate::codec::since(key) <= version);
        let mut ids: Vec<_> = ids.map(|(_, id)| *id).collect();
        ids.retain(|id| self.slot(*id).is_some_and(|slot| slot.claim.is_some()));
        // in the order in which they came to be
        ids.sort_unstable_by_key(|id| self.slot(*id).map_or(0, |slot| slot.sequence));
        ids
    }

    pub(crate) fn key(&self, id: SlotId) -> Option<&Key> {
        self.slot(id).map(|slot| &slot.key)
    }

    /// What is to be said of a slot now: ages and lifetimes are those of this moment.
    pub(crate) fn item(&self, id: SlotId, now_ms: u64) -> Option<Item> {
        let slot = self.slot(id)?;
        let left_ms = slot.expires_ms.map(|expires_ms| expires_ms.saturating_sub(now_ms));
        let change = match &slot.claim {
            Some(claim) if left_ms != Some(0) => {
                Change::Set(claim.aged(now_ms.saturating_sub(slot.published_ms)))
            }
            Some(_) | None => Change::Withdrawn(slot.key.clone()),
        };
        let lifetime_ms = left_ms.map(|left| u32::try_from(left).unwrap_or(u32::MAX));
        Some(Item { sequence: slot.sequence, lifetime_ms, change })
    }

    pub(crate) fn check_invariants(&self) {
        assert_eq!(self.slots.iter().flatten().count(), self.keys.len(), "slots and keys");
        assert_eq!(self.claims().count(), self.live, "live claims");
        assert_eq!(self.free.len() + self.keys.len(), self.slots.len(), "free slots");
        for (key, id) in &self.keys {
            let is_needed = |slot: &Slot| slot.key == *key && (slot.claim.is_some() || slot.queues > 0);
            assert!(self.slot(*id).is_some_and(is_needed), "a slot that nobody waits for: {key:?}");
        }
    }
}

/// Whether peers know as much already. A lifetime is renewed when half of it is over.
fn is_told(old: &Slot, now_ms: u64, claim: &Claim, lifetime_ms: Option<u64>) -> bool {
    let is_lifetime_told = match (old.expires_ms, lifetime_ms) {
        (None, None) => true,
        (Some(expires_ms), Some(lifetime)) => {
            let left_ms = expires_ms.saturating_sub(now_ms);
            left_ms <= lifetime && left_ms.saturating_mul(2) > lifetime
        }
        (None, Some(_)) | (Some(_), None) => false,
    };
    let waited_ms = now_ms.saturating_sub(old.published_ms);
    is_lifetime_told && old.claim.as_ref().is_some_and(|told| says_as_much(&told.aged(waited_ms), claim))
}

/// Whether `told` (aged) is as good as `new`. Measurements differ a little every time; telling each would cost more
/// than it is worth (case P10).
fn says_as_much(told: &Claim, new: &Claim) -> bool {
    match (told, new) {
        (Claim::Proximity(told), Claim::Proximity(new)) => is_near(told, new),
        (Claim::Persistence(told), Claim::Persistence(new)) => {
            let is_longer = new.left_s > told.left_s.saturating_add((told.left_s / 4).max(5));
            told.candidate == new.candidate && !is_longer
        }
        (Claim::Word(told), Claim::Word(new)) => (told.revision, &told.origin) == (new.revision, &new.origin),
        _ => told == new,
    }
}

/// Within 2 ms or 5 %, with as much confidence, and not five minutes fresher.
fn is_near(told: &ProximityCell, new: &ProximityCell) -> bool {
    let band_us = (told.rtt_us / 20).max(2_000);
    told.rtt_us.abs_diff(new.rtt_us) <= band_us
        && told.loss_permille.abs_diff(new.loss_permille) <= 50
        && told.hops == new.hops
        && told.source == new.source
        && told.confidence.abs_diff(new.confidence) <= 32
        && told.age_s.saturating_sub(new.age_s) < 300
        && told.site == new.site
}
