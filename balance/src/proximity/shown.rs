//! A score as queries see it. It changes only for good reason, so that a client's choice is steady without any
//! memory of clients (X): a value that differs by the tolerance must do so in two windows in a row, and what is
//! shown stays for the dwell time.

use super::ranks::{SCORE_MAX, UNIT_US};
use super::{Settings, Source};

/// Windows in a row that must say the same.
const WINDOWS: u8 = 2;

/// What is to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) us: u32,
    pub(super) source: Source,
    pub(super) is_peers: bool,
    /// Only for exploration.
    pub(super) is_weak: bool,
    /// Its first window is open: a lower value is a better one.
    pub(super) is_settling: bool,
    pub(super) seen_s: u32,
}

impl Target {
    /// Written beats measured beats predicted beats guessed.
    fn rank(source: Source, is_weak: bool) -> u8 {
        if is_weak {
            0
        } else if source == Source::Static {
            3
        } else {
            1 + u8::from(source.is_measured())
        }
    }
}

/// What is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) us: u32,
    pub(super) source: Source,
    pub(super) is_peers: bool,
    pub(super) is_weak: bool,
    pub(super) seen_s: u32,
    since_s: u32,
    /// Windows in a row whose value was above (or below) by the tolerance.
    windows: u8,
    is_above: bool,
}

impl Shown {
    fn first(target: &Target, now_s: u32) -> Self {
        Self {
            us: target.us,
            source: target.source,
            is_peers: target.is_peers,
            is_weak: target.is_weak,
            seen_s: target.seen_s,
            since_s: now_s,
            windows: 0,
            is_above: false,
        }
    }

    /// Whether a change waits for another window that says the same.
    pub(super) fn is_waiting(&self) -> bool {
        self.windows > 0
    }

    pub(super) fn units(&self) -> u16 {
        ((self.us / UNIT_US) as u16).min(SCORE_MAX)
    }
}

/// Shows a target; `is_window` where a window was closed since the last time. True where the score changed.
pub(super) fn show(
    shown: &mut Option<Shown>,
    target: Option<Target>,
    is_window: bool,
    now_s: u32,
    settings: &Settings,
) -> bool {
    let Some(target) = target.map(|it| Target { us: it.us.min(u32::from(SCORE_MAX) * UNIT_US), ..it }) else {
        return shown.take().is_some();
    };
    let Some(old) = shown else {
        *shown = Some(Shown::first(&target, now_s));
        return true;
    };
    let rank = Target::rank(target.source, target.is_weak);
    let old_rank = Target::rank(old.source, old.is_weak);
    let is_equal = settings.is_equal(old.us, target.us);
    // what a peer says was steadied where it was measured: waiting again would part the nodes' answers
    let is_told = target.is_peers && target.source.is_measured() && rank == old_rank;
    let at_once = rank > old_rank
        || is_told
        || (rank == 0 && old_rank == 0)
        || rank == 3
        || (target.is_settling && target.us < old.us);
    if rank >= old_rank {
        (old.seen_s, old.is_peers) = (target.seen_s, target.is_peers);
    }
    // a measurement is taken as it is, so that all who know it show the same
    let is_exact = is_told || (rank == 2 && old_rank < 2);
    if is_equal && rank != 3 && rank != 0 && !is_exact {
        let is_other = old.is_weak != target.is_weak || old.source != target.source;
        (old.source, old.is_weak, old.windows) = (target.source, target.is_weak, 0);
        return is_other;
    }
    if at_once {
        let is_other = old.us != target.us || old.source != target.source;
        *old = Shown::first(&target, now_s);
        return is_other;
    }
    if !is_window {
        return false;
    }
    let is_above = target.us > old.us;
    old.windows = if is_above == old.is_above { old.windows.saturating_add(1) } else { 1 };
    old.is_above = is_above;
    let dwell_s = (settings.dwell_ms / 1000) as u32;
    if old.windows >= WINDOWS && now_s.saturating_sub(old.since_s) >= dwell_s {
        *old = Shown::first(&target, now_s);
        return true;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn measured(us: u32) -> Option<Target> {
        Some(Target {
            us,
            source: Source::Icmp,
            is_peers: false,
            is_weak: false,
            is_settling: false,
            seen_s: 0,
        })
    }

    #[test]
    fn changes_after_two_windows_that_agree_and_the_dwell() {
        let settings = Settings { dwell_ms: 1_000_000, ..Settings::default() };
        let mut shown = None;
        assert!(show(&mut shown, measured(20_000), true, 0, &settings));
        let value = |shown: &Option<Shown>| shown.map(|it| it.us);
        // above, below, above: never two in a row
        for (now_s, us) in [(300, 40_000), (600, 10_000), (900, 40_000), (1200, 10_000)] {
            assert!(!show(&mut shown, measured(us), true, now_s, &settings), "{us}");
        }
        assert_eq!(value(&shown), Some(20_000));
        assert!(!show(&mut shown, measured(40_000), true, 1500, &settings));
        assert!(!show(&mut shown, measured(40_000), false, 1510, &settings), "no window was closed");
        assert!(show(&mut shown, measured(41_000), true, 1800, &settings));
        assert_eq!(value(&shown), Some(41_000));
        // the dwell began anew
        for now_s in [2100, 2400, 2700] {
            assert!(!show(&mut shown, measured(20_000), true, now_s, &settings), "{now_s}");
        }
        assert!(show(&mut shown, measured(20_000), true, 3000, &settings));
    }

    #[test]
    fn a_measurement_replaces_a_prediction_at_once_and_exactly() {
        let settings = Settings::default();
        let predicted = |us| measured(us).map(|it| Target { source: Source::Operator, ..it });
        let mut shown = None;
        show(&mut shown, predicted(80_000), true, 0, &settings);
        assert!(show(&mut shown, measured(20_000), false, 1, &settings));
        assert_eq!(shown.map(|it| (it.us, it.source)), Some((20_000, Source::Icmp)));
        // it grew old: the prediction does not jump in
        show(&mut shown, predicted(80_000), false, 2, &settings);
        assert_eq!(shown.map(|it| it.us), Some(20_000));
        let mut shown = None;
        show(&mut shown, predicted(22_000), true, 0, &settings);
        assert!(show(&mut shown, measured(20_000), false, 1, &settings));
        assert_eq!(shown.map(|it| (it.us, it.source)), Some((20_000, Source::Icmp)));
    }

    proptest! {
        /// Case G15: noise below the tolerance never changes what is shown.
        #[test]
        fn noise_changes_nothing(
            base in 1_000..400_000_u32,
            noise in proptest::collection::vec((-100..=100_i64, any::<bool>()), 1..60),
        ) {
            let settings = Settings { dwell_ms: 0, ..Settings::default() };
            let width = i64::from(settings.band_us.max(base / 11));
            let mut shown = None;
            show(&mut shown, measured(base), true, 0, &settings);
            for (i, (permille, is_window)) in noise.iter().enumerate() {
                let us = (i64::from(base) + width * permille / 100).max(0) as u32;
                let changed = show(&mut shown, measured(us), *is_window, i as u32 * 300, &settings);
                prop_assert!(!changed && shown.map(|it| it.us) == Some(base), "{us} of {base}");
            }
        }
    }
}
