//! The demo's servers: tiny HTTP on every link's address, and a control server that stops and starts them.

use super::world;
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Address and task by `site/link`.
type Servers = BTreeMap<String, (Ipv4Addr, Option<JoinHandle<()>>)>;

/// All servers; one that is stopped has no task and no socket.
#[derive(Clone)]
pub(super) struct Backends {
    port: u16,
    running: Arc<Mutex<Servers>>,
}

impl Backends {
    /// Starts a server on every link, all on one port: this one, or any where it is taken.
    pub(super) async fn start(port: u16) -> io::Result<Self> {
        let mut port = port;
        let mut last = io::Error::from(io::ErrorKind::AddrInUse);
        for _ in 0..20 {
            match Self::start_all(port).await {
                Ok(backends) => return Ok(backends),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = error,
                Err(error) => return Err(error),
            }
            // a port that is free on one address is most likely free on its neighbours
            port = TcpListener::bind((world::address(0, 0), 0)).await?.local_addr()?.port();
        }
        Err(last)
    }

    async fn start_all(port: u16) -> io::Result<Self> {
        let backends = Self { port, running: Arc::default() };
        for (address, place) in world::places() {
            backends.lock().insert(place.clone(), (address, None));
            backends.resume(&place).await?;
        }
        Ok(backends)
    }

    /// The port of all of them.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Stops a server: its address refuses connections from now on. False where there is none of this name.
    pub(super) fn stop(&self, place: &str) -> bool {
        match self.lock().get_mut(place) {
            Some((_, task)) => {
                if let Some(task) = task.take() {
                    task.abort();
                }
                true
            }
            None => false,
        }
    }

    /// Starts a stopped server again. False where there is none of this name.
    pub(super) async fn resume(&self, place: &str) -> io::Result<bool> {
        let Some(address) = self.lock().get(place).filter(|(_, task)| task.is_none()).map(|(at, _)| *at)
        else {
            return Ok(self.lock().contains_key(place));
        };
        let listener = TcpListener::bind((address, self.port)).await?;
        let task = tokio::spawn(serve(listener, place.to_owned()));
        if let Some((_, slot)) = self.lock().get_mut(place) {
            *slot = Some(task);
        }
        Ok(true)
    }

    /// Serves `POST /stop/SITE/LINK`, `POST /start/SITE/LINK` and `GET /`; returns where.
    pub(super) async fn control(&self) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind((world::CONTROL, 0)).await?;
        let address = listener.local_addr()?;
        let backends = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let backends = backends.clone();
                tokio::spawn(async move { backends.obey(stream).await });
            }
        });
        Ok(address)
    }

    async fn obey(&self, mut stream: TcpStream) {
        let Some((method, path)) = request(&mut stream).await else { return };
        let (code, text) = match (method.as_str(), path.split_at_checked(6)) {
            ("POST", Some(("/stop/", place))) if self.stop(place) => (200, format!("{place} is stopped\n")),
            ("POST", _) => match path.strip_prefix("/start/") {
                Some(place) => match self.resume(place).await {
                    Ok(true) => (200, format!("{place} is running\n")),
                    Ok(false) => (404, "no such backend\n".into()),
                    Err(error) => (500, format!("{error}\n")),
                },
                None => (404, "no such backend\n".into()),
            },
            _ => (200, self.list()),
        };
        answer(&mut stream, code, &text).await;
    }

    fn list(&self) -> String {
        let running = self.lock();
        let lines = running.iter().map(|(place, (address, task))| {
            let state = if task.is_some() { "running" } else { "stopped" };
            format!("{place} {address} {state}\n")
        });
        lines.collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Servers> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn serve(listener: TcpListener, place: String) {
    while let Ok((mut stream, _)) = listener.accept().await {
        if let Some((_, path)) = request(&mut stream).await {
            let text = if path == "/healthz" { "ok\n".to_owned() } else { format!("this is {place}\n") };
            answer(&mut stream, 200, &text).await;
        }
    }
}

/// The method and path of a request; the rest of it does not matter here.
async fn request(stream: &mut TcpStream) -> Option<(String, String)> {
    let mut head = Vec::with_capacity(1024);
    while !head.windows(4).any(|window| window == b"\r\n\r\n") && head.len() < 8192 {
        let read = timeout(Duration::from_millis(500), stream.read_buf(&mut head)).await;
        if !matches!(read, Ok(Ok(count)) if count > 0) {
            return None;
        }
    }
    let head = String::from_utf8_lossy(&head);
    let mut words = head.split_whitespace();
    Some((words.next()?.to_owned(), words.next()?.to_owned()))
}

async fn answer(stream: &mut TcpStream, code: u16, text: &str) {
    let length = text.len();
    let reason = match code {
        200 => "OK",
        404 => "Not Found",
        _ => "Error",
    };
    let response =
        format!("HTTP/1.1 {code} {reason}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}");
    let _ = stream.write_all(response.as_bytes()).await;
    let _ = stream.shutdown().await;
}
