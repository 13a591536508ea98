//! `[[virtual_server]]`: addresses of this node's site that peers learn of.

use std::net::IpAddr;

use portolan_dns::name::Name;
use serde_json::{Value as Json, json};
use toml::de::DeValue;

use super::service::{InitialWord, MemberCheck};
use crate::place::At;
use crate::read::{self, Int, Many, Reader, Value, table, words};

table! {
    /// A virtual server of this node's site.
    pub struct VirtualServer {
        /// Its name, unique at this node.
        name: At<String>,
        /// The service it serves: the same name at every site.
        service: At<Name>,
        /// Its address, which is answered.
        address: At<IpAddr>,
        /// What it serves.
        protocol: ProtocolWord = ProtocolWord::Tcp,
        /// Its ports.
        ports: At<Ports> = Ports::All,
        /// Who serves it.
        mode: At<ModeWord>,
        /// The link of the site that the address belongs to.
        link: Option<At<String>>,
        /// Share.
        weight: Int<0, 65535> = Int::new(1),
        /// The first tier with enough usable members is used.
        tier: Int<1, 255> = Int::new(1),
        /// Connections it may have.
        connections_max: Option<At<Int<1, 4_294_967_295>>>,
        /// Health checks, or "none".
        check: Option<MemberCheck>,
        /// What it counts as before its first verdict.
        initial: InitialWord = InitialWord::Up,
        /// What is checked, when it is not `address`.
        check_address: Option<At<IpAddr>>,
        /// Its address behind NAT.
        inside: Option<At<IpAddr>>,
    }
}

words! {
    /// What a virtual server serves.
    pub enum ProtocolWord {
        /// TCP.
        Tcp = "tcp",
        /// UDP.
        Udp = "udp",
        /// Every IP protocol.
        Any = "any",
    }
}

words! {
    /// Who serves a virtual server.
    pub enum ModeWord {
        /// Packets with a translated destination.
        Nat = "nat",
        /// Packets sent on as they are.
        Dr = "dr",
        /// Packets in a tunnel.
        Gre = "gre",
        /// TCP connections of our own.
        Proxy = "proxy",
        /// HTTP requests.
        Http = "http",
        /// RTSP requests.
        Rtsp = "rtsp",
        /// Devices that traffic passes through.
        Gateway = "gateway",
        /// Somebody else: it is only checked.
        External = "external",
    }
}

/// Ports of a virtual server.
#[derive(Clone, Debug)]
pub enum Ports {
    /// All of them.
    All,
    /// Ranges, first and last.
    Some(Vec<At<(u16, u16)>>),
}

const PORTS_HELP: &str = "write \"all\", a port like 443, a range like \"8000-8100\", or a list of these";

fn range(node: &read::Node<'_>, reader: &mut Reader<'_>) -> Option<At<(u16, u16)>> {
    let at = reader.span(node);
    let DeValue::String(text) = node.get_ref() else {
        let port = Int::<1, 65535>::read(node, reader)?.get();
        return Some(At { value: (port, port), at });
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let port = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port > 0);
    match (port(first), port(last)) {
        (Some(first), Some(last)) if first <= last => Some(At { value: (first, last), at }),
        _ => reader.bad_value(node, format!("{text:?} is no range of ports"), PORTS_HELP),
    }
}

impl Value for Ports {
    fn read(node: &read::Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        match node.get_ref() {
            DeValue::String(word) if word == "all" => Some(Self::All),
            DeValue::Array(items) => {
                let ranges: Vec<_> = items.iter().map(|item| range(item, reader)).collect();
                let ranges: Vec<_> = ranges.into_iter().collect::<Option<_>>()?;
                if ranges.is_empty() {
                    return reader.bad_value(node, "the list of ports is empty", PORTS_HELP);
                }
                Some(Self::Some(ranges))
            }
            DeValue::String(_) | DeValue::Integer(_) => range(node, reader).map(|one| Self::Some(vec![one])),
            _ => reader.wrong_type(node, "ports"),
        }
    }
    fn schema() -> Json {
        let one = json!({ "type": ["integer", "string"] });
        json!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
    }
    fn show(&self) -> Json {
        match self {
            Self::All => "all".into(),
            Self::Some(ranges) => {
                let shown = |range: &At<(u16, u16)>| format!("{}-{}", range.value.0, range.value.1);
                Many(ranges.iter().map(shown).collect()).show()
            }
        }
    }
}
