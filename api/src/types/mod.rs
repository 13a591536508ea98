//! What travels over the API. Times are seconds: `*_unix` since 1970, `*_s` a length.

mod error;
mod explain;
mod force;
mod peers;
mod proximity;
mod state;
mod tables;

pub use error::{ApiError, Problem};
pub use explain::{DiceUsed, Dropped, ExplainQuery, Explained, StepTaken};
pub use force::{ForceAction, ForceRequest, ForceResult, ForcedEntry, LoadReport, LoadResult};
pub use peers::{ClaimStatus, FrameSeen, FramesQuery, MemberClaim, PeerNow, PeersStatus};
pub use proximity::{
    ProximityMethod, ProximityPoint, ProximityQuery, ProximityScore, ProximityShown, ProximityStatus,
    ProximityUsed, RefusedProbes, StaticEntry, StaticRequest, StaticResult,
};
pub use state::{
    CheckStatus, ChecksSummary, ConfigStatus, Degraded, LastVerdict, LoadNow, MemberStatus, ReloadResult,
    ServiceStatus, ServicesQuery, ServicesSummary, Status, TableStatus, Version,
};
pub use tables::{LookupQuery, TableHit, TableLookup};
