//! The decision as tables and properties, through the public face of the crate only.
#![allow(clippy::unwrap_used, reason = "a test")]

use portolan_balance::facts::Load;
use portolan_balance::nets::{ClassId, DIMS, Leaf, Nets};
use portolan_balance::persist::Table;
use portolan_balance::policy::{AclAction, AclRule, AclTable, GeoTable, IspTable, Persist, Ranking, SiteId};
use portolan_balance::proximity::Band;
use portolan_balance::trace::{By, FellThrough, StepName};
use portolan_balance::view::Turns;
use portolan_balance::*;
use proptest::prelude::*;
use std::net::IpAddr;
use std::sync::Arc;

/// A service of `weights.len()` candidates named by position, all at site 0.
fn policy(weights: &[u16], steps: Vec<Step>, scheduler: Scheduler) -> Policy {
    let candidates: Vec<Candidate> = weights
        .iter()
        .enumerate()
        .map(|(i, &weight)| Candidate {
            name: format!("m{i}"),
            key: hash::bytes(1, format!("m{i}").as_bytes()),
            site: Some(SiteId(0)),
            weight,
            tier: 1,
            load_threshold: None,
            connections_max: None,
        })
        .collect();
    Policy {
        name: "www.example.com.".into(),
        tiers: Policy::tiers_of(&candidates),
        consulted: Policy::consulted_by(&steps),
        candidates,
        steps,
        scheduler,
        persist: None,
        minimum: 1,
        answers: 1,
        ttl_s: 30,
        fallback: Fallback::All,
        seed: 7,
    }
}

fn with_tiers(mut policy: Policy, tiers: &[u8]) -> Policy {
    for (candidate, &tier) in policy.candidates.iter_mut().zip(tiers) {
        candidate.tier = tier;
    }
    policy.tiers = Policy::tiers_of(&policy.candidates);
    policy
}

fn view(policy: Policy, facts: &[Fact], classes: &[[u32; DIMS]]) -> View {
    let policy = Arc::new(policy);
    let standing = Standing::new(&policy, facts);
    View {
        nets: Arc::new(Nets::empty()),
        classes: Arc::from(classes),
        proximity: Arc::default(),
        services: vec![Arc::new(Service { policy, standing })],
        turns: Arc::new(Turns::new(1)),
        generation: 1,
    }
}

fn fact(state: State) -> Fact {
    Fact { state, ..Fact::default() }
}

fn forced(word: Forced) -> Fact {
    Fact { forced: Some(word), ..Fact::default() }
}

const UP: State = State::Up;
const DOWN: State = State::Down;

struct Asked {
    decision: Decision,
    picks: Vec<u8>,
    events: Vec<Event>,
}

fn ask_as(view: &View, client: &str, class: u32, dice: Dice) -> Asked {
    let client = Client::whole(client.parse::<IpAddr>().unwrap(), 4242);
    let leaf = Leaf { class: ClassId(class), scope: [9, 16, 20, 0] };
    let ask = Ask { service: ServiceId(0), client, leaf, destination: None, payload: &[], now_s: 0 };
    let (mut row, mut events) = (Row::default(), Vec::new());
    let decision = decide(view, &ask, dice, &mut row, &mut events);
    let mut silent = Row::default();
    assert_eq!(decide(view, &ask, dice, &mut silent, &mut Silent), decision, "a trace changes nothing");
    assert_eq!(silent.picks, row.picks);
    Asked { decision, picks: row.picks.iter().map(|id| id.0).collect(), events }
}

fn ask(view: &View, dice: Dice) -> Asked {
    ask_as(view, "192.0.2.1", 0, dice)
}

