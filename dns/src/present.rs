//! For `explain`: the reply to a question, and why, by the very code that answers queries.

use crate::ecs::Ecs;
use crate::name::Name;
use crate::respond::{Explained, Now, Query, Recorded, Snapshot, Transport, respond_recorded};
use crate::rrtype::RrType;
use hickory_proto::op::Message;
use hickory_proto::rr::{RData, Record};
use std::net::{IpAddr, SocketAddr};

/// A question to explain.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The name.
    pub name: &'a Name,
    /// The type.
    pub rtype: RrType,
    /// Who asks: a client, or the resolver it uses.
    pub client: IpAddr,
    /// The client subnet the resolver sends along.
    pub ecs: Option<(IpAddr, u8)>,
    /// Random bits of the first decision; those of others follow from them.
    pub entropy: u64,
    /// The turn of each service's first decision; `None` is the turn it is at.
    pub turn: Option<u64>,
    /// Monotonic seconds, for persistence.
    pub now: Now,
}

/// The reply, and the decisions on the way to it.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The reply as it would be sent over a stream; `None` where there is none.
    pub wire: Option<Vec<u8>>,
    /// Each decision, in order; more than one where an alias leads to another
    /// service, or where addresses of an answer's targets are chosen, too.
    pub decisions: Vec<Explained>,
}

/// Answers a question with given dice, and records why. Nothing is remembered and no turn is taken.
#[must_use]
pub fn explain_query(snapshot: &Snapshot, asked: &Asked<'_>) -> Explanation {
    let bytes = query_bytes(asked);
    let query = Query { bytes: &bytes, source: SocketAddr::new(asked.client, 53), transport: Transport::Tcp };
    let mut recorded = Recorded { turn: asked.turn, entropy: asked.entropy, decisions: Vec::new() };
    let wire = respond_recorded(snapshot, &query, asked.now, &mut recorded);
    Explanation { wire, decisions: recorded.decisions }
}

/// The query a resolver would send.
fn query_bytes(asked: &Asked<'_>) -> Vec<u8> {
    let additional = u8::from(asked.ecs.is_some());
    let mut bytes = vec![0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, additional];
    bytes.extend_from_slice(asked.name.as_wire());
    bytes.extend_from_slice(&asked.rtype.0.to_be_bytes());
    bytes.extend_from_slice(&[0, 1]);
    if let Some((address, length)) = asked.ecs {
        let ecs = Ecs::new(address, length);
        let octets = ecs.octets();
        let len = octets.len() as u8 + 4;
        bytes.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, len + 4, 0, 8, 0, len, 0]);
        bytes.extend_from_slice(&[ecs.family as u8, ecs.source, 0]);
        bytes.extend_from_slice(octets);
    }
    bytes
}

/// What of a reply people read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presented {
    /// The response code's mnemonic.
    pub rcode: String,
    /// The data of each answer record, in order.
    pub answer: Vec<String>,
    /// Each answer record as a line of a zone file.
    pub records: Vec<String>,
    /// The least TTL among the answers.
    pub ttl: Option<u32>,
    /// The scope of the client subnet option, where there is one.
    pub scope: Option<u8>,
}

/// Decodes a reply; `None` where it cannot be decoded.
#[must_use]
pub fn present(wire: &[u8]) -> Option<Presented> {
    let message = Message::from_vec(wire).ok()?;
    let answers = message.answers.iter();
    Some(Presented {
        rcode: crate::wire::Rcode(message.metadata.response_code.into()).name().into(),
        answer: answers.clone().map(|record| data_text(&record.data)).collect(),
        records: answers.clone().map(record_text).collect(),
        ttl: answers.map(|record| record.ttl).min(),
        scope: scope(&message),
    })
}

fn record_text(record: &Record) -> String {
    let rtype = RrType(record.record_type().into());
    format!("{} {} {} {rtype} {}", record.name, record.ttl, record.dns_class, data_text(&record.data))
}

/// The data as a zone file has it.
fn data_text(data: &RData) -> String {
    if let RData::TXT(text) = data {
        let strings = text.txt_data.iter().map(|string| quoted(string));
        return strings.collect::<Vec<_>>().join(" ");
    }
    let RData::Unknown { code, rdata } = data else { return data.to_string() };
    let octets = rdata.anything.as_slice();
    match Name::from_wire(octets) {
        // hickory-proto knows no DNAME
        Ok(target) if u16::from(*code) == RrType::DNAME.0 => target.to_string(),
        // RFC 3597 5
        _ => {
            let hex: String = octets.iter().map(|octet| format!("{octet:02x}")).collect();
            format!("\\# {} {hex}", octets.len())
        }
    }
}

/// A character string (RFC 1035 5.1).
fn quoted(string: &[u8]) -> String {
    let escaped = string.iter().map(|&octet| match octet {
        b'"' | b'\\' => format!("\\{}", char::from(octet)),
        0x20..=0x7e => char::from(octet).to_string(),
        _ => format!("\\{octet:03}"),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

fn scope(message: &Message) -> Option<u8> {
    use hickory_proto::rr::rdata::opt::{EdnsCode, EdnsOption};
    let EdnsOption::Subnet(subnet) = message.edns.as_ref()?.option(EdnsCode::Subnet)? else { return None };
    Some(subnet.scope_prefix())
}
