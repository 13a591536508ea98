//! The keys and values of SVCB and HTTPS (RFC 9460 2.1, 2.2, 7; RFC 9461 5; RFC 9540 4).

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::record::Problem;

use super::encoding;
use super::field::{self, Fields, unescape};
use super::lex::{Quotes, Token};
use super::problem::{fail, shown};

const MANDATORY: u16 = 0;
const ALPN: u16 = 1;
const NO_DEFAULT_ALPN: u16 = 2;
const PORT: u16 = 3;
const IPV4HINT: u16 = 4;
const ECH: u16 = 5;
const IPV6HINT: u16 = 6;
const DOHPATH: u16 = 7;
const OHTTP: u16 = 8;

/// A key's name, number, and what its value must be.
const KEYS: &[(&str, u16, &str)] = &[
    ("mandatory", MANDATORY, "write other keys of this record, separated by commas"),
    ("alpn", ALPN, "write protocols of 1 to 255 octets, separated by commas"),
    ("no-default-alpn", NO_DEFAULT_ALPN, "the key takes no value"),
    ("port", PORT, "write a number up to 65535"),
    ("ipv4hint", IPV4HINT, "write IPv4 addresses, separated by commas"),
    ("ech", ECH, "write base64"),
    ("ipv6hint", IPV6HINT, "write IPv6 addresses, separated by commas"),
    ("dohpath", DOHPATH, "write a path with {?dns}"),
    ("ohttp", OHTTP, "the key takes no value"),
];

/// Reads all that is left as `key` or `key=value`, in any order.
pub(super) fn parse(fields: &mut Fields<'_, '_>, out: &mut Vec<u8>) -> Result<(), Problem> {
    let at = fields.at();
    let mut params: BTreeMap<u16, Vec<u8>> = BTreeMap::new();
    while !fields.is_empty() {
        let token = fields.next("a key")?;
        let (key, value) = param(token)?;
        if params.insert(key, value).is_some() {
            return Err(fail(token.at, format!("the key of {} stands twice", shown(token.text)))
                .help("keep one, with all its values"));
        }
    }
    let start = out.len();
    for (key, value) in params {
        let length = u16::try_from(value.len())
            .map_err(|_| fail(at, format!("the value of key {key} is {} octets long", value.len())))?;
        out.extend_from_slice(&key.to_be_bytes());
        out.extend_from_slice(&length.to_be_bytes());
        out.extend(value);
    }
    verify(out.get(start..).unwrap_or_default()).map_err(|wrong| fail(at, wrong))
}

/// Checks the keys in wire form: ascending, values well formed, what is mandatory present.
pub(super) fn verify(mut data: &[u8]) -> Result<(), &'static str> {
    const SHORT: &str = "the keys are cut short";
    let mut keys: Vec<u16> = Vec::new();
    let mut mandatory: &[u8] = &[];
    while !data.is_empty() {
        let (&[high, low, long, length], rest) = data.split_first_chunk::<4>().ok_or(SHORT)?;
        let key = u16::from_be_bytes([high, low]);
        let length = usize::from(u16::from_be_bytes([long, length]));
        let (value, rest) = rest.split_at_checked(length).ok_or(SHORT)?;
        if keys.last().is_some_and(|&last| last >= key) {
            return Err("the keys do not ascend");
        }
        if !well_formed(key, value) {
            return Err("the value of a key is malformed");
        }
        if key == MANDATORY {
            mandatory = value;
        }
        keys.push(key);
        data = rest;
    }
    let mut last = MANDATORY;
    for &pair in mandatory.as_chunks::<2>().0 {
        let key = u16::from_be_bytes(pair);
        if key <= last {
            return Err("\"mandatory\" names a key twice, or itself");
        }
        if keys.binary_search(&key).is_err() {
            return Err("\"mandatory\" names a key that the record does not have");
        }
        last = key;
    }
    if keys.binary_search(&NO_DEFAULT_ALPN).is_ok() && keys.binary_search(&ALPN).is_err() {
        return Err("\"no-default-alpn\" needs \"alpn\"");
    }
    Ok(())
}

fn well_formed(key: u16, value: &[u8]) -> bool {
    let filled = |unit: usize| !value.is_empty() && value.len().is_multiple_of(unit);
    match key {
        MANDATORY => filled(2),
        ALPN => {
            let mut rest = value;
            while let Some((&length @ 1.., tail)) = rest.split_first() {
                match tail.get(usize::from(length)..) {
                    Some(tail) => rest = tail,
                    None => return false,
                }
            }
            filled(1) && rest.is_empty()
        }
        NO_DEFAULT_ALPN | OHTTP => value.is_empty(),
        PORT => value.len() == 2,
        IPV4HINT => filled(4),
        IPV6HINT => filled(16),
        ECH | DOHPATH => filled(1),
        _ => true,
    }
}

