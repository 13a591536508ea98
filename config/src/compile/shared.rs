//! What every node of a system must say alike, or two of them answer one client otherwise: as digests that peers
//! compare.
//!
//! In: sites with their links, named lists and policies, services with their steps, rules and members, and how proximity
//! is scored. Out: what is a node's own: its name, listeners, files and their places, checks and the addresses that are
//! checked, virtual servers, peers, probes, sizes of tables. Order counts where it is data (T10), otherwise not.

use std::fmt::{Display, Write as _};

use sha2::{Digest, Sha256};

use super::Compiled;
use crate::place::At;
use crate::read::{Many, Map, Real};
use crate::spec::{
    self, AclRule, Fallback, Geo, GeoOf, GeoRule, InlineGeo, NetOrList, Record, Service, SiteGroup, Spec,
};

/// What every node of a system must say alike.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shared {
    /// SHA-256 over the parts, in hex.
    pub digest: String,
    /// Each part by name, and its SHA-256 in hex: `sites`, `lists`, `services`, `proximity`.
    pub parts: Vec<(String, String)>,
}

impl Compiled {
    /// Ids of the tables in use (R14), by name, for peers to compare.
    pub fn table_ids(&self) -> Vec<(String, String)> {
        let isp = (!self.isp.files.is_empty()).then(|| ("isp".to_owned(), self.isp.id.clone()));
        let geo = self.geo.as_ref().map(|geo| ("geo".to_owned(), geo.id.clone()));
        isp.into_iter().chain(geo).collect()
    }
}

pub(crate) fn compile(spec: &Spec) -> Shared {
    let parts = [
        ("sites", sites(spec)),
        ("lists", lists(spec)),
        ("services", services(spec)),
        ("proximity", proximity(&spec.proximity)),
    ];
    let parts: Vec<(String, String)> =
        parts.into_iter().map(|(name, text)| (name.to_owned(), hex(text.0.as_bytes()))).collect();
    let all: Vec<String> = parts.iter().map(|(name, digest)| format!("{name} {digest}\n")).collect();
    Shared { digest: hex(all.concat().as_bytes()), parts }
}

fn hex(octets: &[u8]) -> String {
    Sha256::digest(octets).iter().fold(String::with_capacity(64), |mut text, octet| {
        let _ = write!(text, "{octet:02x}");
        text
    })
}

/// Text that is the same for the same meaning: a line a value, with its length, so that no value looks like two.
#[derive(Default)]
struct Canon(String);

impl Canon {
    fn put(&mut self, key: &str, value: impl Display) {
        let value = value.to_string();
        let _ = writeln!(self.0, "{key} {} {value}", value.len());
    }

    fn some(&mut self, key: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.put(key, value);
        }
    }

    fn all<T: Display>(&mut self, key: &str, values: impl IntoIterator<Item = T>) {
        values.into_iter().for_each(|value| self.put(key, value));
    }

    /// Blocks whose order says nothing.
    fn sorted(&mut self, mut blocks: Vec<Self>) {
        blocks.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        blocks.into_iter().for_each(|block| self.put("block", block.0));
    }
}

fn texts<T: Display>(list: &[At<T>]) -> impl Iterator<Item = &T> {
    list.iter().map(|it| &it.value)
}

fn sites(spec: &Spec) -> Canon {
    let blocks = spec.site.iter().map(|site| {
        let spec::Site { at: _, name, location, links } = site;
        let mut block = Canon::default();
        block.put("site", &name.value);
        if let Some(spec::Location { at: _, lat, lon, country, continent }) = location {
            block.put("lat", lat.0);
            block.put("lon", lon.0);
            // only for readers of the file
            let _ = (country, continent);
        }
        for spec::Link { at: _, name, isp, capacity, cost } in links {
            block.put("link", &name.value);
            block.all("isp", texts(&isp.0));
            block.some("capacity", capacity.map(|it| it.value.0));
            block.put("cost", cost.get::<u32>());
        }
        block
    });
    let mut all = Canon::default();
    all.sorted(blocks.collect());
    all
}

