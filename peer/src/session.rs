//! One connection's state machine.

use serde::Serialize;

use crate::codec::Skipped;

/// What was counted on the connections of one peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Frames that came.
    pub frames_in: u64,
    /// Frames that went.
    pub frames_out: u64,
    /// Octets that came.
    pub bytes_in: u64,
    /// Octets that went.
    pub bytes_out: u64,
    /// Claims and withdrawals that came.
    pub items_in: u64,
    /// Claims and withdrawals that went.
    pub items_out: u64,
    /// What was passed over as unknown or unusable.
    pub skipped: Skipped,
    /// Batches dropped because they came before: replays.
    pub replays: u64,
    /// Batches that were missing.
    pub gaps: u64,
    /// Claims dropped because a newer one of their key is held.
    pub outdated: u64,
    /// Batches dropped because they came too fast.
    pub floods: u64,
    /// Claims refused because their author, or all authors, have too many.
    pub refused: u64,
    /// Full syncs asked for.
    pub resyncs_asked: u64,
    /// Full syncs sent.
    pub syncs_sent: u64,
    /// Full syncs received whole.
    pub syncs_received: u64,
    /// Sessions begun.
    pub sessions: u64,
    /// Connections refused.
    pub refusals: u64,
    /// ASKs refused for their rate (case P11).
    pub asks_refused: u64,
    /// REPLYs that nobody waited for.
    pub replies_unasked: u64,
    /// ASKs and REPLYs that found no room.
    pub asks_dropped: u64,
}
