//! The words of a record to its data in wire form, by the type's layout.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::record::Problem;
use crate::rrtype::RrType;

use super::field::{self, Fields, unwanted};
use super::layout::{Field, layout};
use super::lex::{Quotes, Token};
use super::problem::{fail, shown};
use super::{encoding, loc, svcb, verify};

/// Appends the data of one record to `out`, which is empty.
pub(super) fn parse(rtype: RrType, fields: &mut Fields<'_, '_>, out: &mut Vec<u8>) -> Result<(), Problem> {
    let at = fields.at();
    if fields.peek().is_some_and(|token| token.text == b"\\#" && token.quotes == Quotes::None) {
        generic(rtype, fields, out)?;
    } else {
        let Some(layout) = layout(rtype) else {
            return Err(fail(at, format!("{rtype} has no text form of its own here"))
                .help("write the data as \"\\# LENGTH HEX\" (RFC 3597)"));
        };
        for &kind in layout {
            parse_field(kind, fields, out)?;
        }
    }
    fields.end()?;
    if out.len() > usize::from(u16::MAX) {
        return Err(fail(at, format!("the data is {} octets long; 65535 fit", out.len())));
    }
    Ok(())
}

/// `\# length hex`, for known types as well (RFC 3597 5, Z18).
fn generic(rtype: RrType, fields: &mut Fields<'_, '_>, out: &mut Vec<u8>) -> Result<(), Problem> {
    let marker = fields.word("\\#")?.at;
    let length = fields.number(u32::from(u16::MAX))?;
    let text = fields.joined("hexadecimal data")?;
    let data = encoding::hex(&text).ok_or_else(|| {
        fail(marker, format!("{} is not hexadecimal", shown(&text))).help("write two digits an octet")
    })?;
    if u32::try_from(data.len()) != Ok(length) {
        return Err(fail(marker, format!("the length is {length}, but {} octets follow", data.len()))
            .help("correct the length or the data"));
    }
    // else a broken name would come to light in an answer only
    verify::verify(rtype, &data).map_err(|wrong| fail(marker, format!("the data is no {rtype}: {wrong}")))?;
    out.extend_from_slice(&data);
    Ok(())
}

