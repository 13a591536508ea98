//! Records as a zone file gives them, and the places they came from.

use crate::name::Name;
use crate::rrtype::RrType;

/// A place in a zone's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Place {
    /// Index into [`Loaded::files`].
    pub file: u32,
    /// Line, from 1.
    pub line: u32,
    /// Column in octets, from 1.
    pub column: u32,
}

/// One resource record. The class is always IN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The name it belongs to, letters as written.
    pub owner: Name,
    /// Its type.
    pub rtype: RrType,
    /// Seconds it may be cached.
    pub ttl: u32,
    /// Its data in uncompressed wire form.
    pub rdata: Box<[u8]>,
    /// Where it was written.
    pub at: Place,
}

/// A zone as loaded from its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// The files read, by their resolved names; the first is the zone file itself.
    pub files: Vec<String>,
    /// The zone's apex: the owner of its SOA.
    pub origin: Name,
    /// The records in the order written, duplicates dropped, TTLs the same within each RRset.
    pub records: Vec<Record>,
    /// What is odd but can be served.
    pub warnings: Vec<Problem>,
}

/// Something wrong or odd in a zone's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// What, naming the value.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}
