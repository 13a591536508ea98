//! Response rate limiting (dns.md 19).

#![allow(clippy::unwrap_used)]

mod common;

use common::{Server, query, serve, with_opt};
use portolan_dns::cookie::CookieSecrets;
use portolan_dns::ecs::PrefixSet;
use portolan_dns::respond::Transport;
use portolan_dns::rrl::{Rrl, RrlConfig};
use std::sync::Arc;

const ZONE: &str = "\
example.com. 3600 IN SOA ns.example.com. host.example.com. 1 7200 3600 86400 300
example.com. 3600 IN NS ns.example.com.
ns.example.com. 3600 IN A 192.0.2.1
a.example.com. 60 IN A 192.0.2.2
b.example.com. 60 IN A 192.0.2.3
*.w.example.com. 60 IN A 192.0.2.4
cut.example.com. 60 IN NS ns.example.net.
";

fn limited(config: RrlConfig) -> Server {
    let mut server = serve(&[ZONE]);
    server.options(|options| options.rrl = Some(Arc::new(Rrl::new(config, 1))));
    server
}

fn ten() -> RrlConfig {
    RrlConfig {
        responses_per_s: 10,
        nodata_per_s: 10,
        nxdomain_per_s: 10,
        referrals_per_s: 10,
        errors_per_s: 10,
        ..RrlConfig::default()
    }
}

/// Sends `count` queries at one moment; (whole, truncated, silent).
fn burst(
    server: &mut Server,
    count: usize,
    name: impl Fn(usize) -> String,
    source: impl Fn(usize) -> String,
) -> (usize, usize, usize) {
    let mut got = (0, 0, 0);
    for i in 0..count {
        match server.send(&query(&name(i), "A"), &source(i), Transport::Udp) {
            None => got.2 += 1,
            Some(reply) if common::decode(&reply).unwrap().tc() => got.1 += 1,
            Some(_) => got.0 += 1,
        }
    }
    got
}

#[test]
fn a_flood_is_limited_and_strangers_are_not() {
    let mut server = limited(ten());
    let one = |_: usize| "198.51.100.7".to_owned();
    let a = |_: usize| "a.example.com.".to_owned();
    // 1,000 in a second from a whole /24: a burst of 10, then about 10 more, half of the rest slips
    let (mut whole, mut slipped, mut silent) = (0, 0, 0);
    for ms in 0..1000 {
        server.now.mono_ms = ms;
        let (w, t, s) = burst(&mut server, 1, a, |_| format!("198.51.100.{}", ms % 256));
        (whole, slipped, silent) = (whole + w, slipped + t, silent + s);
    }
    assert!((19..=21).contains(&whole), "{whole}");
    assert!(slipped.abs_diff(silent) <= 1, "{slipped} {silent}");
    let stats = server.worker.stats();
    assert_eq!((stats.dropped_rate.get(), stats.slipped.get()), (silent as u64, slipped as u64));
    // another prefix, and the same prefix for another name
    assert_eq!(burst(&mut server, 10, a, |_| "198.51.101.7".to_owned()), (10, 0, 0));
    assert_eq!(burst(&mut server, 10, |_| "b.example.com.".to_owned(), one), (10, 0, 0));
    // a second of quiet fills the bucket
    server.now.mono_ms += 1000;
    assert_eq!(burst(&mut server, 10, a, one).0, 10);
    // streams are never limited
    for _ in 0..50 {
        assert!(server.send(&query("a.example.com.", "A"), "198.51.100.7", Transport::Tcp).is_some());
    }
}

/// Prefixes that meet in a small table are limited all the same.
#[test]
fn many_prefixes_in_a_small_table() {
    let mut server = limited(RrlConfig { buckets: 1000, ..ten() });
    let name = |_: usize| "a.example.com.".to_owned();
    let (whole, ..) = burst(&mut server, 200 * 100, name, |i| format!("10.0.{}.1", i % 200));
    assert!((2_000..2_100).contains(&whole), "{whole}");
}

/// Random names do not evade it: what is not there, what a wildcard makes and what is delegated count as one each.
#[test]
fn classes() {
    let source = |_: usize| "2001:db8:1:2::9".to_owned();
    let one_of = |i: usize| format!("2001:db8:1:{:x}::9", i % 256);
    for name in ["nope", "x.w", "x.cut", "out"] {
        let mut server = limited(ten());
        let names = |i: usize| {
            if name == "out" {
                format!("x{i}.example.org.")
            } else {
                format!("x{i}{name}.example.com.").replace("x.", ".")
            }
        };
        assert_eq!(burst(&mut server, 100, names, source).0, 10, "{name}");
        assert_eq!(burst(&mut server, 100, names, one_of).0, 0, "{name}: the /56 counts");
        assert_eq!(
            burst(&mut server, 5, |_| "a.example.com.".into(), source).0,
            5,
            "{name}: data is another class"
        );
    }
}

#[test]
fn exemptions_and_switches() {
    let one = |_: usize| "198.51.100.7".to_owned();
    let a = |_: usize| "a.example.com.".to_owned();
    let mut server =
        limited(RrlConfig { exempt: PrefixSet::new([("198.51.100.0".parse().unwrap(), 25)]), ..ten() });
    assert_eq!(burst(&mut server, 100, a, one), (100, 0, 0));
    assert_eq!(burst(&mut server, 100, a, |_| "198.51.100.200".into()).0, 10);
    let mut server = limited(RrlConfig { responses_per_s: 0, ..ten() });
    assert_eq!(burst(&mut server, 100, a, one), (100, 0, 0));
    let mut server = limited(RrlConfig { slip: 0, ..ten() });
    assert_eq!(burst(&mut server, 100, a, one), (10, 0, 90));
    let mut server = limited(RrlConfig { slip: 1, ..ten() });
    assert_eq!(burst(&mut server, 100, a, one), (10, 90, 0));

    // a good server cookie shows that the source is not forged
    let mut server = limited(ten());
    server.options(|options| options.cookies = Some(CookieSecrets { current: [5; 16], previous: None }));
    let with = |data: &[u8]| with_opt(query("a.example.com.", "A"), 1232, 0, 0, &[(10, data)]);
    let first = server.send(&with(&[1; 8]), "198.51.100.7", Transport::Udp).unwrap();
    let cookie = common::decode(&first).unwrap().option(10).unwrap().to_vec();
    assert_eq!(burst(&mut server, 100, a, one).0, 9);
    for _ in 0..100 {
        let reply = server.send(&with(&cookie), "198.51.100.7", Transport::Udp).unwrap();
        assert!(!common::decode(&reply).unwrap().tc());
    }
}