/// Shares of the candidates over `n` asks with fresh dice from distinct clients.
fn shares(view: &View, candidates: usize, n: u32) -> Vec<f64> {
    let mut counts = vec![0_u32; candidates];
    let mut entropy = 99;
    for turn in 0..n {
        entropy = hash::mix(entropy, 3);
        let client = IpAddr::from((turn.wrapping_mul(2_654_435_761)).to_be_bytes()).to_string();
        let asked = ask_as(view, &client, 0, Dice { entropy, turn: u64::from(turn) });
        counts[usize::from(asked.picks[0])] += 1;
    }
    counts.iter().map(|&c| f64::from(c) / f64::from(n)).collect()
}

#[test]
fn weights_are_kept_within_one_percent() {
    // cases/dns 26
    let mut persisted = policy(&[1, 2, 7], vec![Step::Persist], Scheduler::Random);
    persisted.persist = Some(Persist::Hash { v4: 32, v6: 56 });
    for policy in [
        policy(&[1, 2, 7], vec![], Scheduler::WeightedRoundRobin),
        policy(&[1, 2, 7], vec![], Scheduler::WeightedRandom),
        policy(&[1, 2, 7], vec![], Scheduler::Rendezvous { v4: 32, v6: 56 }),
        policy(&[1, 2, 7], vec![], Scheduler::SourceHash { v4: 32, v6: 56 }),
        policy(&[1, 2, 7], vec![], Scheduler::SourcePortHash),
        policy(&[1, 2, 7], vec![], Scheduler::Maglev),
        persisted,
    ] {
        let name = format!("{:?} {:?}", policy.scheduler, policy.persist.is_some());
        let got = shares(&view(policy, &[], &[[0; DIMS]]), 3, 100_000);
        for (share, right) in got.iter().zip([0.1, 0.2, 0.7]) {
            assert!((share - right).abs() < 0.01, "{name}: {got:?}");
        }
    }
}

#[test]
fn weighted_turns_are_exact_and_interleaved() {
    let view = view(policy(&[1, 2, 7], vec![], Scheduler::WeightedRoundRobin), &[], &[[0; DIMS]]);
    let picks: Vec<u8> = (0..10).map(|turn| ask(&view, Dice { entropy: 0, turn }).picks[0]).collect();
    for (id, times) in [(0, 1), (1, 2), (2, 7)] {
        assert_eq!(picks.iter().filter(|&&p| p == id).count(), times, "{picks:?}");
    }
    assert!(!picks.windows(4).any(|w| w == [2, 2, 2, 2]), "bunched: {picks:?}");
}

#[test]
fn round_robin_takes_turns_and_answers_the_next_ones_too() {
    let mut policy = policy(&[1, 1, 1], vec![], Scheduler::RoundRobin);
    policy.answers = 2;
    let view = view(policy, &[fact(UP), fact(UP), fact(UP)], &[[0; DIMS]]);
    let picks: Vec<_> = (0..4).map(|turn| ask(&view, Dice { entropy: 0, turn }).picks).collect();
    assert_eq!(picks, [vec![0, 1], vec![1, 2], vec![2, 0], vec![0, 1]]);
}

#[test]
fn a_zero_weight_is_used_only_when_nothing_else_is_left() {
    // cases/gslb L03, L04
    for (weights, states, allowed) in [
        (vec![0, 100], vec![UP, UP], vec![1]),
        (vec![0, 100], vec![UP, DOWN], vec![0]),
        (vec![0, 0, 5], vec![UP, UP, DOWN], vec![0, 1]),
        (vec![0, 100], vec![DOWN, DOWN], vec![0, 1]), // fallback `all`
    ] {
        for scheduler in [Scheduler::WeightedRoundRobin, Scheduler::WeightedRandom, Scheduler::Random] {
            let facts: Vec<Fact> = states.iter().map(|&s| fact(s)).collect();
            let view = view(policy(&weights, vec![], scheduler), &facts, &[[0; DIMS]]);
            for turn in 0..200 {
                let asked = ask(&view, Dice { entropy: hash::mix(turn, 5), turn });
                assert_eq!(asked.picks.len(), 1);
                assert!(
                    allowed.contains(&asked.picks[0]),
                    "{weights:?} {states:?} {scheduler:?}: {:?}",
                    asked.picks
                );
            }
        }
    }
}

