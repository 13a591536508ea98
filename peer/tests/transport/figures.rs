//! Figures for the record: `cargo test -p portolan-peer --test transport -- --ignored --nocapture figures`.

use crate::harness::{Keys, Node, introduce, server};
use portolan_peer::{Claim, Event, Key, VirtualServer};
use std::time::{Duration, Instant};

/// CPU time of this thread, on which both nodes run, in microseconds.
fn cpu_us() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse::<u64>().unwrap() / 1_000
}

async fn claimed(node: &mut Node, name: &str) {
    let wanted = Key::VirtualServer(name.to_owned());
    let wait = async {
        loop {
            if let Some(Event::Claimed { key, .. }) = node.events.next().await
                && key == wanted
            {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait).await.unwrap();
}

#[tokio::test]
#[ignore = "figures, not a test"]
async fn figures() {
    let keys = Keys::new();
    let mut bj1 = Node::start("bj1", keys.identity("bj1")).await;
    let mut fra1 = Node::start("fra1", keys.identity("fra1")).await;
    let start = Instant::now();
    introduce(&keys, &[&bj1, &fra1]);
    fra1.until_up("bj1").await;
    bj1.until_up("fra1").await;
    println!("from nothing to a session: {:?}", start.elapsed());

    let mut times = Vec::new();
    let before = cpu_us();
    for round in 0..1_000_u16 {
        let start = Instant::now();
        let weight = round + 2;
        bj1.handle.publish(Claim::VirtualServer(VirtualServer { weight, ..server("www") }), None);
        claimed(&mut fra1, "www").await;
        times.push(start.elapsed());
    }
    let cpu = cpu_us() - before;
    times.sort();
    println!("a change at the peer: median {:?}, p99 {:?}, most {:?}", times[500], times[990], times[999]);
    println!("CPU of both ends, a change: {} us", cpu / 1_000);

    let (start, before) = (Instant::now(), cpu_us());
    for number in 0..10_000 {
        bj1.publish(&format!("bulk-{number}"));
    }
    claimed(&mut fra1, "bulk-9999").await;
    println!(
        "10,000 virtual servers: {:?}, CPU of both ends {} us each",
        start.elapsed(),
        (cpu_us() - before) / 10_000
    );
}
