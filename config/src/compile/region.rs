//! Regions: paths like `US/CA` matched against a place.

use std::collections::{BTreeSet, HashMap};

use crate::place::{At, Span};
use crate::problem::Problem;
use crate::spec::Spec;
use crate::suggest;
use crate::tables::GeoRecord;

/// Continents: code in GeoIP files, and our word.
const CONTINENTS: [(&str, &str); 7] = [
    ("AF", "africa"),
    ("AN", "antarctica"),
    ("AS", "asia"),
    ("EU", "europe"),
    ("NA", "north-america"),
    ("OC", "oceania"),
    ("SA", "south-america"),
];

/// ISO 3166-1 alpha-2, and XK (Kosovo), which GeoIP files use, by continent.
const COUNTRIES: [(&str, &str); 7] = [
    (
        "AF",
        "AO BF BI BJ BW CD CF CG CI CM CV DJ DZ EG EH ER ET GA GH GM GN GQ GW KE KM LR LS LY MA MG ML MR MU MW MZ NA NE NG RE RW SC SD SH SL SN SO SS ST SZ TD TG TN TZ UG YT ZA ZM ZW",
    ),
    ("AN", "AQ BV GS HM TF"),
    (
        "AS",
        "AE AF AM AZ BD BH BN BT CC CN CX GE HK ID IL IN IO IQ IR JO JP KG KH KP KR KW KZ LA LB LK MM MN MO MV MY NP OM PH PK PS QA SA SG SY TH TJ TM TR TW UZ VN YE",
    ),
    (
        "EU",
        "AD AL AT AX BA BE BG BY CH CY CZ DE DK EE ES FI FO FR GB GG GI GR HR HU IE IM IS IT JE LI LT LU LV MC MD ME MK MT NL NO PL PT RO RS RU SE SI SJ SK SM UA VA XK",
    ),
    (
        "NA",
        "AG AI AW BB BL BM BQ BS BZ CA CR CU CW DM DO GD GL GP GT HN HT JM KN KY LC MF MQ MS MX NI PA PM PR SV SX TC TT US VC VG VI",
    ),
    ("OC", "AS AU CK FJ FM GU KI MH MP NC NF NR NU NZ PF PG PN PW SB TK TL TO TV UM VU WF WS"),
    ("SA", "AR BO BR CL CO EC FK GF GY PE PY SR UY VE"),
];

/// Whether this is a country's code.
pub(crate) fn is_country(code: &str) -> bool {
    continent_of(code).is_some()
}

/// The code of a country's continent: some GeoIP files give the country only.
fn continent_of(country: &str) -> Option<&'static str> {
    if country.len() != 2 {
        return None;
    }
    let (code, _) =
        COUNTRIES.iter().find(|(_, countries)| countries.split(' ').any(|known| known == country))?;
    Some(code)
}

/// A continent's code by our word, or by a code that is no country's.
pub(crate) fn continent(word: &str) -> Option<&'static str> {
    let (code, _) = CONTINENTS
        .iter()
        .find(|(code, name)| name.eq_ignore_ascii_case(word) || (*code == word && !is_country(word)))?;
    Some(code)
}

/// A place, and everything in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Region {
    continent: Option<&'static str>,
    country: Option<String>,
    /// Subdivisions and a city, from large to small; levels may be missing (G06).
    inner: Vec<String>,
}

