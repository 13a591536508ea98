//! A running node.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::child::Child;
use crate::dig::{Dig, Reply};
use crate::netns;
use crate::program::{Said, portolan};
use crate::setup;
use crate::wait::{SOON, wait_for, wait_until};
use crate::wire::{self, Message};

/// `portolan run` in a scratch folder; ended when dropped.
pub struct Node {
    // first, so that it ends before its folder goes
    child: Child,
    folder: TempDir,
    dns: SocketAddr,
    namespace: Option<String>,
    values: BTreeMap<String, String>,
}

impl Node {
    pub(crate) fn start(
        folder: TempDir,
        dns: SocketAddr,
        namespace: Option<String>,
        values: BTreeMap<String, String>,
    ) -> Self {
        let child = run(folder.path(), namespace.as_deref());
        let mut node = Self { child, folder, dns, namespace, values };
        node.wait_until_it_answers();
        node.wait_until_it_listens_to_commands();
        node
    }

    /// Where it answers DNS.
    #[must_use]
    pub fn dns(&self) -> SocketAddr {
        self.dns
    }

    /// The network it runs in, if not the machine's.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The path of a file in its folder.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A text with the setup's values in it.
    #[must_use]
    pub fn filled(&self, text: &str) -> String {
        setup::fill(text, &self.values)
    }

    /// Writes a file, with the setup's values in it.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), self.filled(text)).unwrap();
    }

    /// Changes a file.
    ///
    /// # Panics
    /// When the file does not hold `from`: the test no longer does what it says.
    pub fn replace(&self, name: &str, from: &str, to: &str) {
        let text = std::fs::read_to_string(self.path(name)).unwrap();
        assert!(text.contains(from), "{name} does not hold {from:?}:\n{text}");
        self.write(name, &text.replace(from, to));
    }

    /// The process.
    pub fn process(&mut self) -> &mut Child {
        &mut self.child
    }

    /// A question by dig: `"www.example.com. AAAA +subnet=192.0.2.0/24"`.
    #[must_use]
    pub fn dig(&self, question: &str) -> Reply {
        self.digger().ask(question)
    }

    /// dig, set up for this node.
    #[must_use]
    pub fn digger(&self) -> Dig {
        Dig::new(self.dns).within(self.namespace.as_deref())
    }

    /// The data of the answer to a question, sorted.
    #[must_use]
    pub fn data(&self, question: &str) -> Vec<String> {
        self.dig(question).data()
    }

    /// Asks until the data of the answer is this.
    pub fn wait_for_data(&self, question: &str, expected: &[&str]) {
        wait_for(SOON, &format!("{question} -> {expected:?}"), || {
            let found = self.data(question);
            if found == expected { Ok(()) } else { Err(format!("{found:?}")) }
        });
    }

    /// `portolan ARGS`, in the node's folder and with its socket `api.sock`.
    #[must_use]
    pub fn cli(&self, args: &[&str]) -> Said {
        let mut command = Command::new(portolan());
        command.args(args).current_dir(self.folder.path()).env("PORTOLAN_SOCKET", self.path("api.sock"));
        Said::by(&mut command)
    }

    /// `curl` on the node's socket.
    #[must_use]
    pub fn curl(&self, args: &[&str], path: &str) -> Said {
        let mut command = Command::new("curl");
        command.args(["-sS", "--max-time", "10", "--unix-socket"]).arg(self.path("api.sock"));
        Said::by(command.args(args).arg(format!("http://node{path}")))
    }

    /// Kills it without warning and starts it again; how long it took to answer.
    pub fn restart_after_kill(&mut self) -> Duration {
        self.child.kill();
        self.start_again()
    }

    /// Ends it as a service manager would, and starts it again.
    pub fn restart(&mut self) {
        self.child.signal(libc::SIGTERM);
        let exit = self.child.wait(SOON);
        assert!(exit.success(), "{exit}");
        self.start_again();
    }

    fn start_again(&mut self) -> Duration {
        let begin = Instant::now();
        self.child = run(self.folder.path(), self.namespace.as_deref());
        self.wait_until_it_answers();
        let took = begin.elapsed();
        self.wait_until_it_listens_to_commands();
        took
    }

    fn wait_until_it_answers(&mut self) {
        let question = Message::query("portolan.invalid.", wire::SOA).bytes();
        let (dns, namespace) = (self.dns, self.namespace.clone());
        let child = &mut self.child;
        wait_for(SOON, "the node answers", || {
            if let Some(exit) = child.ended() {
                panic!("the node ended ({exit}) before it answered");
            }
            netns::inside(namespace.as_deref(), || {
                wire::udp_within(dns, &question, Duration::from_millis(50))
            })
            .map(drop)
            .ok_or_else(|| "silence".to_owned())
        });
    }

    /// Its socket for commands is opened after those for DNS.
    fn wait_until_it_listens_to_commands(&self) {
        let config = std::fs::read_to_string(self.path("portolan.toml")).unwrap_or_default();
        if config.contains("./api.sock") {
            wait_until(SOON, "the API's socket is there", || {
                UnixStream::connect(self.path("api.sock")).is_ok()
            });
        }
    }
}

fn run(folder: &Path, namespace: Option<&str>) -> Child {
    let mut command = netns::command(namespace, &portolan());
    command.args(["run", "-c", "portolan.toml"]).current_dir(folder);
    Child::start(command, &folder.join("node.log"))
}
