//! What a running node answers to its API.

use crate::engine::{Engine, lock};
use crate::metrics::{self, Family};
use crate::publisher::{Judged, Look, unix_of};
use crate::roster::{RosterMember, RosterService};
use crate::{clock, explain, peers, tables, target};
use portolan_api::{
    ApiError, CheckStatus, ChecksSummary, ConfigStatus, Degraded, ExplainQuery, Explained, ForceRequest,
    ForceResult, ForcedEntry, FrameSeen, FramesQuery, LastVerdict, LoadNow, LoadReport, LoadResult,
    LookupQuery, MemberStatus, Node, PeersStatus, ProximityPoint, ProximityQuery, ProximityShown,
    ReloadResult, ServiceStatus, ServicesQuery, ServicesSummary, StaticRequest, StaticResult, Status,
    TableLookup,
};
use portolan_balance::{ServiceId, State, Why};
use portolan_probe::{Basis, Verdict};
use std::sync::{Arc, Weak};

/// A node behind its API. It holds the engine weakly: the sockets belong to the engine.
pub struct Answers(pub Weak<Engine>);

impl Answers {
    fn engine(&self) -> Result<Arc<Engine>, ApiError> {
        self.0.upgrade().ok_or_else(|| ApiError::new(503, "the node is stopping", None))
    }
}

impl Node for Answers {
    fn status(&self) -> Result<Status, ApiError> {
        Ok(status(&*self.engine()?))
    }

    fn services(&self, query: &ServicesQuery) -> Result<Vec<ServiceStatus>, ApiError> {
        let engine = self.engine()?;
        let all = services(&engine, &engine.publisher.look());
        let Some(pattern) = &query.name else { return Ok(all) };
        let names: Vec<String> = all.iter().map(|service| service.name.clone()).collect();
        let found: Vec<_> =
            all.into_iter().filter(|service| target::is_service(pattern, &service.name)).collect();
        if found.is_empty() {
            let near = target::nearest(pattern, names.iter().map(String::as_str));
            let remedy = near.map_or("`portolan services` lists them".to_owned(), |near| {
                format!("did you mean {near:?}?")
            });
            return Err(ApiError::not_found(format!("no service is called {pattern:?}"), remedy));
        }
        Ok(found)
    }

    fn checks(&self) -> Result<Vec<CheckStatus>, ApiError> {
        Ok(checks(&*self.engine()?))
    }

    fn explain(&self, query: &ExplainQuery) -> Result<Explained, ApiError> {
        let engine = self.engine()?;
        let config = engine.config();
        let degraded =
            degraded(&engine).into_iter().map(|it| format!("{}: {}", it.mode, it.detail)).collect();
        let look = engine.publisher.look();
        let note = |service: ServiceId, candidate: portolan_balance::CandidateId| {
            let judged = look.judged.get(service.0 as usize)?.get(usize::from(candidate.0))?;
            Some(peers::told::reason(&judged.reason, judged.heard.as_ref()))
        };
        let next = |address| Some(engine.proximity.next(address));
        let notes = explain::Notes { note: &note, next: &next };
        let mut explained = explain::explain(&engine.snapshot.load(), &*config, degraded, query, &notes)?;
        if let Some(name) = &explained.service {
            explained.claims = peers::status::claims(&engine, &look, name);
        }
        Ok(explained)
    }

    fn forced(&self) -> Result<Vec<ForcedEntry>, ApiError> {
        Ok(self.engine()?.publisher.look().forced)
    }

    fn force(&self, request: &ForceRequest) -> Result<ForceResult, ApiError> {
        self.engine()?.publisher.force(request)
    }

    fn load(&self, report: &LoadReport) -> Result<LoadResult, ApiError> {
        self.engine()?.publisher.load(report)
    }

    fn reload(&self) -> Result<ReloadResult, ApiError> {
        self.engine()?.reload()
    }

    fn lookup(&self, query: &LookupQuery) -> Result<TableLookup, ApiError> {
        let config = self.engine()?.config();
        let hits = explain::Tables::hits(&*config, query.address);
        Ok(TableLookup { address: query.address.to_string(), hits })
    }

    fn peers(&self) -> Result<Option<PeersStatus>, ApiError> {
        Ok(peers::status::peers(&*self.engine()?))
    }

    fn frames(&self, query: &FramesQuery) -> Result<tokio::sync::mpsc::Receiver<FrameSeen>, ApiError> {
        peers::status::frames(&*self.engine()?, query)
    }

