//! The main file and what it includes, read into one [`Spec`].

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::files::{FileSource, beside, glob, is_pattern};
use crate::place::{At, Span};
use crate::problem::{Problem, SourceFile, Where};
use crate::read::{Reader, Value, parse};
use crate::spec::{Included, Spec};

/// Most files a config may include.
const INCLUDE_LIMIT: usize = 10_000;

/// What the files say, and the files.
pub(crate) struct Gathered {
    /// All the files' words in one, as far as they could be read; `None` when nothing can be said about them.
    pub(crate) spec: Option<Spec>,
    pub(crate) files: Vec<SourceFile>,
    /// Where each file is, by its number in a [`Span`].
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) problems: Vec<Problem>,
    /// SHA-256 over all files, in hex.
    pub(crate) hash: String,
}

impl Gathered {
    /// A path written at `at`, seen from here.
    pub(crate) fn resolve(paths: &[PathBuf], at: Span, path: &Path) -> PathBuf {
        match paths.get(at.file as usize) {
            Some(file) => beside(file, path),
            None => path.to_owned(),
        }
    }
}

/// Reads `path` and its includes.
pub(crate) fn gather(source: &dyn FileSource, path: &Path) -> Gathered {
    let mut gathered = Gathered {
        spec: None,
        files: Vec::new(),
        paths: Vec::new(),
        problems: Vec::new(),
        hash: String::new(),
    };
    let mut digest = Sha256::new();
    if let Some((mut spec, is_clean)) = read_file::<Spec>(source, path, None, &mut gathered, &mut digest) {
        let is_whole = include_all(source, path, &mut spec, &mut gathered, &mut digest);
        if !is_clean || !is_whole {
            spec.distrust();
        }
        gathered.spec = Some(spec);
    }
    gathered.hash = digest.finalize().iter().map(|octet| format!("{octet:02x}")).collect();
    gathered
}

fn include_all(
    source: &dyn FileSource,
    main: &Path,
    spec: &mut Spec,
    gathered: &mut Gathered,
    digest: &mut Sha256,
) -> bool {
    let mut whole = true;
    let mut seen = vec![main.to_owned()];
    for pattern in std::mem::take(&mut spec.include) {
        let paths = match glob(source, &beside(main, Path::new(&pattern.value))) {
            Ok(paths) => paths,
            Err(error) => {
                let message = format!("cannot list {:?}: {error}", pattern.value);
                gathered.problems.push(Problem::error("unreadable", pattern.at, message));
                whole = false;
                continue;
            }
        };
        if paths.is_empty() && is_pattern(&pattern) {
            let message = format!("no file matches {:?}", pattern.value);
            gathered.problems.push(Problem::warning("nothing-included", pattern.at, message));
        }
        for path in paths {
            if seen.contains(&path) {
                continue;
            }
            if seen.len() > INCLUDE_LIMIT {
                let message = format!("more than {INCLUDE_LIMIT} files are included");
                gathered.problems.push(Problem::error("too-many", pattern.at, message));
                return false;
            }
            seen.push(path.clone());
            match read_file::<Included>(source, &path, Some(pattern.at), gathered, digest) {
                Some((part, is_clean)) => {
                    whole &= is_clean;
                    join(spec, part, &mut gathered.problems);
                }
                None => whole = false,
            }
        }
    }
    whole
}

