//! The table against simple models.

use super::*;
use proptest::prelude::*;

/// A world of /24s in one /12, where each has its times from four points.
fn times(seed: u64, place: u32) -> [u32; 4] {
    std::array::from_fn(|point| 10 + (mix(seed, u64::from(place) * 4 + point as u64) % 200) as u32)
}

/// Like a query's answer, by going through the entries one by one.
fn naive(table: &Table, address: &str) -> Option<Vec<Option<u32>>> {
    let address = Prefix::new(address.parse().unwrap(), 32);
    let entry = table.entries.iter().find(|entry| entry.prefix.covers(&address))?;
    Some(entry.shown.iter().map(|it| it.filter(|it| !it.is_weak).map(|it| it.us / 1000)).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Published rows are those of a plain map, whatever came and went, and no scope is too short.
    #[test]
    fn published_rows_are_those_of_a_plain_map(
        seed: u64,
        steps in proptest::collection::vec((0..4096_u32, 0..6_u8, 0..4_u16), 1..120),
        limit in 16..64_usize,
    ) {
        let settings = Settings { entries: limit, dwell_ms: 0, ..Settings::default() };
        let mut table = Table::new(settings, points(4));
        let mut now_ms = 0;
        for (place, what, point) in &steps {
            // few /24s in few blocks, so that siblings meet
            let place = place & 0xc1f;
            let of = format!("10.{}.{}.0/24", place >> 8, place & 255);
            match what {
                0..=2 => {
                    for (point, ms) in times(seed, place / 4).iter().enumerate() {
                        table.observe(now_ms, sample(&of, point as u16, *ms));
                    }
                }
                3 => {
                    table.observe(now_ms, sample(&of, *point, times(seed, place)[usize::from(*point)]));
                }
                4 => now_ms += WINDOW,
                _ => {
                    table.forget(prefix(&of));
                }
            }
            table.publish(now_ms);
            table.check_invariants();
            prop_assert!(table.len() <= limit.max(16));
        }
        let view = view(table.ranks.clone(), 4, quiet());
        for place in (0..4096_u32).filter(|place| place % 41 == 0 || steps.iter().any(|it| it.0 & 0xc1f == *place)) {
            let address = format!("10.{}.{}.9", place >> 8, place & 255);
            let (scores, kind, scope) = look(&table.ranks, &address, 4);
            match naive(&table, &address) {
                Some(right) => {
                    prop_assert_eq!((scores, kind), (right, Some(Kind::Own)));
                }
                None => prop_assert_ne!(kind, Some(Kind::Own)),
            }
            // T2: the same for every address of the scope
            let asked = ask(&view, &address, 32, seed);
            prop_assert!(!asked.set.is_empty());
            prop_assert!(asked.scope >= scope);
            let around = Prefix::new(address.parse().unwrap(), asked.scope);
            for other in [around.bits(), around.last_bits(), around.bits() | (seed & !crate::proximity::prefix::mask(asked.scope))] {
                let other = Prefix::of(false, other, 32).address().to_string();
                let same = ask(&view, &other, 32, seed);
                prop_assert_eq!((same.set, same.scope), (asked.set, asked.scope), "{} and {}", address, other);
            }
        }
    }

    /// Nothing that a client, a probe or a peer can say is a panic, and what comes of it stays in bounds.
    #[test]
    fn any_values_are_taken(values in proptest::collection::vec((any::<u32>(), 0..4_u16, 0..3_u8, any::<u32>()), 1..60)) {
        let place = Some(crate::geo::Point { lat: 10.0, lon: 20.0 });
        let points = Points::new((0..3).map(|i| Point {
            site: format!("s{i}"),
            link: None,
            place,
            cost: f32::MAX,
            is_own: true,
        }));
        let mut settings = Settings { entries: 16, ..Settings::default() };
        settings.weights.rtt = f32::NAN;
        settings.weights.hops = 1e9;
        let mut table = Table::new(settings, points);
        let mut now_ms = 0;
        for (rtt_us, point, what, other) in values {
            let prefix = Prefix::new(IpAddr::V4(other.into()), other as u8 % 33);
            let point = PointId(point);
            match what {
                0 => {
                    let sample = Sample { prefix, point, rtt_us: Some(rtt_us), hops: Some(255), source: Source::Icmp };
                    table.observe(now_ms, sample);
                }
                1 => {
                    let cell = Cell {
                        prefix,
                        point,
                        rtt_us,
                        loss_permille: other as u16,
                        hops: 255,
                        samples: other,
                        source: Source::Handshake,
                        is_peers: true,
                        confidence: 255,
                        age_s: other % 4000,
                    };
                    table.merge_peer(now_ms, cell);
                }
                _ => {
                    table.set_static(prefix, point, rtt_us);
                    table.set_use(point, f32::INFINITY);
                    table.wanted(now_ms, prefix.address());
                    now_ms += u64::from(rtt_us % 600_000);
                }
            }
            table.publish(now_ms);
            table.check_invariants();
            ask(&view(table.ranks.clone(), 3, Band::default()), &prefix.address().to_string(), 32, u64::from(rtt_us));
        }
    }

    /// The band never empties the set, and the best is always in it.
    #[test]
    fn the_best_is_always_kept(ms in proptest::collection::vec(1..1500_u32, 4), us in 0..50_000_u32, permille in 0..500_u32, entropy: u64) {
        let mut table = table(4);
        see(&mut table, 0, "192.0.2.0/24", &ms);
        table.publish(0);
        let band = Band { us, permille, ..quiet() };
        let asked = ask(&view(table.ranks.clone(), 4, band), "192.0.2.1", 32, entropy);
        let best = *ms.iter().min().unwrap();
        let limit = best * 1000 + (best * permille).max(us);
        for (i, ms) in ms.iter().enumerate() {
            let is_in = asked.set.contains(CandidateId(i as u8));
            if *ms == best {
                prop_assert!(is_in, "{ms}: {:?}", asked.events);
            }
            if is_in {
                prop_assert!(ms * 1000 <= limit + 100);
            }
        }
    }

    /// Noise below the tolerance never changes a choice.
    #[test]
    fn noise_never_flips_a_choice(seed: u64) {
        let mut table = table(3);
        let mut first = None;
        for window in 0..20_u64 {
            for i in 0..3 {
                let noise = |point: u64| (mix(seed, window * 100 + i * 10 + point) % 5) as u32;
                see(&mut table, window * WINDOW + i, "192.0.2.0/24", &[30 + noise(0), 42 + noise(1), 90 + noise(2)]);
            }
            table.publish(window * WINDOW + 10);
            let kept = ask(&view(table.ranks.clone(), 3, quiet()), "192.0.2.1", 32, 0).set;
            prop_assert_eq!(kept, *first.get_or_insert(kept), "window {}", window);
        }
    }

    /// A merged table answers as one that was not merged, and parts again where its halves part.
    #[test]
    fn merged_entries_answer_like_apart_ones(seed: u64, change in 0..16_u32) {
        let mut table = table(3);
        // sixteen /24s, equal in fours
        let ms = |place: u32, changed: bool| -> [u32; 3] {
            let [a, b, c, _] = times(seed, place / 4);
            if changed && place == change { [a + 200, b, c + 150] } else { [a, b, c] }
        };
        let run = |table: &mut Table, from: u64, changed: bool| {
            for window in from..from + 14 {
                for place in 0..16 {
                    for _ in 0..3 {
                        see(table, window * WINDOW, &format!("10.0.{place}.0/24"), &ms(place, changed));
                    }
                }
                table.publish(window * WINDOW);
                table.check_invariants();
            }
        };
        let settings = *table.settings();
        let check = |table: &mut Table, changed: bool| {
            for place in 0..16 {
                let (scores, ..) = look(&table.ranks, &format!("10.0.{place}.1"), 3);
                for (score, right) in scores.iter().zip(ms(place, changed)) {
                    let score = score.unwrap_or(0) * 1000;
                    // twice: what is shown, and what was merged
                    let apart = score.abs_diff(right * 1000);
                    let band = settings.band_us.max(right * 100);
                    assert!(apart <= 2 * band, "place {place}: {score} for {right} ms, {} entries", table.len());
                }
            }
        };
        run(&mut table, 1, false);
        prop_assert!(table.len() <= 4, "{} entries", table.len());
        check(&mut table, false);
        run(&mut table, 15, true);
        run(&mut table, 29, true);
        prop_assert!(table.counters().split > 0, "{:?}", table.counters());
        check(&mut table, true);
    }
}
