//! The fuzz target: any octets as a config.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::compile::load_with;

/// Loads `data` as a config that stands alone, and shows its problems in every form. Paths in it lead nowhere.
pub fn fuzz_config(data: &[u8]) {
    let zone = b"$TTL 60\n@ SOA ns.example.com. h.example.com. 1 1 1 1 1\n@ NS ns\nns A 192.0.2.1\n";
    let files: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::from([
        ("/no/such/folder/main.toml".into(), data.to_vec()),
        ("/no/such/folder/example.com.zone".into(), [b"$ORIGIN example.com.\n", zone.as_slice()].concat()),
    ]);
    let problems = match load_with(&files, Path::new("/no/such/folder/main.toml"), None) {
        Ok(compiled) => compiled.warnings,
        Err(problems) => problems,
    };
    for color in [false, true] {
        let _ = problems.render(color);
    }
    let _ = (problems.to_string(), problems.to_json());
}
