//! What the prefix tables say of an address.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use utoipa::{IntoParams, ToSchema};

/// The address to look up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct LookupQuery {
    /// The address.
    #[param(value_type = String, example = "36.110.1.1")]
    pub address: IpAddr,
}

/// What all tables say of an address (R18).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TableLookup {
    /// The address.
    pub address: String,
    /// The lines that matched; empty when no table knows it.
    pub hits: Vec<TableHit>,
}

/// One table's word on an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TableHit {
    /// `isp`, `geo`, `acl`.
    pub table: String,
    /// What it says: operators, a place, lists.
    pub value: String,
    /// `layer file:line` of the line that matched, where known.
    pub source: Option<String>,
    /// Length of the largest prefix around the address with the same value.
    pub scope: u8,
}
