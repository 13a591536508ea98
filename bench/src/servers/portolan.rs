//! Portolan itself, as it is installed: `portolan run -c FILE`.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use super::World;
use crate::Result;
use crate::world::zone::{self, DYNAMIC_NAMES, DynamicAs, ORIGIN};
use crate::world::{LINKS, PLACES, candidate, weight};

pub(super) fn fixed(world: &World, folder: &Path, port: u16) -> Result<Command> {
    start(world, folder, port, "")
}

/// Operators are carried by two of a site's four links, so `isp` leaves 8 of 16, `geo` 2, and weights decide.
pub(super) fn dynamic(world: &World, folder: &Path, port: u16) -> Result<Command> {
    let mut more =
        format!("[tables]\nisp = \"{}\"\ngeo = \"{}\"\n", world.isp_folder.display(), world.mmdb.display());
    for place in PLACES {
        let _ = writeln!(
            more,
            "[[site]]\nname = \"{}\"\nlocation = {{ lat = {:?}, lon = {:?}, country = \"{}\" }}\nlinks = [",
            place.name, place.latitude, place.longitude, place.country
        );
        for link in 0..LINKS {
            let carried: Vec<String> = world
                .operators
                .iter()
                .enumerate()
                .filter(|(index, _)| index % LINKS == link || (index + 1) % LINKS == link)
                .map(|(_, name)| format!("\"{name}\""))
                .collect();
            let _ = writeln!(more, "  {{ name = \"link{link}\", isp = [{}] }},", carried.join(", "));
        }
        more.push_str("]\n");
    }
    for name in 0..DYNAMIC_NAMES {
        let _ = writeln!(
            more,
            "[[service]]\nname = \"{}.{ORIGIN}.\"\nttl = 30\nchoose = [\"isp\", \"geo\", \"weighted-random\"]\n\
             check.tcp = {{ port = {}, interval = \"10s\" }}\nmembers = [",
            zone::dynamic_name(name),
            world.health_port
        );
        for (site, place) in PLACES.iter().enumerate() {
            for link in 0..LINKS {
                let (address, weight) = (candidate(site, link), weight(site, link));
                let _ = writeln!(
                    more,
                    "  {{ site = \"{}\", link = \"link{link}\", address = \"{address}\", weight = {weight} }},",
                    place.name
                );
            }
        }
        more.push_str("]\n");
    }
    start(world, folder, port, &more)
}

fn start(world: &World, folder: &Path, port: u16, more: &str) -> Result<Command> {
    if !world.portolan.is_file() {
        return Err("not built: run cargo build --release".into());
    }
    let own_site = if more.is_empty() { "[[site]]\nname = \"beijing\"\n" } else { "" };
    std::fs::write(folder.join("zone"), zone::text(DynamicAs::Nothing))?;
    let config = folder.join("portolan.toml");
    std::fs::write(
        &config,
        format!(
            "version = 1\n[node]\nname = \"bench\"\nsite = \"beijing\"\n[dns]\nlisten = [\"127.0.0.1:{port}\"]\n\
             zones = [\"zone\"]\n{own_site}{more}"
        ),
    )?;
    let mut command = Command::new(&world.portolan);
    command.args(["run", "-c"]).arg(config);
    Ok(command)
}
