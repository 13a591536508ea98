//! From the file's text to a world: every problem at once, each with where it is and what to do.

use super::spec::{self, Spec, VERSION};
use super::{Asker, End, EndId, Event, Point, Site, World};
use portolan_balance::geo;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

/// Most points: what a service can choose from.
const MAX_POINTS: usize = 256;
/// Most ends; what 32 bits of memory can hold with room to spare.
const MAX_ENDS: usize = 2_000_000;
/// Problems that are told; of more only the number.
const MAX_PROBLEMS: usize = 50;

/// What is wrong with a world file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where: `line 3 column 7`, or `prefixes[12].rate`.
    pub place: String,
    /// What is wrong, and what to do.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// Reads a world.
pub fn from_text(text: &str) -> Result<World, Vec<Problem>> {
    let spec: Spec = serde_json::from_str(text).map_err(|error| {
        let place = format!("line {} column {}", error.line(), error.column());
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or_default().to_owned();
        vec![Problem { place, message: format!("{message}; docs/simulation.md lists what may stand here") }]
    })?;
    World::new(&spec)
}

/// Writes a world file: one prefix a line, so that it can be searched and compared.
#[must_use]
pub fn to_text(spec: &Spec) -> String {
    let mut short = spec.clone();
    short.prefixes = Vec::new();
    let mut text = serde_json::to_string_pretty(&short).unwrap_or_default();
    let prefixes: Vec<String> =
        spec.prefixes.iter().map(|it| serde_json::to_string(it).unwrap_or_default()).collect();
    text = text.replacen(
        "\"prefixes\": []",
        &format!("\"prefixes\": [\n    {}\n  ]", prefixes.join(",\n    ")),
        1,
    );
    text.push('\n');
    text
}

#[derive(Default)]
struct Problems {
    list: Vec<Problem>,
    more: usize,
}

impl Problems {
    fn add(&mut self, place: impl Into<String>, message: impl Into<String>) {
        if self.list.len() < MAX_PROBLEMS {
            self.list.push(Problem { place: place.into(), message: message.into() });
        } else {
            self.more += 1;
        }
    }

    fn number(&mut self, place: &str, value: f64, least: f64, most: f64) {
        if !(least..=most).contains(&value) {
            self.add(place, format!("{value} is out of range; give a number from {least} to {most}"));
        }
    }

    fn place(&mut self, at: &str, lat: f64, lon: f64) -> geo::Point {
        self.number(&format!("{at}.lat"), lat, -90.0, 90.0);
        self.number(&format!("{at}.lon"), lon, -180.0, 180.0);
        geo::Point { lat, lon }
    }
}

impl World {
    /// Checks what a file says, and gives everything its number.
    pub fn new(spec: &Spec) -> Result<Self, Vec<Problem>> {
        let mut problems = Problems::default();
        let mut world = head(spec, &mut problems);
        let mut operators = BTreeMap::new();
        points(spec, &mut world, &mut operators, &mut problems);
        let places = prefixes(spec, &mut world, &mut operators, &mut problems);
        askers(spec, &mut world, &places, &mut problems);
        events(spec, &mut world, &operators, &mut problems);
        overlaps(&world, &mut problems);
        world.operators = by_number(&operators);
        if problems.more > 0 {
            let message = format!("{} more problems like these", problems.more);
            problems.list.push(Problem { place: "…".into(), message });
        }
        if problems.list.is_empty() { Ok(world) } else { Err(problems.list) }
    }
}

fn head(spec: &Spec, problems: &mut Problems) -> World {
    if spec.version != VERSION {
        problems.add("version", format!("{} is not known; this program reads version 1", spec.version));
    }
    problems.number("ttl_s", f64::from(spec.ttl_s), 1.0, 86_400.0);
    problems.number("start_hour", spec.start_hour, 0.0, 24.0);
    let spec::Model { km_per_ms, stretch, last_mile_ms, swing, jitter_ms, loss, nearest_server, tcp } =
        &spec.model;
    problems.number("model.km_per_ms", *km_per_ms, 1.0, 299.792_458);
    model(
        problems,
        "model",
        [Some(*stretch), Some(*last_mile_ms), Some(*swing), Some(*jitter_ms), Some(*loss)],
    );
    problems.number("model.nearest_server", *nearest_server, 0.0, 1.0);
    problems.number("model.tcp", *tcp, 0.0, 1.0);
    World {
        name: spec.name.clone(),
        seed: spec.seed,
        ttl_s: spec.ttl_s,
        start_hour: spec.start_hour,
        nearest_server: *nearest_server,
        tcp: *tcp,
        sites: Vec::new(),
        points: Vec::new(),
        operators: Vec::new(),
        ends: Vec::new(),
        prefixes: 0,
        askers: Vec::new(),
        rtt_ms: Vec::new(),
        events: Vec::new(),
    }
}

