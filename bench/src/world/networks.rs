//! Made-up but real-looking networks: prefix lengths as in the routing table, neighbours mostly in one country and
//! with one operator, and more specific prefixes inside the larger ones.

use std::fmt::Write;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;

use crate::mmdb;

/// A country that clients are in.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// ISO 3166 code.
    pub country: &'static str,
    /// MaxMind's continent code.
    pub continent: &'static str,
    /// Degrees north of its middle.
    pub latitude: f64,
    /// Degrees east of its middle.
    pub longitude: f64,
}

const fn place(country: &'static str, continent: &'static str, latitude: f64, longitude: f64) -> Place {
    Place { country, continent, latitude, longitude }
}

/// The countries, the more often named the more networks.
pub const COUNTRIES: [Place; 24] = [
    place("US", "NA", 38.0, -97.0),
    place("CN", "AS", 35.0, 105.0),
    place("US", "NA", 38.0, -97.0),
    place("DE", "EU", 51.0, 9.0),
    place("BR", "SA", -10.0, -55.0),
    place("JP", "AS", 36.0, 138.0),
    place("US", "NA", 38.0, -97.0),
    place("GB", "EU", 54.0, -2.0),
    place("FR", "EU", 46.0, 2.0),
    place("KR", "AS", 37.0, 127.5),
    place("CN", "AS", 35.0, 105.0),
    place("IN", "AS", 20.0, 77.0),
    place("RU", "EU", 60.0, 100.0),
    place("CA", "NA", 60.0, -95.0),
    place("AU", "OC", -27.0, 133.0),
    place("IT", "EU", 42.8, 12.8),
    place("NL", "EU", 52.5, 5.8),
    place("ES", "EU", 40.0, -4.0),
    place("MX", "NA", 23.0, -102.0),
    place("AR", "SA", -34.0, -64.0),
    place("ZA", "AF", -29.0, 24.0),
    place("EG", "AF", 27.0, 30.0),
    place("ID", "AS", -5.0, 120.0),
    place("PL", "EU", 52.0, 20.0),
];

/// Cities told apart in a country.
pub const CITIES: usize = 40;
/// Operators in a country.
pub const OPERATORS: usize = 5;

/// IPv4 networks with country and city, and prefixes with operator.
pub struct Networks {
    geo: Vec<(u32, u8, u16)>,
    isp: Vec<(u32, u8, u16)>,
}

/// Shares in thousandths of the prefix lengths from /24 down to /16.
const LENGTHS: [(u8, u32); 9] =
    [(24, 550), (23, 110), (22, 140), (21, 60), (20, 60), (19, 40), (18, 20), (17, 10), (16, 10)];

impl Networks {
    /// About `geo` networks and about twice as many operator prefixes: the networks and more specific ones in them.
    pub fn generate(seed: u64, geo: usize) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut made = Self { geo: Vec::with_capacity(geo), isp: Vec::with_capacity(geo * 2) };
        let mut cursor = u32::from(Ipv4Addr::new(1, 0, 0, 0));
        let (mut country, mut operator) = (0, 0);
        // what is left of the address space is spread evenly: about 7 further /24s for each network
        let gap = (7 * 500_000 / geo.max(1)) as u32;
        while made.geo.len() < geo {
            if random.u8(..16) == 0 {
                country = random.usize(..COUNTRIES.len());
            }
            if random.u8(..6) == 0 {
                operator = random.usize(..OPERATORS);
            }
            let length = length(&mut random);
            let size = 1u32 << (32 - length);
            let Some(base) = cursor.checked_next_multiple_of(size).filter(|base| base >> 24 < 223) else {
                break;
            };
            cursor = base + size + random.u32(..=gap * 2) * 256;
            if !is_usable(base) {
                continue;
            }
            made.geo.push((base, length, (country * CITIES + random.usize(..CITIES)) as u16));
            made.isp.push((base, length, (country * OPERATORS + operator) as u16));
            // one more specific /24 in eight of a larger network's, usually with somebody else
            for block in 0..(size / 256).saturating_sub(1) {
                if random.u8(..8) == 0 {
                    let other = country * OPERATORS + random.usize(..OPERATORS);
                    made.isp.push((base + block * 256, 24, other as u16));
                }
            }
        }
        made
    }

    /// How many networks have a country.
    pub fn geo_len(&self) -> usize {
        self.geo.len()
    }

    /// How many prefixes have an operator.
    pub fn isp_len(&self) -> usize {
        self.isp.len()
    }

    /// Networks as base address, length and city; a city's country is its number by [`CITIES`].
    pub fn geo(&self) -> impl Iterator<Item = (u32, u8, usize)> {
        self.geo.iter().map(|&(base, length, city)| (base, length, usize::from(city)))
    }

    /// Prefixes as base address, length and operator, more specific ones behind those that hold them.
    pub fn isp(&self) -> impl Iterator<Item = (u32, u8, usize)> {
        self.isp.iter().map(|&(base, length, operator)| (base, length, usize::from(operator)))
    }

    /// A /24 out of a random operator prefix.
    pub fn random_client(&self, random: &mut fastrand::Rng) -> [u8; 3] {
        let (base, length, _) = self.isp[random.usize(..self.isp.len())];
        let address = base + random.u32(..1 << (32 - length));
        let [first, second, third, _] = address.to_be_bytes();
        [first, second, third]
    }

    /// Writes the networks as a City database in MaxMind's layout.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_mmdb(&self, path: &Path) -> io::Result<()> {
        let mut writer = mmdb::Writer::new();
        let cities: Vec<u32> =
            (0..COUNTRIES.len() * CITIES).map(|city| writer.add_data(&city_data(city))).collect();
        for &(base, length, city) in &self.geo {
            writer.insert(base, length, cities[usize::from(city)]);
        }
        std::fs::write(path, writer.finish("GeoLite2-City"))
    }

    /// Writes one file per operator, a prefix a line, and returns the operators' names.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write_isp_tables(&self, folder: &Path) -> io::Result<Vec<String>> {
        let mut files = vec![String::new(); COUNTRIES.len() * OPERATORS];
        for &(base, length, operator) in &self.isp {
            let _ = writeln!(files[usize::from(operator)], "{}/{length}", Ipv4Addr::from(base));
        }
        let mut names = Vec::new();
        for (operator, text) in files.iter().enumerate().filter(|(_, text)| !text.is_empty()) {
            let name = format!("op{operator:03}");
            std::fs::write(folder.join(format!("{name}.txt")), text)?;
            names.push(name);
        }
        Ok(names)
    }
}

