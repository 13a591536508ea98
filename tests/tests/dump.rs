//! `portolan peers dump FILE`, over octets written down here from docs/peer-protocol.md and the form of the file.
#![allow(clippy::unwrap_used, reason = "a test")]

use portolan_tests::setup::Setup;

fn record(direction: u8, peer: &str, frame: &[u8]) -> Vec<u8> {
    let mut octets = 1_796_083_200_042_u64.to_be_bytes().to_vec();
    octets.push(direction);
    octets.extend(7_u64.to_be_bytes());
    octets.push(peer.len() as u8);
    octets.extend(peer.as_bytes());
    octets.extend(frame);
    let mut whole = (octets.len() as u32).to_be_bytes().to_vec();
    whole.extend(octets);
    whole
}

/// NOTICE with code 1 and a text.
fn notice(text: &str) -> Vec<u8> {
    let mut body = vec![1, 0, 2, 0, 1, 2, 0, text.len() as u8];
    body.extend(text.as_bytes());
    let mut frame = (body.len() as u32).to_be_bytes().to_vec();
    frame.extend([7, 0, 0, 0]);
    frame.extend(body);
    frame
}

#[test]
fn a_trace_is_told() {
    let setup = Setup::empty();
    let mut trace = b"portolan-trace\n\x01".to_vec();
    trace.extend(record(1, "fra1", &notice("good bye")));
    trace.extend(record(0, "nyc1", &[0, 0, 0, 0, 200, 0, 0, 0]));
    trace.extend(record(0, "nyc1", b"GET / HTTP/1.0"));
    let write = |name: &str, octets: &[u8]| std::fs::write(setup.path(name), octets).unwrap();
    write("peers.trace", &trace);
    let said = setup.cli(&["peers", "dump", "peers.trace"]).expect(0);
    let lines: Vec<_> = said.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{}", said.text());
    assert!(lines[0].starts_with("2026-12-01T00:00:00.042Z -> fra1 #7 NOTICE "), "{}", lines[0]);
    assert!(lines[0].contains("Stopping") && lines[0].contains("good bye"), "{}", lines[0]);
    assert!(lines[1].contains("<- nyc1 #7 unknown frame of type 200"), "{}", lines[1]);
    assert!(lines[2].contains("no frame (14 octets)"), "{}", lines[2]);

    let said = setup.cli(&["peers", "dump", "peers.trace", "--peer", "fra1", "--json"]).expect(0).json();
    assert_eq!(said["direction"], "sent");
    assert_eq!(said["frame"]["Notice"]["text"], "good bye");

    write("cut.trace", &trace[..trace.len() - 3]);
    let said = setup.cli(&["peers", "dump", "cut.trace"]).expect(0);
    assert!(
        said.stdout.lines().count() == 2 && said.text().contains("the last record is cut"),
        "{}",
        said.text()
    );
    trace[16] = 0xff;
    write("damaged.trace", &trace);
    let _ = setup.cli(&["peers", "dump", "damaged.trace"]).expect(1);
    write("other", b"something else, and long enough");
    let said = setup.cli(&["peers", "dump", "other"]).expect(1);
    assert!(said.text().contains("no trace of peers' frames"), "{}", said.text());
    let _ = setup.cli(&["peers", "dump", "missing"]).expect(1);
}