impl Region {
    /// Reads a path; the error is a message and a remedy.
    fn parse(text: &str) -> Result<Self, (String, Option<String>)> {
        let mut parts = text.split('/').map(str::trim).filter(|part| !part.is_empty()).peekable();
        let first = parts.peek().copied().unwrap_or_default();
        let mut region = Self { continent: None, country: None, inner: Vec::new() };
        if let Some(code) = continent(first) {
            region.continent = Some(code);
            parts.next();
        } else if let Some((code, name)) = CONTINENTS.iter().find(|(code, _)| *code == first) {
            let message = format!("region {code:?} is both a continent and a country");
            let country = country_with_continent(code);
            return Err((
                message,
                Some(format!("write {name:?} for the continent, {country:?} for the country")),
            ));
        }
        // behind a continent the country may be left out
        let skips = |part: &&&str| region.continent.is_some() && part.len() > 2;
        if let Some(code) = parts.next_if(|part| !skips(&part)) {
            if !is_country(code) {
                let known = CONTINENTS.iter().map(|(_, name)| *name);
                let near = if code.len() > 2 { suggest::nearest(code, known) } else { None };
                let upper = code.to_ascii_uppercase();
                let help = match near {
                    Some(near) => Some(format!("did you mean {near:?}?")),
                    None if is_country(&upper) => Some(format!("did you mean {upper:?}?")),
                    None if upper == "UK" => Some("did you mean \"GB\"?".to_owned()),
                    None => Some("write a continent (\"asia\"), a country (\"CN\"), a path (\"US/CA\"), or add a list to [tables.regions]".to_owned()),
                };
                return Err((format!("unknown region {text:?}: {code:?} is no country"), help));
            }
            region.country = Some(code.to_owned());
        }
        region.inner = parts.map(str::to_owned).collect();
        if region.continent.is_none() && region.country.is_none() {
            return Err(("the region is empty".to_owned(), Some("write a region like \"CN\"".to_owned())));
        }
        Ok(region)
    }

    /// Whether a place lies in the region.
    pub(crate) fn holds(&self, place: &GeoRecord) -> bool {
        let continent = match place.continent.as_str() {
            "" => continent_of(&place.country).unwrap_or_default(),
            code => code,
        };
        if self.continent.is_some_and(|code| code != continent)
            || self.country.as_ref().is_some_and(|code| *code != place.country)
        {
            return false;
        }
        let mut levels = place.subdivisions.iter().chain(std::iter::once(&place.city));
        // each wanted level must be found below the one before
        self.inner.iter().all(|wanted| levels.any(|level| level.eq_ignore_ascii_case(wanted)))
    }

    /// Whether every place of `other` lies here too, as far as the texts tell.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let fits = |mine: Option<&str>, theirs: Option<&str>| mine.is_none_or(|mine| theirs == Some(mine));
        fits(self.continent, other.continent)
            && fits(self.country.as_deref(), other.country.as_deref())
            && other.inner.len() >= self.inner.len()
            && self.inner.iter().zip(&other.inner).all(|(a, b)| a.eq_ignore_ascii_case(b))
    }
}

/// How to write the country whose code is also a continent's.
fn country_with_continent(code: &str) -> &'static str {
    match code {
        "AF" => "asia/AF",
        "AS" => "oceania/AS",
        "NA" => "africa/NA",
        _ => "asia/SA",
    }
}

/// The named lists of `[tables.regions]`.
pub(crate) struct Regions<'s> {
    named: HashMap<&'s str, (Span, Vec<Region>)>,
    order: Vec<&'s str>,
    used: BTreeSet<&'s str>,
    /// Whether no list was left out.
    is_whole: bool,
}

impl<'s> Regions<'s> {
    pub(crate) fn compile(spec: &'s Spec, problems: &mut Vec<Problem>) -> Self {
        let is_whole = spec.tables.is_whole;
        let mut regions = Self { named: HashMap::new(), order: Vec::new(), used: BTreeSet::new(), is_whole };
        for (name, list) in spec.tables.regions.iter() {
            if name.is_empty() || name.contains('/') || Region::parse(name).is_ok() {
                let message = format!("the list name {:?} could be taken for a region", name.value);
                problems.push(
                    Problem::error("bad-value", name.at, message).help("use another word, without `/`"),
                );
            }
            crate::read::not_empty(&list.0, name.at, &format!("the list {:?}", name.value), problems);
            let mut parsed = Vec::new();
            for text in list.iter() {
                match Region::parse(text) {
                    Ok(region) => parsed.push(region),
                    Err((message, help)) => {
                        let problem = Problem::error("bad-region", text.at, message);
                        problems.push(Problem { help, ..problem });
                    }
                }
            }
            regions.named.insert(&name.value, (name.at, parsed));
            regions.order.push(&name.value);
        }
        regions
    }

