//! EDNS Client Subnet (RFC 7871).

use crate::wire::Rcode;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A client subnet as a query gives it: nothing beyond the source length is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ecs {
    /// Address family number: 1 is IPv4, 2 is IPv6, 0 is "none" and comes with a source length of 0 only.
    pub family: u16,
    /// How many bits of the address are given.
    pub source: u8,
    /// The address octets sent, then zeroes.
    pub address: [u8; 16],
}

impl Ecs {
    /// Reads the option's data as a query may carry it. Everything else is a FORMERR (RFC 7871 7.1.2, case E05).
    pub(crate) fn read(data: &[u8]) -> Result<Self, Rcode> {
        let &[f1, f0, source, scope, ref octets @ ..] = data else { return Err(Rcode::FORMERR) };
        let family = u16::from_be_bytes([f1, f0]);
        let longest = match family {
            0 => 0,
            1 => 32,
            2 => 128,
            _ => return Err(Rcode::FORMERR),
        };
        if scope != 0 || source > longest || octets.len() != usize::from(source).div_ceil(8) {
            return Err(Rcode::FORMERR);
        }
        let mut address = [0; 16];
        address.get_mut(..octets.len()).ok_or(Rcode::FORMERR)?.copy_from_slice(octets);
        // bits past the source length must be zero
        if source % 8 != 0 && octets.last().is_some_and(|last| last << (source % 8) != 0) {
            return Err(Rcode::FORMERR);
        }
        Ok(Self { family, source, address })
    }

    /// The subnet as a resolver sends it: cut to its length, and to what the family has.
    #[must_use]
    pub fn new(subnet: IpAddr, length: u8) -> Self {
        let (family, longest) = if subnet.is_ipv4() { (1, 32) } else { (2, 128) };
        let source = length.min(longest);
        let number = match subnet {
            IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
            IpAddr::V6(v6) => v6.to_bits(),
        };
        let mask = u128::MAX.checked_shl(128 - u32::from(source)).unwrap_or(0);
        Self { family, source, address: (number & mask).to_be_bytes() }
    }

    /// The subnet to decide by, IPv4-mapped addresses as IPv4; `None` where the client said "do not use" (case E13).
    #[must_use]
    pub fn subnet(&self) -> Option<(IpAddr, u8)> {
        if self.source == 0 {
            return None;
        }
        let [a, b, c, d, ..] = self.address;
        match self.family {
            1 => Some((Ipv4Addr::new(a, b, c, d).into(), self.source)),
            2 => {
                let address = Ipv6Addr::from(self.address);
                match (address.to_ipv4_mapped(), self.source) {
                    (Some(v4), 97..) => Some((v4.into(), self.source - 96)),
                    _ => Some((address.into(), self.source)),
                }
            }
            _ => None,
        }
    }

    /// A scope over [`Self::subnet`] as a scope over the address that was sent.
    pub(crate) fn scope_on_wire(&self, scope: u8) -> u8 {
        let is_mapped = self.family == 2 && matches!(self.subnet(), Some((IpAddr::V4(_), _)));
        if is_mapped && scope > 0 { scope.saturating_add(96) } else { scope }
    }

    /// The address octets that are sent.
    pub(crate) fn octets(&self) -> &[u8] {
        self.address.get(..usize::from(self.source).div_ceil(8)).unwrap_or_default()
    }
}

/// Who may use client subnets, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EcsPolicy {
    /// Whether the option is understood at all; if not it is ignored like any unknown one.
    pub enabled: bool,
    /// Resolvers whose option is used; `None` is all. The option of others is echoed with scope 0 and not used.
    pub allow: Option<PrefixSet>,
    /// Whether private and unroutable subnets are used (case E08): an internal load balancer needs 10/8, a public
    /// one must not be steered by them.
    pub accept_private: bool,
}

