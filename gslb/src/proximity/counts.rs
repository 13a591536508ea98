//! Measuring in numbers, for status and metrics.

use super::desk::Desk;
use crate::metrics::Family;
use portolan_api::{ProximityMethod, ProximityStatus, RefusedProbes};
use portolan_balance::proximity::{Sample, Source};
use portolan_probe::proximity::{PassiveCounters, ProberCounters, Refusal};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;

/// Over how long the pace of probes is told.
const PACE_MS: u64 = 10_000;
/// Measured sources.
const SOURCES: [Source; 6] = [
    Source::Handshake,
    Source::Resolver,
    Source::Solicited,
    Source::Icmp,
    Source::DnsProbe,
    Source::TcpProbe,
];

/// What the desk counts itself.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// By source: with an answer, and without.
    samples: [(u64, u64); Source::ALL.len()],
    /// Of settings that are no longer in force: taken, dropped, unknown, ignored.
    passive: [u64; 4],
    /// Probes that came back by the points of an older config.
    pub(super) unsettled: u64,
    /// Questions for peers that nobody sent in time.
    pub(super) questions_dropped: u64,
    /// What peers said and nobody took in time.
    pub(super) inbox_dropped: u64,
    /// Cells that could not be told to peers.
    pub(super) untold: u64,
    /// Times that the state could not be saved.
    pub(super) unsaved: u64,
    /// Once a second: when, and how many probes had been sent.
    sent: VecDeque<(u64, u64)>,
}

impl Counts {
    pub(super) fn sample(&mut self, sample: &Sample) {
        if let Some((answered, lost)) = self.samples.get_mut(usize::from(sample.source.code())) {
            match sample.rtt_us {
                Some(_) => *answered += 1,
                None => *lost += 1,
            }
        }
    }

    pub(super) fn passive_ended(&mut self, counters: &PassiveCounters) {
        for (sum, count) in self.passive.iter_mut().zip(passive(counters)) {
            *sum += count;
        }
    }

    /// Notes how many probes have been sent by now.
    pub(super) fn pace(&mut self, now_ms: u64, sent: u64) {
        if self.sent.back().is_none_or(|(at_ms, _)| now_ms.saturating_sub(*at_ms) >= 1_000) {
            self.sent.push_back((now_ms, sent));
            while self.sent.front().is_some_and(|(at_ms, _)| now_ms.saturating_sub(*at_ms) > PACE_MS) {
                self.sent.pop_front();
            }
        }
    }

    fn sent_of_late(&self, sent: u64) -> u64 {
        sent.saturating_sub(self.sent.front().map_or(sent, |(_, before)| *before))
    }

    fn of(&self, source: Source) -> (u64, u64) {
        self.samples.get(usize::from(source.code())).copied().unwrap_or_default()
    }
}

fn passive(counters: &PassiveCounters) -> [u64; 4] {
    let PassiveCounters { taken, dropped, unknown, ignored } = counters;
    [taken, dropped, unknown, ignored].map(|count| count.load(Ordering::Relaxed))
}

impl Desk {
    fn prober_counters(&self) -> ProberCounters {
        self.prober().map(portolan_probe::proximity::Prober::counters).unwrap_or_default()
    }

    pub(super) fn has_nothing(&self) -> bool {
        self.is_used && self.table.is_empty() && self.table.statics().next().is_none()
    }

    pub(super) fn status(&self) -> Option<ProximityStatus> {
        if !self.is_busy() {
            return None;
        }
        let counters = self.prober_counters();
        let pace = counters.pace;
        let measure = self.measure().map(|measure| measure.counters()).unwrap_or_default();
        let method = |source: &Source| {
            let (answered, lost) = self.counts.of(*source);
            (answered + lost > 0).then(|| ProximityMethod { method: source.text().into(), answered, lost })
        };
        let refused = Refusal::ALL.iter().zip(pace.refused).filter(|(_, count)| *count > 0);
        Some(ProximityStatus {
            prefixes: self.table.len() as u64,
            most: self.table.settings().entries as u64,
            statics: self.table.statics().count() as u64,
            points: self.table.points().len() as u32,
            methods: SOURCES.iter().filter_map(method).collect(),
            probing: self.policy.enabled,
            probes: pace.sent,
            probes_in_10_s: self.counts.sent_of_late(pace.sent),
            waiting: counters.waiting as u64,
            refused: refused
                .map(|(refusal, count)| RefusedProbes { reason: refusal.name().into(), count })
                .collect(),
            solicited: measure.solicited,
            came: measure.came,
            unsaved: self.counts.unsaved,
        })
    }