fn parse_field(kind: Field, fields: &mut Fields<'_, '_>, out: &mut Vec<u8>) -> Result<(), Problem> {
    match kind {
        Field::Name => out.extend_from_slice(fields.name("a name")?.as_wire()),
        Field::U8 => push_u8(out, fields.number(u32::from(u8::MAX))?),
        Field::U16 => push_u16(out, fields.number(u32::from(u16::MAX))?),
        Field::U32 => push_u32(out, fields.number(u32::MAX)?),
        Field::Span => push_u32(out, with_word(fields, "seconds (or 1h30m, 2d)", field::span)?),
        Field::Ipv4 => out.extend_from_slice(&ipv4(fields)?.octets()),
        Field::Ipv6 => out.extend_from_slice(&ipv6(fields)?.octets()),
        Field::Text => text(fields.next("a text")?, out)?,
        Field::MaybeText if fields.is_empty() => {}
        Field::MaybeText => text(fields.next("a text")?, out)?,
        Field::Algorithm => {
            let value = with_word(fields, "a DNSSEC algorithm", |text| by_name(text, ALGORITHMS, 255))?;
            push_u8(out, value);
        }
        Field::CertType => {
            let value = with_word(fields, "a certificate type", |text| by_name(text, CERT_TYPES, 65_535))?;
            push_u16(out, value);
        }
        Field::Scheme => push_u8(out, with_word(fields, "a scheme", |text| by_name(text, SCHEMES, 255))?),
        Field::TypeCode => {
            let rtype = with_word(fields, "a record type", |text| RrType::from_bytes(text).ok())?;
            out.extend_from_slice(&rtype.0.to_be_bytes());
        }
        Field::Time => push_u32(out, with_word(fields, "a time (YYYYMMDDHHmmSS)", encoding::time)?),
        Field::Salt => {
            let salt = with_word(fields, "a salt in hexadecimal, or \"-\"", |text| match text {
                b"-" => Some(Vec::new()),
                text => encoding::hex(text).filter(|salt| salt.len() <= 255),
            })?;
            push_counted(out, &salt);
        }
        Field::Hash => {
            let hash = with_word(fields, "a hash in base32hex", |text| {
                encoding::base32hex(text).filter(|hash| (1..=255).contains(&hash.len()))
            })?;
            push_counted(out, &hash);
        }
        Field::Tag => {
            let tag = with_word(fields, "a property tag of letters and digits (RFC 8659 4.1)", |text| {
                let fine = (1..=255).contains(&text.len()) && text.iter().all(u8::is_ascii_alphanumeric);
                fine.then(|| text.to_vec())
            })?;
            push_counted(out, &tag);
        }
        Field::Eui(octets) => {
            let wanted = "an EUI address like 00-00-5e-00-53-2a";
            out.extend(with_word(fields, wanted, |text| groups(text, b'-', octets, 2))?);
        }
        Field::Groups => {
            let wanted = "four groups of hexadecimal digits like 2001:db8:0:1";
            out.extend(with_word(fields, wanted, |text| groups(text, b':', 4, 4))?);
        }
        Field::Texts => loop {
            texts(fields.next("a text")?, out)?;
            if fields.is_empty() {
                break;
            }
        },
        Field::Hex => out.extend(rest(fields, "hexadecimal data", encoding::hex)?),
        Field::Base64 => out.extend(rest(fields, "base64 data", encoding::base64)?),
        Field::MaybeBase64 if fields.is_empty() => {}
        Field::MaybeBase64 => out.extend(rest(fields, "base64 data", encoding::base64)?),
        Field::Types => types(fields, out)?,
        Field::Rest => fields.next("a text")?.decode_into(out)?,
        Field::Nsap => {
            let address = with_word(fields, "an NSAP address like 0x47.0005.80", |text| {
                let digits = text.strip_prefix(b"0x").or_else(|| text.strip_prefix(b"0X"))?;
                let digits: Vec<u8> = digits.iter().copied().filter(|&octet| octet != b'.').collect();
                encoding::hex(&digits).filter(|address| !address.is_empty())
            })?;
            out.extend(address);
        }
        Field::Location => loc::parse(fields, out)?,
        Field::Prefixes => {
            while !fields.is_empty() {
                out.extend(with_word(fields, "an address prefix like !1:192.0.2.0/24", prefix)?);
            }
        }
        Field::Ipsec => ipsec(fields, out)?,
        Field::Relay => relay(fields, out)?,
        Field::Hip => hip(fields, out)?,
        Field::Params => svcb::parse(fields, out)?,
    }
    Ok(())
}

/// The next word, read by `read` or a problem that says what was wanted.
pub(super) fn with_word<T>(
    fields: &mut Fields<'_, '_>,
    wanted: &str,
    read: impl FnOnce(&[u8]) -> Option<T>,
) -> Result<T, Problem> {
    let token = fields.word(wanted)?;
    read(token.text).ok_or_else(|| unwanted(token, wanted))
}

/// All remaining words as one value of at least one octet.
fn rest(
    fields: &mut Fields<'_, '_>,
    wanted: &str,
    read: impl FnOnce(&[u8]) -> Option<Vec<u8>>,
) -> Result<Vec<u8>, Problem> {
    let first = fields.peek().map_or(fields.at(), |token| token.at);
    let text = fields.joined(wanted)?;
    if text.is_empty() {
        return Err(fail(first, format!("the data ends where {wanted} is wanted")));
    }
    let wrong = || fail(first, format!("{} is not {wanted}", shown(&text))).help("check for lost characters");
    read(&text).ok_or_else(wrong)
}

fn ipv4(fields: &mut Fields<'_, '_>) -> Result<Ipv4Addr, Problem> {
    let token = fields.word("an IPv4 address")?;
    let help = "write four numbers up to 255, without leading zeros; IPv6 addresses go into AAAA";
    parsed(token.text, 15).ok_or_else(|| unwanted(token, "an IPv4 address").help(help))
}

fn ipv6(fields: &mut Fields<'_, '_>) -> Result<Ipv6Addr, Problem> {
    let token = fields.word("an IPv6 address")?;
    let help = "write up to eight groups of up to four hexadecimal digits; IPv4 addresses go into A";
    parsed(token.text, 45).ok_or_else(|| unwanted(token, "an IPv6 address").help(help))
}

