//! A small writer of MaxMind databases (the public format, version 2.0): 24-bit records, IPv4 in the IPv6 tree.

/// A value in the data section.
#[derive(Debug, Clone)]
pub enum Value {
    /// UTF-8.
    Text(String),
    /// IEEE 754 double.
    Double(f64),
    /// Unsigned, 16 bits.
    U16(u16),
    /// Unsigned, 32 bits.
    U32(u32),
    /// Unsigned, 64 bits.
    U64(u64),
    /// An array.
    Array(Vec<Self>),
    /// A map with text keys.
    Map(Vec<(&'static str, Self)>),
}

/// A record that leads nowhere.
const EMPTY: u32 = u32::MAX;
/// Marks a record that holds an offset into the data section.
const DATA: u32 = 1 << 31;
/// Between the tree and the data section.
const SEPARATOR: usize = 16;

/// The search tree and the data section, growing.
pub struct Writer {
    nodes: Vec<[u32; 2]>,
    data: Vec<u8>,
}

impl Default for Writer {
    fn default() -> Self {
        Self::new()
    }
}

impl Writer {
    /// An empty database; the first 96 nodes are the zero bits before an IPv4 address.
    pub fn new() -> Self {
        let mut nodes: Vec<[u32; 2]> = (1..=96).map(|next| [next, EMPTY]).collect();
        nodes.push([EMPTY; 2]);
        Self { nodes, data: Vec::new() }
    }

    /// Adds a value to the data section and returns its offset for [`Writer::insert`].
    pub fn add_data(&mut self, value: &Value) -> u32 {
        let offset = self.data.len() as u32;
        encode(value, &mut self.data);
        offset
    }

    /// Says that the addresses of `base`/`length` have the value at `offset`. Networks must not overlap.
    pub fn insert(&mut self, base: u32, length: u8, offset: u32) {
        let mut node = 96;
        for depth in 0..length {
            let bit = (base >> (31 - depth) & 1) as usize;
            if depth + 1 == length {
                self.nodes[node][bit] = DATA | offset;
                return;
            }
            if self.nodes[node][bit] == EMPTY {
                self.nodes[node][bit] = self.nodes.len() as u32;
                self.nodes.push([EMPTY; 2]);
            }
            node = self.nodes[node][bit] as usize;
        }
    }

    /// The file's bytes.
    pub fn finish(self, database_type: &str) -> Vec<u8> {
        let count = self.nodes.len() as u32;
        let mut file = Vec::with_capacity(self.nodes.len() * 6 + self.data.len() + 1024);
        for record in self.nodes.iter().flatten() {
            let value = match record {
                &EMPTY => count,
                record if record & DATA != 0 => count + SEPARATOR as u32 + (record & !DATA),
                record => *record,
            };
            debug_assert!(value < 1 << 24, "24-bit records hold 16 million nodes and data bytes");
            file.extend_from_slice(&value.to_be_bytes()[1..]);
        }
        file.extend_from_slice(&[0; SEPARATOR]);
        file.extend_from_slice(&self.data);
        file.extend_from_slice(b"\xab\xcd\xefMaxMind.com");
        let text = |text: &str| Value::Text(text.into());
        encode(
            &Value::Map(vec![
                ("binary_format_major_version", Value::U16(2)),
                ("binary_format_minor_version", Value::U16(0)),
                ("build_epoch", Value::U64(1_767_225_600)),
                ("database_type", text(database_type)),
                ("description", Value::Map(vec![("en", text("made-up networks for benchmarks"))])),
                ("ip_version", Value::U16(6)),
                ("languages", Value::Array(vec![text("en")])),
                ("node_count", Value::U32(count)),
                ("record_size", Value::U16(24)),
            ]),
            &mut file,
        );
        file
    }
}

fn encode(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Text(text) => {
            control(2, text.len(), out);
            out.extend_from_slice(text.as_bytes());
        }
        Value::Double(number) => {
            control(3, 8, out);
            out.extend_from_slice(&number.to_be_bytes());
        }
        Value::U16(number) => unsigned(5, &number.to_be_bytes(), out),
        Value::U32(number) => unsigned(6, &number.to_be_bytes(), out),
        Value::U64(number) => unsigned(9, &number.to_be_bytes(), out),
        Value::Array(values) => {
            control(11, values.len(), out);
            values.iter().for_each(|value| encode(value, out));
        }
        Value::Map(entries) => {
            control(7, entries.len(), out);
            for (key, value) in entries {
                encode(&Value::Text((*key).into()), out);
                encode(value, out);
            }
        }
    }
}

/// The control byte: type in the upper three bits (0 with a second byte for types above 7), size in the lower five.
fn control(kind: u8, size: usize, out: &mut Vec<u8>) {
    let (small, extra) = if size < 29 { (size as u8, None) } else { (29, Some((size - 29) as u8)) };
    debug_assert!(size < 29 + 256, "longer values are not needed here");
    if kind <= 7 {
        out.push(kind << 5 | small);
    } else {
        out.push(small);
        out.push(kind - 7);
    }
    out.extend(extra);
}

/// Unsigned integers are written without leading zero bytes.
fn unsigned(kind: u8, bytes: &[u8], out: &mut Vec<u8>) {
    let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
    control(kind, bytes.len() - zeros, out);
    out.extend_from_slice(&bytes[zeros..]);
}