    /// The regions a text stands for.
    pub(crate) fn resolve(&mut self, text: &At<String>, problems: &mut Vec<Problem>) -> Vec<Region> {
        if let Some((&name, (_, list))) = self.named.get_key_value(text.value.as_str()) {
            self.used.insert(name);
            return list.clone();
        }
        match Region::parse(text) {
            Ok(region) => vec![region],
            Err(_) if !self.is_whole => Vec::new(),
            Err((message, help)) => {
                let near = suggest::nearest(text, self.order.iter().copied());
                let help = near.map(|near| format!("did you mean {near:?}?")).or(help);
                problems.push(Problem { help, ..Problem::error("bad-region", text.at, message) });
                Vec::new()
            }
        }
    }

    /// Warns of lists that nothing refers to.
    pub(crate) fn warn_unused(&self, problems: &mut Vec<Problem>) {
        for name in &self.order {
            if !self.used.contains(name)
                && let Some((at, _)) = self.named.get(name)
            {
                let message = format!("nothing uses the list of regions {name:?}");
                problems.push(
                    Problem::warning("unused", *at, message).help("use it in a geo rule, or remove it"),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_may_be_skipped() {
        let place = |continent: &str, country: &str, subdivisions: &[&str], city: &str| GeoRecord {
            continent: continent.into(),
            country: country.into(),
            subdivisions: subdivisions.iter().map(|&it| it.to_owned()).collect(),
            city: city.into(),
            ..GeoRecord::default()
        };
        let dunedin = place("OC", "NZ", &["South Island", "OTA"], "Dunedin");
        let paris = place("EU", "FR", &["IDF", "75"], "Paris");
        let los_angeles = place("NA", "US", &["CA"], "Los Angeles");
        let nowhere = GeoRecord::default();
        for (region, place, holds) in [
            ("NZ/OTA", &dunedin, true),
            ("NZ//OTA", &dunedin, true),
            ("oceania/dunedin", &dunedin, true),
            ("OC", &dunedin, true),
            ("NZ/Dunedin", &dunedin, true),
            ("NZ/OTA/South Island", &dunedin, false),
            ("FR/Paris", &paris, true),
            ("EU", &paris, true),
            ("europe/FR/75", &paris, true),
            ("US/CA", &los_angeles, true),
            ("US/NY", &los_angeles, false),
            ("north-america", &los_angeles, true),
            ("CA", &los_angeles, false),
            ("US", &nowhere, false),
            ("asia", &nowhere, false),
        ] {
            let parsed = Region::parse(region);
            assert_eq!(parsed.is_ok_and(|it| it.holds(place)), holds, "{region}");
        }
    }

    #[test]
    fn codes_of_two_things_are_refused() {
        for (text, help) in
            [("NA", "north-america"), ("AF", "africa"), ("uk", "GB"), ("cn", "CN"), ("Asai", "asia")]
        {
            let (_, remedy) = Region::parse(text).expect_err(text);
            assert!(remedy.as_ref().is_some_and(|it| it.contains(help)), "{text} {remedy:?}");
        }
        assert!(Region::parse("africa/NA").is_ok_and(|it| it.country.as_deref() == Some("NA")));
        assert!(Region::parse("").is_err());
        assert!(Region::parse("//").is_err());
    }

    #[test]
    fn covering() {
        let region = |text: &str| Region::parse(text).expect(text);
        for (a, b, covers) in [
            ("US", "US/CA", true),
            ("US/CA", "US", false),
            ("US/CA", "US/CA/Los Angeles", true),
            ("US/CA", "US/NY", false),
            ("asia", "asia/CN", true),
        ] {
            assert_eq!(region(a).covers(&region(b)), covers, "{a} {b}");
        }
    }
}
