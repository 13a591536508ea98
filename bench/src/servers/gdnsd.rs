//! gdnsd: one UDP thread; dynamic names by its geoip plugin (MaxMind database, nearest data centre by
//! distance, as Portolan's geo step) over four data centres, each an all-active or a weighted set with TCP health checks.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use super::{World, program};
use crate::Result;
use crate::world::zone::{self, DynamicAs, ORIGIN};
use crate::world::{LINKS, PLACES, candidate, weight};

pub(super) fn fixed(_: &World, folder: &Path, port: u16) -> Result<Command> {
    start(folder, port, DynamicAs::Nothing, "")
}

pub(super) fn geoip_multifo(world: &World, folder: &Path, port: u16) -> Result<Command> {
    start(
        folder,
        port,
        DynamicAs::Dyna,
        &geoip(world, "multifo", |site, link| candidate(site, link).to_string()),
    )
}

pub(super) fn geoip_weighted(world: &World, folder: &Path, port: u16) -> Result<Command> {
    let one = |site, link| format!("[ {}, {} ]", candidate(site, link), weight(site, link));
    start(folder, port, DynamicAs::Dyna, &geoip(world, "weighted", one))
}

fn start(folder: &Path, port: u16, dynamic: DynamicAs, more: &str) -> Result<Command> {
    let place = folder.display();
    std::fs::create_dir_all(folder.join("zones"))?;
    std::fs::write(folder.join("zones").join(ORIGIN), zone::text(dynamic))?;
    std::fs::write(
        folder.join("config"),
        format!(
            "options => {{\n  listen => {{ 127.0.0.1:{port} => {{ udp_threads => 1, tcp_threads => 1 }} }}\n  \
             run_dir => {place}/run\n  state_dir => {place}/state\n}}\n{more}"
        ),
    )?;
    let mut command = Command::new(program("gdnsd")?);
    command.arg("-c").arg(folder).arg("start");
    Ok(command)
}

/// `plugin` holds one resource a site; the geoip plugin's data centres refer to them.
fn geoip(world: &World, plugin: &str, one: impl Fn(usize, usize) -> String) -> String {
    let (mut sites, mut centres, mut coordinates) = (String::new(), String::new(), String::new());
    for (site, place) in PLACES.iter().enumerate() {
        let members: Vec<String> =
            (0..LINKS).map(|link| format!("link{link} => {}", one(site, link))).collect();
        let _ = writeln!(sites, "    {} => {{ service_types => tcp, {} }}", place.name, members.join(", "));
        let _ = writeln!(centres, "          {0} => %{plugin}!{0}", place.name);
        let _ =
            writeln!(coordinates, "          {} => [ {}, {} ]", place.name, place.latitude, place.longitude);
    }
    let all: Vec<&str> = PLACES.iter().map(|place| place.name).collect();
    format!(
        "service_types => {{ tcp => {{ plugin => tcp_connect, port => {port}, interval => 10, timeout => 3 }} }}\n\
         plugins => {{\n  {plugin} => {{\n{sites}  }}\n  geoip => {{\n    maps => {{\n      world => {{\n        \
         geoip2_db => {mmdb}\n        datacenters => [ {all} ]\n        auto_dc_coords => {{\n{coordinates}        }}\n      }}\n    }}\n    \
         resources => {{\n      www => {{\n        map => world\n        dcmap => {{\n{centres}        }}\n      }}\n    }}\n  }}\n}}\n",
        port = world.health_port,
        mmdb = world.mmdb.display(),
        all = all.join(", "),
    )
}
