//! TCP as clients misuse it (case W26, dns.md 16; RFC 7766).
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use portolan_tests::node::Node;
use portolan_tests::setup::Setup;
use portolan_tests::stream::{Silence, Stream, framed};
use portolan_tests::wait::{SOON, wait_until};
use portolan_tests::wire::{self, A, Message, Response, TXT};

const NAME: &str = "www.static.test.";

fn start(limits: &str) -> Node {
    let setup = Setup::case("answers");
    let text = std::fs::read_to_string(setup.path("portolan.toml")).unwrap();
    setup.write("portolan.toml", &text.replace("[dns]\n", &format!("[dns]\ntcp = {{ {limits} }}\n")));
    setup.start()
}

fn query() -> Message {
    Message::query(NAME, A)
}

fn answered(octets: &[u8]) -> u16 {
    let response = Response::parse(octets).unwrap();
    assert_eq!((response.rcode, response.counts[1]), (0, 2), "{response:?}");
    response.id
}

#[test]
fn six_queries_in_one_segment() {
    let node = start("");
    let mut stream = Stream::connect(node.dns());
    let queries: Vec<_> = (0..6).map(|_| query()).collect();
    assert!(stream.send_raw(&queries.iter().flat_map(|query| framed(&query.bytes())).collect::<Vec<_>>()));
    let sent: BTreeSet<_> = queries.iter().map(Message::id).collect();
    let got: BTreeSet<_> = (0..6).map(|_| answered(&stream.message())).collect();
    assert_eq!(got, sent);
}

#[test]
fn hundreds_of_queries_pipelined_by_a_reader_that_comes_late() {
    let node = start("pipeline = 4");
    let mut stream = Stream::connect(node.dns());
    let queries: Vec<_> = (0..300).map(|_| query()).collect();
    assert!(stream.send_raw(&queries.iter().flat_map(|query| framed(&query.bytes())).collect::<Vec<_>>()));
    stream.finish();
    let mut sent: Vec<_> = queries.iter().map(Message::id).collect();
    let mut got: Vec<_> = (0..300).map(|_| answered(&stream.message())).collect();
    sent.sort_unstable();
    got.sort_unstable();
    assert_eq!(got, sent);
    assert_eq!(stream.receive(), Err(Silence::Closed), "after a half-close the server closes too");
}

#[test]
fn a_query_octet_by_octet() {
    let node = start("");
    let mut stream = Stream::connect(node.dns());
    for octet in framed(&query().bytes()) {
        assert!(stream.send_raw(&[octet]));
    }
    answered(&stream.message());
    // and the connection goes on
    stream.send(&query().bytes());
    answered(&stream.message());
}

#[test]
fn half_close_after_the_query() {
    let node = start("");
    let mut stream = Stream::connect(node.dns());
    stream.send(&query().bytes());
    stream.finish();
    answered(&stream.message());
    assert_eq!(stream.receive(), Err(Silence::Closed));
}

/// A length and nothing more; one octet; a long message announced and ten octets sent; nothing at all.
#[test]
fn stalled_clients_are_closed() {
    let node = start("query_timeout = \"300ms\", idle_timeout = \"600ms\"");
    let beginnings: [&[u8]; 4] = [&[0, 40], &[0], &[125, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10], &[]];
    let mut streams: Vec<_> = beginnings
        .map(|beginning| {
            let mut stream = Stream::connect(node.dns());
            assert!(stream.send_raw(beginning));
            (beginning, stream)
        })
        .into();
    let begin = Instant::now();
    for (beginning, stream) in &mut streams {
        assert_eq!(stream.receive(), Err(Silence::Closed), "{beginning:?}");
    }
    assert!(begin.elapsed() >= Duration::from_millis(250), "closed too soon: {:?}", begin.elapsed());
}

#[test]
fn idle_clients_are_closed_after_the_timeout_and_not_before() {
    let node = start("idle_timeout = \"500ms\"");
    let mut stream = Stream::connect(node.dns());
    stream.send(&query().bytes());
    answered(&stream.message());
    let begin = Instant::now();
    assert_eq!(stream.receive(), Err(Silence::Closed));
    assert!(begin.elapsed() >= Duration::from_millis(400), "{:?}", begin.elapsed());
}

/// At the limit the connection idle longest goes; the new one and the busy one live.
#[test]
fn at_the_limit_the_most_idle_one_is_closed() {
    let node = start("max_connections = 8, idle_timeout = \"1m\"");
    let use_it = |stream: &mut Stream| {
        stream.send(&query().bytes());
        answered(&stream.message());
    };
    let mut streams: Vec<_> = (0..8).map(|_| Stream::connect(node.dns())).collect();
    streams.iter_mut().for_each(use_it);
    // the first one is used again: now the second one is idle longest
    use_it(&mut streams[0]);
    let mut ninth = Stream::connect(node.dns());
    use_it(&mut ninth);
    assert_eq!(streams[1].receive(), Err(Silence::Closed));
    streams.remove(1);
    streams.iter_mut().for_each(use_it);
    use_it(&mut ninth);
}

#[test]
fn ten_thousand_idle_connections_do_not_stop_udp() {
    let node = start("idle_timeout = \"2m\", max_connections = 12000");
    let streams: Vec<_> = (0..10_000).map(|_| Stream::connect(node.dns())).collect();
    for _ in 0..200 {
        assert!(wire::udp(node.dns(), &query().bytes()).is_some());
    }
    let mut late = Stream::connect(node.dns());
    late.send(&query().bytes());
    answered(&late.message());
    drop(streams);
}

/// A client that asks for much and reads nothing: the node keeps little of it, closes it, and serves the others.
#[test]
fn a_client_that_never_reads_holds_no_memory() {
    let mut node = start("query_timeout = \"500ms\", idle_timeout = \"500ms\"");
    let before = resident_kib(node.process().id());
    let mut stream = Stream::connect(node.dns());
    let question = framed(&Message::query("bigtxt.static.test.", TXT).bytes());
    let many = question.repeat(1_000);
    // until the node takes no more (it closes the connection), or 400 MB of answers would be due
    let deadline = Instant::now() + SOON;
    let mut taken = 0;
    while taken < 100 && Instant::now() < deadline && stream.send_raw(&many) {
        taken += 1;
    }
    let after = resident_kib(node.process().id());
    assert!(after < before + 40_000, "{before} KiB before, {after} KiB after {taken},000 queries");
    wait_until(SOON, "others are served", || wire::udp(node.dns(), &query().bytes()).is_some());
}

fn resident_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
