//! The scheduler under a virtual clock, against simple models.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
};

use portolan_balance::proximity::{PointId, Source};

use super::*;
use crate::proximity::prefix::{
    Lengths,
    text::{nets, prefix},
};

fn policy(points: usize) -> Policy {
    let sender = |n: usize| Sender {
        point: PointId(n as u16),
        v4: Some([198, 51, 100, n as u8 + 1].into()),
        v6: None,
    };
    Policy { enabled: true, senders: (0..points).map(sender).collect(), ..Policy::default() }
}

fn client(address: impl Into<IpAddr>, evidence: Evidence) -> Wanted {
    Wanted::by_query(address.into(), None, evidence, Lengths::default()).unwrap()
}

fn count(pacer: &Pacer, refusal: Refusal) -> u64 {
    pacer.counters().refused[refusal as usize]
}

/// A world that probes are sent into: when which outcome comes.
struct World<'a> {
    pacer: &'a mut Pacer,
    now_ms: u64,
    pending: BTreeSet<(u64, ProbeId)>,
    outcomes: BTreeMap<ProbeId, Outcome>,
    sent: Vec<(u64, Probe)>,
    /// Places in `sent` at which rounds begin.
    begins: BTreeSet<usize>,
    most_in_flight: usize,
}

impl<'a> World<'a> {
    fn new(pacer: &'a mut Pacer) -> Self {
        Self {
            pacer,
            now_ms: 0,
            pending: BTreeSet::new(),
            outcomes: BTreeMap::new(),
            sent: Vec::new(),
            begins: BTreeSet::new(),
            most_in_flight: 0,
        }
    }

    /// Runs until `end_ms`. The fate of a probe is its outcome and how long that takes; `None` is never told.
    fn run(&mut self, end_ms: u64, mut fate: impl FnMut(&Probe) -> Option<(u64, Outcome)>) {
        loop {
            let mut rounds = self.pacer.counters().rounds;
            while let Some(probe) = self.pacer.next_probe(self.now_ms) {
                if self.pacer.counters().rounds > rounds {
                    rounds += 1;
                    self.begins.insert(self.sent.len());
                }
                self.sent.push((self.now_ms, probe));
                if let Some((after_ms, outcome)) = fate(&probe) {
                    self.pending.insert((self.now_ms + after_ms, probe.id));
                    self.outcomes.insert(probe.id, outcome);
                }
                self.most_in_flight = self.most_in_flight.max(self.pacer.load().1);
            }
            let told = self.pending.first().map(|(at_ms, _)| *at_ms);
            let Some(next_ms) = [self.pacer.deadline_ms(), told].into_iter().flatten().min() else { break };
            if next_ms > end_ms {
                break;
            }
            assert!(next_ms >= self.now_ms, "the clock goes back");
            self.now_ms = next_ms;
            while let Some(&(at_ms, id)) = self.pending.first()
                && at_ms <= self.now_ms
            {
                self.pending.pop_first();
                self.pacer.done(self.now_ms, id, self.outcomes[&id]);
            }
        }
        self.now_ms = end_ms;
    }

    fn samples(&mut self) -> Vec<Sample> {
        std::iter::from_fn(|| self.pacer.next_sample()).collect()
    }
}

fn answered(rtt_us: u32) -> Outcome {
    Outcome::Answered { rtt_us, hops: Some(7) }
}

