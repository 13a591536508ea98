//! Places in config files: every value remembers where it stands.

use std::ops::Deref;

/// A range of octets in one of the files of a config.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// Index into the files read; [`Span::NOWHERE`] has none.
    pub file: u32,
    /// The first octet.
    pub start: u32,
    /// The octet after the last one.
    pub end: u32,
}

impl Span {
    /// The place of defaults, which stand in no file.
    pub const NOWHERE: Self = Self { file: u32::MAX, start: 0, end: 0 };
}

/// A value and where it stands.
#[derive(Clone, Copy, Debug)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// Where it stands.
    pub at: Span,
}

impl<T> At<T> {
    /// Something else at the same place.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> At<U> {
        At { value: f(self.value), at: self.at }
    }
}

impl<T> Deref for At<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> From<T> for At<T> {
    /// A default.
    fn from(value: T) -> Self {
        Self { value, at: Span::NOWHERE }
    }
}

impl From<&str> for At<String> {
    /// A default.
    fn from(value: &str) -> Self {
        value.to_owned().into()
    }
}
