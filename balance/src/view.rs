//! The immutable snapshot that every decision reads.

use crate::nets::{DIMS, Nets};
use crate::policy::Policy;
use crate::proximity::Ranks;
use crate::standing::Standing;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Position of a service in [`View::services`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceId(pub u32);

/// One service: what was written, and how things stand.
#[derive(Clone, Debug)]
pub struct Service {
    /// What the operator wrote.
    pub policy: Arc<Policy>,
    /// Facts folded ahead of queries.
    pub standing: Standing,
}

/// Policy and facts of one moment. A new one replaces it as a whole.
#[derive(Clone, Debug)]
pub struct View {
    /// Address → class.
    pub nets: Arc<Nets>,
    /// Class → value of each dimension.
    pub classes: Arc<[[u32; DIMS]]>,
    /// Measured distances.
    pub proximity: Arc<Ranks>,
    /// By [`ServiceId`].
    pub services: Vec<Arc<Service>>,
    /// Turns of round robin, by [`ServiceId`]; they outlive a view.
    pub turns: Arc<Turns>,
    /// Counts up with every view of a process.
    pub generation: u64,
}

impl View {
    /// A view that serves nothing.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            nets: Arc::new(Nets::empty()),
            classes: Arc::from([[0; DIMS]].as_slice()),
            proximity: Arc::new(Ranks::empty()),
            services: Vec::new(),
            turns: Arc::new(Turns::new(0)),
            generation: 0,
        }
    }

    /// The service with this id.
    #[inline]
    #[must_use]
    pub fn service(&self, id: ServiceId) -> Option<&Service> {
        self.services.get(id.0 as usize).map(Arc::as_ref)
    }
}

/// A turn counter for each service, shared by all threads.
#[derive(Debug)]
pub struct Turns(Box<[AtomicU32]>);

impl Turns {
    /// Counters for `services` services, all at 0.
    #[must_use]
    pub fn new(services: usize) -> Self {
        Self((0..services).map(|_| AtomicU32::new(0)).collect())
    }

    /// The next turn of a service.
    #[inline]
    #[must_use]
    pub fn next(&self, id: ServiceId) -> u64 {
        self.0.get(id.0 as usize).map_or(0, |turn| u64::from(turn.fetch_add(1, Ordering::Relaxed)))
    }

    /// The turn the next ask will get, without taking it: for `explain`.
    #[must_use]
    pub fn peek(&self, id: ServiceId) -> u64 {
        self.0.get(id.0 as usize).map_or(0, |turn| u64::from(turn.load(Ordering::Relaxed)))
    }

    /// Sets a service's turn, for a reload that moves it to another id.
    pub fn set(&self, id: ServiceId, turn: u64) {
        if let Some(slot) = self.0.get(id.0 as usize) {
            slot.store(turn as u32, Ordering::Relaxed);
        }
    }
}
