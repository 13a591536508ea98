//! The structure against a simple model, and the cases that fix the rules.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

fn addr(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// `prefix item[,item]`, or `!prefix item`; each line may start with a layer and a colon.
fn entries(lines: &[&str]) -> Entries {
    let mut entries = Entries::default();
    for (number, text) in (1..).zip(lines) {
        let (layer, text) =
            text.split_once(": ").map_or((0, *text), |(layer, text)| (layer.parse().unwrap(), text));
        let (prefix, items) = text.split_once(' ').unwrap();
        let exclude = prefix.starts_with('!');
        let (first, len) = prefix.trim_start_matches('!').split_once('/').unwrap();
        for item in items.split(',') {
            let item = if item == "*" { EVERY_ITEM } else { item.parse().unwrap() };
            let line = Line { layer, exclude, item, source: 0, number };
            entries.push_prefix(addr(first), len.parse().unwrap(), line);
        }
    }
    entries
}

fn table(lines: &[&str]) -> SetRuns {
    overlay(&mut entries(lines))
}

fn isp(table: &SetRuns) -> Nets {
    Nets::build([&Runs::default(), &table.runs, &Runs::default()]).0
}

const ISP: usize = Dim::Isp as usize;

/// Case E01: a miss has a scope too, and it stays clear of the rules.
#[test]
fn scope_of_a_miss_is_the_largest_clear_prefix() {
    let table = table(&["10.10.0.0/16 1", "10.20.0.0/16 2"]);
    let nets = isp(&table);
    for (client, scope) in [
        ("10.30.0.0", 13),
        ("10.10.1.0", 16),
        ("10.20.255.255", 16),
        ("10.11.0.0", 16),
        ("11.0.0.0", 8),
        ("128.0.0.0", 1),
    ] {
        assert_eq!(nets.lookup(addr(client)).scope[ISP], scope, "{client}");
    }
    assert_eq!(
        nets.lookup(addr("2001:db8::")),
        Leaf::default(),
        "a family without entries is one leaf of scope 0"
    );
}

#[test]
fn an_empty_structure_knows_nothing() {
    let nets = Nets::empty();
    for client in ["0.0.0.0", "255.255.255.255", "::", "ffff::", "::ffff:10.0.0.1"] {
        assert_eq!(nets.lookup(addr(client)), Leaf::default());
        assert_eq!(nets.lookup_prefix(addr(client), 24, [true; DIMS]), Leaf::default());
        nets.prefetch(&addr(client));
    }
    assert_eq!(nets.prefixes(), 2);
    assert!(nets.heap_bytes() < 1024, "{}", nets.heap_bytes());
}

/// Each case: lines, then addresses with the set expected there.
type Precedence = (&'static str, &'static [&'static str], &'static [(&'static str, &'static [u32])]);

const PRECEDENCE: &[Precedence] = &[
    (
        "case G04: longest match in any order, siblings with one value merge",
        &["10.1.2.3/32 1", "10.1.128.0/17 2", "10.0.0.0/8 1", "10.1.0.0/16 2", "10.1.0.0/17 2"],
        &[
            ("10.0.0.1", &[1]),
            ("10.1.0.1", &[2]),
            ("10.1.200.1", &[2]),
            ("10.1.2.3", &[1]),
            ("11.0.0.0", &[]),
        ],
    ),
    (
        "R7, case 19: one prefix under two operators is their union",
        &["1.119.192.0/21 2", "1.119.192.0/21 1"],
        &[("1.119.192.1", &[1, 2]), ("1.119.200.0", &[])],
    ),
    (
        "R8: the longer prefix replaces the set of its parent",
        &["10.0.0.0/8 1,2", "10.1.0.0/16 3"],
        &[("10.1.0.0", &[3])],
    ),
    (
        "R9: layer wins before length",
        &["0: 10.0.0.0/8 1", "2: 10.1.0.0/16 2", "2: 12.0.0.0/8 3"],
        &[("10.1.0.0", &[1]), ("12.0.0.0", &[3])],
    ),
    (
        "R9, case 21: a stronger exclude wins over the shipped table",
        &["0: !223.122.176.0/21 1", "2: 223.122.0.0/16 1", "2: 223.122.176.0/22 1,2"],
        &[("223.122.176.1", &[2]), ("223.122.180.1", &[]), ("223.122.0.1", &[1])],
    ),
    (
        "R9: an exclude lets what lies below show through, a longer line of its layer puts the item back",
        &["10.0.0.0/8 2", "10.1.0.0/16 1", "!10.1.0.0/17 1", "10.1.1.0/24 1"],
        &[("10.1.0.0", &[2]), ("10.1.128.0", &[1]), ("10.1.1.0", &[1])],
    ),
    (
        "R9: a hole in the user's table shows the shipped one",
        &["0: 36.0.0.0/8 2", "0: !36.110.0.0/16 2", "2: 36.110.0.0/16 1"],
        &[("36.110.1.1", &[1]), ("36.0.0.1", &[2])],
    ),
    (
        "R9: an exclude of everything",
        &["10.0.0.0/8 1", "!10.1.0.0/16 *", "!10.2.0.0/16 1", "10.2.0.0/16 1"],
        &[("10.1.0.0", &[]), ("10.0.0.0", &[1]), ("10.2.0.0", &[])],
    ),
    (
        "IPv6, IPv4-mapped lines and clients (R5, R15)",
        &[
            "2001:db8::/32 1",
            "2001:db8:1::/48 2",
            "::ffff:10.0.0.0/104 3",
            "ffff::/16 4",
            "0.0.0.0/1 5",
            "255.255.255.255/32 6",
        ],
        &[
            ("2001:db8::1", &[1]),
            ("2001:db8:1::1", &[2]),
            ("10.255.0.1", &[3]),
            ("::ffff:10.0.0.1", &[3]),
            ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", &[4]),
            ("0.0.0.0", &[5]),
            ("255.255.255.255", &[6]),
        ],
    ),
];

#[test]
fn precedence() {
    for (name, lines, wanted) in PRECEDENCE {
        let mut orders = [lines.to_vec(), lines.iter().rev().copied().collect()];
        orders[0].rotate_left(lines.len() / 2);
        for lines in orders {
            let mut entries = entries(&lines);
            let table = overlay(&mut entries);
            let (nets, classes) = Nets::build([&Runs::default(), &table.runs, &Runs::default()]);
            for (client, set) in *wanted {
                let client = addr(client);
                let value = classes[nets.lookup(client).class.0 as usize][ISP];
                assert_eq!(table.sets[value as usize], *set, "{name}: {client}");
                assert_eq!(table.runs.value(client), value, "{name}: {client}");
                let mut explained: Vec<u32> = entries
                    .explain(client)
                    .iter()
                    .filter(|line| !line.exclude)
                    .map(|line| line.item)
                    .collect();
                explained.sort_unstable();
                explained.dedup();
                assert_eq!(explained, *set, "{name}: explain {client}");
            }
        }
    }
}

#[test]
fn explain_names_the_exclude_that_decided() {
    let entries = entries(&["0: !10.1.0.0/16 1", "2: 10.1.0.0/16 1", "2: 10.0.0.0/8 2"]);
    let lines: Vec<(bool, u32)> =
        entries.explain(addr("10.1.0.1")).iter().map(|line| (line.exclude, line.number)).collect();
    assert_eq!(lines, [(true, 1), (false, 3)]);
}

#[test]
fn lists_are_a_union() {
    let lists =
        [table(&["10.0.0.0/8 1", "!10.1.0.0/16 1"]).runs, table(&["10.1.0.0/16 1", "10.2.0.0/16 1"]).runs];
    let all = union(&lists);
    for (client, lists) in [
        ("10.0.0.0", &[0][..]),
        ("10.1.0.0", &[1]),
        ("10.2.0.0", &[0, 1]),
        ("10.3.0.0", &[0]),
        ("11.0.0.0", &[]),
    ] {
        assert_eq!(all.sets[all.runs.value(addr(client)) as usize], lists, "{client}");
    }
}

/// R16: a source prefix shorter than the entries below it is answered by who holds most of it.
#[test]
fn short_source_prefix_takes_the_majority() {
    let table =
        table(&["10.0.0.0/16 1", "10.0.0.0/18 2", "10.0.64.0/24 3", "10.0.65.0/32 3", "2001:db8::/33 4"]);
    let (nets, classes) = Nets::build([&Runs::default(), &table.runs, &Runs::default()]);
    let all = [true; DIMS];
    for (client, len, set, scope) in [
        ("10.0.0.0", 16, &[1][..], 16),
        ("10.0.0.0", 17, &[2], 17),
        ("10.0.0.0", 20, &[2], 18),
        ("10.0.64.0", 23, &[3], 23),
        ("10.0.64.0", 22, &[1], 22),
        ("10.0.65.0", 30, &[1], 30),
        ("10.0.65.0", 32, &[3], 32),
        ("10.0.0.0", 0, &[], 0),
        ("2001:db8::", 30, &[], 30),
        ("::ffff:10.0.0.0", 96 + 17, &[2], 17),
    ] {
        let leaf = nets.lookup_prefix(addr(client), len, all);
        let value = classes[leaf.class.0 as usize][ISP];
        assert_eq!((table.sets[value as usize].as_slice(), leaf.scope[ISP]), (set, scope), "{client}/{len}");
    }
    // what is not consulted does not matter: the address itself answers
    let leaf = nets.lookup_prefix(addr("10.0.0.0"), 16, [true, false, true]);
    assert_eq!(leaf, nets.lookup(addr("10.0.0.0")));
}

/// The operator may hold most of a prefix though no single class of operator and place does.
#[test]
fn majority_counts_consulted_dimensions_only() {
    let isp = table(&["10.0.0.0/16 1", "10.0.160.0/19 2", "10.0.192.0/18 2"]).runs;
    let geo =
        table(&["10.0.0.0/18 1", "10.0.64.0/18 2", "10.0.128.0/19 3", "10.0.160.0/19 4", "10.0.192.0/18 4"])
            .runs;
    let (nets, classes) = Nets::build([&Runs::default(), &isp, &geo]);
    let value = |consulted: [bool; DIMS]| {
        classes[nets.lookup_prefix(addr("10.0.0.0"), 16, consulted).class.0 as usize]
    };
    assert_eq!(value([false, true, false])[1], 1);
    assert_eq!(value([false, false, true])[2], 4);
    assert_eq!(value([false, true, true]), [0, 2, 4]);
}

// --- properties

/// Addresses close together, so that prefixes nest and touch.
fn near(bits: u8) -> impl Strategy<Value = u128> {
    let high = prop::sample::select(vec![0u128, 1, 2, 3, 0b1010_1010, u128::MAX]);
    (high, any::<u128>(), 0..=bits).prop_map(move |(high, low, kept)| {
        let top = high.checked_shl(u32::from(bits).saturating_sub(8)).unwrap_or(0);
        let low = low & 1u128.checked_shl(u32::from(kept)).map_or(u128::MAX, |bit| bit - 1);
        (top ^ low) & 1u128.checked_shl(u32::from(bits)).map_or(u128::MAX, |bit| bit - 1)
    })
}

fn lines<A: Address>() -> impl Strategy<Value = Vec<Entry<A>>> {
    let line =
        (near(A::BITS), 0..=A::BITS, near(A::BITS), 0..3u8, prop::bool::weighted(0.15), 1..5u32, 0..4u32);
    let entry = line.prop_map(|(first, len, last, layer, exclude, item, number)| {
        let line = Line { layer, exclude, item, source: 0, number };
        let first = A::narrow(first);
        if number == 0 {
            let last = A::narrow(last); // a range
            Entry { first: first.min(last), last: first.max(last), line }
        } else {
            Entry { first: first.block_start(len), last: first.block_start(len).block_end(len), line }
        }
    });
    prop::collection::vec(entry, 0..16)
}

/// The rule, said again and slowly: see the module's documentation.
fn model_set<A: Address>(entries: &[Entry<A>], at: A) -> Vec<u32> {
    let size = |entry: &Entry<A>| entry.last.widen() - entry.first.widen();
    let strength = |entry: &Entry<A>| (entry.line.layer, size(entry), std::cmp::Reverse(entry.first));
    let over: Vec<&Entry<A>> = entries.iter().filter(|entry| entry.first <= at && at <= entry.last).collect();
    let stands = |entry: &&&Entry<A>| {
        !entry.line.exclude
            && !over.iter().any(|hole| {
                hole.line.exclude && hole.line.item == entry.line.item && strength(hole) <= strength(entry)
            })
    };
    let standing: Vec<&&Entry<A>> = over.iter().filter(stands).collect();
    let best = standing.iter().map(|entry| strength(entry)).min();
    let mut set: Vec<u32> =
        standing.iter().filter(|entry| Some(strength(entry)) == best).map(|entry| entry.line.item).collect();
    set.sort_unstable();
    set.dedup();
    set
}

fn ip<A: Address>(at: A) -> IpAddr {
    if A::BITS == 32 { Ipv4Addr::from(at.widen() as u32).into() } else { Ipv6Addr::from(at.widen()).into() }
}

/// Whether the address can be asked for in its own family.
fn askable<A: Address>(at: A) -> bool {
    A::BITS == 32 || Ipv6Addr::from(at.widen()).to_ipv4_mapped().is_none()
}

/// Where anything may change, and the places beside.
fn edges<A: Address>(runs: &[&[Run<A>]]) -> Vec<A> {
    let mut edges: Vec<A> = vec![A::default(), A::MAX];
    for run in runs.iter().copied().flatten() {
        edges.extend([run.first, run.last, run.first.before()]);
        edges.extend(run.last.next());
    }
    edges.sort_unstable();
    edges.dedup();
    edges
}

fn model_value<A: Address>(runs: &[Run<A>], at: A) -> u32 {
    runs.iter().find(|run| run.first <= at && at <= run.last).map_or(0, |run| run.value)
}

/// The shortest prefix around an address over which a dimension is constant.
fn model_scope<A: Address>(runs: &[Run<A>], edges: &[A], at: A) -> u8 {
    let value = model_value(runs, at);
    (0..=A::BITS)
        .find(|&len| {
            let (first, last) = (at.block_start(len), at.block_start(len).block_end(len));
            let inside = edges.iter().copied().filter(|&edge| first <= edge && edge <= last);
            inside.chain([first, last]).all(|edge| model_value(runs, edge) == value)
        })
        .unwrap()
}

/// How many addresses of a prefix each combination of consulted values holds.
fn model_held<A: Address>(
    dims: [&[Run<A>]; DIMS],
    edges: &[A],
    at: A,
    len: u8,
    mask: [bool; DIMS],
) -> BTreeMap<[u32; DIMS], u128> {
    let (first, last) = (at.block_start(len), at.block_start(len).block_end(len));
    let mut starts: Vec<A> = edges.iter().copied().filter(|&edge| first < edge && edge <= last).collect();
    starts.insert(0, first);
    let mut held = BTreeMap::new();
    for (index, &start) in starts.iter().enumerate() {
        let end = starts.get(index + 1).map_or(last, |next| next.before());
        let key = std::array::from_fn(|dim| if mask[dim] { model_value(dims[dim], start) } else { 0 });
        let addresses = (end.widen() - start.widen()).saturating_add(1);
        held.entry(key)
            .and_modify(|sum: &mut u128| *sum = sum.saturating_add(addresses))
            .or_insert(addresses);
    }
    held
}

fn check<A: Address>(dims: [&[Run<A>]; DIMS], nets: &Nets, classes: &[[u32; DIMS]], extra: &[A]) {
    let edges = edges(&dims);
    for &at in edges.iter().chain(extra).filter(|&&at| askable(at)) {
        let leaf = nets.lookup(ip(at));
        for dim in 0..DIMS {
            assert_eq!(
                classes[leaf.class.0 as usize][dim],
                model_value(dims[dim], at),
                "value {dim} at {}",
                ip(at)
            );
            assert_eq!(leaf.scope[dim], model_scope(dims[dim], &edges, at), "scope {dim} at {}", ip(at));
        }
        // a few lengths, the ones around the leaf first
        let scopes = leaf.scope.map(|scope| scope.saturating_sub(1));
        for len in scopes.into_iter().chain([0, 8, 17, 18, 23, 24, 29, 30, 31]).filter(|&len| len < A::BITS) {
            for mask in 1..1 << DIMS {
                let consulted = std::array::from_fn(|dim| mask >> dim & 1 == 1);
                let found = nets.lookup_prefix(ip(at), len, consulted);
                let whole = (0..DIMS).all(|dim| !consulted[dim] || leaf.scope[dim] <= len);
                if whole {
                    assert_eq!(found, leaf);
                    continue;
                }
                let held = model_held(dims, &edges, at, len, consulted);
                let values = classes[found.class.0 as usize];
                let key = std::array::from_fn(|dim| if consulted[dim] { values[dim] } else { 0 });
                let most = held.values().max();
                assert_eq!(held.get(&key), most, "{}/{len} {consulted:?}: {held:?}", ip(at));
                assert_eq!(found.scope, leaf.scope.map(|scope| scope.min(len)));
            }
        }
    }
}

fn check_overlay<A: Address>(entries: &[Entry<A>], runs: &[Run<A>], sets: &[Vec<u32>]) {
    assert!(runs.is_sorted_by(|a, b| a.last < b.first));
    assert!(runs.iter().all(|run| run.first <= run.last && run.value != 0));
    assert!(
        runs.windows(2).all(|two| two[0].value != two[1].value || two[0].last.next() != Some(two[1].first))
    );
    for at in edges(&[runs]).into_iter().chain(entries.iter().flat_map(|entry| [entry.first, entry.last])) {
        assert_eq!(sets[model_value(runs, at) as usize], model_set(entries, at), "{}", ip(at));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// Values, scopes and majorities as the model has them, in both families and all dimensions.
    #[test]
    fn as_the_model_says(
        v4 in prop::array::uniform3(lines::<u32>()),
        v6 in prop::array::uniform3(lines::<u128>()),
        extra in prop::collection::vec(any::<u128>(), 8),
    ) {
        let tables: [SetRuns; DIMS] = std::array::from_fn(|dim| {
            let mut entries = Entries { v4: v4[dim].clone(), v6: v6[dim].clone() };
            let table = overlay(&mut entries);
            check_overlay(&entries.v4, &table.runs.v4, &table.sets);
            check_overlay(&entries.v6, &table.runs.v6, &table.sets);
            table
        });
        let dims: [&Runs; DIMS] = std::array::from_fn(|dim| &tables[dim].runs);
        let (nets, classes) = Nets::build(dims);
        let extra4: Vec<u32> = extra.iter().map(|&at| at as u32).collect();
        check(dims.map(|runs| runs.v4.as_slice()), &nets, &classes, &extra4);
        check(dims.map(|runs| runs.v6.as_slice()), &nets, &classes, &extra);
    }
}
