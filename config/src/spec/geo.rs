//! `[[geo]]`: geography policies.

use serde_json::{Value as Json, json};
use toml::de::DeValue;

use crate::place::At;
use crate::read::{self, Many, Map, Reader, Real, Value, table};

table! {
    /// A named geography policy.
    pub struct Geo {
        /// Name of the policy.
        name: At<String>,
        /// Rules by region, in order.
        rules: Vec<GeoRule>,
        /// Sites for clients in no rule.
        default: Option<At<Vec<SiteGroup>>>,
        /// Sites by distance behind a rule's own.
        nearest: Option<At<bool>>,
        /// Kilometres by which a site counts as nearer.
        bias: Map<At<Real>>,
    }
}

table! {
    /// A geography policy in a service.
    pub struct InlineGeo {
        /// Rules by region, in order.
        rules: Vec<GeoRule>,
        /// Sites for clients in no rule.
        default: Option<At<Vec<SiteGroup>>>,
        /// Sites by distance behind a rule's own.
        nearest: Option<At<bool>>,
        /// Kilometres by which a site counts as nearer.
        bias: Map<At<Real>>,
    }
}

table! {
    /// Which sites a region prefers.
    pub struct GeoRule {
        /// Places the rule is for.
        region: At<Many<At<String>>>,
        /// Sites, best first; sites in an inner list are equal.
        sites: At<Vec<SiteGroup>>,
    }
}

/// One site, or several that are equal.
#[derive(Clone, Debug)]
pub struct SiteGroup(pub Vec<At<String>>);

impl Value for SiteGroup {
    fn read(node: &read::Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        match node.get_ref() {
            DeValue::String(_) => At::read(node, reader).map(|one| Self(vec![one])),
            DeValue::Array(_) => Vec::read(node, reader).map(Self),
            _ => reader.wrong_type(node, "a site or a list of equal sites"),
        }
    }
    fn schema() -> Json {
        json!({ "anyOf": [String::schema(), Vec::<String>::schema()] })
    }
    fn show(&self) -> Json {
        Many(self.0.clone()).show()
    }
}
