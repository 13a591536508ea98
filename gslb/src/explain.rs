//! A decision told step by step, from the trace that the query path itself leaves.

use crate::clock;
use portolan_api::{ApiError, DiceUsed, Dropped, ExplainQuery, Explained, StepTaken, TableHit};
use portolan_balance::proximity::choose::Told;
use portolan_balance::proximity::ranks::Kind;
use portolan_balance::proximity::{Missed, Prefix, Score};
use portolan_balance::trace::{By, FellThrough};
use portolan_balance::{CandidateId, CandidateSet, Event, Outcome, Policy, Service, ServiceId, Step};
use portolan_dns::name::Name;
use portolan_dns::present::{Asked, explain_query, present};
use portolan_dns::respond::{self, Snapshot};
use portolan_dns::rrtype::RrType;
use std::net::IpAddr;

/// What explanations need beside the snapshot: what tables say, in words.
pub trait Tables {
    /// The lines that say where an address belongs.
    fn hits(&self, address: IpAddr) -> Vec<TableHit>;
    /// The operators of a value of the ISP dimension.
    fn operators(&self, value: u32) -> String;
}

/// What is known beside the snapshot, in words.
#[derive(Clone, Copy)]
pub struct Notes<'a> {
    /// Why a candidate is up or down.
    pub note: &'a dyn Fn(ServiceId, CandidateId) -> Option<String>,
    /// What becomes of a client that was never measured.
    pub next: &'a dyn Fn(IpAddr) -> Option<String>,
}

/// Answers a question the way the wire would, and says why.
pub fn explain(
    snapshot: &Snapshot,
    tables: &dyn Tables,
    degraded: Vec<String>,
    query: &ExplainQuery,
    notes: &Notes<'_>,
) -> Result<Explained, ApiError> {
    let name: Name = query.name.parse().map_err(|error| {
        ApiError::bad_request(
            format!("{:?} is no domain name: {error}", query.name),
            "write it like www.example.com",
        )
    })?;
    let rtype: RrType = query.rrtype.parse().map_err(|_| {
        let remedy = "write it like A, AAAA, MX or TYPE65";
        ApiError::bad_request(format!("{:?} is no record type", query.rrtype), remedy)
    })?;
    let ecs = query.ecs.as_deref().map(subnet).transpose()?;
    let entropy = query.entropy.unwrap_or_else(|| fastrand::u64(..));
    let asked =
        Asked { name: &name, rtype, client: query.from, ecs, entropy, turn: query.turn, now: clock::now() };
    let told = explain_query(snapshot, &asked);
    let shown = told.wire.as_deref().and_then(present);

    let first = told.decisions.first();
    let known = first.map_or((query.from, None), |decision| {
        let ecs = ecs.filter(|(address, _)| decision.client.address == address.to_canonical());
        (decision.client.address, ecs.map(|_| decision.client.prefix))
    });
    let client = match known {
        (address, Some(prefix)) => format!("ECS {address}/{prefix}"),
        (address, None) => format!("source {address}"),
    };
    let service_of = |decision: &respond::Explained| snapshot.view.service(decision.service);
    let mut steps = Vec::new();
    for decision in &told.decisions {
        let Some(service) = service_of(decision) else { continue };
        let (id, client) = (decision.service, decision.client.address);
        let mut narrator = Narrator { service, id, client, tables, notes, steps: Vec::new() };
        for event in &decision.trace {
            narrator.tell(event);
        }
        narrator.end(decision);
        steps.append(&mut narrator.steps);
    }
    if told.decisions.is_empty() {
        let text = match shown.as_ref().map(|shown| shown.rcode.as_str()) {
            Some("REFUSED") => "the name is in no zone that is served here",
            Some(_) | None => {
                "no service has this name and type: the zone's own records answer, alike for every client"
            }
        };
        steps.push(StepTaken { step: "zone".into(), text: text.into(), ..StepTaken::default() });
    }
    let (rcode, answer, records, ttl) = match shown {
        Some(shown) => (shown.rcode, shown.answer, shown.records, shown.ttl.unwrap_or(0)),
        None => ("none".into(), Vec::new(), Vec::new(), 0),
    };
    // without a client subnet in the query the answer carries no scope; the decision has one all the same
    let scope = told.wire.as_deref().and_then(present).and_then(|shown| shown.scope);
    let decided = told.decisions.iter().map(|decision| decision.decision.scope).max();
    Ok(Explained {
        name: name.to_string(),
        rrtype: rtype.to_string(),
        rcode,
        answer,
        records,
        scope: scope.or(decided).unwrap_or(0),
        ttl,
        service: first.and_then(service_of).map(|service| service.policy.name.clone()),
        client,
        steps,
        dice: first.map_or(DiceUsed { entropy, turn: query.turn.unwrap_or(0) }, |decision| DiceUsed {
            entropy: decision.dice.entropy,
            turn: decision.dice.turn,
        }),
        tables: tables.hits(known.0),
        claims: Vec::new(),
        degraded,
    })
}

