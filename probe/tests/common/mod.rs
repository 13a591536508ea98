//! What the tests share: keys, small real servers, and waiting with a deadline.
#![allow(clippy::unwrap_used, dead_code, missing_docs, unreachable_pub)]

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use portolan_probe::{CheckDef, CheckKey, Host, KindDef, Target, Timing};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

pub fn timing(interval_ms: u64, timeout_ms: u64) -> Timing {
    Timing {
        interval: Duration::from_millis(interval_ms),
        timeout: Duration::from_millis(timeout_ms),
        rise: 1,
        fall: 1,
        ..Timing::default()
    }
}

pub fn key_with(kind: KindDef, host: Host, port: u16, source: Option<IpAddr>, timing: Timing) -> CheckKey {
    CheckKey::new(Target { host, port, source }, Arc::new(CheckDef::new(kind, timing).unwrap()))
}

/// A check of this address, with time enough for a busy machine.
pub fn key(kind: KindDef, address: SocketAddr) -> CheckKey {
    key_with(kind, Host::Ip(address.ip()), address.port(), None, timing(1000, 5000))
}

/// What a server does after it has read the request.
#[derive(Clone)]
pub enum After {
    Close,
    /// Sends nothing more and never closes.
    Stay,
    /// Closes so that the client sees a reset.
    Reset,
}

/// A server that reads a request up to an empty line and sends what `answer` makes of it, piece by
/// piece. It counts its connections.
pub async fn serve(
    bind: &str,
    after: After,
    answer: impl Fn(&str) -> Vec<Vec<u8>> + Send + Sync + 'static,
) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(bind).await.unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let (counted, answer) = (Arc::clone(&count), Arc::new(answer));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(one(stream, after.clone(), Arc::clone(&answer)));
        }
    });
    (address, count)
}

async fn one(mut stream: TcpStream, after: After, answer: Arc<impl Fn(&str) -> Vec<Vec<u8>>>) {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    while !request.windows(4).any(|window| window == b"\r\n\r\n") {
        match stream.read(&mut buffer).await {
            Ok(count @ 1..) => request.extend_from_slice(&buffer[..count]),
            _ => return,
        }
    }
    stream.set_nodelay(true).unwrap();
    for piece in answer(&String::from_utf8_lossy(&request)) {
        if stream.write_all(&piece).await.is_err() {
            return;
        }
        // Lets the client read this piece before the next one, most of the time; the unit tests split everywhere.
        tokio::task::yield_now().await;
    }
    match after {
        After::Close => {
            let _ = stream.shutdown().await;
        }
        After::Stay => std::future::pending().await,
        After::Reset => {
            socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
        }
    }
}

/// A TCP address that refuses connections for as long as the socket, bound but not listening, lives.
pub fn refusing() -> (SocketAddr, socket2::Socket) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    (socket.local_addr().unwrap().as_socket().unwrap(), socket)
}

/// Tries again while the ports that the system chose for one socket are taken for another.
pub async fn until_bound<T>(mut bind: impl AsyncFnMut() -> std::io::Result<T>) -> T {
    for _ in 0..50 {
        if let Ok(bound) = bind().await {
            return bound;
        }
    }
    panic!("no port is free for all sockets");
}

/// Waits until the condition holds; panics when it does not within the limit.
pub async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "not within 20 s: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