impl EcsPolicy {
    /// The subnet to decide by, for a query from `source`.
    #[inline]
    pub(crate) fn subnet(&self, ecs: Option<&Ecs>, source: IpAddr) -> Option<(IpAddr, u8)> {
        let (address, length) = ecs?.subnet()?;
        let is_used = (self.accept_private || is_public(address))
            && self.allow.as_ref().is_none_or(|allow| allow.contains(source));
        is_used.then_some((address, length))
    }
}

/// Whether an address may be seen on the public network. Documentation ranges count as public.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, ..] = v4.octets();
            !(a == 0
                || v4.is_private()
                || v4.is_loopback()
                || v4.is_link_local()
                || (a == 100 && b & 0xc0 == 64)
                || a >= 224)
        }
        IpAddr::V6(v6) => {
            !(v6.is_unspecified()
                || v6.is_loopback()
                || v6.is_unique_local()
                || v6.is_unicast_link_local()
                || v6.is_multicast())
        }
    }
}

/// A set of prefixes, searched by halving.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrefixSet {
    /// Sorted, disjoint, both ends included. IPv4 addresses are in their v4-mapped form.
    ranges: Vec<(u128, u128)>,
}

impl PrefixSet {
    /// The set of these prefixes; bits past a length do not count.
    #[must_use]
    pub fn new(prefixes: impl IntoIterator<Item = (IpAddr, u8)>) -> Self {
        let mut ranges: Vec<_> =
            prefixes.into_iter().map(|(address, length)| range(address, length)).collect();
        ranges.sort_unstable();
        let mut merged: Vec<(u128, u128)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match merged.last_mut() {
                Some(open) if first <= open.1.saturating_add(1) => open.1 = open.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        Self { ranges: merged }
    }

    /// Whether `address` is in one of the prefixes.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let number = number(address);
        let after = self.ranges.partition_point(|&(first, _)| first <= number);
        after.checked_sub(1).and_then(|i| self.ranges.get(i)).is_some_and(|&(_, last)| number <= last)
    }

    /// The fewest prefixes that are this set; those of IPv4 are in their v4-mapped form.
    pub fn prefixes(&self) -> impl Iterator<Item = (IpAddr, u8)> + '_ {
        self.ranges.iter().flat_map(|&(first, last)| {
            let mut next = Some(first);
            std::iter::from_fn(move || {
                let first = next?;
                // the largest block that begins here and ends in time
                let bits =
                    (0..=first.trailing_zeros()).rev().find(|bits| last - first >= host_mask(*bits))?;
                let end = first + host_mask(bits);
                next = end.checked_add(1).filter(|next| *next <= last);
                Some((Ipv6Addr::from_bits(first).into(), (128 - bits) as u8))
            })
        })
    }
}

/// As many ones as a host has bits.
fn host_mask(bits: u32) -> u128 {
    if bits >= 128 { u128::MAX } else { (1 << bits) - 1 }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn range(address: IpAddr, length: u8) -> (u128, u128) {
    let host_bits = match address {
        IpAddr::V4(_) => 32_u32.saturating_sub(u32::from(length)),
        IpAddr::V6(_) => 128_u32.saturating_sub(u32::from(length)),
    };
    let host = host_mask(host_bits);
    let number = number(address);
    (number & !host, number | host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_the_set_of_its_prefixes() {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..500 {
            let one = |random: &mut fastrand::Rng| -> (IpAddr, u8) {
                if random.bool() {
                    (Ipv4Addr::from_bits(random.u32(..)).into(), random.u8(0..=32))
                } else {
                    (Ipv6Addr::from_bits(random.u128(..)).into(), random.u8(0..=128))
                }
            };
            let set = PrefixSet::new((0..random.usize(0..6)).map(|_| one(&mut random)));
            let prefixes: Vec<_> = set.prefixes().collect();
            assert_eq!(PrefixSet::new(prefixes.iter().copied()), set, "seed {seed}: {prefixes:?}");
        }
        let whole = PrefixSet::new([(Ipv6Addr::UNSPECIFIED.into(), 0)]);
        assert_eq!(whole.prefixes().collect::<Vec<_>>(), [(Ipv6Addr::UNSPECIFIED.into(), 0)]);
    }
}
