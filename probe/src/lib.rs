//! Health checks, one file a kind, and their runner; and the measuring of clients.
//!
//! ```text
//!   configuration ─► CheckDef + Target ─► CheckKey ─► Runner::apply
//!                                                         │   one task for each distinct key
//!                     KindDef ─► Exchange (pure) ◄─► transport (sockets, programs)
//!                                                         ▼
//!                                                      Verdict ─► Health (pure) ─► Event ─► publisher
//!                                                                    └─► combine (pure): a member's state
//! ```
//! - What to check: [`CheckDef`] joins a kind with its [`Timing`]; whom: [`Target`]; both make a [`CheckKey`], under
//!   which equal checks are one and states are saved (T8).
//! - How: a kind is an [`Exchange`], bytes in and bytes or a [`Verdict`] out, free of sockets and clocks. The
//!   transports connect, bound every read, and hold the whole check to one timeout.
//! - What follows: [`Health`] is the state machine over verdicts; [`combine`] joins a member's checks; [`Ramp`] is
//!   slow start.
//! - Who runs it: [`Runner`] keeps the checks of one generation of the configuration running, within a budget.
//!
//! Operators' forced states are not known here: whoever publishes states lays them over these.
//!
//! [`proximity`] measures clients, with the same sockets.

mod combine;
mod def;
mod health;
mod kind;
mod matcher;
pub mod proximity;
mod ramp;
mod runner;
mod target;
mod transport;
mod verdict;

pub use self::{
    combine::{Combined, Require, combine},
    def::{CheckDef, DefError, Initial, LONGEST, SHORTEST, Timing},
    health::{Basis, Change, Health, Observation, Saved, State},
    kind::{
        Codes, CommandDef, DnsDef, HttpDef, IcmpDef, KindDef, Roots, TcpDef, TlsDef, rcode_number,
        type_number,
    },
    matcher::{Match, Pattern},
    ramp::Ramp,
    runner::{Applied, Event, Runner, RunnerSettings, Stats, Status, Totals},
    target::{CheckKey, Host, Target},
    transport::check_once,
    verdict::{Exchange, Reason, Step, Verdict, What},
};
