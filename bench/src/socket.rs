//! UDP in batches: recvmmsg, sendmmsg and segmentation offload, which the standard library has not.
#![allow(unsafe_code)] // socket calls with arrays of messages

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Room for one datagram. Replies without EDNS end at 512, with it at 1232 (RFC 9715).
pub const DATAGRAM_BYTES: usize = 1280;

/// A batch of datagrams of up to [`DATAGRAM_BYTES`] each with their peers' addresses.
pub struct Batch {
    buffers: Vec<[u8; DATAGRAM_BYTES]>,
    addresses: Vec<libc::sockaddr_storage>,
    vectors: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

impl Batch {
    /// Room for `capacity` datagrams.
    pub fn new(capacity: usize) -> Self {
        // SAFETY: all-zero bytes are a valid value of these C structures.
        let (address, header) = unsafe { (zeroed(), zeroed()) };
        Self {
            buffers: vec![[0; DATAGRAM_BYTES]; capacity],
            addresses: vec![address; capacity],
            vectors: vec![libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; capacity],
            headers: vec![header; capacity],
        }
    }

    /// The bytes of datagram `index` of the last receive.
    pub fn datagram(&self, index: usize) -> &[u8] {
        let length = (self.headers[index].msg_len as usize).min(DATAGRAM_BYTES);
        &self.buffers[index][..length]
    }

    /// The same, to be changed in place before [`Batch::send_back`].
    pub fn datagram_mut(&mut self, index: usize) -> &mut [u8] {
        let length = (self.headers[index].msg_len as usize).min(DATAGRAM_BYTES);
        &mut self.buffers[index][..length]
    }

    /// Waits for one datagram, takes what else is there, and returns how many.
    ///
    /// # Errors
    /// What recvmmsg says; `WouldBlock` after the socket's read timeout.
    pub fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        for index in 0..self.headers.len() {
            self.point_at(index, DATAGRAM_BYTES);
        }
        // SAFETY: every header points at a vector, a buffer and an address of this batch, which outlive the call.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as libc::c_uint,
                libc::MSG_WAITFORONE,
                std::ptr::null_mut(),
            )
        };
        usize::try_from(received).map_err(|_| io::Error::last_os_error())
    }

    /// Sends the first `count` datagrams back to where they came from, as they are now.
    ///
    /// # Errors
    /// What sendmmsg says.
    pub fn send_back(&mut self, socket: &UdpSocket, count: usize) -> io::Result<()> {
        for index in 0..count {
            let length = self.headers[index].msg_len as usize;
            let address_length = self.headers[index].msg_hdr.msg_namelen;
            self.point_at(index, length);
            self.headers[index].msg_hdr.msg_namelen = address_length;
        }
        send_all(socket, &mut self.headers[..count])
    }

    fn point_at(&mut self, index: usize, length: usize) {
        self.vectors[index] =
            libc::iovec { iov_base: self.buffers[index].as_mut_ptr().cast(), iov_len: length };
        let header = &mut self.headers[index].msg_hdr;
        header.msg_iov = &raw mut self.vectors[index];
        header.msg_iovlen = 1;
        header.msg_name = (&raw mut self.addresses[index]).cast();
        header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        header.msg_control = std::ptr::null_mut();
        header.msg_controllen = 0;
        header.msg_flags = 0;
    }
}

/// A UDP socket connected to `server`, with room for every reply in flight and a read timeout.
///
/// # Errors
/// What the socket calls say.
pub fn client(server: SocketAddr, timeout: Duration) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(timeout))?;
    let bytes: libc::c_int = 4 << 20;
    // SAFETY: the pointer and the length describe one integer.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVBUF,
            (&raw const bytes).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        );
    }
    Ok(socket)
}

/// Sends `packets`, datagrams of `length` bytes each, in one call that the kernel cuts up (UDP_SEGMENT).
///
/// # Errors
/// What sendmsg says.
pub fn send_segmented(socket: &UdpSocket, packets: &[u8], length: usize) -> io::Result<()> {
    let mut vector = libc::iovec { iov_base: packets.as_ptr().cast_mut().cast(), iov_len: packets.len() };
    // u64 words keep the control message aligned
    let mut control = [0u64; 4];
    // SAFETY: zero is valid for msghdr; the control buffer holds one message with a u16, and everything pointed at
    // outlives the call; sendmsg does not write through iov_base.
    let sent = unsafe {
        let mut header: libc::msghdr = zeroed();
        header.msg_iov = &raw mut vector;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = libc::CMSG_SPACE(size_of::<u16>() as libc::c_uint) as usize;
        let message = libc::CMSG_FIRSTHDR(&raw const header);
        (*message).cmsg_level = libc::SOL_UDP;
        (*message).cmsg_type = libc::UDP_SEGMENT;
        (*message).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as libc::c_uint) as usize;
        libc::CMSG_DATA(message).cast::<u16>().write_unaligned(length as u16);
        libc::sendmsg(socket.as_raw_fd(), &raw const header, 0)
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sends `packets`, datagrams of `length` bytes each, one by one with a single sendmmsg.
///
/// # Errors
/// What sendmmsg says.
pub fn send_each(socket: &UdpSocket, packets: &[u8], length: usize) -> io::Result<()> {
    let mut vectors: Vec<libc::iovec> = packets
        .chunks(length)
        .map(|packet| libc::iovec { iov_base: packet.as_ptr().cast_mut().cast(), iov_len: packet.len() })
        .collect();
    let mut headers: Vec<libc::mmsghdr> = vectors
        .iter_mut()
        .map(|vector| {
            // SAFETY: zero is a valid value of this C structure.
            let mut header: libc::mmsghdr = unsafe { zeroed() };
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            header
        })
        .collect();
    send_all(socket, &mut headers)
}

/// sendmmsg may stop early; a message that the kernel refuses for want of room is tried again, bounded.
fn send_all(socket: &UdpSocket, headers: &mut [libc::mmsghdr]) -> io::Result<()> {
    let mut done = 0;
    let mut refusals = 0;
    while let Some(rest @ [_, ..]) = headers.get_mut(done..) {
        // SAFETY: the callers' headers point at vectors and buffers that outlive the call.
        let sent =
            unsafe { libc::sendmmsg(socket.as_raw_fd(), rest.as_mut_ptr(), rest.len() as libc::c_uint, 0) };
        match usize::try_from(sent) {
            Ok(sent) => done += sent,
            Err(_) => {
                let error = io::Error::last_os_error();
                refusals += 1;
                if refusals > 100 || !is_passing(&error) {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

fn is_passing(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| [libc::EAGAIN, libc::ENOBUFS, libc::EINTR].contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segmented_send_and_single_sends_arrive_as_the_same_datagrams() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        server.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let client = client(server.local_addr().unwrap(), Duration::from_secs(5)).unwrap();
        let packets: Vec<u8> = (0..40u8).collect();
        for send in [send_segmented, send_each] {
            send(&client, &packets, 10).unwrap();
            let mut batch = Batch::new(8);
            let mut seen = Vec::new();
            while seen.len() < 40 {
                let count = batch.receive(&server).unwrap();
                for index in 0..count {
                    assert_eq!(batch.datagram(index).len(), 10);
                    seen.extend_from_slice(batch.datagram(index));
                }
                batch.send_back(&server, count).unwrap();
            }
            assert_eq!(seen, packets);
            let mut returned = 0;
            while returned < 4 {
                returned += batch.receive(&client).unwrap();
            }
            assert_eq!(returned, 4);
        }
    }
}
