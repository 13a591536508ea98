//! What a run is like.

use crate::believed::Strategy;
use portolan_balance::proximity::Settings;

/// Settings of a run. The proximity tables' are the program's. A probe is one packet by one method: the program sends
/// three and tries other methods, which finds more of what answers and costs more packets.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// How long to run, in the world's time.
    pub duration_ms: u64,
    /// How sites are chosen.
    pub strategy: Strategy,
    /// Added to the world's seed.
    pub seed: u64,
    /// Settings of the proximity tables.
    pub proximity: Settings,
    /// How often a table is published to queries. A node does so oftener, which makes a run longer and no better.
    pub publish_ms: u64,
    /// How often nodes tell each other what they measured, and how much at once.
    pub tell_ms: u64,
    /// Cells a node tells at once.
    pub tell_cells: usize,
    /// How long a claim is on its way.
    pub claim_ms: u64,
    /// How long it takes until a failure is known at all sites.
    pub detect_ms: u64,
    /// Whether one table stands for all nodes, as if claims took no time.
    pub shared_table: bool,
    /// Whether sites see the TCP handshakes of the clients that come.
    pub handshakes: bool,
    /// Share of queries to answer truncated, so that the resolver comes by TCP; 0 is none.
    pub solicit_permille: u16,
    /// Whether to probe.
    pub probes: bool,
    /// Packets a measurement takes: the least counts.
    pub tries: u32,
    /// Methods tried before a target counts as silent.
    pub methods: u32,
    /// Probes a second and node.
    pub probes_per_s: u32,
    /// Probes in flight, by node.
    pub in_flight: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            duration_ms: 3_600_000,
            strategy: Strategy::Portolan,
            seed: 0,
            proximity: Settings::default(),
            publish_ms: 20_000,
            tell_ms: 1_000,
            tell_cells: 1_000,
            claim_ms: 100,
            detect_ms: 2_000,
            shared_table: false,
            handshakes: false,
            solicit_permille: 5,
            probes: true,
            tries: 1,
            methods: 1,
            probes_per_s: 100,
            in_flight: 100,
        }
    }
}
