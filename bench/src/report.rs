//! The table, the ratios within a round, and the bars.

use std::fmt::{self, Display, Write};

use serde::Serialize;

use crate::run::{Burst, Client, Outcome, Started};
use crate::servers::{ECHO, PORTOLAN, Workload};

/// A median with its spread.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The middle of the rounds.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let middle = values.len() / 2;
        let median =
            if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 };
        Some(Self { median, min, max })
    }
}

impl Display for Spread {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:.2} [{:.2}..{:.2}]", self.median, self.min, self.max)
    }
}

/// A server under one load.
#[derive(Debug, Serialize)]
pub struct Row {
    /// What it was asked.
    pub workload: Workload,
    /// By whom.
    pub client: Client,
    /// Its name.
    pub server: &'static str,
    /// Processor microseconds per answered query.
    pub us_per_query: Spread,
    /// The same as a multiple of the echo in the same round.
    pub to_echo: Option<Spread>,
    /// Microseconds in user space per query, over all rounds together.
    pub user_us: f64,
    /// Queries answered a second of wall time.
    pub queries_per_second: f64,
    /// Share of the queries that failed.
    pub failed: f64,
    /// The single bursts.
    pub bursts: Vec<Burst>,
}

/// A bar and how it was met.
#[derive(Debug, Serialize)]
pub struct Bar {
    /// What is demanded.
    pub demand: String,
    /// What was found; nothing when one of the two did not run.
    pub found: Option<f64>,
    /// Not above this.
    pub limit: f64,
}

impl Bar {
    /// Whether it was met; nothing when it could not be seen.
    pub fn is_met(&self) -> Option<bool> {
        self.found.map(|found| found <= self.limit)
    }
}

/// All rows and bars.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Networks with a country, prefixes with an operator.
    pub networks: (usize, usize),
    /// Servers under their loads.
    pub rows: Vec<Row>,
    /// The demands.
    pub bars: Vec<Bar>,
    /// How the servers came up.
    pub started: Vec<Started>,
    /// What did not run, and why.
    pub skipped: Vec<(Workload, &'static str, String)>,
}

impl Report {
    /// Compares the bursts of an outcome.
    pub fn of(outcome: Outcome) -> Self {
        let bars = bars(&outcome);
        let mut rows = Vec::new();
        for (&(workload, client, server), bursts) in &outcome.bursts {
            let Some(us_per_query) = Spread::of(bursts.iter().map(Burst::us_per_query).collect()) else {
                continue;
            };
            let sum = |part: fn(&Burst) -> f64| bursts.iter().map(part).sum::<f64>();
            rows.push(Row {
                workload,
                client,
                server,
                us_per_query,
                to_echo: ratio(&outcome, client, (workload, server), (workload, ECHO)),
                user_us: user_us(bursts),
                queries_per_second: sum(|burst| burst.answered as f64) / sum(|burst| burst.seconds),
                failed: sum(|burst| burst.failed as f64)
                    / sum(|burst| (burst.answered + burst.failed) as f64),
                bursts: bursts.clone(),
            });
        }
        rows.sort_by(|left, right| {
            (left.workload, left.client)
                .cmp(&(right.workload, right.client))
                .then(left.us_per_query.median.total_cmp(&right.us_per_query.median))
        });
        Self { networks: outcome.networks, rows, bars, started: outcome.started, skipped: outcome.skipped }
    }

    /// Whether no bar that could be seen was missed.
    pub fn all_met(&self) -> bool {
        self.bars.iter().all(|bar| bar.is_met() != Some(false))
    }
}

impl Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = None;
        for row in &self.rows {
            if last != Some((row.workload, row.client)) {
                last = Some((row.workload, row.client));
                let load = match row.client {
                    Client::Full => "full load",
                    Client::Shallow => "16 in flight",
                    Client::Dnsperf => "dnsperf, 16 in flight",
                };
                writeln!(out, "\n{:?}, {load}", row.workload)?;
                writeln!(
                    out,
                    "{:<22} {:>24} {:>8} {:>22} {:>9} {:>8}",
                    "server", "us/query [min..max]", "user us", "x echo", "queries/s", "failed"
                )?;
            }
            let to_echo = row.to_echo.map(|spread| spread.to_string()).unwrap_or_default();
            writeln!(
                out,
                "{:<22} {:>24} {:>8.2} {:>22} {:>9.0} {:>7.2}%",
                row.server,
                row.us_per_query.to_string(),
                row.user_us,
                to_echo,
                row.queries_per_second,
                row.failed * 100.0
            )?;
        }
        writeln!(out, "\n{:<32} {:>12} {:>10}", "start", "ready after", "memory")?;
        for one in &self.started {
            let name = format!("{:?} {}", one.workload, one.server);
            writeln!(out, "{name:<32} {:>10.2} s {:>7.0} MB", one.ready_s, one.memory_mb)?;
        }
        out.write_char('\n')?;
        for bar in &self.bars {
            match (bar.found, bar.is_met()) {
                (Some(found), Some(met)) => {
                    let verdict = if met { "PASS" } else { "FAIL" };
                    writeln!(out, "{verdict} {}: {found:.2} (at most {:.2})", bar.demand, bar.limit)?;
                }
                _ => writeln!(out, "---- {}: not measured (at most {:.2})", bar.demand, bar.limit)?,
            }
        }
        for (workload, server, why) in &self.skipped {
            writeln!(out, "skipped: {workload:?} {server}: {}", why.lines().next().unwrap_or_default())?;
        }
        Ok(())
    }
}

