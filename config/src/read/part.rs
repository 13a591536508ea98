//! Parts of a config that the rest can be checked without: a part whose form is wrong is reported and left out.

use std::ops::{Deref, DerefMut};

use serde_json::Value as Json;
use toml::de::DeValue;

use super::{Node, Reader, Value};

/// A table or list of the top level, and whether it holds all that was written: what is not there was perhaps left out,
/// and nobody may be blamed for naming it.
#[derive(Clone, Debug)]
pub struct Part<T> {
    /// What could be read.
    pub value: T,
    /// Whether that is all of it.
    pub is_whole: bool,
}

impl<T> Part<T> {
    /// What was written and what stands for the rest.
    fn whole(value: T) -> Self {
        Self { value, is_whole: true }
    }
}

impl<T> Deref for Part<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Part<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: Value> Value for Part<T> {
    fn read(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        match reader.part(node) {
            Some(value) => Some(Self::whole(value)),
            None => Self::stand_in(),
        }
    }

    fn absent() -> Option<Self> {
        T::absent().map(Self::whole)
    }

    fn stand_in() -> Option<Self> {
        let value = T::stand_in().or_else(T::absent)?;
        Some(Self { value, is_whole: false })
    }

    fn schema() -> Json {
        T::schema()
    }

    fn show(&self) -> Json {
        self.value.show()
    }
}

/// A list of which bad items are left out.
#[derive(Clone, Debug)]
pub struct Items<T>(pub Part<Vec<T>>);

impl<T> Items<T> {
    /// Whether no item was left out.
    pub fn is_whole(&self) -> bool {
        self.0.is_whole
    }

    /// Takes another file's items in.
    pub(crate) fn join(&mut self, more: Self) {
        self.0.value.extend(more.0.value);
        self.0.is_whole &= more.0.is_whole;
    }

    /// Says that items may be missing.
    pub(crate) fn distrust(&mut self) {
        self.0.is_whole = false;
    }
}

impl<T> Deref for Items<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0.value
    }
}

impl<T: Value> Value for Items<T> {
    fn read(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let DeValue::Array(items) = node.get_ref() else { return Part::read(node, reader).map(Self) };
        let value: Vec<T> = items.iter().filter_map(|item| reader.part(item)).collect();
        let is_whole = value.len() == items.len();
        Some(Self(Part { value, is_whole }))
    }

    fn absent() -> Option<Self> {
        Part::absent().map(Self)
    }

    fn schema() -> Json {
        Vec::<T>::schema()
    }

    fn show(&self) -> Json {
        self.0.show()
    }
}
