//! Runs a world: discrete events in virtual time, over the cores that the program runs.
//!
//! ```text
//! cache empty ─► query at one site's node ─► decide (that node's view) ─► answer kept for the TTL
//!                   │                                                        └► clients connect to the site
//!                   ├► source comes by TCP, or is solicited ─► sample                 └► handshake ─► sample
//!                   └► Table::wanted ─► own points probe; peers are asked ─► sample ─► Table ─► Ranks
//!                                                                              └► cells ─► the other tables
//! ```
//! A node learns only what it could observe. The truth is used to make samples, and to judge decisions.

mod agenda;
mod node;
mod options;
mod query;
pub mod tally;

pub use options::Options;

use crate::believed::{Believed, Strategy, points};
use crate::world::{EndId, World};
use agenda::{Agenda, Probe, What};
use fastrand::Rng;
use node::Node;
use portolan_balance::proximity::{PointId, Prefix, Sample, Source, Table};
use portolan_balance::{Row, View};
use std::rc::Rc;
use tally::Span;

/// How often states and loads are looked at.
const STAND_MS: u64 = 1_000;
/// How often loads are told.
const LOADS_MS: u64 = 10_000;
/// How long a probe waits for an answer.
const TIMEOUT_MS: u64 = 900;
/// Spans are so long.
pub const SPAN_MS: u64 = 900_000;

/// What became of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How sites were chosen.
    pub strategy: Strategy,
    /// Quarters of an hour.
    pub spans: Vec<Span>,
    /// Share of prefixes whose site changed without being better for it.
    pub wavering: f64,
    /// Lookups beyond what sites can serve, as a share of all.
    pub overload: f64,
    /// The highest load of a point, as a share of its capacity.
    pub peak: f64,
}

/// What was chosen for an asker when it asked last.
#[derive(Clone, Copy, Debug, Default)]
struct Settled {
    point: Option<u16>,
    /// From how many points its prefix was measured then.
    known: u16,
}

struct Sim<'w> {
    world: &'w World,
    options: Options,
    believed: Believed,
    rng: Rng,
    now_ms: u64,
    agenda: Agenda,
    nodes: Vec<Node>,
    /// What all nodes believe of states and loads; its ranks are each node's own.
    view: View,
    row: Row,
    is_up: Vec<bool>,
    known_up: Vec<bool>,
    loads: Vec<Option<f32>>,
    /// By asker: the point whose address its cache holds, and the one that was settled on before.
    cached: Vec<Option<u16>>,
    settled: Vec<Settled>,
    /// By end: from how many points it was measured once at least.
    known: Vec<u16>,
    measured: std::collections::BTreeSet<(EndId, u16)>,
    wavered: Vec<bool>,
    /// When states last changed, so that changes after that have a cause.
    stirred_ms: u64,
    by_point: Vec<f64>,
    turns: u64,
    span: Span,
    spans: Vec<Span>,
    over: f64,
    load_sum: f64,
    peak: f64,
}

/// Runs a world.
#[must_use]
pub fn run(world: &World, options: &Options) -> Outcome {
    let mut sim = Sim::new(world, options);
    sim.start();
    while let Some((at_ms, what)) = sim.agenda.next(options.duration_ms) {
        while at_ms >= (sim.spans.len() as u64 + 1) * SPAN_MS {
            sim.spans.push(std::mem::take(&mut sim.span));
        }
        sim.now_ms = at_ms;
        sim.happen(what);
    }
    sim.finish()
}

impl<'w> Sim<'w> {
    fn new(world: &'w World, options: &Options) -> Self {
        let mut options = options.clone();
        if !options.handshakes {
            // nobody would learn from it
            options.proximity.explore_permille = 0;
        }
        let believed = Believed::new(world, options.strategy, &options.proximity);
        let points_count = world.points.len();
        // what is measured everywhere is the same everywhere: one table stands for all
        let is_shared = options.strategy != Strategy::Portolan || options.shared_table;
        let nodes = if is_shared { 1 } else { world.sites.len() };
        let nodes = (0..nodes)
            .map(|site| {
                let own = (!is_shared).then_some(site);
                let mut table = Table::new(options.proximity, points(world, own));
                table.set_nets(believed.nets.clone(), believed.classes.clone());
                // X: public resolvers are listed
                let anycast: Vec<Prefix> = world
                    .ends
                    .iter()
                    .filter(|end| end.is_anycast)
                    .map(|end| Prefix::new(end.network, end.length))
                    .collect();
                table.set_excluded(&anycast);
                Node::new(world, table)
            })
            .collect();
        let is_up: Vec<bool> = (0..points_count).map(|p| world.is_up(p, 0)).collect();
        let loads = vec![None; points_count];
        Self {
            view: believed.view(&is_up, &loads),
            known_up: is_up.clone(),
            is_up,
            loads,
            world,
            believed,
            rng: Rng::with_seed(world.seed.wrapping_mul(0x9e37_79b9).wrapping_add(options.seed)),
            options,
            now_ms: 0,
            agenda: Agenda::default(),
            nodes,
            row: Row::default(),
            cached: vec![None; world.askers.len()],
            settled: vec![Settled::default(); world.askers.len()],
            known: vec![0; world.ends.len()],
            measured: std::collections::BTreeSet::new(),
            wavered: vec![false; world.prefixes],
            stirred_ms: 0,
            by_point: vec![0.0; points_count],
            turns: 0,
            span: Span::default(),
            spans: Vec::new(),
            over: 0.0,
            load_sum: 0.0,
            peak: 0.0,
        }
    }

