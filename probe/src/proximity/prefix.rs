//! Which prefixes are measured as one, and sets of networks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use portolan_balance::proximity::Prefix;

/// How long the prefixes are that are measured as one (X: never longer than these).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// For IPv4.
    pub v4: u8,
    /// For IPv6.
    pub v6: u8,
}

impl Default for Lengths {
    fn default() -> Self {
        Self { v4: 24, v6: 48 }
    }
}

impl Lengths {
    /// The prefix that an address is measured in.
    #[must_use]
    pub fn prefix_of(&self, address: IpAddr) -> Prefix {
        let length = if address.to_canonical().is_ipv4() { self.v4 } else { self.v6 };
        Prefix::new(address, length)
    }
}

/// The address that stands for a prefix where nobody in it is known: the one after its first. It is the likeliest to
/// be a router or a server, and as good as any other to measure the way to the network.
pub(super) fn representative(prefix: &Prefix) -> IpAddr {
    match prefix.address() {
        IpAddr::V4(v4) if prefix.length() < 32 => Ipv4Addr::from_bits(v4.to_bits() | 1).into(),
        IpAddr::V4(v4) => v4.into(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() | 1).into(),
    }
}

/// A set of networks of any length, searched by halving.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefixes {
    /// Sorted, disjoint, both ends included.
    v4: Vec<(u128, u128)>,
    v6: Vec<(u128, u128)>,
}

impl Prefixes {
    /// Whether an address is in one of them.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let ranges = if address.is_ipv4() { &self.v4 } else { &self.v6 };
        let number = number(address);
        let after = ranges.partition_point(|&(first, _)| first <= number);
        after.checked_sub(1).and_then(|at| ranges.get(at)).is_some_and(|&(_, last)| number <= last)
    }
}

impl FromIterator<(IpAddr, u8)> for Prefixes {
    /// The set of these networks; bits past a length do not count, and IPv4-mapped addresses are IPv4.
    fn from_iter<I: IntoIterator<Item = (IpAddr, u8)>>(prefixes: I) -> Self {
        let canonical =
            prefixes.into_iter().map(|(address, length)| match (address.to_canonical(), address) {
                (v4 @ IpAddr::V4(_), IpAddr::V6(_)) => (v4, length.saturating_sub(96)),
                _ => (address, length),
            });
        let (v4, v6) = canonical.partition(|(address, _)| address.is_ipv4());
        Self { v4: ranges(v4, 32), v6: ranges(v6, 128) }
    }
}

/// Networks of a family as ranges: sorted, and joined where they touch.
fn ranges(prefixes: Vec<(IpAddr, u8)>, bits: u8) -> Vec<(u128, u128)> {
    let range = |(address, length): (IpAddr, u8)| {
        let host_bits = u32::from(bits.saturating_sub(length));
        let host = u128::MAX.checked_shr(128 - host_bits).unwrap_or(0);
        let number = number(address);
        (number & !host, number | host)
    };
    let mut sorted: Vec<_> = prefixes.into_iter().map(range).collect();
    sorted.sort_unstable();
    let mut ranges: Vec<(u128, u128)> = Vec::with_capacity(sorted.len());
    for (first, last) in sorted {
        match ranges.last_mut() {
            Some(open) if first <= open.1.saturating_add(1) => open.1 = open.1.max(last),
            _ => ranges.push((first, last)),
        }
    }
    ranges
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// What tests write.
#[cfg(test)]
pub(crate) mod text {
    use super::*;

    /// A network; an address alone is a whole one.
    pub(crate) fn net(text: &str) -> (IpAddr, u8) {
        let (address, length) = text.split_once('/').unwrap_or((text, "128"));
        (address.parse().unwrap(), length.parse().unwrap())
    }

    /// A prefix.
    pub(crate) fn prefix(text: &str) -> Prefix {
        let (address, length) = net(text);
        Prefix::new(address, length)
    }

    /// A set.
    pub(crate) fn nets(texts: &[&str]) -> Prefixes {
        texts.iter().map(|text| net(text)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{
        text::{nets, prefix},
        *,
    };

    #[test]
    fn representatives_are_inside() {
        for (text, expected) in [
            ("192.0.2.0/24", "192.0.2.1"),
            ("192.0.2.77/32", "192.0.2.77"),
            ("0.0.0.0/0", "0.0.0.1"),
            ("2001:db8:1::/48", "2001:db8:1::1"),
            ("2001:db8:1:2::/64", "2001:db8:1:2::1"),
        ] {
            let prefix = prefix(text);
            let found = representative(&prefix);
            assert_eq!(found.to_string(), expected, "{text}");
            assert_eq!(Prefix::new(found, prefix.length()), prefix);
        }
        let lengths = Lengths::default();
        assert_eq!(lengths.prefix_of("::ffff:192.0.2.9".parse().unwrap()), prefix("192.0.2.0/24"));
        assert_eq!(lengths.prefix_of("2001:db8:1:2::9".parse().unwrap()), prefix("2001:db8:1::/48"));
    }

    #[test]
    fn sets_agree_with_their_networks() {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..200 {
            let mut one = || -> (IpAddr, u8) {
                let low: u128 = random.u128(..) & 0xfff;
                if random.bool() {
                    (Ipv4Addr::from_bits(0x0a00_0000 | low as u32).into(), random.u8(18..=33))
                } else {
                    (Ipv6Addr::from_bits(0x2001 << 112 | low).into(), random.u8(114..=129))
                }
            };
            let all: Vec<_> = (0..6).map(|_| one()).collect();
            let set: Prefixes = all.iter().copied().collect();
            for _ in 0..40 {
                let (address, _) = one();
                let is_in = |(net, length): &(IpAddr, u8)| match (*net, address) {
                    (IpAddr::V4(net), IpAddr::V4(address)) => {
                        (net.to_bits() ^ address.to_bits()).leading_zeros() >= (*length).min(32).into()
                    }
                    (IpAddr::V6(net), IpAddr::V6(address)) => {
                        (net.to_bits() ^ address.to_bits()).leading_zeros() >= (*length).min(128).into()
                    }
                    (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
                };
                let expected = all.iter().any(is_in);
                assert_eq!(set.contains(address), expected, "seed {seed}: {address} in {all:?}");
            }
        }
        let everything = nets(&["0.0.0.0/0", "::/0"]);
        assert!(everything.contains("255.255.255.255".parse().unwrap()));
        assert!(everything.contains(Ipv6Addr::from_bits(u128::MAX).into()));
        let v4: IpAddr = "192.0.2.1".parse().unwrap();
        assert!(!nets(&["::/0"]).contains(v4) && !Prefixes::default().contains(v4));
        assert!(nets(&["::ffff:192.0.2.0/120"]).contains("::ffff:192.0.2.1".parse().unwrap()));
    }
}
