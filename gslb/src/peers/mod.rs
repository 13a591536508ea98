//! This node among its peers: what it tells them, and what they tell it becomes members and facts.
//!
//! ```text
//!  checks, operators ─► ledger ─► own ─► Line ─► portolan_peer::Mesh ─► peers
//!                         ▲                              │
//!   relearn (new plan) ◄──┴── hearsay ◄── hear ◄─────────┘ events
//! ```
//! [`Line`] holds the endpoint over reloads; [`own`] says what is claimed; [`hear`] turns the mesh's events into news;
//! [`hearsay`] keeps what was heard, with its age; [`told`] shows it; [`saved`] is its form on disk; [`words`] are
//! operators' words, which all nodes share; [`choices`] are clients' remembered choices; [`checked`] is for `check`.

pub(crate) mod checked;
pub(crate) mod choices;
pub(crate) mod hear;
pub mod hearsay;
pub(crate) mod own;
pub mod saved;
pub(crate) mod status;
pub(crate) mod told;
mod waiting;
pub(crate) mod words;

pub use waiting::hold_back;

use crate::engine::lock;
use portolan_config::{Compiled, Peers as Config};
use portolan_peer::mesh::PeerSettings;
use portolan_peer::pki::{Identity, Pin, PkiError};
use portolan_peer::trace::{FileSettings, Tap};
use portolan_peer::transport::{Endpoint, Events, Handle, Peer, StartError, Status, TransportSettings};
use portolan_peer::{Act, Claim, Event, Key, Mesh, PeerStatus, Published, Settings, Word};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use tracing::{info, warn};

pub use portolan_peer::transport::monotonic_ms;

/// Why a node cannot talk to its peers.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// Its key or certificate.
    #[error("cannot use the identity of [peers]: {0}")]
    Identity(#[from] PkiError),
    /// A member of `[peers]` is known by this node's own key.
    #[error(
        "the pin of peer {peer:?} is this node's own; print the right one with `portolan pki pin DIR {peer}`"
    )]
    OwnPin {
        /// The member.
        peer: String,
    },
    /// Its sockets.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// The endpoint towards peers, which comes and goes with `[peers]`.
#[derive(Debug, Default)]
pub struct Line {
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    handle: Handle,
    /// What cannot be changed while it runs.
    form: Form,
    /// A node that has just started waits for claims until then (case P12).
    waits_until_ms: Option<u64>,
}

/// The parts of the config that an endpoint keeps from its start to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Form {
    node: String,
    site: String,
    config: Config,
    /// Whether clients in private space are measured, for peers as well.
    measures_private: bool,
}

impl Form {
    fn of(compiled: &Compiled, config: &Config) -> Self {
        let fixed = Config { members: Vec::new(), ..config.clone() };
        Self {
            node: compiled.node.name.clone(),
            site: site_name(compiled, compiled.node.site.0),
            config: fixed,
            measures_private: compiled
                .proximity
                .active
                .as_ref()
                .is_some_and(|active| !active.also.is_empty()),
        }
    }
}

fn site_name(compiled: &Compiled, site: u16) -> String {
    compiled.sites.get(usize::from(site)).map_or_else(String::new, |site| site.name.clone())
}

fn members(compiled: &Compiled, config: &Config) -> Vec<Peer> {
    let one = |peer: &portolan_config::Peer| Peer {
        name: peer.name.clone(),
        site: site_name(compiled, peer.site.0),
        address: peer.address,
        pins: peer.pins.iter().map(|pin| Pin(pin.0)).collect(),
    };
    config.members.iter().map(one).collect()
}

impl Line {
    /// Makes the endpoint that of this config: starts, changes, replaces or stops it. The events are those of a new one.
    /// Where its sockets cannot be had the one before goes on.
    pub async fn apply(&self, compiled: &Compiled) -> Result<Option<Events>, LineError> {
        let Some(config) = &compiled.peers else {
            self.stop().await;
            return Ok(None);
        };
        let (form, peers) = (Form::of(compiled, config), members(compiled, config));
        let identity = Identity::load(&config.identity)?;
        not_itself(config, identity.pin())?;
        let before = {
            let mut running = lock(&self.running);
            if let Some(now) = running.as_mut().filter(|now| now.form == form) {
                now.handle.set_identity(identity);
                now.handle.set_peers(peers);
                return Ok(None);
            }
            // the same sockets are free only when the old endpoint has ended
            let has_same = |now: &Running| now.form.config.listen == form.config.listen;
            running.take_if(|now| has_same(now))
        };
        let is_first = lock(&self.running).is_none() && before.is_none();
        if let Some(before) = before {
            before.handle.stop().await;
        }
        let handle = start(&form, identity, peers.clone()).await?;
        let events = handle.events();
        info!(listen = %handle.local_address(), peers = peers.len(), "talking to peers");
        let hold_ms = millis(config.hold);
        let waits_until_ms = (is_first && !peers.is_empty()).then(|| monotonic_ms() + hold_ms);
        let old = lock(&self.running).replace(Running { handle, form, waits_until_ms });
        if let Some(old) = old {
            old.handle.stop().await;
        }
        Ok(Some(events))
    }

    /// Says good-bye and frees the sockets.
    pub async fn stop(&self) {
        let running = lock(&self.running).take();
        if let Some(Running { handle, .. }) = running {
            handle.stop().await;
        }
    }

    /// Whether there is an endpoint.
    #[must_use]
    pub fn is_open(&self) -> bool {
        lock(&self.running).is_some()
    }

    /// Whether claims are still waited for, and until when.
    #[must_use]
    pub fn waits_until_ms(&self) -> Option<u64> {
        lock(&self.running).as_ref().and_then(|running| running.waits_until_ms)
    }

