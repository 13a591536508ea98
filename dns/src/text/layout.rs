//! What the data of each type is made of. The text reader and the wire check both walk these.

use crate::rrtype::RrType;

/// One field of a record's data. The last ones take all that is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    /// A domain name.
    Name,
    U8,
    U16,
    U32,
    /// 32-bit seconds, units allowed.
    Span,
    Ipv4,
    Ipv6,
    /// A character string with its length octet.
    Text,
    /// The same, or nothing.
    MaybeText,
    /// A DNSSEC algorithm by number or mnemonic.
    Algorithm,
    /// A certificate type by number or mnemonic.
    CertType,
    /// A record type by mnemonic, in 16 bits.
    TypeCode,
    /// `YYYYMMDDHHmmSS`.
    Time,
    /// Hexadecimal salt with its length octet, `-` for none.
    Salt,
    /// A base32hex hash with its length octet.
    Hash,
    /// A CAA tag: letters and digits with a length octet.
    Tag,
    /// 48 or 64 bits as octets with dashes.
    Eui(usize),
    /// 64 bits as four groups of hexadecimal digits.
    Groups,
    /// DSYNC's scheme, by number or mnemonic.
    Scheme,

    /// One or more character strings; long ones are split.
    Texts,
    /// Octets as hexadecimal, at least one.
    Hex,
    /// Octets as base64, at least one.
    Base64,
    /// The same, or nothing.
    MaybeBase64,
    /// A bit map of types, perhaps empty.
    Types,
    /// Text without a length octet.
    Rest,
    /// `0x` and hexadecimal digits with dots.
    Nsap,
    /// LOC's position.
    Location,
    /// APL's prefixes.
    Prefixes,
    /// IPSECKEY: precedence, gateway type, algorithm, gateway, key.
    Ipsec,
    /// AMTRELAY: precedence, discovery bit, relay type, relay.
    Relay,
    /// HIP: algorithm, tag, key, servers.
    Hip,
    /// SVCB's keys and values.
    Params,
}

/// The fields of a type's data; `None` for a type that has only the generic form (RFC 3597 5).
pub(super) fn layout(rtype: RrType) -> Option<&'static [Field]> {
    use Field::{
        Algorithm, Base64, CertType, Eui, Groups, Hash, Hex, Hip, Ipsec, Ipv4, Ipv6, Location, MaybeBase64,
        MaybeText, Name, Nsap, Params, Prefixes, Relay, Rest, Salt, Scheme, Span, Tag, Text, Texts, Time,
        TypeCode, Types, U8, U16, U32,
    };
    Some(match rtype {
        RrType::A => &[Ipv4],
        RrType::AAAA => &[Ipv6],
        RrType::NS
        | RrType::MD
        | RrType::MF
        | RrType::CNAME
        | RrType::MB
        | RrType::MG
        | RrType::MR
        | RrType::PTR
        | RrType::NSAP_PTR
        | RrType::DNAME => &[Name],
        RrType::SOA => &[Name, Name, U32, Span, Span, Span, Span],
        RrType::HINFO => &[Text, Text],
        RrType::MINFO | RrType::RP | RrType::TALINK => &[Name, Name],
        RrType::MX | RrType::AFSDB | RrType::RT | RrType::KX | RrType::LP => &[U16, Name],
        RrType::TXT
        | RrType::SPF
        | RrType::AVC
        | RrType::NINFO
        | RrType::RESINFO
        | RrType::WALLET
        | RrType::CLA => &[Texts],
        RrType::X25 => &[Text],
        RrType::ISDN => &[Text, MaybeText],
        RrType::NSAP => &[Nsap],
        RrType::SIG | RrType::RRSIG => &[TypeCode, Algorithm, U8, Span, Time, Time, U16, Name, Base64],
        // a KEY may say that there is no key (RFC 2535 3.1.2)
        RrType::KEY => &[U16, U8, Algorithm, MaybeBase64],
        RrType::DNSKEY | RrType::CDNSKEY | RrType::RKEY => &[U16, U8, Algorithm, Base64],
        RrType::PX => &[U16, Name, Name],
        RrType::GPOS => &[Text, Text, Text],
        RrType::LOC => &[Location],
        RrType::EID | RrType::NIMLOC => &[Hex],
        RrType::SRV => &[U16, U16, U16, Name],
        RrType::NAPTR => &[U16, U16, Text, Text, Text, Name],
        RrType::CERT => &[CertType, U16, Algorithm, Base64],
        RrType::APL => &[Prefixes],
        RrType::DS | RrType::CDS | RrType::DLV | RrType::TA => &[U16, Algorithm, U8, Hex],
        RrType::SSHFP => &[U8, U8, Hex],
        RrType::IPSECKEY => &[Ipsec],
        RrType::NSEC => &[Name, Types],
        RrType::DHCID | RrType::OPENPGPKEY | RrType::HHIT | RrType::BRID => &[Base64],
        RrType::NSEC3 => &[U8, U8, U16, Salt, Hash, Types],
        RrType::NSEC3PARAM => &[U8, U8, U16, Salt],
        RrType::TLSA | RrType::SMIMEA => &[U8, U8, U8, Hex],
        RrType::HIP => &[Hip],
        RrType::CSYNC => &[U32, U16, Types],
        RrType::ZONEMD => &[U32, U8, U8, Hex],
        RrType::SVCB | RrType::HTTPS => &[U16, Name, Params],
        RrType::DSYNC => &[TypeCode, Scheme, U16, Name],
        RrType::NID | RrType::L64 => &[U16, Groups],
        RrType::L32 => &[U16, Ipv4],
        RrType::EUI48 => &[Eui(6)],
        RrType::EUI64 => &[Eui(8)],
        RrType::URI => &[U16, U16, Rest],
        RrType::CAA => &[U8, Tag, Rest],
        RrType::AMTRELAY => &[Relay],
        _ => return None,
    })
}
