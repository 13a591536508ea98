//! Keyed hashes and the scores of weighted rendezvous. Integer arithmetic only, so that every peer and every
//! machine gets the same answer.

/// Mixes two words into one (the finaliser of MurmurHash3 over their folded product).
#[inline]
#[must_use]
pub fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ 0x9e37_79b9_7f4a_7c15) * u128::from(b ^ 0xc2b2_ae3d_27d4_eb4f);
    let mut x = product as u64 ^ (product >> 64) as u64 ^ a.rotate_left(32) ^ b;
    x ^= x >> 33;
    x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^= x >> 33;
    x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ x >> 33
}

/// Hash of a 128-bit key.
#[inline]
#[must_use]
pub fn key(seed: u64, value: u128) -> u64 {
    mix(mix(seed, value as u64), (value >> 64) as u64)
}

/// Hash of bytes (FNV-1a, then mixed): names and payloads, not for hostile input.
#[must_use]
pub fn bytes(seed: u64, bytes: &[u8]) -> u64 {
    let fnv = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    mix(seed, fnv)
}

/// log2 of the mantissas 1 + i/256, in 1/2^32.
const LOG2: [u32; 257] = log2_table();

const fn log2_table() -> [u32; 257] {
    let mut table = [0_u32; 257];
    let mut i = 0;
    while i < 257 {
        // square the mantissa 32 times; each time it reaches 2, that bit of the logarithm is set
        let mut mantissa: u128 = (256 + i as u128) << 54; // 2.62 fixed point, 1.0 = 1 << 62
        let mut bits = 0_u64;
        let mut bit = 0;
        while bit < 32 {
            mantissa = (mantissa * mantissa) >> 62;
            bits <<= 1;
            if mantissa >= 1 << 63 {
                bits |= 1;
                mantissa >>= 1;
            }
            bit += 1;
        }
        table[i] = if i == 256 { u32::MAX } else { bits as u32 };
        i += 1;
    }
    table
}

/// -log2(x / 2^64) in 1/2^32, for x > 0.
#[inline]
fn minus_log2(x: u64) -> u64 {
    let x = x | 1;
    let zeros = x.leading_zeros();
    let mantissa = x << zeros; // 1.63
    let slot = (mantissa >> 55 & 0xff) as usize;
    let rest = mantissa >> 23 & 0xffff_ffff; // position between two slots
    let (low, high) = (u64::from(LOG2[slot]), u64::from(LOG2[slot + 1]));
    let log = low + (((high - low) * rest) >> 32);
    // log2(x) = 63 - zeros + log/2^32
    ((u64::from(zeros) + 1) << 32).saturating_sub(log)
}

/// The score of a candidate in weighted rendezvous (highest random weight): the smallest wins.
///
/// `-ln(h) / weight` gives each candidate a share in proportion to its weight, and a candidate that leaves
/// moves only its own clients.
#[inline]
#[must_use]
pub fn rendezvous_score(client: u64, candidate: u64, weight: u32) -> u64 {
    minus_log2(mix(client, candidate)) * 256 / u64::from(weight.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithm_is_close() {
        let mut rng = 1_u64;
        for _ in 0..100_000 {
            rng = mix(rng, 7);
            let exact = 64.0 - (rng as f64).log2();
            let ours = minus_log2(rng) as f64 / 4_294_967_296.0;
            assert!((exact - ours).abs() < 1e-5, "{rng}: {exact} {ours}");
        }
    }

    #[test]
    fn mix_spreads_consecutive_keys() {
        let mut counts = [0_u32; 64];
        for i in 0..64_000 {
            counts[(mix(0, i) >> 58) as usize] += 1;
        }
        assert!(counts.iter().all(|&c| (850..1150).contains(&c)), "{counts:?}");
    }
}