#[test]
fn tiers_fail_over_in_order() {
    // cases/gslb L05, H08, H22; T4, T16
    let unknown_down = State::Unknown { counts_as_up: false };
    for (tiers, minimum, states, right) in [
        ([1, 2, 3], 1, [UP, UP, UP], vec![0]),
        ([1, 2, 3], 1, [DOWN, UP, UP], vec![1]),
        ([1, 2, 3], 1, [DOWN, DOWN, UP], vec![2]),
        ([1, 2, 3], 1, [DOWN, DOWN, DOWN], vec![0]), // H22: all bad -> the first tier
        ([1, 1, 2], 2, [UP, UP, UP], vec![0, 1]),
        ([1, 1, 2], 1, [DOWN, UP, UP], vec![1]),
        ([1, 1, 2], 2, [UP, DOWN, UP], vec![0, 2]), // no tier has two: all that is usable
        ([1, 1, 2], 1, [unknown_down, unknown_down, UP], vec![2]),
    ] {
        let mut policy = with_tiers(policy(&[1, 1, 1], vec![], Scheduler::All), &tiers);
        policy.minimum = minimum;
        let view = view(policy, &states.map(fact), &[[0; DIMS]]);
        let mut picks = ask(&view, Dice { entropy: 5, turn: 0 }).picks;
        picks.sort_unstable();
        assert_eq!(picks, right, "{tiers:?} minimum {minimum} {states:?}");
    }
}

#[test]
fn fallbacks_answer_when_nothing_is_left() {
    // cases/gslb H21; dns 22
    for (fallback, outcome, picks) in [
        (Fallback::All, Outcome::Chosen, 2),
        (Fallback::Fixed, Outcome::Fixed, 0),
        (Fallback::NoData, Outcome::NoData, 0),
        (Fallback::ServFail, Outcome::ServFail, 0),
        (Fallback::Refuse, Outcome::Refused, 0),
    ] {
        let mut policy = policy(&[1, 1], vec![], Scheduler::All);
        policy.fallback = fallback.clone();
        let view = view(policy, &[fact(DOWN), fact(DOWN)], &[[0; DIMS]]);
        let asked = ask(&view, Dice::default());
        assert_eq!((asked.decision.outcome, asked.picks.len()), (outcome, picks), "{fallback:?}");
        assert!(asked.decision.is_fallback, "the answer must not look healthy");
        assert!(asked.events.iter().any(|e| matches!(e, Event::FellBack { .. })));
    }
}

#[test]
fn operators_words_beat_checks() {
    // cases/gslb H10; T7
    for (facts, right) in [
        ([forced(Forced::Drain), fact(UP)], vec![1]),
        ([forced(Forced::Disabled), fact(UP)], vec![1]),
        ([forced(Forced::Down), fact(DOWN)], vec![1]), // `all` leaves out what an operator took out
        ([forced(Forced::Down), forced(Forced::Drain)], vec![0, 1]),
        ([Fact { state: DOWN, forced: Some(Forced::Up), ..Fact::default() }, fact(DOWN)], vec![0]),
    ] {
        let view = view(policy(&[1, 1], vec![], Scheduler::All), &facts, &[[0; DIMS]]);
        let mut picks = ask(&view, Dice::default()).picks;
        picks.sort_unstable();
        assert_eq!(picks, right, "{facts:?}");
    }
}

#[test]
fn unknown_everywhere_answers_like_up_everywhere() {
    // T1; cases/gslb H02
    let up = view(policy(&[1, 2], vec![], Scheduler::WeightedRoundRobin), &[fact(UP); 2], &[[0; DIMS]]);
    let unknown = State::Unknown { counts_as_up: true };
    let fresh =
        view(policy(&[1, 2], vec![], Scheduler::WeightedRoundRobin), &[fact(unknown); 2], &[[0; DIMS]]);
    for turn in 0..6 {
        let dice = Dice { entropy: 0, turn };
        assert_eq!(ask(&up, dice).picks, ask(&fresh, dice).picks);
    }
}

