//! The names that MX, SRV, SVCB and their kin point at, where this server chooses their addresses (WP-IB 1.8).
//!
//! Static addresses of static records are encoded with them. What a decision gives cannot be, so the record keeps where
//! in it the name is and which node answers for it. All that is found once, when all names are known.

use super::encode::target_at;
use super::{Catalog, Found, NONE, Node};
use crate::name::Name;
use crate::rrtype::RrType;
use crate::wire::hash;

/// Most targets of one answer whose addresses are chosen.
pub(crate) const TARGETS_MAX: usize = 10;

/// A name in the data of a record, and the node that has its addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    /// [`NONE`] where nothing is known of it.
    pub(crate) node: u32,
    /// Octets in front of the name: in a section, or in a member's record with its owner.
    pub(crate) at: u16,
    /// Of members: the first one with the same target.
    pub(crate) same_as: u8,
}

/// Whose targets they are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Whose {
    Entry(usize),
    Lane(usize),
}

/// Targets that wait until all names are known; of a lane one a member.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) whose: Whose,
    pub(super) names: Vec<Option<(u16, Name)>>,
}

/// Where the name is that [`target`](super::encode::target) found in a record's data, counted from the record's owner,
/// which is a pointer. `.` stands for the owner, so there it is the owner.
pub(super) fn offset(rtype: RrType, rdata: &[u8]) -> usize {
    const HEAD: usize = 2 + 10;
    match target_at(rtype) {
        Some(at) if rdata.get(at) != Some(&0) => HEAD + at,
        _ => 0,
    }
}

/// Tells entries and lanes of their targets.
pub(super) fn settle(catalog: &mut Catalog, all: Vec<Wanted>) {
    for Wanted { whose, names } in all {
        let start = catalog.targets.len() as u32;
        match whose {
            Whose::Entry(id) => {
                let found = names.iter().flatten().filter_map(|(at, name)| {
                    let node = chosen(catalog, name)?;
                    Some(Target { node, at: *at, same_as: 0 })
                });
                let found: Vec<Target> = found.take(TARGETS_MAX).collect();
                let Some(entry) = catalog.entries.get_mut(id) else { continue };
                (entry.targets, entry.target_count) = (start, found.len() as u16);
                catalog.targets.extend(found);
            }
            Whose::Lane(id) => {
                let member = |(i, name): (usize, &Option<(u16, Name)>)| {
                    let same_as = names.iter().position(|other| other == name).unwrap_or(i) as u8;
                    let (at, node) = name
                        .as_ref()
                        .map_or((0, NONE), |(at, name)| (*at, any(catalog, name).unwrap_or(NONE)));
                    Target { node, at, same_as }
                };
                let found: Vec<Target> = names.iter().enumerate().map(member).collect();
                if found.iter().all(|target| target.node == NONE) {
                    continue;
                }
                let Some(lane) = catalog.lanes.get_mut(id) else { continue };
                lane.targets = start;
                catalog.targets.extend(found);
            }
        }
    }
}

/// The node of a name with addresses that are chosen.
fn chosen(catalog: &Catalog, name: &Name) -> Option<u32> {
    node(catalog, name, |node| {
        let start = node.lanes as usize;
        let lanes = catalog.lanes.get(start..start + usize::from(node.lane_count)).unwrap_or_default();
        lanes.iter().any(|lane| is_address(lane.rtype))
    })
}

/// The node of a name with addresses, chosen or not.
fn any(catalog: &Catalog, name: &Name) -> Option<u32> {
    let has_static = |node: &Node| catalog.entries_of(node).iter().any(|entry| is_address(entry.rtype));
    chosen(catalog, name).or_else(|| node(catalog, name, has_static))
}

/// The node that answers a name, its own or a wildcard's, if it will do. Delegated names are others' to answer.
fn node(catalog: &Catalog, name: &Name, will_do: impl Fn(&Node) -> bool) -> Option<u32> {
    let lower = name.as_wire().to_ascii_lowercase();
    let id = match catalog.find(&lower, hash::of(&lower)) {
        Found::Exact(id) => id,
        Found::Below(id, _) => {
            let encloser = catalog.node(id)?;
            (encloser.referral == NONE && encloser.dname == NONE).then_some(encloser.wildcard)?
        }
        Found::Nothing => return None,
    };
    catalog.node(id).filter(|node| node.referral == NONE && will_do(node)).map(|_| id)
}

fn is_address(rtype: RrType) -> bool {
    matches!(rtype, RrType::A | RrType::AAAA)
}
