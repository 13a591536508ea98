//! Who comes to the door: places for handshakes, and what is told of those that fail.

use super::gate::{Entry, Place};
use super::hub::{Hub, lock};
use super::roster::Refusal;
use super::status::add;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// A reason for refusing one address is logged once in this time.
const QUIET_MS: u64 = 10_000;
/// Reasons and addresses that are remembered for that.
const QUIET_ENTRIES: usize = 512;

/// A place at the gate; given back when dropped.
#[derive(Debug)]
pub(super) struct Pass {
    hub: Arc<Hub>,
    place: Place,
}

impl Drop for Pass {
    fn drop(&mut self) {
        lock(&self.hub.gate).leave(self.place);
    }
}

/// What becomes of somebody at the door.
pub(super) enum Door {
    Enter(Pass),
    Prove,
    Away,
}

impl Hub {
    /// Somebody came.
    pub(super) fn door(self: &Arc<Self>, source: IpAddr, is_proven: bool) -> Door {
        if self.is_stopping() {
            return Door::Away;
        }
        let source = source.to_canonical();
        let peers = self.trust.roster().count_at(source);
        match lock(&self.gate).ask(self.now_ms(), source, peers, is_proven) {
            Entry::Admit(place) => Door::Enter(Pass { hub: self.clone(), place }),
            Entry::Prove => {
                add(&self.counters.proofs_wanted);
                Door::Prove
            }
            Entry::Refuse => {
                add(&self.counters.turned_away);
                Door::Away
            }
        }
    }

    /// Somebody was refused at the handshake.
    pub(super) fn refused(&self, remote: SocketAddr, refusal: &Refusal) {
        self.counters.refused(refusal);
        let source = remote.ip().to_canonical();
        // where only one peer can be meant its status tells why there is no session
        if let Some(peer) = self.trust.roster().only_one_at(source) {
            self.note(&peer.name, &refusal.to_string());
        }
        if self.is_news(refusal.label(), source) {
            tracing::warn!(%remote, reason = refusal.label(), "a peer was refused: {refusal}");
        }
    }

    /// Somebody's handshake ended without a peer.
    pub(super) fn failed(&self, remote: SocketAddr, is_timeout: bool, why: &str) {
        let counters = &self.counters;
        add(if is_timeout { &counters.handshakes_timed_out } else { &counters.handshakes_failed });
        let label = if is_timeout { "timeout" } else { "handshake" };
        if self.is_news(label, remote.ip().to_canonical()) {
            tracing::info!(%remote, why, "a handshake with a stranger failed");
        }
    }

    /// Whether this reason was not logged for this address lately.
    fn is_news(&self, label: &'static str, source: IpAddr) -> bool {
        let now_ms = self.now_ms();
        let mut quiet = lock(&self.quiet);
        if quiet.len() >= QUIET_ENTRIES {
            quiet.retain(|_, until| *until > now_ms);
        }
        if quiet.get(&(label, source)).is_some_and(|&until| until > now_ms) || quiet.len() >= QUIET_ENTRIES {
            return false;
        }
        quiet.insert((label, source), now_ms + QUIET_MS);
        true
    }

    fn note(&self, peer: &str, why: &str) {
        if let Some(dial) = lock(&self.state).dials.get_mut(peer) {
            dial.last_error = Some(why.to_owned());
        }
    }
}
