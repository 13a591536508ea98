//! Response rate limiting: a bounded table of token buckets that all workers share without a lock.
//!
//! A bucket is one word: a tag of its key (16 bits), limited replies (8), and the time in microseconds until which its
//! rate is used up (40, the generic cell rate algorithm). A key may use any of four buckets side by side and takes the
//! one least used up from another; so a collision can only let more pass, never block a stranger. Which keys meet
//! depends on a seed that nobody outside knows.

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
    seed: u64,
    buckets: Box<[[AtomicU64; WAYS]]>,
}

/// Buckets a key may use: one cache line holds two such groups.
const WAYS: usize = 4;
/// Bits of a bucket's word that hold a time.
const TIME_BITS: u32 = 40;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;
/// What may come at once is a second's worth.
const BURST_US: u64 = 1_000_000;

impl Rrl {
    /// A table with all buckets full. `seed` should be drawn anew by each process.
    #[must_use]
    pub fn new(config: RrlConfig, seed: u64) -> Self {
        let groups = (config.buckets.clamp(1 << 8, 1 << 26) / WAYS).next_power_of_two();
        Self { config, seed, buckets: (0..groups).map(|_| Default::default()).collect() }
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
        let hash = mix(self.seed ^ mix(mix(self.prefix(source) ^ kind << 56) ^ key));
        let Some(group) = self.buckets.get(hash as usize & (self.buckets.len() - 1)) else {
            return Verdict::Pass;
        };
        // never 0, which is a bucket not yet used
        let tag = (hash >> 48) as u16 | 1;
        let now_us = mono_ms.wrapping_mul(1000) & TIME_MASK;
        let is_ours = |word: u64| (word >> 48) as u16 == tag;
        let used_up = |word: u64| used_up_us(word, now_us);
        let words = group.iter().map(|bucket| (bucket, bucket.load(Ordering::Relaxed)));
        let Some((bucket, word)) = words.min_by_key(|&(_, word)| (!is_ours(word), used_up(word))) else {
            return Verdict::Pass;
        };
        let limited = if is_ours(word) { (word >> TIME_BITS) as u8 } else { 0 };
        let ahead_us = if is_ours(word) { used_up(word) } else { 0 };
        let interval_us = BURST_US / u64::from(rate);
        let pass = ahead_us + interval_us <= BURST_US;
        let until_us = (now_us + ahead_us + if pass { interval_us } else { 0 }) & TIME_MASK;
        let limited = if pass { limited } else { limited.wrapping_add(1) };
        // losing a race to another worker loses one count, no more
        bucket.store(u64::from(tag) << 48 | u64::from(limited) << TIME_BITS | until_us, Ordering::Relaxed);
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

/// How far ahead of now a bucket is used up; farther than is possible is long ago, seen around the clock.
const fn used_up_us(word: u64, now_us: u64) -> u64 {
    let ahead_us = (word & TIME_MASK).wrapping_sub(now_us) & TIME_MASK;
    if ahead_us <= 2 * BURST_US { ahead_us } else { 0 }
}

pub(crate) const fn mix(value: u64) -> u64 {
    let product = (value ^ 0x9e37_79b9_7f4a_7c15) as u128 * 0xd6e8_feb8_6659_fd93_u128;
    (product as u64) ^ ((product >> 64) as u64)
}
