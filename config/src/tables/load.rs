//! Sources of ISP tables -> one table, or every reason why not.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::checksum::check_sum;
use super::gather::Gather;
use super::isp::{FileStats, IspSource, IspTables, Layer};
use super::mmdb::{Value, read_file};
use super::prefix::{Fault, Span, parse};
use super::text::{problem, read_text, same};
use super::{Mmdb, TableProblem};

/// Larger text files are refused.
const MAX_FILE_BYTES: u64 = 512 << 20;

/// One source for every `*.txt` in a folder, in order of name; the file's stem is the operator. They are shipped
/// tables, which yield to any other.
pub fn isp_dir(path: &Path) -> Result<Vec<IspSource>, TableProblem> {
    let failed = |error: std::io::Error| {
        let help = "name a folder with one file per operator, like chinatelecom.txt";
        problem(path, None, None, Fault::new(format!("cannot be read: {error}"), help))
    };
    let mut sources = Vec::new();
    for found in std::fs::read_dir(path).map_err(failed)? {
        let file = found.map_err(failed)?.path();
        let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        if file.extension().is_some_and(|extension| extension == "txt") && !stem.is_empty() {
            let name = stem.to_owned();
            sources.push(IspSource {
                name,
                files: vec![file],
                layer: Layer::Shipped,
                ..IspSource::default()
            });
        }
    }
    sources.sort_by(|a, b| a.name.cmp(&b.name));
    if sources.is_empty() {
        let help = "put one file per operator into it, like chinatelecom.txt";
        return Err(problem(path, None, None, Fault::new("the folder has no *.txt file", help)));
    }
    Ok(sources)
}

