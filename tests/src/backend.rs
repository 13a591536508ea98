//! Servers behind the node: small, counted, stopped and started at will.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use socket2::SockRef;

use crate::netns::{self, Namespace};
use crate::place;

/// An HTTP/1.1 server (a TCP check is content with it too).
pub struct Backend {
    socket: SocketAddr,
    namespace: Option<String>,
    shared: Arc<Shared>,
    running: Option<(TcpListener, JoinHandle<()>)>,
}

struct Shared {
    is_stopping: AtomicBool,
    connections: AtomicUsize,
    response: Mutex<Box<Answer>>,
    requests: Mutex<Vec<String>>,
}

type Answer = dyn Fn(&str) -> String + Send;

impl Backend {
    /// A server at an own address that answers 200.
    #[must_use]
    pub fn start() -> Self {
        Self::start_at(place::own_socket())
    }

    /// A server that answers 200 at this socket.
    #[must_use]
    pub fn start_at(socket: SocketAddr) -> Self {
        let mut backend = Self::stopped(socket);
        backend.resume();
        backend
    }

    /// A server that answers 200 at this socket of a namespace.
    #[must_use]
    pub fn start_within(namespace: &Namespace, socket: SocketAddr) -> Self {
        let mut backend = Self::stopped(socket);
        backend.namespace = Some(namespace.name().to_owned());
        backend.resume();
        backend
    }

    /// A server that does not listen yet.
    #[must_use]
    pub fn stopped(socket: SocketAddr) -> Self {
        let shared = Shared {
            is_stopping: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            response: Mutex::new(Box::new(|_: &str| response(200, "ok"))),
            requests: Mutex::default(),
        };
        Self { socket, namespace: None, shared: Arc::new(shared), running: None }
    }

    /// Where it listens.
    #[must_use]
    pub fn socket(&self) -> SocketAddr {
        self.socket
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> String {
        self.socket.ip().to_string()
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.socket.port()
    }

    /// Connections so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Heads of the requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// Answers so from now on: from the head of a request to a whole response.
    pub fn answer(&self, answer: impl Fn(&str) -> String + Send + 'static) {
        *self.shared.response.lock().unwrap() = Box::new(answer);
    }

    /// Answers with this code from now on.
    pub fn answer_code(&self, code: u16) {
        self.answer(move |_| response(code, "told to"));
    }

    /// Refuses connections from now on.
    pub fn stop(&mut self) {
        let Some((listener, thread)) = self.running.take() else { return };
        self.shared.is_stopping.store(true, Ordering::SeqCst);
        // wakes the accept
        let _ = SockRef::from(&listener).shutdown(Shutdown::Both);
        let _ = thread.join();
    }

    /// Listens (again).
    pub fn resume(&mut self) {
        if self.running.is_some() {
            return;
        }
        self.shared.is_stopping.store(false, Ordering::SeqCst);
        let listener = netns::inside(self.namespace.as_deref(), || TcpListener::bind(self.socket))
            .unwrap_or_else(|error| panic!("{}: {error}", self.socket));
        let (shared, accepting) = (Arc::clone(&self.shared), listener.try_clone().unwrap());
        self.running = Some((listener, std::thread::spawn(move || serve(&accepting, &shared))));
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A whole HTTP response.
#[must_use]
pub fn response(code: u16, body: &str) -> String {
    format!("HTTP/1.1 {code} Told\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

fn serve(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.is_stopping.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else { continue };
        shared.connections.fetch_add(1, Ordering::SeqCst);
        let shared = Arc::clone(shared);
        // each on a thread of its own: a client that only connects (a TCP check) keeps nobody waiting
        std::thread::spawn(move || answer(stream, &shared));
    }
}

fn answer(stream: TcpStream, shared: &Shared) -> Option<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let response = shared.response.lock().ok()?(&head);
    shared.requests.lock().ok()?.push(head);
    reader.get_mut().write_all(response.as_bytes()).ok()
}
