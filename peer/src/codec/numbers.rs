//! The numbers of the protocol. A number is never given to anything else, and docs/peer-protocol.md lists them all.

/// A module of numbers that can also be listed.
macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident { $($(#[$item_doc:meta])* $item:ident = $number:literal),* $(,)? })*) => {
        $(
            $(#[$doc])*
            pub mod $name {
                #![allow(missing_docs, reason = "named after what they number")]
                $($(#[$item_doc])* pub const $item: u8 = $number;)*
                /// All of them.
                pub const ALL: &[(&str, u8)] = &[$((stringify!($item), $item)),*];
            }
        )*
    };
}

numbers! {
    /// Type numbers of frames.
    frame_type {
        /// Who speaks, and by which rules.
        HELLO = 1,
        /// Claims and withdrawals.
        CLAIMS = 2,
        /// "Send everything of this lane anew."
        RESYNC = 3,
        /// "Measure this prefix." Since version 2.
        ASK = 4,
        /// What came of it. Since version 2.
        REPLY = 5,
        /// "I live", and the round trip.
        KEEPALIVE = 6,
        /// Why the connection will be closed, or a warning.
        NOTICE = 7,
    }
    /// Flags of frames.
    flag {
        /// A receiver that does not know the type closes the connection instead of skipping the frame.
        CRITICAL = 0x01,
        /// CLAIMS: this batch begins a full sync of its lane.
        SYNC_BEGIN = 0x02,
        /// CLAIMS: this batch ends a full sync of its lane.
        SYNC_END = 0x04,
        /// CLAIMS: this batch is part of a full sync.
        SYNC = 0x08,
    }
    /// Numbers of the lanes.
    lane {
        /// Virtual servers, links, digests, operators' words.
        URGENT = 0,
        /// Proximity and persistence.
        BULK = 1,
    }
    /// What came of an ASK, in REPLY.
    outcome {
        MEASURED = 0,
        KNOWN = 1,
        SILENT = 2,
        REFUSED = 3,
    }
    /// Why an ASK was not followed, in REPLY.
    refusal {
        RATE = 1,
        TARGET = 2,
        OPT_OUT = 3,
        UNSEEN = 4,
        OFF = 5,
        BUDGET = 6,
    }
    /// Numbers of the kinds of claims.
    kind {
        VIRTUAL_SERVER = 1,
        LINK = 2,
        PROXIMITY = 3,
        PERSISTENCE = 4,
        DIGEST = 5,
        WORD = 6,
    }
    /// Numbers of a virtual server's states.
    state {
        UNKNOWN = 0,
        UP = 1,
        DOWN = 2,
        DRAIN = 3,
        DISABLED = 4,
    }
    /// Numbers of what operators want.
    act {
        FORCE_UP = 1,
        FORCE_DOWN = 2,
        DRAIN = 3,
        DISABLE = 4,
        RESUME = 5,
        LIFT = 6,
    }
}

/// Ids of the fields of frames and claims.
pub mod field {
    numbers! {
        /// Fields of HELLO.
        hello {
            LOWEST = 1,
            HIGHEST = 2,
            NODE = 3,
            SITE = 4,
            EPOCH = 5,
            CONFIG = 6,
            HOLD_MS = 7,
            CLAIMS_PER_S = 8,
            BYTES_PER_S = 9,
            KEYS = 10,
        }
        /// Fields of CLAIMS.
        claims {
            LANE = 1,
            NUMBER = 2,
            ITEM = 3,
        }
        /// Fields of RESYNC.
        resync {
            LANE = 1,
        }
        /// Fields of ASK.
        ask {
            NONCE = 1,
            PREFIX = 2,
            ADDRESS = 3,
            DEADLINE_MS = 4,
        }
        /// Fields of REPLY.
        reply {
            NONCE = 1,
            OUTCOME = 2,
            REFUSAL = 3,
            CELL = 4,
        }
        /// Fields of KEEPALIVE.
        keepalive {
            STAMP = 1,
            ECHO = 2,
            DELAY_MS = 3,
        }
        /// Fields of NOTICE.
        notice {
            CODE = 1,
            TEXT = 2,
        }
        /// Fields of a virtual server.
        server {
            NAME = 1,
            SERVICE = 2,
            ADDRESS = 3,
            SITE = 4,
            LINK = 5,
            WEIGHT = 6,
            TIER = 7,
            STATE = 8,
            REASON = 9,
            LOAD_PERMILLE = 10,
            CONNECTIONS = 11,
            CAPACITY = 12,
        }
        /// Fields of a link.
        link {
            SITE = 1,
            NAME = 2,
            IS_UP = 3,
            IN_BPS = 4,
            OUT_BPS = 5,
            CAPACITY_IN_BPS = 6,
            CAPACITY_OUT_BPS = 7,
        }
        /// Fields of a proximity cell.
        cell {
            PREFIX = 1,
            SITE = 2,
            LINK = 3,
            RTT_US = 4,
            LOSS_PERMILLE = 5,
            HOPS = 6,
            SAMPLES = 7,
            SOURCE = 8,
            CONFIDENCE = 9,
            AGE_S = 10,
        }
        /// Fields of a persistence entry.
        persistence {
            KEY = 1,
            CANDIDATE = 2,
            LEFT_S = 3,
        }
        /// Fields of a digest.
        digest {
            CONFIG = 1,
            TABLE = 2,
            VERSION = 3,
        }
        /// Fields of an operator's word.
        word {
            TARGET = 1,
            ACT = 2,
            ORIGIN = 3,
            AUTHOR = 4,
            REASON = 5,
            REVISION = 6,
            LEFT_S = 7,
            BASE = 8,
        }
    }
}
