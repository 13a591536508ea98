//! The DNS listeners: a group of UDP threads and a TCP listener for each address.
//!
//! What is new is opened before what is gone is closed; what stays is not touched.

use crate::engine::SharedSnapshot;
use crate::tcp::Tcp;
use crate::udp::{self, UdpWorker};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tracing::info;

/// Tries to find a port that is free for UDP and TCP, where the config leaves the port to the system.
const PORT_TRIES: usize = 16;
/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// Why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {protocol} {address}: {cause}{}", remedy(.cause))]
pub struct ListenError {
    protocol: &'static str,
    address: SocketAddr,
    cause: io::Error,
}

fn remedy(cause: &io::Error) -> &'static str {
    const TAKEN: &str = " (another server has it: find it with `ss -lnp`; for systemd-resolved set \
        DNSStubListener=no or listen on one address)";
    let is = |kind| cause.kind() == kind;
    if is(io::ErrorKind::AddrInUse) {
        TAKEN
    } else if is(io::ErrorKind::PermissionDenied) {
        " (ports below 1024 need CAP_NET_BIND_SERVICE)"
    } else if is(io::ErrorKind::AddrNotAvailable) {
        " (no interface has this address)"
    } else {
        ""
    }
}

/// The listeners in force.
#[derive(Debug)]
pub struct Listeners {
    snapshot: SharedSnapshot,
    tcp: Arc<Tcp>,
    cpus: Vec<usize>,
    open: Vec<Listener>,
}

/// Listeners that are open but not yet in force.
#[derive(Debug)]
pub struct Prepared {
    new: Vec<Listener>,
    wanted: Vec<SocketAddr>,
}

/// Everything on one address. Dropping it stops its threads once they have answered what waits.
#[derive(Debug)]
struct Listener {
    configured: SocketAddr,
    address: SocketAddr,
    udp: Vec<UdpWorker>,
    stop: watch::Sender<bool>,
}

impl Listeners {
    /// No listeners yet. `threads` limits the UDP threads of an address; without it there is one for each CPU.
    #[must_use]
    pub fn new(snapshot: SharedSnapshot, tcp: Arc<Tcp>, threads: Option<usize>) -> Self {
        let cpus = udp::cpus();
        let count = threads.unwrap_or(cpus.len());
        let cpus = cpus.iter().copied().cycle().take(count.max(1)).collect();
        Self { snapshot, tcp, cpus, open: Vec::new() }
    }

    /// Opens what is wanted and not yet open. Nothing that is open changes; dropping the result undoes it.
    pub fn prepare(&self, wanted: &[SocketAddr]) -> Result<Prepared, ListenError> {
        let mut new: Vec<Listener> = Vec::new();
        for &address in wanted {
            if !self.open.iter().chain(&new).any(|one| one.configured == address) {
                new.push(self.listen(address)?);
            }
        }
        Ok(Prepared { new, wanted: wanted.to_vec() })
    }

    /// Takes what was prepared, and closes what is no longer wanted.
    pub fn commit(&mut self, Prepared { mut new, wanted }: Prepared) {
        self.open.append(&mut new);
        let (stay, gone): (Vec<_>, Vec<_>) =
            self.open.drain(..).partition(|one| wanted.contains(&one.configured));
        self.open = stay;
        // all threads are told before the first is waited for
        for one in &gone {
            info!(address = %one.address, "no longer listening");
            one.stop();
        }
    }

    /// The addresses in use.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.open.iter().map(|one| one.address)
    }

    /// The UDP threads.
    pub fn udp_workers(&self) -> impl Iterator<Item = &UdpWorker> {
        self.open.iter().flat_map(|one| &one.udp)
    }

    fn listen(&self, configured: SocketAddr) -> Result<Listener, ListenError> {
        for _ in 1..PORT_TRIES {
            match self.try_listen(configured) {
                Err(error) if configured.port() == 0 && error.cause.kind() == io::ErrorKind::AddrInUse => {}
                result => return result,
            }
        }
        self.try_listen(configured)
    }

    fn try_listen(&self, configured: SocketAddr) -> Result<Listener, ListenError> {
        let failed = |protocol, address| move |cause| ListenError { protocol, address, cause };
        let overlaps = |one: &Listener| {
            one.address.port() == configured.port()
                && one.address.is_ipv4() == configured.is_ipv4()
                && (one.address.ip().is_unspecified() || configured.ip().is_unspecified())
        };
        // Sharing a port is for our own threads: another server on it is found by trying without.
        if configured.port() != 0 && !self.open.iter().any(overlaps) {
            open_tcp(configured, false).map_err(failed("tcp", configured))?;
            alone(configured).map_err(failed("udp", configured))?;
        }
        let tcp = open_tcp(configured, true).map_err(failed("tcp", configured))?;
        let address = tcp.local_addr().map_err(failed("tcp", configured))?;
        if configured.port() == 0 {
            alone(address).map_err(failed("udp", address))?;
        }
        // all sockets of a group are there before the first thread takes from it
        let sockets: Vec<_> = self
            .cpus
            .iter()
            .map(|_| udp::open(address))
            .collect::<io::Result<_>>()
            .map_err(failed("udp", address))?;
        let udp = sockets
            .into_iter()
            .zip(&self.cpus)
            .map(|(socket, &cpu)| UdpWorker::start(socket, cpu, self.snapshot.clone()))
            .collect::<io::Result<_>>()
            .map_err(failed("udp", address))?;
        let (stop, stopped) = watch::channel(false);
        let listener = TcpListener::from_std(tcp).map_err(failed("tcp", address))?;
        tokio::spawn(self.tcp.clone().accept(listener, stopped));
        info!(%address, threads = self.cpus.len(), "listening");
        Ok(Listener { configured, address, udp, stop })
    }
}

impl Listener {
    fn stop(&self) {
        self.stop.send_replace(true);
        for worker in &self.udp {
            worker.stop();
        }
    }
}

fn alone(address: SocketAddr) -> io::Result<()> {
    let socket = socket2::Socket::new(socket2::Domain::for_address(address), socket2::Type::DGRAM, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())
}

fn open_tcp(address: SocketAddr, is_shared: bool) -> io::Result<std::net::TcpListener> {
    let socket = socket2::Socket::new(socket2::Domain::for_address(address), socket2::Type::STREAM, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(is_shared)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}
