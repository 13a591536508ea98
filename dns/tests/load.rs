//! Big inputs: what loading costs grows with their size, not faster.

#![allow(clippy::unwrap_used)]

mod common;

use common::load;
use portolan_dns::catalog::Catalog;
use std::fmt::Write;

/// 20,000 delegations and hosts load, and each is found.
#[test]
fn a_big_zone() {
    let mut zone = String::from(
        "example.com. 3600 IN SOA ns.example.net. host.example.net. 1 7200 3600 86400 300\nexample.com. 3600 IN NS ns.example.net.\n",
    );
    for i in 0..10_000 {
        let _ = writeln!(zone, "h{i}.a{}.example.com. 60 IN A 192.0.2.1", i % 100);
        let _ = writeln!(
            zone,
            "d{i}.example.com. 60 IN NS ns.d{i}.example.com.\nns.d{i}.example.com. 60 IN A 192.0.2.2"
        );
    }
    let mut server = common::Server::new(load(&[&zone]), Vec::new());
    assert_eq!(server.snapshot.catalog.name_count(), 20_101);
    for i in (0..10_000).step_by(97) {
        assert_eq!(server.ask(&format!("H{i}.a{}.example.com.", i % 100), "A").answer.len(), 1);
        let referral = server.ask(&format!("x.y.d{i}.example.com."), "A");
        assert_eq!((referral.authority.len(), referral.additional.len(), referral.aa()), (1, 1, false));
    }
    assert_eq!(server.ask("h1.a2.example.com.", "A").rcode(), "NXDOMAIN");
}

/// An RRset that no message can hold is told at load, not found out by a client.
#[test]
fn an_rrset_too_big() {
    let mut zone = String::from(
        "example.com. 3600 IN SOA ns.example.net. host.example.net. 1 7200 3600 86400 300\nexample.com. 3600 IN NS ns.example.net.\n",
    );
    for i in 0..300 {
        let _ = writeln!(zone, "big.example.com. 60 IN TXT \"{i:0>250}\"");
    }
    let problems = Catalog::build(load(&[&zone]), Vec::new()).err().unwrap_or_default();
    assert!(problems[0].message.contains("fit no DNS message"), "{problems:?}");
}

/// Zones one inside another, in any order: the deepest answers (dns.md 30), DS is the parent's.
#[test]
fn nested_zones() {
    let zone = |origin: &str, more: &str| {
        format!(
            "{origin} 3600 IN SOA ns.{origin} host.{origin} 1 7200 3600 86400 300\n{origin} 3600 IN NS ns.{origin}\nns.{origin} 60 IN A 192.0.2.1\n{more}"
        )
    };
    let outer = zone(
        "example.com.",
        "sub.example.com. 60 IN NS ns.elsewhere.net.\nsub.example.com. 60 IN DS 1 8 2 abababababababababababababababababababababababababababababababab\nx.sub.example.com. 60 IN A 192.0.2.66\n",
    );
    let inner = zone("sub.example.com.", "y.sub.example.com. 60 IN A 192.0.2.77\n");
    let innermost = zone("z.deep.sub.example.com.", "");
    let (_, warnings) = Catalog::build(load(&[&outer, &inner, &innermost]), Vec::new()).unwrap();
    assert_eq!(warnings.len(), 1, "only the innermost is not delegated: {warnings:?}");
    for zones in [[&*outer, &inner, &innermost], [&innermost, &inner, &outer]] {
        let mut server = common::serve(&zones);
        for (name, rtype, rcode, aa, line) in [
            ("y.sub.example.com.", "A", "NOERROR", true, "y.sub.example.com. 60 IN A 192.0.2.77"),
            ("x.sub.example.com.", "A", "NXDOMAIN", true, "sub.example.com. 300 IN SOA"),
            ("sub.example.com.", "NS", "NOERROR", true, "sub.example.com. 3600 IN NS ns.sub.example.com."),
            ("sub.example.com.", "DS", "NOERROR", true, "sub.example.com. 60 IN DS"),
            ("y.sub.example.com.", "DS", "NOERROR", true, "sub.example.com. 300 IN SOA"),
            ("z.deep.sub.example.com.", "DS", "NOERROR", true, "sub.example.com. 300 IN SOA"),
            ("deep.sub.example.com.", "A", "NXDOMAIN", true, "sub.example.com. 300 IN SOA"),
            (
                "ns.z.deep.sub.example.com.",
                "A",
                "NOERROR",
                true,
                "ns.z.deep.sub.example.com. 60 IN A 192.0.2.1",
            ),
            ("example.com.", "DS", "NOERROR", true, "example.com. 300 IN SOA"),
        ] {
            let got = server.ask(name, rtype);
            let first = got.answer.iter().chain(&got.authority).next().cloned().unwrap_or_default();
            assert_eq!((got.rcode(), got.aa()), (rcode, aa), "{name} {rtype}");
            assert!(first.starts_with(line), "{name} {rtype}: {first}");
        }
    }
}
