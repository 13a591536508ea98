//! What works without a node: `check`, `explain -c`, `tables lookup -c`. The same road over a config file.

use crate::adopt::{self, Carried};
use crate::clock;
use crate::engine::problems_of;
use crate::explain::{self as told, Tables};
use crate::peers;
use crate::proximity;
use crate::publisher::Plan;
use portolan_api::{ApiError, ExplainQuery, Problem, TableLookup};
use portolan_balance::proximity::Ranks;
use portolan_balance::view::Turns;
use portolan_balance::{Fact, Forced, Service, ServiceId, Standing, State, View};
use portolan_config::{Compiled, Expect, ExpectAnswer, ExpectWord, Problems};
use portolan_ctl::run::show;
use portolan_ctl::{Exit, Paint, output, print};
use portolan_dns::present::{Asked, Presented, explain_query, present};
use portolan_dns::respond::{Now, Snapshot};
use serde::Serialize;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

/// Dice an expectation is tried with: the answer must hold whatever they say.
const ROLLS: u64 = 64;

/// What `check --json` prints.
#[derive(Serialize)]
struct Checked {
    /// Whether the config can be used and its tests pass.
    good: bool,
    problems: Vec<Problem>,
    services: usize,
    expects: usize,
}

/// Reads a config, reports every problem and runs its tests.
#[must_use]
pub fn check(path: &Path, json: bool) -> Exit {
    let (problems, services, expects) = match portolan_config::load(path) {
        Ok(config) => {
            let problems =
                std::iter::once(config.warnings_at(clock::unix_s())).chain(failed_expects(&config));
            let problems = problems.chain(peers::checked::identity(&config));
            (Problems::merged(problems), config.services.len(), config.expects.len())
        }
        Err(problems) => (problems, 0, 0),
    };
    let good = !problems.has_errors();
    if json {
        output::write_json(&Checked { good, problems: problems_of(&problems), services, expects });
    } else {
        if !problems.is_empty() {
            output::complain(&problems.render(Paint::stderr().is_on()));
        }
        if good {
            let counted =
                |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
            let services = counted(services, "service");
            let tests =
                if expects == 0 { String::new() } else { format!(", {} passed", counted(expects, "test")) };
            output::write(&format!("{}: good ({services}{tests})\n", path.display()));
        }
    }
    if good { Exit::Good } else { Exit::Bad }
}

/// Explains a decision by a config file, all members up.
#[must_use]
pub fn explain(path: &Path, query: &ExplainQuery, json: bool) -> Exit {
    with_config(path, json, |config| {
        let snapshot = snapshot(&plan(config), &proximity::fixed_ranks(config), &[]);
        let degraded = vec!["offline: all members are taken as up".to_owned()];
        let notes = told::Notes { note: &|_, _| None, next: &|_| None };
        match told::explain(&snapshot, config, degraded, query, &notes) {
            Ok(explained) => {
                show(json, &explained, || print::explained(&explained, Paint::stdout()));
                Exit::Good
            }
            Err(error) => refuse(&error, json),
        }
    })
}

/// Looks an address up in the tables of a config file.
#[must_use]
pub fn lookup(path: &Path, address: IpAddr, json: bool) -> Exit {
    with_config(path, json, |config| {
        let lookup = TableLookup { address: address.to_string(), hits: config.hits(address) };
        show(json, &lookup, || print::lookup(&lookup, Paint::stdout()));
        if lookup.hits.is_empty() { Exit::Bad } else { Exit::Good }
    })
}

fn with_config(path: &Path, json: bool, then: impl FnOnce(&Compiled) -> Exit) -> Exit {
    match portolan_config::load(path) {
        Ok(config) => then(&config),
        Err(problems) if json => {
            let text = "the config has errors";
            refuse(&ApiError::refused(text, problems_of(&problems), problems.render(false)), json)
        }
        Err(problems) => {
            output::complain(&problems.render(Paint::stderr().is_on()));
            Exit::Bad
        }
    }
}

fn refuse(error: &ApiError, json: bool) -> Exit {
    if json {
        output::write_json(error);
    } else {
        output::complain(&format!("error: {error}"));
    }
    Exit::Bad
}

/// What snapshots are made of. Rate limiting is left out: it is about floods, not about answers.
fn plan(config: &Compiled) -> Plan {
    let mut plan = adopt::plan(config, &mut Carried::default(), false);
    plan.options = Arc::new(portolan_dns::respond::Options { rrl: None, ..(*plan.options).clone() });
    plan
}

