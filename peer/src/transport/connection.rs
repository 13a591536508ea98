//! One connection: octets between a socket and the mesh. And dialling: QUIC first, TCP where UDP gets no answer.

use super::Kind;
use super::hub::{Adopted, Hub};
use super::roster::{Known, Refusal};
use super::tls::{Verdict, told};
use super::{quic, tcp};
use crate::mesh::ConnId;
use crate::trace::Cutter;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

/// Octets read at once.
const READ: usize = 16 << 10;
/// A socket that takes nothing for so long is given up.
const STALL: Duration = Duration::from_secs(15);
/// How long the other side has to take the last octets.
const FAREWELL: Duration = Duration::from_millis(400);

/// The two directions of a connection.
pub(super) enum Stream {
    Quic(quic::Stream),
    Tcp(Box<tcp::Stream>),
}

impl Stream {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Quic(_) => Kind::Quic,
            Self::Tcp(_) => Kind::Tcp,
        }
    }

    /// Closes a connection that is not taken.
    pub(super) async fn refuse(self, why: &'static str) {
        match self {
            Self::Quic(stream) => stream.close(why),
            Self::Tcp(mut stream) => {
                let _ = tokio::time::timeout(FAREWELL, stream.shutdown()).await;
            }
        }
    }
}

/// Carries octets until one side ends it.
pub(super) async fn run(hub: Arc<Hub>, adopted: Adopted, stream: Stream) {
    let Adopted { id, peer, out } = adopted;
    let why = match stream {
        Stream::Quic(mut stream) => {
            let why = carry(&hub, (id, &peer), out, &mut stream.receive, &mut stream.send).await;
            let why = stream.why().unwrap_or(why);
            stream.close(&why);
            why
        }
        Stream::Tcp(stream) => {
            let (mut receive, mut send) = tokio::io::split(*stream);
            carry(&hub, (id, &peer), out, &mut receive, &mut send).await
        }
    };
    hub.ended(id, &why);
}

/// Gives why it ended.
async fn carry(
    hub: &Hub,
    adopted: (ConnId, &str),
    mut out: mpsc::Receiver<Vec<u8>>,
    receive: &mut (impl AsyncRead + Unpin),
    send: &mut (impl AsyncWrite + Unpin),
) -> String {
    let mut cutter = Cutter::new();
    let mut octets = vec![0; READ];
    let writing = async {
        while let Some(chunk) = out.recv().await {
            hub.took(adopted.0);
            match tokio::time::timeout(STALL, async {
                send.write_all(&chunk).await?;
                send.flush().await
            })
            .await
            {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return explain(&error),
                Err(_) => return "the peer takes no data".to_owned(),
            }
        }
        // the end of what this side says; it stays to hear that the other side saw it
        let _ = tokio::time::timeout(FAREWELL, send.shutdown()).await;
        tokio::time::sleep(FAREWELL).await;
        "closed".to_owned()
    };
    let reading = async {
        loop {
            match receive.read(&mut octets).await {
                Ok(0) => return "closed by the peer".to_owned(),
                Ok(length) => {
                    hub.received(adopted, &mut cutter, octets.get(..length).unwrap_or_default());
                }
                Err(error) => return explain(&error),
            }
        }
    };
    tokio::select! {
        why = writing => why,
        why = reading => why,
    }
}

/// Why a dial brought no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    /// This node refuses who answered.
    #[error("{0}")]
    Refused(Refusal),
    /// Who answered refuses this node, or does not understand it.
    #[error("{0}")]
    Answered(String),
    /// Nobody answered.
    #[error("no answer by {protocol} from {address}")]
    Silence { protocol: &'static str, address: SocketAddr },
    /// The system refused.
    #[error("{protocol}: {source}")]
    Io { protocol: &'static str, source: io::Error },
}

impl DialError {
    /// Whether somebody answered, so that another transport would bring the same.
    fn is_an_answer(&self) -> bool {
        match self {
            Self::Refused(_) | Self::Answered(_) => true,
            Self::Silence { .. } | Self::Io { .. } => false,
        }
    }

    /// What the log knows it by.
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::Refused(refusal) => refusal.label(),
            Self::Answered(_) => "answered",
            Self::Silence { .. } => "silence",
            Self::Io { .. } => "io",
        }
    }

    /// After a handshake: what the verifier found counts more than how the handshake ended.
    pub(super) fn or_refusal(self, verdict: &Verdict) -> Self {
        match verdict.take() {
            Some(Err(refusal)) => Self::Refused(refusal),
            Some(Ok(_)) | None => self,
        }
    }
}

/// A connection whose other end is known.
pub(super) type Dialled = (Known, SocketAddr, Stream);

/// Dials by QUIC. When UDP gets no answer in time TCP is tried as well, and the first that is done is taken.
pub(super) async fn dial(
    hub: &Arc<Hub>,
    peer: &str,
    address: SocketAddr,
    is_quic_only: bool,
) -> Result<Dialled, DialError> {
    let longest = Duration::from_millis(hub.timing.handshake_ms);
    let by_quic = async {
        let silence = DialError::Silence { protocol: "UDP", address };
        tokio::time::timeout(longest, quic::dial(hub, peer, address)).await.unwrap_or(Err(silence))
    };
    tokio::pin!(by_quic);
    if is_quic_only {
        return by_quic.await;
    }
    let by_tcp = async {
        let silence = DialError::Silence { protocol: "UDP and TCP", address };
        tokio::time::timeout(longest, tcp::dial(hub, peer, address)).await.unwrap_or(Err(silence))
    };
    tokio::pin!(by_tcp);
    tokio::select! {
        first = &mut by_quic => match first {
            Ok(dialled) => return Ok(dialled),
            Err(error) if error.is_an_answer() => return Err(error),
            Err(_) => return by_tcp.await,
        },
        () = tokio::time::sleep(Duration::from_millis(hub.timing.answer_ms)) => {}
    }
    tokio::select! {
        first = &mut by_quic => match first {
            Ok(dialled) => Ok(dialled),
            Err(error) if error.is_an_answer() => Err(error),
            Err(_) => by_tcp.await,
        },
        second = &mut by_tcp => second,
    }
}

/// An error of a stream, in words that help.
pub(super) fn explain(error: &io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::AlertReceived(alert)) => told(u8::from(*alert)),
        Some(_) | None => error.to_string(),
    }
}