/// Reads all sources. Any problem refuses the whole, so that a running table stays in force (R11, R13).
pub fn load_isp(
    sources: &[IspSource],
    asn: Option<&Mmdb>,
    previous: Option<&IspTables>,
) -> Result<IspTables, Vec<TableProblem>> {
    let mut gather = Gather::default();
    let mut problems = Vec::new();
    let mut databases = Databases::default();
    for source in sources {
        if !source.name.is_empty() {
            gather.item(&source.name);
        }
        problems.extend(read_inline(source, &mut gather).err().into_iter().flatten());
        for file in &source.files {
            let read = if file.extension().is_some_and(|extension| extension == "mmdb") {
                databases
                    .open(file)
                    .and_then(|mmdb| read_mmdb(mmdb, source, &mut gather))
                    .map_err(|problem| vec![problem])
            } else {
                read_text_file(file, source, &mut gather)
            };
            problems.extend(read.err().into_iter().flatten());
        }
        if source.files.is_empty() && !source.asns.is_empty() {
            problems.extend(read_asn(asn, source, &mut gather).err());
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let (operators, entries, files) = gather.finish();
    let problems = guard(sources, &files, previous);
    if problems.is_empty() { Ok(IspTables::settle(operators, entries, files)) } else { Err(problems) }
}

/// Reads one text table from memory, as a file of `source` would be read: for tools and tests.
pub fn isp_from_text(data: &[u8], source: &IspSource, file: &Path) -> Result<IspTables, Vec<TableProblem>> {
    let mut gather = Gather::default();
    gather.begin_file(file.to_owned(), source, None);
    read_text(data, source, file, &mut gather)?;
    let (operators, entries, files) = gather.finish();
    Ok(IspTables::settle(operators, entries, files))
}

/// Prefixes in the config itself.
fn read_inline(source: &IspSource, gather: &mut Gather) -> Result<(), Vec<TableProblem>> {
    if source.prefixes.is_empty() && source.exclude.is_empty() {
        return Ok(());
    }
    let file = PathBuf::from(format!("[[isp]] {}", source.name));
    gather.begin_file(file.clone(), source, None);
    let item = gather.item(&source.name);
    let mut problems = Vec::new();
    let written = source.prefixes.iter().map(|text| (text, false));
    for (number, (text, exclude)) in (1..).zip(written.chain(source.exclude.iter().map(|text| (text, true))))
    {
        let fault = match parse(text.trim()) {
            Err(fault) => fault,
            // what is written by hand has no excuse (R4)
            Ok(parsed) if parsed.masked => {
                let help = "write the network address, or a longer length";
                Fault::new(format!("`{text}` has host bits set behind its length"), help)
            }
            Ok(parsed) if parsed.span.is_everything() && !exclude && !source.allow_default => Fault::new(
                "the default route would give every client to one operator",
                "drop it, or set allow_default",
            ),
            Ok(parsed) => match gather.add(parsed.span, exclude, item, number) {
                Ok(()) => continue,
                Err(help) => Fault::new("too many entries", help),
            },
        };
        problems.push(problem(&file, Some(number), None, fault));
    }
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

fn read_text_file(file: &Path, source: &IspSource, gather: &mut Gather) -> Result<(), Vec<TableProblem>> {
    let data = read_file(file, MAX_FILE_BYTES).map_err(|problem| vec![problem])?;
    let given = source.sha256.as_deref().filter(|_| source.files.len() == 1);
    check_sum(file, &data, given).map_err(|problem| vec![problem])?;
    gather.begin_file(file.to_owned(), source, modified_unix_s(file));
    read_text(&data, source, file, gather)
}

fn modified_unix_s(file: &Path) -> Option<u64> {
    let modified = std::fs::metadata(file).and_then(|metadata| metadata.modified()).ok()?;
    modified.duration_since(std::time::UNIX_EPOCH).ok().map(|since| since.as_secs())
}

/// Database files that several sources name are read once.
#[derive(Default)]
struct Databases(HashMap<PathBuf, Mmdb>);

impl Databases {
    fn open(&mut self, file: &Path) -> Result<&Mmdb, TableProblem> {
        if !self.0.contains_key(file) {
            self.0.insert(file.to_owned(), Mmdb::open(file)?);
        }
        let lost = || problem(file, None, None, Fault::new("cannot be read", "try again"));
        self.0.get(file).ok_or_else(lost)
    }
}

/// Format D without a file of its own: the AS numbers are looked up in the config's ASN file.
fn read_asn(asn: Option<&Mmdb>, source: &IspSource, gather: &mut Gather) -> Result<(), TableProblem> {
    let Some(mmdb) = asn else {
        let file = PathBuf::from(format!("[[isp]] {}", source.name));
        let fault = Fault::new(
            "asns are given, but no file to look them up in",
            "set asn = \"FILE.mmdb\" in [tables], or give files",
        );
        return Err(problem(&file, None, None, fault));
    };
    read_mmdb(mmdb, source, gather)
}

/// Format D: networks whose value at the source's key is one of its AS numbers or names.
fn read_mmdb(mmdb: &Mmdb, source: &IspSource, gather: &mut Gather) -> Result<(), TableProblem> {
    gather.begin_file(mmdb.path().to_owned(), source, Some(mmdb.built_unix_s()));
    let item = gather.item(&source.name);
    let path: Vec<&str> = source.key.split('.').collect();
    let names: &[String] =
        if source.names.is_empty() { std::slice::from_ref(&source.name) } else { &source.names };
    let ours = |record: &Value| {
        let value = record.at(&path);
        let number = value.and_then(Value::whole).is_some_and(|number| source.asns.contains(&number));
        let text = value.and_then(Value::text).is_some_and(|text| names.iter().any(|name| same(name, text)));
        u32::from(number || text)
    };
    let mut full = None;
    mmdb.networks(ours, |span: Span, _| {
        if full.is_none() {
            full = gather.add(span, false, item, 0).err();
        }
    })?;
    match full {
        Some(help) => Err(problem(mmdb.path(), None, None, Fault::new("too many entries", help))),
        None if gather.entries_of_file() == 0 => {
            let message = format!("no network has {} = one of the values of {}", source.key, source.name);
            Err(problem(mmdb.path(), None, None, Fault::new(message, "check asns, names and key")))
        }
        None => Ok(()),
    }
}

/// Whether a source reads a file; without files of its own it reads the shared database.
fn reads(source: &IspSource, file: &Path) -> bool {
    source.files.iter().any(|known| known == file)
        || (source.files.is_empty() && file.extension() == Some("mmdb".as_ref()))
}

/// Refuses files that are empty, or much smaller than those of the running table (R12).
fn guard(sources: &[IspSource], files: &[FileStats], previous: Option<&IspTables>) -> Vec<TableProblem> {
    let mut problems = Vec::new();
    let mut refuse = |stats: &FileStats, message: String, help: &str| {
        problems.push(problem(&stats.file, None, None, Fault::new(message, help)));
    };
    for stats in files {
        // what is written in the config itself may shrink: somebody just did that
        let mine = |source: &&IspSource| source.name == stats.source && reads(source, &stats.file);
        let max_shrink =
            sources.iter().find(mine).map_or(100, |source| usize::from(source.max_shrink_percent.min(100)));
        let same = |running: &&FileStats| (&running.file, &running.source) == (&stats.file, &stats.source);
        let before = previous.and_then(|tables| tables.files.iter().find(same));
        if stats.entries == 0 {
            refuse(stats, "the table is empty".into(), "drop the file from the config if that is so");
        } else if let Some(before) =
            before.filter(|before| stats.entries * 100 < before.entries * (100 - max_shrink))
        {
            let message = format!("only {} entries, the running table has {}", stats.entries, before.entries);
            refuse(stats, message, "fetch the file again, or raise max_shrink_percent");
        }
    }
    problems
}
