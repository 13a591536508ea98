//! The mesh's events become news: facts at once, members a moment later, on a thread that may block.

use super::hearsay::{Age, News};
use super::{Batch, Line, monotonic_ms, own, server_of};
use crate::engine::{Engine, lock};
use portolan_peer::codec::Code;
use portolan_peer::transport::Events;
use portolan_peer::{Claim, Event, Key, PeerState, VirtualServer};
use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tracing::{debug, info, warn};

/// Most events taken in one go.
const EVENTS: usize = 1024;
/// Members that come or go together make one new plan; this is how long the first waits for the others.
const COALESCE: Duration = Duration::from_millis(20);

/// How long a peer that fails again wakes nobody.
const QUIET_MS: u64 = 60_000;
/// Warnings remembered.
const WARNED: usize = 4_096;

/// Hears peers until their endpoint ends.
pub(crate) async fn listen(engine: Weak<Engine>, mut events: Events) {
    while let Some(first) = events.next().await {
        let mut batch = vec![first];
        while batch.len() < EVENTS {
            tokio::select! {
                biased;
                event = events.next() => match event {
                    Some(event) => batch.push(event),
                    None => break,
                },
                () = std::future::ready(()) => break,
            }
        }
        let Some(engine) = engine.upgrade() else { return };
        hear(&engine, batch);
    }
}

/// Makes new plans whenever members have changed.
pub(crate) async fn relearn(engine: Weak<Engine>) {
    loop {
        let Some(wanted) = engine.upgrade().map(|engine| engine.learned.clone()) else { return };
        wanted.notified().await;
        tokio::time::sleep(COALESCE).await;
        let Some(engine) = engine.upgrade() else { return };
        let _ = tokio::task::spawn_blocking(move || engine.relearn()).await;
    }
}

/// Ends the waiting of a node that has just started, when its time is over (case P12).
pub(crate) async fn end_waiting(engine: Weak<Engine>) {
    let Some(until_ms) = engine.upgrade().and_then(|engine| engine.peers.waits_until_ms()) else { return };
    let left_ms = until_ms.saturating_sub(monotonic_ms());
    tokio::time::sleep(Duration::from_millis(left_ms)).await;
    let Some(engine) = engine.upgrade() else { return };
    if engine.peers.end_waiting(monotonic_ms()) {
        info!("not all peers have told what they serve; what is known answers");
    }
    // what an earlier process knew of those that did not come is as old as a silent peer's claims
    let late = engine.peers.look(|mesh| {
        let absent = |peer: &portolan_peer::PeerStatus| !is_heard(peer.state);
        mesh.peers().into_iter().filter(absent).map(|peer| peer.name).collect::<Vec<_>>()
    });
    let now_ms = monotonic_ms();
    let lost = late.into_iter().flatten().map(|author| News::Aged(author, Age::Lost, now_ms));
    engine.publisher.hear(lost.collect());
    engine.learned.notify_one();
}

fn is_heard(state: PeerState) -> bool {
    match state {
        PeerState::Up | PeerState::Syncing => true,
        PeerState::Down | PeerState::Greeting | PeerState::Silent => false,
    }
}

fn hear(engine: &Arc<Engine>, batch: Batch) {
    let line = &engine.peers;
    let mut news = Vec::new();
    let mut is_synced = false;
    for event in batch {
        is_synced |= matches!(event, Event::Synced { .. });
        news.append(&mut news_of(engine, line, event));
    }
    if !news.is_empty() && engine.publisher.hear(news) {
        engine.learned.notify_one();
    }
    if is_synced && line.end_waiting(monotonic_ms()) {
        info!("all peers have told what they serve");
        engine.learned.notify_one();
    }
}

