//! External commands: results, bounds, and nothing left running.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use common::{eventually, key_with, timing};
use portolan_probe::{
    CheckKey, CommandDef, Host, KindDef, Runner, RunnerSettings, Verdict, What, check_once,
};

fn command(argv: &[&str], timeout_ms: u64) -> CheckKey {
    let argv = argv.iter().map(|word| (*word).to_owned()).collect();
    let kind = KindDef::Command(CommandDef { argv, env: vec![("MINE".into(), "a b".into())] });
    key_with(kind, Host::Ip("192.0.2.1".parse().unwrap()), 8080, None, timing(1000, timeout_ms))
}

fn shell(script: &str) -> CheckKey {
    command(&["sh", "-c", script], 10_000)
}

#[tokio::test]
async fn results() {
    let good = |note: &str, load| Verdict::Good { note: note.into(), load };
    let bad = |detail: &str| Verdict::bad(What::Exit, detail);
    let table = [
        (command(&["true"], 5000), good("exit 0", None)),
        (command(&["false"], 5000), bad("exit 1: ")),
        (shell("echo fine load=0.42; echo more"), good("fine load=0.42", Some(0.42))),
        (shell("echo $PORTOLAN_TARGET $PORTOLAN_PORT $MINE $HOME"), good("192.0.2.1 8080 a b", None)),
        (shell("echo no route >&2; exit 3"), bad("exit 3: no route")),
        (shell("kill -TERM $$"), bad("killed by signal 15: ")),
        // No shell reads the arguments.
        (command(&["echo", "$HOME;", "*"], 5000), good("$HOME; *", None)),
        // Much output, on both, is read and dropped.
        (shell("echo first; yes | head -c 3000000; yes | head -c 3000000 >&2"), good("first", None)),
        // Input is empty, not ours.
        (shell("read line || echo end"), good("end", None)),
        // What it leaves running does not keep the check waiting.
        (shell("sleep 4 & echo done"), good("done", None)),
    ];
    for (key, want) in table {
        let started = Instant::now();
        assert_eq!(check_once(&key).await, want, "{key:?}");
        assert!(started.elapsed() < Duration::from_secs(3), "{key:?}: {:?}", started.elapsed());
    }
    let verdict = check_once(&command(&["/nonexistent/program"], 5000)).await;
    assert!(matches!(&verdict, Verdict::Bad(reason) if reason.what == What::Local), "{verdict:?}");
}

/// A script that starts a child in the background, writes both ids to a file, and waits for ever.
fn family(folder: &Path) -> (PathBuf, CheckKey) {
    let file = folder.join("ids");
    let script = format!("sleep 1000 & echo $$ $! > {0}.new; mv {0}.new {0}; wait", file.display());
    (file, command(&["sh", "-c", &script], 60_000))
}

fn all_gone(ids: &str) -> bool {
    // A killed process may stay as a zombie for a moment; it runs no more.
    let gone = |id: &str| match std::fs::read_to_string(format!("/proc/{id}/stat")) {
        Err(_) => true,
        Ok(stat) => stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')),
    };
    ids.split_whitespace().all(gone)
}

#[tokio::test]
async fn a_timeout_kills_the_whole_group() {
    let folder = tempfile::tempdir().unwrap();
    let (file, key) = family(folder.path());
    let KindDef::Command(def) = key.def().kind().clone() else { panic!() };
    let key = key_with(KindDef::Command(def), Host::Name("x".into()), 0, None, timing(1000, 500));
    let verdict = check_once(&key).await;
    assert!(matches!(&verdict, Verdict::Bad(reason) if reason.what == What::Timeout), "{verdict:?}");
    let ids = std::fs::read_to_string(file).unwrap();
    assert_eq!(ids.split_whitespace().count(), 2);
    eventually("both processes are gone", || all_gone(&ids)).await;
}

#[tokio::test]
async fn removal_kills_the_whole_group() {
    let folder = tempfile::tempdir().unwrap();
    let (file, key) = family(folder.path());
    let (runner, _events) = Runner::spawn(RunnerSettings::default());
    runner.apply([key]);
    eventually("the command runs", || file.exists()).await;
    let ids = std::fs::read_to_string(file).unwrap();
    assert!(!all_gone(&ids));
    assert_eq!(runner.apply([]).stopped, 1);
    eventually("both processes are gone", || all_gone(&ids)).await;
}
