//! What is counted.

use serde::Serialize;

use crate::codec::Skipped;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// What was counted on the connections of one peer.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
            /// What was passed over as unknown or unusable.
            pub skipped: Skipped,
        }

        impl Counters {
            /// Adds `other`.
            pub fn add(&mut self, other: Self) {
                let Self { $($name,)* skipped } = other;
                $(self.$name += $name;)*
                self.skipped.add(skipped);
            }
        }
    };
}

counters! {
    /// Frames that came.
    frames_in,
    /// Frames that went.
    frames_out,
    /// Octets that came.
    bytes_in,
    /// Octets that went.
    bytes_out,
    /// Claims and withdrawals that came.
    items_in,
    /// Claims and withdrawals that went.
    items_out,
    /// Batches dropped because they came before: replays.
    replays,
    /// Batches that could not be used because one before them was missing.
    gaps,
    /// Claims dropped because a newer one of their key is held.
    outdated,
    /// Frames dropped because they came too fast.
    floods,
    /// Claims refused because their author, or all authors, have too many.
    refused,
    /// Full syncs asked for.
    resyncs_asked,
    /// Full syncs sent.
    syncs_sent,
    /// Full syncs received whole.
    syncs_received,
    /// Sessions begun.
    sessions,
    /// Connections refused, or closed for a fault of the peer.
    refusals,
    /// ASKs refused here, for their rate or target (case P11).
    asks_refused,
    /// REPLYs that nobody waited for.
    replies_unasked,
    /// ASKs and REPLYs that found no room.
    asks_dropped,
    /// Other frames that found no room.
    control_dropped,
}
