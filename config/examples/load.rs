//! How long a large config takes to load, and what it holds: `cargo run --release --example load -p portolan-config`.
//!
//! Two configs are made in a folder of their own and loaded in a process each, because freed memory is not always
//! returned: one with a zone of 100,000 records beside 1,000,000 prefixes of 1,000 operators, and one with 4,000 services
//! of 14 members. Each is loaded, and loaded again while the first is in use, as a reload does.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use portolan_config::{Compiled, Disk, load_with};

type Failure = Box<dyn std::error::Error>;

const RECORDS: u32 = 100_000;
const OPERATORS: u32 = 1_000;
const PREFIXES: u32 = 1_000_000;
const SERVICES: u32 = 4_000;
const MEMBERS: u32 = 14;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args_os().skip(1);
    if let Some(config) = arguments.next() {
        return measure(Path::new(&config));
    }
    let folder = std::env::temp_dir().join(format!("portolan-load-{}", std::process::id()));
    let made = tables(&folder.join("tables")).and_then(|()| services(&folder.join("services")));
    let measured = made.and_then(|()| {
        for name in ["tables", "services"] {
            let config = folder.join(name).join("main.toml");
            let status = std::process::Command::new(std::env::current_exe()?).arg(config).status()?;
            if !status.success() {
                return Err(format!("{name}: {status}").into());
            }
        }
        Ok(())
    });
    std::fs::remove_dir_all(&folder)?;
    measured
}

/// Loads twice, the first being kept, and prints a line for each.
fn measure(config: &Path) -> Result<(), Failure> {
    let mut running: Option<Compiled> = None;
    for round in ["first", "again"] {
        let (started, cpu) = (Instant::now(), cpu_s()?);
        let loaded = load_with(&Disk, config, running.as_ref());
        let (wall, cpu) = (started.elapsed().as_secs_f64(), cpu_s()? - cpu);
        let loaded = loaded.map_err(|problems| problems.render(false))?;
        let what = config.parent().and_then(Path::file_name).unwrap_or_default().display();
        let (resident, peak) = (status_mb("VmRSS:")?, status_mb("VmHWM:")?);
        print(&format!(
            "{what} {round}: {wall:.2} s, {cpu:.2} s of CPU, {resident} MB resident, {peak} MB at most"
        ));
        // the running one lives on until the new one is in force, and then goes
        running = Some(loaded);
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "figures are what this program is for")]
fn print(line: &str) {
    println!("{line}");
}

/// Seconds of CPU that this process has used.
fn cpu_s() -> Result<f64, Failure> {
    let text = std::fs::read_to_string("/proc/self/schedstat")?;
    let ns = text.split_whitespace().next().ok_or("no figure")?;
    Ok(ns.parse::<u64>()? as f64 / 1e9)
}

/// A size in /proc/self/status.
fn status_mb(key: &str) -> Result<u64, Failure> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix(key)).ok_or("no such line")?;
    let kb = line.split_whitespace().next().ok_or("no figure")?;
    Ok(kb.parse::<u64>()? / 1024)
}

const HEAD: &str = r#"version = 1
[node]
name = "n1"
site = "s0"
[dns]
listen = ["127.0.0.1:5300"]
zones = ["example.com.zone"]
"#;

const SOA: &str =
    "$ORIGIN example.com.\n$TTL 3600\n@ SOA ns hostmaster 1 7200 900 1209600 300\n@ NS ns\nns A 192.0.2.53\n";

/// A folder with a config and its zone.
fn make(folder: &Path, config: &str, zone: &str) -> Result<PathBuf, Failure> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("main.toml"), config)?;
    std::fs::write(folder.join("example.com.zone"), zone)?;
    Ok(folder.to_owned())
}

fn tables(folder: &Path) -> Result<(), Failure> {
    let mut zone = SOA.to_owned();
    for n in 3..RECORDS {
        writeln!(zone, "h{n} A 10.{}.{}.{}", n >> 16, n >> 8 & 255, n & 255)?;
    }
    let mut config = format!("{HEAD}[tables]\nisp = \"isp/\"\n");
    config.push_str("[[site]]\nname = \"s0\"\nlinks = [{ name = \"l\", isp = [\"isp0\"] }, { name = \"m\", isp = [\"isp1\", \"isp2\"] }]\n");
    config.push_str("[[service]]\nname = \"www.example.com.\"\nmembers = [{ site = \"s0\", link = \"l\", address = \"192.0.2.1\" }, { site = \"s0\", link = \"m\", address = \"192.0.2.2\" }]\n");
    let folder = make(folder, &config, &zone)?.join("isp");
    std::fs::create_dir_all(&folder)?;
    for operator in 0..OPERATORS {
        let mut text = String::new();
        // neighbours belong to different operators, so that nothing can be joined
        for n in 0..PREFIXES / OPERATORS {
            let net = 0x0100_0000 + (n * OPERATORS + operator) * 2 * 1024;
            writeln!(text, "{}/22", std::net::Ipv4Addr::from(net))?;
        }
        std::fs::write(folder.join(format!("isp{operator}.txt")), text)?;
    }
    Ok(())
}

fn services(folder: &Path) -> Result<(), Failure> {
    let mut config = HEAD.to_owned();
    for site in 0..MEMBERS {
        let lat = f64::from(site) * 5.0;
        writeln!(config, "[[site]]\nname = \"s{site}\"\nlocation = {{ lat = {lat:.1}, lon = 10.0 }}")?;
    }
    for service in 0..SERVICES {
        writeln!(
            config,
            "[[service]]\nname = \"w{service}.example.com.\"\nchoose = [\"acl\", \"geo\", \"weighted-round-robin\"]"
        )?;
        config.push_str("acl = [{ from = \"203.0.113.0/24\", prefer = \"s1\" }]\n");
        writeln!(config, "check.tcp = {{ port = 443 }}\nmembers = [")?;
        for member in 0..MEMBERS {
            let (high, low) = (service >> 8, service & 255);
            writeln!(config, "  {{ site = \"s{member}\", address = \"10.{member}.{high}.{low}\" }},")?;
        }
        config.push_str("]\n");
    }
    make(folder, &config, SOA)?;
    Ok(())
}
