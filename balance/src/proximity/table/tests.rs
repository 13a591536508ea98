//! What the table does, case by case.

mod properties;
mod world;

use super::*;
use crate::hash::mix;
use crate::policy::{Candidate, Fallback, Persist, Policy, Step};
use crate::proximity::choose::{Band, members_at};
use crate::proximity::ranks::{Kind, Score};
use crate::proximity::{Point, Source};
use crate::set::{CandidateId, CandidateSet};
use crate::view::{Service, View};
use crate::{Ask, Client, Dice, Event, Row, Scheduler, ServiceId, Standing, decide};

const MINUTE: u64 = 60_000;
const WINDOW: u64 = 5 * MINUTE;

fn points(count: usize) -> Points {
    Points::new((0..count).map(|i| Point {
        site: format!("s{i}"),
        link: None,
        place: None,
        cost: 0.0,
        is_own: true,
    }))
}

fn table(points: usize) -> Table {
    Table::new(Settings { dwell_ms: 0, ..Settings::default() }, self::points(points))
}

fn prefix(text: &str) -> Prefix {
    let (address, length) = text.split_once('/').unwrap();
    Prefix::new(address.parse().unwrap(), length.parse().unwrap())
}

fn sample(of: &str, point: u16, ms: u32) -> Sample {
    Sample {
        prefix: prefix(of),
        point: PointId(point),
        rtt_us: Some(ms * 1000),
        hops: None,
        source: Source::Icmp,
    }
}

fn see(table: &mut Table, now_ms: u64, of: &str, ms: &[u32]) {
    for (point, ms) in ms.iter().enumerate() {
        table.observe(now_ms, sample(of, point as u16, *ms));
    }
}

/// What a query would see: each point's score in milliseconds, the row's kind and the scope.
fn look(ranks: &Ranks, address: &str, points: u16) -> (Vec<Option<u32>>, Option<Kind>, u8) {
    let looked = ranks.find(address.parse().unwrap(), 128, 0);
    let firm = |score: &Score| !score.is_weak;
    let score = |i| looked.row.as_ref()?.score(PointId(i), 0).filter(firm).map(|score| score.us / 1000);
    ((0..points).map(score).collect(), looked.row.map(|row| row.head().kind), looked.scope)
}

fn shown(table: &mut Table, now_ms: u64, address: &str) -> Vec<Option<u32>> {
    table.publish(now_ms);
    look(&table.ranks, address, table.points.len() as u16).0
}

/// A service whose candidate `i` is at point `i`.
fn view(ranks: Ranks, points: usize, band: Band) -> View {
    let id = |i: usize| CandidateId(i as u8);
    let candidates: Vec<Candidate> = (0..points)
        .map(|i| Candidate {
            name: format!("m{i}"),
            key: mix(1, i as u64),
            site: None,
            weight: 1,
            tier: 1,
            load_threshold: None,
            connections_max: None,
        })
        .collect();
    let at = members_at((0..points).map(|i| (id(i), Some(PointId(i as u16)))));
    let steps = vec![Step::Proximity { members_at: at, band }];
    let policy = Arc::new(Policy {
        name: "www.example.com.".into(),
        tiers: Policy::tiers_of(&candidates),
        consulted: Policy::consulted_by(&steps),
        candidates,
        steps,
        scheduler: Scheduler::Random,
        persist: None,
        minimum: 1,
        answers: 1,
        ttl_s: 30,
        fallback: Fallback::All,
        seed: 7,
    });
    let standing = Standing::new(&policy, &[]);
    let services = vec![Arc::new(Service { policy, standing })];
    View { proximity: Arc::new(ranks), services, ..View::empty() }
}

struct Asked {
    set: CandidateSet,
    pick: u8,
    scope: u8,
    is_unmeasured: bool,
    events: Vec<Event>,
}

