//! Options of the ICMP sockets, without which a burst of answers overflows them (link.md case 32).
//!
//! A raw socket is given a copy of every ICMP packet of the machine: others' answers, and on loopback our own
//! requests. The kernel's filter leaves only what can answer an echo, and the buffer holds an answer for every check
//! that may be in flight.

use std::os::fd::RawFd;

/// Room for some thousand small answers, each of which the kernel counts with almost 1 kB.
const RECEIVE_BUFFER: libc::c_int = 4 << 20;
/// linux/icmp.h: a bit for each type, set for those that are dropped.
const ICMP_FILTER: libc::c_int = 1;
/// linux/icmpv6.h: likewise, for 256 types.
const ICMPV6_FILTER: libc::c_int = 1;

/// Echo reply, destination unreachable, time exceeded (RFC 792).
const WANTED_V4: [u8; 3] = [0, 3, 11];
/// Destination unreachable, time exceeded, echo reply (RFC 4443).
const WANTED_V6: [u8; 3] = [1, 3, 129];

/// Sets what the socket allows; one that refuses works as before, only less well.
pub(super) fn tune(socket: RawFd, v4: bool) {
    // With CAP_NET_ADMIN beyond the machine's limit, else up to it.
    if !set(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &RECEIVE_BUFFER) {
        set(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &RECEIVE_BUFFER);
    }
    if v4 {
        let dropped = WANTED_V4.iter().fold(u32::MAX, |bits, wanted| bits & !(1 << wanted));
        set(socket, libc::SOL_RAW, ICMP_FILTER, &dropped);
    } else {
        let mut dropped = [u32::MAX; 8];
        for wanted in WANTED_V6 {
            if let Some(word) = dropped.get_mut(usize::from(wanted / 32)) {
                *word &= !(1 << (wanted % 32));
            }
        }
        set(socket, libc::SOL_ICMPV6, ICMPV6_FILTER, &dropped);
    }
}

#[allow(unsafe_code)]
fn set<T>(socket: RawFd, level: libc::c_int, name: libc::c_int, value: &T) -> bool {
    let Ok(size) = libc::socklen_t::try_from(size_of::<T>()) else { return false };
    // SAFETY: the kernel reads `size` octets from `value`, which lives through the call; a wrong descriptor or option
    // is answered with an error.
    unsafe { libc::setsockopt(socket, level, name, std::ptr::from_ref(value).cast(), size) == 0 }
}