fn length(random: &mut fastrand::Rng) -> u8 {
    let mut draw = random.u32(..1_000);
    for (length, share) in LENGTHS {
        if draw < share {
            return length;
        }
        draw -= share;
    }
    24
}

/// Leaves out the first octets that hold special addresses (RFC 6890); real tables have none of them.
fn is_usable(base: u32) -> bool {
    ![10, 100, 127, 169, 172, 192, 198, 203].contains(&(base >> 24))
}

fn city_data(city: usize) -> mmdb::Value {
    use mmdb::Value::{Double, Map, Text, U16, U32};
    let place = COUNTRIES[city / CITIES];
    let spread = (city % CITIES) as f64 / 8.0 - 2.5;
    let names = |text: String| Map(vec![("en", Text(text))]);
    Map(vec![
        (
            "city",
            Map(vec![("geoname_id", U32(1_000_000 + city as u32)), ("names", names(format!("City {city}")))]),
        ),
        (
            "continent",
            Map(vec![
                ("code", Text(place.continent.into())),
                ("geoname_id", U32(6_255_146)),
                ("names", names(place.continent.into())),
            ]),
        ),
        (
            "country",
            Map(vec![
                ("geoname_id", U32(2_000_000 + (city / CITIES) as u32)),
                ("iso_code", Text(place.country.into())),
                ("names", names(place.country.into())),
            ]),
        ),
        (
            "location",
            Map(vec![
                ("accuracy_radius", U16(50)),
                ("latitude", Double(place.latitude + spread)),
                ("longitude", Double(place.longitude + spread)),
                ("time_zone", Text("Etc/UTC".into())),
            ]),
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_says_what_was_generated() {
        let networks = Networks::generate(7, 5_000);
        assert_eq!(networks.geo_len(), 5_000);
        assert!((8_000..13_000).contains(&networks.isp_len()), "{}", networks.isp_len());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("city.mmdb");
        networks.write_mmdb(&path).unwrap();
        let reader = maxminddb::Reader::open_readfile(&path).unwrap();
        assert_eq!(reader.metadata().database_type, "GeoLite2-City");
        for &(base, length, city) in networks.geo.iter().step_by(17) {
            let last = Ipv4Addr::from(base + (1 << (32 - length)) - 1);
            let found = reader.lookup(last.into()).unwrap();
            let data: maxminddb::geoip2::City<'_> = found.decode().unwrap().unwrap();
            assert_eq!(data.country.iso_code, Some(COUNTRIES[usize::from(city) / CITIES].country), "{last}");
            assert_eq!(data.city.geoname_id, Some(1_000_000 + u32::from(city)), "{last}");
            assert!(data.location.latitude.is_some());
        }
        let outside = reader.lookup(Ipv4Addr::new(10, 0, 0, 1).into()).unwrap();
        assert!(outside.decode::<maxminddb::geoip2::City<'_>>().unwrap().is_none());
    }

    #[test]
    fn a_seed_repeats_its_networks() {
        assert_eq!(Networks::generate(3, 100).isp, Networks::generate(3, 100).isp);
        assert_ne!(Networks::generate(3, 100).isp, Networks::generate(4, 100).isp);
    }
}
