//! Query packets, built before the run: in groups of equal length, so that a group goes out in one segmented send.

use crate::world::zone::{self, SHAPES};
use crate::world::{DYNAMIC_NAMES, Networks, ORIGIN, STATIC_NAMES};

/// Packets in a group; a batch never crosses the end of one.
pub const GROUP: usize = 64;
/// Packets in a pool: a multiple of the number of ids, so that a packet's id is its place modulo 65,536.
const POOL: usize = 1 << 18;

/// What the reply must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// NOERROR with at least one record.
    Answer,
    /// NXDOMAIN.
    NoName,
}

/// How often the names of the zone are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Popularity {
    /// All alike.
    Uniform,
    /// The k-th in proportion to 1/k.
    Zipf,
}

/// Packets in sending order.
pub struct Pool {
    bytes: Vec<u8>,
    groups: Vec<Group>,
    expected: Vec<Expect>,
}

#[derive(Clone, Copy)]
struct Group {
    start: usize,
    length: usize,
    question: usize,
}

impl Pool {
    /// Static names with 10 % that do not exist; half of the groups carry EDNS.
    pub fn of_static_names(seed: u64, popularity: Popularity) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let ranks = Ranks::new(popularity, STATIC_NAMES / SHAPES.len());
        Self::build(|group| {
            let shape = random.usize(..SHAPES.len());
            let edns = group % 2 == 0;
            (0..GROUP)
                .map(|_| {
                    let (index, expect) = if random.u8(..10) == 0 {
                        let absent = random.usize(STATIC_NAMES / SHAPES.len()..2_400);
                        (absent * SHAPES.len() + shape, Expect::NoName)
                    } else {
                        (ranks.draw(&mut random) * SHAPES.len() + shape, Expect::Answer)
                    };
                    let kind = if zone::has_aaaa(index) && random.bool() { 28 } else { 1 };
                    (packet(&zone::static_name(index), kind, edns, None), expect)
                })
                .collect()
        })
    }

    /// Dynamic names, each query with the client subnet (RFC 7871) of a random /24 out of the networks.
    pub fn of_dynamic_names(seed: u64, networks: &Networks) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        Self::build(|_| {
            (0..GROUP)
                .map(|_| {
                    let name = zone::dynamic_name(random.usize(..DYNAMIC_NAMES));
                    let client = networks.random_client(&mut random);
                    (packet(&name, 1, true, Some(client)), Expect::Answer)
                })
                .collect()
        })
    }

    fn build(mut group: impl FnMut(usize) -> Vec<(Vec<u8>, Expect)>) -> Self {
        let mut pool = Self { bytes: Vec::new(), groups: Vec::new(), expected: Vec::with_capacity(POOL) };
        for number in 0..POOL / GROUP {
            let packets = group(number);
            let (length, question) =
                packets.first().map_or((0, 0), |(packet, _)| (packet.len(), question_end(packet)));
            pool.groups.push(Group { start: pool.bytes.len(), length, question });
            for (mut packet, expect) in packets {
                debug_assert_eq!(packet.len(), length, "a group's packets are equally long");
                packet[..2].copy_from_slice(&(pool.expected.len() as u16).to_be_bytes());
                pool.bytes.extend_from_slice(&packet);
                pool.expected.push(expect);
            }
        }
        pool
    }

    /// Up to `wanted` packets from place `sequence` on, all in one group: their bytes and the length of each.
    pub fn packets(&self, sequence: usize, wanted: usize) -> (&[u8], usize) {
        let place = sequence % POOL;
        let group = self.groups[place / GROUP];
        let first = place % GROUP;
        let count = wanted.min(GROUP - first);
        let start = group.start + first * group.length;
        (&self.bytes[start..start + count * group.length], group.length)
    }

    /// The header and question of the packet at place `sequence`, and what its reply must be.
    pub fn question(&self, sequence: usize) -> (&[u8], Expect) {
        let place = sequence % POOL;
        let group = self.groups[place / GROUP];
        let start = group.start + place % GROUP * group.length;
        (&self.bytes[start..start + group.question], self.expected[place])
    }

    /// The first `count` questions as dnsperf's input: a name and a type a line.
    pub fn as_text(&self, count: usize) -> String {
        (0..count.min(POOL)).map(|sequence| question_text(self.question(sequence).0)).collect()
    }
}

