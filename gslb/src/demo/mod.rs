//! `portolan demo`: three sites on loopback, real nodes that are peers with real keys, real checks, real ISP tables; a
//! tour, then yours to play with.

mod backend;
mod client;
mod world;

use crate::engine::Engine;
use crate::{logs, run, udp};
use backend::Backends;
use portolan_config::{LogFormat, LogLevel};
use portolan_ctl::{Exit, Paint, output};
use portolan_dns::name::Name;
use portolan_dns::present::Presented;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use world::{CLIENTS, Client, SERVICE, SITES, Sockets};

/// Ports that are nice to type; others are taken where somebody has these.
const NODE_PORT: u16 = 5300;
const PEER_PORT: u16 = 7353;
const BACKEND_PORT: u16 = 8080;
/// A change of state must be answered within this: checks run twice a second.
const PATIENCE: Duration = Duration::from_secs(10);

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Runs the demo. With `once` it ends after the tour, and its exit code says whether all went as expected.
#[must_use]
pub fn run(once: bool) -> Exit {
    let result = run::runtime().map_err(Failure::from).and_then(|runtime| {
        let result = runtime.block_on(async {
            tokio::select! {
                result = demo(once) => result,
                result = interrupted() => result,
            }
        });
        runtime.shutdown_timeout(Duration::from_millis(200));
        result
    });
    match result {
        Ok(()) => Exit::Good,
        Err(error) => {
            output::complain(&format!("error: {error}"));
            Exit::Bad
        }
    }
}

/// Ctrl-C or SIGTERM.
async fn interrupted() -> Result<(), Failure> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        result = tokio::signal::ctrl_c() => result?,
        _ = terminate.recv() => {}
    }
    output::write("\nended\n");
    Ok(())
}

/// A folder that goes when the demo ends.
struct Folder(PathBuf);

