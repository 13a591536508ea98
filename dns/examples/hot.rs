//! How many nanoseconds of user space a query costs: `cargo run --release -p portolan-dns --example hot [prefixes]`.
//!
//! 1,000 static names (10 % of the queries for names that do not exist), and 1,000 services of 16 candidates that
//! choose by operator and weight, asked with random client subnets over a table of 1,000,000 prefixes.
#![allow(clippy::unwrap_used, clippy::disallowed_types, clippy::disallowed_methods, clippy::print_stdout)]

use portolan_balance::nets::{Nets, Run, Runs};
use portolan_balance::policy::IspTable;
use portolan_balance::view::Turns;
use portolan_balance::{
    Candidate, CandidateId, CandidateSet, Fallback, Policy, Scheduler, Service, ServiceId, Standing, Step,
    View,
};
use portolan_dns::catalog::{Catalog, Lane, ServiceBinding};
use portolan_dns::name::Name;
use portolan_dns::respond::{Now, Options, Query, Replies, Snapshot, Transport, Worker, respond};
use portolan_dns::rrtype::RrType;
use portolan_dns::text::{self, Limits};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

const BATCH: usize = 32;
const PIECE: usize = 2048;

fn main() {
    let prefixes: u32 = std::env::args().nth(1).map_or(1_000_000, |count| count.parse().unwrap());
    let started = Instant::now();
    let snapshot = snapshot(prefixes);
    println!(
        "built in {:.2} s, nets {} MB",
        started.elapsed().as_secs_f64(),
        snapshot.view.nets.heap_bytes() >> 20
    );
    let mut state = 42_u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 32) as u32
    };
    let plain: Vec<Vec<u8>> = (0..1 << 16)
        .map(|_| match random() % 10 {
            0 => query(&format!("nope{}.example.com.", random() % 1000), None),
            _ => query(&format!("host{}.example.com.", random() % 1000), None),
        })
        .collect();
    let dynamic: Vec<Vec<u8>> = (0..1 << 16)
        .map(|_| query(&format!("svc{}.example.com.", random() % 1000), Some(random().to_be_bytes())))
        .collect();
    for (what, queries, batch) in [
        ("static, batch 32", &plain, BATCH),
        ("dynamic, batch 32", &dynamic, BATCH),
        ("static, batch 1", &plain, 1),
        ("dynamic, batch 1", &dynamic, 1),
    ] {
        let mut worker = Worker::new(7);
        let mut replies = Replies::new(BATCH, 1232);
        let source: SocketAddr = "192.0.2.53:4000".parse().unwrap();
        let batches: Vec<Vec<Query<'_>>> = queries
            .chunks(batch)
            .map(|chunk| {
                chunk.iter().map(|bytes| Query { bytes, source, transport: Transport::Udp }).collect()
            })
            .collect();
        // short pieces, so that what else runs on the machine spoils some of them only
        let mut pieces = Vec::new();
        for _ in 0..15 {
            for piece in batches.chunks(PIECE / batch) {
                let start = Instant::now();
                for batch in piece {
                    respond(&mut worker, &snapshot, batch, &mut replies, Now::default());
                }
                pieces.push(start.elapsed().as_nanos() as f64 / PIECE as f64);
            }
        }
        pieces.sort_by(f64::total_cmp);
        let at = |share: usize| pieces[pieces.len() * share / 100];
        println!(
            "{what}: {:.0} ns a query in the best tenth of the pieces, {:.0} in the middle",
            at(10),
            at(50)
        );
    }
}

fn query(name: &str, ecs: Option<[u8; 4]>) -> Vec<u8> {
    let name: Name = name.parse().unwrap();
    let mut bytes = vec![1, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    bytes.extend_from_slice(name.as_wire());
    bytes.extend_from_slice(&[0, 1, 0, 1, 0, 0, 41, 4, 208, 0, 0, 0, 0, 0]);
    match ecs {
        None => bytes.push(0),
        Some([a, b, c, _]) => bytes.extend_from_slice(&[11, 0, 8, 0, 7, 0, 1, 24, 0, a, b, c]),
    }
    bytes
}

/// Adjacent runs of the same size over all IPv4, each of one of 100 operators.
fn operators(prefixes: u32) -> Runs {
    let size = (u32::MAX / prefixes.max(1)).max(0x100) & !0xff;
    let run = |i: u32| {
        let first = i.checked_mul(size)?;
        Some(Run {
            first,
            last: first.checked_add(size - 1)?,
            value: i.wrapping_mul(2_654_435_761) % 100 + 1,
        })
    };
    Runs { v4: (0..prefixes).map_while(run).collect(), v6: Vec::new() }
}

fn snapshot(prefixes: u32) -> Snapshot {
    let mut zone = String::from(
        "example.com. 3600 IN SOA ns.example.com. host.example.com. 1 7200 3600 86400 300\n\
         example.com. 3600 IN NS ns.example.com.\nns.example.com. 3600 IN A 192.0.2.1\n",
    );
    for i in 0..1000 {
        zone.push_str(&format!("host{i}.example.com. 300 IN A 192.0.2.{}\n", i % 256));
    }
    let mut source = BTreeMap::from([("zone".to_owned(), zone.into_bytes())]);
    let loaded = text::load(&mut source, "zone", &Limits::default()).unwrap();
    let (nets, classes) = Nets::build([&Runs::default(), &operators(prefixes), &Runs::default()]);

    let candidates: Vec<Candidate> = (0..16_u8)
        .map(|i| Candidate {
            name: format!("m{i}"),
            key: u64::from(i) + 1,
            site: None,
            weight: u16::from(i) % 4 + 1,
            tier: 1,
            load_threshold: None,
            connections_max: None,
        })
        .collect();
    let on =
        |isp: u32| (0..16).filter(|i| isp >> (i % 7) & 1 == 1).map(CandidateId).collect::<CandidateSet>();
    let table = Arc::new(IspTable { members_of: (0..=100).map(on).collect() });
    let mut services = Vec::new();
    let mut bindings = Vec::new();
    for i in 0..1000_u32 {
        let steps = vec![Step::Isp(Arc::clone(&table))];
        let policy = Policy {
            name: format!("svc{i}"),
            tiers: Policy::tiers_of(&candidates),
            candidates: candidates.clone(),
            consulted: Policy::consulted_by(&steps),
            steps,
            scheduler: Scheduler::WeightedRandom,
            persist: None,
            minimum: 1,
            answers: 1,
            ttl_s: 30,
            fallback: Fallback::All,
            seed: 1,
        };
        let standing = Standing::new(&policy, &[]);
        services.push(Arc::new(Service { policy: Arc::new(policy), standing }));
        let lane = Lane {
            rtype: RrType::A,
            service: ServiceId(i),
            members: (0..16).map(|m| vec![198, 51, 100, m].into()).collect(),
            fixed: Vec::new(),
            fixed_cname: None,
            ttl: 30,
            fallback_ttl: 30,
        };
        let name = format!("svc{i}.example.com.").parse().unwrap();
        bindings.push(ServiceBinding { name, lanes: vec![lane], ecs: true });
    }
    let (catalog, _) = Catalog::build(vec![loaded], bindings).unwrap();
    let view = View {
        nets: Arc::new(nets),
        classes: classes.into(),
        turns: Arc::new(Turns::new(services.len())),
        services,
        proximity: Arc::default(),
        generation: 1,
    };
    let mut options = Options::default();
    options.ecs.accept_private = true;
    Snapshot { catalog: Arc::new(catalog), view: Arc::new(view), options: Arc::new(options) }
}
