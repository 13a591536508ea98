//! Text to look for in an answer.

use std::hash::{Hash, Hasher};

use regex::bytes::{Regex, RegexBuilder};

use crate::def::DefError;

/// The largest compiled form of one pattern; a larger one is a mistake.
const PATTERN_LIMIT: usize = 1 << 20;

/// What an answer must contain.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Match {
    /// These bytes, anywhere.
    Text(String),
    /// A match of this regular expression, judged over the whole answer.
    Regex(Pattern),
}

/// A search through an answer that is still arriving; it looks at no octet of a text search twice.
pub(crate) struct Search {
    what: Match,
    searched: usize,
}

impl Search {
    pub(crate) fn new(what: Match) -> Self {
        Self { what, searched: 0 }
    }

    /// Judges what has arrived so far: `true` is final, `false` is final only when `complete`. A regular expression
    /// waits for the end, since `^ok$` must not match the first half of `okay`.
    pub(crate) fn found(&mut self, bytes: &[u8], complete: bool) -> bool {
        match &self.what {
            Match::Text(text) if text.is_empty() => true,
            Match::Text(text) => {
                let unseen = bytes.get(self.searched..).unwrap_or_default();
                self.searched = bytes.len().saturating_sub(text.len() - 1);
                unseen.windows(text.len()).any(|window| window == text.as_bytes())
            }
            Match::Regex(pattern) => complete && pattern.0.is_match(bytes),
        }
    }
}

/// A regular expression that compiled; it matches in linear time whatever the answer. `.` does not match a newline,
/// `^` and `$` are the ends of the whole answer (`(?m)` makes them the ends of lines).
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

impl Pattern {
    /// Compiles the pattern of the option `key`.
    pub fn new(key: &'static str, text: &str) -> Result<Self, DefError> {
        let built = RegexBuilder::new(text).size_limit(PATTERN_LIMIT).build();
        built.map(Self).map_err(|error| DefError::new(key, error.to_string()))
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Eq for Pattern {}

impl Hash for Pattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_str().hash(state);
    }
}
