//! Conversations as data: `case.txt` in a case's folder.
//!
//! ```text
//! # why this must be so
//! > www.example.com. A +subnet=10.30.0.0/24
//!   NOERROR aa -tc
//!   answer www.example.com. 30 A 192.0.2.1
//!   scope 13
//! $ explain www.example.com. --from 192.0.2.1
//!   exit 0
//!   says geo
//! ```
//! `>` asks by dig, `>>` asks until it holds, `$` runs `portolan`; `@NAME@` as in config files. What follows, indented, must hold: status and flags (`-` in front: not set);
//! `answer`, `authority`, `additional` name the whole section, a line a record (`none`: it is empty, TTL `*`: any);
//! `among A B`: an answer is there and has only such data; `count N` answers; `scope N`, `subnet TEXT`; `exit N`;
//! `says` and `lacks` look at the text.

use std::time::Instant;

use crate::dig::{Record, Reply};
use crate::node::Node;
use crate::place;
use crate::program::Said;
use crate::wait::SOON;

/// Runs `case.txt` of a case; panics with all that does not hold.
pub fn run(node: &Node, case: &str) {
    let path = place::case_folder(case).join("case.txt");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let steps = parse(&node.filled(&text));
    assert!(!steps.is_empty(), "{} has no steps", path.display());
    let faults: Vec<_> = steps
        .iter()
        .filter_map(|step| {
            let fault = step.attempt(node).err()?;
            Some(format!("cases/{case}/case.txt:{}: {}\n{fault}", step.line, step.command))
        })
        .collect();
    assert!(faults.is_empty(), "{} of {} steps failed\n{}", faults.len(), steps.len(), faults.join("\n"));
}

struct Step {
    line: usize,
    command: String,
    expected: Vec<String>,
}

fn parse(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with(['>', '$']) {
            steps.push(Step { line: number + 1, command: line.to_owned(), expected: Vec::new() });
        } else {
            assert!(line.starts_with(' '), "line {}: neither a step nor what to expect: {line}", number + 1);
            steps.last_mut().expect("a step comes first").expected.push(line.trim().to_owned());
        }
    }
    steps
}

impl Step {
    fn attempt(&self, node: &Node) -> Result<(), String> {
        if let Some(question) = self.command.strip_prefix(">>") {
            let begin = Instant::now();
            while begin.elapsed() < SOON {
                if self.ask(node, question).is_ok() {
                    return Ok(());
                }
            }
            self.ask(node, question)
        } else if let Some(question) = self.command.strip_prefix('>') {
            self.ask(node, question)
        } else {
            let words: Vec<_> = self.command[1..].split_whitespace().collect();
            let said = node.cli(&words);
            verdict(check_said(&said, &self.expected), &said.text())
        }
    }

    fn ask(&self, node: &Node, question: &str) -> Result<(), String> {
        let reply = node.digger().try_ask(question)?;
        verdict(check_reply(&reply, &self.expected), &reply.text)
    }
}

fn verdict(faults: Vec<String>, text: &str) -> Result<(), String> {
    if faults.is_empty() { Ok(()) } else { Err(format!("  {}\n{text}", faults.join("\n  "))) }
}

fn check_said(said: &Said, expected: &[String]) -> Vec<String> {
    let mut faults = Vec::new();
    for line in expected {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let holds = match word {
            "exit" => said.code.to_string() == rest,
            "says" => said.text().contains(rest),
            "lacks" => !said.text().contains(rest),
            _ => panic!("unknown expectation of a command: {line}"),
        };
        if !holds {
            faults.push(format!("does not hold: {line} (exit code {})", said.code));
        }
    }
    faults
}

fn check_reply(reply: &Reply, expected: &[String]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut sections: [Option<Vec<Record>>; 3] = Default::default();
    for line in expected {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let holds = match word {
            "answer" => note(&mut sections[0], rest),
            "authority" => note(&mut sections[1], rest),
            "additional" => note(&mut sections[2], rest),
            "among" => {
                !reply.answer.is_empty()
                    && reply.answer.iter().all(|record| rest.split(' ').any(|data| data == record.data))
            }
            "count" => reply.answer.len().to_string() == rest,
            "scope" => reply.scope().map(|scope| scope.to_string()).as_deref() == Some(rest),
            "subnet" => reply.subnet.as_deref().unwrap_or("none") == rest,
            "says" => reply.text.contains(rest),
            "lacks" => !reply.text.contains(rest),
            status if status.chars().all(|letter| letter.is_ascii_uppercase()) => {
                reply.status == status
                    && rest.split_whitespace().all(|flag| match flag.strip_prefix('-') {
                        Some(flag) => !reply.has(flag),
                        None => reply.has(flag),
                    })
            }
            _ => panic!("unknown expectation of an answer: {line}"),
        };
        if !holds {
            faults.push(format!("does not hold: {line}"));
        }
    }
    for (wanted, (name, found)) in sections.into_iter().zip([
        ("answer", &reply.answer),
        ("authority", &reply.authority),
        ("additional", &reply.additional),
    ]) {
        if let Some(wanted) = wanted.filter(|wanted| !is_same(wanted, found)) {
            let wanted: Vec<_> = wanted.iter().map(Record::to_string).collect();
            faults.push(format!(
                "{name} is not: {}",
                if wanted.is_empty() { "none".into() } else { wanted.join(" | ") }
            ));
        }
    }
    faults
}

fn note(section: &mut Option<Vec<Record>>, text: &str) -> bool {
    let records = section.get_or_insert_default();
    if text != "none" {
        let mut record = Record::parse(text).unwrap_or_else(|| panic!("no record: {text}"));
        if text.split_whitespace().nth(1) == Some("*") {
            record.ttl = u32::MAX;
        }
        records.push(record);
    }
    true
}

/// The same records in any order; a TTL of `u32::MAX` is any.
fn is_same(wanted: &[Record], found: &[Record]) -> bool {
    let mut found: Vec<_> = found.iter().map(Record::folded).collect();
    wanted.iter().map(Record::folded).all(|wanted| {
        let place = found.iter().position(|found| {
            (wanted.ttl == u32::MAX || wanted.ttl == found.ttl)
                && Record { ttl: found.ttl, ..wanted.clone() } == *found
        });
        place.map(|place| found.swap_remove(place)).is_some()
    }) && found.is_empty()
}
