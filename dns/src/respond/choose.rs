//! Where a lane's decision comes from: live dice on the query path, given dice and a recording trace in `explain`.

use super::stats::WorkerStats;
use crate::catalog::LaneData;
use portolan_balance::decide::remember;
use portolan_balance::nets::Leaf;
use portolan_balance::{Ask, Client, Decision, Dice, Event, Row, ServiceId, Silent, Trace, View, decide};
use std::net::{IpAddr, SocketAddr};

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Who {
    /// Source of the packet.
    pub(crate) source: SocketAddr,
    /// The client subnet, where there is one to go by.
    pub(crate) subnet: Option<(IpAddr, u8)>,
    /// What the prefix tables say of the client for the lane of this service, where that was looked up ahead.
    pub(crate) known: Option<(ServiceId, Leaf)>,
    /// Monotonic seconds.
    pub(crate) now_s: u32,
}

impl Who {
    /// The subnet, where the lane goes by it.
    #[inline]
    fn subnet(&self, lane: &LaneData) -> Option<(IpAddr, u8)> {
        self.subnet.filter(|_| lane.ecs)
    }

    /// The address the lane goes by.
    #[inline]
    fn address(&self, lane: &LaneData) -> IpAddr {
        self.subnet(lane).map_or_else(|| self.source.ip(), |(address, _)| address)
    }
}

/// Decides for a lane.
pub(crate) trait Choose {
    /// For the answer.
    fn decide(&mut self, view: &View, lane: &LaneData, who: &Who, row: &mut Row) -> Decision;

    /// The same for what goes beside the answer, apart from the hot path.
    fn decide_beside(&mut self, view: &View, lane: &LaneData, who: &Who, row: &mut Row) -> Decision {
        self.decide(view, lane, who, row)
    }
}

/// Asks the processor to load what a decision of this lane begins with.
#[inline]
pub(crate) fn prefetch(view: &View, lane: &LaneData) {
    prefetch_whole(lane);
    if let Some(service) = view.service(lane.service) {
        prefetch_whole(service);
    }
}

/// What the prefix tables say of the client: by subnet where that may be used, else by source (cases E04, E12, E13).
/// What the decision reads next is loaded meanwhile.
#[inline]
pub(crate) fn look_up_ahead(view: &View, lane: &LaneData, who: &Who) -> Leaf {
    if let Some(service) = view.service(lane.service) {
        let policy = &*service.policy;
        prefetch_whole(policy);
        if let Some(weight) = service.standing.weights.first() {
            crate::wire::prefetch(weight);
        }
        if service.standing.has_proximity {
            view.proximity.prefetch(&who.address(lane));
        }
    }
    if let Some(member) = lane.members.first() {
        crate::wire::prefetch(member);
    }
    let leaf = look_up(view, lane, who);
    if let Some(class) = view.classes.get(leaf.class.0 as usize) {
        crate::wire::prefetch(class);
    }
    leaf
}

/// The same for the row of measured distances, which a step of its own finds.
#[inline]
pub(crate) fn prefetch_distances(view: &View, service: ServiceId, client: &IpAddr) {
    if view.service(service).is_some_and(|service| service.standing.has_proximity) {
        view.proximity.prefetch_row(client);
    }
}

/// Every cache line of a value.
#[inline]
fn prefetch_whole<T>(value: &T) {
    crate::wire::prefetch_lines(value, size_of::<T>());
}

// what this and `ask` return is too wide to pass by a call
#[inline(always)]
fn look_up(view: &View, lane: &LaneData, who: &Who) -> Leaf {
    let service = view.service(lane.service);
    match who.subnet(lane) {
        Some((address, prefix)) => {
            let consulted = service.map(|service| service.policy.consulted).unwrap_or_default();
            view.nets.lookup_prefix(address, prefix, consulted)
        }
        None => view.nets.lookup(who.source.ip()),
    }
}

