//! One zone as a tree of names, with what hides what.

use super::{At, Problem};
use crate::name::Name;
use crate::record::{Loaded, Record};
use crate::rrtype::RrType;
use std::collections::{HashMap, HashSet};

/// A name of a zone, an empty non-terminal (RFC 4592 2.2.2) included.
pub(super) struct Spot<'z> {
    pub(super) name: Name,
    pub(super) parent: Option<usize>,
    pub(super) sets: Vec<Set<'z>>,
    /// The service bound here, by its position.
    pub(super) service: Option<usize>,
    /// Below a delegation or a DNAME: nothing here is answered, at most it is glue.
    pub(super) is_hidden: bool,
    /// At or below the apex of a deeper served zone: that one answers (dns.md 30).
    pub(super) is_covered: bool,
}

/// An RRset.
pub(super) struct Set<'z> {
    pub(super) rtype: RrType,
    pub(super) records: Vec<&'z Record>,
}

impl<'z> Set<'z> {
    pub(super) fn ttl(&self) -> u32 {
        self.records.first().map_or(0, |record| record.ttl)
    }

    pub(super) fn rdatas(&self) -> Vec<&'z [u8]> {
        self.records.iter().map(|record| &*record.rdata).collect()
    }
}

impl<'z> Spot<'z> {
    pub(super) fn set(&self, rtype: RrType) -> Option<&Set<'z>> {
        self.sets.iter().find(|set| set.rtype == rtype)
    }

    /// Whether authority ends here: a delegation.
    pub(super) fn is_cut(&self) -> bool {
        self.parent.is_some() && self.set(RrType::NS).is_some()
    }
}

/// A zone's names; parents come before children.
pub(super) struct Tree<'z> {
    pub(super) origin: Name,
    pub(super) spots: Vec<Spot<'z>>,
    index: HashMap<Name, usize>,
}

impl<'z> Tree<'z> {
    /// The tree of a zone; records outside it are told.
    pub(super) fn new(zone: &'z Loaded, position: usize, problems: &mut Vec<Problem>) -> Self {
        let mut tree = Self { origin: zone.origin.clone(), spots: Vec::new(), index: HashMap::new() };
        tree.spot(&zone.origin);
        for record in &zone.records {
            if !record.owner.is_under(&zone.origin) {
                problems.push(Problem {
                    at: At::Record { zone: position, place: record.at },
                    message: format!("{} is not in the zone {}", record.owner, zone.origin),
                    help: Some("move the record to the zone it belongs to".into()),
                });
                continue;
            }
            let at = tree.spot(&record.owner);
            let Some(spot) = tree.spots.get_mut(at) else { continue };
            match spot.sets.iter_mut().find(|set| set.rtype == record.rtype) {
                Some(set) => set.records.push(record),
                None => spot.sets.push(Set { rtype: record.rtype, records: vec![record] }),
            }
        }
        tree
    }

    /// The position of a name at or below the origin, made with its parents where it is new.
    pub(super) fn spot(&mut self, name: &Name) -> usize {
        // from the name up to what is known, then down again
        let mut missing = Vec::new();
        let mut next = Some(name.clone());
        let mut parent = None;
        while let Some(name) = next {
            if let Some(&at) = self.index.get(&name) {
                parent = Some(at);
                break;
            }
            next = if name == self.origin { None } else { name.parent() };
            missing.push(name);
        }
        for name in missing.into_iter().rev() {
            let at = self.spots.len();
            self.index.insert(name.clone(), at);
            let spot =
                Spot { name, parent, sets: Vec::new(), service: None, is_hidden: false, is_covered: false };
            self.spots.push(spot);
            parent = Some(at);
        }
        parent.unwrap_or(0)
    }

    pub(super) fn get(&self, name: &Name) -> Option<&Spot<'z>> {
        self.spots.get(*self.index.get(name)?)
    }

    /// Works out what hides what, once all names are in.
    pub(super) fn settle(&mut self, origins: &HashSet<Name>) {
        for at in 0..self.spots.len() {
            let Some(spot) = self.spots.get(at) else { break };
            let Some(parent) = spot.parent.and_then(|parent| self.spots.get(parent)) else { continue };
            let is_hidden = parent.is_hidden || parent.is_cut() || parent.set(RrType::DNAME).is_some();
            let is_covered = parent.is_covered || origins.contains(&spot.name);
            if let Some(spot) = self.spots.get_mut(at) {
                spot.is_hidden = is_hidden;
                spot.is_covered = is_covered;
            }
        }
    }

    /// Where the addresses of `target` are: at the name, or at the wildcard that makes it (RFC 4592 3.3.1).
    /// Names that are hidden count only where `glue` is wanted.
    pub(super) fn addresses(&self, target: &Name, glue: bool) -> Option<&Spot<'z>> {
        if !target.is_under(&self.origin) {
            return None;
        }
        let spot = match self.get(target) {
            Some(spot) => spot,
            None => {
                let mut encloser = target.parent()?;
                while self.get(&encloser).is_none() {
                    encloser = encloser.parent()?;
                }
                self.get(&encloser.child(b"*").ok()?)?
            }
        };
        (glue || (!spot.is_hidden && !spot.is_cut())).then_some(spot)
    }
}
