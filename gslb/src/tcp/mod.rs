//! DNS over TCP (RFC 7766): one task a connection, everything bounded.
//!
//! ```text
//! accept ─► Crowd (limit; the one idle longest goes) ─► task: read ─► frames ─► dns::respond ─► write
//!                                              after the first answer: how far is the client? ─► Passive
//! ```
//! A connection is read only while nothing waits to be written to it, so a slow reader holds at most one round of
//! replies and a partial query. Queries are answered in their order.

mod crowd;

use crate::clock;
use crate::engine::SharedSnapshot;
use arc_swap::{ArcSwap, ArcSwapOption};
use crowd::{Crowd, Member};
use portolan_dns::respond::{Query, Replies, Transport, Worker, WorkerStats, respond};
use portolan_probe::proximity::Passive;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tracing::{trace, warn};

/// Replies are written as soon as so much of them is there.
const ROUND_BYTES: usize = 64 << 10;
/// Buffer of an idle connection; one that has grown is given back.
const IDLE_BYTES: usize = 1 << 10;

/// Limits of TCP: `[dns.tcp]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once.
    pub connections: usize,
    /// A connection without a query is closed after this.
    pub idle: Duration,
    /// A query that has begun must arrive whole, and its answer be taken, within this.
    pub query: Duration,
    /// Queries answered in one round.
    pub pipeline: usize,
}

impl Default for Limits {
    fn default() -> Self {
        let (idle, query) = (Duration::from_secs(10), Duration::from_secs(5));
        Self { connections: 10_000, idle, query, pipeline: 64 }
    }
}

/// Counters of all connections.
#[derive(Debug, Default)]
pub struct TcpStats {
    /// Connections accepted.
    pub accepted: AtomicU64,
    /// Connections closed because there were too many.
    pub evicted: AtomicU64,
    /// Connections closed because nothing came, or an answer was not taken, for too long.
    pub timed_out: AtomicU64,
    /// Accept calls that failed.
    pub accept_failed: AtomicU64,
}

/// What all connections share.
#[derive(Debug)]
pub struct Tcp {
    snapshot: SharedSnapshot,
    limits: ArcSwap<Limits>,
    crowd: Arc<Crowd>,
    desks: Box<[Mutex<Desk>]>,
    next_desk: AtomicUsize,
    passive: ArcSwapOption<Passive>,
    /// Counters.
    pub stats: TcpStats,
    worker_stats: Vec<Arc<WorkerStats>>,
}

/// A worker with the buffer it answers into. There are a few of them for all connections: answering is short.
#[derive(Debug)]
struct Desk {
    worker: Worker,
    replies: Replies,
}

impl Tcp {
    /// Ready to accept.
    #[must_use]
    pub fn new(snapshot: SharedSnapshot, limits: Limits, desks: usize) -> Self {
        let desks: Vec<Desk> = (0..desks.max(1))
            .map(|_| Desk { worker: Worker::new(fastrand::u64(..)), replies: Replies::new(1, 65_535) })
            .collect();
        Self {
            snapshot,
            limits: ArcSwap::from_pointee(limits),
            crowd: Arc::new(Crowd::default()),
            worker_stats: desks.iter().map(|desk| desk.worker.stats()).collect(),
            desks: desks.into_iter().map(Mutex::new).collect(),
            next_desk: AtomicUsize::new(0),
            passive: ArcSwapOption::empty(),
            stats: TcpStats::default(),
        }
    }

    /// Sets the limits for what comes from now on.
    pub fn set_limits(&self, limits: Limits) {
        self.limits.store(Arc::new(limits));
    }

    /// Who takes the round trips of clients (X 2, X 3); nobody at first.
    pub fn set_passive(&self, passive: Option<Arc<Passive>>) {
        self.passive.store(passive);
    }

