//! Measuring clients: how far they are from this site, and from each of its links.
//!
//! ```text
//! passive:  a resolver comes by TCP ─► TCP_INFO ─► Passive ──────────────────────────┐
//! active:   a query without a row ─► Wanted ─► Pacer (pure) ─► Prober (sockets) ─────┴─► Sample
//!                                      └─ address, earned, interval, pace: or a Refusal
//! ```
//! - Passive measuring costs nobody a packet ([`passive`]).
//! - Active probing is off unless enabled, and polite: whom it may reach is decided by [`AddressRules`], who has earned
//!   it by what its queries have shown ([`Evidence`]), when by the [`Pacer`]. No forged query and no peer can make it
//!   a reflector or turn it faster than its limits (X, T14).

mod address;
mod pace;
pub mod passive;
mod prefix;
mod prober;
mod shoot;
mod sightings;

pub use self::{
    address::AddressRules,
    pace::{
        AskedBy, Limits, MOST_IN_FLIGHT, MOST_PER_S, Method, Outcome, PaceCounters, Pacer, Policy, Probe,
        ProbeId, Refusal, Sender, Standing, Wanted,
    },
    passive::{Passive, PassiveCounters, PassiveSettings},
    prefix::{Lengths, Prefixes},
    prober::{Prober, ProberCounters, ProberSettings},
    sightings::Evidence,
};
