//! The peers as the API, the metrics and degraded modes show them.

use super::hearsay::Age;
use super::{monotonic_ms, own, told};
use crate::clock;
use crate::engine::Engine;
use crate::metrics::Family;
use crate::publisher::Look;
use portolan_api::{ApiError, FrameSeen, FramesQuery, MemberClaim, PeerNow, PeersStatus};
use portolan_peer::transport::{Kind, PeerLink, Status};
use portolan_peer::{PeerState, PeerStatus};
use tokio::sync::mpsc;

/// Degraded modes that peers can bring (T6).
pub(crate) const MODES: [&str; 5] =
    ["peer-lost", "peer-refused", "peer-differs", "peers-waiting", "certificate"];
/// Frames that wait for a slow reader; what is older is lost in the tap.
const FRAMES: usize = 256;
/// Certificates that end in less than this are a degraded mode.
const CERTIFICATE_SOON_S: i64 = portolan_peer::pki::EXPIRY_WARNING_DAYS * 86_400;

/// This node among its peers; none without `[peers]`.
pub(crate) fn peers(engine: &Engine) -> Option<PeersStatus> {
    let (peers, transport) = engine.peers.status()?;
    let now = peers.iter().map(|peer| {
        let link = transport.peers.iter().find(|link| link.name == peer.name);
        let age = engine.publisher.hearsay(|hearsay| hearsay.age(&peer.name));
        PeerNow { notice: engine.notice_of(&peer.name), ..peer_now(peer, link, age) }
    });
    let now = now.collect();
    let Status { listen, pin, certificate_left_s, warnings, .. } = transport;
    Some(PeersStatus {
        listen: listen.to_string(),
        pin: pin.to_string(),
        certificate_left_s,
        waiting: engine.peers.waits_until_ms().is_some(),
        warnings,
        peers: now,
    })
}

fn state_text(state: PeerState) -> &'static str {
    match state {
        PeerState::Down => "down",
        PeerState::Greeting => "greeting",
        PeerState::Syncing => "syncing",
        PeerState::Up => "up",
        PeerState::Silent => "silent",
    }
}

fn peer_now(peer: &PeerStatus, link: Option<&PeerLink>, age: Option<Age>) -> PeerNow {
    let now_ms = monotonic_ms();
    let newest = link.and_then(|link| link.links.last());
    let is_up = matches!(peer.state, PeerState::Up | PeerState::Syncing);
    // why there is no connection says more than why the last one ended
    let error = link.and_then(|link| link.last_error.clone()).filter(|_| newest.is_none());
    PeerNow {
        name: peer.name.clone(),
        site: peer.site.clone(),
        address: link.map_or_else(String::new, |link| link.address.to_string()),
        state: state_text(peer.state).into(),
        since_unix: clock::unix_s().saturating_sub(now_ms.saturating_sub(peer.since_ms) / 1000),
        heard_ms_ago: peer.heard_ms.map(|at_ms| now_ms.saturating_sub(at_ms)),
        transport: newest.map(|link| match link.kind {
            Kind::Quic => "quic".into(),
            Kind::Tcp => "tcp".into(),
        }),
        rtt_ms: peer.rtt_ms,
        version: peer.version,
        claims: peer.claims as u64,
        stale: age.is_some_and(|age| age != Age::Fresh),
        expired: age == Some(Age::Lost),
        certificate_left_s: newest.map(|link| link.certificate_left_s),
        failures: link.map_or(0, |link| link.failures),
        last_error: error.or_else(|| peer.last_error.clone()).filter(|_| !is_up || peer.last_error.is_some()),
        notice: None,
        differences: own::differences(&peer.differences),
        bytes_in: peer.counters.bytes_in,
        bytes_out: peer.counters.bytes_out,
    }
}

/// When each peer was last heard.
pub(crate) fn heard_at(engine: &Engine) -> told::HeardAt {
    let peers = engine.peers.look(portolan_peer::Mesh::peers).unwrap_or_default();
    peers.into_iter().filter_map(|peer| Some((peer.name, peer.heard_ms?))).collect()
}

