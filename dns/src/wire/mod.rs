//! Messages as bytes: reading a query, writing a reply.
//!
//! ```text
//! datagram ─ parse::query ─► Question + Edns + flags ─ respond ─► write::Writer ─► reply
//! ```
//! Nothing here allocates, and nothing trusts a length or an offset of the packet.

pub(crate) mod hash;
pub(crate) mod parse;
pub(crate) mod write;

/// Octets of the header (RFC 1035 4.1.1).
pub const HEADER: usize = 12;
/// The largest UDP reply to a query without EDNS (RFC 1035 4.2.1), and the least EDNS may ask for (RFC 6891 6.2.5).
pub const UDP_MIN: usize = 512;
/// The largest message of any transport.
pub const MESSAGE_MAX: usize = 65_535;

/// Response codes, the extended ones included (RFC 6895 2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rcode(pub u16);

impl Rcode {
    /// No error.
    pub const NOERROR: Self = Self(0);
    /// The query could not be read.
    pub const FORMERR: Self = Self(1);
    /// The server failed.
    pub const SERVFAIL: Self = Self(2);
    /// The name does not exist.
    pub const NXDOMAIN: Self = Self(3);
    /// The opcode is not served.
    pub const NOTIMP: Self = Self(4);
    /// Refused by policy, or a name that is not served here.
    pub const REFUSED: Self = Self(5);
    /// A DNAME would make the name too long (RFC 6672 2.2).
    pub const YXDOMAIN: Self = Self(6);
    /// The EDNS version is not spoken here (RFC 6891 6.1.3).
    pub const BADVERS: Self = Self(16);
    /// The server cookie is missing or wrong (RFC 7873 5.2.3).
    pub const BADCOOKIE: Self = Self(23);

    /// The usual mnemonic.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.0 {
            0 => "NOERROR",
            1 => "FORMERR",
            2 => "SERVFAIL",
            3 => "NXDOMAIN",
            4 => "NOTIMP",
            5 => "REFUSED",
            6 => "YXDOMAIN",
            16 => "BADVERS",
            23 => "BADCOOKIE",
            _ => "OTHER",
        }
    }
}

/// Bits of the header's flag word.
pub(crate) mod flag {
    /// A response.
    pub(crate) const QR: u16 = 0x8000;
    /// The opcode's bits.
    pub(crate) const OPCODE: u16 = 0x7800;
    /// An authoritative answer.
    pub(crate) const AA: u16 = 0x0400;
    /// Truncated.
    pub(crate) const TC: u16 = 0x0200;
    /// Recursion desired; copied from the query.
    pub(crate) const RD: u16 = 0x0100;
}

/// The two octets at `at`, big-endian.
#[inline]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let pair: &[u8; 2] = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_be_bytes(*pair))
}

/// Asks the processor to load the first cache line of what `target` points at.
#[inline(always)]
pub(crate) fn prefetch<T>(target: &T) {
    prefetch_lines(target, 1);
}

/// Asks the processor to load the cache lines that hold the first `len` octets from `target` on.
#[inline(always)]
#[allow(unsafe_code)]
pub(crate) fn prefetch_lines<T>(target: &T, len: usize) {
    #[cfg(target_arch = "x86_64")]
    for at in (0..len).step_by(64) {
        // SAFETY: a prefetch reads nothing and faults on no address; the address is computed without a claim to be
        // inside an object.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(target).cast::<i8>().wrapping_add(at));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (target, len);
}
