//! The other nodes.

use super::columns;
use crate::Paint;
use crate::time::{age, length};
use portolan_api::{PeerNow, PeersStatus};

/// Peers, in lines of `portolan status`.
pub(super) fn summary(status: &PeersStatus, paint: Paint) -> String {
    let waiting = if status.waiting { ", waiting for what they serve" } else { "" };
    let up = status.peers.iter().filter(|peer| is_up(peer)).count();
    let mut text = format!("peers     {up} of {} up{waiting}\n", status.peers.len());
    for line in table(status, paint).lines() {
        text += &format!("          {line}\n");
    }
    text
}

/// All peers with what is known of them.
#[must_use]
pub fn peers(status: &PeersStatus, paint: Paint) -> String {
    let mut text = format!("listen  {}\npin     {}\n", status.listen, status.pin);
    for warning in &status.warnings {
        text += &format!("        {}\n", paint.warn(warning));
    }
    if status.waiting {
        text += "waiting for what peers serve: this node has just started\n";
    }
    text.push('\n');
    text += &table(status, paint);
    if status.peers.is_empty() { text + "no peers\n" } else { text }
}

fn is_up(peer: &PeerNow) -> bool {
    matches!(peer.state.as_str(), "up" | "syncing")
}

fn table(status: &PeersStatus, paint: Paint) -> String {
    let rows: Vec<[String; 6]> = status.peers.iter().map(row).collect();
    columns(&rows, |column, cell, _| {
        let word = cell.trim();
        match column {
            2 if word.starts_with("up") || word.starts_with("syncing") => paint.good(cell),
            2 => paint.bad(cell),
            5 if !word.is_empty() => paint.warn(cell),
            _ => cell.to_owned(),
        }
    })
}

fn row(peer: &PeerNow) -> [String; 6] {
    let way = match (&peer.transport, peer.rtt_ms, peer.version) {
        (None, ..) => String::new(),
        (Some(kind), rtt_ms, version) => {
            let rtt = rtt_ms.map_or(String::new(), |ms| format!(" {ms} ms"));
            let version = version.map_or(String::new(), |version| format!(" v{version}"));
            format!("{kind}{rtt}{version}")
        }
    };
    let old = match (peer.expired, peer.stale) {
        (true, _) => " expired",
        (false, true) => " stale",
        (false, false) => "",
    };
    [
        peer.name.clone(),
        peer.site.clone(),
        format!("{} for {}", peer.state, age(peer.since_unix)),
        way,
        format!("{} claims{old}", peer.claims),
        remarks(peer),
    ]
}

fn remarks(peer: &PeerNow) -> String {
    const DAY_S: i64 = 86_400;
    let mut words = Vec::new();
    if !is_up(peer) {
        words.push(peer.heard_ms_ago.map_or("never heard".to_owned(), |ms| {
            if ms < 60_000 {
                format!("silent for {}.{} s", ms / 1000, ms % 1000 / 100)
            } else {
                format!("silent for {}", length(ms / 1000))
            }
        }));
    }
    words.extend(peer.notice.iter().cloned());
    if !peer.differences.is_empty() {
        words.push(format!("differs in {}", peer.differences.join(", ")));
    }
    if let Some(left_s) = peer.certificate_left_s.filter(|left_s| *left_s < 30 * DAY_S) {
        words.push(format!("certificate ends in {} days", left_s / DAY_S));
    }
    words.extend(peer.last_error.iter().filter(|_| !is_up(peer)).cloned());
    words.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(state: &str) -> PeerNow {
        PeerNow {
            name: "fra1".into(),
            site: "frankfurt".into(),
            address: "192.0.2.1:7353".into(),
            state: state.into(),
            since_unix: 0,
            heard_ms_ago: Some(3_240),
            transport: (state == "up").then(|| "quic".into()),
            rtt_ms: (state == "up").then_some(12),
            version: (state == "up").then_some(2),
            claims: 7,
            stale: state != "up",
            expired: false,
            certificate_left_s: Some(90 * 86_400),
            failures: 0,
            last_error: Some("nobody answers".into()),
            notice: None,
            differences: Vec::new(),
            bytes_in: 0,
            bytes_out: 0,
        }
    }

    #[test]
    fn a_line_says_what_matters() {
        let [name, site, _, way, claims, remarks] = row(&peer("up"));
        assert_eq!(
            [name, site, way, claims, remarks],
            ["fra1", "frankfurt", "quic 12 ms v2", "7 claims", ""]
        );
        let [.., claims, remarks] = row(&peer("down"));
        assert_eq!([claims.as_str(), &remarks], ["7 claims stale", "silent for 3.2 s; nobody answers"]);
        let differs = PeerNow { differences: vec!["table isp".into()], ..peer("up") };
        assert_eq!(row(&differs)[5], "differs in table isp");
    }
}
