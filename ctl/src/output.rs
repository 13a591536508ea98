//! Standard output, colours and exit codes.

use serde::Serialize;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Exit codes of every command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done, or the answer is yes.
    Good = 0,
    /// It failed, or the answer is no: a config with errors, an unknown target, a service without usable members.
    Bad = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// No node answers at the socket.
    Unreachable = 3,
}

impl Exit {
    /// The same, unless what was to be said could not be written.
    #[must_use]
    pub fn or_failed(self) -> Self {
        if self == Self::Good && HAS_FAILED.load(Ordering::Relaxed) { Self::Bad } else { self }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Colours, on a terminal only.
#[derive(Clone, Copy, Debug, Default)]
pub struct Paint {
    is_on: bool,
}

impl Paint {
    /// No colours.
    pub const OFF: Self = Self { is_on: false };

    /// Colours when standard output is a terminal and `NO_COLOR` is not set.
    #[must_use]
    pub fn stdout() -> Self {
        Self { is_on: io::stdout().is_terminal() && are_colors_wanted() }
    }

    /// The same for standard error.
    #[must_use]
    pub fn stderr() -> Self {
        Self { is_on: io::stderr().is_terminal() && are_colors_wanted() }
    }

    /// Whether there are colours.
    #[must_use]
    pub fn is_on(self) -> bool {
        self.is_on
    }

    /// Good: green.
    #[must_use]
    pub fn good(self, text: &str) -> String {
        self.wrap("32", text)
    }

    /// To be looked at: yellow.
    #[must_use]
    pub fn warn(self, text: &str) -> String {
        self.wrap("33", text)
    }

    /// Bad: red.
    #[must_use]
    pub fn bad(self, text: &str) -> String {
        self.wrap("31", text)
    }

    /// A heading: bold.
    #[must_use]
    pub fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// Less important: dim.
    #[must_use]
    pub fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.is_on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Whether the user has not said otherwise: <https://no-color.org>.
fn are_colors_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Whether something could not be written: a full disk, and not a reader that went away.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// Writes to standard output. A reader that went away (`| head`) is no error, a disk
/// that is full is one: it is said, and [`Exit::or_failed`] knows.
pub fn write(text: &str) {
    let _ = is_written(text);
}

/// The same; whether somebody still reads it.
#[must_use]
pub fn is_written(text: &str) -> bool {
    let mut out = io::stdout().lock();
    let written = out
        .write_all(text.as_bytes())
        .and_then(|()| if text.ends_with('\n') || text.is_empty() { Ok(()) } else { out.write_all(b"\n") });
    is_done(written.and_then(|()| out.flush()))
}

/// The same of what is written by other means.
pub fn is_done(written: io::Result<()>) -> bool {
    let Err(error) = written else { return true };
    if error.kind() != ErrorKind::BrokenPipe && !HAS_FAILED.swap(true, Ordering::Relaxed) {
        complain(&format!("error: cannot write: {error}"));
    }
    false
}

/// Waits until the reader of standard output is gone, also while there is nothing to write. Never ends for what has no
/// reader, as a file.
#[expect(
    deprecated,
    reason = "its replacement is unsafe; what it asks for, a descriptor that stays open, an OwnedFd is"
)]
pub async fn reader_gone() {
    let watched = io::stdout()
        .as_fd()
        .try_clone_to_owned()
        .and_then(|out| AsyncFd::with_interest(out, Interest::ERROR));
    match watched {
        Ok(out) if out.ready(Interest::ERROR).await.is_ok() => {}
        // the system does not watch files
        Ok(_) | Err(_) => std::future::pending().await,
    }
}

/// Writes to standard error.
pub fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", text.trim_end());
}

/// Writes as JSON.
pub fn write_json(value: &impl Serialize) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => write(&text),
        Err(error) => complain(&format!("error: {error}")),
    }
}
