//! Processes that end with the test, whatever happens to it.
#![allow(unsafe_code)] // signals to a process group, and the child's last steps before exec

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::wait::wait_for;

/// A running process whose output goes to a file. Killed with its process group when dropped; if the test is failing,
/// the end of its output is shown.
pub struct Child {
    name: String,
    process: std::process::Child,
    log: PathBuf,
    ended: Option<ExitStatus>,
}

impl Child {
    /// Starts `command`; its output is appended to `log`.
    #[must_use]
    pub fn start(mut command: Command, log: &Path) -> Self {
        let name = command.get_program().to_string_lossy().into_owned();
        let output = File::options().create(true).append(true).open(log).unwrap();
        command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output).process_group(0);
        // SAFETY: between fork and exec only an async-signal-safe system call is made.
        unsafe {
            command.pre_exec(|| {
                // a test that is killed leaves nothing behind
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let process = command.spawn().unwrap_or_else(|error| panic!("{name} cannot be started: {error}"));
        Self { name, process, log: log.to_owned(), ended: None }
    }

    /// Process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// All output so far.
    #[must_use]
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Its exit, when it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.process.try_wait().unwrap();
        }
        self.ended
    }

    /// Sends a signal to the process alone.
    pub fn signal(&self, signal: i32) {
        self.send(i32::try_from(self.process.id()).unwrap(), signal).unwrap();
    }

    /// Waits for its end.
    pub fn wait(&mut self, limit: Duration) -> ExitStatus {
        let what = format!("the end of {}", self.name);
        wait_for(limit, &what, || self.ended().ok_or_else(|| "still running".to_owned()))
    }

    /// Ends it at once, as a power cut would.
    pub fn kill(&mut self) {
        if self.ended().is_none() {
            let _ = self.send(-i32::try_from(self.process.id()).unwrap(), libc::SIGKILL);
            self.ended = self.process.wait().ok();
        }
    }

    fn send(&self, to: i32, signal: i32) -> io::Result<()> {
        // SAFETY: kill has no preconditions; the process is a child not yet waited for, so the id is still its own.
        match unsafe { libc::kill(to, signal) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let output = self.output();
            let lines: Vec<_> = output.lines().collect();
            let from = lines.len().saturating_sub(60);
            eprintln!(
                "--- {} said (last of {} lines):\n{}\n---",
                self.name,
                lines.len(),
                lines[from..].join("\n")
            );
        }
    }
}