/// The order of methods, the tries, and what other points learn from the first.
#[test]
fn rounds() {
    use Method::{Dns, Icmp, Tcp};
    use Outcome::{Refused, Silent, Unable};
    struct Case {
        name: &'static str,
        /// Method, point, outcome: what each probe in turn must be and what becomes of it.
        probes: &'static [(Method, u8, Outcome)],
        samples: &'static [(u16, Option<u32>, Source)],
        silent_rounds: Option<u32>,
    }
    const A9: Outcome = Outcome::Answered { rtt_us: 9, hops: None };
    const A5: Outcome = Outcome::Answered { rtt_us: 5, hops: None };
    let cases = [
        Case {
            name: "the minimum of three, and the other point by the same method",
            probes: &[
                (Icmp, 1, A9),
                (Icmp, 1, A5),
                (Icmp, 1, A9),
                (Icmp, 2, Silent),
                (Icmp, 2, A9),
                (Icmp, 2, A9),
            ],
            samples: &[(0, Some(5), Source::Icmp), (1, Some(9), Source::Icmp)],
            silent_rounds: Some(0),
        },
        Case {
            name: "no echo, but DNS; the other point does not try echoes",
            probes: &[
                (Icmp, 1, Silent),
                (Icmp, 1, Silent),
                (Icmp, 1, Silent),
                (Dns, 1, Silent),
                (Dns, 1, A9),
                (Dns, 1, A9),
                (Dns, 2, Silent),
                (Dns, 2, Silent),
                (Dns, 2, Silent),
            ],
            samples: &[(0, Some(9), Source::DnsProbe), (1, None, Source::DnsProbe)],
            silent_rounds: Some(0),
        },
        Case {
            name: "a refusal ends a method at once",
            probes: &[
                (Icmp, 1, Refused),
                (Dns, 1, Refused),
                (Tcp, 1, A9),
                (Tcp, 1, Refused),
                (Tcp, 2, A5),
                (Tcp, 2, A9),
                (Tcp, 2, A9),
            ],
            samples: &[(0, Some(9), Source::TcpProbe), (1, Some(5), Source::TcpProbe)],
            silent_rounds: Some(0),
        },
        Case {
            name: "nothing anywhere: the second point costs three probes",
            probes: &[
                (Icmp, 1, Silent),
                (Icmp, 1, Silent),
                (Icmp, 1, Silent),
                (Dns, 1, Silent),
                (Dns, 1, Silent),
                (Dns, 1, Silent),
                (Tcp, 1, Silent),
                (Tcp, 1, Silent),
                (Tcp, 1, Silent),
                (Icmp, 2, Silent),
                (Dns, 2, Silent),
                (Tcp, 2, Silent),
            ],
            samples: &[(0, None, Source::TcpProbe), (1, None, Source::TcpProbe)],
            silent_rounds: Some(1),
        },
        Case {
            name: "the first link is dead, the second is heard and measured in full",
            probes: &[
                (Icmp, 1, Refused),
                (Dns, 1, Refused),
                (Tcp, 1, Refused),
                (Icmp, 2, Silent),
                (Dns, 2, A9),
                (Dns, 2, A5),
                (Dns, 2, A9),
            ],
            samples: &[(0, None, Source::TcpProbe), (1, Some(5), Source::DnsProbe)],
            silent_rounds: Some(0),
        },
        Case {
            name: "no right to send echoes (link.md case 37)",
            probes: &[(Icmp, 1, Unable), (Dns, 1, A9), (Dns, 1, A9), (Dns, 1, A9), (Dns, 2, Unable)],
            samples: &[(0, Some(9), Source::DnsProbe)],
            silent_rounds: Some(0),
        },
        Case {
            name: "nothing could be sent: that says nothing of the target",
            probes: &[
                (Icmp, 1, Unable),
                (Dns, 1, Unable),
                (Tcp, 1, Unable),
                (Icmp, 2, Unable),
                (Dns, 2, Unable),
                (Tcp, 2, Unable),
            ],
            samples: &[],
            silent_rounds: Some(0),
        },
    ];
    for Case { name, probes, samples, silent_rounds } in cases {
        let mut pacer = Pacer::new(policy(2));
        let wanted = client([5, 6, 7, 8], Evidence::Cookie);
        pacer.wish(0, wanted).unwrap();
        let mut expected = probes.iter();
        let mut world = World::new(&mut pacer);
        world.run(60_000, |probe| {
            let (method, point, outcome) =
                expected.next().unwrap_or_else(|| panic!("{name}: {probe:?} is too much"));
            let source = Some([198, 51, 100, *point].into());
            assert_eq!(
                (probe.method, probe.source, probe.target),
                (*method, source, wanted.address),
                "{name}"
            );
            Some((20, *outcome))
        });
        assert!(expected.next().is_none(), "{name}: too few probes");
        let found: Vec<_> =
            world.samples().iter().map(|sample| (sample.point.0, sample.rtt_us, sample.source)).collect();
        assert_eq!(found, samples, "{name}");
        assert_eq!(
            pacer.standing(&wanted.prefix).map(|standing| standing.silent_rounds),
            silent_rounds,
            "{name}"
        );
        assert!(
            pacer.rounds.is_empty() && pacer.flights.is_empty() && pacer.flight_ends.is_empty(),
            "{name}"
        );
    }
}

