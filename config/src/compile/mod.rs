//! Spec to policy: names become ids, rules become tables, and everything that is wrong is told at once.
//!
//! ```text
//!        ┌ names, region ─ sites, links, lists ┐
//! Spec ──┤ tables, zones ─ files read          ├─► draft (a service with ids) ─► lanes (policies) ─► Compiled
//!        └ node, peers, check, geo, acl        ┘          └─► prefix structure, geography tables ─┘
//! ```
//! Compilation depends on nothing but the files, and what it makes depends on no hash order.

pub(crate) mod acl;
pub(crate) mod check;
pub(crate) mod depends;
pub(crate) mod draft;
pub(crate) mod expect;
pub(crate) mod geo;
pub(crate) mod lanes;
pub(crate) mod learned;
pub(crate) mod member;
pub(crate) mod names;
pub(crate) mod node;
pub(crate) mod peers;
pub(crate) mod points;
pub(crate) mod private;
pub(crate) mod proximity;
pub(crate) mod region;
pub(crate) mod relearn;
pub(crate) mod shared;
pub(crate) mod tables;
pub(crate) mod virtual_server;
pub(crate) mod zones;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use portolan_balance::ServiceId;
use portolan_balance::nets::{DIMS, Nets, Runs};
use portolan_balance::persist::Table;
use portolan_balance::policy::Policy;
use portolan_balance::proximity::{Band, Points};
use portolan_dns::catalog::Catalog;
use portolan_dns::name::Name;
use portolan_dns::record::Loaded;
use portolan_probe::Ramp;

use crate::files::FileSource;
use crate::gather::{Gathered, gather};
use crate::place::Span;
use crate::problem::{Problem, Problems, Severity, SourceFile, Where};
use crate::spec::{LogFormat, LogLevel, PeerLossWord, PersistKind, Spec};
use crate::tables::{GeoTable, IspTables};

use check::Converter;
use draft::{Draft, Shared};
use geo::GeoTables;
use lanes::{LaneInfo, Lanes, World};
use names::{Lists, Site, Sites};
use region::Regions;

/// A config, compiled: all the daemon needs to begin.
#[derive(Debug)]
pub struct Compiled {
    /// This node.
    pub node: node::Node,
    /// The DNS server.
    pub dns: node::Dns,
    /// The control API; none without `[api]`.
    pub api: Option<node::Api>,
    /// Plain listeners for metrics.
    pub metrics: Vec<SocketAddr>,
    /// What is logged.
    pub log_level: LogLevel,
    /// Form of a line.
    pub log_format: LogFormat,
    /// Names and records, with the services bound in.
    pub catalog: Arc<Catalog>,
    /// The services, in the order of the config.
    pub services: Vec<Service>,
    /// One a lane, by [`ServiceId`].
    pub policies: Vec<Arc<Policy>>,
    /// What is known of each lane and its candidates, by [`ServiceId`].
    pub lanes: Vec<LaneInfo>,
    /// Address to class.
    pub nets: Arc<Nets>,
    /// Class to the value of each dimension.
    pub classes: Arc<[[u32; DIMS]]>,
    /// The sites, by [`portolan_balance::policy::SiteId`].
    pub sites: Vec<Site>,
    /// What clients' distances are measured from.
    pub points: Arc<Points>,
    /// ISP tables, for explanations.
    pub isp: Arc<IspTables>,
    /// The GeoIP file, for explanations.
    pub geo: Option<Arc<GeoTable>>,
    /// Age from which a table is stale (R20).
    pub stale_after: Duration,
    /// Remembered choices; kept over reloads.
    pub remembered: Option<Arc<Table>>,
    /// The other nodes; none without `[peers]`.
    pub peers: Option<peers::Peers>,
    /// Addresses of this node's site that peers learn of.
    pub virtual_servers: Vec<virtual_server::VirtualServer>,
    /// What is measured of clients.
    pub proximity: proximity::Proximity,
    /// What has been learned, and what became of it; nothing after loading.
    pub learned: relearn::Learned,
    /// What every node of a system must say alike.
    pub shared: shared::Shared,
    /// The operator's own tests. They are about the config alone: with learned members there are none.
    pub expects: Vec<expect::Expect>,
    /// SHA-256 over the config files, in hex.
    pub hash: String,
    /// What is odd about the config; [`Compiled::warnings_at`] adds what is odd about tables.
    pub warnings: Problems,
    /// What services are made of anew when members are learned; none where no service learns any.
    pub(crate) ground: Option<Arc<relearn::Ground>>,
}

