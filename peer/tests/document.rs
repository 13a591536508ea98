//! docs/peer-protocol.md says what the code does: numbers, names and limits.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

use portolan_peer::claim::{MAX_NAME, MAX_REASON, MAX_TABLES};
use portolan_peer::codec::numbers::{act, field, flag, frame_type, kind, lane, outcome, refusal, state};
use portolan_peer::codec::{
    BATCH_BODY, Code, HEADER, HIGHEST_VERSION, KINDS, LOWEST_VERSION, MAX_BODY, MAX_CELLS, MAX_CLAIM,
    MAX_FIRST_BODY, MAX_NOTICE,
};
use portolan_peer::session::{BURST_S, MIN_BYTES_PER_S, MIN_HOLD_MS};
use portolan_peer::{Limits, Settings};

const TEXT: &str = include_str!("../../docs/peer-protocol.md");

/// The part under a heading, up to the next heading.
fn section(heading: &str) -> &'static str {
    let mut parts = TEXT.split("\n#").filter(|part| {
        let line = part.lines().next().unwrap_or_default().trim_start_matches(['#', ' ']);
        line == heading || line.split_once(' ').is_some_and(|(_, title)| title == heading)
    });
    let found = parts.next().unwrap_or_else(|| panic!("no section {heading:?}"));
    assert!(parts.next().is_none(), "two sections {heading:?}");
    found
}

/// The rows of its table that begin with a number.
fn rows(heading: &str) -> Vec<(u64, &'static str)> {
    let rows = section(heading).lines().filter_map(|line| {
        let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
        Some((cells.next()?.parse().ok()?, cells.next()?))
    });
    rows.collect()
}

fn listed(all: &'static [(&'static str, u8)]) -> Vec<(u64, &'static str)> {
    all.iter().map(|(name, number)| (u64::from(*number), *name)).collect()
}

#[test]
fn numbers_are_those_of_the_code() {
    for (heading, all) in [
        ("Frame types", frame_type::ALL),
        ("Flags", flag::ALL),
        ("Fields of HELLO", field::hello::ALL),
        ("Fields of CLAIMS", field::claims::ALL),
        ("Fields of RESYNC", field::resync::ALL),
        ("Fields of ASK", field::ask::ALL),
        ("Fields of REPLY", field::reply::ALL),
        ("Outcomes", outcome::ALL),
        ("Refusals", refusal::ALL),
        ("Fields of KEEPALIVE", field::keepalive::ALL),
        ("Fields of NOTICE", field::notice::ALL),
        ("Kinds", kind::ALL),
        ("Fields of a virtual server", field::server::ALL),
        ("States", state::ALL),
        ("Fields of a link", field::link::ALL),
        ("Fields of a proximity cell", field::cell::ALL),
        ("Fields of a persistence entry", field::persistence::ALL),
        ("Fields of a digest", field::digest::ALL),
        ("Fields of an operator's word", field::word::ALL),
        ("Acts", act::ALL),
    ] {
        assert_eq!(rows(heading), listed(all), "{heading}");
    }
    let codes: Vec<_> = Code::ALL.iter().map(|(name, _, number)| (u64::from(*number), *name)).collect();
    assert_eq!(rows("Codes"), codes);
    let lanes = format!("{} URGENT, {} BULK", lane::URGENT, lane::BULK);
    assert!(section("Fields of CLAIMS").contains(&lanes));
}

#[test]
fn versions_are_those_of_the_code() {
    let versions: Vec<_> = rows("Versions").into_iter().map(|(number, _)| number).collect();
    assert_eq!(versions, (LOWEST_VERSION..=HIGHEST_VERSION).map(u64::from).collect::<Vec<_>>());
    let since = |heading: &str| -> Vec<u64> {
        let lines = section(heading).lines().filter(|line| line.starts_with("| ") && line.contains(" | "));
        lines
            .filter_map(|line| line.trim_end_matches([' ', '|']).rsplit('|').next()?.trim().parse().ok())
            .collect()
    };
    assert_eq!(since("Kinds"), KINDS.iter().map(|(_, _, since)| u64::from(*since)).collect::<Vec<_>>());
    assert_eq!(since("Frame types"), [1, 1, 1, 2, 2, 1, 1]);
    let kinds: Vec<_> = KINDS.iter().map(|(name, number, _)| (*name, *number)).collect();
    assert_eq!(kinds, kind::ALL);
}