    fn proximity(&self, query: &ProximityQuery) -> Result<ProximityShown, ApiError> {
        let engine = self.engine()?;
        let view = engine.snapshot.load().view.clone();
        engine.proximity.show(query, &view)
    }

    fn proximity_export(&self) -> Result<Vec<ProximityPoint>, ApiError> {
        Ok(self.engine()?.proximity.export())
    }

    fn proximity_set(&self, request: &StaticRequest) -> Result<StaticResult, ApiError> {
        self.engine()?.proximity.write(request)
    }

    fn metrics(&self) -> Result<String, ApiError> {
        Ok(metrics_text(&*self.engine()?))
    }
}

fn status(engine: &Engine) -> Status {
    let look = engine.publisher.look();
    let (config, config_status) = {
        let now = lock(&engine.now);
        let status = ConfigStatus {
            path: engine.path().display().to_string(),
            hash: now.config.hash.clone(),
            loaded_unix: now.loaded_unix,
            reloads: now.reloads,
            last_error: now.last_error.clone(),
        };
        (now.config.clone(), status)
    };
    let started_unix = clock::started_unix_s();
    let listen =
        engine.addresses().iter().flat_map(|at| [format!("udp {at}"), format!("tcp {at}")]).collect();
    Status {
        node: config.node.name.clone(),
        site: site_name(&config),
        version: env!("CARGO_PKG_VERSION").into(),
        started_unix,
        uptime_s: clock::unix_s().saturating_sub(started_unix),
        generation: look.view.generation,
        config: config_status,
        listen,
        services: services_summary(&services(engine, &look)),
        checks: checks_summary(engine),
        degraded: degraded(engine),
        forced: look.forced,
        tables: tables::statuses(&config),
        peers: peers::status::peers(engine),
        proximity: engine.proximity.status(),
    }
}

fn site_name(config: &portolan_config::Compiled) -> String {
    config.sites.get(usize::from(config.node.site.0)).map_or_else(String::new, |site| site.name.clone())
}

fn services_summary(services: &[ServiceStatus]) -> ServicesSummary {
    let count = |state| services.iter().filter(|service| service.state == state).count() as u32;
    ServicesSummary {
        total: services.len() as u32,
        healthy: count("healthy"),
        impaired: count("impaired"),
        failed: count("failed"),
    }
}

fn checks_summary(engine: &Engine) -> ChecksSummary {
    let mut summary = ChecksSummary::default();
    for status in engine.runner.snapshot() {
        summary.total += 1;
        match (status.health.basis, status.health.state) {
            (Basis::Initial, _) => summary.unknown += 1,
            (_, portolan_probe::State::Up) => summary.up += 1,
            (_, portolan_probe::State::Down) => summary.down += 1,
        }
    }
    summary
}

fn services(engine: &Engine, look: &Look) -> Vec<ServiceStatus> {
    let heard_at = peers::status::heard_at(engine);
    let one = |service: &RosterService| {
        let members: Vec<MemberStatus> =
            service.members.iter().map(|it| member(engine, look, &heard_at, it)).collect();
        let lanes = service.members.iter().flat_map(|member| &member.seats).map(|seat| seat.service);
        let failed = |id: ServiceId| look.view.service(id).is_some_and(|it| it.standing.usable.is_empty());
        let state = if lanes.clone().any(failed) {
            "failed"
        } else if members.iter().all(|member| member.usable) {
            "healthy"
        } else {
            "impaired"
        };
        ServiceStatus { name: service.name.clone(), state: state.into(), members }
    };
    look.roster.services.iter().map(one).collect()
}

