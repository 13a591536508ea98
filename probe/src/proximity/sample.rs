//! What measuring brings to light.

use super::prefix::Prefix;

/// From where it was measured: a site, or one of its links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PointId(pub u16);

/// How it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// The handshake of a resolver that came by TCP.
    Resolver,
    /// The handshake of a resolver that came by TCP because it was asked to (X 3).
    Solicited,
    /// An ICMP echo.
    Icmp,
    /// A DNS query.
    DnsProbe,
    /// A TCP connection to port 53.
    TcpProbe,
}

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Of which clients.
    pub prefix: Prefix,
    /// From where.
    pub point: PointId,
    /// The round trip in microseconds; `None` where nothing came back.
    pub rtt_us: Option<u32>,
    /// Routers on the way back, as far as the reply tells.
    pub hops: Option<u8>,
    /// How.
    pub source: Source,
}
