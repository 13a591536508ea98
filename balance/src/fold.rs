//! Narrows a service's candidates for a class of clients.
//!
//! Each step is an AND of ready sets, so a row is made per query and never stored: services × classes rows
//! would cost more memory and cache than the few nanoseconds they save.

use crate::ask::{Ask, Dice};
use crate::nets::Leaf;
use crate::policy::{AclAction, Fallback, Policy, Step};
use crate::proximity::choose::{self, Explore, Found, Missed, Told};
use crate::proximity::{Band, PointId, ranks};
use crate::set::{CandidateId, CandidateSet};
use crate::trace::{By, Change, Event, FellThrough, StepName, Trace};
use crate::view::{Service, View};
use crate::{Outcome, nets};

/// What is left for a class of clients; also the scratch of a decision.
#[derive(Clone, Debug)]
pub struct Row {
    /// Candidates the last step chooses from. Not empty unless `ended`.
    pub set: CandidateSet,
    /// What was left where `persist` stands in the list of steps.
    pub persist_set: CandidateSet,
    /// The answer, where no candidate is to be chosen.
    pub ended: Option<Outcome>,
    /// Whether the fallback had to answer.
    pub is_fallback: bool,
    /// Whether the steps asked for measured distance and the client's own prefix has none.
    pub is_unmeasured: bool,
    /// Longest scope of the dimensions consulted.
    pub scope: u8,
    /// The candidates chosen, in answering order.
    pub picks: Vec<CandidateId>,
}

impl Default for Row {
    fn default() -> Self {
        Self {
            set: CandidateSet::EMPTY,
            persist_set: CandidateSet::EMPTY,
            ended: None,
            is_fallback: false,
            is_unmeasured: false,
            scope: 0,
            picks: Vec::with_capacity(crate::set::MAX_CANDIDATES),
        }
    }
}

/// Folds the service asked for into `row`, for the client's class and prefix. Of the dice only measured distance
/// makes use, where it explores.
///
/// An unknown service folds to [`Outcome::ServFail`].
pub fn fold(view: &View, ask: &Ask<'_>, dice: Dice, row: &mut Row, trace: &mut impl Trace) {
    let leaf = ask.leaf;
    row.picks.clear();
    row.ended = None;
    row.is_fallback = false;
    row.is_unmeasured = false;
    row.scope = 0;
    let Some(service) = view.service(ask.service) else {
        row.ended = Some(Outcome::ServFail);
        return;
    };
    let policy = &*service.policy;
    row.scope = scope_of(policy, leaf);
    let class = view.classes.get(leaf.class.0 as usize).copied().unwrap_or_default();
    if trace.is_on() {
        trace.event(Event::Began {
            all: CandidateSet::first_n(policy.candidates.len()),
            usable: service.standing.usable,
        });
    }

    let Some(base) = base(service, &class, row, trace) else { return };
    row.persist_set = base;
    row.set = narrow(view, ask, dice, service, &class, base, row, trace);
}

/// T2: the scope is the longest over all dimensions looked at, also by steps that had nothing to say.
fn scope_of(policy: &Policy, leaf: Leaf) -> u8 {
    let mut scope = 0;
    for (dim, consulted) in policy.consulted.iter().enumerate() {
        if *consulted {
            scope = scope.max(leaf.scope[dim]);
        }
    }
    scope
}

