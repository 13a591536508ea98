//! What may stand at one name, and what stands where no answer reaches it.

use std::cmp::Ordering;

use crate::name::{Name, wire_len};
use crate::record::{Problem, Record};
use crate::rrtype::RrType;

use super::super::problem::fail;
use super::{Groups, data_order};

/// A CNAME stands alone, and there is one CNAME and one DNAME at a name (Z16; RFC 1034 3.6.2, RFC 6672 2.4).
pub(super) fn standing_alone(groups: &Groups<'_>, errors: &mut Vec<Problem>) {
    for owner in &groups.members {
        for rtype in [RrType::CNAME, RrType::DNAME] {
            let mut of_type = owner.iter().filter(|record| record.rtype == rtype);
            let Some(first) = of_type.next() else { continue };
            if let Some(other) = of_type.find(|other| data_order(first, other) != Ordering::Equal) {
                let later = first.at.max(other.at);
                errors.push(
                    fail(later, format!("{} has more than one {rtype}", first.owner))
                        .help("keep one; to spread clients over several targets use a service"),
                );
            }
            let beside = owner.iter().find(|other| !may_stand_beside_cname(other.rtype));
            if let (RrType::CNAME, Some(other)) = (rtype, beside) {
                errors.push(
                    fail(
                        first.at,
                        format!(
                            "{} has a CNAME beside {} in line {}",
                            first.owner, other.rtype, other.at.line
                        ),
                    )
                    .help("remove one of them: a CNAME stands for all types of its name (RFC 1034 3.6.2)"),
                );
            }
        }
    }
}

/// Warns of what no answer reaches, and of name servers that cannot be found.
pub(super) fn reachable(groups: &Groups<'_>, origin: &Name, warnings: &mut Vec<Problem>) {
    let cuts = Cuts::new(groups, origin);
    hidden(groups, &cuts, warnings);
    servers(groups, &cuts, warnings);
}

/// RFC 2181 10.1, RFC 4034 2.5: only what DNSSEC itself adds.
fn may_stand_beside_cname(rtype: RrType) -> bool {
    matches!(rtype, RrType::CNAME | RrType::RRSIG | RrType::NSEC | RrType::SIG | RrType::NXT | RrType::KEY)
}

/// Warns of data that a delegation or a DNAME above hides (RFC 1034 4.2.1, RFC 6672 2.4).
fn hidden(groups: &Groups<'_>, cuts: &Cuts<'_>, warnings: &mut Vec<Problem>) {
    for owner in &groups.members {
        let Some(name) = owner.first().map(|record| &record.owner) else { continue };
        if let Some(record) = owner.iter().find(|record| !may_stand_at_cut(record.rtype))
            && cuts.delegates(name)
        {
            warnings.push(
                fail(record.at, format!("{name} is delegated, so its {} is not answered here", record.rtype))
                    .help("move it into the delegated zone"),
            );
        }
        let Some((by, above)) = cuts.above(name) else { continue };
        let glue = |rtype| by == RrType::NS && matches!(rtype, RrType::A | RrType::AAAA);
        if let Some(record) = owner.iter().find(|record| !glue(record.rtype)) {
            warnings.push(
                fail(record.at, format!("{name} {} is hidden by the {by} of {above}", record.rtype))
                    .help("remove it, or the record that hides it"),
            );
        }
    }
}

/// The delegation itself, its signer, and its own glue.
fn may_stand_at_cut(rtype: RrType) -> bool {
    matches!(rtype, RrType::NS | RrType::DS | RrType::NSEC | RrType::RRSIG | RrType::A | RrType::AAAA)
}

/// Where other zones or other names take over.
struct Cuts<'g> {
    groups: &'g Groups<'g>,
    origin: &'g Name,
    /// Bit n: there is a cut at some name of n labels. Only at those a name's ancestors are looked up.
    depths: u128,
}

impl<'g> Cuts<'g> {
    fn new(groups: &'g Groups<'g>, origin: &'g Name) -> Self {
        let mut cuts = Self { groups, origin, depths: 0 };
        for record in groups.records {
            if record.rtype == RrType::DNAME || (record.rtype == RrType::NS && record.owner != *origin) {
                cuts.depths |= 1 << record.owner.label_count();
            }
        }
        cuts
    }

    fn delegates(&self, name: &Name) -> bool {
        name != self.origin && self.groups.has(name, RrType::NS)
    }

    /// The nearest name above that is delegated or has a DNAME.
    fn above(&self, name: &Name) -> Option<(RrType, Name)> {
        let depths = (self.origin.label_count()..name.label_count()).rev();
        depths.filter(|depth| self.depths >> depth & 1 == 1).find_map(|depth| {
            let above = name.suffix(depth)?;
            if self.groups.has(&above, RrType::DNAME) {
                return Some((RrType::DNAME, above));
            }
            self.delegates(&above).then_some((RrType::NS, above))
        })
    }
}

/// Warns of an apex without name servers, and of servers in the zone without an address.
fn servers(groups: &Groups<'_>, cuts: &Cuts<'_>, warnings: &mut Vec<Problem>) {
    let origin = cuts.origin;
    if !groups.has(origin, RrType::NS) {
        let place = groups.at(origin).first().map(|record| record.at).unwrap_or_default();
        warnings.push(
            fail(place, format!("{origin} has no NS records"))
                .help("name the servers that the parent zone delegates to"),
        );
    }
    for record in groups.records.iter().filter(|record| record.rtype == RrType::NS) {
        let Some(target) = target(record).filter(|target| target.is_under(origin)) else { continue };
        let addressed = groups.has(&target, RrType::A) || groups.has(&target, RrType::AAAA);
        // a server in another part of the zone that is delegated away is found there
        let elsewhere = cuts.above(&target).is_some_and(|(_, cut)| cut != record.owner);
        if !addressed && !elsewhere {
            warnings.push(
                fail(record.at, format!("the name server {target} has no address"))
                    .help(format!("add an A or AAAA record for {target}, or correct the name")),
            );
        }
    }
}

fn target(record: &Record) -> Option<Name> {
    let length = wire_len(&record.rdata).ok()?;
    Name::from_wire(record.rdata.get(..length)?).ok()
}
