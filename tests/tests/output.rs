//! What commands do when their output cannot be written, or is read no more.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use portolan_tests::node::Node;
use portolan_tests::place;
use portolan_tests::program::portolan;
use portolan_tests::setup::Setup;
use portolan_tests::wait::{SOON, wait_until};

const ALONE: &str = "version = 1

[node]
name = \"n1\"
site = \"here\"

[dns]
listen = [\"@dns@\"]
zones = [\"@common@/choose.zone\"]

[api]
listen = \"./api.sock\"

[peers]
listen = \"@peers@\"
identity = \"pki/n1\"

[[site]]
name = \"here\"

[[service]]
name = \"www.choose.test.\"
members = [{ site = \"here\", address = \"192.0.2.1\" }]
";

fn start() -> Node {
    let mut setup = Setup::config(ALONE);
    setup.set("peers", place::own_socket());
    let _ = setup.cli(&["pki", "init", "pki"]).expect(0);
    let _ = setup.cli(&["pki", "issue", "pki", "n1"]).expect(0);
    setup.start()
}

/// Commands that succeed and print something: those that ask the node, and those that need none.
const COMMANDS: &[&[&str]] = &[
    &["status"],
    &["services", "--json"],
    &["checks"],
    &["peers"],
    &["proximity", "export"],
    &["explain", "www.choose.test", "--from", "192.0.2.9"],
    &["explain", "www.choose.test", "--from", "192.0.2.9", "-c", "portolan.toml"],
    &["check", "-c", "portolan.toml"],
    &["pki", "pin", "pki", "n1"],
    &["pki", "issue", "pki", "n1", "--renew"],
    &["peers", "dump", "one.trace"],
    &["schema"],
    &["completions", "bash"],
    &["sim", "generate"],
    &["version"],
    &["--help"],
    &["run", "--help"],
    &["--version"],
];

fn said(node: &Node, args: &[&str], out: impl Into<Stdio>) -> (i32, String) {
    let mut command = Command::new(portolan());
    let command = command.args(args).current_dir(node.path("")).env("PORTOLAN_SOCKET", "api.sock");
    let said = command.stdin(Stdio::null()).stdout(out).output().unwrap();
    (said.status.code().unwrap_or(256), String::from_utf8_lossy(&said.stderr).into_owned())
}

/// A trace of one frame, whose type nobody knows.
fn write_trace(path: &Path) {
    let mut record = 1_796_083_200_042_u64.to_be_bytes().to_vec();
    record.push(0);
    record.extend(7_u64.to_be_bytes());
    record.extend(b"\x04fra1\0\0\0\0\xc8\0\0\0");
    let mut trace = b"portolan-trace\n\x01".to_vec();
    trace.extend((record.len() as u32).to_be_bytes());
    trace.extend(record);
    std::fs::write(path, trace).unwrap();
}

#[test]
fn a_cut_output_does_not_count_as_done() {
    let node = start();
    write_trace(&node.path("one.trace"));
    for args in COMMANDS {
        assert_eq!(said(&node, args, Stdio::null()).0, 0, "{args:?}");
        let full = File::options().write(true).open("/dev/full").unwrap();
        let (code, text) = said(&node, args, full);
        let told = text.lines().filter(|line| line.starts_with("error: cannot write: ")).count();
        assert_eq!((code, told), (1, 1), "{args:?}: {text}");
    }
}

#[test]
fn a_reader_that_went_away_is_no_error() {
    let node = start();
    write_trace(&node.path("one.trace"));
    for args in COMMANDS {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (code, text) = said(&node, args, writer);
        assert!(code == 0 && !text.contains("error"), "{args:?}: {code} {text}");
    }
}

/// Nothing is ever written here: a node without peers has no frames.
#[test]
fn a_live_dump_ends_with_its_reader() {
    let node = start();
    let (reader, writer) = std::io::pipe().unwrap();
    let log = node.path("dump.log");
    let mut command = Command::new("sh");
    command.args(["-c", "echo begun; exec \"$0\" peers dump"]).arg(portolan());
    command.current_dir(node.path("")).env("PORTOLAN_SOCKET", "api.sock");
    command.stdout(writer).stderr(File::create(&log).unwrap());
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut lines = BufReader::new(reader);
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert_eq!(line, "begun\n");
    assert!(child.try_wait().unwrap().is_none(), "it lasts while it is read");
    drop(lines);
    wait_until(SOON, "the end of the dump", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(0), "{}", std::fs::read_to_string(log).unwrap());
}
