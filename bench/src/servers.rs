//! The servers in the comparison: each writes its own configuration and says how it is started in the foreground.

mod gdnsd;
mod knot;
mod nsd;
mod pdns;
mod portolan;

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::Result;
use crate::process::Pinned;
use crate::queries::packet;
use crate::world::zone;

/// Which queries a server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// The zone's 1,000 names, 10 % that do not exist.
    Static,
    /// 16 names with 16 candidates each, chosen per client subnet.
    Dynamic,
}

/// What every server's configuration is made from.
pub struct World {
    /// The networks as a MaxMind database.
    pub mmdb: PathBuf,
    /// Operators' prefix tables, one file each.
    pub isp_folder: PathBuf,
    /// The operators' names.
    pub operators: Vec<String>,
    /// Where the candidates accept connections.
    pub health_port: u16,
    /// The program under test.
    pub portolan: PathBuf,
}

/// A way to run a server.
#[derive(Clone, Copy)]
pub struct Server {
    /// Its name in the table, for one workload unique.
    pub name: &'static str,
    /// What it is asked.
    pub workload: Workload,
    /// Looked for on the path and in /usr/sbin; nothing for those that we build.
    pub program: Option<&'static str>,
    prepare: fn(&World, &Path, u16) -> Result<Command>,
}

/// The floor's name, and that of the program under test.
pub const ECHO: &str = "echo";
/// The program under test.
pub const PORTOLAN: &str = "portolan";

const fn server(
    name: &'static str,
    workload: Workload,
    program: Option<&'static str>,
    prepare: fn(&World, &Path, u16) -> Result<Command>,
) -> Server {
    Server { name, workload, program, prepare }
}

/// All of them, in the table's order; the echo first, since the others are compared with it.
pub const ALL: [Server; 14] = [
    server(ECHO, Workload::Static, None, echo),
    server(PORTOLAN, Workload::Static, None, portolan::fixed),
    server("gdnsd", Workload::Static, Some("gdnsd"), gdnsd::fixed),
    server("nsd", Workload::Static, Some("nsd"), nsd::fixed),
    server("knot", Workload::Static, Some("knotd"), knot::fixed),
    server("pdns", Workload::Static, Some("pdns_server"), pdns::fixed),
    server(ECHO, Workload::Dynamic, None, echo),
    server(PORTOLAN, Workload::Dynamic, None, portolan::dynamic),
    server("gdnsd-geoip", Workload::Dynamic, Some("gdnsd"), gdnsd::geoip_multifo),
    server("gdnsd-geoip-weighted", Workload::Dynamic, Some("gdnsd"), gdnsd::geoip_weighted),
    server("knot-geoip", Workload::Dynamic, Some("knotd"), knot::geoip),
    server("pdns-geoip", Workload::Dynamic, Some("pdns_server"), pdns::geoip),
    server("pdns-lua-weighted", Workload::Dynamic, Some("pdns_server"), pdns::lua_weighted),
    server("pdns-lua-ifportup", Workload::Dynamic, Some("pdns_server"), pdns::lua_ifportup),
];

impl Server {
    /// Starts it on `core` with its files in `folder` and waits until it answers.
    ///
    /// # Errors
    /// When the program is missing, does not start or does not answer; with its last words.
    pub fn start(&self, world: &World, folder: &Path, core: usize) -> Result<Running> {
        std::fs::create_dir_all(folder)?;
        let port = free_port()?;
        let command = (self.prepare)(world, folder, port)?;
        let start = Instant::now();
        let process = Pinned::start(command, core, &folder.join("log"))?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut running = Running { server: *self, process, address, ready_s: 0.0 };
        running.wait()?;
        running.ready_s = start.elapsed().as_secs_f64();
        Ok(running)
    }
}

/// A server that answers.
pub struct Running {
    /// What it is.
    pub server: Server,
    /// Its process.
    pub process: Pinned,
    /// Where it answers.
    pub address: SocketAddr,
    /// Seconds from its start to the first answer.
    pub ready_s: f64,
}

impl Running {
    /// Databases of a million networks take their time to load.
    fn wait(&mut self) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(60);
        let query = match self.server.workload {
            Workload::Static => packet(&zone::static_name(0), 1, false, None),
            Workload::Dynamic => packet(&zone::dynamic_name(0), 1, true, Some([1, 2, 3])),
        };
        while Instant::now() < deadline && !self.process.has_ended() {
            if self.answers(&query) {
                return Ok(());
            }
        }
        let why = if self.process.has_ended() { "ended by itself" } else { "did not answer within 60 s" };
        Err(format!("{why}; its last words:\n{}", self.process.last_words()).into())
    }

    /// One query; a refused one (nobody listens yet) is worth a pause.
    fn answers(&self, query: &[u8]) -> bool {
        let ask = || -> std::io::Result<bool> {
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            socket.connect(self.address)?;
            socket.set_read_timeout(Some(Duration::from_millis(200)))?;
            socket.send(query)?;
            let mut reply = [0; 1280];
            let length = socket.recv(&mut reply)?;
            let answered = reply[3] & 0x0f == 0 && reply[7] > 0;
            Ok(length > 12 && (answered || self.server.name == ECHO))
        };
        let answered = ask().unwrap_or(false);
        if !answered {
            std::thread::sleep(Duration::from_millis(20));
        }
        answered
    }
}

/// A port that is free for UDP and TCP.
fn free_port() -> Result<u16> {
    for _ in 0..64 {
        let udp = UdpSocket::bind("127.0.0.1:0")?;
        let port = udp.local_addr()?.port();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    Err("no port is free on 127.0.0.1".into())
}

/// Where a Debian program is: the path of an ordinary user lacks /usr/sbin.
fn program(name: &str) -> Result<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = path.split(':').chain(["/usr/sbin", "/usr/bin"]);
    folders
        .map(|folder| Path::new(folder).join(name))
        .find(|file| file.is_file())
        .ok_or_else(|| format!("{name} is not installed").into())
}

fn echo(_: &World, _: &Path, port: u16) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["echo", "--port", &port.to_string()]);
    Ok(command)
}
