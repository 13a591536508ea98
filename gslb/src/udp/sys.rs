//! The calls that the standard library has not: recvmmsg, sendmmsg, pktinfo, affinity.
#![allow(unsafe_code)] // socket calls with arrays of messages

use super::NOBODY;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::AsRawFd;
use std::ptr::{null_mut, read_unaligned, write_unaligned};

/// What a query usually fits into. These lie side by side: a whole batch is in few pages and cache lines. An odd number
/// of cache lines, so that their heads do not all fall into one cache set.
const SHORT_BYTES: usize = 5 * 64;
/// Room for one query; longer ones are cut and then malformed.
const QUERY_BYTES: usize = 4096;
/// Room for an address of either family.
const NAME_WORDS: usize = size_of::<libc::sockaddr_in6>().div_ceil(size_of::<u64>());
/// Room for the control message with the destination, in words: header and `in6_pktinfo`.
const CONTROL_WORDS: usize = 8;

/// Buffers of one thread for whole batches. Nothing is allocated after `new`.
pub(super) struct Batch {
    /// The first [`SHORT_BYTES`] of each query.
    short: Box<[u8]>,
    /// Behind room for those, the rest of each query.
    long: Box<[u8]>,
    names: Box<[[u64; NAME_WORDS]]>,
    controls: Box<[[u64; CONTROL_WORDS]]>,
    // the vectors are only read by the kernel, through the headers
    in_vectors: Box<[[libc::iovec; 2]]>,
    in_headers: Box<[libc::mmsghdr]>,
    out_vectors: Box<[libc::iovec]>,
    out_headers: Box<[libc::mmsghdr]>,
    /// Headers the last receive has written to.
    used: usize,
}

impl Batch {
    pub(super) fn new(slots: usize) -> Self {
        // SAFETY: all-zero bytes are a valid value of these C structures.
        let (vector, header): (libc::iovec, libc::mmsghdr) = unsafe { (zeroed(), zeroed()) };
        let mut batch = Self {
            short: vec![0; slots * SHORT_BYTES].into(),
            long: vec![0; slots * QUERY_BYTES].into(),
            names: vec![[0; NAME_WORDS]; slots].into(),
            controls: vec![[0; CONTROL_WORDS]; slots].into(),
            in_vectors: vec![[vector; 2]; slots].into(),
            in_headers: vec![header; slots].into(),
            out_vectors: vec![vector; slots].into(),
            out_headers: vec![header; slots].into(),
            used: slots,
        };
        for slot in 0..slots {
            let part =
                |bytes: &mut [u8]| libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
            batch.in_vectors[slot] = [
                part(&mut batch.short[slot * SHORT_BYTES..][..SHORT_BYTES]),
                part(&mut batch.long[slot * QUERY_BYTES..][..QUERY_BYTES][SHORT_BYTES..]),
            ];
            let header = &mut batch.in_headers[slot].msg_hdr;
            header.msg_iov = batch.in_vectors[slot].as_mut_ptr();
            header.msg_iovlen = 2;
            header.msg_name = (&raw mut batch.names[slot]).cast();
            header.msg_control = (&raw mut batch.controls[slot]).cast();
        }
        batch
    }

