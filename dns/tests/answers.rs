//! The committed cases: random zones on whose answers Knot, NSD and BIND agreed with each other (see differential.rs).
//! They hold referrals with glue, DNAME, aliases and their loops, wildcards, empty non-terminals, hidden data, DS at a
//! cut, and zones one inside another.

#![allow(clippy::unwrap_used)]

mod common;

use common::{serve, sorted};
use serde::Deserialize;
use std::collections::BTreeSet;

#[derive(Deserialize)]
struct Case {
    zones: Vec<String>,
    name: String,
    #[serde(rename = "type")]
    rtype: String,
    rcode: String,
    aa: bool,
    answer: Vec<String>,
    authority: Vec<String>,
    additional: Vec<String>,
}

#[test]
fn committed_cases() {
    for (i, line) in include_str!("cases/answers.jsonl").lines().enumerate() {
        let case: Case = serde_json::from_str(line).unwrap();
        let zones: Vec<&str> = case.zones.iter().map(String::as_str).collect();
        let got = serve(&zones).ask(&case.name, &case.rtype);
        let set = |lines: &[String]| BTreeSet::from_iter(sorted(lines));
        let context = format!("line {}: {} {}\n{}", i + 1, case.name, case.rtype, case.zones.join("--\n"));
        assert_eq!((got.rcode(), got.aa()), (case.rcode.as_str(), case.aa), "{context}");
        assert_eq!(set(&got.answer), set(&case.answer), "{context}");
        assert_eq!(set(&got.authority), set(&case.authority), "{context}");
        assert_eq!(set(&got.additional), set(&case.additional), "{context}");
    }
}
