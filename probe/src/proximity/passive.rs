//! Passive measuring: the round trip of a TCP client, which the kernel knows from its handshake.
//!
//! The front end calls [`Passive::look`] once for a connection, after its first answer: one system call, one push to a
//! bounded queue. A full queue drops and counts; nobody waits.

use std::{
    mem::{size_of, zeroed},
    net::IpAddr,
    os::fd::{AsFd, AsRawFd},
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
};

use portolan_balance::proximity::{PointId, Sample, Source};

use super::{address::AddressRules, prefix::Lengths};

/// A longer way is no way: such a time was spent in somebody's queue.
const LONGEST_US: u32 = 10_000_000;

/// Where passive samples come from, and what is made of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassiveSettings {
    /// How long measured prefixes are.
    pub lengths: Lengths,
    /// The link that an address of ours belongs to. A connection to any other address is measured for `site`.
    pub links: Vec<(IpAddr, PointId)>,
    /// The site as a whole; without it only connections to links' addresses are measured.
    pub site: Option<PointId>,
    /// Whose handshakes say nothing: the anycast list, our own addresses.
    pub addresses: AddressRules,
}

/// Counters of passive measuring.
#[derive(Debug, Default)]
pub struct PassiveCounters {
    /// Samples handed on.
    pub taken: AtomicU64,
    /// Samples for which the queue had no room.
    pub dropped: AtomicU64,
    /// Connections whose round trip the kernel does not know, as after a repeated SYN.
    pub unknown: AtomicU64,
    /// Connections of anycast and own addresses, and those to an address that is no point's.
    pub ignored: AtomicU64,
}

/// Takes the round trips of TCP clients.
#[derive(Debug)]
pub struct Passive {
    settings: PassiveSettings,
    samples: SyncSender<Sample>,
    /// Counters.
    pub counters: PassiveCounters,
}

impl Passive {
    /// Hands samples to the second value, which has room for `capacity` of them.
    #[must_use]
    pub fn new(settings: PassiveSettings, capacity: usize) -> (Self, Receiver<Sample>) {
        let (samples, receiver) = sync_channel(capacity.max(1));
        (Self { settings, samples, counters: PassiveCounters::default() }, receiver)
    }

    /// The same queue under other settings.
    #[must_use]
    pub fn with_settings(&self, settings: PassiveSettings) -> Self {
        Self { settings, samples: self.samples.clone(), counters: PassiveCounters::default() }
    }

    /// Looks at a connection that has answered its first query. `was_asked` tells that it came because it was
    /// solicited.
    pub fn look(&self, stream: &impl AsFd, local: IpAddr, peer: IpAddr, was_asked: bool) {
        let peer = peer.to_canonical();
        let Some(rtt_us) = rtt_of(stream) else {
            self.counters.unknown.fetch_add(1, Ordering::Relaxed);
            return;
        };
        self.take(local.to_canonical(), peer, rtt_us, was_asked);
    }

