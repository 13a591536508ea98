//! What is said in the log of a peer that cannot be dialled: something new, and not too often. Pure.

use std::collections::BTreeMap;

/// Another text for the same reason is logged once in this time.
const QUIET_MS: u64 = 10_000;

/// What was logged last, by reason.
#[derive(Debug, Default)]
pub(super) struct Complaints(BTreeMap<&'static str, Logged>);

#[derive(Debug)]
struct Logged {
    text: String,
    at_ms: u64,
    /// There was a session since.
    is_over: bool,
}

impl Complaints {
    /// Whether this is to be logged; it counts as logged then. What others say of the peer does not matter here: where
    /// both sides dial in vain each has a reason of its own.
    pub(super) fn is_news(&mut self, now_ms: u64, reason: &'static str, text: &str) -> bool {
        let is_news = self.0.get(reason).is_none_or(|logged| {
            (logged.is_over || logged.text != text) && now_ms.saturating_sub(logged.at_ms) >= QUIET_MS
        });
        if is_news {
            self.0.insert(reason, Logged { text: text.to_owned(), at_ms: now_ms, is_over: false });
        }
        is_news
    }

    /// A session stands: what fails from now on is new.
    pub(super) fn settled(&mut self) {
        for logged in self.0.values_mut() {
            logged.is_over = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_once_and_anew_after_a_session() {
        let mut complaints = Complaints::default();
        for now_ms in (0..60_000).step_by(1_000) {
            let is_first = now_ms == 0;
            assert_eq!(complaints.is_news(now_ms, "wrong-pin", "another key"), is_first, "{now_ms}");
            assert_eq!(complaints.is_news(now_ms, "silence", "no answer"), is_first, "{now_ms}");
        }
        complaints.settled();
        assert!(complaints.is_news(60_000, "silence", "no answer"));
        assert!(!complaints.is_news(60_000, "silence", "no answer"));
    }

    #[test]
    fn a_reason_of_many_texts_and_a_session_that_flaps() {
        let mut complaints = Complaints::default();
        let logged = (0..60_000_u64).step_by(1_000).filter(|now_ms| {
            complaints.settled();
            complaints.is_news(*now_ms, "wrong-pin", &now_ms.to_string())
        });
        assert_eq!(logged.collect::<Vec<_>>(), [0, 10_000, 20_000, 30_000, 40_000, 50_000]);
    }
}
