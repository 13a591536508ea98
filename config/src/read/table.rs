//! Tables with known keys.

use serde_json::Value as Json;
use toml::de::DeValue;

use super::{Node, Reader, Value};
use crate::place::Span;
use crate::problem::Problem;
use crate::suggest;

/// A table being read: its keys, of which none may be unknown.
pub(crate) struct Table<'n, 'i> {
    entries: &'n toml::de::DeTable<'i>,
    /// Where the table stands.
    pub(crate) at: Span,
}

impl<'n, 'i> Table<'n, 'i> {
    /// The table of a node, with its unknown keys reported.
    pub(crate) fn open(node: &'n Node<'i>, keys: &[&str], reader: &mut Reader<'_>) -> Option<Self> {
        let DeValue::Table(entries) = node.get_ref() else { return reader.wrong_type(node, "a table") };
        for key in entries.keys() {
            let name = key.get_ref().as_ref();
            if !keys.contains(&name) {
                let at = reader.at(key.span());
                let mut problem = Problem::error("unknown-key", at, format!("unknown key `{name}`"));
                problem.help = suggest::remedy(name, keys.iter().copied());
                reader.problems.push(problem);
            }
        }
        Some(Self { entries, at: reader.span(node) })
    }

    /// The value of a key, `default` when it is left out.
    pub(crate) fn take<T: Value>(
        &self,
        key: &str,
        reader: &mut Reader<'_>,
        default: impl FnOnce() -> Option<T>,
    ) -> Option<T> {
        if let Some(node) = self.entries.get(key) {
            return T::read(node, reader);
        }
        let value = default();
        if value.is_none() {
            let problem = Problem::error("missing-key", self.at, format!("key `{key}` is missing here"));
            reader.problems.push(problem.help(format!("add `{key} = …`")));
            return T::stand_in();
        }
        value
    }
}

/// A key of a table, for its schema.
pub(crate) fn property(schema: Json, doc: &str, default: &Json) -> Json {
    let Json::Object(mut schema) = schema else { return schema };
    schema.insert("description".into(), doc.trim().into());
    if !default.is_null() {
        schema.insert("default".into(), default.clone());
    }
    Json::Object(schema)
}

/// Defines a table: its keys with their types, meanings and defaults.
///
/// A key without a default is required unless its type says what it is when left out (`Option`, lists, tables of
/// which no key is required). `as "…"` names a key that Rust reserves.
macro_rules! table {
    ($(#[doc = $doc:literal])+ pub struct $name:ident {
        $( $(#[doc = $about:literal])+ $field:ident $(as $key:literal)? : $type:ty $(= $default:expr)? ,)*
    }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug)]
        pub struct $name {
            /// Where the table stands.
            pub at: $crate::place::Span,
            $( $(#[doc = $about])+ pub $field: $type, )*
        }

        impl $crate::read::Value for $name {
            fn read(node: &$crate::read::Node<'_>, reader: &mut $crate::read::Reader<'_>) -> Option<Self> {
                let table = $crate::read::Table::open(node, &[$($crate::read::table!(@key $field $($key)?)),*], reader)?;
                // every key is read before the first failure ends it, so that all problems are seen
                $( let $field = table.take::<$type>(
                    $crate::read::table!(@key $field $($key)?),
                    reader,
                    || $crate::read::table!(@default $type $(, $default)?),
                ); )*
                Some(Self { at: table.at, $( $field: $field?, )* })
            }

            fn absent() -> Option<Self> {
                Some(Self {
                    at: $crate::place::Span::NOWHERE,
                    $( $field: $crate::read::table!(@default $type $(, $default)?)?, )*
                })
            }

            fn stand_in() -> Option<Self> {
                Some(Self {
                    at: $crate::place::Span::NOWHERE,
                    $( $field: $crate::read::table!(@default $type $(, $default)?)
                        .or_else(<$type as $crate::read::Value>::stand_in)?, )*
                })
            }

            fn schema() -> serde_json::Value {
                let mut properties = serde_json::Map::new();
                let mut required: Vec<&str> = Vec::new();
                $(
                    let key = $crate::read::table!(@key $field $($key)?);
                    let default: Option<$type> = $crate::read::table!(@default $type $(, $default)?);
                    let shown = default.as_ref().map_or(serde_json::Value::Null, $crate::read::Value::show);
                    if default.is_none() {
                        required.push(key);
                    }
                    let about = concat!($($about),+);
                    properties.insert(
                        key.to_owned(),
                        $crate::read::property(<$type as $crate::read::Value>::schema(), about, &shown),
                    );
                )*
                serde_json::json!({
                    "type": "object",
                    "properties": properties,
                    "required": required,
                    "additionalProperties": false,
                })
            }

            fn show(&self) -> serde_json::Value {
                serde_json::json!({})
            }
        }
    };
    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:literal) => { $key };
    (@default $type:ty) => { <$type as $crate::read::Value>::absent() };
    (@default $type:ty, $default:expr) => { Some(<$type>::from($default)) };
}
pub(crate) use table;