fn ask(view: &View, address: &str, length: u8, entropy: u64) -> Asked {
    let address: IpAddr = address.parse().unwrap();
    let client = Client { address, prefix: length, port: 0 };
    let ask = Ask {
        service: ServiceId(0),
        client,
        leaf: view.nets.lookup(address),
        destination: None,
        payload: &[],
        now_s: 0,
    };
    let (mut row, mut events) = (Row::default(), Vec::new());
    let decision = decide(view, &ask, Dice { entropy, turn: 0 }, &mut row, &mut events);
    Asked {
        set: row.set,
        pick: row.picks[0].0,
        scope: decision.scope,
        is_unmeasured: decision.is_unmeasured,
        events,
    }
}

fn quiet() -> Band {
    Band { explore_permille: 0, ..Band::default() }
}

fn set(ids: &[u8]) -> CandidateSet {
    ids.iter().map(|id| CandidateId(*id)).collect()
}

#[test]
fn tolerance_decides_who_is_equal() {
    // case G15: 20, 23 and 60 ms
    let mut table = table(3);
    see(&mut table, 0, "192.0.2.0/24", &[20, 23, 60]);
    table.publish(0);
    for (us, right) in [(5_000, set(&[0, 1])), (0, set(&[0]))] {
        let band = Band { us, ..quiet() };
        let asked = ask(&view(table.ranks.clone(), 3, band), "192.0.2.77", 32, 1);
        assert_eq!(asked.set, right, "{:?}", asked.events);
        assert!(!asked.is_unmeasured);
        assert_eq!(asked.scope, 24);
    }
}

#[test]
fn a_sample_within_the_tolerance_changes_nothing_and_tells_nobody() {
    // case G15
    let mut table = table(2);
    see(&mut table, 0, "192.0.2.0/24", &[20, 60]);
    assert!(table.publish(0).is_some());
    assert_eq!(table.changed(0, 10).len(), 2);
    for i in 0..20 {
        see(&mut table, i * 1000, "192.0.2.0/24", &[24, 57]);
        assert!(table.publish(i * 1000).is_none(), "nothing to publish");
    }
    for i in 1..6 {
        see(&mut table, i * WINDOW, "192.0.2.0/24", &[24, 57]);
        table.publish(i * WINDOW);
    }
    assert_eq!(shown(&mut table, 6 * WINDOW, "192.0.2.1"), [Some(20), Some(60)]);
    assert_eq!(table.changed(6 * WINDOW, 10), []);
    // what was said grows old: told again, though nothing changed
    for i in 7..60 {
        see(&mut table, i * WINDOW, "192.0.2.0/24", &[24, 57]);
        table.publish(i * WINDOW);
    }
    assert_eq!(table.changed(60 * WINDOW, 10).len(), 2);
}

#[test]
fn static_entries_beat_measured_ones() {
    // PX2
    for written in ["192.0.2.0/24", "192.0.0.0/20", "192.0.0.0/8", "0.0.0.0/0"] {
        let mut table = table(3);
        see(&mut table, 0, "192.0.2.0/24", &[20, 23, 60]);
        assert!(table.set_static(prefix(written), PointId(2), 50_000));
        table.publish(0);
        let view = view(table.ranks.clone(), 3, Band { explore_permille: 1000, ..Band::default() });
        let asked = ask(&view, "192.0.2.1", 32, 1);
        assert_eq!(asked.set, set(&[2]), "{written}: never put to the test: {:?}", asked.events);
        let beside = ask(&view, "192.0.3.1", 32, 1);
        let right = if written == "192.0.2.0/24" { set(&[0, 1, 2]) } else { set(&[2]) };
        assert_eq!(beside.set, right, "{written}");
        assert!(table.remove_static(prefix(written), PointId(2)));
        assert!(!table.remove_static(prefix(written), PointId(2)));
        table.publish(1000);
        assert_eq!(ask(&self::view(table.ranks.clone(), 3, quiet()), "192.0.2.1", 32, 1).set, set(&[0, 1]));
        assert_eq!(
            ask(&self::view(table.ranks.clone(), 3, quiet()), "192.0.3.1", 32, 1).set,
            set(&[0, 1, 2])
        );
    }
    let mut table = table(1);
    assert!(!table.set_static(prefix("192.0.2.1/32"), PointId(0), 1), "longer than entries are");
    assert!(!table.set_static(prefix("192.0.2.0/24"), PointId(9), 1), "no such point");
}

