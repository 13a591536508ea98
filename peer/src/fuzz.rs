//! The fuzz target as a plain function: any octets in, no panic, no hang. The corpus is in `peer/fuzz/corpus/`.

use crate::codec::{Frame, MAX_BODY, Reader, decode};
use crate::mesh::{ConnId, Limits, Mesh, PeerSettings, Settings};

/// Reads `data` as what a peer sends, behind an accepted HELLO or (by the first octet) as the very first octets, in
/// cuts of a length that the second octet chooses. Whatever decodes encodes to what decodes to the same.
pub fn fuzz(data: &[u8]) {
    let [mode, cut, octets @ ..] = data else { return };
    codec(octets);
    let mut mesh = mesh();
    let conn = ConnId(1);
    mesh.connected(0, "b", conn);
    if mode & 1 == 0 {
        mesh.received(0, conn, &hello(u16::from(mode >> 1 & 1) + 1).encode());
    }
    for (turn, piece) in octets.chunks(usize::from(*cut) + 1).enumerate() {
        // time passes, so that timers run between pieces
        let now_ms = turn as u64 * u64::from(mode >> 2);
        mesh.received(now_ms, conn, piece);
        mesh.tick(now_ms);
        drain(&mut mesh, conn);
    }
    mesh.disconnected(1_000_000, conn, "the end");
    mesh.tick(2_000_000);
    mesh.check_invariants();
    assert_eq!(mesh.claims().count(), 0, "claims outlive their author");
}

fn codec(octets: &[u8]) {
    let mut reader = Reader::new(MAX_BODY);
    reader.push(octets);
    while let Ok(Some(frame)) = reader.next_octets() {
        let Ok(decoded) = decode(frame) else { continue };
        if matches!(decoded.frame, Frame::Unknown(_)) {
            continue;
        }
        match decode(&decoded.frame.encode()) {
            Ok(again) => assert_eq!(again.frame, decoded.frame, "it changes when written"),
            Err(error) => panic!("written it does not decode: {error}: {:?}", decoded.frame),
        }
    }
}

fn drain(mesh: &mut Mesh, conn: ConnId) {
    while let Some(frame) = mesh.poll_transmit(conn) {
        if let Err(error) = decode(&frame) {
            panic!("sent what does not decode: {error}: {frame:02x?}");
        }
    }
    while mesh.poll_event().is_some() {}
}

fn mesh() -> Mesh {
    let limits = Limits { keys_per_author: 64, keys: 100, events: 256, ..Limits::default() };
    let peers = vec![PeerSettings { name: "b".into(), site: "two".into() }];
    Mesh::new(Settings { peers, limits, ..Settings::new("a", "one", 1, 3_000) }, 0)
}

/// The HELLO of the peer that the octets are read as.
fn hello(highest: u16) -> Frame {
    Frame::Hello(crate::codec::Hello {
        lowest: 1,
        highest,
        node: "b".into(),
        site: "two".into(),
        epoch: 7,
        config: String::new(),
        hold_ms: 3_000,
        claims_per_s: 1_000,
        bytes_per_s: 1 << 20,
        keys: 1_000,
    })
}
