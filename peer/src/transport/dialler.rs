//! Keeps a connection to each peer: does what `dialing` decides.

use super::Peer;
use super::complaints::Complaints;
use super::connection::{self, DialError};
use super::dialing::{Dialing, Standing, Step};
use super::hub::{Conn, Dial, Hub, State, lock};
use super::roster::Roster;
use super::status::add;
use crate::mesh::PeerSettings;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

impl Hub {
    /// Other peers.
    pub(super) fn set_peers(self: &Arc<Self>, peers: Vec<Peer>) {
        let now_ms = self.now_ms();
        let settings = peers
            .iter()
            .map(|Peer { name, site, .. }| PeerSettings { name: name.clone(), site: site.clone() });
        let settings = settings.collect();
        let mut state = lock(&self.state);
        self.trust.set_roster(Roster::new(peers));
        let roster = self.trust.roster();
        let State { dials, conns, .. } = &mut *state;
        dials.retain(|name, dial| {
            let stays = roster.get(name).is_some();
            if !stays && let Some(task) = &dial.task {
                task.abort();
            }
            stays
        });
        for conn in conns.values_mut().filter(|conn| !roster.allows(&conn.peer, conn.pin)) {
            conn.why.get_or_insert_with(|| "no longer configured with this key".into());
        }
        for peer in roster.peers() {
            if let Some(dial) = dials.get(&peer.name) {
                dial.changed.notify_one();
                continue;
            }
            let dialing = Dialing::new(now_ms, self.node < peer.name, &self.timing, fastrand::u64(..));
            let dial = Dial {
                dialing,
                changed: Arc::new(Notify::new()),
                task: None,
                last_error: None,
                complaints: Complaints::default(),
            };
            dials.insert(peer.name.clone(), dial);
        }
        lock(&self.mesh).set_peers(now_ms, settings);
        let State { dials, tasks, .. } = &mut *state;
        for (name, dial) in dials.iter_mut().filter(|(_, dial)| dial.task.is_none()) {
            dial.task = Some(tasks.spawn(self.clone().dial_when_due(name.clone(), dial.changed.clone())));
        }
        drop(state);
        self.wake();
    }

    /// Keeps a connection to a peer.
    async fn dial_when_due(self: Arc<Self>, name: String, changed: Arc<Notify>) {
        loop {
            let now_ms = self.now_ms();
            let Some(step) = self.next_step(&name, now_ms) else { return };
            let is_upgrade = match step {
                Step::Wait(until_ms) => {
                    let wait = Duration::from_millis(until_ms.saturating_sub(now_ms).clamp(1, 3_600_000));
                    tokio::select! {
                        () = changed.notified() => {}
                        () = tokio::time::sleep(wait) => {}
                    }
                    continue;
                }
                Step::Dial => false,
                Step::TryQuic => true,
            };
            let Some(address) = self.trust.roster().get(&name).map(|peer| peer.address) else { return };
            match connection::dial(&self, &name, address, is_upgrade).await {
                Ok((known, remote, stream)) => self.adopt(known, true, remote, stream),
                Err(error) => self.dial_failed(&name, address, is_upgrade, &error),
            }
        }
    }

    fn next_step(&self, name: &str, now_ms: u64) -> Option<Step> {
        let state = lock(&self.state);
        let newest = state.conns.values().rev().find(|conn| conn.peer == name && conn.why.is_none());
        let standing = newest.map(|&Conn { kind, is_ours, .. }| Standing { kind, is_ours });
        state.dials.get(name).map(|dial| dial.dialing.step(now_ms, standing))
    }

    fn dial_failed(&self, name: &str, address: SocketAddr, is_upgrade: bool, error: &DialError) {
        let now_ms = self.now_ms();
        add(&self.counters.dials_failed);
        if let DialError::Refused(refusal) = error {
            self.counters.refused(refusal);
        }
        let mut state = lock(&self.state);
        let Some(dial) = state.dials.get_mut(name) else { return };
        if is_upgrade {
            dial.dialing.quic_failed(now_ms, &self.timing, fastrand::u64(..));
            return;
        }
        dial.dialing.failed(now_ms, &self.timing, fastrand::u64(..));
        let why = error.to_string();
        let is_new = dial.complaints.is_news(now_ms, error.label(), &why);
        dial.last_error = Some(why);
        drop(state);
        if is_new {
            tracing::warn!(peer = name, %address, "cannot connect to a peer: {error}");
        }
    }
}
