//! What queries tell those who measure clients, and soliciting (requirements, X 3).

#![allow(clippy::unwrap_used)]

mod common;

use common::world::{World, addresses, option, wire};
use common::{Server, query, with_opt};
use portolan_balance::proximity::{Band, Point, PointId, Points, Prefix, Sample, Source, Table};
use portolan_balance::{Policy, Step, View};
use portolan_dns::cookie::CookieSecrets;
use portolan_dns::measure::{Evidence, Measure, MeasureSettings, Sighting};
use portolan_dns::present::{Asked, explain_query};
use portolan_dns::respond::Transport;
use portolan_dns::rrtype::RrType;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

fn by_distance(policy: &mut Policy) {
    policy.steps = vec![Step::Proximity { members_at: Vec::new(), band: Band::default() }];
}

/// `near.` goes by distance and `deaf.` does without client subnets; `www.` does not.
fn server(settings: MeasureSettings) -> (Server, Arc<Measure>, Receiver<Sighting>) {
    let mut world = World::new();
    world.add("near.example.com.", RrType::A, &addresses(), &[], by_distance);
    world.add("deaf.example.com.", RrType::A, &addresses(), &[], by_distance).ecs = false;
    world.add("www.example.com.", RrType::A, &addresses(), &[], |_| {});
    world.add("alias.example.com.", RrType::CNAME, &[wire("near.example.com.")], &[], |_| {});
    let mut server = world.server();
    let (measure, sightings) = Measure::new(settings, 64, 7);
    let measure = Arc::new(measure);
    let given = measure.clone();
    server.options(|options| {
        options.measure = Some(given);
        options.cookies = Some(CookieSecrets { current: [7; 16], previous: None });
    });
    (server, measure, sightings)
}

fn told(sightings: &Receiver<Sighting>) -> Vec<(String, Option<String>, Evidence)> {
    let text = |sighting: Sighting| {
        assert!(sighting.is_unmeasured);
        let subnet = sighting.subnet.map(|(address, length)| format!("{address}/{length}"));
        (sighting.source.to_string(), subnet, sighting.evidence)
    };
    sightings.try_iter().map(text).collect()
}