/// A member's state: of all its record types the worst.
fn member(
    engine: &Engine,
    look: &Look,
    heard_at: &peers::told::HeardAt,
    member: &RosterMember,
) -> MemberStatus {
    let unknown = Judged::default();
    let mut seats: Vec<(&Judged, Why)> = member
        .seats
        .iter()
        .map(|seat| {
            let (lane, candidate) = (seat.service.0 as usize, usize::from(seat.candidate.0));
            let judged = look.judged.get(lane).and_then(|lane| lane.get(candidate));
            let why = look.view.service(seat.service).and_then(|it| it.standing.why.get(candidate).copied());
            (judged.unwrap_or(&unknown), why.unwrap_or(Why::Usable))
        })
        .collect();
    seats.sort_by_key(|(judged, why)| (*why == Why::Usable, judged.fact.state.is_usable()));
    let (judged, why) = seats.first().copied().unwrap_or((&unknown, Why::Usable));
    let mut checks: Vec<String> =
        member.seats.iter().flat_map(|seat| &seat.checks).map(portolan_probe::CheckKey::id).collect();
    checks.sort();
    checks.dedup();
    let load = &judged.fact.load;
    MemberStatus {
        name: member.name.clone(),
        address: member.data.join(", "),
        inside: (!member.inside.is_empty()).then(|| member.inside.join(", ")),
        site: member.site.clone(),
        link: member.link.clone(),
        weight: member.weight,
        tier: member.tier,
        state: match judged.fact.state {
            State::Up => "up",
            State::Down => "down",
            State::Unknown { .. } => "unknown",
        }
        .into(),
        since_unix: judged.since_ms.map(|at_ms| unix_of(&engine.runner, at_ms)),
        reason: peers::told::reason(&judged.reason, judged.heard.as_ref()),
        usable: why == Why::Usable,
        why: why.text().into(),
        forced: judged.forced.clone(),
        ramp_percent: judged.fact.ramp.map(|share| (u32::from(share) * 100 / 256) as u8),
        load: LoadNow {
            share: load.share,
            connections: load.connections,
            bandwidth_bps: load.bandwidth_bps,
            bandwidth_max_bps: load.bandwidth_max_bps,
            response_us: load.response_us,
        },
        checks,
        claim: judged.heard.as_ref().map(|heard| peers::told::status(heard, heard_at)),
    }
}

fn checks(engine: &Engine) -> Vec<CheckStatus> {
    let look = engine.publisher.look();
    let users = |key: &portolan_probe::CheckKey| {
        let mut names = Vec::new();
        for service in engine.publisher.used_by(key).into_iter().filter_map(|at| look.roster.services.get(at))
        {
            let uses = |member: &&RosterMember| member.seats.iter().any(|seat| seat.checks.contains(key));
            names.extend(
                service.members.iter().filter(uses).map(|it| format!("{}/{}", service.name, it.name)),
            );
        }
        names
    };
    let one = |status: portolan_probe::Status| CheckStatus {
        id: status.key.id(),
        name: status.key.to_string(),
        state: match (status.health.basis, status.health.state) {
            (Basis::Initial, _) => "unknown",
            (_, portolan_probe::State::Up) => "up",
            (_, portolan_probe::State::Down) => "down",
        }
        .into(),
        since_unix: (status.health.basis != Basis::Initial)
            .then(|| unix_of(&engine.runner, status.health.since_ms)),
        reason: status.health.reason.clone(),
        last: status.health.last.as_ref().map(|last| LastVerdict {
            good: last.verdict.is_good(),
            text: match &last.verdict {
                Verdict::Good { note, .. } => note.clone(),
                Verdict::Bad(reason) => reason.to_string(),
            },
            at_unix: unix_of(&engine.runner, last.at_ms),
            took_us: u64::try_from(last.latency.as_micros()).unwrap_or(u64::MAX),
        }),
        used_by: users(&status.key),
    };
    engine.runner.snapshot().into_iter().map(one).collect()
}

/// Degraded modes (T6).
fn degraded(engine: &Engine) -> Vec<Degraded> {
    let config = engine.config();
    let mut modes = Vec::new();
    let mut add = |mode: &str, detail: String| modes.push(Degraded { mode: mode.into(), detail });
    for (name, age_s) in tables::ages(&config).filter(|(_, age_s)| *age_s > config.stale_after.as_secs()) {
        add("table-stale", format!("the ISP table {name} is {} days old", age_s / 86_400));
    }
    if let Some(error) = &lock(&engine.now).last_error {
        add("reload-refused", error.lines().next().unwrap_or_default().to_owned());
    }
    let look = engine.publisher.look();
    for service in services(engine, &look).iter().filter(|service| service.state == "failed") {
        add("fallback", format!("{} has no usable member", service.name));
    }
    for (mode, detail) in peers::status::degraded(engine) {
        add(mode, detail);
    }
    if engine.proximity.has_nothing() {
        add(
            "no-measurements",
            "services go by distance, and nothing was measured: other steps decide".into(),
        );
    }
    modes
}

