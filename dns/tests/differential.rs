//! Random zones: where other servers agree, so do we.
//!
//! `dns/tests/differential.py 1000 7 /tmp/replies` collects what Knot, NSD, BIND and PowerDNS say; this test then compares:
//! `PORTOLAN_REPLIES=/tmp/replies cargo test -p portolan-dns --test differential -- --nocapture`. Cases worth keeping
//! are in `cases/answers.jsonl`.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod common;

use common::{Message, decode, sorted};
use portolan_dns::text::{self, Limits};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Deserialize)]
struct Case {
    zones: Vec<String>,
    name: String,
    #[serde(rename = "type")]
    rtype: String,
    replies: BTreeMap<String, String>,
}

/// What counts: NS of the apex beside an answer are optional.
#[derive(Debug, PartialEq, Eq, Clone)]
struct Gist {
    rcode: &'static str,
    aa: bool,
    answer: Vec<String>,
    authority: Vec<String>,
    additional: Vec<String>,
}

fn gist(message: &Message, zones: &[String]) -> Gist {
    let is_referral = !message.aa() && message.answer.is_empty();
    let apexes: Vec<&str> =
        zones.iter().flat_map(|zone| zone.lines()).filter(|line| line.contains(" IN SOA ")).collect();
    let is_apex = |line: &str| apexes.iter().any(|soa| soa.split(' ').next() == line.split(' ').next());
    let beside: Vec<String> = message
        .authority
        .iter()
        .filter(|line| is_referral || !(line.contains(" IN NS ") && is_apex(line)))
        .cloned()
        .collect();
    Gist {
        rcode: message.rcode(),
        aa: message.aa(),
        // some answer a wildcard's alias of itself twice
        answer: BTreeSet::from_iter(sorted(&message.answer)).into_iter().collect(),
        authority: sorted(&beside),
        additional: sorted(&message.additional),
    }
}

/// Whether a chain of aliases leads from one zone into another: NSD and we follow it, Knot and BIND do not.
fn crosses(answer: &[String], zones: &[String]) -> bool {
    let zone_of = |name: &str| {
        zones
            .iter()
            .filter_map(|zone| zone.split(' ').next())
            .filter(|origin| name == *origin || name.ends_with(&format!(".{origin}")))
            .max_by_key(|origin| origin.len())
    };
    let names = |line: &String| {
        let fields: Vec<&str> = line.split(' ').collect();
        let target = fields.get(4).filter(|_| fields[3] == "CNAME");
        std::iter::once(fields[0]).chain(target.copied()).filter_map(zone_of).collect::<Vec<_>>()
    };
    let mut zones = answer.iter().flat_map(names);
    let first = zones.next();
    zones.any(|zone| Some(zone) != first)
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

#[test]
fn agrees_where_others_do() {
    let Ok(path) = std::env::var("PORTOLAN_REPLIES") else {
        println!("skipped: set PORTOLAN_REPLIES to a file that differential.py wrote");
        return;
    };
    let (mut compared, mut unloaded, mut differ, mut split) = (0, 0, 0, BTreeMap::<String, usize>::new());
    let mut served: Option<(Vec<String>, Option<common::Server>)> = None;
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let case: Case = serde_json::from_str(line).unwrap();
        if served.as_ref().is_none_or(|(zones, _)| *zones != case.zones) {
            let loaded: Result<Vec<_>, _> = case
                .zones
                .iter()
                .map(|zone| {
                    let mut source = BTreeMap::from([("zone".to_owned(), zone.as_bytes().to_vec())]);
                    text::load(&mut source, "zone", &Limits::default())
                })
                .collect();
            let server = match loaded {
                Ok(zones) => Some(common::Server::new(zones, Vec::new())),
                Err(faults) => {
                    *split
                        .entry(format!(
                            "not loaded: {}",
                            faults[0].message.split(':').next_back().unwrap_or("")
                        ))
                        .or_default() += 1;
                    None
                }
            };
            served = Some((case.zones.clone(), server));
        }
        let Some((_, Some(server))) = &mut served else {
            unloaded += 1;
            continue;
        };
        let ours = gist(&server.ask(&case.name, &case.rtype), &case.zones);
        let theirs: Vec<(&str, Gist)> = case
            .replies
            .iter()
            .filter_map(|(name, reply)| Some((name.as_str(), gist(&decode(&hex(reply)).ok()?, &case.zones))))
            .filter(|(_, gist)| gist.rcode != "SERVFAIL")
            .collect();
        let same: Vec<&str> =
            theirs.iter().filter(|(_, gist)| *gist == ours).map(|(name, _)| *name).collect();
        let other: Vec<&str> =
            theirs.iter().filter(|(_, gist)| *gist != ours).map(|(name, _)| *name).collect();
        // Knot and BIND deny DS at an apex that its parent does not delegate with NXDOMAIN; a resolver may then believe
        // that nothing is there (RFC 8020), so we say NODATA
        let is_apex = case.zones.iter().any(|zone| zone.split(' ').next() == Some(&case.name));
        let is_undelegated = case.rtype == "DS" && is_apex;
        // what most of them refuse to serve, such as data below a DNAME (RFC 6672 2.4), shows nothing
        let is_refused = theirs.len() < 2 || theirs.len() * 2 <= case.replies.len();
        if is_refused || crosses(&ours.answer, &case.zones) || is_undelegated {
            continue;
        }
        compared += 1;
        let agree = theirs.iter().all(|(_, gist)| *gist == theirs[0].1);
        if agree && same.is_empty() {
            differ += 1;
        }
        let kind = format!("as {same:?}, unlike {other:?}");
        let count = split.entry(kind.clone()).or_default();
        *count += 1;
        let shown = std::env::var("PORTOLAN_SHOW").unwrap_or_default();
        if agree && same.is_empty() && differ <= 12 || shown == kind && *count <= 12 {
            println!("=== {kind}\n{}{} {}", case.zones.join("--\n"), case.name, case.rtype);
            println!("ours {ours:#?}");
            for (name, gist) in &theirs {
                if *gist != ours {
                    println!("{name} {gist:#?}");
                }
            }
        }
    }
    println!("{compared} compared, {unloaded} in zones we refuse, {split:#?}");
    assert_eq!(differ, 0, "others agree on something else");
}
