//! What others claim: with author, sequence and expiry, and never taken for a fact of our own.

use serde::Serialize;

use crate::claim::Claim;

/// A claim of another node.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Held<'t> {
    /// Whose it is.
    pub author: &'t str,
    /// Its author's site.
    pub site: &'t str,
    /// What it says.
    pub claim: &'t Claim,
    /// Its author's count of changes.
    pub sequence: u64,
    /// When it came.
    pub received_at_ms: u64,
    /// Whether its author is silent or lost.
    pub is_stale: bool,
    /// When it will be gone, unless it is renewed or its author heard again.
    pub expires_at_ms: Option<u64>,
}
