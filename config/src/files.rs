//! Where config and zone files come from: the disk, or texts in memory.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

/// The largest file that is read; places in files are counted in 32 bits.
const FILE_LIMIT: u64 = 1 << 31;

/// A tree of files. ISP tables and mmdb files are always read from the disk.
pub trait FileSource {
    /// The octets of a file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// The names in a folder, in any order.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// Whether the path is there and no folder.
    fn is_file(&self, path: &Path) -> bool;

    /// The permission bits of a file, where there are any.
    fn mode(&self, _path: &Path) -> Option<u32> {
        None
    }
}

/// The disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl FileSource for Disk {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        // asked before opening: a pipe waits for its writer, a device may never end
        let meta = std::fs::metadata(path)?;
        if !meta.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        if meta.len() > FILE_LIMIT {
            return Err(io::Error::other(format!("{} octets are too many", meta.len())));
        }
        let mut octets = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or_default());
        std::fs::File::open(path)?.take(FILE_LIMIT).read_to_end(&mut octets)?;
        Ok(octets)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let names = std::fs::read_dir(folder)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        Ok(names.collect())
    }

    fn is_file(&self, path: &Path) -> bool {
        std::fs::metadata(path).is_ok_and(|meta| !meta.is_dir())
    }

    fn mode(&self, path: &Path) -> Option<u32> {
        use std::os::unix::fs::PermissionsExt;
        std::fs::metadata(path).ok().map(|meta| meta.permissions().mode() & 0o7777)
    }
}

/// Texts by path: for tests and tools.
impl FileSource for BTreeMap<PathBuf, Vec<u8>> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let inside = self.keys().filter_map(|path| path.strip_prefix(folder).ok()?.components().next());
        let names: std::collections::BTreeSet<_> =
            inside.filter_map(|name| name.as_os_str().to_str().map(str::to_owned)).collect();
        if names.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(names.into_iter().collect()) }
    }

    fn is_file(&self, path: &Path) -> bool {
        self.contains_key(path)
    }
}

/// A path beside the file it is written in.
pub(crate) fn beside(file: &Path, path: &Path) -> PathBuf {
    match file.parent() {
        Some(folder) if path.is_relative() => {
            let mut whole = folder.to_owned();
            for part in path.components() {
                if part != Component::CurDir {
                    whole.push(part);
                }
            }
            whole
        }
        _ => path.to_owned(),
    }
}

/// The files of a pattern in order of name; `*` and `?` stand within one name and not for a leading dot. A path
/// without them is itself, whether it is there or not.
pub(crate) fn glob(files: &dyn FileSource, pattern: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = vec![PathBuf::new()];
    for part in pattern.components() {
        let name = part.as_os_str().to_str().unwrap_or_default();
        if !name.contains(['*', '?']) {
            for path in &mut found {
                path.push(part);
            }
            continue;
        }
        let mut next = Vec::new();
        for folder in &found {
            let shown = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            let mut names = match files.list(shown) {
                Ok(names) => names,
                // a folder that another part of the pattern matched may be a file
                Err(_) if found.len() > 1 => continue,
                Err(error) => return Err(error),
            };
            names.sort_unstable();
            next.extend(names.iter().filter(|it| matches(name, it)).map(|it| folder.join(it)));
        }
        found = next;
    }
    Ok(found)
}

/// Whether a path is a pattern.
pub(crate) fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?'])
}

fn matches(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    // the last `*` takes one more character whenever what follows it does not fit: quadratic at worst
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while let Some(c) = name.get(n) {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p + 1, n));
                p += 1;
            }
            Some(x) if *x == '?' || x == c => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((after, from)) => {
                    p = after;
                    n = from + 1;
                    star = Some((after, n));
                }
                None => return false,
            },
        }
    }
    pattern.get(p..).is_some_and(|rest| rest.iter().all(|c| *c == '*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, name, is) in [
            ("*.toml", "a.toml", true),
            ("*.toml", ".toml", false),
            ("*.toml", "a.toml~", false),
            ("a?c*", "abcdef", true),
            ("*a*b", "xaxbxb", true),
            ("*a*b", "xaxbx", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, name), is, "{pattern} {name}");
        }
    }

    #[test]
    fn globs_are_sorted_and_paths_are_themselves() {
        let files: BTreeMap<PathBuf, Vec<u8>> =
            ["/c/z.toml", "/c/a.toml", "/c/b.txt", "/d/y.toml"].map(|path| (path.into(), Vec::new())).into();
        let show = |pattern: &str| {
            glob(&files, Path::new(pattern))
                .map(|paths| paths.iter().map(|p| p.display().to_string()).collect::<Vec<_>>())
        };
        assert_eq!(show("/c/*.toml").unwrap(), ["/c/a.toml", "/c/z.toml"]);
        assert_eq!(show("/?/*.toml").unwrap(), ["/c/a.toml", "/c/z.toml", "/d/y.toml"]);
        assert_eq!(show("/no/such").unwrap(), ["/no/such"]);
        assert!(show("/no/*.toml").is_err());
    }
}
