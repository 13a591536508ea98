//! A world: what is so (which the program never sees) and what its tables believe.
//!
//! ```text
//! file ─► spec (exactly what it says) ─► read (checked, ids) ─► World ─► rtt(end, point, time)
//! ```

mod read;
pub mod spec;

pub use read::{Problem, from_text, to_text};

use portolan_balance::geo;
use std::net::IpAddr;

/// Hour of the day at which networks are busiest.
const BUSIEST_HOUR: f64 = 21.0;
const HOUR_MS: f64 = 3_600_000.0;

/// Position in [`World::ends`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndId(pub u32);

/// A world, checked.
#[derive(Clone, Debug)]
pub struct World {
    /// What people call it.
    pub name: String,
    /// Seed of what happens by chance.
    pub seed: u64,
    /// TTL of the answers.
    pub ttl_s: u32,
    /// Hour of the day at which it begins.
    pub start_hour: f64,
    /// Share of queries that go to the nearest name server.
    pub nearest_server: f64,
    /// Share of queries that come by TCP.
    pub tcp: f64,
    /// Sites: name and place.
    pub sites: Vec<Site>,
    /// What is measured from and chosen: links, or sites without any.
    pub points: Vec<Point>,
    /// Names of the operators.
    pub operators: Vec<String>,
    /// Client prefixes first, then resolvers' places.
    pub ends: Vec<End>,
    /// How many of the ends are client prefixes.
    pub prefixes: usize,
    /// Who asks: a cache, and for whom.
    pub askers: Vec<Asker>,
    /// By end, then by point, in milliseconds.
    pub rtt_ms: Vec<f32>,
    /// What happens.
    pub events: Vec<Event>,
}

/// A site.
#[derive(Clone, Debug)]
pub struct Site {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub place: geo::Point,
}

/// A link, or a site without any.
#[derive(Clone, Debug)]
pub struct Point {
    /// Which site.
    pub site: usize,
    /// The link's name.
    pub link: Option<String>,
    /// Connected to these.
    pub operators: Vec<u32>,
    /// Client lookups a second that it can serve.
    pub capacity: Option<f64>,
}

/// A client prefix, or a resolver's place.
#[derive(Clone, Debug)]
pub struct End {
    /// First address of its network.
    pub network: IpAddr,
    /// Length of its network.
    pub length: u8,
    /// The address queries come from, and that is probed.
    pub address: IpAddr,
    /// Whether probes are answered.
    pub answers_probes: bool,
    /// Whether TCP works.
    pub tcp: bool,
    /// Operator in truth.
    pub operator: Option<u32>,
    /// Where the tables believe it to be.
    pub believed_place: Option<geo::Point>,
    /// With whom the tables believe it to be.
    pub believed_operator: Option<u32>,
    /// Hours by which its day is ahead of UTC.
    pub hours_ahead: f32,
    /// As in the model.
    pub swing: f32,
    /// As in the model.
    pub jitter_ms: f32,
    /// As in the model.
    pub loss: f32,
    /// Whether it is one address at many places.
    pub is_anycast: bool,
}

/// A cache that asks.
#[derive(Clone, Debug)]
pub struct Asker {
    /// Where its queries come from.
    pub source: EndId,
    /// Whom it says it asks for (ECS).
    pub subnet: Option<EndId>,
    /// Whether that is believed enough to probe it.
    pub is_trusted: bool,
    /// Its clients, and their lookups a second.
    pub clients: Vec<(EndId, f64)>,
    /// The sum of those.
    pub rate: f64,
}

/// Something that happens.
#[derive(Clone, Debug)]
pub struct Event {
    /// From when.
    pub at_ms: u64,
    /// Until when.
    pub until_ms: u64,
    /// By point.
    pub points: Vec<bool>,
    /// Only clients of this operator.
    pub operator: Option<u32>,
    /// What.
    pub effect: spec::Effect,
}

impl Event {
    fn is_on(&self, now_ms: u64) -> bool {
        self.at_ms <= now_ms && now_ms < self.until_ms
    }
}

impl World {
    /// An end.
    ///
    /// # Panics
    ///
    /// Where the id is of another world.
    #[must_use]
    pub fn end(&self, id: EndId) -> &End {
        &self.ends[id.0 as usize]
    }

    /// `site` or `site/link`.
    #[must_use]
    pub fn point_name(&self, point: usize) -> String {
        let Some(it) = self.points.get(point) else { return format!("point {point}") };
        let site = self.sites.get(it.site).map_or("?", |site| &site.name);
        it.link.as_ref().map_or_else(|| site.to_owned(), |link| format!("{site}/{link}"))
    }

    /// Whether a point serves.
    #[must_use]
    pub fn is_up(&self, point: usize, now_ms: u64) -> bool {
        let is_down = |event: &Event| {
            event.effect == spec::Effect::Down
                && event.is_on(now_ms)
                && event.points.get(point).copied().unwrap_or(false)
        };
        !self.events.iter().any(is_down)
    }

    /// The round-trip time between an end and a point, without what chance adds to a single measurement.
    #[must_use]
    pub fn rtt_ms(&self, end: EndId, point: usize, now_ms: u64) -> f32 {
        let base = self.rtt_ms.get(end.0 as usize * self.points.len() + point).copied().unwrap_or(f32::MAX);
        let it = self.end(end);
        let mut rtt = base * self.swing(it, now_ms);
        for event in &self.events {
            if let spec::Effect::SlowMs(ms) = event.effect
                && event.is_on(now_ms)
                && event.points.get(point).copied().unwrap_or(false)
                && (event.operator.is_none() || event.operator == it.operator)
            {
                rtt += ms as f32;
            }
        }
        rtt
    }

    /// One at the quietest hour.
    fn swing(&self, end: &End, now_ms: u64) -> f32 {
        if end.swing == 0.0 {
            return 1.0;
        }
        let hour = self.start_hour + now_ms as f64 / HOUR_MS + f64::from(end.hours_ahead);
        let turn = (hour - BUSIEST_HOUR) / 24.0 * std::f64::consts::TAU;
        1.0 + end.swing * (0.5 + 0.5 * turn.cos()) as f32
    }

    /// The least round-trip time over the points that serve.
    #[must_use]
    pub fn best_ms(&self, end: EndId, now_ms: u64, is_up: &[bool]) -> Option<f32> {
        let rtts = is_up.iter().enumerate().filter(|(_, up)| **up).map(|(p, _)| self.rtt_ms(end, p, now_ms));
        rtts.min_by(f32::total_cmp)
    }
}
