//! Geography policies: what each place of the GeoIP file comes to, for all policies at once.
//!
//! ```text
//! rules, nearest, bias ─► GeoPolicy ─┐
//! GeoIP records ─────────────────────┴─► rankings ─► places with equal rankings under every policy are one value
//! ```
//! Merging equal places keeps ECS scopes as wide as they honestly are (T2), and the class table small.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use portolan_balance::geo::{Place, Point, rank};
use portolan_balance::nets::{Address, Run, Runs, push_run};
use portolan_balance::policy::{GeoTable, Ranking, SiteId};

use super::names::Sites;
use super::region::{Region, Regions};
use crate::place::{At, Span};
use crate::problem::Problem;
use crate::read::{Map, Real};
use crate::spec::{Geo, GeoRule, InlineGeo, SiteGroup};
use crate::tables::{GeoRecord, GeoTable as GeoFile};

/// A policy, with ids.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GeoPolicy {
    rules: Vec<Rule>,
    /// For places in no rule; `None` where that is not said.
    default: Option<Vec<Vec<SiteId>>>,
    /// Sites with a location, when they are ranked by distance.
    nearest: Option<Vec<PlaceOf>>,
}

#[derive(Clone, Debug, PartialEq)]
struct Rule {
    regions: Vec<Region>,
    /// Its regions as written.
    text: String,
    sites: Vec<Vec<SiteId>>,
    at: Span,
}

/// [`Place`], comparable.
#[derive(Clone, Copy, Debug, PartialEq)]
struct PlaceOf {
    site: SiteId,
    point: Point,
    bias_km: f64,
}

impl GeoPolicy {
    /// The policy of services that name none: by distance.
    pub(crate) fn by_distance(sites: &Sites) -> Self {
        Self { rules: Vec::new(), default: None, nearest: Some(places(sites, &HashMap::new())) }
    }

    pub(crate) fn named(
        geo: &Geo,
        sites: &mut Sites,
        regions: &mut Regions<'_>,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let Geo { at, name: _, rules, default, nearest, bias } = geo;
        Self::compile(*at, rules, default.as_ref(), nearest.as_ref(), bias, sites, regions, problems)
    }

    pub(crate) fn inline(
        geo: &InlineGeo,
        sites: &mut Sites,
        regions: &mut Regions<'_>,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let InlineGeo { at, rules, default, nearest, bias } = geo;
        Self::compile(*at, rules, default.as_ref(), nearest.as_ref(), bias, sites, regions, problems)
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the keys of the two tables, and what they are looked up in"
    )]
    fn compile(
        at: Span,
        rules: &[GeoRule],
        default: Option<&At<Vec<SiteGroup>>>,
        nearest: Option<&At<bool>>,
        bias: &Map<At<Real>>,
        sites: &mut Sites,
        regions: &mut Regions<'_>,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let rules: Vec<Rule> =
            rules.iter().map(|rule| compile_rule(rule, sites, regions, problems)).collect();
        hidden(&rules, problems);

        let is_nearest = nearest.map_or(rules.is_empty(), |it| it.value);
        // G07: a client in no rule must have an answer by intention, not by accident
        if !is_nearest && default.is_none() {
            let message = match rules.is_empty() {
                true => "this geography policy has neither rules nor nearest",
                false => "clients in no rule have no sites: `default` is missing",
            };
            let problem = Problem::error("missing-default", at, message);
            problems.push(problem.help(
                "add default = [\"SITE\"], or default = [] to let the next step decide, or nearest = true",
            ));
        }
        let mut kilometres = HashMap::new();
        for (name, km) in bias.iter() {
            if km.0.abs() > 20_000.0 {
                let message = format!("{} is outside -20000 to 20000 km", km.0);
                problems.push(Problem::error("bad-value", km.at, message));
            }
            if let Some(site) = sites.find(name, problems) {
                kilometres.insert(site, km.0);
            }
        }
        if let (Some((name, _)), false) = (bias.iter().next(), is_nearest) {
            let problem =
                Problem::warning("no-effect", name.at, "`bias` does nothing without nearest = true");
            problems.push(problem.help("add nearest = true, or remove the bias"));
        }
        let default = default.map(|groups| site_groups(&groups.value, sites, problems));
        Self { rules, default, nearest: is_nearest.then(|| places(sites, &kilometres)) }
    }

    /// Sites that this policy can choose.
    pub(crate) fn reach(&self) -> BTreeSet<SiteId> {
        let listed =
            self.rules.iter().map(|rule| &rule.sites).chain(&self.default).flatten().flatten().copied();
        listed.chain(self.nearest.iter().flatten().map(|place| place.site)).collect()
    }

    /// The sites for a place, best first; `None` where the policy has nothing to say.
    fn ranking(&self, record: &GeoRecord) -> Option<Ranking> {
        let by_distance = || {
            let ((lat, lon), places) = (record.location?, self.nearest.as_ref()?);
            let places: Vec<Place> = places
                .iter()
                .map(|&PlaceOf { site, point, bias_km }| Place { site, point, bias_km: -bias_km })
                .collect();
            Some(rank(Point { lat, lon }, &places))
        };
        if let Some(rule) =
            self.rules.iter().find(|rule| rule.regions.iter().any(|region| region.holds(record)))
        {
            let mut groups = rule.sites.clone();
            let mut listed: BTreeSet<SiteId> = groups.iter().flatten().copied().collect();
            for group in by_distance().unwrap_or_default() {
                let group: Vec<SiteId> = group.into_iter().filter(|site| listed.insert(*site)).collect();
                if !group.is_empty() {
                    groups.push(group);
                }
            }
            return Some(Ranking { groups, reason: format!("region {}", rule.text) });
        }
        if let Some(groups) = &self.default {
            let ranking = Ranking { groups: groups.clone(), reason: "default".into() };
            return (!groups.is_empty()).then_some(ranking);
        }
        by_distance().map(|groups| Ranking { groups, reason: "nearest".into() })
    }
}

