//! Worlds from a seed: the same parameters give the same bytes everywhere.

mod metros;

use crate::world::spec::{Believed, Link, Model, Place, Prefix, Resolver, Site, Spec, VERSION};
use fastrand::Rng;
use metros::{METROS, Metro};
use portolan_balance::geo;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// Prefixes lie here: nobody's addresses (RFC 1112, "reserved").
const FIRST: u32 = 0xf000_0000;
/// Operators of a country, and their shares.
const SHARES: [f64; 3] = [0.5, 0.3, 0.2];
/// How far from the middle of its metropolitan area a prefix is, about.
const SCATTER_DEGREES: f64 = 1.5;
/// A misplaced prefix is farther than this from where the tables believe it to be.
const MISPLACED_KM: f64 = 1_000.0;

/// What a generated world is like.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// Seed of everything.
    pub seed: u64,
    /// Sites; every fourth one has two links.
    pub sites: usize,
    /// Client prefixes.
    pub prefixes: usize,
    /// Lookups a second by all clients together.
    pub rate: f64,
    /// Exponent of Zipf's law over the prefixes' rates.
    pub zipf: f64,
    /// Share of prefixes that the geo table believes more than 1,000 km away.
    pub misplaced: f64,
    /// Share of prefixes that the ISP table gives to another operator.
    pub wrong_operator: f64,
    /// Share of prefixes that use an anycast resolver.
    pub anycast: f64,
    /// Share of those whose resolver tells the client's subnet.
    pub ecs: f64,
    /// Share of prefixes that answer no probe.
    pub silent: f64,
    /// How much of a path's detour its neighbours in the operator's network share, 0..=1.
    pub alike: f64,
}

impl Default for Parameters {
    /// The world that decisions are measured by.
    fn default() -> Self {
        Self {
            seed: 1,
            sites: 12,
            prefixes: 20_000,
            rate: 5_000.0,
            zipf: 1.0,
            misplaced: 0.10,
            wrong_operator: 0.05,
            anycast: 0.15,
            ecs: 0.6,
            silent: 0.30,
            alike: 0.7,
        }
    }
}

impl Parameters {
    /// Most sites.
    pub const SITES: usize = 24;
    /// Most prefixes: a slot of the table is 256 addresses.
    pub const PREFIXES: usize = 500_000;

    /// What is out of range, in words.
    pub fn check(&self) -> Result<(), String> {
        let Self {
            seed: _,
            sites,
            prefixes,
            rate,
            zipf,
            misplaced,
            wrong_operator,
            anycast,
            ecs,
            silent,
            alike,
        } = self;
        if !(1..=Self::SITES).contains(sites) {
            return Err(format!("{sites} sites: give 1 to {}", Self::SITES));
        }
        if !(1..=Self::PREFIXES).contains(prefixes) {
            return Err(format!("{prefixes} prefixes: give 1 to {}", Self::PREFIXES));
        }
        if !(0.001..=1e9).contains(rate) {
            return Err(format!("{rate} lookups a second: give 0.001 to 1e9"));
        }
        if !(0.0..=4.0).contains(zipf) {
            return Err(format!("a Zipf exponent of {zipf}: give 0 to 4"));
        }
        let shares = [
            ("misplaced", misplaced),
            ("wrong-operator", wrong_operator),
            ("anycast", anycast),
            ("ecs", ecs),
            ("silent", silent),
            ("alike", alike),
        ];
        match shares.into_iter().find(|(_, share)| !(0.0..=1.0).contains(*share)) {
            Some((name, share)) => Err(format!("{name} = {share}: give 0 to 1")),
            None => Ok(()),
        }
    }
}

/// What is drawn of a client before it has a number.
struct Client {
    metro: usize,
    operator: usize,
    lat: f64,
    lon: f64,
    /// Whether its network lies among its operator's in any place.
    is_mixed: bool,
}

