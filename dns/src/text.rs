//! RFC 1035 master files to records.
//!
//! ```text
//! octets ─► lex ─► read ─► rdata ─► check ─► Loaded
//!           lines, (directives, (a field   (one SOA, no data
//!           tokens) owner, TTL)  at a time) beside a CNAME, ...)
//! ```
//!
//! Nothing here does I/O: a [`Source`] gives the octets of each file; [`Files`] is the one for real files.

pub mod check;
mod encoding;
mod field;
mod files;
mod generate;
mod layout;
mod lex;
mod loc;
mod problem;
mod rdata;
mod read;
mod svcb;
mod verify;

use std::collections::BTreeMap;
use std::fmt;

pub use crate::record::{Loaded, Place, Problem};
pub use files::Files;

use files::beside;

/// Where the octets of a zone file and of the files it includes come from.
pub trait Source {
    /// Reads a file. A relative `path` is relative to the file that includes it.
    /// Returns the resolved name, by which cycles are found and problems are reported, and the octets.
    fn read(&mut self, path: &str, included_from: Option<&str>) -> Result<(String, Vec<u8>), String>;
}

/// Texts in memory, by name.
impl Source for BTreeMap<String, Vec<u8>> {
    fn read(&mut self, path: &str, included_from: Option<&str>) -> Result<(String, Vec<u8>), String> {
        let name = beside(path, included_from);
        let octets = self.get(&name).cloned().ok_or_else(|| "no such text".to_owned())?;
        Ok((name, octets))
    }
}

/// What a zone may cost, and the TTL where the text gives none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The TTL of records before any `$TTL` and any explicit TTL; its use is a warning.
    pub default_ttl: u32,
    /// How deep files may include files.
    pub include_depth: usize,
    /// How many `$INCLUDE`s are followed in all.
    pub includes: usize,
    /// How many octets are read in all.
    pub octets: usize,
    /// How many records `$GENERATE` may make in all.
    pub generated: u64,
    /// How many problems are reported before reading stops.
    pub problems: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            default_ttl: 3600,
            include_depth: 16,
            includes: 10_000,
            octets: 1 << 31,
            generated: 1 << 20,
            problems: 20,
        }
    }
}

/// A [`Problem`] with the file's name, ready to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The file.
    pub file: String,
    /// The place in it.
    pub place: Place,
    /// What is wrong, naming the value.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl Fault {
    /// Joins a problem with the names of the files it may be in.
    pub fn new(problem: Problem, files: &[String]) -> Self {
        let file = usize::try_from(problem.place.file).ok().and_then(|file| files.get(file));
        Self {
            file: file.cloned().unwrap_or_default(),
            place: problem.place,
            message: problem.message,
            help: problem.help,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file)?;
        // a file that cannot be read has no lines
        if self.place.line > 0 {
            write!(f, "{}:{}:", self.place.line, self.place.column)?;
        }
        write!(f, " {}", self.message)?;
        match &self.help {
            Some(help) => write!(f, " (help: {help})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Fault {}

/// Loads a zone: reads `path` and what it includes, and checks the zone as a whole.
///
/// An error holds all problems found, at most [`Limits::problems`].
pub fn load(source: &mut dyn Source, path: &str, limits: &Limits) -> Result<Loaded, Vec<Fault>> {
    let mut read = read::read(source, path, limits);
    if read.errors.is_empty() {
        match check::check(&mut read.records) {
            Ok(checked) => {
                read.warnings.extend(checked.warnings);
                return Ok(Loaded {
                    files: read.files,
                    origin: checked.origin,
                    records: read.records,
                    warnings: read.warnings,
                });
            }
            Err(problems) => read.errors = problems,
        }
    }
    read.errors.truncate(limits.problems.max(1));
    Err(read.errors.into_iter().map(|problem| Fault::new(problem, &read.files)).collect())
}
