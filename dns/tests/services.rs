//! Names that decisions answer: client subnets (cases E), fallbacks, aliases, wildcards, and `explain`.

#![allow(clippy::unwrap_used)]

mod common;

use common::world::{World, ZONE, addresses, ask_ecs, by_operator, option, v4, wire, world};
use common::{Message, Server, load, query, with_opt};
use portolan_balance::policy::{AclAction, AclRule, AclTable};
use portolan_balance::{CandidateSet, Dice, Fallback, Policy, Scheduler, Step};
use portolan_dns::catalog::Catalog;
use portolan_dns::name::Name;
use portolan_dns::present::{Asked, explain_query, present};
use portolan_dns::respond::{Now, Transport};
use portolan_dns::rrtype::RrType;
use std::net::IpAddr;
use std::sync::Arc;

/// The last field of each answer, in order.
fn data(message: &Message) -> Vec<&str> {
    message.answer.iter().filter_map(|line| line.rsplit(' ').next()).collect()
}

#[test]
fn client_subnets() {
    let mut world = world();
    world.add("plain.example.com.", RrType::A, &addresses(), &[], |_| {});
    world.add("resolver.example.com.", RrType::A, &addresses(), &[], by_operator).ecs = false;
    let mut server = world.server();
    // case, name, type, subnet, resolver; answer, scope
    for (case, name, rtype, (address, source), resolver, answer, scope) in [
        (
            "E01 a miss does not cover what would hit",
            "www",
            "A",
            ("10.30.0.0", 24),
            "192.0.2.53",
            "192.0.2.100",
            13,
        ),
        ("E01 the hit", "www", "A", ("10.10.1.0", 24), "192.0.2.53", "192.0.2.101", 16),
        ("operator 2", "www", "A", ("10.20.1.0", 24), "192.0.2.53", "192.0.2.102", 16),
        ("shorter than the entries", "www", "A", ("10.16.0.0", 12), "192.0.2.53", "192.0.2.100", 12),
        ("E03 static", "static", "A", ("192.0.2.0", 24), "192.0.2.53", "192.0.2.10", 0),
        ("E03 static, /27", "static", "A", ("192.0.2.0", 27), "192.0.2.53", "192.0.2.10", 0),
        ("no step looks", "plain", "A", ("10.10.0.0", 16), "192.0.2.53", "192.0.2.100", 0),
        (
            "E04 the resolver's address alone",
            "resolver",
            "A",
            ("10.10.0.0", 24),
            "10.20.0.1",
            "192.0.2.102",
            0,
        ),
        ("E10 beside a dynamic name", "www", "AAAA", ("10.10.0.0", 24), "192.0.2.53", "2001:db8::80", 0),
        ("E10 NS to a dynamic name", "", "NS", ("10.10.0.0", 24), "192.0.2.53", "www.example.com.", 0),
        // WP-IB 1.8: an answer to everybody, addresses beside it for this client
        ("MX to a dynamic name", "mail", "MX", ("10.10.0.0", 24), "192.0.2.53", "www.example.com.", 16),
        ("E13 source 0", "www", "A", ("0.0.0.0", 0), "10.10.0.1", "192.0.2.101", 0),
        ("mapped is IPv4", "www", "A", ("::ffff:10.10.1.0", 120), "192.0.2.53", "192.0.2.101", 112),
        ("IPv6 known nowhere", "www", "A", ("2001:db8::", 56), "10.10.0.1", "192.0.2.100", 0),
        ("through a chain", "chain", "A", ("10.10.1.0", 24), "192.0.2.53", "192.0.2.101", 16),
    ] {
        let sent = option(address, source);
        let name = format!("{name}.example.com.");
        let reply = ask_ecs(&mut server, name.trim_start_matches('.'), rtype, &sent, resolver);
        assert_eq!(data(&reply).last(), Some(&answer), "{case}");
        // E06: the same octets, the scope apart
        let echo = reply.option(8).unwrap_or_else(|| panic!("{case}: no echo"));
        assert_eq!((echo[..3].to_vec(), &echo[4..]), (sent[..3].to_vec(), &sent[4..]), "{case}");
        assert_eq!(echo[3], scope, "{case}");
    }
    // T3: what is not there is not there for anybody
    for (name, rtype) in [("nope", "A"), ("www", "MX"), ("www", "SRV")] {
        let reply = ask_ecs(
            &mut server,
            &format!("{name}.example.com."),
            rtype,
            &option("10.10.0.0", 16),
            "192.0.2.53",
        );
        assert_eq!((reply.option(8).unwrap()[3], reply.authority.len()), (0, 1), "{name} {rtype}");
    }
    // E12: no subnet, the resolver decides
    let reply = server.send(&query("www.example.com.", "A"), "10.20.3.4", Transport::Udp).unwrap();
    assert_eq!(data(&common::decode(&reply).unwrap()), ["192.0.2.102"]);
    let stats = server.worker.stats();
    assert!(stats.ecs_used.get() > 0 && stats.dynamic.get() > stats.ecs_used.get());
}

