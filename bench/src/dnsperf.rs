//! dnsperf as a second, foreign client: a light load, since it is bound by its own cost.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::process::Pinned;

/// Asks the questions in `questions` for `seconds` with 16 in flight, from `core`; returns how many were completed.
///
/// # Errors
/// When dnsperf is missing, fails, or loses more than 1 %.
pub fn run(server: SocketAddr, questions: &Path, seconds: u32, core: usize, log: &Path) -> Result<u64> {
    let mut command = Command::new("dnsperf");
    command.args(["-s", &server.ip().to_string(), "-p", &server.port().to_string()]);
    command.args(["-l", &seconds.to_string(), "-q", "16", "-c", "1", "-T", "1", "-t", "1", "-e"]);
    command.arg("-d").arg(questions);
    let mut process = Pinned::start(command, core, log)?;
    let bound = std::time::Instant::now() + std::time::Duration::from_secs(u64::from(seconds) + 10);
    while !process.has_ended() && std::time::Instant::now() < bound {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let text = std::fs::read_to_string(log)?;
    let (sent, completed) = (figure(&text, "Queries sent:"), figure(&text, "Queries completed:"));
    match (sent, completed) {
        (Some(sent), Some(completed)) if completed > 0 && completed * 100 >= sent * 99 => Ok(completed),
        _ => Err(format!("dnsperf completed {completed:?} of {sent:?}:\n{}", process.last_words()).into()),
    }
}

fn figure(text: &str, label: &str) -> Option<u64> {
    let (_, rest) = text.split_once(label)?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_in_its_report() {
        let text = "Statistics:\n\n  Queries sent:         88123\n  Queries completed:    88120 (99.99%)\n";
        assert_eq!(figure(text, "Queries sent:"), Some(88_123));
        assert_eq!(figure(text, "Queries completed:"), Some(88_120));
        assert_eq!(figure(text, "Queries lost:"), None);
    }
}
