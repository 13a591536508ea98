//! Zones with the answers on which BIND, NSD, Knot and PowerDNS agree (FerretDataset, dns-groot, MIT License).
//!
//! The data is not part of the project: it is read from `PORTOLAN_ANSWERS`, or from beside the repository.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod common;

use common::{normal, sorted};
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    id: u64,
    zone: String,
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
fn four_servers_agree() {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/cases/answers");
    let folder = std::env::var("PORTOLAN_ANSWERS").unwrap_or_else(|_| beside.into());
    let Ok(cases) = std::fs::read_to_string(format!("{folder}/unanimous.jsonl")) else {
        println!("skipped: no unanimous.jsonl in {folder}; set PORTOLAN_ANSWERS");
        return;
    };
    let mut failed = Vec::new();
    let mut count = 0;
    for line in cases.lines() {
        let case: Case = serde_json::from_str(line).unwrap();
        count += 1;
        let got = common::serve(&[&case.zone]).ask(&case.name, &case.rtype);
        let apex_ns = |line: &String| case.aa && !case.answer.is_empty() && normal(line).contains(" IN NS ");
        let authority = |lines: &[String]| {
            sorted(&lines.iter().filter(|line| !apex_ns(line)).cloned().collect::<Vec<_>>())
        };
        let is_same = got.rcode() == case.rcode
            && got.aa() == case.aa
            && sorted(&got.answer) == sorted(&case.answer)
            && authority(&got.authority) == authority(&case.authority)
            && sorted(&got.additional) == sorted(&case.additional);
        if !is_same {
            failed.push(case.id);
            println!(
                "--- {}\n{}{} {}\nexpected {} aa={}\n  {:?}\n  {:?}\n  {:?}\ngot {} aa={}\n  {:?}\n  {:?}\n  {:?}",
                case.id,
                case.zone,
                case.name,
                case.rtype,
                case.rcode,
                case.aa,
                case.answer,
                case.authority,
                case.additional,
                got.rcode(),
                got.aa(),
                got.answer,
                got.authority,
                got.additional
            );
        }
    }
    assert!(failed.is_empty(), "{} of {count} differ: {failed:?}", failed.len());
    println!("{count} answered as expected");
}
