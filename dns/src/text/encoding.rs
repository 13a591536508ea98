//! Hexadecimal, base64, base32hex (RFC 4648) and DNSSEC times.

/// Hexadecimal digits in pairs.
pub(super) fn hex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |octet: u8| char::from(octet).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = text.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect()
}

/// Base64 with its padding (RFC 4648 4).
pub(super) fn base64(text: &[u8]) -> Option<Vec<u8>> {
    let value = |octet: u8| match octet {
        b'A'..=b'Z' => Some(octet - b'A'),
        b'a'..=b'z' => Some(octet - b'a' + 26),
        b'0'..=b'9' => Some(octet - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let padding = text.iter().rev().take(2).take_while(|&&octet| octet == b'=').count();
    bits(text.get(..text.len() - padding)?, 6, value)
}

/// Base32 with the extended hex alphabet, without padding (RFC 5155 3.3).
pub(super) fn base32hex(text: &[u8]) -> Option<Vec<u8>> {
    let value = |octet: u8| match octet {
        b'0'..=b'9' => Some(octet - b'0'),
        b'A'..=b'V' => Some(octet - b'A' + 10),
        b'a'..=b'v' => Some(octet - b'a' + 10),
        _ => None,
    };
    bits(text, 5, value)
}

/// Packs digits of `width` bits into octets; what is left over must be less than a digit, and zero.
fn bits(text: &[u8], width: u32, value: impl Fn(u8) -> Option<u8>) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let (mut held, mut count) = (0_u32, 0);
    for &octet in text {
        held = held << width | u32::from(value(octet)?);
        count += width;
        if count >= 8 {
            count -= 8;
            out.push(u8::try_from(held >> count).ok()?);
            held &= (1 << count) - 1;
        }
    }
    (count < width && held == 0).then_some(out)
}

/// A DNSSEC time: `YYYYMMDDHHmmSS` in UTC, or seconds since 1970, in serial arithmetic (RFC 4034 3.2).
pub(super) fn time(text: &[u8]) -> Option<u32> {
    if text.len() != 14 {
        return super::field::number(text);
    }
    let part = |from: usize, to: usize| super::field::number(text.get(from..to)?).map(i64::from);
    let (year, month, day) = (part(0, 4)?, part(4, 6)?, part(6, 8)?);
    let (hour, minute, second) = (part(8, 10)?, part(10, 12)?, part(12, 14)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_in_month = match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        1..=12 => 31,
        _ => return None,
    };
    if year < 1970 || !(1..=days_in_month).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // days since 1970 by counting years from March, so that the leap day ends one
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 719_469;
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
    // the serial space wraps in 2106
    u32::try_from(seconds & i64::from(u32::MAX)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let cases: &[(&str, Option<u32>)] = &[
            ("19700101000000", Some(0)),
            ("20000229235959", Some(951_868_799)),
            ("20000301000000", Some(951_868_800)),
            ("20380119031408", Some(1 << 31)),
            ("21060207062816", Some(0)),
            ("1700000000", Some(1_700_000_000)),
            ("20230229000000", None),
            ("20231301000000", None),
            ("20230101240000", None),
            ("19691231235959", None),
            ("4294967296", None),
        ];
        for (text, want) in cases {
            assert_eq!(time(text.as_bytes()), *want, "{text}");
        }
    }

    #[test]
    fn packed_digits() {
        // RFC 4648 10
        let cases = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (plain, coded) in cases {
            assert_eq!(base64(coded.as_bytes()).as_deref(), Some(plain.as_bytes()));
        }
        for bad in ["Zg", "Zg=", "Zh==", "Z===", "=Zg=", "Zm9v!m9v", "===="] {
            assert_eq!(base64(bad.as_bytes()), None, "{bad}");
        }
        let cases = [("f", "CO"), ("fo", "cpng"), ("foob", "CPNMUOG"), ("foobar", "CPNMUOJ1E8")];
        for (plain, coded) in cases {
            assert_eq!(base32hex(coded.as_bytes()).as_deref(), Some(plain.as_bytes()));
        }
        for bad in ["C", "CP=", "CPN", "CW"] {
            assert_eq!(base32hex(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(hex(b"00fFa5"), Some(vec![0, 255, 0xa5]));
        assert_eq!((hex(b"0"), hex(b"0g")), (None, None));
    }
}
