//! EDNS: the OPT record of a query and of a reply (RFC 6891).

use crate::cookie::Cookie;
use crate::ecs::Ecs;
use crate::wire::Rcode;

/// Octets of an OPT record without options.
pub(crate) const OPT_LEN: usize = 11;

/// Option codes (IANA "DNS EDNS0 Option Codes").
pub(crate) mod option {
    pub(crate) const NSID: u16 = 3;
    pub(crate) const ECS: u16 = 8;
    pub(crate) const COOKIE: u16 = 10;
    pub(crate) const EDE: u16 = 15;
}

/// Which options are understood; all others are ignored (RFC 6891 6.1.2).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) ecs: bool,
    pub(crate) cookies: bool,
}

/// What a query's OPT record says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edns {
    pub(crate) udp_size: u16,
    /// DNSSEC answers wanted; copied to the reply.
    pub(crate) dnssec_ok: bool,
    pub(crate) nsid: bool,
    pub(crate) ecs: Option<Ecs>,
    pub(crate) cookie: Option<Cookie>,
}

impl Edns {
    pub(crate) const fn new(udp_size: u16, flags: u16) -> Self {
        Self { udp_size, dnssec_ok: flags & 0x8000 != 0, nsid: false, ecs: None, cookie: None }
    }

    /// Reads the options. On an error the option at fault is not kept, so that the reply's OPT does not echo it.
    pub(crate) fn read_options(&mut self, mut rdata: &[u8], reading: Reading) -> Result<(), Rcode> {
        let mut wrong = false;
        let mut ecs_seen = false;
        while !rdata.is_empty() {
            let &[c1, c0, l1, l0, ref rest @ ..] = rdata else { return Err(Rcode::FORMERR) };
            let length = usize::from(u16::from_be_bytes([l1, l0]));
            // W08
            let (data, after) = rest.split_at_checked(length).ok_or(Rcode::FORMERR)?;
            rdata = after;
            match u16::from_be_bytes([c1, c0]) {
                option::NSID => self.nsid = true,
                option::ECS if reading.ecs => {
                    self.ecs = Ecs::read(data).ok();
                    // dns.md 14: twice is as wrong as malformed
                    wrong |= ecs_seen || self.ecs.is_none();
                    ecs_seen = true;
                }
                // RFC 7873 5.2: of several the first counts
                option::COOKIE if reading.cookies && self.cookie.is_none() => {
                    self.cookie = Cookie::read(data);
                    wrong |= self.cookie.is_none();
                }
                _ => {}
            }
        }
        if wrong {
            self.ecs = None;
            return Err(Rcode::FORMERR);
        }
        Ok(())
    }
}

/// Extended errors that tell an operator something (RFC 8914 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExtendedError {
    /// An ACL or a setting forbids it.
    Prohibited = 18,
    /// The name lies in no served zone.
    NotAuthoritative = 20,
    /// The type, class or opcode is not served.
    NotSupported = 21,
    /// Nothing usable is left to answer with.
    NoReachableAuthority = 22,
}
