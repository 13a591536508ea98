//! Children on one core, ended with everything they started.
#![allow(unsafe_code)] // affinity and the child's last steps before exec

use std::fs::File;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Result;

/// Puts the calling thread on one core.
///
/// # Errors
/// When the core does not exist or is not ours.
pub fn pin(core: usize) -> io::Result<()> {
    // SAFETY: a zeroed cpu_set_t is the empty set; CPU_SET checks nothing but 1,024 bits are far above any core here.
    let result = unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        libc::CPU_SET(core.min(1023), &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The cores this process may use.
///
/// # Errors
/// When the kernel does not say.
pub fn cores() -> io::Result<Vec<usize>> {
    // SAFETY: the set is ours and as large as we say.
    unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((0..1024).filter(|&core| libc::CPU_ISSET(core, &set)).collect())
    }
}

/// A running child with its log; ended, with its process group, when dropped.
pub struct Pinned {
    child: Child,
    log: PathBuf,
}

impl Pinned {
    /// Starts `command` on `core`, its output going to `log`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(mut command: Command, core: usize, log: &Path) -> Result<Self> {
        let output = File::create(log)?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).process_group(0);
        // SAFETY: between fork and exec only async-signal-safe system calls are made.
        unsafe {
            command.pre_exec(move || {
                // a bench that is killed leaves no servers behind
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
                pin(core)
            });
        }
        let child =
            command.spawn().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
        Ok(Self { child, log: log.to_owned() })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// The last lines it wrote.
    pub fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }

    fn signal_group(&self, signal: libc::c_int) {
        // SAFETY: plain system call; the group is the child's own, made by process_group(0), and it is not reaped yet.
        unsafe {
            libc::kill(-(self.child.id() as libc::pid_t), signal);
        }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if self.has_ended() {
            return;
        }
        self.signal_group(libc::SIGTERM);
        let deadline = Instant::now() + Duration::from_secs(3);
        while !self.has_ended() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        if !self.has_ended() {
            self.signal_group(libc::SIGKILL);
            let _ = self.child.wait();
        }
    }
}
