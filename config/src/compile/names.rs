//! Names to ids: sites, links, prefix lists. Strings stop here.

use std::collections::{BTreeSet, HashMap};

use ipnet::IpNet;
use portolan_balance::geo::Point;
use portolan_balance::policy::SiteId;

use super::region;
use crate::place::{At, Span};
use crate::problem::Problem;
use crate::spec::{NetOrList, Spec};
use crate::suggest;

/// A site, for explanations and facts.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub location: Option<Point>,
    /// ISO 3166-1 code of its country.
    pub country: Option<String>,
    /// Its continent.
    pub continent: Option<String>,
    /// Its links.
    pub links: Vec<Link>,
}

/// A link of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its name, unique in its site.
    pub name: String,
    /// Operators it leads to, the nearest first.
    pub operators: Vec<String>,
    /// Bandwidth there is, bits per second.
    pub capacity_bps: Option<u64>,
    /// What it costs to use.
    pub cost: u32,
}

/// A link by position: of its site, and in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId {
    /// The site.
    pub site: SiteId,
    /// Position in [`Site::links`].
    pub link: u16,
}

/// Most sites, and links of a site: ids are 16 bits wide.
const LIMIT: usize = 10_000;

/// All sites by name.
pub(crate) struct Sites {
    pub(crate) list: Vec<Site>,
    /// Where each site is written.
    pub(crate) at: Vec<Span>,
    /// Whether no site was left out.
    pub(crate) is_whole: bool,
    /// The links' operators, where they are written.
    pub(crate) operators_at: Vec<At<String>>,
    by_name: HashMap<String, SiteId>,
    used: BTreeSet<SiteId>,
}

impl Sites {
    pub(crate) fn compile(spec: &Spec, problems: &mut Vec<Problem>) -> Self {
        let mut sites = Self {
            list: Vec::new(),
            at: Vec::new(),
            is_whole: spec.site.is_whole(),
            operators_at: Vec::new(),
            by_name: HashMap::new(),
            used: BTreeSet::new(),
        };
        if let Some(site) = spec.site.get(LIMIT) {
            problems.push(Problem::error("too-many", site.at, format!("more than {LIMIT} sites")));
        }
        for site in spec.site.iter().take(LIMIT) {
            let id = SiteId(u16::try_from(sites.list.len()).unwrap_or(u16::MAX));
            good_name("site", &site.name, problems);
            if let Some(first) = sites.by_name.get(&site.name.value) {
                let first = sites.at.get(usize::from(first.0)).copied().unwrap_or(Span::NOWHERE);
                let problem = Problem::error(
                    "twice",
                    site.name.at,
                    format!("site {:?} is there twice", site.name.value),
                );
                problems.push(problem.see(first, "first here").help("give each site a name of its own"));
            } else {
                sites.by_name.insert(site.name.value.clone(), id);
            }
            let mut links: Vec<Link> = Vec::new();
            for link in site.links.iter().take(LIMIT) {
                good_name("link", &link.name, problems);
                if links.iter().any(|other| other.name == link.name.value) {
                    let message =
                        format!("link {:?} is there twice in site {:?}", link.name.value, site.name.value);
                    problems.push(
                        Problem::error("twice", link.name.at, message)
                            .help("give each link a name of its own"),
                    );
                }
                sites.operators_at.extend(link.isp.iter().cloned());
                links.push(Link {
                    name: link.name.value.clone(),
                    operators: link.isp.iter().map(|isp| isp.value.clone()).collect(),
                    capacity_bps: link.capacity.map(|rate| rate.value.0),
                    cost: link.cost.get(),
                });
            }
            let location = site.location.as_ref().map(|location| {
                for (degrees, limit) in [(location.lat, 90.0), (location.lon, 180.0)] {
                    if degrees.0.abs() > limit {
                        let message = format!("{} is outside -{limit} to {limit} degrees", degrees.0);
                        problems.push(Problem::error("bad-value", degrees.at, message));
                    }
                }
                if let Some(country) = &location.country
                    && !region::is_country(country)
                {
                    let message = format!("{:?} is no country", country.value);
                    let problem = Problem::error("bad-region", country.at, message);
                    problems.push(problem.help("write its ISO 3166-1 code: \"CN\""));
                }
                if let Some(continent) = &location.continent
                    && region::continent(continent).is_none()
                {
                    let message = format!("{:?} is no continent", continent.value);
                    let problem = Problem::error("bad-region", continent.at, message);
                    problems.push(problem.help("write it like \"asia\" or \"north-america\""));
                }
                Point { lat: location.lat.0, lon: location.lon.0 }
            });
            let word = |text: Option<&At<String>>| text.map(|it| it.value.clone());
            let written = site.location.as_ref();
            sites.list.push(Site {
                name: site.name.value.clone(),
                location,
                country: word(written.and_then(|it| it.country.as_ref())),
                continent: word(written.and_then(|it| it.continent.as_ref())),
                links,
            });
            sites.at.push(site.name.at);
        }
        sites
    }

