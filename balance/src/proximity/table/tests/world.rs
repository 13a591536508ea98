//! A made-up globe: sites and prefixes with places, times by distance, a detour with a long tail and a last mile.

use super::*;
use crate::geo;

const SITES: [(f64, f64); 12] = [
    (50.1, 8.7),
    (51.5, -0.1),
    (40.7, -74.0),
    (34.0, -118.2),
    (35.7, 139.7),
    (1.35, 103.8),
    (-33.9, 151.2),
    (-23.5, -46.6),
    (19.1, 72.9),
    (-26.2, 28.0),
    (25.2, 55.3),
    (39.9, 116.4),
];

struct World {
    seed: u64,
}

impl World {
    fn unit(&self, a: u64, b: u64) -> f64 {
        (mix(mix(self.seed, a), b) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Around one of forty towns.
    fn place(&self, prefix: u32) -> geo::Point {
        let town = mix(self.seed, u64::from(prefix)) % 40;
        let near = |salt: u64| 3.0 * (self.unit(u64::from(prefix), salt) - 0.5);
        let lat = 120.0 * self.unit(town, 901) - 50.0 + near(1);
        let lon = (360.0 * self.unit(town, 902) - 180.0 + near(2)).clamp(-180.0, 180.0);
        geo::Point { lat, lon }
    }

    fn rtt_us(&self, prefix: u32, site: usize) -> u32 {
        let (lat, lon) = SITES[site];
        let km = geo::distance_km(self.place(prefix), geo::Point { lat, lon });
        let tail = self.unit(u64::from(prefix), 1000 + site as u64);
        let detour = 1.2 + 0.5 * tail + if tail > 0.95 { 1.0 } else { 0.0 };
        let mile_ms = 1.0 + 12.0 * self.unit(u64::from(prefix), 3).powi(3);
        ((km / 100.0 * detour + mile_ms) * 1000.0) as u32
    }

    /// Seven of ten answer probes.
    fn answers(&self, prefix: u32) -> bool {
        self.unit(u64::from(prefix), 4) < 0.7
    }
}

fn prefix_of(number: u32) -> Prefix {
    // none beside another, so that nothing stands for anything
    Prefix::of(false, u64::from(number.reverse_bits() >> 8) << 40, 24)
}

/// Few measurements for each prefix are enough to send nearly all to where they are near.
#[test]
fn a_few_probes_find_the_nearest_site() {
    for seed in 1..3 {
        let world = World { seed };
        let points = Points::new(SITES.iter().enumerate().map(|(i, (lat, lon))| Point {
            site: format!("s{i}"),
            link: None,
            place: Some(geo::Point { lat: *lat, lon: *lon }),
            cost: 0.0,
            is_own: true,
        }));
        let mut table = Table::new(Settings::default(), points);
        let prefixes = 400_u32;
        let mut probes = 0;
        for round in 0..12_u64 {
            let now_ms = round * WINDOW;
            for number in 0..prefixes {
                for _ in 0..3 {
                    let Some(wanted) = table.wanted(now_ms, prefix_of(number).address()) else { break };
                    for point in wanted.points {
                        probes += 1;
                        let rtt_us = world.rtt_us(number, usize::from(point.0));
                        table.observe(
                            now_ms,
                            Sample {
                                prefix: wanted.prefix,
                                point,
                                rtt_us: world.answers(number).then_some(rtt_us),
                                hops: None,
                                source: Source::Icmp,
                            },
                        );
                    }
                }
            }
            table.publish(now_ms + 1000);
            table.check_invariants();
        }
        let view = view(table.ranks.clone(), SITES.len(), quiet());
        let mut regrets = Vec::new();
        for number in (0..prefixes).filter(|number| world.answers(*number)) {
            let asked = ask(&view, &prefix_of(number).address().to_string(), 32, u64::from(number));
            let best = (0..SITES.len()).map(|site| world.rtt_us(number, site)).min().unwrap();
            regrets.push(world.rtt_us(number, usize::from(asked.pick)) - best);
        }
        regrets.sort_unstable();
        let near = regrets.iter().filter(|us| **us <= 5_000).count() as f64 / regrets.len() as f64;
        let (median, p95) = (regrets[regrets.len() / 2], regrets[regrets.len() * 95 / 100]);
        let each = f64::from(probes) / f64::from(prefixes);
        println!("seed {seed}: {near:.3} near, regret {median} us, p95 {p95} us, {each:.1} probes a prefix");
        assert!(near >= 0.9 && p95 <= 10_000, "seed {seed}: {near} {p95}");
        assert!(each <= 12.0, "seed {seed}: {each} probes a prefix");
    }
}
