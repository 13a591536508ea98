//! Record types by number and mnemonic.

use std::fmt;
use std::str::FromStr;

/// A record or query type (IANA "Resource Record (RR) TYPEs").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RrType(pub u16);

/// The text is neither a mnemonic nor `TYPE` with a number up to 65535 (RFC 3597 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unknown record type")]
pub struct UnknownType;

macro_rules! types {
    ($($name:ident $text:literal = $code:literal: $doc:literal;)*) => {
        impl RrType {
            $(#[doc = $doc] pub const $name: Self = Self($code);)*

            /// The mnemonic, when the type has one.
            pub const fn mnemonic(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some($text),)*
                    _ => None,
                }
            }
        }

        /// Every type that has a mnemonic.
        const NAMED: &[(&str, RrType)] = &[$(($text, RrType($code)),)*];
    };
}

types! {
    A "A" = 1: "IPv4 address (RFC 1035).";
    NS "NS" = 2: "Name server (RFC 1035).";
    MD "MD" = 3: "Mail destination, obsolete (RFC 1035).";
    MF "MF" = 4: "Mail forwarder, obsolete (RFC 1035).";
    CNAME "CNAME" = 5: "Alias (RFC 1035).";
    SOA "SOA" = 6: "Start of authority (RFC 1035).";
    MB "MB" = 7: "Mailbox (RFC 1035).";
    MG "MG" = 8: "Mail group member (RFC 1035).";
    MR "MR" = 9: "Mail rename (RFC 1035).";
    NULL "NULL" = 10: "Anything at all (RFC 1035).";
    WKS "WKS" = 11: "Well-known services, obsolete (RFC 1035).";
    PTR "PTR" = 12: "Pointer (RFC 1035).";
    HINFO "HINFO" = 13: "Host information (RFC 1035).";
    MINFO "MINFO" = 14: "Mailbox information (RFC 1035).";
    MX "MX" = 15: "Mail exchange (RFC 1035).";
    TXT "TXT" = 16: "Text strings (RFC 1035).";
    RP "RP" = 17: "Responsible person (RFC 1183).";
    AFSDB "AFSDB" = 18: "AFS database (RFC 1183).";
    X25 "X25" = 19: "X.25 address (RFC 1183).";
    ISDN "ISDN" = 20: "ISDN address (RFC 1183).";
    RT "RT" = 21: "Route through (RFC 1183).";
    NSAP "NSAP" = 22: "NSAP address (RFC 1706).";
    NSAP_PTR "NSAP-PTR" = 23: "NSAP pointer (RFC 1706).";
    SIG "SIG" = 24: "Signature, obsolete (RFC 2535).";
    KEY "KEY" = 25: "Key, obsolete (RFC 2535).";
    PX "PX" = 26: "X.400 mapping (RFC 2163).";
    GPOS "GPOS" = 27: "Geographical position (RFC 1712).";
    AAAA "AAAA" = 28: "IPv6 address (RFC 3596).";
    LOC "LOC" = 29: "Location (RFC 1876).";
    NXT "NXT" = 30: "Next, obsolete (RFC 2535).";
    EID "EID" = 31: "Endpoint identifier (Nimrod).";
    NIMLOC "NIMLOC" = 32: "Nimrod locator.";
    SRV "SRV" = 33: "Service (RFC 2782).";
    ATMA "ATMA" = 34: "ATM address.";
    NAPTR "NAPTR" = 35: "Naming authority pointer (RFC 3403).";
    KX "KX" = 36: "Key exchanger (RFC 2230).";
    CERT "CERT" = 37: "Certificate (RFC 4398).";
    A6 "A6" = 38: "IPv6 address, obsolete (RFC 2874).";
    DNAME "DNAME" = 39: "Alias of a whole subtree (RFC 6672).";
    SINK "SINK" = 40: "Kitchen sink.";
    OPT "OPT" = 41: "EDNS (RFC 6891).";
    APL "APL" = 42: "Address prefix list (RFC 3123).";
    DS "DS" = 43: "Delegation signer (RFC 4034).";
    SSHFP "SSHFP" = 44: "SSH key fingerprint (RFC 4255).";
    IPSECKEY "IPSECKEY" = 45: "IPsec key (RFC 4025).";
    RRSIG "RRSIG" = 46: "Signature (RFC 4034).";
    NSEC "NSEC" = 47: "Next secure (RFC 4034).";
    DNSKEY "DNSKEY" = 48: "DNSSEC key (RFC 4034).";
    DHCID "DHCID" = 49: "DHCP identifier (RFC 4701).";
    NSEC3 "NSEC3" = 50: "Hashed next secure (RFC 5155).";
    NSEC3PARAM "NSEC3PARAM" = 51: "NSEC3 parameters (RFC 5155).";
    TLSA "TLSA" = 52: "TLS certificate association (RFC 6698).";
    SMIMEA "SMIMEA" = 53: "S/MIME certificate association (RFC 8162).";
    HIP "HIP" = 55: "Host identity (RFC 8005).";
    NINFO "NINFO" = 56: "Zone status.";
    RKEY "RKEY" = 57: "Record key.";
    TALINK "TALINK" = 58: "Trust anchor link.";
    CDS "CDS" = 59: "Child's DS (RFC 7344).";
    CDNSKEY "CDNSKEY" = 60: "Child's DNSKEY (RFC 7344).";
    OPENPGPKEY "OPENPGPKEY" = 61: "OpenPGP key (RFC 7929).";
    CSYNC "CSYNC" = 62: "Child-to-parent synchronization (RFC 7477).";
    ZONEMD "ZONEMD" = 63: "Zone digest (RFC 8976).";
    SVCB "SVCB" = 64: "Service binding (RFC 9460).";
    HTTPS "HTTPS" = 65: "Service binding for HTTP (RFC 9460).";
    DSYNC "DSYNC" = 66: "Endpoint for generalized notifications (RFC 9859).";
    HHIT "HHIT" = 67: "Hierarchical host identity tag (RFC 9886).";
    BRID "BRID" = 68: "Broadcast remote identification (RFC 9886).";
    SPF "SPF" = 99: "Sender policy, obsolete (RFC 7208).";
    NID "NID" = 104: "Node identifier (RFC 6742).";
    L32 "L32" = 105: "ILNP 32-bit locator (RFC 6742).";
    L64 "L64" = 106: "ILNP 64-bit locator (RFC 6742).";
    LP "LP" = 107: "ILNP locator pointer (RFC 6742).";
    EUI48 "EUI48" = 108: "48-bit MAC address (RFC 7043).";
    EUI64 "EUI64" = 109: "64-bit MAC address (RFC 7043).";
    NXNAME "NXNAME" = 128: "Marks a name that does not exist, in NSEC only (RFC 9824).";
    TKEY "TKEY" = 249: "Transaction key (RFC 2930).";
    TSIG "TSIG" = 250: "Transaction signature (RFC 8945).";
    IXFR "IXFR" = 251: "Incremental transfer (RFC 1995).";
    AXFR "AXFR" = 252: "Transfer of a whole zone (RFC 5936).";
    MAILB "MAILB" = 253: "Mailbox records (RFC 1035).";
    MAILA "MAILA" = 254: "Mail agent records, obsolete (RFC 1035).";
    ANY "ANY" = 255: "All types, or a subset (RFC 8482).";
    URI "URI" = 256: "URI (RFC 7553).";
    CAA "CAA" = 257: "Certification authorities allowed (RFC 8659).";
    AVC "AVC" = 258: "Application visibility and control.";
    DOA "DOA" = 259: "Digital object architecture.";
    AMTRELAY "AMTRELAY" = 260: "Multicast tunnel relay (RFC 8777).";
    RESINFO "RESINFO" = 261: "Resolver information (RFC 9606).";
    WALLET "WALLET" = 262: "Public wallet address.";
    CLA "CLA" = 263: "BP convergence layer adapter.";
    IPN "IPN" = 264: "BP node number.";
    TA "TA" = 32768: "DNSSEC trust authority.";
    DLV "DLV" = 32769: "DNSSEC lookaside validation, obsolete (RFC 8749).";
}

