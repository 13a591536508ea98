//! Addresses as numbers, so that one code serves both families.

use std::fmt::Debug;
use std::hash::Hash;
use std::net::IpAddr;

/// An address as a number: `u32` for IPv4, `u128` for IPv6.
pub trait Address: Copy + Ord + Hash + Default + Debug {
    /// Bits of an address.
    const BITS: u8;
    /// The last address of the family.
    const MAX: Self;
    /// The number, widened.
    fn widen(self) -> u128;
    /// The number, cut to the family.
    fn narrow(value: u128) -> Self;
    /// The first `bits` bits.
    fn top(self, bits: u8) -> usize;
    /// The six bits that follow the first `depth` ones; zeros follow the last bit of the address.
    fn slot(self, depth: u8) -> usize;
    /// The address after this one, none after the last.
    fn next(self) -> Option<Self>;

    /// The address before this one, 0 before 0.
    fn before(self) -> Self {
        Self::narrow(self.widen().saturating_sub(1))
    }
    /// The last address of the block of length `len` that starts here.
    fn block_end(self, len: u8) -> Self {
        Self::narrow(self.widen() | host_mask(Self::BITS.saturating_sub(len)))
    }
    /// The first address of the block of length `len` around this address.
    fn block_start(self, len: u8) -> Self {
        Self::narrow(self.widen() & !host_mask(Self::BITS.saturating_sub(len)))
    }
}

fn host_mask(bits: u8) -> u128 {
    1u128.checked_shl(u32::from(bits)).map_or(u128::MAX, |bit| bit - 1)
}

macro_rules! address {
    ($int:ty) => {
        impl Address for $int {
            const BITS: u8 = <$int>::BITS as u8;
            const MAX: Self = <$int>::MAX;
            #[inline]
            fn widen(self) -> u128 {
                u128::from(self)
            }
            #[inline]
            fn narrow(value: u128) -> Self {
                value as Self
            }
            #[inline]
            fn top(self, bits: u8) -> usize {
                if bits == 0 { 0 } else { (self >> (<Self as Address>::BITS - bits)) as usize }
            }
            #[inline]
            fn slot(self, depth: u8) -> usize {
                ((self << depth) >> (<Self as Address>::BITS - 6)) as usize
            }
            #[inline]
            fn next(self) -> Option<Self> {
                self.checked_add(1)
            }
        }
    };
}
address!(u32);
address!(u128);

/// An address by family, IPv4-mapped IPv6 addresses as the IPv4 addresses they are (R15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    V4(u32),
    V6(u128),
}

#[inline]
pub(super) fn number(addr: IpAddr) -> Number {
    match addr {
        IpAddr::V4(addr) => Number::V4(addr.into()),
        IpAddr::V6(addr) => match addr.to_ipv4_mapped() {
            Some(addr) => Number::V4(addr.into()),
            None => Number::V6(addr.into()),
        },
    }
}
