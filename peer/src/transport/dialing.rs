//! When to dial a peer, and by what. Pure.
//!
//! ```text
//!            ┌────────────── lost, failed: back off ◄───────────────┐
//!            ▼                                                      │
//!   waiting ─────► dial QUIC, and TCP when UDP gets no answer ─► connected
//!                                                                   │ by TCP that we dialled: QUIC again, now and then
//! ```
//! The smaller name dials at once; the larger one gives it a moment, and dials, too, if nobody came: the smaller may be
//! unable to reach it. Should both connections come to be, the meshes agree which one stays.

use super::{Kind, Timing};

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Ask again at this time, or when something changed.
    Wait(u64),
    /// Dial by QUIC, and by TCP when UDP gets no answer.
    Dial,
    /// There is a connection by TCP; see whether QUIC works now.
    TryQuic,
}

/// A connection that stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) kind: Kind,
    pub(super) is_ours: bool,
}

/// One peer's state.
#[derive(Clone, Debug)]
pub(super) struct Dialing {
    is_smaller: bool,
    /// Attempts in a row that brought no session that lasted.
    failures: u32,
    /// Not to be dialled earlier.
    not_before_ms: u64,
    /// Attempts in a row to come back from TCP to QUIC.
    quic_failures: u32,
    quic_not_before_ms: u64,
    session_since_ms: Option<u64>,
    /// The peer said that a newer start of a node of this name took this one's place.
    is_displaced: bool,
}

impl Dialing {
    /// `is_smaller`: this node's name is the smaller of the two.
    pub(super) fn new(now_ms: u64, is_smaller: bool, timing: &Timing, dice: u64) -> Self {
        let mut new = Self {
            is_smaller,
            failures: 0,
            not_before_ms: now_ms,
            quic_failures: 0,
            quic_not_before_ms: 0,
            session_since_ms: None,
            is_displaced: false,
        };
        new.not_before_ms = now_ms + new.courtesy(timing) + dice % 50;
        new
    }

    /// What to do, given the newest connection that stands.
    pub(super) fn step(&self, now_ms: u64, standing: Option<Standing>) -> Step {
        match standing {
            None if now_ms >= self.not_before_ms => Step::Dial,
            None => Step::Wait(self.not_before_ms),
            Some(Standing { kind: Kind::Tcp, is_ours: true, .. }) if now_ms >= self.quic_not_before_ms => {
                Step::TryQuic
            }
            Some(Standing { kind: Kind::Tcp, is_ours: true, .. }) => Step::Wait(self.quic_not_before_ms),
            Some(_) => Step::Wait(u64::MAX),
        }
    }

    /// A connection stands.
    pub(super) fn connected(&mut self, now_ms: u64, kind: Kind, timing: &Timing, dice: u64) {
        match kind {
            Kind::Quic => self.quic_failures = 0,
            Kind::Tcp => self.delay_quic(now_ms, timing, dice),
        }
    }

    /// The session stands, too: both sides agree who they are.
    pub(super) fn settled(&mut self, now_ms: u64) {
        self.session_since_ms = Some(now_ms);
    }

    /// The last connection is gone.
    pub(super) fn lost(&mut self, now_ms: u64, timing: &Timing, dice: u64) {
        let lasted = self.session_since_ms.take().map(|since| now_ms.saturating_sub(since));
        if lasted.is_some_and(|lasted| lasted >= timing.lasting_ms) {
            self.failures = 0;
            self.is_displaced = false;
            self.not_before_ms = now_ms + self.courtesy(timing) + dice % timing.backoff_min_ms.max(1);
        } else {
            self.back_off(now_ms, timing, dice);
        }
    }

    /// An attempt brought no connection.
    pub(super) fn failed(&mut self, now_ms: u64, timing: &Timing, dice: u64) {
        self.is_displaced = false;
        self.back_off(now_ms, timing, dice);
    }

    /// The peer said that another start of a node of this name took this one's place: two nodes have one name, and only
    /// people mend that. The connection may be lost already or not.
    pub(super) fn displaced(&mut self, now_ms: u64, timing: &Timing, dice: u64) {
        self.is_displaced = true;
        // a session that is refused did not last, however long its connection takes to end
        self.session_since_ms = None;
        let wait_ms = backoff(self.failures, timing.backoff_min_ms, self.longest_ms(timing), dice);
        self.not_before_ms = self.not_before_ms.max(now_ms + wait_ms);
    }

    fn back_off(&mut self, now_ms: u64, timing: &Timing, dice: u64) {
        self.not_before_ms =
            now_ms + backoff(self.failures, timing.backoff_min_ms, self.longest_ms(timing), dice);
        if self.failures == 0 {
            self.not_before_ms += self.courtesy(timing);
        }
        self.failures = self.failures.saturating_add(1);
    }

    /// An attempt to come back to QUIC brought nothing.
    pub(super) fn quic_failed(&mut self, now_ms: u64, timing: &Timing, dice: u64) {
        self.quic_failures = self.quic_failures.saturating_add(1);
        self.delay_quic(now_ms, timing, dice);
    }

    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    fn delay_quic(&mut self, now_ms: u64, timing: &Timing, dice: u64) {
        self.quic_not_before_ms =
            now_ms + backoff(self.quic_failures, timing.quic_retry_min_ms, timing.quic_retry_max_ms, dice);
    }

