//! Answers from zone files: as Knot gives them, and as kdig reads them.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;
use std::path::Path;

use portolan_tests::dig::{Record, Reply};
use portolan_tests::node::Node;
use portolan_tests::place::{case_folder, source_root};
use portolan_tests::program::have;
use portolan_tests::reference::Knot;
use portolan_tests::setup::Setup;

#[test]
fn kdig_agrees_with_dig() {
    if !have("kdig") {
        return;
    }
    let node = Setup::case("answers").start();
    for (question, expected) in [
        ("www.static.test. A +edns", "192.0.2.81"),
        ("www.static.test. A +tcp", "192.0.2.80"),
        ("www.static.test. A +nsid", "n1.here"),
        ("www.static.test. A +cookie", "COOKIE"),
        ("www.static.test. A +subnet=198.51.100.0/24", "198.51.100.0/24/0"),
        ("missing.static.test. A", "NXDOMAIN"),
        ("www.static.test. A +padding=64", "192.0.2.81"),
        ("big.static.test. A +tcp +keepopen", "10.0.0.200"),
    ] {
        let text = node.digger().kdig(question);
        assert!(text.contains(expected), "kdig {question}: no {expected} in\n{text}");
        assert!(!text.contains("WARNING"), "kdig {question}:\n{text}");
    }
}

/// Types asked at every name; ANY is left out, for servers differ by design (RFC 8482).
const TYPES: &[&str] =
    &["A", "AAAA", "NS", "SOA", "MX", "TXT", "CNAME", "DNAME", "SRV", "HTTPS", "DS", "TYPE65280", "TYPE300"];

#[test]
fn hundreds_of_questions_are_answered_as_knot_does() {
    if !have("knotd") {
        return;
    }
    let node = Setup::case("answers").start();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("static.zone"), without_generate()).unwrap();
    let zones = case_folder("answers").join("zones");
    let knot = Knot::start(&[
        ("static.test.", folder.path().join("static.zone")),
        ("other.test.", zones.join("other.zone")),
        ("inner.static.test.", zones.join("inner.zone")),
    ]);
    compare(&node, &knot, &names());
}

/// The zone that is shipped as an example.
#[test]
fn the_example_zone_is_answered_as_knot_does() {
    if !have("knotd") {
        return;
    }
    let file = source_root().join("zones/example.com.zone");
    let mut setup = Setup::case("answers");
    setup.set("zone", file.display());
    let config = std::fs::read_to_string(setup.path("portolan.toml")).unwrap();
    setup.write("portolan.toml", &config.replace("zones/*.zone", "@zone@"));
    let node = setup.start();
    // what `$GENERATE` makes is not asked: Knot has no such directive
    let text = std::fs::read_to_string(&file).unwrap();
    let plain: Vec<_> = text.lines().filter(|line| !line.starts_with("$GENERATE")).collect();
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("example.com.zone");
    std::fs::write(&copy, plain.join("\n") + "\n").unwrap();
    let knot = Knot::start(&[("example.com.", copy)]);
    let names = owners(&file, "example.com.");
    assert!(names.len() > 30, "{names:?}");
    compare(&node, &knot, &names);
}

/// Asks both for every name and type.
fn compare(node: &Node, knot: &Knot, names: &BTreeSet<String>) {
    let questions: Vec<String> =
        names.iter().flat_map(|name| TYPES.iter().map(move |rrtype| format!("{name} {rrtype}"))).collect();
    let ours = node.digger().ask_all(&questions);
    let theirs = knot.digger().ask_all(&questions);
    let mut faults = Vec::new();
    for ((question, ours), theirs) in questions.iter().zip(&ours).zip(&theirs) {
        let (ours, theirs) = (essence(ours), essence(theirs));
        if ours != theirs && !may_differ(question) {
            let [ours, theirs] = [ours, theirs].map(|lines| lines.join("\n         "));
            faults.push(format!("{question}\n  ours   {ours}\n  Knot's {theirs}"));
        }
    }
    assert!(faults.is_empty(), "{} of {} questions:\n{}", faults.len(), questions.len(), faults.join("\n"));
}

/// The zone for Knot, which has no `$GENERATE`: written out by us.
fn without_generate() -> String {
    let text = std::fs::read_to_string(case_folder("answers").join("zones/static.zone")).unwrap();
    let mut text: Vec<_> =
        text.lines().filter(|line| !line.starts_with("$GENERATE")).map(str::to_owned).collect();
    text.extend((1..=200).map(|number| format!("big IN A 10.0.0.{number}")));
    text.extend((0..=7).map(|number| format!("host-{:03} IN A 10.1.0.{number}", number + 1)));
    text.extend((1..=60).map(|number| format!("bigtxt IN TXT \"line {number:03} {}\"", ".".repeat(40))));
    text.join("\n") + "\n"
}

/// Every owner in a zone file, and a name below each. Good enough for files without `$ORIGIN` in their midst.
fn owners(file: &Path, origin: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::from([origin.to_owned()]);
    let text = std::fs::read_to_string(file).unwrap();
    for line in text.lines().filter(|line| !line.starts_with([' ', '$', ';', '@', '\t']) && !line.is_empty())
    {
        let owner = line.split_whitespace().next().unwrap();
        names.insert(format!("{owner}.{origin}"));
        names.insert(format!("below.{owner}.{origin}"));
    }
    names
}

/// What is asked of the zones of the case: their owners, and names beside them.
fn names() -> BTreeSet<String> {
    let mut names = owners(&case_folder("answers").join("zones/static.zone"), "static.test.");
    for name in [
        "static.test.",
        "c.static.test.",
        "b.c.static.test.",
        "_tcp.static.test.",
        "wild.static.test.",
        "other.test.",
        "host.other.test.",
        "no.other.test.",
        "inner.static.test.",
        "host.inner.static.test.",
        "no.inner.static.test.",
        "a.b.moved.static.test.",
        "static.example.",
        "test.",
        "y.wild.static.test.",
        "a.b.wild.static.test.",
        "host-003.static.test.",
        "host-3.static.test.",
    ] {
        names.insert(name.into());
    }
    names
}

/// Where we know better than Knot: it does not follow an alias from zone to zone (RFC 1034 4.3.2 does), and it denies the
/// existence of a zone of its own when asked for its DS in the zone above, which does not delegate it.
fn may_differ(question: &str) -> bool {
    question.contains("away.") || question == "inner.static.test. DS"
}

/// What must be equal. Left out: the additional section beside an answer, which is a courtesy, and NS records in the
/// authority section beside an answer.
fn essence(reply: &Reply) -> Vec<String> {
    let sorted = |section: &str, records: &[Record]| {
        let lines = records.iter().map(|record| format!("{section} {}", record.folded()));
        lines.collect::<BTreeSet<_>>()
    };
    let mut lines = vec![format!("{} aa={}", reply.status, reply.has("aa"))];
    lines.extend(sorted("answer", &reply.answer));
    if reply.answer.is_empty() {
        lines.extend(sorted("authority", &reply.authority));
        lines.extend(sorted("additional", &reply.additional));
    }
    lines
}
