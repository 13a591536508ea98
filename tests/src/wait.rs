//! Waiting for something to be so, and for nothing else.

use std::time::{Duration, Instant};

/// How long a thing may take that normally takes well under a second; a loaded machine is slow.
pub const SOON: Duration = Duration::from_secs(20);

/// Looks until `look` returns something; panics with the last reason when it has not within `limit`.
pub fn wait_for<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        let reason = match look() {
            Ok(found) => return found,
            Err(reason) => reason,
        };
        assert!(Instant::now() < deadline, "waited {limit:?} in vain for: {what}\nlast seen: {reason}");
        // between two looks, not in place of one
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Looks until it is so.
pub fn wait_until(limit: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    wait_for(limit, what, || if is_so() { Ok(()) } else { Err("not so".into()) });
}
