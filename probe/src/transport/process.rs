//! Running a command: no shell, a small environment, bounded output, and its whole process group ended with it.

use std::{os::unix::process::ExitStatusExt, process::Stdio};

use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, Command},
};

use super::failed;
use crate::{
    kind::{CommandDef, Ended, judge_command},
    target::{Host, Target},
    verdict::{Reason, Verdict, What},
};

/// The octets that are kept of each output; the rest is read and dropped, so that the command does not block.
const OUTPUT_LIMIT: usize = 4096;
/// Where programs are looked for when we were given no PATH ourselves.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Runs the command to its end. Dropping this future, as a timeout or the removal of the check does, kills it.
pub(super) async fn run(def: &CommandDef, target: &Target) -> Result<Verdict, Reason> {
    let (program, arguments) =
        def.argv.split_first().ok_or_else(|| failed(What::Local, "no program given"))?;
    let host = match &target.host {
        Host::Ip(address) => address.to_string(),
        Host::Name(name) => name.clone(),
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_else(|| USUAL_PATH.into()))
        .env("LANG", "C")
        .envs(def.env.iter().map(|(name, value)| (name, value)))
        .env("PORTOLAN_TARGET", host)
        .env("PORTOLAN_PORT", target.port.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let child =
        command.spawn().map_err(|error| failed(What::Local, format!("cannot run {program}: {error}")))?;
    let mut group = Group(child);
    let (stdout, stderr) = (group.0.stdout.take(), group.0.stderr.take());
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let status = {
        let reading = async { tokio::join!(collect(stdout, &mut output), collect(stderr, &mut errors)) };
        tokio::pin!(reading);
        tokio::select! {
            // Its outputs are closed; only the exit is missing.
            _ = &mut reading => group.0.wait().await,
            // It ended, but something that it left running may hold the outputs open: take what is there now.
            status = group.0.wait() => {
                let _ = tokio::time::timeout(std::time::Duration::from_millis(20), &mut reading).await;
                status
            }
        }
    };
    let status =
        status.map_err(|error| failed(What::Local, format!("cannot wait for {program}: {error}")))?;
    let ended = match (status.code(), status.signal()) {
        (Some(code), _) => Ended::Code(code),
        (None, signal) => Ended::Signal(signal.unwrap_or_default()),
    };
    Ok(judge_command(ended, &output, &errors))
}

/// Reads to the end and keeps the beginning.
async fn collect(from: Option<impl AsyncRead + Unpin>, into: &mut Vec<u8>) {
    let Some(mut from) = from else { return };
    let mut buffer = [0; OUTPUT_LIMIT];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let room = OUTPUT_LIMIT - into.len();
        into.extend_from_slice(buffer.get(..count.min(room)).unwrap_or_default());
    }
}

/// A command and all that it started, ended together.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        // None once it was waited for: then the number may already belong to somebody else.
        if let Some(pid) = self.0.id().and_then(|id| i32::try_from(id).ok()) {
            kill_group(pid);
        }
    }
}

#[allow(unsafe_code)]
fn kill_group(pid: i32) {
    // SAFETY: kill takes plain numbers and touches no memory. The leader was not waited for, so its number is still
    // the group's; a group that is gone makes the call fail, which is what we want.
    unsafe {
        libc::kill(-pid, libc::SIGKILL);
    }
}
