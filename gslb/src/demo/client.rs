//! The demo's own small dig: one query over a real socket.

use portolan_dns::name::Name;
use portolan_dns::present::{Presented, present};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::time::timeout;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Asks for the IPv4 addresses of a name with a client subnet.
pub(super) async fn ask(server: SocketAddr, name: &Name, subnet: (Ipv4Addr, u8)) -> io::Result<Presented> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    socket.connect(server).await?;
    let id = fastrand::u16(..);
    socket.send(&query(id, name, subnet)).await?;
    let mut buffer = [0; 4096];
    loop {
        let length = timeout(PATIENCE, socket.recv(&mut buffer)).await??;
        let reply = buffer.get(..length).unwrap_or_default();
        if reply.first_chunk() == Some(&id.to_be_bytes()) {
            return present(reply)
                .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a DNS message"));
        }
    }
}

/// RFC 1035 4.1, RFC 6891 6.1.2, RFC 7871 6.
fn query(id: u16, name: &Name, (address, length): (Ipv4Addr, u8)) -> Vec<u8> {
    let mut bytes = id.to_be_bytes().to_vec();
    bytes.extend([0, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
    bytes.extend_from_slice(name.as_wire());
    bytes.extend([0, 1, 0, 1]);
    let prefix = usize::from(length.div_ceil(8)).min(4);
    let option = 4 + prefix as u8;
    bytes.extend([0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, option + 4, 0, 8, 0, option, 0, 1, length, 0]);
    bytes.extend_from_slice(&address.octets()[..prefix]);
    bytes
}