/// Makes a world.
#[must_use]
pub fn world(parameters: &Parameters) -> Spec {
    let mut rng = Rng::with_seed(parameters.seed);
    let metros = || METROS.iter().take(parameters.sites.clamp(1, Parameters::SITES));
    let sites: Vec<Site> = metros().enumerate().map(|(i, metro)| site(i, metro)).collect();
    let mut clients: Vec<Client> = (0..parameters.prefixes).map(|_| client(&mut rng)).collect();
    // networks of an operator's clients in a place lie side by side
    clients.sort_by_key(|it| (it.operator, it.is_mixed, if it.is_mixed { 0 } else { it.metro }));
    let rates = rates(parameters, &mut rng);
    let mut detours = Detours { parameters, shared: BTreeMap::new() };
    let mut prefixes = Vec::with_capacity(clients.len());
    let mut slot = 0_u32;
    let mut last = None;
    for (client, rate) in clients.iter().zip(rates) {
        let block = (client.operator, client.is_mixed, (!client.is_mixed).then_some(client.metro));
        if last.is_some_and(|last| last != block) {
            slot = slot.next_multiple_of(16);
        }
        last = Some(block);
        prefixes.push(prefix(parameters, &mut rng, &mut detours, &sites, client, slot, rate));
        slot += 1 + u32::from(rng.u8(0..8) == 0);
    }
    Spec {
        version: VERSION,
        name: format!("synthetic, seed {}", parameters.seed),
        seed: parameters.seed,
        ttl_s: 30,
        start_hour: 12.0,
        model: Model::default(),
        sites,
        resolvers: resolvers(slot),
        prefixes,
        events: Vec::new(),
    }
}

fn site(number: usize, metro: &Metro) -> Site {
    let operator = |n: usize| format!("{}-{n}", metro.country);
    let mut site = Site { name: metro.name.into(), lat: metro.lat, lon: metro.lon, ..Site::default() };
    if number % 4 == 3 {
        let link = |n: usize| Link { name: format!("l{n}"), operators: vec![operator(n)], capacity: None };
        site.links = vec![link(1), link(2)];
    } else {
        site.operators = vec![operator(1), operator(2)];
    }
    site
}

fn draw(rng: &mut Rng, weights: impl Iterator<Item = f64> + Clone) -> usize {
    let mut left = rng.f64() * weights.clone().sum::<f64>();
    let mut last = 0;
    for (i, weight) in weights.enumerate() {
        last = i;
        left -= weight;
        if left <= 0.0 {
            break;
        }
    }
    last
}

/// Normally distributed.
fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.f64()).cos()
}

fn client(rng: &mut Rng) -> Client {
    let metro = draw(rng, METROS.iter().map(|it| it.weight));
    let at = &METROS[metro];
    let country = METROS.iter().position(|it| it.country == at.country).unwrap_or_default();
    let operator = country * SHARES.len() + draw(rng, SHARES.iter().copied());
    Client {
        metro,
        operator,
        lat: (at.lat + normal(rng) * SCATTER_DEGREES).clamp(-60.0, 70.0),
        lon: (at.lon + normal(rng) * SCATTER_DEGREES).clamp(-180.0, 180.0),
        is_mixed: rng.f64() < 0.15,
    }
}

fn operator_name(number: usize) -> String {
    let country = METROS.get(number / SHARES.len()).map_or("xx", |it| it.country);
    format!("{country}-{}", number % SHARES.len() + 1)
}

/// Zipf's law, dealt out at random.
fn rates(parameters: &Parameters, rng: &mut Rng) -> Vec<f64> {
    let mut rates: Vec<f64> =
        (1..=parameters.prefixes).map(|rank| (rank as f64).powf(-parameters.zipf)).collect();
    let total: f64 = rates.iter().sum();
    for rate in &mut rates {
        *rate *= parameters.rate / total;
    }
    rng.shuffle(&mut rates);
    rates
}

/// How much longer than the great circle paths are: much the same for neighbours in an operator's network.
struct Detours<'a> {
    parameters: &'a Parameters,
    shared: BTreeMap<(usize, usize, usize), f64>,
}

impl Detours<'_> {
    /// A stretch with a long tail: the median is 1.4, one of twenty is above 2.3, one of a hundred above 3.
    fn stretch(&mut self, rng: &mut Rng, client: &Client, point: usize) -> f64 {
        let key = (client.operator, client.metro, point);
        let shared = *self.shared.entry(key).or_insert_with(|| normal(rng));
        let alike = self.parameters.alike;
        let z = alike.sqrt() * shared + (1.0 - alike).sqrt() * normal(rng);
        1.0 + (0.4 * (0.7 * z).exp()).min(5.0)
    }
}

