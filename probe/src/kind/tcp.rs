//! TCP: the connection opens; optionally something is sent and the right answer comes.

use super::{Exchange, Step, Verdict, What};
use crate::{
    def::DefError,
    matcher::{Match, Search},
};

/// Options of `check.tcp`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TcpDef {
    /// `send`: bytes sent once the connection is open.
    pub send: Option<Vec<u8>>,
    /// `expect`: what the target must say, first by itself or as the answer to `send`.
    pub expect: Option<Match>,
}

/// The most that is read in search of `expect`.
const READ_LIMIT: usize = 64 * 1024;

impl TcpDef {
    pub(super) fn problems(&self, errors: &mut Vec<DefError>) {
        if self.send.as_ref().is_some_and(|bytes| bytes.len() > READ_LIMIT) {
            errors.push(DefError::new("send", format!("is longer than {READ_LIMIT} octets")));
        }
    }

    pub(super) fn exchange(&self) -> Box<dyn Exchange> {
        let expect = self.expect.clone().map(Search::new);
        Box::new(Conversation { send: self.send.clone(), expect, seen: Vec::new() })
    }
}

struct Conversation {
    send: Option<Vec<u8>>,
    expect: Option<Search>,
    seen: Vec<u8>,
}

impl Conversation {
    fn judge(&mut self, complete: bool) -> Option<Verdict> {
        let expect = self.expect.as_mut()?;
        if expect.found(&self.seen, complete) {
            return Some(Verdict::good("expected text received"));
        }
        complete.then(|| {
            let seen = String::from_utf8_lossy(&self.seen);
            Verdict::bad(
                What::Mismatch,
                format!("expected text not in the {} octets received: {seen}", seen.len()),
            )
        })
    }
}

impl Exchange for Conversation {
    fn start(&mut self) -> Step {
        match (self.send.take(), &self.expect) {
            (None, None) => Step::Done(Verdict::good("connected")),
            (Some(bytes), _) => Step::Send(bytes),
            (None, Some(_)) => Step::More,
        }
    }

    fn received(&mut self, bytes: &[u8]) -> Step {
        if self.expect.is_none() {
            // Something was sent and something came back: nobody said what it must be.
            return Step::Done(Verdict::good("answered"));
        }
        let room = READ_LIMIT - self.seen.len();
        self.seen.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        self.judge(self.seen.len() == READ_LIMIT).map_or(Step::More, Step::Done)
    }

    fn closed(&mut self) -> Verdict {
        let nothing = || Verdict::bad(What::Closed, "closed without an answer");
        if self.seen.is_empty() { nothing() } else { self.judge(true).unwrap_or_else(nothing) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matcher::Pattern;

    #[test]
    fn conversations() {
        let text = |s: &str| Some(Match::Text(s.into()));
        let regex = |s: &str| Some(Match::Regex(Pattern::new("expect", s).unwrap()));
        // expect, what arrives piece by piece, good before the close, good at the close
        let table: &[(Option<Match>, &[&str], bool, bool)] = &[
            (text("220 "), &["2", "20 ready"], true, true),
            (text("220 "), &["554 no"], false, false),
            (regex("^\\+OK"), &["+O", "K hello"], false, true),
            (regex("^ok$"), &["ok", "ay"], false, false),
            (text("220"), &[], false, false),
        ];
        for (expect, pieces, early, at_close) in table {
            let mut talk = TcpDef { send: None, expect: expect.clone() }.exchange();
            assert_eq!(talk.start(), Step::More);
            let done = pieces.iter().any(|piece| match talk.received(piece.as_bytes()) {
                Step::Done(verdict) => verdict.is_good(),
                Step::More | Step::Send(_) => false,
            });
            assert_eq!(done, *early, "{expect:?} {pieces:?}");
            assert_eq!(done || talk.closed().is_good(), *at_close, "{expect:?} {pieces:?}");
        }
    }

    #[test]
    fn reading_is_bounded() {
        let mut talk = TcpDef { send: None, expect: Some(Match::Text("x".into())) }.exchange();
        let steps =
            (0..100).map(|_| talk.received(&[b'a'; 4096])).take_while(|step| *step == Step::More).count();
        assert_eq!(steps, READ_LIMIT / 4096 - 1);
    }
}