fn model(problems: &mut Problems, at: &str, values: [Option<f64>; 5]) {
    let ranges = [
        ("stretch", 1.0, 100.0),
        ("last_mile_ms", 0.0, 10_000.0),
        ("swing", 0.0, 10.0),
        ("jitter_ms", 0.0, 10_000.0),
        ("loss", 0.0, 1.0),
    ];
    for ((name, least, most), value) in ranges.into_iter().zip(values) {
        if let Some(value) = value {
            problems.number(&format!("{at}.{name}"), value, least, most);
        }
    }
}

type Operators = BTreeMap<String, u32>;

fn operator(operators: &mut Operators, name: &str) -> u32 {
    let next = operators.len() as u32;
    *operators.entry(name.to_owned()).or_insert(next)
}

fn by_number(operators: &Operators) -> Vec<String> {
    let mut names: Vec<_> = operators.iter().collect();
    names.sort_by_key(|(_, number)| **number);
    names.into_iter().map(|(name, _)| name.clone()).collect()
}

fn points(spec: &Spec, world: &mut World, operators: &mut Operators, problems: &mut Problems) {
    let mut names = BTreeSet::new();
    if spec.sites.is_empty() {
        problems.add("sites", "there is none; give at least one");
    }
    for (i, site) in spec.sites.iter().enumerate() {
        let at = format!("sites[{i}]");
        let place = problems.place(&at, site.lat, site.lon);
        if site.name.is_empty() || site.name.contains('/') || !names.insert(site.name.clone()) {
            let message =
                format!("{:?} is empty, has a slash or was there before; name it otherwise", site.name);
            problems.add(format!("{at}.name"), message);
        }
        world.sites.push(Site { name: site.name.clone(), place });
        if site.links.is_empty() {
            let numbers = site.operators.iter().map(|name| operator(operators, name)).collect();
            point(world, problems, &at, (i, None), numbers, site.capacity);
            continue;
        }
        if !site.operators.is_empty() || site.capacity.is_some() {
            problems.add(&at, "has links; operators and capacity belong to each of them");
        }
        let mut of_site = BTreeSet::new();
        for (j, link) in site.links.iter().enumerate() {
            let at = format!("{at}.links[{j}]");
            if link.name.is_empty() || !of_site.insert(&link.name) {
                problems.add(
                    format!("{at}.name"),
                    format!("{:?} is empty or was there before; name it otherwise", link.name),
                );
            }
            let numbers = link.operators.iter().map(|name| operator(operators, name)).collect();
            point(world, problems, &at, (i, Some(link.name.clone())), numbers, link.capacity);
        }
    }
    if world.points.len() > MAX_POINTS {
        problems.add("sites", format!("{} links and sites; at most {MAX_POINTS}", world.points.len()));
    }
}

fn point(
    world: &mut World,
    problems: &mut Problems,
    at: &str,
    (site, link): (usize, Option<String>),
    operators: Vec<u32>,
    capacity: Option<f64>,
) {
    if let Some(capacity) = capacity {
        problems.number(&format!("{at}.capacity"), capacity, 0.001, 1e12);
    }
    world.points.push(Point { site, link, operators, capacity });
}

