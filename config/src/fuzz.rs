//! The fuzz target: any octets as a config.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::compile::learned::LearnedServer;
use crate::compile::{Compiled, load_with};

/// Loads `data` as a config that stands alone, and shows its problems in every form. Paths in it lead nowhere.
pub fn fuzz_config(data: &[u8]) {
    let zone = b"$TTL 60\n@ SOA ns.example.com. h.example.com. 1 1 1 1 1\n@ NS ns\nns A 192.0.2.1\n";
    let files: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::from([
        ("/no/such/folder/main.toml".into(), data.to_vec()),
        ("/no/such/folder/example.com.zone".into(), [b"$ORIGIN example.com.\n", zone.as_slice()].concat()),
    ]);
    let problems = match load_with(&files, Path::new("/no/such/folder/main.toml"), None) {
        Ok(compiled) => {
            learn(&compiled);
            compiled.warnings
        }
        Err(problems) => problems,
    };
    for color in [false, true] {
        let _ = problems.render(color);
    }
    let _ = (problems.to_string(), problems.to_json());
}

/// Takes in two virtual servers of every service, from a site that may be known and from one that is not.
fn learn(compiled: &Compiled) {
    let servers = compiled.services.iter().flat_map(|service| {
        let site = compiled.sites.first().map_or("here", |site| site.name.as_str());
        [(site, "192.0.2.1"), ("nowhere", "2001:db8::1")].map(|(site, address)| LearnedServer {
            author: "n2".into(),
            name: "v".into(),
            service: service.name.to_string(),
            address: address.parse().unwrap_or(std::net::Ipv4Addr::LOCALHOST.into()),
            site: site.into(),
            link: None,
            weight: 1,
            tier: 1,
            connections_max: None,
        })
    });
    let servers: Vec<LearnedServer> = servers.collect();
    let learned = compiled.with_learned(&servers).map(|next| (next.policies.len(), next.lanes.len()));
    // what a config is loaded with stays as it is
    debug_assert_eq!(learned.ok(), Some((compiled.policies.len(), compiled.lanes.len())));
}