/// A value the standard library parses, from text of bounded length (Z13).
fn parsed<T: std::str::FromStr>(text: &[u8], longest: usize) -> Option<T> {
    if text.len() > longest {
        return None;
    }
    str::from_utf8(text).ok()?.parse().ok()
}

/// One character string, at most 255 octets.
fn text(token: &Token<'_>, out: &mut Vec<u8>) -> Result<(), Problem> {
    let start = out.len();
    out.push(0);
    token.decode_into(out)?;
    let length = out.len() - start - 1;
    let Ok(length) = u8::try_from(length) else {
        return Err(fail(token.at, format!("the text is {length} octets long; 255 fit")).help("shorten it"));
    };
    if let Some(at) = out.get_mut(start) {
        *at = length;
    }
    Ok(())
}

/// One character string, split where it is longer than 255 octets.
fn texts(token: &Token<'_>, out: &mut Vec<u8>) -> Result<(), Problem> {
    if token.text.len() <= 255 {
        return text(token, out);
    }
    for chunk in token.decoded()?.chunks(255) {
        push_counted(out, chunk);
    }
    Ok(())
}

/// The type bit map of NSEC, NSEC3 and CSYNC (RFC 4034 4.1.2).
fn types(fields: &mut Fields<'_, '_>, out: &mut Vec<u8>) -> Result<(), Problem> {
    let mut types = Vec::new();
    while !fields.is_empty() {
        types.push(with_word(fields, "a record type", |text| RrType::from_bytes(text).ok())?);
    }
    types.sort_unstable();
    for window in types.chunk_by(|a, b| a.0 >> 8 == b.0 >> 8) {
        let mut bits = [0_u8; 32];
        let mut used = 0;
        for rtype in window {
            let [_, low] = rtype.0.to_be_bytes();
            let octet = usize::from(low >> 3);
            if let Some(bits) = bits.get_mut(octet) {
                *bits |= 0x80 >> (low & 7);
            }
            used = octet + 1;
        }
        out.push(window.first().map_or(0, |rtype| rtype.0.to_be_bytes()[0]));
        push_counted(out, bits.get(..used).unwrap_or_default());
    }
    Ok(())
}

/// `count` groups of exactly two, or up to four, hexadecimal digits.
fn groups(text: &[u8], separator: u8, count: usize, digits: usize) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(count * digits / 2);
    let mut found = 0;
    for group in text.split(|&octet| octet == separator) {
        found += 1;
        if found > count || group.is_empty() || group.len() > digits || (digits == 2 && group.len() != 2) {
            return None;
        }
        let mut padded = vec![b'0'; digits - group.len()];
        padded.extend_from_slice(group);
        out.extend(encoding::hex(&padded)?);
    }
    (found == count).then_some(out)
}

/// `[!]family:address/length` (RFC 3123 5).
fn prefix(text: &[u8]) -> Option<Vec<u8>> {
    let (negated, text) = match text.strip_prefix(b"!") {
        Some(text) => (0x80, text),
        None => (0, text),
    };
    let text = str::from_utf8(text).ok()?;
    let (family, text) = text.split_once(':')?;
    let (address, length) = text.split_once('/')?;
    let length = field::number(length.as_bytes())?;
    let (family, address) = match family {
        "1" if length <= 32 => (1_u8, parsed::<Ipv4Addr>(address.as_bytes(), 15)?.octets().to_vec()),
        "2" if length <= 128 => (2, parsed::<Ipv6Addr>(address.as_bytes(), 45)?.octets().to_vec()),
        _ => return None,
    };
    let used = address.iter().rposition(|&octet| octet != 0).map_or(0, |last| last + 1);
    let part = address.get(..used)?;
    let mut out = vec![0, family, u8::try_from(length).ok()?, negated | u8::try_from(used).ok()?];
    out.extend_from_slice(part);
    Some(out)
}

/// RFC 4025 3.1.
fn ipsec(fields: &mut Fields<'_, '_>, out: &mut Vec<u8>) -> Result<(), Problem> {
    push_u8(out, fields.number(255)?);
    let kind = fields.number(3)?;
    push_u8(out, kind);
    let algorithm = fields.number(255)?;
    push_u8(out, algorithm);
    gateway(kind, fields, out)?;
    if algorithm == 0 && fields.is_empty() {
        return Ok(());
    }
    parse_field(Field::Base64, fields, out)
}

