//! A TUN device: what the kernel sends into it is read here, what is written here the kernel has received.
#![allow(unsafe_code)] // one ioctl, and waiting for several descriptors with a time in microseconds

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

/// A device of the namespace in which it was opened, and gone when this is dropped.
pub(super) struct Tun {
    file: File,
}

impl Tun {
    /// A new device, in the namespace of the calling thread.
    pub(super) fn open(name: &str) -> io::Result<Self> {
        let file = File::options()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun")
            .map_err(|error| io::Error::new(error.kind(), format!("/dev/net/tun: {error}")))?;
        // SAFETY: ifreq is plain data, for which all zeros is a value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        assert!(name.len() < request.ifr_name.len(), "{name} is too long for a device");
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from.cast_signed() as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: the descriptor is open, and the kernel reads and writes only the ifreq.
        match unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } {
            0 => Ok(Self { file }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The next packet that the kernel has sent, if there is one.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> Option<usize> {
        (&self.file).read(buffer).ok().filter(|length| *length > 0)
    }

    /// Hands a packet to the kernel; whether it took it.
    pub(super) fn send(&self, packet: &[u8]) -> bool {
        (&self.file).write(packet).is_ok_and(|length| length == packet.len())
    }
}

/// Waits until one of them has a packet, at most so long.
pub(super) fn wait(devices: &[Tun], limit: Duration) {
    let mut polled: Vec<_> = devices
        .iter()
        .map(|tun| libc::pollfd { fd: tun.file.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    let limit = libc::timespec {
        tv_sec: limit.as_secs().try_into().unwrap_or(1),
        tv_nsec: limit.subsec_nanos().into(),
    };
    // SAFETY: the array has as many entries as are told, the time outlives the call, no signal mask is given.
    // Interrupted or failed it has only waited too short.
    let _ =
        unsafe { libc::ppoll(polled.as_mut_ptr(), polled.len() as _, &raw const limit, std::ptr::null()) };
}
