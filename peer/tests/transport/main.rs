//! Endpoints on loopback with real sockets. Ports are the system's choice; waits are bounded and end as soon as what is
//! waited for is seen.
#![allow(clippy::unwrap_used, reason = "a test")]

mod figures;
mod harness;
mod keys;
mod proxy;
mod sessions;
mod strangers;
