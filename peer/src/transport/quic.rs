//! QUIC: the only place that names quinn.

use super::StartError;
use super::connection::{self, DialError, Dialled};
use super::door::{Door, Pass};
use super::hub::Hub;
use super::tls::{ALPN, SERVER_NAME, Trust, told};
use quinn::crypto::rustls::{HandshakeData, QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, Connection, ConnectionError, EndpointConfig, IdleTimeout, Incoming, RecvStream, SendStream,
    ServerConfig, TokioRuntime, TransportConfig, VarInt,
};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

/// Octets that a peer may send ahead of the mesh, and that wait to be acknowledged by it.
const WINDOW: u32 = 1 << 20;
/// First packets that wait to be looked at, and octets that come behind them.
const WAITING: usize = 64;
const WAITING_EACH: u64 = 16 << 10;
const WAITING_ALL: u64 = 1 << 20;
/// Close codes: an end that was agreed on, and a connection beside another.
const DONE: u32 = 0;

/// The sockets.
#[derive(Debug)]
pub(super) struct Quic {
    listener: quinn::Endpoint,
    /// For dialling peers of the family that the listener cannot reach, or from another address.
    from_v4: Option<quinn::Endpoint>,
    from_v6: Option<quinn::Endpoint>,
    server: ServerConfig,
    transport: Arc<TransportConfig>,
}

/// The streams of a connection.
pub(super) struct Stream {
    connection: Connection,
    pub(super) receive: RecvStream,
    pub(super) send: SendStream,
}

impl Quic {
    pub(super) fn new(
        socket: UdpSocket,
        source: Option<IpAddr>,
        trust: &Trust,
        hold_ms: u64,
    ) -> Result<Self, StartError> {
        let listen_error = |listen| move |source| StartError::Listen { listen, protocol: "UDP", source };
        let any = SocketAddr::from(([0, 0, 0, 0], 0));
        let listen = socket.local_addr().map_err(listen_error(any))?;
        let transport = Arc::new(transport(hold_ms));
        let (tls, _) = trust.server().map_err(tls_error)?;
        let mut server = ServerConfig::with_crypto(Arc::new(server_crypto(tls)?));
        server.transport_config(transport.clone());
        server
            .max_incoming(WAITING)
            .incoming_buffer_size(WAITING_EACH)
            .incoming_buffer_size_total(WAITING_ALL);
        // tokens for later would let an address that was once proven skip the proof under a flood
        server.validation_token.sent(0);
        let endpoint = |socket, server| {
            quinn::Endpoint::new(EndpointConfig::default(), server, socket, Arc::new(TokioRuntime))
        };
        let listener = endpoint(socket, Some(server.clone())).map_err(listen_error(listen))?;
        let from = |address: IpAddr| {
            UdpSocket::bind((address, 0))
                .and_then(|socket| endpoint(socket, None))
                .map_err(|source| StartError::Source { address, source })
        };
        let (mut from_v4, mut from_v6) = (None, None);
        match source {
            Some(address @ IpAddr::V4(_)) => from_v4 = Some(from(address)?),
            Some(address @ IpAddr::V6(_)) => from_v6 = Some(from(address)?),
            None => {}
        }
        // a machine without the other family has no peers there
        if from_v4.is_none() && listen.is_ipv6() && !listen.ip().is_unspecified() {
            from_v4 = from(Ipv4Addr::UNSPECIFIED.into()).ok();
        }
        if from_v6.is_none() && listen.is_ipv4() {
            from_v6 = from(Ipv6Addr::UNSPECIFIED.into()).ok();
        }
        Ok(Self { listener, from_v4, from_v6, server, transport })
    }

    fn dialler(&self, address: SocketAddr) -> &quinn::Endpoint {
        let own = if address.is_ipv4() { &self.from_v4 } else { &self.from_v6 };
        own.as_ref().unwrap_or(&self.listener)
    }

    fn endpoints(&self) -> impl Iterator<Item = &quinn::Endpoint> {
        [Some(&self.listener), self.from_v4.as_ref(), self.from_v6.as_ref()].into_iter().flatten()
    }

    /// Closes all connections at once.
    pub(super) fn close(&self) {
        for endpoint in self.endpoints() {
            endpoint.close(VarInt::from_u32(DONE), b"this node stops");
        }
    }

    /// Waits until the other ends know.
    pub(super) async fn closed(&self) {
        for endpoint in self.endpoints() {
            endpoint.wait_idle().await;
        }
    }
}

fn transport(hold_ms: u64) -> TransportConfig {
    let mut transport = TransportConfig::default();
    // the mesh notices silence at `hold`, and says so; this is for a mesh that does not
    let idle_ms = u32::try_from(hold_ms.saturating_mul(2).clamp(4_000, 600_000)).unwrap_or(600_000);
    transport
        .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(idle_ms))))
        .max_concurrent_bidi_streams(VarInt::from_u32(1))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .stream_receive_window(VarInt::from_u32(WINDOW))
        .receive_window(VarInt::from_u32(WINDOW))
        .send_window(u64::from(WINDOW))
        .datagram_receive_buffer_size(None)
        // the first packet is repeated after 0.3 s, not 1 s: a second without an answer is three packets lost
        .initial_rtt(Duration::from_millis(100));
    transport
}

fn tls_error(error: rustls::Error) -> StartError {
    StartError::Tls { why: error.to_string() }
}

