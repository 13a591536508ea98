//! Writes small mmdb files, for tests and the demo. (MaxMind DB format 2.0.)

use std::net::IpAddr;

/// A value of a record.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// UTF-8 text.
    Text(String),
    /// A whole number of 16 bits: most of the metadata.
    U16(u16),
    /// A whole number.
    U32(u32),
    /// A whole number of 64 bits: the time of the build.
    U64(u64),
    /// A number with a fraction.
    F64(f64),
    /// Fields by name.
    Map(Vec<(String, Self)>),
    /// Values in order.
    List(Vec<Self>),
}

impl From<&str> for Data {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}
impl From<u32> for Data {
    fn from(number: u32) -> Self {
        Self::U32(number)
    }
}
impl From<f64> for Data {
    fn from(number: f64) -> Self {
        Self::F64(number)
    }
}

/// A map, field by field.
pub fn map<const N: usize>(fields: [(&str, Data); N]) -> Data {
    Data::Map(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// What a node's half leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Nothing,
    Node(usize),
    /// By offset in the data section.
    Record(usize),
}

/// An mmdb file in the making.
#[derive(Clone, Debug)]
pub struct MmdbWriter {
    v6: bool,
    nodes: Vec<[Next; 2]>,
    data: Vec<u8>,
    metadata: Vec<(String, Data)>,
}

impl MmdbWriter {
    /// An empty file; IPv4 networks go below ::/96 when it has IPv6.
    pub fn new(database_type: &str, v6: bool) -> Self {
        let metadata = vec![
            ("database_type".to_owned(), database_type.into()),
            ("description".to_owned(), Data::Map(Vec::new())),
            ("languages".to_owned(), Data::List(vec!["en".into()])),
            ("ip_version".to_owned(), Data::U16(if v6 { 6 } else { 4 })),
            ("record_size".to_owned(), Data::U16(32)),
            ("binary_format_major_version".to_owned(), Data::U16(2)),
            ("binary_format_minor_version".to_owned(), Data::U16(0)),
            ("build_epoch".to_owned(), Data::U64(1_700_000_000)),
        ];
        Self { v6, nodes: vec![[Next::Nothing; 2]], data: Vec::new(), metadata }
    }

    /// Sets a field of the metadata; `node_count` too, which otherwise is what it must be.
    pub fn metadata(&mut self, name: &str, value: Data) -> &mut Self {
        self.metadata.retain(|(known, _)| known != name);
        self.metadata.push((name.to_owned(), value));
        self
    }

    /// Gives a network a record. A longer network inside splits it; a network given later covers those inside. An IPv6
    /// network in an IPv4 file is left out.
    pub fn insert(&mut self, network: ipnet::IpNet, record: &Data) -> &mut Self {
        let offset = self.data.len();
        encode(record, &mut self.data);
        let (bits, len) = match (network.network(), self.v6) {
            (IpAddr::V4(addr), false) => (u128::from(u32::from(addr)) << 96, network.prefix_len()),
            (IpAddr::V4(addr), true) => (u128::from(u32::from(addr)), network.prefix_len() + 96),
            (IpAddr::V6(addr), true) => (addr.into(), network.prefix_len()),
            (IpAddr::V6(_), false) => return self,
        };
        self.put(bits, len, Next::Record(offset));
        self
    }

    /// Lets a network lead into the IPv4 part, as MaxMind's files do for 6to4 and others.
    pub fn alias_v4(&mut self, network: ipnet::Ipv6Net) -> &mut Self {
        let mut node = 0;
        for _ in 0..96 {
            node = self.below(node, 0);
        }
        self.put(network.network().into(), network.prefix_len(), Next::Node(node));
        self
    }

    fn put(&mut self, bits: u128, len: u8, next: Next) {
        let mut node = 0;
        let side = |depth: u8| (bits >> (127 - depth) & 1) as usize;
        // the root has no record of its own: a network of length 0 is its two halves
        for depth in 0..len.saturating_sub(1) {
            node = self.below(node, side(depth));
        }
        match len.checked_sub(1) {
            Some(last) => self.nodes[node][side(last)] = next,
            None => self.nodes[0] = [next; 2],
        }
    }

    /// The node on one side of a node; made when there is none, with what was there on both its sides.
    fn below(&mut self, node: usize, side: usize) -> usize {
        match self.nodes[node][side] {
            Next::Node(next) => next,
            was @ (Next::Nothing | Next::Record(_)) => {
                self.nodes.push([was; 2]);
                let next = self.nodes.len() - 1;
                self.nodes[node][side] = Next::Node(next);
                next
            }
        }
    }

    /// The file's content.
    pub fn finish(&self) -> Vec<u8> {
        let count = self.nodes.len();
        let mut file = Vec::new();
        for next in self.nodes.iter().flatten() {
            let record = match *next {
                Next::Nothing => count,
                Next::Node(node) => node,
                Next::Record(offset) => count + 16 + offset,
            };
            file.extend_from_slice(&(record as u32).to_be_bytes());
        }
        file.extend_from_slice(&[0; 16]);
        file.extend_from_slice(&self.data);
        file.extend_from_slice(b"\xab\xcd\xefMaxMind.com");
        let mut metadata = self.metadata.clone();
        if metadata.iter().all(|(name, _)| name != "node_count") {
            metadata.push(("node_count".to_owned(), Data::U32(count as u32)));
        }
        encode(&Data::Map(metadata), &mut file);
        file
    }
}

fn encode(value: &Data, out: &mut Vec<u8>) {
    match value {
        Data::Text(text) => {
            control(2, text.len(), out);
            out.extend_from_slice(text.as_bytes());
        }
        Data::F64(number) => {
            control(3, 8, out);
            out.extend_from_slice(&number.to_be_bytes());
        }
        Data::U16(number) => {
            control(5, 2, out);
            out.extend_from_slice(&number.to_be_bytes());
        }
        Data::U32(number) => {
            control(6, 4, out);
            out.extend_from_slice(&number.to_be_bytes());
        }
        Data::U64(number) => {
            control(9, 8, out);
            out.extend_from_slice(&number.to_be_bytes());
        }
        Data::Map(fields) => {
            control(7, fields.len(), out);
            for (name, value) in fields {
                encode(&Data::Text(name.clone()), out);
                encode(value, out);
            }
        }
        Data::List(values) => {
            control(11, values.len(), out);
            for value in values {
                encode(value, out);
            }
        }
    }
}

/// The control byte: type and size; types above 7 go into a second byte, sizes from 29 on into those that follow.
fn control(kind: u8, size: usize, out: &mut Vec<u8>) {
    let (low, more): (u8, Vec<u8>) = match size {
        0..29 => (size as u8, Vec::new()),
        29..285 => (29, vec![(size - 29) as u8]),
        285..65_821 => (30, ((size - 285) as u16).to_be_bytes().to_vec()),
        _ => (31, ((size - 65_821) as u32).to_be_bytes()[1..].to_vec()),
    };
    match kind.checked_sub(7) {
        Some(extended @ 1..) => out.extend_from_slice(&[low, extended]),
        Some(0) | None => out.push(kind << 5 | low),
    }
    out.extend_from_slice(&more);
}
