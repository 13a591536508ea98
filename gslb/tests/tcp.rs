//! DNS over TCP: case W26 and dns.md 16.

mod common;

use common::*;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

const LOOPBACK: &str = "\"127.0.0.1:0\"";

fn id(message: &[u8]) -> u16 {
    u16::from_be_bytes([message[0], message[1]])
}

#[test]
fn queries_in_one_segment_and_split_over_segments() {
    let node = Node::start(LOOPBACK, "", SERVICE);
    let mut stream = node.tcp();
    let six: Vec<u8> = (0..6).flat_map(|id| framed(&query(id, "www.example.com", None))).collect();
    stream.write_all(&six).unwrap();
    let ids: Vec<u16> = (0..6).map(|_| id(&read_message(&mut stream).unwrap())).collect();
    assert_eq!(ids, [0, 1, 2, 3, 4, 5]);
    // octet by octet
    stream.set_nodelay(true).unwrap();
    for octet in framed(&query(9, "www.example.com", None)) {
        stream.write_all(&[octet]).unwrap();
    }
    assert_eq!(id(&read_message(&mut stream).unwrap()), 9);
    // half-closed: all that came whole is answered, then the end
    stream.write_all(&six).unwrap();
    stream.write_all(&[0, 50, 1, 2, 3]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    for expected in 0..6 {
        assert_eq!(id(&read_message(&mut stream).unwrap()), expected);
    }
    assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0);
}

#[test]
fn stalls_and_silence_are_ended() {
    let node =
        Node::start(LOOPBACK, "tcp = { idle_timeout = \"400ms\", query_timeout = \"200ms\" }", SERVICE);
    let long: Vec<u8> = [&32_000_u16.to_be_bytes()[..], &[0; 10]].concat();
    for (what, bytes) in
        [("nothing", &[][..]), ("one octet", &[0]), ("a length", &[0, 40]), ("a part", &long)]
    {
        let mut stream = node.tcp();
        stream.write_all(bytes).unwrap();
        let begin = Instant::now();
        // an end or a reset, but no silence
        assert!(matches!(stream.read(&mut [0; 16]), Ok(0) | Err(_)), "{what}");
        assert!(begin.elapsed() < Duration::from_secs(5), "{what}: {:?}", begin.elapsed());
    }
    // a client that asks now and then stays
    let mut stream = node.tcp();
    for id in 0..5 {
        std::thread::sleep(Duration::from_millis(150));
        ask_stream(&mut stream, id).unwrap();
    }
}

#[test]
fn the_connection_idle_longest_makes_room() {
    let node = Node::start(LOOPBACK, "tcp = { max_connections = 5, idle_timeout = \"1m\" }", SERVICE);
    let mut streams: Vec<_> = (0..5).map(|_| node.tcp()).collect();
    for (id, stream) in (0..).zip(&mut streams) {
        ask_stream(stream, id).unwrap();
    }
    ask_stream(&mut streams[0], 10).unwrap();
    let mut sixth = node.tcp();
    ask_stream(&mut sixth, 6).unwrap();
    assert!(matches!(streams[1].read(&mut [0; 1]), Ok(0) | Err(_)), "the second was idle longest");
    for at in [0, 2, 3, 4] {
        ask_stream(&mut streams[at], 20).unwrap_or_else(|error| panic!("{at}: {error}"));
    }
}

#[test]
fn a_slow_reader_is_ended_and_others_are_served() {
    let node = Node::start(LOOPBACK, "tcp = { query_timeout = \"300ms\" }", SERVICE);
    let mut slow = node.tcp();
    slow.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
    let round: Vec<u8> = (0..500).flat_map(|id| framed(&query(id, "www.example.com", None))).collect();
    // never reads: at some time nothing more is taken, and then the connection ends
    let begin = Instant::now();
    let ended = (0..2000).any(|_| slow.write_all(&round).is_err());
    assert!(ended && begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
    ask_stream(&mut node.tcp(), 1).unwrap();
    assert!(!node.www().is_empty());
}

#[test]
fn many_idle_connections_do_not_stop_udp() {
    let node = Node::start(LOOPBACK, "", SERVICE);
    let streams: Vec<_> = (0..500).map(|_| node.tcp()).collect();
    for _ in 0..100 {
        assert_eq!(node.www().len(), 1);
    }
    drop(streams);
}