/// A snapshot in which all members are up but those named, and those that the config takes out.
fn snapshot(
    plan: &Plan,
    ranks: &Arc<Ranks>,
    down: &[(ServiceId, portolan_balance::CandidateId)],
) -> Snapshot {
    let Plan { nets, classes, policies, catalog, options, roster } = plan;
    let mut facts: Vec<Vec<Fact>> =
        policies.iter().map(|policy| vec![Fact::default(); policy.candidates.len()]).collect();
    let mut set =
        |service: ServiceId, candidate: portolan_balance::CandidateId, change: &dyn Fn(&mut Fact)| {
            let lane = facts.get_mut(service.0 as usize);
            if let Some(fact) = lane.and_then(|lane| lane.get_mut(usize::from(candidate.0))) {
                change(fact);
            }
        };
    for member in
        roster.services.iter().flat_map(|service| &service.members).filter(|member| member.is_disabled)
    {
        for seat in &member.seats {
            set(seat.service, seat.candidate, &|fact| fact.forced = Some(Forced::Disabled));
        }
    }
    for &(service, candidate) in down {
        set(service, candidate, &|fact| fact.state = State::Down);
    }
    let services = policies.iter().zip(&facts).map(|(policy, facts)| {
        Arc::new(Service { policy: policy.clone(), standing: Standing::new(policy, facts) })
    });
    let services: Vec<_> = services.collect();
    let turns = Arc::new(Turns::new(services.len()));
    let view = View {
        nets: nets.clone(),
        classes: classes.clone(),
        proximity: ranks.clone(),
        services,
        turns,
        generation: 0,
    };
    Snapshot { catalog: catalog.clone(), view: Arc::new(view), options: options.clone() }
}

/// The operator's tests that fail, as problems at their places.
fn failed_expects(config: &Compiled) -> Vec<Problems> {
    let plan = plan(config);
    let ranks = proximity::fixed_ranks(config);
    let failed = config.expects.iter().filter_map(|expect| {
        let snapshot = snapshot(&plan, &ranks, &expect.down);
        let got = (0..ROLLS).find_map(|roll| {
            let answer = ask(&snapshot, expect, roll);
            (!holds(&expect.answer, answer.as_ref())).then_some(answer)
        })?;
        let Expect { client, name, rtype, .. } = expect;
        let (out, says) = match expect.down.len() {
            0 => (String::new(), "says why"),
            1 => (" with 1 member down".into(), "tells the choice with all members up"),
            n => (format!(" with {n} members down"), "tells the choice with all members up"),
        };
        let message = format!(
            "expected {} for {name} {rtype} from {client}{out}, got {}",
            wanted(&expect.answer),
            got.as_ref().map_or("no reply".into(), told_as)
        );
        let ecs = expect.ecs.map_or(String::new(), |ecs| format!(" --ecs {ecs}"));
        let help = format!("`portolan explain {name} --type {rtype} --from {client}{ecs} -c FILE` {says}");
        Some(config.problem_at(expect.at, "expect", message, Some(help)))
    });
    failed.collect()
}

/// An expected answer as the config writes it.
fn wanted(answer: &ExpectAnswer) -> String {
    match answer {
        ExpectAnswer::Data(data) => format!("{data:?}"),
        ExpectAnswer::Word(ExpectWord::NoData) => "nodata".into(),
        ExpectAnswer::Word(ExpectWord::NxDomain) => "nxdomain".into(),
        ExpectAnswer::Word(ExpectWord::ServFail) => "servfail".into(),
        ExpectAnswer::Word(ExpectWord::Refused) => "refused".into(),
    }
}

/// A real answer in the same words.
fn told_as(got: &Presented) -> String {
    match got.rcode.as_str() {
        "NOERROR" if got.answer.is_empty() => "nodata".into(),
        "NOERROR" => format!("{:?}", got.answer),
        rcode => rcode.to_ascii_lowercase(),
    }
}

fn ask(snapshot: &Snapshot, expect: &Expect, roll: u64) -> Option<Presented> {
    let asked = Asked {
        name: &expect.name,
        rtype: expect.rtype,
        client: expect.client,
        ecs: expect.ecs.map(|net| (net.addr(), net.prefix_len())),
        entropy: fastrand::Rng::with_seed(roll).u64(..),
        turn: Some(roll),
        now: Now::default(),
    };
    explain_query(snapshot, &asked).wire.as_deref().and_then(present)
}

fn holds(expected: &ExpectAnswer, got: Option<&Presented>) -> bool {
    let Some(got) = got else { return false };
    let sorted = |data: &[String]| {
        let mut data: Vec<String> = data.iter().map(|one| one.to_ascii_lowercase()).collect();
        data.sort();
        data
    };
    match expected {
        ExpectAnswer::Data(data) => got.rcode == "NOERROR" && sorted(data) == sorted(&got.answer),
        ExpectAnswer::Word(ExpectWord::NoData) => got.rcode == "NOERROR" && got.answer.is_empty(),
        ExpectAnswer::Word(ExpectWord::NxDomain) => got.rcode == "NXDOMAIN",
        ExpectAnswer::Word(ExpectWord::ServFail) => got.rcode == "SERVFAIL",
        ExpectAnswer::Word(ExpectWord::Refused) => got.rcode == "REFUSED",
    }
}
