//! Services made anew with the members that peers tell of, over the tables, sites and zones of the config.
//!
//! No file is read, no prefix structure built: what is made again are the policies and lanes of services that learn, and
//! the catalog that holds their records.

use std::collections::HashMap;
use std::sync::Arc;

use portolan_balance::policy::GeoTable;
use portolan_balance::proximity::Band;
use portolan_dns::catalog::Catalog;
use portolan_dns::name::Name;

use super::draft::Draft;
use super::lanes::{Lanes, Made, World, lane};
use super::learned::{self, Claimant, LearnedServer, Origin, Server, Servers, Tally};
use super::names::Sites;
use super::{Compiled, label};
use crate::place::Span;
use crate::problem::{Problem, Problems};
use crate::tables::IspTables;

/// What has been learned, and what became of it.
#[derive(Clone, Debug, Default)]
pub struct Learned {
    /// How much was told of.
    pub servers: usize,
    /// What became of it.
    pub tally: Tally,
    /// What is odd about it.
    pub warnings: Problems,
}

/// What services are made of.
pub(crate) struct Ground {
    pub(crate) sites: Sites,
    pub(crate) isp: Option<Arc<IspTables>>,
    pub(crate) acl_sets: Vec<Vec<u32>>,
    pub(crate) geo: Vec<Option<Arc<GeoTable>>>,
    /// Without learned members.
    pub(crate) catalog: Arc<Catalog>,
    /// Services that learn, with their positions.
    pub(crate) drafts: Vec<(usize, Draft)>,
    /// Virtual servers of this node.
    pub(crate) by_service: HashMap<Name, Vec<Arc<Server>>>,
}

impl std::fmt::Debug for Ground {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ground({} services learn)", self.drafts.len())
    }
}

/// Most problems told of what was learned: a peer may tell of thousands of places that are not known here.
const TOLD: usize = 100;

impl Compiled {
    /// This config with these members learned, in place of those that were learned before. Numbers of services and
    /// lanes, tables and everything else stay as they are.
    ///
    /// # Errors
    /// None so far: whatever peers say is used, or counted in [`Compiled::learned`] and left out.
    pub fn with_learned(&self, learned: &[LearnedServer]) -> Result<Self, Problems> {
        let mut next = self.copied();
        next.learned.servers = learned.len();
        next.expects.clear();
        let mut problems = Vec::new();
        let Some(ground) = &self.ground else {
            next.learned.tally.unwanted = learned.len();
            return Ok(next);
        };
        let mut by_service = ground.gather(learned, &mut next.learned.tally, &mut problems);
        let world = World {
            sites: &ground.sites,
            points: &self.points,
            band: Band::of(&self.proximity.settings),
            isp: ground.isp.as_deref(),
            acl_sets: &ground.acl_sets,
            geo: &ground.geo,
            // said when the config was loaded
            has_geo: true,
            is_geo_read: true,
            remembered: self.remembered.clone(),
        };
        let mut lanes = Lanes::new(world);
        let mut records = Vec::with_capacity(2 * ground.drafts.len());
        for (at, (position, draft)) in ground.drafts.iter().enumerate() {
            let servers = by_service.get_mut(at).map(std::mem::take).unwrap_or_default();
            let draft = draft.relearned(servers, &mut next.learned.tally, &mut problems);
            let Some(service) = next.services.get_mut(*position) else { continue };
            service.members = draft.members.iter().map(|member| label(member)).collect();
            for id in &service.lanes {
                let number = id.0 as usize;
                let Some(info) = next.lanes.get_mut(number) else { continue };
                // a check that does not fit an address is none: the peer's word is still there
                let Some(Made { policy, members, data }) = lanes.make(&draft, info.rtype, &mut Vec::new())
                else {
                    continue;
                };
                info.members = members;
                let rtype = info.rtype;
                if let Some(slot) = next.policies.get_mut(number) {
                    *slot = Arc::new(policy);
                }
                records.push(lane(&draft.spec, rtype, *id, data));
            }
        }
        next.catalog = Arc::new(ground.catalog.with_lanes(&records));
        problems.truncate(TOLD);
        next.learned.warnings = Problems::new(Arc::clone(&self.warnings.files), problems);
        Ok(next)
    }

