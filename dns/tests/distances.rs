//! Names that are answered by measured distance: who is near, the scope that says so, and `explain`.

#![allow(clippy::unwrap_used)]

mod common;

use common::world::{World, addresses, ask_ecs, option};
use common::{Server, decode, query, with_opt};
use portolan_balance::proximity::{
    Band, Missed, Point, PointId, Points, Prefix, Sample, Settings, Source, Table, choose::members_at,
};
use portolan_balance::view::View;
use portolan_balance::{CandidateId, Event, Step};
use portolan_dns::name::Name;
use portolan_dns::present::{Asked, explain_query};
use portolan_dns::respond::{Now, Transport};
use portolan_dns::rrtype::RrType;
use std::net::IpAddr;
use std::sync::Arc;

/// Three members at three points; 10.10.1/24 is near the second, 10.10.2/24 near the third.
fn server(band: Band) -> Server {
    let mut world = World::new();
    let at = members_at((0..3).map(|i| (CandidateId(i), Some(PointId(u16::from(i))))));
    world.add("near.example.com.", RrType::A, &addresses(), &[], |policy| {
        policy.steps = vec![Step::Proximity { members_at: at, band }];
    });
    world.add("plain.example.com.", RrType::A, &addresses(), &[], |_| {});
    let points = ["a", "b", "c"].map(|site| Point {
        site: site.into(),
        link: None,
        place: None,
        cost: 0.0,
        is_own: true,
    });
    let mut table = Table::new(Settings::default(), Points::new(points));
    for (prefix, ms) in [
        ("10.10.1.0", [60, 20, 90]),
        ("10.10.2.0", [60, 90, 20]),
        ("10.10.3.0", [60, 90, 20]),
        ("2001:db8:1::", [20, 60, 90]),
    ] {
        let address: IpAddr = prefix.parse().unwrap();
        for (point, ms) in (0..).zip(ms) {
            let prefix = Prefix::new(address, if address.is_ipv4() { 24 } else { 48 });
            let rtt_us = Some(ms * 1000);
            table.observe(
                0,
                Sample { prefix, point: PointId(point), rtt_us, hops: None, source: Source::Handshake },
            );
        }
    }
    let mut server = world.server();
    let view: &View = &server.snapshot.view;
    server.snapshot.view = Arc::new(View { proximity: table.publish(0).unwrap(), ..view.clone() });
    server
}

#[test]
fn the_nearest_answers_and_the_scope_says_for_whom() {
    let mut server = server(Band { explore_permille: 0, ..Band::default() });
    for (name, (address, source), answer, scope) in [
        ("near", ("10.10.1.0", 24), "192.0.2.101", 24),
        ("near", ("10.10.1.128", 25), "192.0.2.101", 24),
        ("near", ("10.10.2.0", 24), "192.0.2.102", 24),
        ("near", ("2001:db8:1::", 56), "192.0.2.100", 48),
        // those around it disagree, but not two of three
        ("near", ("10.10.9.0", 24), "192.0.2.100", 24),
        // never heard of: the block has no row
        ("near", ("10.99.0.0", 24), "192.0.2.100", 18),
        ("near", ("2001:db8:ffff::", 48), "192.0.2.100", 42),
        ("plain", ("10.10.2.0", 24), "192.0.2.100", 0),
    ] {
        let sent = option(address, source);
        let reply = ask_ecs(&mut server, &format!("{name}.example.com."), "A", &sent, "192.0.2.53");
        assert!(reply.answer[0].ends_with(answer), "{name} {address}: {:?}", reply.answer);
        assert_eq!(reply.option(8).unwrap()[3], scope, "{name} {address}");
    }
    // without a client subnet the resolver's own prefix decides
    let bytes = query("near.example.com.", "A");
    let reply = decode(&server.send(&bytes, "10.10.2.53", Transport::Udp).unwrap()).unwrap();
    assert!(reply.answer[0].ends_with("192.0.2.102"));
}

/// O04, also where the dice explore.
#[test]
fn explain_equals_the_wire_and_tells_the_row() {
    let mut server = server(Band { explore_permille: 300, ..Band::default() });
    let name: Name = "near.example.com.".parse().unwrap();
    let mut explored = 0;
    for round in 0..600_u32 {
        let client = IpAddr::from([10, 10, (round % 5) as u8, 7]);
        let ecs = (round % 3 == 0).then(|| (IpAddr::from([10, 10, (round % 4) as u8, 0]), 24));
        let asked = Asked {
            name: &name,
            rtype: "A".parse().unwrap(),
            client,
            ecs,
            entropy: server.worker.next_entropy(),
            turn: None,
            now: Now::default(),
        };
        let explained = explain_query(&server.snapshot, &asked);
        let mut bytes = query(&name.to_string(), "A");
        if let Some((address, source)) = ecs {
            bytes = with_opt(bytes, 1232, 0, 0, &[(8, &option(&address.to_string(), source))]);
        }
        let wire = server.send(&bytes, &client.to_string(), Transport::Tcp).unwrap();
        assert_eq!(wire[2..], explained.wire.unwrap()[2..], "round {round}: {client} {ecs:?}");
        let told = &explained.decisions[0];
        let decider = ecs.map_or(client, |(address, _)| address);
        let IpAddr::V4(decider) = decider else { unreachable!() };
        let is_measured = (1..=3).contains(&decider.octets()[2]);
        assert_eq!(told.decision.is_unmeasured, !is_measured, "{decider}");
        let ranked = told.trace.iter().find_map(|event| {
            let Event::Ranked { row, scores } = event else { return None };
            Some((row.prefix, scores.len()))
        });
        let missed = told.trace.iter().any(
            |event| matches!(event, Event::NotRanked { because: Missed::NoRow, prefix } if prefix.length() == 24),
        );
        let right = Prefix::new(decider.into(), 24);
        assert_eq!((ranked, missed), if is_measured { (Some((right, 3)), false) } else { (None, true) });
        explored += u32::from(told.trace.iter().any(|event| matches!(event, Event::Explored { .. })));
    }
    assert!(explored > 20, "{explored}");
}