/// The set the steps begin with: usable, or what the fallback leaves; within an `only` rule; of the first
/// tier that has enough.
fn base(
    service: &Service,
    class: &[u32; nets::DIMS],
    row: &mut Row,
    trace: &mut impl Trace,
) -> Option<CandidateSet> {
    let policy = &*service.policy;
    let standing = &service.standing;
    let mut only = None;
    for step in &policy.steps {
        let Step::Acl(table) = step else { continue };
        let Some((position, rule)) = acl_rule(table, class) else { continue };
        match rule.action {
            AclAction::Refuse => {
                if trace.is_on() {
                    trace.event(Event::Refused { rule: position });
                }
                row.ended = Some(Outcome::Refused);
                return None;
            }
            AclAction::Only => only = Some((position, rule.members)),
            AclAction::Prefer | AclAction::Avoid => {}
        }
    }

    let within = |set: CandidateSet| only.map_or(set, |(_, members)| set.and(&members));
    let mut set = within(standing.usable);
    if let Some((position, _)) = only
        && trace.is_on()
    {
        let set = Change { before: standing.usable, after: set };
        trace.event(Event::Kept { step: StepName::Acl, set, by: By::Rule(position) });
    }
    if set.is_empty() {
        set = within(standing.last_resort);
        row.is_fallback = true;
        if trace.is_on() {
            trace.event(Event::FellBack { set });
        }
        if set.is_empty() {
            row.ended = Some(match policy.fallback {
                Fallback::Fixed => Outcome::Fixed,
                Fallback::ServFail => Outcome::ServFail,
                Fallback::Refuse => Outcome::Refused,
                // `all` with nothing to choose from: an `only` rule without members of this address family
                Fallback::NoData | Fallback::All => Outcome::NoData,
            });
            return None;
        }
    }
    if policy.tiers.len() > 1 {
        set = first_tier(policy, set, trace);
    }
    Some(set)
}

/// T4: the first tier with at least `minimum` of the set; where none has, all of the set.
fn first_tier(policy: &Policy, set: CandidateSet, trace: &mut impl Trace) -> CandidateSet {
    for (tier, members) in &policy.tiers {
        let after = set.and(members);
        if after.len() >= usize::from(policy.minimum.max(1)) {
            if trace.is_on() {
                trace.event(Event::Tier { tier: *tier, set: Change { before: set, after } });
            }
            return after;
        }
    }
    if trace.is_on() {
        trace.event(Event::NoTier);
    }
    set
}

fn acl_rule<'a>(
    table: &'a crate::policy::AclTable,
    class: &[u32; nets::DIMS],
) -> Option<(u16, &'a crate::policy::AclRule)> {
    let position = *table.rule_of.get(class[nets::Dim::Acl as usize] as usize)?;
    table.rules.get(usize::from(position)).map(|rule| (position, rule))
}

/// What the step of measured distance sees.
struct Asked<'a> {
    view: &'a View,
    ask: &'a Ask<'a>,
    dice: Dice,
    service: &'a Service,
    class: &'a [u32; nets::DIMS],
}

/// Runs the steps in their order; `set` is never left empty.
#[allow(
    clippy::too_many_arguments,
    reason = "a struct of them would be written to memory with every decision"
)]
#[inline]
fn narrow(
    view: &View,
    ask: &Ask<'_>,
    dice: Dice,
    service: &Service,
    class: &[u32; nets::DIMS],
    mut set: CandidateSet,
    row: &mut Row,
    trace: &mut impl Trace,
) -> CandidateSet {
    for step in &service.policy.steps {
        let (name, wanted, by) = match step {
            Step::Persist => {
                row.persist_set = set;
                continue;
            }
            Step::Acl(table) => match acl_rule(table, class) {
                Some((position, rule)) => match rule.action {
                    AclAction::Prefer => (StepName::Acl, Ok(set.and(&rule.members)), By::Rule(position)),
                    AclAction::Avoid => (StepName::Acl, Ok(set.minus(&rule.members)), By::Rule(position)),
                    AclAction::Only | AclAction::Refuse => continue, // applied in `base`
                },
                None => (StepName::Acl, Err(FellThrough::Unknown), By::Nothing),
            },
            Step::Proximity { members_at, band } => {
                let asked = Asked { view, ask, dice, service, class };
                let (wanted, by) = by_distance(&asked, members_at, band, &set, row, trace);
                (StepName::Proximity, wanted, by)
            }
            Step::Isp(table) => {
                let operators = class[nets::Dim::Isp as usize];
                match table.members_of.get(operators as usize) {
                    Some(members) if operators != 0 => {
                        (StepName::Isp, Ok(set.and(members)), By::Operators(operators))
                    }
                    Some(_) | None => (StepName::Isp, Err(FellThrough::Unknown), By::Nothing),
                }
            }
            Step::Geo { table, members_at, skip_first } => {
                let (wanted, by) = by_place(table, members_at, *skip_first, class, &set);
                (StepName::Geo, wanted, by)
            }
            Step::Load => (StepName::Load, Ok(set.and(&service.standing.below_threshold)), By::Nothing),
        };
        match wanted {
            Ok(after) if !after.is_empty() => {
                if trace.is_on() {
                    trace.event(Event::Kept { step: name, set: Change { before: set, after }, by });
                }
                set = after;
            }
            Ok(_) if trace.is_on() => {
                trace.event(Event::FellThrough { step: name, because: FellThrough::WouldEmpty, by });
            }
            Err(because) if trace.is_on() => trace.event(Event::FellThrough { step: name, because, by }),
            Ok(_) | Err(_) => {}
        }
    }
    set
}

