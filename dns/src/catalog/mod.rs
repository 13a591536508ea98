//! The names of all served zones and services in one table, with answers encoded at load.
//!
//! ```text
//! zone files ─► Loaded ─┐                  ┌─ table: lower-cased name → node
//! services ─────────────┴─ build ─► Catalog├─ nodes: entries (type → Section), lanes, cut, wildcard
//!                                          └─ bytes: sections, relocatable
//! ```
//! Names below a delegation or a DNAME are no nodes: nothing there is answered from the zone (RFC 1034 4.2.1,
//! RFC 6672 2.4), so a search for them finds the delegation or the DNAME as their closest encloser.

mod build;
mod encode;
mod table;
mod targets;
mod tree;

pub(crate) use encode::{Placement, Pool, Section};
pub(crate) use table::Table;
pub(crate) use targets::{TARGETS_MAX, Target};

use crate::name::Name;
use crate::record::{Loaded, Place};
use crate::rrtype::RrType;
use portolan_balance::ServiceId;
use std::collections::HashMap;

/// A name that is answered by decisions.
#[derive(Clone, Debug)]
pub struct ServiceBinding {
    /// The name; may be a wildcard. It must lie in a served zone and needs no line there.
    pub name: Name,
    /// One lane a record type.
    pub lanes: Vec<Lane>,
    /// Whether client subnets are used; if not the resolver's address decides (case E04).
    pub ecs: bool,
}

/// How a service answers one record type.
#[derive(Clone, Debug)]
pub struct Lane {
    /// A, AAAA, CNAME, SRV, MX, HTTPS or SVCB. Static records of this type at the name are shadowed.
    pub rtype: RrType,
    /// The service that decides.
    pub service: ServiceId,
    /// Data of each candidate in wire form, by candidate id.
    pub members: Vec<Box<[u8]>>,
    /// Data of the fixed records, where the fallback has some.
    pub fixed: Vec<Box<[u8]>>,
    /// The alias the fallback answers with instead.
    pub fixed_cname: Option<Name>,
    /// Seconds an answer may be kept; a decision may shorten it.
    pub ttl: u32,
    /// Seconds the fallback's answer may be kept.
    pub fallback_ttl: u32,
}

/// Where a problem is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum At {
    /// A zone, by its position in what was given to [`Catalog::build`].
    Zone(usize),
    /// A record of a zone.
    Record {
        /// The zone's position.
        zone: usize,
        /// The record's place in the zone's files.
        place: Place,
    },
    /// A service, by its position in what was given to [`Catalog::build`].
    Service(usize),
}

/// Something wrong or odd about zones and services together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub at: At,
    /// What, naming the value.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

/// No node, zone or entry.
pub(crate) const NONE: u32 = u32::MAX;

/// All names, ready to answer. Made once, shared, never changed.
#[derive(Clone, Debug)]
pub struct Catalog {
    pub(crate) table: Table,
    pub(crate) nodes: Vec<Node>,
    pub(crate) zones: Vec<Zone>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) lanes: Vec<LaneData>,
    pub(crate) targets: Vec<Target>,
    pub(crate) pool: Pool,
}

/// A name at which something is answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    /// The zone it belongs to.
    pub(crate) zone: u32,
    /// Its RRsets in `entries`.
    pub(crate) entries: u32,
    pub(crate) entry_count: u16,
    /// Its lanes in `lanes`.
    pub(crate) lane_count: u16,
    pub(crate) lanes: u32,
    /// The node of `*` directly below.
    pub(crate) wildcard: u32,
    /// What a name below gets, where it is a delegation: the referral, in `entries`.
    pub(crate) referral: u32,
    /// Its DNAME, in `entries`.
    pub(crate) dname: u32,
    /// Its CNAME, in `entries`.
    pub(crate) cname: u32,
    /// The parent zone's node of the same name, where this is an apex inside another served zone: it answers DS.
    pub(crate) parent_side: u32,
}

/// An RRset, or a referral.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) rtype: RrType,
    /// Names in the data with chosen addresses, in `targets`.
    pub(crate) target_count: u16,
    pub(crate) targets: u32,
    pub(crate) section: Section,
}

/// What is known of a zone as a whole.
#[derive(Clone, Debug)]
pub(crate) struct Zone {
    pub(crate) origin: Name,
    /// SOA with the TTL of negative answers (RFC 2308 5, case Z15).
    pub(crate) negative: Section,
}

