//! Addresses of names that answers point at, where those are services (WP-IB 1.8, case E10).

#![allow(clippy::unwrap_used)]

mod common;

use common::world::{World, addresses, ask_ecs, by_operator, option, v4, wire};
use common::{Message, Server, decode, load, query, with_opt};
use portolan_balance::policy::{AclAction, AclRule, AclTable};
use portolan_balance::{CandidateSet, Fallback, Policy, Scheduler, Step};
use portolan_dns::respond::Transport;
use portolan_dns::rrtype::RrType;
use std::sync::Arc;

const ZONE: &str = "\
example.com. 3600 IN SOA ns.example.com. host.example.com. 1 7200 3600 86400 300
example.com. 3600 IN NS www.example.com.
example.com. 3600 IN NS ns.example.com.
example.com. 3600 IN MX 10 www.example.com.
example.com. 3600 IN MX 20 static.example.com.
example.com. 3600 IN MX 30 mail.example.net.
ns.example.com. 3600 IN A 192.0.2.1
static.example.com. 300 IN A 192.0.2.10
static.example.com. 300 IN AAAA 2001:db8::10
www.example.com. 300 IN AAAA 2001:db8::80
www.example.com. 300 IN A 198.51.100.99
to.example.com. 60 IN CNAME mail.example.com.
mail.example.com. 300 IN MX 10 www.example.com.
wild.example.com. 300 IN MX 10 x.any.example.com.
wild.example.com. 300 IN MX 20 y.any.example.com.
*.deep.example.com. 300 IN MX 10 www.example.com.
*.self.example.com. 300 IN HTTPS 1 . alpn=h2
_s._tcp.example.com. 300 IN SRV 1 2 80 www.example.com.
svc.example.com. 300 IN SVCB 1 www.example.com. alpn=h2
bad.example.com. 300 IN MX 1 nodata.example.com.
bad.example.com. 300 IN MX 2 servfail.example.com.
bad.example.com. 300 IN MX 3 refuse.example.com.
bad.example.com. 300 IN MX 4 alias.example.com.
bad.example.com. 300 IN MX 5 sorry.example.com.
bad.example.com. 300 IN MX 6 fixed.example.com.
bad.example.com. 300 IN MX 7 .
cut.example.com. 300 IN NS ns.cut.example.com.
lost.example.com. 300 IN MX 1 x.cut.example.com.
";

const OTHER: &str = "\
example.net. 3600 IN SOA ns.example.com. host.example.com. 1 7200 3600 86400 300
example.net. 3600 IN NS ns.example.com.
";

fn mx(preference: u8, target: &str) -> Vec<u8> {
    [&[0, preference], &wire(target)[..]].concat()
}

fn server() -> Server {
    let mut world = World::new();
    let all = addresses();
    let down = [0, 1, 2];
    let fallback = |fallback: Fallback| move |policy: &mut Policy| policy.fallback = fallback;
    world.add("www.example.com.", RrType::A, &all, &[], by_operator);
    world.add("mail.example.net.", RrType::A, &[v4("192.0.2.200")], &[], |_| {});
    world.add("*.any.example.com.", RrType::A, &all, &[], by_operator);
    world.add("*.self.example.com.", RrType::A, &all, &[], by_operator);
    world.add("resolver.example.com.", RrType::A, &all, &[], by_operator).ecs = false;
    world.add("nodata.example.com.", RrType::A, &all, &down, fallback(Fallback::NoData));
    world.add("servfail.example.com.", RrType::A, &all, &down, fallback(Fallback::ServFail));
    world.add("refuse.example.com.", RrType::A, &all, &down, fallback(Fallback::Refuse));
    world.add("alias.example.com.", RrType::CNAME, &[wire("static.example.com.")], &[], |_| {});
    let sorry = world.add("sorry.example.com.", RrType::A, &all, &down, fallback(Fallback::Fixed));
    sorry.lanes[0].fixed_cname = Some("static.example.com.".parse().unwrap());
    let fixed = world.add("fixed.example.com.", RrType::A, &all, &down, fallback(Fallback::Fixed));
    fixed.lanes[0].fixed = vec![v4("203.0.113.1").into(), v4("203.0.113.1").into()];
    world.add("pair.example.com.", RrType::A, &all[..2], &[], |policy| {
        policy.scheduler = Scheduler::All;
        policy.answers = 2;
    });
    world.add(
        "post.example.com.",
        RrType::MX,
        &[
            mx(1, "pair.example.com."),
            mx(2, "static.example.com."),
            mx(3, "pair.example.com."),
            mx(4, "mail.example.org."),
        ],
        &[],
        |policy| {
            policy.scheduler = Scheduler::All;
            policy.answers = 4;
        },
    );
    world.add("own.example.com.", RrType::MX, &[mx(1, "resolver.example.com.")], &[], |_| {});
    let here = [&[0, 1, 0][..], b"\0\x01\0\x03\x02h2"].concat();
    let web = world.add("web.example.com.", RrType::HTTPS, &[here], &[], |_| {}).lanes.remove(0);
    world.bindings.pop();
    let address = world.add("web.example.com.", RrType::A, &all, &[], by_operator);
    address.lanes.push(web);
    let many: Vec<Vec<u8>> = (0..30).map(|i| mx(i, &format!("h{i}.any.example.com."))).collect();
    world.add("many.example.com.", RrType::MX, &many, &[], |policy| {
        policy.scheduler = Scheduler::All;
        policy.answers = 30;
    });
    let rule = AclRule { from: "bad".into(), action: AclAction::Refuse, members: CandidateSet::EMPTY };
    world.add("choosy.example.com.", RrType::A, &all, &[], |policy| {
        policy.steps = vec![Step::Acl(Arc::new(AclTable { rules: vec![rule], rule_of: vec![u16::MAX, 0] }))];
    });
    world.add("picky.example.com.", RrType::MX, &[mx(1, "choosy.example.com.")], &[], |_| {});
    world.server_of(load(&[ZONE, OTHER]))
}

