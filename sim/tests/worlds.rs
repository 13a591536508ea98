//! Worlds: their form, their generator, and what a run says of them.
#![allow(clippy::unwrap_used, reason = "a test")]

use portolan_balance::hash;
use portolan_sim::generate::{self, Parameters};
use portolan_sim::report::Figures;
use portolan_sim::world::{from_text, to_text};
use portolan_sim::{Options, Strategy, World, run};

/// Length and hash of a small generated world, and of the one that decisions are measured by: 7 MB that need not lie
/// in the repository.
const SMALL: (usize, u64) = (75_590, 16_985_545_389_794_951_639);
const KEPT: (usize, u64) = (7_595_741, 5_224_525_214_193_430_880);

fn small(seed: u64) -> Parameters {
    Parameters { seed, sites: 5, prefixes: 300, rate: 300.0, ..Parameters::default() }
}

fn print_of(parameters: &Parameters) -> (usize, u64) {
    let text = to_text(&generate::world(parameters));
    (text.len(), hash::bytes(0, text.as_bytes()))
}

#[test]
fn the_same_seed_gives_the_same_bytes_everywhere() {
    assert_ne!(print_of(&small(7)), print_of(&small(8)));
    assert_eq!((print_of(&small(7)), print_of(&Parameters::default())), (SMALL, KEPT));
}

#[test]
fn the_generator_keeps_its_promises() {
    let parameters = Parameters { prefixes: 4_000, ..Parameters::default() };
    let spec = generate::world(&parameters);
    let world = World::new(&spec).unwrap();
    assert_eq!((world.sites.len(), world.prefixes), (12, 4_000));
    let share = |is: &dyn Fn(usize) -> bool| (0..world.prefixes).filter(|i| is(*i)).count() as f64 / 4_000.0;
    let near = |share: f64, right: f64| assert!((share - right).abs() < 0.02, "{share}, not {right}");
    near(share(&|i| !world.ends[i].answers_probes), 0.30);
    near(share(&|i| world.ends[i].believed_operator != world.ends[i].operator), 0.05);
    near(share(&|i| spec.prefixes[i].resolver.is_some()), 0.15);
    let misplaced = |i: usize| {
        let it = &spec.prefixes[i];
        it.believed.as_ref().is_some_and(|b| b.lat != Some(it.lat) || b.lon != Some(it.lon))
    };
    near(share(&misplaced), 0.10);
}

