//! Addresses of the names an answer points at, decided like any other and put into the additional section (WP-IB 1.8).
//!
//! A mail server's name that is a service gets the addresses that this client would get if it asked for them, so a
//! reply to MX, SRV or HTTPS may depend on the client though its answer does not. The scope then says so (RFC 7871 7.2.1):
//! it covers each decision made for the reply, unless its service does not go by subnets (`ecs = false`). Case E10
//! (scope 0 at a name with a dynamic target) holds for NS, to whose targets nothing chosen is added, and for every reply
//! in which nothing was decided.
//!
//! What does not fit is left out and no reason to truncate (RFC 2181 9).

use super::{Question, distinct, scope_of, ttl_of};
use crate::catalog::{Entry, LaneData, NONE, TARGETS_MAX};
use crate::respond::choose::Choose;
use crate::rrtype::RrType;
use crate::wire::write::Writer;
use portolan_balance::{CandidateId, CandidateSet, Outcome, Row};

/// Whose targets are looked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Targets<'q> {
    /// An RRset's. Static addresses are in its section already.
    Entry(&'q Entry),
    /// Those of the members of a lane that were picked.
    Picks(&'q LaneData),
}

/// Adds the addresses of the targets of an answer that was written from `start` on; returns the scope of the decisions.
#[cold]
#[inline(never)]
pub(super) fn write<C: Choose>(
    question: &Question<'_>,
    targets: Targets<'_>,
    start: usize,
    writer: &mut Writer<'_>,
    row: &mut Row,
    choose: &mut C,
) -> u8 {
    let mut additional = Additional { question, writer, row, choose, scope: 0 };
    match targets {
        Targets::Entry(entry) => additional.of_entry(entry, start),
        Targets::Picks(lane) => additional.of_picks(lane, start),
    }
    additional.scope
}

struct Additional<'q, 'w, 'b, C> {
    question: &'q Question<'q>,
    writer: &'w mut Writer<'b>,
    row: &'w mut Row,
    choose: &'w mut C,
    scope: u8,
}

impl<C: Choose> Additional<'_, '_, '_, C> {
    fn of_entry(&mut self, entry: &Entry, start: usize) {
        let first = entry.targets as usize;
        let all = first..first + usize::from(entry.target_count);
        for target in self.question.catalog.targets.get(all).unwrap_or_default() {
            self.addresses(target.node, start + usize::from(target.at), false);
        }
    }

    fn of_picks(&mut self, lane: &LaneData, start: usize) {
        let targets = self.question.catalog.targets.get(lane.targets as usize..).unwrap_or_default();
        // the next decision overwrites the picks
        let mut found = [(NONE, 0); TARGETS_MAX];
        let mut places = found.iter_mut();
        let mut seen = CandidateSet::EMPTY;
        let mut record = start;
        for (id, member) in distinct(lane, &self.row.picks) {
            let at = record;
            record += 2 + usize::from(member.len);
            let Some(target) = targets.get(id).filter(|target| target.node != NONE) else { continue };
            let same_as = CandidateId(target.same_as);
            if seen.contains(same_as) {
                continue;
            }
            seen.insert(same_as);
            let Some(place) = places.next() else { break };
            *place = (target.node, at + usize::from(target.at));
        }
        for (node, name_at) in found {
            self.addresses(node, name_at, true);
        }
    }

    /// The addresses of the name at `name_at`, which `node` answers.
    fn addresses(&mut self, node: u32, name_at: usize, with_static: bool) {
        let catalog = self.question.catalog;
        let Some(node) = catalog.node(node) else { return };
        let Some(owner) = self.writer.pointer_to(name_at) else { return };
        for (rtype, len) in [(RrType::A, 2 + 10 + 4), (RrType::AAAA, 2 + 10 + 16)] {
            let lane = catalog.lane_for(node, rtype).filter(|lane| lane.rtype == rtype);
            let mark = self.writer.mark();
            let fits = if let Some(lane) = lane {
                self.decided(lane, owner)
            } else if with_static
                && let Some(entry) = catalog.entries_of(node).iter().find(|entry| entry.rtype == rtype)
            {
                let mut records = entry.section.answer(&catalog.pool).chunks_exact(len);
                records
                    .all(|record| record.get(2..).is_some_and(|it| self.writer.additional(owner, it, None)))
            } else {
                true
            };
            if !fits {
                // an RRset is there as a whole or not at all
                self.writer.rewind(mark);
            }
        }
    }

    /// The addresses that a lane decides on, if it has any for this client; returns whether they fit.
    fn decided(&mut self, lane: &LaneData, owner: u16) -> bool {
        let question = self.question;
        let pool = &question.catalog.pool;
        let decision = self.choose.decide_beside(question.view, lane, &question.who, self.row);
        self.scope = self.scope.max(scope_of(lane, question, &decision));
        match decision.outcome {
            Outcome::Chosen => {
                let ttl = ttl_of(lane, &decision);
                distinct(lane, &self.row.picks).all(|(_, member)| {
                    self.writer.additional(owner, pool.stored(member.at, member.len), Some(ttl))
                })
            }
            Outcome::Fixed => {
                let mut first = lane.fixed.iter().enumerate().filter(|(i, it)| usize::from(it.same_as) == *i);
                first.all(|(_, member)| {
                    self.writer.additional(owner, pool.stored(member.at, member.len), None)
                })
            }
            // a hint is not the place for a failure
            Outcome::NoData | Outcome::ServFail | Outcome::Refused => true,
        }
    }
}
