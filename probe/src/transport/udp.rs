//! Conversations over UDP: datagrams from the asked address only.

use std::net::{IpAddr, SocketAddr};

use tokio::net::UdpSocket;

use super::{bad_source, failed};
use crate::verdict::{Exchange, Reason, Step, Verdict, What};

/// The largest datagram there is.
const DATAGRAM_SIZE: usize = 65_535;

/// Lets the exchange speak in datagrams until it has a verdict. Whoever calls bounds the time.
pub(super) async fn converse(
    address: SocketAddr,
    source: Option<IpAddr>,
    mut exchange: Box<dyn Exchange>,
) -> Result<Verdict, Reason> {
    let any: IpAddr = if address.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let socket =
        UdpSocket::bind(SocketAddr::new(source.unwrap_or(any), 0)).await.map_err(|error| match source {
            Some(source) => bad_source(source, &error),
            None => failed(What::Local, format!("no socket: {error}")),
        })?;
    // Connected: the kernel drops what others send, and reports the target's ICMP errors.
    let unreachable = |error: std::io::Error| failed(What::Connect, format!("{address}: {error}"));
    socket.connect(address).await.map_err(unreachable)?;
    let mut buffer = vec![0; DATAGRAM_SIZE];
    let mut step = exchange.start();
    loop {
        match step {
            Step::Done(verdict) => return Ok(verdict),
            Step::Send(bytes) => {
                socket.send(&bytes).await.map_err(unreachable)?;
            }
            Step::More => {}
        }
        let count = socket.recv(&mut buffer).await.map_err(unreachable)?;
        step = exchange.received(buffer.get(..count).unwrap_or_default());
    }
}
