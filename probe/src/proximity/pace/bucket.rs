//! A token bucket (the generic cell rate algorithm).

const NS_A_MS: u64 = 1_000_000;
const NS_A_S: u64 = 1_000 * NS_A_MS;

/// So many a second, and no more in any second: what may come at once is taken off the rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    interval_ns: u64,
    slack_ns: u64,
    /// Used up until then.
    until_ns: u64,
}

impl Bucket {
    /// A full bucket. A fiftieth of a second's worth may come at once, so that a timer that is late loses nothing.
    pub(super) fn new(per_s: u32) -> Self {
        let per_s = u64::from(per_s.max(1));
        let burst = (per_s / 50).max(1);
        let interval_ns = NS_A_S.div_ceil(per_s - (burst - 1));
        Self { interval_ns, slack_ns: interval_ns * (burst - 1), until_ns: 0 }
    }

    /// Another rate; what is used up stays so.
    pub(super) fn set(&mut self, per_s: u32) {
        *self = Self { until_ns: self.until_ns, ..Self::new(per_s) };
    }

    /// Takes one, if there is one.
    pub(super) fn take(&mut self, now_ms: u64) -> bool {
        let now_ns = now_ms.saturating_mul(NS_A_MS);
        let is_there = self.until_ns <= now_ns.saturating_add(self.slack_ns);
        if is_there {
            self.until_ns = self.until_ns.max(now_ns).saturating_add(self.interval_ns);
        }
        is_there
    }

    /// When there is one again.
    pub(super) const fn next_ms(&self) -> u64 {
        self.until_ns.saturating_sub(self.slack_ns).div_ceil(NS_A_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_second_sees_more_than_its_rate() {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        for per_s in [1, 2, 49, 50, 99, 100, 101, 150, 980, 1000] {
            let mut bucket = Bucket::new(per_s);
            let (mut now_ms, mut taken) = (random.u64(0..100_000), Vec::new());
            while taken.len() < 4 * per_s as usize {
                while bucket.take(now_ms) {
                    taken.push(now_ms);
                }
                assert!(bucket.next_ms() > now_ms, "seed {seed}");
                // a timer that is late by up to 20 ms, and now and then a long pause
                now_ms = bucket.next_ms() + if random.u8(..) == 0 { 5_000 } else { random.u64(0..20) };
            }
            for (at, first) in taken.iter().enumerate() {
                let within = taken[at..].iter().take_while(|later| **later < first + 1_000).count();
                assert!(within <= per_s as usize, "seed {seed}: {within} in a second of {per_s}");
            }
        }
    }

    #[test]
    fn the_rate_is_reached() {
        for (per_s, at_least) in [(1, 10), (100, 985), (1000, 9_800)] {
            let mut bucket = Bucket::new(per_s);
            let taken = (0..10_000_u64)
                .map(|now_ms| std::iter::from_fn(|| bucket.take(now_ms).then_some(())).count());
            let taken: usize = taken.sum();
            assert!((at_least..=10 * per_s as usize).contains(&taken), "{taken} at {per_s} a second");
        }
    }
}
