//! Benchmarks beside peers in the same run.
//!
//! ```text
//! world ──► queries ─► load ─► server under test ─► cpu ─► run ─► report
//! (zone,    (prebuilt  (batched  (echo, portolan,   (time   (rounds, (table,
//!  networks, packets)   sends)    knot, nsd, …)      taken)  ratios)  bars)
//!  mmdb)
//! ```
//!
//! - [`world`] makes the data that every server gets: the zone, the networks and their countries and operators;
//!   [`mmdb`] writes the networks as a MaxMind database.
//! - [`queries`] builds the packets ahead, [`load`] sends them over a [`socket`] and checks the replies;
//!   [`dnsperf`] is a second, foreign client.
//! - [`echo`] is the kernel's floor, [`servers`] write each server's configuration and run it on the server's core.
//! - [`cpu`] reads the time a process tree has used, [`process`] pins and ends the children.
//! - [`run`] gives every server a burst in turn, round by round; [`report`] compares within the round and checks the bars.
//! - [`instructions`] compares instruction counts of the hot path with the committed baseline.

/// What a command ends with: a sentence for the person at the terminal.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
/// A result whose error is for the person at the terminal.
pub type Result<T> = std::result::Result<T, Error>;

pub mod cpu;
pub mod dnsperf;
pub mod echo;
pub mod instructions;
pub mod load;
pub mod mmdb;
pub mod process;
pub mod queries;
pub mod report;
pub mod run;
pub mod servers;
pub mod socket;
pub mod world;
