//! Nanoseconds of a prefix lookup, a whole `decide` and a whole `respond`, over a million prefixes: for one client, whose
//! data stays in the caches, and for many.
#![allow(clippy::print_stdout, reason = "a bench prints")]

mod fixture;

use std::hint::black_box;
use std::time::Instant;

use fixture::Fixture;
use portolan_balance::{Silent, decide};

/// Rounds of which the least disturbed is shown beside the median.
const ROUNDS: usize = 21;

fn main() {
    // `cargo test --benches` runs this too; it is no test
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    for (name, clients) in [("64 clients", 64), ("16,384 clients", 16_384)] {
        let mut fixture = Fixture::new(500_000, clients);
        let lookups = nanoseconds(clients, clients, |index| {
            let (service, client, _) = fixture.clients[index];
            black_box(fixture.ask(service, client));
        });
        let decisions = nanoseconds(clients, clients, |index| {
            let (service, client, dice) = fixture.clients[index];
            let ask = fixture.ask(service, client);
            black_box(decide(&fixture.view, &ask, dice, &mut fixture.row, &mut Silent));
        });
        let (mut fixed, mut dynamic) = (fixture.static_answers(), fixture.dynamic_answers());
        let per_query = |(median, least): (f64, f64)| (median / clients as f64, least / clients as f64);
        let fixed = per_query(nanoseconds(clients, 1, |_| _ = black_box(fixed.respond())));
        let dynamic = per_query(nanoseconds(clients, 1, |_| _ = black_box(dynamic.respond())));
        let mut near = fixture.with_distances();
        let distances = nanoseconds(clients, clients, |index| {
            let (service, client, dice) = near.clients[index];
            let ask = near.ask(service, client);
            black_box(decide(&near.view, &ask, dice, &mut near.row, &mut Silent));
        });
        for (what, (median, least)) in [
            ("prefix lookup", lookups),
            ("lookup and decide", decisions),
            ("the same by distance", distances),
            ("respond, static names", fixed),
            ("respond, dynamic names", dynamic),
        ] {
            println!("{name}, {what}: median {median:.0} ns, least {least:.0} ns");
        }
    }
}

/// The median and the least of the rounds, for one call of `work`; a round makes `calls` calls, repeated for few clients.
fn nanoseconds(clients: usize, calls: usize, mut work: impl FnMut(usize)) -> (f64, f64) {
    let repeats = (16_384 / clients).max(1);
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..repeats {
                (0..calls).for_each(&mut work);
            }
            start.elapsed().as_nanos() as f64 / (repeats * calls) as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    (rounds[ROUNDS / 2], rounds[0])
}