fn ask(server: &mut Server, name: &str, rtype: &str, subnet: &str) -> (Message, u8) {
    let reply = ask_ecs(
        server,
        format!("{name}.example.com.").trim_start_matches('.'),
        rtype,
        &option(subnet, 24),
        "10.20.0.1",
    );
    let scope = reply.option(8).unwrap()[3];
    (reply, scope)
}

/// Owner, TTL and data.
fn short(lines: &[String]) -> Vec<String> {
    let short = |line: &String| {
        let fields: Vec<&str> = line.split(' ').collect();
        format!("{} {} {}", fields[0].replace("example.com.", ""), fields[1], fields[4])
    };
    lines.iter().map(short).collect()
}

#[test]
fn chosen_like_any_other() {
    let mut server = server();
    let one = "www. 30 192.0.2.101";
    for (name, rtype, additional, scope) in [
        // static addresses first: they are the section's own
        (
            "",
            "MX",
            vec![
                "www. 300 2001:db8::80",
                "static. 300 192.0.2.10",
                "static. 300 2001:db8::10",
                one,
                "mail.example.net. 30 192.0.2.200",
            ],
            16,
        ),
        // E10: nothing chosen beside NS, and nothing that a service shadows
        ("", "NS", vec!["www. 300 2001:db8::80", "ns. 3600 192.0.2.1"], 0),
        ("mail", "MX", vec!["www. 300 2001:db8::80", one], 16),
        ("to", "MX", vec!["www. 300 2001:db8::80", one], 16),
        ("x.deep", "MX", vec!["www. 300 2001:db8::80", one], 16),
        ("_s._tcp", "SRV", vec!["www. 300 2001:db8::80", one], 16),
        ("svc", "SVCB", vec!["www. 300 2001:db8::80", one], 16),
        ("wild", "MX", vec!["x.any. 30 192.0.2.101", "y.any. 30 192.0.2.101"], 16),
        ("z.self", "HTTPS", vec!["z.self. 30 192.0.2.101"], 16),
        ("web", "HTTPS", vec!["web. 30 192.0.2.101"], 16),
        // a lane's own targets: static ones, too, each once
        (
            "post",
            "MX",
            vec![
                "pair. 30 192.0.2.100",
                "pair. 30 192.0.2.101",
                "static. 300 192.0.2.10",
                "static. 300 2001:db8::10",
            ],
            0,
        ),
        // E04: by the resolver's address
        ("own", "MX", vec!["resolver. 30 192.0.2.102"], 0),
        // only addresses help
        ("bad", "MX", vec!["fixed. 5 203.0.113.1"], 0),
        ("lost", "MX", vec![], 0),
        ("mail", "ANY", vec!["www. 300 2001:db8::80"], 0),
    ] {
        let (reply, got) = ask(&mut server, name, rtype, "10.10.1.0");
        let mut shown = short(&reply.additional);
        if name == "post" {
            shown.sort();
        }
        assert_eq!((reply.rcode(), reply.aa(), reply.tc()), ("NOERROR", true, false), "{name} {rtype}");
        assert_eq!(
            (shown, got),
            (additional.iter().map(|line| (*line).to_owned()).collect(), scope),
            "{name} {rtype}"
        );
    }
    let reply = server.ask("many.example.com.", "MX");
    assert_eq!((reply.answer.len(), reply.additional.len()), (30, 10), "at most ten targets");
    // a refusal of the address is none of the question, but depends on the client all the same
    for (subnet, count) in [("203.0.113.0", 0), ("203.0.112.0", 1)] {
        let (reply, scope) = ask(&mut server, "picky", "MX", subnet);
        assert_eq!((reply.rcode(), reply.additional.len(), scope), ("NOERROR", count, 24), "{subnet}");
    }
    // without ECS the resolver's address decides
    let reply = decode(&server.send(&query("mail.example.com.", "MX"), "10.20.0.1", Transport::Udp).unwrap())
        .unwrap();
    assert_eq!(short(&reply.additional), ["www. 300 2001:db8::80", "www. 30 192.0.2.102"]);
}

/// What does not fit is left out, whole RRsets of it, and is no reason to truncate.
#[test]
fn as_far_as_there_is_room() {
    let members: Vec<Vec<u8>> = (0..40).map(|i| vec![192, 0, 2, i]).collect();
    let mut world = World::new();
    world.add("big.example.com.", RrType::A, &members, &[], |policy| {
        policy.scheduler = Scheduler::All;
        policy.answers = 40;
    });
    world.add("small.example.com.", RrType::A, &members[..1], &[], |_| {});
    let targets = [mx(1, "big.example.com."), mx(2, "small.example.com.")];
    world.add("post.example.com.", RrType::MX, &targets, &[], |policy| {
        policy.scheduler = Scheduler::All;
        policy.answers = 2;
    });
    let mut server = world.server_of(load(&[ZONE]));
    let bytes = query("post.example.com.", "MX");
    for size in 512..=1232 {
        let reply = server.udp(&with_opt(bytes.clone(), size, 0, 0, &[])).unwrap();
        assert!(!reply.tc() && reply.answer.len() == 2 && reply.opt.is_some(), "{size}");
        let count = reply.additional.len();
        // 40 addresses take 640 octets
        let expected: &[usize] = if size < 720 { &[1] } else { &[1, 40, 41] };
        assert!(expected.contains(&count) && (size < 1232 || count == 41), "{size}: {count}");
    }
    assert_eq!(server.udp(&bytes).unwrap().additional.len(), 1);
}
