//! Whether a table knows private addresses: then client subnets in private space mean something here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use portolan_balance::nets::Runs;

/// Addresses that are never seen on the public network (RFC 1918, 6598, 1122, 3927, 4193, 4291).
const PRIVATE: [(IpAddr, u8); 8] = [
    (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0)), 8),
    (IpAddr::V4(Ipv4Addr::new(172, 16, 0, 0)), 12),
    (IpAddr::V4(Ipv4Addr::new(192, 168, 0, 0)), 16),
    (IpAddr::V4(Ipv4Addr::new(100, 64, 0, 0)), 10),
    (IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), 8),
    (IpAddr::V4(Ipv4Addr::new(169, 254, 0, 0)), 16),
    (IpAddr::V6(Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0)), 7),
    (IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0)), 10),
];

/// Whether something is said of private addresses in particular: `0.0.0.0/0` says nothing of them.
pub(crate) fn knows_private(runs: &Runs) -> bool {
    let inside = |first: IpAddr, last: IpAddr| {
        PRIVATE.iter().any(|&(address, length)| {
            IpNet::new(address, length).is_ok_and(|block| block.contains(&first) && block.contains(&last))
        })
    };
    let v4 = |address: u32| IpAddr::V4(Ipv4Addr::from_bits(address));
    let v6 = |address: u128| IpAddr::V6(Ipv6Addr::from_bits(address));
    runs.v4.iter().any(|run| run.value != 0 && inside(v4(run.first), v4(run.last)))
        || runs.v6.iter().any(|run| run.value != 0 && inside(v6(run.first), v6(run.last)))
}
