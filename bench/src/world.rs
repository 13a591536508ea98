//! The data that every server in the run is given: one zone, one set of networks, one set of candidates.

pub mod networks;
pub mod zone;

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::thread;

use crate::Result;
pub use networks::{Networks, Place};
pub use zone::{DYNAMIC_NAMES, DynamicAs, ORIGIN, STATIC_NAMES};

/// Sites with candidates.
pub const SITES: usize = 4;
/// Links, each with one candidate, at every site.
pub const LINKS: usize = 4;

/// A site: where it is and which continents an ordered list prefers it for.
#[derive(Debug, Clone, Copy)]
pub struct Site {
    /// Its name in configurations.
    pub name: &'static str,
    /// ISO 3166 code of its country.
    pub country: &'static str,
    /// Degrees north.
    pub latitude: f64,
    /// Degrees east.
    pub longitude: f64,
}

/// The sites that the candidates stand at.
pub const PLACES: [Site; SITES] = [
    Site { name: "beijing", country: "CN", latitude: 39.9, longitude: 116.4 },
    Site { name: "frankfurt", country: "DE", latitude: 50.1, longitude: 8.7 },
    Site { name: "ashburn", country: "US", latitude: 39.0, longitude: -77.5 },
    Site { name: "saopaulo", country: "BR", latitude: -23.5, longitude: -46.6 },
];

/// The site's index that clients of `continent` are sent to by servers that choose by continent.
pub fn site_for_continent(continent: &str) -> usize {
    match continent {
        "AS" | "OC" => 0,
        "EU" | "AF" => 1,
        "NA" => 2,
        _ => 3,
    }
}

/// The address of the candidate on `link` at `site`: loopback, so that health checks reach something.
pub fn candidate(site: usize, link: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 1, site as u8, link as u8 + 1)
}

/// The candidate's weight: 1 to 4, different on the links of a site.
pub fn weight(site: usize, link: usize) -> usize {
    (site + link) % 4 + 1
}

/// Accepts connections at every candidate's address on one port, for the servers' health checks.
///
/// # Errors
/// When no port is free at all of them.
pub fn start_backends() -> Result<u16> {
    for _ in 0..16 {
        let first = TcpListener::bind(SocketAddrV4::new(candidate(0, 0), 0))?;
        let port = first.local_addr()?.port();
        let mut listeners = vec![first];
        for index in 1..SITES * LINKS {
            let address = candidate(index / LINKS, index % LINKS);
            listeners.extend(TcpListener::bind(SocketAddrV4::new(address, port)));
        }
        if listeners.len() == SITES * LINKS {
            for listener in listeners {
                thread::spawn(move || listener.incoming().for_each(drop));
            }
            return Ok(port);
        }
    }
    Err("no port is free at all candidate addresses 127.1.0-3.1-4".into())
}
