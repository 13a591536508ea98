//! What a transport says of itself, and what it counts.

use super::{Kind, Refusal};
use crate::pki::Pin;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

/// How it stands with the connections.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Status {
    /// Where this node listens.
    pub listen: SocketAddr,
    /// Its own pin.
    pub pin: Pin,
    /// Seconds until its own certificate ends.
    pub certificate_left_s: i64,
    /// What an operator should know about its own key and certificate.
    pub warnings: Vec<String>,
    /// The peers.
    pub peers: Vec<PeerLink>,
    /// What was counted.
    pub counted: Counted,
}

/// How it stands with the connections to a peer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PeerLink {
    /// Its name.
    pub name: String,
    /// Where it should listen.
    pub address: SocketAddr,
    /// The connections, newest last; usually one.
    pub links: Vec<Link>,
    /// Attempts since the last session that lasted.
    pub failures: u32,
    /// Why there is no connection, or why the last one ended.
    pub last_error: Option<String>,
}

/// One connection.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Link {
    /// Its id in the mesh.
    pub conn: u64,
    /// By what it goes.
    pub kind: Kind,
    /// Whether this node dialled.
    pub is_ours: bool,
    /// The other end.
    pub remote: SocketAddr,
    /// Since when, by the mesh's clock.
    pub since_ms: u64,
    /// The key of the other end.
    pub pin: Pin,
    /// Seconds until its certificate ends.
    pub certificate_left_s: i64,
}

/// What was counted since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counted {
    /// Connections made.
    pub connections: u64,
    /// Dials that brought no connection.
    pub dials_failed: u64,
    /// Certificates refused, by reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// Handshakes of others that ended without a peer, for other reasons than its certificate.
    pub handshakes_failed: u64,
    /// Handshakes of others that took too long.
    pub handshakes_timed_out: u64,
    /// Strangers that had to prove their address first.
    pub proofs_wanted: u64,
    /// Strangers turned away for lack of room.
    pub turned_away: u64,
    /// Events that nobody read in time.
    pub events_dropped: u64,
    /// Trace records that were lost.
    pub trace_dropped: u64,
}

macro_rules! counters {
    ($($name:ident),*) => {
        /// The same while it is counted.
        #[derive(Debug, Default)]
        pub(super) struct Counters {
            $(pub(super) $name: AtomicU64,)*
            refused: [AtomicU64; Refusal::LABELS.len()],
        }

        impl Counters {
            pub(super) fn counted(&self, trace_dropped: u64) -> Counted {
                let refused = Refusal::LABELS.iter().zip(&self.refused);
                let refused = refused.map(|(&label, count)| (label, count.load(Ordering::Relaxed))).collect();
                Counted { $($name: self.$name.load(Ordering::Relaxed),)* refused, trace_dropped }
            }
        }
    };
}

counters! {
    connections, dials_failed, handshakes_failed, handshakes_timed_out, proofs_wanted, turned_away, events_dropped
}

impl Counters {
    pub(super) fn refused(&self, refusal: &Refusal) {
        let counters = Refusal::LABELS.iter().zip(&self.refused);
        for (_, count) in counters.filter(|(label, _)| **label == refusal.label()) {
            add(count);
        }
    }
}

pub(super) fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}
