//! Prefixes and sets of them, over both families.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// A prefix with nothing set beyond its length. IPv4-mapped addresses are IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

impl Prefix {
    /// The prefix of this length around an address.
    #[must_use]
    pub fn new(address: IpAddr, length: u8) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => {
                let length = length.min(32);
                let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
                Self { address: Ipv4Addr::from_bits(v4.to_bits() & mask).into(), length }
            }
            IpAddr::V6(v6) => {
                let length = length.min(128);
                let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
                Self { address: Ipv6Addr::from_bits(v6.to_bits() & mask).into(), length }
            }
        }
    }

    /// Its first address.
    #[must_use]
    pub const fn address(&self) -> IpAddr {
        self.address
    }

    /// Its length.
    #[must_use]
    pub const fn length(&self) -> u8 {
        self.length
    }

    /// Whether an address is in it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.address.is_ipv4() && Self::new(address, self.length) == *self
    }

    /// The address that stands for the prefix where nobody in it is known: the one after its first. It is the
    /// likeliest to be a router or a server, and as good as any other to measure the way to the network.
    #[must_use]
    pub fn representative(&self) -> IpAddr {
        match self.address {
            IpAddr::V4(v4) if self.length < 32 => Ipv4Addr::from_bits(v4.to_bits() | 1).into(),
            IpAddr::V6(v6) if self.length < 128 => Ipv6Addr::from_bits(v6.to_bits() | 1).into(),
            IpAddr::V4(_) | IpAddr::V6(_) => self.address,
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.address, self.length)
    }
}

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
        let address = address.to_canonical();
        Prefix::new(address, if address.is_ipv4() { self.v4 } else { self.v6 })
    }
}

/// A set of prefixes, searched by halving.
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

impl FromIterator<Prefix> for Prefixes {
    fn from_iter<I: IntoIterator<Item = Prefix>>(prefixes: I) -> Self {
        let (v4, v6): (Vec<Prefix>, Vec<Prefix>) =
            prefixes.into_iter().partition(|prefix| prefix.address.is_ipv4());
        Self { v4: ranges(v4, 32), v6: ranges(v6, 128) }
    }
}

/// Prefixes of a family as ranges: sorted, and joined where they touch.
fn ranges(prefixes: Vec<Prefix>, bits: u8) -> Vec<(u128, u128)> {
    let range = |prefix: Prefix| {
        let host_bits = u32::from(bits.saturating_sub(prefix.length));
        let first = number(prefix.address);
        (first, first | u128::MAX.checked_shr(128 - host_bits).unwrap_or(0))
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

#[cfg(test)]
impl Prefix {
    /// As it is written; an address alone is a whole one.
    pub(crate) fn parse(text: &str) -> Self {
        let (address, length) = text.split_once('/').unwrap_or((text, "128"));
        Self::new(address.parse().unwrap(), length.parse().unwrap())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        Prefix::parse(text)
    }

    #[test]
    fn prefixes_are_cut_and_canonical() {
        for (address, length, expected, representative) in [
            ("192.0.2.77", 24, "192.0.2.0/24", "192.0.2.1"),
            ("192.0.2.77", 32, "192.0.2.77/32", "192.0.2.77"),
            ("192.0.2.77", 99, "192.0.2.77/32", "192.0.2.77"),
            ("192.0.2.77", 0, "0.0.0.0/0", "0.0.0.1"),
            ("::ffff:192.0.2.77", 24, "192.0.2.0/24", "192.0.2.1"),
            ("2001:db8:1:2::3", 48, "2001:db8:1::/48", "2001:db8:1::1"),
            ("2001:db8::3", 128, "2001:db8::3/128", "2001:db8::3"),
            ("2001:db8::3", 0, "::/0", "::1"),
        ] {
            let found = Prefix::new(address.parse().unwrap(), length);
            assert_eq!(found.to_string(), expected, "{address}/{length}");
            assert_eq!(found.representative().to_string(), representative, "{address}/{length}");
            assert!(found.contains(found.representative()));
        }
        assert!(!prefix("0.0.0.0/0").contains("2001:db8::1".parse().unwrap()));
        assert!(!prefix("::/0").contains("192.0.2.1".parse().unwrap()));
        let lengths = Lengths::default();
        assert_eq!(lengths.prefix_of("::ffff:192.0.2.9".parse().unwrap()), prefix("192.0.2.0/24"));
        assert_eq!(lengths.prefix_of("2001:db8:1:2::9".parse().unwrap()), prefix("2001:db8:1::/48"));
    }

    #[test]
    fn sets_agree_with_their_prefixes() {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..200 {
            let mut one = || {
                let low: u128 = random.u128(..) & 0xfff;
                if random.bool() {
                    Prefix::new(Ipv4Addr::from_bits(0x0a00_0000 | low as u32).into(), random.u8(18..=32))
                } else {
                    Prefix::new(Ipv6Addr::from_bits(0x2001 << 112 | low).into(), random.u8(114..=128))
                }
            };
            let prefixes: Vec<Prefix> = (0..6).map(|_| one()).collect();
            let set: Prefixes = prefixes.iter().copied().collect();
            for _ in 0..40 {
                let address = one().address();
                let expected = prefixes.iter().any(|prefix| prefix.contains(address));
                assert_eq!(set.contains(address), expected, "seed {seed}: {address} in {prefixes:?}");
            }
        }
        let everything: Prefixes = [prefix("0.0.0.0/0"), prefix("::/0")].into_iter().collect();
        assert!(everything.contains("255.255.255.255".parse().unwrap()));
        assert!(everything.contains(Ipv6Addr::from_bits(u128::MAX).into()));
        let all_v6: Prefixes = [prefix("::/0")].into_iter().collect();
        assert!(!all_v6.contains("192.0.2.1".parse().unwrap()));
        assert!(!Prefixes::default().contains("192.0.2.1".parse().unwrap()));
    }
}