    fn start(&mut self) {
        for (number, asker) in self.world.askers.iter().enumerate() {
            let wait_ms = exponential(&mut self.rng, 1000.0 / asker.rate);
            self.agenda.plan(wait_ms, What::Query { asker: number as u32 });
        }
        self.agenda.plan(STAND_MS, What::Stand);
        if !self.options.strategy.measures() {
            return;
        }
        for node in 0..self.nodes.len() {
            let at = |ms: u64| ms * node as u64 / self.nodes.len() as u64;
            self.agenda.plan(at(self.options.publish_ms), What::Publish { node });
            self.agenda.plan(at(self.options.tell_ms), What::Tell { node });
        }
        if self.options.strategy == Strategy::ProbeEverything {
            for point in 0..self.world.points.len() {
                self.agenda.plan(point as u64, What::Sweep { point, next: 0 });
            }
        }
    }

    fn happen(&mut self, what: What) {
        match what {
            What::Query { asker } => self.query(asker),
            What::Publish { node } => self.publish(node),
            What::Tell { node } => self.tell(node),
            What::Hear { node, cells } => {
                if let Some(node) = self.nodes.get_mut(node) {
                    for cell in cells.iter() {
                        node.table.merge_peer(self.now_ms, *cell);
                    }
                }
            }
            What::Asked { by, node, point, end } => self.asked(by, node, point, end),
            What::Silent { node, point, end } => self.observe(node, end, point, None, Source::Icmp),
            What::Send(probe) => self.send(probe),
            What::Sent(probe) => self.sent(probe),
            What::Stand => self.stand(),
            What::Sweep { point, next } => self.sweep(point, next),
        }
    }

    fn publish(&mut self, number: usize) {
        let now_ms = self.now_ms;
        if let Some(node) = self.nodes.get_mut(number)
            && let Some(ranks) = node.table.publish(now_ms)
        {
            node.ranks = ranks;
        }
        self.agenda.plan(now_ms + self.options.publish_ms, What::Publish { node: number });
    }

    /// What a node measured goes to the others as claims, a little later.
    fn tell(&mut self, number: usize) {
        let (now_ms, most) = (self.now_ms, self.options.tell_cells);
        self.agenda.plan(now_ms + self.options.tell_ms, What::Tell { node: number });
        let Some(node) = self.nodes.get_mut(number) else { return };
        let cells = node.table.changed(now_ms, most);
        if cells.is_empty() {
            return;
        }
        self.span.cells += cells.len() as u64;
        let cells = Rc::new(cells);
        for other in (0..self.nodes.len()).filter(|other| *other != number) {
            let cells = cells.clone();
            self.agenda.plan(now_ms + self.options.claim_ms, What::Hear { node: other, cells });
        }
    }

    /// One measurement: what a packet there and back takes, or none.
    fn measure(&mut self, end: EndId, point: usize) -> Option<u32> {
        let it = self.world.end(end);
        if !self.is_up.get(point).copied().unwrap_or(false) || self.rng.f32() < it.loss {
            return None;
        }
        let jitter_ms = -(1.0 - self.rng.f32()).ln() * it.jitter_ms;
        Some(((self.world.rtt_ms(end, point, self.now_ms) + jitter_ms) * 1000.0) as u32)
    }

    fn observe(&mut self, node: usize, end: EndId, point: usize, rtt_us: Option<u32>, source: Source) {
        let it = self.world.end(end);
        let prefix = Prefix::new(it.network, it.length);
        let point = PointId(point as u16);
        if rtt_us.is_some()
            && self.measured.insert((end, point.0))
            && let Some(known) = self.known.get_mut(end.0 as usize)
        {
            *known += 1;
        }
        if let Some(node) = self.nodes.get_mut(node) {
            node.table.observe(self.now_ms, Sample { prefix, point, rtt_us, hops: None, source });
        }
    }

    /// The node that measures from a point.
    fn node_of(&self, point: usize) -> usize {
        if self.nodes.len() == 1 { 0 } else { self.world.points.get(point).map_or(0, |it| it.site) }
    }

