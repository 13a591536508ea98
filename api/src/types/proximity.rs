//! Distances of clients (X, PX1-PX5).

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Whose distances to show.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ProximityQuery {
    /// An address, a prefix, or nothing for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(example = "36.110.1.1")]
    pub of: Option<String>,
    /// Most prefixes to show; 100 when left out, at most 10000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// What is known of clients' distances.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProximityShown {
    /// Prefixes that are known in all.
    pub prefixes: u64,
    /// Those asked for, by prefix and then by point; statics among them.
    pub points: Vec<ProximityPoint>,
    /// Whether there are more than are shown.
    pub is_cut: bool,
    /// What a query from the address asked for would go by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<ProximityUsed>,
}

/// What is known of a prefix from a site or link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProximityPoint {
    /// Whose.
    pub prefix: String,
    /// From which site.
    pub site: String,
    /// From which link of it; none is the site as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Round-trip time in microseconds.
    pub rtt_us: u32,
    /// Thousandths of attempts without an answer.
    pub loss_permille: u16,
    /// Routers on the way, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hops: Option<u8>,
    /// Measurements behind it.
    pub samples: u32,
    /// How it was measured: `static`, `client handshake`, `resolver handshake`, `solicited handshake`, `icmp`,
    /// `dns probe`, `tcp probe`.
    pub source: String,
    /// Whether a peer measured it.
    pub by_peer: bool,
    /// How far to trust it, 0 to 255.
    pub confidence: u8,
    /// Seconds since the last measurement.
    pub age_s: u32,
    /// The score that queries see, in microseconds; none where they see none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score_us: Option<u32>,
    /// Of a static entry: who wrote it and why, and `config` for those of the config file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<String>,
}

/// What a query goes by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProximityUsed {
    /// The address.
    pub address: String,
    /// `own`, `covering`, `operator`, `static`, `skipped` or `none`.
    pub row: String,
    /// The prefix of the row, or the one that would be measured.
    pub prefix: String,
    /// Why this row, in words.
    pub why: String,
    /// What is done about it next, where it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The scores, nearest first.
    pub scores: Vec<ProximityScore>,
}

/// A score that a query compares.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProximityScore {
    /// The site, or `site/link`.
    pub point: String,
    /// In microseconds; smaller is nearer.
    pub score_us: u32,
    /// Where it comes from: as in [`ProximityPoint::source`], or `covering prefix`, `operator median`, `coordinates`.
    pub source: String,
    /// Whether a peer measured it.
    pub by_peer: bool,
    /// Whether only exploration goes by it.
    pub is_guess: bool,
    /// Whether scores that the operator wrote go before it (PX2).
    pub is_outranked: bool,
}

/// Writes a round-trip time that goes before what is measured (PX2), or takes it away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StaticRequest {
    /// Clients.
    #[schema(example = "36.110.0.0/16")]
    pub prefix: String,
    /// The site.
    pub site: String,
    /// A link of the site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Round-trip time in microseconds, 1000 to 10000000; left out it takes the entry away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_us: Option<u32>,
    /// Who wants it.
    #[serde(default)]
    pub author: String,
    /// Why.
    #[serde(default)]
    pub reason: String,
    /// Seconds after which it ends by itself; for ever when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_s: Option<u64>,
}

/// What a [`StaticRequest`] did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StaticResult {
    /// The prefix.
    pub prefix: String,
    /// The site, or `site/link`.
    pub point: String,
    /// What holds now.
    pub rtt_us: Option<u32>,
    /// What an operator had written before.
    pub before_us: Option<u32>,
    /// What the operator should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A round-trip time that an operator wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StaticEntry {
    /// Clients.
    pub prefix: String,
    /// The site.
    pub site: String,
    /// A link of the site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Round-trip time in microseconds.
    pub rtt_us: u32,
    /// Who wrote it.
    pub author: String,
    /// Why.
    pub reason: String,
    /// When.
    pub at_unix: u64,
    /// When it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_unix: Option<u64>,
}

/// Measuring in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProximityStatus {
    /// Prefixes of which a distance is known.
    pub prefixes: u64,
    /// Most there may be.
    pub most: u64,
    /// Round-trip times that operators wrote.
    pub statics: u64,
    /// Sites and links from which is measured.
    pub points: u32,
    /// Measurements of this node by how they were made, since the start.
    pub methods: Vec<ProximityMethod>,
    /// Whether clients are probed.
    pub probing: bool,
    /// Probes sent since the start.
    pub probes: u64,
    /// Probes sent in the last 10 seconds.
    pub probes_in_10_s: u64,
    /// Wishes for a probe that wait.
    pub waiting: u64,
    /// Wishes that were refused, by reason.
    pub refused: Vec<RefusedProbes>,
    /// Queries that were asked to come by TCP.
    pub solicited: u64,
    /// Prefixes that came because of that.
    pub came: u64,
    /// Times that the state could not be saved.
    pub unsaved: u64,
}

/// Measurements of one method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProximityMethod {
    /// As in [`ProximityPoint::source`].
    pub method: String,
    /// Those with an answer.
    pub answered: u64,
    /// Those without.
    pub lost: u64,
}

/// Refused wishes of one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefusedProbes {
    /// A stable word.
    pub reason: String,
    /// How many.
    pub count: u64,
}