/// Reads the client prefixes; returns where they are in truth.
fn prefixes(
    spec: &Spec,
    world: &mut World,
    operators: &mut Operators,
    problems: &mut Problems,
) -> Vec<geo::Point> {
    if spec.prefixes.is_empty() {
        problems.add("prefixes", "there is none; give at least one");
    }
    if spec.prefixes.len() > MAX_ENDS {
        problems.add("prefixes", format!("{} are too many; at most {MAX_ENDS}", spec.prefixes.len()));
        return Vec::new();
    }
    let names: BTreeMap<String, usize> = (0..world.points.len()).map(|p| (world.point_name(p), p)).collect();
    let mut places = Vec::with_capacity(spec.prefixes.len());
    for (i, prefix) in spec.prefixes.iter().enumerate() {
        let at = format!("prefixes[{i}]");
        let place = problems.place(&at, prefix.lat, prefix.lon);
        problems.number(&format!("{at}.rate"), prefix.rate, 0.0, 1e9);
        let spec::Prefix { stretch, last_mile_ms, swing, jitter_ms, loss, .. } = prefix;
        model(problems, &at, [*stretch, *last_mile_ms, *swing, *jitter_ms, *loss]);
        let (network, length) = network(problems, &format!("{at}.prefix"), &prefix.prefix);
        let own = prefix.operator.as_ref().map(|name| operator(operators, name));
        let (believed_place, believed_operator) = match &prefix.believed {
            None => (Some(place), own),
            Some(spec::Believed { lat, lon, operator: name }) => {
                if lat.is_some() != lon.is_some() {
                    problems.add(format!("{at}.believed"), "has lat or lon only; give both, or neither");
                }
                let place =
                    lat.zip(*lon).map(|(lat, lon)| problems.place(&format!("{at}.believed"), lat, lon));
                (place, name.as_ref().map(|name| operator(operators, name)))
            }
        };
        let model = &spec.model;
        world.ends.push(End {
            network,
            length,
            address: host(network),
            answers_probes: prefix.answers_probes,
            tcp: prefix.tcp,
            operator: own,
            believed_place,
            believed_operator,
            hours_ahead: (prefix.lon / 15.0) as f32,
            swing: prefix.swing.unwrap_or(model.swing) as f32,
            jitter_ms: prefix.jitter_ms.unwrap_or(model.jitter_ms) as f32,
            loss: prefix.loss.unwrap_or(model.loss) as f32,
            is_anycast: false,
        });
        let given = rtts(world, problems, &at, prefix, &names);
        let far = |p: usize| {
            let point = world.points.get(p).and_then(|point| world.sites.get(point.site));
            let km = point.map_or(0.0, |site| geo::distance_km(site.place, place));
            2.0 * km / model.km_per_ms * prefix.stretch.unwrap_or(model.stretch)
                + prefix.last_mile_ms.unwrap_or(model.last_mile_ms)
        };
        let row: Vec<f32> = (0..world.points.len())
            .map(|p| given.get(&p).copied().unwrap_or_else(|| far(p)).max(0.01) as f32)
            .collect();
        world.rtt_ms.extend(row);
        places.push(place);
    }
    world.prefixes = world.ends.len();
    places
}

/// The round-trip times that a prefix gives, by point.
fn rtts(
    world: &World,
    problems: &mut Problems,
    at: &str,
    prefix: &spec::Prefix,
    names: &BTreeMap<String, usize>,
) -> BTreeMap<usize, f64> {
    let mut given = BTreeMap::new();
    for (name, ms) in &prefix.rtt_ms {
        problems.number(&format!("{at}.rtt_ms.{name}"), *ms, 0.0, 60_000.0);
        if let Some(point) = names.get(name) {
            given.insert(*point, *ms);
            continue;
        }
        // a site's time is that of its links
        let site = world.sites.iter().position(|site| site.name == *name);
        let links = || world.points.iter().enumerate().filter(|(_, it)| Some(it.site) == site);
        if links().next().is_none() {
            let known: Vec<&str> = names.keys().take(8).map(String::as_str).collect();
            problems
                .add(format!("{at}.rtt_ms.{name}"), format!("no such site; known: {}, …", known.join(", ")));
        }
        for (point, _) in links() {
            given.entry(point).or_insert(*ms);
        }
    }
    given
}

fn network(problems: &mut Problems, at: &str, text: &str) -> (IpAddr, u8) {
    let parsed = text.split_once('/').and_then(|(address, length)| {
        let address: IpAddr = address.parse().ok()?;
        let length: u8 = length.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 64 };
        (length <= most && portolan_balance::proximity::Prefix::new(address, length).address() == address)
            .then_some((address, length))
    });
    parsed.unwrap_or_else(|| {
        problems.add(
            at,
            format!("{text:?} is no network; write it like 192.0.2.0/24 or 2001:db8:1::/48, host bits zero"),
        );
        (IpAddr::from([0, 0, 0, 0]), 32)
    })
}

/// The address in a network that asks and is probed.
fn host(network: IpAddr) -> IpAddr {
    match network {
        IpAddr::V4(first) => IpAddr::from((first.to_bits() | 53).to_be_bytes()),
        IpAddr::V6(first) => IpAddr::from((first.to_bits() | 53).to_be_bytes()),
    }
}

