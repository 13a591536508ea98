//! GeoIP files (the public MaxMind DB format 2.0) from JSON: `{ "192.0.2.0/24": { "country": { "iso_code": "CN" } } }`.

use std::net::IpAddr;

use serde_json::{Map, Value, json};

/// A record that leads nowhere.
const EMPTY: u32 = u32::MAX;
/// Marks a record that holds an offset into the data section.
const DATA: u32 = 1 << 31;
/// Zero octets between the tree and the data.
const SEPARATOR: u32 = 16;

/// The octets of a file with these networks. Networks must not overlap.
#[must_use]
pub fn from_json(text: &str) -> Vec<u8> {
    let networks: Map<String, Value> = serde_json::from_str(text).unwrap();
    let mut nodes: Vec<[u32; 2]> = vec![[EMPTY; 2]];
    let mut data = Vec::new();
    for (prefix, value) in &networks {
        let offset = u32::try_from(data.len()).unwrap();
        encode(value, &mut data);
        let (bits, length) = parse(prefix);
        insert(&mut nodes, bits, length, DATA | offset);
    }
    let count = u32::try_from(nodes.len()).unwrap();
    let mut file = Vec::new();
    for record in nodes.into_iter().flatten() {
        let value = match record {
            EMPTY => count,
            record if record & DATA != 0 => count + SEPARATOR + (record & !DATA),
            record => record,
        };
        file.extend_from_slice(&value.to_be_bytes());
    }
    file.extend_from_slice(&[0; SEPARATOR as usize]);
    file.extend_from_slice(&data);
    file.extend_from_slice(b"\xab\xcd\xefMaxMind.com");
    let metadata: [(&str, Data<'_>); 9] = [
        ("binary_format_major_version", Data::Unsigned(5, 2)),
        ("binary_format_minor_version", Data::Unsigned(5, 0)),
        ("build_epoch", Data::Unsigned(9, 1_767_225_600)),
        ("database_type", Data::Json(&json!("Test"))),
        ("description", Data::Json(&json!({ "en": "made for a test" }))),
        ("ip_version", Data::Unsigned(5, 6)),
        ("languages", Data::Json(&json!(["en"]))),
        ("node_count", Data::Unsigned(6, count.into())),
        ("record_size", Data::Unsigned(5, 32)),
    ];
    control(7, metadata.len(), &mut file);
    for (key, value) in metadata {
        encode(&Value::String(key.into()), &mut file);
        match value {
            Data::Unsigned(kind, number) => unsigned(kind, number, &mut file),
            Data::Json(value) => encode(value, &mut file),
        }
    }
    file
}

/// A value of the metadata, where readers insist on the width of integers: 5 is 16 bits, 6 is 32, 9 is 64.
enum Data<'a> {
    Unsigned(u8, u64),
    Json(&'a Value),
}

/// A prefix in the tree of IPv6, where IPv4 lies at `::/96`.
fn parse(prefix: &str) -> (u128, u8) {
    let (address, length) = prefix.split_once('/').unwrap();
    let length: u8 = length.parse().unwrap();
    match address.parse().unwrap() {
        IpAddr::V4(address) => (u32::from(address).into(), length + 96),
        IpAddr::V6(address) => (address.into(), length),
    }
}

fn insert(nodes: &mut Vec<[u32; 2]>, bits: u128, length: u8, record: u32) {
    let mut node = 0;
    for depth in 0..length {
        let bit = usize::from(bits >> (127 - depth) & 1 == 1);
        if depth + 1 == length {
            nodes[node][bit] = record;
            return;
        }
        if nodes[node][bit] == EMPTY {
            nodes[node][bit] = u32::try_from(nodes.len()).unwrap();
            nodes.push([EMPTY; 2]);
        }
        node = usize::try_from(nodes[node][bit]).unwrap();
    }
}

fn encode(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::String(text) => {
            control(2, text.len(), out);
            out.extend_from_slice(text.as_bytes());
        }
        Value::Number(number) => match number.as_u64() {
            Some(number) => unsigned(6, number, out),
            None => {
                control(3, 8, out);
                out.extend_from_slice(&number.as_f64().unwrap().to_be_bytes());
            }
        },
        Value::Array(values) => {
            control(11, values.len(), out);
            values.iter().for_each(|value| encode(value, out));
        }
        Value::Object(entries) => {
            control(7, entries.len(), out);
            for (key, value) in entries {
                encode(&Value::String(key.clone()), out);
                encode(value, out);
            }
        }
        Value::Bool(_) | Value::Null => panic!("{value} is not used in such files"),
    }
}

fn unsigned(kind: u8, number: u64, out: &mut Vec<u8>) {
    let octets = number.to_be_bytes();
    let zeros = octets.iter().take_while(|octet| **octet == 0).count();
    control(kind, octets.len() - zeros, out);
    out.extend_from_slice(&octets[zeros..]);
}

/// The control octet: type in the upper three bits (0, and a second octet, for types above 7), size in the lower five.
fn control(kind: u8, size: usize, out: &mut Vec<u8>) {
    let (size, more) = if size < 29 { (size, None) } else { (29, Some(size - 29)) };
    let size = u8::try_from(size).unwrap();
    out.push(if kind <= 7 { kind << 5 | size } else { size });
    if kind > 7 {
        out.push(kind - 7);
    }
    out.extend(more.map(|more| u8::try_from(more).unwrap()));
}
