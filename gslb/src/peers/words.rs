//! Operators' words between the form in which they are said here and that in which all nodes hold them (T7, case H17).

use portolan_api::{ForceAction, ForcedEntry};
use portolan_peer::{Act, Word};

/// Begins the target of a word that ends a wait for an operator. It is a word of its own, since it says what is to be
/// done once, while a forced state holds.
const RESUME: &str = "resume:";
/// How long a word to resume reaches nodes that were away. Longer, and it would end later waits, too.
pub(crate) const RESUME_S: u32 = 3_600;
/// A word without an end.
const FOR_EVER_S: u32 = u32::MAX;
/// From this on a word has no end.
const LONG_S: u32 = u32::MAX / 2;

/// Whom a word is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The forced state of a service's member.
    Member(String, String),
    /// A member that waits for an operator.
    Resume(String, String),
}

impl Target {
    /// A target's words: `SERVICE/MEMBER`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (rest, is_resume) = match text.strip_prefix(RESUME) {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let (service, member) = rest.split_once('/')?;
        let (service, member) = (service.to_owned(), member.to_owned());
        Some(if is_resume { Self::Resume(service, member) } else { Self::Member(service, member) })
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Member(service, member) => write!(f, "{service}/{member}"),
            Self::Resume(service, member) => write!(f, "{RESUME}{service}/{member}"),
        }
    }
}

/// What a word wants, as it is told to all.
pub(crate) fn act(action: ForceAction) -> Act {
    match action {
        ForceAction::Drain => Act::Drain,
        ForceAction::Disable => Act::Disable,
        ForceAction::Enable => Act::Lift,
        ForceAction::Up => Act::ForceUp,
        ForceAction::Down => Act::ForceDown,
    }
}

/// How long an entry still holds.
pub(crate) fn lifetime_s(entry: &ForcedEntry, now_unix: u64) -> u32 {
    entry.until_unix.map_or(FOR_EVER_S, |until| {
        u32::try_from(until.saturating_sub(now_unix)).unwrap_or(FOR_EVER_S).max(1)
    })
}

/// The forced state that a word makes; none where it ends one.
pub(crate) fn entry(service: &str, member: &str, word: &Word, now_unix: u64) -> Option<ForcedEntry> {
    let action = match word.act {
        Act::ForceUp => ForceAction::Up,
        Act::ForceDown => ForceAction::Down,
        Act::Drain => ForceAction::Drain,
        Act::Disable => ForceAction::Disable,
        Act::Resume | Act::Lift => return None,
    };
    Some(ForcedEntry {
        service: service.to_owned(),
        member: member.to_owned(),
        action,
        author: word.author.clone(),
        reason: word.reason.clone(),
        at_unix: now_unix,
        until_unix: (word.left_s < LONG_S).then(|| now_unix.saturating_add(word.left_s.into())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        for (text, target) in [
            ("www./a", Some(Target::Member("www.".into(), "a".into()))),
            ("www./bj/ct 192.0.2.1", Some(Target::Member("www.".into(), "bj/ct 192.0.2.1".into()))),
            ("resume:www./a", Some(Target::Resume("www.".into(), "a".into()))),
            ("www.", None),
        ] {
            assert_eq!(Target::parse(text), target, "{text}");
            if let Some(target) = target {
                assert_eq!(target.to_string(), text);
            }
        }
    }

    #[test]
    fn a_word_comes_back_as_it_was_said() {
        let said = ForcedEntry {
            service: "www.".into(),
            member: "a".into(),
            action: ForceAction::Drain,
            author: "ops".into(),
            reason: "kernel".into(),
            at_unix: 100,
            until_unix: Some(160),
        };
        for until_unix in [None, Some(160), Some(101)] {
            let said = ForcedEntry { until_unix, ..said.clone() };
            let word = Word {
                target: "www./a".into(),
                act: act(said.action),
                origin: "bj1".into(),
                author: said.author.clone(),
                reason: said.reason.clone(),
                revision: 1,
                base: 0,
                left_s: lifetime_s(&said, 100),
            };
            assert_eq!(entry("www.", "a", &word, 100), Some(said));
            assert_eq!(entry("www.", "a", &Word { act: Act::Lift, ..word }, 100), None);
        }
    }
}
