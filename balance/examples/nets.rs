//! Build time, memory and lookup time of the merged structure over a table of a million prefixes.
//!
//! `cargo run --release -p portolan-balance --example nets [PREFIXES] [SEED]`
#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a measurement")]

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use portolan_balance::nets::{DIMS, Entries, Line, Nets, Run, Runs, overlay, push_run};

/// A small generator, so that the same seed gives the same table everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Prefixes of 400 operators, laid out as registries and networks do: an allocation, announced whole, and inside it
/// runs of more specific prefixes, mostly /24 and /48, a tenth of them of another operator.
fn isp_table(prefixes: usize, random: &mut Random) -> Entries {
    let mut entries = Entries::default();
    let mut v4 = 1u32 << 24;
    let mut v6 = 0x2001u128 << 112;
    while entries.len() < prefixes {
        let operator = random.below(400) as u32;
        let line = |item: u32, number: usize| Line { item, number: number as u32, ..Line::default() };
        if random.below(5) > 0 {
            let len = 16 + random.below(6) as u8;
            entries.push_prefix(Ipv4Addr::from(v4).into(), len, line(operator, entries.len()));
            let end = v4.saturating_add(1 << (32 - len));
            let mut at = v4;
            while at < end {
                let len = [24, 24, 24, 23, 22][random.below(5) as usize];
                if random.below(3) > 0 {
                    let item = if random.below(10) == 0 { random.below(400) as u32 } else { operator };
                    entries.push_prefix(Ipv4Addr::from(at).into(), len, line(item, entries.len()));
                }
                at = at.saturating_add(1 << (32 - len));
            }
            // the next allocation, often behind a gap, aligned to the largest size there is
            let next = (end + 0xffff) & !0xffff;
            v4 = if next < 0xdf00_0000 { next } else { 1 << 24 };
        } else {
            let len = 32 - random.below(4) as u8;
            entries.push_prefix(Ipv6Addr::from(v6).into(), len, line(operator, entries.len()));
            for _ in 0..random.below(40) {
                let item = if random.below(10) == 0 { random.below(400) as u32 } else { operator };
                let site = v6 | u128::from(random.below(256)) << 80;
                entries.push_prefix(Ipv6Addr::from(site).into(), 48, line(item, entries.len()));
            }
            v6 += (1 + u128::from(random.below(3))) << 99;
        }
    }
    entries
}

/// City-like geography: 300,000 ranges of 20,000 records.
fn geo_table(random: &mut Random) -> Runs {
    let mut runs = Runs::default();
    for block in 0..300_000u32 {
        let first = block * 14_000 / 256 * 256;
        let value = random.below(20_000) as u32;
        push_run(&mut runs.v4, Run { first, last: first + (random.below(54) as u32) * 256 + 255, value });
    }
    runs
}

fn main() {
    let mut args = std::env::args().skip(1);
    let prefixes = args.next().and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let seed = args.next().and_then(|text| text.parse().ok()).unwrap_or(1);
    let mut random = Random(seed);
    let mut entries = isp_table(prefixes, &mut random);
    println!("seed {seed}: {} + {} prefixes", entries.v4.len(), entries.v6.len());
    let started = cpu_ns();
    let isp = overlay(&mut entries);
    println!("overlay {:.2} s: {} + {} runs", seconds(started), isp.runs.v4.len(), isp.runs.v6.len());
    measure("isp", [&Runs::default(), &isp.runs, &Runs::default()], &mut random);
    let geo = geo_table(&mut random);
    measure("isp + geo", [&Runs::default(), &isp.runs, &geo], &mut random);
}

fn measure(name: &str, dims: [&Runs; DIMS], random: &mut Random) {
    let started = cpu_ns();
    let (nets, classes) = Nets::build(dims);
    println!(
        "{name}: built in {:.2} s, {} classes, {:.1} MB",
        seconds(started),
        classes.len(),
        nets.heap_bytes() as f64 / 1e6
    );
    let (v4, v6) = (&dims[1].v4, &dims[1].v6);
    let mut any = |len: usize| random.below(len as u64) as usize;
    let v4: Vec<IpAddr> = (0..1 << 20).map(|_| Ipv4Addr::from(v4[any(v4.len())].first).into()).collect();
    let v6: Vec<IpAddr> = (0..1 << 20).map(|_| Ipv6Addr::from(v6[any(v6.len())].first).into()).collect();
    for (family, addrs) in [
        ("v4 anywhere in the table", &v4),
        ("v6 anywhere in the table", &v6),
        ("v4, 1,000 clients", &v4[..1000].to_vec()),
    ] {
        let rounds = (4 << 20) / addrs.len();
        time(&format!("{name}: {family}"), rounds * addrs.len(), || {
            (0..rounds).flat_map(|_| addrs).map(|&addr| nets.lookup(addr).class.0 as usize).sum()
        });
        time(&format!("{name}: {family}, /24 or /56"), rounds * addrs.len(), || {
            (0..rounds).flat_map(|_| addrs).map(|&addr| prefix(&nets, addr)).sum()
        });
        time(&format!("{name}: {family}, batches of 32 prefetched"), rounds * addrs.len(), || {
            let mut sum = 0;
            for batch in (0..rounds).flat_map(|_| addrs.chunks(32)) {
                batch.iter().for_each(|addr| nets.prefetch(addr));
                sum += batch.iter().map(|&addr| nets.lookup(addr).class.0 as usize).sum::<usize>();
            }
            sum
        });
    }
}

fn prefix(nets: &Nets, addr: IpAddr) -> usize {
    let len = if addr.is_ipv4() { 24 } else { 56 };
    nets.lookup_prefix(addr, len, [false, true, true]).class.0 as usize
}

fn time(name: &str, lookups: usize, run: impl Fn() -> usize) {
    let started = cpu_ns();
    black_box(run());
    println!("  {name}: {:.1} ns", (cpu_ns() - started) as f64 / lookups as f64);
}

/// Time on a processor: steady beside other work, unlike the clock.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn seconds(started_ns: u64) -> f64 {
    (cpu_ns() - started_ns) as f64 / 1e9
}