#[test]
fn what_is_excluded_is_neither_measured_nor_ranked() {
    let mut table = table(2);
    see(&mut table, 0, "192.0.2.0/24", &[20, 60]);
    see(&mut table, 0, "192.0.3.0/24", &[20, 60]);
    table.set_excluded(&[prefix("192.0.2.53/32")]);
    table.publish(0);
    let view = view(table.ranks.clone(), 2, quiet());
    let asked = ask(&view, "192.0.2.9", 32, 1);
    assert_eq!((asked.set, asked.is_unmeasured), (set(&[0, 1]), false));
    assert_eq!(ask(&view, "192.0.3.9", 32, 1).set, set(&[0]));
    assert_eq!(table.observe(0, sample("192.0.2.0/24", 0, 5)), Observed::Refused);
    assert_eq!(table.wanted(0, "192.0.2.1".parse().unwrap()), None);
    table.set_excluded(&[]);
    see(&mut table, 0, "192.0.2.0/24", &[60, 20]);
    table.publish(0);
    assert_eq!(ask(&self::view(table.ranks.clone(), 2, quiet()), "192.0.2.9", 32, 1).set, set(&[1]));
}

#[test]
fn an_address_at_many_places_is_not_ranked() {
    let at = |lat, lon| Some(crate::geo::Point { lat, lon });
    let sites = [("fra", at(50.1, 8.7)), ("syd", at(-33.9, 151.2)), ("par", at(48.9, 2.4))];
    let points = Points::new(sites.map(|(site, place)| Point {
        site: site.into(),
        link: None,
        place,
        cost: 0.0,
        is_own: true,
    }));
    let mut table = Table::new(Settings::default(), points);
    see(&mut table, 0, "192.0.2.0/24", &[3, 4, 8]);
    see(&mut table, 0, "192.0.3.0/24", &[3, 280, 12]);
    table.publish(0);
    assert_eq!(look(&table.ranks, "192.0.2.1", 3).1, Some(Kind::Skipped));
    assert_eq!(look(&table.ranks, "192.0.3.1", 3).1, Some(Kind::Own));
    assert_eq!(table.wanted(MINUTE, "192.0.2.1".parse().unwrap()), None);
}

#[test]
fn a_few_stray_measurements_do_not_draw_a_client() {
    for (ms, right, why) in [
        (&[20][..], set(&[0]), "near by itself"),
        (&[250], set(&[0, 1, 2, 3, 4]), "only one, and far"),
        (&[250, 280], set(&[0, 1, 2, 3, 4]), "two of five, and far"),
        (&[80, 280, 90], set(&[0]), "a comparison"),
    ] {
        let mut table = table(5);
        see(&mut table, 0, "192.0.2.0/24", ms);
        // three are enough for coordinates; they are not under test
        table.space = Space::default();
        table.publish(0);
        let asked = ask(&view(table.ranks.clone(), 5, quiet()), "192.0.2.1", 32, 1);
        assert_eq!(asked.set, right, "{why}: {:?}", asked.events);
    }
}