/// Who may steer: the switch, the allow-list, and private subnets (case E08).
#[test]
fn subnets_that_are_not_used() {
    use portolan_dns::ecs::PrefixSet;
    let mut server = world().server();
    let private = option("10.10.1.0", 24);
    let public = option("198.51.100.0", 24);
    let ask = |server: &mut Server, sent: &[u8], resolver: &str| {
        let reply = ask_ecs(server, "www.example.com.", "A", sent, resolver);
        (data(&reply)[0].to_owned(), reply.option(8).map(|echo| echo[3]))
    };
    assert_eq!(ask(&mut server, &private, "10.20.0.1"), ("192.0.2.101".into(), Some(16)));
    server.options(|options| options.ecs.accept_private = false);
    assert_eq!(ask(&mut server, &private, "10.20.0.1"), ("192.0.2.102".into(), Some(0)));
    assert_eq!(ask(&mut server, &option("127.0.0.0", 8), "10.20.0.1"), ("192.0.2.102".into(), Some(0)));
    assert_eq!(ask(&mut server, &public, "10.10.0.1"), ("192.0.2.102".into(), Some(24)));
    let allow = PrefixSet::new([("192.0.2.0".parse().unwrap(), 24), ("2001:db8::".parse().unwrap(), 32)]);
    server.options(|options| options.ecs.allow = Some(allow));
    assert_eq!(ask(&mut server, &public, "192.0.2.9"), ("192.0.2.102".into(), Some(24)));
    assert_eq!(ask(&mut server, &public, "2001:db8:1::9"), ("192.0.2.102".into(), Some(24)));
    assert_eq!(ask(&mut server, &public, "10.10.0.1"), ("192.0.2.101".into(), Some(0)));
    // switched off it is an unknown option, whatever it holds
    server.options(|options| options.ecs.enabled = false);
    assert_eq!(ask(&mut server, &public, "10.10.0.1"), ("192.0.2.101".into(), None));
    assert_eq!(ask(&mut server, &[1], "10.10.0.1"), ("192.0.2.101".into(), None));
}