fn news_of(engine: &Engine, line: &Line, event: Event) -> Vec<News> {
    match event {
        Event::PeerUp { peer } => {
            info!(peer, "a session with the peer stands");
            engine.loss_told(&peer, false);
        }
        Event::PeerDown { peer, why } => {
            if engine.is_worth_a_warning("lost", &peer) {
                warn!(peer, why, "the peer is lost");
            } else {
                info!(peer, why, "the peer is lost again");
            }
        }
        Event::Synced { peer } => {
            debug!(peer, "the peer has told all");
            tell_differences(line, &peer);
            hear_distances(engine, line, &peer);
            return all_of(line, &peer).into_iter().collect();
        }
        Event::Fresh { author } => {
            info!(peer = author, "the peer is heard again");
            engine.loss_told(&author, false);
            hear_distances(engine, line, &author);
            return all_of(line, &author).into_iter().collect();
        }
        Event::Claimed { author, key } => return claimed(engine, line, author, &key),
        Event::Withdrawn { author, key } => {
            let name = server_of(&key).map(str::to_owned);
            return name.into_iter().map(|name| News::Withdrawn(author.clone(), name)).collect();
        }
        Event::Stale { author } => {
            warn!(peer = author, "the peer is silent: what it said is stale");
            let heard_ms = heard_ms(line, &author);
            return vec![News::Aged(author, Age::Stale, heard_ms)];
        }
        Event::Expired { author, keys } => return expired(engine, line, author, &keys),
        Event::Notice { peer, is_theirs, code, text } => {
            if is_for_people(code) {
                lock(&engine.peer_notices).insert(peer.clone(), (monotonic_ms(), text.clone()));
            }
            if is_for_people(code) && engine.is_worth_a_warning("notice", &peer) {
                warn!(peer, is_theirs, ?code, text, "the peer and this node do not go together");
            } else {
                info!(peer, is_theirs, ?code, text, "a notice");
            }
        }
        Event::Conflict { kept, dropped } => warn!(
            target_name = kept.target,
            kept = ?kept.act,
            kept_origin = kept.origin,
            kept_author = kept.author,
            dropped = ?dropped.act,
            dropped_origin = dropped.origin,
            dropped_author = dropped.author,
            "two operators said different things without knowing of each other; one holds at every node"
        ),
        Event::Spoken { target } => {
            let word = line.look(|mesh| mesh.word(&target).cloned()).flatten();
            engine.publisher.heed(&target, word.as_ref());
        }
        Event::Missed { count } => {
            warn!(count, "peers told more than could be taken in time; all is read anew");
            return reread(engine, line);
        }
        Event::Asked { peer, ask } => {
            if let Some(number) = line.look(|mesh| number_of(mesh, &peer)).flatten() {
                engine.proximity.asked(number, peer, ask);
            }
        }
        Event::Replied { peer, reply, after_ms } => {
            debug!(peer, after_ms, outcome = ?reply.outcome, "a reply about a client's distance");
            if let Some(site) = line.look(|mesh| site_of(mesh, &peer)).flatten() {
                reply.cells.iter().for_each(|cell| engine.proximity.heard(&site, cell, 0));
            }
        }
        // connections are the endpoint's own business
        Event::Close { .. } => {}
    }
    Vec::new()
}

/// Whether a notice says that configs or keys are to be mended; other reasons mend themselves.
fn is_for_people(code: Code) -> bool {
    match code {
        Code::Malformed
        | Code::Version
        | Code::WrongNode
        | Code::WrongSite
        | Code::DuplicateName
        | Code::OldEpoch
        | Code::Flood
        | Code::Refused
        | Code::Unconfigured => true,
        Code::Stopping | Code::Replaced | Code::Handshake | Code::Silence | Code::Other(_) => false,
    }
}

fn claimed(engine: &Engine, line: &Line, author: String, key: &Key) -> Vec<News> {
    let claim = line.look(|mesh| mesh.claim(&author, key).map(|held| held.claim.clone())).flatten();
    match claim {
        Some(Claim::VirtualServer(server)) => return vec![News::Claimed(author, server)],
        Some(Claim::Digest(_)) => tell_differences(line, &author),
        Some(Claim::Persistence(entry)) => engine.remember(&entry),
        Some(Claim::Proximity(cell)) => {
            if let Some(site) = line.look(|mesh| site_of(mesh, &author)).flatten() {
                engine.proximity.heard(&site, &cell, 0);
            }
        }
        Some(Claim::Link(_) | Claim::Word(_)) | None => {}
    }
    Vec::new()
}

fn expired(engine: &Engine, line: &Line, author: String, keys: &[Key]) -> Vec<News> {
    let state =
        line.look(|mesh| mesh.peers().into_iter().find(|peer| peer.name == author).map(|peer| peer.state));
    match state.flatten() {
        // it is there: only these claims had an end
        Some(state) if is_heard(state) => {
            let names = keys.iter().filter_map(server_of);
            names.map(|name| News::Withdrawn(author.clone(), name.to_owned())).collect()
        }
        Some(_) => {
            if engine.loss_told(&author, true) {
                warn!(peer = author, claims = keys.len(), "the peer's claims have expired");
            }
            let heard_ms = heard_ms(line, &author);
            vec![News::Aged(author, Age::Lost, heard_ms)]
        }
        None => {
            info!(peer = author, "no longer a peer");
            vec![News::Dismissed(author)]
        }
    }
}

/// All distances that an author claims.
fn hear_distances(engine: &Engine, line: &Line, author: &str) {
    let now_ms = monotonic_ms();
    line.look(|mesh| {
        for held in mesh.claims_of(author) {
            if let Claim::Proximity(cell) = held.claim {
                let age_s = now_ms.saturating_sub(held.received_at_ms) / 1000;
                engine.proximity.heard(held.site, cell, u32::try_from(age_s).unwrap_or(u32::MAX));
            }
        }
    });
}

