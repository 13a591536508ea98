//! Decisions and table lookups.

use crate::Paint;
use portolan_api::{ClaimStatus, Explained, MemberClaim, TableHit, TableLookup};

/// A decision with its reasons, step by step.
#[must_use]
pub fn explained(it: &Explained, paint: Paint) -> String {
    let mut text = format!(
        "{} {}  {}\n",
        paint.bold(&it.name),
        it.rrtype,
        paint.dim(&format!("asked by {}", it.client))
    );
    for hit in &it.tables {
        text += &format!("  {}\n", hit_words(hit));
    }
    if let Some(service) = &it.service {
        text += &format!("service {service}\n");
    }
    for (number, step) in it.steps.iter().enumerate() {
        text += &format!("{:>3}. {:<11}{}\n", number + 1, step.step, step.text);
        if !step.kept.is_empty() {
            text += &format!("{:16}{} {}\n", "", paint.good("kept"), step.kept.join(", "));
        }
        for dropped in &step.dropped {
            text += &format!(
                "{:16}{} {} {}\n",
                "",
                paint.bad("out"),
                dropped.member,
                paint.dim(&format!("({})", dropped.why))
            );
        }
    }
    for MemberClaim { member, claim } in &it.claims {
        text += &format!("learned {member}: {}\n", claim_words(claim));
    }
    for mode in &it.degraded {
        text += &format!("{} {mode}\n", paint.warn("degraded:"));
    }
    text += &format!("dice    entropy {} turn {}\n", it.dice.entropy, it.dice.turn);
    text += &format!("answer  {}, ttl {}, scope /{}\n", paint.bold(&it.rcode), it.ttl, it.scope);
    for record in &it.records {
        text += &format!("  {record}\n");
    }
    text
}

/// What the tables say of an address.
#[must_use]
pub fn lookup(it: &TableLookup, paint: Paint) -> String {
    let mut text = format!("{}\n", paint.bold(&it.address));
    for hit in &it.hits {
        text += &format!("  {}\n", hit_words(hit));
    }
    if it.hits.is_empty() {
        text += "  no table knows this address\n";
    }
    text
}

fn claim_words(claim: &ClaimStatus) -> String {
    let ClaimStatus { author, name, state, reason, age_ms, heard_ms_ago, stale, expired } = claim;
    let seconds = |ms: &u64| format!("{}.{} s", ms / 1000, ms % 1000 / 100);
    let old = match (expired, stale) {
        (true, _) => format!(", expired: silent for {}", seconds(heard_ms_ago)),
        (false, true) => format!(", stale: silent for {}", seconds(heard_ms_ago)),
        (false, false) => String::new(),
    };
    let reason = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
    format!("{author} says {state} of {name} for {}{old}{reason}", seconds(age_ms))
}

fn hit_words(hit: &TableHit) -> String {
    let source = hit.source.as_deref().map_or(String::new(), |source| format!("  from {source}"));
    format!("{:<5} {}{source}  (the same over its /{})", hit.table, hit.value, hit.scope)
}
