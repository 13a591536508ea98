//! What this node claims: its virtual servers with their states, its links, and the ids of what must be equal.

use crate::publisher::Judged;
use crate::roster::{MemberAt, RosterServer, RosterService};
use portolan_balance::{Forced, State};
use portolan_config::{Compiled, Origin};
use portolan_peer::{Claim, Digest, LinkState, ServerState, VirtualServer};
use portolan_probe::{Combined, State as Checked};
use std::collections::HashMap;

/// Begins the name of a part of the config in a digest's tables: differences are told by part.
const PART: &str = "config:";

/// The virtual servers of a config.
pub(crate) fn servers(compiled: &Compiled, services: &[RosterService]) -> Vec<RosterServer> {
    let mut seats: HashMap<usize, (MemberAt, usize)> = HashMap::new();
    for (service, one) in services.iter().enumerate() {
        for (member, it) in one.members.iter().enumerate() {
            for (seat, place) in it.seats.iter().enumerate() {
                if let Origin::Local(at) = place.origin {
                    seats.entry(at).or_insert((MemberAt { service, member }, seat));
                }
            }
        }
    }
    let one = |(at, server): (usize, &portolan_config::VirtualServer)| {
        let site = compiled.sites.get(usize::from(server.site.0));
        let link = server.link.zip(site).and_then(|(id, site)| site.links.get(usize::from(id.link)));
        RosterServer {
            claim: VirtualServer {
                name: server.name.clone(),
                service: server.service.to_string().to_ascii_lowercase(),
                address: server.address,
                site: site.map_or_else(String::new, |site| site.name.clone()),
                link: link.map(|link| link.name.clone()),
                weight: server.weight,
                tier: server.tier,
                state: ServerState::Unknown,
                reason: String::new(),
                load_permille: None,
                connections: None,
                capacity: server.connections_max,
            },
            checks: server.checks.keys.clone(),
            require: server.checks.require,
            seat: seats.get(&at).copied(),
        }
    };
    compiled.virtual_servers.iter().enumerate().map(one).collect()
}

/// The claim of a virtual server that is a member of a service here: what is known of the member.
pub(crate) fn of_member(server: &RosterServer, judged: &Judged) -> VirtualServer {
    let (state, word) = match judged.fact.forced {
        Some(Forced::Drain) => (ServerState::Drain, "draining"),
        Some(Forced::Disabled) => (ServerState::Disabled, "disabled"),
        Some(Forced::Up) => (ServerState::Up, "forced up"),
        Some(Forced::Down) => (ServerState::Down, "forced down"),
        None => match judged.fact.state {
            State::Up => (ServerState::Up, ""),
            State::Down => (ServerState::Down, ""),
            State::Unknown { .. } => (ServerState::Unknown, ""),
        },
    };
    let reason = match (&judged.forced, word) {
        (Some(entry), word) if !entry.reason.is_empty() => {
            format!("{word} by {}: {}", entry.author, entry.reason)
        }
        (Some(entry), word) => format!("{word} by {}", entry.author),
        (None, "") => judged.reason.clone(),
        (None, word) => format!("{word} by the config"),
    };
    let load = &judged.fact.load;
    let permille = load.share.map(|share| (share * 1000.0).clamp(0.0, f32::from(u16::MAX)) as u16);
    VirtualServer {
        state,
        reason,
        load_permille: permille,
        connections: load.connections,
        ..server.claim.clone()
    }
}

/// The claim of a virtual server that no service here has: what its checks say.
pub(crate) fn of_checks(server: &RosterServer, combined: &Combined) -> VirtualServer {
    let state = match (combined.known, combined.state) {
        (false, _) => ServerState::Unknown,
        (true, Checked::Up) => ServerState::Up,
        (true, Checked::Down) => ServerState::Down,
    };
    VirtualServer { state, reason: combined.reasons.join("; "), ..server.claim.clone() }
}

