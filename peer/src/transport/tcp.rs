//! TCP with TLS, for networks that drop UDP.

use super::StartError;
use super::connection::{self, DialError, Dialled, explain};
use super::door::{Door, Pass};
use super::hub::Hub;
use super::tls::{ALPN, SERVER_NAME};
use rustls_pki_types::ServerName;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

/// Tries to get the port: another number if any will do, the same one if an endpoint that was stopped just now has it still.
const PORT_TRIES: u32 = 60;
const PORT_WAIT: Duration = Duration::from_millis(50);
/// Wait after a failed accept: the process is out of files, or the like.
const ACCEPT_FAILED: Duration = Duration::from_millis(50);

/// The stream of a connection.
pub(super) type Stream = TlsStream<TcpStream>;

/// Binds TCP and UDP to the same port number.
pub(super) async fn bind(listen: SocketAddr) -> Result<(TcpListener, UdpSocket), StartError> {
    let mut tries = 0;
    loop {
        let (protocol, source) = match TcpListener::bind(listen).await {
            Ok(tcp) => match tcp.local_addr().and_then(UdpSocket::bind) {
                Ok(udp) => return Ok((tcp, udp)),
                Err(error) => ("UDP", error),
            },
            Err(error) => ("TCP", error),
        };
        tries += 1;
        if source.kind() != io::ErrorKind::AddrInUse || tries == PORT_TRIES {
            return Err(StartError::Listen { listen, protocol, source });
        }
        if listen.port() != 0 {
            tokio::time::sleep(PORT_WAIT).await;
        }
    }
}

/// The listener.
pub(super) struct Tcp(pub(super) TcpListener);

impl Tcp {
    /// Lets peers in.
    pub(super) async fn accept(self, hub: Arc<Hub>) {
        loop {
            let (stream, remote) = match self.0.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::debug!(%error, "cannot accept a connection of a peer");
                    tokio::time::sleep(ACCEPT_FAILED).await;
                    continue;
                }
            };
            // a TCP handshake proves the address
            match hub.door(remote.ip(), true) {
                Door::Enter(pass) => {
                    hub.spawn(welcome(hub.clone(), stream, remote, pass));
                }
                Door::Prove | Door::Away => drop(stream),
            }
        }
    }
}

async fn welcome(hub: Arc<Hub>, stream: TcpStream, remote: SocketAddr, pass: Pass) {
    let Ok((tls, verdict)) = hub.trust.server() else { return };
    let _ = stream.set_nodelay(true);
    let longest = Duration::from_millis(hub.timing.handshake_ms);
    let done = tokio::time::timeout(longest, TlsAcceptor::from(Arc::new(tls)).accept(stream)).await;
    drop(pass);
    match (done, verdict.take()) {
        (Ok(Ok(stream)), Some(Ok(known))) if stream.get_ref().1.alpn_protocol() == Some(ALPN) => {
            hub.adopt(known, false, remote, connection::Stream::Tcp(Box::new(stream.into())));
        }
        (_, Some(Err(refusal))) => hub.refused(remote, &refusal),
        (Ok(Ok(_)), _) => hub.failed(remote, false, "it speaks another protocol"),
        (Ok(Err(error)), _) => hub.failed(remote, false, &explain(&error)),
        (Err(_), _) => hub.failed(remote, true, "the handshake took too long"),
    }
}

/// Dials a peer.
pub(super) async fn dial(hub: &Arc<Hub>, peer: &str, address: SocketAddr) -> Result<Dialled, DialError> {
    let failed = |source: io::Error| DialError::Io { protocol: "TCP", source };
    let (tls, verdict) = hub.trust.client(peer).map_err(|error| failed(io::Error::other(error)))?;
    // UDP had its time, too: in a network that drops everything attempts must be short, so that its healing is seen soon
    let longest = Duration::from_millis(hub.timing.answer_ms);
    let connected = tokio::time::timeout(longest, connect(address, hub.source)).await;
    let silence = |_| DialError::Silence { protocol: "UDP and TCP", address };
    let stream = connected.map_err(silence)?.map_err(failed)?;
    let _ = stream.set_nodelay(true);
    let name = ServerName::try_from(SERVER_NAME).map_err(|error| failed(io::Error::other(error)))?;
    let stream = TlsConnector::from(Arc::new(tls)).connect(name, stream).await;
    let stream = stream.map_err(|error| DialError::Answered(explain(&error)).or_refusal(&verdict))?;
    if stream.get_ref().1.alpn_protocol() != Some(ALPN) {
        return Err(DialError::Answered("it speaks another protocol".into()));
    }
    match verdict.take() {
        Some(Ok(known)) => Ok((known, address, connection::Stream::Tcp(Box::new(stream.into())))),
        Some(Err(refusal)) => Err(DialError::Refused(refusal)),
        None => Err(DialError::Answered("no certificate was looked at".into())),
    }
}

async fn connect(address: SocketAddr, source: Option<IpAddr>) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if let Some(source) = source.filter(|source| source.is_ipv4() == address.is_ipv4()) {
        socket.bind(SocketAddr::new(source, 0))?;
    }
    socket.connect(address).await
}
