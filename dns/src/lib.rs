//! Sans-IO authoritative DNS: wire, zone files, zone tree and respond().

pub mod catalog;
pub mod cookie;
pub mod ecs;
mod edns;
pub mod fuzz;
pub mod name;
pub mod present;
pub mod record;
pub mod respond;
pub mod rrl;
pub mod rrtype;
pub mod text;
pub mod wire;
