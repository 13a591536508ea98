//! `[proximity]`: what is measured of clients, and what is made of it.

use ipnet::IpNet;
use serde_json::{Value as Json, json};
use std::time::Duration;
use toml::de::DeValue;

use super::dns::NetOrList;
use crate::place::At;
use crate::read::{self, Int, Length, Reader, Real, Value, table};

table! {
    /// What is measured of clients, and what is made of it.
    pub struct Proximity {
        /// Prefixes remembered at once.
        entries: Int<1000, 10_000_000> = Int::new(100_000),
        /// Bits that make an IPv4 client.
        v4: Int<8, 24> = Int::new(24),
        /// Bits that make an IPv6 client.
        v6: Int<16, 48> = Int::new(48),
        /// What counts, and how much.
        weights: Weights,
        /// What is as good as the best.
        band: Band,
        /// A client keeps its place at least so long.
        dwell: At<Length> = Length::secs(60),
        /// Clients sent elsewhere to learn.
        explore: Explore,
        /// The least round-trip time of this long counts.
        window: At<Length> = Length::secs(300),
        /// What was only seen is forgotten after this.
        passive_ttl: At<Length> = Length::secs(3600),
        /// What was probed is forgotten after this.
        active_ttl: At<Length> = Length::secs(6 * 3600),
        /// Round-trip times that are known.
        fixed as "static": Vec<Static>,
        /// What is seen of clients that come.
        passive: Passive,
        /// Probes.
        active: Active,
        /// Resolvers that are in many places, of whose round-trip time nothing follows.
        anycast: Vec<At<NetOrList>>,
    }
}

table! {
    /// What counts, and how much.
    pub struct Weights {
        /// A millisecond of round-trip time.
        rtt: At<Real> = Real(1.0),
        /// A router on the way.
        hops: At<Real> = Real(0.0),
        /// A percent of attempts without an answer.
        loss: At<Real> = Real(0.5),
        /// A link full to the last bit.
        bandwidth: At<Real> = Real(0.0),
        /// A unit of a link's cost.
        cost: At<Real> = Real(0.0),
    }
}

table! {
    /// What is as good as the best: the larger of the two.
    pub struct Band {
        /// Percent above the best score.
        percent: At<Real> = Real(10.0),
        /// Time above the best score.
        time: At<Length> = Length(Duration::from_millis(5)),
    }
}

table! {
    /// Clients sent elsewhere to learn.
    pub struct Explore {
        /// Share of them.
        share: At<Real> = Real(0.015),
        /// How much worse their place may be.
        limit: At<Length> = Length(Duration::from_millis(50)),
    }
}

table! {
    /// A round-trip time that is known.
    pub struct Static {
        /// Clients.
        prefix: At<IpNet>,
        /// The site.
        site: At<String>,
        /// The link of the site.
        link: Option<At<String>>,
        /// The round-trip time.
        rtt: At<Length>,
    }
}

table! {
    /// What is seen of clients that come.
    pub struct Passive {
        /// Round-trip times of TCP connections.
        tcp: bool = true,
        /// Some resolvers are made to come by TCP.
        solicit: Solicit = Solicit::Off,
    }
}

/// Whether resolvers are made to come by TCP.
#[derive(Clone, Debug)]
pub enum Solicit {
    /// No.
    Off,
    /// So often.
    On(SolicitTable),
}

table! {
    /// How often resolvers are made to come by TCP.
    pub struct SolicitTable {
        /// Share of the queries.
        share: At<Real> = Real(0.005),
        /// Time between two for one prefix.
        every: At<Length> = Length::secs(600),
    }
}

impl Value for Solicit {
    fn read(node: &read::Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        match node.get_ref() {
            DeValue::Boolean(false) => Some(Self::Off),
            DeValue::Boolean(true) => SolicitTable::absent().map(Self::On),
            DeValue::Table(_) => SolicitTable::read(node, reader).map(Self::On),
            _ => reader.wrong_type(node, "true, false or { share = …, every = \"…\" }"),
        }
    }
    fn schema() -> Json {
        json!({ "anyOf": [bool::schema(), SolicitTable::schema()] })
    }
    fn show(&self) -> Json {
        match self {
            Self::Off => false.into(),
            Self::On(_) => true.into(),
        }
    }
}

table! {
    /// Probes: none unless a kind of them is on.
    pub struct Active {
        /// Echoes.
        icmp: bool = false,
        /// Queries for the root's name servers.
        dns: bool = false,
        /// Connections to port 53.
        tcp: bool = false,
        /// Probes a second.
        rate: Int<1, 1000> = Int::new(100),
        /// Probes under way at once.
        in_flight: Int<1, 100> = Int::new(100),
        /// Time between two of one prefix.
        every: At<Length> = Length::secs(600),
        /// Never probed.
        exclude: Vec<At<NetOrList>>,
        /// Probed although they are private, reserved or for documentation.
        also: Vec<At<NetOrList>>,
        /// Whether a peer's word is taken that an address has asked it.
        trust_peers: bool = false,
        /// Who answers for the probes.
        contact: Option<At<String>>,
    }
}
