//! What `check` finds in this node's key and certificate: what `run` and `reload` would refuse.

use super::{LineError, not_itself};
use crate::clock;
use portolan_config::{Compiled, Peers, Problems, Severity};
use portolan_peer::pki::{self, Identity, Pin, PkiError};
use std::path::Path;

/// Problems with the identity of `[peers]`. Files that are not there, or that the caller may not read, are no error: a
/// config is also checked where its secrets are not.
pub(crate) fn identity(compiled: &Compiled) -> Vec<Problems> {
    let Some(config) = &compiled.peers else { return Vec::new() };
    let Peers { identity, certificate, .. } = config;
    let told = |file: &Path, severity, message, help| compiled.problem_in(file, severity, message, help);
    let refused = |error: PkiError| match error {
        PkiError::Content { path, problem, remedy } => {
            Some(told(&path, Severity::Error, problem, Some(remedy.to_owned())))
        }
        PkiError::File { .. } | PkiError::Missing { .. } => None,
        other @ (PkiError::Exists { .. }
        | PkiError::Name { .. }
        | PkiError::Days { .. }
        | PkiError::Make { .. }) => Some(told(identity, Severity::Error, other.to_string(), None)),
    };
    let (pin, mut problems): (Option<Pin>, Vec<Problems>) = match Identity::load(identity) {
        Ok(identity) => {
            let now_s = i64::try_from(clock::unix_s()).unwrap_or(i64::MAX);
            let warnings = identity.certificate_warnings(now_s).into_iter();
            let warnings = warnings.map(|text| told(certificate, Severity::Warning, text, None));
            (Some(identity.pin()), warnings.collect())
        }
        // the certificate tells the pin without the key
        Err(error) => (pki::public_pin(certificate).ok(), refused(error).into_iter().collect()),
    };
    if let Some(Err(LineError::OwnPin { peer })) = pin.map(|pin| not_itself(config, pin)) {
        let message = format!("the pin of peer {peer:?} is this node's own");
        let help = format!("print the right one with `portolan pki pin DIR {peer}`");
        problems.push(told(certificate, Severity::Error, message, Some(help)));
    }
    problems
}
