//! What becomes of a packet, and when: pure, so that every delay, loss and drop can be tested without a network.
//!
//! ```text
//!  arrive ─► to which port ─► cut? UDP dropped? hop limit? lost? ─► queue by due time ─► depart
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;

/// Packets in flight; more are dropped and counted.
const QUEUE_PACKETS: usize = 50_000;
/// Their octets.
const QUEUE_OCTETS: usize = 64 << 20;

/// The way from one port to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Delay of each packet.
    pub delay: Duration,
    /// Most that chance adds to it. Packets stay in order.
    pub jitter: Duration,
    /// Packets lost by chance, of a thousand.
    pub loss_permille: u16,
    /// Routers on the way: what is taken from the hop limit.
    pub hops: u8,
    /// Nothing gets through.
    pub is_cut: bool,
    /// UDP does not get through, all else does.
    pub drops_udp: bool,
}

impl Default for Path {
    fn default() -> Self {
        Self {
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            loss_permille: 0,
            hops: 1,
            is_cut: false,
            drops_udp: false,
        }
    }
}

/// What became of the packets so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Delivered.
    pub forwarded: u64,
    /// No IP packet.
    pub malformed: u64,
    /// Nobody has its destination.
    pub no_route: u64,
    /// On a path that is cut, or was while the packet was on its way.
    pub cut: u64,
    /// UDP where that is dropped.
    pub filtered: u64,
    /// Its hop limit was too low for the path.
    pub hop_limit: u64,
    /// Lost by chance.
    pub lost: u64,
    /// The queue was full.
    pub queue_full: u64,
    /// The kernel did not take it.
    pub refused: u64,
}

/// The network between the ports.
pub(super) struct Router {
    /// What lies behind each port.
    ports: Vec<Vec<IpNet>>,
    /// By `from * ports + to`.
    paths: Vec<Way>,
    queue: BinaryHeap<Reverse<Queued>>,
    octets: usize,
    arrivals: u64,
    dice: fastrand::Rng,
    pub(super) counts: Counts,
}

#[derive(Clone, Copy, Default)]
struct Way {
    path: Path,
    /// When its last packet is due: the next one does not overtake it.
    last_due: Duration,
}

/// Ordered by due time, then by arrival.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Queued {
    due: Duration,
    arrival: u64,
    from: usize,
    to: usize,
    packet: Vec<u8>,
}

impl Router {
    pub(super) fn new(ports: Vec<Vec<IpNet>>, seed: u64) -> Self {
        let paths = vec![Way::default(); ports.len() * ports.len()];
        Self {
            ports,
            paths,
            queue: BinaryHeap::new(),
            octets: 0,
            arrivals: 0,
            dice: fastrand::Rng::with_seed(seed),
            counts: Counts::default(),
        }
    }

    pub(super) fn path(&mut self, from: usize, to: usize) -> &mut Path {
        let width = self.ports.len();
        &mut self.paths[from * width + to].path
    }

    /// Takes a packet that has come in by a port.
    pub(super) fn arrive(&mut self, now: Duration, from: usize, mut packet: Vec<u8>) {
        let Some(header) = Header::parse(&packet) else {
            self.counts.malformed += 1;
            return;
        };
        let Some(to) = self.route(header.destination).filter(|to| *to != from) else {
            self.counts.no_route += 1;
            return;
        };
        let path = *self.path(from, to);
        let dropped = if path.is_cut {
            Some(&mut self.counts.cut)
        } else if path.drops_udp && header.is_udp {
            Some(&mut self.counts.filtered)
        } else if !header.lower(&mut packet, path.hops) {
            Some(&mut self.counts.hop_limit)
        } else if path.loss_permille > 0 && self.dice.u16(..1000) < path.loss_permille {
            Some(&mut self.counts.lost)
        } else if self.queue.len() >= QUEUE_PACKETS || self.octets + packet.len() > QUEUE_OCTETS {
            Some(&mut self.counts.queue_full)
        } else {
            None
        };
        match dropped {
            Some(count) => *count += 1,
            None => self.enqueue(now, from, to, packet),
        }
    }

