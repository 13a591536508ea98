//! Builds the catalog: trees of the zones, services bound into them, sections encoded.

use super::encode::{Encoder, target};
use super::targets::{self, Wanted, Whose};
use super::tree::{Spot, Tree};
use super::{
    At, Catalog, Entry, Lane, LaneData, MemberData, NONE, Node, Pool, Problem, Section, ServiceBinding,
    Table, Zone,
};
use crate::name::Name;
use crate::record::Loaded;
use crate::rrtype::RrType;
use std::collections::{HashMap, HashSet};

pub(super) fn build(
    zones: &[Loaded],
    services: &[ServiceBinding],
) -> Result<(Catalog, Vec<Problem>), Vec<Problem>> {
    let mut problems = Vec::new();
    let mut origins = HashSet::new();
    let mut trees = Vec::with_capacity(zones.len());
    for (position, zone) in zones.iter().enumerate() {
        if !origins.insert(zone.origin.clone()) {
            problems.push(problem(
                At::Zone(position),
                format!("the zone {} is given twice", zone.origin),
                "give each zone one file",
            ));
            continue;
        }
        trees.push(Tree::new(zone, position, &mut problems));
    }
    for (position, service) in services.iter().enumerate() {
        bind(&mut trees, service, position, &mut problems);
    }
    for tree in &mut trees {
        tree.settle(&origins);
    }
    for tree in &trees {
        for spot in &tree.spots {
            check_service(tree, spot, services, &mut problems);
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }

    let mut builder =
        Builder { trees: &trees, services, out: Output::default(), problems, warnings: Vec::new() };
    for zone in 0..trees.len() {
        builder.zone(zone);
    }
    if builder.problems.is_empty() {
        for zone in 0..trees.len() {
            builder.parent_side(zone);
        }
    }
    let Builder { out, problems, warnings, .. } = builder;
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok((out.finish(), warnings))
}

fn problem(at: At, message: String, help: &str) -> Problem {
    Problem { at, message, help: Some(help.into()) }
}

/// Puts a service's name into the tree of the deepest zone that holds it.
fn bind(trees: &mut [Tree<'_>], service: &ServiceBinding, position: usize, problems: &mut Vec<Problem>) {
    let zone = trees
        .iter_mut()
        .filter(|tree| service.name.is_under(&tree.origin))
        .max_by_key(|tree| tree.origin.label_count());
    let Some(tree) = zone else {
        problems.push(problem(
            At::Service(position),
            format!("the service {} lies in no served zone", service.name),
            "add the zone's file to `[dns] zones`, or correct the name",
        ));
        return;
    };
    let at = tree.spot(&service.name);
    let Some(spot) = tree.spots.get_mut(at) else { return };
    if spot.service.replace(position).is_some() {
        problems.push(problem(
            At::Service(position),
            format!("the service {} is given twice", service.name),
            "give each name one service",
        ));
    }
}

/// What a service's name may not be, and what may not stand beside it.
fn check_service(tree: &Tree<'_>, spot: &Spot<'_>, services: &[ServiceBinding], problems: &mut Vec<Problem>) {
    let Some((position, service)) = spot.service.and_then(|at| services.get(at).map(|service| (at, service)))
    else {
        return;
    };
    let mut tell = |message: String, help: &str| problems.push(problem(At::Service(position), message, help));
    let name = &service.name;
    if spot.is_hidden || spot.is_cut() {
        tell(
            format!("the service {name} lies at or below a delegation or a DNAME of {}", tree.origin),
            "serve the delegated zone here, or take the delegation out of the zone file",
        );
    }
    for (i, lane) in service.lanes.iter().enumerate() {
        if !matches!(
            lane.rtype,
            RrType::A
                | RrType::AAAA
                | RrType::CNAME
                | RrType::SRV
                | RrType::MX
                | RrType::HTTPS
                | RrType::SVCB
        ) {
            tell(
                format!("the service {name} cannot answer {}", lane.rtype),
                "use A, AAAA, CNAME, SRV, MX, HTTPS or SVCB",
            );
        }
        if service.lanes.iter().take(i).any(|other| other.rtype == lane.rtype) {
            tell(format!("the service {name} answers {} twice", lane.rtype), "give each type once");
        }
        let is_alias = lane.rtype == RrType::CNAME;
        if is_alias && service.lanes.len() > 1 {
            tell(
                format!("the service {name} answers CNAME and other types"),
                "an alias stands alone (RFC 2181 10.1): use another name",
            );
        }
        if is_alias || lane.fixed_cname.is_some() {
            for set in
                spot.sets.iter().filter(|set| !service.lanes.iter().any(|lane| lane.rtype == set.rtype))
            {
                tell(
                    format!("the service {name} may answer CNAME beside the zone's {} records", set.rtype),
                    "an alias stands alone (RFC 2181 10.1): use another name, or another fallback",
                );
            }
        }
        check_data(name, lane, &mut tell);
    }
    if spot.set(RrType::CNAME).is_some() && !service.lanes.iter().any(|lane| lane.rtype == RrType::CNAME) {
        tell(
            format!("the zone {} has a CNAME at the service {name}", tree.origin),
            "take the CNAME out of the zone file",
        );
    }
}

fn check_data(name: &Name, lane: &Lane, tell: &mut impl FnMut(String, &str)) {
    let length = match lane.rtype {
        RrType::A => Some(4),
        RrType::AAAA => Some(16),
        _ => None,
    };
    let is_good = |data: &[u8]| match (length, lane.rtype) {
        (Some(length), _) => data.len() == length,
        (None, RrType::CNAME) => Name::from_wire(data).is_ok(),
        _ => data.len() <= 4096,
    };
    if !lane.members.iter().chain(&lane.fixed).all(|data| is_good(data)) {
        tell(
            format!("a member of the service {name} is no {} data", lane.rtype),
            "give members of the right address family",
        );
    }
}

#[derive(Default)]
struct Output {
    nodes: Vec<Node>,
    /// Lower-cased names of the nodes that a search finds; those of parents' sides come after them in `nodes`.
    names: Vec<Vec<u8>>,
    /// Each zone's nodes by spot.
    ids: Vec<Vec<u32>>,
    zones: Vec<Zone>,
    entries: Vec<Entry>,
    lanes: Vec<LaneData>,
    wanted: Vec<Wanted>,
    pool: Pool,
}

impl Output {
    fn finish(mut self) -> Catalog {
        self.pool.shrink();
        let mut catalog = Catalog {
            table: Table::new(self.names.iter().map(Vec::as_slice)),
            nodes: self.nodes,
            zones: self.zones,
            entries: self.entries,
            lanes: self.lanes,
            targets: Vec::new(),
            pool: self.pool,
        };
        targets::settle(&mut catalog, self.wanted);
        catalog
    }
}

struct Builder<'a, 'z> {
    trees: &'a [Tree<'z>],
    services: &'a [ServiceBinding],
    out: Output,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl<'z> Builder<'_, 'z> {
    /// All nodes of one zone.
    fn zone(&mut self, position: usize) {
        let trees = self.trees;
        let Some(tree) = trees.get(position) else { return };
        let Some(negative) = self.negative(tree) else {
            self.problems.push(problem(
                At::Zone(position),
                format!("the zone {} has no usable SOA record", tree.origin),
                "add one SOA record at the apex",
            ));
            return;
        };
        self.out.zones.push(Zone { origin: tree.origin.clone(), negative });
        let mut ids = vec![NONE; tree.spots.len()];
        for (at, spot) in tree.spots.iter().enumerate() {
            if spot.is_hidden || spot.is_covered {
                continue;
            }
            let id = self.out.nodes.len() as u32;
            let node = self.node(position, tree, spot);
            self.out.nodes.push(node);
            self.out.names.push(spot.name.as_wire().to_ascii_lowercase());
            if let Some(place) = ids.get_mut(at) {
                *place = id;
            }
            self.wildcard(&ids, spot, id);
        }
        self.out.ids.push(ids);
    }

    /// Tells the node above a wildcard of it.
    fn wildcard(&mut self, ids: &[u32], spot: &Spot<'_>, id: u32) {
        let parent = spot.parent.filter(|_| spot.name.is_wildcard()).and_then(|parent| ids.get(parent));
        if let Some(parent) = parent.and_then(|&parent| self.out.nodes.get_mut(parent as usize)) {
            parent.wildcard = id;
        }
    }

    /// The parent's side of an apex that lies in another served zone. No search finds it: it answers DS, which is the
    /// parent's (RFC 4035 3.1.4.1), and where the apex is `*.parent` it is still the parent's wildcard.
    fn parent_side(&mut self, position: usize) {
        let trees = self.trees;
        let Some(child) = trees.get(position) else { return };
        let parent = trees
            .iter()
            .enumerate()
            .filter(|(_, tree)| tree.origin != child.origin && child.origin.is_under(&tree.origin))
            .max_by_key(|(_, tree)| tree.origin.label_count());
        let Some((zone, parent)) = parent else { return };
        let spot = parent.get(&child.origin);
        if spot.is_none_or(|spot| !spot.is_cut()) {
            self.warnings.push(problem(
                At::Zone(position),
                format!(
                    "the zone {} is served inside {}, which does not delegate it",
                    child.origin, parent.origin
                ),
                "add its NS records to the outer zone, so that other servers of that zone lead to it",
            ));
        }
        if spot.is_some_and(|spot| spot.is_hidden) {
            return;
        }
        let id = self.out.nodes.len() as u32;
        let node = spot.map_or_else(|| empty_node(zone), |spot| self.node(zone, parent, spot));
        self.out.nodes.push(node);
        let apex = self.out.ids.get(position).and_then(|ids| ids.first()).copied().unwrap_or(NONE);
        if let Some(apex) = self.out.nodes.get_mut(apex as usize) {
            apex.parent_side = id;
        }
        if let (Some(spot), Some(ids)) = (spot, self.out.ids.get(zone).cloned()) {
            self.wildcard(&ids, spot, id);
        }
    }

    /// The SOA of negative answers (RFC 2308 3, 5).
    fn negative(&mut self, tree: &Tree<'_>) -> Option<Section> {
        let soa = tree.spots.first()?.set(RrType::SOA)?.records.first()?;
        let minimum = u32::from_be_bytes(*soa.rdata.last_chunk()?);
        let mut encoder = Encoder::below(&mut self.out.pool, &tree.origin);
        encoder.authority(&tree.origin, RrType::SOA, soa.ttl.min(minimum), &soa.rdata);
        encoder.finish()
    }

    fn node(&mut self, zone: usize, tree: &Tree<'z>, spot: &Spot<'z>) -> Node {
        let mut node = empty_node(zone);
        if spot.is_cut() {
            node.referral = self.referral(zone, tree, spot);
        }
        let lanes = spot.service.and_then(|at| self.services.get(at).map(|service| (at, service)));
        node.entries = self.out.entries.len() as u32;
        let mut types: Vec<RrType> = spot.sets.iter().map(|set| set.rtype).collect();
        types.sort_unstable();
        for rtype in types {
            // at a delegation only DS is the parent's own (RFC 4035 2.4)
            let is_answered = !spot.is_cut() || rtype == RrType::DS;
            if !is_answered || is_shadowed(self.services, spot, rtype) {
                continue;
            }
            let id = self.out.entries.len() as u32;
            if self.entry(zone, tree, spot, rtype) {
                match rtype {
                    RrType::CNAME => node.cname = id,
                    RrType::DNAME => node.dname = id,
                    _ => {}
                }
            }
        }
        node.entry_count = (self.out.entries.len() - node.entries as usize) as u16;
        if let Some((position, service)) = lanes {
            node.lanes = self.out.lanes.len() as u32;
            for lane in &service.lanes {
                self.lane(position, service, lane);
            }
            node.lane_count = (self.out.lanes.len() - node.lanes as usize) as u16;
        }
        node
    }

    /// Encodes an RRset with the addresses of the names in it; returns whether there is one.
    fn entry(&mut self, zone: usize, tree: &Tree<'z>, spot: &Spot<'z>, rtype: RrType) -> bool {
        let Some(set) = spot.set(rtype) else { return false };
        let mut encoder = Encoder::of(&mut self.out.pool, &spot.name);
        let starts: Vec<usize> =
            set.records.iter().map(|record| encoder.answer(rtype, record.ttl, &record.rdata)).collect();
        let targets = targets(spot, set);
        add_addresses(&mut encoder, tree, self.services, &targets, rtype == RrType::NS, false);
        let section = encoder.finish();
        // E10: an answer to NS is the same for everybody
        if rtype != RrType::NS && !targets.is_empty() && !self.services.is_empty() {
            let names = set.records.iter().zip(starts).map(|(record, start)| {
                let name = target(rtype, &record.rdata, &spot.name)?;
                let at = start + targets::offset(rtype, &record.rdata);
                Some((u16::try_from(at).ok()?, name))
            });
            let mut seen = HashSet::new();
            let names = names.filter(|it| it.as_ref().is_some_and(|(_, name)| seen.insert(name.clone())));
            let wanted = Wanted { whose: Whose::Entry(self.out.entries.len()), names: names.collect() };
            self.out.wanted.push(wanted);
        }
        self.store(zone, spot, rtype, section)
    }

    /// NS and glue of a delegation (RFC 1034 4.3.2 3b), glue that the client cannot do without first (RFC 9471).
    fn referral(&mut self, zone: usize, tree: &Tree<'z>, spot: &Spot<'z>) -> u32 {
        let Some(set) = spot.set(RrType::NS) else { return NONE };
        let mut encoder = Encoder::below(&mut self.out.pool, &spot.name);
        for record in &set.records {
            encoder.authority(&spot.name, RrType::NS, record.ttl, &record.rdata);
        }
        let (inside, outside): (Vec<Name>, Vec<Name>) =
            targets(spot, set).into_iter().partition(|target| target.is_under(&spot.name));
        add_addresses(&mut encoder, tree, self.services, &inside, true, true);
        add_addresses(&mut encoder, tree, self.services, &outside, true, false);
        let id = self.out.entries.len() as u32;
        let section = encoder.finish();
        if self.store(zone, spot, RrType::NS, section) { id } else { NONE }
    }

    fn store(&mut self, zone: usize, spot: &Spot<'_>, rtype: RrType, section: Option<Section>) -> bool {
        let Some(section) = section else {
            self.problems.push(problem(
                At::Zone(zone),
                format!("the {rtype} records of {} fit no DNS message", spot.name),
                "a reply holds at most 65535 octets: spread the records over several names",
            ));
            return false;
        };
        self.out.entries.push(Entry { rtype, target_count: 0, targets: NONE, section });
        true
    }

    fn lane(&mut self, position: usize, service: &ServiceBinding, lane: &Lane) {
        let (data, too_long) = lane_data(&mut self.out.pool, lane, service.ecs);
        if too_long || lane.members.len() > 256 {
            self.problems.push(problem(
                At::Service(position),
                format!(
                    "the service {} has more than 256 members, or one that fits no DNS message",
                    service.name
                ),
                "give at most 256 members",
            ));
        }
        if lane.ttl == 0 {
            self.warnings.push(problem(
                At::Service(position),
                format!("the service {} has TTL 0: every client asks for every connection", service.name),
                "set `ttl` to the seconds a stale answer can be borne",
            ));
        }
        let name = |data: &[u8]| {
            let name = target(lane.rtype, data, &service.name)?;
            Some((targets::offset(lane.rtype, data) as u16, name))
        };
        let names: Vec<_> = lane.members.iter().take(256).map(|data| name(data)).collect();
        if names.iter().any(Option::is_some) {
            self.out.wanted.push(Wanted { whose: Whose::Lane(self.out.lanes.len()), names });
        }
        self.out.lanes.push(data);
    }
}

/// A lane with its records in the pool, and whether one of them fits no DNS message.
pub(super) fn lane_data(pool: &mut Pool, lane: &Lane, ecs: bool) -> (LaneData, bool) {
    let mut too_long = false;
    let mut record = |rtype: RrType, ttl: u32, data: &[u8]| {
        let stored = pool.record(rtype, ttl, data);
        too_long |= stored.is_none();
        stored.map(|(at, len)| MemberData { at, len, same_as: 0 })
    };
    let mut members = |datas: &[Box<[u8]>], ttl: u32| -> Vec<MemberData> {
        let mut list = Vec::with_capacity(datas.len());
        let mut firsts: HashMap<&[u8], usize> = HashMap::with_capacity(datas.len());
        for (i, data) in datas.iter().enumerate().take(256) {
            let first = *firsts.entry(data).or_insert(i);
            list.extend(
                record(lane.rtype, ttl, data).map(|member| MemberData { same_as: first as u8, ..member }),
            );
        }
        list
    };
    let data = LaneData {
        rtype: lane.rtype,
        service: lane.service,
        ecs,
        ttl: lane.ttl,
        fallback_ttl: lane.fallback_ttl,
        targets: NONE,
        members: members(&lane.members, lane.ttl),
        fixed: members(&lane.fixed, lane.fallback_ttl),
        fixed_cname: lane
            .fixed_cname
            .as_ref()
            .and_then(|name| record(RrType::CNAME, lane.fallback_ttl, name.as_wire())),
    };
    (data, too_long)
}

fn empty_node(zone: usize) -> Node {
    Node {
        zone: zone as u32,
        entries: 0,
        entry_count: 0,
        lane_count: 0,
        lanes: 0,
        wildcard: NONE,
        referral: NONE,
        dname: NONE,
        cname: NONE,
        parent_side: NONE,
    }
}

/// Whether a service answers this type at a name, instead of what the zone has (case Z20).
fn is_shadowed(services: &[ServiceBinding], spot: &Spot<'_>, rtype: RrType) -> bool {
    let service = spot.service.and_then(|at| services.get(at));
    service.is_some_and(|service| service.lanes.iter().any(|lane| lane.rtype == rtype))
}

/// The names an RRset points at, each once, in order.
fn targets(spot: &Spot<'_>, set: &super::tree::Set<'_>) -> Vec<Name> {
    let mut seen = HashSet::new();
    set.records
        .iter()
        .filter_map(|record| target(set.rtype, &record.rdata, &spot.name))
        .filter(|name| seen.insert(name.clone()))
        .collect()
}

/// Adds the addresses that the zone has for these names.
fn add_addresses(
    encoder: &mut Encoder<'_>,
    tree: &Tree<'_>,
    services: &[ServiceBinding],
    targets: &[Name],
    glue: bool,
    is_required: bool,
) {
    for name in targets {
        let Some(spot) = tree.addresses(name, glue) else { continue };
        for rtype in [RrType::A, RrType::AAAA] {
            if let Some(set) = spot.set(rtype).filter(|_| !is_shadowed(services, spot, rtype)) {
                encoder.additional(name, rtype, set.ttl(), &set.rdatas(), is_required);
            }
        }
    }
}
