//! Names that are hardly meant: the trailing dot forgotten, or an address where a name belongs.

use crate::name::Name;
use crate::record::{Problem, Record};
use crate::rrtype::RrType;

use super::super::layout::{Field, layout};
use super::super::problem::fail;

/// Warns of servers given by address.
pub(super) fn addresses(records: &[Record], warnings: &mut Vec<Problem>) {
    for record in records {
        let start = match record.rtype {
            RrType::NS => 0,
            RrType::MX => 2,
            RrType::SRV => 6,
            _ => continue,
        };
        let Some(target) = record.rdata.get(start..).and_then(|wire| Name::from_wire(wire).ok()) else {
            continue;
        };
        let octets: Vec<&[u8]> = target.labels().take(4).collect();
        if octets.len() == 4 && octets.iter().all(|label| label.iter().all(u8::is_ascii_digit)) {
            warnings.push(
                fail(record.at, format!("the target of {} {} is an address", record.owner, record.rtype))
                    .help("give the address to a name with an A record, and write that name here"),
            );
        }
    }
}

/// Warns of names that end in the origin twice, and of PTR targets inside a reverse zone.
pub(super) fn missing(records: &[Record], origin: &Name, warnings: &mut Vec<Problem>) {
    // a zone of one label may well hold that label again
    if origin.label_count() < 2 {
        return;
    }
    let labels: Vec<&[u8]> = origin.labels().collect();
    let twice = labels.iter().rev().try_fold(origin.clone(), |name, label| name.child(label).ok());
    let reverse = origin.labels().last().is_some_and(|label| label.eq_ignore_ascii_case(b"arpa"));
    for record in records {
        let doubled = twice.as_ref().is_some_and(|twice| {
            record.owner.is_under(twice) || (ends_in_name(record.rtype) && ends_in(&record.rdata, twice))
        });
        let pointer = reverse && record.rtype == RrType::PTR && ends_in(&record.rdata, origin);
        if doubled || pointer {
            let (owner, rtype) = (&record.owner, record.rtype);
            let what = if pointer { "points into its own zone" } else { "ends in the origin twice" };
            warnings.push(
                fail(record.at, format!("{owner} {rtype}: a name {what}"))
                    .help("add the trailing dot to names that are written in full"),
            );
        }
    }
}

fn ends_in_name(rtype: RrType) -> bool {
    layout(rtype).and_then(<[Field]>::last) == Some(&Field::Name)
}

fn ends_in(data: &[u8], name: &Name) -> bool {
    let wire = name.as_wire();
    let tail = data.len().checked_sub(wire.len()).and_then(|start| data.get(start..));
    tail.is_some_and(|tail| tail.eq_ignore_ascii_case(wire))
}