fn lists(spec: &Spec) -> Canon {
    let mut blocks = Vec::new();
    let mut named = |kind: &str, name: &str, items: Vec<String>| {
        let mut block = Canon::default();
        block.put(kind, name);
        block.all("item", items);
        blocks.push(block);
    };
    let spec::Tables { at: _, isp: _, geo: _, asn: _, prefixes, regions, stale_after: _ } = &*spec.tables;
    for (name, nets) in prefixes.iter() {
        let mut items: Vec<String> = nets.iter().map(|net| net.value.to_string()).collect();
        items.sort_unstable();
        named("prefixes", name, items);
    }
    for (name, places) in regions.iter() {
        let mut items: Vec<String> = places.iter().map(|place| place.value.clone()).collect();
        items.sort_unstable();
        named("regions", name, items);
    }
    for Geo { at: _, name, rules, default, nearest, bias } in spec.geo.iter() {
        let mut block = Canon::default();
        block.put("geo", &name.value);
        geo(&mut block, rules, default.as_ref(), nearest.as_ref(), bias);
        blocks.push(block);
    }
    let mut all = Canon::default();
    all.sorted(blocks);
    all
}

fn geo(
    block: &mut Canon,
    rules: &[GeoRule],
    default: Option<&At<Vec<SiteGroup>>>,
    nearest: Option<&At<bool>>,
    bias: &Map<At<Real>>,
) {
    for GeoRule { at: _, region, sites } in rules {
        block.all("region", texts(&region.0));
        groups(block, "rule", &sites.value);
    }
    if let Some(default) = default {
        groups(block, "default", &default.value);
    }
    block.some("nearest", nearest.map(|it| it.value));
    let bias = bias.iter().map(|(site, km)| {
        let mut one = Canon::default();
        one.put(site, km.0);
        one
    });
    block.sorted(bias.collect());
}

fn groups(block: &mut Canon, key: &str, groups: &[SiteGroup]) {
    block.put(key, groups.len());
    for SiteGroup(sites) in groups {
        let mut names: Vec<&str> = sites.iter().map(|site| site.value.as_str()).collect();
        names.sort_unstable();
        block.put("group", names.len());
        block.all("site", names);
    }
}

fn services(spec: &Spec) -> Canon {
    let mut all = Canon::default();
    all.sorted(spec.service.iter().map(|service| one(service)).collect());
    all
}

fn one(service: &Service) -> Canon {
    let Service {
        at: _,
        name,
        record,
        ttl,
        choose,
        persist,
        acl,
        geo: policy,
        geo_skip_first,
        load,
        fallback_ttl,
        ecs,
        answers,
        minimum,
        fallback,
        check: _,
        initial,
        ramp,
        manual_resume,
        on_peer_loss,
        hash,
        depends_on,
        seed,
        members,
    } = service;
    let mut block = Canon::default();
    block.put("service", name.value.to_string().to_ascii_lowercase());
    self::record(&mut block, &record.value);
    block.put("ttl", ttl.0);
    block.all("choose", choose.iter().map(|step| step.value.name()));
    if let Some(spec::Persist { at: _, kind, v4, v6, ttl }) = persist {
        block.put("persist", kind.name());
        block.put("v4", v4.get::<u8>());
        block.put("v6", v6.get::<u8>());
        block.put("ttl", ttl.0);
    }
    acl.iter().for_each(|rule| self::rule(&mut block, rule));
    match policy.as_ref().map(|it| &it.value) {
        None => {}
        Some(GeoOf::Named(name)) => block.put("geo", name),
        Some(GeoOf::Inline(inline)) => {
            let InlineGeo { at: _, rules, default, nearest, bias } = &**inline;
            geo(&mut block, rules, default.as_ref(), nearest.as_ref(), bias);
        }
    }
    block.put("geo_skip_first", geo_skip_first.value);
    block.some("threshold", load.threshold.map(|it| it.0));
    block.some("fallback_ttl", fallback_ttl.map(|it| it.0));
    block.put("ecs", ecs);
    block.put("answers", answers.get::<u16>());
    block.put("minimum", minimum.get::<u16>());
    match &fallback.value {
        Fallback::Word(word) => block.put("fallback", word.name()),
        Fallback::Address(addresses) => block.all("fallback", texts(addresses)),
        Fallback::Cname(name) => block.put("fallback", &name.value),
    }
    block.put("initial", initial.name());
    if let Some(spec::Ramp { at: _, standby, ramp_up }) = ramp {
        block.put("standby", standby.0.as_millis());
        block.put("ramp_up", ramp_up.0.as_millis());
    }
    block.put("manual_resume", manual_resume);
    block.put("on_peer_loss", on_peer_loss.name());
    block.put("hash", format!("{} {}", hash.v4.get::<u8>(), hash.v6.get::<u8>()));
    let mut on: Vec<String> = depends_on.iter().map(|it| it.value.to_string().to_ascii_lowercase()).collect();
    on.sort_unstable();
    block.all("depends_on", on);
    block.put("seed", seed.get::<u64>());
    members.0.iter().for_each(|member| self::member(&mut block, member));
    block
}

