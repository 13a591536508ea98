//! Instruction counts of what every query does, under callgrind (`make bench-instructions`).
//!
//! A call stands for 64 clients. `decide` is `fold` and `pick`, with the lookup before them.
#![allow(missing_docs, unused_qualifications, reason = "the macros make such items")]

mod fixture;

use std::hint::black_box;

use fixture::Fixture;
use fixture::answers::Answers;
use gungraun::prelude::*;
use portolan_balance::nets::Leaf;
use portolan_balance::{Ask, Row, Silent, decide, fold, pick};

/// Clients asked for in one measured call: their sum is steadier than a single one.
const CLIENTS: usize = 64;
/// Counts do not depend on the tables' size, but making them under valgrind takes its time.
const NETWORKS: usize = 2_000;

fn fixture() -> Fixture {
    Fixture::new(NETWORKS, CLIENTS)
}

#[library_benchmark]
#[bench::of_64(fixture())]
fn lookup(fixture: Fixture) -> (Fixture, u32) {
    let mut sum = 0;
    for &(service, client, _) in &fixture.clients {
        sum += black_box(fixture.ask(service, client)).leaf.class.0;
    }
    (fixture, sum)
}

fn with_leaves() -> (Fixture, Vec<Leaf>) {
    let fixture = fixture();
    let leaves =
        fixture.clients.iter().map(|&(service, client, _)| fixture.ask(service, client).leaf).collect();
    (fixture, leaves)
}

#[library_benchmark]
#[bench::of_64(with_leaves())]
fn folds((mut fixture, leaves): (Fixture, Vec<Leaf>)) -> (Fixture, Vec<Leaf>) {
    for (&(service, client, dice), &leaf) in fixture.clients.iter().zip(&leaves) {
        let ask = Ask { service, client, leaf, destination: None, payload: &[], now_s: 0 };
        fold(&fixture.view, &ask, dice, black_box(&mut fixture.row), &mut Silent);
    }
    (fixture, leaves)
}

fn with_rows() -> (Fixture, Vec<Row>) {
    let (fixture, leaves) = with_leaves();
    // a clone would have no room for picks
    let mut rows: Vec<Row> = (0..CLIENTS).map(|_| Row::default()).collect();
    for ((&(service, client, dice), &leaf), row) in fixture.clients.iter().zip(&leaves).zip(&mut rows) {
        let ask = Ask { service, client, leaf, destination: None, payload: &[], now_s: 0 };
        fold(&fixture.view, &ask, dice, row, &mut Silent);
    }
    (fixture, rows)
}

#[library_benchmark]
#[bench::of_64(with_rows())]
fn picks((fixture, mut rows): (Fixture, Vec<Row>)) -> (Fixture, Vec<Row>) {
    for (&(id, client, dice), row) in fixture.clients.iter().zip(&mut rows) {
        let Some(service) = fixture.view.service(id) else { continue };
        let leaf = Leaf { scope: [0, 16, 16, 0], ..Leaf::default() };
        let ask = Ask { service: id, client, leaf, destination: None, payload: &[], now_s: 0 };
        black_box(pick(service, &ask, dice, row, &mut Silent));
    }
    (fixture, rows)
}

fn near() -> Fixture {
    fixture().with_distances()
}

#[library_benchmark]
#[bench::of_64(fixture())]
#[bench::near_64(near())]
fn decides(mut fixture: Fixture) -> Fixture {
    for index in 0..CLIENTS {
        let (service, client, dice) = fixture.clients[index];
        let ask = fixture.ask(service, client);
        black_box(decide(&fixture.view, &ask, dice, &mut fixture.row, &mut Silent));
    }
    fixture
}

fn static_answers() -> Answers {
    fixture().static_answers()
}

fn dynamic_answers() -> Answers {
    fixture().dynamic_answers()
}

#[library_benchmark]
#[bench::static_64(static_answers())]
#[bench::dynamic_64(dynamic_answers())]
fn responds(mut answers: Answers) -> Answers {
    black_box(answers.respond());
    answers
}

library_benchmark_group!(name = hot, benchmarks = [lookup, folds, picks, decides, responds]);
main!(library_benchmark_groups = hot);
