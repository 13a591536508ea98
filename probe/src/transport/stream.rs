//! Conversations over a stream: TCP, or TLS on it.

use std::net::{IpAddr, SocketAddr};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};

use super::{bad_source, failed};
use crate::verdict::{Exchange, Reason, Step, Verdict, What};

/// Octets taken by one read.
const READ_SIZE: usize = 16 * 1024;

/// Opens a connection, from the source address when there is one.
pub(super) async fn connect(address: SocketAddr, source: Option<IpAddr>) -> Result<TcpStream, Reason> {
    let cannot = |error: std::io::Error| failed(What::Local, format!("no socket: {error}"));
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }.map_err(cannot)?;
    if let Some(source) = source {
        socket.bind(SocketAddr::new(source, 0)).map_err(|error| bad_source(source, &error))?;
    }
    let stream = socket.connect(address).await;
    let stream = stream.map_err(|error| failed(What::Connect, format!("{address}: {error}")))?;
    // Small requests must not wait for each other; a socket that refuses the option still works.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

/// Lets the exchange speak over the stream until it has a verdict. Whoever calls bounds the time.
pub(super) async fn converse<S>(mut stream: S, mut exchange: Box<dyn Exchange>) -> Result<Verdict, Reason>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut buffer = vec![0; READ_SIZE];
    let mut step = exchange.start();
    loop {
        match step {
            Step::Done(verdict) => return Ok(verdict),
            // A server may answer and close before it has read all; what it said still counts.
            Step::Send(bytes) => {
                let sent = stream.write_all(&bytes).await;
                if sent.is_ok() {
                    let _ = stream.flush().await;
                }
            }
            Step::More => {}
        }
        step = match stream.read(&mut buffer).await {
            Ok(0) => return Ok(exchange.closed()),
            Ok(count) => exchange.received(buffer.get(..count).unwrap_or_default()),
            // Servers that reset or skip TLS's close after a whole answer are judged by the answer.
            Err(error) => {
                return Ok(match exchange.closed() {
                    good @ Verdict::Good { .. } => good,
                    Verdict::Bad(reason) => Verdict::bad(reason.what, format!("{} ({error})", reason.detail)),
                });
            }
        };
    }
}
