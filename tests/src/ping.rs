//! Echo requests: the round trip and the hops between two places.

use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use crate::relay::checksum;

/// An answer to an echo request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// From the request to the answer.
    pub rtt: Duration,
    /// What was left of the answer's hop limit; the IPv6 socket does not show it.
    pub ttl: Option<u8>,
}

/// Asks once from the network of the calling thread; none when no answer has come within the limit.
#[must_use]
pub fn ping(target: IpAddr, limit: Duration) -> Option<Echo> {
    let is_v4 = target.is_ipv4();
    let (domain, protocol) =
        if is_v4 { (Domain::IPV4, Protocol::ICMPV4) } else { (Domain::IPV6, Protocol::ICMPV6) };
    let socket = Socket::new(domain, Type::RAW, Some(protocol)).unwrap();
    let id = fastrand::u16(..).to_be_bytes();
    let begin = Instant::now();
    // no route is no answer, too
    socket.send_to(&request(is_v4, id), &SocketAddr::new(target, 0).into()).ok()?;
    let mut buffer = [0; 2048];
    loop {
        let left = limit.checked_sub(begin.elapsed()).filter(|left| !left.is_zero())?;
        socket.set_read_timeout(Some(left)).unwrap();
        let length = (&socket).read(&mut buffer).ok()?;
        let rtt = begin.elapsed();
        // an IPv4 raw socket gives the IP header, too
        let start = if is_v4 { usize::from(buffer[0] & 15) * 4 } else { 0 };
        let echo_reply = if is_v4 { 0 } else { 129 };
        let message = buffer.get(start..length).unwrap_or_default();
        if message.first() == Some(&echo_reply) && message.get(4..6) == Some(&id) {
            return Some(Echo { rtt, ttl: is_v4.then_some(buffer[8]) });
        }
    }
}

fn request(is_v4: bool, id: [u8; 2]) -> Vec<u8> {
    let mut message = vec![if is_v4 { 8 } else { 128 }, 0, 0, 0, id[0], id[1], 0, 1];
    message.extend([0x70; 24]);
    if is_v4 {
        let sum = checksum(&message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
    } // ICMPv6's holds the addresses: the kernel writes it
    message
}
