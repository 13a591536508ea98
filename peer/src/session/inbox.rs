//! What comes in of one lane: batches in order, full syncs put together before they replace anything.

use crate::codec::Batch;
use crate::table::Staged;

/// One lane of one session, receiving.
#[derive(Default)]
pub(crate) struct Inbox {
    /// The number of the last batch taken.
    number: u64,
    /// The full sync that is coming in.
    staged: Option<Staged>,
    /// A full sync came whole, and nothing was missed since.
    pub(crate) is_synced: bool,
    /// When a full sync is asked for; then, when it is asked for again.
    pub(crate) resync_at: Option<u64>,
}

/// What is to be done with a batch.
pub(crate) enum Verdict {
    /// Its items change what is held.
    Apply,
    /// They are put aside until the sync is whole.
    Stage,
    /// It came before.
    Replay,
    /// Something was missed; it cannot be used.
    Gap,
    /// A full sync was asked for; until it begins nothing can be used.
    Waiting,
}

impl Inbox {
    /// Judges the batch by its number and its place in a sync.
    pub(crate) fn judge(&mut self, batch: &Batch) -> Verdict {
        if batch.number <= self.number {
            return Verdict::Replay;
        }
        let is_next = batch.number == self.number + 1;
        self.number = batch.number;
        if batch.is_begin {
            self.resync_at = None;
            self.is_synced = false;
            return Verdict::Stage;
        }
        if self.resync_at.is_some() {
            return Verdict::Waiting;
        }
        let is_in_place = if batch.is_sync { self.staged.is_some() } else { self.is_synced };
        match (is_next && is_in_place, batch.is_sync) {
            (false, _) => Verdict::Gap,
            (true, true) => Verdict::Stage,
            (true, false) => Verdict::Apply,
        }
    }

    /// Nothing of this lane can be used until it comes anew, which is asked for at `at_ms`.
    pub(crate) fn lose(&mut self, at_ms: u64) {
        self.staged = None;
        self.is_synced = false;
        self.resync_at.get_or_insert(at_ms);
    }

    /// The sync that is being put together.
    pub(crate) fn begin(&mut self, staged: Staged) {
        self.staged = Some(staged);
    }

    pub(crate) fn staged(&mut self) -> Option<&mut Staged> {
        self.staged.as_mut()
    }

    /// The sync is whole.
    pub(crate) fn end(&mut self) -> Option<Staged> {
        self.is_synced = true;
        self.staged.take()
    }
}