    /// Ends the waiting when it is time, or when all peers have told all; whether it ended just now.
    pub fn end_waiting(&self, now_ms: u64) -> bool {
        let mut running = lock(&self.running);
        let Some(running) = running.as_mut() else { return false };
        let is_over = running
            .waits_until_ms
            .is_some_and(|until| now_ms >= until || lock(running.handle.mesh()).is_synced());
        if is_over {
            running.waits_until_ms = None;
        }
        is_over
    }

    /// Looks at the mesh.
    pub fn look<T>(&self, look: impl FnOnce(&Mesh) -> T) -> Option<T> {
        let running = lock(&self.running);
        running.as_ref().map(|running| look(&lock(running.handle.mesh())))
    }

    /// Changes something in the mesh, and has it sent.
    pub fn change<T>(&self, change: impl FnOnce(&mut Mesh, u64) -> T) -> Option<T> {
        let running = lock(&self.running);
        let handle = &running.as_ref()?.handle;
        let result = change(&mut lock(handle.mesh()), monotonic_ms());
        handle.wake();
        Some(result)
    }

    /// Publishes claims.
    pub(crate) fn publish(&self, claims: Vec<Claim>) {
        if claims.is_empty() {
            return;
        }
        self.change(|mesh, now_ms| {
            for claim in claims {
                let key = claim.key();
                refused(&key, mesh.publish(now_ms, claim, None));
            }
        });
    }

    /// Makes the urgent claims of this node those that the config and its servers make, and no others.
    pub(crate) fn publish_all(&self, claims: Vec<Claim>) {
        let wanted: BTreeSet<Key> = claims.iter().map(Claim::key).collect();
        self.change(|mesh, now_ms| {
            let own = mesh.own_claims().map(Claim::key);
            let is_configured = |key: &Key| matches!(key, Key::VirtualServer(_) | Key::Link(_) | Key::Digest);
            let gone: Vec<Key> = own.filter(|key| is_configured(key) && !wanted.contains(key)).collect();
            for key in gone {
                mesh.withdraw(now_ms, &key);
            }
        });
        self.publish(claims);
    }

    /// Speaks an operator's word (T7).
    pub(crate) fn speak(&self, target: &str, act: Act, author: &str, reason: &str, lifetime_s: u32) {
        let author = if author.is_empty() { "unknown" } else { author };
        let published =
            self.change(|mesh, now_ms| mesh.speak(now_ms, target, act, author, reason, lifetime_s));
        if let Some(published) = published {
            refused(&Key::Word(target.to_owned()), published);
        }
    }

    /// Takes up the words of an earlier process, without their effects: those are in the state folder.
    pub(crate) fn recall(&self, words: Vec<Word>) {
        self.change(|mesh, now_ms| {
            for word in words {
                let _ = mesh.publish(now_ms, Claim::Word(word), None);
            }
        });
    }

    /// Sessions and connections.
    #[must_use]
    pub fn status(&self) -> Option<(Vec<PeerStatus>, Status)> {
        let running = lock(&self.running);
        let handle = &running.as_ref()?.handle;
        let peers = lock(handle.mesh()).peers();
        Some((peers, handle.status()))
    }

    /// All frames from now on; none without peers, or when too many watch already.
    #[must_use]
    pub fn tap(&self) -> Option<Tap> {
        lock(&self.running).as_ref().and_then(|running| running.handle.tap())
    }
}

/// Whether none of the members has this pin, which is this node's own.
pub(crate) fn not_itself(config: &Config, own: Pin) -> Result<(), LineError> {
    let itself = config.members.iter().find(|peer| peer.pins.iter().any(|pin| pin.0 == own.0));
    itself.map_or(Ok(()), |peer| Err(LineError::OwnPin { peer: peer.name.clone() }))
}

async fn start(form: &Form, identity: Identity, peers: Vec<Peer>) -> Result<Handle, LineError> {
    let Form { node, site, config, measures_private } = form;
    let mut settings = Settings::new(node, site, epoch(), millis(config.hold));
    settings.allow_private_asks = *measures_private;
    settings.keepalive_ms = millis(config.keepalive);
    settings.peers =
        peers.iter().map(|peer| PeerSettings { name: peer.name.clone(), site: peer.site.clone() }).collect();
    let mesh = Arc::new(Mutex::new(Mesh::new(settings, monotonic_ms())));
    // a config without exactly one is refused
    let listen = config.listen;
    let mut transport = TransportSettings::new(listen, identity, peers);
    transport.source = (!listen.ip().is_unspecified()).then(|| listen.ip());
    transport.trace = config.trace.as_deref().map(FileSettings::new);
    Ok(Endpoint::start(transport, mesh).await?)
}

/// Another one at every start; peers tell a restart by it.
fn epoch() -> u64 {
    let mut octets = [0; 8];
    let read = std::fs::File::open("/dev/urandom")
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut octets));
    match read {
        Ok(()) => u64::from_be_bytes(octets).max(1),
        Err(_) => fastrand::u64(1..),
    }
}

fn millis(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn refused(key: &Key, published: Published) {
    match published {
        Published::Changed | Published::Same => {}
        Published::Refused(why) => warn!(?key, %why, "peers cannot be told"),
        Published::Full => warn!(?key, "peers cannot be told: this node claims too much"),
    }
}

/// Whether an event is about one of an author's virtual servers.
fn server_of(key: &Key) -> Option<&str> {
    match key {
        Key::VirtualServer(name) => Some(name),
        Key::Link(_) | Key::Proximity(..) | Key::Persistence(_) | Key::Digest | Key::Word(_) => None,
    }
}

/// Events as the endpoint hands them out.
pub(crate) type Batch = Vec<Event>;