/// What peers say of a service's learned members.
pub(crate) fn claims(engine: &Engine, look: &Look, service: &str) -> Vec<MemberClaim> {
    let heard_at = heard_at(engine);
    let services = look.roster.services.iter().filter(|one| one.name == service);
    let members = services.flat_map(|service| &service.members);
    let claims = members.filter_map(|member| {
        let heard = member.seats.iter().find_map(|seat| {
            let lane = look.judged.get(seat.service.0 as usize)?;
            lane.get(usize::from(seat.candidate.0))?.heard.as_ref()
        })?;
        Some(MemberClaim { member: member.name.clone(), claim: told::status(heard, &heard_at) })
    });
    claims.collect()
}

/// What is not as it should be among the peers.
pub(crate) fn degraded(engine: &Engine) -> Vec<(&'static str, String)> {
    let Some(status) = peers(engine) else { return Vec::new() };
    let mut modes = Vec::new();
    if status.waiting {
        modes.push(("peers-waiting", "not all peers have told what they serve".to_owned()));
    }
    for warning in status.warnings {
        modes.push(("certificate", warning));
    }
    for peer in &status.peers {
        if !matches!(peer.state.as_str(), "up" | "syncing") {
            let silent = peer.heard_ms_ago.map_or("never heard".to_owned(), |ms| {
                format!("silent for {}.{} s", ms / 1000, ms % 1000 / 100)
            });
            let claims = match (peer.expired, peer.stale) {
                (true, _) => ", its claims have expired",
                (false, true) => ", its claims are stale",
                (false, false) => "",
            };
            modes.push(("peer-lost", format!("{} is {}, {silent}{claims}", peer.name, peer.state)));
        }
        if let Some(notice) = &peer.notice {
            modes.push(("peer-refused", format!("{}: {notice}", peer.name)));
        }
        if !peer.differences.is_empty() {
            modes
                .push(("peer-differs", format!("{} has another {}", peer.name, peer.differences.join(", "))));
        }
        if let Some(left_s) = peer.certificate_left_s.filter(|left_s| *left_s < CERTIFICATE_SOON_S) {
            modes.push(("certificate", format!("that of {} ends in {} days", peer.name, left_s / 86_400)));
        }
    }
    modes
}

