//! Claims and withdrawals in a batch: kind, flags, sequence, lifetime, and the claim's fields.

mod read;
mod write;

use serde::Serialize;

use super::numbers::{field, flag, frame_type, kind};
use super::tlv::Writer;
use super::{BATCH_BODY, HEADER, MAX_CLAIM, lane_number};
use crate::claim::{Claim, Key, Lane};
pub(super) use read::decode_cell;
pub use read::decode_item;
pub(super) use write::encode_cell;
pub use write::encode_item;

/// Octets before an item's fields: kind, flags, sequence, lifetime.
const ITEM_HEADER: usize = 14;

/// Kind → the version that brought it.
pub const KINDS: &[(&str, u8, u16)] = &[
    ("VIRTUAL_SERVER", kind::VIRTUAL_SERVER, 1),
    ("LINK", kind::LINK, 1),
    ("PROXIMITY", kind::PROXIMITY, 1),
    ("PERSISTENCE", kind::PERSISTENCE, 2),
    ("DIGEST", kind::DIGEST, 1),
    ("WORD", kind::WORD, 2),
];

/// An item's flag: the key is no longer claimed.
pub const WITHDRAWN: u8 = 0x01;

/// One change of an author's claims.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Item {
    /// The author's count of its changes in this epoch; greater is newer.
    pub sequence: u64,
    /// How long it lives from now on; none: as long as its author.
    pub lifetime_ms: Option<u32>,
    /// What changed.
    pub change: Change,
}

/// What became of a key.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Change {
    /// It is this.
    Set(Claim),
    /// It is no longer claimed.
    Withdrawn(Key),
}

impl Change {
    /// The key.
    #[must_use]
    pub fn key(&self) -> Key {
        match self {
            Self::Set(claim) => claim.key(),
            Self::Withdrawn(key) => key.clone(),
        }
    }
}

/// The version that brought the kind of this key.
#[must_use]
pub fn since(key: &Key) -> u16 {
    match key {
        Key::VirtualServer(_) | Key::Link(_) | Key::Proximity(..) | Key::Digest => 1,
        Key::Persistence(_) | Key::Word(_) => 2,
    }
}

/// Puts items together to a CLAIMS frame.
pub struct Builder {
    frame: Writer,
    items: usize,
}

impl Builder {
    /// A frame without items.
    #[must_use]
    pub fn new(lane: Lane, number: u64) -> Self {
        let mut frame = Writer(vec![0; HEADER]);
        frame.u8(field::claims::LANE, lane_number(lane));
        frame.u64(field::claims::NUMBER, number);
        Self { frame, items: 0 }
    }

    /// Adds an item; false, and nothing is added, where it is larger than [`MAX_CLAIM`].
    pub fn push(&mut self, item: &Item) -> bool {
        let octets = encode_item(item);
        let fits = octets.len() <= MAX_CLAIM;
        if fits {
            self.frame.octets(field::claims::ITEM, &octets);
            self.items += 1;
        }
        fits
    }

    /// Whether the frame should be sent before more is added.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.frame.0.len() >= HEADER + BATCH_BODY
    }

    /// Items added.
    #[must_use]
    pub fn items(&self) -> usize {
        self.items
    }

    /// The frame's octets.
    #[must_use]
    pub fn finish(self, is_sync: bool, is_begin: bool, is_end: bool) -> Vec<u8> {
        let sync = [(is_sync, flag::SYNC), (is_begin, flag::SYNC_BEGIN), (is_end, flag::SYNC_END)];
        let flags = sync.into_iter().filter(|(is_set, _)| *is_set).fold(0, |flags, (_, flag)| flags | flag);
        super::finish(self.frame.0, frame_type::CLAIMS, flags)
    }
}
