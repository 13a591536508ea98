//! When checks start. Pure: instants and dice are arguments.

use std::time::Duration;

use tokio::time::Instant;

/// How long the check at place `at` of `count` new ones waits before its first run: the first `burst` start at
/// once, the rest are spread over their interval (dns.md case 24).
pub(super) fn first_delay(at: usize, count: usize, burst: usize, interval: Duration) -> Duration {
    let Some(place) = at.checked_sub(burst) else { return Duration::ZERO };
    let paced = count.saturating_sub(burst);
    interval.mul_f64((place + 1) as f64 / (paced + 1) as f64)
}

/// The next start after one that was due at `due` and ended at `ended`, and how many were left out because the
/// check was still running when they were due (HC5). `dice` is from 0 to 1 and spreads the jitter around the interval,
/// so that checks of equal intervals drift apart and their mean pace stays as configured.
pub(super) fn next_due(
    due: Instant,
    ended: Instant,
    interval: Duration,
    jitter: f64,
    dice: f64,
) -> (Instant, u64) {
    let next = due + interval.mul_f64(1.0 + jitter * (2.0 * dice - 1.0));
    let Some(late) = ended.checked_duration_since(next) else { return (next, 0) };
    let skipped = late.as_nanos() / interval.as_nanos().max(1) + 1;
    let skipped = u32::try_from(skipped).unwrap_or(u32::MAX);
    (next + interval.saturating_mul(skipped), u64::from(skipped))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_starts_are_spread() {
        let interval = Duration::from_secs(10);
        let small: Vec<_> = (0..50).map(|at| first_delay(at, 50, 50, interval)).collect();
        assert!(small.iter().all(Duration::is_zero));
        // 5,000 checks: no second of the interval sees more than its share.
        let mut seconds = [0; 10];
        for at in 0..5000 {
            let delay = first_delay(at, 5000, 50, interval);
            assert!(delay < interval);
            seconds[delay.as_secs() as usize] += 1;
        }
        assert!(seconds.iter().all(|count| (490..=550).contains(count)), "{seconds:?}");
        assert_eq!(first_delay(1, 2, 0, interval).as_millis(), 6666);
    }

    #[test]
    fn later_starts_keep_the_pace() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        // interval ms, due, ended, dice; next, skipped
        let table = [
            (1000, 0, 10, 0.5, 1000, 0),
            (1000, 0, 10, 0.0, 900, 0),
            (1000, 0, 10, 1.0, 1100, 0),
            // HC5: not finished when the interval expired: that start and those after it are left out.
            (1000, 0, 1001, 0.5, 2000, 1),
            (1000, 0, 3500, 0.5, 4000, 3),
            // Case H15.
            (300_000, 0, 290_000, 0.5, 300_000, 0),
            (300_000, 0, 310_000, 0.5, 600_000, 1),
            (86_400_000, 0, 86_300_000, 1.0, 95_040_000, 0),
        ];
        for (interval, due, ended, dice, next, skipped) in table {
            let got = next_due(at(due), at(ended), Duration::from_millis(interval), 0.1, dice);
            assert_eq!(got, (at(next), skipped), "{interval} {ended} {dice}");
        }
    }
}
