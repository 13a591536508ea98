//! Token buckets: how much may come or go, and when more may.

/// Tokens come at a steady rate up to a bound. It may be overdrawn, so that a batch need not be cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    rate_per_s: i64,
    /// Thousandths of tokens.
    bound: i64,
    level: i64,
    at_ms: u64,
}

impl Bucket {
    /// A full bucket.
    pub(crate) fn new(now_ms: u64, rate_per_s: u64, burst: u64) -> Self {
        let bound = thousandths(burst);
        let rate_per_s = i64::try_from(rate_per_s).unwrap_or(i64::MAX / 4096).clamp(1, i64::MAX / 4096);
        Self { rate_per_s, bound, level: bound, at_ms: now_ms }
    }

    /// Takes `tokens` where there are as many.
    pub(crate) fn take(&mut self, now_ms: u64, tokens: u64) -> bool {
        self.fill(now_ms);
        let has = self.level >= thousandths(tokens);
        if has {
            self.level -= thousandths(tokens);
        }
        has
    }

    /// Takes `tokens` even where there are fewer.
    pub(crate) fn owe(&mut self, now_ms: u64, tokens: u64) {
        self.fill(now_ms);
        self.level = self.level.saturating_sub(thousandths(tokens));
    }

    /// When it is no longer overdrawn: `None` means now.
    pub(crate) fn ready_at(&self, now_ms: u64) -> Option<u64> {
        let mut at_now = *self;
        at_now.fill(now_ms);
        (at_now.level < 0).then(|| {
            let wait_ms = at_now.level.unsigned_abs().div_ceil(self.rate_per_s.unsigned_abs());
            at_now.at_ms.saturating_add(wait_ms.max(1))
        })
    }

    fn fill(&mut self, now_ms: u64) {
        let passed_ms = i64::try_from(now_ms.saturating_sub(self.at_ms)).unwrap_or(i64::MAX);
        self.level = self.level.saturating_add(self.rate_per_s.saturating_mul(passed_ms)).min(self.bound);
        self.at_ms = self.at_ms.max(now_ms);
    }
}

fn thousandths(tokens: u64) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX / 1000).saturating_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::Bucket;

    #[test]
    fn it_gives_its_burst_and_then_its_rate() {
        let mut bucket = Bucket::new(1_000, 10, 5);
        assert!((0..5).all(|_| bucket.take(1_000, 1)));
        assert!(!bucket.take(1_000, 1));
        assert!(!bucket.take(1_099, 1));
        assert!(bucket.take(1_100, 1));
        assert!(!bucket.take(1_100, 1));
        // a long rest fills it no further than its bound
        assert!((0..5).all(|_| bucket.take(u64::MAX, 1)));
        assert!(!bucket.take(u64::MAX, 1));
    }

    #[test]
    fn a_debt_is_paid_off_in_time() {
        let mut bucket = Bucket::new(0, 1_000, 0);
        assert_eq!(bucket.ready_at(0), None);
        bucket.owe(0, 250);
        assert_eq!(bucket.ready_at(0), Some(250));
        assert_eq!(bucket.ready_at(100), Some(250));
        assert_eq!(bucket.ready_at(250), None);
        // a clock that goes back is taken as standing still
        assert_eq!(bucket.ready_at(0), Some(250));
    }
}
