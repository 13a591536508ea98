//! Readers of the tables that say where a client is: ISP prefix lists (R) and mmdb files for geography and AS numbers.
//!
//! ```text
//! *.txt, *.csv ─ text ─┐
//! mmdb + key   ─ mmdb ─┴─► entries ─► balance::nets::overlay ─► IspTables (runs of operator sets, id, explain)
//! mmdb         ─ geo  ────────────────────────────────────────► GeoTable  (records, runs)
//! ```
//! Files are read into memory whole and never mapped: others may overwrite them while we run (R13).
//! Whatever is wrong with a file is a [`TableProblem`] with place, message and remedy; nothing here panics on input.

mod checksum;
mod fuzz;
mod gather;
mod geo;
mod isp;
mod load;
mod mmdb;
pub mod mmdb_write;
mod prefix;
mod row;
mod text;

#[cfg(test)]
mod tests;

use std::fmt;
use std::path::PathBuf;

pub use fuzz::fuzz_isp_text;
pub use geo::{GeoRecord, GeoTable, load_geo};
pub use isp::{FileStats, IspSource, IspTables, Layer, OperatorId, Origin, STALE_AFTER_S};
pub use load::{isp_dir, isp_from_text, load_isp};
pub use mmdb::Mmdb;

/// Something wrong with a table: where, what, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableProblem {
    /// The file, as the config names it.
    pub file: PathBuf,
    /// Line, from 1.
    pub line: Option<usize>,
    /// Column in characters, from 1.
    pub column: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// The remedy.
    pub help: String,
}

impl fmt::Display for TableProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
            if let Some(column) = self.column {
                write!(f, ":{column}")?;
            }
        }
        write!(f, ": {}; {}", self.message, self.help)
    }
}

impl std::error::Error for TableProblem {}