/// Reads one file into its form, and whether all that is wrong lies in parts that are marked. `None` when it cannot be
/// read; what is wrong is reported.
fn read_file<T: Value>(
    source: &dyn FileSource,
    path: &Path,
    included_at: Option<Span>,
    gathered: &mut Gathered,
    digest: &mut Sha256,
) -> Option<(T, bool)> {
    let name = path.display().to_string();
    let text = source.read(path).map_err(|error| error.to_string()).and_then(|octets| {
        String::from_utf8(octets)
            .map_err(|error| format!("not UTF-8 at octet {}", error.utf8_error().valid_up_to()))
    });
    let text = match text {
        Ok(text) => text,
        Err(error) => {
            let message = format!("cannot read {name}: {error}");
            let mut problem = Problem::error("unreadable", included_at.unwrap_or(Span::NOWHERE), message);
            if included_at.is_none() {
                problem.place = Where::File { file: name, line: None, column: None };
                problem = problem.help("name the config with -c FILE or in PORTOLAN_CONFIG");
            }
            gathered.problems.push(problem);
            return None;
        }
    };
    // a BOM is what Windows editors put in front (R1 does the same for tables)
    let text = text.strip_prefix('\u{feff}').map_or_else(|| text.clone(), str::to_owned);
    digest.update((text.len() as u64).to_be_bytes());
    digest.update(&text);

    let file = u32::try_from(gathered.files.len()).unwrap_or(u32::MAX);
    gathered.files.push(SourceFile { name, text });
    gathered.paths.push(path.to_owned());
    let text = &gathered.files.last()?.text;
    let before = gathered.problems.len();
    let mut reader = Reader::new(file, &mut gathered.problems);
    let value = parse(text, &mut reader).and_then(|node| T::read(&node, &mut reader));
    let in_parts = reader.in_parts();
    Some((value?, gathered.problems.len() == before + in_parts))
}

/// Adds what an included file says.
fn join(spec: &mut Spec, part: Included, problems: &mut Vec<Problem>) {
    let Included {
        at: _,
        version: _,
        node,
        dns,
        tables,
        isp,
        site,
        geo,
        service,
        peers,
        virtual_server,
        proximity,
        api,
        metrics,
        log,
        expect,
    } = part;
    spec.isp.join(isp);
    spec.site.join(site);
    spec.geo.join(geo);
    spec.service.join(service);
    spec.virtual_server.join(virtual_server);
    spec.expect.join(expect);

    let mut twice = |what: &str, first: Span, second: Span| {
        let problem = Problem::error("twice", second, format!("[{what}] is already written elsewhere"));
        problems.push(problem.see(first, "first here").help("keep one of the two"));
    };
    if let Some(node) = node.value {
        twice("node", spec.node.at, node.at);
    }
    spec.node.is_whole &= node.is_whole;
    let mut place = |what: &str, first: Span, second: Span| {
        let free = first == Span::NOWHERE;
        if !free {
            twice(what, first, second);
        }
        free
    };
    if let Some(value) = dns.value
        && place("dns", spec.dns.at, value.at)
    {
        spec.dns.value = value;
    }
    spec.dns.is_whole &= dns.is_whole;
    if let Some(value) = tables.value
        && place("tables", spec.tables.at, value.at)
    {
        spec.tables.value = value;
    }
    spec.tables.is_whole &= tables.is_whole;
    if let Some(value) = log.value
        && place("log", spec.log.at, value.at)
    {
        spec.log.value = value;
    }
    spec.log.is_whole &= log.is_whole;
    if let Some(value) = peers.value
        && place("peers", spec.peers.as_ref().map_or(Span::NOWHERE, |it| it.at), value.at)
    {
        spec.peers.value = Some(value);
    }
    spec.peers.is_whole &= peers.is_whole;
    if let Some(value) = proximity.value
        && place("proximity", spec.proximity.at, value.at)
    {
        spec.proximity.value = value;
    }
    spec.proximity.is_whole &= proximity.is_whole;
    if let Some(value) = api.value
        && place("api", spec.api.as_ref().map_or(Span::NOWHERE, |it| it.at), value.at)
    {
        spec.api.value = Some(value);
    }
    spec.api.is_whole &= api.is_whole;
    if let Some(value) = metrics.value
        && place("metrics", spec.metrics.as_ref().map_or(Span::NOWHERE, |it| it.at), value.at)
    {
        spec.metrics.value = Some(value);
    }
    spec.metrics.is_whole &= metrics.is_whole;
}

/// The absolute or relative place of a written path.
pub(crate) fn resolve(paths: &[PathBuf], path: &At<PathBuf>) -> PathBuf {
    Gathered::resolve(paths, path.at, &path.value)
}