#[test]
fn who_is_told_of() {
    let (mut server, _, sightings) = server(MeasureSettings::default());
    let ecs = |name: &str| with_opt(query(name, "A"), 1232, 0, 0, &[(8, &option("10.5.6.0", 24))]);
    let cookie = {
        let secrets = CookieSecrets { current: [7; 16], previous: None };
        let made = secrets.make(&[1; 8], "198.51.100.7".parse().unwrap(), server.now.unix_s);
        [&[1; 8][..], &made].concat()
    };
    let with_cookie = with_opt(query("near.example.com.", "A"), 1232, 0, 0, &[(10, &cookie)]);
    let (near, udp, tcp) = (query("near.example.com.", "A"), Transport::Udp, Transport::Tcp);
    let subnet = || Some("10.5.6.0/24".to_owned());
    type Case = (&'static str, Vec<u8>, Transport, Option<(Option<String>, Evidence)>);
    let cases: [Case; 12] = [
        ("198.51.100.1", near.clone(), udp, Some((None, Evidence::Plain))),
        ("198.51.100.2", near.clone(), tcp, Some((None, Evidence::Stream))),
        ("198.51.100.7", with_cookie.clone(), udp, Some((None, Evidence::Cookie))),
        // somebody else's cookie shows nothing
        ("198.51.100.8", with_cookie, udp, Some((None, Evidence::Plain))),
        ("198.51.100.3", ecs("near.example.com."), udp, Some((subnet(), Evidence::Plain))),
        ("198.51.100.4", ecs("deaf.example.com."), udp, Some((None, Evidence::Plain))),
        ("::ffff:198.51.100.9", near, udp, Some((None, Evidence::Plain))),
        ("2001:db8::1", query("alias.example.com.", "A"), udp, Some((None, Evidence::Plain))),
        ("198.51.100.5", query("www.example.com.", "A"), udp, None),
        ("198.51.100.5", query("static.example.com.", "A"), udp, None),
        ("198.51.100.5", query("near.example.com.", "TXT"), udp, None),
        ("198.51.100.5", query("near.example.org.", "A"), tcp, None),
    ];
    for (source, bytes, transport, expected) in cases {
        let reply = server.send(&bytes, source, transport).unwrap();
        assert!(!common::decode(&reply).unwrap().tc(), "{source}: nobody is solicited");
        let source = source.trim_start_matches("::ffff:").to_owned();
        let expected = expected.map(|(subnet, evidence)| (source, subnet, evidence));
        assert_eq!(told(&sightings), expected.into_iter().collect::<Vec<_>>());
    }
}

/// Clients that are measured are told of now and then, so that what is in use does not age out; and not solicited.
#[test]
fn rows_in_use_are_told_of() {
    let settings = MeasureSettings { solicit: true, ..MeasureSettings::default() };
    let (mut server, measure, sightings) = server(settings);
    let site = Point { site: "a".into(), link: None, place: None, cost: 0.0, is_own: true };
    let mut table = Table::new(Default::default(), Points::new([site]));
    let sample = Sample {
        prefix: Prefix::new("198.51.100.0".parse().unwrap(), 24),
        point: PointId(0),
        rtt_us: Some(9_000),
        hops: None,
        source: Source::Resolver,
    };
    table.observe(1_000, sample);
    let view = View { proximity: table.publish(2_000).unwrap(), ..(*server.snapshot.view).clone() };
    server.snapshot.view = Arc::new(view);
    server.now.mono_ms = 2_000;
    for (name, most) in [("near.example.com.", 10), ("www.example.com.", 0), ("static.example.com.", 0)] {
        for n in 0..320_u32 {
            let source = format!("198.51.100.{}", n % 256);
            let reply = server.send(&query(name, "A"), &source, Transport::Udp).unwrap();
            assert!(!common::decode(&reply).unwrap().tc());
        }
        let told: Vec<Sighting> = sightings.try_iter().collect();
        assert!(told.len() <= most && told.len() >= most / 2, "{name}: {told:?}");
        assert!(told.iter().all(|sighting| !sighting.is_unmeasured));
    }
    assert_eq!(measure.counters().solicited, 0);
}

#[test]
fn soliciting() {
    let settings = MeasureSettings { solicit: true, tell: false, ..MeasureSettings::default() };
    let (mut server, measure, _sightings) = server(settings);
    let near = query("near.example.com.", "A");
    let is_truncated = |server: &mut Server, bytes: &[u8], source: &str| {
        let reply = common::decode(&server.send(bytes, source, Transport::Udp).unwrap()).unwrap();
        assert_eq!(reply.tc(), reply.answer.is_empty(), "{source}");
        reply.tc()
    };
    // each answer earns 1/200 of a solicitation, whatever is asked for
    for _ in 0..199 {
        assert!(!is_truncated(&mut server, &query("static.example.com.", "A"), "198.51.100.1"));
    }
    assert!(is_truncated(&mut server, &near, "198.51.100.1"), "the 200th query");
    assert!(measure.has_solicited("198.51.100.200".parse().unwrap(), server.now.mono_s()));
    for _ in 0..1_000 {
        assert!(!is_truncated(&mut server, &near, "198.51.100.2"), "once a prefix");
    }
    // what was saved meanwhile is bounded, and spent on others; over a stream nothing is truncated
    let others: Vec<String> = (0..20).map(|net| format!("203.0.{net}.1")).collect();
    let asked = others.iter().filter(|source| is_truncated(&mut server, &near, source)).count();
    assert_eq!(asked, 4);
    for source in &others {
        let reply = server.send(&near, source, Transport::Tcp).unwrap();
        assert!(!common::decode(&reply).unwrap().tc());
    }
    assert_eq!(measure.counters().came, 4);
    assert_eq!(server.worker.stats().solicited.get(), 5);
    // a client for whom its resolver speaks is not measured by the resolver's handshake
    let ecs = with_opt(near.clone(), 1232, 0, 0, &[(8, &option("10.5.6.0", 24))]);
    for _ in 0..1_000 {
        assert!(!is_truncated(&mut server, &ecs, "192.0.2.9"));
    }
    // who came is asked again after ten minutes, who did not after a day
    for (mono_ms, first, second) in [
        (599_999, false, false),
        (600_000, false, true),
        (86_400_000, true, false),
        (87_000_000, false, true),
    ] {
        server.now.mono_ms = mono_ms;
        for _ in 0..1_000 {
            is_truncated(&mut server, &query("static.example.com.", "A"), "192.0.2.10");
        }
        assert_eq!(is_truncated(&mut server, &near, "198.51.100.9"), first, "{mono_ms}");
        assert_eq!(is_truncated(&mut server, &near, "203.0.0.9"), second, "{mono_ms}");
    }
}

#[test]
fn explaining_neither_tells_nor_solicits() {
    let settings = MeasureSettings { solicit: true, ..MeasureSettings::default() };
    let (mut server, measure, sightings) = server(settings);
    let near = query("near.example.com.", "A");
    let (name, client) = ("near.example.com.".parse().unwrap(), "198.51.100.1".parse().unwrap());
    for entropy in 0..500 {
        let asked =
            Asked { name: &name, rtype: RrType::A, client, ecs: None, entropy, turn: None, now: server.now };
        assert!(explain_query(&server.snapshot, &asked).wire.is_some());
    }
    assert_eq!(sightings.try_iter().count(), 0);
    assert_eq!(measure.counters(), Default::default());
    server.send(&near, "198.51.100.1", Transport::Udp).unwrap();
    assert_eq!(sightings.try_iter().count(), 1);
}
