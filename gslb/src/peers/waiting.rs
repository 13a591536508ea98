//! A node that has just started and knows nothing of its peers' servers yet (case P12).

use portolan_balance::Policy;
use portolan_balance::policy::Fallback;
use portolan_config::Compiled;
use std::sync::Arc;

/// The policies while claims are waited for: a service that has only learned members fails where it would fall back, so
/// that a resolver asks another name server in place of believing that there is nothing.
#[must_use]
pub fn hold_back(compiled: &Compiled) -> Vec<Arc<Policy>> {
    let mut policies = compiled.policies.clone();
    let waiting = compiled.services.iter().filter(|service| service.learns_only);
    for lane in waiting.flat_map(|service| &service.lanes) {
        if let Some(policy) = policies.get_mut(lane.0 as usize) {
            *policy = Arc::new(Policy { fallback: Fallback::ServFail, ..Policy::clone(policy) });
        }
    }
    policies
}