type Key = (Workload, &'static str);

/// The first as a multiple of the second, round by round.
fn ratio(outcome: &Outcome, client: Client, of: Key, to: Key) -> Option<Spread> {
    let bursts = |(workload, server): Key| outcome.bursts.get(&(workload, client, server));
    let (of, to) = (bursts(of)?, bursts(to)?);
    let per_round = of.iter().filter_map(|burst| {
        let other = to.iter().find(|other| other.round == burst.round)?;
        Some(burst.us_per_query() / other.us_per_query())
    });
    Spread::of(per_round.collect())
}

/// The scheduler knows the time exactly and the timer its parts roughly: over all rounds the parts are good to some percent.
fn user_us(bursts: &[Burst]) -> f64 {
    let sum = |part: fn(&Burst) -> u64| bursts.iter().map(part).sum::<u64>() as f64;
    let (user, system) = (sum(|burst| burst.user_ticks), sum(|burst| burst.system_ticks));
    let us = sum(|burst| burst.cpu_ns) / 1_000.0 / sum(|burst| burst.answered).max(1.0);
    us * user / (user + system).max(1.0)
}

fn bars(outcome: &Outcome) -> Vec<Bar> {
    use Workload::{Dynamic, Static};
    let compared = [
        (Static, (Static, ECHO), 1.20),
        (Static, (Static, "knot"), 0.92),
        (Static, (Static, "nsd"), 0.92),
        (Dynamic, (Dynamic, ECHO), 1.15),
        (Dynamic, (Dynamic, "gdnsd-geoip"), 0.80),
        (Dynamic, (Dynamic, "knot-geoip"), 0.70),
        (Dynamic, (Static, "knot"), 1.00),
    ];
    let mut bars: Vec<Bar> = compared
        .into_iter()
        .map(|(workload, to, limit)| Bar {
            demand: format!("{workload:?} {PORTOLAN} to {:?} {}", to.0, to.1),
            found: ratio(outcome, Client::Full, (workload, PORTOLAN), to).map(|spread| spread.median),
            limit,
        })
        .collect();
    for workload in [Static, Dynamic] {
        bars.push(Bar {
            demand: format!("{workload:?} {PORTOLAN} user us per query"),
            found: outcome.bursts.get(&(workload, Client::Full, PORTOLAN)).map(|bursts| user_us(bursts)),
            limit: 0.60,
        });
    }
    bars
}

#[cfg(test)]
mod tests {
    use super::*;

    fn burst(round: usize, us: u64) -> Burst {
        let cpu_ns = us * 1_000 * 100;
        Burst {
            round,
            answered: 100,
            no_name: 0,
            failed: 0,
            seconds: 1.0,
            cpu_ns,
            user_ticks: 1,
            system_ticks: 9,
        }
    }

    #[test]
    fn ratios_are_taken_within_a_round_and_bars_follow() {
        let mut outcome = Outcome::default();
        let full = |workload, server| (workload, Client::Full, server);
        // the second round was twice as slow for both
        outcome.bursts.insert(full(Workload::Static, ECHO), vec![burst(0, 10), burst(1, 20), burst(2, 10)]);
        outcome
            .bursts
            .insert(full(Workload::Static, PORTOLAN), vec![burst(0, 11), burst(1, 22), burst(2, 12)]);
        outcome.bursts.insert(full(Workload::Static, "knot"), vec![burst(1, 20), burst(2, 10)]);
        let report = Report::of(outcome);
        let row = report.rows.iter().find(|row| row.server == PORTOLAN).unwrap();
        assert_eq!(row.to_echo, Some(Spread { median: 1.1, min: 1.1, max: 1.2 }));
        assert_eq!(row.us_per_query.median, 12.0);
        assert!((row.user_us - 1.5).abs() < 1e-9, "{}", row.user_us);
        let met: Vec<Option<bool>> = report.bars.iter().map(Bar::is_met).collect();
        assert_eq!(met[..4], [Some(true), Some(false), None, None]);
        assert!(!report.all_met());
        let text = report.to_string();
        assert!(text.contains("PASS Static portolan to Static echo: 1.10 (at most 1.20)"), "{text}");
        assert!(text.contains("---- Dynamic portolan to Dynamic echo: not measured"), "{text}");
    }

    #[test]
    fn a_median_of_an_even_count_lies_between() {
        assert_eq!(Spread::of(vec![4.0, 1.0, 3.0, 2.0]), Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
        assert_eq!(Spread::of(vec![]), None);
    }
}
