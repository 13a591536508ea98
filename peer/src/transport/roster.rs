//! Who the peers are, and why somebody is none of them. Pure.

use super::Peer;
use crate::pki::certificate::{Date, Facts};
use crate::pki::identity::is_signed_by;
use crate::pki::{Pin, Validity};
use rustls_pki_types::CertificateDer;
use serde::Serialize;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// Why a certificate was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Not a certificate at all.
    #[error("it sent no readable certificate")]
    Malformed,
    /// A key that no peer is configured with.
    #[error("unknown key {pin}: no peer is configured with this pin")]
    UnknownPin {
        /// The key's pin.
        pin: Pin,
    },
    /// Not the key that the peer at this address is configured with.
    #[error("wrong key {pin}: {expected} is configured with another pin")]
    WrongPin {
        /// The key's pin.
        pin: Pin,
        /// Who was dialled.
        expected: String,
    },
    /// The key of another peer.
    #[error("wrong key: {found} answers at the address of {expected}")]
    OtherPeer {
        /// Who answered.
        found: String,
        /// Who was dialled.
        expected: String,
    },
    /// Its time is over.
    #[error("the certificate of {peer} expired at {}; this node's clock says {}", Date(*not_after_s), Date(*now_s))]
    Expired {
        /// Whose.
        peer: String,
        /// Its last second.
        not_after_s: i64,
        /// Now, by this node's clock.
        now_s: i64,
    },
    /// Its time has not come.
    #[error(
        "the certificate of {peer} is not valid before {}; this node's clock says {}",
        Date(*not_before_s),
        Date(*now_s)
    )]
    NotYetValid {
        /// Whose.
        peer: String,
        /// Its first second.
        not_before_s: i64,
        /// Now, by this node's clock.
        now_s: i64,
    },
    /// Not signed by this node's `ca.crt`.
    #[error("the certificate of {peer} is not signed by the ca.crt beside this node's identity")]
    Issuer {
        /// Whose.
        peer: String,
    },
}

impl Refusal {
    /// Every label that [`Refusal::label`] gives.
    pub const LABELS: [&'static str; 6] =
        ["malformed", "unknown-pin", "wrong-pin", "expired", "not-yet-valid", "issuer"];

    /// The reason in one word, for counters and logs.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::UnknownPin { .. } => "unknown-pin",
            Self::WrongPin { .. } | Self::OtherPeer { .. } => "wrong-pin",
            Self::Expired { .. } => "expired",
            Self::NotYetValid { .. } => "not-yet-valid",
            Self::Issuer { .. } => "issuer",
        }
    }
}

/// Whom a handshake must show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected<'a> {
    /// Somebody came: any peer.
    Any,
    /// A peer was dialled: this one.
    Peer(&'a str),
}

/// Who was recognised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Known {
    pub(super) name: String,
    pub(super) pin: Pin,
    pub(super) not_after_s: i64,
}

/// The peers as configured.
#[derive(Debug, Default)]
pub(super) struct Roster {
    peers: Vec<Peer>,
    by_pin: HashMap<Pin, usize>,
    by_address: HashMap<IpAddr, Vec<usize>>,
}

impl Roster {
    pub(super) fn new(peers: Vec<Peer>) -> Self {
        let mut by_pin = HashMap::new();
        let mut by_address: HashMap<IpAddr, Vec<usize>> = HashMap::new();
        for (at, peer) in peers.iter().enumerate() {
            by_pin.extend(peer.pins.iter().map(|&pin| (pin, at)));
            by_address.entry(peer.address.ip().to_canonical()).or_default().push(at);
        }
        Self { peers, by_pin, by_address }
    }

    pub(super) fn peers(&self) -> &[Peer] {
        &self.peers
    }

    pub(super) fn get(&self, name: &str) -> Option<&Peer> {
        self.peers.iter().find(|peer| peer.name == name)
    }

    /// How many peers are configured at an address.
    pub(super) fn count_at(&self, address: IpAddr) -> usize {
        self.by_address.get(&address).map_or(0, Vec::len)
    }

    /// The one peer configured at an address.
    pub(super) fn only_one_at(&self, address: IpAddr) -> Option<&Peer> {
        match self.by_address.get(&address).map(Vec::as_slice) {
            Some(&[at]) => self.peers.get(at),
            Some(_) | None => None,
        }
    }

    /// Whether a connection that was made with this key may stay.
    pub(super) fn allows(&self, name: &str, pin: Pin) -> bool {
        self.get(name).is_some_and(|peer| peer.pins.contains(&pin))
    }

    /// Recognises a certificate. The order is that of usefulness to an operator: who, when, by whom.
    pub(super) fn recognise(
        &self,
        certificate: &[u8],
        expected: Expected<'_>,
        authorities: &[CertificateDer<'_>],
        now_s: i64,
    ) -> Result<Known, Refusal> {
        let Facts { pin, validity } = Facts::of(certificate).map_err(|_| Refusal::Malformed)?;
        let found = self.by_pin.get(&pin).and_then(|&at| self.peers.get(at));
        let peer = match (found, expected) {
            (Some(peer), Expected::Any) => peer.name.clone(),
            (Some(peer), Expected::Peer(name)) if peer.name == name => peer.name.clone(),
            (Some(peer), Expected::Peer(name)) => {
                return Err(Refusal::OtherPeer { found: peer.name.clone(), expected: name.to_owned() });
            }
            (None, Expected::Any) => return Err(Refusal::UnknownPin { pin }),
            (None, Expected::Peer(name)) => return Err(Refusal::WrongPin { pin, expected: name.to_owned() }),
        };
        let Validity { not_before_s, not_after_s } = validity;
        if now_s > not_after_s {
            return Err(Refusal::Expired { peer, not_after_s, now_s });
        }
        if now_s < not_before_s {
            return Err(Refusal::NotYetValid { peer, not_before_s, now_s });
        }
        if !authorities.is_empty() && !is_signed_by(certificate, authorities) {
            return Err(Refusal::Issuer { peer });
        }
        Ok(Known { name: peer, pin, not_after_s })
    }
}

/// An address without IPv4-in-IPv6 clothing.
pub(super) fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
