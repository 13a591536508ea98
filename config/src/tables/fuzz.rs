//! Fuzz target: any bytes as an ISP table.

use std::net::IpAddr;
use std::path::Path;

use super::{IspSource, isp_from_text};

/// Reads the bytes as an ISP table under several options, and checks what must hold of any table that is accepted.
pub fn fuzz_isp_text(data: &[u8]) {
    for (strict, max_bad_lines) in [(false, usize::MAX), (true, 0)] {
        let source = IspSource {
            name: "operator".into(),
            asns: vec![64500, 13335],
            names: vec!["Cloudflare, Inc.".into()],
            strict,
            max_bad_lines,
            ..IspSource::default()
        };
        let Ok(table) = isp_from_text(data, &source, Path::new("fuzz.txt")) else { continue };
        assert!(table.runs.v4.is_sorted_by(|a, b| a.last < b.first));
        assert!(table.runs.v6.is_sorted_by(|a, b| a.last < b.first));
        let v4 =
            table.runs.v4.iter().map(|run| (IpAddr::from(std::net::Ipv4Addr::from(run.first)), run.value));
        let v6 =
            table.runs.v6.iter().map(|run| (IpAddr::from(std::net::Ipv6Addr::from(run.first)), run.value));
        for (addr, value) in v4.chain(v6).take(64) {
            // every answer has lines to show for it, and they say the same
            let mut said: Vec<_> = table
                .explain(addr)
                .into_iter()
                .filter(|origin| !origin.exclude)
                .filter_map(|origin| origin.operator)
                .collect();
            said.sort_unstable();
            said.dedup();
            assert_eq!(table.sets.get(value as usize), Some(&said), "{addr}");
        }
    }
}
