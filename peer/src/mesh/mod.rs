//! All sessions of a node, its own claims, and what others claim.

mod types;

use crate::claim::{Act, Claim, Key, Word};
use crate::codec::{Ask, Reply};
use crate::table::Held;
pub use types::{
    AskRefused, ConnId, Event, Limits, PeerSettings, PeerState, PeerStatus, Published, Settings,
};

/// The node among its peers. Nothing here waits: time and octets come in, octets, events and deadlines go out.
pub struct Mesh {
    settings: Settings,
}

#[allow(
    unused_variables,
    missing_docs,
    clippy::unused_self,
    clippy::needless_pass_by_value,
    reason = "shape first"
)]
impl Mesh {
    #[must_use]
    pub fn new(settings: Settings, now_ms: u64) -> Self {
        Self { settings }
    }
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
    pub fn set_peers(&mut self, now_ms: u64, peers: Vec<PeerSettings>) {}
    pub fn publish(&mut self, now_ms: u64, claim: Claim, lifetime_ms: Option<u64>) -> Published {
        Published::Same
    }
    pub fn withdraw(&mut self, now_ms: u64, key: &Key) {}
    pub fn speak(
        &mut self,
        now_ms: u64,
        target: &str,
        act: Act,
        author: &str,
        reason: &str,
        lifetime_s: u32,
    ) {
    }
    pub fn words(&self) -> impl Iterator<Item = &Word> {
        std::iter::empty()
    }
    pub fn connected(&mut self, now_ms: u64, peer: &str, conn: ConnId) {}
    pub fn disconnected(&mut self, now_ms: u64, conn: ConnId, why: &str) {}
    pub fn received(&mut self, now_ms: u64, conn: ConnId, bytes: &[u8]) {}
    pub fn poll_transmit(&mut self, conn: ConnId) -> Option<Vec<u8>> {
        None
    }
    pub fn poll_event(&mut self) -> Option<Event> {
        None
    }
    #[must_use]
    pub fn poll_deadline(&self) -> Option<u64> {
        None
    }
    pub fn tick(&mut self, now_ms: u64) {}
    pub fn claims(&self) -> impl Iterator<Item = Held<'_>> {
        std::iter::empty()
    }
    #[must_use]
    pub fn claim(&self, author: &str, key: &Key) -> Option<Held<'_>> {
        None
    }
    #[must_use]
    pub fn peers(&self) -> Vec<PeerStatus> {
        Vec::new()
    }
    #[must_use]
    pub fn is_synced(&self) -> bool {
        false
    }
    pub fn ask(&mut self, now_ms: u64, peer: &str, ask: Ask) -> Result<(), AskRefused> {
        Err(AskRefused::Down)
    }
    pub fn reply(&mut self, now_ms: u64, peer: &str, reply: Reply) -> Result<(), AskRefused> {
        Err(AskRefused::Down)
    }
    pub fn stop(&mut self, now_ms: u64) {}
}