fn subnet(text: &str) -> Result<(IpAddr, u8), ApiError> {
    let wrong =
        || ApiError::bad_request(format!("{text:?} is no client subnet"), "write it like 192.0.2.0/24");
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length.parse::<u8>().map_err(|_| wrong())?)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let length = length.unwrap_or(most);
    if length > most { Err(wrong()) } else { Ok((address, length)) }
}

/// Tells the events of one decision.
struct Narrator<'a> {
    service: &'a Service,
    id: ServiceId,
    tables: &'a dyn Tables,
    client: IpAddr,
    notes: &'a Notes<'a>,
    steps: Vec<StepTaken>,
}

impl Narrator<'_> {
    fn policy(&self) -> &Policy {
        &self.service.policy
    }

    fn names(&self, set: &CandidateSet) -> Vec<String> {
        set.iter().map(|id| self.name(id)).collect()
    }

    fn name(&self, id: CandidateId) -> String {
        let candidate = self.policy().candidates.get(usize::from(id.0));
        candidate.map_or_else(|| format!("candidate {}", id.0), |candidate| candidate.name.clone())
    }

    fn dropped(&self, before: &CandidateSet, after: &CandidateSet, why: &str) -> Vec<Dropped> {
        let gone = before.minus(after);
        gone.iter().map(|id| Dropped { member: self.name(id), why: why.into() }).collect()
    }

    fn push(&mut self, step: &str, text: String, kept: Vec<String>, dropped: Vec<Dropped>) {
        self.steps.push(StepTaken { step: step.into(), text, kept, dropped });
    }

    fn tell(&mut self, event: &Event) {
        match event {
            Event::Began { all, usable } => {
                let why = |id: CandidateId| {
                    let why = self.service.standing.why.get(usize::from(id.0));
                    let why = why.map_or("not usable", |why| why.text());
                    let note = (self.notes.note)(self.id, id).filter(|note| !note.is_empty());
                    note.map_or_else(|| why.to_owned(), |note| format!("{why}: {note}"))
                };
                let dropped = all
                    .minus(usable)
                    .iter()
                    .map(|id| Dropped { member: self.name(id), why: why(id) })
                    .collect();
                let text =
                    format!("{} of {} members of {} are usable", usable.len(), all.len(), self.policy().name);
                let kept = self.names(usable);
                self.push("health", text, kept, dropped);
            }
            Event::FellBack { set } => {
                let kept = self.names(set);
                let text = if kept.is_empty() {
                    "nothing usable is left: the fallback answers".into()
                } else {
                    "nothing usable is left: the fallback takes all that no operator took out, as if they were up".into()
                };
                self.push("fallback", text, kept, Vec::new());
            }
            Event::Tier { tier, set } => {
                let text = format!(
                    "tier {tier} is the first with at least {} usable members",
                    self.policy().minimum.max(1)
                );
                let (kept, dropped) =
                    (self.names(&set.after), self.dropped(&set.before, &set.after, "of a later tier"));
                self.push("tier", text, kept, dropped);
            }
            Event::NoTier => {
                let text =
                    format!("no tier has {} usable members: all are taken together", self.policy().minimum);
                self.push("tier", text, Vec::new(), Vec::new());
            }
            Event::Kept { step, set, by } => {
                let (text, why) = self.matched(*by);
                let (kept, dropped) = (self.names(&set.after), self.dropped(&set.before, &set.after, &why));
                self.push(step.text(), text, kept, dropped);
            }
            Event::FellThrough { step, because, by } => {
                let matched = match by {
                    By::Nothing => String::new(),
                    By::Rule(_) | By::Operators(_) | By::Distance(..) | By::Ranking(..) => {
                        format!("{}: ", self.matched(*by).0)
                    }
                };
                let because = match because {
                    FellThrough::Unknown => "it knows nothing of this client; passed over",
                    FellThrough::WouldEmpty => "none of those left is among them; passed over",
                    FellThrough::NotMeasured => "it has nothing to go by; passed over",
                };
                self.push(step.text(), format!("{matched}{because}"), Vec::new(), Vec::new());
            }
            Event::Ranked { row, scores } => {
                let next = if is_measured(row) { String::new() } else { self.next() };
                let text = format!("{}: {}{next}", self::row(row), self.scores(scores));
                self.push("proximity", text, Vec::new(), Vec::new());
            }
            Event::NotRanked { prefix, because } => {
                let next = if *because == Missed::NoRow { self.next() } else { String::new() };
                let text = format!("{}{next}", not_ranked(prefix, *because));
                self.push("proximity", text, Vec::new(), Vec::new());
            }
            Event::Explored { set } => {
                let text = "the dice let this query try what is not much farther, to measure it".into();
                let (kept, dropped) =
                    (self.names(&set.after), self.dropped(&set.before, &set.after, "another is tried"));
                self.push("proximity", text, kept, dropped);
            }
            Event::Refused { rule } => {
                let (text, _) = self.matched(By::Rule(*rule));
                self.push("acl", format!("{text}: refused"), Vec::new(), Vec::new());
            }
            Event::Remembered { id } => {
                let name = self.name(*id);
                self.push(
                    "persist",
                    "this client had it before, and it is usable".into(),
                    vec![name],
                    Vec::new(),
                );
            }
            Event::Picked { ids, weights, by_hash } => {
                let scheduler = self.policy().scheduler;
                let how = if *by_hash { "the client's prefix decides" } else { scheduler.decided_by() };
                let odds: Vec<String> =
                    weights.iter().map(|(id, weight)| format!("{} {weight}", self.name(*id))).collect();
                let odds =
                    if odds.is_empty() { String::new() } else { format!("; weights: {}", odds.join(", ")) };
                let picked = ids.iter().map(|&id| self.name(id)).collect();
                let text = format!("{}: {how}{odds}", scheduler.name());
                self.push("scheduler", text, picked, Vec::new());
            }
        }
    }

    fn next(&self) -> String {
        (self.notes.next)(self.client).map_or_else(String::new, |next| format!("; {next}"))
    }

    /// Each candidate's score, and where it comes from.
    fn scores(&self, scores: &[(CandidateId, Option<Score>)]) -> String {
        let each = scores.iter().map(|(id, score)| {
            let name = self.name(*id);
            score.map_or_else(|| format!("{name} unknown"), |score| format!("{name} {}", told(&score)))
        });
        each.collect::<Vec<_>>().join(", ")
    }

    /// What matched, and why the others were dropped.
    fn matched(&self, by: By) -> (String, String) {
        match by {
            By::Nothing => (String::new(), "not kept by this step".into()),
            By::Rule(position) => {
                let rules = self.policy().steps.iter().find_map(|step| match step {
                    Step::Acl(table) => Some(&table.rules),
                    Step::Persist | Step::Proximity { .. } | Step::Isp(_) | Step::Geo { .. } | Step::Load => {
                        None
                    }
                });
                let rule = rules.and_then(|rules| rules.get(usize::from(position)));
                let text = rule.map_or_else(String::new, |rule| {
                    use portolan_balance::policy::AclAction;
                    let action = match rule.action {
                        AclAction::Only => "only",
                        AclAction::Prefer => "prefer",
                        AclAction::Avoid => "avoid",
                        AclAction::Refuse => "refuse",
                    };
                    format!("rule {} (from {}) says {action}", position + 1, rule.from)
                });
                (text, format!("by ACL rule {}", position + 1))
            }
            By::Operators(value) => {
                let operators = self.tables.operators(value);
                (format!("the client is with {operators}"), format!("not on a link to {operators}"))
            }
            By::Distance(best_us, limit_us) => (
                format!("the best score is {}; up to {} is as good", millis(best_us), millis(limit_us)),
                "farther away, or not measured".into(),
            ),
            By::Ranking(ranking, group) => {
                let reason = self.policy().steps.iter().find_map(|step| match step {
                    Step::Geo { table, .. } => {
                        table.rankings.get(ranking as usize).map(|ranking| ranking.reason.clone())
                    }
                    Step::Persist | Step::Acl(_) | Step::Proximity { .. } | Step::Isp(_) | Step::Load => None,
                });
                let text =
                    format!("choice {} of the order of sites: {}", group + 1, reason.unwrap_or_default());
                (text, "at a site that comes later".into())
            }
        }
    }

    fn end(&mut self, decision: &respond::Explained) {
        let text = match decision.decision.outcome {
            Outcome::Chosen => return,
            Outcome::Fixed => "the fallback's fixed data answers",
            Outcome::NoData => "no data of this type",
            Outcome::ServFail => "a server failure",
            Outcome::Refused => "refused",
        };
        self.push("outcome", text.into(), Vec::new(), Vec::new());
    }
}