impl RrType {
    /// Whether the type exists in questions or messages only, never in a zone (RFC 6895 3.1; OPT is the
    /// one below 128). Type 0 is reserved and counts as one.
    pub const fn is_meta(self) -> bool {
        matches!(self.0, 0 | 41 | 128..=255)
    }

    pub(crate) fn from_bytes(text: &[u8]) -> Result<Self, UnknownType> {
        // "NSAP-PTR" and "OPENPGPKEY" are about as long as it gets
        let mut upper = [0; 16];
        let upper = upper.get_mut(..text.len()).ok_or(UnknownType)?;
        upper.copy_from_slice(text);
        upper.make_ascii_uppercase();
        // most lines of a zone are of the first few types, so a scan is quick
        if let Some(&(_, rtype)) = NAMED.iter().find(|(name, _)| name.as_bytes() == upper) {
            return Ok(rtype);
        }
        let digits = upper.strip_prefix(b"TYPE").ok_or(UnknownType)?;
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return Err(UnknownType);
        }
        let digits = str::from_utf8(digits).map_err(|_| UnknownType)?;
        digits.parse().map(Self).map_err(|_| UnknownType)
    }
}

impl FromStr for RrType {
    type Err = UnknownType;

    fn from_str(text: &str) -> Result<Self, UnknownType> {
        Self::from_bytes(text.as_bytes())
    }
}

impl fmt::Display for RrType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mnemonic() {
            Some(text) => f.pad(text),
            None => write!(f, "TYPE{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_reads_back() {
        for code in 0..=u16::MAX {
            let rtype = RrType(code);
            assert_eq!(rtype.to_string().parse(), Ok(rtype));
            assert_eq!(rtype.to_string().to_lowercase().parse(), Ok(rtype));
            assert_eq!(format!("TYPE{code}").parse(), Ok(rtype));
        }
        for bad in ["", "TYPE", "TYPE65536", "TYPE-1", "TYPE+1", "TYPE1x", "AA", "OPENPGPKEYOPENPGPKEY"] {
            assert_eq!(bad.parse::<RrType>(), Err(UnknownType), "{bad}");
        }
    }

    #[test]
    fn meta_types() {
        for meta in [RrType::OPT, RrType::ANY, RrType::AXFR, RrType::TSIG, RrType(0), RrType::NXNAME] {
            assert!(meta.is_meta(), "{meta}");
        }
        for data in [RrType::A, RrType::CAA, RrType::SPF, RrType(65534), RrType::DLV] {
            assert!(!data.is_meta(), "{data}");
        }
    }
}
