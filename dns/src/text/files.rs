//! Zone texts from real files: the one place here that touches the file system.

use std::fs;
use std::io::Read;

use super::Source;

/// Reads from the file system. Only regular files: a pipe or a device could block or never end.
#[derive(Debug, Clone, Copy, Default)]
pub struct Files;

/// Above any zone in text form; places are counted in 32 bits.
const LARGEST: u64 = 1 << 31;

impl Source for Files {
    fn read(&mut self, path: &str, included_from: Option<&str>) -> Result<(String, Vec<u8>), String> {
        let name = beside(path, included_from);
        // asked before opening: to open a pipe waits for its writer
        let about = fs::metadata(&name).map_err(|error| error.to_string())?;
        if !about.is_file() {
            return Err("not a regular file".to_owned());
        }
        if about.len() > LARGEST {
            return Err(format!("{} octets are too many for a zone file", about.len()));
        }
        let mut octets = Vec::with_capacity(usize::try_from(about.len()).unwrap_or_default());
        let file = fs::File::open(&name).map_err(|error| error.to_string())?;
        file.take(LARGEST).read_to_end(&mut octets).map_err(|error| error.to_string())?;
        Ok((name, octets))
    }
}

/// A path as seen from the file that includes it.
pub(super) fn beside(path: &str, included_from: Option<&str>) -> String {
    let folder = included_from.and_then(|from| from.rsplit_once('/')).map(|(folder, _)| folder);
    match folder {
        Some(folder) if !path.starts_with('/') => format!("{folder}/{path}"),
        _ => path.to_owned(),
    }
}
