//! Zone files: found, read, and their problems told in our form.

use std::path::{Path, PathBuf};

use portolan_dns::record::Loaded;
use portolan_dns::text::{self, Fault, Limits, Source};

use crate::files::{FileSource, beside, glob, is_pattern};
use crate::gather::Gathered;
use crate::problem::{Problem, Severity, Where};
use crate::spec::Spec;

/// All zones; `None` when one could not be read.
pub(crate) fn read(
    spec: &Spec,
    files: &dyn FileSource,
    paths: &[PathBuf],
    problems: &mut Vec<Problem>,
) -> Option<Vec<Loaded>> {
    let mut found: Vec<PathBuf> = Vec::new();
    let mut whole = true;
    for pattern in &spec.dns.zones {
        match glob(files, &Gathered::resolve(paths, pattern.at, Path::new(&pattern.value))) {
            Ok(more) => {
                if more.is_empty() && is_pattern(&pattern.value) {
                    let message = format!("no zone file matches {:?}", pattern.value);
                    problems.push(Problem::warning("nothing-included", pattern.at, message));
                }
                found.extend(more);
            }
            Err(error) => {
                problems.push(Problem::error(
                    "unreadable",
                    pattern.at,
                    format!("cannot list {:?}: {error}", pattern.value),
                ));
                whole = false;
            }
        }
    }
    let mut seen = std::collections::HashSet::new();
    found.retain(|path| seen.insert(path.clone()));

    let mut zones = Vec::new();
    for path in found {
        let Some(path) = path.to_str() else { continue };
        match text::load(&mut ZoneFiles(files), path, &Limits::default()) {
            Ok(zone) => {
                let warnings = zone.warnings.iter().cloned();
                problems.extend(
                    warnings.map(|problem| told(Fault::new(problem, &zone.files), Severity::Warning)),
                );
                zones.push(zone);
            }
            Err(faults) => {
                problems.extend(faults.into_iter().map(|fault| told(fault, Severity::Error)));
                whole = false;
            }
        }
    }
    whole.then_some(zones)
}

/// Our files as the zone reader wants them.
struct ZoneFiles<'a>(&'a dyn FileSource);

impl Source for ZoneFiles<'_> {
    fn read(&mut self, path: &str, included_from: Option<&str>) -> Result<(String, Vec<u8>), String> {
        let path = match included_from {
            Some(from) => beside(Path::new(from), Path::new(path)),
            None => PathBuf::from(path),
        };
        let octets = self.0.read(&path).map_err(|error| error.to_string())?;
        Ok((path.display().to_string(), octets))
    }
}

fn told(fault: Fault, severity: Severity) -> Problem {
    let Fault { file, place, message, help } = fault;
    let number = |n: u32| (n > 0).then_some(n);
    Problem {
        severity,
        code: "zone",
        message,
        place: Where::File { file, line: number(place.line), column: number(place.column) },
        related: Vec::new(),
        help,
    }
}

/// A problem of zones and services together.
pub(crate) fn catalog_problem(
    problem: portolan_dns::catalog::Problem,
    severity: Severity,
    zones: &[Loaded],
    services: &[crate::place::Span],
) -> Problem {
    use portolan_dns::catalog::At;
    let portolan_dns::catalog::Problem { at, message, help } = problem;
    let file = |zone: usize, number: u32| {
        let files = zones.get(zone).map(|zone| &zone.files);
        files.and_then(|files| files.get(number as usize)).cloned().unwrap_or_default()
    };
    let place = match at {
        At::Service(at) => Where::Span(services.get(at).copied().unwrap_or(crate::place::Span::NOWHERE)),
        At::Zone(zone) => Where::File { file: file(zone, 0), line: None, column: None },
        At::Record { zone, place } => {
            Where::File { file: file(zone, place.file), line: Some(place.line), column: Some(place.column) }
        }
    };
    Problem { severity, code: "zone", message, place, related: Vec::new(), help }
}