    fn asked(&mut self, by: usize, number: usize, point: usize, end: EndId) {
        let options = &self.options;
        let Some(node) = self.nodes.get_mut(number) else { return };
        if let Some(at_ms) = node.admit(self.now_ms, end, point, options) {
            self.span.probes += 1;
            let probe = Probe { by, node: number, point, end, tried: 0, best_us: None };
            self.agenda.plan(at_ms, What::Send(probe));
        }
    }

    fn send(&mut self, mut probe: Probe) {
        let now_ms = self.now_ms;
        let most = self.options.in_flight;
        let Some(node) = self.nodes.get_mut(probe.node) else { return };
        if node.in_flight >= most {
            self.agenda.plan(now_ms + 10, What::Send(probe));
            return;
        }
        node.in_flight += 1;
        self.span.packets += 1;
        let answers = self.world.end(probe.end).answers_probes;
        let rtt_us = if answers { self.measure(probe.end, probe.point) } else { None };
        let rtt_us = rtt_us.filter(|us| u64::from(*us) < TIMEOUT_MS * 1000);
        let at_ms = now_ms + rtt_us.map_or(TIMEOUT_MS, |us| u64::from(us) / 1000);
        probe.best_us = probe.best_us.into_iter().chain(rtt_us).min();
        probe.tried += 1;
        self.agenda.plan(at_ms, What::Sent(probe));
    }

    fn sent(&mut self, probe: Probe) {
        let Probe { by, node: number, point, end, tried, best_us } = probe;
        let most =
            if best_us.is_some() { self.options.tries } else { self.options.tries * self.options.methods };
        let Some(node) = self.nodes.get_mut(number) else { return };
        node.in_flight -= 1;
        if tried < most.max(1) {
            let at_ms = node.slot(self.now_ms, &self.options);
            self.agenda.plan(at_ms, What::Send(probe));
            return;
        }
        node.note(end, point, best_us.is_some());
        self.span.answered += u64::from(best_us.is_some());
        self.observe(number, end, point, best_us, Source::Icmp);
        if best_us.is_none() && by != number {
            self.agenda.plan(self.now_ms + self.options.claim_ms, What::Silent { node: by, point, end });
        }
    }

    /// Probes one prefix after the other, all within ten minutes.
    fn sweep(&mut self, point: usize, next: usize) {
        let ends = self.world.ends.len();
        let each_ms = (self.options.proximity.probe_ms / ends.max(1) as u64).max(1);
        let at_once = (ends as u64).div_ceil(self.options.proximity.probe_ms / each_ms).max(1) as usize;
        for i in 0..at_once {
            let end = EndId(((next + i) % ends.max(1)) as u32);
            if self.world.end(end).is_anycast {
                continue;
            }
            self.span.probes += 1;
            self.span.packets += 1;
            if self.world.end(end).answers_probes
                && let Some(us) = self.measure(end, point)
            {
                self.span.answered += 1;
                self.observe(0, end, point, Some(us), Source::Icmp);
            }
        }
        let next = (next + at_once) % ends.max(1);
        self.agenda.plan(self.now_ms + each_ms, What::Sweep { point, next });
    }

    /// States as they are, and, a little later, as nodes know them.
    fn stand(&mut self) {
        let now_ms = self.now_ms;
        self.agenda.plan(now_ms + STAND_MS, What::Stand);
        let world = self.world;
        self.is_up = (0..world.points.len()).map(|p| world.is_up(p, now_ms)).collect();
        let seen_ms = now_ms.saturating_sub(self.options.detect_ms);
        let known: Vec<bool> = (0..world.points.len()).map(|p| world.is_up(p, seen_ms)).collect();
        let mut loads = self.loads.clone();
        for (p, point) in world.points.iter().enumerate() {
            let load = self.by_point.get(p).copied().unwrap_or(0.0);
            self.load_sum += load;
            let Some(capacity) = point.capacity else { continue };
            self.over += (load - capacity).max(0.0);
            self.peak = self.peak.max(load / capacity);
            if let Some(share) = loads.get_mut(p) {
                *share = Some((load / capacity) as f32);
            }
        }
        let is_other = known != self.known_up;
        if is_other {
            self.stirred_ms = now_ms;
        }
        let is_told = loads != self.loads && now_ms.is_multiple_of(LOADS_MS);
        if is_other || is_told {
            self.view = self.believed.view(&known, &loads);
            self.known_up = known;
            self.loads = loads;
        }
    }

    fn finish(mut self) -> Outcome {
        self.spans.push(self.span);
        let wavered = self.wavered.iter().filter(|it| **it).count();
        Outcome {
            strategy: self.options.strategy,
            spans: self.spans,
            wavering: wavered as f64 / self.world.prefixes.max(1) as f64,
            overload: if self.load_sum > 0.0 { self.over / self.load_sum } else { 0.0 },
            peak: self.peak,
        }
    }
}

/// A waiting time of this mean.
fn exponential(rng: &mut Rng, mean_ms: f64) -> u64 {
    // what is beyond a year never happens
    (-(1.0 - rng.f64()).ln() * mean_ms).min(3.2e10) as u64
}