/// A lane, compiled.
#[derive(Clone, Debug)]
pub(crate) struct LaneData {
    pub(crate) rtype: RrType,
    pub(crate) service: ServiceId,
    pub(crate) ecs: bool,
    pub(crate) ttl: u32,
    pub(crate) fallback_ttl: u32,
    /// Each candidate's target in `targets`, or [`NONE`] where no candidate has one.
    pub(crate) targets: u32,
    /// Each candidate's record without its owner: type, class, TTL, length, data.
    pub(crate) members: Vec<MemberData>,
    /// The same of the fixed records.
    pub(crate) fixed: Vec<MemberData>,
    /// The same of the fallback's alias.
    pub(crate) fixed_cname: Option<MemberData>,
}

/// A record in the pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemberData {
    pub(crate) at: u32,
    pub(crate) len: u16,
    /// The first member with the same data: an RRset holds no duplicates (RFC 2181 5).
    pub(crate) same_as: u8,
}

/// What a search finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The name itself.
    Exact(u32),
    /// Its closest encloser (RFC 4592 3.3.1), and how many octets of the name are in front of it.
    Below(u32, usize),
    /// Not in a served zone.
    Nothing,
}

impl Catalog {
    /// Builds the catalog. Either it comes with warnings, or all problems are told at once.
    ///
    /// Several zones may lie one inside another: the deeper one answers. A service's lane shadows static records of its
    /// type only (case Z20).
    pub fn build(
        zones: Vec<Loaded>,
        services: Vec<ServiceBinding>,
    ) -> Result<(Self, Vec<Problem>), Vec<Problem>> {
        build::build(&zones, &services)
    }

    /// The same names with other members in these lanes: for members that come and go while the zones stay. A lane is
    /// found by its service; one that is not here, or that answers no addresses, is left out. A member whose record the
    /// catalog cannot hold is left out, too.
    #[must_use]
    pub fn with_lanes(&self, lanes: &[Lane]) -> Self {
        let wanted: HashMap<ServiceId, &Lane> = lanes.iter().map(|lane| (lane.service, lane)).collect();
        let mut next = self.clone();
        let Self { lanes, pool, .. } = &mut next;
        for held in lanes {
            // addresses point at no names, so that nothing else has to be settled
            let is_address = matches!(held.rtype, RrType::A | RrType::AAAA);
            let lane = wanted.get(&held.service).filter(|lane| is_address && lane.rtype == held.rtype);
            if let Some(lane) = lane {
                (*held, _) = build::lane_data(pool, lane, held.ecs);
            }
        }
        next
    }

    /// The origins of the zones, in the order given.
    pub fn origins(&self) -> impl Iterator<Item = &Name> {
        self.zones.iter().map(|zone| &zone.origin)
    }

    /// How many names there are.
    #[must_use]
    pub fn name_count(&self) -> usize {
        self.nodes.len()
    }

    /// Searches a lower-cased name whose hash is `hash`.
    // loading calls it, too, and must not be why a query pays for a call
    #[inline(always)]
    pub(crate) fn find(&self, lower: &[u8], hash: u64) -> Found {
        match self.table.get(lower, hash) {
            Some(node) => Found::Exact(node),
            None => {
                self.table.longest_suffix(lower).map_or(Found::Nothing, |(node, cut)| Found::Below(node, cut))
            }
        }
    }

    /// The node that a name with this hash most likely has; it is being loaded.
    #[inline]
    pub(crate) fn likely(&self, hash: u64) -> Option<u32> {
        let id = self.table.likely(hash)?;
        crate::wire::prefetch(self.nodes.get(id as usize)?);
        Some(id)
    }

    /// The lane that answers `rtype` at a node; where there is none the node's records are being loaded.
    #[inline]
    pub(crate) fn expect(&self, node: u32, rtype: RrType) -> Option<&LaneData> {
        let node = self.node(node)?;
        let lane = self.lane_for(node, rtype);
        if lane.is_none()
            && let Some(entry) = self.entry(node.entries)
        {
            entry.section.prefetch(&self.pool);
        }
        lane
    }

    /// The lane that answers `rtype` at a node.
    #[inline]
    pub(crate) fn lane_for(&self, node: &Node, rtype: RrType) -> Option<&LaneData> {
        let start = node.lanes as usize;
        let lanes = self.lanes.get(start..start + usize::from(node.lane_count))?;
        lanes.iter().find(|lane| lane.rtype == rtype || lane.rtype == RrType::CNAME)
    }

    #[inline]
    pub(crate) fn node(&self, id: u32) -> Option<&Node> {
        self.nodes.get(id as usize)
    }

    #[inline]
    pub(crate) fn entry(&self, id: u32) -> Option<&Entry> {
        self.entries.get(id as usize)
    }

    #[inline]
    pub(crate) fn entries_of(&self, node: &Node) -> &[Entry] {
        let start = node.entries as usize;
        self.entries.get(start..start + usize::from(node.entry_count)).unwrap_or_default()
    }
}
