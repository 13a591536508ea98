//! Geography: an mmdb file read once into interned records and ranges.

use std::collections::HashMap;

use portolan_balance::nets::{Run, Runs, push_run};

use super::mmdb::Value;
use super::prefix::{Fault, Span};
use super::text::problem;
use super::{Mmdb, TableProblem};

/// What a GeoIP file says of a network. Codes are upper case; what the file leaves out is empty or `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GeoRecord {
    /// Continent code: `EU`. Some files name the country only.
    pub continent: String,
    /// ISO 3166-1 country code: `DE`.
    pub country: String,
    /// ISO 3166-2 codes without the country, the largest first: `["BY"]`; English names where the file has only names.
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
    /// What the file says of itself: its kind, and when it was built, in seconds of Unix time. Peers compare it.
    pub id: String,
}

impl Default for GeoTable {
    fn default() -> Self {
        Self { records: vec![GeoRecord::default()], runs: Runs::default(), id: String::new() }
    }
}

/// Reads every network of a GeoIP file, in MaxMind's nested layout or the flat one of ip-location-db.
pub fn load_geo(mmdb: &Mmdb) -> Result<GeoTable, TableProblem> {
    let id = format!("{} {}", mmdb.database_type(), mmdb.built_unix_s());
    let mut table = GeoTable { id, ..GeoTable::default() };
    let mut ids: HashMap<String, u32> = HashMap::from([(key(&GeoRecord::default()), 0)]);
    let records = &mut table.records;
    let runs = &mut table.runs;
    let read = |value: &Value| {
        let record = record(value);
        *ids.entry(key(&record)).or_insert_with(|| {
            records.push(record);
            records.len() as u32 - 1
        })
    };
    mmdb.networks(read, |span, value| match span {
        Span::V4(first, last) => push_run(&mut runs.v4, Run { first, last, value }),
        Span::V6(first, last) => push_run(&mut runs.v6, Run { first, last, value }),
    })?;
    if table.records.len() == 1 {
        let message = format!("no network of this {} file has a place", mmdb.database_type());
        let help = "name a City or Country file; AS numbers go to the key `asn`";
        return Err(problem(mmdb.path(), None, None, Fault::new(message, help)));
    }
    table.records.shrink_to_fit();
    Ok(table)
}

/// Equal for equal records only.
fn key(record: &GeoRecord) -> String {
    format!("{record:?}")
}

fn record(value: &Value) -> GeoRecord {
    let text = |paths: [&[&str]; 2]| {
        paths.iter().find_map(|path| value.at(path).and_then(Value::text)).unwrap_or_default().to_owned()
    };
    let country = text([&["country", "iso_code"], &["country_code"]]).to_ascii_uppercase();
    let continent = text([&["continent", "code"], &["continent_code"]]).to_ascii_uppercase();
    let number = |paths: [&[&str]; 2]| paths.iter().find_map(|path| value.at(path).and_then(Value::number));
    let latitude = number([&["location", "latitude"], &["latitude"]]);
    let longitude = number([&["location", "longitude"], &["longitude"]]);
    GeoRecord {
        continent,
        country,
        subdivisions: subdivisions(value),
        city: text([&["city", "names", "en"], &["city"]]),
        geoname_id: value.at(&["city", "geoname_id"]).and_then(Value::whole),
        location: latitude.zip(longitude).filter(is_a_place),
    }
}

fn subdivisions(value: &Value) -> Vec<String> {
    if let Some(Value::List(list)) = value.get("subdivisions") {
        let code = |part: &Value| part.get("iso_code").and_then(Value::text).map(str::to_ascii_uppercase);
        let name = |part: &Value| part.at(&["names", "en"]).and_then(Value::text).map(str::to_owned);
        return list.iter().filter_map(|part| code(part).or_else(|| name(part))).collect();
    }
    // the flat layout has names only
    let name = |key: &&str| value.get(key).and_then(Value::text);
    ["state1", "state2"].iter().filter_map(name).map(str::to_owned).collect()
}

/// (0, 0) lies in the sea: it is how files write "not known" (case G02).
fn is_a_place(location: &(f64, f64)) -> bool {
    let (latitude, longitude) = *location;
    latitude.abs() <= 90.0 && longitude.abs() <= 180.0 && (latitude, longitude) != (0.0, 0.0)
}
