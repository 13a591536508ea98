//! What an operator can set.

/// What each metric adds to a score, in milliseconds (PX1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// Per millisecond of round-trip time.
    pub rtt: f32,
    /// Per hop.
    pub hops: f32,
    /// Per percent of attempts without an answer.
    pub loss: f32,
    /// For a link whose bandwidth is all in use; in proportion below that.
    pub bandwidth: f32,
    /// Per unit of cost.
    pub cost: f32,
}

impl Default for Weights {
    fn default() -> Self {
        Self { rtt: 1.0, hops: 0.0, loss: 0.0, bandwidth: 0.0, cost: 0.0 }
    }
}

/// Settings of the table and of what it publishes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Bits of an IPv4 client that count, 8..=24: entries are never longer (X).
    pub v4: u8,
    /// Bits of an IPv6 client that count, 16..=48.
    pub v6: u8,
    /// Most entries; the one used longest ago gives way (PX3).
    pub entries: usize,
    /// What counts how much.
    pub weights: Weights,
    /// Scores within this share of the best are equal.
    pub band_percent: f32,
    /// Scores within this of the best are equal.
    pub band_us: u32,
    /// How long a score stays as shown, at least: twice the longest TTL.
    pub dwell_ms: u64,
    /// The estimator's window.
    pub window_ms: u64,
    /// How long a value lives that clients bring.
    pub passive_ttl_ms: u64,
    /// How long a value lives that probes bring.
    pub active_ttl_ms: u64,
    /// A prefix is probed from a point at most this often.
    pub probe_ms: u64,
    /// Most probes asked for, as a share of the queries that the table is told of.
    pub probe_permille: u16,
    /// Share of decisions that try another candidate.
    pub explore_permille: u16,
    /// How much worse a tried candidate may be.
    pub explore_limit_us: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            v4: 24,
            v6: 48,
            entries: 100_000,
            weights: Weights::default(),
            band_percent: 10.0,
            band_us: 5_000,
            dwell_ms: 60_000,
            window_ms: 300_000,
            passive_ttl_ms: 3_600_000,
            active_ttl_ms: 21_600_000,
            probe_ms: 600_000,
            probe_permille: 19,
            explore_permille: 15,
            explore_limit_us: 50_000,
        }
    }
}

impl Settings {
    /// The same with every value in its range.
    #[must_use]
    pub fn clamped(mut self) -> Self {
        let finite = |value: f32, most: f32| if value.is_finite() { value.clamp(0.0, most) } else { 0.0 };
        self.v4 = self.v4.clamp(8, 24);
        self.v6 = self.v6.clamp(16, 48);
        self.entries = self.entries.clamp(16, 1 << 24);
        let Weights { rtt, hops, loss, bandwidth, cost } = &mut self.weights;
        for weight in [rtt, hops, loss, bandwidth, cost] {
            *weight = finite(*weight, 10_000.0);
        }
        self.band_percent = finite(self.band_percent, 100.0);
        self.band_us = self.band_us.min(1_000_000);
        self.window_ms = self.window_ms.clamp(1_000, 86_400_000);
        self.passive_ttl_ms = self.passive_ttl_ms.clamp(self.window_ms, 30 * 86_400_000);
        self.active_ttl_ms = self.active_ttl_ms.clamp(self.window_ms, 30 * 86_400_000);
        self.probe_ms = self.probe_ms.clamp(1_000, 86_400_000);
        self.probe_permille = self.probe_permille.min(1000);
        self.explore_permille = self.explore_permille.min(20);
        self.explore_limit_us = self.explore_limit_us.min(50_000);
        self
    }

    /// Whether two round-trip times, or scores in microseconds, count as equal (case G15).
    #[must_use]
    pub fn is_equal(&self, a_us: u32, b_us: u32) -> bool {
        let share = a_us.min(b_us) as f32 * self.band_percent / 100.0;
        a_us.abs_diff(b_us) <= self.band_us.max(share as u32)
    }
}