#[allow(clippy::too_many_arguments, reason = "one thing in many parts")]
fn prefix(
    parameters: &Parameters,
    rng: &mut Rng,
    detours: &mut Detours<'_>,
    sites: &[Site],
    client: &Client,
    slot: u32,
    rate: f64,
) -> Prefix {
    let place = geo::Point { lat: client.lat, lon: client.lon };
    let last_mile_ms = (6.0 * (0.6 * normal(rng)).exp()).min(80.0);
    let operator = operator_name(client.operator);
    let mut rtt_ms = BTreeMap::new();
    let mut point = 0;
    for site in sites {
        let km = geo::distance_km(place, geo::Point { lat: site.lat, lon: site.lon });
        let is_home = operator.split('-').next() == country_of(site);
        let mut time = |rng: &mut Rng, name: String, operators: &[String]| {
            let mut stretch = detours.stretch(rng, client, point);
            let mut ms = last_mile_ms + 1.0;
            // operators of one country meet where they are full
            if is_home && !site.links.is_empty() && !operators.contains(&operator) {
                stretch *= 1.2;
                ms += 12.0;
            }
            ms += 2.0 * km / 200.0 * stretch;
            rtt_ms.insert(name, (ms * 10.0).round() / 10.0);
            point += 1;
        };
        if site.links.is_empty() {
            time(rng, site.name.clone(), &site.operators);
        }
        for link in &site.links {
            time(rng, format!("{}/{}", site.name, link.name), &link.operators);
        }
    }
    let (is_misplaced, has_wrong) = (rng.f64() < parameters.misplaced, rng.f64() < parameters.wrong_operator);
    let resolver = (rng.f64() < parameters.anycast)
        .then(|| if rng.f64() < parameters.ecs { "anycast-ecs" } else { "anycast-plain" });
    let four = |degrees: f64| (degrees * 1e4).round() / 1e4;
    let believed = (is_misplaced || has_wrong).then(|| {
        let other = if is_misplaced { elsewhere(rng, place) } else { place };
        let name = if has_wrong { another(rng, client.operator) } else { operator.clone() };
        Believed { lat: Some(four(other.lat)), lon: Some(four(other.lon)), operator: Some(name) }
    });
    Prefix {
        prefix: format!("{}/24", Ipv4Addr::from(FIRST + slot * 256)),
        lat: four(client.lat),
        lon: four(client.lon),
        operator: Some(operator),
        rate: (rate * 1e6).round() / 1e6,
        resolver: resolver.map(str::to_owned),
        answers_probes: rng.f64() >= parameters.silent,
        tcp: rng.f64() >= 0.02,
        rtt_ms,
        believed,
        ..Prefix::default()
    }
}

fn country_of(site: &Site) -> Option<&str> {
    let first = site.operators.first().or_else(|| site.links.first()?.operators.first())?;
    first.split('-').next()
}

fn elsewhere(rng: &mut Rng, place: geo::Point) -> geo::Point {
    for _ in 0..1_000 {
        let metro = &METROS[rng.usize(0..METROS.len())];
        let other = geo::Point { lat: metro.lat, lon: metro.lon };
        if geo::distance_km(place, other) > MISPLACED_KM {
            return other;
        }
    }
    geo::Point { lat: -place.lat, lon: place.lon }
}

fn another(rng: &mut Rng, operator: usize) -> String {
    loop {
        let metro = rng.usize(0..METROS.len());
        let country = METROS.iter().position(|it| it.country == METROS[metro].country).unwrap_or_default();
        let other = country * SHARES.len() + rng.usize(0..SHARES.len());
        if other != operator {
            return operator_name(other);
        }
    }
}

/// Two anycast services: one tells the client's subnet and asks from one address everywhere; the other tells nothing
/// and asks from addresses of its places.
fn resolvers(slot: u32) -> Vec<Resolver> {
    let slot = slot.next_multiple_of(256);
    let network = |i: u32| Some(format!("{}/24", Ipv4Addr::from(FIRST + (slot + 64 * i) * 256)));
    let places = |step: usize| METROS.iter().step_by(step).map(|it| (it.lat, it.lon));
    vec![
        Resolver {
            name: "anycast-ecs".into(),
            ecs: true,
            trusted: false,
            prefix: network(0),
            caches: 1,
            places: places(2).map(|(lat, lon)| Place { lat, lon, prefix: None }).collect(),
        },
        Resolver {
            name: "anycast-plain".into(),
            ecs: false,
            trusted: false,
            prefix: None,
            caches: 4,
            places: places(2)
                .zip(1..)
                .map(|((lat, lon), i)| Place { lat, lon, prefix: network(i) })
                .collect(),
        },
    ]
}
