//! Response rate limiting: a bounded table of token buckets that all workers share without a lock.
//!
//! A bucket is one word: a tag of its key, tokens, and when they were counted. Two keys that fall into one bucket take
//! it from each other, so a collision can only let more pass, never block a stranger for long.

use crate::ecs::PrefixSet;
use crate::respond::Class;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

/// How much is answered. Rates are replies a second to one prefix for one answer; 0 is no limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RrlConfig {
    /// Data: per name.
    pub responses_per_s: u16,
    /// NODATA: per zone.
    pub nodata_per_s: u16,
    /// Names that do not exist: per zone.
    pub nxdomain_per_s: u16,
    /// Referrals: per delegation.
    pub referrals_per_s: u16,
    /// Errors.
    pub errors_per_s: u16,
    /// Bits of an IPv4 client that count.
    pub v4_prefix: u8,
    /// Bits of an IPv6 client that count.
    pub v6_prefix: u8,
    /// Every how many limited replies one goes out truncated, so that a real client can come by TCP; 0 is never.
    pub slip: u8,
    /// Buckets in the table.
    pub buckets: usize,
    /// Clients that are never limited.
    pub exempt: PrefixSet,
}

impl Default for RrlConfig {
    fn default() -> Self {
        Self {
            responses_per_s: 20,
            nodata_per_s: 20,
            nxdomain_per_s: 20,
            referrals_per_s: 20,
            errors_per_s: 20,
            v4_prefix: 24,
            v6_prefix: 56,
            slip: 2,
            buckets: 1 << 18,
            exempt: PrefixSet::default(),
        }
    }
}

/// What is done with a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    /// Send it truncated.
    Slip,
    Drop,
}

/// The buckets and how they fill.
#[derive(Debug)]
pub struct Rrl {
    config: RrlConfig,
    buckets: Box<[AtomicU64]>,
}

/// A bucket's word: tag (16 bits), limited replies (8), tokens (16, in 1/16), milliseconds (24).
#[derive(Clone, Copy)]
struct Bucket {
    tag: u16,
    limited: u8,
    tokens: u16,
    at_ms: u32,
}

const AT_MASK: u32 = (1 << 24) - 1;
/// Tokens are counted in sixteenths, so that low rates fill smoothly.
const TOKEN: u32 = 16;

impl Bucket {
    const fn read(word: u64) -> Self {
        Self {
            tag: (word >> 48) as u16,
            limited: (word >> 40) as u8,
            tokens: (word >> 24) as u16,
            at_ms: word as u32 & AT_MASK,
        }
    }

    const fn word(self) -> u64 {
        (self.tag as u64) << 48
            | (self.limited as u64) << 40
            | (self.tokens as u64) << 24
            | (self.at_ms & AT_MASK) as u64
    }
}

impl Rrl {
    /// A table with all buckets full.
    #[must_use]
    pub fn new(config: RrlConfig) -> Self {
        let size = config.buckets.clamp(1 << 8, 1 << 26).next_power_of_two();
        Self { config, buckets: (0..size).map(|_| AtomicU64::new(0)).collect() }
    }

    /// The settings.
    #[must_use]
    pub fn config(&self) -> &RrlConfig {
        &self.config
    }

    /// Counts a reply of `class` to `source`.
    pub(crate) fn check(&self, source: IpAddr, class: Class, mono_ms: u64) -> Verdict {
        let config = &self.config;
        let (kind, key, rate) = match class {
            Class::Data(name) => (1, name, config.responses_per_s),
            Class::NoData(zone) => (2, u64::from(zone), config.nodata_per_s),
            Class::NxDomain(zone) => (3, u64::from(zone), config.nxdomain_per_s),
            Class::Referral(id) => (4, u64::from(id), config.referrals_per_s),
            Class::Error => (5, 0, config.errors_per_s),
        };
        if rate == 0 || config.exempt.contains(source) {
            return Verdict::Pass;
        }
        let hash = mix(mix(self.prefix(source) ^ kind << 56) ^ key);
        let Some(bucket) = self.buckets.get(hash as usize & (self.buckets.len() - 1)) else {
            return Verdict::Pass;
        };
        // never 0, which is a bucket not yet used
        let tag = (hash >> 48) as u16 | 1;
        // a second's worth is what may come at once
        let full = (u32::from(rate) * TOKEN).min(u32::from(u16::MAX));
        let now_ms = mono_ms as u32 & AT_MASK;
        let old = Bucket::read(bucket.load(Ordering::Relaxed));
        let (tokens, limited) = if old.tag == tag {
            let passed_ms = now_ms.wrapping_sub(old.at_ms) & AT_MASK;
            let gained = u64::from(passed_ms) * u64::from(rate) * u64::from(TOKEN) / 1000;
            (u64::from(old.tokens).saturating_add(gained).min(u64::from(full)) as u32, old.limited)
        } else {
            (full, 0)
        };
        // time that was too short to gain anything is not lost
        let gained_any = tokens != u32::from(old.tokens) || old.tag != tag || tokens == full;
        let at_ms = if gained_any { now_ms } else { old.at_ms };
        let pass = tokens >= TOKEN;
        let tokens = if pass { tokens - TOKEN } else { tokens };
        let limited = if pass { limited } else { limited.wrapping_add(1) };
        // losing a race to another worker loses one count, no more
        bucket.store(Bucket { tag, limited, tokens: tokens as u16, at_ms }.word(), Ordering::Relaxed);
        match (pass, config.slip) {
            (true, _) => Verdict::Pass,
            (false, 0) => Verdict::Drop,
            (false, slip) if limited % slip == 0 => Verdict::Slip,
            (false, _) => Verdict::Drop,
        }
    }

    fn prefix(&self, source: IpAddr) -> u64 {
        match source {
            IpAddr::V4(v4) => {
                let host = 32_u32.saturating_sub(u32::from(self.config.v4_prefix));
                u64::from(v4.to_bits().checked_shr(host).unwrap_or(0))
            }
            IpAddr::V6(v6) => {
                let host = 128_u32.saturating_sub(u32::from(self.config.v6_prefix));
                let bits = v6.to_bits().checked_shr(host).unwrap_or(0);
                mix(bits as u64 ^ mix((bits >> 64) as u64 | 1 << 63))
            }
        }
    }
}

const fn mix(value: u64) -> u64 {
    let product = (value ^ 0x9e37_79b9_7f4a_7c15) as u128 * 0xd6e8_feb8_6659_fd93_u128;
    (product as u64) ^ ((product >> 64) as u64)
}
