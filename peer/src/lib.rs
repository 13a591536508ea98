//! The peer protocol: how nodes at several sites tell each other what they know.
//!
//! ```text
//!  own facts ─► mesh::publish ─► own ─► session ─► codec ─► bytes ─► transport ─┐
//!                                                                               │ QUIC, or TCP + TLS
//!  events, held claims ◄─ mesh ◄─ table ◄─ session ◄─ codec ◄─ bytes ◄──────────┘
//! ```
//!
//! Stations, in the order the data passes: [`claim`] (what a node says of itself), [`codec`] (frames ↔ octets),
//! [`session`] (one connection's state machine), [`table`] (what others said), [`word`] (operators' words, which
//! every node repeats), [`mesh`] (all of them together). These know no clock, socket or entropy: `now_ms`, octets and
//! numbers are arguments, deadlines, octets and events come out.
//!
//! Around them: [`pki`] (keys and pins), [`transport`] (real connections), [`trace`] (frames kept in a file),
//! [`memory`] (a network of nodes with a virtual clock, for tests and simulations). The protocol is written down in
//! docs/peer-protocol.md.

mod bucket;
pub mod claim;
pub mod codec;
pub mod fuzz;
pub mod memory;
pub mod mesh;
mod own;
pub mod pki;
pub mod session;
pub mod table;
pub mod trace;
pub mod transport;
pub mod word;

pub use claim::{
    Act, Claim, Digest, Key, LinkState, PersistenceEntry, ProximityCell, ServerState, VirtualServer, Word,
};
pub use codec::{Ask, Frame, Outcome, Refusal, Reply};
pub use mesh::{
    AskRefused, ConnId, Event, Limits, Mesh, PeerSettings, PeerState, PeerStatus, Published, Settings,
};
pub use session::Counters;
pub use table::Held;
