//! A router in user space between namespaces, which holds each packet back for as long as a wide-area network would:
//! kernels without netem have nothing for that.
//!
//! ```text
//!  namespace A ─ TUN ─┐                                    ┌─ TUN ─ namespace B
//!                     ├─► Router: route, drop, delay ─────►┤
//!  namespace B ─ TUN ─┘   (pure, by path from A to B)      └─ TUN ─ namespace A
//! ```
//! One thread of the test reads all devices. It and the devices are gone with the [`Relay`], and with the test's
//! process, however that ends.

mod router;
mod tun;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ipnet::IpNet;

use crate::netns;
use router::Router;
pub(crate) use router::checksum;
pub use router::{Counts, Path};
use tun::Tun;

/// The longest wait for packets: the end of the relay is noticed within.
const NAP: Duration = Duration::from_millis(20);
/// Packets read from one device before the next one has its turn.
const BATCH: usize = 64;
/// No packet is larger.
const LARGEST: usize = 65_535;

/// Where a namespace meets the relay.
pub struct Port {
    /// The namespace.
    pub namespace: String,
    /// The device to make in it.
    pub device: String,
    /// What lies behind it.
    pub nets: Vec<IpNet>,
}

/// A running relay.
pub struct Relay {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    is_ending: AtomicBool,
    router: Mutex<Router>,
}

impl Relay {
    /// Makes the devices and starts; jitter and loss follow from the seed. Every path is open and without delay.
    pub fn start(ports: Vec<Port>, seed: u64) -> io::Result<Self> {
        let open = |port: &Port| netns::inside(Some(&port.namespace), || Tun::open(&port.device));
        let devices = ports.iter().map(open).collect::<io::Result<Vec<_>>>()?;
        let router = Router::new(ports.into_iter().map(|port| port.nets).collect(), seed);
        let shared = Arc::new(Shared { is_ending: AtomicBool::new(false), router: Mutex::new(router) });
        let running = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("relay".into()).spawn(move || running.run(&devices))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Changes the path from one port to another, by their places in the list; the way back is another path.
    pub fn change(&self, from: usize, to: usize, change: impl FnOnce(&mut Path)) {
        change(self.shared.router().path(from, to));
    }

    /// What became of the packets so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared.router().counts
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.is_ending.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn router(&self) -> MutexGuard<'_, Router> {
        // counters and paths are whole after every step, a test that failed in between changes nothing
        self.router.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, devices: &[Tun]) {
        let begin = Instant::now();
        let mut buffer = vec![0; LARGEST];
        while !self.is_ending.load(Ordering::SeqCst) {
            let next_due = self.router().next_due();
            let nap = next_due.map_or(NAP, |due| due.saturating_sub(begin.elapsed()).min(NAP));
            tun::wait(devices, nap);
            for (from, device) in devices.iter().enumerate() {
                for _ in 0..BATCH {
                    let Some(length) = device.receive(&mut buffer) else { break };
                    self.router().arrive(begin.elapsed(), from, buffer[..length].to_vec());
                }
            }
            self.deliver(devices, begin);
        }
    }

    fn deliver(&self, devices: &[Tun], begin: Instant) {
        for _ in 0..BATCH * devices.len() {
            let Some((to, packet)) = self.router().depart(begin.elapsed()) else { break };
            if !devices[to].send(&packet) {
                self.router().counts.refused += 1;
            }
        }
    }
}
