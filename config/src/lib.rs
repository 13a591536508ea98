//! The config file: its exact form, its check and its compilation into policy.
//!
//! ```text
//! files ─ gather ─► texts ─ read ─► Spec ─ compile ─► Compiled ─► the daemon
//!                                 (what the file      (ids, sets, tables,
//!                                  says, with places)  zones, checks)
//!                    └──────── Problems: everything that is wrong, each with place and remedy ────────┘
//! ```
//! - [`spec`] is the exact form, one table a file; [`json_schema`] is made from it, and docs/configuration.md is held
//!   to it by a test.
//! - [`load`] reads from the disk, [`load_with`] from any [`FileSource`] and beside a running config.
//! - [`tables`] reads ISP tables and GeoIP files.
//!
//! toml is named here only; names stop here, the road behind uses ids.

mod compile;
mod files;
pub mod fuzz;
mod gather;
mod place;
mod problem;
mod read;
pub mod spec;
mod suggest;
pub mod tables;

pub use compile::check::MemberChecks;
pub use compile::expect::Expect;
pub use compile::lanes::{LaneInfo, MemberInfo};
pub use compile::learned::{Claimant, LearnedServer, Origin, Tally};
pub use compile::names::{Link, LinkId, Site};
pub use compile::node::{Api, Cookies, Dns, Node, Tcp};
pub use compile::peers::{Peer, Peers};
pub use compile::proximity::{Active, Proximity, Solicit, Static};
pub use compile::relearn::Learned;
pub use compile::shared::Shared;
pub use compile::virtual_server::VirtualServer;
pub use compile::{Compiled, Service, load_with};
pub use files::{Disk, FileSource};
pub use place::{At, Span};
pub use problem::{Problem, Problems, Severity, SourceFile, Where};
pub use read::{BitRate, Int, Items, Length, Many, Map, Part, Real, Seconds};
pub use spec::{
    ExpectAnswer, ExpectWord, LogFormat, LogLevel, ModeWord, PeerLossWord, Pin, ProtocolWord, json_schema,
};

use std::path::Path;

/// Loads and compiles a config from the disk.
///
/// # Errors
/// Everything that is wrong, and what is odd.
pub fn load(path: &Path) -> Result<Compiled, Problems> {
    load_with(&Disk, path, None)
}
