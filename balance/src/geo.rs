//! Places: great-circle distance and the ranking of sites by it.

use crate::policy::SiteId;

/// Degrees on the globe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Latitude, -90..=90.
    pub lat: f64,
    /// Longitude, -180..=180.
    pub lon: f64,
}

/// Great-circle distance in kilometres, on a sphere of the Earth's mean radius (haversine).
#[must_use]
pub fn distance_km(a: Point, b: Point) -> f64 {
    const EARTH_KM: f64 = 6371.0088;
    let (lat_a, lat_b) = (a.lat.to_radians(), b.lat.to_radians());
    let lat = ((lat_b - lat_a) / 2.0).sin();
    let lon = ((b.lon - a.lon).to_radians() / 2.0).sin();
    let h = lat * lat + lat_a.cos() * lat_b.cos() * lon * lon;
    2.0 * EARTH_KM * h.clamp(0.0, 1.0).sqrt().asin()
}

/// A site as the ranking sees it.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Which site.
    pub site: SiteId,
    /// Where.
    pub point: Point,
    /// Kilometres added to its distance; negative draws clients in.
    pub bias_km: f64,
}

/// Sites by distance from `client`, nearest first; sites at the same distance (to the kilometre, bias
/// included) share a group (G12).
#[must_use]
pub fn rank(client: Point, sites: &[Place]) -> Vec<Vec<SiteId>> {
    let mut by_km: Vec<(i64, SiteId)> = sites
        .iter()
        .map(|place| ((distance_km(client, place.point) + place.bias_km).round() as i64, place.site))
        .collect();
    by_km.sort_unstable();
    let mut groups: Vec<(i64, Vec<SiteId>)> = Vec::new();
    for (km, site) in by_km {
        match groups.last_mut() {
            Some((last, group)) if *last == km => group.push(site),
            _ => groups.push((km, vec![site])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEIJING: Point = Point { lat: 39.9, lon: 116.4 };
    const FRANKFURT: Point = Point { lat: 50.1, lon: 8.7 };

    #[test]
    fn distances_are_those_of_an_atlas() {
        for (a, b, km) in [
            (BEIJING, FRANKFURT, 7_790.0),
            (BEIJING, BEIJING, 0.0),
            (Point { lat: 0.0, lon: 179.9 }, Point { lat: 0.0, lon: -179.9 }, 22.2),
            (Point { lat: 90.0, lon: 0.0 }, Point { lat: -90.0, lon: 77.0 }, 20_015.1),
        ] {
            let got = distance_km(a, b);
            assert!((got - km).abs() <= km * 0.005 + 0.1, "{a:?} {b:?}: {got} km, not {km}");
        }
    }

    #[test]
    fn equal_distance_is_one_group_and_bias_moves_a_site() {
        let place = |n, lat, bias_km| Place { site: SiteId(n), point: Point { lat, lon: 0.0 }, bias_km };
        let client = Point { lat: 0.0, lon: 0.0 };
        let sites = [place(0, 10.0, 0.0), place(1, -10.0, 0.0), place(2, 5.0, 0.0)];
        assert_eq!(rank(client, &sites), [vec![SiteId(2)], vec![SiteId(0), SiteId(1)]]);
        let biased = [place(0, 10.0, -2_000.0), place(2, 5.0, 0.0)];
        assert_eq!(rank(client, &biased), [vec![SiteId(0)], vec![SiteId(2)]]);
    }
}
