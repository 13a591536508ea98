//! Helpers of the whole-system cases: everything that stands outside of the built program and drives it.
//!
//! ```text
//!  cases/NAME/ ─► Setup ─► Node (portolan run) ◄─ dig, kdig, curl, raw wire bytes, the CLI
//!                  scratch folder    │  checks
//!                  own 127.x.y.z     ▼
//!                                Backend (HTTP or TCP, stopped and started at will)
//! ```
//! [`setup`] makes a folder with config and zones and starts a [`node::Node`]; [`dig`] and [`wire`] ask it; [`script`]
//! runs conversations written as data; [`backend`] plays the servers behind it, [`netns`] a network of its own,
//! [`topology`] sites and clients far apart, joined by a [`relay`] that delays packets, [`cluster`] nodes there that know
//! each other, [`sites`] three of them ready made, [`reference`] another name
//! server to compare with. [`child`] ends every process with the test, [`wait`] is the only
//! way to wait.
#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is a panic that names its place")]

pub mod backend;
pub mod child;
pub mod cluster;
pub mod dig;
pub mod document;
pub mod flow;
pub mod mmdb;
pub mod netns;
pub mod node;
pub mod ping;
pub mod place;
pub mod program;
pub mod reference;
pub mod relay;
pub mod script;
pub mod setup;
pub mod sites;
pub mod stream;
pub mod topology;
pub mod wait;
pub mod wire;
