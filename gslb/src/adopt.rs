//! A compiled config as the rest of the daemon takes it.

use crate::publisher::Plan;
use crate::roster::{Roster, RosterMember, RosterService, Seat};
use crate::tcp::Limits;
use portolan_balance::{CandidateId, Scheduler, ServiceId};
use portolan_config::{Compiled, Cookies, LaneInfo};
use portolan_dns::cookie::CookieSecrets;
use portolan_dns::measure::Measure;
use portolan_dns::respond::Options;
use portolan_dns::rrl::Rrl;
use std::sync::Arc;

/// What the DNS side learns while it runs, and keeps over a reload.
#[derive(Debug, Default)]
pub struct Carried {
    secrets: Option<CookieSecrets>,
    rrl: Option<Arc<Rrl>>,
    /// What queries tell of clients whose distance counts.
    pub(crate) measure: Option<Arc<Measure>>,
}

impl Carried {
    /// At the start, with where queries tell of clients.
    #[must_use]
    pub fn measuring(measure: Option<Arc<Measure>>) -> Self {
        Self { measure, ..Self::default() }
    }
}

/// The snapshot's lasting parts. With `is_waiting` peers have not yet told what they serve (case P12).
#[must_use]
pub fn plan(compiled: &Compiled, carried: &mut Carried, is_waiting: bool) -> Plan {
    let policies = if is_waiting { crate::peers::hold_back(compiled) } else { compiled.policies.clone() };
    Plan {
        nets: compiled.nets.clone(),
        classes: compiled.classes.clone(),
        policies,
        catalog: compiled.catalog.clone(),
        options: Arc::new(options(compiled, carried)),
        roster: Arc::new(roster(compiled)),
    }
}

/// Limits of TCP.
#[must_use]
pub fn limits(compiled: &Compiled) -> Limits {
    let portolan_config::Tcp { max_connections, idle_timeout, query_timeout, pipeline } = compiled.dns.tcp;
    Limits { connections: max_connections, idle: idle_timeout, query: query_timeout, pipeline }
}

fn options(compiled: &Compiled, carried: &mut Carried) -> Options {
    let portolan_config::Dns { listen: _, ecs, cookies, nsid, version, id, udp_size, tcp: _, rrl } =
        &compiled.dns;
    let cookies = match cookies {
        Cookies::Off => None,
        Cookies::Shared(secrets) => Some(secrets.clone()),
        Cookies::Drawn => Some(carried.secrets.get_or_insert_with(draw).clone()),
    };
    // the table of limits lives on unless its settings changed
    carried.rrl = rrl.as_ref().map(|config| match carried.rrl.take() {
        Some(running) if running.config() == config => running,
        Some(_) | None => Arc::new(Rrl::new(config.clone(), fastrand::u64(..))),
    });
    Options {
        ecs: ecs.clone(),
        cookies,
        nsid: nsid.clone().map(String::into_bytes),
        version_bind: version.clone(),
        id_server: id.clone(),
        udp_size: *udp_size,
        rrl: carried.rrl.clone(),
        measure: carried.measure.clone(),
        extended_errors: true,
    }
}

/// A secret from the system's randomness: guessing it would be forging cookies.
fn draw() -> CookieSecrets {
    let mut current = [0; 16];
    let read = std::fs::File::open("/dev/urandom")
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut current));
    if let Err(error) = read {
        tracing::warn!(%error, "no system randomness for cookies");
        current = fastrand::u128(..).to_be_bytes();
    }
    CookieSecrets { current, previous: None }
}

fn roster(compiled: &Compiled) -> Roster {
    let services = compiled.services.iter().map(|service| {
        let mut members: Vec<RosterMember> = service
            .members
            .iter()
            .map(|name| RosterMember { name: name.clone(), ..RosterMember::default() })
            .collect();
        for &lane in &service.lanes {
            seat_lane(compiled, lane, &mut members);
        }
        let is_timed = service.lanes.iter().filter_map(|lane| compiled.policies.get(lane.0 as usize));
        RosterService {
            name: service.name.to_string(),
            members,
            ramp: service.ramp,
            manual_resume: service.manual_resume,
            is_timed: is_timed.clone().any(|policy| matches!(policy.scheduler, Scheduler::LeastTime)),
            depends_on: service.depends_on.clone(),
            on_peer_loss: service.on_peer_loss,
        }
    });
    let services: Vec<RosterService> = services.collect();
    let servers = crate::peers::own::servers(compiled, &services);
    Roster { services, servers }
}

/// Enters the candidates of one record type as seats of their members.
fn seat_lane(compiled: &Compiled, lane: ServiceId, members: &mut [RosterMember]) {
    let at = lane.0 as usize;
    let (Some(policy), Some(LaneInfo { members: infos, .. })) =
        (compiled.policies.get(at), compiled.lanes.get(at))
    else {
        return;
    };
    for (number, (candidate, info)) in (0..=u8::MAX).zip(policy.candidates.iter().zip(infos)) {
        let Some(member) = members.get_mut(info.member) else { continue };
        let site = candidate.site.and_then(|site| compiled.sites.get(usize::from(site.0)));
        let link = info.link.zip(site).and_then(|(id, site)| site.links.get(usize::from(id.link)));
        member.site = site.map(|site| site.name.clone());
        member.link = link.map(|link| link.name.clone());
        member.weight = candidate.weight;
        member.tier = candidate.tier;
        member.is_disabled = !info.enabled;
        member.capacity_bps = info.capacity_bps;
        if !member.data.contains(&info.data) {
            member.data.push(info.data.clone());
        }
        let inside = info.inside.map(|address| address.to_string());
        member.inside.extend(inside.filter(|address| !member.inside.contains(address)));
        member.seats.push(Seat {
            service: lane,
            candidate: CandidateId(number),
            checks: info.checks.keys.clone(),
            require: info.checks.require,
            origin: info.origin.clone(),
        });
    }
}
