//! LOC: degrees, minutes, seconds, metres (RFC 1876 3).

use crate::record::Problem;

use super::field::{Fields, number, unwanted};
use super::rdata::with_word;

/// `d1 [m1 [s1]] N|S d2 [m2 [s2]] E|W altitude[m] [size[m] [horizontal[m] [vertical[m]]]]`
pub(super) fn parse(fields: &mut Fields<'_, '_>, out: &mut Vec<u8>) -> Result<(), Problem> {
    let latitude = angle(fields, 90, b'N', b'S')?;
    let longitude = angle(fields, 180, b'E', b'W')?;
    let altitude = with_word(fields, "an altitude from -100000.00m to 42849672.95m", altitude)?;
    let mut precisions = [0x12, 0x16, 0x13]; // 1 m, 10000 m, 10 m (RFC 1876 3)
    for precision in &mut precisions {
        if fields.is_empty() {
            break;
        }
        *precision = with_word(fields, "a size up to 90000000.00m", size)?;
    }
    out.push(0);
    out.extend_from_slice(&precisions);
    for value in [latitude, longitude, altitude] {
        out.extend_from_slice(&value.to_be_bytes());
    }
    Ok(())
}

/// Thousandths of a second of arc; the equator and the prime meridian are at 2^31.
fn angle(fields: &mut Fields<'_, '_>, most: u32, plus: u8, minus: u8) -> Result<u32, Problem> {
    const MIDDLE: u32 = 1 << 31;
    let wanted = format!("an angle up to {most}, like 52 14 5.000 {}", char::from(plus));
    let mut total = 0;
    // degrees, minutes and seconds, in that order, then the direction
    let parts = [(most, 3_600_000, 0), (59, 60_000, 0), (59_999, 1, 3)];
    for index in 0..=parts.len() {
        let token = fields.word(&wanted)?;
        let direction = match token.text {
            [letter] if index > 0 => Some(letter.to_ascii_uppercase()),
            _ => None,
        };
        if direction == Some(plus) {
            return Ok(MIDDLE + total);
        }
        if direction == Some(minus) {
            return Ok(MIDDLE - total);
        }
        let part = parts.get(index).and_then(|&(largest, unit, decimals)| {
            let value = u32::try_from(fixed(token.text, decimals)?).ok();
            value.filter(|&value| value <= largest).map(|value| value * unit)
        });
        total += part.ok_or_else(|| unwanted(token, &wanted))?;
        if total > most * 3_600_000 {
            return Err(unwanted(token, &wanted));
        }
    }
    Err(unwanted(fields.word(&wanted)?, &wanted))
}

/// Centimetres above 100 km below the reference spheroid.
fn altitude(text: &[u8]) -> Option<u32> {
    const BASE: u32 = 10_000_000;
    match text.strip_prefix(b"-") {
        Some(depth) => BASE.checked_sub(metres(depth)?),
        None => BASE.checked_add(metres(text)?),
    }
}

/// A decimal digit and a power of ten, in centimetres; up to 90000 km.
fn size(text: &[u8]) -> Option<u8> {
    let mut mantissa =
        fixed(text.strip_suffix(b"m").unwrap_or(text), 2).filter(|&size| size <= 9_000_000_000)?;
    let mut exponent = 0_u8;
    while mantissa > 9 {
        mantissa /= 10;
        exponent += 1;
    }
    Some(u8::try_from(mantissa).ok()? << 4 | exponent)
}

/// Metres with up to two decimals and an optional `m`, in centimetres.
fn metres(text: &[u8]) -> Option<u32> {
    u32::try_from(fixed(text.strip_suffix(b"m").unwrap_or(text), 2)?).ok()
}

/// A decimal number with up to `decimals` digits behind the point, times ten to the power of `decimals`.
fn fixed(text: &[u8], decimals: usize) -> Option<u64> {
    let mut parts = text.splitn(2, |&octet| octet == b'.');
    let whole = u64::from(number(parts.next()?)?);
    let scale = |digits: usize| Some(10_u64.pow(u32::try_from(digits).ok()?));
    let fraction = match parts.next() {
        // "1." is what BIND and Knot take as well
        None | Some([]) => 0,
        Some(digits) if digits.len() > decimals => return None,
        Some(digits) => u64::from(number(digits)?) * scale(decimals - digits.len())?,
    };
    // below 2^32 * 10^3
    Some(whole * scale(decimals)? + fraction)
}