    /// The next packet that is due, with the port it leaves by.
    pub(super) fn depart(&mut self, now: Duration) -> Option<(usize, Vec<u8>)> {
        // bounded by the queue
        while self.queue.peek().is_some_and(|Reverse(first)| first.due <= now) {
            let Reverse(Queued { from, to, packet, .. }) = self.queue.pop()?;
            self.octets -= packet.len();
            if self.path(from, to).is_cut {
                self.counts.cut += 1;
            } else {
                self.counts.forwarded += 1;
                return Some((to, packet));
            }
        }
        None
    }

    /// When the next packet is due.
    pub(super) fn next_due(&self) -> Option<Duration> {
        self.queue.peek().map(|Reverse(first)| first.due)
    }

    fn enqueue(&mut self, now: Duration, from: usize, to: usize, packet: Vec<u8>) {
        let width = self.ports.len();
        let way = &mut self.paths[from * width + to];
        let jitter = way.path.jitter.mul_f64(self.dice.f64());
        way.last_due = (now + way.path.delay + jitter).max(way.last_due);
        self.octets += packet.len();
        self.arrivals += 1;
        self.queue.push(Reverse(Queued { due: way.last_due, arrival: self.arrivals, from, to, packet }));
    }

    /// The port with the longest prefix that holds the address.
    fn route(&self, destination: IpAddr) -> Option<usize> {
        let ways =
            self.ports.iter().enumerate().flat_map(|(port, nets)| nets.iter().map(move |net| (net, port)));
        ways.filter(|(net, _)| net.contains(&destination))
            .max_by_key(|(net, _)| net.prefix_len())
            .map(|(_, port)| port)
    }
}

/// What a router reads of a packet.
struct Header {
    destination: IpAddr,
    /// Not where extension headers precede it.
    is_udp: bool,
}

impl Header {
    fn parse(packet: &[u8]) -> Option<Self> {
        let udp = u8::try_from(libc::IPPROTO_UDP).ok()?;
        match packet.first()? >> 4 {
            4 if packet.len() >= 20 => {
                let address: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
                Some(Self { destination: address.into(), is_udp: packet.get(9) == Some(&udp) })
            }
            6 if packet.len() >= 40 => {
                let address: [u8; 16] = packet.get(24..40)?.try_into().ok()?;
                Some(Self { destination: address.into(), is_udp: packet.get(6) == Some(&udp) })
            }
            _ => None,
        }
    }

