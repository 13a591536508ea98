//! What a check says: the verdict, and the conversation that leads to it.

use std::fmt;

/// The longest text of a verdict that is kept; what servers and commands say is not ours to store at length.
const TEXT_LIMIT: usize = 200;

/// The outcome of one check.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The target serves.
    Good {
        /// What was seen, for people.
        note: String,
        /// The load that the target reported, 1.0 being full.
        load: Option<f64>,
    },
    /// The target does not serve, or could not be asked.
    Bad(Reason),
}

impl Verdict {
    /// A good verdict without a reported load.
    pub fn good(note: impl Into<String>) -> Self {
        Self::Good { note: short(note.into()), load: None }
    }

    /// A bad verdict.
    pub fn bad(what: What, detail: impl Into<String>) -> Self {
        Self::Bad(Reason { what, detail: short(detail.into()) })
    }

    /// True for [`Verdict::Good`].
    pub fn is_good(&self) -> bool {
        matches!(self, Self::Good { .. })
    }
}

/// Why a verdict is bad.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The class, for metrics and tests.
    pub what: What,
    /// The sentence, for people.
    pub detail: String,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what.name(), self.detail)
    }
}

/// Classes of bad verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// The time for the whole check ran out.
    Timeout,
    /// The target's name has no address.
    Resolve,
    /// No connection: refused, unreachable, reset while connecting.
    Connect,
    /// The TLS handshake failed, or the certificate was not accepted.
    Tls,
    /// The connection ended before the answer was complete.
    Closed,
    /// The answer was not in the protocol's form.
    Protocol,
    /// The answer was well formed but not the expected one.
    Mismatch,
    /// A command did not exit with 0.
    Exit,
    /// The check could not be made from here: missing privilege, foreign source address, missing file. It says
    /// nothing about the target.
    Local,
}

impl What {
    /// The word used in metrics and status.
    pub fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Resolve => "resolve",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Closed => "closed",
            Self::Protocol => "protocol",
            Self::Mismatch => "mismatch",
            Self::Exit => "exit",
            Self::Local => "local",
        }
    }
}

/// A kind's side of one conversation, free of sockets and clocks: bytes come in, bytes or a verdict go out.
///
/// ```text
///            start()              received(bytes) *              closed()
///   connected ─────► Step ─► … ────────────────► Step ─► … ───────────────► Verdict
/// ```
/// On a stream `bytes` is whatever one read brought; on UDP it is one datagram, and `closed` is not called.
pub trait Exchange: Send {
    /// The connection is open.
    fn start(&mut self) -> Step;
    /// The target sent this.
    fn received(&mut self, bytes: &[u8]) -> Step;
    /// The target will send no more.
    fn closed(&mut self) -> Verdict;
}

/// What to do next in a conversation.
#[derive(Debug, PartialEq)]
pub enum Step {
    /// Send these bytes, then wait for more.
    Send(Vec<u8>),
    /// Wait for more.
    More,
    /// The verdict is reached; the rest does not matter.
    Done(Verdict),
}

/// Cuts text to the limit and drops control characters, so that it can be shown on a terminal or in a log.
pub(crate) fn short(text: String) -> String {
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    if text.len() <= TEXT_LIMIT && !text.contains(char::is_control) {
        return text;
    }
    text.chars().map(clean).take(TEXT_LIMIT).collect::<String>().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_bounded_and_clean() {
        let verdict = Verdict::bad(What::Mismatch, format!("a\x1b[31m\n{}", "ü".repeat(5000)));
        let Verdict::Bad(reason) = verdict else { panic!() };
        assert_eq!(reason.detail.chars().count(), TEXT_LIMIT);
        assert!(!reason.detail.contains(char::is_control));
        assert!(reason.to_string().starts_with("mismatch: a [31m ü"));
    }
}
