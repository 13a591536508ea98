//! `[proximity]`: settings of measuring and of choosing by it.

use std::ops::RangeInclusive;
use std::time::Duration;

use ipnet::IpNet;
use portolan_balance::proximity::{PointId, Points, Settings, Weights};

use super::names::{Lists, Sites};
use crate::place::{At, Span};
use crate::problem::Problem;
use crate::read::{Length, Real};
use crate::spec::{self, Solicit as Written, Spec};

/// What is measured of clients, and what is made of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Proximity {
    /// What is kept, and what is made of it.
    pub settings: Settings,
    /// Round-trip times that are known.
    pub fixed: Vec<Static>,
    /// Whether round-trip times of TCP clients are taken.
    pub is_tcp_seen: bool,
    /// How often resolvers are made to come by TCP (X 3).
    pub solicit: Option<Solicit>,
    /// Probes; none unless a kind of them is on.
    pub active: Option<Active>,
    /// Resolvers that are in many places, beside the well-known ones; disjoint and sorted.
    pub anycast: Vec<IpNet>,
}

/// A round-trip time that is known (PX2: it beats what is measured).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Static {
    /// Clients.
    pub prefix: IpNet,
    /// The site or link.
    pub point: PointId,
    /// The round-trip time.
    pub rtt_us: u32,
}

/// How often resolvers are made to come by TCP.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Solicit {
    /// Share of the queries.
    pub share: f32,
    /// Time between two for one prefix.
    pub every: Duration,
}

/// Probes. How often a prefix is probed is in [`Settings::probe_ms`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Active {
    /// Echoes.
    pub icmp: bool,
    /// Queries for the root's name servers.
    pub dns: bool,
    /// Connections to port 53.
    pub tcp: bool,
    /// Probes a second.
    pub rate: u32,
    /// Probes under way at once.
    pub in_flight: usize,
    /// Never probed, disjoint and sorted.
    pub exclude: Vec<IpNet>,
    /// Clients in private, reserved and documentation space, disjoint and sorted.
    pub also: Vec<IpNet>,
    /// Whether a peer's word is taken that an address has asked it.
    pub trust_peers: bool,
    /// Who answers for the probes; in the payload.
    pub contact: String,
}

const DAY: Duration = Duration::from_secs(86_400);