fn param(token: &Token<'_>) -> Result<(u16, Vec<u8>), Problem> {
    if token.quotes == Quotes::Whole {
        return Err(fail(token.at, format!("{} is in quotes", shown(token.text)))
            .help("quotes go around the value only: key=\"value\""));
    }
    let mut parts = token.text.splitn(2, |&octet| octet == b'=');
    let name = parts.next().unwrap_or_default();
    let value = parts.next().map_or(Ok(Vec::new()), |value| plain(value, token))?;
    if let Some(number) = numbered(name) {
        // the generic form takes the octets as they are
        return Ok((number, value));
    }
    let Some(&(_, key, help)) = KEYS.iter().find(|(known, ..)| known.as_bytes().eq_ignore_ascii_case(name))
    else {
        return Err(fail(token.at, format!("unknown key {}", shown(name)))
            .help("write a registered key, or keyNNNNN with its number"));
    };
    let wire = to_wire(key, &value).filter(|wire| well_formed(key, wire));
    wire.map(|wire| (key, wire))
        .ok_or_else(|| fail(token.at, format!("bad value in {}", shown(token.text))).help(help))
}

/// The value as a character string, without its quotes and escapes.
fn plain(value: &[u8], token: &Token<'_>) -> Result<Vec<u8>, Problem> {
    let text = match value {
        [b'"', text @ .., b'"'] => text,
        text => text,
    };
    let mut escaped = false;
    for &octet in text {
        if octet == b'"' && !escaped {
            return Err(fail(token.at, format!("quotes inside the value of {}", shown(token.text)))
                .help("put them around all of the value: key=\"value\""));
        }
        escaped = octet == b'\\' && !escaped;
    }
    let mut out = Vec::with_capacity(text.len());
    unescape(text, token.at, &mut out)?;
    Ok(out)
}

/// `keyNNNNN`, without leading zeros (RFC 9460 2.1).
fn numbered(name: &[u8]) -> Option<u16> {
    let (word, digits) = name.split_at_checked(3)?;
    if !word.eq_ignore_ascii_case(b"key") || (digits.len() > 1 && digits.first() == Some(&b'0')) {
        return None;
    }
    field::number(digits).and_then(|number| number.try_into().ok())
}

fn to_wire(key: u16, value: &[u8]) -> Option<Vec<u8>> {
    match key {
        MANDATORY => {
            let mut keys = value.split(|&octet| octet == b',').map(by_name).collect::<Option<Vec<u16>>>()?;
            keys.sort_unstable();
            Some(keys.into_iter().flat_map(u16::to_be_bytes).collect())
        }
        ALPN => protocols(value),
        PORT => field::number(value)
            .and_then(|port| u16::try_from(port).ok())
            .map(|port| port.to_be_bytes().into()),
        IPV4HINT => addresses(value, |address: Ipv4Addr| address.octets()),
        IPV6HINT => addresses(value, |address: Ipv6Addr| address.octets()),
        ECH => encoding::base64(value),
        _ => Some(value.to_vec()),
    }
}

fn by_name(name: &[u8]) -> Option<u16> {
    let known = KEYS.iter().find(|(known, ..)| known.as_bytes().eq_ignore_ascii_case(name));
    known.map(|&(_, key, _)| key).or_else(|| numbered(name))
}

/// A comma-separated list in which `\,` and `\\` stand for the characters (RFC 9460 A.1).
fn protocols(value: &[u8]) -> Option<Vec<u8>> {
    let mut out = vec![0];
    let mut start = 0;
    let mut octets = value.iter().copied();
    while let Some(octet) = octets.next() {
        match octet {
            b',' => {
                start = out.len();
                out.push(0);
                continue;
            }
            b'\\' => out.push(octets.next()?),
            plain => out.push(plain),
        }
        let length = u8::try_from(out.len() - start - 1).ok()?;
        *out.get_mut(start)? = length;
    }
    Some(out)
}

fn addresses<A: std::str::FromStr, const N: usize>(
    value: &[u8],
    octets: impl Fn(A) -> [u8; N],
) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for part in str::from_utf8(value).ok()?.split(',') {
        out.extend_from_slice(&octets(part.parse().ok()?));
    }
    Some(out)
}