    /// Connections there are.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.crowd.len()
    }

    /// What was answered.
    #[must_use]
    pub fn worker_stats(&self) -> &[Arc<WorkerStats>] {
        &self.worker_stats
    }

    /// Accepts until `stop` says true or is gone. What the kernel has accepted by then is still served.
    pub async fn accept(self: Arc<Self>, listener: TcpListener, mut stop: watch::Receiver<bool>) {
        loop {
            let accepted = tokio::select! {
                biased;
                accepted = listener.accept() => accepted,
                _ = stop.wait_for(|stop| *stop) => return,
            };
            match accepted {
                Ok((stream, peer)) => self.welcome(stream, peer),
                Err(error) => {
                    // out of files or memory: the oldest makes room, and a pause keeps the log and the CPU quiet
                    if self.stats.accept_failed.fetch_add(1, Ordering::Relaxed).is_multiple_of(1000) {
                        warn!(%error, "accepting a TCP connection failed");
                    }
                    if self.crowd.evict(peerless()) {
                        self.stats.evicted.fetch_add(1, Ordering::Relaxed);
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }
    }

    fn welcome(self: &Arc<Self>, stream: TcpStream, peer: SocketAddr) {
        self.stats.accepted.fetch_add(1, Ordering::Relaxed);
        let limit = self.limits.load().connections;
        while self.crowd.len() >= limit.max(1) && self.crowd.evict(peer.ip()) {
            self.stats.evicted.fetch_add(1, Ordering::Relaxed);
        }
        let (member, evicted) = self.crowd.join(peer.ip());
        let tcp = self.clone();
        tokio::spawn(async move {
            tokio::select! {
                result = tcp.converse(stream, peer, &member) => {
                    if let Err(error) = result {
                        if error.kind() == io::ErrorKind::TimedOut {
                            tcp.stats.timed_out.fetch_add(1, Ordering::Relaxed);
                        }
                        trace!(%peer, %error, "a TCP connection ended");
                    }
                }
                () = evicted.notified() => {}
            }
        });
    }

    /// Serves one connection until its end.
    async fn converse(&self, mut stream: TcpStream, peer: SocketAddr, member: &Member) -> io::Result<()> {
        let _ = stream.set_nodelay(true);
        let mut input = Vec::with_capacity(IDLE_BYTES);
        let mut output = Vec::new();
        let (mut is_open, mut is_measured) = (true, false);
        while is_open {
            let limits = **self.limits.load();
            is_open = read_query(&mut stream, &mut input, &limits).await?;
            member.touch();
            // case W26: what came whole is answered, also behind a half-closed connection
            let mut taken = 0;
            loop {
                let answered = self.answer(&input[taken..], peer, limits.pipeline, &mut output);
                if answered == 0 {
                    break;
                }
                taken += answered;
                timeout_at(Instant::now() + limits.query, stream.write_all(&output)).await??;
                output.clear();
                member.touch();
                if !is_measured {
                    is_measured = true;
                    self.measure(&stream, peer);
                }
            }
            input.drain(..taken);
            if input.is_empty() && input.capacity() > IDLE_BYTES {
                input = Vec::with_capacity(IDLE_BYTES);
            }
            output.shrink_to(IDLE_BYTES);
        }
        timeout_at(Instant::now() + Duration::from_secs(1), stream.shutdown()).await?
    }

    /// Takes a connection's round trip. Behind the first answer, so that it delays none, and once: what the kernel
    /// measures later has the client's pauses in it.
    fn measure(&self, stream: &TcpStream, peer: SocketAddr) {
        let passive = self.passive.load();
        if let Some(passive) = &*passive
            && let Ok(local) = stream.local_addr()
        {
            let measure = &self.snapshot.load().options.measure;
            let mono_s = clock::now().mono_s();
            let was_asked = measure.as_ref().is_some_and(|measure| measure.has_solicited(peer.ip(), mono_s));
            passive.look(stream, local.ip(), peer.ip(), was_asked);
        }
    }

    /// Answers the whole queries at the head of `input` until a round is full. Returns how many octets they were.
    fn answer(&self, input: &[u8], peer: SocketAddr, most: usize, output: &mut Vec<u8>) -> usize {
        if frame(input).is_none() {
            return 0;
        }
        let mut taken = 0;
        let mut desk = self.desk();
        let Desk { worker, replies } = &mut *desk;
        let snapshot = self.snapshot.load();
        let now = clock::now();
        for _ in 0..most.max(1) {
            let Some(bytes) = input.get(taken..).and_then(frame) else { break };
            taken += 2 + bytes.len();
            respond(
                worker,
                &snapshot,
                &[Query { bytes, source: peer, transport: Transport::Tcp }],
                replies,
                now,
            );
            if let Some(reply) = replies.get(0) {
                output.extend_from_slice(&(reply.len() as u16).to_be_bytes());
                output.extend_from_slice(reply);
            }
            if output.len() >= ROUND_BYTES {
                break;
            }
        }
        taken
    }

    /// A desk that nobody uses now, or else the next one's.
    fn desk(&self) -> MutexGuard<'_, Desk> {
        let start = self.next_desk.fetch_add(1, Ordering::Relaxed);
        let count = self.desks.len();
        let free = (0..count).find_map(|i| self.desks.get((start + i) % count)?.try_lock().ok());
        free.unwrap_or_else(|| self.desks[start % count].lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Reads until a whole query is there. False at the end of the stream; what came before it is in `input`.
async fn read_query(stream: &mut TcpStream, input: &mut Vec<u8>, limits: &Limits) -> io::Result<bool> {
    let mut deadline = Instant::now() + if input.is_empty() { limits.idle } else { limits.query };
    while frame(input).is_none() {
        let was_empty = input.is_empty();
        if input.capacity() == input.len() {
            // grows with what really comes, not with what a length prefix promises
            input.reserve(input.len().clamp(IDLE_BYTES, 2 + 65_535));
        }
        if timeout_at(deadline, stream.read_buf(input)).await?? == 0 {
            return Ok(false);
        }
        if was_empty {
            deadline = Instant::now() + limits.query;
        }
    }
    Ok(true)
}

/// The message at the head of a stream, when it is there whole.
fn frame(input: &[u8]) -> Option<&[u8]> {
    let length = usize::from(u16::from_be_bytes(*input.first_chunk()?));
    input.get(2..2 + length)
}

/// The newcomer when there is none.
fn peerless() -> std::net::IpAddr {
    std::net::Ipv4Addr::UNSPECIFIED.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames() {
        let cases: [(&[u8], Option<&[u8]>); 6] = [
            (&[], None),
            (&[0], None),
            (&[0, 0], Some(&[])),
            (&[0, 2, 7], None),
            (&[0, 2, 7, 8, 9], Some(&[7, 8])),
            (&[0x7d, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10], None),
        ];
        for (input, expected) in cases {
            assert_eq!(frame(input), expected, "{input:?}");
        }
    }

    /// A client is measured once a connection, behind its first answer, and not before it has asked.
    #[tokio::test]
    async fn clients_are_measured() {
        let (catalog, _) = portolan_dns::catalog::Catalog::build(Vec::new(), Vec::new()).unwrap();
        let snapshot = portolan_dns::respond::Snapshot {
            catalog: Arc::new(catalog),
            view: Arc::new(portolan_balance::View::empty()),
            options: Arc::default(),
        };
        let tcp = Arc::new(Tcp::new(Arc::new(ArcSwap::from_pointee(snapshot)), Limits::default(), 1));
        let settings = portolan_probe::proximity::PassiveSettings {
            site: Some(portolan_balance::proximity::PointId(5)),
            ..Default::default()
        };
        let (passive, samples) = Passive::new(settings, 4);
        tcp.set_passive(Some(Arc::new(passive)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (_stop, stopped) = watch::channel(false);
        tokio::spawn(tcp.clone().accept(listener, stopped));

        let idle = TcpStream::connect(address).await.unwrap();
        let mut client = TcpStream::connect(address).await.unwrap();
        for _ in 0..3 {
            // "." NS: not ours
            let query = [0, 17, 7, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1];
            client.write_all(&query).await.unwrap();
            let mut reply = [0; 19];
            client.read_exact(&mut reply).await.unwrap();
            assert_eq!((reply[2..4].to_vec(), reply[5] & 15), (vec![7, 7], 5));
        }
        // both connections end, and with them whatever they might still do
        drop((client, idle));
        timeout_at(Instant::now() + Duration::from_secs(20), async {
            while tcp.connections() > 0 {
                tokio::task::yield_now().await;
            }
        })
        .await
        .unwrap();
        let samples: Vec<_> = samples.try_iter().collect();
        let [sample] = samples[..] else { panic!("{samples:?}") };
        assert_eq!(sample.prefix.to_string(), "127.0.0.0/24");
        assert_eq!(sample.point.0, 5);
        assert!(sample.rtt_us.is_some_and(|rtt_us| (1..1_000_000).contains(&rtt_us)), "{sample:?}");
    }
}