fn ids(ids: &[u8]) -> CandidateSet {
    ids.iter().map(|&id| CandidateId(id)).collect()
}

fn acl(action: AclAction, members: &[u8]) -> Step {
    let rules = vec![AclRule { from: "offices".into(), action, members: ids(members) }];
    Step::Acl(Arc::new(AclTable { rules, rule_of: vec![u16::MAX, 0] }))
}

#[test]
fn acl_rules_narrow_prefer_avoid_and_refuse() {
    const IN: u32 = 1;
    const OUT: u32 = 0;
    for (action, members, states, class, outcome, right) in [
        (AclAction::Only, vec![1], [UP, UP, UP], IN, Outcome::Chosen, vec![1]),
        (AclAction::Only, vec![1], [UP, UP, UP], OUT, Outcome::Chosen, vec![0, 1, 2]),
        (AclAction::Only, vec![1], [UP, DOWN, UP], IN, Outcome::Chosen, vec![1]), // its fallback stays inside
        (AclAction::Only, vec![], [UP, UP, UP], IN, Outcome::NoData, vec![]),
        (AclAction::Prefer, vec![1], [UP, UP, UP], IN, Outcome::Chosen, vec![1]),
        (AclAction::Prefer, vec![1], [UP, DOWN, UP], IN, Outcome::Chosen, vec![0, 2]),
        (AclAction::Avoid, vec![0, 1], [UP, UP, UP], IN, Outcome::Chosen, vec![2]),
        (AclAction::Avoid, vec![0, 1], [UP, UP, DOWN], IN, Outcome::Chosen, vec![0, 1]),
        (AclAction::Refuse, vec![], [UP, UP, UP], IN, Outcome::Refused, vec![]),
        (AclAction::Refuse, vec![], [UP, UP, UP], OUT, Outcome::Chosen, vec![0, 1, 2]),
    ] {
        let policy = policy(&[1, 1, 1], vec![acl(action, &members)], Scheduler::All);
        let view = view(policy, &states.map(fact), &[[0, 0, 0], [1, 0, 0]]);
        let asked = ask_as(&view, "192.0.2.1", class, Dice::default());
        let mut picks = asked.picks;
        picks.sort_unstable();
        assert_eq!(
            (asked.decision.outcome, picks),
            (outcome, right),
            "{action:?} {members:?} {states:?} {class}"
        );
        assert_eq!(asked.decision.scope, 9, "T2: the ACL was consulted either way");
    }
}

