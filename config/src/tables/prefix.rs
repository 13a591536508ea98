//! Addresses, prefixes and ranges as text -> ranges of numbers.

use std::net::{IpAddr, Ipv6Addr};

/// A range of addresses of one family, both ends inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Span {
    V4(u32, u32),
    V6(u128, u128),
}

impl Span {
    /// All addresses of a family (R10).
    pub(super) fn is_everything(self) -> bool {
        matches!(self, Self::V4(0, u32::MAX) | Self::V6(0, u128::MAX))
    }
}

/// A range, and whether host bits had to be cut off to get it (R4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parsed {
    pub(super) span: Span,
    pub(super) masked: bool,
}

/// What is wrong with a text, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) message: String,
    pub(super) help: String,
}

impl Fault {
    pub(super) fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: help.into() }
    }
}

const FORMS: &str = "write an address, a prefix like 192.0.2.0/24, or a range like 192.0.2.0-192.0.2.255";

/// An address, a prefix, or a range with a hyphen (R3, R5).
pub(super) fn parse(text: &str) -> Result<Parsed, Fault> {
    if let Some((addr, len)) = text.split_once('/') {
        return prefix(text, addr, len);
    }
    match text.split_once('-') {
        Some((first, last)) => range(address(first.trim())?, address(last.trim())?),
        None => address(text).and_then(|addr| range(addr, addr)),
    }
}

/// The range between two addresses.
pub(super) fn range(first: IpAddr, last: IpAddr) -> Result<Parsed, Fault> {
    let span = match (first, last) {
        (IpAddr::V4(a), IpAddr::V4(b)) => Span::V4(a.into(), b.into()),
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            let (a, b) = (u128::from(a), u128::from(b));
            if a <= MAPPED_LAST && b >= MAPPED_FIRST {
                return Err(half_mapped(&format!("{first}-{last}")));
            }
            Span::V6(a, b)
        }
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => {
            return Err(Fault::new(
                format!("the range {first}-{last} starts in one address family and ends in the other"),
                "give both ends in the same family",
            ));
        }
    };
    if first > last {
        return Err(Fault::new(
            format!("the range {first}-{last} ends before it starts"),
            "swap the two addresses",
        ));
    }
    Ok(Parsed { span, masked: false })
}

const MAPPED_FIRST: u128 = 0xffff_0000_0000;
const MAPPED_LAST: u128 = 0xffff_ffff_ffff;

fn half_mapped(text: &str) -> Fault {
    Fault::new(
        format!("{text} covers more than IPv4-mapped addresses"),
        "write the IPv4 prefix itself, or end the IPv6 range before ::ffff:0:0/96",
    )
}

/// An address; IPv4-mapped ones are the IPv4 addresses they are (R5).
pub(super) fn address(text: &str) -> Result<IpAddr, Fault> {
    let addr: IpAddr =
        text.parse().map_err(|_| Fault::new(format!("`{}` is not an address", clip(text)), FORMS))?;
    Ok(addr.to_canonical())
}

/// An address as a decimal number, as ip-location-db writes them; up to 32 bits it is IPv4.
pub(super) fn numeric(text: &str) -> Option<IpAddr> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u128 = text.parse().ok()?;
    match u32::try_from(number) {
        Ok(number) => Some(IpAddr::V4(number.into())),
        Err(_) => Some(IpAddr::V6(number.into()).to_canonical()),
    }
}

fn prefix(text: &str, addr: &str, len: &str) -> Result<Parsed, Fault> {
    let written: IpAddr =
        addr.parse().map_err(|_| Fault::new(format!("`{}` is not an address", clip(addr)), FORMS))?;
    let bits = if written.is_ipv4() { 32 } else { 128 };
    let digits = !len.is_empty() && len.len() <= 3 && len.bytes().all(|byte| byte.is_ascii_digit());
    let len = match len.parse::<u8>() {
        Ok(len) if digits && len <= bits => len,
        Ok(_) | Err(_) => {
            return Err(Fault::new(
                format!("`{}` is not a prefix length", clip(len)),
                format!("write a number from 0 to {bits} after the slash"),
            ));
        }
    };
    let (span, masked) = match written {
        IpAddr::V4(addr) => v4_block(addr.into(), len),
        IpAddr::V6(addr) => match addr.to_ipv4_mapped() {
            Some(addr) if len >= 96 => v4_block(addr.into(), len - 96),
            Some(_) => return Err(half_mapped(text)),
            None => v6_block(addr, len),
        },
    };
    Ok(Parsed { span, masked })
}

fn v4_block(addr: u32, len: u8) -> (Span, bool) {
    let host = u32::MAX.checked_shr(u32::from(len)).unwrap_or(0);
    (Span::V4(addr & !host, addr | host), addr & host != 0)
}

fn v6_block(addr: Ipv6Addr, len: u8) -> (Span, bool) {
    let addr = u128::from(addr);
    let host = u128::MAX.checked_shr(u32::from(len)).unwrap_or(0);
    (Span::V6(addr & !host, addr | host), addr & host != 0)
}

/// At most 60 characters of what somebody wrote, without control characters.
pub(super) fn clip(text: &str) -> String {
    let mut clipped: String = text.chars().take(60).flat_map(char::escape_debug).collect();
    if text.chars().nth(60).is_some() {
        clipped.push('…');
    }
    clipped
}
