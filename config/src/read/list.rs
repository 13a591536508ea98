//! Lists, lists that may be written as one value, and tables with free keys.

use serde_json::{Value as Json, json};
use toml::de::DeValue;

use super::{Node, Reader, Value};
use crate::place::At;
use crate::problem::Problem;

impl<T: Value> Value for Vec<T> {
    fn read(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let DeValue::Array(items) = node.get_ref() else { return reader.wrong_type(node, "a list") };
        // all items are read, also behind a bad one
        let read: Vec<Option<T>> = items.iter().map(|item| T::read(item, reader)).collect();
        read.into_iter().collect()
    }

    fn absent() -> Option<Self> {
        Some(Self::new())
    }

    fn schema() -> Json {
        json!({ "type": "array", "items": T::schema() })
    }

    fn show(&self) -> Json {
        self.iter().map(T::show).collect()
    }
}

/// One value, or a list of them.
#[derive(Clone, Debug)]
pub struct Many<T>(pub Vec<T>);

impl<T> Many<T> {
    /// The values.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }
}

impl<T> From<Vec<T>> for Many<T> {
    fn from(list: Vec<T>) -> Self {
        Self(list)
    }
}

impl<T: Value> Value for Many<T> {
    fn read(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        match node.get_ref() {
            DeValue::Array(_) => Vec::read(node, reader).map(Self),
            _ => T::read(node, reader).map(|one| Self(vec![one])),
        }
    }

    fn schema() -> Json {
        json!({ "anyOf": [T::schema(), { "type": "array", "items": T::schema() }] })
    }

    fn absent() -> Option<Self> {
        Some(Self(Vec::new()))
    }

    fn show(&self) -> Json {
        match self.0.as_slice() {
            [one] => one.show(),
            list => list.iter().map(T::show).collect(),
        }
    }
}

/// A table whose keys are names, in the order of the file.
#[derive(Clone, Debug)]
pub struct Map<T>(pub Vec<(At<String>, T)>);

impl<T> Map<T> {
    /// The entries.
    pub fn iter(&self) -> std::slice::Iter<'_, (At<String>, T)> {
        self.0.iter()
    }
}

impl<T: Value> Value for Map<T> {
    fn read(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let DeValue::Table(entries) = node.get_ref() else { return reader.wrong_type(node, "a table") };
        let mut whole = true;
        let mut read = Vec::new();
        for (key, value) in entries {
            let at = reader.at(key.span());
            match T::read(value, reader) {
                Some(value) => read.push((At { value: key.get_ref().to_string(), at }, value)),
                None => whole = false,
            }
        }
        read.sort_by_key(|(key, _)| key.at.start);
        whole.then_some(Self(read))
    }

    fn absent() -> Option<Self> {
        Some(Self(Vec::new()))
    }

    fn schema() -> Json {
        json!({ "type": "object", "additionalProperties": T::schema() })
    }

    fn show(&self) -> Json {
        self.0.iter().map(|(key, value)| (key.value.clone(), value.show())).collect()
    }
}

/// Reports a list that must not be empty.
pub(crate) fn not_empty<T>(list: &[T], at: crate::place::Span, what: &str, problems: &mut Vec<Problem>) {
    if list.is_empty() {
        problems.push(Problem::error("empty", at, format!("{what} is empty")));
    }
}
