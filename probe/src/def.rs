//! What to check and how often: the form that configuration compiles to.

use std::time::Duration;

use crate::kind::KindDef;

/// One check's definition: what is sent and expected, how often, and how many verdicts move the state.
///
/// A `CheckDef` exists only in a form that can be run: [`CheckDef::new`] is the one way to make one and reports
/// every problem at once. Equal definitions of equal targets are one check (T8, case H07).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CheckDef {
    kind: KindDef,
    timing: Timing,
}

impl CheckDef {
    /// Joins a kind and its timing, or lists everything that is wrong with them.
    pub fn new(kind: KindDef, timing: Timing) -> Result<Self, Vec<DefError>> {
        let mut errors = Vec::new();
        timing.problems(&mut errors);
        kind.problems(&mut errors);
        if errors.is_empty() { Ok(Self { kind, timing }) } else { Err(errors) }
    }

    /// What is sent and what is expected.
    pub fn kind(&self) -> &KindDef {
        &self.kind
    }

    /// How often, and how many verdicts move the state.
    pub fn timing(&self) -> &Timing {
        &self.timing
    }
}

/// When a check runs and when its verdicts change the state. Every kind has these options.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Timing {
    /// `interval`: from one start to the next.
    pub interval: Duration,
    /// `timeout`: for the whole check, name lookup and all addresses included.
    pub timeout: Duration,
    /// `rise`: good verdicts in a row that bring a target up.
    pub rise: u32,
    /// `fall`: bad verdicts in a row that take a target down.
    pub fall: u32,
    /// `jitter`: each interval is shortened or lengthened by up to this many percent.
    pub jitter_percent: u8,
    /// `initial`: what an unknown target counts as until its first verdict (T1).
    pub initial: Initial,
    /// `failover_delay`: how long a target must stay bad before it counts as down (case H18).
    pub failover_delay: Duration,
    /// `failback_delay`: how long a target must stay good before it counts as up again (T16, case H18).
    pub failback_delay: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(3),
            rise: 2,
            fall: 3,
            jitter_percent: 10,
            initial: Initial::Up,
            failover_delay: Duration::ZERO,
            failback_delay: Duration::ZERO,
        }
    }
}

/// The shortest interval and timeout that can be configured; shorter ones would be a load, not a check.
pub const SHORTEST: Duration = Duration::from_millis(10);
/// The longest interval, timeout and delay that can be configured.
pub const LONGEST: Duration = Duration::from_secs(24 * 3600);

impl Timing {
    fn problems(&self, errors: &mut Vec<DefError>) {
        for (key, value) in [("interval", self.interval), ("timeout", self.timeout)] {
            if !(SHORTEST..=LONGEST).contains(&value) {
                errors.push(DefError::new(key, format!("{value:?} is outside 10ms to 24h")));
            }
        }
        for (key, value) in [("failover_delay", self.failover_delay), ("failback_delay", self.failback_delay)]
        {
            if value > LONGEST {
                errors.push(DefError::new(key, format!("{value:?} is longer than 24h")));
            }
        }
        for (key, value) in [("rise", self.rise), ("fall", self.fall)] {
            if !(1..=1000).contains(&value) {
                errors.push(DefError::new(key, format!("{value} is outside 1 to 1000")));
            }
        }
        if self.jitter_percent > 50 {
            errors.push(DefError::new("jitter", format!("{} percent is more than 50", self.jitter_percent)));
        }
    }
}

/// What a target counts as before its first verdict, when no state was saved (T1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Initial {
    /// Usable until the first verdict says otherwise.
    #[default]
    Up,
    /// Not usable until the first verdict says otherwise.
    Down,
}

/// One thing that is wrong with a definition, and at which configuration key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct DefError {
    /// The configuration key, as written in a check's table.
    pub key: &'static str,
    /// What is wrong, and what would be right.
    pub problem: String,
}

impl DefError {
    pub(crate) fn new(key: &'static str, problem: impl Into<String>) -> Self {
        Self { key, problem: problem.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::{DnsDef, HttpDef, IcmpDef};

    #[test]
    fn every_problem_is_reported_at_once() {
        let timing = Timing {
            interval: Duration::ZERO,
            timeout: Duration::from_secs(100_000),
            rise: 0,
            fall: 5000,
            jitter_percent: 80,
            failback_delay: Duration::from_secs(100_000),
            ..Timing::default()
        };
        let kind = KindDef::Http(HttpDef {
            path: "healthz".into(),
            method: "GE T".into(),
            headers: vec![("X-Key".into(), "a\r\nEvil: b".into()), ("Bad Name".into(), String::new())],
            ..HttpDef::default()
        });
        let keys: Vec<_> = CheckDef::new(kind, timing).unwrap_err().into_iter().map(|e| e.key).collect();
        assert_eq!(
            keys,
            [
                "interval",
                "timeout",
                "failback_delay",
                "rise",
                "fall",
                "jitter",
                "method",
                "path",
                "headers",
                "headers"
            ]
        );
    }

    #[test]
    fn long_times_are_accepted() {
        // Case H15: interval 300 s, timeout above 255 s.
        let timing = Timing {
            interval: Duration::from_secs(300),
            timeout: Duration::from_secs(290),
            ..Timing::default()
        };
        assert!(CheckDef::new(KindDef::Icmp(IcmpDef::default()), timing).is_ok());
    }

    #[test]
    fn bad_dns_names_are_refused() {
        for name in ["", "a..b", &"x".repeat(64), &"abc.".repeat(70), "a\\b", "a b"] {
            let kind = KindDef::Dns(DnsDef { name: name.into(), ..DnsDef::default() });
            assert!(CheckDef::new(kind, Timing::default()).is_err(), "{name:?}");
        }
    }
}