/// RFC 8777 4.3.
fn relay(fields: &mut Fields<'_, '_>, out: &mut Vec<u8>) -> Result<(), Problem> {
    push_u8(out, fields.number(255)?);
    let discovery = fields.number(1)?;
    let kind = fields.number(3)?;
    push_u8(out, discovery << 7 | kind);
    gateway(kind, fields, out)
}

/// What gateways and relays are, by their type: nothing, an address, a name.
fn gateway(kind: u32, fields: &mut Fields<'_, '_>, out: &mut Vec<u8>) -> Result<(), Problem> {
    match kind {
        0 => with_word(fields, "\".\", as the type says there is none", |text| (text == b".").then_some(())),
        1 => parse_field(Field::Ipv4, fields, out),
        2 => parse_field(Field::Ipv6, fields, out),
        _ => parse_field(Field::Name, fields, out),
    }
}

/// RFC 8005 6.
fn hip(fields: &mut Fields<'_, '_>, out: &mut Vec<u8>) -> Result<(), Problem> {
    let algorithm = fields.number(255)?;
    let tag = with_word(fields, "a host identity tag in hexadecimal", |text| {
        encoding::hex(text).filter(|tag| (1..=255).contains(&tag.len()))
    })?;
    let key = with_word(fields, "a key in base64", |text| {
        encoding::base64(text).filter(|key| (1..=usize::from(u16::MAX)).contains(&key.len()))
    })?;
    out.push(u8::try_from(tag.len()).unwrap_or(u8::MAX));
    push_u8(out, algorithm);
    out.extend_from_slice(&u16::try_from(key.len()).unwrap_or(u16::MAX).to_be_bytes());
    out.extend(tag);
    out.extend(key);
    while !fields.is_empty() {
        parse_field(Field::Name, fields, out)?;
    }
    Ok(())
}

/// A number, or one of the mnemonics in any case.
fn by_name(text: &[u8], names: &[(&str, u32)], largest: u32) -> Option<u32> {
    if let Some(value) = field::number(text) {
        return (value <= largest).then_some(value);
    }
    names.iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(text)).map(|&(_, value)| value)
}

/// IANA "DNS Security Algorithm Numbers".
const ALGORITHMS: &[(&str, u32)] = &[
    ("RSAMD5", 1),
    ("DH", 2),
    ("DSA", 3),
    ("RSASHA1", 5),
    ("DSA-NSEC3-SHA1", 6),
    ("RSASHA1-NSEC3-SHA1", 7),
    ("RSASHA256", 8),
    ("RSASHA512", 10),
    ("ECC-GOST", 12),
    ("ECDSAP256SHA256", 13),
    ("ECDSAP384SHA384", 14),
    ("ED25519", 15),
    ("ED448", 16),
    ("INDIRECT", 252),
    ("PRIVATEDNS", 253),
    ("PRIVATEOID", 254),
];

/// RFC 4398 2.1.
const CERT_TYPES: &[(&str, u32)] = &[
    ("PKIX", 1),
    ("SPKI", 2),
    ("PGP", 3),
    ("IPKIX", 4),
    ("ISPKI", 5),
    ("IPGP", 6),
    ("ACPKIX", 7),
    ("IACPKIX", 8),
    ("URI", 253),
    ("OID", 254),
];

/// RFC 9859 2.
const SCHEMES: &[(&str, u32)] = &[("NOTIFY", 1)];

fn push_counted(out: &mut Vec<u8>, octets: &[u8]) {
    debug_assert!(octets.len() <= 255);
    out.push(u8::try_from(octets.len()).unwrap_or(u8::MAX));
    out.extend_from_slice(octets);
}

// the values were read with the field's largest
fn push_u8(out: &mut Vec<u8>, value: u32) {
    out.push(u8::try_from(value).unwrap_or(u8::MAX));
}

fn push_u16(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&u16::try_from(value).unwrap_or(u16::MAX).to_be_bytes());
}

fn push_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_be_bytes());
}
