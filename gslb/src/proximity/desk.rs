//! The table with all that feeds it.

use super::counts::Counts;
use super::peers::{Pending, QUESTIONS, Question};
use super::recent::Recent;
use super::written::Written;
use super::{now_ms, saved, settings};
use crate::state::StateDir;
use portolan_balance::nets::{DIMS, Nets};
use portolan_balance::proximity::{Cell, PointId, Points, Prefix, Ranks, Sample, Table};
use portolan_config::Compiled;
use portolan_dns::measure::{Evidence as Shown, Measure, Sighting};
use portolan_peer::Reply;
use portolan_probe::proximity::{
    AskedBy, Evidence, Lengths, Passive, Policy, Prober, ProberSettings, Refusal, Wanted,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
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

/// How often a client that was seen is measured from more places, as answers come in.
const ROUNDS: u8 = 8;

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
    /// What became of the last wish for a prefix.
    pub(super) recent: Recent<Result<(), Refusal>>,
    /// Who has shown to be there, and how often more is asked about them.
    pursued: Recent<(Wanted, u8)>,
    /// Prefixes of which something came in.
    pub(super) news: BTreeSet<Prefix>,
    has_peers: bool,
    pub(super) questions: VecDeque<Question>,
    pub(super) pending: Vec<Pending>,
    pub(super) replies: Vec<(String, Reply)>,
    pub(super) tells_all: bool,
    /// What is still to be told to a new endpoint, and since when it is so.
    pub(super) told_anew: Vec<(u64, Cell)>,
    queries: Option<u64>,
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
            pursued: Recent::default(),
            news: BTreeSet::new(),
            has_peers: false,
            questions: VecDeque::new(),
            pending: Vec::new(),
            replies: Vec::new(),
            tells_all: false,
            told_anew: Vec::new(),
            queries: None,
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
        self.has_peers = config.peers.as_ref().is_some_and(|peers| !peers.members.is_empty());
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
        self.news.insert(sample.prefix);
    }

    /// A client was seen for whom distance decides, or would.
    fn see(&mut self, now: u64, sighting: Sighting) {
        let Sighting { source, subnet, evidence, is_unmeasured: _ } = sighting;
        let evidence = match evidence {
            Shown::Plain => Evidence::Plain,
            Shown::Cookie => Evidence::Cookie,
            Shown::Stream => Evidence::Stream,
        };
        // none where the subnet is larger than what is measured as one
        let Some(wish) = Wanted::by_query(source, subnet, evidence, self.lengths()) else { return };
        let is_seen = self.prober().map(|prober| prober.see(source, evidence));
        let has_shown = match (wish.asked_by, is_seen) {
            (AskedBy::Client(_), Some(seen)) => {
                if let Err(refusal) = seen {
                    self.recent.put(wish.prefix, Err(refusal));
                }
                seen.is_ok() || evidence != Evidence::Plain
            }
            (AskedBy::Client(_), None) => evidence != Evidence::Plain,
            // its own address, or those whose word is taken: the prober knows which
            (AskedBy::Resolver { .. }, _) => {
                evidence != Evidence::Plain && self.policy.trusted_resolvers.contains(source)
            }
            (AskedBy::Peer(_) | AskedBy::Operator, _) => false,
        };
        // Forged sources must not push out what is known: only who has shown to be there gets an entry.
        if has_shown {
            self.pursued.put(wish.prefix, (wish, ROUNDS));
            self.pursue(now, wish);
        } else if !self.table.cells_of(now, wish.address).is_empty() {
            // in use, so that it does not give way to others
            self.table.touch(now, wish.address);
        }
    }

    /// Has a client measured that has shown to be there, from where that is worth its while.
    fn pursue(&mut self, now: u64, wish: Wanted) {
        let Some(wanted) = self.table.wanted(now, wish.address) else { return };
        let points = self.table.points();
        let (own, others): (Vec<PointId>, Vec<PointId>) =
            wanted.points.into_iter().partition(|id| points.get(*id).is_some_and(|point| point.is_own));
        let mut sites: Vec<String> =
            others.iter().filter_map(|id| points.get(*id)).map(|point| point.site.clone()).collect();
        sites.dedup();
        if !own.is_empty() {
            let _ = self.wish(wish);
        }
        if self.has_peers && !sites.is_empty() && self.policy.addresses.check(wish.address).is_ok() {
            if self.questions.len() >= QUESTIONS {
                self.questions.pop_front();
                self.counts.questions_dropped += 1;
            }
            self.questions.push_back(Question { sites, prefix: wish.prefix, address: wish.address });
        }
    }

    /// What came in may tell from where else to measure.
    fn follow(&mut self) {
        let now = now_ms();
        for prefix in std::mem::take(&mut self.news) {
            if let Some((wish, left)) = self.pursued.get(&prefix)
                && left > 0
            {
                self.pursued.put(prefix, (wish, left - 1));
                self.pursue(now, wish);
            }
        }
    }

    /// How full links are, by site and name; of the others nothing is known, which counts as empty.
    pub(super) fn set_use(&mut self, links: &BTreeMap<(&str, &str), f32>) {
        let points: Vec<(PointId, f32)> = self
            .table
            .points()
            .iter()
            .filter_map(|(id, point)| {
                let place = (point.site.as_str(), point.link.as_deref()?);
                Some((id, links.get(&place).copied().unwrap_or(0.0)))
            })
            .collect();
        for (id, share) in points {
            self.table.set_use(id, share);
        }
    }

    /// Queries that distance decided, all in all: each pays for a share of a probe.
    pub(super) fn count_queries(&mut self, total: u64) {
        // after a reload some may be gone from the sum
        let more = self.queries.map_or(0, |before| total.saturating_sub(before));
        self.queries = Some(total);
        self.table.queries(more);
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
        self.follow();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proximity::settings::tests::compiled;
    use std::net::IpAddr;

    fn sighting(source: impl Into<IpAddr>, evidence: Shown) -> Sighting {
        Sighting { source: source.into(), subnet: None, evidence, is_unmeasured: true }
    }

    /// A flood of forged sources makes no entry, so it pushes out none.
    #[tokio::test]
    async fn only_who_has_shown_to_be_there_gets_an_entry() {
        let config = compiled("[proximity.active]\nicmp = true\ncontact = \"x\"\n");
        let mut desk = Desk::new(&config, None);
        desk.apply(&config);
        let now = now_ms();
        for number in 0..5_000_u32 {
            desk.see(now, sighting([20, 1, (number >> 8) as u8, number as u8], Shown::Plain));
        }
        assert_eq!((desk.table.len(), desk.questions.len()), (0, 0));
        let who = [20, 2, 0, 1];
        assert!(desk.next(who.into()).contains("once they show"), "{}", desk.next(who.into()));
        desk.see(now, sighting(who, Shown::Plain));
        assert!(desk.next(who.into()).contains("3 queries over a second"), "{}", desk.next(who.into()));
        desk.see(now, sighting(who, Shown::Cookie));
        assert_eq!(desk.table.len(), 1);
        // the question of a subnet is taken from nobody
        let subnet = Sighting { subnet: Some(([20, 3, 0, 0].into(), 24)), ..sighting(who, Shown::Stream) };
        desk.see(now, subnet);
        assert_eq!(desk.table.len(), 1);
    }

    /// Other settings keep what is known; another order of points, too.
    #[tokio::test]
    async fn a_reload_keeps_what_is_known() {
        let config = compiled("");
        let mut desk = Desk::new(&config, None);
        desk.apply(&config);
        let here = config.points.find("here", None).unwrap();
        let prefix = Prefix::new([20, 1, 1, 0].into(), 24);
        let sample = Sample {
            prefix,
            point: here,
            rtt_us: Some(9_000),
            hops: None,
            source: portolan_balance::proximity::Source::Resolver,
        };
        let now = now_ms();
        desk.take(now, sample);
        desk.apply(&compiled("[proximity]\nwindow = \"10s\"\n"));
        desk.apply(&compiled("[[site]]\nname = \"elsewhere\"\n[proximity]\nv4 = 20\n"));
        let cells = desk.table.cells_of(now_ms(), [20, 1, 1, 7].into());
        assert_eq!(cells.len(), 1);
        assert_eq!((cells[0].rtt_us, cells[0].prefix.length()), (9_000, 20));
    }
}