#[inline(always)]
fn ask(view: &View, lane: &LaneData, who: &Who) -> Ask<'static> {
    let leaf = match who.known {
        Some((service, leaf)) if service == lane.service => leaf,
        _ => look_up(view, lane, who),
    };
    let client = match who.subnet(lane) {
        Some((address, prefix)) => Client { address, prefix, port: who.source.port() },
        None => Client::whole(who.source.ip(), who.source.port()),
    };
    Ask { service: lane.service, client, leaf, destination: None, payload: &[], now_s: who.now_s }
}

/// The query path.
pub(crate) struct Live<'a> {
    pub(crate) random: &'a mut Random,
    /// The entropy of the query's last decision.
    pub(crate) last: Option<u64>,
    pub(crate) stats: &'a WorkerStats,
}

impl Live<'_> {
    #[inline(always)]
    fn decided(
        &mut self,
        view: &View,
        lane: &LaneData,
        who: &Who,
        row: &mut Row,
        trace: &mut impl Trace,
    ) -> Decision {
        let ask = ask(view, lane, who);
        // what follows the first decision of a query follows from its entropy, so that `explain` can repeat them all
        let entropy = self.last.map_or_else(|| self.random.next(), following);
        self.last = Some(entropy);
        let dice = Dice { entropy, turn: view.turns.next(lane.service) };
        let decision = decide(view, &ask, dice, row, trace);
        remember(view, &ask, row);
        self.stats.dynamic.add_one();
        if who.subnet(lane).is_some() {
            self.stats.ecs_used.add_one();
        }
        if decision.is_fallback {
            self.stats.fallback.add_one();
        }
        decision
    }
}

impl Choose for Live<'_> {
    #[inline]
    fn decide(&mut self, view: &View, lane: &LaneData, who: &Who, row: &mut Row) -> Decision {
        self.decided(view, lane, who, row, &mut Silent)
    }

    #[cold]
    #[inline(never)]
    fn decide_beside(&mut self, view: &View, lane: &LaneData, who: &Who, row: &mut Row) -> Decision {
        self.decided(view, lane, who, row, &mut Aside)
    }
}

/// Nobody listens. As a type of its own it keeps `decide` for [`Silent`] at one caller, so that it is inlined there.
struct Aside;

impl Trace for Aside {
    fn is_on(&self) -> bool {
        false
    }
    fn event(&mut self, _: Event) {}
}

/// One decision that was made while explaining.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The service that decided.
    pub service: ServiceId,
    /// What it came to.
    pub decision: Decision,
    /// The dice it was made with.
    pub dice: Dice,
    /// The candidates chosen.
    pub picks: Vec<portolan_balance::CandidateId>,
    /// The client decided for.
    pub client: Client,
    /// What the prefix tables say of the client.
    pub leaf: Leaf,
    /// Why.
    pub trace: Vec<Event>,
}

/// `explain`: nothing is remembered, no turn is taken.
pub(crate) struct Recorded {
    /// `None` takes the service's next turn without using it up.
    pub(crate) turn: Option<u64>,
    /// Of the first decision.
    pub(crate) entropy: u64,
    pub(crate) decisions: Vec<Explained>,
}

impl Choose for Recorded {
    fn decide(&mut self, view: &View, lane: &LaneData, who: &Who, row: &mut Row) -> Decision {
        let ask = ask(view, lane, who);
        let turn = self.turn.unwrap_or_else(|| view.turns.peek(lane.service));
        let before = self.decisions.iter().filter(|before| before.service == lane.service).count();
        let entropy = self.decisions.last().map_or(self.entropy, |last| following(last.dice.entropy));
        let dice = Dice { entropy, turn: turn.wrapping_add(before as u64) };
        let mut trace = Vec::new();
        let decision = decide(view, &ask, dice, row, &mut trace);
        self.decisions.push(Explained {
            service: lane.service,
            decision,
            dice,
            picks: row.picks.clone(),
            client: ask.client,
            leaf: ask.leaf,
            trace,
        });
        decision
    }
}

/// The entropy of the decision after one with this.
#[inline]
fn following(entropy: u64) -> u64 {
    Random(entropy).next()
}

/// Random bits for dice: small and quick; nothing secret depends on them.
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        // SplitMix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