    /// Takes hops from the hop limit; whether any is left.
    fn lower(&self, packet: &mut [u8], hops: u8) -> bool {
        let place = if self.destination.is_ipv4() { 8 } else { 7 };
        let left = packet[place].saturating_sub(hops);
        if left == 0 {
            return false;
        }
        packet[place] = left;
        if self.destination.is_ipv4() {
            let length = (usize::from(packet[0] & 15) * 4).clamp(20, packet.len());
            packet[10..12].fill(0);
            let sum = checksum(&packet[..length]);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        true
    }
}

/// The Internet checksum (RFC 1071).
pub(crate) fn checksum(octets: &[u8]) -> u16 {
    let sum: u64 = octets
        .chunks(2)
        .map(|pair| u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)])))
        .sum();
    // of at most 64 KiB: two foldings are enough
    let folded = (sum >> 16) + (sum & 0xffff);
    !(((folded >> 16) + (folded & 0xffff)) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn router(seed: u64) -> Router {
        let nets = |text: &str| text.split(' ').map(|net| net.parse().unwrap()).collect();
        Router::new(
            vec![nets("10.1.0.0/16 fd01::/16"), nets("10.2.0.0/16 fd02::/16"), nets("10.2.3.0/24")],
            seed,
        )
    }

    fn v4(destination: [u8; 4], ttl: u8, protocol: i32) -> Vec<u8> {
        let mut packet = vec![0; 28];
        packet[0] = 0x45;
        packet[8] = ttl;
        packet[9] = protocol as u8;
        packet[16..20].copy_from_slice(&destination);
        packet
    }

    fn all(router: &mut Router, now: Duration) -> Vec<(usize, Vec<u8>)> {
        std::iter::from_fn(|| router.depart(now)).collect()
    }

    #[test]
    fn the_longest_prefix_gets_the_packet_when_it_is_due() {
        let mut router = router(1);
        router.path(0, 1).delay = 20 * MS;
        router.path(0, 2).delay = 10 * MS;
        router.arrive(5 * MS, 0, v4([10, 2, 0, 1], 64, 6));
        router.arrive(5 * MS, 0, v4([10, 2, 3, 1], 64, 6));
        assert_eq!(router.next_due(), Some(15 * MS));
        assert!(router.depart(14 * MS).is_none());
        assert_eq!(all(&mut router, 15 * MS).len(), 1);
        assert!(router.depart(24 * MS).is_none());
        assert_eq!(all(&mut router, 25 * MS)[0].0, 1);
        assert_eq!(router.counts.forwarded, 2);
        assert_eq!(router.octets, 0);
    }

    #[test]
    fn both_families_lose_hops_and_the_checksum_holds() {
        let mut router = router(1);
        router.path(0, 1).hops = 12;
        router.arrive(MS, 0, v4([10, 2, 0, 1], 64, 6));
        let mut v6 = vec![0; 48];
        v6[0] = 0x60;
        v6[7] = 255;
        v6[24..26].copy_from_slice(&[0xfd, 0x02]);
        router.arrive(MS, 0, v6);
        let packets = all(&mut router, MS);
        assert_eq!((packets[0].1[8], packets[1].1[7]), (52, 243));
        assert_eq!(checksum(&packets[0].1[..20]), 0);
        router.arrive(MS, 0, v4([10, 2, 0, 1], 12, 6));
        assert_eq!(router.counts.hop_limit, 1);
    }

    #[test]
    fn what_cannot_be_delivered_is_counted() {
        let mut router = router(1);
        router.path(0, 1).drops_udp = true;
        let bad: [Vec<u8>; 5] = [vec![], vec![0x45; 19], vec![0x60; 39], vec![0x10; 60], vec![0; 60]];
        for packet in bad {
            router.arrive(MS, 0, packet);
        }
        router.arrive(MS, 0, v4([10, 9, 0, 1], 64, 6));
        router.arrive(MS, 0, v4([10, 1, 0, 9], 64, 6));
        router.arrive(MS, 0, v4([10, 2, 0, 1], 64, libc::IPPROTO_UDP));
        router.arrive(MS, 0, v4([10, 2, 0, 1], 64, libc::IPPROTO_TCP));
        router.path(0, 1).is_cut = true;
        router.arrive(MS, 0, v4([10, 2, 0, 1], 64, libc::IPPROTO_TCP));
        assert!(all(&mut router, MS).is_empty(), "what was on its way is cut, too");
        let expected = Counts { malformed: 5, no_route: 2, filtered: 1, cut: 2, ..Counts::default() };
        assert_eq!(router.counts, expected);
    }

    #[test]
    fn jitter_keeps_the_order_and_loss_its_share() {
        let seed = fastrand::u64(..);
        let mut router = router(seed);
        *router.path(0, 1) = Path { delay: 10 * MS, jitter: 5 * MS, loss_permille: 100, ..Path::default() };
        for number in 0..10_000_u16 {
            let mut packet = v4([10, 2, 0, 1], 64, 6);
            packet[4..6].copy_from_slice(&number.to_be_bytes());
            router.arrive(Duration::from_micros(u64::from(number)), 0, packet);
        }
        assert!(router.depart(10 * MS).is_none(), "seed {seed}");
        let packets = all(&mut router, 30 * MS);
        assert!(packets.is_sorted_by_key(|(_, packet)| [packet[4], packet[5]]), "seed {seed}");
        // six standard deviations of 30
        assert!(router.counts.lost.abs_diff(1000) < 180, "seed {seed}: {:?}", router.counts);
        assert_eq!(router.counts.forwarded + router.counts.lost, 10_000);
    }

    #[test]
    fn a_full_queue_drops() {
        let mut router = router(1);
        router.path(0, 1).delay = MS;
        for _ in 0..QUEUE_PACKETS + 3 {
            router.arrive(MS, 0, v4([10, 2, 0, 1], 64, 6));
        }
        assert_eq!(router.counts.queue_full, 3);
        assert_eq!(all(&mut router, 2 * MS).len(), QUEUE_PACKETS);
    }
}