/// Every reason but those of addresses, which have a table of their own.
#[test]
fn refusals() {
    use Refusal::{
        NoPoint, NotEarned, Off, OptedOut, PeerRate, Private, QueueFull, TooSoon, UntrustedSubnet,
        WaitedTooLong, Waiting, WrongPrefix,
    };
    let mut settings = policy(1);
    settings.limits.queue = 3;
    settings.limits.peer_per_s = 2;
    settings.trusted_resolvers = nets(&["7.7.7.7"]);
    settings.addresses.opted_out = nets(&["5.99.0.0/16"]);
    let mut pacer = Pacer::new(Policy { enabled: false, ..settings.clone() });
    let lengths = Lengths::default();
    let cookie = |address: [u8; 4]| client(address, Evidence::Cookie);
    let by_peer = |address: [u8; 4], peer| Wanted { asked_by: AskedBy::Peer(peer), ..cookie(address) };
    let subnet = |source: [u8; 4], subnet: [u8; 4], evidence| {
        Wanted::by_query(source.into(), Some((subnet.into(), 24)), evidence, lengths).unwrap()
    };
    assert_eq!(pacer.wish(0, cookie([5, 1, 1, 1])), Err(Off));
    pacer.set_policy(settings);
    let steps = [
        (cookie([5, 1, 1, 1]), Ok(())),
        (cookie([5, 1, 1, 2]), Err(Waiting)),
        (cookie([10, 1, 1, 1]), Err(Private)),
        (cookie([5, 99, 1, 1]), Err(OptedOut)),
        (client([5, 1, 2, 1], Evidence::Plain), Err(NotEarned)),
        (Wanted { prefix: prefix("5.1.4.0/24"), ..cookie([5, 1, 3, 1]) }, Err(WrongPrefix)),
        (client("2a00:5::1".parse::<IpAddr>().unwrap(), Evidence::Cookie), Err(NoPoint)),
        (subnet([7, 7, 7, 8], [5, 2, 1, 0], Evidence::Stream), Err(UntrustedSubnet)),
        (subnet([7, 7, 7, 7], [5, 2, 1, 0], Evidence::Plain), Err(UntrustedSubnet)),
        (subnet([7, 7, 7, 7], [10, 2, 1, 0], Evidence::Cookie), Err(Private)),
        (subnet([7, 7, 7, 7], [5, 2, 1, 0], Evidence::Cookie), Ok(())),
        // case P11: only who has asked here, and no faster than a peer may
        (by_peer([5, 3, 1, 1], 1), Err(NotEarned)),
        (by_peer([192, 168, 1, 1], 2), Err(Private)),
        (by_peer([224, 0, 0, 1], 3), Err(Refusal::Multicast)),
        (by_peer([7, 7, 7, 7], 4), Ok(())),
        (by_peer([7, 7, 7, 7], 1), Err(PeerRate)),
        (cookie([5, 1, 9, 1]), Err(QueueFull)),
    ];
    for (wanted, expected) in steps {
        assert_eq!(pacer.wish(0, wanted), expected, "{wanted:?}");
    }
    let mut world = World::new(&mut pacer);
    world.run(10_000, |_| Some((10, answered(10_000))));
    assert_eq!(world.sent.len(), 9);
    let targets: BTreeSet<IpAddr> = world.sent.iter().map(|(_, probe)| probe.target).collect();
    let expected: [IpAddr; 3] = [[5, 1, 1, 1].into(), [5, 2, 1, 1].into(), [7, 7, 7, 7].into()];
    assert_eq!(targets, expected.into());
    assert_eq!(pacer.wish(10_000, cookie([5, 1, 1, 1])), Err(TooSoon));
    // whoever opts out while he waits is not probed
    pacer.wish(10_000, cookie([5, 4, 1, 1])).unwrap();
    pacer.wish(10_000, cookie([5, 5, 1, 1])).unwrap();
    let mut stricter = pacer.policy().clone();
    stricter.addresses.opted_out = nets(&["5.4.0.0/16"]);
    pacer.set_policy(stricter);
    assert_eq!(pacer.next_probe(10_001).map(|probe| probe.target), Some([5, 5, 1, 1].into()));
    pacer.wish(20_000, cookie([5, 6, 1, 1])).unwrap();
    assert_eq!(pacer.next_probe(80_001), None);
    assert_eq!((count(&pacer, OptedOut), count(&pacer, WaitedTooLong)), (2, 1));
    assert_eq!(pacer.counters().taken, 6);
    assert_eq!(pacer.counters().refused.iter().sum::<u64>(), 18);
}

