//! Keys and certificates of nodes: how they are made, kept, read and named by pins.
//!
//! ```text
//! init ─► DIR/ca.key, DIR/ca.crt ─► issue ─► DIR/NAME.key, DIR/NAME.crt ─► Identity ─► transport
//!                                                    └──► Pin (what the other nodes write into their configs)
//! ```
//! A peer *is* its key: the others know it by its [`Pin`], the SHA-256 of the certificate's SubjectPublicKeyInfo.
//! Names and issuers in the certificate decide nothing about who somebody is. What the certificate adds is time: it
//! must be within its validity. So that nobody who got hold of a node's key can prolong it by a certificate of his
//! own making, certificates must be signed by `ca.crt` where that file lies beside the identity; without it the pin
//! alone is trusted. [`make`](mod@make) writes the files, [`identity`] reads them, [`certificate`] takes from a
//! certificate what a pin and a validity need.

pub mod certificate;
mod files;
pub mod identity;
pub mod make;
pub mod pin;

pub use certificate::{Facts, Validity};
pub use identity::{EXPIRY_WARNING_DAYS, Identity};
pub use make::{Issued, Making, init, issue, pin, public_pin};
pub use pin::{Pin, PinError};

use std::path::PathBuf;

/// Why keys and certificates could not be made or read. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// The file system refused.
    #[error("cannot {operation} {}: {source}", path.display())]
    File {
        /// What was tried: "read", "write", …
        operation: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is there already and would be lost.
    #[error("{} exists; {remedy}", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
        /// What to do.
        remedy: &'static str,
    },
    /// A file that must be there is not.
    #[error("{} does not exist; {remedy}", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// What to do.
        remedy: &'static str,
    },
    /// A file holds something else than it should.
    #[error("{}: {problem}; {remedy}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A name that no node can have.
    #[error(
        "{name:?} cannot be a node's name in a certificate; use letters, digits, `-`, `_` and `.`, at most 63 characters, not \
         starting with `.` or `-`, and not `ca`"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// A validity that makes no sense.
    #[error("a validity of {days} days makes no sense; use 1 to {}", make::MAX_DAYS)]
    Days {
        /// The days asked for.
        days: u32,
    },
    /// Making a key or a certificate failed.
    #[error("cannot make {what}: {why}")]
    Make {
        /// What was to be made.
        what: &'static str,
        /// Why it failed.
        why: String,
    },
}
