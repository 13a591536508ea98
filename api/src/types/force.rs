//! Operators' words: forced states (T7, H10) and reported loads.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What an operator wants of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ForceAction {
    /// No new clients; those there may finish.
    Drain,
    /// Out of service.
    Disable,
    /// Back to what the checks say: forgets every forced state.
    Enable,
    /// Usable whatever the checks say.
    Up,
    /// Not usable whatever the checks say.
    Down,
}

impl ForceAction {
    /// The word for it.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Drain => "drain",
            Self::Disable => "disable",
            Self::Enable => "enable",
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

/// Forces the state of members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForceRequest {
    /// `SERVICE`, `SERVICE/MEMBER`, `site:NAME` or `link:SITE/NAME`; `*` and `?` match within a part. A member is
    /// named by its address, its `site/link` or its site.
    #[schema(example = "www.example.com./192.0.2.10")]
    pub target: String,
    /// What is wanted.
    pub action: ForceAction,
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

/// What a [`ForceRequest`] did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ForceResult {
    /// The members it touched, as `service/member`.
    pub members: Vec<String>,
    /// The generation of the view that has it.
    pub generation: u64,
    /// What the operator should know, e.g. that a service has no usable member left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// One forced state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForcedEntry {
    /// The service.
    pub service: String,
    /// The member: its address or target name.
    pub member: String,
    /// The forced state; never `enable`.
    pub action: ForceAction,
    /// Who forced it.
    pub author: String,
    /// Why.
    pub reason: String,
    /// When.
    pub at_unix: u64,
    /// When it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_unix: Option<u64>,
}

/// Reports the load of members. Only what is given changes; a report ages out after `ttl_s`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadReport {
    /// As in [`ForceRequest`].
    pub target: String,
    /// Share of its capacity in use: 0.0 idle, 1.0 full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f32>,
    /// Open connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// Bandwidth in use, bits per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_bps: Option<u64>,
    /// Bandwidth there is, bits per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_max_bps: Option<u64>,
    /// Time to answer, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_us: Option<u32>,
    /// Seconds until the report is forgotten (default 60).
    #[serde(default = "default_load_ttl_s")]
    pub ttl_s: u64,
}

fn default_load_ttl_s() -> u64 {
    60
}

/// What a [`LoadReport`] did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LoadResult {
    /// The members it touched, as `service/member`.
    pub members: Vec<String>,
}