fn site_of(mesh: &portolan_peer::Mesh, author: &str) -> Option<String> {
    let mut peers = mesh.settings().peers.iter();
    peers.find(|peer| peer.name == author).map(|peer| peer.site.clone())
}

fn number_of(mesh: &portolan_peer::Mesh, author: &str) -> Option<u16> {
    let at = mesh.settings().peers.iter().position(|peer| peer.name == author)?;
    u16::try_from(at).ok()
}

/// All virtual servers that an author claims.
fn all_of(line: &Line, author: &str) -> Option<News> {
    let servers = line.look(|mesh| servers(mesh, author))?;
    Some(News::All(author.to_owned(), servers))
}

fn servers(mesh: &portolan_peer::Mesh, author: &str) -> Vec<VirtualServer> {
    let claims = mesh.claims_of(author).filter_map(|held| match held.claim {
        Claim::VirtualServer(server) => Some(server.clone()),
        Claim::Link(_) | Claim::Proximity(_) | Claim::Persistence(_) | Claim::Digest(_) | Claim::Word(_) => {
            None
        }
    });
    claims.collect()
}

fn reread(engine: &Engine, line: &Line) -> Vec<News> {
    let authors = engine.publisher.authors();
    let peers = line.look(|mesh| mesh.settings().peers.clone()).unwrap_or_default();
    peers.iter().for_each(|peer| hear_distances(engine, line, &peer.name));
    let looked = line.look(|mesh| {
        let peers = mesh.peers();
        let known: BTreeSet<&str> = peers.iter().map(|peer| peer.name.as_str()).collect();
        let gone = authors.into_iter().filter(|author| !known.contains(author.as_str()));
        let mut news: Vec<News> = gone.map(News::Dismissed).collect();
        for peer in &peers {
            let heard_ms = peer.heard_ms.unwrap_or(peer.since_ms);
            match (is_heard(peer.state), peer.claims) {
                (false, 0) => news.push(News::Aged(peer.name.clone(), Age::Lost, heard_ms)),
                (is_heard, _) => {
                    news.push(News::All(peer.name.clone(), servers(mesh, &peer.name)));
                    if !is_heard || peer.is_stale {
                        news.push(News::Aged(peer.name.clone(), Age::Stale, heard_ms));
                    }
                }
            }
        }
        (news, mesh.words().cloned().collect::<Vec<_>>())
    });
    let Some((news, words)) = looked else { return Vec::new() };
    for word in words {
        engine.publisher.heed_state(&word);
    }
    news
}

fn heard_ms(line: &Line, author: &str) -> u64 {
    let peer = line.look(|mesh| mesh.peers().into_iter().find(|peer| peer.name == author));
    peer.flatten().and_then(|peer| peer.heard_ms).unwrap_or_else(monotonic_ms)
}

/// Says once when a peer's config or tables begin to differ from ours (WP-C9).
fn tell_differences(line: &Line, author: &str) {
    let found = line.look(|mesh| mesh.peers().into_iter().find(|peer| peer.name == author)).flatten();
    let differences = found.map(|peer| own::differences(&peer.differences)).unwrap_or_default();
    if !differences.is_empty() {
        warn!(
            peer = author,
            differences = differences.join(", "),
            "the peer has another config or other tables: the two may answer differently"
        );
    }
}

impl Engine {
    /// What is to be mended about a peer, as long as it was said of late.
    pub(super) fn notice_of(&self, peer: &str) -> Option<String> {
        let notices = lock(&self.peer_notices);
        let (at_ms, text) = notices.get(peer)?;
        (monotonic_ms().saturating_sub(*at_ms) < QUIET_MS).then(|| text.clone())
    }

    /// Whether somebody should be woken: a peer that fails again and again is told of now and then.
    fn is_worth_a_warning(&self, kind: &'static str, peer: &str) -> bool {
        let now_ms = monotonic_ms();
        let mut warned = lock(&self.peers_warned);
        // as many as there are peers, but for those that left the config
        if warned.len() > WARNED {
            warned.retain(|_, at_ms| now_ms.saturating_sub(*at_ms) < QUIET_MS);
        }
        let at_ms = warned.get(&(kind, peer.to_owned())).copied();
        let is_worth = at_ms.is_none_or(|at_ms| now_ms.saturating_sub(at_ms) >= QUIET_MS);
        if is_worth {
            warned.insert((kind, peer.to_owned()), now_ms);
        }
        is_worth
    }

    /// Notes that the end of a peer's claims was told; whether that is news.
    fn loss_told(&self, peer: &str, is_lost: bool) -> bool {
        let mut told = lock(&self.losses_told);
        if is_lost { told.insert(peer.to_owned()) } else { told.remove(peer) }
    }
}
