//! The readers against the rules and the public cases.

mod isp;
mod mmdb;
mod text;

use super::*;

/// The operators' names at an address.
fn operators(tables: &IspTables, addr: &str) -> Vec<String> {
    let set = &tables.sets[tables.runs.value(addr.parse().unwrap()) as usize];
    set.iter().map(|operator| tables.operators[operator.0 as usize].clone()).collect()
}
