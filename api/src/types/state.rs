//! How things stand.

use super::{ClaimStatus, ForcedEntry, PeersStatus, ProximityStatus};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// The program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Version {
    /// Its version.
    pub version: String,
    /// Of the API: grows when something incompatible changes.
    pub api: u32,
}

/// The node in one look.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// The node's name.
    pub node: String,
    /// The site it is at.
    pub site: String,
    /// The program's version.
    pub version: String,
    /// Since when it runs.
    pub started_unix: u64,
    /// Seconds it has run.
    pub uptime_s: u64,
    /// The generation of the view in force: it grows with every change of state or config.
    pub generation: u64,
    /// The config in force.
    pub config: ConfigStatus,
    /// Where DNS is answered, as `udp 127.0.0.1:53`.
    pub listen: Vec<String>,
    /// The services in numbers.
    pub services: ServicesSummary,
    /// The checks in numbers.
    pub checks: ChecksSummary,
    /// Degraded modes (T6); empty when all is well.
    pub degraded: Vec<Degraded>,
    /// Forced states.
    pub forced: Vec<ForcedEntry>,
    /// The prefix tables.
    pub tables: Vec<TableStatus>,
    /// The other nodes; none without `[peers]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peers: Option<PeersStatus>,
    /// How clients are measured; none where no service goes by distance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proximity: Option<ProximityStatus>,
}

/// The config in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigStatus {
    /// The main file.
    pub path: String,
    /// SHA-256 over its files.
    pub hash: String,
    /// When it was loaded.
    pub loaded_unix: u64,
    /// How often it was reloaded since the start.
    pub reloads: u64,
    /// Why the last reload was refused, when it was; the config in force is an older one then.
    pub last_error: Option<String>,
}

/// The services in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServicesSummary {
    /// All.
    pub total: u32,
    /// All their members are usable.
    pub healthy: u32,
    /// Some of their members are not usable.
    pub impaired: u32,
    /// Their fallback answers.
    pub failed: u32,
}

/// The checks in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChecksSummary {
    /// All.
    pub total: u32,
    /// Up.
    pub up: u32,
    /// Down.
    pub down: u32,
    /// Without a verdict so far.
    pub unknown: u32,
}

/// A degraded mode (T6).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Degraded {
    /// Its name, as in the metric `portolan_degraded`.
    pub mode: String,
    /// What it is about.
    pub detail: String,
}

/// A prefix table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TableStatus {
    /// `isp` or `geo`.
    pub name: String,
    /// Files it is made of.
    pub files: u32,
    /// Prefixes, or places, in it.
    pub entries: u64,
    /// Age of its oldest file in seconds, when known (R20).
    pub age_s: Option<u64>,
    /// Its id: SHA-256 over its canonical form (R14), when it has one.
    pub id: Option<String>,
}

/// Which services to show.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ServicesQuery {
    /// Only services whose name matches this; `*` and `?` match anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// One service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ServiceStatus {
    /// Its name.
    pub name: String,
    /// `healthy`, `impaired`, or `failed`: its fallback answers.
    pub state: String,
    /// Its members in the order of the config.
    pub members: Vec<MemberStatus>,
}

/// One member of a service. What is shown is what answers are made from (H23).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MemberStatus {
    /// Its name for people.
    pub name: String,
    /// What is answered.
    pub address: String,
    /// Its address behind NAT, where the config names one.
    pub inside: Option<String>,
    /// Where it is.
    pub site: Option<String>,
    /// The link of the site.
    pub link: Option<String>,
    /// Its configured weight.
    pub weight: u16,
    /// Its tier.
    pub tier: u8,
    /// What its checks say: `up`, `down`, `unknown`.
    pub state: String,
    /// Since when, when known.
    pub since_unix: Option<u64>,
    /// Why its state is so.
    pub reason: String,
    /// Whether it may be answered now.
    pub usable: bool,
    /// Why not, or `usable`.
    pub why: String,
    /// The forced state, if any.
    pub forced: Option<ForcedEntry>,
    /// Share of its weight during slow start, in percent.
    pub ramp_percent: Option<u8>,
    /// Its load, as far as known.
    pub load: LoadNow,
    /// The ids of its checks.
    pub checks: Vec<String>,
    /// What its peer says of it, where it was learned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<ClaimStatus>,
}

/// The known load of a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LoadNow {
    /// Share of its capacity in use.
    pub share: Option<f32>,
    /// Open connections.
    pub connections: Option<u32>,
    /// Bandwidth in use, bits per second.
    pub bandwidth_bps: Option<u64>,
    /// Bandwidth there is, bits per second.
    pub bandwidth_max_bps: Option<u64>,
    /// Time to answer, microseconds.
    pub response_us: Option<u32>,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckStatus {
    /// Its stable id.
    pub id: String,
    /// Kind and target, for people.
    pub name: String,
    /// `up`, `down`, `unknown`.
    pub state: String,
    /// Since when, when known.
    pub since_unix: Option<u64>,
    /// Why the state is so.
    pub reason: String,
    /// The newest verdict, once there is one.
    pub last: Option<LastVerdict>,
    /// The members that use it, as `service/member`.
    pub used_by: Vec<String>,
}

/// What a check said last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LastVerdict {
    /// Whether it was good.
    pub good: bool,
    /// What was seen.
    pub text: String,
    /// When.
    pub at_unix: u64,
    /// Microseconds the check took.
    pub took_us: u64,
}

/// What a reload did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReloadResult {
    /// The generation of the view that has it.
    pub generation: u64,
    /// Milliseconds it took.
    pub took_ms: u64,
    /// What the config's author should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<super::Problem>,
}
