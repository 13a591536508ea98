//! ICMP echo: one socket for each family and source address, shared by all that send from there.

use std::{
    collections::HashMap,
    future::{Future, poll_fn},
    net::{IpAddr, SocketAddr},
    pin::pin,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU16, Ordering},
    },
    time::{Duration, Instant},
};

use surge_ping::{Client, Config, ICMP, IcmpPacket, PingIdentifier, PingSequence, SurgeError};

use super::{failed, icmp_socket};
use crate::{
    kind::IcmpDef,
    verdict::{Reason, Verdict, What},
};

/// The sockets for echoes.
pub(crate) struct Pingers {
    clients: Mutex<HashMap<(bool, Option<IpAddr>), Client>>,
    identifier: PingIdentifier,
    /// Counts over all targets. An answer is told apart by target, identifier and sequence, and no more checks than
    /// there are sequences are in flight, so a late answer is not taken for another's.
    sequence: AtomicU16,
    /// Which kind of socket is tried first: a raw one hands out the IPv4 header, too.
    first: socket2::Type,
}

/// What came back for an echo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Echo {
    /// The target's answer.
    Answered {
        /// The round trip.
        time: Duration,
        /// What is left of its hops, where the socket shows it.
        ttl: Option<u8>,
    },
    /// What a router said in place of the target.
    Error(String),
}

impl Default for Pingers {
    fn default() -> Self {
        Self {
            clients: Mutex::default(),
            identifier: PingIdentifier(fastrand::u16(..)),
            sequence: AtomicU16::new(fastrand::u16(..)),
            first: socket2::Type::DGRAM,
        }
    }
}

impl Pingers {
    /// The same, with sockets that show how far answers have come where that is allowed.
    pub(crate) fn for_hops() -> Self {
        Self { first: socket2::Type::RAW, ..Self::default() }
    }

    /// Opens the socket for this family and source, if it is not open.
    pub(crate) fn open(&self, v4: bool, source: Option<IpAddr>) -> Result<(), Reason> {
        self.client(v4, source).map(drop)
    }

    /// Sends an echo for a check and waits for its answer. Whoever calls bounds the time.
    pub(super) async fn ping(
        &self,
        address: IpAddr,
        source: Option<IpAddr>,
        def: &IcmpDef,
    ) -> Result<Verdict, Reason> {
        match self.echo(address, source, &vec![0x50; usize::from(def.size)]).await? {
            Echo::Answered { time, .. } => Ok(Verdict::good(format!("answered in {time:.1?}"))),
            Echo::Error(error) => Err(failed(What::Connect, format!("{address}: {error}"))),
        }
    }

    /// Sends an echo and waits for what comes back. Whoever calls bounds the time.
    pub(crate) async fn echo(
        &self,
        address: IpAddr,
        source: Option<IpAddr>,
        payload: &[u8],
    ) -> Result<Echo, Reason> {
        let client = self.client(address.is_ipv4(), source)?;
        let mut pinger = client.pinger(address, self.identifier).await;
        pinger.timeout(crate::LONGEST);
        let sequence = PingSequence(self.sequence.fetch_add(1, Ordering::Relaxed));
        let mut ping = pin!(pinger.ping(sequence, payload));
        // The library's time begins after it has sent. A thread that was stopped in between would make the way seem
        // shorter than it is, and the minimum of several would choose that one: the time of sending is added.
        let mut sending = None;
        let result = poll_fn(|context| {
            let began = Instant::now();
            let polled = ping.as_mut().poll(context);
            sending.get_or_insert_with(|| began.elapsed());
            polled
        });
        match result.await {
            Ok((packet, time)) => {
                let time = time + sending.unwrap_or_default();
                let answered = Echo::Answered { time, ttl: ttl_of(&packet) };
                Ok(error_of(&packet).map_or(answered, Echo::Error))
            }
            Err(SurgeError::IOError(error)) => Err(failed(What::Connect, format!("{address}: {error}"))),
            Err(error) => Err(failed(What::Local, format!("{address}: {error}"))),
        }
    }

    /// The socket for this family and source, opened at the first use. A failure is not kept: privilege or address
    /// may come later.
    fn client(&self, v4: bool, source: Option<IpAddr>) -> Result<Client, Reason> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&(v4, source)) {
            return Ok(client.clone());
        }
        let kind = if v4 { ICMP::V4 } else { ICMP::V6 };
        let mut config = Config::builder().kind(kind).sock_type_hint(self.first);
        if let Some(source) = source {
            config = config.bind(SocketAddr::new(source, 0));
        }
        let client = Client::new(&config.build()).map_err(|error| cannot_open(source, &error))?;
        icmp_socket::tune(client.get_socket().get_native_sock(), v4);
        clients.insert((v4, source), client.clone());
        Ok(client)
    }
}

fn ttl_of(packet: &IcmpPacket) -> Option<u8> {
    match packet {
        IcmpPacket::V4(packet) => packet.get_ttl(),
        // the kernel keeps the header to itself
        IcmpPacket::V6(_) => None,
    }
}

/// What a router said in place of the target: the library hands out its errors like answers.
fn error_of(packet: &IcmpPacket) -> Option<String> {
    let (reply, kind, code, from) = match packet {
        IcmpPacket::V4(packet) => {
            let (kind, code) = (packet.get_icmp_type().0, packet.get_icmp_code().0);
            (0, kind, code, IpAddr::V4(packet.get_source()))
        }
        IcmpPacket::V6(packet) => {
            let (kind, code) = (packet.get_icmpv6_type().0, packet.get_icmpv6_code().0);
            (129, kind, code, IpAddr::V6(packet.get_source()))
        }
    };
    (kind != reply).then(|| format!("ICMP error type {kind} code {code} from {from}"))
}

/// link.md case 37: without privilege the error says what to do.
fn cannot_open(source: Option<IpAddr>, error: &std::io::Error) -> Reason {
    match (error.kind(), source) {
        (std::io::ErrorKind::PermissionDenied, _) => failed(
            What::Local,
            "no right to send ICMP; give CAP_NET_RAW, open net.ipv4.ping_group_range, or check by tcp instead",
        ),
        (_, Some(source)) => super::bad_source(source, error),
        (_, None) => failed(What::Local, format!("no ICMP socket: {error}")),
    }
}