#[test]
fn isp_and_geo_narrow_in_the_order_of_the_list() {
    // members 0, 1 at site 0; 2, 3 at site 1; 0 and 2 on operator set 1
    let isp =
        || Step::Isp(Arc::new(IspTable { members_of: vec![CandidateSet::EMPTY, ids(&[0, 2]), ids(&[])] }));
    let geo = |skip_first| Step::Geo {
        table: Arc::new(GeoTable {
            ranking_of: vec![u32::MAX, 0, 1, 2],
            rankings: vec![
                Ranking { groups: vec![vec![SiteId(0)], vec![SiteId(1)]], reason: "CN".into() },
                Ranking { groups: vec![vec![SiteId(0), SiteId(1)]], reason: "nearest".into() },
                Ranking { groups: vec![vec![SiteId(7)], vec![SiteId(1)]], reason: "DE".into() },
            ],
        }),
        members_at: vec![ids(&[0, 1]), ids(&[2, 3])],
        skip_first,
    };
    let distance = || Step::Proximity { members_at: vec![], band: Band::default() };
    let all = vec![0, 1, 2, 3];
    let up = [UP; 4];
    for (steps, states, class, right, why) in [
        (vec![isp(), geo(false)], up, [0, 1, 1], vec![0], "operator, then place"),
        (vec![geo(false), isp()], up, [0, 1, 1], vec![0], "place, then operator"),
        (vec![isp(), geo(false)], up, [0, 0, 1], vec![0, 1], "unknown operator falls through"),
        (vec![isp(), geo(false)], up, [0, 2, 1], vec![0, 1], "operator without a member falls through"),
        (vec![isp(), geo(false)], up, [0, 0, 0], all.clone(), "nothing known"),
        (vec![geo(false)], [DOWN, DOWN, UP, UP], [0, 0, 1], vec![2, 3], "the next group"),
        (vec![geo(false)], up, [0, 0, 2], all.clone(), "G12: equal sites share"),
        (vec![geo(false)], up, [0, 0, 3], vec![2, 3], "G09: a site without the service is passed over"),
        (vec![geo(true)], up, [0, 0, 1], vec![2, 3], "G10: second best"),
        (vec![geo(true)], up, [0, 0, 2], all.clone(), "G10: a single group stays"),
        (vec![geo(true)], [DOWN, DOWN, UP, UP], [0, 0, 1], vec![2, 3], "G10: one group left"),
        (vec![distance(), isp()], up, [0, 1, 0], vec![0, 2], "nothing measured falls through"),
    ] {
        let policy = policy(&[1; 4], steps, Scheduler::All);
        let view = view(policy, &states.map(fact), &[class]);
        let asked = ask(&view, Dice::default());
        let mut picks = asked.picks;
        picks.sort_unstable();
        assert_eq!(picks, right, "{why}: {:?}", asked.events);
    }
}

#[test]
fn a_step_that_would_empty_the_set_says_so() {
    let isp = Step::Isp(Arc::new(IspTable { members_of: vec![CandidateSet::EMPTY, ids(&[0])] }));
    let view = view(policy(&[1, 1], vec![isp], Scheduler::All), &[fact(DOWN), fact(UP)], &[[0, 1, 0]]);
    let asked = ask(&view, Dice::default());
    assert!(asked.events.contains(&Event::FellThrough {
        step: StepName::Isp,
        because: FellThrough::WouldEmpty,
        by: By::Operators(1)
    }));
    assert_eq!(asked.picks, [1]);
    assert_eq!(asked.decision.scope, 16, "T2: steps that rejected count too");
}

#[test]
fn scope_is_the_longest_dimension_consulted_and_the_hash_prefix() {
    let isp = || Step::Isp(Arc::new(IspTable::default()));
    let geo = || Step::Geo { table: Arc::default(), members_at: vec![], skip_first: false };
    let hash = Some(Persist::Hash { v4: 24, v6: 48 });
    for (steps, persist, scheduler, scope) in [
        (vec![], None, Scheduler::Random, 0),
        (vec![isp()], None, Scheduler::Random, 16),
        (vec![isp(), geo()], None, Scheduler::Random, 20),
        (vec![Step::Persist, isp()], hash, Scheduler::Random, 24),
        (vec![isp()], None, Scheduler::Rendezvous { v4: 22, v6: 48 }, 22),
        (vec![], None, Scheduler::SourcePortHash, 32),
        (vec![], None, Scheduler::Maglev, 32),
    ] {
        let mut policy = policy(&[1, 1], steps, scheduler);
        policy.persist = persist;
        let asked = ask(&view(policy, &[], &[[0; DIMS]]), Dice::default());
        assert_eq!(asked.decision.scope, scope, "{scheduler:?}");
    }
}

#[test]
fn load_drops_what_is_over_its_threshold_and_weighs_the_rest() {
    let mut policy = policy(&[1, 1, 1], vec![Step::Load], Scheduler::WeightedRandom);
    for candidate in &mut policy.candidates {
        candidate.load_threshold = Some(0.8);
    }
    let loaded = |share| Fact { load: Load { share: Some(share), ..Load::default() }, ..Fact::default() };
    let got =
        shares(&view(policy.clone(), &[loaded(0.9), loaded(0.25), loaded(0.75)], &[[0; DIMS]]), 3, 20_000);
    assert!(got[0] == 0.0 && (got[1] - 0.75).abs() < 0.02, "{got:?}");
    // all over: the step falls through
    let got = shares(&view(policy, &[loaded(0.9), loaded(0.9), loaded(0.9)], &[[0; DIMS]]), 3, 20_000);
    assert!(got.iter().all(|share| (share - 0.333).abs() < 0.02), "{got:?}");
}

