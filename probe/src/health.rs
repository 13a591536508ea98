//! The state of one check: verdicts in, changes out. Pure; the clock is an argument.
//!
//! ```text
//!             first verdict good                 first verdict bad
//!         ┌────────────────────── (initial) ──────────────────────┐
//!         ▼          `fall` bad in a row, for failover_delay      ▼
//!        up ───────────────────────────────────────────────────► down
//!         ▲                                                       │
//!         └───────────────────────────────────────────────────────┘
//!                    `rise` good in a row, for failback_delay
//! ```
//! A state that was saved before a restart holds as if the process had gone on (T1, cases H01, H02). One verdict of
//! the other kind starts the counting anew (case H04), so a target that flaps faster than its delays stays where it
//! is (case H18, dns.md case 23).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    def::{Initial, Timing},
    verdict::Verdict,
};

/// Whether a target is usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Usable.
    Up,
    /// Not usable.
    Down,
}

impl State {
    /// The word of it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

/// What a state rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Basis {
    /// Nothing is known: the state is what `initial` says (T1).
    Initial,
    /// The state was saved before a restart, and no verdict has come since.
    Saved,
    /// Verdicts of this process.
    Observed,
}

/// The newest verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// When, in milliseconds of the monotonic clock.
    pub at_ms: i64,
    /// What was said.
    pub verdict: Verdict,
    /// How long the check took.
    pub latency: Duration,
}

/// A change of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The state before.
    pub from: State,
    /// The state from now on.
    pub to: State,
    /// When, in milliseconds of the monotonic clock.
    pub at_ms: i64,
}

/// The state of one check, and why it is so. All times are milliseconds of one monotonic clock, on which moments
/// before the process started are negative; the wall clock may jump (T11, dns.md case 28).
#[derive(Clone, Debug, PartialEq)]
pub struct Health {
    /// What answers must go by.
    pub state: State,
    /// What that rests on.
    pub basis: Basis,
    /// Since when the state is so.
    pub since_ms: i64,
    /// When it last came up from down, for slow start (M 2.9); none while down, and none when it was never down.
    pub recovered_ms: Option<i64>,
    /// Why the state is so.
    pub reason: String,
    /// The newest verdict.
    pub last: Option<Observation>,
    /// The run of equal verdicts that the newest one belongs to.
    streak: Streak,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Streak {
    good: bool,
    count: u32,
    since_ms: i64,
}

impl Health {
    /// Nothing is known yet.
    pub fn initial(initial: Initial, now_ms: i64) -> Self {
        let state = match initial {
            Initial::Up => State::Up,
            Initial::Down => State::Down,
        };
        Self::resting(state, Basis::Initial, now_ms, now_ms, "no verdict yet".into())
    }

    fn resting(state: State, basis: Basis, since_ms: i64, now_ms: i64, reason: String) -> Self {
        let streak = Streak { good: state == State::Up, count: 0, since_ms: now_ms };
        Self { state, basis, since_ms, recovered_ms: None, reason, last: None, streak }
    }

    /// Takes a verdict; a change, when it moves the state.
    pub fn observe(
        &mut self,
        timing: &Timing,
        now_ms: i64,
        verdict: Verdict,
        latency: Duration,
    ) -> Option<Change> {
        let good = verdict.is_good();
        self.streak = if self.streak.good == good && self.streak.count > 0 {
            Streak { count: self.streak.count.saturating_add(1), ..self.streak }
        } else {
            Streak { good, count: 1, since_ms: now_ms }
        };
        let first = self.basis == Basis::Initial;
        let wanted = if good { State::Up } else { State::Down };
        let reason = match &verdict {
            Verdict::Good { note, .. } => note.clone(),
            Verdict::Bad(reason) => reason.to_string(),
        };
        self.basis = Basis::Observed;
        self.last = Some(Observation { at_ms: now_ms, verdict, latency });
        if wanted == self.state {
            if first {
                self.reason = reason;
            }
            return None;
        }
        if !first && !self.may_change(timing, now_ms) {
            return None;
        }
        let change = Change { from: self.state, to: wanted, at_ms: now_ms };
        self.state = wanted;
        self.since_ms = now_ms;
        self.reason = reason;
        self.recovered_ms = (wanted == State::Up && !first).then_some(now_ms);
        Some(change)
    }

