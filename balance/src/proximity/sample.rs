//! One measurement, and what many of them come to.

use super::{PointId, Prefix};

/// Where a value comes from, in order of trust (X).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// The operator wrote it (PX2).
    Static,
    /// TCP handshake of a client.
    Handshake,
    /// TCP handshake of a resolver with the DNS server.
    Resolver,
    /// The same, asked for by a truncated answer.
    Solicited,
    /// ICMP echo.
    Icmp,
    /// A DNS query.
    DnsProbe,
    /// A TCP SYN.
    TcpProbe,
    /// What was measured for a prefix around this one.
    Covering,
    /// The median of the operator's clients.
    Operator,
    /// A prediction by network coordinates.
    Coordinates,
}

impl Source {
    /// All of them, in order of trust.
    pub const ALL: [Self; 10] = [
        Self::Static,
        Self::Handshake,
        Self::Resolver,
        Self::Solicited,
        Self::Icmp,
        Self::DnsProbe,
        Self::TcpProbe,
        Self::Covering,
        Self::Operator,
        Self::Coordinates,
    ];

    /// Its number between peers and in files.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The source of a number.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// What people see.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::Handshake => "client handshake",
            Self::Resolver => "resolver handshake",
            Self::Solicited => "solicited handshake",
            Self::Icmp => "icmp",
            Self::DnsProbe => "dns probe",
            Self::TcpProbe => "tcp probe",
            Self::Covering => "covering prefix",
            Self::Operator => "operator median",
            Self::Coordinates => "coordinates",
        }
    }

    /// Whether a client came by itself.
    #[must_use]
    pub fn is_passive(self) -> bool {
        matches!(self, Self::Handshake | Self::Resolver | Self::Solicited)
    }

    /// Whether it was measured, not written and not predicted.
    #[must_use]
    pub fn is_measured(self) -> bool {
        match self {
            Self::Handshake
            | Self::Resolver
            | Self::Solicited
            | Self::Icmp
            | Self::DnsProbe
            | Self::TcpProbe => true,
            Self::Static | Self::Covering | Self::Operator | Self::Coordinates => false,
        }
    }

    /// The confidence of a fresh value with many samples, 0..=255.
    #[must_use]
    pub fn trust(self) -> u8 {
        match self {
            Self::Static => 255,
            Self::Handshake => 240,
            Self::Resolver => 220,
            Self::Solicited => 210,
            Self::Icmp => 180,
            Self::DnsProbe => 170,
            Self::TcpProbe => 170,
            Self::Covering => 110,
            Self::Operator => 80,
            Self::Coordinates => 60,
        }
    }
}

/// One measurement, or an attempt that got no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Whose; cut to the length of the table's entries. The whole address is best: a wider network is refused unless
    /// it is an entry.
    pub prefix: Prefix,
    /// From where.
    pub point: PointId,
    /// How long it took; `None` where no answer came.
    pub rtt_us: Option<u32>,
    /// How many hops away, where that is known.
    pub hops: Option<u8>,
    /// How it was measured.
    pub source: Source,
}

/// What is known of a prefix from a point: for people, peers and the state file. Ages instead of instants, so that
/// clocks need not agree (T11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Whose.
    pub prefix: Prefix,
    /// From where.
    pub point: PointId,
    /// Round-trip time.
    pub rtt_us: u32,
    /// Share of attempts without an answer.
    pub loss_permille: u16,
    /// Hops; 0 where unknown.
    pub hops: u8,
    /// How many measurements there were.
    pub samples: u32,
    /// How it was measured.
    pub source: Source,
    /// Whether a peer said it.
    pub is_peers: bool,
    /// How far to trust it, 0..=255; falls with age.
    pub confidence: u8,
    /// Seconds since the last measurement.
    pub age_s: u32,
}
