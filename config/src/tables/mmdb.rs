//! mmdb files: the only module that names the library's types.
//!
//! The file is read whole, every network once, at load; a query never comes here. `Reader::verify` is not asked: it
//! refuses files that people use (case 26). What is broken is found by reading, within limits that the file's own size
//! sets, and a panic inside the library is an error like any other.

use std::collections::HashMap;
use std::fmt;
use std::io::Read;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use maxminddb::{Reader, WithinOptions};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::TableProblem;
use super::prefix::{Fault, Span};
use super::text::problem;

/// Larger files are refused.
const MAX_FILE_BYTES: u64 = 1 << 30;
/// More networks are refused, whatever the file's size.
const MAX_NETWORKS: usize = 16_000_000;

/// An mmdb file in memory.
pub struct Mmdb {
    path: PathBuf,
    reader: Reader<Vec<u8>>,
}

impl fmt::Debug for Mmdb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mmdb").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A value of a record, whatever the file's schema.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Text(String),
    Number(f64),
    Map(Vec<(String, Self)>),
    List(Vec<Self>),
    Other,
}

impl Value {
    /// The value under a key of a map.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Map(fields) => fields.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            Self::Text(_) | Self::Number(_) | Self::List(_) | Self::Other => None,
        }
    }

    /// The value at the end of a path of keys.
    pub(super) fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |value, key| value.get(key))
    }

    /// A text that is not empty.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) if !text.trim().is_empty() => Some(text.trim()),
            Self::Text(_) | Self::Number(_) | Self::Map(_) | Self::List(_) | Self::Other => None,
        }
    }

    /// A number, also when it is written as text.
    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number).filter(|number| number.is_finite()),
            Self::Text(text) => text.trim().parse().ok().filter(|number: &f64| number.is_finite()),
            Self::Map(_) | Self::List(_) | Self::Other => None,
        }
    }

    /// A whole number of 32 bits, also when it is written as text; `AS13335` is one.
    pub(super) fn whole(&self) -> Option<u32> {
        if let Self::Text(text) = self {
            let text = text.trim();
            return text.strip_prefix("AS").unwrap_or(text).parse().ok();
        }
        self.number()
            .filter(|number| (0.0..=4_294_967_295.0).contains(number) && number.fract() == 0.0)
            .map(|n| n as u32)
    }
}

impl Mmdb {
    /// Reads a file whole.
    pub fn open(path: &Path) -> Result<Self, TableProblem> {
        Self::from_bytes(path, read_file(path, MAX_FILE_BYTES)?)
    }

    /// Takes a file's content; the path is for messages.
    pub fn from_bytes(path: &Path, bytes: Vec<u8>) -> Result<Self, TableProblem> {
        let opened = catch_unwind(AssertUnwindSafe(|| Reader::from_source(bytes)));
        match opened {
            Ok(Ok(reader)) => Ok(Self { path: path.to_owned(), reader }),
            Ok(Err(error)) => Err(broken(path, &error.to_string())),
            Err(_) => Err(broken(path, "reading it ended in a panic")),
        }
    }

    /// The file it was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the file says it is: `GeoLite2-City`.
    pub fn database_type(&self) -> &str {
        &self.reader.metadata().database_type
    }

    /// When the file was made, in seconds since 1970.
    pub fn built_unix_s(&self) -> u64 {
        self.reader.metadata().build_epoch
    }

    /// Visits every network in order of address, first IPv4, then IPv6. `read` turns a record into a number and is
    /// asked once for each record; `visit` sees the networks for which that is not 0.
    ///
    /// IPv4 networks come once: the places in an IPv6 tree from which the IPv4 part can be reached again are left out.
    pub(super) fn networks(
        &self,
        read: impl FnMut(&Value) -> u32,
        visit: impl FnMut(Span, u32),
    ) -> Result<(), TableProblem> {
        match catch_unwind(AssertUnwindSafe(|| self.walk(read, visit))) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(message)) => Err(broken(&self.path, &message)),
            Err(_) => Err(broken(&self.path, "reading it ended in a panic")),
        }
    }

    fn walk(
        &self,
        mut read: impl FnMut(&Value) -> u32,
        mut visit: impl FnMut(Span, u32),
    ) -> Result<(), String> {
        // A tree with n nodes has n + 1 ends. Some files share subtrees, and the library comes to the IPv4 part by five
        // ways; far more than that is a tree made to be endless. Ends without data and other ways are counted too, which
        // they are only when the iterator yields them (case 28).
        let ends = self.reader.metadata().node_count as usize + 1;
        let (mut steps, mut networks) = (ends.saturating_mul(8), ends.saturating_mul(4).min(MAX_NETWORKS));
        let options = WithinOptions::default().include_networks_without_data().include_aliased_networks();
        let mut known: HashMap<usize, u32> = HashMap::new();
        for found in self.reader.networks(options).map_err(|error| error.to_string())? {
            let found = found.map_err(|error| error.to_string())?;
            steps = steps.checked_sub(1).ok_or("its search tree is larger than its node count")?;
            let Some(offset) = found.offset() else { continue };
            let network = found.network().map_err(|error| error.to_string())?;
            let Some(span) = span(network.network(), network.prefix()) else { continue };
            networks = networks.checked_sub(1).ok_or("it has more networks than its node count allows")?;
            let value = match known.get(&offset) {
                Some(&value) => value,
                None => {
                    let record: Option<Value> = found.decode().map_err(|error| error.to_string())?;
                    let value = record.map_or(0, |record| read(&record));
                    known.insert(offset, value);
                    value
                }
            };
            if value != 0 {
                visit(span, value);
            }
        }
        Ok(())
    }
}

