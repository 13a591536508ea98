//! Checksums of table files (R14).

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::TableProblem;
use super::mmdb::read_file;
use super::prefix::{Fault, clip};
use super::text::problem;

/// A `.sha256` file has one line.
const MAX_SUM_FILE_BYTES: u64 = 4096;

/// Compares a file's content with the sum given in the config, or with the one in `<file>.sha256` where that exists.
pub(super) fn check_sum(file: &Path, data: &[u8], given: Option<&str>) -> Result<(), TableProblem> {
    let (wanted, from) = match given {
        Some(sum) => (sum.to_owned(), file.to_owned()),
        None => {
            let beside = PathBuf::from(format!("{}.sha256", file.display()));
            if !beside.exists() {
                return Ok(());
            }
            let text = read_file(&beside, MAX_SUM_FILE_BYTES)?;
            let text = String::from_utf8_lossy(&text);
            (text.split_whitespace().next().unwrap_or_default().to_owned(), beside)
        }
    };
    if wanted.len() != 64 || !wanted.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        let message = format!("`{}` is not a SHA-256 sum", clip(&wanted));
        return Err(problem(
            &from,
            None,
            None,
            Fault::new(message, "write 64 hex digits, as sha256sum prints them"),
        ));
    }
    let found = format!("{:x}", Sha256::digest(data));
    if found.eq_ignore_ascii_case(&wanted) {
        return Ok(());
    }
    let message = format!("the content has SHA-256 {found}, but {} says {wanted}", from.display());
    Err(problem(file, None, None, Fault::new(message, "fetch the file again, or correct the sum")))
}
