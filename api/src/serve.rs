//! Listening: a unix socket for people on the machine, TCP with a bearer token for the others.

use crate::bounded::Bounded;
use crate::routes::{SharedNode, metrics_router, router};
use crate::types::ApiError;
use axum::extract::Request;
use axum::http::header::AUTHORIZATION;
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinHandle;

/// A listener of the API; dropping it closes the listener and, for a unix socket, removes its file.
#[derive(Debug)]
pub struct Server {
    task: JoinHandle<()>,
    socket: Option<PathBuf>,
    address: Option<SocketAddr>,
    /// What clients must send, where a token is wanted.
    expected: Option<Expected>,
}

type Expected = Arc<RwLock<String>>;

impl Server {
    /// Sets the token of a TCP server; of no effect on others.
    pub fn set_token(&self, token: &str) {
        if let Some(expected) = &self.expected {
            *expected.write().unwrap_or_else(PoisonError::into_inner) = bearer(token);
        }
    }

    /// The TCP address in use, with the port the system chose for port 0.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
        if let Some(path) = &self.socket {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Serves on a unix socket that its owner and group may use (mode 0660). A socket file left by a dead process is
/// replaced; one that somebody listens on, or another kind of file, is an error.
pub fn unix(path: &Path, node: SharedNode) -> io::Result<Server> {
    if let Ok(meta) = std::fs::symlink_metadata(path) {
        if !meta.file_type().is_socket() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "exists and is not a socket"));
        }
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens on it"));
        }
        std::fs::remove_file(path)?;
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent)?;
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))?;
    let app = router(node);
    let task = tokio::spawn(async move {
        let _ = axum::serve(Bounded::new(listener), app).await;
    });
    Ok(Server { task, socket: Some(path.to_owned()), address: None, expected: None })
}

/// Serves on TCP. Every request must carry `Authorization: Bearer TOKEN`.
pub fn tcp(address: SocketAddr, token: &str, node: SharedNode) -> io::Result<Server> {
    let (listener, address) = listen(address)?;
    let expected = Expected::new(RwLock::new(bearer(token)));
    let wanted = expected.clone();
    let app = router(node).layer(from_fn(move |request: Request, next: Next| {
        let wanted = wanted.clone();
        async move {
            let given = request.headers().get(AUTHORIZATION).map_or(&b""[..], |value| value.as_bytes());
            let is_good = is_same(given, wanted.read().unwrap_or_else(PoisonError::into_inner).as_bytes());
            if is_good {
                next.run(request).await
            } else {
                ApiError::new(401, "no or wrong token", Some("send \"Authorization: Bearer TOKEN\"".into()))
                    .into_response()
            }
        }
    }));
    let task = tokio::spawn(async move {
        let _ = axum::serve(Bounded::new(listener), app).await;
    });
    Ok(Server { task, socket: None, address: Some(address), expected: Some(expected) })
}

/// Serves the metrics alone, on TCP, to everybody.
pub fn metrics(address: SocketAddr, node: SharedNode) -> io::Result<Server> {
    let (listener, address) = listen(address)?;
    let app = metrics_router(node);
    let task = tokio::spawn(async move {
        let _ = axum::serve(Bounded::new(listener), app).await;
    });
    Ok(Server { task, socket: None, address: Some(address), expected: None })
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

fn listen(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    // std sets SO_REUSEADDR, so that a restart does not wait for old connections
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((TcpListener::from_std(listener)?, address))
}

/// Compares without telling by its duration where the difference is.
fn is_same(given: &[u8], expected: &[u8]) -> bool {
    given.len() == expected.len() && given.iter().zip(expected).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}
