//! The kernel's floor: a server that does nothing but receive and send in batches of 32.

use std::net::UdpSocket;

use crate::Result;
use crate::socket::Batch;

/// As many datagrams a call as the floor has always been measured with.
const BATCH: usize = 32;

/// Sends every datagram back with the response bit set, until it is killed.
///
/// The bit costs one store and makes the echo a reply for clients that look (RFC 1035 4.1.1).
///
/// # Errors
/// When the port cannot be bound or the socket fails.
pub fn serve(port: u16) -> Result<()> {
    let socket = UdpSocket::bind(("127.0.0.1", port))?;
    let mut batch = Batch::new(BATCH);
    loop {
        let count = batch.receive(&socket)?;
        for index in 0..count {
            if let Some(flags) = batch.datagram_mut(index).get_mut(2) {
                *flags |= 0x80;
            }
        }
        batch.send_back(&socket, count)?;
    }
}
