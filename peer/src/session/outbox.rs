//! What goes out of one lane: slots that changed, each waiting at most once, and full syncs.

use std::collections::VecDeque;

use crate::claim::Lane;
use crate::codec::{Builder, Change, Item};
use crate::own::{Own, SlotId};

/// One lane of one session, sending.
pub(crate) struct Outbox {
    lane: Lane,
    /// The number of the last batch.
    number: u64,
    queue: VecDeque<SlotId>,
    /// A bit a slot: whether it is in the queue.
    queued: Vec<u64>,
    /// Slots at the head of the queue that belong to a full sync.
    sync_left: usize,
    is_syncing: bool,
    is_begun: bool,
}

/// A batch to send.
pub(crate) struct Outgoing {
    pub(crate) frame: Vec<u8>,
    pub(crate) items: usize,
    pub(crate) is_end: bool,
}

impl Outbox {
    pub(crate) fn new(lane: Lane) -> Self {
        Self {
            lane,
            number: 0,
            queue: VecDeque::new(),
            queued: Vec::new(),
            sync_left: 0,
            is_syncing: false,
            is_begun: false,
        }
    }

    /// Slots that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty() && !self.is_syncing
    }

    /// A slot changed. One that waits already keeps its place.
    pub(crate) fn push(&mut self, own: &mut Own, id: SlotId) {
        let (word, bit) = (id as usize / 64, 1 << (id % 64));
        if word >= self.queued.len() {
            self.queued.resize(word + 1, 0);
        }
        if let Some(bits) = self.queued.get_mut(word).filter(|bits| **bits & bit == 0) {
            *bits |= bit;
            self.queue.push_back(id);
            own.hold(id);
        }
    }

    fn pop(&mut self) -> Option<SlotId> {
        let id = self.queue.pop_front()?;
        if let Some(bits) = self.queued.get_mut(id as usize / 64) {
            *bits &= !(1 << (id % 64));
        }
        Some(id)
    }

    /// Everything is sent anew; changes that wait are part of it.
    pub(crate) fn sync(&mut self, own: &mut Own, version: u16) {
        self.clear(own);
        for id in own.lane(self.lane, version) {
            self.push(own, id);
        }
        self.sync_left = self.queue.len();
        self.is_syncing = true;
        self.is_begun = false;
    }

    /// Lets go of everything.
    pub(crate) fn clear(&mut self, own: &mut Own) {
        while let Some(id) = self.pop() {
            own.let_go(id);
        }
        self.queued = Vec::new();
        self.is_syncing = false;
        self.sync_left = 0;
    }

    /// The next batch. It ends where a sync ends: what changed meanwhile follows by itself.
    pub(crate) fn batch(&mut self, own: &mut Own, now_ms: u64, most: usize) -> Option<Outgoing> {
        if self.is_idle() {
            return None;
        }
        self.number += 1;
        let mut builder = Builder::new(self.lane, self.number);
        let is_sync = self.is_syncing;
        while !builder.is_full() && builder.items() < most && (!is_sync || self.sync_left > 0) {
            let Some(id) = self.pop() else { break };
            self.sync_left = self.sync_left.saturating_sub(1);
            // a full sync says what there is, not what there is not
            let is_said = |item: &Item| !is_sync || matches!(item.change, Change::Set(_));
            if let Some(item) = own.item(id, now_ms).filter(is_said) {
                builder.push(&item);
            }
            own.let_go(id);
        }
        let is_begin = is_sync && !std::mem::replace(&mut self.is_begun, true);
        let is_end = is_sync && self.sync_left == 0;
        self.is_syncing &= !is_end;
        let items = builder.items();
        Some(Outgoing { frame: builder.finish(is_sync, is_begin, is_end), items, is_end })
    }
}
