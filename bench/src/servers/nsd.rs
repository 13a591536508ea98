//! NSD: one server process, no response rate limiting (Debian's default would drop the load).

use std::path::Path;
use std::process::Command;

use super::{World, program};
use crate::Result;
use crate::world::zone::{self, DynamicAs, ORIGIN};

pub(super) fn fixed(_: &World, folder: &Path, port: u16) -> Result<Command> {
    let config = folder.join("nsd.conf");
    let place = folder.display();
    std::fs::write(folder.join("zone"), zone::text(DynamicAs::Nothing))?;
    std::fs::write(
        &config,
        format!(
            "server:\n  server-count: 1\n  ip-address: 127.0.0.1@{port}\n  rrl-ratelimit: 0\n  username: \"\"\n  \
             chroot: \"\"\n  database: \"\"\n  zonesdir: \"{place}\"\n  pidfile: \"{place}/pid\"\n  \
             xfrdfile: \"{place}/xfrd.state\"\n  xfrdir: \"{place}\"\n  zonelistfile: \"{place}/zone.list\"\n\
             remote-control:\n  control-enable: no\nzone:\n  name: {ORIGIN}\n  zonefile: zone\n"
        ),
    )?;
    let mut command = Command::new(program("nsd")?);
    command.arg("-d").arg("-c").arg(config);
    Ok(command)
}