    pub(super) fn families(&self) -> Vec<Family> {
        let counters = self.prober_counters();
        let (pace, table) = (counters.pace, self.table.counters());
        let measure = self.measure().map(|measure| measure.counters()).unwrap_or_default();
        let mut samples =
            Family::counter("proximity_samples", "Round trips of clients by how they were measured");
        for source in SOURCES {
            let (answered, lost) = self.counts.of(source);
            samples.add([("source", source.text()), ("result", "answered")], answered as f64);
            samples.add([("source", source.text()), ("result", "lost")], lost as f64);
        }
        let mut refused = Family::counter("proximity_probes_refused", "Wishes for a probe that were refused");
        for (refusal, count) in Refusal::ALL.iter().zip(pace.refused) {
            refused.add([("reason", refusal.name())], count as f64);
        }
        vec![
            Family::gauge("proximity_prefixes", "Client prefixes of which a distance is known")
                .with([], self.table.len() as f64),
            Family::gauge("proximity_static", "Round-trip times that operators wrote")
                .with([], self.table.statics().count() as f64),
            samples,
            Family::counter("proximity_table", "What became of measured prefixes")
                .with([("event", "outlier")], table.outliers as f64)
                .with([("event", "less-trusted")], table.less_trusted as f64)
                .with([("event", "refused")], table.refused as f64)
                .with([("event", "evicted")], table.evicted as f64)
                .with([("event", "expired")], table.expired as f64)
                .with([("event", "merged")], table.merged as f64)
                .with([("event", "split")], table.split as f64)
                .with([("event", "shown")], table.shown as f64)
                .with([("event", "from-peers")], table.from_peers as f64)
                .with([("event", "from-peers-dropped")], table.peers_dropped as f64),
            Family::counter("proximity_probes", "Probes of clients")
                .with([("event", "sent")], pace.sent as f64)
                .with([("event", "answered")], pace.answered as f64)
                .with([("event", "unable")], pace.unable as f64),
            Family::counter("proximity_rounds", "Rounds of probes")
                .with([("event", "begun")], pace.rounds as f64)
                .with([("event", "silent")], pace.silent_rounds as f64),
            refused,
            Family::gauge("proximity_probes_waiting", "Wishes for a probe that wait")
                .with([], counters.waiting as f64),
            Family::counter("proximity_solicited", "Queries that were asked to come by TCP")
                .with([], measure.solicited as f64),
            Family::counter("proximity_came", "Prefixes that came by TCP because they were asked to")
                .with([], measure.came as f64),
            Family::counter("proximity_sightings", "Clients that queries told of")
                .with([("event", "told")], measure.told as f64)
                .with([("event", "dropped")], measure.dropped as f64),
            self.handshakes(),
            Family::counter("proximity_lost", "Measurements that were lost on the way")
                .with([("where", "probe-queue")], (counters.samples_dropped + pace.samples_dropped) as f64)
                .with([("where", "reload")], self.counts.unsettled as f64)
                .with([("where", "question-queue")], self.counts.questions_dropped as f64)
                .with([("where", "peers-in")], self.counts.inbox_dropped as f64)
                .with([("where", "peers-out")], self.counts.untold as f64)
                .with([("where", "state-file")], self.counts.unsaved as f64),
        ]
    }

    fn handshakes(&self) -> Family {
        let now = self.listener().map(|it| passive(&it.counters)).unwrap_or_default();
        let mut family =
            Family::counter("proximity_handshakes", "TCP clients by what their round trip was good for");
        let events = ["taken", "dropped", "unknown", "ignored"];
        for ((event, now), before) in events.iter().zip(now).zip(self.counts.passive) {
            family.add([("event", event)], (now + before) as f64);
        }
        family
    }
}