pub(crate) fn compile(
    spec: &Spec,
    points: &Points,
    sites: &mut Sites,
    lists: &mut Lists<'_>,
    problems: &mut Vec<Problem>,
) -> Proximity {
    let spec::Proximity {
        at: _,
        entries,
        v4,
        v6,
        weights,
        band,
        dwell,
        explore,
        window,
        passive_ttl,
        active_ttl,
        fixed,
        passive,
        active,
        anycast,
    } = &*spec.proximity;
    let second = Duration::from_secs(1);
    let settings = Settings {
        v4: v4.get(),
        v6: v6.get(),
        entries: entries.get::<u32>() as usize,
        weights: weights_of(weights, problems),
        band_percent: real(&band.percent, 0.0..=100.0, problems),
        band_us: micros(length(&band.time, Duration::ZERO..=second, problems)),
        dwell_ms: millis(length(dwell, Duration::ZERO..=DAY, problems)),
        window_ms: millis(length(window, second..=DAY, problems)),
        passive_ttl_ms: millis(length(passive_ttl, second..=DAY * 30, problems)),
        active_ttl_ms: millis(length(active_ttl, second..=DAY * 30, problems)),
        probe_ms: millis(length(&active.every, Duration::from_secs(60)..=DAY, problems)),
        // no key of its own: a share of the queries that no config should need to change
        probe_permille: Settings::default().probe_permille,
        // X: 1-2 % of clients, and none more than 50 ms worse off
        explore_permille: (real(&explore.share, 0.0..=0.02, problems) * 1000.0).round() as u16,
        explore_limit_us: micros(length(
            &explore.limit,
            Duration::ZERO..=Duration::from_millis(50),
            problems,
        )),
    };
    for (key, written, ttl) in [
        ("passive_ttl", passive_ttl, settings.passive_ttl_ms),
        ("active_ttl", active_ttl, settings.active_ttl_ms),
    ] {
        if ttl < settings.window_ms {
            let message = format!("`window`, {:?}, is longer than `{key}`, {:?}", window.0, written.0);
            // either may be a default, which stands nowhere
            let at = if window.at == Span::NOWHERE { written.at } else { window.at };
            let problem = Problem::error("bad-value", at, message).see(written.at, format!("`{key}`"));
            problems.push(problem.help(format!("make the window shorter, or `{key}` longer")));
        }
    }
    let Weights { rtt, hops, loss: _, bandwidth, cost } = settings.weights;
    if [rtt, hops, bandwidth, cost].iter().all(|weight| *weight == 0.0) {
        let problem = Problem::error("weights", weights.at, "all weights of [proximity] but `loss` are 0");
        problems.push(problem.help("give at least `rtt` a weight above 0"));
    }
    Proximity {
        settings,
        fixed: statics(fixed, &settings, points, sites, problems),
        is_tcp_seen: passive.tcp,
        solicit: match &passive.solicit {
            Written::Off => None,
            // X 3: at most one query in 200, and one of a prefix in 10 minutes
            Written::On(table) => Some(Solicit {
                share: real(&table.share, 0.0..=0.005, problems),
                every: length(&table.every, Duration::from_secs(600)..=DAY, problems),
            }),
        },
        active: probes(active, lists, problems),
        anycast: lists.resolve(anycast, problems),
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

fn weights_of(weights: &spec::Weights, problems: &mut Vec<Problem>) -> Weights {
    let spec::Weights { at: _, rtt, hops, loss, bandwidth, cost } = weights;
    let mut weight = |written: &At<Real>| real(written, 0.0..=10_000.0, problems);
    Weights {
        rtt: weight(rtt),
        hops: weight(hops),
        loss: weight(loss),
        bandwidth: weight(bandwidth),
        cost: weight(cost),
    }
}

fn real(written: &At<Real>, range: RangeInclusive<f64>, problems: &mut Vec<Problem>) -> f32 {
    let value = written.value.0;
    if !range.contains(&value) {
        let message = format!("{value} is outside {} to {}", range.start(), range.end());
        problems.push(Problem::error("bad-value", written.at, message));
    }
    value as f32
}

fn length(written: &At<Length>, range: RangeInclusive<Duration>, problems: &mut Vec<Problem>) -> Duration {
    let time = written.value.0;
    if !range.contains(&time) {
        let message = format!("{time:?} is outside {:?} to {:?}", range.start(), range.end());
        problems.push(Problem::error("bad-value", written.at, message));
    }
    time
}

fn probes(active: &spec::Active, lists: &mut Lists<'_>, problems: &mut Vec<Problem>) -> Option<Active> {
    let spec::Active { at, icmp, dns, tcp, rate, in_flight, every: _, exclude, also, trust_peers, contact } =
        active;
    let (exclude, also) = (lists.resolve(exclude, problems), lists.resolve(also, problems));
    let is_on = *icmp || *dns || *tcp;
    if !is_on {
        if *at != Span::NOWHERE {
            let problem =
                Problem::warning("no-effect", *at, "`active` probes nothing: no kind of probe is on");
            problems.push(problem.help("add icmp = true, dns = true or tcp = true, or remove it"));
        }
        return None;
    }
    match contact {
        None => {
            let message =
                "probes reach people who never heard of this node, and do not say who answers for them";
            let problem = Problem::warning("missing-key", *at, message);
            problems.push(problem.help("add contact = \"https://example.com/probes\""));
        }
        Some(contact) => {
            let is_plain = contact.bytes().all(|octet| (0x20..0x7f).contains(&octet));
            if contact.is_empty() || contact.len() > 200 || !is_plain {
                let message = format!("{:?} is not 1 to 200 characters of ASCII", contact.value);
                problems.push(
                    Problem::error("bad-value", contact.at, message).help("write a URL or a mail address"),
                );
            }
        }
    }
    Some(Active {
        icmp: *icmp,
        dns: *dns,
        tcp: *tcp,
        rate: rate.get(),
        in_flight: in_flight.get::<u16>().into(),
        exclude,
        also,
        trust_peers: *trust_peers,
        contact: contact.as_ref().map(|it| it.value.clone()).unwrap_or_default(),
    })
}

fn statics(
    written: &[spec::Static],
    settings: &Settings,
    points: &Points,
    sites: &mut Sites,
    problems: &mut Vec<Problem>,
) -> Vec<Static> {
    let mut list: Vec<Static> = Vec::new();
    let mut seen = std::collections::HashMap::new();
    for entry in written {
        let spec::Static { at, prefix, site, link, rtt } = entry;
        let rtt = length(rtt, Duration::from_millis(1)..=Duration::from_secs(10), problems);
        let limit = if prefix.addr().is_ipv4() { settings.v4 } else { settings.v6 };
        if prefix.prefix_len() > limit {
            let message = format!("{} is longer than the /{limit} that makes a client", prefix.value);
            problems.push(
                Problem::error("bad-value", prefix.at, message).help("give the prefix that it lies in"),
            );
        }
        let Some(id) = sites.find(site, problems) else { continue };
        if link.as_ref().is_some_and(|link| sites.find_link(id, link, problems).is_none()) {
            continue;
        }
        let link = link.as_ref().map(|link| link.value.as_str());
        if let Some(first) = seen.insert((prefix.value, id, link), *at) {
            let message = format!("{} from this place is there twice", prefix.value);
            let problem = Problem::error("twice", *at, message).see(first, "first here");
            problems.push(problem.help("remove one of the two"));
            continue;
        }
        if let Some(point) = points.find(&site.value, link) {
            list.push(Static { prefix: prefix.value, point, rtt_us: micros(rtt) });
        }
    }
    list
}