/// The frames between this node and its peers from now on.
pub(crate) fn frames(engine: &Engine, query: &FramesQuery) -> Result<mpsc::Receiver<FrameSeen>, ApiError> {
    if let (Some(wanted), Some(status)) = (&query.peer, peers(engine))
        && !status.peers.iter().any(|peer| peer.name == *wanted)
    {
        return Err(ApiError::not_found(
            format!("no peer is called {wanted:?}"),
            "`portolan peers` lists them",
        ));
    }
    if !engine.peers.is_open() {
        return Err(ApiError::not_found("this node has no peers", "its config has no [peers]"));
    }
    let Some(tap) = engine.peers.tap() else {
        let remedy = "end one of those that watch already";
        return Err(ApiError::new(503, "too many watch the frames already", Some(remedy.into())));
    };
    let (sender, receiver) = mpsc::channel(FRAMES);
    let wanted = query.peer.clone();
    tokio::spawn(async move {
        loop {
            let (record, lost) = tokio::select! {
                next = tap.next() => next,
                () = sender.closed() => return,
            };
            if wanted.as_ref().is_some_and(|peer| *peer != record.peer) {
                continue;
            }
            let text = record.told().to_string();
            let record = serde_json::to_value(record.traced()).unwrap_or_default();
            // a slow reader holds only this task; the tap drops and counts
            if sender.send(FrameSeen { text, record, lost }).await.is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}

/// The metrics of peers.
pub(crate) fn metrics(engine: &Engine) -> Vec<Family> {
    let Some((peers, transport)) = engine.peers.status() else { return Vec::new() };
    let mut up = Family::gauge("peer_up", "Whether a session with a peer stands");
    let mut rtt = Family::gauge("peer_rtt_seconds", "Round trip of the last keepalive of a peer");
    let mut claims = Family::gauge("peer_claims", "Claims of a peer that are held");
    let mut stale = Family::gauge("peer_stale", "Whether the claims of a peer are stale");
    let mut expired = Family::gauge("peer_expired", "Whether the claims of a peer have expired");
    let mut differs = Family::gauge("peer_differences", "Parts of config and tables that differ at a peer");
    let mut bytes = Family::counter("peer_bytes", "Octets to and from a peer");
    let mut items = Family::counter("peer_items", "Claims and withdrawals to and from a peer");
    let mut sessions = Family::counter("peer_sessions", "Sessions begun with a peer");
    let mut drops = Family::counter("peer_dropped", "What of a peer was dropped or refused, by reason");
    for peer in &peers {
        let name = peer.name.as_str();
        let one = [("peer", name)];
        let is_up = matches!(peer.state, PeerState::Up | PeerState::Syncing);
        up.add(one, f64::from(u8::from(is_up)));
        if let Some(ms) = peer.rtt_ms {
            rtt.add(one, f64::from(ms) / 1000.0);
        }
        claims.add(one, peer.claims as f64);
        let age = engine.publisher.hearsay(|hearsay| hearsay.age(name));
        stale.add(one, f64::from(u8::from(age.is_some_and(|age| age != Age::Fresh))));
        expired.add(one, f64::from(u8::from(age == Some(Age::Lost))));
        differs.add(one, own::differences(&peer.differences).len() as f64);
        let counters = &peer.counters;
        bytes.add([("peer", name), ("direction", "in")], counters.bytes_in as f64);
        bytes.add([("peer", name), ("direction", "out")], counters.bytes_out as f64);
        items.add([("peer", name), ("direction", "in")], counters.items_in as f64);
        items.add([("peer", name), ("direction", "out")], counters.items_out as f64);
        sessions.add(one, counters.sessions as f64);
        for (reason, count) in [
            ("replay", counters.replays),
            ("gap", counters.gaps),
            ("outdated", counters.outdated),
            ("flood", counters.floods),
            ("limit", counters.refused),
            ("refused", counters.refusals),
            ("ask", counters.asks_refused + counters.asks_dropped),
            ("reply", counters.replies_unasked),
            ("queue", counters.control_dropped),
        ] {
            drops.add([("peer", name), ("reason", reason)], count as f64);
        }
    }
    let mut families = vec![up, rtt, claims, stale, expired, differs, bytes, items, sessions, drops];
    families.extend(of_transport(&transport));
    families.extend(of_news(engine));
    families
}

fn of_transport(transport: &Status) -> Vec<Family> {
    let counted = &transport.counted;
    let mut refused =
        Family::counter("peer_handshakes_refused", "Handshakes of peers that failed, by reason");
    for (reason, count) in &counted.refused {
        refused.add([("reason", reason)], *count as f64);
    }
    for (reason, count) in [
        ("handshake", counted.handshakes_failed),
        ("timeout", counted.handshakes_timed_out),
        ("room", counted.turned_away),
    ] {
        refused.add([("reason", reason)], count as f64);
    }
    let lost = Family::counter("peer_records_lost", "Events and trace records that were lost, by kind")
        .with([("kind", "event")], counted.events_dropped as f64)
        .with([("kind", "trace")], counted.trace_dropped as f64);
    let dials = Family::counter("peer_dials_failed", "Dials of peers that brought no connection")
        .with([], counted.dials_failed as f64);
    let left = Family::gauge("peer_certificate_left_seconds", "Time until this node's certificate ends")
        .with([], transport.certificate_left_s as f64);
    vec![refused, lost, dials, left]
}

/// How long claims take from their arrival to the view that answers.
fn of_news(engine: &Engine) -> Vec<Family> {
    let heard = engine.publisher.news_counted();
    let news = Family::counter("peer_news", "Changes by peers' claims that were put in force")
        .with([], heard.count as f64);
    let took =
        Family::counter("peer_news_seconds", "Time from hearing a change to the view that has it, summed")
            .with([], heard.took_us as f64 / 1e6);
    vec![news, took]
}
