//! The hash of a lower-cased name, and lower-casing eight octets at a time.
//!
//! Queries never add names to a table, so the hash need not withstand chosen keys: a chain of probes is as long as the
//! operator's own names made it.

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
const MULTIPLIER: u64 = 0xd6e8_feb8_6659_fd93;

/// Lower-cases the ASCII letters among eight octets. Length octets of a name are at most 63 and stay.
#[inline]
pub(crate) const fn lower8(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let low7 = word & (0x7f * EACH);
    let above_z = low7 + (0x7f - b'Z' as u64) * EACH;
    let from_a = low7 + (0x80 - b'A' as u64) * EACH;
    let is_upper = !word & (0x80 * EACH) & (from_a ^ above_z);
    word | (is_upper >> 2)
}

#[inline]
const fn fold(a: u64, b: u64) -> u64 {
    let product = (a as u128) * (b as u128);
    (product as u64) ^ ((product >> 64) as u64)
}

/// Up to eight octets as a number.
#[inline]
fn word(octets: &[u8]) -> u64 {
    if let Some(eight) = octets.first_chunk::<8>() {
        return u64::from_le_bytes(*eight);
    }
    octets.iter().rev().fold(0, |word, octet| word << 8 | u64::from(*octet))
}

/// The hash of a name that is in lower case already.
#[inline]
pub(crate) fn of(lower: &[u8]) -> u64 {
    let mut hash = SEED ^ lower.len() as u64;
    for chunk in lower.chunks(8) {
        hash = fold(hash ^ word(chunk), MULTIPLIER);
    }
    hash
}

/// Copies a name of at most 255 octets in lower case, and hashes it on the way.
#[inline]
pub(crate) fn lower_and_hash(name: &[u8], lower: &mut [u8; 256]) -> u64 {
    let mut hash = SEED ^ name.len() as u64;
    for (from, to) in name.chunks(8).zip(lower.chunks_exact_mut(8)) {
        let word = lower8(word(from));
        // the octets past the name are zero, and nobody reads them
        to.copy_from_slice(&word.to_le_bytes());
        hash = fold(hash ^ word, MULTIPLIER);
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lowers_letters_only() {
        for octet in 0..=255_u8 {
            let all = u64::from_le_bytes([octet; 8]);
            assert_eq!(lower8(all), u64::from_le_bytes([octet.to_ascii_lowercase(); 8]), "{octet}");
        }
        let mixed = *b"aZ[@\x80\xdaAz";
        assert_eq!(
            lower8(u64::from_le_bytes(mixed)),
            u64::from_le_bytes(mixed.to_ascii_lowercase().try_into().unwrap())
        );
    }

    #[test]
    fn both_ways_agree() {
        let name = b"\x03WwW\x07EXAMPLE\x03com\x00";
        for length in 0..=name.len() {
            let mut lower = [0xff; 256];
            let hash = lower_and_hash(&name[..length], &mut lower);
            assert_eq!(lower[..length], name[..length].to_ascii_lowercase());
            assert_eq!(hash, of(&lower[..length]));
        }
        assert_ne!(of(b"\x01a\x00"), of(b"\x01b\x00"));
        assert_ne!(of(b"\x00"), of(b"\x00\x00"));
    }
}
