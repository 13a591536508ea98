//! DNS over TCP by hand: pieces, pauses, half-closes.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use crate::wire::PATIENCE;

/// A connection that sends what it is told.
pub struct Stream {
    tcp: TcpStream,
}

impl Stream {
    /// Connects.
    #[must_use]
    pub fn connect(server: SocketAddr) -> Self {
        let tcp = TcpStream::connect_timeout(&server, PATIENCE).unwrap();
        tcp.set_nodelay(true).unwrap();
        tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        // a peer that takes nothing must not hold a test
        tcp.set_write_timeout(Some(PATIENCE)).unwrap();
        Self { tcp }
    }

    /// Octets as they are; whether the peer still took them.
    pub fn send_raw(&mut self, octets: &[u8]) -> bool {
        self.tcp.write_all(octets).is_ok()
    }

    /// A message with its length in front.
    pub fn send(&mut self, message: &[u8]) {
        assert!(self.send_raw(&framed(message)), "the server has closed the connection");
    }

    /// No more octets from here.
    pub fn finish(&self) {
        self.tcp.shutdown(Shutdown::Write).unwrap();
    }

    /// Waits this long for anything.
    pub fn patience(&self, limit: Duration) {
        self.tcp.set_read_timeout(Some(limit)).unwrap();
    }

    /// The next message, or why there is none.
    pub fn receive(&mut self) -> Result<Vec<u8>, Silence> {
        let mut length = [0; 2];
        self.read(&mut length)?;
        let mut message = vec![0; u16::from_be_bytes(length).into()];
        self.read(&mut message)?;
        Ok(message)
    }

    /// The next message.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn message(&mut self) -> Vec<u8> {
        self.receive().unwrap_or_else(|silence| panic!("no message over TCP: {silence:?}"))
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<(), Silence> {
        self.tcp.read_exact(buffer).map_err(|error| {
            let is_late = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
            if is_late { Silence::Nothing } else { Silence::Closed }
        })
    }
}

/// Why no message came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    /// The connection has ended.
    Closed,
    /// Nothing has come yet.
    Nothing,
}

/// A message with its length in front.
#[must_use]
pub fn framed(message: &[u8]) -> Vec<u8> {
    let length = u16::try_from(message.len()).unwrap();
    [&length.to_be_bytes(), message].concat()
}
