//! What goes into a mesh and comes out of it.

use serde::Serialize;

use crate::claim::{Invalid, Key, Word};
use crate::codec::{Ask, Code, HIGHEST_VERSION, LOWEST_VERSION, Reply};
use crate::session::Counters;

/// One connection; given by the transport, never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct ConnId(pub u64);

/// Who this node is, and how it deals with others.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its name.
    pub node: String,
    /// Its site.
    pub site: String,
    /// Another random number at every start.
    pub epoch: u64,
    /// How long claims of a silent peer live.
    pub hold_ms: u64,
    /// How often a peer hears from us; a third of `hold_ms`, less where a peer holds for less.
    pub keepalive_ms: u64,
    /// How long a connection may take to its first HELLO.
    pub handshake_ms: u64,
    /// Bounds.
    pub limits: Limits,
    /// The other nodes.
    pub peers: Vec<PeerSettings>,
    /// Versions of the protocol to speak, lowest and highest; fewer than all in tests.
    pub versions: (u16, u16),
    /// Whether private addresses may be measured for peers, as in a lab.
    pub allow_private_asks: bool,
}

impl Settings {
    /// The usual settings for a node.
    #[must_use]
    pub fn new(node: &str, site: &str, epoch: u64, hold_ms: u64) -> Self {
        Self {
            node: node.to_owned(),
            site: site.to_owned(),
            epoch,
            hold_ms,
            keepalive_ms: (hold_ms / 3).max(1),
            handshake_ms: 5_000,
            limits: Limits::default(),
            peers: Vec::new(),
            versions: (LOWEST_VERSION, HIGHEST_VERSION),
            allow_private_asks: false,
        }
    }
}

/// Another node, as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerSettings {
    /// Its name.
    pub name: String,
    /// Its site.
    pub site: String,
}

/// Bounds on what is kept and taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Claims of one author, and of this node.
    pub keys_per_author: usize,
    /// Octets of claims of one author, in memory.
    pub bytes_per_author: usize,
    /// Claims of all authors.
    pub keys: usize,
    /// Octets of claims of all authors, in memory.
    pub bytes: usize,
    /// Claims a second taken of one peer; it is told and keeps to half of it.
    pub claims_per_s: u32,
    /// Octets a second taken of one peer; it is told and keeps to half of it.
    pub bytes_per_s: u32,
    /// Frames over those rates within ten seconds after which a connection is closed.
    pub floods: u32,
    /// ASKs a second taken of one peer.
    pub asks_per_s: u32,
    /// ASKs taken at once.
    pub asks_burst: u32,
    /// ASKs, and REPLYs, that wait to be sent to one peer; also ASKs that wait for a REPLY.
    pub asks_waiting: usize,
    /// Events that wait to be polled.
    pub events: usize,
    /// Connections of one peer at a time.
    pub connections: usize,
    /// Withdrawn keys that are remembered for peers that were not told yet.
    pub withdrawn: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            keys_per_author: 65_536,
            bytes_per_author: 32 << 20,
            keys: 500_000,
            bytes: 256 << 20,
            claims_per_s: 20_000,
            bytes_per_s: 8 << 20,
            floods: 10,
            asks_per_s: 20,
            asks_burst: 40,
            asks_waiting: 64,
            events: 65_536,
            connections: 3,
            withdrawn: 65_536,
        }
    }
}

/// What became of a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// Peers will be told.
    Changed,
    /// It is what was published already.
    Same,
    /// It cannot be said.
    Refused(Invalid),
    /// This node has as many claims as peers would keep.
    Full,
}

/// Why a peer was not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum AskRefused {
    /// No such peer.
    #[error("no such peer")]
    Unknown,
    /// There is no session with it.
    #[error("there is no session with the peer")]
    Down,
    /// It speaks a version without ASK.
    #[error("the peer speaks a version of the protocol without ASK")]
    Version,
    /// Too many wait already.
    #[error("too many questions wait already")]
    Full,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Event {
    /// A session with a peer stands.
    PeerUp {
        /// Its name.
        peer: String,
    },
    /// There is no session with a peer any more.
    PeerDown {
        /// Its name.
        peer: String,
        /// Why.
        why: String,
    },
    /// The urgent claims of a peer are all here (case P12).
    Synced {
        /// Its name.
        peer: String,
    },
    /// A claim is new or changed.
    Claimed {
        /// Whose.
        author: String,
        /// Which.
        key: Key,
    },
    /// A claim is gone by its author's word.
    Withdrawn {
        /// Whose.
        author: String,
        /// Which.
        key: Key,
    },
    /// All claims of a peer are stale: it is silent or lost.
    Stale {
        /// Whose.
        author: String,
    },
    /// The claims of a silent peer are fresh again.
    Fresh {
        /// Whose.
        author: String,
    },
    /// Claims are gone because their time is over.
    Expired {
        /// Whose.
        author: String,
        /// Which.
        keys: Vec<Key>,
    },
    /// A peer wishes that a prefix be measured.
    Asked {
        /// Who.
        peer: String,
        /// What.
        ask: Ask,
    },
    /// What came of an ASK, or that nothing came in time.
    Replied {
        /// Who was asked.
        peer: String,
        /// What came.
        reply: Reply,
        /// How long it took.
        after_ms: u64,
    },
    /// A warning or a reason, from the other side or of our own.
    Notice {
        /// About whom.
        peer: String,
        /// Whether the peer said it; else this node found it.
        is_theirs: bool,
        /// What about.
        code: Code,
        /// For people.
        text: String,
    },
    /// Two words of the same revision were spoken on a target; one holds everywhere (case P08).
    Conflict {
        /// The one that holds.
        kept: Word,
        /// The one that does not.
        dropped: Word,
    },
    /// An operator's word holds now, or no longer.
    Spoken {
        /// On what.
        target: String,
    },
    /// Events were lost because nobody polled: read claims and peers anew.
    Missed {
        /// How many.
        count: u64,
    },
    /// Flush and close this connection.
    Close {
        /// Which.
        conn: ConnId,
        /// Why.
        why: String,
    },
}

/// How it stands with a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum PeerState {
    /// No connection.
    Down,
    /// A connection, and no HELLO yet.
    Greeting,
    /// A session, whose urgent claims are not all here yet.
    Syncing,
    /// A session.
    Up,
    /// A session in which nothing was heard for two thirds of the hold time.
    Silent,
}

/// What is known of a peer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PeerStatus {
    /// Its name.
    pub name: String,
    /// Its site.
    pub site: String,
    /// How it stands.
    pub state: PeerState,
    /// Since when.
    pub since_ms: u64,
    /// When octets last came.
    pub heard_ms: Option<u64>,
    /// The version spoken.
    pub version: Option<u16>,
    /// Its start.
    pub epoch: Option<u64>,
    /// Round trip of the last keepalive, in milliseconds.
    pub rtt_ms: Option<u32>,
    /// Claims of it that are held.
    pub claims: usize,
    /// Octets that they take.
    pub bytes: usize,
    /// Whether they are stale.
    pub is_stale: bool,
    /// What was counted.
    pub counters: Counters,
    /// What last went wrong.
    pub last_error: Option<String>,
    /// What should be equal and is not: `config`, `table NAME`, `version`.
    pub differences: Vec<String>,
}