    /// Whether the streak against the state is long enough, in verdicts and in time.
    fn may_change(&self, timing: &Timing, now_ms: i64) -> bool {
        let (needed, delay) = match self.state {
            State::Up => (timing.fall, timing.failover_delay),
            State::Down => (timing.rise, timing.failback_delay),
        };
        let delay_ms = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
        self.streak.count >= needed && now_ms.saturating_sub(self.streak.since_ms) >= delay_ms
    }

    /// Verdicts in a row that are against the state: 0 when the newest agrees with it.
    pub fn against(&self) -> u32 {
        if self.streak.good == (self.state == State::Up) { 0 } else { self.streak.count }
    }

    /// The newest load that the target reported, 1.0 being full.
    pub fn load(&self) -> Option<f64> {
        match self.last.as_ref()?.verdict {
            Verdict::Good { load, .. } => load,
            Verdict::Bad(_) => None,
        }
    }

    /// What must outlive the process; none while nothing is known. A restored state that was not confirmed keeps
    /// the time of its last verdict, so that it cannot be carried on from restart to restart.
    pub(crate) fn save(&self, now_ms: i64, unix_now_s: u64, restored: Option<&Saved>) -> Option<Saved> {
        let age_s = |at_ms: i64| u64::try_from(now_ms.saturating_sub(at_ms).max(0)).unwrap_or(0) / 1000;
        match self.basis {
            Basis::Initial => None,
            Basis::Saved => restored.cloned(),
            Basis::Observed => Some(Saved {
                state: self.state,
                since_unix_s: unix_now_s.saturating_sub(age_s(self.since_ms)),
                seen_unix_s: unix_now_s.saturating_sub(age_s(self.last.as_ref()?.at_ms)),
                reason: self.reason.clone(),
            }),
        }
    }

    /// The state as it was saved, unless its last verdict is older than `max_age`. A wall clock that jumped back
    /// makes ages 0, not negative.
    pub(crate) fn restored(saved: &Saved, max_age: Duration, now_ms: i64, unix_now_s: u64) -> Option<Self> {
        if unix_now_s.saturating_sub(saved.seen_unix_s) > max_age.as_secs() {
            return None;
        }
        let age_s = i64::try_from(unix_now_s.saturating_sub(saved.since_unix_s)).unwrap_or(i64::MAX);
        let since_ms = now_ms.saturating_sub(age_s.saturating_mul(1000));
        Some(Self::resting(saved.state, Basis::Saved, since_ms, now_ms, saved.reason.clone()))
    }
}

/// What is kept of a state over a restart. Wall-clock seconds: the monotonic clock does not outlive the machine's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// The state.
    pub state: State,
    /// Since when it was so.
    pub since_unix_s: u64,
    /// When the newest verdict came.
    pub seen_unix_s: u64,
    /// Why it was so.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::What;

    fn verdict(good: bool) -> Verdict {
        if good { Verdict::good("fine") } else { Verdict::bad(What::Connect, "refused") }
    }

    /// Feeds one letter a second: `+` good, `-` bad. The states after each, as `U` and `D`.
    fn states(health: &mut Health, timing: &Timing, script: &str) -> String {
        let mut shown = String::new();
        for (second, letter) in (0..).zip(script.chars()) {
            let before = health.state;
            let change = health.observe(timing, second * 1000, verdict(letter == '+'), Duration::ZERO);
            assert_eq!(change.is_some(), before != health.state);
            shown.push(if health.state == State::Up { 'U' } else { 'D' });
        }
        shown
    }

    #[test]
    fn rise_and_fall() {
        let delays = |failover, failback| Timing {
            rise: 1,
            fall: 1,
            failover_delay: Duration::from_secs(failover),
            failback_delay: Duration::from_secs(failback),
            ..Timing::default()
        };
        let counts = |rise, fall| Timing { rise, fall, ..Timing::default() };
        let table = [
            // The first verdict decides: a dead target leaves at once, a live one is used at once (H01, H02).
            (Initial::Up, counts(2, 3), "-", "D"),
            (Initial::Down, counts(2, 3), "+", "U"),
            (Initial::Up, counts(2, 3), "+---++", "UUUDDU"),
            // A good one in between starts the counting anew (H04).
            (Initial::Up, counts(2, 2), "+-+-+--", "UUUUUUD"),
            (Initial::Up, counts(3, 2), "-++-++-+++", "DDDDDDDDDU"),
            (Initial::Up, counts(1, 1), "+-+-+", "UDUDU"),
            // Delays hold the state through flaps (H18).
            (Initial::Up, delays(0, 4), "+-+++-++++++", "UDDDDDDDDDUU"),
            (Initial::Up, delays(3, 0), "+--+----+", "UUUUUUUDU"),
        ];
        for (initial, timing, script, want) in table {
            let mut health = Health::initial(initial, 0);
            assert_eq!(states(&mut health, &timing, script), want, "{script} {timing:?}");
        }
    }

