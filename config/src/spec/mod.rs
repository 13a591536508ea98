//! The exact form of a config file: what it says, key by key, with places. docs/configuration.md describes the same
//! keys; a test compares the two.

#![expect(clippy::wildcard_enum_match_arm, reason = "a TOML value of any other type is a wrong type")]

mod check;
mod dns;
mod geo;
mod node;
mod service;
mod tables;

pub use check::{
    Checks, Codes, CommandCheck, Common, DnsCheck, HttpCheck, HttpsCheck, IcmpCheck, Require, TcpCheck,
};
pub use dns::{Cookies, Dns, Ecs, NetOrList, Rrl, SharedCookies, Tcp};
pub use geo::{Geo, GeoRule, InlineGeo, SiteGroup};
pub use node::{Api, Expect, ExpectAnswer, ExpectWord, Listen, Log, LogFormat, LogLevel, Metrics, Node};
pub use service::{
    AclRule, Fallback, FallbackTable, FallbackWord, GeoOf, Hash, Https, InitialWord, Load, Member,
    MemberCheck, Members, Mx, Persist, PersistKind, Ramp, Record, RecordTable, Service, Srv, StepWord,
};
pub use tables::{Isp, LayerWord, Link, Location, Site, Tables};

use crate::place::At;
use crate::read::{Int, Value, table};

table! {
    /// A whole config.
    pub struct Spec {
        /// Version of this form: 1.
        version: At<Int<1, 1>>,
        /// Files read as if they stood here: paths or globs.
        include: Vec<At<String>>,
        /// This node.
        node: Node,
        /// The DNS server.
        dns: Dns,
        /// Tables about clients.
        tables: Tables,
        /// ISP tables in detail.
        isp: Vec<Isp>,
        /// Sites.
        site: Vec<Site>,
        /// Named geography policies.
        geo: Vec<Geo>,
        /// Services: the names that are answered by choice.
        service: Vec<Service>,
        /// The control API.
        api: Option<Api>,
        /// A listener for metrics only.
        metrics: Option<Metrics>,
        /// Logs.
        log: Log,
        /// The operator's own tests.
        expect: Vec<Expect>,
    }
}

table! {
    /// What an included file says; joined into the [`Spec`].
    pub struct Included {
        /// Version of this form: 1.
        version: Option<At<Int<1, 1>>>,
        /// This node.
        node: Option<Node>,
        /// The DNS server.
        dns: Option<Dns>,
        /// Tables about clients.
        tables: Option<Tables>,
        /// ISP tables in detail.
        isp: Vec<Isp>,
        /// Sites.
        site: Vec<Site>,
        /// Named geography policies.
        geo: Vec<Geo>,
        /// Services.
        service: Vec<Service>,
        /// The control API.
        api: Option<Api>,
        /// A listener for metrics only.
        metrics: Option<Metrics>,
        /// Logs.
        log: Option<Log>,
        /// The operator's own tests.
        expect: Vec<Expect>,
    }
}

/// The JSON schema of a config file, for editors.
pub fn json_schema() -> serde_json::Value {
    let serde_json::Value::Object(mut schema) = Spec::schema() else { return serde_json::Value::Null };
    schema.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
    schema.insert("title".into(), "Portolan configuration".into());
    serde_json::Value::Object(schema)
}
