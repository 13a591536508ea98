//! Knot, to compare answers with.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::child::Child;
use crate::dig::Dig;
use crate::place;
use crate::wait::{SOON, wait_for};
use crate::wire::{self, Message};

/// `knotd` with zones; ended when dropped.
pub struct Knot {
    _child: Child,
    _folder: TempDir,
    socket: SocketAddr,
}

impl Knot {
    /// Serves these zones: origin and file.
    #[must_use]
    pub fn start(zones: &[(&str, PathBuf)]) -> Self {
        let folder = tempfile::Builder::new().prefix("portolan-knot-").tempdir().unwrap();
        let socket = place::own_socket();
        let place = folder.path().display();
        let mut config = format!(
            "server:\n    rundir: {place}\n    listen: {}@{}\n    udp-workers: 1\n    tcp-workers: 1\n    \
             background-workers: 1\nlog:\n  - target: stderr\n    any: warning\ndatabase:\n    storage: {place}\nzone:\n",
            socket.ip(),
            socket.port()
        );
        for (origin, file) in zones {
            let file = file.display();
            writeln!(
                config,
                "  - domain: {origin}\n    file: {file}\n    zonefile-sync: -1\n    journal-content: none\n    \
                 semantic-checks: off"
            )
            .unwrap();
        }
        let path = folder.path().join("knot.conf");
        std::fs::write(&path, config).unwrap();
        let mut command =
            Command::new(if PathBuf::from("/usr/sbin/knotd").exists() { "/usr/sbin/knotd" } else { "knotd" });
        command.arg("-c").arg(path);
        let mut child = Child::start(command, &folder.path().join("log"));
        let question = Message::query(zones[0].0, wire::SOA).bytes();
        wait_for(SOON, "knotd answers", || {
            if let Some(exit) = child.ended() {
                panic!("knotd ended: {exit}");
            }
            let answer = wire::udp_within(socket, &question, Duration::from_millis(50));
            match answer.and_then(|answer| wire::Response::parse(&answer).ok()) {
                Some(response) if response.rcode == 0 => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
        Self { _child: child, _folder: folder, socket }
    }

    /// dig, set up for it.
    #[must_use]
    pub fn digger(&self) -> Dig {
        Dig::new(self.socket)
    }
}