/// Who asks for whom.
fn askers(spec: &Spec, world: &mut World, places: &[geo::Point], problems: &mut Problems) {
    let mut names = BTreeMap::new();
    let mut ends_of: Vec<Vec<EndId>> = Vec::new();
    for (i, resolver) in spec.resolvers.iter().enumerate() {
        if names.insert(resolver.name.as_str(), i).is_some() {
            problems.add(format!("resolvers[{i}].name"), format!("{:?} was there before", resolver.name));
        }
        ends_of.push(resolver_ends(spec, world, i, resolver, problems));
    }
    let mut shared: BTreeMap<(usize, usize), Vec<(EndId, f64)>> = BTreeMap::new();
    for (i, (prefix, place)) in spec.prefixes.iter().zip(places).enumerate() {
        let client = EndId(i as u32);
        if prefix.rate <= 0.0 {
            continue;
        }
        let Some(name) = &prefix.resolver else {
            let clients = vec![(client, prefix.rate)];
            world.askers.push(Asker {
                source: client,
                subnet: None,
                is_trusted: false,
                clients,
                rate: prefix.rate,
            });
            continue;
        };
        let Some(&number) = names.get(name.as_str()) else {
            problems.add(
                format!("prefixes[{i}].resolver"),
                format!("{name:?} is not in `resolvers`; add it, or leave it out"),
            );
            continue;
        };
        let Some(resolver) = spec.resolvers.get(number) else { continue };
        let nearest = resolver.places.iter().enumerate().min_by(|(_, a), (_, b)| {
            let km = |p: &spec::Place| geo::distance_km(geo::Point { lat: p.lat, lon: p.lon }, *place);
            km(a).total_cmp(&km(b))
        });
        let Some((at, _)) = nearest else { continue };
        let Some(source) = ends_of.get(number).and_then(|ends| ends.get(at)) else { continue };
        if resolver.ecs {
            let clients = vec![(client, prefix.rate)];
            let is_trusted = resolver.trusted;
            world.askers.push(Asker {
                source: *source,
                subnet: Some(client),
                is_trusted,
                clients,
                rate: prefix.rate,
            });
        } else {
            shared.entry((number, at)).or_default().push((client, prefix.rate));
        }
    }
    for ((number, at), clients) in shared {
        let (Some(resolver), Some(source)) =
            (spec.resolvers.get(number), ends_of.get(number).and_then(|ends| ends.get(at)))
        else {
            continue;
        };
        let caches = resolver.caches.clamp(1, 1_000);
        let each: Vec<(EndId, f64)> =
            clients.iter().map(|(end, rate)| (*end, rate / f64::from(caches))).collect();
        let rate = each.iter().map(|(_, rate)| rate).sum();
        for _ in 0..caches {
            world.askers.push(Asker {
                source: *source,
                subnet: None,
                is_trusted: false,
                clients: each.clone(),
                rate,
            });
        }
    }
    if world.askers.is_empty() && problems.list.is_empty() {
        problems.add("prefixes", "no prefix has a rate above 0");
    }
}