#[test]
fn slow_start_gives_a_growing_share() {
    for (ramp, right) in [(0, 0.0), (64, 0.2), (256, 0.5)] {
        let ramping = Fact { ramp: Some(ramp), ..Fact::default() };
        let view =
            view(policy(&[1, 1], vec![], Scheduler::WeightedRandom), &[ramping, fact(UP)], &[[0; DIMS]]);
        let got = shares(&view, 2, 40_000);
        assert!((got[0] - right).abs() < 0.01, "ramp {ramp}: {got:?}");
    }
}

#[test]
fn limits_skip_a_full_member_and_say_why() {
    // cases/gslb L15
    let mut policy = policy(&[1, 1], vec![], Scheduler::All);
    policy.candidates[0].connections_max = Some(10);
    let full = Fact { load: Load { connections: Some(10), ..Load::default() }, ..Fact::default() };
    let view = view(policy, &[full, fact(UP)], &[[0; DIMS]]);
    assert_eq!(ask(&view, Dice::default()).picks, [1]);
    assert_eq!(view.services[0].standing.why[0], Why::OverLimit);
}

#[test]
fn dynamic_schedulers_follow_load_facts() {
    let load = |connections, response_us, free: u64| Fact {
        load: Load {
            connections: Some(connections),
            response_us: Some(response_us),
            bandwidth_bps: Some(0),
            bandwidth_max_bps: Some(free),
            share: None,
        },
        ..Fact::default()
    };
    let facts = [load(10, 900, 1_000_000), load(12, 300, 9_000_000), load(30, 500, 0)];
    for (scheduler, right) in [
        (Scheduler::LeastConnections, 0),
        (Scheduler::WeightedLeastConnections, 2), // 10/1, 12/1, 30/6
        (Scheduler::LeastTime, 1),
        (Scheduler::MaxBandwidth, 1),
        (Scheduler::Priority, 0),
    ] {
        let view = view(policy(&[1, 1, 6], vec![], scheduler), &facts, &[[0; DIMS]]);
        for entropy in 0..50 {
            assert_eq!(ask(&view, Dice { entropy, turn: 0 }).picks, [right], "{scheduler:?}");
        }
    }
    let got =
        shares(&view(policy(&[1, 1, 6], vec![], Scheduler::Bandwidth), &facts, &[[0; DIMS]]), 3, 20_000);
    assert!((got[0] - 0.1).abs() < 0.01 && got[2] == 0.0, "{got:?}");
    let got = shares(&view(policy(&[1, 3], vec![], Scheduler::Bandwidth), &[], &[[0; DIMS]]), 2, 20_000);
    assert!((got[0] - 0.25).abs() < 0.02, "nothing known: by weight: {got:?}");
}

