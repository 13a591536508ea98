//! The decision: pure code that picks sites, links and servers.
//!
//! ```text
//! facts ─► stand ─► Standing ─┐
//! policy ─────────────────────┤
//!                             ├─► View ─► fold(service, class) ─► Row ─► pick(client, dice) ─► Decision
//! prefixes ─► nets ─► class ──┘                                   (each removal has a Why: trace)
//! ```
//!
//! Stations, in the order the data passes:
//! [`nets`] (client address → class), [`policy`] (what the operator wrote), [`facts`] (what is so now),
//! [`standing`] (facts folded ahead of queries), [`view`] (the immutable snapshot), [`ask`] (one question),
//! [`fold`] (narrow the candidates), [`proximity`] (measured distance), [`schedule`] and [`persist`] (choose), [`decide`] (the whole), [`trace`] (why).
//!
//! No clock, socket, entropy, environment, file or lock: time and dice are arguments.

pub mod ask;
pub mod decide;
pub mod facts;
pub mod fold;
pub mod geo;
pub mod hash;
pub mod nets;
pub mod persist;
pub mod policy;
pub mod proximity;
pub mod schedule;
pub mod set;
pub mod standing;
pub mod trace;
pub mod view;

pub use ask::{Ask, Client, Dice};
pub use decide::{Decision, Outcome, decide, pick};
pub use facts::{Fact, Forced, Load, State, Why};
pub use fold::{Row, fold};
pub use policy::{Candidate, Fallback, Policy, Step};
pub use schedule::Scheduler;
pub use set::{CandidateId, CandidateSet};
pub use standing::Standing;
pub use trace::{Event, Silent, Trace};
pub use view::{Service, ServiceId, View};
