//! ISP tables: which operators an address belongs to (R1-R20).

use std::fmt::Write;
use std::net::IpAddr;
use std::path::PathBuf;

use portolan_balance::nets::{Entries, Line, Run, Runs, overlay};
use sha2::{Digest, Sha256};

use super::TableProblem;
use super::prefix::Fault;
use super::text::problem;

const DAY_S: u64 = 86_400;
/// When a table counts as old, if the config does not say (R20).
pub const STALE_AFTER_S: u64 = 45 * DAY_S;

/// Who a table comes from; a stronger layer wins before length (R9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// Written by the operator of this node.
    User = 0,
    /// Fetched from a data source.
    Imported = 1,
    /// Comes with the product.
    Shipped = 2,
}

/// Index into [`IspTables::operators`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperatorId(pub u32);

/// One `[[isp]]` of the config, or one file of an ISP folder.
#[derive(Clone, Debug, PartialEq)]
pub struct IspSource {
    /// The operator that lines without an operator of their own belong to.
    pub name: String,
    /// Text, CSV or (`*.mmdb`) database files.
    pub files: Vec<PathBuf>,
    /// AS numbers of the operator, looked up in CSV files with AS numbers, `*.mmdb` files, or else the shared ASN file.
    pub asns: Vec<u32>,
    /// Other values of the `key` that mean this operator, compared without case.
    pub names: Vec<String>,
    /// Path of the value in `*.mmdb` files, by dots.
    pub key: String,
    /// Prefixes written in the config itself.
    pub prefixes: Vec<String>,
    /// Prefixes that are not this operator's, as if `!prefix` stood in the file (R9).
    pub exclude: Vec<String>,
    /// Who this table comes from.
    pub layer: Layer,
    /// SHA-256 of the file in hex, when there is exactly one; else `<file>.sha256` is used where it exists (R14).
    pub sha256: Option<String>,
    /// Invalid lines to tolerate in a file (R11).
    pub max_bad_lines: usize,
    /// Host bits set in a prefix are an error, not a warning (R4).
    pub strict: bool,
    /// Accept 0.0.0.0/0 and ::/0 (R10).
    pub allow_default: bool,
    /// Refuse a table that has shrunk by more than this against the running one (R12).
    pub max_shrink_percent: u8,
}

impl Default for IspSource {
    fn default() -> Self {
        Self {
            name: String::new(),
            files: Vec::new(),
            asns: Vec::new(),
            names: Vec::new(),
            key: "autonomous_system_number".into(),
            prefixes: Vec::new(),
            exclude: Vec::new(),
            layer: Layer::User,
            sha256: None,
            max_bad_lines: 0,
            strict: false,
            allow_default: false,
            max_shrink_percent: 30,
        }
    }
}

/// What reading one file found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileStats {
    /// The file.
    pub file: PathBuf,
    /// The source it was read for: several may share a database file.
    pub source: String,
    /// Entries it gave, duplicates not counted.
    pub entries: usize,
    /// Lines said again (R6).
    pub duplicates: usize,
    /// Prefixes whose host bits were cut off (R4).
    pub masked: usize,
    /// Invalid lines passed over (R11).
    pub bad_lines: usize,
    /// When the file was last changed or, a database file, made; in seconds since 1970.
    pub modified_unix_s: Option<u64>,
}

impl FileStats {
    /// How old the file is.
    pub fn age_days(&self, now_unix_s: u64) -> Option<u64> {
        self.modified_unix_s.map(|modified| now_unix_s.saturating_sub(modified) / DAY_S)
    }
}

/// Where an answer of the table comes from (R18).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The layer that won.
    pub layer: Layer,
    /// The file of the line.
    pub file: PathBuf,
    /// The line, from 1; the place in the list for prefixes in the config; 0 in a database file.
    pub line: usize,
    /// The operator of the line; `None` when it excludes every operator.
    pub operator: Option<OperatorId>,
    /// A `!` line: it took the operator away from a weaker line.
    pub exclude: bool,
}

/// All ISP tables of a config.
#[derive(Clone, Debug, Default)]
pub struct IspTables {
    /// Names, sorted: those of the sources and those that stand in files.
    pub operators: Vec<String>,
    /// Operator sets; the first is empty (R7).
    pub sets: Vec<Vec<OperatorId>>,
    /// Which set holds where; values index `sets`.
    pub runs: Runs,
    /// SHA-256 over the canonical form, in hex (R14).
    pub id: String,
    /// What each file gave.
    pub files: Vec<FileStats>,
    /// All lines, for `explain` only.
    entries: Entries,
}

