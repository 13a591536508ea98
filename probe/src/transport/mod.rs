//! Carrying out one check: sockets and programs, within one timeout and bounds everywhere.
//!
//! ```text
//!   key ─► addresses (looked up, of the source's family) ─► connect ─► [TLS] ─► Exchange ─► Verdict
//!          └────────────────────────── one timeout for all of it ─────────────────────────┘
//! ```

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use tokio::time::{Instant, timeout_at};

use crate::{
    kind::Transport,
    target::{CheckKey, Host},
    verdict::{Reason, Verdict, What},
};

mod icmp;
mod icmp_socket;
mod process;
mod stream;
mod tls;
mod udp;

pub(crate) use self::icmp::{Echo, Pingers};

/// The most addresses of a name that one check tries.
const ADDRESS_LIMIT: usize = 8;

/// One check's means: what can be made once and used at every run.
pub(crate) struct Prober {
    key: CheckKey,
    pingers: Arc<Pingers>,
    tls: tls::Connector,
}

impl Prober {
    pub(crate) fn new(key: CheckKey, pingers: Arc<Pingers>) -> Self {
        Self { key, pingers, tls: tls::Connector::default() }
    }

    /// Runs the check once. Never longer than its timeout, however many addresses the target's name has.
    pub(crate) async fn run(&self) -> Verdict {
        let limit = self.key.def().timing().timeout;
        let deadline = Instant::now() + limit;
        match timeout_at(deadline, self.attempt(deadline)).await {
            Ok(Ok(verdict)) => verdict,
            Ok(Err(reason)) => Verdict::Bad(reason),
            Err(_) => Verdict::bad(What::Timeout, format!("no verdict within {limit:?}")),
        }
    }

    async fn attempt(&self, deadline: Instant) -> Result<Verdict, Reason> {
        let (target, kind) = (self.key.target(), self.key.def().kind());
        if let Transport::Process(def) = kind.transport(target, 0) {
            return process::run(def, target).await;
        }
        let addresses = self.addresses().await?;
        let mut last = Err(failed(What::Resolve, format!("{} has no address", target.host)));
        for (at, address) in addresses.iter().enumerate() {
            // Each address gets its share of what is left, so that a silent first one does not use up the time of
            // the second.
            let left = deadline.saturating_duration_since(Instant::now());
            let share = left / u32::try_from(addresses.len() - at).unwrap_or(1);
            last = match timeout_at(Instant::now() + share, self.ask(*address)).await {
                Ok(verdict) => verdict,
                Err(_) => {
                    Err(failed(What::Timeout, format!("no verdict from {} within {share:?}", address.ip())))
                }
            };
            if matches!(last, Ok(Verdict::Good { .. })) {
                break;
            }
        }
        last
    }

    /// Asks one address.
    async fn ask(&self, address: SocketAddr) -> Result<Verdict, Reason> {
        let target = self.key.target();
        let entropy = fastrand::u64(..);
        match self.key.def().kind().transport(target, entropy) {
            Transport::Tcp(exchange) => {
                let stream = stream::connect(address, target.source).await?;
                stream::converse(stream, exchange).await
            }
            Transport::Tls(def, name, exchange) => {
                let connector = self.tls.get(def).await?;
                let stream = stream::connect(address, target.source).await?;
                stream::converse(tls::handshake(connector, &name, stream).await?, exchange).await
            }
            Transport::Udp(exchange) => udp::converse(address, target.source, exchange).await,
            Transport::Icmp(def) => self.pingers.ping(address.ip(), target.source, def).await,
            Transport::Process(def) => process::run(def, target).await,
        }
    }

    /// The target's addresses of the family that the source address allows (HC6).
    async fn addresses(&self) -> Result<Vec<SocketAddr>, Reason> {
        let target = self.key.target();
        let mut addresses: Vec<SocketAddr> = match &target.host {
            Host::Ip(address) => vec![SocketAddr::new(*address, target.port)],
            Host::Name(name) => {
                let found = tokio::net::lookup_host((name.as_str(), target.port)).await;
                found.map_err(|error| failed(What::Resolve, format!("{name}: {error}")))?.collect()
            }
        };
        if let Some(source) = target.source {
            addresses.retain(|address| address.is_ipv4() == source.is_ipv4());
            if addresses.is_empty() {
                let detail = format!("{} has no address of the family of source {source}", target.host);
                return Err(failed(What::Local, detail));
            }
        }
        addresses.truncate(ADDRESS_LIMIT);
        Ok(addresses)
    }
}

/// A reason in the making.
fn failed(what: What, detail: impl Into<String>) -> Reason {
    match Verdict::bad(what, detail) {
        Verdict::Bad(reason) => reason,
        Verdict::Good { note, .. } => Reason { what, detail: note },
    }
}

/// What a source address that cannot be used means: nothing was sent (HC6).
fn bad_source(source: IpAddr, error: &std::io::Error) -> Reason {
    failed(
        What::Local,
        format!("cannot send from source {source}: {error}; it must be an address of this machine"),
    )
}

/// Runs one check once, outside any runner.
pub async fn check_once(key: &CheckKey) -> Verdict {
    Prober::new(key.clone(), Arc::new(Pingers::default())).run().await
}