/// What a config alone says: links and digest.
pub(crate) fn of_config(compiled: &Compiled) -> Vec<Claim> {
    let parts = compiled.shared.parts.iter().map(|(name, id)| (format!("{PART}{name}"), id.clone()));
    let digest = Digest {
        config: compiled.shared.digest.clone(),
        tables: compiled.table_ids().into_iter().chain(parts).collect(),
        version: env!("CARGO_PKG_VERSION").into(),
    };
    let mut claims = vec![Claim::Digest(digest)];
    let site = compiled.sites.get(usize::from(compiled.node.site.0));
    for (site, link) in site.into_iter().flat_map(|site| site.links.iter().map(move |link| (site, link))) {
        let capacity = link.capacity_bps.unwrap_or(0);
        // links have no checks of their own here: what goes through them is checked
        claims.push(Claim::Link(LinkState {
            site: site.name.clone(),
            name: link.name.clone(),
            is_up: true,
            in_bps: 0,
            out_bps: 0,
            capacity_in_bps: capacity,
            capacity_out_bps: capacity,
        }));
    }
    claims
}

/// Differences of digests in words: `config: services`, `table isp`, `version`.
pub(crate) fn differences(found: &[String]) -> Vec<String> {
    let part = |text: &String| {
        text.strip_prefix("table ")
            .and_then(|name| name.strip_prefix(PART))
            .map(|name| format!("config: {name}"))
    };
    let has_parts = found.iter().any(|text| part(text).is_some());
    let told = found.iter().filter(|text| !(has_parts && *text == "config"));
    told.map(|text| part(text).unwrap_or_else(|| text.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use portolan_api::{ForceAction, ForcedEntry};
    use portolan_balance::{Fact, Load};

    fn server() -> RosterServer {
        let claim = VirtualServer {
            name: "www-bj".into(),
            service: "www.example.com.".into(),
            address: [192, 0, 2, 10].into(),
            site: "beijing".into(),
            link: None,
            weight: 2,
            tier: 1,
            state: ServerState::Unknown,
            reason: String::new(),
            load_permille: None,
            connections: None,
            capacity: Some(100),
        };
        RosterServer { claim, checks: Vec::new(), require: portolan_probe::Require::All, seat: None }
    }

    #[test]
    fn a_member_is_claimed_as_it_stands() {
        let entry = |action, reason: &str| ForcedEntry {
            service: "www.example.com.".into(),
            member: "beijing".into(),
            action,
            author: "ops".into(),
            reason: reason.into(),
            at_unix: 0,
            until_unix: None,
        };
        let unknown = State::Unknown { counts_as_up: true };
        for (state, forced, by, expected, reason) in [
            (State::Up, None, None, ServerState::Up, "tcp up"),
            (State::Down, None, None, ServerState::Down, "tcp up"),
            (unknown, None, None, ServerState::Unknown, "tcp up"),
            (State::Up, Some(Forced::Disabled), None, ServerState::Disabled, "disabled by the config"),
            (
                State::Up,
                Some(Forced::Drain),
                Some(entry(ForceAction::Drain, "kernel")),
                ServerState::Drain,
                "draining by ops: kernel",
            ),
            (
                State::Down,
                Some(Forced::Up),
                Some(entry(ForceAction::Up, "")),
                ServerState::Up,
                "forced up by ops",
            ),
        ] {
            let load = Load { share: Some(0.25), ..Load::default() };
            let fact = Fact { state, forced, ramp: None, load };
            let judged = Judged { fact, reason: "tcp up".into(), forced: by, ..Judged::default() };
            let claim = of_member(&server(), &judged);
            assert_eq!((claim.state, claim.reason.as_str()), (expected, reason));
            assert_eq!((claim.load_permille, claim.capacity, claim.weight), (Some(250), Some(100), 2));
        }
    }

    #[test]
    fn differences_are_told_by_part() {
        let told =
            |found: &[&str]| differences(&found.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
        assert_eq!(
            told(&["config", "table isp", "table config:services"]),
            ["table isp", "config: services"]
        );
        assert_eq!(told(&["config", "version"]), ["config", "version"]);
        assert!(told(&[]).is_empty());
    }
}
