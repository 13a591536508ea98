//! One question: who asks, about which service, with which dice.

use crate::nets::Leaf;
use crate::view::ServiceId;
use std::net::IpAddr;

/// Who the answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// The address the choice is made by: ECS network address, or the source of the packet. IPv4-mapped
    /// addresses are given as IPv4.
    pub address: IpAddr,
    /// How many bits of `address` are known: 32 or 128 for a source address, the ECS source length otherwise.
    pub prefix: u8,
    /// Source port of the packet (0 when there is none).
    pub port: u16,
}

impl Client {
    /// A client known by its whole address.
    #[must_use]
    pub fn whole(address: IpAddr, port: u16) -> Self {
        let address = address.to_canonical();
        Self { address, prefix: if address.is_ipv4() { 32 } else { 128 }, port }
    }

    /// The address cut to `v4` or `v6` bits (or to what is known), as 128 bits, and that length.
    #[inline]
    #[must_use]
    pub fn cut(&self, v4: u8, v6: u8) -> (u128, u8) {
        match self.address {
            IpAddr::V4(a) => {
                let len = v4.min(self.prefix).min(32);
                let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
                // the v4-mapped form keeps the families apart
                (0xffff_0000_0000 | u128::from(a.to_bits() & mask), len)
            }
            IpAddr::V6(a) => {
                let len = v6.min(self.prefix).min(128);
                let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
                (a.to_bits() & mask, len)
            }
        }
    }
}

/// What is asked of [`crate::decide`].
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The service asked for.
    pub service: ServiceId,
    /// Who the answer is for.
    pub client: Client,
    /// The client's class and the honest scopes, from [`crate::nets::Nets`].
    pub leaf: Leaf,
    /// Where the packet was sent to: outbound flows and local connections; `None` for a DNS query.
    pub destination: Option<(IpAddr, u16)>,
    /// Payload for the UDP payload hash; empty elsewhere.
    pub payload: &'a [u8],
    /// Monotonic seconds, for persistence entries.
    pub now_s: u32,
}

/// Entropy and turn, given from outside so that a choice can be repeated exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dice {
    /// Uniform random bits, fresh for each ask.
    pub entropy: u64,
    /// How many asks this service had before: the turn of round robin.
    pub turn: u64,
}
