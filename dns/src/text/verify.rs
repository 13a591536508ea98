//! Whether data given in the generic form is what its type's layout says (RFC 3597 5).

use crate::name::wire_len;
use crate::rrtype::RrType;

use super::layout::{Field, layout};
use super::svcb;

/// Checks uncompressed wire data. Types without a layout may hold anything.
pub(super) fn verify(rtype: RrType, data: &[u8]) -> Result<(), &'static str> {
    let mut rest = data;
    for &kind in layout(rtype).unwrap_or_default() {
        rest = field(kind, rest)?;
    }
    if layout(rtype).is_some() && !rest.is_empty() {
        return Err("octets are left over");
    }
    Ok(())
}

/// Takes one field off the front.
fn field(kind: Field, data: &[u8]) -> Result<&[u8], &'static str> {
    match kind {
        Field::Name => name(data),
        Field::U8 | Field::Algorithm | Field::Scheme => skip(data, 1),
        Field::U16 | Field::CertType | Field::TypeCode => skip(data, 2),
        Field::U32 | Field::Span | Field::Time | Field::Ipv4 => skip(data, 4),
        Field::Ipv6 => skip(data, 16),
        Field::Groups => skip(data, 8),
        Field::Eui(octets) => skip(data, octets),
        Field::Text | Field::Salt => counted(data),
        Field::Hash | Field::Tag if data.first() == Some(&0) => Err("an empty field"),
        Field::Hash | Field::Tag => counted(data),
        Field::MaybeText if data.is_empty() => Ok(data),
        Field::MaybeText => counted(data),
        Field::Texts => all(data, counted),
        Field::Hex | Field::Base64 | Field::Nsap if data.is_empty() => Err(SHORT),
        Field::Hex | Field::Base64 | Field::Nsap | Field::MaybeBase64 | Field::Rest => Ok(&[]),
        Field::Types => types(data),
        Field::Location => match data {
            [0, ..] => skip(data, 16),
            _ => Err("the version is not 0"),
        },
        Field::Prefixes if data.is_empty() => Ok(data),
        Field::Prefixes => all(data, prefix),
        Field::Ipsec => {
            let kind = data.get(1).copied().ok_or(SHORT)?;
            gateway(kind, skip(data, 3)?).map(|_| &[][..])
        }
        Field::Relay => {
            let kind = data.get(1).copied().ok_or(SHORT)?;
            gateway(kind & 0x7f, skip(data, 2)?)
        }
        Field::Hip => {
            let (&[tag, _, high, low], rest) = data.split_first_chunk::<4>().ok_or(SHORT)?;
            let rest = skip(rest, usize::from(tag) + usize::from(u16::from_be_bytes([high, low])))?;
            if rest.is_empty() { Ok(rest) } else { all(rest, name) }
        }
        Field::Params => svcb::verify(data).map(|()| &[][..]),
    }
}

const SHORT: &str = "it is too short";

fn skip(data: &[u8], octets: usize) -> Result<&[u8], &'static str> {
    data.get(octets..).ok_or(SHORT)
}

fn name(data: &[u8]) -> Result<&[u8], &'static str> {
    let length = wire_len(data).map_err(|_| "a name in it is broken")?;
    skip(data, length)
}

fn counted(data: &[u8]) -> Result<&[u8], &'static str> {
    let (&length, rest) = data.split_first().ok_or(SHORT)?;
    skip(rest, usize::from(length))
}

/// One or more of the same to the end.
fn all(mut data: &[u8], one: impl Fn(&[u8]) -> Result<&[u8], &'static str>) -> Result<&[u8], &'static str> {
    loop {
        data = one(data)?;
        if data.is_empty() {
            return Ok(data);
        }
    }
}

/// RFC 4034 4.1.2: windows ascend, and none is empty or ends in zeros.
fn types(mut data: &[u8]) -> Result<&[u8], &'static str> {
    const WRONG: &str = "its type bit map is broken";
    let mut least = 0_u16;
    while let [window, length @ 1..=32, rest @ ..] = data {
        let bits = rest.get(..usize::from(*length)).ok_or(SHORT)?;
        if u16::from(*window) < least || bits.last() == Some(&0) {
            return Err(WRONG);
        }
        least = u16::from(*window) + 1;
        data = rest.get(bits.len()..).unwrap_or_default();
    }
    if data.is_empty() { Ok(data) } else { Err(WRONG) }
}

/// RFC 3123 4.
fn prefix(data: &[u8]) -> Result<&[u8], &'static str> {
    let (&[_, _, _, length], rest) = data.split_first_chunk::<4>().ok_or(SHORT)?;
    skip(rest, usize::from(length & 0x7f))
}

fn gateway(kind: u8, data: &[u8]) -> Result<&[u8], &'static str> {
    match kind {
        0 => Ok(data),
        1 => skip(data, 4),
        2 => skip(data, 16),
        3 => name(data),
        _ => Err("an unknown gateway type"),
    }
}
