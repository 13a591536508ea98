//! Prefixes as keys: 64 bits are enough for IPv4 and for the networks of IPv6.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network. Its host bits are zero; an IPv6 prefix has at most 64 bits.
///
/// Prefixes sort by family and address, a shorter one before those within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    is_v6: bool,
    /// The address' first bits, at the top.
    bits: u64,
    length: u8,
}

impl Prefix {
    /// The prefix of `length` bits around an address, at most 32 or 64. An IPv4-mapped address is its IPv4 address.
    #[inline]
    #[must_use]
    pub fn new(address: IpAddr, length: u8) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::of(false, u64::from(address.to_bits()) << 32, length),
            IpAddr::V6(address) => Self::of(true, (address.to_bits() >> 64) as u64, length),
        }
    }

    /// The prefix of `length` of these bits.
    #[inline]
    pub(super) fn of(is_v6: bool, bits: u64, length: u8) -> Self {
        let length = length.min(if is_v6 { 64 } else { 32 });
        Self { is_v6, bits: bits & mask(length), length }
    }

    /// Its first address.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        if self.is_v6 {
            IpAddr::V6(Ipv6Addr::from_bits(u128::from(self.bits) << 64))
        } else {
            IpAddr::V4(Ipv4Addr::from_bits((self.bits >> 32) as u32))
        }
    }

    /// How many bits it has.
    #[inline]
    #[must_use]
    pub fn length(&self) -> u8 {
        self.length
    }

    /// Whether it is of IPv6.
    #[inline]
    #[must_use]
    pub fn is_v6(&self) -> bool {
        self.is_v6
    }

    /// Its bits, at the top of a word.
    #[inline]
    pub(super) fn bits(&self) -> u64 {
        self.bits
    }

    /// The prefix of `length` around it; itself where it is not longer.
    #[inline]
    #[must_use]
    pub fn cut(&self, length: u8) -> Self {
        if length >= self.length { *self } else { Self::of(self.is_v6, self.bits, length) }
    }

    /// Whether the other lies in it, or is it.
    #[inline]
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.length <= other.length && other.cut(self.length) == *self
    }

    /// The prefix that holds it and its sibling; none around everything.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        self.length.checked_sub(1).map(|length| self.cut(length))
    }

    /// The other half of its parent; none of everything.
    #[must_use]
    pub fn sibling(&self) -> Option<Self> {
        let bit = 1_u64 << (64 - u32::from(self.length.max(1)));
        (self.length > 0).then_some(Self { bits: self.bits ^ bit, ..*self })
    }

    /// Which of its parts of the length of `inner` that is.
    pub(super) fn part_of(&self, inner: &Self) -> usize {
        let below = (inner.bits & !mask(self.length)) >> (64 - u32::from(inner.length.max(1)));
        if inner.length > self.length { below as usize } else { 0 }
    }

    /// Its halves, where it can be cut further.
    pub(super) fn halves(&self) -> Option<[Self; 2]> {
        let longer = self.length + 1;
        let first = Self::of(self.is_v6, self.bits, longer);
        (longer <= if self.is_v6 { 64 } else { 32 }).then(|| [first, first.sibling().unwrap_or(first)])
    }

    /// The last bits within it.
    #[cfg(test)]
    pub(super) fn last_bits(&self) -> u64 {
        self.bits | !mask(self.length)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address(), self.length)
    }
}

/// A word whose first `length` bits are set.
#[inline]
pub(super) fn mask(length: u8) -> u64 {
    u64::MAX.checked_shl(64 - u32::from(length)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn prefix(text: &str, length: u8) -> Prefix {
        Prefix::new(text.parse().unwrap(), length)
    }

    #[test]
    fn masks_and_says_so() {
        for (text, length, right) in [
            ("192.0.2.77", 24, "192.0.2.0/24"),
            ("192.0.2.77", 0, "0.0.0.0/0"),
            ("192.0.2.77", 99, "192.0.2.77/32"),
            ("::ffff:192.0.2.77", 24, "192.0.2.0/24"),
            ("2001:db8:1:2:3::4", 48, "2001:db8:1::/48"),
            ("2001:db8:1:2:3::4", 128, "2001:db8:1:2::/64"),
        ] {
            assert_eq!(prefix(text, length).to_string(), right);
        }
    }

    proptest! {
        #[test]
        fn families_halves_and_parents(bits: u32, length in 1..=31_u8, other: u32) {
            let p = Prefix::new(IpAddr::V4(bits.into()), length);
            let q = Prefix::new(IpAddr::V4(other.into()), 32);
            let parent = p.parent().unwrap();
            prop_assert!(parent.covers(&p) && !p.covers(&parent));
            prop_assert_eq!(p.sibling().unwrap().sibling().unwrap(), p);
            prop_assert_eq!(p.sibling().unwrap().parent().unwrap(), parent);
            prop_assert!(parent < p);
            prop_assert_eq!(p.covers(&q), q.cut(length) == p);
            let halves = parent.halves().unwrap();
            prop_assert_eq!(halves[parent.part_of(&p)], p);
            prop_assert_eq!(Prefix::of(false, 0, 0).part_of(&p), (bits >> (32 - length)) as usize);
            prop_assert!(halves[0] < halves[1] && halves[1].bits() <= parent.last_bits());
        }
    }
}