#[test]
fn those_around_and_the_operator_stand_for_a_client_that_was_never_measured() {
    let mut table = table(2);
    for i in 0..8 {
        see(&mut table, 0, &format!("192.0.{i}.0/24"), &[20, 60]);
    }
    table.publish(0);
    let view = view(table.ranks.clone(), 2, quiet());
    for (address, kind, scope) in [
        ("192.0.5.1", Some(Kind::Own), 24),
        ("192.0.9.1", Some(Kind::Covering), 24),
        ("192.0.200.1", Some(Kind::Covering), 18),
        ("192.1.0.1", None, 18),
        ("2001:db8::1", None, 42),
    ] {
        let asked = ask(&view, address, 128, 1);
        assert_eq!((look(&table.ranks, address, 2).1, asked.scope), (kind, scope), "{address}");
        assert_eq!(asked.set, if kind.is_some() { set(&[0]) } else { set(&[0, 1]) }, "{address}");
        assert_eq!(asked.is_unmeasured, kind != Some(Kind::Own), "{address}");
    }
    // a client subnet that is shorter than an entry: none of its parts speaks for all of it
    let asked = ask(&view, "192.0.0.0", 20, 1);
    assert_eq!((asked.set, asked.scope), (set(&[0]), 20), "{:?}", asked.events);
    assert_eq!(ask(&view, "192.0.0.0", 10, 1).set, set(&[0, 1]));
}

#[test]
fn silence_is_remembered_and_asked_less_and_less() {
    // case G14
    let mut table = table(2);
    let address: IpAddr = "192.0.2.53".parse().unwrap();
    let mut asked = 0;
    let mut now_ms = 0;
    while now_ms < 2 * 86_400_000 {
        if let Some(wanted) = table.wanted(now_ms, address) {
            for point in wanted.points {
                asked += 1;
                let lost = Sample { rtt_us: None, ..sample("192.0.2.0/24", point.0, 0) };
                table.observe(now_ms, lost);
            }
        }
        table.publish(now_ms);
        now_ms += 10 * MINUTE;
    }
    assert!((6..=40).contains(&asked), "{asked} probes of a silent client in two days");
    let head = table.ranks.find(address, 32, 0).row.unwrap().head();
    assert!(head.silent >= 3 && head.samples == 0, "{head:?}");
    // it answers after all
    see(&mut table, now_ms, "192.0.2.0/24", &[20, 60]);
    assert_eq!(shown(&mut table, now_ms, "192.0.2.1"), [Some(20), Some(60)]);
    assert_eq!(table.ranks.find(address, 32, 0).row.unwrap().head().silent, 0);
}

#[test]
fn measuring_begins_far_apart_and_goes_on_with_what_could_be_best() {
    let at = |lon| Some(crate::geo::Point { lat: 0.0, lon });
    let points = Points::new([0.0, 2.0, 90.0, 92.0, 178.0].iter().enumerate().map(|(i, lon)| Point {
        site: format!("s{i}"),
        link: None,
        place: at(*lon),
        cost: 0.0,
        is_own: true,
    }));
    let mut table = Table::new(Settings::default(), points);
    let address: IpAddr = "192.0.2.1".parse().unwrap();
    let wanted = |table: &mut Table, now_ms| table.wanted(now_ms, address).map(|it| it.points);
    assert_eq!(wanted(&mut table, 0), Some(vec![PointId(0)]), "one, for nobody knows whether it answers");
    assert_eq!(wanted(&mut table, 1000), None, "this is on its way");
    table.observe(1100, sample("192.0.2.0/24", 0, 145));
    table.publish(1100);
    assert_eq!(wanted(&mut table, 1200), Some(vec![PointId(4), PointId(2)]), "the other corners");
    for (point, ms) in [(2, 12), (4, 140)] {
        table.observe(2000, sample("192.0.2.0/24", point, ms));
    }
    table.publish(2000);
    assert_eq!(table.wanted(3000, address).unwrap().points, [PointId(3)], "the neighbour of the best");
    table.observe(4000, sample("192.0.2.0/24", 3, 10));
    table.publish(4000);
    assert_eq!(table.wanted(5000, address), None);
    assert!(table.wanted(5 * 3_600_000, address).is_some(), "it grew old");
}

