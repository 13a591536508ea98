//! One query: which node gets it, what it decides, what that is worth, and what is learned by it.

use super::{Settled, Sim, Strategy, What, exponential};
use crate::world::{Asker, EndId, World};
use portolan_balance::proximity::Source;
use portolan_balance::{Ask, Client, Dice, Outcome, ServiceId, Silent, decide};

/// A change to a site that is nearer by more than this has its cause in that.
const BETTER_MS: f32 = 5.0;
/// How long an ASK is on its way.
const ASK_MS: u64 = 50;

impl Sim<'_> {
    pub(super) fn query(&mut self, number: u32) {
        let world = self.world;
        let Some(asker) = world.askers.get(number as usize) else { return };
        // the cache asks again when it has forgotten and somebody wants to know
        let gap_ms = exponential(&mut self.rng, 1000.0 / asker.rate);
        let next_ms = self.now_ms + u64::from(world.ttl_s) * 1000 + gap_ms;
        self.agenda.plan(next_ms, What::Query { asker: number });
        let Some(server) = self.name_server(asker.source) else { return };
        let node = self.node_of(server);
        let (settled, chosen, is_unmeasured) = self.decide(node, asker);
        self.span.queries += 1;
        self.span.unmeasured += u64::from(is_unmeasured);
        self.span.explored += u64::from(settled != chosen);
        if let Some(point) = chosen {
            self.judge(asker, usize::from(point));
        }
        self.note_change(number as usize, asker, settled);
        self.move_load(number as usize, asker.rate, chosen);
        if self.options.strategy == Strategy::Portolan {
            self.learn(node, server, asker, chosen, is_unmeasured);
        }
    }

    /// The name server that the resolver asks: the nearest, or any. Every point has one.
    fn name_server(&mut self, source: EndId) -> Option<usize> {
        let up = || self.is_up.iter().enumerate().filter(|(_, up)| **up).map(|(point, _)| point);
        if self.rng.f64() < self.world.nearest_server {
            let rtt = |point: &usize| self.world.rtt_ms(source, *point, self.now_ms);
            return up().min_by(|a, b| rtt(a).total_cmp(&rtt(b)));
        }
        let count = up().count();
        let number = self.rng.usize(0..count.max(1));
        up().nth(number)
    }

    /// Decides twice: without exploring, and as the answer is given.
    fn decide(&mut self, node: usize, asker: &Asker) -> (Option<u16>, Option<u16>, bool) {
        let world = self.world;
        let client = client(world, asker);
        let consulted =
            self.view.service(ServiceId(0)).map(|service| service.policy.consulted()).unwrap_or_default();
        let leaf = if asker.subnet.is_some() {
            self.view.nets.lookup_prefix(client.address, client.prefix, consulted)
        } else {
            self.view.nets.lookup(client.address)
        };
        if let Some(node) = self.nodes.get(node) {
            self.view.proximity = node.ranks.clone();
        }
        self.turns += 1;
        let dice = Dice { entropy: self.rng.u64(..), turn: self.turns };
        let mut is_unmeasured = false;
        let mut choose = |service: u32| {
            let ask = Ask {
                service: ServiceId(service),
                client,
                leaf,
                destination: None,
                payload: &[],
                now_s: (self.now_ms / 1000) as u32,
            };
            let decision = decide(&self.view, &ask, dice, &mut self.row, &mut Silent);
            is_unmeasured = decision.is_unmeasured;
            let is_chosen = decision.outcome == Outcome::Chosen;
            self.row.picks.first().filter(|_| is_chosen).map(|id| u16::from(id.0))
        };
        let chosen = choose(0);
        let settled = if self.options.strategy.measures() { choose(1) } else { chosen };
        (settled, chosen, is_unmeasured)
    }

    fn judge(&mut self, asker: &Asker, point: usize) {
        // the answer serves those who ask while it is kept
        let lookups = 1.0 + asker.rate * f64::from(self.world.ttl_s);
        for (end, rate) in &asker.clients {
            let share = rate / asker.rate;
            if !self.is_up.get(point).copied().unwrap_or(false) {
                self.span.failed += share * lookups;
                continue;
            }
            let Some(best) = self.world.best_ms(*end, self.now_ms, &self.is_up) else { continue };
            let regret = f64::from((self.world.rtt_ms(*end, point, self.now_ms) - best).max(0.0));
            self.span.by_query.add(regret, share);
            self.span.by_lookup.add(regret, share * lookups);
        }
    }

    /// What a change of the settled site comes from.
    fn note_change(&mut self, number: usize, asker: &Asker, settled: Option<u16>) {
        let subject = asker.subnet.unwrap_or(asker.source);
        let known = self.known.get(subject.0 as usize).copied().unwrap_or_default();
        let Some(before) = self.settled.get_mut(number) else { return };
        let Settled { point: before, known: known_before } =
            std::mem::replace(before, Settled { point: settled, known });
        let (Some(before), Some(after)) = (before, settled) else { return };
        if before == after {
            return;
        }
        self.span.changes += 1;
        let quiet_ms = 2_000 * u64::from(self.world.ttl_s);
        let is_stirred = self.stirred_ms > 0 && self.now_ms - self.stirred_ms < quiet_ms;
        let Some((end, _)) = asker.clients.first() else { return };
        let rtt = |point: u16| self.world.rtt_ms(*end, usize::from(point), self.now_ms);
        let is_nearer = rtt(after) + BETTER_MS < rtt(before);
        let is_farther = rtt(before) + BETTER_MS < rtt(after);
        // something was learned, and it did not mislead
        let is_learned = known > known_before && !is_farther;
        if is_stirred || is_nearer || is_learned {
            return;
        }
        self.span.idle_changes += 1;
        self.span.worse_changes += u64::from(is_farther);
        for (end, _) in &asker.clients {
            if let Some(wavered) = self.wavered.get_mut(end.0 as usize) {
                *wavered = true;
            }
        }
    }

    fn move_load(&mut self, number: usize, rate: f64, chosen: Option<u16>) {
        let Some(cached) = self.cached.get_mut(number) else { return };
        let before = std::mem::replace(cached, chosen);
        for (point, change) in [(before, -rate), (chosen, rate)] {
            if let Some(load) = point.and_then(|point| self.by_point.get_mut(usize::from(point))) {
                *load += change;
            }
        }
    }

    /// What nodes can see of this query and of what follows it.
    fn learn(&mut self, node: usize, server: usize, asker: &Asker, chosen: Option<u16>, is_unmeasured: bool) {
        let world = self.world;
        if self.options.handshakes
            && let Some(point) = chosen.map(usize::from)
        {
            let client = self.some_client(asker);
            let rtt_us = self.measure(client, point);
            if rtt_us.is_some() {
                self.observe(self.node_of(point), client, point, rtt_us, Source::Handshake);
            }
        }
        let source = world.end(asker.source);
        let by_itself = self.rng.f64() < world.tcp;
        let Some(it) = self.nodes.get_mut(node) else { return };
        it.see(asker.source);
        it.table.queries(1);
        let permille = self.options.solicit_permille;
        let is_solicited = !by_itself
            && permille > 0
            && is_unmeasured
            && asker.subnet.is_none()
            && it.may_solicit(self.now_ms, asker.source, permille);
        self.span.solicited += u64::from(is_solicited);
        if (by_itself || is_solicited) && source.tcp {
            let kind = if is_solicited { Source::Solicited } else { Source::Resolver };
            let rtt_us = self.measure(asker.source, server);
            if rtt_us.is_some() {
                self.observe(node, asker.source, server, rtt_us, kind);
            }
        }
        if self.options.probes {
            self.want(node, asker);
        }
    }

    /// One of those for whom the cache asked.
    fn some_client(&mut self, asker: &Asker) -> EndId {
        let mut left = self.rng.f64() * asker.rate;
        for (end, rate) in &asker.clients {
            left -= rate;
            if left <= 0.0 {
                return *end;
            }
        }
        asker.clients.first().map_or(asker.source, |(end, _)| *end)
    }

    fn want(&mut self, node: usize, asker: &Asker) {
        let target = match asker.subnet {
            // whoever names a subnet could name a victim
            Some(_) if !asker.is_trusted => return,
            Some(subnet) => subnet,
            None => asker.source,
        };
        let address = self.world.end(target).address;
        let Some(it) = self.nodes.get_mut(node) else { return };
        if !it.has_earned(asker.source) {
            return;
        }
        let Some(wanted) = it.table.wanted(self.now_ms, address) else { return };
        for point in wanted.points {
            let point = usize::from(point.0);
            let other = self.node_of(point);
            let wait_ms = if other == node { 0 } else { ASK_MS };
            self.agenda
                .plan(self.now_ms + wait_ms, What::Asked { by: node, node: other, point, end: target });
        }
    }
}

/// Whom the decision is for.
fn client(world: &World, asker: &Asker) -> Client {
    match asker.subnet {
        Some(subnet) => {
            let end = world.end(subnet);
            let most = if end.network.is_ipv4() { 24 } else { 56 };
            Client { address: end.network, prefix: end.length.min(most), port: 0 }
        }
        None => Client::whole(world.end(asker.source).address, 5353),
    }
}
