//! A small world of files for config tests.
#![allow(dead_code, clippy::unwrap_used, reason = "each test file uses its part, and a test may panic")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use portolan_config::{Compiled, Problems, load_with};

/// A zone in which services can lie.
pub(crate) const ZONE: &str = "\
$ORIGIN example.com.
$TTL 3600
@ SOA ns.example.com. hostmaster.example.com. 1 7200 900 1209600 300
@ NS ns
ns A 192.0.2.53
alias CNAME ns
text TXT \"words\"
sub NS ns.sub
ns.sub A 192.0.2.54
";

/// What nearly every config begins with.
pub(crate) const HEAD: &str = r#"version = 1
[node]
name = "n1"
site = "a"
[dns]
listen = ["127.0.0.1:53"]
zones = ["example.com.zone"]
[[site]]
name = "a"
location = { lat = 39.9, lon = 116.4 }
links = [{ name = "x" }, { name = "y", capacity = "1Gbps" }]
[[site]]
name = "b"
location = { lat = 50.1, lon = 8.7 }
"#;

/// Files in memory, the config being `main.toml`.
pub(crate) fn files(main: &str, more: &[(&str, &str)]) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
    files.insert("/etc/portolan/main.toml".into(), main.into());
    files.insert("/etc/portolan/example.com.zone".into(), ZONE.into());
    for (path, text) in more {
        files.insert(Path::new("/etc/portolan").join(path), text.as_bytes().to_vec());
    }
    files
}

/// Loads `main.toml` with more files.
pub(crate) fn load(main: &str, more: &[(&str, &str)]) -> Result<Compiled, Problems> {
    load_with(&files(main, more), Path::new("/etc/portolan/main.toml"), None)
}

/// Loads what must be good, without warnings.
pub(crate) fn good(main: &str) -> Compiled {
    let compiled = load(main, &[]).unwrap_or_else(|problems| panic!("{}", problems.render(false)));
    assert!(compiled.warnings.is_empty(), "{}", compiled.warnings.render(false));
    compiled
}
