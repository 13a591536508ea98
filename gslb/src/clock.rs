//! The time as answers need it: read once a batch, without a system call.

use crate::udp::coarse;
use portolan_dns::respond::Now;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// Now.
#[must_use]
pub fn now() -> Now {
    let (seconds, millis) = coarse(libc::CLOCK_MONOTONIC_COARSE);
    let (unix_s, _) = coarse(libc::CLOCK_REALTIME_COARSE);
    Now { mono_ms: seconds * 1000 + millis, unix_s: unix_s as u32 }
}

/// Seconds since 1970.
#[must_use]
pub fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs())
}

/// Seconds since 1970 at which this process first asked.
#[must_use]
pub fn started_unix_s() -> u64 {
    static STARTED: OnceLock<u64> = OnceLock::new();
    *STARTED.get_or_init(unix_s)
}