/// E05, dns.md 14: FORMERR, AA clear, OPT there, no subnet in it.
#[test]
fn malformed_subnets() {
    let mut server = world().server();
    let cases: &[(&str, &[u8])] = &[
        ("v4 source 33", &[0, 1, 33, 0, 10, 10, 0, 0, 0]),
        ("v6 source 129", &[0, 2, 129, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        ("v4 /32, 3 octets", &[0, 1, 32, 0, 10, 10, 0]),
        ("v6 /128, 15 octets", &[0, 2, 128, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        ("family 3", &[0, 3, 8, 0, 10]),
        ("family 0 with an address", &[0, 0, 8, 0, 10]),
        ("length 1", &[0]),
        ("length 0", &[]),
        ("length 3", &[0, 1, 0]),
        ("v4 /24, 4 octets", &[0, 1, 24, 0, 10, 10, 1, 0]),
        ("v4 /31, a bit beyond", &[0, 1, 31, 0, 10, 10, 1, 1]),
        ("v4 /0 with an octet", &[0, 1, 0, 0, 0]),
        ("scope 1", &[0, 1, 24, 1, 10, 10, 1]),
        ("family 42, /0", &[0, 42, 0, 0]),
    ];
    for (what, sent) in cases {
        let reply = ask_ecs(&mut server, "www.example.com.", "A", sent, "192.0.2.53");
        assert_eq!((reply.rcode(), reply.aa(), reply.answer.len()), ("FORMERR", false, 0), "{what}");
        assert!(reply.opt.is_some() && reply.option(8).is_none(), "{what}");
        assert_eq!(
            reply.question.as_ref().map(|question| question.0.as_str()),
            Some("www.example.com."),
            "{what}"
        );
    }
    let good = option("10.10.1.0", 24);
    let twice = with_opt(query("www.example.com.", "A"), 1232, 0, 0, &[(8, &good), (8, &good)]);
    let reply = server.udp(&twice).unwrap();
    assert_eq!((reply.rcode(), reply.option(8)), ("FORMERR", None));
    // family 0, source 0 is "none"
    let reply = ask_ecs(&mut server, "www.example.com.", "A", &[0, 0, 0, 0], "192.0.2.53");
    assert_eq!((reply.rcode(), reply.option(8)), ("NOERROR", Some(&[0, 0, 0, 0][..])));
}

/// Z20, Z21, L12, chains, DNAME and wildcards that lead to a service.
#[test]
fn around_dynamic_names() {
    let mut world = world();
    world.add("*.app.example.com.", RrType::A, &addresses(), &[], |_| {});
    world.add("x.new.example.com.", RrType::A, &addresses(), &[], |_| {});
    let mut server = world.server();
    for (name, rtype, rcode, answer) in [
        ("www.example.com.", "A", "NOERROR", vec!["192.0.2.100"]),
        ("WWW.example.com.", "AAAA", "NOERROR", vec!["2001:db8::80"]),
        ("www.example.com.", "TXT", "NOERROR", vec!["\"beside\""]),
        ("www.example.com.", "MX", "NOERROR", vec![]),
        ("x.www.example.com.", "A", "NXDOMAIN", vec![]),
        ("a.b.app.example.com.", "A", "NOERROR", vec!["192.0.2.100"]),
        ("a.app.example.com.", "AAAA", "NOERROR", vec![]),
        ("foo.app.example.com.", "A", "NOERROR", vec![]),
        ("app.example.com.", "A", "NOERROR", vec![]),
        ("*.app.example.com.", "A", "NOERROR", vec!["192.0.2.100"]),
        ("chain.example.com.", "A", "NOERROR", vec!["link.example.com.", "www.example.com.", "192.0.2.100"]),
        ("any.wild.example.com.", "A", "NOERROR", vec!["www.example.com.", "192.0.2.100"]),
        ("x.old.example.com.", "A", "NOERROR", vec!["new.example.com.", "x.new.example.com.", "192.0.2.100"]),
    ] {
        let reply = server.ask(name, rtype);
        assert_eq!((reply.rcode(), data(&reply)), (rcode, answer.clone()), "{name} {rtype}");
        assert!(reply.aa());
        if answer.is_empty() {
            assert!(reply.authority[0].starts_with("example.com. 300 IN SOA "), "{name} {rtype}");
        }
    }
    // ANY makes no decision (RFC 8482)
    let before = server.worker.stats().dynamic.get();
    let hinfo = "a.app.example.com. 3600 IN HINFO 075246433834383200";
    assert_eq!(server.ask("a.app.example.com.", "ANY").answer, [hinfo]);
    assert_eq!(server.worker.stats().dynamic.get(), before);
}

/// H21, L16 and what else an answer may be when nothing is usable.
#[test]
fn fallbacks_and_aliases() {
    let mut world = World::new();
    let down = [0, 1, 2];
    let all = addresses();
    let fallback = |fallback: Fallback| move |policy: &mut Policy| policy.fallback = fallback;
    world.add("all.example.com.", RrType::A, &all, &down, fallback(Fallback::All));
    world.add("nodata.example.com.", RrType::A, &all, &down, fallback(Fallback::NoData));
    world.add("servfail.example.com.", RrType::A, &all, &down, fallback(Fallback::ServFail));
    world.add("refuse.example.com.", RrType::A, &all, &down, fallback(Fallback::Refuse));
    let fixed = world.add("fixed.example.com.", RrType::A, &all, &down, fallback(Fallback::Fixed));
    fixed.lanes[0].fixed = vec![v4("203.0.113.1").into(), v4("203.0.113.2").into(), v4("203.0.113.1").into()];
    let sorry = world.add("sorry.example.com.", RrType::A, &all, &down, fallback(Fallback::Fixed));
    sorry.lanes[0].fixed_cname = Some("static.example.com.".parse().unwrap());
    // members of the other family only: the lane is there for the fallback
    for (name, down) in [("spare.example.com.", &down[..]), ("unspared.example.com.", &down[1..])] {
        let spare = world.add(name, RrType::AAAA, &all, down, fallback(Fallback::Fixed));
        spare.lanes[0].members.clear();
        spare.lanes[0].fixed = vec![[&[0x20, 1, 0xd, 0xb8][..], &[0; 11], &[1]].concat().into()];
    }
    world.add("out.example.com.", RrType::CNAME, &[wire("cdn.example.net.")], &[], |_| {});
    world.add(
        "in.example.com.",
        RrType::CNAME,
        &[wire("static.example.com."), wire("x.example.com.")],
        &[],
        |_| {},
    );
    world.add("to.example.com.", RrType::CNAME, &[wire("in.example.com.")], &[], |_| {});
    world.add("loop.example.com.", RrType::CNAME, &[wire("pool.example.com.")], &[], |_| {});
    world.add("pool.example.com.", RrType::CNAME, &[wire("LOOP.example.com.")], &[], |_| {});
    world.add("dead.example.com.", RrType::CNAME, &[wire("servfail.example.com.")], &[], |_| {});
    world.add("many.example.com.", RrType::A, &[all.clone(), all.clone()].concat(), &[], |policy| {
        policy.scheduler = Scheduler::All;
        policy.answers = 256;
    });
    world.add(
        "mx.example.com.",
        RrType::MX,
        &[[&[0, 10], &wire("static.example.com.")[..]].concat()],
        &[],
        |_| {},
    );
    world.add(
        "_s._tcp.example.com.",
        RrType::SRV,
        &[[&[0, 1, 0, 2, 0, 80], &wire("static.example.com.")[..]].concat()],
        &[],
        |_| {},
    );
    world.add("refused.example.com.", RrType::A, &all, &[], |policy| {
        let rule = AclRule { from: "bad".into(), action: AclAction::Refuse, members: CandidateSet::EMPTY };
        policy.steps = vec![Step::Acl(Arc::new(AclTable { rules: vec![rule], rule_of: vec![u16::MAX, 0] }))];
    });
    let mut server = world.server();
    for (name, rtype, rcode, aa, ttl, answer) in [
        ("all", "A", "NOERROR", true, Some("5"), vec!["192.0.2.100"]),
        ("nodata", "A", "NOERROR", true, None, vec![]),
        ("gone", "A", "NOERROR", true, Some("60"), vec!["nodata.example.com."]),
        ("servfail", "A", "SERVFAIL", false, None, vec![]),
        ("dead", "A", "SERVFAIL", false, None, vec![]),
        ("refuse", "A", "REFUSED", false, None, vec![]),
        ("fixed", "A", "NOERROR", true, Some("5"), vec!["203.0.113.1", "203.0.113.2"]),
        ("sorry", "A", "NOERROR", true, Some("5"), vec!["static.example.com.", "192.0.2.10"]),
        ("spare", "AAAA", "NOERROR", true, Some("5"), vec!["2001:db8::1"]),
        ("unspared", "AAAA", "NOERROR", true, None, vec![]),
        ("out", "A", "NOERROR", true, Some("30"), vec!["cdn.example.net."]),
        ("out", "CNAME", "NOERROR", true, Some("30"), vec!["cdn.example.net."]),
        ("in", "A", "NOERROR", true, Some("30"), vec!["static.example.com.", "192.0.2.10"]),
        ("in", "TXT", "NOERROR", true, Some("30"), vec!["static.example.com."]),
        (
            "to",
            "A",
            "NOERROR",
            true,
            Some("30"),
            vec!["in.example.com.", "static.example.com.", "192.0.2.10"],
        ),
        ("loop", "A", "NOERROR", true, Some("30"), vec!["pool.example.com.", "loop.example.com."]),
        ("many", "A", "NOERROR", true, Some("30"), vec!["192.0.2.100", "192.0.2.101", "192.0.2.102"]),
        ("mx", "MX", "NOERROR", true, Some("30"), vec!["static.example.com."]),
        ("_s._tcp", "SRV", "NOERROR", true, Some("30"), vec!["static.example.com."]),
    ] {
        let reply = server.ask(&format!("{name}.example.com."), rtype);
        let mut got = data(&reply);
        if name == "many" {
            got.sort_unstable();
        }
        assert_eq!((reply.rcode(), reply.aa(), got), (rcode, aa, answer), "{name} {rtype}");
        let first_ttl = reply.answer.first().and_then(|line| line.split(' ').nth(1));
        assert_eq!(first_ttl, ttl, "{name}");
    }
    let refused = ask_ecs(&mut server, "refused.example.com.", "A", &option("203.0.113.0", 24), "192.0.2.53");
    assert_eq!((refused.rcode(), refused.aa(), refused.option(15)), ("REFUSED", false, Some(&[0, 18][..])));
    assert_eq!(refused.option(8).unwrap()[3], 0);
    let let_in = ask_ecs(&mut server, "refused.example.com.", "A", &option("203.0.112.0", 24), "192.0.2.53");
    assert_eq!((let_in.rcode(), let_in.option(8).unwrap()[3]), ("NOERROR", 24));
    assert!(server.worker.stats().fallback.get() >= 8);
}

/// A lane without members is there for the fallback alone: while something is usable it has no data.
#[test]
fn a_family_that_only_the_fallback_has() {
    for (down, answer) in [(&[0, 1, 2][..], Some("2001:db8::1")), (&[0][..], None)] {
        let mut world = World::new();
        let fixed = |policy: &mut Policy| policy.fallback = Fallback::Fixed;
        let lane = &mut world.add("f.example.com.", RrType::AAAA, &addresses(), down, fixed).lanes[0];
        lane.members.clear();
        lane.fixed = vec!["2001:db8::1".parse::<std::net::Ipv6Addr>().unwrap().octets().into()];
        let mut server = world.server();
        let reply = ask_ecs(&mut server, "f.example.com.", "AAAA", &option("10.10.0.0", 16), "192.0.2.53");
        assert_eq!((reply.rcode(), reply.aa(), data(&reply)), ("NOERROR", true, Vec::from_iter(answer)));
        assert_eq!(reply.authority.len(), usize::from(answer.is_none()), "an SOA beside nothing");
        // T3
        assert_eq!(reply.option(8).unwrap()[3], 0);
    }
}

/// dns.md 29: a big dynamic answer is truncated over UDP and whole over TCP.
#[test]
fn big_dynamic_answers() {
    let members: Vec<Vec<u8>> = (0..=255).map(|i| vec![192, 0, 2, i]).collect();
    let mut world = World::new();
    world.add("big.example.com.", RrType::A, &members, &[], |policy| {
        policy.scheduler = Scheduler::All;
        policy.answers = 256;
    });
    let mut server = world.server();
    for size in [None, Some(512), Some(1232), Some(4096)] {
        let bytes = query("big.example.com.", "A");
        let bytes = size.map_or(bytes.clone(), |size| with_opt(bytes, size, 0, 0, &[]));
        let reply = server.udp(&bytes).unwrap();
        assert!(reply.tc() && reply.answer.is_empty(), "{size:?}");
    }
    assert_eq!(server.ask("big.example.com.", "A").answer.len(), 256);
}

/// O04: `explain` walks the same road: for random clients its reply is the wire's.
#[test]
fn explain_equals_the_wire() {
    let mut world = world();
    world.add("rr.example.com.", RrType::A, &addresses(), &[1], |policy| {
        policy.scheduler = Scheduler::RoundRobin
    });
    world.add("random.example.com.", RrType::A, &addresses(), &[], |policy| {
        policy.scheduler = Scheduler::Random;
        policy.answers = 2;
    });
    world.add("hash.example.com.", RrType::A, &addresses(), &[], |policy| {
        policy.scheduler = Scheduler::SourceHash { v4: 24, v6: 48 };
    });
    world.add("to.example.com.", RrType::CNAME, &[wire("www.example.com.")], &[], |_| {});
    let mx = |target: &str| [&[0, 10], &wire(target)[..]].concat();
    let targets = ["rr.example.com.", "random.example.com.", "hash.example.com.", "rr.example.com."].map(mx);
    world.add("post.example.com.", RrType::MX, &targets, &[], |policy| {
        policy.scheduler = Scheduler::Random;
        policy.answers = 3;
    });
    let mut server = world.server();
    let mut state = 0x5eed_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32
    };
    for round in 0..2000 {
        let (name, rtype, decided) = [
            ("www", "A", 1..=1),
            ("rr", "A", 1..=1),
            ("random", "A", 1..=1),
            ("hash", "A", 1..=1),
            ("to", "A", 2..=2),
            ("chain", "A", 1..=1),
            ("static", "A", 0..=0),
            ("nope", "A", 0..=0),
            ("mail", "MX", 1..=1),
            ("post", "MX", 3..=4),
        ][random() as usize % 10]
            .clone();
        let name: Name = format!("{name}.example.com.").parse().unwrap();
        let client = IpAddr::from((random() % (1 << 16) + (10 << 24 | 10 << 16)).to_be_bytes());
        let source = (random() % 33) as u8;
        let ecs = (random() % 2 == 0).then(|| (IpAddr::from(random().to_be_bytes()), source));
        let entropy = server.worker.next_entropy();
        let asked = Asked {
            name: &name,
            rtype: rtype.parse().unwrap(),
            client,
            ecs,
            entropy,
            turn: None,
            now: Now::default(),
        };
        let explained = explain_query(&server.snapshot, &asked);
        let mut bytes = query(&name.to_string(), rtype);
        if let Some((address, source)) = ecs {
            let ecs = portolan_dns::ecs::Ecs::new(address, source);
            let mut sent = vec![0, ecs.family as u8, ecs.source, 0];
            sent.extend_from_slice(&ecs.address[..usize::from(source).div_ceil(8)]);
            bytes = with_opt(bytes, 1232, 0, 0, &[(8, &sent)]);
        }
        let wire = server.send(&bytes, &client.to_string(), Transport::Tcp).unwrap();
        let theirs = explained.wire.as_deref().unwrap();
        assert_eq!(wire[2..], theirs[2..], "round {round}: {name} {client} {ecs:?}");
        let shown = present(theirs).unwrap();
        let reply = common::decode(&wire).unwrap();
        if rtype == "A" {
            assert_eq!(shown.answer, data(&reply), "round {round}");
        }
        assert_eq!(shown.rcode, reply.rcode());
        assert_eq!(shown.scope, reply.option(8).map(|echo| echo[3]));
        assert!(decided.contains(&explained.decisions.len()), "{name}: {}", explained.decisions.len());
        assert!(explained.decisions.iter().all(|one| !one.trace.is_empty()));
        let first = explained.decisions.first();
        assert!(first.is_none_or(|one| one.dice == Dice { entropy, ..one.dice }));
    }
}

/// Data is shown as a zone file has it, also where hickory-proto has no word for the type.
#[test]
fn presented() {
    let mut world = world();
    world.add("x.new.example.com.", RrType::A, &addresses(), &[], |_| {});
    let server = world.server();
    for (name, rtype, expected) in [
        ("x.old.example.com.", RrType::A, vec!["new.example.com.", "x.new.example.com.", "192.0.2.100"]),
        ("www.example.com.", RrType::TXT, vec!["\"beside\""]),
        ("mail.example.com.", RrType::MX, vec!["10 www.example.com."]),
    ] {
        let name = name.parse().unwrap();
        let client = "192.0.2.53".parse().unwrap();
        let asked =
            Asked { name: &name, rtype, client, ecs: None, entropy: 0, turn: None, now: Now::default() };
        let shown = present(&explain_query(&server.snapshot, &asked).wire.unwrap()).unwrap();
        assert_eq!(shown.answer, expected, "{name}");
        let lines =
            shown.records.iter().map(|line| line.rsplit_once(" IN ").unwrap().1.split_once(' ').unwrap().1);
        assert_eq!(lines.collect::<Vec<_>>(), expected, "{name}");
    }
}

/// What is wrong with services and zones together is told, all of it.
#[test]
fn problems() {
    let a = |name: &str| {
        let mut world = World::new();
        world.add(name, RrType::A, &addresses(), &[], |_| {});
        world.bindings.remove(0)
    };
    let cname = |name: &str| {
        let mut world = World::new();
        world.add(name, RrType::CNAME, &[wire("x.example.net.")], &[], |_| {});
        world.bindings.remove(0)
    };
    let mut wrong_family = a("v6.example.com.");
    wrong_family.lanes[0].rtype = RrType::AAAA;
    let mut txt = a("txt.example.com.");
    txt.lanes[0].rtype = RrType::TXT;
    let zone = format!("{ZONE}cut.example.com. 60 IN NS ns.example.net.\n");
    for (service, expected) in [
        (a("www.example.org."), "in no served zone"),
        (a("x.cut.example.com."), "at or below a delegation"),
        (a("cut.example.com."), "at or below a delegation"),
        (a("x.old.example.com."), "at or below a delegation or a DNAME"),
        (a("chain.example.com."), "has a CNAME at the service"),
        (cname("www.example.com."), "may answer CNAME beside the zone's"),
        (cname("example.com."), "may answer CNAME beside the zone's"),
        (wrong_family, "is no AAAA data"),
        (txt, "cannot answer TXT"),
    ] {
        let name = service.name.clone();
        let problems = Catalog::build(load(&[&zone]), vec![service]).unwrap_err();
        assert!(problems.iter().any(|problem| problem.message.contains(expected)), "{name}: {problems:?}");
        assert!(problems.iter().all(|problem| problem.help.is_some()));
    }
    let twice = Catalog::build(load(&[&zone]), vec![a("a.example.com."), a("A.example.com.")]).unwrap_err();
    assert!(twice[0].message.contains("given twice"));
    let twice = Catalog::build(load(&[&zone, &zone]), Vec::new()).unwrap_err();
    assert!(twice[0].message.contains("given twice"));
    let zero = {
        let mut service = a("a.example.com.");
        service.lanes[0].ttl = 0;
        service
    };
    let (_, warnings) = Catalog::build(load(&[&zone]), vec![zero]).unwrap();
    assert!(warnings[0].message.contains("TTL 0"));
}

/// Members that come later are answered as if they had been there from the start; without any there is no data.
#[test]
fn lanes_get_other_members() {
    let policies = |world: &mut World, members: &[Vec<u8>]| {
        world.add("www.example.com.", RrType::A, members, &[], by_operator);
        world.add("plain.example.com.", RrType::A, members, &[], |policy| policy.scheduler = Scheduler::All);
        world.add("other.example.com.", RrType::A, &addresses(), &[], |_| {});
        let alias = [wire("www.example.com.")];
        world.add("alias.example.com.", RrType::CNAME, &alias, &[], |_| {});
    };
    let mut built = World::new();
    policies(&mut built, &addresses());
    let lanes: Vec<_> = built.bindings.iter().flat_map(|binding| binding.lanes.clone()).collect();
    let mut built = built.server();
    let mut empty = World::new();
    policies(&mut empty, &[]);
    let mut later = empty.server();
    assert!(later.ask("plain.example.com.", "A").answer.is_empty());
    assert!(later.ask("plain.example.com.", "A").authority[0].contains("SOA"));

    let before = Arc::clone(&later.snapshot.catalog);
    later.snapshot.view = Arc::clone(&built.snapshot.view);
    later.snapshot.catalog = Arc::new(before.with_lanes(&lanes));
    for (name, rtype, count) in [
        ("www.example.com.", "A", 1),
        ("plain.example.com.", "A", 3),
        ("other.example.com.", "A", 1),
        ("alias.example.com.", "A", 2),
        ("chain.example.com.", "A", 3),
        ("mail.example.com.", "MX", 1),
        ("static.example.com.", "A", 1),
        ("www.example.com.", "TXT", 1),
    ] {
        let (mut was, mut is) = (built.ask(name, rtype), later.ask(name, rtype));
        assert_eq!(was.answer.len(), count, "{name} {rtype}: {:?}", was.answer);
        // case L13: the order of addresses is drawn
        for message in [&mut was, &mut is] {
            message.answer.sort_unstable();
            message.additional.sort_unstable();
        }
        assert_eq!((&was.answer, &was.additional), (&is.answer, &is.additional), "{name} {rtype}");
    }
    // and they go again
    let mut gone = lanes;
    gone.iter_mut().for_each(|lane| lane.members.clear());
    later.snapshot.catalog = Arc::new(later.snapshot.catalog.with_lanes(&gone[..2]));
    assert!(later.ask("plain.example.com.", "A").answer.is_empty());
    assert_eq!(data(&later.ask("other.example.com.", "A")).len(), 1);
    // an alias points at a name, which a lane's exchange does not settle: it stays
    later.snapshot.catalog = Arc::new(later.snapshot.catalog.with_lanes(&gone));
    assert_eq!(later.ask("alias.example.com.", "CNAME").answer.len(), 1);
}
