//! The whole decision: fold, persistence, scheduler.

use crate::ask::{Ask, Dice};
use crate::fold::{Row, fold};
use crate::persist;
use crate::policy::Persist;
use crate::schedule;
use crate::set::CandidateId;
use crate::trace::{Event, Trace};
use crate::view::{Service, View};

/// What a decision came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The candidates in [`Row::picks`], in the order to answer them.
    Chosen,
    /// The fixed records of the service ([`crate::Fallback::Fixed`]).
    Fixed,
    /// No data of this type.
    NoData,
    /// A server failure.
    ServFail,
    /// Refused: by an ACL rule or by the fallback.
    Refused,
}

/// The choice, how long it holds, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What to answer with.
    pub outcome: Outcome,
    /// Seconds the answer may be kept.
    pub ttl_s: u32,
    /// Length of the largest prefix over which the whole decision is the same (T2); at most the client's.
    pub scope: u8,
    /// Whether the service's fallback had to answer.
    pub is_fallback: bool,
    /// Whether the steps asked for measured distance and the client's own prefix has none: it is worth measuring.
    pub is_unmeasured: bool,
}

/// Decides `ask` by `view`: [`fold`], then [`pick`]. The picks are left in `row`, a scratch that is used again and
/// again.
///
/// An unknown service decides to [`Outcome::ServFail`].
pub fn decide(view: &View, ask: &Ask<'_>, dice: Dice, row: &mut Row, trace: &mut impl Trace) -> Decision {
    let Some(service) = view.service(ask.service) else {
        return Decision {
            outcome: Outcome::ServFail,
            ttl_s: 0,
            scope: 0,
            is_fallback: false,
            is_unmeasured: false,
        };
    };
    fold(view, ask, dice, row, trace);
    pick(service, ask, dice, row, trace)
}

/// Chooses from what [`fold`] left in `row`: a remembered choice, or the last step's.
pub fn pick(service: &Service, ask: &Ask<'_>, dice: Dice, row: &mut Row, trace: &mut impl Trace) -> Decision {
    let policy = &*service.policy;
    let mut scope = row.scope;
    if let Some(outcome) = row.ended {
        return end(policy.ttl_s, scope, ask, outcome, row);
    }
    // WP-C3: a remembered choice skips the steps behind `persist` while it is in what was left there
    if let Some(Persist::Table { v4, v6, table, .. }) = &policy.persist {
        let (prefix, len) = ask.client.cut(*v4, *v6);
        scope = scope.max(len);
        if let Some(id) = persist::recall(table, policy, prefix, ask.now_s, &row.persist_set) {
            if trace.is_on() {
                trace.event(Event::Remembered { id });
            }
            row.picks.clear();
            row.picks.push(id);
            return end(policy.ttl_s, scope, ask, Outcome::Chosen, row);
        }
    }
    scope = scope.max(schedule::pick(policy, &service.standing, ask, dice, row, trace));
    end(policy.ttl_s, scope, ask, Outcome::Chosen, row)
}

fn end(ttl_s: u32, scope: u8, ask: &Ask<'_>, outcome: Outcome, row: &Row) -> Decision {
    let Row { is_fallback, is_unmeasured, .. } = *row;
    Decision { outcome, ttl_s, scope: scope.min(ask.client.prefix), is_fallback, is_unmeasured }
}

/// Notes a decision for [`Persist::Table`]; the caller calls it after it answered, `explain` never does.
pub fn remember(view: &View, ask: &Ask<'_>, row: &Row) {
    let Some(service) = view.service(ask.service) else { return };
    let (Some(Persist::Table { v4, v6, ttl_s, table }), Some(&CandidateId(first))) =
        (&service.policy.persist, row.picks.first())
    else {
        return;
    };
    let (prefix, _) = ask.client.cut(*v4, *v6);
    if let Some(candidate) = service.policy.candidates.get(usize::from(first)) {
        table.put(
            persist::entry_key(&service.policy, prefix),
            candidate.key,
            ask.now_s.saturating_add(*ttl_s),
        );
    }
}
