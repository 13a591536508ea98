//! What a peer's word makes of a candidate, and how it is told to people.

use super::hearsay::{Age, Heard};
use super::monotonic_ms;
use super::saved::state_text;
use portolan_api::ClaimStatus;
use portolan_balance::{Forced, Load, State};
use portolan_config::PeerLossWord;
use portolan_peer::{ServerState, VirtualServer};
use std::collections::BTreeMap;

/// What a peer's word comes to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) state: State,
    /// What the peer's own operators decided.
    pub(crate) forced: Option<Forced>,
    pub(crate) reason: String,
    /// Whether this node's checks decided.
    pub(crate) by_checks: bool,
}

/// What becomes of a candidate by what was heard of it. `checked` is what checks from here say, where some have run.
pub(crate) fn judge(heard: &Heard, on_loss: PeerLossWord, checked: Option<State>) -> Verdict {
    let told = &heard.told.server;
    let (state, forced) = match told.state {
        ServerState::Up => (State::Up, None),
        ServerState::Down => (State::Down, None),
        ServerState::Unknown => (State::Unknown { counts_as_up: true }, None),
        ServerState::Drain => (State::Up, Some(Forced::Drain)),
        ServerState::Disabled => (State::Up, Some(Forced::Disabled)),
    };
    let said = match told.reason.as_str() {
        "" => format!("{} says {}", heard.claimant.author, state_text(told.state)),
        reason => format!("{} says {}: {reason}", heard.claimant.author, state_text(told.state)),
    };
    let as_told = Verdict { state, forced, reason: said, by_checks: false };
    match (heard.age, on_loss, checked) {
        (Age::Fresh | Age::Stale, ..) | (Age::Lost, PeerLossWord::Keep, _) => as_told,
        (Age::Lost, PeerLossWord::Expire, _) => Verdict {
            state: State::Down,
            reason: format!("its claims have expired; the last was: {}", as_told.reason),
            ..as_told
        },
        // no verdict yet: it counts as it was told last
        (Age::Lost, PeerLossWord::DirectCheck, None | Some(State::Unknown { .. })) => {
            let counts_as_up = state.is_usable();
            let reason = format!("checked from here, without a verdict yet; {}", as_told.reason);
            Verdict { state: State::Unknown { counts_as_up }, reason, ..as_told }
        }
        (Age::Lost, PeerLossWord::DirectCheck, Some(state)) => Verdict { state, by_checks: true, ..as_told },
    }
}

/// The load that a peer tells of.
pub(crate) fn load(server: &VirtualServer) -> Load {
    let of_connections =
        || server.connections.zip(server.capacity).map(|(now, most)| now as f32 / most.max(1) as f32);
    let share = server.load_permille.map(|permille| f32::from(permille) / 1000.0).or_else(of_connections);
    Load { share, connections: server.connections, ..Load::default() }
}

/// How long an author has been silent, for people; nothing while it is heard.
pub(crate) fn silence(heard: &Heard) -> Option<String> {
    let silent_ms = monotonic_ms().saturating_sub(heard.heard_ms);
    match heard.age {
        Age::Fresh => None,
        Age::Stale | Age::Lost => {
            let seconds = silent_ms / 100;
            Some(format!("peer {} silent for {}.{} s", heard.claimant.author, seconds / 10, seconds % 10))
        }
    }
}

/// A reason with what time makes of it.
pub(crate) fn reason(reason: &str, heard: Option<&Heard>) -> String {
    match heard.and_then(silence) {
        Some(silence) if reason.is_empty() => silence,
        Some(silence) => format!("{silence}; {reason}"),
        None => reason.to_owned(),
    }
}

/// When each peer was last heard: claims of one who is heard are not told again.
pub(crate) type HeardAt = BTreeMap<String, u64>;

