//! Files that hold keys: whole or not at all, closed to others, never overwritten by accident.

use super::PkiError;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// No key or certificate file is larger; more is not read.
const MAX_FILE: u64 = 1 << 20;

/// What others may do with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Keys: the owner only.
    Secret = 0o600,
    /// Certificates: anybody may read.
    Public = 0o644,
}

/// Makes a folder that only its owner may enter, unless it is there.
pub(super) fn make_folder(path: &Path) -> Result<(), PkiError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed("make", path))
}

/// Writes a file in one step. Without `replace` it must not exist; `remedy` tells what to do if it does.
pub(super) fn write(
    path: &Path,
    text: &str,
    mode: Mode,
    replace: bool,
    remedy: &'static str,
) -> Result<(), PkiError> {
    let exists = || PkiError::Exists { path: path.to_owned(), remedy };
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{:016x}.tmp", fastrand::u64(..)));
    let beside = path.with_file_name(name);
    let result = write_new(&beside, text, mode).map_err(failed("write", &beside)).and_then(|()| {
        if replace {
            return fs::rename(&beside, path).map_err(failed("write", path));
        }
        // link(2) refuses an existing name in the same step; rename(2) would replace it
        match fs::hard_link(&beside, path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(exists()),
            // a file system without hard links
            Err(_) if path.symlink_metadata().is_err() => {
                fs::rename(&beside, path).map_err(failed("write", path))
            }
            Err(_) => Err(exists()),
        }
    });
    let _ = fs::remove_file(&beside);
    result?;
    // the name, too, must survive a power cut; a folder that cannot be synced has no better way
    if let Some(folder) = path.parent().and_then(|folder| File::open(folder).ok()) {
        let _ = folder.sync_all();
    }
    Ok(())
}

fn write_new(path: &Path, text: &str, mode: Mode) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode as u32).open(path)?;
    // the umask may have taken bits that a certificate needs
    file.set_permissions(fs::Permissions::from_mode(mode as u32))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Reads a file; `remedy` tells what to do when it is not there.
pub(super) fn read(path: &Path, remedy: &'static str) -> Result<Vec<u8>, PkiError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(PkiError::Missing { path: path.to_owned(), remedy });
        }
        Err(error) => return Err(failed("read", path)(error)),
    };
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(failed("read", path))?;
    if bytes.len() as u64 > MAX_FILE {
        let problem = "longer than 1 MiB".to_owned();
        return Err(PkiError::Content { path: path.to_owned(), problem, remedy: "name a PEM file" });
    }
    Ok(bytes)
}

/// Whether somebody besides the owner may read the file.
pub(super) fn is_open_to_others(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o077 != 0)
}

/// `DIR/NAME` and an ending; a name may have dots of its own.
pub(super) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut whole = path.as_os_str().to_owned();
    whole.push(".");
    whole.push(ending);
    PathBuf::from(whole)
}

pub(super) fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> PkiError {
    let path = path.to_owned();
    move |source| PkiError::File { operation, path, source }
}
