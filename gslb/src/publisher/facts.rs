//! One member's facts: its checks combined, its slow start, its load, and the operator's word over all.

use super::words::WordBook;
use crate::peers::hearsay::{Heard, Hearsay};
use crate::peers::told;
use crate::roster::{RosterMember, RosterService, Seat};
use portolan_api::{ApiError, ForceAction, ForcedEntry, LoadReport};
use portolan_balance::{Fact, Forced, Load, State};
use portolan_config::Origin;
use portolan_probe::{Health, Runner, combine};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Longest time a load report may hold.
const LOAD_TTL_MAX_S: u64 = 7 * 86_400;

/// A member's facts, and the words for them.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    /// What decisions go by.
    pub fact: Fact,
    /// What was seen, for people.
    pub reason: String,
    /// Since when its checks say so, on the runner's clock.
    pub since_ms: Option<i64>,
    /// The forced state.
    pub forced: Option<ForcedEntry>,
    /// What peers say of it, where it was learned.
    pub heard: Option<Heard>,
}

/// A load that was reported through the API.
#[derive(Clone, Debug, Default)]
pub(super) struct Reported {
    load: Load,
    /// When it is forgotten.
    pub(super) ends: Option<Instant>,
}

impl Reported {
    /// Checks a report.
    pub(super) fn new(report: &LoadReport) -> Result<Self, ApiError> {
        let LoadReport {
            target: _,
            share,
            connections,
            bandwidth_bps,
            bandwidth_max_bps,
            response_us,
            ttl_s,
        } = report;
        if share.is_some_and(|share| !(0.0..=1000.0).contains(&share)) {
            return Err(ApiError::bad_request(
                "the share is not a number of at least 0",
                "0.0 is idle, 1.0 is full",
            ));
        }
        if !(1..=LOAD_TTL_MAX_S).contains(ttl_s) {
            let error = format!("a ttl of {ttl_s} s is outside 1 to {LOAD_TTL_MAX_S}");
            return Err(ApiError::bad_request(
                error,
                "reports are to be renewed: give about three times their interval",
            ));
        }
        let load = Load {
            share: *share,
            connections: *connections,
            bandwidth_bps: *bandwidth_bps,
            bandwidth_max_bps: *bandwidth_max_bps,
            response_us: *response_us,
        };
        if load == Load::default() {
            return Err(ApiError::bad_request(
                "the report says nothing",
                "give share, connections, a bandwidth or a time",
            ));
        }
        Ok(Self { load, ends: Instant::now().checked_add(Duration::from_secs(*ttl_s)) })
    }

    /// Takes what a newer report says.
    pub(super) fn update(&mut self, newer: &Self) {
        self.load = over(newer.load, self.load);
        self.ends = newer.ends;
    }
}

/// What `first` says, and where it says nothing what `second` says.
fn over(first: Load, second: Load) -> Load {
    Load {
        share: first.share.or(second.share),
        connections: first.connections.or(second.connections),
        bandwidth_bps: first.bandwidth_bps.or(second.bandwidth_bps),
        bandwidth_max_bps: first.bandwidth_max_bps.or(second.bandwidth_max_bps),
        response_us: first.response_us.or(second.response_us),
    }
}

/// What was seen of a member in one of its seats, before operators say their word.
struct Seen {
    state: State,
    reason: String,
    since_ms: Option<i64>,
    ramp: Option<u16>,
    load: Load,
    /// What its own node has decided.
    by_author: Option<Forced>,
    heard: Option<Heard>,
}

impl Seen {
    /// Of a learned member that nobody speaks for any more; the next plan is without it.
    fn nothing() -> Self {
        Self {
            state: State::Down,
            reason: "no peer claims it any more".into(),
            since_ms: None,
            ramp: None,
            load: Load::default(),
            by_author: None,
            heard: None,
        }
    }
}

/// Where a member's facts come from.
pub(super) struct Sources<'a> {
    pub(super) runner: &'a Runner,
    pub(super) words: &'a mut WordBook,
    pub(super) loads: &'a HashMap<(String, String), Reported>,
    pub(super) hearsay: &'a Hearsay,
    pub(super) service: &'a RosterService,
    pub(super) member: &'a RosterMember,
    /// A service it depends on that has no usable member where it is.
    pub(super) missing: Option<&'a str>,
}