fn server_crypto(tls: rustls::ServerConfig) -> Result<QuicServerConfig, StartError> {
    QuicServerConfig::try_from(tls).map_err(|error| StartError::Tls { why: error.to_string() })
}

impl Hub {
    /// Lets peers in.
    pub(super) async fn accept_quic(self: Arc<Self>) {
        while let Some(incoming) = self.quic.listener.accept().await {
            match self.door(incoming.remote_address().ip(), incoming.remote_address_validated()) {
                Door::Enter(pass) => {
                    self.spawn(welcome(self.clone(), incoming, pass));
                }
                Door::Prove => {
                    let _ = incoming.retry();
                }
                Door::Away if incoming.remote_address_validated() => incoming.refuse(),
                Door::Away => incoming.ignore(),
            }
        }
    }
}

async fn welcome(hub: Arc<Hub>, incoming: Incoming, pass: Pass) {
    let remote = incoming.remote_address();
    let Ok((tls, verdict)) = hub.trust.server() else { return };
    let Ok(crypto) = server_crypto(tls) else { return };
    let mut server = hub.quic.server.clone();
    server.crypto = Arc::new(crypto);
    let handshake = async {
        let connection = incoming.accept_with(Arc::new(server))?.await?;
        let (send, receive) = connection.accept_bi().await?;
        Ok::<_, ConnectionError>(Stream { connection, receive, send })
    };
    let longest = Duration::from_millis(hub.timing.handshake_ms);
    let done = tokio::time::timeout(longest, handshake).await;
    drop(pass);
    match (done, verdict.take()) {
        (Ok(Ok(stream)), Some(Ok(known))) if is_ours(&stream.connection) => {
            hub.adopt(known, false, remote, connection::Stream::Quic(stream));
        }
        (_, Some(Err(refusal))) => hub.refused(remote, &refusal),
        (Ok(Ok(_)), _) => hub.failed(remote, false, "it speaks another protocol"),
        (Ok(Err(error)), _) => hub.failed(remote, false, &explain(&error)),
        (Err(_), _) => hub.failed(remote, true, "the handshake took too long"),
    }
}

/// Dials a peer.
pub(super) async fn dial(hub: &Arc<Hub>, peer: &str, address: SocketAddr) -> Result<Dialled, DialError> {
    let failed = |source: io::Error| DialError::Io { protocol: "QUIC", source };
    let (tls, verdict) = hub.trust.client(peer).map_err(|error| failed(io::Error::other(error)))?;
    let crypto = QuicClientConfig::try_from(tls).map_err(|error| failed(io::Error::other(error)))?;
    let mut client = ClientConfig::new(Arc::new(crypto));
    client.transport_config(hub.quic.transport.clone());
    let connecting = hub.quic.dialler(address).connect_with(client, address, SERVER_NAME);
    let connecting = connecting.map_err(|error| failed(io::Error::other(error)))?;
    let ended = |error: ConnectionError| {
        let silence = DialError::Silence { protocol: "UDP", address };
        let is_silence = error == ConnectionError::TimedOut;
        let error = if is_silence { silence } else { DialError::Answered(explain(&error)) };
        error.or_refusal(&verdict)
    };
    let connection = connecting.await.map_err(ended)?;
    if !is_ours(&connection) {
        return Err(DialError::Answered("it speaks another protocol".into()));
    }
    let (send, receive) = connection.open_bi().await.map_err(ended)?;
    let remote = connection.remote_address();
    match verdict.take() {
        Some(Ok(known)) => {
            Ok((known, remote, connection::Stream::Quic(Stream { connection, receive, send })))
        }
        Some(Err(refusal)) => Err(DialError::Refused(refusal)),
        None => Err(DialError::Answered("no certificate was looked at".into())),
    }
}

/// Whether both sides named our protocol; one who names none would pass otherwise.
fn is_ours(connection: &Connection) -> bool {
    let data = connection.handshake_data().and_then(|data| data.downcast::<HandshakeData>().ok());
    data.is_some_and(|data| data.protocol.as_deref() == Some(ALPN))
}

impl Stream {
    /// Why the connection ended, if it has.
    pub(super) fn why(&self) -> Option<String> {
        self.connection.close_reason().map(|error| explain(&error))
    }

    pub(super) fn close(&self, why: &str) {
        self.connection.close(VarInt::from_u32(DONE), why.as_bytes());
    }
}

/// Why a connection ended, in words that help.
fn explain(error: &ConnectionError) -> String {
    /// TLS alerts are transport errors from here on (RFC 9001 4.8).
    const CRYPTO: u64 = 0x100;
    match error {
        ConnectionError::ConnectionClosed(close) => {
            match u64::from(close.error_code).checked_sub(CRYPTO).map(u8::try_from) {
                Some(Ok(alert)) => told(alert),
                Some(Err(_)) | None => error.to_string(),
            }
        }
        ConnectionError::ApplicationClosed(close) => {
            format!("closed by the peer: {}", String::from_utf8_lossy(&close.reason))
        }
        ConnectionError::TimedOut => "nothing came for too long".into(),
        ConnectionError::VersionMismatch
        | ConnectionError::TransportError(_)
        | ConnectionError::Reset
        | ConnectionError::LocallyClosed
        | ConnectionError::CidsExhausted => error.to_string(),
    }
}
