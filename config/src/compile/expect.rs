//! `[[expect]]`: the operator's own tests, ready to be run by `portolan check`.

use std::net::IpAddr;

use ipnet::IpNet;
use portolan_balance::ServiceId;
use portolan_balance::set::CandidateId;
use portolan_dns::name::Name;
use portolan_dns::rrtype::RrType;

use super::lanes::LaneInfo;
use super::names::{LinkId, Sites};
use crate::place::{At, Span};
use crate::problem::Problem;
use crate::spec::{self, ExpectAnswer, Spec};
use portolan_balance::policy::{Policy, SiteId};
use std::sync::Arc;

/// A test.
#[derive(Clone, Debug)]
pub struct Expect {
    /// Where it is written, for [`super::Compiled::problem_at`].
    pub at: Span,
    /// Where the query comes from.
    pub client: IpAddr,
    /// Client subnet in the query.
    pub ecs: Option<IpNet>,
    /// What is asked.
    pub name: Name,
    /// Record type.
    pub rtype: RrType,
    /// Candidates taken as down.
    pub down: Vec<(ServiceId, CandidateId)>,
    /// What must come.
    pub answer: ExpectAnswer,
}

pub(crate) fn compile(
    spec: &Spec,
    sites: &mut Sites,
    policies: &[Arc<Policy>],
    info: &[LaneInfo],
    problems: &mut Vec<Problem>,
) -> Vec<Expect> {
    let one = |expect: &spec::Expect| {
        let spec::Expect { at, client, ecs, name, rtype, down, answer } = expect;
        let parsed = rtype.parse::<RrType>();
        if parsed.is_err() {
            let message = format!("unknown record type {:?}", rtype.value);
            problems.push(
                Problem::error("bad-value", rtype.at, message).help("write a type like \"A\" or \"AAAA\""),
            );
        }
        let places: Vec<_> = down.iter().filter_map(|reference| place(reference, sites, problems)).collect();
        let is_down = |site: Option<SiteId>, link: Option<LinkId>| {
            places.iter().any(|(down, of)| site == Some(*down) && of.is_none_or(|of| link == Some(of)))
        };
        let mut candidates = Vec::new();
        for (id, (policy, lane)) in (0..).zip(policies.iter().zip(info)) {
            for (number, (candidate, member)) in
                (0..=u8::MAX).zip(policy.candidates.iter().zip(&lane.members))
            {
                if is_down(candidate.site, member.link) {
                    candidates.push((ServiceId(id), CandidateId(number)));
                }
            }
        }
        Some(Expect {
            at: *at,
            client: client.value,
            ecs: ecs.map(|ecs| ecs.value),
            name: name.value.clone(),
            rtype: parsed.ok()?,
            down: candidates,
            answer: answer.value.clone(),
        })
    };
    spec.expect.iter().filter_map(one).collect()
}

/// A site, or a link of it.
fn place(
    reference: &At<String>,
    sites: &mut Sites,
    problems: &mut Vec<Problem>,
) -> Option<(SiteId, Option<LinkId>)> {
    let (site, link) = match reference.split_once('/') {
        Some((site, link)) => (site, Some(link)),
        None => (reference.value.as_str(), None),
    };
    let at = reference.at;
    let site = sites.find(&At { value: site.to_owned(), at }, problems)?;
    match link {
        None => Some((site, None)),
        Some(link) => {
            sites.find_link(site, &At { value: link.to_owned(), at }, problems).map(|id| (site, Some(id)))
        }
    }
}