/// A service as its operator sees it: several lanes may belong to it.
#[derive(Clone, Debug)]
pub struct Service {
    /// What is looked up.
    pub name: Name,
    /// Its lanes.
    pub lanes: Vec<ServiceId>,
    /// Labels of its members, in the order of the config.
    pub members: Vec<String>,
    /// Slow start.
    pub ramp: Option<Ramp>,
    /// A member that failed stays out until it is enabled (T16).
    pub manual_resume: bool,
    /// Positions of the services it depends on (H20).
    pub depends_on: Vec<usize>,
    /// What becomes of learned members when their peer is lost.
    pub on_peer_loss: PeerLossWord,
    /// Whether it takes in virtual servers.
    pub learns: bool,
    /// Whether it has no other members: a node that has just joined waits up to `hold` for them.
    pub learns_only: bool,
}

impl Compiled {
    /// A problem at a place of this config, such as a failed [`expect::Expect`].
    pub fn problem_at(
        &self,
        at: Span,
        code: &'static str,
        message: String,
        help: Option<String>,
    ) -> Problems {
        let problem = Problem { help, ..Problem::error(code, at, message) };
        Problems::new(Arc::clone(&self.warnings.files), vec![problem])
    }

    /// A problem in a file that this config names and that others read.
    pub fn problem_in(
        &self,
        file: &Path,
        severity: Severity,
        message: String,
        help: Option<String>,
    ) -> Problems {
        let place = Where::File { file: file.display().to_string(), line: None, column: None };
        let problem = Problem::error("unusable", Span::NOWHERE, message);
        Problems::new(Arc::clone(&self.warnings.files), vec![Problem { severity, place, help, ..problem }])
    }

    /// What is odd, also about the tables at this time: files that are old, lines that were passed over (R11, R20).
    pub fn warnings_at(&self, now_unix_s: u64) -> Problems {
        let tables = self.isp.warnings(now_unix_s, self.stale_after.as_secs());
        let tables = tables.into_iter().map(|problem| tables::told(problem, Severity::Warning));
        let list = self.warnings.list.iter().cloned().chain(tables).collect();
        Problems::new(Arc::clone(&self.warnings.files), list)
    }

    /// What differs from `before` and takes effect only after a restart.
    pub fn needs_restart(&self, before: &Self) -> Vec<&'static str> {
        let node = (self.node != before.node).then_some("node");
        let format = (self.log_format != before.log_format).then_some("log.format");
        node.into_iter().chain(format).collect()
    }
}

/// Loads and compiles a config from `files`. `previous` is the running one: its remembered choices are taken over, and
/// tables that have lost much against it are refused (R12).
///
/// # Errors
/// Everything that is wrong, and what is odd.
pub fn load_with(
    files: &dyn FileSource,
    path: &Path,
    previous: Option<&Compiled>,
) -> Result<Compiled, Problems> {
    let Gathered { spec, files: texts, paths, mut problems, hash } = gather(files, path);
    let texts: Arc<[SourceFile]> = texts.into();
    let compiled = spec.and_then(|spec| {
        let of_form = problems.len();
        let compiled = compile(&spec, files, &paths, hash, previous, &mut problems);
        let is_wrong = problems.iter().any(|problem| problem.severity == Severity::Error);
        if is_wrong || !spec.is_whole() {
            // what is odd may be so only because of what was left out, or is wrong
            let mut number = 0..;
            problems.retain(|problem| {
                number.next().is_some_and(|number| number < of_form) || problem.severity == Severity::Error
            });
        }
        compiled
    });
    let has_errors = problems.iter().any(|problem| problem.severity == Severity::Error);
    let problems = Problems::new(texts, problems);
    match compiled {
        Some(compiled) if !has_errors => Ok(Compiled { warnings: problems, ..compiled }),
        Some(_) | None => Err(problems),
    }
}