    /// The site of a name, silently.
    pub(crate) fn get(&mut self, name: &str) -> Option<SiteId> {
        let id = self.by_name.get(name).copied();
        self.used.extend(id);
        id
    }

    /// The site of a name; an unknown one is reported.
    pub(crate) fn find(&mut self, name: &At<String>, problems: &mut Vec<Problem>) -> Option<SiteId> {
        let id = self.get(&name.value);
        if id.is_none() && self.is_whole {
            let mut problem =
                Problem::error("unknown-name", name.at, format!("there is no site {:?}", name.value));
            problem.help = suggest::remedy(&name.value, self.list.iter().map(|site| site.name.as_str()))
                .or_else(|| Some("add a [[site]] with this name".to_owned()));
            problems.push(problem);
        }
        id
    }

    /// The link of a site; an unknown one is reported.
    pub(crate) fn find_link(
        &self,
        site: SiteId,
        name: &At<String>,
        problems: &mut Vec<Problem>,
    ) -> Option<LinkId> {
        let info = self.list.get(usize::from(site.0))?;
        let position = info.links.iter().position(|link| link.name == name.value);
        if position.is_none() {
            let message = format!("site {:?} has no link {:?}", info.name, name.value);
            let mut problem = Problem::error("unknown-name", name.at, message);
            problem.help = suggest::remedy(&name.value, info.links.iter().map(|link| link.name.as_str()))
                .or_else(|| Some(format!("add it: links = [{{ name = {:?}, isp = [\"…\"] }}]", name.value)));
            problems.push(problem);
        }
        Some(LinkId { site, link: u16::try_from(position?).ok()? })
    }

    /// Whether `site` or `site/link` is known, silently.
    pub(crate) fn has_place(&self, reference: &str) -> bool {
        let (site, link) =
            reference.split_once('/').map_or((reference, None), |(site, link)| (site, Some(link)));
        let info = self.by_name.get(site).and_then(|id| self.list.get(usize::from(id.0)));
        info.is_some_and(|info| link.is_none_or(|link| info.links.iter().any(|it| it.name == link)))
    }

    /// The ids of a site and a link of it, silently, without counting them as used.
    pub(crate) fn ids(&self, site: &str, link: Option<&str>) -> (Option<SiteId>, Option<LinkId>) {
        let Some(&id) = self.by_name.get(site) else { return (None, None) };
        let links = self.list.get(usize::from(id.0)).map(|info| info.links.as_slice()).unwrap_or_default();
        let position = link.and_then(|link| links.iter().position(|it| it.name == link));
        let link = position.and_then(|at| u16::try_from(at).ok()).map(|link| LinkId { site: id, link });
        (Some(id), link)
    }

    /// The link with this id.
    pub(crate) fn link(&self, id: LinkId) -> Option<&Link> {
        self.list.get(usize::from(id.site.0))?.links.get(usize::from(id.link))
    }

    pub(crate) fn name(&self, id: SiteId) -> &str {
        self.list.get(usize::from(id.0)).map_or("", |site| site.name.as_str())
    }