impl Folder {
    fn new() -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("portolan-demo-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Three nodes and what they check.
struct Demo {
    nodes: Vec<Arc<Engine>>,
    dns: Vec<SocketAddr>,
    peers: Vec<SocketAddr>,
    backends: Backends,
    name: Name,
    paint: Paint,
}

async fn demo(once: bool) -> Result<(), Failure> {
    let folder = Folder::new()?;
    logs::start(LogLevel::Info, LogFormat::Text, Some(std::fs::File::create(folder.0.join("log"))?));
    udp::raise_file_limit();
    let backends = Backends::start(BACKEND_PORT).await?;
    let control = backends.control().await?;
    let demo = Demo::start(&folder.0, backends).await?;
    demo.introduce(&folder.0);
    demo.tour().await?;
    if !once {
        demo.farewell(&folder.0, control);
        output::write("\nThe sites stay up. Ctrl-C ends them.\n");
        std::future::pending::<()>().await;
    }
    for node in &demo.nodes {
        let node = node.clone();
        tokio::task::spawn_blocking(move || node.stop()).await?;
    }
    Ok(())
}

impl Demo {
    async fn start(dir: &Path, backends: Backends) -> Result<Self, Failure> {
        let at = |port| (0..SITES.len()).map(move |site| SocketAddr::from((world::node_address(site), port)));
        // a config names its peers by port, so that none can be left to the system
        let port = |first: u16| (first..first + 100).find(|&port| at(port).all(is_free));
        let dns = port(NODE_PORT).unwrap_or(0);
        let peers = port(PEER_PORT).ok_or("no port is free for peers at 127.20.1.1 to 127.20.3.1")?;
        let sockets =
            Sockets { backends: backends.port(), dns: at(dns).collect(), peers: at(peers).collect() };
        world::write(dir, &sockets)?;
        let mut nodes = Vec::new();
        for site in &SITES {
            let path = dir.join(format!("{}.toml", site.node));
            let config = portolan_config::load(&path).map_err(|problems| problems.render(false))?;
            nodes.push(Engine::start(&path, config).await?);
        }
        let dns = nodes.iter().filter_map(|node| node.addresses().first().copied()).collect();
        Ok(Self {
            nodes,
            dns,
            peers: sockets.peers,
            backends,
            name: SERVICE.parse().map_err(|_| "a bad name")?,
            paint: Paint::stdout(),
        })
    }

    fn introduce(&self, dir: &Path) {
        let mut text =
            format!("{}\n\n", self.paint.bold("Three sites, each with its own node, links and servers:"));
        for (((s, site), dns), peers) in SITES.iter().enumerate().zip(&self.dns).zip(&self.peers) {
            text += &format!(
                "  {:<10} node {} answers DNS at {dns}, talks to the others at {peers}\n",
                site.name, site.node
            );
            for (l, (link, isp, weight)) in site.links.iter().enumerate() {
                let address = world::address(s, l);
                text += &format!(
                    "    link {link:<8} to {isp:<13} server {address}:{} weight {weight}\n",
                    self.backends.port()
                );
            }
        }
        text += "Each node checks its own servers only, and learns of the others' from its peers.\n";
        text += &format!("\nConfigs, keys, zone, tables, traces and logs: {}\n", dir.display());
        output::write(&text);
    }

    /// Asks, stops a server, asks, starts it again, asks. An answer that is not right ends the demo.
    async fn tour(&self) -> Result<(), Failure> {
        self.say(&format!("{SERVICE} for clients of several operators, at all three nodes:"));
        for client in &CLIENTS {
            self.expect(client, client.right).await?;
        }
        let [telecom, ..] = &CLIENTS;
        self.say("The server on beijing/ct stops. Beijing's node sees it and tells the others; Telecom clients get another link of Beijing, at all three nodes:");
        self.backends.stop("beijing/ct");
        self.expect_other(telecom, "beijing", "beijing/ct").await?;
        self.say("All of Beijing stops. Telecom clients get another site:");
        self.backends.stop("beijing/cu");
        self.backends.stop("beijing/cm");
        self.expect_other(telecom, "", "beijing").await?;
        self.say("Beijing comes back:");
        for (_, place) in world::places() {
            self.backends.resume(&place).await?;
        }
        self.expect(telecom, telecom.right).await
    }

    fn say(&self, text: &str) {
        output::write(&format!("\n{}\n", self.paint.bold(text)));
    }

    /// Waits until every node gives this client a link that is `right`.
    async fn expect(&self, client: &Client, right: &str) -> Result<(), Failure> {
        self.wait(client, |place| is_at(place, right), right).await
    }

    /// The same, but away from `wrong`.
    async fn expect_other(&self, client: &Client, right: &str, wrong: &str) -> Result<(), Failure> {
        let text = format!("not {wrong}");
        self.wait(client, |place| is_at(place, right) && !is_at(place, wrong), &text).await
    }

    async fn wait(
        &self,
        client: &Client,
        is_right: impl Fn(&str) -> bool,
        right: &str,
    ) -> Result<(), Failure> {
        let begin = Instant::now();
        let mut is_first = true;
        for &server in &self.dns {
            loop {
                let reply = client::ask(server, &self.name, subnet(client.subnet)?).await?;
                let answer = reply.answer.first().cloned().unwrap_or_default();
                let place = world::place_of(&answer).unwrap_or_default();
                if is_right(&place) {
                    if std::mem::take(&mut is_first) {
                        self.show(client, server, &reply, &place, begin.elapsed());
                    }
                    break;
                }
                if begin.elapsed() > PATIENCE {
                    return Err(format!(
                        "{} got {answer} ({place}) from {server}, expected {right}",
                        client.who
                    )
                    .into());
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(())
    }

    fn show(&self, client: &Client, server: SocketAddr, reply: &Presented, place: &str, took: Duration) {
        let answer = reply.answer.join(" ");
        let scope = reply.scope.unwrap_or(0);
        let after = if took > Duration::from_millis(100) {
            format!(" after {:.1} s", took.as_secs_f32())
        } else {
            String::new()
        };
        output::write(&format!(
            "  {:<23} {answer:<12} {} {}\n  {}\n",
            client.who,
            self.paint.good(place),
            self.paint.dim(&format!("scope /{scope}{after}")),
            self.paint.dim(&format!("  {}", dig(server, client.subnet))),
        ));
    }

    fn farewell(&self, dir: &Path, control: SocketAddr) {
        let Some(server) = self.dns.first() else { return };
        let socket = dir.join("bj1.sock");
        let socket = socket.display();
        let config = dir.join("bj1.toml");
        let portolan = command();
        output::write(&format!(
            "\n{}\n  {portolan} peers --socket {socket}\n  {portolan} peers dump --socket {socket}\n  {}\n  {} +norecurse MX demo.example\n  {portolan} explain {SERVICE} --from 127.0.0.1 --ecs 36.110.1.0/24 --socket {socket}\n  \
             {portolan} explain {SERVICE} --from 36.110.1.1 -c {}   # without a node: only Beijing's own servers\n  {portolan} status --socket {socket}\n  \
             {portolan} drain site:frankfurt --reason test --socket {}\n  \
             curl -X POST http://{control}/stop/beijing/ct\n  curl -X POST http://{control}/start/beijing/ct\n",
            self.paint.bold("To try in another terminal:"),
            dig(*server, "36.110.1.0/24"),
            dig_at(*server),
            config.display(),
            dir.join("fra1.sock").display(),
        ));
    }
}

/// Whether nobody listens there, by UDP and TCP.
fn is_free(at: SocketAddr) -> bool {
    std::net::UdpSocket::bind(at).is_ok() && std::net::TcpListener::bind(at).is_ok()
}

/// How to call this program from another terminal: by its name where the search path has it, else by its place.
fn command() -> String {
    let Ok(here) = std::env::current_exe() else { return "portolan".into() };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join("portolan")).find(|file| file.is_file());
    let is_found = found.and_then(|file| file.canonicalize().ok()).is_some_and(|file| file == here);
    if is_found { "portolan".into() } else { here.display().to_string() }
}

fn is_at(place: &str, wanted: &str) -> bool {
    wanted.is_empty() || place == wanted || place.split('/').next() == Some(wanted)
}

fn subnet(text: &str) -> Result<(Ipv4Addr, u8), Failure> {
    let (address, length) = text.split_once('/').ok_or("a subnet without a length")?;
    Ok((address.parse()?, length.parse()?))
}

fn dig_at(server: SocketAddr) -> String {
    format!("dig @{} -p {}", server.ip(), server.port())
}

fn dig(server: SocketAddr, subnet: &str) -> String {
    format!("{} {SERVICE} +subnet={subnet}", dig_at(server))
}