    /// Waits for a datagram, takes what else is there, and returns how many.
    pub(super) fn receive(&mut self, socket: &socket2::Socket) -> io::Result<usize> {
        for header in &mut self.in_headers[..self.used] {
            header.msg_hdr.msg_namelen = size_of::<[u64; NAME_WORDS]>() as libc::socklen_t;
            header.msg_hdr.msg_controllen = size_of::<[u64; CONTROL_WORDS]>() as _;
            header.msg_len = 0;
        }
        self.used = 0;
        // SAFETY: every header points at two vectors, their buffers, a name and a control buffer of this batch. They are on
        // the heap, are never moved or shrunk, and outlive the call.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.in_headers.as_mut_ptr(),
                self.in_headers.len() as libc::c_uint,
                libc::MSG_WAITFORONE,
                null_mut(),
            )
        };
        // after an error it is unknown which headers were written to
        self.used = usize::try_from(received)
            .map_or(self.in_headers.len(), |count| count + 1)
            .min(self.in_headers.len());
        let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        for slot in 0..received {
            if self.in_headers[slot].msg_len as usize > SHORT_BYTES {
                let head = &self.short[slot * SHORT_BYTES..][..SHORT_BYTES];
                self.long[slot * QUERY_BYTES..][..SHORT_BYTES].copy_from_slice(head);
            }
        }
        Ok(received)
    }

    /// Whether the last receive ended with nothing, as it does on a socket that was shut down.
    pub(super) fn is_end(&self) -> bool {
        self.in_headers.first().is_some_and(|header| header.msg_len == 0)
    }

    /// A datagram of the last receive, and who sent it.
    pub(super) fn get(&self, slot: usize) -> (&[u8], SocketAddr) {
        let (Some(header), Some(name)) = (self.in_headers.get(slot), self.names.get(slot)) else {
            return (&[], NOBODY);
        };
        let length = (header.msg_len as usize).min(QUERY_BYTES);
        let (bytes, stride) =
            if length > SHORT_BYTES { (&self.long, QUERY_BYTES) } else { (&self.short, SHORT_BYTES) };
        let start = slot * stride;
        (bytes.get(start..start + length).unwrap_or_default(), source(name, header.msg_hdr.msg_namelen))
    }

    /// Sends the replies to the first `count` datagrams back to where they came from, and from where they were sent
    /// to. A reply that cannot be sent is told to `failed` and passed over.
    pub(super) fn send<'a>(
        &mut self,
        socket: &socket2::Socket,
        count: usize,
        reply: impl Fn(usize) -> Option<&'a [u8]>,
        mut failed: impl FnMut(io::Error),
    ) {
        let mut ready = 0;
        for slot in 0..count.min(self.in_headers.len()) {
            let Some(bytes) = reply(slot) else { continue };
            let received = self.in_headers[slot].msg_hdr;
            if received.msg_namelen == 0 {
                continue;
            }
            // the kernel only reads the bytes, though the type says otherwise
            self.out_vectors[ready] =
                libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
            let vector = &raw mut self.out_vectors[ready];
            let header = &mut self.out_headers[ready].msg_hdr;
            header.msg_name = received.msg_name;
            header.msg_namelen = received.msg_namelen;
            header.msg_iov = vector;
            header.msg_iovlen = 1;
            header.msg_controllen = from_destination(&mut self.controls[slot], received.msg_controllen) as _;
            header.msg_control = if header.msg_controllen == 0 { null_mut() } else { received.msg_control };
            ready += 1;
        }
        let mut sent = 0;
        while sent < ready {
            let waiting = &mut self.out_headers[sent..ready];
            // SAFETY: the headers point at names and control buffers of this batch and at the replies, which the
            // caller lends for the call.
            let done = unsafe {
                libc::sendmmsg(socket.as_raw_fd(), waiting.as_mut_ptr(), waiting.len() as libc::c_uint, 0)
            };
            match usize::try_from(done) {
                Ok(done) if done > 0 => sent += done,
                Ok(_) | Err(_) => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        failed(error);
                        sent += 1;
                    }
                }
            }
        }
    }
}

/// Turns the control message that told where a query was sent to into one that sends from there, and returns its
/// length. The route decides on the interface, except for link-local addresses, which mean nothing without one.
fn from_destination(control: &mut [u64; CONTROL_WORDS], length: usize) -> usize {
    let header_bytes = size_of::<libc::cmsghdr>();
    if length < header_bytes {
        return 0;
    }
    let start = control.as_mut_ptr().cast::<u8>();
    // SAFETY: the buffer holds more than a header and the larger pktinfo, and unaligned accesses are allowed for.
    unsafe {
        let header: libc::cmsghdr = read_unaligned(start.cast());
        let data = start.add(header_bytes);
        match (header.cmsg_level, header.cmsg_type) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                let mut info: libc::in_pktinfo = read_unaligned(data.cast());
                info.ipi_ifindex = 0;
                write_unaligned(data.cast(), info);
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                let mut info: libc::in6_pktinfo = read_unaligned(data.cast());
                if !Ipv6Addr::from(info.ipi6_addr.s6_addr).is_unicast_link_local() {
                    info.ipi6_ifindex = 0;
                }
                write_unaligned(data.cast(), info);
            }
            _ => return 0,
        }
        length
    }
}

