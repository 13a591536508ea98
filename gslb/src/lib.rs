//! The daemon: sockets, threads, files and signals around the pure road of the other crates.
//!
//! ```text
//!             ┌────────────── run (signals, systemd, logs) ──────────────┐
//! config ─► adopt ─► Engine ─┬─ listen ─► udp, tcp ─► dns::respond ◄─ ArcSwap<Snapshot>
//!                            ├─ proximity (how far clients are) ─► publisher
//!                            ├─ publisher ◄─ probe events, operators, loads ──┘ (swaps it)
//!                            ├─ peers (claims out; members and facts in)
//!                            ├─ state (what outlives the process)
//!                            └─ doors ─► api ─► answers (status, explain, force, metrics)
//! ```
//! - [`cli`] is the command line; [`offline`] does `check`, `explain -c` and `tables lookup -c` without a node, `pki` makes
//!   keys, `dump` decodes what peers said.
//! - [`engine`] is one running node; a process may hold several, as [`demo`] does.
//! - [`udp`] and [`tcp`] are thin: bytes in, [`portolan_dns::respond`], bytes out. Unsafe code is in `udp/sys.rs` only.
//! - [`peers`] joins the node with the others: what it claims, and what it learns.
//! - [`proximity`] measures clients, and keeps what is known of their distances.
//! - [`publisher`] turns facts into the next snapshot; [`roster`] and [`target`] know members by name.

pub mod adopt;
pub mod answers;
pub mod cli;
pub mod clock;
pub mod demo;
pub mod doors;
mod dump;
pub mod engine;
pub mod explain;
pub mod listen;
pub mod logs;
pub mod memory;
pub mod metrics;
pub mod offline;
pub mod peers;
mod pki;
pub mod proximity;
pub mod publisher;
pub mod roster;
pub mod run;
mod sim_command;
pub mod state;
pub mod tables;
pub mod target;
pub mod tcp;
pub mod udp;
