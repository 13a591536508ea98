//! What samples of one prefix from one point come to.
//!
//! The least round-trip time of a window is the path; what is above it is load on the way. The windows' minima are
//! averaged. A sample half as far again, or half as near, is not believed until it is the third in a row (X); then
//! the average goes up by a bounded step a window, and down by at most half.

use super::table::Observed;
use super::{Settings, Source};

/// Samples before which all are believed.
const SETTLED: u32 = 4;
/// Outliers in a row that are not believed.
const DOUBTED: u8 = 2;
/// Most an average rises with a window.
const RISE_US: u32 = 50_000;
/// Differences up to this are no outliers.
const NOISE_US: u32 = 5_000;

/// One prefix from one point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimator {
    pub(super) window: u32,
    /// Least of the open window.
    least_us: Option<u32>,
    /// Average of the closed windows' minima.
    mean_us: Option<u32>,
    pub(super) samples: u32,
    /// Share of attempts without an answer, in 1/65536.
    loss: u16,
    pub(super) hops: u8,
    pub(super) source: Source,
    pub(super) is_peers: bool,
    outliers: u8,
    /// When the last sample came.
    pub(super) seen_s: u32,
}

impl Estimator {
    pub(super) const EMPTY: Self = Self {
        window: 0,
        least_us: None,
        mean_us: None,
        samples: 0,
        loss: 0,
        hops: 0,
        source: Source::TcpProbe,
        is_peers: false,
        outliers: 0,
        seen_s: 0,
    };

    /// With a value from elsewhere: a file, a peer, or a prefix around or within it.
    pub(super) fn with(mean_us: u32, samples: u32, source: Source, seen_s: u32) -> Self {
        Self { mean_us: Some(mean_us), samples: samples.max(1), source, seen_s, ..Self::EMPTY }
    }

    /// Takes a sample.
    pub(super) fn observe(
        &mut self,
        now_s: u32,
        window: u32,
        rtt_us: u32,
        hops: Option<u8>,
        source: Source,
        settings: &Settings,
    ) -> Observed {
        self.close(window);
        let rtt_us = rtt_us.max(1);
        let fresh_s = (settings.window_ms / 1000) as u32;
        if self.samples > 0
            && !self.is_peers
            && source.trust() < self.source.trust()
            && now_s.saturating_sub(self.seen_s) < fresh_s
        {
            return Observed::LessTrusted;
        }
        if self.samples >= SETTLED
            && let Some(value) = self.value()
        {
            let differs = rtt_us.abs_diff(value) > (value / 2).max(NOISE_US);
            self.outliers = if differs { self.outliers.saturating_add(1) } else { 0 };
            if differs && self.outliers <= DOUBTED {
                return Observed::Outlier;
            }
        }
        if self.is_peers {
            *self = Self { window, ..Self::EMPTY };
        }
        let is_new = self.samples == 0;
        self.least_us = Some(self.least_us.map_or(rtt_us, |least| least.min(rtt_us)));
        self.samples = self.samples.saturating_add(1);
        self.loss -= self.loss / 16;
        self.hops = hops.unwrap_or(self.hops);
        self.source = source;
        self.seen_s = now_s;
        if is_new { Observed::New } else { Observed::Counted }
    }

    /// Takes an attempt without an answer.
    pub(super) fn lose(&mut self) {
        self.loss += (u16::MAX - self.loss) / 16;
    }

    pub(super) fn set_loss_permille(&mut self, permille: u16) {
        self.loss = (u32::from(permille.min(1000)) * 65_535 / 1000) as u16;
    }

    pub(super) fn loss_permille(&self) -> u16 {
        (u32::from(self.loss) * 1000 / 65_535) as u16
    }

    /// Ends the open window if it is over. True where the average may have changed.
    pub(super) fn close(&mut self, window: u32) -> bool {
        if window == self.window {
            return false;
        }
        self.window = window;
        let Some(least) = self.least_us.take() else { return false };
        self.mean_us = Some(match self.mean_us {
            None => least,
            Some(mean) if least > mean => mean + ((least - mean) / 2).min(RISE_US),
            Some(mean) => mean - (mean - least) / 2,
        });
        true
    }

    /// The round-trip time it stands for.
    pub(super) fn value(&self) -> Option<u32> {
        self.mean_us.or(self.least_us)
    }

    /// Whether no window was closed yet: then a lower value is a better one.
    pub(super) fn is_settling(&self) -> bool {
        self.mean_us.is_none()
    }

    pub(super) fn ttl_s(&self, settings: &Settings) -> u32 {
        let ttl_ms = if self.source.is_passive() { settings.passive_ttl_ms } else { settings.active_ttl_ms };
        (ttl_ms / 1000) as u32
    }

    /// Whether it was measured and is not too old.
    pub(super) fn is_live(&self, now_s: u32, settings: &Settings) -> bool {
        self.samples > 0 && now_s.saturating_sub(self.seen_s) < self.ttl_s(settings)
    }

