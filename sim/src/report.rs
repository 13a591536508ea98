//! Figures for people and for programs.

use crate::believed::Strategy;
use crate::engine::tally::Span;
use crate::engine::{Outcome, SPAN_MS};
use serde::Serialize;

/// The figures of one way to choose.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// How sites were chosen.
    pub strategy: Strategy,
    /// In the last quarter of an hour.
    pub last: Decisions,
    /// From the start.
    pub whole: Decisions,
    /// By quarter of an hour.
    pub quarters: Vec<Decisions>,
    /// Share of prefixes, in percent, whose site changed without being better for it.
    pub wavering_percent: f64,
    /// Lookups beyond what sites can serve, in percent.
    pub overload_percent: f64,
    /// Highest load of a site, as a share of its capacity.
    pub peak_load: f64,
}

/// The figures of one span of time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decisions {
    /// Queries at the name servers.
    pub queries: u64,
    /// Milliseconds over the best usable site.
    pub regret_ms: Regret,
    /// The same, weighted by clients' lookups instead of queries.
    pub regret_by_lookup_ms: Regret,
    /// Queries within 5 ms of the best, in percent.
    pub within_5ms_percent: f64,
    /// Lookups within 5 ms of the best, in percent.
    pub within_5ms_by_lookup_percent: f64,
    /// Lookups answered with a site that did not serve, in percent.
    pub failed_percent: f64,
    /// Measurements by probes per query, and the packets they took.
    pub probes_per_query: f64,
    /// See `probes_per_query`.
    pub probe_packets_per_query: f64,
    /// Measurements by probes that were answered.
    pub probes_answered: u64,
    /// Truncated answers per query.
    pub solicited_per_query: f64,
    /// Queries whose client no node had measured, in percent.
    pub unmeasured_percent: f64,
    /// Decisions that tried another site, in percent.
    pub explored_percent: f64,
    /// Changes of a prefix's site.
    pub changes: u64,
    /// Changes without cause: no state changed, nothing was learned, and it is not nearer.
    pub idle_changes: u64,
    /// Those of them after which it is farther.
    pub worse_changes: u64,
    /// Cells that nodes told each other.
    pub cells: u64,
}

/// A distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Regret {
    /// Half is not above.
    pub median: f64,
    /// 95 % is not above.
    pub p95: f64,
    /// The mean.
    pub mean: f64,
}

/// A report on one world.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The world's name.
    pub world: String,
    /// Seed of the run.
    pub seed: u64,
    /// How long it ran, in seconds.
    pub seconds: u64,
    /// Each way to choose.
    pub strategies: Vec<Figures>,
}

fn round(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}

impl Decisions {
    fn new(span: &Span) -> Self {
        let regret = |h: &crate::engine::tally::Histogram| Regret {
            median: round(h.quantile(0.5)),
            p95: round(h.quantile(0.95)),
            mean: round(h.mean()),
        };
        let per_query = |count: u64| round(count as f64 / span.queries.max(1) as f64);
        let lookups = span.by_lookup.weight() + span.failed;
        Self {
            queries: span.queries,
            regret_ms: regret(&span.by_query),
            regret_by_lookup_ms: regret(&span.by_lookup),
            within_5ms_percent: round(100.0 * span.by_query.near()),
            within_5ms_by_lookup_percent: round(100.0 * span.by_lookup.near()),
            failed_percent: if lookups > 0.0 { round(100.0 * span.failed / lookups) } else { 0.0 },
            probes_per_query: per_query(span.probes),
            probe_packets_per_query: per_query(span.packets),
            probes_answered: span.answered,
            solicited_per_query: per_query(span.solicited),
            unmeasured_percent: 100.0 * per_query(span.unmeasured),
            explored_percent: 100.0 * per_query(span.explored),
            changes: span.changes,
            idle_changes: span.idle_changes,
            worse_changes: span.worse_changes,
            cells: span.cells,
        }
    }
}

impl Figures {
    /// The figures of a run.
    #[must_use]
    pub fn new(outcome: &Outcome) -> Self {
        let mut whole = Span::default();
        for span in &outcome.spans {
            whole.merge(span);
        }
        let quarters: Vec<Decisions> = outcome.spans.iter().map(Decisions::new).collect();
        let whole = Decisions::new(&whole);
        Self {
            strategy: outcome.strategy,
            last: quarters.last().cloned().unwrap_or_else(|| whole.clone()),
            whole,
            quarters,
            wavering_percent: round(100.0 * outcome.wavering),
            overload_percent: round(100.0 * outcome.overload),
            peak_load: round(outcome.peak),
        }
    }
}

impl Report {
    /// A table to read.
    #[must_use]
    pub fn text(&self) -> String {
        let minutes = SPAN_MS / 60_000;
        let mut text = format!(
            "world: {}, seed {}, {} s\n\nlast {minutes} minutes, by query (regret = milliseconds over the best usable site)\n",
            self.world, self.seed, self.seconds
        );
        text += &format!(
            "{:<18}{:>9}{:>9}{:>9}{:>9}{:>10}{:>11}{:>10}{:>9}{:>9}\n",
            "", "median", "p95", "mean", "<=5 ms", "(lookups)", "probes/q", "wavering", "failed", "overload"
        );
        for it in &self.strategies {
            text += &format!(
                "{:<18}{:>9.1}{:>9.1}{:>9.1}{:>8.1}%{:>9.1}%{:>11.4}{:>9.2}%{:>8.2}%{:>8.2}%\n",
                it.strategy.name(),
                it.last.regret_ms.median,
                it.last.regret_ms.p95,
                it.last.regret_ms.mean,
                it.last.within_5ms_percent,
                it.last.within_5ms_by_lookup_percent,
                it.whole.probes_per_query,
                it.wavering_percent,
                it.whole.failed_percent,
                it.overload_percent,
            );
        }
        for it in self.strategies.iter().filter(|it| it.strategy == Strategy::Portolan) {
            text += "\nportolan by quarter of an hour\n";
            text += &format!(
                "{:>9}{:>9}{:>9}{:>9}{:>9}{:>11}{:>11}{:>12}{:>9}{:>9}{:>9}{:>8}\n",
                "queries",
                "median",
                "p95",
                "mean",
                "<=5 ms",
                "probes/q",
                "answered",
                "unmeasured",
                "changes",
                "idle",
                "worse",
                "cells"
            );
            for q in &it.quarters {
                text += &format!(
                    "{:>9}{:>9.1}{:>9.1}{:>9.1}{:>8.1}%{:>11.4}{:>11}{:>11.1}%{:>9}{:>9}{:>9}{:>8}\n",
                    q.queries,
                    q.regret_ms.median,
                    q.regret_ms.p95,
                    q.regret_ms.mean,
                    q.within_5ms_percent,
                    q.probes_per_query,
                    q.probes_answered,
                    q.unmeasured_percent,
                    q.changes,
                    q.idle_changes,
                    q.worse_changes,
                    q.cells,
                );
            }
        }
        text
    }
}
