//! What the prefix tables of a config say of an address, in words.

use crate::clock;
use crate::explain::Tables;
use portolan_api::{TableHit, TableStatus};
use portolan_balance::Step;
use portolan_balance::nets::Dim;
use portolan_config::Compiled;
use portolan_config::tables::Layer;
use std::net::IpAddr;

impl Tables for Compiled {
    fn hits(&self, address: IpAddr) -> Vec<TableHit> {
        let address = address.to_canonical();
        let leaf = self.nets.lookup(address);
        let class = self.classes.get(leaf.class.0 as usize).copied().unwrap_or_default();
        let value = |dim: Dim| class.get(dim as usize).copied().unwrap_or(0);
        let scope = |dim: Dim| leaf.scope.get(dim as usize).copied().unwrap_or(0);
        let mut hits = Vec::new();
        // the dimension also holds lists that no rule of a service names; what matters is which rules apply
        let rules = acl_rules(self, value(Dim::Acl));
        if !rules.is_empty() {
            let (table, value) = ("acl".to_owned(), rules.join(", "));
            hits.push(TableHit { table, value, source: None, scope: scope(Dim::Acl) });
        }
        for origin in self.isp.explain(address) {
            let layer = match origin.layer {
                Layer::User => "user",
                Layer::Imported => "imported",
                Layer::Shipped => "shipped",
            };
            let operator = origin.operator.and_then(|id| self.isp.operators.get(id.0 as usize));
            let operator = operator.map_or("every operator", String::as_str);
            hits.push(TableHit {
                table: "isp".into(),
                value: if origin.exclude { format!("not {operator}") } else { operator.to_owned() },
                source: Some(format!("{layer} {}:{}", origin.file.display(), origin.line)),
                scope: scope(Dim::Isp),
            });
        }
        if let Some(place) = place(self, address) {
            hits.push(TableHit { table: "geo".into(), value: place, source: None, scope: scope(Dim::Geo) });
        }
        hits
    }

    fn operators(&self, value: u32) -> String {
        let set = self.isp.sets.get(value as usize).map(Vec::as_slice).unwrap_or_default();
        let names = set.iter().filter_map(|id| self.isp.operators.get(id.0 as usize));
        names.cloned().collect::<Vec<_>>().join(", ")
    }
}

/// Where the GeoIP file says the address is.
fn place(compiled: &Compiled, address: IpAddr) -> Option<String> {
    let geo = compiled.geo.as_ref()?;
    let record = geo.records.get(geo.runs.value(address) as usize)?;
    let subdivisions = record.subdivisions.join("/");
    let parts = [record.continent.as_str(), &record.country, &subdivisions, &record.city];
    let mut text = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
    if let Some((lat, lon)) = record.location {
        text += &format!(" ({lat:.1}, {lon:.1})");
    }
    (!text.is_empty()).then_some(text)
}

/// The ACL rules that apply to a value of the ACL dimension, as `service rule 1 (from offices)`.
fn acl_rules(compiled: &Compiled, value: u32) -> Vec<String> {
    let mut found = Vec::new();
    for policy in &compiled.policies {
        for step in &policy.steps {
            let Step::Acl(table) = step else { continue };
            let position = table.rule_of.get(value as usize).copied().unwrap_or(u16::MAX);
            let Some(rule) = table.rules.get(usize::from(position)) else { continue };
            let text = format!("{} rule {} (from {})", policy.name, position + 1, rule.from);
            if !found.contains(&text) {
                found.push(text);
            }
        }
    }
    found
}

/// The tables as `status` shows them (R14, R20).
#[must_use]
pub fn statuses(compiled: &Compiled) -> Vec<TableStatus> {
    let mut list = Vec::new();
    let files = &compiled.isp.files;
    if !files.is_empty() {
        list.push(TableStatus {
            name: "isp".into(),
            files: files.len() as u32,
            entries: files.iter().map(|file| file.entries as u64).sum(),
            age_s: ages(compiled).map(|(_, age_s)| age_s).max(),
            id: Some(compiled.isp.id.clone()),
        });
    }
    if let Some(geo) = &compiled.geo {
        let entries = geo.records.len() as u64;
        list.push(TableStatus { name: "geo".into(), files: 1, entries, age_s: None, id: None });
    }
    list
}

/// The age of each table file in seconds, where it is known.
pub fn ages(compiled: &Compiled) -> impl Iterator<Item = (String, u64)> {
    let now = clock::unix_s();
    compiled.isp.files.iter().filter_map(move |file| {
        let name = file.file.file_stem()?.to_string_lossy().into_owned();
        Some((name, now.saturating_sub(file.modified_unix_s?)))
    })
}
