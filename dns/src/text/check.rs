//! What must hold of a zone as a whole, and what is odd in one but can be served.

mod names;
mod sets;
mod slips;

use std::collections::HashMap;
use std::ops::Deref;

use crate::name::Name;
use crate::record::{Place, Problem, Record};
use crate::rrtype::RrType;

use super::layout::{Field, layout};
use super::problem::fail;

/// A zone that can be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The owner of the SOA.
    pub origin: Name,
    /// What is odd, in the order of the text.
    pub warnings: Vec<Problem>,
}

/// Checks the records of one zone. Drops duplicates, and gives each RRset one TTL (RFC 2181 5).
pub fn check(records: &mut Vec<Record>) -> Result<Checked, Vec<Problem>> {
    let origin = apex(records).map_err(|problem| vec![problem])?;
    let outsiders = records.iter().filter(|record| !record.owner.is_under(&origin));
    let mut errors: Vec<Problem> = outsiders.take(MOST).map(|record| outside(record, &origin)).collect();
    let mut warnings = Vec::new();
    let groups = Groups::new(records);
    names::standing_alone(&groups, &mut errors);
    if !errors.is_empty() {
        errors.sort_by_key(|problem| problem.place);
        return Err(errors);
    }
    names::reachable(&groups, &origin, &mut warnings);
    slips::addresses(records, &mut warnings);
    slips::missing(records, &origin, &mut warnings);
    let edits = sets::edits(&groups, &mut warnings);
    sets::apply(edits, records);
    Ok(Checked { origin, warnings: shortened(warnings) })
}

/// The owner of the one SOA.
fn apex(records: &[Record]) -> Result<Name, Problem> {
    let mut soas = records.iter().filter(|record| record.rtype == RrType::SOA);
    let Some(first) = soas.next() else {
        return Err(fail(Place { file: 0, line: 1, column: 1 }, "the zone has no SOA record")
            .help("begin with \"@ IN SOA ns1.example.com. hostmaster.example.com. 1 1d 2h 4w 1h\""));
    };
    match soas.find(|record| record.owner != first.owner || record.rdata != first.rdata) {
        None => Ok(first.owner.clone()),
        Some(second) => {
            let line = first.at.line;
            Err(fail(second.at, format!("{} is a second SOA; the first is in line {line}", second.owner))
                .help("a zone has exactly one; put another zone into a file of its own"))
        }
    }
}

fn outside(record: &Record, origin: &Name) -> Problem {
    let owner = &record.owner;
    let problem = fail(record.at, format!("{owner} is outside the zone {origin}"));
    // "www." was meant to be "www" when nothing of it belongs elsewhere
    let mut meant = owner.labels().collect::<Vec<_>>().into_iter().rev();
    let meant = meant.try_fold(origin.clone(), |name, label| name.child(label).ok());
    problem.help(match meant {
        Some(meant) if owner.label_count() == 1 => {
            format!("without the trailing dot it would be {meant}")
        }
        _ => format!("correct the name or $ORIGIN, or remove its trailing dot if it is relative to {origin}"),
    })
}

/// The records by owner, and in an owner by type and data.
struct Groups<'r> {
    records: &'r [Record],
    owners: HashMap<&'r Name, usize>,
    /// Per owner in the order of their first records.
    members: Vec<Vec<Member<'r>>>,
}

/// A record and its index among all.
#[derive(Clone, Copy)]
struct Member<'r> {
    index: usize,
    record: &'r Record,
}

impl Deref for Member<'_> {
    type Target = Record;

    fn deref(&self) -> &Record {
        self.record
    }
}

impl<'r> Groups<'r> {
    fn new(records: &'r [Record]) -> Self {
        let mut owners: HashMap<&Name, usize> = HashMap::with_capacity(records.len());
        let mut members: Vec<Vec<Member<'_>>> = Vec::new();
        for (index, record) in records.iter().enumerate() {
            let member = Member { index, record };
            let owner = *owners.entry(&record.owner).or_insert(members.len());
            match members.get_mut(owner) {
                Some(of_owner) => of_owner.push(member),
                None => members.push(vec![member]),
            }
        }
        for of_owner in &mut members {
            // stable: of equal records the first one written stays first
            of_owner.sort_by(|a, b| a.rtype.cmp(&b.rtype).then_with(|| data_order(a, b)));
        }
        Self { records, owners, members }
    }

    fn at(&self, name: &Name) -> &[Member<'r>] {
        self.owners.get(name).and_then(|&index| self.members.get(index)).map_or(&[], Vec::as_slice)
    }

    fn has(&self, name: &Name, rtype: RrType) -> bool {
        self.at(name).binary_search_by_key(&rtype, |record| record.rtype).is_ok()
    }
}

/// An order in which equal data are neighbours; names are equal whatever their case.
fn data_order(a: &Record, b: &Record) -> std::cmp::Ordering {
    if layout(a.rtype) == Some(&[Field::Name]) {
        let lower = |octet: &u8| octet.to_ascii_lowercase();
        return a.rdata.iter().map(lower).cmp(b.rdata.iter().map(lower));
    }
    a.rdata.cmp(&b.rdata)
}

/// How many problems of one kind anybody reads.
const MOST: usize = 50;

/// The first warnings in the order of the text, and how many more there were.
fn shortened(mut warnings: Vec<Problem>) -> Vec<Problem> {
    warnings.sort_by_key(|problem| problem.place);
    if warnings.len() > MOST {
        let more = warnings.len() - MOST;
        warnings.truncate(MOST);
        let place = warnings.last().map(|last| last.place).unwrap_or_default();
        warnings.push(fail(place, format!("{more} more warnings are left out")));
    }
    warnings
}
