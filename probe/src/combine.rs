//! Several checks of one member: one state, and the reasons for it (HC2, case H13).

use crate::health::{Basis, Health, State};

/// How many of a member's checks must be up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Require {
    /// `"all"`.
    #[default]
    All,
    /// `"any"`: one is enough.
    Any,
    /// A number: at least so many.
    AtLeast(u32),
}

/// The state of a member by its checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Combined {
    /// What answers must go by. An operator's word is stronger and is applied by whoever publishes it.
    pub state: State,
    /// False while the state would be unknown without the checks' `initial` (T1).
    pub known: bool,
    /// When it last came up from down, for slow start; none while down.
    pub recovered_ms: Option<i64>,
    /// Checks that are up.
    pub up: usize,
    /// Checks there are.
    pub total: usize,
    /// One line for each check, in the order given: `http 192.0.2.10:80 down: connect: refused`.
    pub reasons: Vec<String>,
}

/// Combines checks, each with a label for its line. A member without checks is up.
pub fn combine<'a>(require: Require, checks: impl IntoIterator<Item = (String, &'a Health)>) -> Combined {
    let (mut up, mut down, mut known_up, mut known_down) = (0, 0, 0, 0);
    let mut reasons = Vec::new();
    let mut recoveries = Vec::new();
    for (label, health) in checks {
        let known = health.basis != Basis::Initial;
        let word = match health.state {
            State::Up => {
                up += 1;
                known_up += usize::from(known);
                recoveries.push(health.recovered_ms);
                "up"
            }
            State::Down => {
                down += 1;
                known_down += usize::from(known);
                "down"
            }
        };
        reasons.push(format!("{label} {word}: {}", health.reason));
    }
    let total = up + down;
    let needed = match require {
        Require::All => total,
        Require::Any => total.min(1),
        Require::AtLeast(count) => usize::try_from(count).unwrap_or(usize::MAX),
    };
    let state = if total == 0 || up >= needed { State::Up } else { State::Down };
    // Known when the unknown checks could not change it.
    let known = match state {
        State::Up => total == 0 || known_up >= needed,
        State::Down => total - known_down < needed,
    };
    Combined { state, known, recovered_ms: came_up(state, recoveries, needed), up, total, reasons }
}

/// When the check came up that made the member usable: in the order in which the checks came up, the one that
/// completed the needed number. Those that were never down came first.
fn came_up(state: State, mut recoveries: Vec<Option<i64>>, needed: usize) -> Option<i64> {
    recoveries.sort_unstable();
    let completing = recoveries.get(needed.checked_sub(1)?)?;
    completing.filter(|_| state == State::Up)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        def::{Initial, Timing},
        verdict::{Verdict, What},
    };

    /// `U` and `D` by verdict, `u` and `d` by `initial`.
    fn check(letter: char) -> Health {
        let mut health = Health::initial(if letter == 'd' { Initial::Down } else { Initial::Up }, 0);
        let timing = Timing::default();
        if letter == 'U' {
            health.observe(&timing, 1, Verdict::good("fine"), Duration::ZERO);
        }
        if letter == 'D' {
            health.observe(&timing, 1, Verdict::bad(What::Connect, "refused"), Duration::ZERO);
        }
        health
    }

    #[test]
    fn all_any_and_at_least() {
        let table = [
            (Require::All, "", State::Up, true),
            (Require::All, "UU", State::Up, true),
            (Require::All, "UD", State::Down, true),
            (Require::All, "uU", State::Up, false),
            (Require::All, "dU", State::Down, false),
            (Require::All, "uD", State::Down, true),
            (Require::Any, "DD", State::Down, true),
            (Require::Any, "DU", State::Up, true),
            (Require::Any, "Uu", State::Up, true),
            (Require::Any, "Dd", State::Down, false),
            (Require::AtLeast(2), "UDU", State::Up, true),
            (Require::AtLeast(2), "UDD", State::Down, true),
            (Require::AtLeast(2), "uUd", State::Up, false),
            (Require::AtLeast(3), "UU", State::Down, true),
        ];
        for (require, letters, state, known) in table {
            let checks: Vec<_> = letters.chars().map(check).collect();
            let labels = (0..).map(|at: u32| format!("check {at}"));
            let got = combine(require, labels.zip(&checks));
            assert_eq!((got.state, got.known), (state, known), "{require:?} {letters}");
            assert_eq!((got.total, got.reasons.len()), (letters.len(), letters.len()));
        }
    }

    #[test]
    fn reasons_are_in_order() {
        let (up, down) = (check('U'), check('D'));
        let got = combine(Require::All, [("tcp a".to_owned(), &up), ("http a".to_owned(), &down)]);
        assert_eq!(got.reasons, ["tcp a up: fine", "http a down: connect: refused"]);
    }

    #[test]
    fn recovery_is_that_of_the_check_that_completed_the_number() {
        let recovered = |at| {
            let mut health = check('U');
            health.recovered_ms = at;
            health
        };
        let checks = [recovered(Some(5)), recovered(None), recovered(Some(9))];
        for (require, want) in [(Require::All, Some(9)), (Require::AtLeast(2), Some(5)), (Require::Any, None)]
        {
            let labelled = checks.iter().map(|health| (String::new(), health));
            assert_eq!(combine(require, labelled).recovered_ms, want, "{require:?}");
        }
    }
}
