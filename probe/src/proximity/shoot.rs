//! Sending one probe and waiting for what comes of it.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use tokio::{
    net::{TcpSocket, UdpSocket},
    time::{Instant, timeout},
};

use super::{
    pace::{Method, Outcome, Probe},
    passive::rtt_of,
};
use crate::transport::{Echo, Pingers};

/// Where DNS servers are asked.
const DNS_PORT: u16 = 53;
/// An echo's payload stays within the smallest packet that every host takes.
const PAYLOAD_LIMIT: usize = 512;

/// What probes are sent with.
pub(super) struct Gun {
    pingers: Pingers,
    payload: Vec<u8>,
    port: u16,
}

impl Gun {
    /// `contact` tells whoever sees an echo what it is for and whom to ask (X).
    pub(super) fn new(contact: &str, port: Option<u16>) -> Self {
        let mut payload = format!("Portolan measures round trips to its DNS clients. {contact}").into_bytes();
        payload.truncate(PAYLOAD_LIMIT);
        Self { pingers: Pingers::for_hops(), payload, port: port.unwrap_or(DNS_PORT) }
    }

    /// Opens the sockets that echoes need, so that a want of rights is known at the start (link.md case 37).
    pub(super) fn can_ping(&self, is_v4: bool, source: Option<IpAddr>) -> Result<(), String> {
        self.pingers.open(is_v4, source).map_err(|reason| reason.to_string())
    }

    /// Sends a probe. Never takes longer than its timeout.
    pub(super) async fn shoot(&self, probe: &Probe) -> Outcome {
        let limit = Duration::from_millis(probe.timeout_ms);
        let outcome = timeout(limit, async {
            match probe.method {
                Method::Icmp => self.ping(probe).await,
                Method::Dns => self.query(probe).await.unwrap_or_else(|error| of_error(&error)),
                Method::Tcp => self.connect(probe).await.unwrap_or_else(|error| of_error(&error)),
            }
        });
        outcome.await.unwrap_or(Outcome::Silent)
    }

    async fn ping(&self, probe: &Probe) -> Outcome {
        match self.pingers.echo(probe.target, probe.source, &self.payload).await {
            Ok(Echo::Answered { time, ttl }) => answered(time, ttl.map(hops)),
            Ok(Echo::Error(_)) => Outcome::Refused,
            Err(_) => Outcome::Unable,
        }
    }

    async fn query(&self, probe: &Probe) -> io::Result<Outcome> {
        let any: IpAddr = if probe.target.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
        // a socket, and so a port, of its own for each query: nobody who does not see it can answer
        let socket = UdpSocket::bind(SocketAddr::new(probe.source.unwrap_or(any), 0)).await?;
        socket.connect(SocketAddr::new(probe.target, self.port)).await?;
        let id = fastrand::u16(..);
        let query = query(id);
        let sent = Instant::now();
        socket.send(&query).await?;
        let mut buffer = [0; 512];
        loop {
            let count = match socket.recv(&mut buffer).await {
                Ok(count) => count,
                // the port is closed, or a gateway says so: not the target's own word
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    return Ok(Outcome::Refused);
                }
                Err(error) => return Err(error),
            };
            let time = sent.elapsed();
            if is_reply(&query, buffer.get(..count).unwrap_or_default()) {
                return Ok(answered(time, None));
            }
        }
    }

    async fn connect(&self, probe: &Probe) -> io::Result<Outcome> {
        let socket = if probe.target.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        if let Some(source) = probe.source {
            socket.bind(SocketAddr::new(source, 0))?;
        }
        let sent = Instant::now();
        match socket.connect(SocketAddr::new(probe.target, self.port)).await {
            // the kernel's time has no waiting for this task in it
            Ok(stream) => Ok(match rtt_of(&stream) {
                Some(rtt_us) => Outcome::Answered { rtt_us, hops: None },
                None => answered(sent.elapsed(), None),
            }),
            // a closed port answers as well as an open one
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                Ok(answered(sent.elapsed(), None))
            }
            Err(error) => Err(error),
        }
    }
}

fn answered(time: Duration, hops: Option<u8>) -> Outcome {
    let rtt_us = u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
    Outcome::Answered { rtt_us: rtt_us.max(1), hops }
}

/// What the network says against a target is an answer of a kind. Everything else is our own trouble, want of a route
/// included: all would seem silent if that counted against the targets.
fn of_error(error: &io::Error) -> Outcome {
    let said =
        [io::ErrorKind::ConnectionRefused, io::ErrorKind::ConnectionReset, io::ErrorKind::HostUnreachable];
    if said.contains(&error.kind()) { Outcome::Refused } else { Outcome::Unable }
}

/// How many routers a reply has passed: systems begin with 64, 128 or 255, and no way is longer than 64.
const fn hops(ttl: u8) -> u8 {
    match ttl {
        0..=64 => 64 - ttl,
        65..=128 => 128 - ttl,
        129..=255 => 255 - ttl,
    }
}

/// ". NS", without recursion.
fn query(id: u16) -> [u8; 17] {
    let [high, low] = id.to_be_bytes();
    [high, low, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1]
}

/// Whether this answers the query: any answer does, a refusal, too.
fn is_reply(query: &[u8], reply: &[u8]) -> bool {
    let is_response = reply.get(2).is_some_and(|flags| flags & 0x80 != 0);
    // an error may come without the question
    let has_question = reply.get(4..6) == Some(&[0, 1]);
    let is_ours = reply.get(..2) == query.get(..2);
    let asks_the_same = reply.len() >= 12 && (!has_question || reply.get(12..17) == query.get(12..17));
    is_response && is_ours && asks_the_same
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_told_from_noise() {
        let query = query(0x1234);
        let mut good = query.to_vec();
        good[2] = 0x80;
        let mut refused = good.clone();
        refused[3] = 5;
        let mut bare = refused[..12].to_vec();
        bare[5] = 0;
        let mut other_id = good.clone();
        other_id[1] ^= 1;
        let mut other_question = good.clone();
        other_question[14] = 1;
        for (reply, expected) in [
            (&good, true),
            (&refused, true),
            (&bare, true),
            (&query.to_vec(), false),
            (&other_id, false),
            (&other_question, false),
            (&good[..11].to_vec(), false),
            (&good[..14].to_vec(), false),
            (&vec![], false),
        ] {
            assert_eq!(is_reply(&query, reply), expected, "{reply:?}");
        }
    }

    #[test]
    fn hops_by_the_nearest_beginning() {
        for (ttl, expected) in [(64, 0), (50, 14), (1, 63), (128, 0), (117, 11), (255, 0), (243, 12), (0, 64)]
        {
            assert_eq!(hops(ttl), expected, "{ttl}");
        }
    }
}
