//! What a frame says.

use std::net::IpAddr;

use serde::Serialize;

use super::item::Item;
use super::numbers::refusal;
use crate::claim::{Lane, ProximityCell};

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Frame {
    /// The first of each side.
    Hello(Hello),
    /// Claims and withdrawals.
    Claims(Batch),
    /// Send a lane anew.
    Resync(Lane),
    /// Measure a prefix.
    Ask(Ask),
    /// What came of it.
    Reply(Reply),
    /// I live.
    Keepalive(Keepalive),
    /// A warning, or why the connection closes.
    Notice(Notice),
    /// Of a type that this version does not know; skipped.
    Unknown(u8),
}

/// Who speaks, and by which rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hello {
    /// Lowest version it speaks.
    pub lowest: u16,
    /// Highest version it speaks.
    pub highest: u16,
    /// Its name.
    pub node: String,
    /// Its site.
    pub site: String,
    /// Its start: another number at every start.
    pub epoch: u64,
    /// SHA-256, in hex, of the part of its config that must be equal everywhere; empty where unknown.
    pub config: String,
    /// How long it keeps the claims of a silent peer.
    pub hold_ms: u32,
    /// Claims a second that it takes.
    pub claims_per_s: u32,
    /// Octets a second that it takes.
    pub bytes_per_s: u32,
    /// Claims of one author that it keeps.
    pub keys: u32,
}

/// Claims and withdrawals, in the order in which they came to be.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Batch {
    /// Its lane.
    pub lane: Lane,
    /// Counts the batches of this lane on this connection, from 1.
    pub number: u64,
    /// Whether it is part of a full sync.
    pub is_sync: bool,
    /// Whether it begins a full sync.
    pub is_begin: bool,
    /// Whether it ends a full sync: what its lane held before and did not come again is gone.
    pub is_end: bool,
    /// What changed.
    pub items: Vec<Item>,
}

/// A wish that the receiver measure a client prefix (WP-C12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Ask {
    /// Tells the reply.
    pub nonce: u64,
    /// The prefix.
    pub prefix: (IpAddr, u8),
    /// The address in it that stands for it.
    pub address: IpAddr,
    /// How long an answer is of use.
    pub deadline_ms: u32,
}

/// What came of an ASK.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reply {
    /// Of the ASK.
    pub nonce: u64,
    /// What came of it.
    pub outcome: Outcome,
    /// What was measured.
    pub cells: Vec<ProximityCell>,
}

/// What came of an ASK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Outcome {
    /// It was measured now.
    Measured,
    /// It was known already.
    Known,
    /// It was tried and nothing came back.
    Silent,
    /// It was not tried.
    Refused(Refusal),
    /// No reply came in time. Never sent.
    TimedOut,
}

/// Why an ASK was not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Refusal {
    /// More than the asked node's rate for one peer (case P11).
    Rate,
    /// A target that is never probed: private, multicast, loopback, outside its prefix, …
    Target,
    /// Its operator opted out.
    OptOut,
    /// The asked node never saw queries from there.
    Unseen,
    /// Active probes are off.
    Off,
    /// The probing budget is used up.
    Budget,
    /// A reason that this version does not know.
    Other(u8),
}

/// "I live", and the round trip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Keepalive {
    /// The sender's clock, which means nothing to anyone else.
    pub stamp: u64,
    /// The stamp last received; 0 for none.
    pub echo: u64,
    /// How long ago that was.
    pub delay_ms: u32,
}

/// A warning, or why the connection closes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// What it is about.
    pub code: Code,
    /// For people.
    pub text: String,
}

impl Refusal {
    /// Its number.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Rate => refusal::RATE,
            Self::Target => refusal::TARGET,
            Self::OptOut => refusal::OPT_OUT,
            Self::Unseen => refusal::UNSEEN,
            Self::Off => refusal::OFF,
            Self::Budget => refusal::BUDGET,
            Self::Other(number) => number,
        }
    }

    /// The reason with this number.
    #[must_use]
    pub const fn of(number: u8) -> Self {
        match number {
            refusal::RATE => Self::Rate,
            refusal::TARGET => Self::Target,
            refusal::OPT_OUT => Self::OptOut,
            refusal::UNSEEN => Self::Unseen,
            refusal::OFF => Self::Off,
            refusal::BUDGET => Self::Budget,
            _ => Self::Other(number),
        }
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal),* $(,)?) => {
        /// What a NOTICE is about.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
        pub enum Code {
            $($(#[$doc])* $name,)*
            /// A code that this version does not know.
            Other(u16),
        }

        impl Code {
            /// All that have a name, with their numbers.
            pub const ALL: &[(&'static str, Self, u16)] = &[$((stringify!($name), Self::$name, $number)),*];

            /// Its number.
            #[must_use]
            pub const fn number(self) -> u16 {
                match self {
                    $(Self::$name => $number,)*
                    Self::Other(number) => number,
                }
            }

            /// The code with this number.
            #[must_use]
            pub const fn of(number: u16) -> Self {
                match number {
                    $($number => Self::$name,)*
                    _ => Self::Other(number),
                }
            }
        }
    };
}

codes! {
    /// The node stops.
    Stopping = 1,
    /// Octets that are no frame, or a frame where it must not be.
    Malformed = 2,
    /// No version in common.
    Version = 3,
    /// HELLO names another node than the key belongs to.
    WrongNode = 4,
    /// HELLO names another site than configured.
    WrongSite = 5,
    /// HELLO names the receiver itself.
    DuplicateName = 6,
    /// HELLO carries an epoch that a newer start has replaced: a replay, or two nodes with one name.
    OldEpoch = 7,
    /// A newer connection of the same peer replaced this one.
    Replaced = 8,
    /// No HELLO in time.
    Handshake = 9,
    /// Nothing was heard for the hold time.
    Silence = 10,
    /// More claims or octets than allowed, again and again.
    Flood = 11,
    /// A warning: claims were refused because the author has too many, or they are too large.
    Refused = 12,
    /// The peer is not, or no longer, configured.
    Unconfigured = 13,
}
