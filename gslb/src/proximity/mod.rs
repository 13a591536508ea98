//! Measuring clients: the control plane's side of distance.
//!
//! ```text
//! queries ─► Measure (bounded) ─► sightings ─┐                    ┌─► Prober: who has earned it, within its pace
//! TCP clients ─► Passive (bounded) ─► samples ├─► Desk: the Table ─┼─► asks, cells (peers)
//! Prober, peers ──────────────────► samples  ─┘        │          └─► state folder
//!                                                      └─► Ranks ─► View, a few times a second
//! ```
//! - `desk`: the table with all that feeds it, behind one lock; `settings`: a config as the parts take it.
//! - `written`: round-trip times that operators set at run time; `saved`: what was measured, in the state folder.
//! - `peers`: what goes to other nodes and comes from them.
//! - `next`: what becomes of a client of whom nothing is known (case G14); `shown`: what the API says; `counts`: what
//!   status and metrics say.
//!
//! Locks are taken in this order: the desk, then the publisher. Nobody who holds the publisher's asks the desk.

mod counts;
mod desk;
mod next;
mod peers;
mod recent;
mod saved;
mod settings;
mod shown;
mod written;

pub use settings::fixed_ranks;

use crate::clock;
use crate::engine::{Engine, lock};
use crate::metrics::Family;
use crate::publisher::Look;
use crate::state::StateDir;
use desk::Desk;
use peers::{Inbox, Sent};
use portolan_api::{
    ApiError, ProximityPoint, ProximityQuery, ProximityShown, ProximityStatus, StaticRequest, StaticResult,
};
use portolan_balance::proximity::Ranks;
use portolan_balance::{ServiceId, View};
use portolan_config::Compiled;
use portolan_dns::measure::Measure;
use portolan_probe::proximity::Passive;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};
use tracing::error;

/// How often queues are emptied.
const TICK: Duration = Duration::from_millis(50);
/// The same where nobody is measured.
const IDLE_TICK: Duration = Duration::from_millis(500);
/// Ranks are published at most so often.
const PUBLISH: Duration = Duration::from_millis(200);
/// How full links are is looked at so often; scores follow it slowly anyway.
const USE: Duration = Duration::from_secs(5);
/// What was measured is saved so often, and at the end.
const SAVE: Duration = Duration::from_secs(300);

/// Distances of clients, as a node keeps them.
pub struct Proximity {
    desk: Mutex<Desk>,
    inbox: Mutex<Inbox>,
    saving: Mutex<()>,
}

impl Proximity {
    /// By a config, with what the state folder remembers. To be called within a tokio runtime.
    #[must_use]
    pub fn start(config: &Compiled, state: Option<StateDir>) -> Self {
        let mut desk = Desk::new(config, state);
        desk.restore();
        desk.apply(config);
        Self { desk: Mutex::new(desk), inbox: Mutex::default(), saving: Mutex::default() }
    }

    /// Takes another config. Until the result is dropped nothing is published, so that a view with the new points
    /// never meets ranks by the old ones.
    #[must_use]
    pub fn apply(&self, config: &Compiled) -> Applied<'_> {
        let mut desk = lock(&self.desk);
        desk.apply(config);
        Applied { desk }
    }

    /// What queries tell, where any service goes by distance.
    #[must_use]
    pub fn measure(&self) -> Option<Arc<Measure>> {
        lock(&self.desk).measure()
    }

    /// Who takes the round trips of TCP clients, where that is wanted.
    #[must_use]
    pub fn passive(&self) -> Option<Arc<Passive>> {
        lock(&self.desk).passive()
    }

    /// What was published last.
    #[must_use]
    pub fn ranks(&self) -> Arc<Ranks> {
        lock(&self.desk).ranks()
    }

    /// What `proximity show` says.
    pub fn show(&self, query: &ProximityQuery, view: &View) -> Result<ProximityShown, ApiError> {
        lock(&self.desk).show(query, view)
    }

    /// All that is known, as `proximity export` says it.
    #[must_use]
    pub fn export(&self) -> Vec<ProximityPoint> {
        lock(&self.desk).export()
    }

    /// Writes or removes a round-trip time by an operator's word.
    pub fn write(&self, request: &StaticRequest) -> Result<StaticResult, ApiError> {
        lock(&self.desk).write(request)
    }

    /// What becomes of a client of whom nothing is known.
    #[must_use]
    pub fn next(&self, address: IpAddr) -> String {
        lock(&self.desk).next(address)
    }

    /// In numbers; nothing where no service goes by distance.
    #[must_use]
    pub fn status(&self) -> Option<ProximityStatus> {
        lock(&self.desk).status()
    }

    /// Whether services go by distance and there is nothing to go by (T6).
    #[must_use]
    pub fn has_nothing(&self) -> bool {
        lock(&self.desk).has_nothing()
    }

    /// Metrics.
    #[must_use]
    pub fn families(&self) -> Vec<Family> {
        lock(&self.desk).families()
    }

    /// Saves what was measured.
    pub fn save(&self) {
        // one at a time: the file in the making has one name
        let _saving = lock(&self.saving);
        // written without the lock: a disk may take its time
        let saving = lock(&self.desk).saving();
        if let Some((state, octets)) = saving
            && !state.save_measured(&octets)
        {
            lock(&self.desk).count_failed_save();
        }
    }

    /// Empties the queues, and publishes through `publish` where there is news. Returns what peers are to be told, and
    /// whether there is anything to look after.
    fn turn(&self, is_due: bool, queries: u64, publish: impl FnOnce(Arc<Ranks>)) -> (Sent, bool) {
        let inbox = std::mem::take(&mut *lock(&self.inbox));
        let mut desk = lock(&self.desk);
        desk.count_queries(queries);
        desk.listen();
        desk.hear(inbox);
        if is_due && let Some(ranks) = desk.publish() {
            publish(ranks);
        }
        (desk.sent(is_due), desk.is_busy())
    }

    /// Takes in how full links are, where that counts (PX1).
    fn use_links(&self, engine: &Engine) {
        if engine.config().proximity.settings.weights.bandwidth > 0.0 {
            let look = engine.publisher.look();
            lock(&self.desk).set_use(&links_in_use(&look));
        }
    }

    fn count_untold(&self, count: u64) {
        if count > 0 {
            lock(&self.desk).counts.untold += count;
        }
    }
}

