//! The directions of dependencies, as ARCHITECTURE.md draws them.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Crate → the crates of ours it may depend on, directly.
const ALLOWED: &[(&str, &[&str])] = &[
    ("balance", &[]),
    ("dns", &["balance"]),
    ("probe", &["balance"]),
    ("peer", &["balance"]),
    ("sim", &["balance", "peer"]),
    ("config", &["balance", "dns", "probe"]),
    ("api", &[]),
    ("ctl", &["api"]),
    ("gslb", &["api", "balance", "config", "ctl", "dns", "peer", "probe", "sim"]),
    ("tests", &[]),
    ("bench", &["balance", "config", "dns"]),
];

/// Third-party crates that only these crates of ours may name.
const ONLY_IN: &[(&str, &[&str])] = &[
    ("hickory-proto", &["dns"]),
    ("toml", &["config"]),
    ("maxminddb", &["config"]),
    ("surge-ping", &["probe"]),
    ("rustls", &["probe", "peer", "gslb"]),
    ("quinn", &["peer"]),
    ("reqwest", &["api"]),
];

/// Everything `balance` may pull in: nothing that could bring a clock, a socket or a runtime.
const BALANCE_MAY_HAVE: &[&str] = &[];

fn metadata() -> serde_json::Value {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline", "--manifest-path", root])
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

/// Crate of ours (short name) → names of its normal dependencies.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap();
    packages
        .iter()
        .map(|package| {
            let name = package["name"].as_str().unwrap().trim_start_matches("portolan-").to_owned();
            let deps = package["dependencies"].as_array().unwrap();
            let normal = deps.iter().filter(|dep| dep["kind"].is_null());
            (name, normal.map(|dep| dep["name"].as_str().unwrap().to_owned()).collect())
        })
        .collect()
}

#[test]
fn crates_depend_in_one_direction() {
    let dependencies = dependencies();
    for (name, found) in &dependencies {
        let (_, allowed) = ALLOWED
            .iter()
            .find(|(known, _)| known == name)
            .unwrap_or_else(|| panic!("{name} is not in ALLOWED: draw it in ARCHITECTURE.md first"));
        for dep in found.iter().filter_map(|dep| dep.strip_prefix("portolan-")) {
            assert!(allowed.contains(&dep), "{name} must not depend on {dep}");
        }
    }
    assert_eq!(dependencies.len(), ALLOWED.len());
}

#[test]
fn strangers_stay_at_their_door() {
    for (name, found) in dependencies() {
        for (stranger, homes) in ONLY_IN {
            assert!(
                !found.contains(*stranger) || homes.contains(&name.as_str()),
                "{name} must not name {stranger}"
            );
        }
    }
}

#[test]
fn balance_stays_pure() {
    let found = &dependencies()["balance"];
    for dep in found {
        assert!(BALANCE_MAY_HAVE.contains(&dep.as_str()), "balance must not depend on {dep}");
    }
}