#[test]
fn a_link_speaks_for_its_site_and_the_other_way_round() {
    let of = |site: &str, link: Option<&str>| Point {
        site: site.into(),
        link: link.map(str::to_owned),
        place: None,
        cost: 0.0,
        is_own: true,
    };
    let points = Points::new([of("a", None), of("a", Some("x")), of("a", Some("y")), of("b", None)]);
    let mut table = Table::new(Settings::default(), points);
    table.observe(0, sample("192.0.2.0/24", 1, 30));
    table.observe(0, sample("192.0.2.0/24", 2, 20));
    assert_eq!(shown(&mut table, 0, "192.0.2.1"), [Some(20), Some(30), Some(20), None]);
    table.observe(0, sample("192.0.3.0/24", 0, 40));
    assert_eq!(shown(&mut table, 0, "192.0.3.1"), [Some(40), Some(40), Some(40), None]);
}

#[test]
fn cost_and_use_are_added_to_whole_columns() {
    // PX1
    let costs = [0.0, 2.0];
    let points = Points::new(costs.iter().enumerate().map(|(i, cost)| Point {
        site: format!("s{i}"),
        link: None,
        place: None,
        cost: *cost,
        is_own: true,
    }));
    let mut settings = Settings { dwell_ms: 0, ..Settings::default() };
    settings.weights.cost = 10.0;
    settings.weights.bandwidth = 100.0;
    settings.weights.hops = 1.0;
    let mut table = Table::new(settings, points);
    see(&mut table, 0, "192.0.2.0/24", &[40, 10]);
    table.observe(0, Sample { hops: Some(7), ..sample("192.0.2.0/24", 1, 10) });
    assert_eq!(shown(&mut table, 0, "192.0.2.1"), [Some(40), Some(37)]);
    table.set_use(PointId(0), 0.5);
    assert_eq!(shown(&mut table, 1000, "192.0.2.1"), [Some(40), Some(37)], "not at once");
    for i in 1..4 {
        table.publish(i * WINDOW);
    }
    assert_eq!(shown(&mut table, 4 * WINDOW, "192.0.2.1"), [Some(90), Some(37)]);
}

#[test]
fn own_facts_go_before_peers_and_peers_take_nobodys_place() {
    let settings = Settings { entries: 16, ..Settings::default() };
    let mut table = Table::new(settings, points(2));
    see(&mut table, 0, "192.0.2.0/24", &[20]);
    let cell = |of: &str, point, ms: u32, age_s| Cell {
        prefix: prefix(of),
        point: PointId(point),
        rtt_us: ms * 1000,
        loss_permille: 0,
        hops: 0,
        samples: 9,
        source: Source::Handshake,
        is_peers: true,
        confidence: 255,
        age_s,
    };
    assert!(!table.merge_peer(0, cell("192.0.2.0/24", 0, 90, 0)), "own");
    assert!(table.merge_peer(0, cell("192.0.2.0/24", 1, 30, 10)));
    assert!(!table.merge_peer(0, cell("192.0.2.0/24", 1, 10, 20)), "older");
    assert!(!table.merge_peer(0, cell("192.0.2.0/24", 7, 10, 0)), "no such point");
    assert!(!table.merge_peer(0, cell("192.0.2.0/24", 1, 10, 3600)), "too old");
    assert_eq!(shown(&mut table, 0, "192.0.2.1"), [Some(20), Some(30)]);
    // what a peer merged is told of each of its parts that is known here
    assert!(table.merge_peer(1000, cell("192.0.0.0/20", 1, 32, 0)));
    assert_eq!((table.len(), table.cells_of(1000, "192.0.2.1".parse().unwrap())[1].rtt_us), (1, 32_000));
    let own = table.cells_of(0, "192.0.2.1".parse().unwrap())[0];
    assert!(own.confidence > 0 && !own.is_peers);
    for i in 0..60 {
        table.merge_peer(0, cell(&format!("198.51.{i}.0/24"), 1, 30, 0));
    }
    assert_eq!((table.len(), table.counters().peers_dropped), (16, 45));
    assert!(!table.cells_of(0, "192.0.2.1".parse().unwrap()).is_empty());
    assert!(table.changed(0, 100).iter().all(|cell| !cell.is_peers));
    // an own measurement takes over
    table.observe(0, sample("192.0.2.0/24", 1, 25));
    assert_eq!(table.cells_of(0, "192.0.2.1".parse().unwrap())[1].rtt_us, 25_000);
}

