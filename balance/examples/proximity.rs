//! Sizes and times of the proximity table: `cargo run --release -p portolan-balance --example proximity [ENTRIES]`.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a measuring program")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it measures time")]

use portolan_balance::hash::mix;
use portolan_balance::proximity::{Point, PointId, Points, Prefix, Sample, Settings, Source, Table};
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

const POINTS: u16 = 12;

fn address(number: u64) -> IpAddr {
    // three of four next to another, as operators' prefixes are
    let base = mix(1, number / 4) as u32 & 0xffff_f000;
    IpAddr::V4(Ipv4Addr::from_bits(base | ((number as u32 % 4) << 8)))
}

fn main() {
    let entries: u64 = std::env::args().nth(1).map_or(100_000, |text| text.parse().unwrap());
    let points = Points::new((0..POINTS).map(|i| Point {
        site: format!("s{i}"),
        link: None,
        place: None,
        cost: 0.0,
        is_own: true,
    }));
    let settings = Settings { entries: entries as usize, ..Settings::default() };
    let mut table = Table::new(settings, points);
    let observe = |table: &mut Table, now_ms: u64, number: u64, measured: u64| {
        for i in 0..measured {
            let point = PointId(((number + i * 5) % u64::from(POINTS)) as u16);
            let rtt_us = 5_000 + (mix(number, u64::from(point.0)) % 200_000) as u32;
            table.observe(
                now_ms,
                Sample {
                    prefix: Prefix::new(address(number), 24),
                    point,
                    rtt_us: Some(rtt_us),
                    hops: None,
                    source: Source::Icmp,
                },
            );
        }
    };
    let timed = |what: &str, per: u64, run: &mut dyn FnMut()| {
        let start = Instant::now();
        run();
        let took = start.elapsed();
        println!("{what}: {took:?}, {:.1} ns each", took.as_nanos() as f64 / per as f64);
    };
    timed("observe 4 samples an entry", entries * 4, &mut || {
        (0..entries).for_each(|number| observe(&mut table, 0, number, 4));
    });
    timed("publish all", entries, &mut || drop(black_box(table.publish(0))));
    for number in 0..10 {
        observe(&mut table, 1000, number * 997, 6);
    }
    timed("publish after ten changes", 1, &mut || drop(black_box(table.publish(1000))));
    let mut ranks = None;
    timed("a window's turn", entries, &mut || ranks = table.publish(300_000));
    println!("{} entries, {:?}", table.len(), table.counters());
    let ranks = ranks.unwrap();
    let asked: Vec<IpAddr> = (0..1 << 20).map(|i| address(mix(7, i) % entries)).collect();
    let count = asked.len() as u64;
    timed("find one by one", count, &mut || {
        for address in &asked {
            black_box(ranks.find(*address, 32, 0).scope);
        }
    });
    timed("find in batches of 32, prefetched", count, &mut || {
        for batch in asked.chunks(32) {
            batch.iter().for_each(|address| ranks.prefetch(address));
            batch.iter().for_each(|address| ranks.prefetch_row(address));
            for address in batch {
                black_box(ranks.find(*address, 32, 0).scope);
            }
        }
    });
}