    /// dns.md case 23 and H18: one second up, one second down, for ten minutes.
    #[test]
    fn a_flapping_target_changes_at_most_once_a_delay() {
        let timing = Timing {
            rise: 1,
            fall: 1,
            failback_delay: Duration::from_secs(60),
            failover_delay: Duration::from_secs(60),
            ..Timing::default()
        };
        let changes = |script: &str| {
            let mut health = Health::initial(Initial::Up, 0);
            let shown = format!("U{}", states(&mut health, &timing, script));
            shown.as_bytes().windows(2).filter(|pair| pair[0] != pair[1]).count()
        };
        assert_eq!(changes(&"+-".repeat(300)), 0);
        // Longer flaps than the delay: once per delay, not more.
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut dice = fastrand::Rng::with_seed(seed);
        let mut script = String::from("+");
        while script.len() < 6000 {
            let letter = if dice.bool() { "+" } else { "-" };
            script.push_str(&letter.repeat(dice.usize(1..120)));
        }
        assert!(changes(&script) <= script.len() / 60, "{}", changes(&script));
        // Without delays the counts bound the changes: one up and one down for each rise + fall verdicts.
        let counted = Timing { rise: 2, fall: 3, ..Timing::default() };
        let script: String = (0..6000).map(|_| if dice.bool() { '+' } else { '-' }).collect();
        let mut health = Health::initial(Initial::Up, 0);
        let shown = states(&mut health, &counted, &script);
        let count = shown.as_bytes().windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(count <= 2 * script.len() / 5, "{count}");
    }

    #[test]
    fn since_reason_and_recovery() {
        let timing = Timing { rise: 1, fall: 2, ..Timing::default() };
        let mut health = Health::initial(Initial::Up, 0);
        states(&mut health, &timing, "+");
        assert_eq!((health.basis, health.since_ms, health.recovered_ms), (Basis::Observed, 0, None));
        states(&mut health, &timing, "+-");
        assert_eq!((health.against(), health.reason.as_str()), (1, "fine"));
        states(&mut health, &timing, "--");
        assert_eq!((health.state, health.against(), health.recovered_ms), (State::Down, 0, None));
        assert_eq!(health.reason, "connect: refused");
        states(&mut health, &timing, "--+");
        assert_eq!((health.state, health.since_ms, health.recovered_ms), (State::Up, 2000, Some(2000)));
    }

    #[test]
    fn saved_states_hold_until_verdicts_say_otherwise() {
        let timing = Timing { rise: 2, fall: 3, ..Timing::default() };
        let mut before = Health::initial(Initial::Up, 0);
        assert_eq!(before.save(0, 1000, None), None);
        states(&mut before, &timing, "+---");
        let saved = before.save(5_000, 10_000, None).unwrap();
        assert_eq!((saved.since_unix_s, saved.seen_unix_s), (9_998, 9_998));

        let hour = Duration::from_secs(3600);
        let mut after = Health::restored(&saved, hour, 0, 10_060).unwrap();
        assert_eq!((after.state, after.basis, after.since_ms), (State::Down, Basis::Saved, -62_000));
        // Not confirmed: saved again with the age it had.
        assert_eq!(after.save(900_000, 10_960, Some(&saved)), Some(saved.clone()));
        assert_eq!(states(&mut after, &timing, "++"), "DU");
        assert_eq!(after.recovered_ms, Some(1000));

        assert_eq!(Health::restored(&saved, hour, 0, 9_998 + 3601), None);
        // The wall clock went back an hour.
        assert_eq!(Health::restored(&saved, hour, 0, 6_000).map(|h| h.since_ms), Some(0));
    }
}