/// A wish's target: the client itself, or what stands for a subnet.
/// Being seen earns a probe and sends none.
#[test]
fn who_is_seen() {
    let who: IpAddr = [5, 6, 7, 8].into();
    let mut pacer = Pacer::new(Policy::default());
    assert_eq!(pacer.see(0, who, Evidence::Cookie), Err(Refusal::Off));
    pacer.set_policy(policy(1));
    for (now_ms, expected) in [(0, Err(Refusal::NotEarned)), (500, Err(Refusal::NotEarned)), (1_000, Ok(()))]
    {
        assert_eq!(pacer.see(now_ms, who, Evidence::Plain), expected, "{now_ms}");
    }
    assert_eq!(count(&pacer, Refusal::NotEarned), 2);
    assert!(pacer.next_probe(2_000).is_none());
    assert_eq!(pacer.wish(2_000, client(who, Evidence::Plain)), Ok(()));
    assert!(pacer.next_probe(2_000).is_some());
}

#[test]
fn representatives() {
    let lengths = Lengths::default();
    let table = [
        ("5.6.7.8", None, Some(("5.6.7.8", "5.6.7.0/24"))),
        ("::ffff:5.6.7.8", None, Some(("5.6.7.8", "5.6.7.0/24"))),
        ("5.6.7.8", Some(("5.6.7.0", 24)), Some(("5.6.7.8", "5.6.7.0/24"))),
        ("5.6.7.8", Some(("9.9.8.0", 24)), Some(("9.9.8.1", "9.9.8.0/24"))),
        ("5.6.7.8", Some(("9.9.8.77", 32)), Some(("9.9.8.1", "9.9.8.0/24"))),
        ("5.6.7.8", Some(("9.9.0.0", 16)), None),
        ("5.6.7.8", Some(("2a00:1:2::", 48)), Some(("2a00:1:2::1", "2a00:1:2::/48"))),
        ("5.6.7.8", Some(("2a00:1::", 32)), None),
    ];
    for (source, subnet, expected) in table {
        let subnet = subnet.map(|(address, length)| (address.parse().unwrap(), length));
        let wanted = Wanted::by_query(source.parse().unwrap(), subnet, Evidence::Plain, lengths);
        let found = wanted.map(|wanted| (wanted.address.to_string(), wanted.prefix.to_string()));
        let expected = expected.map(|(address, prefix)| (address.to_owned(), prefix.to_owned()));
        assert_eq!(found, expected, "{source} {subnet:?}");
    }
}

/// link.md case 32: a burst of 5,000 targets is spread, and all are measured.
#[test]
fn a_burst_is_paced() {
    let mut settings = policy(1);
    settings.limits = Limits { per_s: 1_000, tries: 1, queue: 5_000, ..settings.limits };
    let mut pacer = Pacer::new(settings);
    for n in 0..5_000_u32 {
        pacer.wish(0, client(Ipv4Addr::from_bits((5 << 24) + (n << 8) + 1), Evidence::Stream)).unwrap();
    }
    let mut world = World::new(&mut pacer);
    world.run(5_200, |_| Some((20, answered(20_000))));
    assert_eq!(world.samples().len(), 5_000);
    assert!(world.most_in_flight <= 100, "{}", world.most_in_flight);
    assert_eq!(world.sent.len(), 5_000);
}

/// Over any sequence of wishes the limits hold. The model knows nothing but what was asked, sent and answered.
#[test]
fn limits_hold_whatever_is_wished() {
    for round in 0..40 {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        let mut settings = policy(random.usize(1..4));
        settings.limits = Limits {
            per_s: random.u32(1..200),
            in_flight: random.usize(1..20),
            queue: random.usize(1..30),
            prefixes: random.usize(1..80),
            interval_ms: random.u64(100..20_000),
            longest_ms: 100_000,
            peer_per_s: random.u32(1..4),
            ..settings.limits
        };
        settings.addresses.opted_out = nets(&["5.0.3.0/24"]);
        let limits = settings.limits;
        let mut pacer = Pacer::new(settings);
        let mut world = World::new(&mut pacer);
        // who has asked: when, with what
        let mut asked: BTreeMap<IpAddr, Vec<(u64, Evidence)>> = BTreeMap::new();
        for _ in 0..400 {
            let address: IpAddr = match random.u8(..) {
                0..30 => [10, 0, random.u8(..6), 1].into(),
                30..35 => [224, 0, 0, 1].into(),
                _ => [5, 0, random.u8(..40), random.u8(1..4)].into(),
            };
            let evidence = [Evidence::Plain, Evidence::Cookie, Evidence::Stream][random.usize(..3)];
            let mut wanted = client(address, evidence);
            if random.u8(..) < 60 {
                wanted.asked_by = AskedBy::Peer(random.u16(..3));
            } else {
                asked.entry(address).or_default().push((world.now_ms, evidence));
            }
            let _ = world.pacer.wish(world.now_ms, wanted);
            let end_ms =
                world.now_ms + if random.u8(..) < 20 { random.u64(..30_000) } else { random.u64(..300) };
            world.run(end_ms, |probe| {
                let IpAddr::V4(v4) = probe.target else { panic!() };
                let outcome = match (v4.octets()[2] % 4, random.u8(..)) {
                    (0, _) => Outcome::Silent,
                    (1, 0..100) => Outcome::Refused,
                    (2, 0..10) => return None,
                    (2, 10..20) => Outcome::Unable,
                    _ => answered(random.u32(1..300_000)),
                };
                Some((if outcome == Outcome::Silent { 900 } else { random.u64(..900) }, outcome))
            });
        }
        check_limits(seed, &limits, &world, &asked);
        assert!(world.sent.len() > 20, "seed {seed}, round {round}: nothing was tested");
        let _ = world.samples();
        assert!(pacer.held() <= limits.prefixes && pacer.queue.len() <= limits.queue, "seed {seed}");
        assert_eq!(pacer.queue.len() + pacer.rounds.len(), pacer.busy.len(), "seed {seed}");
    }
}

