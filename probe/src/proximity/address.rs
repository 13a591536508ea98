//! Which addresses may be probed at all (X: never private, multicast, own, bogon, anycast; opt-outs).
//!
//! ```text
//! kind of the address ─► the operator's exceptions ─► opted out ─► own ─► anycast ─► may be probed
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{pace::Refusal, prefix::Prefixes};

/// What the operator says of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressRules {
    /// Who does not want to be probed. Beats everything else.
    pub opted_out: Prefixes,
    /// Our own addresses and networks: listeners, virtual servers, links, peers.
    pub own: Prefixes,
    /// Anycast addresses beside the well-known ones: a probe measures whatever instance is near to us.
    pub anycast: Prefixes,
    /// Exceptions: private, reserved and documentation networks that are clients nevertheless, as those of an internal
    /// load balancer are.
    pub also: Prefixes,
}

impl AddressRules {
    /// Whether the address may be probed.
    pub fn check(&self, address: IpAddr) -> Result<(), Refusal> {
        let address = address.to_canonical();
        match unroutable(address) {
            // no exception makes one host of these
            Some(kind @ (Refusal::Unspecified | Refusal::Multicast | Refusal::Broadcast)) => {
                return Err(kind);
            }
            Some(kind) if !self.also.contains(address) => return Err(kind),
            Some(_) | None => {}
        }
        if self.opted_out.contains(address) {
            return Err(Refusal::OptedOut);
        }
        if self.own.contains(address) {
            return Err(Refusal::Own);
        }
        if self.is_anycast(address) {
            return Err(Refusal::Anycast);
        }
        Ok(())
    }

    /// Whether the address is known to be served from many places.
    #[must_use]
    pub fn is_anycast(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.anycast.contains(address) || well_known_anycast(address)
    }
}

/// Why an address is no host of the public network (IANA's special-purpose registries, RFC 6890); `None` where it is.
fn unroutable(address: IpAddr) -> Option<Refusal> {
    match address {
        IpAddr::V4(v4) => unroutable_v4(v4),
        IpAddr::V6(v6) => unroutable_v6(v6),
    }
}

fn unroutable_v4(v4: Ipv4Addr) -> Option<Refusal> {
    match v4.octets() {
        [0, 0, 0, 0] => Some(Refusal::Unspecified),
        [127, ..] => Some(Refusal::Loopback),
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Some(Refusal::Private),
        [169, 254, ..] => Some(Refusal::LinkLocal),
        [224..=239, ..] => Some(Refusal::Multicast),
        [255, 255, 255, 255] => Some(Refusal::Broadcast),
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Some(Refusal::Documentation),
        // "this network", shared by carriers (RFC 6598), protocol assignments, the old 6to4 relays, benchmarks,
        // and what is reserved
        [0, ..]
        | [100, 64..=127, ..]
        | [192, 0, 0, _]
        | [192, 88, 99, _]
        | [198, 18..=19, ..]
        | [240..=255, ..] => Some(Refusal::Bogon),
        _ => None,
    }
}

fn unroutable_v6(v6: Ipv6Addr) -> Option<Refusal> {
    let [a, b, ..] = v6.segments();
    match (a, b) {
        _ if v6.is_unspecified() => Some(Refusal::Unspecified),
        _ if v6.is_loopback() => Some(Refusal::Loopback),
        (0xfc00..=0xfdff, _) => Some(Refusal::Private),
        (0xfe80..=0xfebf, _) => Some(Refusal::LinkLocal),
        (0xff00..=0xffff, _) => Some(Refusal::Multicast),
        // RFC 3849, RFC 9637
        (0x2001, 0x0db8) | (0x3fff, 0..=0x0fff) => Some(Refusal::Documentation),
        // protocol assignments (Teredo, ORCHID, …) and 6to4 hold other addresses within them
        (0x2001, 0..=0x01ff) | (0x2002, _) => Some(Refusal::Bogon),
        (0x2000..=0x3fff, _) => None,
        // nothing else is given out (RFC 4291 2.4)
        _ => Some(Refusal::Bogon),
    }
}