fn compile(
    spec: &Spec,
    files: &dyn FileSource,
    paths: &[std::path::PathBuf],
    hash: String,
    previous: Option<&Compiled>,
    problems: &mut Vec<Problem>,
) -> Option<Compiled> {
    // who and where
    let mut sites = Sites::compile(spec, problems);
    let mut lists = Lists::compile(spec, problems);
    let mut regions = Regions::compile(spec, problems);
    let node = node::node(spec, &mut sites, files, paths, problems);
    let mut dns = node::dns(spec, &mut lists, files, paths, problems);
    let api = node::api(spec, files, paths, problems);
    let peers = peers::compile(spec, &mut sites, files, paths, problems);
    let points = points::points(&sites, &spec.node.site.value);
    let proximity = proximity::compile(spec, &points, &mut sites, &mut lists, problems);
    let metrics = node::metrics(spec, problems);

    // files
    let read = tables::read(spec, paths, previous.map(|it| &*it.isp), problems);
    let zones = zones::read(spec, files, paths, problems);
    if let Some(isp) = &read.isp
        && spec.isp.is_whole()
    {
        check_operators(&sites, isp, problems);
        warn_unused_isp(spec, &sites, problems);
    }

    // services, with ids
    let mut converter = Converter::new(files, paths);
    let mut servers = virtual_server::compile(spec, node.site, &mut sites, &mut converter, problems);
    let mut shared = Shared::new(
        spec,
        &mut sites,
        &mut lists,
        &mut regions,
        &mut converter,
        &servers,
        peers.as_ref(),
        problems,
    );
    let drafts: Vec<Draft> =
        spec.service.iter().map(|service| Draft::compile(service, &mut shared, problems)).collect();
    let depends = depends::compile(spec, problems);
    shared.warn_unused(problems);
    let Shared { froms, geo: policies, .. } = shared;
    servers.settle(spec, &drafts, problems);

    // tables over all services
    let lists_of = froms.union();
    let geo = GeoTables::compile(&policies, read.geo.as_deref());
    let no_runs = Runs::default();
    let isp_runs = read.isp.as_ref().map_or(&no_runs, |isp| &isp.runs);
    let (nets, classes) = Nets::build([&lists_of.runs, isp_runs, &geo.runs]);
    if spec.dns.ecs.accept_private.is_none() {
        // E08: on the public network a private subnet says nothing; where the config knows private prefixes, it does
        dns.ecs.accept_private =
            [&lists_of.runs, isp_runs, &geo.runs].into_iter().any(private::knows_private);
    }
    let remembered = remembered(spec, previous);

    // services, as policies
    let world = World {
        sites: &sites,
        isp: read.isp.as_deref(),
        acl_sets: &lists_of.sets,
        geo: &geo.tables,
        has_geo: spec.tables.geo.is_some(),
        is_geo_read: spec.tables.geo.is_none() || read.geo.is_some(),
        remembered: remembered.clone(),
        points: &points,
        band: Band::of(&proximity.settings),
    };
    let mut lanes = Lanes::new(world);
    let mut services = Vec::new();
    for (position, (draft, depends_on)) in drafts.iter().zip(depends).enumerate() {
        warn_unreached(draft, &policies, &sites, problems);
        services.push(Service {
            name: draft.spec.name.value.clone(),
            lanes: lanes.add(position, draft, problems),
            members: draft.members.iter().map(|member| label(member)).collect(),
            ramp: draft
                .spec
                .ramp
                .as_ref()
                .map(|ramp| Ramp { standby: ramp.standby.0, ramp_up: ramp.ramp_up.0 }),
            manual_resume: draft.spec.manual_resume,
            depends_on,
            on_peer_loss: draft.spec.on_peer_loss.value,
            learns: draft.learns(),
            learns_only: draft.learns_only(),
        });
    }
    let Lanes { policies, info, bindings, bound_at, .. } = lanes;
    let expects = expect::compile(spec, &mut sites, &policies, &info, problems);
    sites.warn_unused(problems);
    lists.warn_unused(problems);
    regions.warn_unused(problems);

    // without all zones, services would seem to lie in none
    let zones = zones.filter(|_| spec.dns.is_whole)?;
    let shared = shared::compile(spec);
    let is_learning = drafts.iter().any(Draft::learns);
    let catalog = Arc::new(catalog(zones, bindings, &bound_at, problems)?);
    let list = sites.list.clone();
    let ground = is_learning.then(|| {
        Arc::new(relearn::Ground {
            sites,
            isp: read.isp.clone(),
            acl_sets: lists_of.sets,
            geo: geo.tables,
            catalog: Arc::clone(&catalog),
            drafts: drafts.into_iter().enumerate().filter(|(_, draft)| draft.learns()).collect(),
            by_service: servers.by_service,
        })
    });
    Some(Compiled {
        node,
        dns,
        api,
        metrics,
        log_level: spec.log.level,
        log_format: spec.log.format,
        catalog,
        services,
        policies,
        lanes: info,
        nets: Arc::new(nets),
        classes: classes.into(),
        points: Arc::new(points),
        sites: list,
        isp: read.isp.unwrap_or_default(),
        geo: read.geo,
        stale_after: spec.tables.stale_after.0,
        remembered,
        peers,
        virtual_servers: servers.list,
        proximity,
        learned: relearn::Learned::default(),
        shared,
        expects,
        hash,
        warnings: Problems::default(),
        ground,
    })
}

