//! A decision with its reasons.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use utoipa::{IntoParams, ToSchema};

/// The question to explain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ExplainQuery {
    /// The name asked for.
    #[param(example = "www.example.com.")]
    pub name: String,
    /// The record type asked for.
    #[serde(rename = "type", default = "default_type")]
    #[param(example = "A", required = false)]
    pub rrtype: String,
    /// The resolver's address, the source of the query.
    #[param(value_type = String, example = "36.110.1.1")]
    pub from: IpAddr,
    /// The client subnet in the query, e.g. `36.110.1.0/24`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ecs: Option<String>,
    /// Dice to repeat a choice with; fresh dice when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entropy: Option<u64>,
    /// Turn of round robin to repeat a choice with; the next one when left out (it is not used up).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
}

fn default_type() -> String {
    "A".into()
}

/// What would be answered, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Explained {
    /// The name asked for.
    pub name: String,
    /// The record type asked for.
    #[serde(rename = "type")]
    pub rrtype: String,
    /// The answer's response code.
    pub rcode: String,
    /// The data that would be sent, in order: of the records in the answer section.
    pub answer: Vec<String>,
    /// The answer section as zone file lines.
    pub records: Vec<String>,
    /// Length of the client prefix the answer is good for; what the answer's ECS option would say.
    pub scope: u8,
    /// Seconds the answer may be kept; of the first record, or of the SOA of a negative answer.
    pub ttl: u32,
    /// The service that decided, if the name has one.
    pub service: Option<String>,
    /// By what the client is known: `ECS 36.110.1.0/24` or `source 36.110.1.1`.
    pub client: String,
    /// Every step in the order taken.
    pub steps: Vec<StepTaken>,
    /// With what the choice can be repeated.
    pub dice: DiceUsed,
    /// What the tables know of the client: the lines that matched.
    pub tables: Vec<super::TableHit>,
    /// What peers say of the members that were learned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<super::MemberClaim>,
    /// Degraded modes the decision was made under (T6).
    pub degraded: Vec<String>,
}

/// One step of a decision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StepTaken {
    /// `health`, `tier`, `acl`, `proximity`, `isp`, `geo`, `load`, `persist`, `scheduler`, `fallback`, or for names
    /// without a service what the zone did.
    pub step: String,
    /// What it did, in words.
    pub text: String,
    /// Who was left after it; empty where the step is not about candidates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
    /// Who was dropped by it, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<Dropped>,
}

/// A candidate that a step dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Dropped {
    /// The candidate.
    pub member: String,
    /// The reason.
    pub why: String,
}

/// The dice of a decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiceUsed {
    /// Entropy.
    pub entropy: u64,
    /// Turn of round robin.
    pub turn: u64,
}