    /// Warns of sites that nothing refers to.
    pub(crate) fn warn_unused(&self, problems: &mut Vec<Problem>) {
        for (number, (site, at)) in (0..).zip(self.list.iter().zip(&self.at)) {
            if !self.used.contains(&SiteId(number)) && self.by_name.get(&site.name) == Some(&SiteId(number)) {
                let message = format!("nothing is at site {:?}", site.name);
                problems
                    .push(Problem::warning("unused", *at, message).help("give it a member, or remove it"));
            }
        }
    }
}

/// Names of sites, links and members stand in references like `site/link`.
pub(crate) fn good_name(what: &str, name: &At<String>, problems: &mut Vec<Problem>) {
    let wrong = if name.is_empty() {
        "is empty"
    } else if name.contains('/') {
        "holds a /, which separates a site from its link"
    } else if name.contains(char::is_control) || name.trim() != name.value {
        "holds control characters or outer spaces"
    } else if name.len() > 255 {
        "is longer than 255 octets"
    } else {
        return;
    };
    let message = format!("the {what} name {:?} {wrong}", name.value);
    problems.push(Problem::error("bad-value", name.at, message).help("write a short word like \"fra1\""));
}

/// The named lists of `[tables.prefixes]`.
pub(crate) struct Lists<'s> {
    named: HashMap<&'s str, (Span, Vec<IpNet>)>,
    order: Vec<&'s str>,
    used: BTreeSet<&'s str>,
    /// Whether no list was left out.
    is_whole: bool,
}

impl<'s> Lists<'s> {
    pub(crate) fn compile(spec: &'s Spec, problems: &mut Vec<Problem>) -> Self {
        let is_whole = spec.tables.is_whole;
        let mut lists = Self { named: HashMap::new(), order: Vec::new(), used: BTreeSet::new(), is_whole };
        for (name, prefixes) in spec.tables.prefixes.iter() {
            if name.is_empty() || name.contains(['.', ':', '/']) {
                let message = format!("the list name {:?} could be taken for a prefix", name.value);
                problems.push(
                    Problem::error("bad-value", name.at, message).help("use a word without `.`, `:` and `/`"),
                );
            }
            crate::read::not_empty(&prefixes.0, name.at, &format!("the list {:?}", name.value), problems);
            let prefixes = prefixes.iter().map(|prefix| prefix.value).collect();
            lists.named.insert(&name.value, (name.at, prefixes));
            lists.order.push(&name.value);
        }
        lists
    }

    /// All prefixes of a mixed list, sorted, without those inside others.
    pub(crate) fn resolve(&mut self, from: &[At<NetOrList>], problems: &mut Vec<Problem>) -> Vec<IpNet> {
        let mut nets = Vec::new();
        for item in from {
            match &item.value {
                NetOrList::Net(net) => nets.push(*net),
                NetOrList::List(name) => match self.named.get_key_value(name.as_str()) {
                    Some((&key, (_, prefixes))) => {
                        self.used.insert(key);
                        nets.extend(prefixes);
                    }
                    None if !self.is_whole => {}
                    None => {
                        let message = format!("there is no list {name:?} in [tables.prefixes]");
                        let mut problem = Problem::error("unknown-name", item.at, message);
                        problem.help = suggest::remedy(name, self.order.iter().copied()).or_else(|| {
                            Some(format!("add it to [tables.prefixes]: {name} = [\"192.0.2.0/24\"]"))
                        });
                        problems.push(problem);
                    }
                },
            }
        }
        IpNet::aggregate(&nets)
    }

    /// Warns of lists that nothing refers to.
    pub(crate) fn warn_unused(&self, problems: &mut Vec<Problem>) {
        for name in &self.order {
            if !self.used.contains(name)
                && let Some((at, _)) = self.named.get(name)
            {
                let message = format!("nothing uses the list {name:?}");
                problems.push(
                    Problem::warning("unused", *at, message).help("use it in an ACL rule, or remove it"),
                );
            }
        }
    }
}
