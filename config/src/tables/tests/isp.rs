//! Whole sources: files, layers, checksums, guards, explain (R9, R11-R14, R18, R20, cases 19, 21, 23).

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::*;

/// Files in a folder of their own.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

fn source(name: &str, file: PathBuf) -> IspSource {
    IspSource { name: name.into(), files: vec![file], layer: Layer::Shipped, ..IspSource::default() }
}

fn first_problem(loaded: Result<IspTables, Vec<TableProblem>>) -> String {
    loaded.expect_err("must be refused")[0].to_string()
}

/// Case 19: the order of files does not matter.
#[test]
fn one_prefix_in_two_files_is_a_set() {
    let folder = folder(&[
        ("chinanet.txt", "1.119.192.0/21\n"),
        ("unicom.txt", "1.119.192.0/21\n1.0.0.0/8\n"),
        ("x.md", "no"),
    ]);
    let mut sources = isp_dir(folder.path()).unwrap();
    assert_eq!(sources.iter().map(|source| source.name.as_str()).collect::<Vec<_>>(), ["chinanet", "unicom"]);
    let tables = load_isp(&sources, None, None).unwrap();
    assert_eq!(operators(&tables, "1.119.192.1"), ["chinanet", "unicom"]);
    assert_eq!(operators(&tables, "1.0.0.1"), ["unicom"]);
    sources.reverse();
    assert_eq!(load_isp(&sources, None, None).unwrap().id, tables.id);
    assert_eq!(tables.operator("unicom"), Some(OperatorId(1)));
    assert_eq!(tables.operator("cernet"), None);
}

/// Case 21 and R18: the user's exclude wins over the shipped table, and `explain` shows both.
#[test]
fn layers_and_explain() {
    let folder = folder(&[
        ("cn.txt", "# shipped\n223.122.0.0/16\n223.122.176.0/21\n"),
        ("hk.csv", "223.122.176.0/22,hk\n"),
    ]);
    let cn = folder.path().join("cn.txt");
    let hk = folder.path().join("hk.csv");
    let sources = [
        source("cn", cn.clone()),
        IspSource { layer: Layer::Imported, ..source("x", hk.clone()) },
        IspSource {
            name: "cn".into(),
            exclude: vec!["223.122.176.0/21".into()],
            prefixes: vec!["192.0.2.0/24".into()],
            ..IspSource::default()
        },
    ];
    let tables = load_isp(&sources, None, None).unwrap();
    let config = PathBuf::from("[[isp]] cn");
    let origin = |layer, file: &Path, line, operator: &str, exclude| Origin {
        layer,
        file: file.to_owned(),
        line,
        operator: tables.operator(operator),
        exclude,
    };
    let cases: [(&str, &[&str], Vec<Origin>); 5] = [
        ("223.122.0.1", &["cn"], vec![origin(Layer::Shipped, &cn, 2, "cn", false)]),
        (
            "223.122.176.1",
            &["hk"],
            vec![origin(Layer::User, &config, 2, "cn", true), origin(Layer::Imported, &hk, 1, "hk", false)],
        ),
        ("223.122.180.1", &[], vec![origin(Layer::User, &config, 2, "cn", true)]),
        ("192.0.2.1", &["cn"], vec![origin(Layer::User, &config, 1, "cn", false)]),
        ("10.0.0.1", &[], vec![]),
    ];
    for (addr, set, origins) in cases {
        assert_eq!(operators(&tables, addr), set, "{addr}");
        assert_eq!(tables.explain(addr.parse().unwrap()), origins, "{addr}");
    }
}

#[test]
fn prefixes_in_the_config_are_checked() {
    for (prefix, part) in
        [("1.0.0.1/24", "host bits"), ("x", "not an address"), ("0.0.0.0/0", "allow_default")]
    {
        let source = IspSource {
            name: "a".into(),
            prefixes: vec!["1.0.0.0/8".into(), prefix.into()],
            ..IspSource::default()
        };
        let told = first_problem(load_isp(&[source], None, None));
        assert!(told.starts_with("[[isp]] a:2:") && told.contains(part), "{told}");
    }
}

