//! ACL rules: lists of prefixes become one dimension of the prefix structure.

use std::collections::HashMap;
use std::sync::Arc;

use ipnet::IpNet;
use portolan_balance::nets::{Run, Runs, SetRuns, push_run, union};
use portolan_balance::policy::{AclAction, AclRule, AclTable};
use portolan_balance::set::CandidateSet;

/// Every distinct list that a rule asks for, by number.
#[derive(Default)]
pub(crate) struct Froms {
    numbers: HashMap<Vec<IpNet>, u32>,
    lists: Vec<Runs>,
}

impl Froms {
    /// The number of a list of disjoint prefixes.
    pub(crate) fn number(&mut self, nets: Vec<IpNet>) -> u32 {
        let Self { numbers, lists } = self;
        *numbers.entry(nets).or_insert_with_key(|nets| {
            lists.push(runs(nets));
            u32::try_from(lists.len()).unwrap_or(u32::MAX) - 1
        })
    }

    /// Ranges whose values are sets of list numbers.
    pub(crate) fn union(&self) -> SetRuns {
        let mut sets = union(&self.lists);
        if sets.sets.is_empty() {
            sets.sets.push(Vec::new());
        }
        sets
    }
}

/// Ranges of value 1 over disjoint prefixes.
fn runs(nets: &[IpNet]) -> Runs {
    let mut sorted = nets.to_vec();
    sorted.sort_unstable();
    let mut runs = Runs::default();
    for net in sorted {
        match net {
            IpNet::V4(net) => {
                push_run(
                    &mut runs.v4,
                    Run { first: net.network().to_bits(), last: net.broadcast().to_bits(), value: 1 },
                );
            }
            IpNet::V6(net) => {
                push_run(
                    &mut runs.v6,
                    Run { first: net.network().to_bits(), last: net.broadcast().to_bits(), value: 1 },
                );
            }
        }
    }
    runs
}

/// A rule before the lists are merged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rule {
    /// What was written after `from`.
    pub(crate) from: String,
    /// Its list, from [`Froms::number`].
    pub(crate) list: u32,
    pub(crate) action: Action,
    pub(crate) members: CandidateSet,
}

/// [`AclAction`], hashable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    Only,
    Prefer,
    Avoid,
    Refuse,
}

/// Tables by content: services with equal rules share one.
#[derive(Default)]
pub(crate) struct AclTables(HashMap<Vec<Rule>, Arc<AclTable>>);

impl AclTables {
    pub(crate) fn table(&mut self, rules: Vec<Rule>, sets: &[Vec<u32>]) -> Arc<AclTable> {
        let make = |rules: &Vec<Rule>| {
            let rule_of = sets.iter().map(|set| {
                let first = rules.iter().position(|rule| set.binary_search(&rule.list).is_ok());
                first.and_then(|position| u16::try_from(position).ok()).unwrap_or(u16::MAX)
            });
            let rules = rules.iter().map(|rule| AclRule {
                from: rule.from.clone(),
                action: match rule.action {
                    Action::Only => AclAction::Only,
                    Action::Prefer => AclAction::Prefer,
                    Action::Avoid => AclAction::Avoid,
                    Action::Refuse => AclAction::Refuse,
                },
                members: rule.members,
            });
            Arc::new(AclTable { rule_of: rule_of.collect(), rules: rules.collect() })
        };
        Arc::clone(self.0.entry(rules).or_insert_with_key(make))
    }
}