    fn take(&self, local: IpAddr, peer: IpAddr, rtt_us: u32, was_asked: bool) {
        let Self { settings, samples, counters } = self;
        // A private client is a client: it came by itself, and nobody is bothered by being measured so.
        let rules = &settings.addresses;
        let is_ignored = rules.is_anycast(peer) || rules.own.contains(peer) || rules.opted_out.contains(peer);
        let link = settings.links.iter().find(|(address, _)| *address == local);
        let point = link.map(|(_, point)| *point).or(settings.site);
        let Some(point) = point.filter(|_| !is_ignored) else {
            counters.ignored.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let sample = Sample {
            prefix: settings.lengths.prefix_of(peer),
            point,
            rtt_us: Some(rtt_us),
            hops: None,
            source: if was_asked { Source::Solicited } else { Source::Resolver },
        };
        let counter = match samples.try_send(sample) {
            Ok(()) => &counters.taken,
            Err(_) => &counters.dropped,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// The round trip of a TCP connection in microseconds, as the kernel has measured it: the least one it has seen, which
/// at a server is its SYN-ACK's at first. None where it has none.
#[must_use]
pub fn rtt_of(stream: &impl AsFd) -> Option<u32> {
    let info = tcp_info(stream)?;
    // all ones: the kernel has seen none (net/tcp.h)
    let is_known = |rtt_us: &u32| (1..=LONGEST_US).contains(rtt_us);
    Some(info.tcpi_min_rtt).filter(is_known).or_else(|| Some(info.tcpi_rtt).filter(is_known))
}

#[allow(unsafe_code)]
fn tcp_info(stream: &impl AsFd) -> Option<libc::tcp_info> {
    // SAFETY: all-zero bytes are a valid value of this C structure of numbers.
    let mut info: libc::tcp_info = unsafe { zeroed() };
    let mut length = libc::socklen_t::try_from(size_of::<libc::tcp_info>()).ok()?;
    // SAFETY: the kernel writes at most `length` octets to `info` and the length to `length`; both live through the
    // call. A socket of another kind is answered with an error. An older kernel writes less and the rest stays zero,
    // which `rtt_of` takes for unknown.
    let result = unsafe {
        libc::getsockopt(
            stream.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    (result == 0).then_some(info)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream, UdpSocket},
    };

    use super::*;
    use crate::proximity::prefix::text::{nets, prefix};

    #[test]
    fn the_kernel_knows_a_handshake() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, peer) = listener.accept().unwrap();
        client.write_all(b"query").unwrap();
        server.read_exact(&mut [0; 5]).unwrap();
        server.write_all(b"reply").unwrap();
        let rtt_us = rtt_of(&server).expect("a round trip");
        assert!((1..1_000_000).contains(&rtt_us), "{rtt_us}");
        assert!(rtt_of(&client).is_some());
        assert_eq!(rtt_of(&UdpSocket::bind("127.0.0.1:0").unwrap()), None);

        let settings = PassiveSettings { links: vec![(peer.ip(), PointId(3))], ..PassiveSettings::default() };
        let (passive, samples) = Passive::new(settings, 4);
        passive.look(&server, peer.ip(), peer.ip(), false);
        let sample = samples.try_recv().unwrap();
        assert_eq!((sample.prefix, sample.point), (prefix("127.0.0.0/24"), PointId(3)));
        assert!(sample.rtt_us.is_some_and(|rtt_us| rtt_us > 0));
    }

    #[test]
    fn whose_round_trips_count() {
        let rules = AddressRules {
            own: nets(&["20.1.1.0/24"]),
            opted_out: nets(&["20.2.0.0/16"]),
            ..AddressRules::default()
        };
        let settings = PassiveSettings {
            links: vec![("198.51.100.1".parse().unwrap(), PointId(1))],
            site: Some(PointId(0)),
            addresses: rules,
            ..PassiveSettings::default()
        };
        let (passive, samples) = Passive::new(settings, 3);
        for (local, peer, was_asked, expected) in [
            ("198.51.100.1", "5.6.7.8", false, Some(("5.6.7.0/24", PointId(1), Source::Resolver))),
            ("198.51.100.2", "5.6.7.8", true, Some(("5.6.7.0/24", PointId(0), Source::Solicited))),
            ("2a00::1", "2a01:1:2:3::4", false, Some(("2a01:1:2::/48", PointId(0), Source::Resolver))),
            ("198.51.100.1", "10.0.0.1", false, Some(("10.0.0.0/24", PointId(1), Source::Resolver))),
            ("198.51.100.1", "8.8.8.8", false, None),
            ("198.51.100.1", "20.1.1.9", false, None),
            ("198.51.100.1", "20.2.1.9", false, None),
        ] {
            passive.take(local.parse().unwrap(), peer.parse().unwrap(), 1234, was_asked);
            let found = samples.try_recv().ok().map(|sample| (sample.prefix, sample.point, sample.source));
            let expected = expected.map(|(net, point, source)| (prefix(net), point, source));
            assert_eq!(found, expected, "{peer}");
        }
        // nobody takes them: what has no room is dropped and counted
        for _ in 0..10 {
            passive.take([198, 51, 100, 1].into(), [5, 6, 7, 8].into(), 1, false);
        }
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &passive.counters;
        assert_eq!([count(&counters.taken), count(&counters.dropped), count(&counters.ignored)], [7, 7, 3]);
    }
}
