//! All TCP connections in the order of their last activity, so that the one idle longest can make room.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The connections.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Grows with every activity; a connection's number is that of its last one.
    clock: u64,
    all: BTreeMap<u64, (IpAddr, Arc<Notify>)>,
    of_address: HashMap<IpAddr, BTreeSet<u64>>,
}

/// A connection's place; it leaves when this is dropped.
#[derive(Debug)]
pub(super) struct Member {
    crowd: Arc<Crowd>,
    number: AtomicU64,
}

impl Crowd {
    /// Takes a connection in. The second value is told when it has to go.
    pub(super) fn join(self: &Arc<Self>, address: IpAddr) -> (Member, Arc<Notify>) {
        let evicted = Arc::new(Notify::new());
        let number = self.lock().insert(address, evicted.clone());
        (Member { crowd: self.clone(), number: AtomicU64::new(number) }, evicted)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.lock().all.len()
    }

    /// Tells the connection idle longest to go. A newcomer whose address has more than a quarter of all connections
    /// replaces one of its own, so that one client cannot push out all others.
    pub(super) fn evict(&self, newcomer: IpAddr) -> bool {
        let mut inner = self.lock();
        let own = inner.of_address.get(&newcomer).filter(|own| own.len() * 4 > inner.all.len());
        let oldest = own.and_then(BTreeSet::first).copied().or_else(|| inner.all.keys().next().copied());
        let Some(gone) = oldest.and_then(|number| inner.remove(number)) else { return false };
        gone.1.notify_one();
        true
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn insert(&mut self, address: IpAddr, evicted: Arc<Notify>) -> u64 {
        self.clock += 1;
        self.all.insert(self.clock, (address, evicted));
        self.of_address.entry(address).or_default().insert(self.clock);
        self.clock
    }

    fn remove(&mut self, number: u64) -> Option<(IpAddr, Arc<Notify>)> {
        let gone = self.all.remove(&number)?;
        if let Some(own) = self.of_address.get_mut(&gone.0) {
            own.remove(&number);
            if own.is_empty() {
                self.of_address.remove(&gone.0);
            }
        }
        Some(gone)
    }
}

impl Member {
    /// Something happened on the connection.
    pub(super) fn touch(&self) {
        let mut inner = self.crowd.lock();
        if let Some((address, evicted)) = inner.remove(self.number.load(Ordering::Relaxed)) {
            self.number.store(inner.insert(address, evicted), Ordering::Relaxed);
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.crowd.lock().remove(self.number.load(Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_told(evicted: &Notify) -> bool {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
            tokio::time::timeout(std::time::Duration::ZERO, evicted.notified()).await.is_ok()
        })
    }

    #[test]
    fn the_one_idle_longest_goes_first() {
        let crowd = Arc::new(Crowd::default());
        let address = |i: u8| IpAddr::from([192, 0, 2, i]);
        let members: Vec<_> = (0..8).map(|i| crowd.join(address(i))).collect();
        members[0].0.touch();
        assert!(crowd.evict(address(99)));
        assert_eq!(members.iter().map(|(_, evicted)| is_told(evicted)).position(|told| told), Some(1));
        assert_eq!(crowd.len(), 7);
        members[1].0.touch(); // gone already: no effect
        assert_eq!(crowd.len(), 7);
        drop(members);
        assert_eq!(crowd.len(), 0);
        assert!(crowd.lock().of_address.is_empty());
        assert!(!crowd.evict(address(1)));
    }

    #[test]
    fn a_greedy_address_replaces_its_own() {
        let crowd = Arc::new(Crowd::default());
        let (shy, greedy) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([198, 51, 100, 1]));
        let first = crowd.join(shy);
        let others: Vec<_> = (0..3).map(|_| crowd.join(greedy)).collect();
        crowd.evict(greedy);
        assert!(!is_told(&first.1));
        assert!(is_told(&others[0].1));
    }
}
