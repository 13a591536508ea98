//! Sans-IO authoritative DNS: wire, zone files, zone tree and respond().