/// The range of a network; none for those that repeat the IPv4 part: IPv4-mapped, Teredo, 6to4, NAT64.
fn span(addr: IpAddr, len: u8) -> Option<Span> {
    const REPEATS: [(u128, u8); 4] =
        [(0xffff << 32, 96), (0x2001_0000 << 96, 32), (0x2002 << 112, 16), (0x0064_ff9b << 96, 96)];
    match addr {
        IpAddr::V4(addr) => {
            let first = u32::from(addr);
            Some(Span::V4(first, first | u32::MAX.checked_shr(u32::from(len)).unwrap_or(0)))
        }
        IpAddr::V6(addr) => {
            let first = u128::from(addr);
            let repeats = |(prefix, prefix_len): (u128, u8)| {
                len > prefix_len && (first ^ prefix) >> (128 - prefix_len) == 0
            };
            let last = first | u128::MAX.checked_shr(u32::from(len)).unwrap_or(0);
            (!REPEATS.into_iter().any(repeats)).then_some(Span::V6(first, last))
        }
    }
}

fn broken(path: &Path, message: &str) -> TableProblem {
    let fault = Fault::new(
        format!("not a usable mmdb file: {message}"),
        "fetch the file again; a table already loaded stays in force",
    );
    problem(path, None, None, fault)
}

/// A file whole, if it is not too large.
pub(super) fn read_file(path: &Path, max_bytes: u64) -> Result<Vec<u8>, TableProblem> {
    let failed = |error: std::io::Error| {
        let fault = Fault::new(
            format!("cannot be read: {error}"),
            "check the path and that the server's user may read it",
        );
        problem(path, None, None, fault)
    };
    // asked before opening: a pipe waits for its writer
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(failed(std::io::Error::other("not a regular file")));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(max_bytes + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > max_bytes {
        let fault = Fault::new(format!("larger than {max_bytes} bytes"), "leave out what no rule needs");
        return Err(problem(path, None, None, fault));
    }
    Ok(bytes)
}

/// How deep records may nest; real ones have five levels.
const MAX_DEPTH: usize = 32;

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        DeserializeSeed::deserialize(Nested(MAX_DEPTH), deserializer)
    }
}

/// Reads a value with so many levels left.
#[derive(Clone, Copy)]
struct Nested(usize);

impl<'de> DeserializeSeed<'de> for Nested {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Nested {
    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        self.0.checked_sub(1).map(Self).ok_or_else(|| E::custom("a record nests too deeply"))
    }
}

impl<'de> Visitor<'de> for Nested {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }
    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }
    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Number(number))
    }
    fn visit_f32<E>(self, number: f32) -> Result<Value, E> {
        // by way of text: a float's shortest decimal form is what was meant
        Ok(Value::Number(number.to_string().parse().unwrap_or(f64::from(number))))
    }
    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(number as f64))
    }
    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(number as f64))
    }
    fn visit_u128<E>(self, _: u128) -> Result<Value, E> {
        Ok(Value::Other)
    }
    fn visit_bool<E>(self, _: bool) -> Result<Value, E> {
        Ok(Value::Other)
    }
    fn visit_bytes<E>(self, _: &[u8]) -> Result<Value, E> {
        Ok(Value::Other)
    }
    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Value, M::Error> {
        let deeper = self.deeper()?;
        let mut fields = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            fields.push((key, map.next_value_seed(deeper)?));
        }
        Ok(Value::Map(fields))
    }
    fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<Value, S::Error> {
        let deeper = self.deeper()?;
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed(deeper)? {
            values.push(value);
        }
        Ok(Value::List(values))
    }
}
