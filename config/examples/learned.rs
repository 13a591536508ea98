//! How long it takes to learn members: `cargo run --release --example learned -p portolan-config`.
//!
//! A config with a table of 1,000,000 prefixes, a zone of 10,000 records and 100 services is loaded once, and made anew
//! with 1,000 virtual servers; then one with 1,000 services, with 1,000 virtual servers of each of 100 peers.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::Path;
use std::time::Instant;

use portolan_config::{Compiled, LearnedServer};

type Failure = Box<dyn std::error::Error>;

const OPERATORS: u32 = 100;
const PREFIXES: u32 = 1_000_000;
const RECORDS: u32 = 10_000;
const SITES: u32 = 100;
const ROUNDS: u32 = 5;

fn main() -> Result<(), Failure> {
    let folder = std::env::temp_dir().join(format!("portolan-learned-{}", std::process::id()));
    let measured = measure(&folder);
    std::fs::remove_dir_all(&folder)?;
    measured
}

fn measure(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder.join("isp"))?;
    tables(folder)?;
    for (services, peers, each) in [(100, 10, 100), (1_000, 100, 1_000)] {
        let config = folder.join("main.toml");
        std::fs::write(&config, text(services))?;
        let started = Instant::now();
        let base = portolan_config::load(&config).map_err(|problems| problems.render(false))?;
        let loaded = started.elapsed();
        let servers = told(services, peers, each);
        let mut best = None;
        let mut now: Option<Compiled> = None;
        for _ in 0..ROUNDS {
            let started = Instant::now();
            let next = base.with_learned(&servers).map_err(|problems| problems.render(false))?;
            let took = started.elapsed();
            best = Some(best.map_or(took, |best: std::time::Duration| best.min(took)));
            now = Some(next);
        }
        let taken = now.map(|now| now.learned.tally.taken).unwrap_or_default();
        print(&format!(
            "{services} services: loaded in {loaded:.2?}; {} virtual servers of {peers} peers learned in {:.2?}, {taken} taken in",
            servers.len(),
            best.unwrap_or_default(),
        ));
    }
    Ok(())
}

fn tables(folder: &Path) -> Result<(), Failure> {
    for operator in 0..OPERATORS {
        let mut text = String::new();
        for prefix in 0..PREFIXES / OPERATORS {
            // /24s, scattered so that neighbours belong to different operators
            let at = (prefix * OPERATORS + operator).wrapping_add(0x0001_0000);
            let _ = writeln!(text, "{}.{}.{}.0/24", at >> 16 & 255, at >> 8 & 255, at & 255);
        }
        std::fs::write(folder.join(format!("isp/op{operator}.txt")), text)?;
    }
    let mut zone = String::from(
        "$ORIGIN example.com.\n$TTL 3600\n@ SOA ns hostmaster 1 7200 900 1209600 300\n@ NS ns\nns A 192.0.2.53\n",
    );
    for record in 0..RECORDS {
        let _ = writeln!(zone, "h{record} A 10.0.{}.{}", record >> 8 & 255, record & 255);
    }
    std::fs::write(folder.join("example.com.zone"), zone)?;
    Ok(())
}

fn text(services: u32) -> String {
    let mut text = String::from(
        "version = 1\n[node]\nname = \"n\"\nsite = \"s0\"\n[dns]\nzones = [\"example.com.zone\"]\n[tables]\nisp = \"isp\"\n\
         [peers]\nlisten = \"0.0.0.0:7353\"\nidentity = \"n\"\n",
    );
    for site in 0..SITES {
        let _ = write!(
            text,
            "[[site]]\nname = \"s{site}\"\nlocation = {{ lat = {}, lon = {site} }}\nlinks = [{{ name = \"l\", isp = \"op{site}\" }}]\n",
            site % 90
        );
    }
    for service in 0..services {
        let _ = write!(
            text,
            "[[service]]\nname = \"w{service}.example.com\"\nacl = [{{ from = \"10.0.0.0/8\", prefer = \"s1\" }}]\nmembers = \"peers\"\n"
        );
    }
    text
}

fn told(services: u32, peers: u32, each: u32) -> Vec<LearnedServer> {
    let one = |peer: u32, at: u32| LearnedServer {
        author: format!("n{peer}"),
        name: format!("v{at}"),
        service: format!("w{}.example.com.", at % services),
        address: IpAddr::from([100, peer as u8, (at >> 8) as u8, at as u8]),
        site: format!("s{}", peer % SITES),
        link: Some("l".into()),
        weight: 1,
        tier: 1,
        connections_max: None,
    };
    (0..peers).flat_map(|peer| (0..each).map(move |at| one(peer, at))).collect()
}

#[expect(clippy::print_stdout, reason = "the result of this program")]
fn print(line: &str) {
    println!("{line}");
}
