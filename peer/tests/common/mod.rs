//! A mesh under test, and claims to try it with.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each test file uses a part")]

use std::net::IpAddr;

use portolan_peer::claim::Lane;
use portolan_peer::codec::{Batch, Change, Decoded, Hello, Item, decode};
use portolan_peer::{
    Claim, ConnId, Event, Frame, Key, Limits, Mesh, PeerSettings, PeerStatus, PersistenceEntry,
    ProximityCell, ServerState, Settings, VirtualServer,
};

pub fn server(name: &str, state: ServerState) -> Claim {
    Claim::VirtualServer(VirtualServer {
        name: name.into(),
        service: "www.example.com.".into(),
        address: "192.0.2.10".parse().unwrap(),
        site: "two".into(),
        link: Some("ct".into()),
        weight: 3,
        tier: 1,
        state,
        reason: "3 of 3 checks pass".into(),
        load_permille: Some(250),
        connections: Some(17),
        capacity: None,
    })
}

pub fn cell(third: u8, rtt_us: u32) -> Claim {
    Claim::Proximity(ProximityCell {
        prefix: (IpAddr::from([198, 51, third, 0]), 24),
        site: "two".into(),
        link: None,
        rtt_us,
        loss_permille: 0,
        hops: 9,
        samples: 12,
        source: 1,
        confidence: 200,
        age_s: 4,
    })
}

pub fn entry(key: u64, left_s: u32) -> Claim {
    Claim::Persistence(PersistenceEntry { key, candidate: key * 7, left_s })
}

pub fn server_key(name: &str) -> Key {
    Key::VirtualServer(name.into())
}

pub fn peers(names: &[(&str, &str)]) -> Vec<PeerSettings> {
    names.iter().map(|(name, site)| PeerSettings { name: (*name).into(), site: (*site).into() }).collect()
}

/// A mesh `a` at site `one` whose peer `b` at site `two` is played by the test.
pub struct Bench {
    pub mesh: Mesh,
    pub now_ms: u64,
    pub conn: ConnId,
    pub events: Vec<Event>,
    number: [u64; 2],
    sequence: u64,
}

pub const HOLD_MS: u64 = 3_000;

pub fn hello() -> Hello {
    Hello {
        lowest: 1,
        highest: 2,
        node: "b".into(),
        site: "two".into(),
        epoch: 7,
        config: String::new(),
        hold_ms: 3_000,
        claims_per_s: 20_000,
        bytes_per_s: 8 << 20,
        keys: 65_536,
    }
}

impl Bench {
    pub fn new(limits: Limits) -> Self {
        let settings = Settings {
            peers: peers(&[("b", "two"), ("c", "three")]),
            limits,
            ..Settings::new("a", "one", 1, HOLD_MS)
        };
        Self::with(settings)
    }

    pub fn with(settings: Settings) -> Self {
        let mesh = Mesh::new(settings, 1_000);
        Self { mesh, now_ms: 1_000, conn: ConnId(0), events: Vec::new(), number: [0; 2], sequence: 0 }
    }

    /// With a session of which nothing was synced.
    pub fn up(limits: Limits) -> Self {
        let mut bench = Self::new(limits);
        bench.connect();
        bench.send(&Frame::Hello(hello()));
        bench
    }

    /// With a session in which `claims` came.
    pub fn synced(limits: Limits, claims: Vec<Claim>) -> Self {
        let mut bench = Self::up(limits);
        bench.sync(claims);
        bench.frames();
        bench.take_events();
        bench
    }

    pub fn connect(&mut self) {
        self.conn = ConnId(self.conn.0 + 1);
        self.number = [0; 2];
        self.mesh.connected(self.now_ms, "b", self.conn);
    }

    pub fn send(&mut self, frame: &Frame) {
        self.send_octets(&frame.encode());
    }

    pub fn send_octets(&mut self, octets: &[u8]) {
        self.mesh.received(self.now_ms, self.conn, octets);
        self.mesh.check_invariants();
    }

    pub fn item(&mut self, change: Change) -> Item {
        self.sequence += 1;
        Item { sequence: self.sequence, lifetime_ms: None, change }
    }

    pub fn batch(&mut self, lane: Lane, items: Vec<Item>) -> Batch {
        self.number[lane as usize] += 1;
        let number = self.number[lane as usize];
        Batch { lane, number, is_sync: false, is_begin: false, is_end: false, items }
    }

    /// A full sync of both lanes.
    pub fn sync(&mut self, claims: Vec<Claim>) {
        for lane in Lane::ALL {
            let of_lane: Vec<_> = claims.iter().filter(|claim| claim.key().lane() == lane).cloned().collect();
            let items = of_lane.into_iter().map(|claim| self.item(Change::Set(claim))).collect();
            let batch = self.batch(lane, items);
            self.send(&Frame::Claims(Batch { is_sync: true, is_begin: true, is_end: true, ..batch }));
        }
    }

    pub fn change(&mut self, change: Change) {
        let lane = change.key().lane();
        let item = self.item(change);
        let batch = self.batch(lane, vec![item]);
        self.send(&Frame::Claims(batch));
    }

    pub fn set(&mut self, claim: Claim) {
        self.change(Change::Set(claim));
    }

    pub fn keepalive(&mut self) {
        self.send(&Frame::Keepalive(portolan_peer::codec::Keepalive { stamp: 9, echo: 0, delay_ms: 0 }));
    }

    /// Time passes, with every deadline met.
    pub fn pass(&mut self, ms: u64) {
        let until_ms = self.now_ms + ms;
        for _ in 0..100_000 {
            match self.mesh.poll_deadline().filter(|at_ms| *at_ms <= until_ms) {
                Some(at_ms) => {
                    self.now_ms = self.now_ms.max(at_ms);
                    self.mesh.tick(self.now_ms);
                    self.mesh.check_invariants();
                }
                None => break,
            }
        }
        self.now_ms = until_ms;
        self.mesh.tick(until_ms);
    }

    pub fn frames(&mut self) -> Vec<Frame> {
        self.frames_of(self.conn)
    }

    pub fn frames_of(&mut self, conn: ConnId) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(octets) = self.mesh.poll_transmit(conn) {
            let Decoded { frame, skipped, .. } = decode(&octets).unwrap();
            assert_eq!(skipped, Default::default());
            frames.push(frame);
            assert!(frames.len() < 100_000, "it never ends");
        }
        frames
    }

    pub fn take_events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.mesh.poll_event()).collect()
    }

    pub fn status(&self) -> PeerStatus {
        self.mesh.peers().into_iter().find(|peer| peer.name == "b").unwrap()
    }

    pub fn has(&self, key: &Key) -> bool {
        self.mesh.claim("b", key).is_some()
    }
}
