//! A node in a scratch folder, driven through its sockets and the built program.
#![allow(dead_code)] // each test file uses a part of it
#![allow(clippy::unwrap_used)] // helpers of tests: a panic is how a test fails
#![allow(unsafe_code)] // one kill(2)

use portolan_dns::present::{Presented, present};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) const ZONE: &str = "\
$ORIGIN example.com.
$TTL 300
@    SOA ns1 hostmaster 1 3600 600 604800 60
     NS  ns1
ns1  A   192.0.2.1
big  TXT \"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\"
";

/// Two members, drawn by the client's prefix: certain for a client, and different over clients.
pub(crate) const SERVICE: &str = "
[[site]]
name = \"a\"
links = [{ name = \"x\" }, { name = \"y\" }]

[[service]]
name = \"www.example.com.\"
ttl = 30
choose = [\"rendezvous\"]
members = [
  { site = \"a\", link = \"x\", address = \"192.0.2.10\" },
  { site = \"a\", link = \"y\", address = \"192.0.2.20\" },
]
";

pub(crate) struct Node {
    child: Child,
    folder: tempfile::TempDir,
    listen: Vec<SocketAddr>,
}

impl Node {
    /// A node with `[dns] listen` and more config.
    pub(crate) fn start(listen: &str, dns: &str, rest: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("example.com.zone"), ZONE).unwrap();
        std::fs::write(folder.path().join("portolan.toml"), Self::config(listen, dns, rest)).unwrap();
        let child = run(&folder);
        let mut node = Self { child, folder, listen: Vec::new() };
        node.wait_until_ready();
        node
    }

    pub(crate) fn config(listen: &str, dns: &str, rest: &str) -> String {
        format!(
            "version = 1\n[node]\nname = \"n\"\nsite = \"a\"\nstate = \"state\"\nthreads = 2\n[dns]\nlisten = [{listen}]\n\
             zones = [\"example.com.zone\"]\n{dns}\n[api]\nlisten = \"./api.sock\"\n{rest}"
        )
    }

    fn wait_until_ready(&mut self) {
        let begin = Instant::now();
        loop {
            let said = self.cli(&["status", "--json"]);
            if said.status.code() != Some(3) {
                let status: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
                let listen =
                    status["listen"].as_array().unwrap().iter().filter_map(|at| {
                        at.as_str().unwrap().strip_prefix("udp ").map(|at| at.parse().unwrap())
                    });
                self.listen = listen.collect();
                return;
            }
            if let Some(exit) = self.child.try_wait().unwrap() {
                panic!("the node ended ({exit}):\n{}", self.log());
            }
            assert!(begin.elapsed() < PATIENCE, "no node:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write_config(&self, listen: &str, dns: &str, rest: &str) {
        std::fs::write(self.path("portolan.toml"), Self::config(listen, dns, rest)).unwrap();
    }

    /// Where DNS is answered on loopback.
    pub(crate) fn dns(&self) -> SocketAddr {
        self.listen[0]
    }

    pub(crate) fn port(&self) -> u16 {
        self.dns().port()
    }

    pub(crate) fn cli(&self, args: &[&str]) -> Output {
        command(args)
            .current_dir(self.folder.path())
            .env("PORTOLAN_SOCKET", self.path("api.sock"))
            .output()
            .unwrap()
    }

    /// Runs a command that must exit so; its standard output.
    pub(crate) fn must(&self, code: i32, args: &[&str]) -> String {
        let said = self.cli(args);
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        let errors = String::from_utf8_lossy(&said.stderr).into_owned();
        assert_eq!(said.status.code(), Some(code), "{args:?}\n{text}{errors}\n{}", self.log());
        if text.is_empty() { errors } else { text }
    }

    pub(crate) fn json(&self, code: i32, args: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.must(code, args)).unwrap()
    }

    pub(crate) fn ask(&self, name: &str, ecs: Option<Ipv4Addr>) -> Presented {
        ask(self.dns(), name, ecs).unwrap_or_else(|| panic!("no answer\n{}", self.log()))
    }

    pub(crate) fn www(&self) -> Vec<String> {
        self.ask("www.example.com", None).answer
    }

    pub(crate) fn tcp(&self) -> TcpStream {
        let stream = TcpStream::connect(self.dns()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    pub(crate) fn signal(&self, signal: i32) {
        // SAFETY: kill has no preconditions; the child has not been waited for, so the id is its own.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> std::process::ExitStatus {
        let begin = Instant::now();
        loop {
            if let Some(exit) = self.child.try_wait().unwrap() {
                return exit;
            }
            assert!(begin.elapsed() < PATIENCE, "it does not end:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// As a power cut would; then starts it again.
    pub(crate) fn kill_and_start(&mut self) {
        self.signal(libc::SIGKILL);
        self.wait();
        self.start_again();
    }

    pub(crate) fn start_again(&mut self) {
        self.child = run(&self.folder);
        self.wait_until_ready();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(folder: &tempfile::TempDir) -> Child {
    let log = std::fs::File::options().create(true).append(true).open(folder.path().join("log")).unwrap();
    let mut command = command(&["run", "-c", "portolan.toml"]);
    command.current_dir(folder.path()).stdout(Stdio::null()).stderr(log).spawn().unwrap()
}

pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portolan"));
    command.args(args).stdin(Stdio::null()).env_remove("PORTOLAN_CONFIG");
    command
}

pub(crate) fn query(id: u16, name: &str, ecs: Option<Ipv4Addr>) -> Vec<u8> {
    let mut bytes = id.to_be_bytes().to_vec();
    bytes.extend([0, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(ecs.is_some())]);
    for label in name.split('.') {
        bytes.push(label.len() as u8);
        bytes.extend(label.as_bytes());
    }
    bytes.extend([0, 0, 1, 0, 1]);
    if let Some(address) = ecs {
        bytes.extend([0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 11, 0, 8, 0, 7, 0, 1, 24, 0]);
        bytes.extend(&address.octets()[..3]);
    }
    bytes
}

/// Asks by UDP from a connected socket, so that only a reply from the asked address counts.
pub(crate) fn ask(server: SocketAddr, name: &str, ecs: Option<Ipv4Addr>) -> Option<Presented> {
    let socket = UdpSocket::bind(if server.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" }).unwrap();
    socket.connect(server).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket.send(&query(7, name, ecs)).ok()?;
    let mut buffer = [0; 4096];
    let length = socket.recv(&mut buffer).ok()?;
    present(&buffer[..length])
}

pub(crate) fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes(), message].concat()
}

pub(crate) fn read_message(stream: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut message)?;
    Ok(message)
}

/// Asks on a stream.
pub(crate) fn ask_stream(stream: &mut TcpStream, id: u16) -> std::io::Result<Vec<u8>> {
    stream.write_all(&framed(&query(id, "www.example.com", None)))?;
    read_message(stream)
}

/// Waits until something holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
