//! The other nodes, and what they say.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// This node among its peers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PeersStatus {
    /// Where peers connect to, by UDP and TCP.
    pub listen: String,
    /// The pin of this node's key: what the others have in their configs.
    pub pin: String,
    /// Seconds until this node's certificate ends.
    pub certificate_left_s: i64,
    /// Whether the node has just started and still waits for what peers serve (case P12).
    pub waiting: bool,
    /// What an operator should know about this node's key and certificate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The peers, by name.
    pub peers: Vec<PeerNow>,
}

/// How it stands with a peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PeerNow {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub site: String,
    /// Where it should listen.
    pub address: String,
    /// `up`, `syncing` (not all of its claims are here), `silent`, `greeting` (connected only), `down`.
    pub state: String,
    /// Since when.
    pub since_unix: u64,
    /// Milliseconds since it was last heard, once it was.
    pub heard_ms_ago: Option<u64>,
    /// `quic`, or `tcp` where UDP does not pass; none without a connection.
    pub transport: Option<String>,
    /// Round trip of the last keepalive, in milliseconds.
    pub rtt_ms: Option<u32>,
    /// Version of the protocol spoken.
    pub version: Option<u16>,
    /// Claims of it that are held.
    pub claims: u64,
    /// Whether these are stale: it is silent, and they will expire.
    pub stale: bool,
    /// Whether they have expired: what becomes of its members, `on_peer_loss` of each service says.
    pub expired: bool,
    /// Seconds until its certificate ends, while it is connected.
    pub certificate_left_s: Option<i64>,
    /// Attempts to connect since the last session that lasted.
    pub failures: u32,
    /// What last went wrong.
    pub last_error: Option<String>,
    /// What one of the two nodes refused of late and people should mend: two nodes of one name, a version too old.
    pub notice: Option<String>,
    /// What should be equal at both and is not: `config: services`, `table isp`, `version`.
    pub differences: Vec<String>,
    /// Octets received.
    pub bytes_in: u64,
    /// Octets sent.
    pub bytes_out: u64,
}

/// What a peer says of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClaimStatus {
    /// Who says it.
    pub author: String,
    /// What the author calls the virtual server.
    pub name: String,
    /// `up`, `down`, `unknown`, `drain`, `disabled`.
    pub state: String,
    /// Why, in the author's words.
    pub reason: String,
    /// Milliseconds since this claim came or last changed.
    pub age_ms: u64,
    /// Milliseconds since the author was last heard.
    pub heard_ms_ago: u64,
    /// Whether the author is silent or lost.
    pub stale: bool,
    /// Whether it has been for longer than `hold`.
    pub expired: bool,
}

/// A member that was learned, and what is said of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemberClaim {
    /// The member.
    pub member: String,
    /// What is said of it.
    pub claim: ClaimStatus,
}

/// Which frames to show.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct FramesQuery {
    /// Only what goes to and comes from this peer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
}

/// One frame between this node and a peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FrameSeen {
    /// For people: a line, and one for each claim in it.
    pub text: String,
    /// For programs, as `portolan peers dump FILE --json` shows it.
    #[schema(value_type = Object)]
    pub record: serde_json::Value,
    /// Frames that were lost before it, because its reader was too slow.
    pub lost: u64,
}