    fn longest_ms(&self, timing: &Timing) -> u64 {
        if self.is_displaced { timing.displaced_max_ms } else { timing.backoff_max_ms }
    }

    fn courtesy(&self, timing: &Timing) -> u64 {
        if self.is_smaller { 0 } else { timing.courtesy_ms }
    }
}

/// Doubles from `min` to `max`; of that, between half and all, so that many nodes do not come at once.
fn backoff(failures: u32, min_ms: u64, max_ms: u64, dice: u64) -> u64 {
    let full = min_ms.saturating_mul(1 << failures.min(20)).min(max_ms).max(1);
    full - dice % full.div_ceil(2).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TIMING: Timing = Timing::DEFAULT;

    fn waits(dialing: &Dialing, now_ms: u64) -> u64 {
        match dialing.step(now_ms, None) {
            Step::Wait(until) => until - now_ms,
            Step::Dial => 0,
            Step::TryQuic => panic!("nothing stands"),
        }
    }

    #[test]
    fn the_larger_name_waits_a_moment() {
        for (is_smaller, least) in [(true, 0), (false, TIMING.courtesy_ms)] {
            let dialing = Dialing::new(1000, is_smaller, &TIMING, 0);
            assert_eq!(waits(&dialing, 1000), least);
        }
    }

    #[test]
    fn a_session_that_lasted_is_dialled_anew_at_once() {
        let mut dialing = Dialing::new(0, true, &TIMING, 0);
        for _ in 0..10 {
            dialing.failed(0, &TIMING, 0);
        }
        dialing.connected(0, Kind::Quic, &TIMING, 0);
        dialing.settled(0);
        dialing.lost(TIMING.lasting_ms, &TIMING, u64::MAX);
        assert!(waits(&dialing, TIMING.lasting_ms) < TIMING.backoff_min_ms);
        // one that did not last counts as a failure: peers that refuse each other do not spin
        dialing.settled(0);
        dialing.lost(1, &TIMING, 0);
        dialing.lost(1, &TIMING, 0);
        dialing.lost(1, &TIMING, 0);
        assert_eq!(waits(&dialing, 1), TIMING.backoff_min_ms * 4);
    }

    #[test]
    fn a_displaced_node_comes_less_and_less_often() {
        // the notice is heard before the connection is lost, or after
        for is_heard_first in [true, false] {
            let mut dialing = Dialing::new(0, true, &TIMING, 0);
            let mut now_ms = 0;
            let mut waited = Vec::new();
            for _ in 0..12 {
                dialing.connected(now_ms, Kind::Quic, &TIMING, 0);
                dialing.settled(now_ms);
                if is_heard_first {
                    dialing.displaced(now_ms, &TIMING, 0);
                }
                dialing.lost(now_ms, &TIMING, 0);
                if !is_heard_first {
                    dialing.displaced(now_ms, &TIMING, 0);
                }
                let wait_ms = waits(&dialing, now_ms);
                now_ms += wait_ms;
                waited.push(wait_ms);
            }
            assert!(waited.is_sorted(), "{is_heard_first}: {waited:?}");
            assert_eq!(waited.last(), Some(&TIMING.displaced_max_ms), "{is_heard_first}: {waited:?}");
            // a network that fails is another matter: that one is tried often
            dialing.failed(now_ms, &TIMING, 0);
            assert_eq!(waits(&dialing, now_ms), TIMING.backoff_max_ms);
            // nor is it displaced for ever
            dialing.displaced(now_ms, &TIMING, 0);
            dialing.settled(now_ms);
            dialing.lost(now_ms + TIMING.lasting_ms, &TIMING, 0);
            dialing.lost(now_ms + TIMING.lasting_ms, &TIMING, 0);
            assert_eq!(waits(&dialing, now_ms + TIMING.lasting_ms), TIMING.backoff_min_ms);
        }
    }

    #[test]
    fn tcp_is_left_when_quic_works_again() {
        let mut dialing = Dialing::new(0, true, &TIMING, 0);
        let tcp = Standing { kind: Kind::Tcp, is_ours: true };
        dialing.connected(0, Kind::Tcp, &TIMING, 0);
        let mut now_ms = 0;
        let mut tries = Vec::new();
        while tries.len() < 8 {
            match dialing.step(now_ms, Some(tcp)) {
                Step::Wait(until) => now_ms = until,
                Step::TryQuic => {
                    tries.push(now_ms);
                    dialing.quic_failed(now_ms, &TIMING, 0);
                }
                Step::Dial => panic!("something stands"),
            }
        }
        assert_eq!(tries[0], TIMING.quic_retry_min_ms);
        assert_eq!(tries[7] - tries[6], TIMING.quic_retry_max_ms);
        let theirs = Standing { is_ours: false, ..tcp };
        assert_eq!(dialing.step(u64::MAX - 1, Some(theirs)), Step::Wait(u64::MAX), "theirs to try");
        let quic = Standing { kind: Kind::Quic, ..tcp };
        assert_eq!(dialing.step(u64::MAX - 1, Some(quic)), Step::Wait(u64::MAX));
    }

    proptest! {
        #[test]
        fn backoff_is_bounded(failures in 0_u32..100, dice: u64) {
            let wait = backoff(failures, TIMING.backoff_min_ms, TIMING.backoff_max_ms, dice);
            prop_assert!((TIMING.backoff_min_ms / 2..=TIMING.backoff_max_ms).contains(&wait), "{}", wait);
        }
    }
}