#[test]
fn a_file_reads_back() {
    let spec = generate::world(&small(3));
    let world = from_text(&to_text(&spec)).unwrap();
    assert_eq!(world.prefixes, 300);
    assert_eq!(world.rtt_ms, World::new(&spec).unwrap().rtt_ms);
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let with = |sites: &str, prefixes: &str, more: &str| {
        format!(r#"{{"version": 1, "sites": [{sites}], "prefixes": [{prefixes}]{more}}}"#)
    };
    let site = r#"{"name": "a", "lat": 1, "lon": 2}"#;
    let prefix = r#"{"prefix": "192.0.2.0/24", "lat": 1, "lon": 2, "rate": 1}"#;
    let edit = |from: &str, to: &str| with(site, &prefix.replace(from, to), "");
    for (text, place, message) in [
        ("{".to_owned(), "line 1 column 1", "EOF"),
        (with(site, prefix, r#", "speed": 3"#), "line 1", "unknown field `speed`"),
        (edit(r#""rate""#, r#""rat""#), "line 1", "unknown field `rat`"),
        (with("", prefix, ""), "sites", "there is none"),
        (with(site, "", ""), "prefixes", "there is none"),
        (with(&format!("{site},{site}"), prefix, ""), "sites[1].name", "was there before"),
        (with(site, &format!("{prefix},{prefix}"), ""), "prefixes[1].prefix", "overlaps"),
        (edit("192.0.2.0/24", "192.0.2.1/24"), "prefixes[0].prefix", "host bits zero"),
        (edit("192.0.2.0/24", "here"), "prefixes[0].prefix", "is no network"),
        (edit(r#""lat": 1"#, r#""lat": 91"#), "prefixes[0].lat", "from -90 to 90"),
        (edit(r#""rate": 1"#, r#""rate": -1"#), "prefixes[0].rate", "out of range"),
        (edit(r#""rate": 1"#, r#""rate": 0"#), "prefixes", "rate above 0"),
        (edit(r#""rate": 1"#, r#""rate": 1, "rtt_ms": {"b": 3}"#), "prefixes[0].rtt_ms.b", "no such site"),
        (edit(r#""rate": 1"#, r#""rate": 1, "resolver": "x""#), "prefixes[0].resolver", "not in `resolvers`"),
        (edit(r#""rate": 1"#, r#""rate": 1, "believed": {"lat": 1}"#), "prefixes[0].believed", "give both"),
        (
            with(site, prefix, r#", "events": [{"at_s": 1, "site": "b", "effect": "down"}]"#),
            "events[0]",
            "no such site",
        ),
        (with(site, prefix, r#", "ttl_s": 0"#), "ttl_s", "out of range"),
    ] {
        let problems = from_text(&text).unwrap_err();
        let found = problems.iter().any(|it| it.place.starts_with(place) && it.message.contains(message));
        assert!(found, "{text}\n{place}: {message}\nbut: {problems:?}");
    }
}

/// Two sites; the geo table is wrong about the only client, whose truth is in the file.
const WRONG: &str = r#"{
  "version": 1, "seed": 5, "ttl_s": 10,
  "model": { "swing": 0, "jitter_ms": 0.5, "loss": 0 },
  "sites": [ { "name": "east", "lat": 0, "lon": 100 }, { "name": "west", "lat": 0, "lon": -60 } ],
  "prefixes": [ { "prefix": "240.0.1.0/24", "lat": 0, "lon": 100, "rate": 5,
                  "rtt_ms": { "east": 12, "west": 200 }, "believed": { "lat": 0, "lon": -60 } } ]
}"#;

#[test]
fn regret_is_what_a_wrong_table_costs() {
    let world = from_text(WRONG).unwrap();
    let options = |strategy| Options { strategy, duration_ms: 3_600_000, ..Options::default() };
    let geo = Figures::new(&run(&world, &options(Strategy::Geo)));
    assert!((geo.whole.regret_ms.median - 188.0).abs() < 0.2, "{geo:?}");
    assert_eq!(geo.whole.within_5ms_percent, 0.0);
    let turns = Figures::new(&run(&world, &options(Strategy::RoundRobin)));
    assert!((turns.whole.regret_ms.mean - 94.0).abs() < 7.0, "{turns:?}");
    let ours = Figures::new(&run(&world, &options(Strategy::Portolan)));
    assert!(ours.last.regret_ms.median < 0.2 && ours.last.within_5ms_percent > 95.0, "{ours:?}");
    assert_eq!(ours, Figures::new(&run(&world, &options(Strategy::Portolan))), "the same seed, the same run");
}

#[test]
fn a_site_that_fails_is_left_once_that_is_known() {
    let text = WRONG.replace(
        r#""prefixes""#,
        r#""events": [ { "at_s": 1000, "until_s": 2000, "site": "west", "effect": "down" } ], "prefixes""#,
    );
    let world = from_text(&text).unwrap();
    let options = Options { strategy: Strategy::Geo, duration_ms: 1_800_000, ..Options::default() };
    let figures = Figures::new(&run(&world, &options));
    let (before, during) = (&figures.quarters[0], &figures.quarters[1]);
    assert_eq!((before.failed_percent, before.within_5ms_percent), (0.0, 0.0));
    // two seconds until it is known; the other site is then the best usable one
    assert!(during.failed_percent < 3.0 && during.within_5ms_percent > 80.0, "{during:?}");
}

#[test]
fn a_full_site_sheds_load() {
    let text = WRONG.replace(r#""lon": -60 } ],"#, r#""lon": -60, "capacity": 2 } ],"#);
    let world = from_text(&text).unwrap();
    let options = Options { strategy: Strategy::Geo, duration_ms: 900_000, ..Options::default() };
    let figures = Figures::new(&run(&world, &options));
    assert!(figures.peak_load > 1.0 && figures.overload_percent > 0.0, "{figures:?}");
    assert!(figures.whole.within_5ms_percent > 30.0, "load sends some to the other site: {figures:?}");
}

/// Tables that know nothing, and no neighbours: only measuring helps.
#[test]
fn the_public_world_is_better_measured_than_guessed() {
    let world = from_text(include_str!("../worlds/planetlab.json")).unwrap();
    let run = |strategy| Figures::new(&run(&world, &Options { strategy, ..Options::default() }));
    let (geo, ours) = (run(Strategy::Geo), run(Strategy::Portolan));
    assert!(ours.last.regret_ms.mean < 0.8 * geo.last.regret_ms.mean, "{ours:?}\n{geo:?}");
    assert!(ours.whole.probes_per_query <= 0.022, "{ours:?}");
}
