//! A small world of files for config tests.
#![allow(dead_code, clippy::unwrap_used, reason = "each test file uses its part, and a test may panic")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use portolan_config::{Compiled, Problems, load_with};

/// A zone in which services can lie.
pub(crate) const ZONE: &str = "\
$ORIGIN example.com.
$TTL 3600
@ SOA ns.example.com. hostmaster.example.com. 1 7200 900 1209600 300
@ NS ns
ns A 192.0.2.53
alias CNAME ns
text TXT \"words\"
sub NS ns.sub
ns.sub A 192.0.2.54
";

/// What nearly every config begins with.
pub(crate) const HEAD: &str = r#"version = 1
[node]
name = "n1"
site = "a"
[dns]
listen = ["127.0.0.1:53"]
zones = ["example.com.zone"]
[[site]]
name = "a"
location = { lat = 39.9, lon = 116.4 }
links = [{ name = "x" }, { name = "y", capacity = "1Gbps" }]
[[site]]
name = "b"
location = { lat = 50.1, lon = 8.7 }
"#;

/// Files in memory, the config being `main.toml`.
pub(crate) fn files(main: &str, more: &[(&str, &str)]) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
    files.insert("/etc/portolan/main.toml".into(), main.into());
    files.insert("/etc/portolan/example.com.zone".into(), ZONE.into());
    for (path, text) in more {
        files.insert(Path::new("/etc/portolan").join(path), text.as_bytes().to_vec());
    }
    files
}

/// Loads `main.toml` with more files.
pub(crate) fn load(main: &str, more: &[(&str, &str)]) -> Result<Compiled, Problems> {
    load_with(&files(main, more), Path::new("/etc/portolan/main.toml"), None)
}

/// Loads what must be good, without warnings.
pub(crate) fn good(main: &str) -> Compiled {
    let compiled = load(main, &[]).unwrap_or_else(|problems| panic!("{}", problems.render(false)));
    assert!(compiled.warnings.is_empty(), "{}", compiled.warnings.render(false));
    compiled
}

/// Text, then for each problem the marked text it points at, and parts of its line in output.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) text: String,
    /// `error[code]`, the text the caret stands under, a part of the message, a part of the remedy.
    pub(crate) wants: Vec<(&'static str, &'static str, &'static str, &'static str)>,
}

pub(crate) fn case(
    name: &'static str,
    text: String,
    wants: &[(&'static str, &'static str, &'static str, &'static str)],
) -> Case {
    Case { name, text, wants: wants.to_vec() }
}

/// Each text has these errors and no others, each with its place and remedy.
pub(crate) fn check_cases(cases: Vec<Case>) {
    let mut wrong = Vec::new();
    for Case { name, text, wants } in cases {
        let Err(problems) = load(&text, &[]) else {
            wrong.push(format!("{name}: loads"));
            continue;
        };
        let errors: Vec<_> =
            problems.iter().filter(|it| it.severity == portolan_config::Severity::Error).collect();
        let shown = problems.to_string();
        for (head, mark, message, help) in &wants {
            let found = errors.iter().any(|problem| {
                let (file, line, column) = problems.place(problem);
                let (Some(line), Some(column)) = (line, column) else { return false };
                let rest = text
                    .lines()
                    .nth(line as usize - 1)
                    .map(|it| it.chars().skip(column as usize - 1).collect::<String>() + "\n");
                file == "/etc/portolan/main.toml"
                    && *head == format!("error[{}]", problem.code)
                    && problem.message.contains(message)
                    && problem.help.as_deref().unwrap_or_default().contains(help)
                    && rest.is_some_and(|rest| rest.starts_with(mark))
            });
            if !found {
                wrong.push(format!("{name}: no {head} at {mark:?} with {message:?}, {help:?}\n{shown}"));
            }
        }
        if errors.len() != wants.len() && name != "syntax" {
            wrong.push(format!("{name}: {} errors, not {}\n{shown}", errors.len(), wants.len()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