    /// Whether half of its life is over.
    pub(super) fn is_aging(&self, now_s: u32, settings: &Settings) -> bool {
        now_s.saturating_sub(self.seen_s) >= self.ttl_s(settings) / 2
    }

    /// How far to trust it: by source, falling to 0 with age, less with few samples and from a peer.
    pub(super) fn confidence(&self, now_s: u32, settings: &Settings) -> u8 {
        let ttl = u64::from(self.ttl_s(settings).max(1));
        let left = ttl.saturating_sub(u64::from(now_s.saturating_sub(self.seen_s)));
        let samples = u64::from(self.samples.min(255));
        let trust = u64::from(self.source.trust()) * if self.is_peers { 3 } else { 4 } / 4;
        (trust * left / ttl * (samples + 1) / (samples + 2)) as u8
    }

    /// The two as one.
    pub(super) fn merged(&self, other: &Self) -> Self {
        let mean = |a: Option<u32>, b: Option<u32>| match (a, b) {
            (Some(a), Some(b)) => Some(a.midpoint(b)),
            (a, b) => a.or(b),
        };
        let (newer, older) = if self.seen_s >= other.seen_s { (self, other) } else { (other, self) };
        Self {
            least_us: None,
            mean_us: mean(self.value(), other.value()),
            samples: self.samples.saturating_add(other.samples),
            loss: self.loss.midpoint(other.loss),
            hops: if newer.hops == 0 { older.hops } else { newer.hops },
            outliers: 0,
            is_peers: self.is_peers && other.is_peers,
            ..*newer
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(estimator: &mut Estimator, window: u32, samples: &[u32]) -> Vec<Observed> {
        let settings = Settings::default();
        let observe =
            |rtt_us: &u32| estimator.observe(window * 300, window, *rtt_us, None, Source::Icmp, &settings);
        samples.iter().map(observe).collect()
    }

    #[test]
    fn takes_the_least_of_a_window_and_averages_the_windows() {
        let mut e = Estimator::EMPTY;
        run(&mut e, 1, &[24_000, 20_000, 31_000]);
        assert_eq!(e.value(), Some(20_000));
        run(&mut e, 2, &[26_000, 24_000, 25_000]);
        assert_eq!(e.value(), Some(20_000), "the open window does not count");
        run(&mut e, 3, &[25_000]);
        assert_eq!(e.value(), Some(22_000));
    }

    #[test]
    fn an_outlier_is_believed_the_third_time_and_moves_in_steps() {
        let mut e = Estimator::EMPTY;
        run(&mut e, 1, &[20_000; 5]);
        assert_eq!(
            run(&mut e, 2, &[400_000, 400_000, 400_000]),
            [Observed::Outlier, Observed::Outlier, Observed::Counted]
        );
        run(&mut e, 3, &[400_000]);
        assert_eq!(e.value(), Some(70_000), "up by a bounded step");
        // one in between begins the count anew
        let mut e = Estimator::EMPTY;
        run(&mut e, 1, &[100_000; 5]);
        let seen = run(&mut e, 2, &[1_000, 1_000, 100_000, 1_000, 1_000, 1_000]);
        assert_eq!(seen.iter().filter(|it| **it == Observed::Outlier).count(), 4);
        run(&mut e, 3, &[1_000]);
        assert_eq!(e.value(), Some(50_500), "down by half at most");
    }

    #[test]
    fn a_less_trusted_source_waits_until_the_other_is_old() {
        let settings = Settings::default();
        let mut e = Estimator::EMPTY;
        e.observe(100, 0, 20_000, None, Source::Handshake, &settings);
        assert_eq!(e.observe(110, 0, 10_000, None, Source::Icmp, &settings), Observed::LessTrusted);
        assert_eq!(e.observe(500, 1, 21_000, None, Source::Icmp, &settings), Observed::Counted);
        assert_eq!(e.source, Source::Icmp);
    }

    #[test]
    fn confidence_falls_with_age_to_nothing() {
        let settings = Settings::default();
        for (source, ttl_s) in [(Source::Handshake, 3_600), (Source::Icmp, 21_600)] {
            let e = Estimator::with(20_000, 50, source, 1_000);
            let at = |age: u32| e.confidence(1_000 + age, &settings);
            assert!(at(0) > at(ttl_s / 2) && at(ttl_s / 2) > at(ttl_s - 1), "{source:?}");
            assert_eq!(at(ttl_s), 0);
            assert!(e.is_live(1_000 + ttl_s - 1, &settings) && !e.is_live(1_000 + ttl_s, &settings));
        }
    }

    proptest! {
        #[test]
        fn stays_within_what_was_seen(windows: Vec<Vec<u32>>) {
            let mut e = Estimator::EMPTY;
            let (mut least, mut most) = (u32::MAX, 0);
            for (i, samples) in windows.iter().enumerate() {
                run(&mut e, i as u32 + 1, samples);
                for sample in samples {
                    least = least.min((*sample).max(1));
                    most = most.max((*sample).max(1));
                }
            }
            if let Some(value) = e.value() {
                prop_assert!(least <= value && value <= most, "{least} {value} {most}");
            }
        }
    }
}