    /// The same, with everything large shared.
    fn copied(&self) -> Self {
        let Self {
            node,
            dns,
            api,
            metrics,
            log_level,
            log_format,
            catalog,
            services,
            policies,
            lanes,
            nets,
            classes,
            sites,
            points,
            isp,
            geo,
            stale_after,
            remembered,
            peers,
            virtual_servers,
            proximity,
            learned: _,
            shared,
            expects,
            hash,
            warnings,
            ground,
        } = self;
        Self {
            node: node.clone(),
            dns: dns.clone(),
            api: api.clone(),
            metrics: metrics.clone(),
            log_level: *log_level,
            log_format: *log_format,
            catalog: Arc::clone(catalog),
            services: services.clone(),
            policies: policies.clone(),
            lanes: lanes.clone(),
            nets: Arc::clone(nets),
            classes: Arc::clone(classes),
            sites: sites.clone(),
            points: Arc::clone(points),
            isp: Arc::clone(isp),
            geo: geo.clone(),
            stale_after: *stale_after,
            remembered: remembered.clone(),
            peers: peers.clone(),
            virtual_servers: virtual_servers.clone(),
            proximity: proximity.clone(),
            learned: Learned::default(),
            shared: shared.clone(),
            expects: expects.clone(),
            hash: hash.clone(),
            warnings: warnings.clone(),
            ground: ground.clone(),
        }
    }
}

impl Ground {
    /// The servers of each draft, this node's own among them.
    fn gather(
        &self,
        learned: &[LearnedServer],
        tally: &mut Tally,
        problems: &mut Vec<Problem>,
    ) -> Vec<Servers> {
        let mut positions: HashMap<String, Vec<usize>> = HashMap::new();
        let mut all: Vec<Servers> = Vec::with_capacity(self.drafts.len());
        for (at, (_, draft)) in self.drafts.iter().enumerate() {
            let name = &draft.spec.name.value;
            positions.entry(key_of(&name.to_string())).or_default().push(at);
            let mut servers = Servers::new();
            for own in self.by_service.get(name).into_iter().flatten() {
                learned::add(&mut servers, Server::clone(own));
            }
            all.push(servers);
        }
        // one author's word on weight and tier holds at every node, whatever came first
        let mut sorted: Vec<&LearnedServer> = learned.iter().collect();
        sorted.sort_by(|a, b| (&a.author, &a.name).cmp(&(&b.author, &b.name)));
        let mut unplaced: HashMap<(&str, &str), usize> = HashMap::new();
        for told in sorted {
            let address = told.address.to_canonical();
            if address.is_unspecified() || address.is_multicast() {
                tally.unusable += 1;
                continue;
            }
            let Some(at) = positions.get(&key_of(&told.service)) else {
                tally.unwanted += 1;
                continue;
            };
            let (site, link) = self.sites.ids(&told.site, told.link.as_deref());
            if site.is_none() || told.link.is_some() && link.is_none() {
                tally.unplaced += 1;
                *unplaced.entry((&told.author, &told.site)).or_default() += 1;
            }
            for at in at {
                let server = Server {
                    site_name: told.site.clone(),
                    link_name: told.link.clone(),
                    site,
                    link,
                    address,
                    weight: told.weight,
                    tier: told.tier,
                    connections_max: told.connections_max,
                    port: None,
                    check_address: Vec::new(),
                    inside: Vec::new(),
                    checks: None,
                    origin: Origin::Learned(
                        [Claimant { author: told.author.clone(), name: told.name.clone() }].into(),
                    ),
                };
                if let Some(servers) = all.get_mut(*at)
                    && !learned::add(servers, server)
                {
                    tally.known += 1;
                }
            }
        }
        let mut unplaced: Vec<_> = unplaced.into_iter().collect();
        unplaced.sort_unstable();
        problems.extend(unplaced.into_iter().map(|((author, site), count)| {
            let plural = if count == 1 { "" } else { "s" };
            let message =
                format!("peer {author:?} has {count} virtual server{plural} at site {site:?} whose site or link is not known here");
            Problem::warning("unknown-name", Span::NOWHERE, message)
                .help("they are used without place and operator: write the same [[site]] tables at every node")
        }));
        all
    }
}

/// Names are compared in lower case with the final dot, as peers tell them.
fn key_of(name: &str) -> String {
    let mut key = name.to_ascii_lowercase();
    if !key.ends_with('.') {
        key.push('.');
    }
    key
}

impl Draft {
    /// The same with these servers taken in.
    fn relearned(&self, servers: Servers, tally: &mut Tally, problems: &mut Vec<Problem>) -> Self {
        let before = tally.beyond;
        let count = servers.len();
        let direct = learned::direct_checks(&self.spec, &self.checks);
        let members = learned::take_in(&self.items, direct, servers, tally);
        let beyond = tally.beyond - before;
        if beyond > 0 {
            let message = format!(
                "service {} has {count} virtual servers, {beyond} more than it can take in",
                self.spec.name.value
            );
            problems.push(Problem::warning("too-many", self.spec.members.at, message).help(
                "a service has at most 256 members: every site keeps some of its own; take in fewer sites",
            ));
        }
        self.with_members(members)
    }
}