/// What was heard of a member, for the API.
pub(crate) fn status(heard: &Heard, heard_at: &HeardAt) -> ClaimStatus {
    let Heard { claimant, age, heard_ms, told } = heard;
    let now_ms = monotonic_ms();
    let now_heard = heard_at.get(&claimant.author).filter(|_| *age == Age::Fresh);
    let heard_ms = now_heard.map_or(*heard_ms, |at_ms| *heard_ms.max(at_ms));
    ClaimStatus {
        author: claimant.author.clone(),
        name: claimant.name.clone(),
        state: state_text(told.server.state).into(),
        reason: told.server.reason.clone(),
        age_ms: now_ms.saturating_sub(told.received_ms),
        heard_ms_ago: now_ms.saturating_sub(heard_ms),
        stale: *age != Age::Fresh,
        expired: *age == Age::Lost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::hearsay::Told;
    use portolan_config::Claimant;

    fn heard(state: ServerState, age: Age) -> Heard {
        let server = VirtualServer {
            name: "www".into(),
            service: "www.example.com.".into(),
            address: [192, 0, 2, 1].into(),
            site: "fra".into(),
            link: None,
            weight: 1,
            tier: 1,
            state,
            reason: "tcp refused".into(),
            load_permille: None,
            connections: Some(50),
            capacity: Some(200),
        };
        let told = Told { server, received_ms: 0, changed_ms: None, recovered_ms: None };
        Heard { claimant: Claimant { author: "fra1".into(), name: "www".into() }, age, heard_ms: 0, told }
    }

    #[test]
    fn what_becomes_of_a_candidate() {
        use PeerLossWord::{DirectCheck, Expire, Keep};
        let unknown = |counts_as_up| State::Unknown { counts_as_up };
        let (up, down, drain) = (ServerState::Up, ServerState::Down, ServerState::Drain);
        for (said, age, on_loss, checked, state, forced, by_checks) in [
            (up, Age::Fresh, Expire, None, State::Up, None, false),
            (down, Age::Fresh, DirectCheck, Some(State::Up), State::Down, None, false),
            (drain, Age::Fresh, Expire, None, State::Up, Some(Forced::Drain), false),
            (ServerState::Unknown, Age::Fresh, Expire, None, unknown(true), None, false),
            (up, Age::Stale, Expire, None, State::Up, None, false),
            (up, Age::Lost, Expire, None, State::Down, None, false),
            (up, Age::Lost, Keep, None, State::Up, None, false),
            (down, Age::Lost, Keep, None, State::Down, None, false),
            (up, Age::Lost, DirectCheck, None, unknown(true), None, false),
            (down, Age::Lost, DirectCheck, Some(unknown(true)), unknown(false), None, false),
            (up, Age::Lost, DirectCheck, Some(State::Down), State::Down, None, true),
            (down, Age::Lost, DirectCheck, Some(State::Up), State::Up, None, true),
        ] {
            let verdict = judge(&heard(said, age), on_loss, checked);
            let got = (verdict.state, verdict.forced, verdict.by_checks);
            assert_eq!(got, (state, forced, by_checks), "{said:?} {age:?} {on_loss:?} {checked:?}");
        }
    }

    #[test]
    fn who_is_heard_is_heard_now() {
        let heard_at = HeardAt::from([("fra1".into(), monotonic_ms())]);
        assert!(status(&heard(ServerState::Up, Age::Fresh), &heard_at).heard_ms_ago < 1_000);
        let lost = Heard { heard_ms: 0, ..heard(ServerState::Up, Age::Lost) };
        let expected = monotonic_ms();
        assert!(status(&lost, &heard_at).heard_ms_ago >= expected);
    }

    #[test]
    fn words_and_loads() {
        assert_eq!(load(&heard(ServerState::Up, Age::Fresh).told.server).share, Some(0.25));
        let lost = heard(ServerState::Up, Age::Lost);
        let text = reason(&judge(&lost, PeerLossWord::Expire, None).reason, Some(&lost));
        assert!(text.starts_with("peer fra1 silent for "), "{text}");
        assert!(text.ends_with("fra1 says up: tcp refused"), "{text}");
        assert_eq!(reason("x", Some(&heard(ServerState::Up, Age::Fresh))), "x");
    }
}
