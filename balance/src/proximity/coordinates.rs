//! Low-dimensional network coordinates: what to expect between a point and a prefix that were never measured.
//!
//! Three dimensions for the long way and a height for the last mile, which every path pays (Vivaldi). A point that
//! has a place begins there, others begin at a spot that follows from their number; no dice. All is done over a
//! whole table at once, in the order of prefixes, so the same table gives the same coordinates.

use super::{PointId, Points};

/// Milliseconds a kilometre of distance: there and back at two thirds of the speed of light, with a detour.
const MS_A_KM: f32 = 0.014;
const EARTH_KM: f32 = 6371.0;
/// Measured points from which a prefix is placed.
pub(super) const ENOUGH: usize = 3;

/// A position, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Position {
    at: [f32; 3],
    /// The last mile.
    height: f32,
    /// Mean relative error of what it was made from.
    pub(super) error: f32,
}

impl Position {
    const ORIGIN: Self = Self { at: [0.0; 3], height: 0.0, error: 1.0 };

    fn span(&self, other: &Self) -> f32 {
        let square = |i: usize| (self.at[i] - other.at[i]).powi(2);
        (square(0) + square(1) + square(2)).sqrt()
    }

    /// The round-trip time between two positions.
    #[must_use]
    pub fn rtt_ms(&self, other: &Self) -> f32 {
        self.span(other) + self.height + other.height
    }

    /// Moves it along the line to `other` until the distance is `rtt_ms`, by a share of the way.
    fn pull(&mut self, other: &Self, rtt_ms: f32, share: f32, salt: u32) {
        let span = self.span(other);
        let error = rtt_ms - self.rtt_ms(other);
        let direction =
            if span > 0.01 { std::array::from_fn(|i| (self.at[i] - other.at[i]) / span) } else { spot(salt) };
        for (at, direction) in self.at.iter_mut().zip(direction) {
            *at += direction * error * share;
        }
        // the height pays its part, as in Vivaldi
        let part = self.height.max(1.0) / (span + self.height + other.height).max(1.0);
        self.height = (self.height + error * share * part).clamp(0.0, rtt_ms.max(0.0));
    }
}

/// A direction that follows from a number.
fn spot(salt: u32) -> [f32; 3] {
    let bits = crate::hash::mix(u64::from(salt), 0xc00d);
    let unit = |shift: u32| ((bits >> shift) & 0xffff) as f32 / 32_768.0 - 1.0;
    let raw = [unit(0), unit(16), unit(32)];
    let length = raw.iter().map(|it| it * it).sum::<f32>().sqrt().max(0.01);
    raw.map(|it| it / length)
}

/// The points' positions.
#[derive(Clone, Debug, Default)]
pub struct Space {
    points: Vec<Position>,
}

impl Space {
    /// Where the points begin.
    #[must_use]
    pub fn new(points: &Points) -> Self {
        let begin = |(id, point): (PointId, &super::Point)| {
            let radius = EARTH_KM * MS_A_KM;
            let at = match point.place {
                Some(place) => {
                    let (lat, lon) = (place.lat.to_radians() as f32, place.lon.to_radians() as f32);
                    [lat.cos() * lon.cos(), lat.cos() * lon.sin(), lat.sin()].map(|it| it * radius)
                }
                None => spot(u32::from(id.0)).map(|it| it * 20.0),
            };
            Position { at, ..Position::ORIGIN }
        };
        Self { points: points.iter().map(begin).collect() }
    }

    /// The position of a point.
    #[must_use]
    pub fn point(&self, id: PointId) -> Option<&Position> {
        self.points.get(usize::from(id.0))
    }

    /// The time between two points, without the last miles.
    pub(super) fn between_ms(&self, a: PointId, b: PointId) -> f32 {
        match (self.point(a), self.point(b)) {
            (Some(a), Some(b)) => a.span(b),
            _ => 0.0,
        }
    }

    /// Places a prefix by what was measured; `None` where that is too little.
    #[must_use]
    pub fn place(&self, measured: &[(PointId, f32)]) -> Option<Position> {
        if measured.len() < ENOUGH {
            return None;
        }
        let nearest =
            measured.iter().min_by(|a, b| a.1.total_cmp(&b.1)).and_then(|(id, _)| self.point(*id))?;
        // two beginnings: where the nearest point is, and in the middle, near ones counting more
        let mut middle = [0.0_f32; 3];
        let mut total = 0.0;
        for (id, rtt) in measured {
            let point = self.point(*id)?;
            let weight = 1.0 / rtt.max(1.0);
            total += weight;
            for (middle, at) in middle.iter_mut().zip(point.at) {
                *middle += at * weight;
            }
        }
        let middle = middle.map(|it| it / total.max(f32::MIN_POSITIVE));
        let tries = [nearest.at, middle].map(|at| self.fit(Position { at, ..Position::ORIGIN }, measured));
        tries.into_iter().min_by(|a, b| a.error.total_cmp(&b.error))
    }

    /// Lets springs of the measured lengths pull at a position, ever more softly.
    fn fit(&self, mut position: Position, measured: &[(PointId, f32)]) -> Position {
        for round in 0..60 {
            let share = 0.4 / (1.0 + round as f32 / 12.0);
            let before = position;
            for (id, rtt) in measured {
                if let Some(point) = self.point(*id) {
                    position.pull(point, *rtt, share, round);
                }
            }
            if position.span(&before) < 0.02 {
                break;
            }
        }
        position.error = self.error(&position, measured);
        position
    }

