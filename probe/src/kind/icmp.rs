//! ICMP: an echo request is answered. The answer itself is the verdict, so there is no conversation here.

use crate::def::DefError;

/// The largest payload; a whole echo stays within the smallest IPv6 packet and is never fragmented.
const PAYLOAD_LIMIT: u16 = 1200;

/// Options of `check.icmp`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IcmpDef {
    /// `size`: octets of payload in the echo.
    pub size: u16,
}

impl Default for IcmpDef {
    fn default() -> Self {
        Self { size: 56 }
    }
}

impl IcmpDef {
    pub(super) fn problems(&self, errors: &mut Vec<DefError>) {
        if self.size > PAYLOAD_LIMIT {
            errors.push(DefError::new("size", format!("{} is more than {PAYLOAD_LIMIT} octets", self.size)));
        }
    }
}
