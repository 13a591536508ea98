//! The table with all that feeds it.

use super::counts::Counts;
use super::peers::{QUESTIONS, Question};
use super::recent::Recent;
use super::written::Written;
use super::{now_ms, saved, settings};
use crate::state::StateDir;
use portolan_balance::nets::{DIMS, Nets};
use portolan_balance::proximity::{PointId, Points, Prefix, Ranks, Sample, Table};
use portolan_config::Compiled;
use portolan_dns::measure::{Evidence as Shown, Measure, Sighting};
use portolan_probe::proximity::{
    AskedBy, Evidence, Lengths, Passive, Policy, Prober, ProberSettings, Refusal, Wanted,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use tokio::sync::mpsc;
use tracing::{info, warn};

/// Sightings that may wait.
const SIGHTINGS: usize = 4_096;
/// Samples of TCP clients that may wait.
const SAMPLES: usize = 4_096;
/// Most taken from a queue in one go: the lock is wanted by others, too.
const AT_ONCE: usize = 4_096;
/// After this no probe is under way that was begun by an older config.
const SETTLE_MS: u64 = 30_000;

/// Address to class, and class to the value of each dimension.
type Operators = (Arc<Nets>, Arc<[[u32; DIMS]]>);

/// Everything that is known of clients' distances, and who learns it.
pub(super) struct Desk {
    pub(super) table: Table,
    pub(super) is_used: bool,
    pub(super) policy: Policy,
    contact: String,
    nets: Option<Operators>,
    /// What the config writes, and what operators wrote since.
    pub(super) fixed: BTreeMap<(Prefix, PointId), u32>,
    pub(super) written: Written,
    measure: Option<(Arc<Measure>, Receiver<Sighting>)>,
    passive: Option<(Arc<Passive>, Receiver<Sample>)>,
    is_passive: bool,
    prober: Option<(Prober, mpsc::Receiver<Sample>)>,
    pub(super) recent: Recent,
    pub(super) questions: VecDeque<Question>,
    ranks: Arc<Ranks>,
    /// Until then probes may come back that speak of the points of an older config.
    settled_ms: u64,
    pub(super) counts: Counts,
    state: Option<StateDir>,
}

impl Desk {
    pub(super) fn new(config: &Compiled, state: Option<StateDir>) -> Self {
        let contact = config.proximity.active.as_ref().map(|active| active.contact.clone());
        Self {
            table: Table::new(config.proximity.settings, Points::clone(&config.points)),
            is_used: false,
            policy: Policy::default(),
            contact: contact.unwrap_or_default(),
            nets: None,
            fixed: BTreeMap::new(),
            written: Written::open(state.clone()),
            measure: None,
            passive: None,
            is_passive: false,
            prober: None,
            recent: Recent::default(),
            questions: VecDeque::new(),
            ranks: Arc::default(),
            settled_ms: 0,
            counts: Counts::default(),
            state,
        }
    }

    /// Puts back what the state folder remembers.
    pub(super) fn restore(&mut self) {
        let Some(state) = &self.state else { return };
        let Some(octets) = state.measured() else { return };
        let Some(saved) = saved::decode(&octets) else {
            return state.set_measured_aside();
        };
        let away_s = crate::clock::unix_s().saturating_sub(saved.unix_s);
        let (now, away_s) = (now_ms(), u32::try_from(away_s).unwrap_or(u32::MAX));
        let points = self.table.points().clone();
        let mut count = 0;
        for cell in saved.cells(&points) {
            count += u32::from(self.table.restore(now, away_s, cell));
        }
        info!(count, "distances of clients remembered");
    }

    /// Takes a config, and publishes by it.
    pub(super) fn apply(&mut self, config: &Compiled) {
        self.listen();
        let now = now_ms();
        let (settings, points) = (config.proximity.settings.clamped(), &*config.points);
        if self.table.points() != points {
            self.settled_ms = now + SETTLE_MS;
        }
        if *self.table.settings() != settings || self.table.points() != points {
            self.table.reconfigure(now, settings, points.clone());
        }
        let is_same = |(nets, classes): &Operators| {
            Arc::ptr_eq(nets, &config.nets) && Arc::ptr_eq(classes, &config.classes)
        };
        if !self.nets.as_ref().is_some_and(is_same) {
            self.nets = Some((config.nets.clone(), config.classes.clone()));
            self.table.set_nets(config.nets.clone(), config.classes.clone());
        }
        self.fixed = settings::fixed(config);
        self.write_statics();
        self.table.set_excluded(&settings::excluded(config));
        self.is_used = settings::is_used(config);
        self.is_passive = config.proximity.is_tcp_seen && (self.is_used || config.peers.is_some());
        self.set_measure(config);
        self.set_passive(config);
        self.set_prober(config);
        let _ = self.publish();
    }

    fn set_measure(&mut self, config: &Compiled) {
        let settings = settings::measure(config);
        self.measure = match self.measure.take() {
            Some((measure, queue)) if *measure.settings() == settings => Some((measure, queue)),
            Some((measure, queue)) => Some((Arc::new(measure.with_settings(settings)), queue)),
            None if self.is_used => {
                let (measure, queue) = Measure::new(settings, SIGHTINGS, fastrand::u64(..));
                Some((Arc::new(measure), queue))
            }
            None => None,
        };
    }

    fn set_passive(&mut self, config: &Compiled) {
        let settings = settings::passive(config);
        self.passive = match self.passive.take() {
            Some((passive, queue)) => {
                self.counts.passive_ended(&passive.counters);
                Some((Arc::new(passive.with_settings(settings)), queue))
            }
            None if self.is_passive => {
                let (passive, queue) = Passive::new(settings, SAMPLES);
                Some((Arc::new(passive), queue))
            }
            None => None,
        };
    }

    /// Without a kind of probe that is on there is no prober, and nothing is sent (X 7).
    fn set_prober(&mut self, config: &Compiled) {
        self.policy = settings::policy(config);
        if let Some(active) = &config.proximity.active {
            if self.prober.is_none() {
                self.contact.clone_from(&active.contact);
            } else if self.contact != active.contact {
                warn!("`proximity.active.contact` has changed and takes effect with the next start");
            }
        }
        match &self.prober {
            Some((prober, _)) => prober.set_policy(self.policy.clone()),
            None if self.policy.enabled => {
                let settings = ProberSettings { contact: self.contact.clone(), ..ProberSettings::default() };
                self.prober = Some(Prober::spawn(settings, self.policy.clone()));
                info!(per_s = self.policy.limits.per_s, "clients are probed");
            }
            None => {}
        }
    }

    /// Puts the written round-trip times in force: the config's, and over them what operators said since.
    pub(super) fn write_statics(&mut self) {
        let mut wanted = self.fixed.clone();
        wanted.extend(self.written.by_point(self.table.points()));
        let old: Vec<_> = self.table.statics().collect();
        for (prefix, point, rtt_us) in old {
            if wanted.get(&(prefix, point)) == Some(&rtt_us) {
                wanted.remove(&(prefix, point));
            } else {
                self.table.remove_static(prefix, point);
            }
        }
        for ((prefix, point), rtt_us) in wanted {
            if !self.table.set_static(prefix, point, rtt_us) {
                warn!(%prefix, "a round-trip time that an operator wrote is of no use: clients are put together by shorter prefixes");
            }
        }
    }

    /// Empties the queues into the table.
    pub(super) fn listen(&mut self) {
        let now = now_ms();
        let passive: Vec<Sample> =
            self.passive.iter().flat_map(|(_, queue)| queue.try_iter().take(AT_ONCE)).collect();
        for sample in passive {
            self.take(now, sample);
        }
        let mut probed = Vec::new();
        while probed.len() < AT_ONCE
            && let Some(sample) = self.prober.as_mut().and_then(|(_, queue)| queue.try_recv().ok())
        {
            probed.push(sample);
        }
        for sample in probed {
            if now < self.settled_ms {
                self.counts.unsettled += 1;
            } else {
                self.take(now, sample);
            }
        }
        let seen: Vec<Sighting> =
            self.measure.iter().flat_map(|(_, queue)| queue.try_iter().take(AT_ONCE)).collect();
        for sighting in seen {
            self.see(now, sighting);
        }
        let sent = self.prober.as_ref().map_or(0, |(prober, _)| prober.counters().pace.sent);
        self.counts.pace(now, sent);
        if self.written.expire() {
            self.write_statics();
        }
    }

    fn take(&mut self, now: u64, sample: Sample) {
        self.counts.sample(&sample);
        self.table.observe(now, sample);
    }

    /// A client was seen for whom distance decides, or would.
    fn see(&mut self, now: u64, sighting: Sighting) {
        let Sighting { source, subnet, evidence, is_unmeasured } = sighting;
        let evidence = match evidence {
            Shown::Plain => Evidence::Plain,
            Shown::Cookie => Evidence::Cookie,
            Shown::Stream => Evidence::Stream,
        };
        // none where the subnet is larger than what is measured as one
        let Some(wish) = Wanted::by_query(source, subnet, evidence, self.lengths()) else { return };
        let mut has_shown = matches!(wish.asked_by, AskedBy::Client(Evidence::Cookie | Evidence::Stream));
        if is_unmeasured {
            has_shown |= is_granted(self.wish(wish));
        }
        // Forged sources must not push out what is known: only who has shown to be there gets an entry.
        if !has_shown && self.table.cells_of(now, wish.address).is_empty() {
            return;
        }
        let Some(wanted) = self.table.wanted(now, wish.address) else { return };
        let points = self.table.points();
        let (own, others): (Vec<PointId>, Vec<PointId>) =
            wanted.points.into_iter().partition(|id| points.get(*id).is_some_and(|point| point.is_own));
        let mut sites: Vec<String> =
            others.iter().filter_map(|id| points.get(*id)).map(|point| point.site.clone()).collect();
        sites.dedup();
        if !is_unmeasured && !own.is_empty() {
            has_shown |= is_granted(self.wish(wish));
        }
        if has_shown && !sites.is_empty() && self.policy.addresses.check(wish.address).is_ok() {
            if self.questions.len() >= QUESTIONS {
                self.questions.pop_front();
                self.counts.questions_dropped += 1;
            }
            self.questions.push_back(Question { sites, prefix: wish.prefix, address: wish.address });
        }
    }

    /// Wishes for a probe, and remembers what became of it.
    pub(super) fn wish(&mut self, wanted: Wanted) -> Result<(), Refusal> {
        let Some((prober, _)) = &self.prober else { return Err(Refusal::Off) };
        let result = prober.wish(wanted);
        self.recent.put(wanted.prefix, result);
        result
    }

    /// Ranks, where anything changed.
    pub(super) fn publish(&mut self) -> Option<Arc<Ranks>> {
        let ranks = self.table.publish(now_ms())?;
        self.ranks = ranks.clone();
        Some(ranks)
    }

    /// What is to be written to the state folder.
    pub(super) fn saving(&self) -> Option<(StateDir, Vec<u8>)> {
        let state = self.state.clone()?;
        let octets = saved::encode(crate::clock::unix_s(), self.table.points(), self.table.entries(now_ms()));
        Some((state, octets))
    }

    pub(super) fn count_failed_save(&mut self) {
        self.counts.unsaved += 1;
    }

    pub(super) fn ranks(&self) -> Arc<Ranks> {
        self.ranks.clone()
    }

    pub(super) fn lengths(&self) -> Lengths {
        self.policy.lengths
    }

    pub(super) fn measure(&self) -> Option<Arc<Measure>> {
        self.measure.as_ref().map(|(measure, _)| measure.clone())
    }

    pub(super) fn passive(&self) -> Option<Arc<Passive>> {
        self.listener().filter(|_| self.is_passive).cloned()
    }

    /// Also while nobody listens to it.
    pub(super) fn listener(&self) -> Option<&Arc<Passive>> {
        self.passive.as_ref().map(|(passive, _)| passive)
    }

    pub(super) fn prober(&self) -> Option<&Prober> {
        self.prober.as_ref().map(|(prober, _)| prober)
    }

    /// Whether there is anything to look after.
    pub(super) fn is_busy(&self) -> bool {
        self.is_used || self.is_passive || self.policy.enabled
    }
}

/// Whether what became of a wish shows that its target is there: it is, or was, to be probed.
fn is_granted(result: Result<(), Refusal>) -> bool {
    matches!(result, Ok(()) | Err(Refusal::Waiting | Refusal::TooSoon | Refusal::BackedOff))
}
