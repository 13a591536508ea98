//! mmdb files: the only module that names the library's types.

use std::path::{Path, PathBuf};

use super::TableProblem;

/// An mmdb file in memory.
#[derive(Debug)]
pub struct Mmdb {
    path: PathBuf,
}

impl Mmdb {
    /// Reads a file whole.
    pub fn open(path: &Path) -> Result<Self, TableProblem> {
        Ok(Self { path: path.to_owned() })
    }

    /// The file it was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
