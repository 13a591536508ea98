//! `[dns]`: the DNS server.

use std::net::SocketAddr;
use std::path::PathBuf;

use ipnet::IpNet;
use serde_json::{Value as Json, json};
use toml::de::DeValue;

use crate::place::At;
use crate::read::{self, Int, Length, Reader, Value, table};

table! {
    /// The DNS server.
    pub struct Dns {
        /// Addresses for UDP and TCP.
        listen: Vec<At<SocketAddr>> = everywhere(),
        /// Zone files: paths or globs.
        zones: Vec<At<String>>,
        /// EDNS Client Subnet.
        ecs: Ecs,
        /// DNS cookies: true, false, or a table for a shared secret.
        cookies: Cookies = Cookies::On,
        /// Answer to NSID.
        nsid: Option<At<String>>,
        /// Answer to version.bind.
        version: Option<At<String>>,
        /// Answer to id.server.
        id: Option<At<String>>,
        /// Largest UDP answer.
        udp_size: Int<512, 4096> = Int::new(1232),
        /// Limits of TCP.
        tcp: Tcp,
        /// Response rate limiting.
        rrl: Option<Rrl>,
    }
}

fn everywhere() -> Vec<At<SocketAddr>> {
    let socket = |address: std::net::IpAddr| SocketAddr::new(address, 53).into();
    vec![socket(std::net::Ipv4Addr::UNSPECIFIED.into()), socket(std::net::Ipv6Addr::UNSPECIFIED.into())]
}

table! {
    /// EDNS Client Subnet.
    pub struct Ecs {
        /// Whether the client subnet decides.
        enabled: bool = true,
        /// Resolvers whose client subnet is used; none named: all.
        allow: Vec<At<NetOrList>>,
        /// Use client subnets in private space; without it, as the config's own prefixes suggest.
        accept_private: Option<At<bool>>,
    }
}

/// A prefix, or the name of a list of prefixes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetOrList {
    /// A prefix.
    Net(IpNet),
    /// A list of `[tables.prefixes]`.
    List(String),
}

impl Value for NetOrList {
    fn read(node: &read::Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let text = read::text(node, "a prefix or the name of a list", reader)?;
        // a name has neither dots, colons nor slashes, so a mistyped prefix is told from a missing list
        if !text.contains(['.', ':', '/']) {
            return Some(Self::List(text.to_owned()));
        }
        IpNet::read(node, reader).map(Self::Net)
    }
    fn schema() -> Json {
        json!({ "type": "string" })
    }
    fn show(&self) -> Json {
        match self {
            Self::Net(net) => net.show(),
            Self::List(name) => name.show(),
        }
    }
}

/// DNS cookies.
#[derive(Clone, Debug)]
pub enum Cookies {
    /// None.
    Off,
    /// With a secret of this process.
    On,
    /// With secrets from a file.
    Shared(SharedCookies),
}

table! {
    /// Cookies that several nodes accept.
    pub struct SharedCookies {
        /// File with one secret a line, each 32 hex digits.
        secret_file: At<PathBuf>,
    }
}

impl Value for Cookies {
    fn read(node: &read::Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        match node.get_ref() {
            DeValue::Boolean(true) => Some(Self::On),
            DeValue::Boolean(false) => Some(Self::Off),
            DeValue::Table(_) => SharedCookies::read(node, reader).map(Self::Shared),
            _ => reader.wrong_type(node, "true, false or { secret_file = \"…\" }"),
        }
    }
    fn schema() -> Json {
        json!({ "anyOf": [bool::schema(), SharedCookies::schema()] })
    }
    fn show(&self) -> Json {
        match self {
            Self::Off => false.into(),
            Self::On => true.into(),
            Self::Shared(_) => Json::Null,
        }
    }
}

table! {
    /// Limits of TCP.
    pub struct Tcp {
        /// Connections at once.
        max_connections: Int<1, 1_000_000> = Int::new(10_000),
        /// A connection without a query is closed after this.
        idle_timeout: At<Length> = Length::secs(10),
        /// A query must arrive whole, and an answer be taken, within this.
        query_timeout: At<Length> = Length::secs(5),
        /// Queries of a connection in work at once.
        pipeline: Int<1, 1024> = Int::new(64),
    }
}

table! {
    /// Response rate limiting.
    pub struct Rrl {
        /// Answers a second to one prefix, for each class.
        rate: Int<1, 65_535>,
        /// Every so-many-th limited answer is sent truncated.
        slip: Int<0, 10> = Int::new(2),
        /// Bits that make an IPv4 client.
        ipv4_prefix: Int<8, 32> = Int::new(24),
        /// Bits that make an IPv6 client.
        ipv6_prefix: Int<16, 128> = Int::new(56),
        /// Never limited.
        exempt: Vec<At<NetOrList>>,
        /// Prefixes remembered at once.
        table_size: Int<1000, 10_000_000> = Int::new(100_000),
    }
}