fn metrics_text(engine: &Engine) -> String {
    let udp: Vec<_> = engine.with_listeners(|listeners| {
        listeners.udp_workers().map(|it| (it.stats.clone(), it.send_stats.clone())).collect()
    });
    let workers =
        udp.iter().map(|(stats, _)| &**stats).chain(engine.tcp.worker_stats().iter().map(|stats| &**stats));
    let mut families = metrics::of_workers(workers);
    let sum =
        |of: &dyn Fn(&crate::udp::SendStats) -> f64| udp.iter().map(|(_, stats)| of(stats)).sum::<f64>();
    let tcp = &engine.tcp.stats;
    families.push(
        Family::counter("udp_faults", "Socket calls that failed, and batches lost by a fault of the program")
            .with([("call", "receive")], sum(&|stats| metrics::value(&stats.receive_failed)))
            .with([("call", "send-no-room")], sum(&|stats| metrics::value(&stats.no_room)))
            .with([("call", "send")], sum(&|stats| metrics::value(&stats.failed)))
            .with([("call", "answer")], sum(&|stats| metrics::value(&stats.faults))),
    );
    families.push(
        Family::counter("tcp_connections", "TCP connections by how they went")
            .with([("event", "accepted")], metrics::value(&tcp.accepted))
            .with([("event", "evicted")], metrics::value(&tcp.evicted))
            .with([("event", "timed-out")], metrics::value(&tcp.timed_out))
            .with([("event", "accept-failed")], metrics::value(&tcp.accept_failed)),
    );
    families
        .push(Family::gauge("tcp_open", "TCP connections open").with([], engine.tcp.connections() as f64));
    let totals = engine.runner.totals();
    families.push(
        Family::counter("check_verdicts", "Verdicts of health checks")
            .with([("verdict", "good")], totals.good as f64)
            .with([("verdict", "bad")], totals.bad as f64),
    );
    families.push(
        Family::counter("check_skipped", "Starts of checks left out because the last was still running")
            .with([], totals.skipped as f64),
    );
    let summary = checks_summary(engine);
    families.push(
        Family::gauge("checks", "Health checks by state")
            .with([("state", "up")], summary.up)
            .with([("state", "down")], summary.down)
            .with([("state", "unknown")], summary.unknown),
    );
    of_services(engine, &mut families);
    families.extend(peers::status::metrics(engine));
    families.extend(engine.proximity.families());
    let now = lock(&engine.now);
    families.push(
        Family::counter("reloads", "Reloads by result")
            .with([("result", "good")], now.reloads as f64)
            .with([("result", "refused")], now.refused as f64),
    );
    let loaded = now.loaded_unix as f64;
    families.push(
        Family::gauge("config_loaded_timestamp_seconds", "When the config in force was read")
            .with([], loaded),
    );
    let config = now.config.clone();
    drop(now);
    let mut ages = Family::gauge("table_age_seconds", "Age of the files of ISP tables");
    for (name, age_s) in tables::ages(&config) {
        ages.add([("table", &name)], age_s as f64);
    }
    families.push(ages);
    let mut modes = Family::gauge("degraded", "Degraded modes: how many things are in each");
    let degraded = degraded(engine);
    let all = ["table-stale", "reload-refused", "fallback", "no-measurements"];
    for mode in all.into_iter().chain(peers::status::MODES) {
        modes.add([("mode", mode)], degraded.iter().filter(|it| it.mode == mode).count() as f64);
    }
    families.push(modes);
    let started = clock::started_unix_s() as f64;
    families.push(Family::gauge("start_timestamp_seconds", "When the process started").with([], started));
    let version = [("version", env!("CARGO_PKG_VERSION")), ("node", config.node.name.as_str())];
    families.push(Family::gauge("build_info", "The program; always 1").with(version, 1.0));
    metrics::text(families)
}

fn of_services(engine: &Engine, families: &mut Vec<Family>) {
    let look = engine.publisher.look();
    let mut usable = Family::gauge("member_usable", "Whether a member may be answered");
    let mut up = Family::gauge("member_up", "What the checks of a member say: 1 up, 0 down");
    let mut failed = Family::gauge("service_failed", "Whether a service's fallback answers");
    for service in services(engine, &look) {
        failed.add([("service", &service.name)], f64::from(u8::from(service.state == "failed")));
        for member in &service.members {
            let labels = [("service", service.name.as_str()), ("member", member.name.as_str())];
            usable.add(labels, f64::from(u8::from(member.usable)));
            up.add(labels, f64::from(u8::from(member.state != "down")));
        }
    }
    let config = engine.config();
    let mut decisions = Family::counter("service_decisions", "Decisions by service and record type");
    for (id, (service, lane)) in look.view.services.iter().zip(&config.lanes).enumerate() {
        let rtype = lane.rtype.to_string();
        let labels = [("service", service.policy.name.as_str()), ("type", &rtype)];
        decisions.add(labels, look.view.turns.peek(ServiceId(id as u32)) as f64);
    }
    families.extend([usable, up, failed, decisions]);
    families.push(
        Family::gauge("generation", "Generation of the view in force").with([], look.view.generation as f64),
    );
    families.push(Family::gauge("forced", "Members with a forced state").with([], look.forced.len() as f64));
}