#[test]
fn a_saved_table_comes_back_with_its_ages() {
    let mut table = table(3);
    see(&mut table, 0, "192.0.2.0/24", &[20, 30, 40]);
    see(&mut table, 600_000, "2001:db8:1::/48", &[50, 60]);
    let saved: Vec<Cell> = table.entries(900_000).collect();
    assert_eq!(saved.len(), 5);
    let mut other = self::table(3);
    // a process that has just begun, a minute later
    assert!(saved.iter().all(|cell| other.restore(5_000, 60, *cell)));
    let ages: Vec<u32> = other.entries(5_000).map(|cell| cell.age_s).collect();
    assert_eq!(ages, [960, 960, 960, 360, 360]);
    assert_eq!(shown(&mut other, 5_000, "192.0.2.1"), [Some(20), Some(30), Some(40)]);
    assert!(!other.restore(5_000, 86_400, saved[0]));
    // other points, by name
    let renamed = Points::new(["s2", "s0", "new"].map(|site| Point {
        site: site.into(),
        link: None,
        place: None,
        cost: 0.0,
        is_own: true,
    }));
    other.reconfigure(5_000, Settings::default(), renamed);
    assert_eq!(shown(&mut other, 5_000, "192.0.2.1"), [Some(40), Some(20), None]);
}

#[test]
fn values_expire_and_leave_nothing() {
    let mut table = table(2);
    see(&mut table, 0, "192.0.2.0/24", &[20, 60]);
    table.publish(0);
    assert!(!table.ranks.is_empty());
    table.publish(6 * 3_600_000 - 1);
    assert_eq!(table.len(), 1);
    table.publish(6 * 3_600_000 + WINDOW);
    assert!(table.is_empty() && table.ranks.is_empty(), "{:?}", table.counters());
    table.check_invariants();
}

#[test]
fn exploring_is_rare_bounded_and_prefers_what_was_not_seen() {
    let mut table = table(4);
    // measured, near, much worse, and one that only a peer's neighbours predict
    see(&mut table, 0, "192.0.2.0/24", &[20, 60, 200, 65]);
    table.publish(0);
    let view = view(table.ranks.clone(), 4, Band { explore_permille: 15, ..Band::default() });
    let mut tried = [0_u32; 4];
    let asks = 100_000;
    for i in 0..asks {
        let asked = ask(&view, "192.0.2.1", 32, mix(i, 77));
        let is_explored = asked.events.iter().any(|event| matches!(event, Event::Explored { .. }));
        assert!(is_explored || asked.pick == 0);
        if is_explored {
            tried[usize::from(asked.pick)] += 1;
        }
    }
    let share = f64::from(tried.iter().sum::<u32>()) / asks as f64;
    assert!((0.012..0.018).contains(&share), "{share}");
    assert_eq!(tried[2], 0, "more than 50 ms worse: {tried:?}");
    assert!(tried[1] > 0 && tried[3] > 0, "{tried:?}");
    // a client that stays with its candidate would stay with one that was only tried
    let mut view = view;
    let service = view.services[0].clone();
    let mut policy = (*service.policy).clone();
    policy.persist = Some(Persist::Hash { v4: 24, v6: 48 });
    view.services = vec![Arc::new(Service { policy: Arc::new(policy), standing: service.standing.clone() })];
    assert!((0..10_000).all(|i| ask(&view, "192.0.2.1", 32, mix(i, 77)).pick == 0));
    // neither does one over its threshold get more
    let mut standing = service.standing.clone();
    standing.below_threshold = set(&[0, 3]);
    view.services = vec![Arc::new(Service { policy: service.policy.clone(), standing })];
    assert!((0..10_000).all(|i| [0, 3].contains(&ask(&view, "192.0.2.1", 32, mix(i, 77)).pick)));
}