fn check_limits(
    seed: u64,
    limits: &Limits,
    world: &World<'_>,
    asked: &BTreeMap<IpAddr, Vec<(u64, Evidence)>>,
) {
    assert!(world.most_in_flight <= limits.in_flight, "seed {seed}");
    let times: Vec<u64> = world.sent.iter().map(|(at_ms, _)| *at_ms).collect();
    for (at, first) in times.iter().enumerate() {
        let within = times[at..].iter().take_while(|later| **later < first + 1_000).count();
        assert!(within <= limits.per_s as usize, "seed {seed}: {within} in a second at {first}");
    }
    for (at_ms, probe) in &world.sent {
        let IpAddr::V4(v4) = probe.target else { panic!() };
        assert!(v4.octets()[0] == 5 && v4.octets()[2] != 3, "seed {seed}: {probe:?} is not allowed");
        let shown = asked.get(&probe.target).map(Vec::as_slice).unwrap_or_default();
        let before: Vec<_> = shown.iter().filter(|(asked_ms, _)| asked_ms <= at_ms).collect();
        let is_strong = before.iter().any(|(_, evidence)| *evidence != Evidence::Plain);
        let is_spread = before.len() >= 3 && before[before.len() - 1].0 - before[0].0 >= 1_000;
        assert!(is_strong || is_spread, "seed {seed}: {probe:?} at {at_ms} has not earned it: {shown:?}");
    }
    check_intervals(seed, limits, world);
}

/// From the beginning of a round to that of the prefix's next one: the interval, doubled for the silent.
fn check_intervals(seed: u64, limits: &Limits, world: &World<'_>) {
    let mut by_prefix: BTreeMap<Prefix, Vec<(u64, bool, Option<Outcome>)>> = BTreeMap::new();
    for (at, (at_ms, probe)) in world.sent.iter().enumerate() {
        let outcome = world.outcomes.get(&probe.id).copied();
        let prefix = Lengths::default().prefix_of(probe.target);
        by_prefix.entry(prefix).or_default().push((*at_ms, world.begins.contains(&at), outcome));
    }
    for (prefix, probes) in by_prefix {
        assert!(probes[0].1, "seed {seed}: {prefix} is probed before its round");
        let (mut silent, mut begun_ms) = (0_u32, None);
        for round in probes.chunk_by(|_, (_, is_begin, _)| !is_begin) {
            let mut wait_ms = limits.interval_ms;
            // a table too small for all prefixes may have forgotten the silence, but not the interval
            for _ in 2..silent.min(if limits.prefixes >= 40 { 30 } else { 0 }) {
                wait_ms = (2 * wait_ms).min(limits.longest_ms);
            }
            if let Some(begun_ms) = begun_ms {
                let after_ms = round[0].0 - begun_ms;
                assert!(after_ms >= wait_ms, "seed {seed}: {prefix} {after_ms} after {silent} silent rounds");
            }
            begun_ms = Some(round[0].0);
            let outcomes = || round.iter().map(|(_, _, outcome)| *outcome);
            if outcomes().any(|outcome| matches!(outcome, Some(Outcome::Answered { .. }))) {
                silent = 0;
            } else if outcomes().any(|outcome| outcome != Some(Outcome::Unable)) {
                silent += 1;
            }
        }
    }
}