impl Sources<'_> {
    /// What is known of the member in one of its seats.
    pub(super) fn judge(&mut self, seat: &Seat) -> Judged {
        let (service, member) = (self.service, self.member);
        let Seen { mut state, mut reason, since_ms, ramp, load, by_author, heard } = match &seat.origin {
            Origin::Configured | Origin::Local(_) => self.checked(seat),
            Origin::Learned(claimants) => match self.hearsay.of(claimants) {
                Some(heard) => self.heard(seat, heard),
                None => Seen::nothing(),
            },
        };
        // of what was learned its own node says when it may serve again (case H17)
        if service.manual_resume && !matches!(seat.origin, Origin::Learned(_)) {
            if state == State::Down {
                self.words.wait(&service.name, &member.name);
            } else if self.words.is_waiting(&service.name, &member.name) {
                state = State::Down;
                reason = format!("it failed and waits for `portolan enable`; {reason}");
            }
        }
        if let Some(missing) = self.missing {
            let place = member.site.as_ref().map_or(String::new(), |site| format!(" at {site}"));
            state = State::Down;
            reason = format!("it depends on {missing}, which has no usable member{place}; {reason}");
        }
        let forced = self.words.of(&service.name, &member.name).cloned();
        let word = forced.as_ref().and_then(|entry| match entry.action {
            ForceAction::Drain => Some(Forced::Drain),
            ForceAction::Disable => Some(Forced::Disabled),
            ForceAction::Up => Some(Forced::Up),
            ForceAction::Down => Some(Forced::Down),
            ForceAction::Enable => None,
        });
        let by_config = member.is_disabled.then_some(Forced::Disabled);
        Judged {
            fact: Fact { state, forced: word.or(by_config).or(by_author), ramp, load: self.reported(load) },
            reason,
            since_ms,
            forced,
            heard,
        }
    }

    /// What checks say.
    fn checked(&self, seat: &Seat) -> Seen {
        // a check of the current generation always has a state; one that has not yet is left out
        let healths: Vec<(String, Health)> =
            seat.checks.iter().filter_map(|key| Some((key.to_string(), self.runner.health(key)?))).collect();
        let combined = combine(seat.require, healths.iter().map(|(label, health)| (label.clone(), health)));
        let is_up = combined.state == portolan_probe::State::Up;
        let state = match (combined.known, is_up) {
            (true, true) => State::Up,
            (true, false) => State::Down,
            (false, counts_as_up) => State::Unknown { counts_as_up },
        };
        let recovered = combined.recovered_ms.map(|at_ms| self.runner.now_ms().saturating_sub(at_ms));
        let agreeing =
            healths.iter().filter(|(_, health)| (health.state == portolan_probe::State::Up) == is_up);
        Seen {
            state,
            reason: combined.reasons.join("; "),
            since_ms: agreeing.map(|(_, health)| health.since_ms).max(),
            ramp: self.ramp(recovered),
            load: self.load(&healths),
            by_author: None,
            heard: None,
        }
    }

    /// What a peer says, and what becomes of it while the peer is lost (cases P01, P02).
    fn heard(&self, seat: &Seat, heard: Heard) -> Seen {
        let now_ms = crate::peers::monotonic_ms();
        let ago = |at_ms: u64| i64::try_from(now_ms.saturating_sub(at_ms)).unwrap_or(i64::MAX);
        // none may be meant: it counts as up then
        let is_checked =
            seat.checks.is_empty() || seat.checks.iter().any(|key| self.runner.health(key).is_some());
        let checked = self.checked(seat);
        let verdict = told::judge(&heard, self.service.on_peer_loss, is_checked.then_some(checked.state));
        let reason = match verdict.by_checks {
            true => checked.reason,
            false => verdict.reason,
        };
        let changed = if verdict.by_checks { None } else { heard.told.changed_ms };
        let recovered = heard.told.recovered_ms.map(ago);
        Seen {
            state: verdict.state,
            reason,
            since_ms: changed.map(|at_ms| self.runner.now_ms().saturating_sub(ago(at_ms))),
            ramp: self.ramp(recovered),
            load: Load { bandwidth_max_bps: self.member.capacity_bps, ..told::load(&heard.told.server) },
            by_author: verdict.forced,
            heard: Some(heard),
        }
    }

    /// The slow start of a member that recovered so many milliseconds ago.
    fn ramp(&self, recovered_ago_ms: Option<i64>) -> Option<u16> {
        let (ramp, ago_ms) = self.service.ramp.zip(recovered_ago_ms)?;
        ramp.share(Duration::from_millis(u64::try_from(ago_ms).unwrap_or(0)))
    }

    /// A reported load is stronger than what was seen.
    fn reported(&self, seen: Load) -> Load {
        let who = (self.service.name.clone(), self.member.name.clone());
        self.loads.get(&who).map_or(seen, |reported| over(reported.load, seen))
    }

    /// The load that checks have seen.
    fn load(&self, healths: &[(String, Health)]) -> Load {
        let share = healths
            .iter()
            .filter_map(|(_, health)| health.load())
            .fold(None, |most: Option<f64>, load| Some(most.map_or(load, |most| most.max(load))));
        let response_us = healths
            .iter()
            .filter_map(|(_, health)| health.last.as_ref())
            .filter(|seen| self.service.is_timed && seen.verdict.is_good())
            .map(|seen| u32::try_from(seen.latency.as_micros()).unwrap_or(u32::MAX))
            .max();
        Load {
            share: share.map(|share| share as f32),
            response_us,
            bandwidth_max_bps: self.member.capacity_bps,
            ..Load::default()
        }
    }
}