/// R12: nothing, or much less than before, is a failed download.
#[test]
fn shrunk_tables_are_refused() {
    let lines = |count: usize| (0..count).map(|at| format!("10.{at}.0.0/16\n")).collect::<String>();
    let folder = folder(&[("a.txt", &lines(10))]);
    let file = folder.path().join("a.txt");
    let mut sources = [source("a", file.clone())];
    let running = load_isp(&sources, None, None).unwrap();
    for (count, max_shrink_percent, accepted) in [
        (7, 30, true),
        (6, 30, false),
        (6, 40, true),
        (1, 100, true),
        (0, 100, false),
        (0, 30, false),
        (20, 0, true),
        (9, 0, false),
    ] {
        std::fs::write(&file, lines(count)).unwrap();
        sources[0].max_shrink_percent = max_shrink_percent;
        let loaded = load_isp(&sources, None, Some(&running));
        assert_eq!(loaded.is_ok(), accepted, "{count} entries, {max_shrink_percent} %: {loaded:?}");
    }
    std::fs::write(&file, "# nothing\n").unwrap();
    let told = first_problem(load_isp(&sources, None, None));
    assert!(told.contains("the table is empty"), "{told}");
}

/// R14.
#[test]
fn checksums() {
    let content = "1.0.0.0/24\n";
    let sum = format!("{:X}", Sha256::digest(content));
    let folder = folder(&[("a.txt", content)]);
    let file = folder.path().join("a.txt");
    let beside = folder.path().join("a.txt.sha256");
    let load = |sum: Option<&str>| {
        load_isp(&[IspSource { sha256: sum.map(str::to_owned), ..source("a", file.clone()) }], None, None)
    };
    assert!(load(Some(&sum)).is_ok());
    assert!(first_problem(load(Some(&"0".repeat(64)))).contains("the content has SHA-256"));
    assert!(first_problem(load(Some("abc"))).contains("64 hex digits"));
    std::fs::write(&beside, format!("{}  a.txt\n", sum.to_lowercase())).unwrap();
    assert!(load(None).is_ok());
    std::fs::write(&beside, format!("{}  a.txt\n", "1".repeat(64))).unwrap();
    assert!(first_problem(load(None)).contains("a.txt.sha256 says 1111"));
    // the config's own word goes before the file beside
    assert!(load(Some(&sum)).is_ok());
}

/// Every bad file is told, not the first one only, and nothing is loaded (R11).
#[test]
fn all_problems_at_once() {
    let folder = folder(&[("a.txt", "x\n"), ("b.txt", "1.0.0.0/24\ny\n"), ("c.txt", "1.0.0.0/24\n")]);
    let mut sources = isp_dir(folder.path()).unwrap();
    sources.push(source("d", folder.path().join("missing.txt")));
    sources.push(IspSource { name: "e".into(), asns: vec![4134], ..IspSource::default() });
    let problems = load_isp(&sources, None, None).expect_err("three bad files and asns without a database");
    let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 4, "{told:?}");
    for (told, part) in told.iter().zip([
        "a.txt:1:1: `x`",
        "b.txt:2:1: `y`",
        "missing.txt: cannot be read",
        "[[isp]] e: asns",
    ]) {
        assert!(told.contains(part), "{told}");
    }
}

#[test]
fn folders_without_tables() {
    let empty = folder(&[("a.csv", "")]);
    assert!(isp_dir(empty.path()).expect_err("no txt").message.contains("no *.txt"));
    assert!(isp_dir(&empty.path().join("none")).expect_err("no folder").message.contains("cannot be read"));
}

/// R20, R4.
#[test]
fn warnings() {
    let folder = folder(&[("a.txt", "1.0.0.1/24\n")]);
    let tables = load_isp(&isp_dir(folder.path()).unwrap(), None, None).unwrap();
    let modified = tables.files[0].modified_unix_s.unwrap();
    let day = 86_400;
    for (days, count) in [(0, 1), (45, 1), (46, 2)] {
        let warnings = tables.warnings(modified + days * day, STALE_AFTER_S);
        assert_eq!(warnings.len(), count, "{days}: {warnings:?}");
    }
    assert_eq!(tables.files[0].age_days(modified + 46 * day), Some(46));
    assert!(tables.warnings(modified + 46 * day, STALE_AFTER_S)[1].message.contains("46 days old"));
}
