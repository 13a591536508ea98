//! The built program, and its commands.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Output};

/// The program that `cargo build` has put beside these tests.
///
/// # Panics
/// When it is not there.
#[must_use]
pub fn portolan() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    // target/PROFILE/deps/TEST
    let path = test.parent().and_then(|deps| deps.parent()).unwrap().join("portolan");
    assert!(
        path.exists(),
        "{} is missing: run `cargo build --bin portolan` first, as `make test` does",
        path.display()
    );
    path
}

/// Whether a program can be found; says so when not, for a test that then has nothing to do.
#[must_use]
pub fn have(program: &str) -> bool {
    let found = std::env::var_os("PATH")
        .map(|path| std::env::split_paths(&path).collect::<Vec<_>>())
        .unwrap_or_default()
        .into_iter()
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .any(|folder: PathBuf| folder.join(program).exists());
    if !found {
        eprintln!("skipped: `{program}` is not installed; scripts/setup.sh test installs it");
    }
    found
}

/// What a command has said.
#[derive(Debug, Clone)]
pub struct Said {
    /// The command line.
    pub command: String,
    /// Exit code; 256 for a signal.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Said {
    /// Runs a command to its end.
    #[must_use]
    pub fn by(command: &mut Command) -> Self {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let line = words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ");
        let Output { status, stdout, stderr } =
            command.output().unwrap_or_else(|error| panic!("`{line}` cannot be run: {error}"));
        Self {
            command: line,
            code: status.code().unwrap_or(256),
            stdout: String::from_utf8_lossy(&stdout).into_owned(),
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
        }
    }

    /// Panics unless the exit code is this.
    #[must_use]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "`{}`\n{}{}", self.command, self.stdout, self.stderr);
        self
    }

    /// Standard output as JSON.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| {
            panic!("`{}` printed no JSON: {error}\n{}{}", self.command, self.stdout, self.stderr)
        })
    }

    /// Everything it wrote.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}
