//! TOML text to the spec: typed, with places, every problem at once.
//!
//! ```text
//! text ─ toml ─► tree with spans ─ Value::read ─► Spec (exactly what the file says)
//!                                 └─ Value::schema ─► JSON schema
//! ```
//! One definition of a table (the `table!` macro) gives its struct, its reader, its defaults and its schema, so that
//! none of them can forget a key. serde is not used: it stops at the first error.

#![expect(clippy::wildcard_enum_match_arm, reason = "a TOML value of any other type is a wrong type")]

mod leaf;
mod list;
mod part;
mod table;

pub use leaf::{BitRate, Int, Length, Real, Seconds};
pub use list::{Many, Map};
pub use part::{Items, Part};

pub(crate) use leaf::{text, unknown_word, words};
pub(crate) use list::not_empty;
pub(crate) use table::{Table, property, table};

use std::sync::Arc;

use serde_json::Value as Json;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::place::{At, Span};
use crate::problem::Problem;

/// A TOML value with its place.
pub(crate) type Node<'i> = Spanned<DeValue<'i>>;

/// Something a config can hold.
pub(crate) trait Value: Sized {
    /// Reads it; `None` when a problem was reported.
    fn read(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self>;

    /// What a key without a default is when it is left out; `None` where the key is required.
    fn absent() -> Option<Self> {
        None
    }

    /// What takes its place when it is missing or wrong, so that the rest can be checked; the problem was reported.
    fn stand_in() -> Option<Self> {
        None
    }

    /// Its JSON schema.
    fn schema() -> Json;

    /// A default, as JSON for the schema.
    fn show(&self) -> Json;
}

/// Reading one file: where we are and what is wrong so far.
pub(crate) struct Reader<'p> {
    file: u32,
    problems: &'p mut Vec<Problem>,
    /// Problems that were reported of parts.
    in_parts: usize,
}

impl<'p> Reader<'p> {
    pub(crate) fn new(file: u32, problems: &'p mut Vec<Problem>) -> Self {
        Self { file, problems, in_parts: 0 }
    }

    /// The place of a piece of the file.
    pub(crate) fn at(&self, range: std::ops::Range<usize>) -> Span {
        let number = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Span { file: self.file, start: number(range.start), end: number(range.end) }
    }

    pub(crate) fn span(&self, node: &Node<'_>) -> Span {
        self.at(node.span())
    }

    /// Reads a part of the config; `None` when anything is wrong with its form, be it an unknown key: what a part says
    /// that is not understood whole is not to be trusted.
    fn part<T: Value>(&mut self, node: &Node<'_>) -> Option<T> {
        let before = self.problems.len();
        let value = T::read(node, self);
        let new = self.problems.len() - before;
        self.in_parts += new;
        value.filter(|_| new == 0)
    }

    /// Problems that were reported of parts, which are marked.
    pub(crate) fn in_parts(&self) -> usize {
        self.in_parts
    }

    /// Reports a problem; `None` so that a reader can end with it.
    pub(crate) fn fail<T>(&mut self, problem: Problem) -> Option<T> {
        self.problems.push(problem);
        None
    }

    /// Reports that something else was expected here.
    pub(crate) fn wrong_type<T>(&mut self, node: &Node<'_>, expected: &str) -> Option<T> {
        let found = match node.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a number",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        let message = format!("expected {expected}, found {found}");
        self.fail(Problem::error("wrong-type", self.span(node), message))
    }

    /// Reports a value that cannot be used.
    pub(crate) fn bad_value<T>(
        &mut self,
        node: &Node<'_>,
        message: impl Into<String>,
        help: &str,
    ) -> Option<T> {
        let problem = Problem::error("bad-value", self.span(node), message);
        self.fail(if help.is_empty() { problem } else { problem.help(help) })
    }
}

impl<T: Value> Value for At<T> {
    fn read(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let at = reader.span(node);
        T::read(node, reader).map(|value| Self { value, at })
    }

    fn stand_in() -> Option<Self> {
        T::stand_in().map(Self::from)
    }

    fn schema() -> Json {
        T::schema()
    }

    fn show(&self) -> Json {
        self.value.show()
    }
}

impl<T: Value> Value for Option<T> {
    fn read(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        T::read(node, reader).map(Some)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }

    fn schema() -> Json {
        T::schema()
    }

    fn show(&self) -> Json {
        self.as_ref().map_or(Json::Null, T::show)
    }
}

impl<T: Value> Value for Box<T> {
    fn read(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        T::read(node, reader).map(Self::new)
    }

    fn absent() -> Option<Self> {
        T::absent().map(Self::new)
    }

    fn schema() -> Json {
        T::schema()
    }

    fn show(&self) -> Json {
        T::show(self)
    }
}

impl<T: Value> Value for Arc<T> {
    fn read(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        T::read(node, reader).map(Self::new)
    }

    fn absent() -> Option<Self> {
        T::absent().map(Self::new)
    }

    fn schema() -> Json {
        T::schema()
    }

    fn show(&self) -> Json {
        T::show(self)
    }
}

/// Parses a file; every syntax error is reported.
pub(crate) fn parse<'i>(text: &'i str, reader: &mut Reader<'_>) -> Option<Node<'i>> {
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let span = reader.at(error.span().unwrap_or(0..0));
        reader.problems.push(Problem::error("syntax", span, format!("TOML syntax: {}", error.message())));
    }
    let span = table.span();
    errors.is_empty().then(|| Spanned::new(span, DeValue::Table(table.into_inner())))
}
