//! The file of remembered choices: a head and records of 16 octets, little end first.
//!
//! ```text
//! "PORTCHO1" · unix seconds (8) · [ key (8) · fingerprint (4) · seconds left (4) ]*
//! ```

const MAGIC: &[u8; 8] = b"PORTCHO1";

/// Key, fingerprint of the candidate, seconds left.
type Choice = (u64, u32, u32);

pub(super) fn encode(unix_s: u64, choices: impl Iterator<Item = Choice>) -> Vec<u8> {
    let mut octets = MAGIC.to_vec();
    octets.extend(unix_s.to_le_bytes());
    for (key, fingerprint, left_s) in choices {
        octets.extend(key.to_le_bytes());
        octets.extend(fingerprint.to_le_bytes());
        octets.extend(left_s.to_le_bytes());
    }
    octets
}

/// When it was saved, and what; `None` where it is not of this form.
pub(super) fn decode(octets: &[u8]) -> Option<(u64, impl Iterator<Item = Choice>)> {
    let rest = octets.strip_prefix(MAGIC)?;
    let (unix_s, rest) = rest.split_first_chunk()?;
    let (records, []) = rest.as_chunks::<16>() else { return None };
    let choice = |record: &[u8; 16]| {
        let (key, rest) = record.split_first_chunk().unwrap_or((&[0; 8], &[]));
        let (fingerprint, left_s) = rest.split_first_chunk().unwrap_or((&[0; 4], &[]));
        let left_s = left_s.first_chunk().copied().unwrap_or_default();
        (u64::from_le_bytes(*key), u32::from_le_bytes(*fingerprint), u32::from_le_bytes(left_s))
    };
    Some((u64::from_le_bytes(*unix_s), records.iter().map(choice)))
}