/// Draws a rank below a bound.
struct Ranks {
    cumulative: Vec<f64>,
}

impl Ranks {
    fn new(popularity: Popularity, count: usize) -> Self {
        let mut sum = 0.0;
        let share = |rank: usize| match popularity {
            Popularity::Uniform => 1.0,
            Popularity::Zipf => 1.0 / (rank + 1) as f64,
        };
        let cumulative = (0..count).map(|rank| {
            sum += share(rank);
            sum
        });
        Self { cumulative: cumulative.collect() }
    }

    fn draw(&self, random: &mut fastrand::Rng) -> usize {
        let total = self.cumulative.last().copied().unwrap_or(0.0);
        let draw = random.f64() * total;
        self.cumulative.partition_point(|&sum| sum <= draw).min(self.cumulative.len() - 1)
    }
}

/// A query for `name` under the origin: header, question, and the OPT record where wanted.
pub fn packet(name: &str, kind: u16, edns: bool, client: Option<[u8; 3]>) -> Vec<u8> {
    let mut packet = vec![0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(edns)];
    for label in name.split('.').chain(ORIGIN.split('.')) {
        packet.push(label.len() as u8);
        packet.extend_from_slice(label.as_bytes());
    }
    packet.push(0);
    packet.extend_from_slice(&kind.to_be_bytes());
    packet.extend_from_slice(&[0, 1]);
    if edns {
        // root, OPT, 1232 bytes, no flags (RFC 6891 6.1.2)
        packet.extend_from_slice(&[0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0]);
        match client {
            None => packet.extend_from_slice(&[0, 0]),
            // option 8, family IPv4, source /24, scope 0 (RFC 7871 6)
            Some([first, second, third]) => {
                packet.extend_from_slice(&[0, 11, 0, 8, 0, 7, 0, 1, 24, 0, first, second, third]);
            }
        }
    }
    packet
}

fn question_end(packet: &[u8]) -> usize {
    let mut place = 12;
    while let Some(&length @ 1..) = packet.get(place) {
        place += usize::from(length) + 1;
    }
    place + 5
}

fn question_text(question: &[u8]) -> String {
    let mut text = String::new();
    let mut place = 12;
    while let Some(&length @ 1..) = question.get(place) {
        let label = &question[place + 1..=place + usize::from(length)];
        text.extend(label.iter().map(|&byte| char::from(byte)));
        text.push('.');
        place += usize::from(length) + 1;
    }
    text + if question[place + 2] == 28 { " AAAA\n" } else { " A\n" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_has_its_ids_its_share_of_absent_names_and_equal_groups() {
        for popularity in [Popularity::Uniform, Popularity::Zipf] {
            let pool = Pool::of_static_names(1, popularity);
            let absent = pool.expected.iter().filter(|&&expect| expect == Expect::NoName).count();
            let share = absent as f64 / POOL as f64;
            assert!((0.095..0.105).contains(&share), "{share}");
            for sequence in [0, 63, 64, 65_535, 65_536, POOL - 1, POOL, POOL + 70] {
                let (question, _) = pool.question(sequence);
                assert_eq!(question[..2], (sequence as u16).to_be_bytes());
                let (packets, length) = pool.packets(sequence, 16);
                assert_eq!(packets.len() % length, 0);
                assert!(packets.starts_with(question));
            }
        }
    }

    #[test]
    fn clients_come_from_the_networks_and_vary() {
        let pool = Pool::of_dynamic_names(1, &Networks::generate(1, 1_000));
        let clients: std::collections::HashSet<Vec<u8>> = (0..1_000)
            .map(|sequence| {
                let (packet, length) = pool.packets(sequence, 1);
                assert_eq!(packet.len(), length);
                packet[length - 3..].to_vec()
            })
            .collect();
        assert!(clients.len() > 500, "{}", clients.len());
    }

    #[test]
    fn questions_read_back_as_text() {
        let text = Pool::of_static_names(1, Popularity::Uniform).as_text(50);
        assert_eq!(text.lines().count(), 50);
        for line in text.lines() {
            assert!(line.ends_with(".bench.test. A") || line.ends_with(".bench.test. AAAA"), "{line}");
        }
    }
}
