//! The exact form of a config file: what it says, key by key, with places. docs/configuration.md describes the same
//! keys; a test compares the two.

#![expect(clippy::wildcard_enum_match_arm, reason = "a TOML value of any other type is a wrong type")]

mod check;
mod dns;
mod geo;
mod node;
mod peers;
mod proximity;
mod service;
mod tables;
mod virtual_server;

pub use check::{
    Checks, Codes, CommandCheck, Common, DnsCheck, HttpCheck, HttpsCheck, IcmpCheck, Require, TcpCheck,
};
pub use dns::{Cookies, Dns, Ecs, NetOrList, Rrl, SharedCookies, Tcp};
pub use geo::{Geo, GeoRule, InlineGeo, SiteGroup};
pub use node::{Api, Expect, ExpectAnswer, ExpectWord, Listen, Log, LogFormat, LogLevel, Metrics, Node};
pub use peers::{Peer, Peers, Pin};
pub use proximity::{Active, Band, Explore, Passive, Proximity, Solicit, SolicitTable, Static, Weights};
pub use service::{
    AclRule, Fallback, FallbackTable, FallbackWord, GeoOf, Hash, Https, InitialWord, Load, Member,
    MemberCheck, Members, Mx, PeerLossWord, Persist, PersistKind, Ramp, Record, RecordTable, Service, Srv,
    StepWord,
};
pub use tables::{Isp, LayerWord, Link, Location, Site, Tables};
pub use virtual_server::{ModeWord, Ports, ProtocolWord, VirtualServer};

use std::sync::Arc;

use crate::place::At;
use crate::read::{Int, Items, Part, Value, table};

table! {
    /// A whole config.
    pub struct Spec {
        /// Version of this form: 1.
        version: At<Int<1, 1>>,
        /// Files read as if they stood here: paths or globs.
        include: Vec<At<String>>,
        /// This node.
        node: Part<Node>,
        /// The DNS server.
        dns: Part<Dns>,
        /// Tables about clients.
        tables: Part<Tables>,
        /// ISP tables in detail.
        isp: Items<Isp>,
        /// Sites.
        site: Items<Site>,
        /// Named geography policies.
        geo: Items<Geo>,
        /// Services: the names that are answered by choice.
        service: Items<Arc<Service>>,
        /// The other nodes.
        peers: Part<Option<Peers>>,
        /// Addresses of this node's site that peers learn of.
        virtual_server: Items<VirtualServer>,
        /// What is measured of clients.
        proximity: Part<Proximity>,
        /// The control API.
        api: Part<Option<Api>>,
        /// A listener for metrics only.
        metrics: Part<Option<Metrics>>,
        /// Logs.
        log: Part<Log>,
        /// The operator's own tests.
        expect: Items<Expect>,
    }
}

table! {
    /// What an included file says; joined into the [`Spec`].
    pub struct Included {
        /// Version of this form: 1.
        version: Option<At<Int<1, 1>>>,
        /// This node.
        node: Part<Option<Node>>,
        /// The DNS server.
        dns: Part<Option<Dns>>,
        /// Tables about clients.
        tables: Part<Option<Tables>>,
        /// ISP tables in detail.
        isp: Items<Isp>,
        /// Sites.
        site: Items<Site>,
        /// Named geography policies.
        geo: Items<Geo>,
        /// Services.
        service: Items<Arc<Service>>,
        /// The other nodes.
        peers: Part<Option<Peers>>,
        /// Addresses of this node's site that peers learn of.
        virtual_server: Items<VirtualServer>,
        /// What is measured of clients.
        proximity: Part<Option<Proximity>>,
        /// The control API.
        api: Part<Option<Api>>,
        /// A listener for metrics only.
        metrics: Part<Option<Metrics>>,
        /// Logs.
        log: Part<Option<Log>>,
        /// The operator's own tests.
        expect: Items<Expect>,
    }
}

impl Spec {
    /// Whether every part is all that was written.
    pub(crate) fn is_whole(&self) -> bool {
        let Self {
            at: _,
            version: _,
            include: _,
            node,
            dns,
            tables,
            isp,
            site,
            geo,
            service,
            peers,
            virtual_server,
            proximity,
            api,
            metrics,
            log,
            expect,
        } = self;
        let tables = [
            node.is_whole,
            dns.is_whole,
            tables.is_whole,
            peers.is_whole,
            proximity.is_whole,
            api.is_whole,
            metrics.is_whole,
            log.is_whole,
        ];
        let lists = [
            isp.is_whole(),
            site.is_whole(),
            geo.is_whole(),
            service.is_whole(),
            virtual_server.is_whole(),
            expect.is_whole(),
        ];
        tables.iter().chain(&lists).all(|is_whole| *is_whole)
    }

    /// Says that anything may have been left out.
    pub(crate) fn distrust(&mut self) {
        let Self {
            at: _,
            version: _,
            include: _,
            node,
            dns,
            tables,
            isp,
            site,
            geo,
            service,
            peers,
            virtual_server,
            proximity,
            api,
            metrics,
            log,
            expect,
        } = self;
        let tables = [
            &mut node.is_whole,
            &mut dns.is_whole,
            &mut tables.is_whole,
            &mut peers.is_whole,
            &mut proximity.is_whole,
            &mut api.is_whole,
            &mut metrics.is_whole,
            &mut log.is_whole,
        ];
        tables.into_iter().for_each(|is_whole| *is_whole = false);
        isp.distrust();
        site.distrust();
        geo.distrust();
        service.distrust();
        virtual_server.distrust();
        expect.distrust();
    }
}

/// The JSON schema of a config file, for editors.
pub fn json_schema() -> serde_json::Value {
    let serde_json::Value::Object(mut schema) = Spec::schema() else { return serde_json::Value::Null };
    schema.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
    schema.insert("title".into(), "Portolan configuration".into());
    serde_json::Value::Object(schema)
}