fn record(block: &mut Canon, record: &Record) {
    match record {
        Record::Address => block.put("record", "address"),
        Record::Cname => block.put("record", "cname"),
        Record::Srv(spec::Srv { at: _, port, priority }) => {
            block.put("record", "srv");
            block.some("port", port.map(|it| it.get::<u16>()));
            block.put("priority", priority.get::<u16>());
        }
        Record::Mx(spec::Mx { at: _, preference }) => {
            block.put("record", "mx");
            block.put("preference", preference.get::<u16>());
        }
        Record::Https(spec::Https { at: _, priority, alpn, port }) => {
            block.put("record", "https");
            block.put("priority", priority.get::<u16>());
            block.all("alpn", texts(alpn));
            block.some("port", port.map(|it| it.get::<u16>()));
        }
    }
}

fn rule(block: &mut Canon, rule: &AclRule) {
    let AclRule { at: _, from, only, prefer, avoid, refuse } = rule;
    let mut sources: Vec<String> = from
        .iter()
        .map(|item| match &item.value {
            NetOrList::Net(net) => net.to_string(),
            NetOrList::List(name) => name.clone(),
        })
        .collect();
    sources.sort_unstable();
    block.all("from", sources);
    let mut action = |key: &str, references: Option<&At<Many<At<String>>>>| {
        let Some(references) = references else { return };
        let mut names: Vec<&str> = references.iter().map(|it| it.value.as_str()).collect();
        names.sort_unstable();
        block.all(key, names);
    };
    action("only", only.as_ref());
    action("prefer", prefer.as_ref());
    action("avoid", avoid.as_ref());
    block.some("refuse", refuse.map(|it| it.value));
}

fn member(block: &mut Canon, member: &spec::Member) {
    let spec::Member {
        at: _,
        name,
        peers,
        site,
        link,
        address,
        target,
        port,
        check_address: _,
        inside: _,
        weight,
        tier,
        check: _,
        load_threshold,
        connections_max,
        enabled,
    } = member;
    block.put("member", name.as_ref().map_or("", |it| &it.value));
    block.put("peers", peers);
    block.some("site", site.as_ref().map(|it| &it.value));
    block.some("link", link.as_ref().map(|it| &it.value));
    let mut addresses: Vec<_> = texts(&address.0).collect();
    addresses.sort_unstable();
    block.all("address", addresses);
    block.some("target", target.as_ref().map(|it| it.value.to_string().to_ascii_lowercase()));
    block.some("port", port.map(|it| it.get::<u16>()));
    block.put("weight", weight.get::<u16>());
    block.put("tier", tier.get::<u8>());
    block.some("load_threshold", load_threshold.map(|it| it.0));
    block.some("connections_max", connections_max.map(|it| it.get::<u32>()));
    block.put("enabled", enabled);
}

fn proximity(proximity: &spec::Proximity) -> Canon {
    let spec::Proximity {
        at: _,
        entries: _,
        v4,
        v6,
        weights,
        band,
        dwell,
        explore,
        window,
        passive_ttl,
        active_ttl,
        fixed,
        passive: _,
        active: _,
        anycast: _,
    } = proximity;
    let mut all = Canon::default();
    all.put("bits", format!("{} {}", v4.get::<u8>(), v6.get::<u8>()));
    let spec::Weights { at: _, rtt, hops, loss, bandwidth, cost } = weights;
    for weight in [rtt, hops, loss, bandwidth, cost] {
        all.put("weight", weight.0);
    }
    all.put("band", format!("{} {}", band.percent.0, band.time.0.as_micros()));
    all.put("explore", format!("{} {}", explore.share.0, explore.limit.0.as_micros()));
    for time in [dwell, window, passive_ttl, active_ttl] {
        all.put("time", time.0.as_millis());
    }
    let fixed = fixed.iter().map(|entry| {
        let spec::Static { at: _, prefix, site, link, rtt } = entry;
        let mut block = Canon::default();
        block.put("prefix", prefix.value);
        block.put("site", &site.value);
        block.some("link", link.as_ref().map(|it| &it.value));
        block.put("rtt", rtt.0.as_micros());
        block
    });
    all.sorted(fixed.collect());
    all
}
