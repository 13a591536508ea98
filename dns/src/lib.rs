//! Sans-IO authoritative DNS: wire, zone files, zone tree and respond().

pub mod name;
pub mod record;
pub mod rrtype;
pub mod text;
