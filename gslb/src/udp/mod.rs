//! UDP: one pinned thread for each core and address, whole batches in and out.
//!
//! ```text
//! recvmmsg(64) ─► Query… ─► dns::respond ─► Replies ─► sendmmsg
//!      └── blocks, no poller: the kernel's part is nine tenths of the cost, so no call is spent on asking it
//! ```

mod sys;

use crate::clock;
use crate::engine::SharedSnapshot;
use portolan_dns::respond::{Query, Replies, Transport, Worker, WorkerStats, respond};
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use sys::Batch;
pub(crate) use sys::coarse;
pub use sys::{cpus, raise_file_limit};
use tracing::{debug, error, warn};

/// Datagrams a batch holds; the knee is at 8 to 16, more only helps under full load.
const BATCH: usize = 64;
/// Room for one reply: the largest `dns.udp_size`.
const REPLY_BYTES: usize = 4096;
/// Replies up to this fit every link that carries IPv6: its least MTU of 1,280 octets less the headers.
const UNFRAGMENTED: u16 = 1232;
/// Queries that wait in a socket while its thread is busy or not scheduled.
const SOCKET_BYTES: usize = 8 << 20;

/// Sending faults of one worker.
#[derive(Debug, Default)]
pub struct SendStats {
    /// Replies the kernel had no room for.
    pub no_room: AtomicU64,
    /// Replies that could not be sent for another reason, e.g. no route.
    pub failed: AtomicU64,
    /// Receive calls that failed.
    pub receive_failed: AtomicU64,
    /// Batches lost by a fault of the program.
    pub faults: AtomicU64,
}

/// A running thread and its socket.
#[derive(Debug)]
pub struct UdpWorker {
    socket: Arc<socket2::Socket>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// What it answered.
    pub stats: Arc<WorkerStats>,
    /// What it could not send.
    pub send_stats: Arc<SendStats>,
}

/// Opens one socket of a group that shares `address`.
pub fn open(address: SocketAddr) -> io::Result<socket2::Socket> {
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::DGRAM, Some(socket2::Protocol::UDP))?;
    if address.is_ipv6() {
        // IPv4 has sockets of its own, so that both families see plain addresses
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_port(true)?;
    sys::enlarge_buffers(&socket, SOCKET_BYTES);
    if address.ip().is_unspecified() {
        sys::ask_for_destination(&socket, address.is_ipv6())?;
    }
    socket.bind(&address.into())?;
    Ok(socket)
}

impl UdpWorker {
    /// Starts a thread on `cpu` that answers what comes to `socket`.
    pub fn start(socket: socket2::Socket, cpu: usize, snapshot: SharedSnapshot) -> io::Result<Self> {
        let socket = Arc::new(socket);
        let stop = Arc::new(AtomicBool::new(false));
        let mut worker = Worker::new(fastrand::u64(..));
        let stats = worker.stats();
        let send_stats = Arc::new(SendStats::default());
        let thread = {
            let (socket, stop, send_stats) = (socket.clone(), stop.clone(), send_stats.clone());
            std::thread::Builder::new().name(format!("udp-{cpu}")).spawn(move || {
                if let Err(error) = sys::pin(cpu) {
                    debug!(cpu, %error, "a thread was not pinned to its CPU");
                }
                // A fault must cost the packets in hand, not the thread: its socket would swallow its share of queries.
                while catch_unwind(AssertUnwindSafe(|| {
                    serve(&socket, &stop, &mut worker, &snapshot, &send_stats)
                }))
                .is_err()
                {
                    send_stats.faults.fetch_add(1, Ordering::Relaxed);
                    error!("answering failed by a fault of the program; the packets in hand are lost");
                }
            })?
        };
        Ok(Self { socket, stop, thread: Some(thread), stats, send_stats })
    }

    /// Asks the thread to end once its queue is empty.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        // wakes the thread; says "not connected", but does it nevertheless
        let _ = self.socket.shutdown(std::net::Shutdown::Read);
    }
}

impl Drop for UdpWorker {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(
    socket: &socket2::Socket,
    stop: &AtomicBool,
    worker: &mut Worker,
    snapshot: &SharedSnapshot,
    faults: &SendStats,
) {
    let mut snapshot = arc_swap::Cache::new(&**snapshot);
    let mut batch = Batch::new(BATCH);
    let mut replies = Replies::new(BATCH, REPLY_BYTES);
    let mut spare: Vec<Query<'static>> = Vec::with_capacity(BATCH);
    let mut failures = 0_u32;
    let mut was_fragmenting = None;
    loop {
        let count = match batch.receive(socket) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                // e.g. an ICMP error of an earlier reply; never the end of the thread, and never a busy loop
                faults.receive_failed.fetch_add(1, Ordering::Relaxed);
                failures += 1;
                if stop.load(Ordering::Acquire) {
                    return;
                }
                if failures.is_multiple_of(1000) {
                    warn!(%error, failures, "receiving fails");
                    std::thread::sleep(std::time::Duration::from_millis(10));
                }
                continue;
            }
        };
        failures = 0;
        if batch.is_end() && stop.load(Ordering::Acquire) {
            return;
        }
        let mut queries = recycle(spare);
        queries.extend((0..count).map(|slot| {
            let (bytes, source) = batch.get(slot);
            Query { bytes, source, transport: Transport::Udp }
        }));
        let snapshot = snapshot.load();
        let is_fragmenting = snapshot.options.udp_size > UNFRAGMENTED;
        if was_fragmenting != Some(is_fragmenting) {
            sys::set_fragmenting(socket, is_fragmenting);
            was_fragmenting = Some(is_fragmenting);
        }
        respond(worker, snapshot, &queries, &mut replies, clock::now());
        spare = recycle(queries);
        batch.send(
            socket,
            count,
            |slot| replies.get(slot),
            |error| {
                let counter = match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => &faults.no_room,
                    Some(_) | None => &faults.failed,
                };
                counter.fetch_add(1, Ordering::Relaxed);
            },
        );
    }
}

/// Empties a vector and lets it be used for another lifetime; the memory is the same.
fn recycle<'b>(mut queries: Vec<Query<'_>>) -> Vec<Query<'b>> {
    queries.clear();
    queries.into_iter().map(|_| Query { bytes: &[], source: NOBODY, transport: Transport::Udp }).collect()
}

/// The source of a datagram that has none.
const NOBODY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recycling_keeps_the_memory() {
        let queries: Vec<Query<'_>> = Vec::with_capacity(64);
        let at = queries.as_ptr() as usize;
        let again = recycle(queries);
        assert_eq!((again.capacity(), again.as_ptr() as usize), (64, at));
    }
}