fn places(sites: &Sites, bias: &HashMap<SiteId, f64>) -> Vec<PlaceOf> {
    (0..)
        .map(SiteId)
        .zip(&sites.list)
        .filter_map(|(site, info)| {
            let bias_km = bias.get(&site).copied().unwrap_or(0.0);
            Some(PlaceOf { site, point: info.location?, bias_km })
        })
        .collect()
}

fn compile_rule(
    rule: &GeoRule,
    sites: &mut Sites,
    regions: &mut Regions<'_>,
    problems: &mut Vec<Problem>,
) -> Rule {
    crate::read::not_empty(&rule.region.0, rule.region.at, "`region`", problems);
    crate::read::not_empty(&rule.sites.value, rule.sites.at, "`sites`", problems);
    Rule {
        regions: rule.region.iter().flat_map(|text| regions.resolve(text, problems)).collect(),
        text: rule.region.iter().map(|text| text.value.as_str()).collect::<Vec<_>>().join(", "),
        sites: site_groups(&rule.sites.value, sites, problems),
        at: rule.at,
    }
}

fn site_groups(groups: &[SiteGroup], sites: &mut Sites, problems: &mut Vec<Problem>) -> Vec<Vec<SiteId>> {
    let mut seen: HashMap<SiteId, Span> = HashMap::new();
    let mut ids = Vec::new();
    for SiteGroup(names) in groups {
        let mut group = Vec::new();
        for name in names {
            let Some(site) = sites.find(name, problems) else { continue };
            match seen.insert(site, name.at) {
                None => group.push(site),
                Some(first) => {
                    let problem = Problem::error(
                        "twice",
                        name.at,
                        format!("site {:?} is in this list twice", name.value),
                    );
                    problems.push(problem.see(first, "first here").help("remove one of the two"));
                }
            }
        }
        if !group.is_empty() {
            ids.push(group);
        }
    }
    ids
}

/// Warns of rules whose every place an earlier rule takes.
fn hidden(rules: &[Rule], problems: &mut Vec<Problem>) {
    for (position, rule) in rules.iter().enumerate() {
        let earlier = rules.iter().take(position);
        let by =
            |region: &Region| earlier.clone().find(|other| other.regions.iter().any(|it| it.covers(region)));
        let takers: Option<Vec<&Rule>> = rule.regions.iter().map(by).collect();
        if let Some(first) = takers.and_then(|takers| takers.first().copied()) {
            let message = format!("this rule for {} is never reached", rule.text);
            let problem =
                Problem::warning("hidden-rule", rule.at, message).see(first.at, "this rule comes first");
            problems.push(problem.help("put the smaller region first"));
        }
    }
}

/// All policies in use over all places of the GeoIP file.
pub(crate) struct GeoTables {
    /// By position of the policy; `None` where it never has anything to say.
    pub(crate) tables: Vec<Option<Arc<GeoTable>>>,
    /// Where each value holds.
    pub(crate) runs: Runs,
}

impl GeoTables {
    pub(crate) fn compile(policies: &[GeoPolicy], file: Option<&GeoFile>) -> Self {
        if policies.is_empty() {
            return Self { tables: Vec::new(), runs: Runs::default() };
        }
        let unknown = GeoRecord::default();
        // the first record of a file is "unknown" too
        let records = file.map_or(&[][..], |file| file.records.get(1..).unwrap_or_default());
        let mut rankings: Vec<Vec<Ranking>> = vec![Vec::new(); policies.len()];
        let mut numbers: Vec<HashMap<Ranking, u32>> = vec![HashMap::new(); policies.len()];
        let mut values: HashMap<Vec<u32>, u32> = HashMap::new();
        let mut tuples: Vec<Vec<u32>> = Vec::new();
        let mut value_of: Vec<u32> = Vec::with_capacity(records.len() + 1);
        for record in std::iter::once(&unknown).chain(records) {
            let tuple: Vec<u32> = policies
                .iter()
                .zip(rankings.iter_mut().zip(&mut numbers))
                .map(|(policy, (rankings, numbers))| {
                    let Some(ranking) = policy.ranking(record) else { return u32::MAX };
                    *numbers.entry(ranking).or_insert_with_key(|ranking| {
                        rankings.push(ranking.clone());
                        count(rankings.len()) - 1
                    })
                })
                .collect();
            let value = *values.entry(tuple).or_insert_with_key(|tuple| {
                tuples.push(tuple.clone());
                count(tuples.len()) - 1
            });
            value_of.push(value);
        }
        let tables = rankings.into_iter().enumerate().map(|(policy, rankings)| {
            let ranking_of =
                tuples.iter().map(|tuple| tuple.get(policy).copied().unwrap_or(u32::MAX)).collect();
            (!rankings.is_empty()).then(|| Arc::new(GeoTable { ranking_of, rankings }))
        });
        let runs = file.map_or_else(Runs::default, |file| Runs {
            v4: translate(&file.runs.v4, &value_of),
            v6: translate(&file.runs.v6, &value_of),
        });
        Self { tables: tables.collect(), runs }
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn translate<A: Address>(runs: &[Run<A>], value_of: &[u32]) -> Vec<Run<A>> {
    let mut translated = Vec::new();
    for run in runs {
        push_run(
            &mut translated,
            Run { value: value_of.get(run.value as usize).copied().unwrap_or(0), ..*run },
        );
    }
    translated
}