fn source(name: &[u64; NAME_WORDS], length: libc::socklen_t) -> SocketAddr {
    let at = std::ptr::from_ref(name);
    // SAFETY: an address of any family begins with its family, and the room is larger.
    let family: libc::sa_family_t = unsafe { read_unaligned(at.cast()) };
    match libc::c_int::from(family) {
        libc::AF_INET if length as usize >= size_of::<libc::sockaddr_in>() => {
            // SAFETY: the room is as large as the larger address, and its family says which it is.
            let name: libc::sockaddr_in = unsafe { read_unaligned(at.cast()) };
            let address = Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr));
            SocketAddr::new(IpAddr::V4(address), u16::from_be(name.sin_port))
        }
        libc::AF_INET6 if length as usize >= size_of::<libc::sockaddr_in6>() => {
            // SAFETY: as above.
            let name: libc::sockaddr_in6 = unsafe { read_unaligned(at.cast()) };
            let address = Ipv6Addr::from(name.sin6_addr.s6_addr);
            let port = u16::from_be(name.sin6_port);
            SocketAddr::V6(SocketAddrV6::new(address, port, name.sin6_flowinfo, name.sin6_scope_id))
        }
        _ => NOBODY,
    }
}

/// Asks the kernel to tell where each datagram was sent to.
pub(super) fn ask_for_destination(socket: &socket2::Socket, is_v6: bool) -> io::Result<()> {
    let (level, option) = if is_v6 {
        (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO)
    } else {
        (libc::IPPROTO_IP, libc::IP_PKTINFO)
    };
    set_option(socket, level, option, 1)
}

/// Whether the kernel may fragment replies. Without, they go out with DF set, as RFC 9715 3.1 has it, which also saves
/// drawing an IP identifier for each. What strangers say about MTUs is ignored in both cases: a forged ICMP must not make
/// replies fail.
pub(super) fn set_fragmenting(socket: &socket2::Socket, is_fragmenting: bool) {
    let is_v6 = socket.local_addr().is_ok_and(|address| address.is_ipv6());
    let (level, option, value) = match (is_v6, is_fragmenting) {
        (false, true) => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_OMIT),
        (false, false) => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE),
        (true, true) => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_OMIT),
        (true, false) => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE),
    };
    let _ = set_option(socket, level, option, value);
}

/// As much room as can be had: beyond the system's limit with the privilege, up to it without.
pub(super) fn enlarge_buffers(socket: &socket2::Socket, bytes: usize) {
    let value = bytes as libc::c_int;
    if set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, value).is_err() {
        let _ = socket.set_recv_buffer_size(bytes);
    }
    if set_option(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, value).is_err() {
        let _ = socket.set_send_buffer_size(bytes);
    }
}

fn set_option(
    socket: &socket2::Socket,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the pointer and the length describe one integer.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The CPUs this process may use.
#[must_use]
pub fn cpus() -> Vec<usize> {
    // SAFETY: an all-zero set is valid, and the call writes at most its size.
    let found = unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        let result = libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set);
        (result == 0).then_some(set)
    };
    let cpus: Vec<usize> = found.map_or_else(Vec::new, |set| {
        // SAFETY: the numbers are below the size of the set.
        (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
    });
    if cpus.is_empty() { vec![0] } else { cpus }
}

/// Keeps the calling thread on one CPU.
pub(super) fn pin(cpu: usize) -> io::Result<()> {
    // SAFETY: an all-zero set is valid; the number comes from `cpus`, so it is below the size of the set.
    let result = unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        libc::CPU_SET(cpu % libc::CPU_SETSIZE as usize, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lifts the soft limit of open files to the hard one: every TCP connection is a file.
pub fn raise_file_limit() {
    // SAFETY: the structure is plain numbers, written by one call and read by the other.
    unsafe {
        let mut limit: libc::rlimit = zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            let _ = libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// Seconds and milliseconds of a coarse clock: no system call, a few nanoseconds.
pub(crate) fn coarse(clock: libc::clockid_t) -> (u64, u64) {
    // SAFETY: the structure is plain numbers that the call writes.
    let time = unsafe {
        let mut time: libc::timespec = zeroed();
        libc::clock_gettime(clock, &raw mut time);
        time
    };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    (seconds, u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000_000)
}
