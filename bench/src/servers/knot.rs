//! Knot: one UDP worker; dynamic names by its geoip module over the MaxMind database.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use super::{World, program};
use crate::Result;
use crate::world::networks::COUNTRIES;
use crate::world::zone::{self, DYNAMIC_NAMES, DynamicAs, ORIGIN};
use crate::world::{LINKS, candidate, site_for_continent};

pub(super) fn fixed(_: &World, folder: &Path, port: u16) -> Result<Command> {
    start(folder, port, DynamicAs::Nothing, "", "")
}

pub(super) fn geoip(world: &World, folder: &Path, port: u16) -> Result<Command> {
    std::fs::write(folder.join("geo.conf"), answers_by_country())?;
    let module = format!(
        "mod-geoip:\n  - id: geo\n    config-file: {}/geo.conf\n    ttl: 30\n    mode: geodb\n    geodb-file: {}\n    \
         geodb-key: [ continent/code, country/iso_code ]\n",
        folder.display(),
        world.mmdb.display()
    );
    start(folder, port, DynamicAs::Default, &module, "    module: mod-geoip/geo\n")
}

fn start(folder: &Path, port: u16, dynamic: DynamicAs, module: &str, use_module: &str) -> Result<Command> {
    let place = folder.display();
    let config = folder.join("knot.conf");
    std::fs::write(folder.join("zone"), zone::text(dynamic))?;
    std::fs::write(
        &config,
        format!(
            "server:\n    rundir: {place}\n    listen: 127.0.0.1@{port}\n    udp-workers: 1\n    tcp-workers: 1\n    \
             background-workers: 1\n    edns-client-subnet: on\nlog:\n  - target: stderr\n    any: warning\n\
             database:\n    storage: {place}\n{module}zone:\n  - domain: {ORIGIN}\n    storage: {place}\n    \
             file: zone\n    zonefile-sync: -1\n    journal-content: none\n{use_module}"
        ),
    )?;
    let mut command = Command::new(program("knotd")?);
    command.arg("-c").arg(config);
    Ok(command)
}

/// The module has one fixed answer for a place (weights exclude places), so a country gets one of its site's links.
fn answers_by_country() -> String {
    let mut text = String::new();
    for name in 0..DYNAMIC_NAMES {
        let _ = writeln!(text, "{}.{ORIGIN}:", zone::dynamic_name(name));
        let mut seen = Vec::new();
        for (index, place) in COUNTRIES.iter().enumerate() {
            if seen.contains(&place.country) {
                continue;
            }
            seen.push(place.country);
            let address = candidate(site_for_continent(place.continent), (index + name) % LINKS);
            let _ = writeln!(text, "  - geo: \"{};{}\"\n    A: {address}", place.continent, place.country);
        }
    }
    text
}
