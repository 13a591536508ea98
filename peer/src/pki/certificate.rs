//! What trust needs of a certificate: its public key and its validity, read from the DER.
//!
//! rustls checks the signatures; it shows neither dates nor, before a handshake is done, the key. A certificate is a
//! short nest of tagged values, so the four that are needed are walked to here; nothing else is looked at.

use super::pin::Pin;
use std::fmt;

/// From when till when a certificate may be used, in seconds since 1970, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first second.
    pub not_before_s: i64,
    /// The last second.
    pub not_after_s: i64,
}

impl Validity {
    /// Seconds until it ends; 0 when it is over.
    #[must_use]
    pub fn left_s(&self, now_s: i64) -> i64 {
        self.not_after_s.saturating_sub(now_s).max(0)
    }
}

/// What is taken from a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The pin of its public key.
    pub pin: Pin,
    /// When it may be used.
    pub validity: Validity,
}

/// The bytes are no X.509 certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an X.509 certificate: {0}")]
pub struct Malformed(&'static str);

impl Facts {
    /// Reads a certificate in DER (RFC 5280 4.1).
    pub fn of(certificate: &[u8]) -> Result<Self, Malformed> {
        let mut outer = Der(certificate);
        let mut certificate = Der(outer.take(SEQUENCE, "certificate")?.inside);
        let mut signed = Der(certificate.take(SEQUENCE, "signed part")?.inside);
        signed.skip_if(VERSION);
        signed.take(INTEGER, "serial number")?;
        signed.take(SEQUENCE, "signature algorithm")?;
        signed.take(SEQUENCE, "issuer")?;
        let mut validity = Der(signed.take(SEQUENCE, "validity")?.inside);
        signed.take(SEQUENCE, "subject")?;
        let key = signed.take(SEQUENCE, "public key")?;
        Ok(Self {
            pin: Pin::of_public_key(key.whole),
            validity: Validity { not_before_s: validity.time()?, not_after_s: validity.time()? },
        })
    }
}

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// What is left to read of a constructed value.
struct Der<'a>(&'a [u8]);

/// One value with its tag.
struct Value<'a> {
    tag: u8,
    /// Tag, length and content.
    whole: &'a [u8],
    /// The content.
    inside: &'a [u8],
}

impl<'a> Der<'a> {
    fn next(&mut self) -> Option<Value<'a>> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // lengths of up to three bytes; a certificate of 16 MB is none
            0x81..=0x83 => {
                let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                (length.iter().fold(0, |sum, &byte| sum << 8 | usize::from(byte)), rest)
            }
            _ => return None,
        };
        let (inside, after) = rest.split_at_checked(length)?;
        let (whole, _) = self.0.split_at_checked(self.0.len() - after.len())?;
        self.0 = after;
        Some(Value { tag, whole, inside })
    }

    fn take(&mut self, tag: u8, what: &'static str) -> Result<Value<'a>, Malformed> {
        self.next().filter(|value| value.tag == tag).ok_or(Malformed(what))
    }

    fn skip_if(&mut self, tag: u8) {
        if self.0.first() == Some(&tag) {
            let _ = self.next();
        }
    }

    fn time(&mut self) -> Result<i64, Malformed> {
        const WHAT: Malformed = Malformed("validity");
        let Value { tag, inside, .. } = self.next().ok_or(WHAT)?;
        let digits = inside.strip_suffix(b"Z").ok_or(WHAT)?;
        let number = |from: usize, to: usize| {
            digits
                .get(from..to)?
                .iter()
                .try_fold(0_i64, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))
        };
        let (year, rest) = match (tag, digits.len()) {
            // RFC 5280 4.1.2.5.1: two digits mean 1950 to 2049
            (UTC_TIME, 12) => (number(0, 2).map(|year| if year < 50 { 2000 + year } else { 1900 + year }), 2),
            (GENERALIZED_TIME, 14) => (number(0, 4), 4),
            _ => return Err(WHAT),
        };
        let at = |pair: usize| number(rest + 2 * pair, rest + 2 * pair + 2);
        let read = || Some((year?, at(0)?, at(1)?, at(2)?, at(3)?, at(4)?));
        let (year, month, day, hour, minute, second) = read().ok_or(WHAT)?;
        if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
            return Err(WHAT);
        }
        Ok(days_since_1970(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second)
    }
}

/// Days of the Gregorian calendar; years are counted from March, so that the leap day is the last one.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    year * 365 + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (month * 306 + 5) / 10
        + day
        - 1
        - 719_468
}

/// A time in seconds since 1970, written as date and time of day in UTC.
#[derive(Clone, Copy, Debug)]
pub struct Date(pub i64);

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, second) = (self.0.div_euclid(86_400) + 719_468, self.0.rem_euclid(86_400));
        let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let year = year + era * 400 + i64::from(month >= 10);
        let month = if month < 10 { month + 3 } else { month - 9 };
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn certificate(from: (i32, u8, u8), to: (i32, u8, u8)) -> (Vec<u8>, Vec<u8>) {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["bj1".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(from.0, from.1, from.2);
        params.not_after = rcgen::date_time_ymd(to.0, to.1, to.2);
        use rcgen::PublicKeyData;
        (params.self_signed(&key).unwrap().der().to_vec(), key.subject_public_key_info())
    }

    #[test]
    fn key_and_validity_are_found() {
        // 2049 is the last year of UTCTime, 2050 the first of GeneralizedTime
        for (from, to, not_before_s, not_after_s) in [
            ((1975, 1, 1), (2049, 12, 31), 157_766_400, 2_524_521_600),
            ((2024, 2, 29), (2050, 1, 1), 1_709_164_800, 2_524_608_000),
            ((2000, 3, 1), (4096, 1, 1), 951_868_800, 67_090_118_400),
        ] {
            let (der, key) = certificate(from, to);
            let facts = Facts::of(&der).unwrap();
            assert_eq!(facts.pin, Pin::of_public_key(&key));
            assert_eq!(facts.validity, Validity { not_before_s, not_after_s });
        }
    }

    #[test]
    fn dates_read_as_they_are_written() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
        ] {
            assert_eq!(Date(seconds).to_string(), text);
        }
    }

    #[test]
    fn no_prefix_and_no_flipped_byte_upsets_it() {
        let (der, _) = certificate((2024, 1, 1), (2050, 1, 1));
        let good = Facts::of(&der).unwrap();
        for length in 0..der.len() {
            assert!(Facts::of(&der[..length]).is_err(), "cut at {length}");
        }
        for at in 0..der.len() {
            for bit in 0..8 {
                let mut changed = der.clone();
                changed[at] ^= 1 << bit;
                let _ = Facts::of(&changed);
            }
        }
        assert_eq!(Facts::of(&der), Ok(good));
    }

    proptest! {
        #[test]
        fn calendar_there_and_back(days in -200_000_i64..1_000_000, second in 0_i64..86_400) {
            let text = Date(days * 86_400 + second).to_string();
            let part = |from: usize, to: usize| text[from..to].parse::<i64>().unwrap();
            prop_assert_eq!(days_since_1970(part(0, 4), part(5, 7), part(8, 10)), days);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Facts::of(&bytes);
        }
    }
}