/// The candidates near the best one, by the row of the client's prefix or of what stands for it. Apart, so that other
/// services' decisions keep their registers.
#[inline(never)]
fn by_distance(
    asked: &Asked<'_>,
    members_at: &[(PointId, CandidateSet)],
    band: &Band,
    set: &CandidateSet,
    row: &mut Row,
    trace: &mut impl Trace,
) -> (Result<CandidateSet, FellThrough>, By) {
    let Asked { view, ask, dice, service, class } = *asked;
    let operators = class[nets::Dim::Isp as usize];
    let looked = view.proximity.find(ask.client.address, ask.client.prefix, operators);
    // T2: where nothing was found, that holds for so much of the network only
    row.scope = row.scope.max(looked.scope);
    row.is_unmeasured = looked.row.as_ref().is_none_or(ranks::Row::is_unmeasured);
    let Some(ranked) = looked.row else {
        if trace.is_on() {
            not_ranked(asked, Missed::NoRow, trace);
        }
        return (Err(FellThrough::NotMeasured), By::Nothing);
    };
    if trace.is_on() {
        let row = Told::new(&ranked, ask.client.address, ask.now_s);
        let scores = choose::scores(&ranked, members_at, set, ask.now_s);
        trace.event(Event::Ranked { row, scores });
    }
    // a client that stays with its candidate would stay with one that was only tried
    let explore = match service.policy.persist {
        None => Explore::by_dice(band, dice.entropy, ask.now_s, &service.standing.below_threshold),
        Some(_) => None,
    };
    let (found, by) = choose::choose(&ranked, members_at, band, set, explore);
    match found {
        Found::Kept(kept) => (Ok(kept), by),
        Found::Explored(tried) => {
            if trace.is_on() {
                trace.event(Event::Explored { set: Change { before: *set, after: tried } });
            }
            (Ok(tried), By::Nothing)
        }
        Found::Missed(because) => {
            if trace.is_on() {
                not_ranked(asked, because, trace);
            }
            (Err(FellThrough::NotMeasured), By::Nothing)
        }
    }
}

#[cold]
fn not_ranked(asked: &Asked<'_>, because: Missed, trace: &mut impl Trace) {
    let prefix = asked.view.proximity.key(asked.ask.client.address);
    trace.event(Event::NotRanked { prefix, because });
}

/// The best group of sites that has a candidate in `set`.
fn by_place(
    table: &crate::policy::GeoTable,
    members_at: &[CandidateSet],
    skip_first: bool,
    class: &[u32; nets::DIMS],
    set: &CandidateSet,
) -> (Result<CandidateSet, FellThrough>, By) {
    let place = class[nets::Dim::Geo as usize] as usize;
    let Some((position, ranking)) = table
        .ranking_of
        .get(place)
        .and_then(|&position| table.rankings.get(position as usize).map(|ranking| (position, ranking)))
    else {
        return (Err(FellThrough::Unknown), By::Nothing);
    };
    let mut first = None;
    for (number, group) in ranking.groups.iter().enumerate() {
        let mut at_group = CandidateSet::EMPTY;
        for site in group {
            if let Some(members) = members_at.get(usize::from(site.0)) {
                at_group = at_group.or(&set.and(members));
            }
        }
        if at_group.is_empty() {
            continue;
        }
        let by = By::Ranking(position, number as u16);
        // G10: the second best; with a single site the flag has no effect
        if skip_first && first.is_none() {
            first = Some((Ok(at_group), by));
            continue;
        }
        return (Ok(at_group), by);
    }
    first.unwrap_or((Ok(CandidateSet::EMPTY), By::Ranking(position, 0)))
}