impl IspTables {
    /// Settles precedence among all lines.
    pub(super) fn settle(operators: Vec<String>, mut entries: Entries, files: Vec<FileStats>) -> Self {
        let table = overlay(&mut entries);
        let sets = table.sets.into_iter().map(|set| set.into_iter().map(OperatorId).collect()).collect();
        let mut tables = Self { operators, sets, runs: table.runs, id: String::new(), files, entries };
        tables.id = id(&tables);
        tables
    }

    /// An operator by name.
    pub fn operator(&self, name: &str) -> Option<OperatorId> {
        self.operators
            .binary_search_by(|known| known.as_str().cmp(name))
            .ok()
            .map(|place| OperatorId(place as u32))
    }

    /// The lines that decide an address, and the `!` lines that took stronger ones away (R18). Looks at every line.
    pub fn explain(&self, addr: IpAddr) -> Vec<Origin> {
        let origin = |line: Line| Origin {
            layer: match line.layer {
                0 => Layer::User,
                1 => Layer::Imported,
                _ => Layer::Shipped,
            },
            file: self.files.get(line.source as usize).map(|stats| stats.file.clone()).unwrap_or_default(),
            line: line.number as usize,
            operator: self.operators.get(line.item as usize).map(|_| OperatorId(line.item)),
            exclude: line.exclude,
        };
        self.entries.explain(addr).into_iter().map(origin).collect()
    }

    /// What is not wrong but worth knowing: host bits cut off (R4), lines passed over (R11), old files (R20).
    pub fn warnings(&self, now_unix_s: u64, stale_after_s: u64) -> Vec<TableProblem> {
        let mut warnings = Vec::new();
        for stats in &self.files {
            let mut warn = |message: String, help: &str| {
                warnings.push(problem(&stats.file, None, None, Fault::new(message, help)))
            };
            if stats.masked > 0 {
                let had = if stats.masked == 1 {
                    "1 prefix had".into()
                } else {
                    format!("{} prefixes had", stats.masked)
                };
                let message = format!("{had} host bits set, which were cut off");
                warn(message, "write network addresses, or set strict to refuse such lines");
            }
            if stats.bad_lines > 0 {
                warn(
                    format!("{} invalid lines were passed over", stats.bad_lines),
                    "correct them, or drop max_bad_lines",
                );
            }
        }
        // R20; a folder of tables ages as one, so it is told once
        let stale = self.files.iter().filter_map(|stats| {
            let days = stats.age_days(now_unix_s).filter(|&days| days * DAY_S > stale_after_s)?;
            Some((days, &stats.file))
        });
        let count = stale.clone().count();
        if let Some((days, file)) = stale.max_by_key(|(days, _)| *days) {
            let message = match count - 1 {
                0 => format!("the table is {days} days old"),
                others => format!("the table is {days} days old, and {others} others are stale, too"),
            };
            let help = "fetch newer ones (isp-tables/update.py), or raise [tables] stale_after";
            warnings.push(problem(file, None, None, Fault::new(message, help)));
        }
        warnings
    }
}

/// SHA-256 over lines `first-last operator,operator`, sorted by address, IPv4 first (R14): equal for tables that answer
/// equally, however their files are laid out.
fn id(tables: &IspTables) -> String {
    let name = |operator: &OperatorId| tables.operators.get(operator.0 as usize).map_or("", String::as_str);
    let names: Vec<String> =
        tables.sets.iter().map(|set| set.iter().map(name).collect::<Vec<_>>().join(",")).collect();
    let mut sum = Sha256::new();
    hash_runs(&mut sum, &tables.runs.v4, &names, |addr| std::net::Ipv4Addr::from(addr).into());
    hash_runs(&mut sum, &tables.runs.v6, &names, |addr| std::net::Ipv6Addr::from(addr).into());
    format!("{:x}", sum.finalize())
}

fn hash_runs<A: Copy>(sum: &mut Sha256, runs: &[Run<A>], names: &[String], addr: impl Fn(A) -> IpAddr) {
    let mut line = String::new();
    for run in runs {
        line.clear();
        let names = names.get(run.value as usize).map_or("", String::as_str);
        // writing to a string does not fail
        let _ = writeln!(line, "{}-{} {names}", addr(run.first), addr(run.last));
        sum.update(&line);
    }
}
