//! The exact form of a world file. Its meaning is in docs/simulation.md.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The only version there is.
pub const VERSION: u32 = 1;

/// A whole world file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Version of the form: 1.
    pub version: u32,
    /// What people call the world.
    #[serde(default)]
    pub name: String,
    /// Seed of what happens by chance while it runs.
    #[serde(default = "one")]
    pub seed: u64,
    /// TTL of the answers, in seconds: how long a resolver keeps one.
    #[serde(default = "ttl_s")]
    pub ttl_s: u32,
    /// Hour of the day, UTC, at which it begins: the daily swing goes by the local hour.
    #[serde(default)]
    pub start_hour: f64,
    /// What holds where a prefix says nothing else.
    #[serde(default)]
    pub model: Model,
    /// Sites, at most 256 with their links.
    pub sites: Vec<Site>,
    /// Resolvers that serve many prefixes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resolvers: Vec<Resolver>,
    /// Clients.
    pub prefixes: Vec<Prefix>,
    /// What fails or gets slow, and when.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
}

/// What holds where a prefix says nothing else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Model {
    /// How far a signal goes in a millisecond; two thirds of the speed of light.
    pub km_per_ms: f64,
    /// How much longer than the great circle paths are.
    pub stretch: f64,
    /// What the access network adds.
    pub last_mile_ms: f64,
    /// By what share round trips are longer at the busiest hour (21:00) than at the quietest.
    pub swing: f64,
    /// Mean of what queues add to a single measurement.
    pub jitter_ms: f64,
    /// Share of measurements that come to nothing.
    pub loss: f64,
    /// Share of queries that resolvers send to the name server that is nearest to them; the others go to any.
    pub nearest_server: f64,
    /// Share of queries that come by TCP by themselves.
    pub tcp: f64,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            km_per_ms: 200.0,
            stretch: 1.4,
            last_mile_ms: 8.0,
            swing: 0.1,
            jitter_ms: 1.0,
            loss: 0.01,
            nearest_server: 0.6,
            tcp: 0.002,
        }
    }
}

/// A site.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Site {
    /// Its name.
    pub name: String,
    /// Latitude.
    pub lat: f64,
    /// Longitude.
    pub lon: f64,
    /// Operators it is connected to, where it has no links of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operators: Vec<String>,
    /// Client lookups a second that it can serve, where it has no links.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<f64>,
    /// Its links; each is measured and chosen by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
}

/// A link of a site.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Its name, unique at the site.
    pub name: String,
    /// Operators it is connected to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operators: Vec<String>,
    /// Client lookups a second that it can carry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<f64>,
}

/// A resolver that serves many prefixes, from one place or from many.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resolver {
    /// Its name.
    pub name: String,
    /// Whether it tells the client's subnet (ECS).
    #[serde(default)]
    pub ecs: bool,
    /// Whether the operator of the name servers trusts the subnets it tells, so that they may be probed.
    #[serde(default)]
    pub trusted: bool,
    /// The prefix its queries come from, where that is the same at all places (anycast).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Caches at each place.
    #[serde(default = "one_cache")]
    pub caches: u32,
    /// Where it is. A client uses the nearest one.
    pub places: Vec<Place>,
}

/// One place of a resolver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Latitude.
    pub lat: f64,
    /// Longitude.
    pub lon: f64,
    /// The prefix its queries come from, where the resolver has none for all places.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
}

/// Clients that are alike.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prefix {
    /// Their network.
    pub prefix: String,
    /// Latitude.
    pub lat: f64,
    /// Longitude.
    pub lon: f64,
    /// Their operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// Lookups a second by all of its clients, before any cache.
    pub rate: f64,
    /// The resolver they use; none is one of their own, in the prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolver: Option<String>,
    /// Whether probes are answered.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub answers_probes: bool,
    /// Whether TCP to the name server works.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub tcp: bool,
    /// As in the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stretch: Option<f64>,
    /// As in the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_mile_ms: Option<f64>,
    /// As in the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swing: Option<f64>,
    /// As in the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_ms: Option<f64>,
    /// As in the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Round-trip time by site, or by `site/link`; what is not named follows the model.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rtt_ms: BTreeMap<String, f64>,
    /// What the tables say, where they are wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub believed: Option<Believed>,
}

/// What the geo and ISP tables say of a prefix. What is left out is what the tables do not know.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Believed {
    /// Latitude.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lat: Option<f64>,
    /// Longitude.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lon: Option<f64>,
    /// Operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
}

/// Something that happens to a site or link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// When it begins, in seconds.
    pub at_s: f64,
    /// When it ends; none is never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_s: Option<f64>,
    /// The site.
    pub site: String,
    /// The link; none is all of the site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Only clients of this operator are touched (`slow_ms` only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// What happens.
    pub effect: Effect,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Nothing is served and nothing answered there.
    Down,
    /// Round trips take so much longer.
    SlowMs(f64),
}

fn one() -> u64 {
    1
}

fn one_cache() -> u32 {
    1
}

fn ttl_s() -> u32 {
    30
}

fn yes() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_true(value: &bool) -> bool {
    *value
}