/// The ends of a resolver, one a place; the same one for all where its address is the same.
fn resolver_ends(
    spec: &Spec,
    world: &mut World,
    i: usize,
    resolver: &spec::Resolver,
    problems: &mut Problems,
) -> Vec<EndId> {
    let at = format!("resolvers[{i}]");
    if resolver.places.is_empty() {
        problems.add(format!("{at}.places"), "there is none; give at least one");
    }
    let rows: Vec<(geo::Point, Vec<f32>)> = resolver
        .places
        .iter()
        .enumerate()
        .map(|(j, it)| {
            let place = problems.place(&format!("{at}.places[{j}]"), it.lat, it.lon);
            let far = |point: &Point| {
                let site = world.sites.get(point.site).map_or(place, |site| site.place);
                let km = geo::distance_km(site, place);
                // a data centre has no last mile
                (2.0 * km / spec.model.km_per_ms * spec.model.stretch + 1.0) as f32
            };
            (place, world.points.iter().map(far).collect())
        })
        .collect();
    let mut end = |prefix: &str, at: &str, place: geo::Point, row: Vec<f32>, is_anycast: bool| {
        let (network, length) = network(problems, at, prefix);
        let id = EndId(world.ends.len() as u32);
        world.ends.push(End {
            network,
            length,
            address: host(network),
            answers_probes: true,
            tcp: true,
            operator: None,
            believed_place: Some(place),
            believed_operator: None,
            hours_ahead: (place.lon / 15.0) as f32,
            swing: 0.0,
            jitter_ms: spec.model.jitter_ms as f32,
            loss: spec.model.loss as f32,
            is_anycast,
        });
        world.rtt_ms.extend(row);
        id
    };
    if let Some(prefix) = &resolver.prefix {
        let Some((place, _)) = rows.first() else { return Vec::new() };
        // whoever measures it meets the place that is nearest to him
        let least =
            |p: usize| rows.iter().filter_map(|(_, row)| row.get(p)).copied().fold(f32::MAX, f32::min);
        let row = rows.first().map_or(Vec::new(), |(_, row)| (0..row.len()).map(least).collect());
        let id = end(prefix, &format!("{at}.prefix"), *place, row, resolver.places.len() > 1);
        return vec![id; rows.len()];
    }
    let mut ids = Vec::new();
    for (j, ((place, row), it)) in rows.into_iter().zip(&resolver.places).enumerate() {
        let at = format!("{at}.places[{j}].prefix");
        ids.push(end(it.prefix.as_deref().unwrap_or_default(), &at, place, row, false));
    }
    ids
}

fn events(spec: &Spec, world: &mut World, operators: &Operators, problems: &mut Problems) {
    for (i, event) in spec.events.iter().enumerate() {
        let at = format!("events[{i}]");
        problems.number(&format!("{at}.at_s"), event.at_s, 0.0, 1e9);
        let until_s = event.until_s.unwrap_or(1e10);
        if until_s <= event.at_s {
            problems.add(format!("{at}.until_s"), "ends before it begins");
        }
        let is_touched = |point: &Point| {
            world.sites.get(point.site).is_some_and(|site| site.name == event.site)
                && (event.link.is_none() || event.link == point.link)
        };
        let touched: Vec<bool> = world.points.iter().map(is_touched).collect();
        if !touched.contains(&true) {
            let what =
                event.link.as_ref().map_or(event.site.clone(), |link| format!("{}/{link}", event.site));
            problems.add(&at, format!("no such site or link: {what:?}"));
        }
        let operator = event.operator.as_ref().map(|name| {
            let known = operators.get(name).copied();
            if known.is_none() {
                problems.add(format!("{at}.operator"), format!("no prefix is with {name:?}"));
            }
            known.unwrap_or_default()
        });
        match event.effect {
            spec::Effect::SlowMs(ms) => problems.number(&format!("{at}.effect.slow_ms"), ms, 0.0, 60_000.0),
            spec::Effect::Down if operator.is_some() => {
                problems
                    .add(format!("{at}.operator"), "a site is down for all; leave it out, or use slow_ms");
            }
            spec::Effect::Down => {}
        }
        world.events.push(Event {
            at_ms: (event.at_s * 1000.0) as u64,
            until_ms: (until_s * 1000.0) as u64,
            points: touched,
            operator,
            effect: event.effect,
        });
    }
}

/// A table holds one value for an address, so no two ends may hold the same one.
fn overlaps(world: &World, problems: &mut Problems) {
    let number = |address: IpAddr| match address {
        IpAddr::V4(address) => (false, u128::from(address.to_bits())),
        IpAddr::V6(address) => (true, address.to_bits()),
    };
    let mut ranges: Vec<((bool, u128), u128, usize)> = world
        .ends
        .iter()
        .enumerate()
        .map(|(i, end)| {
            let first = number(end.network);
            let bits = if end.network.is_ipv4() { 32 } else { 128 };
            let size = 1_u128.checked_shl(u32::from(bits - end.length.min(bits))).unwrap_or(0);
            (first, first.1.wrapping_add(size.wrapping_sub(1)), i)
        })
        .collect();
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        let [(first, last, a), (next, _, b)] = pair else { continue };
        if first.0 == next.0 && next.1 <= *last {
            let name = |i: usize| {
                world.ends.get(i).map_or(String::new(), |it| format!("{}/{}", it.network, it.length))
            };
            let place =
                if *b < world.prefixes { format!("prefixes[{b}].prefix") } else { "resolvers".into() };
            problems.add(place, format!("{} overlaps {}; give each its own network", name(*b), name(*a)));
        }
    }
}