    fn error(&self, position: &Position, measured: &[(PointId, f32)]) -> f32 {
        let of = |(id, rtt): &(PointId, f32)| {
            self.point(*id).map(|point| (position.rtt_ms(point) - rtt).abs() / rtt.max(5.0))
        };
        measured.iter().filter_map(of).sum::<f32>() / measured.len().max(1) as f32
    }

    /// Lets prefixes pull at the points, so that the points fit what is measured. A few rounds over a table with
    /// many prefixes settle it.
    pub fn adjust<'a>(&mut self, prefixes: impl Iterator<Item = &'a [(PointId, f32)]>) {
        for (number, measured) in prefixes.enumerate() {
            let Some(position) = self.place(measured) else { continue };
            // a prefix that fits nowhere says little about the points
            let share = 0.05 / (1.0 + 4.0 * position.error);
            for (id, rtt) in measured {
                if let Some(point) = self.points.get_mut(usize::from(id.0)) {
                    point.pull(&position, *rtt, share, number as u32);
                }
            }
        }
    }

    /// The round-trip time to expect from a point.
    #[must_use]
    pub fn predict_ms(&self, position: &Position, point: PointId) -> Option<f32> {
        self.point(point).map(|point| position.rtt_ms(point))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::mix;
    use crate::proximity::Point;

    /// A plane with points and prefixes; the time between them is the distance and a last mile.
    struct Plane {
        seed: u64,
        points: Vec<[f32; 2]>,
    }

    impl Plane {
        fn unit(&self, salt: u64) -> f32 {
            (mix(self.seed, salt) >> 40) as f32 / (1 << 24) as f32
        }

        fn new(seed: u64, points: usize) -> Self {
            let mut plane = Self { seed, points: Vec::new() };
            plane.points =
                (0..points as u64).map(|i| [plane.unit(i) * 200.0, plane.unit(1000 + i) * 200.0]).collect();
            plane
        }

        fn rtts(&self, prefix: u64) -> Vec<f32> {
            let at = [self.unit(2000 + prefix) * 200.0, self.unit(90_000 + prefix) * 200.0];
            let mile = 1.0 + 9.0 * self.unit(180_000 + prefix);
            let far = |p: &[f32; 2]| ((p[0] - at[0]).powi(2) + (p[1] - at[1]).powi(2)).sqrt();
            self.points.iter().map(|p| far(p) + mile).collect()
        }
    }

    fn points(count: usize) -> Points {
        Points::new((0..count).map(|i| Point {
            site: format!("s{i}"),
            link: None,
            place: None,
            cost: 0.0,
            is_own: false,
        }))
    }

    #[test]
    fn predicts_a_plane_from_a_few_measurements() {
        for seed in 1..4 {
            let plane = Plane::new(seed, 8);
            let ids: Vec<PointId> = (0..8).map(PointId).collect();
            let mut space = Space::new(&points(8));
            let all: Vec<Vec<(PointId, f32)>> =
                (0..150).map(|prefix| ids.iter().copied().zip(plane.rtts(prefix)).collect()).collect();
            for _ in 0..20 {
                space.adjust(all.iter().map(Vec::as_slice));
            }
            let mut errors = Vec::new();
            let mut best = 0;
            for prefix in 1000..1200 {
                let rtts = plane.rtts(prefix);
                let known: Vec<(PointId, f32)> = (0..5).map(|i| (PointId(i), rtts[usize::from(i)])).collect();
                let position = space.place(&known).unwrap();
                for i in 5..8_u16 {
                    let right = rtts[usize::from(i)];
                    let told = space.predict_ms(&position, PointId(i)).unwrap();
                    errors.push((told - right).abs() / right.max(10.0));
                }
                let told = |id: &PointId| {
                    known
                        .iter()
                        .find(|it| it.0 == *id)
                        .map_or_else(|| space.predict_ms(&position, *id).unwrap(), |it| it.1)
                };
                let chosen = ids.iter().min_by(|a, b| told(a).total_cmp(&told(b))).unwrap();
                let least = rtts.iter().copied().fold(f32::MAX, f32::min);
                best += u32::from(rtts[usize::from(chosen.0)] <= least + 10.0);
            }
            errors.sort_by(f32::total_cmp);
            let (median, p90) = (errors[errors.len() / 2], errors[errors.len() * 9 / 10]);
            println!("seed {seed}: median error {median:.3}, p90 {p90:.3}, {best} of 200 near the best");
            assert!(median < 0.10 && p90 < 0.35, "seed {seed}: {median} {p90}");
            assert!(best >= 180, "seed {seed}: {best}");
        }
    }

    #[test]
    fn is_the_same_each_time_and_needs_enough() {
        let plane = Plane::new(9, 6);
        let measured: Vec<(PointId, f32)> = (0..6).map(PointId).zip(plane.rtts(3)).collect();
        let make = || {
            let mut space = Space::new(&points(6));
            space.adjust(std::iter::repeat_n(measured.as_slice(), 5));
            space.place(&measured)
        };
        assert!(make().is_some() && make() == make());
        assert_eq!(Space::new(&points(6)).place(&measured[..2]), None);
        // what cannot be is no panic
        let odd = [(PointId(0), 0.0), (PointId(1), f32::MAX), (PointId(99), 3.0)];
        assert_eq!(Space::new(&points(2)).place(&odd), None);
    }
}
