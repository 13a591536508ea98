//! Folders and addresses that no other test uses.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The folder of this crate in the source tree.
#[must_use]
pub fn crate_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The root of the source tree.
#[must_use]
pub fn source_root() -> PathBuf {
    crate_folder().parent().unwrap().to_owned()
}

/// The folder of a case.
#[must_use]
pub fn case_folder(case: &str) -> PathBuf {
    crate_folder().join("cases").join(case)
}

/// A loopback address of its own: addresses apart, ports of tests that run at once never clash.
#[must_use]
pub fn own_address() -> Ipv4Addr {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let place = std::process::id().wrapping_mul(251).wrapping_add(count) % (200 * 254 * 254);
    let octet = |value: u32| u8::try_from(value + 1).unwrap();
    Ipv4Addr::new(127, 40 + octet(place / (254 * 254)), octet(place / 254 % 254), octet(place % 254))
}

/// A port that is free for UDP and TCP at this address.
#[must_use]
pub fn free_port(address: IpAddr) -> u16 {
    for _ in 0..100 {
        let udp = UdpSocket::bind((address, 0)).unwrap();
        let port = udp.local_addr().unwrap().port();
        if TcpListener::bind((address, port)).is_ok() {
            return port;
        }
    }
    panic!("no port at {address} is free for UDP and TCP");
}

/// An own address with a free port.
#[must_use]
pub fn own_socket() -> SocketAddr {
    let address = own_address().into();
    SocketAddr::new(address, free_port(address))
}

/// Copies a folder with everything in it.
pub fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap_or_else(|error| panic!("{}: {error}", from.display())) {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
