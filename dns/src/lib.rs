//! Sans-IO authoritative DNS: wire, zone files, zone tree and respond().
//!
//! ```text
//! zone files ─ text ─► Loaded ─┐
//!                              ├─ catalog ─► Catalog ─┐
//! services of the config ──────┘                      ├─► Snapshot
//! balance's View, Options ────────────────────────────┘      │
//!                                                            ▼
//! datagrams ─ wire: parse, edns, ecs, cookie ─► respond: find, decide, copy ─ rrl ─► replies
//!                                                  └─ present: the same for `explain`, with reasons
//! ```
//!
//! Stations, in the order the data passes: [`text`] (zone files to [`record`]s), [`catalog`] (all names in one table,
//! answers encoded), [`wire`] and its options ([`ecs`], [`cookie`]), [`respond`] (the hot path), [`rrl`] (what is
//! answered to floods), [`measure`] (what is told to those who measure clients), [`present`] (replies for people). [`name`] and [`rrtype`] are the words they share.
//!
//! No socket, clock, entropy or environment: bytes, time and dice are arguments. Only [`present`] and the tests name
//! hickory-proto types.

pub mod catalog;
pub mod cookie;
pub mod ecs;
mod edns;
pub mod fuzz;
pub mod measure;
pub mod name;
pub mod present;
pub mod record;
pub mod respond;
pub mod rrl;
pub mod rrtype;
pub mod text;
pub mod wire;
