//! Counters for Prometheus. They are kept where things happen and gathered when somebody asks.

use portolan_dns::respond::WorkerStats;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// One metric with all its label sets.
#[derive(Debug)]
pub struct Family {
    name: &'static str,
    help: &'static str,
    rows: Vec<Row>,
    is_counter: bool,
}

#[derive(Debug)]
struct Row {
    labels: Vec<(&'static str, String)>,
    value: f64,
}

impl Family {
    /// A number that only grows; `_total` is added to its name.
    #[must_use]
    pub fn counter(name: &'static str, help: &'static str) -> Self {
        Self { name, help, rows: Vec::new(), is_counter: true }
    }

    /// A number that goes up and down.
    #[must_use]
    pub fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { name, help, rows: Vec::new(), is_counter: false }
    }

    /// Adds a row.
    #[must_use]
    pub fn with<const N: usize>(mut self, labels: [(&'static str, &str); N], value: impl Into<f64>) -> Self {
        self.add(labels, value);
        self
    }

    /// Adds a row.
    pub fn add<const N: usize>(&mut self, labels: [(&'static str, &str); N], value: impl Into<f64>) {
        let labels = labels.into_iter().map(|(key, value)| (key, value.to_owned())).collect();
        self.rows.push(Row { labels, value: value.into() });
    }
}

/// The families as OpenMetrics text.
#[must_use]
pub fn text(families: Vec<Family>) -> String {
    let mut registry = Registry::with_prefix("portolan");
    registry.register_collector(Box::new(Gathered(Mutex::new(families))));
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &registry) {
        Ok(()) => text,
        Err(fmt::Error) => String::new(),
    }
}

#[derive(Debug)]
struct Gathered(Mutex<Vec<Family>>);

impl Collector for Gathered {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Ok(families) = self.0.lock() else { return Ok(()) };
        for family in families.iter() {
            let zero = (ConstCounter::new(0.0), ConstGauge::new(0.0));
            let kind = if family.is_counter { zero.0.metric_type() } else { zero.1.metric_type() };
            let mut metric = encoder.encode_descriptor(family.name, family.help, None, kind)?;
            match family.rows.as_slice() {
                [row] if row.labels.is_empty() => encode(family.is_counter, row.value, metric)?,
                rows => {
                    for Row { labels, value } in rows {
                        encode(family.is_counter, *value, metric.encode_family(labels)?)?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn encode(
    is_counter: bool,
    value: f64,
    encoder: prometheus_client::encoding::MetricEncoder<'_>,
) -> fmt::Result {
    if is_counter { ConstCounter::new(value).encode(encoder) } else { ConstGauge::new(value).encode(encoder) }
}

/// The counters of workers, summed.
#[must_use]
pub fn of_workers<'a>(workers: impl Iterator<Item = &'a WorkerStats> + Clone) -> Vec<Family> {
    let sum = |of: &dyn Fn(&WorkerStats) -> u64| workers.clone().map(of).sum::<u64>() as f64;
    let mut rcodes = Family::counter("dns_replies", "Replies by response code");
    for (code, name) in (0..16_usize).zip([
        "NOERROR",
        "FORMERR",
        "SERVFAIL",
        "NXDOMAIN",
        "NOTIMP",
        "REFUSED",
        "YXDOMAIN",
        "YXRRSET",
        "NXRRSET",
        "NOTAUTH",
        "NOTZONE",
        "DSOTYPENI",
        "12",
        "13",
        "14",
        "extended",
    ]) {
        let count = sum(&|stats| stats.rcodes.get(code).map_or(0, |counter| counter.get()));
        if count > 0.0 || code < 6 {
            rcodes.add([("rcode", name)], count);
        }
    }
    vec![
        Family::counter("dns_queries", "Queries by transport and family of the source")
            .with([("transport", "udp"), ("family", "ipv4")], sum(&|stats| stats.udp[0].get()))
            .with([("transport", "udp"), ("family", "ipv6")], sum(&|stats| stats.udp[1].get()))
            .with([("transport", "tcp"), ("family", "ipv4")], sum(&|stats| stats.tcp[0].get()))
            .with([("transport", "tcp"), ("family", "ipv6")], sum(&|stats| stats.tcp[1].get())),
        rcodes,
        Family::counter("dns_drops", "Packets that got no reply")
            .with([("reason", "short")], sum(&|stats| stats.dropped_short.get()))
            .with([("reason", "response")], sum(&|stats| stats.dropped_response.get()))
            .with([("reason", "rate")], sum(&|stats| stats.dropped_rate.get()))
            .with([("reason", "no-room")], sum(&|stats| stats.dropped_no_room.get())),
        Family::counter("dns_truncated", "Truncated replies").with([], sum(&|stats| stats.truncated.get())),
        Family::counter("dns_slipped", "Truncated replies that rate limiting let slip")
            .with([], sum(&|stats| stats.slipped.get())),
        Family::counter("dns_edns_queries", "Queries with EDNS").with([], sum(&|stats| stats.edns.get())),
        Family::counter("dns_ecs_queries", "Queries with a client subnet")
            .with([], sum(&|stats| stats.ecs.get())),
        Family::counter("dns_cookie_queries", "Queries with a cookie")
            .with([("server_cookie", "good")], sum(&|stats| stats.cookie_good.get()))
            .with([("server_cookie", "other")], sum(&|stats| stats.cookie_other.get())),
        Family::counter("decisions", "Decisions by who answered")
            .with([("by", "members")], sum(&|stats| stats.dynamic.get().saturating_sub(stats.fallback.get())))
            .with([("by", "fallback")], sum(&|stats| stats.fallback.get())),
        Family::counter("decisions_by_subnet", "Decisions made for a client subnet rather than the source")
            .with([], sum(&|stats| stats.ecs_used.get())),
    ]
}

/// A counter's value.
#[must_use]
pub fn value(counter: &AtomicU64) -> f64 {
    counter.load(Ordering::Relaxed) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_become_text() {
        let text = text(vec![
            Family::counter("a", "Things").with([("kind", "x\"y")], 2.0).with([("kind", "z")], 0.0),
            Family::gauge("b", "Level").with([], -1.5),
        ]);
        for line in
            ["# TYPE portolan_a counter", "portolan_a_total{kind=\"x\\\"y\"} 2.0", "portolan_b -1.5", "# EOF"]
        {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }

    #[test]
    fn workers_are_summed() {
        let (a, b) = (WorkerStats::default(), WorkerStats::default());
        let text = text(of_workers([&a, &b].into_iter()));
        assert!(text.contains("portolan_dns_queries_total{transport=\"udp\",family=\"ipv4\"} 0.0"), "{text}");
    }
}
