//! What an operator can set about answering, and the snapshot a batch is answered from.

use crate::catalog::Catalog;
use crate::cookie::CookieSecrets;
use crate::ecs::EcsPolicy;
use crate::edns;
use crate::measure::Measure;
use crate::rrl::Rrl;
use portolan_balance::View;
use std::sync::Arc;

/// Settings of the DNS side.
#[derive(Clone, Debug)]
pub struct Options {
    /// Client subnets (RFC 7871).
    pub ecs: EcsPolicy,
    /// DNS cookies (RFC 7873); `None` ignores them.
    pub cookies: Option<CookieSecrets>,
    /// What to send when asked for the server's identifier (RFC 5001); at most 128 octets are sent.
    pub nsid: Option<Vec<u8>>,
    /// Answer to `version.bind CH TXT` and `version.server`; refused where not set.
    pub version_bind: Option<String>,
    /// Answer to `id.server CH TXT` and `hostname.bind`; refused where not set.
    pub id_server: Option<String>,
    /// Largest UDP reply (RFC 9715 advises 1232).
    pub udp_size: u16,
    /// Response rate limiting; off unless set. The table is shared by all workers and outlives a reload.
    pub rrl: Option<Arc<Rrl>>,
    /// What is told to those who measure clients; nothing unless set. Shared by all workers, and outlives a reload.
    pub measure: Option<Arc<Measure>>,
    /// Whether errors say why (RFC 8914).
    pub extended_errors: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ecs: EcsPolicy { enabled: true, allow: None, accept_private: false },
            cookies: None,
            nsid: None,
            version_bind: None,
            id_server: None,
            udp_size: 1232,
            rrl: None,
            measure: None,
            extended_errors: true,
        }
    }
}

impl Options {
    pub(crate) fn reading(&self) -> edns::Reading {
        edns::Reading { ecs: self.ecs.enabled, cookies: self.cookies.is_some() }
    }
}

/// Everything a batch of queries is answered from; replaced as a whole.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Names and records.
    pub catalog: Arc<Catalog>,
    /// What decisions read.
    pub view: Arc<View>,
    /// Settings.
    pub options: Arc<Options>,
}
