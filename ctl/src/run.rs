//! Does a command: ask the node, show the answer, say how it went.

use crate::args::{Action, ForcedState, LoadArgs, Online, Peers, Place, Proximity, Reach};
use crate::output::{Exit, Paint, complain, is_written, reader_gone, write, write_json};
use crate::print;
use portolan_api::{
    ApiError, ClientError, ForceAction, ForceRequest, FramesQuery, LoadReport, ProximityQuery, ServicesQuery,
    StaticRequest,
};
use serde::Serialize;

/// Does an online command and returns its exit code.
pub async fn run(command: &Online, reach: &Reach, json: bool) -> Exit {
    finish(json, attempt(command, reach, json).await)
}

/// The exit code of an attempt; an error is shown first.
pub fn finish(json: bool, result: Result<Exit, ClientError>) -> Exit {
    let error = match result {
        Ok(exit) => return exit,
        Err(error) => error,
    };
    const REACH: &str = "is the node running, and may you open its socket? its [api] table says where it listens; \
                         use --socket or PORTOLAN_SOCKET";
    let told = match &error {
        ClientError::Refused(refused) => (**refused).clone(),
        ClientError::Strange { .. } => ApiError::new(0, error.to_string(), None),
        ClientError::Unreachable { .. } => ApiError::new(0, error.to_string(), Some(REACH.into())),
    };
    if json {
        write_json(&told);
    } else {
        complain(&format!("error: {told}"));
    }
    match error {
        ClientError::Unreachable { .. } => Exit::Unreachable,
        ClientError::Refused(_) | ClientError::Strange { .. } => Exit::Bad,
    }
}

async fn attempt(command: &Online, reach: &Reach, json: bool) -> Result<Exit, ClientError> {
    let client = reach.client()?;
    let paint = Paint::stdout();
    Ok(match command {
        Online::Status => {
            let status = client.status().await?;
            show(json, &status, || print::status(&status, paint));
            if status.services.failed == 0 && status.config.last_error.is_none() {
                Exit::Good
            } else {
                Exit::Bad
            }
        }
        Online::Services { name } => {
            let services = client.services(&ServicesQuery { name: name.clone() }).await?;
            show(json, &services, || print::services(&services, paint));
            if services.iter().any(|service| service.state == "failed") { Exit::Bad } else { Exit::Good }
        }
        Online::Checks => {
            let checks = client.checks().await?;
            show(json, &checks, || print::checks(&checks, paint));
            if checks.iter().any(|check| check.state == "down") { Exit::Bad } else { Exit::Good }
        }
        Online::Drain(action) => force(&client, ForceAction::Drain, action, json).await?,
        Online::Disable(action) => force(&client, ForceAction::Disable, action, json).await?,
        Online::Enable(action) => force(&client, ForceAction::Enable, action, json).await?,
        Online::Force { state: ForcedState::Up, action } => {
            force(&client, ForceAction::Up, action, json).await?
        }
        Online::Force { state: ForcedState::Down, action } => {
            force(&client, ForceAction::Down, action, json).await?
        }
        Online::Load(args) => {
            let result = client.load(&report(args)).await?;
            show(json, &result, || print::touched("reported", &result.members));
            Exit::Good
        }
        Online::Proximity(command) => proximity(&client, command, json).await?,
        Online::Reload => {
            let result = client.reload().await?;
            show(json, &result, || print::reloaded(&result, paint));
            Exit::Good
        }
    })
}

/// Does a command about peers and returns its exit code.
pub async fn peers(command: &Peers, reach: &Reach, json: bool) -> Exit {
    let done = match command {
        Peers::List => list(reach, json).await,
        Peers::Watch(peer) => watch(peer.clone(), reach, json).await,
    };
    finish(json, done)
}