/// The addresses of the large public resolvers. Their queries come from other addresses of the operators; where they
/// come from these, the path says nothing about the resolver's users.
fn well_known_anycast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => matches!(
            v4.octets(),
            [8, 8, 4 | 8, _]
                | [1, 0, 0, _]
                | [1, 1, 1, _]
                | [9, 9, 9, _]
                | [149, 112, 112, _]
                | [208, 67, 220 | 222, _]
                | [64, 6, 64 | 65, _]
                | [77, 88, 8, _]
                | [94, 140, 14 | 15, _]
                | [114, 114, 114 | 115, _]
                | [119, 29, 29, _]
                | [180, 76, 76, _]
                | [185, 228, 168 | 169, _]
                | [223, 5, 5, _]
                | [223, 6, 6, _]
        ),
        IpAddr::V6(v6) => {
            let [a, b, c, ..] = v6.segments();
            matches!(
                (a, b, c),
                (0x2001, 0x4860, 0x4860)
                    | (0x2606, 0x4700, 0x4700)
                    | (0x2620, 0x00fe, 0)
                    | (0x2620, 0x0119, 0x35 | 0x53)
                    | (0x2a10, 0x50c0, 0)
                    | (0x2400, 0x3200, 0)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proximity::prefix::text::nets;

    /// Every kind of address, from both ends of its range.
    #[test]
    fn kinds() {
        use Refusal::{
            Anycast, Bogon, Broadcast, Documentation, LinkLocal, Loopback, Multicast, OptedOut, Own, Private,
            Unspecified,
        };
        let rules = AddressRules {
            opted_out: nets(&["5.6.7.0/24", "2a00:1::/32", "10.9.0.0/16"]),
            own: nets(&["20.1.1.0/30", "2a00:2::53"]),
            anycast: nets(&["21.2.2.2"]),
            also: nets(&[
                "10.0.0.0/8",
                "127.0.0.0/8",
                "0.0.0.0/32",
                "224.0.0.0/4",
                "fd00::/16",
                "20.1.1.0/24",
            ]),
        };
        let none = AddressRules::default();
        // address, without rules, with them
        let table: &[(&str, Option<Refusal>, Option<Refusal>)] = &[
            ("0.0.0.0", Some(Unspecified), Some(Unspecified)),
            ("0.1.2.3", Some(Bogon), Some(Bogon)),
            ("9.255.255.255", None, None),
            ("10.0.0.0", Some(Private), None),
            ("10.9.1.1", Some(Private), Some(OptedOut)),
            ("10.255.255.255", Some(Private), None),
            ("11.0.0.0", None, None),
            ("100.63.255.255", None, None),
            ("100.64.0.1", Some(Bogon), Some(Bogon)),
            ("100.127.255.255", Some(Bogon), Some(Bogon)),
            ("100.128.0.0", None, None),
            ("127.0.0.1", Some(Loopback), None),
            ("::ffff:127.0.0.1", Some(Loopback), None),
            ("169.253.1.1", None, None),
            ("169.254.1.1", Some(LinkLocal), Some(LinkLocal)),
            ("172.15.1.1", None, None),
            ("172.16.0.0", Some(Private), Some(Private)),
            ("172.31.255.255", Some(Private), Some(Private)),
            ("172.32.0.0", None, None),
            ("192.0.0.8", Some(Bogon), Some(Bogon)),
            ("192.0.1.1", None, None),
            ("192.0.2.1", Some(Documentation), Some(Documentation)),
            ("192.88.99.1", Some(Bogon), Some(Bogon)),
            ("192.168.1.1", Some(Private), Some(Private)),
            ("198.17.255.255", None, None),
            ("198.18.0.1", Some(Bogon), Some(Bogon)),
            ("198.19.255.255", Some(Bogon), Some(Bogon)),
            ("198.51.100.1", Some(Documentation), Some(Documentation)),
            ("203.0.113.255", Some(Documentation), Some(Documentation)),
            ("223.255.255.255", None, None),
            ("224.0.0.1", Some(Multicast), Some(Multicast)),
            ("239.255.255.255", Some(Multicast), Some(Multicast)),
            ("240.0.0.1", Some(Bogon), Some(Bogon)),
            ("255.255.255.254", Some(Bogon), Some(Bogon)),
            ("255.255.255.255", Some(Broadcast), Some(Broadcast)),
            ("5.6.7.8", None, Some(OptedOut)),
            ("5.6.8.0", None, None),
            ("20.1.1.3", None, Some(Own)),
            ("20.1.1.4", None, None),
            ("21.2.2.2", None, Some(Anycast)),
            ("8.8.8.8", Some(Anycast), Some(Anycast)),
            ("::ffff:8.8.4.4", Some(Anycast), Some(Anycast)),
            ("8.8.5.8", None, None),
            ("1.1.1.1", Some(Anycast), Some(Anycast)),
            ("223.5.5.5", Some(Anycast), Some(Anycast)),
            ("::", Some(Unspecified), Some(Unspecified)),
            ("::1", Some(Loopback), Some(Loopback)),
            ("::2", Some(Bogon), Some(Bogon)),
            ("64:ff9b::808:808", Some(Bogon), Some(Bogon)),
            ("100::1", Some(Bogon), Some(Bogon)),
            ("1fff::1", Some(Bogon), Some(Bogon)),
            ("2001::1", Some(Bogon), Some(Bogon)),
            ("2001:1ff::1", Some(Bogon), Some(Bogon)),
            ("2001:200::1", None, None),
            ("2001:db8::1", Some(Documentation), Some(Documentation)),
            ("2001:db9::1", None, None),
            ("2002:808:808::1", Some(Bogon), Some(Bogon)),
            ("2a00:1::1", None, Some(OptedOut)),
            ("2a00:2::53", None, Some(Own)),
            ("2a00:2::54", None, None),
            ("2001:4860:4860::8888", Some(Anycast), Some(Anycast)),
            ("2606:4700:4700::1111", Some(Anycast), Some(Anycast)),
            ("2620:fe::fe", Some(Anycast), Some(Anycast)),
            ("3fff:fff::1", Some(Documentation), Some(Documentation)),
            ("3fff:1000::1", None, None),
            ("4000::1", Some(Bogon), Some(Bogon)),
            ("fc00::1", Some(Private), Some(Private)),
            ("fd00::1", Some(Private), None),
            ("fdff::1", Some(Private), Some(Private)),
            ("fe00::1", Some(Bogon), Some(Bogon)),
            ("fe80::1", Some(LinkLocal), Some(LinkLocal)),
            ("febf::1", Some(LinkLocal), Some(LinkLocal)),
            ("fec0::1", Some(Bogon), Some(Bogon)),
            ("ff02::1", Some(Multicast), Some(Multicast)),
        ];
        for (text, without, with) in table {
            let address = text.parse().unwrap();
            assert_eq!(none.check(address).err(), *without, "{text} without rules");
            assert_eq!(rules.check(address).err(), *with, "{text} with rules");
        }
    }
}