#[test]
fn limits_are_those_of_the_code() {
    let limits = Limits::default();
    let settings = Settings::new("a", "one", 1, 3_000);
    let row = |heading: &str, name: &str| -> String {
        let mut lines =
            section(heading).lines().filter_map(|line| line.strip_prefix(&format!("| {name} | ")));
        lines.next().unwrap_or_else(|| panic!("no row {name:?}")).to_owned()
    };
    for (name, value) in [
        ("body of a frame", MAX_BODY),
        ("body before HELLO was accepted", MAX_FIRST_BODY),
        ("item", MAX_CLAIM),
        ("claims a second of one peer", limits.claims_per_s as usize),
        ("octets a second of one peer", limits.bytes_per_s as usize),
        ("claims of one author", limits.keys_per_author),
        ("octets of one author in memory", limits.bytes_per_author),
        ("claims of all authors", limits.keys),
        ("octets of all authors in memory", limits.bytes),
        ("ASK and REPLY that wait for one peer", limits.asks_waiting),
        ("withdrawals that wait", limits.withdrawn),
    ] {
        assert!(row("Limits", name).starts_with(&format!("{value} |")), "{name}: {value}");
    }
    let asks = format!("{} a second, {} at once |", limits.asks_per_s, limits.asks_burst);
    assert!(row("Limits", "ASK of one peer").starts_with(&asks));
    assert!(
        row("Limits", "connections of one peer").starts_with(&format!("{} at a time;", limits.connections))
    );
    let floods = format!("more than {} such frames in 10 s", limits.floods);
    assert!(row("Limits", "claims a second of one peer").contains(&floods));
    assert!(row("Timers", "handshake").contains(&format!("| {} |", settings.handshake_ms)));
    assert!(row("Timers", "keepalive").contains(&format!("not below {}", MIN_HOLD_MS / 3)));
    for (heading, words) in [
        ("What is not known", format!("{MAX_BODY} octets ({MAX_FIRST_BODY} before")),
        (
            "Frames",
            format!("+{}+\n|                     Length of the body (32)", "-".repeat(HEADER * 8 - 1)),
        ),
        ("Fields of HELLO", format!("below {MIN_HOLD_MS} is taken as {MIN_HOLD_MS}")),
        ("Fields of HELLO", format!("not below {MIN_BYTES_PER_S}")),
        ("Fields of CLAIMS", format!("at most {MAX_CLAIM} octets")),
        ("Fields of CLAIMS", format!("a batch at {BATCH_BODY} octets")),
        ("Fields of REPLY", format!("at most {MAX_CELLS}")),
        ("Fields of NOTICE", format!("at most {MAX_NOTICE} octets")),
        ("Kinds", format!("Names are 1 to {MAX_NAME} octets, reasons 0 to {MAX_REASON}")),
        ("Fields of a digest", format!("at most {MAX_TABLES}")),
        ("Sending claims", format!("MUST take {BURST_S}\nseconds' worth at once")),
    ] {
        assert!(section(heading).contains(&words), "{heading}: {words:?}");
    }
}

/// A frame made by hand from the document is what the code makes.
#[test]
fn a_frame_by_hand_is_the_frame() {
    use portolan_peer::claim::{Claim, Lane, PersistenceEntry};
    use portolan_peer::codec::{Batch, Change, Frame, Item};
    let claim = Claim::Persistence(PersistenceEntry { key: 5, candidate: 35, left_s: 600 });
    let item = Item { sequence: 258, lifetime_ms: Some(65_536), change: Change::Set(claim) };
    let batch = Batch {
        lane: Lane::Bulk,
        number: 1,
        is_sync: true,
        is_begin: true,
        is_end: false,
        items: vec![item],
    };
    let expected = [
        &[0, 0, 0, 61, 2, 2 | 8, 0, 0][..], // 61 octets, CLAIMS, SYNC_BEGIN and SYNC
        &[1, 0, 1, 1],                      // LANE: BULK
        &[2, 0, 8, 0, 0, 0, 0, 0, 0, 0, 1], // NUMBER
        &[3, 0, 43],                        // ITEM
        &[4, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 1, 0, 0], // PERSISTENCE, no flags, sequence, lifetime
        &[1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 5], // KEY
        &[2, 0, 8, 0, 0, 0, 0, 0, 0, 0, 35], // CANDIDATE
        &[3, 0, 4, 0, 0, 2, 88],            // LEFT_S
    ];
    assert_eq!(Frame::Claims(batch).encode(), expected.concat());
}