/// A config that was taken, and nothing published since.
pub struct Applied<'a> {
    desk: MutexGuard<'a, Desk>,
}

impl Applied<'_> {
    /// What queries tell.
    #[must_use]
    pub fn measure(&self) -> Option<Arc<Measure>> {
        self.desk.measure()
    }

    /// Who takes round trips.
    #[must_use]
    pub fn passive(&self) -> Option<Arc<Passive>> {
        self.desk.passive()
    }

    /// Ranks by the new points.
    #[must_use]
    pub fn ranks(&self) -> Arc<Ranks> {
        self.desk.ranks()
    }
}

/// Keeps a node's distances up to date until the node is gone. A thread of its own: the end of a window takes long
/// with many prefixes, and nothing else should wait for it.
pub fn keep(engine: Weak<Engine>) {
    let kept = std::thread::Builder::new().name("proximity".into()).spawn(move || run(&engine));
    if let Err(error) = kept {
        error!(%error, "clients are not measured: no thread for it");
    }
}

fn run(engine: &Weak<Engine>) {
    let (mut published, mut saved) = (Instant::now(), Instant::now());
    let mut used = Instant::now();
    while let Some(engine) = engine.upgrade() {
        let is_due = published.elapsed() >= PUBLISH;
        if is_due {
            published = Instant::now();
        }
        let queries = by_distance(&engine.snapshot.load().view);
        let (sent, is_busy) = engine.proximity.turn(is_due, queries, |ranks| engine.publisher.rank(ranks));
        engine.proximity.count_untold(sent.by(&engine.peers));
        if used.elapsed() >= USE {
            used = Instant::now();
            engine.proximity.use_links(&engine);
        }
        if saved.elapsed() >= SAVE {
            saved = Instant::now();
            engine.proximity.save();
        }
        drop(engine);
        std::thread::sleep(if is_busy { TICK } else { IDLE_TICK });
    }
}

/// The greatest share of its bandwidth that is in use, by site and link, as members' loads say.
fn links_in_use(look: &Look) -> BTreeMap<(&str, &str), f32> {
    let mut links = BTreeMap::new();
    let members = look.roster.services.iter().flat_map(|service| &service.members);
    for (member, place) in members.filter_map(|it| Some((it, (it.site.as_deref()?, it.link.as_deref()?)))) {
        let judged = member
            .seats
            .iter()
            .filter_map(|seat| look.judged.get(seat.service.0 as usize)?.get(usize::from(seat.candidate.0)));
        for load in judged.map(|judged| &judged.fact.load) {
            if let (Some(now), Some(most)) =
                (load.bandwidth_bps, load.bandwidth_max_bps.filter(|most| *most > 0))
            {
                let share = now as f32 / most as f32;
                let known: &mut f32 = links.entry(place).or_default();
                *known = known.max(share);
            }
        }
    }
    links
}

/// Decisions of services that go by distance, since the start.
fn by_distance(view: &View) -> u64 {
    let ids = (0..).map(ServiceId).zip(&view.services);
    let used = ids.filter(|(_, service)| settings::goes_by_distance(&service.policy));
    used.map(|(id, _)| view.turns.peek(id)).sum()
}

/// The clock of the table: that of queries.
fn now_ms() -> u64 {
    clock::now().mono_ms
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publisher::Judged;
    use crate::roster::{Roster, RosterMember, RosterService, Seat};
    use portolan_balance::{CandidateId, Fact, Load};

    #[test]
    fn the_fullest_member_tells_how_full_a_link_is() {
        let seat = |candidate| Seat {
            service: ServiceId(0),
            candidate: CandidateId(candidate),
            checks: Vec::new(),
            require: portolan_probe::Require::default(),
            origin: portolan_config::Origin::Configured,
        };
        let member = |number: u8, link: &str| RosterMember {
            site: Some("here".into()),
            link: Some(link.into()),
            seats: vec![seat(number)],
            ..RosterMember::default()
        };
        let judged = |now, most| Judged {
            fact: Fact {
                load: Load { bandwidth_bps: now, bandwidth_max_bps: most, ..Load::default() },
                ..Fact::default()
            },
            ..Judged::default()
        };
        let members = vec![member(0, "ct"), member(1, "ct"), member(2, "cu"), member(3, "cm")];
        let services = vec![RosterService { members, ..RosterService::default() }];
        let look = Look {
            roster: Arc::new(Roster { services, ..Roster::default() }),
            view: Arc::new(View::empty()),
            judged: vec![vec![
                judged(Some(10), Some(100)),
                judged(Some(60), Some(100)),
                judged(Some(5), Some(0)),
                judged(None, Some(100)),
            ]],
            forced: Vec::new(),
        };
        assert_eq!(links_in_use(&look), BTreeMap::from([(("here", "ct"), 0.6)]));
    }
}
