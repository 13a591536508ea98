//! Who wants whom probed.

use std::net::IpAddr;

use portolan_balance::proximity::Prefix;

use crate::proximity::{
    prefix::{Lengths, representative},
    sightings::Evidence,
};

/// Who wants a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedBy {
    /// The target itself: it sent a query.
    Client(Evidence),
    /// A resolver, for a subnet of its clients.
    Resolver {
        /// The resolver's address.
        source: IpAddr,
        /// What its query shows.
        evidence: Evidence,
    },
    /// A peer, by its number.
    Peer(u16),
    /// The operator.
    Operator,
}

/// A wish: this prefix should be measured, by this address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Whom to probe.
    pub address: IpAddr,
    /// For whom it stands.
    pub prefix: Prefix,
    /// Who wants it.
    pub asked_by: AskedBy,
}

impl Wanted {
    /// The wish of a query from `source`, made for a client subnet where there is one. None where the subnet is larger
    /// than what is measured as one: no single address stands for it.
    #[must_use]
    pub fn by_query(
        source: IpAddr,
        subnet: Option<(IpAddr, u8)>,
        evidence: Evidence,
        lengths: Lengths,
    ) -> Option<Self> {
        let source = source.to_canonical();
        let own = lengths.prefix_of(source);
        let Some((address, length)) = subnet else {
            return Some(Self { address: source, prefix: own, asked_by: AskedBy::Client(evidence) });
        };
        let prefix = lengths.prefix_of(address);
        if prefix == own {
            // the resolver is at home among its clients
            return Some(Self { address: source, prefix, asked_by: AskedBy::Client(evidence) });
        }
        let asked_by = AskedBy::Resolver { source, evidence };
        (length >= prefix.length()).then(|| Self { address: representative(&prefix), prefix, asked_by })
    }
}
