//! Figures of a run, as they come.

/// Width of a bin of regret.
const BIN_MS: f64 = 0.1;
/// Regret from which all is one bin.
const MOST_MS: f64 = 1_000.0;

/// Weighted regrets.
#[derive(Clone, Debug)]
pub struct Histogram {
    bins: Vec<f64>,
    weight: f64,
    sum: f64,
    within: f64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { bins: vec![0.0; (MOST_MS / BIN_MS) as usize + 1], weight: 0.0, sum: 0.0, within: 0.0 }
    }
}

impl Histogram {
    pub(crate) fn add(&mut self, regret_ms: f64, weight: f64) {
        let at = ((regret_ms / BIN_MS) as usize).min(self.bins.len() - 1);
        if let Some(bin) = self.bins.get_mut(at) {
            *bin += weight;
        }
        self.weight += weight;
        self.sum += weight * regret_ms;
        if regret_ms <= 5.0 {
            self.within += weight;
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (bin, more) in self.bins.iter_mut().zip(&other.bins) {
            *bin += more;
        }
        self.weight += other.weight;
        self.sum += other.sum;
        self.within += other.within;
    }

    /// The regret that a share of the weight does not exceed.
    #[must_use]
    pub fn quantile(&self, share: f64) -> f64 {
        let mut left = self.weight * share;
        for (i, bin) in self.bins.iter().enumerate() {
            left -= bin;
            if left <= 0.0 && *bin > 0.0 {
                return i as f64 * BIN_MS;
            }
        }
        0.0
    }

    /// The mean.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.weight > 0.0 { self.sum / self.weight } else { 0.0 }
    }

    /// Share of the weight within 5 ms of the best.
    #[must_use]
    pub fn near(&self) -> f64 {
        if self.weight > 0.0 { self.within / self.weight } else { 0.0 }
    }

    /// All of the weight.
    #[must_use]
    pub fn weight(&self) -> f64 {
        self.weight
    }
}

/// Figures of one span of time.
#[derive(Clone, Debug, Default)]
pub struct Span {
    /// Queries at the name servers.
    pub queries: u64,
    /// Regret, weighted by queries.
    pub by_query: Histogram,
    /// Regret, weighted by clients' lookups.
    pub by_lookup: Histogram,
    /// Lookups answered with a site that did not serve.
    pub failed: f64,
    /// Decisions that tried another site on purpose.
    pub explored: u64,
    /// Queries by clients that no node had measured.
    pub unmeasured: u64,
    /// Measurements by probes, and the packets they took.
    pub probes: u64,
    /// See `probes`.
    pub packets: u64,
    /// Measurements answered.
    pub answered: u64,
    /// Queries answered truncated.
    pub solicited: u64,
    /// Changes of the site chosen for a prefix.
    pub changes: u64,
    /// Changes without cause: no state changed, nothing was learned, and it is not nearer.
    pub idle_changes: u64,
    /// Those of them after which it is farther.
    pub worse_changes: u64,
    /// Cells that nodes told each other.
    pub cells: u64,
}

impl Span {
    pub(crate) fn merge(&mut self, other: &Self) {
        let Self {
            queries,
            by_query,
            by_lookup,
            failed,
            explored,
            unmeasured,
            probes,
            packets,
            answered,
            solicited,
            changes,
            idle_changes,
            worse_changes,
            cells,
        } = other;
        self.queries += queries;
        self.by_query.merge(by_query);
        self.by_lookup.merge(by_lookup);
        self.failed += failed;
        self.explored += explored;
        self.unmeasured += unmeasured;
        self.probes += probes;
        self.packets += packets;
        self.answered += answered;
        self.solicited += solicited;
        self.changes += changes;
        self.idle_changes += idle_changes;
        self.worse_changes += worse_changes;
        self.cells += cells;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_go_by_weight() {
        let mut h = Histogram::default();
        for (ms, weight) in [(0.0, 50.0), (4.0, 40.0), (80.0, 9.0), (5_000.0, 1.0)] {
            h.add(ms, weight);
        }
        assert_eq!(h.quantile(0.5), 0.0);
        assert!((h.quantile(0.9) - 4.0).abs() < 0.2);
        assert!((h.quantile(0.95) - 80.0).abs() < 0.2);
        assert_eq!(h.quantile(1.0), MOST_MS);
        assert!((h.near() - 0.9).abs() < 1e-9 && (h.mean() - 58.8).abs() < 1e-9);
        assert_eq!(Histogram::default().quantile(0.95), 0.0);
    }
}
