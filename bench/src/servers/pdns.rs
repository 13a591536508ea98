//! PowerDNS: one receiver thread with the Bind backend, its geoip backend, and its Lua records.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use super::{World, program};
use crate::Result;
use crate::world::networks::COUNTRIES;
use crate::world::zone::{self, DYNAMIC_NAMES, DynamicAs, ORIGIN};
use crate::world::{LINKS, candidate, site_for_continent, weight};

pub(super) fn fixed(_: &World, folder: &Path, port: u16) -> Result<Command> {
    bind(folder, port, DynamicAs::Nothing, "")
}

pub(super) fn lua_weighted(_: &World, folder: &Path, port: u16) -> Result<Command> {
    bind(folder, port, DynamicAs::LuaWeighted, LUA)
}

pub(super) fn lua_ifportup(world: &World, folder: &Path, port: u16) -> Result<Command> {
    bind(folder, port, DynamicAs::LuaIfPortUp(world.health_port), LUA)
}

/// One Lua state a thread: without it every query makes its own, ten times dearer.
const LUA: &str = "enable-lua-records=shared\nedns-subnet-processing=yes\n";

fn bind(folder: &Path, port: u16, dynamic: DynamicAs, more: &str) -> Result<Command> {
    let place = folder.display();
    std::fs::write(folder.join("zone"), zone::text(dynamic))?;
    std::fs::write(
        folder.join("named.conf"),
        format!("zone \"{ORIGIN}\" {{ type master; file \"{place}/zone\"; }};\n"),
    )?;
    start(folder, port, &format!("launch=bind\nbind-config={place}/named.conf\n{more}"))
}

pub(super) fn geoip(world: &World, folder: &Path, port: u16) -> Result<Command> {
    std::fs::write(folder.join("geo.yaml"), services())?;
    let more = format!(
        "launch=geoip\ngeoip-database-files=mmdb:{}\ngeoip-zones-file={}/geo.yaml\nedns-subnet-processing=yes\n",
        world.mmdb.display(),
        folder.display()
    );
    start(folder, port, &more)
}

fn start(folder: &Path, port: u16, more: &str) -> Result<Command> {
    std::fs::write(
        folder.join("pdns.conf"),
        format!(
            "daemon=no\nguardian=no\nlocal-address=127.0.0.1\nlocal-port={port}\nreceiver-threads=1\n\
             distributor-threads=1\nsocket-dir={}\nsecurity-poll-suffix=\nloglevel=3\n{more}",
            folder.display()
        ),
    )?;
    let mut command = Command::new(program("pdns_server")?);
    command.arg(format!("--config-dir={}", folder.display()));
    Ok(command)
}

/// Every country stands for its site's four weighted addresses; a dynamic name is the service over them.
fn services() -> String {
    let mut text = format!(
        "domains:\n- domain: {ORIGIN}\n  ttl: 30\n  records:\n    {ORIGIN}:\n      \
         - soa: ns1.{ORIGIN} hostmaster.{ORIGIN} 1 7200 900 1209600 300\n      - ns: ns1.{ORIGIN}\n"
    );
    let mut seen = vec!["unknown"];
    let country = |text: &mut String, code: &str, site: usize| {
        let _ = writeln!(text, "    {code}.geo.{ORIGIN}:");
        for link in 0..LINKS {
            let (address, weight) = (candidate(site, link), weight(site, link) * 10);
            let _ = writeln!(text, "      - a:\n          content: {address}\n          weight: {weight}");
        }
    };
    country(&mut text, "unknown", 0);
    for place in COUNTRIES {
        if !seen.contains(&place.country) {
            seen.push(place.country);
            country(&mut text, &place.country.to_lowercase(), site_for_continent(place.continent));
        }
    }
    text.push_str("  services:\n");
    for name in 0..DYNAMIC_NAMES {
        let _ = writeln!(
            text,
            "    {}.{ORIGIN}: [ '%cc.geo.{ORIGIN}', 'unknown.geo.{ORIGIN}' ]",
            zone::dynamic_name(name)
        );
    }
    text
}
