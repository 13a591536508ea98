//! Networks of our own: named namespaces, gone with the test.
#![allow(unsafe_code)] // a thread enters a namespace

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::program::Said;

const PREFIX: &str = "portolan-test-";

/// A network namespace with its loopback up.
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// A new one; none, with the reason printed, where this user may make none.
    #[must_use]
    pub fn new() -> Option<Self> {
        static SWEEP: Once = Once::new();
        SWEEP.call_once(sweep);
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{PREFIX}{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let made = Said::by(Command::new("ip").args(["netns", "add", &name]));
        if made.code != 0 {
            eprintln!("skipped: no network namespaces here (root is needed): {}", made.text().trim());
            return None;
        }
        let namespace = Self { name };
        namespace.ip("link set lo up");
        Some(namespace)
    }

    /// Its name, for `ip netns exec`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `ip ARGS` in it.
    pub fn ip(&self, args: &str) {
        let _ = Said::by(Command::new("ip").args(["-n", &self.name]).args(args.split(' '))).expect(0);
    }

    /// An interface with these addresses, up and ready; its other end leads nowhere.
    pub fn interface(&self, name: &str, addresses: &[&str]) {
        self.wire(name, self, &format!("{name}-end"));
        for address in addresses {
            self.address(name, address);
        }
    }

    /// A wire to another one; an interface at each end, up.
    pub fn wire(&self, name: &str, other: &Self, other_name: &str) {
        self.ip(&format!("link add {name} type veth peer name {other_name} netns {}", other.name));
        self.ip(&format!("link set {name} up"));
        other.ip(&format!("link set {other_name} up"));
    }

    /// An address of an interface, ready at once.
    pub fn address(&self, interface: &str, address: &str) {
        // an IPv6 address is usable only after duplicate detection, unless told not to look
        let nodad = if address.contains(':') { " nodad" } else { "" };
        self.ip(&format!("addr add {address} dev {interface}{nodad}"));
    }

    /// Does something in it.
    pub fn inside<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        inside(Some(&self.name), act)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.name]).output();
    }
}

/// A command, in a namespace if there is one.
#[must_use]
pub fn command(namespace: Option<&str>, program: &Path) -> Command {
    match namespace {
        None => Command::new(program),
        Some(name) => {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", name]).arg(program);
            command
        }
    }
}

/// Does something, in a namespace if there is one: on a thread of its own, for a thread that entered cannot leave.
pub fn inside<T: Send>(namespace: Option<&str>, act: impl FnOnce() -> T + Send) -> T {
    let Some(name) = namespace else { return act() };
    let result = std::thread::scope(|scope| {
        scope
            .spawn(|| {
                enter(name).unwrap_or_else(|error| panic!("namespace {name}: {error}"));
                act()
            })
            .join()
    });
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn enter(name: &str) -> io::Result<()> {
    let file = File::open(Path::new("/run/netns").join(name))?;
    // SAFETY: the descriptor is open; only the calling thread changes its network.
    match unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Removes what tests that were killed have left: namespaces named after processes that are no more.
fn sweep() {
    let Ok(entries) = std::fs::read_dir("/run/netns") else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(process) = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()) else {
            continue;
        };
        if !Path::new("/proc").join(process).exists() {
            let _ = Command::new("ip").args(["netns", "del", &name]).output();
        }
    }
}
