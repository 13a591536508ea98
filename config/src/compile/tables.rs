//! ISP tables and databases: read, and their problems told in our form.

use std::path::PathBuf;
use std::sync::Arc;

use crate::gather::resolve;
use crate::place::At;
use crate::problem::{Problem, Severity, Where};
use crate::spec::{Isp, LayerWord, Spec};
use crate::tables::{self, GeoTable, IspSource, IspTables, Layer, Mmdb, TableProblem};

/// What was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Read {
    /// `None` where they could not be read.
    pub(crate) isp: Option<Arc<IspTables>>,
    pub(crate) geo: Option<Arc<GeoTable>>,
}

pub(crate) fn read(
    spec: &Spec,
    paths: &[PathBuf],
    previous: Option<&IspTables>,
    problems: &mut Vec<Problem>,
) -> Read {
    let mut fail = |problem: TableProblem| problems.push(told(problem, Severity::Error));
    let mut open = |path: Option<&At<PathBuf>>| {
        let opened = Mmdb::open(&resolve(paths, path?));
        opened.map_err(&mut fail).ok()
    };
    let asn = open(spec.tables.asn.as_ref());
    let geo = open(spec.tables.geo.as_ref());
    let geo = geo.and_then(|mmdb| tables::load_geo(&mmdb).map_err(&mut fail).ok()).map(Arc::new);

    let mut sources = Vec::new();
    let mut whole = spec.tables.is_whole && (spec.tables.asn.is_none() || asn.is_some());
    if let Some(folder) = &spec.tables.isp {
        match tables::isp_dir(&resolve(paths, folder)) {
            Ok(found) => sources.extend(found),
            Err(problem) => {
                fail(problem);
                whole = false;
            }
        }
    }
    for isp in spec.isp.iter() {
        sources.push(source(isp, paths));
    }
    let mut isp = None;
    if whole {
        match tables::load_isp(&sources, asn.as_ref(), previous) {
            Ok(tables) => isp = Some(Arc::new(tables)),
            Err(failed) => failed.into_iter().for_each(&mut fail),
        }
    }
    for table in spec.isp.iter() {
        check(table, spec.tables.asn.is_some() || !spec.tables.is_whole, problems);
    }
    Read { isp, geo }
}

fn source(isp: &Isp, paths: &[PathBuf]) -> IspSource {
    let Isp {
        at: _,
        name,
        files,
        asns,
        names,
        key,
        prefixes,
        exclude,
        layer,
        sha256,
        max_bad_lines,
        strict,
        allow_default,
        max_shrink,
    } = isp;
    IspSource {
        name: name.value.clone(),
        files: files.iter().map(|file| resolve(paths, file)).collect(),
        asns: asns.iter().map(|asn| asn.get()).collect(),
        names: names.clone(),
        key: key.clone(),
        prefixes: prefixes.iter().map(|prefix| prefix.value.to_string()).collect(),
        exclude: exclude.iter().map(|prefix| prefix.value.to_string()).collect(),
        layer: match layer {
            LayerWord::User => Layer::User,
            LayerWord::Imported => Layer::Imported,
            LayerWord::Shipped => Layer::Shipped,
        },
        sha256: sha256.as_ref().map(|digest| digest.value.clone()),
        max_bad_lines: max_bad_lines.get::<u32>() as usize,
        strict: *strict,
        allow_default: *allow_default,
        max_shrink_percent: max_shrink.get(),
    }
}

/// What is wrong with an `[[isp]]` by itself.
fn check(isp: &Isp, has_asn: bool, problems: &mut Vec<Problem>) {
    if isp.name.is_empty() {
        problems.push(Problem::error("bad-value", isp.name.at, "the operator has no name"));
    }
    let is_empty = isp.files.0.is_empty()
        && isp.prefixes.0.is_empty()
        && isp.asns.is_empty()
        && isp.exclude.0.is_empty();
    if is_empty {
        let message = format!("[[isp]] {:?} names no prefixes", isp.name.value);
        problems.push(Problem::error("empty", isp.at, message).help("add files, asns or prefixes"));
    }
    if let Some(asn) = isp.asns.first()
        && isp.files.0.is_empty()
        && !has_asn
    {
        let problem = Problem::error("missing-key", asn.at, "`asns` needs a file to look them up in");
        problems.push(problem.help("add [tables] asn = \"FILE.mmdb\", or `files` here"));
    }
    if let Some(digest) = &isp.sha256 {
        if isp.files.0.len() != 1 {
            let problem = Problem::error("bad-value", digest.at, "`sha256` is the digest of one file");
            problems.push(problem.help("give one file, or put FILE.sha256 beside each"));
        } else if digest.len() != 64 || !digest.bytes().all(|octet| octet.is_ascii_hexdigit()) {
            let message = format!("{:?} is no SHA-256 digest", digest.value);
            problems.push(
                Problem::error("bad-value", digest.at, message).help("64 hex digits, from `sha256sum FILE`"),
            );
        }
    }
}

/// A table's problem in our form.
pub(crate) fn told(problem: TableProblem, severity: Severity) -> Problem {
    let TableProblem { file, line, column, message, help } = problem;
    let number = |n: Option<usize>| n.and_then(|n| u32::try_from(n).ok());
    Problem {
        severity,
        code: "table",
        message,
        place: Where::File { file: file.display().to_string(), line: number(line), column: number(column) },
        related: Vec::new(),
        help: (!help.is_empty()).then_some(help),
    }
}