fn millis(us: u32) -> String {
    format!("{}.{} ms", us / 1000, us % 1000 / 100)
}

/// A score in words.
fn told(score: &Score) -> String {
    let peers = if score.is_peers { " by a peer" } else { "" };
    let weak = if score.is_weak { ", a guess to try only" } else { "" };
    let behind = if score.is_outranked { ", behind what the operator wrote" } else { "" };
    format!("{} ({}{peers}{weak}{behind})", millis(score.us), score.source.text())
}

/// Whether the client's own prefix was measured, or needs not be.
pub(crate) fn is_measured(Told { head, .. }: &Told) -> bool {
    match head.kind {
        Kind::Own => head.samples > 0,
        Kind::Written | Kind::Skipped => true,
        Kind::Covering | Kind::Operator => false,
    }
}

/// The row that was used, in words.
pub(crate) fn row(row: &Told) -> String {
    let Told { prefix, head, age_s, silent_age_s } = row;
    let silent = match head.silent {
        0 => String::new(),
        times => format!(", no answer to the last {times} probes, {silent_age_s} s ago"),
    };
    match head.kind {
        Kind::Own if head.samples == 0 => format!("nothing measured for {prefix} yet{silent}; predicted"),
        Kind::Own => format!(
            "measured for {prefix}, {} samples, the last {age_s} s ago, confidence {}/255{silent}",
            head.samples, head.confidence
        ),
        Kind::Covering => format!("nothing measured for this client; others in {prefix} stand for it"),
        Kind::Operator => "nothing measured near this client; others of its operator stand for it".into(),
        Kind::Written => format!("the operator wrote it for {prefix}, which goes before what is measured"),
        Kind::Skipped => format!("{prefix} is not ranked"),
    }
}

fn not_ranked(prefix: &Prefix, because: Missed) -> String {
    match because {
        Missed::NoRow => {
            format!("nothing measured for {prefix}, for what is around it, or for its operator")
        }
        Missed::Skipped => {
            "it is opted out, or answers at many places (anycast): distance says nothing".into()
        }
        Missed::NoScore => "none of those left was measured from".into(),
        Missed::TooFew => "too few of those left were measured from to compare them".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subnets() {
        for (text, good) in [
            ("192.0.2.0/24", true),
            ("192.0.2.1", true),
            ("2001:db8::/48", true),
            ("192.0.2.0/33", false),
            ("192.0.2.0/", false),
            ("x/24", false),
            ("", false),
        ] {
            assert_eq!(subnet(text).is_ok(), good, "{text}");
        }
    }
}