async fn list(reach: &Reach, json: bool) -> Result<Exit, ClientError> {
    let status = reach.client()?.peers().await?;
    show(json, &status, || match &status {
        Some(status) => print::peers(status, Paint::stdout()),
        None => "this node has no peers: its config has no [peers]\n".into(),
    });
    let is_up = |peer: &portolan_api::PeerNow| matches!(peer.state.as_str(), "up" | "syncing");
    let all_up = status.is_none_or(|status| status.peers.iter().all(is_up));
    Ok(if all_up { Exit::Good } else { Exit::Bad })
}

/// Shows frames until the node ends, or the reader.
async fn watch(peer: Option<String>, reach: &Reach, json: bool) -> Result<Exit, ClientError> {
    let mut frames = reach.client()?.frames(&FramesQuery { peer }).await?;
    let gone = reader_gone();
    tokio::pin!(gone);
    loop {
        let next = tokio::select! {
            next = frames.next() => next?,
            () = &mut gone => break,
        };
        let Some(frame) = next else { break };
        if frame.lost > 0 {
            complain(&format!("{} frames were lost: this reader is too slow", frame.lost));
        }
        let is_read = if json { is_written(&frame.record.to_string()) } else { is_written(&frame.text) };
        if !is_read {
            break;
        }
    }
    Ok(Exit::Good)
}

async fn proximity(
    client: &portolan_api::Client,
    command: &Proximity,
    json: bool,
) -> Result<Exit, ClientError> {
    Ok(match command {
        Proximity::Show { of, limit } => {
            let shown = client.proximity(&ProximityQuery { of: of.clone(), limit: *limit }).await?;
            show(json, &shown, || print::proximity(&shown, Paint::stdout()));
            let is_known = shown.used.as_ref().is_some_and(|used| used.row != "none");
            if of.is_some() && shown.points.is_empty() && !is_known { Exit::Bad } else { Exit::Good }
        }
        Proximity::Set { place, rtt, ttl } => {
            let result = client.proximity_set(&static_of(place, Some(*rtt), *ttl)).await?;
            show(json, &result, || print::written(&result, Paint::stdout()));
            Exit::Good
        }
        Proximity::Unset { place } => {
            let result = client.proximity_set(&static_of(place, None, None)).await?;
            show(json, &result, || print::written(&result, Paint::stdout()));
            Exit::Good
        }
        Proximity::Export => {
            let points = client.proximity_export().await?;
            show(json, &points, || print::exported(&points));
            Exit::Good
        }
    })
}

fn static_of(place: &Place, rtt_us: Option<u32>, ttl_s: Option<u64>) -> StaticRequest {
    let Place { prefix, site, link, reason, author } = place;
    StaticRequest {
        prefix: prefix.clone(),
        site: site.clone(),
        link: link.clone(),
        rtt_us,
        author: author.clone().unwrap_or_else(login),
        reason: reason.clone(),
        ttl_s,
    }
}

async fn force(
    client: &portolan_api::Client,
    wanted: ForceAction,
    action: &Action,
    json: bool,
) -> Result<Exit, ClientError> {
    let request = ForceRequest {
        target: action.target.clone(),
        action: wanted,
        author: action.author.clone().unwrap_or_else(login),
        reason: action.reason.clone(),
        ttl_s: action.ttl,
    };
    let result = client.force(&request).await?;
    show(json, &result, || print::forced(wanted, &result, Paint::stdout()));
    Ok(Exit::Good)
}

fn report(args: &LoadArgs) -> LoadReport {
    LoadReport {
        target: args.target.clone(),
        share: args.share,
        connections: args.connections,
        bandwidth_bps: args.bandwidth,
        bandwidth_max_bps: args.bandwidth_max,
        response_us: args.response,
        ttl_s: args.ttl,
    }
}

/// Shows a value as JSON or as text.
pub fn show(json: bool, value: &impl Serialize, text: impl FnOnce() -> String) {
    if json { write_json(value) } else { write(&text()) }
}

/// The login name, also behind sudo.
fn login() -> String {
    ["SUDO_USER", "USER", "LOGNAME"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
        .unwrap_or_else(|| "unknown".into())
}