#[test]
fn a_remembered_choice_holds_while_usable() {
    let table = Arc::new(Table::new(1024));
    let mut policy = policy(&[1; 8], vec![Step::Persist], Scheduler::Random);
    policy.persist = Some(Persist::Table { v4: 24, v6: 48, ttl_s: 60, table });
    let up = view(policy.clone(), &[], &[[0; DIMS]]);
    let asked = |view: &View, client: &str, entropy, now_s| {
        let client = Client::whole(client.parse::<IpAddr>().unwrap(), 1);
        let leaf = Leaf { class: ClassId(0), scope: [0; 4] };
        let ask = Ask { service: ServiceId(0), client, leaf, destination: None, payload: &[], now_s };
        let mut row = Row::default();
        let decision = decide(view, &ask, Dice { entropy, turn: 0 }, &mut row, &mut Silent);
        decide::remember(view, &ask, &row);
        (row.picks[0], decision.scope)
    };
    let (first, scope) = asked(&up, "192.0.2.1", 1, 0);
    assert_eq!(scope, 24);
    let mut entropy = 1_u64;
    for now_s in 1..100 {
        entropy = hash::mix(entropy, 1);
        assert_eq!(asked(&up, "192.0.2.77", entropy, now_s).0, first, "each use renews it");
    }
    // its candidate fails: another is chosen and remembered
    let mut facts = vec![fact(UP); 8];
    facts[usize::from(first.0)] = fact(DOWN);
    let failed = view(policy, &facts, &[[0; DIMS]]);
    let (second, _) = asked(&failed, "192.0.2.1", entropy, 100);
    assert_ne!(second, first);
    assert_eq!(
        asked(&up, "192.0.2.1", hash::mix(entropy, 9), 101).0,
        second,
        "and it stays when the first returns"
    );
    // silence longer than the TTL forgets
    let later: std::collections::BTreeSet<u8> = (0..64)
        .map(|n| asked(&up, "198.51.100.1", hash::mix(n, 9).rotate_left(17), 1_000 + n as u32 * 100).0.0)
        .collect();
    assert!(later.len() > 4, "{later:?}");
}

#[test]
fn removing_one_of_n_moves_about_one_nth() {
    for scheduler in [Scheduler::Rendezvous { v4: 32, v6: 128 }, Scheduler::Maglev] {
        for n in [3_usize, 10, 40] {
            let before = view(policy(&vec![1; n], vec![], scheduler), &[], &[[0; DIMS]]);
            let mut facts = vec![fact(UP); n];
            facts[n / 2] = fact(DOWN);
            let after = view(policy(&vec![1; n], vec![], scheduler), &facts, &[[0; DIMS]]);
            let (mut moved, mut moved_others, clients) = (0, 0, 20_000_u32);
            for i in 0..clients {
                let client = IpAddr::from(
                    hash::mix(1, u64::from(i)).to_be_bytes().first_chunk::<4>().copied().unwrap(),
                );
                let pick = |v: &View| ask_as(v, &client.to_string(), 0, Dice::default()).picks[0];
                let (a, b) = (pick(&before), pick(&after));
                moved += u32::from(a != b);
                moved_others += u32::from(a != b && usize::from(a) != n / 2);
            }
            let share = f64::from(moved) / f64::from(clients) * n as f64;
            assert!((0.85..1.35).contains(&share), "{scheduler:?} {n}: {moved} of {clients} moved");
            if matches!(scheduler, Scheduler::Rendezvous { .. }) {
                assert_eq!(moved_others, 0, "only the removed member's clients move");
            }
        }
    }
}

#[test]
fn the_order_of_the_list_does_not_matter_to_hashes() {
    // cases/dns 21: choices and states follow the member, not its position
    for scheduler in [Scheduler::Rendezvous { v4: 32, v6: 128 }, Scheduler::Maglev] {
        let forward = policy(&[1, 2, 3, 4], vec![], scheduler);
        let mut backward = forward.clone();
        backward.candidates.reverse();
        backward.tiers = Policy::tiers_of(&backward.candidates);
        let (a, b) = (view(forward, &[], &[[0; DIMS]]), view(backward, &[], &[[0; DIMS]]));
        for i in 0..2_000_u32 {
            let client = IpAddr::from(i.wrapping_mul(40_503).to_be_bytes()).to_string();
            let name = |v: &View| {
                let pick = ask_as(v, &client, 0, Dice::default()).picks[0];
                v.services[0].policy.candidates[usize::from(pick)].name.clone()
            };
            assert_eq!(name(&a), name(&b), "{scheduler:?} {client}");
        }
    }
}