pub(crate) fn label(member: &member::Member) -> String {
    let target = || member.written.target.as_ref().map(|target| target.to_string());
    let answered = Some(member.address_text()).filter(|text| !text.is_empty()).or_else(target);
    member.label(&answered.unwrap_or_default())
}

fn catalog(
    zones: Vec<Loaded>,
    bindings: Vec<portolan_dns::catalog::ServiceBinding>,
    bound_at: &[Span],
    problems: &mut Vec<Problem>,
) -> Option<Catalog> {
    // for the places of problems; the records are not needed again
    let names: Vec<Loaded> = zones.iter().map(|zone| Loaded { records: Vec::new(), ..head(zone) }).collect();
    match Catalog::build(zones, bindings) {
        Ok((catalog, warnings)) => {
            let told = |problem| zones::catalog_problem(problem, Severity::Warning, &names, bound_at);
            problems.extend(warnings.into_iter().map(told));
            Some(catalog)
        }
        Err(errors) => {
            let told = |problem| zones::catalog_problem(problem, Severity::Error, &names, bound_at);
            problems.extend(errors.into_iter().map(told));
            None
        }
    }
}

fn head(zone: &Loaded) -> Loaded {
    Loaded {
        files: zone.files.clone(),
        origin: zone.origin.clone(),
        records: Vec::new(),
        warnings: Vec::new(),
    }
}

/// A link's operator without a table is an error: the `isp` step would silently never choose the link.
fn check_operators(sites: &Sites, isp: &IspTables, problems: &mut Vec<Problem>) {
    for operator in &sites.operators_at {
        if isp.operators.binary_search(&operator.value).is_err() {
            let message = format!("operator {:?} has no table", operator.value);
            let mut problem = Problem::error("unknown-name", operator.at, message);
            problem.help = crate::suggest::nearest(&operator.value, isp.operators.iter().map(String::as_str))
                .map(|near| format!("did you mean `{near}`?"))
                .or_else(|| {
                    Some(format!(
                        "add {}.txt to the folder [tables] isp, or an [[isp]] with this name",
                        operator.value
                    ))
                });
            problems.push(problem);
        }
    }
}

/// Warns of an `[[isp]]` that no link names. A folder's tables may well be more than are used.
fn warn_unused_isp(spec: &Spec, sites: &Sites, problems: &mut Vec<Problem>) {
    for isp in spec.isp.iter() {
        if !sites.operators_at.iter().any(|operator| operator.value == isp.name.value) {
            let message = format!("no link leads to operator {:?}", isp.name.value);
            let problem = Problem::warning("unused", isp.name.at, message);
            problems.push(
                problem.help("name it in a link: links = [{ name = \"…\", isp = [\"…\"] }], or remove it"),
            );
        }
    }
}

/// The table of remembered choices, when a service needs it: the running one where it has the size.
fn remembered(spec: &Spec, previous: Option<&Compiled>) -> Option<Arc<Table>> {
    let wanted = |service: &Arc<crate::spec::Service>| {
        service.persist.as_ref().is_some_and(|persist| persist.kind == PersistKind::Table)
    };
    if !spec.service.iter().any(wanted) {
        return None;
    }
    let entries = spec.node.persist_entries.get::<u32>() as usize;
    let running = previous.and_then(|it| it.remembered.as_ref());
    // a table rounds its size up, so that sizes are compared by what they come to
    match running.filter(|table| table.capacity() >= entries && table.capacity() / 2 < entries) {
        Some(table) => Some(Arc::clone(table)),
        None => Some(Arc::new(Table::new(entries))),
    }
}

/// Warns of members at sites that their geography policy never chooses.
fn warn_unreached(draft: &Draft, policies: &[geo::GeoPolicy], sites: &Sites, problems: &mut Vec<Problem>) {
    // without a policy of its own the default order is by distance, and sites without a location are a choice
    let Some(policy) = draft.geo.and_then(|at| policies.get(at)).filter(|_| draft.spec.geo.is_some()) else {
        return;
    };
    let reach = policy.reach();
    for member in &draft.members {
        if let (Some(site), Some(written)) = (member.site, &member.written.site)
            && !reach.contains(&site)
        {
            let message = format!("the geo step never chooses site {:?}", sites.name(site));
            let problem = Problem::warning("unreached", written.at, message);
            problems.push(problem.help(
                "name the site in a rule or in `default`, or give it a location and set nearest = true",
            ));
        }
    }
}
