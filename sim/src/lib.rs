//! A seeded world over the pure cores: how good the decisions are, and what agreement costs.
//!
//! ```text
//! parameters ─► generate ─► world file ─► world (checked) ─┬─► believed: tables and policy, wrong where the world says
//!                                                          └─► engine: truth ─► samples ─► balance ─► decisions
//!                                                                                     report ◄─ regret, probes, changes
//! ```
//! Stations: [`generate`] (worlds from a seed), [`world`] (a world file, checked), `believed` (what the program is
//! told), [`engine`] (the run), [`report`] (figures beside those of simpler ways to choose). Apart from those,
//! [`peers`] (what agreement between many nodes costs).

mod believed;
pub mod engine;
pub mod generate;
pub mod peers;
pub mod report;
pub mod world;

pub use believed::Strategy;
pub use engine::{Options, Outcome, run};
pub use report::Report;
pub use world::{World, from_text};