fn any_scheduler() -> impl Strategy<Value = Scheduler> {
    prop_oneof![
        Just(Scheduler::RoundRobin),
        Just(Scheduler::WeightedRoundRobin),
        Just(Scheduler::Random),
        Just(Scheduler::WeightedRandom),
        (0_u8..=32, 0_u8..=128).prop_map(|(v4, v6)| Scheduler::SourceHash { v4, v6 }),
        Just(Scheduler::SourcePortHash),
        Just(Scheduler::DestinationHash),
        (0_u16..8, 0_u16..8).prop_map(|(offset, length)| Scheduler::UdpPayloadHash { offset, length }),
        (0_u8..=32, 0_u8..=128).prop_map(|(v4, v6)| Scheduler::Rendezvous { v4, v6 }),
        Just(Scheduler::LeastConnections),
        Just(Scheduler::WeightedLeastConnections),
        Just(Scheduler::LeastTime),
        Just(Scheduler::Bandwidth),
        Just(Scheduler::MaxBandwidth),
        Just(Scheduler::Priority),
        Just(Scheduler::All),
    ]
}

fn any_fact() -> impl Strategy<Value = Fact> {
    let state = prop_oneof![
        Just(UP),
        Just(DOWN),
        any::<bool>().prop_map(|counts_as_up| State::Unknown { counts_as_up })
    ];
    let forced = prop_oneof![
        4 => Just(None),
        1 => Just(Some(Forced::Up)),
        1 => Just(Some(Forced::Down)),
        1 => Just(Some(Forced::Drain)),
        1 => Just(Some(Forced::Disabled)),
    ];
    let load = (
        prop::option::of(-1.0_f32..3.0),
        prop::option::of(any::<u32>()),
        prop::option::of(any::<u64>()),
        prop::option::of(any::<u64>()),
    );
    (state, forced, prop::option::of(0_u16..=300), load).prop_map(|(state, forced, ramp, load)| Fact {
        state,
        forced,
        ramp,
        load: Load {
            share: load.0,
            connections: load.1,
            bandwidth_bps: load.2,
            bandwidth_max_bps: load.3,
            response_us: load.1,
        },
    })
}

proptest! {
    #[test]
    fn a_pick_is_never_empty_and_never_twice(
        (weights, facts, tiers) in (1_usize..=256).prop_flat_map(|n| (
            prop::collection::vec(0_u16..=65_535, n),
            prop::collection::vec(any_fact(), 0..=n),
            prop::collection::vec(1_u8..4, n),
        )),
        scheduler in any_scheduler(),
        (answers, minimum) in (0_u16..20, 0_u16..5),
        (entropy, turn) in any::<(u64, u64)>(),
        address in any::<IpAddr>(),
    ) {
        let mut policy = with_tiers(policy(&weights, vec![Step::Load], scheduler), &tiers);
        (policy.answers, policy.minimum) = (answers, minimum);
        let count = weights.len();
        let view = view(policy, &facts, &[[0; DIMS]]);
        let asked = ask_as(&view, &address.to_string(), 0, Dice { entropy, turn });
        prop_assert_eq!(asked.decision.outcome, Outcome::Chosen);
        let distinct: std::collections::BTreeSet<u8> = asked.picks.iter().copied().collect();
        prop_assert!(!asked.picks.is_empty() && distinct.len() == asked.picks.len());
        prop_assert!(asked.picks.iter().all(|&p| usize::from(p) < count));
        if !asked.decision.is_fallback {
            for &pick in &asked.picks {
                prop_assert_eq!(view.services[0].standing.why[usize::from(pick)], Why::Usable);
            }
        }
        let Some(Event::Picked { weights, .. }) = asked.events.last() else {
            return Err(TestCaseError::fail("no pick at the end of the trace"));
        };
        let eligible = weights.len();
        let wanted = if matches!(scheduler, Scheduler::All) { eligible } else { usize::from(answers.max(1)).min(eligible) };
        prop_assert_eq!(asked.picks.len(), wanted);
    }
}
