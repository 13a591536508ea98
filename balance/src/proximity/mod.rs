//! How far clients are from the places that can serve them, measured.
//!
//! ```text
//! samples ─► Table: entries (prefix) ─► estimator (each point) ─► score ─► shown (hysteresis) ─┐
//! peers' cells ─┘        └─► coordinates, medians: what to expect where nothing was measured ──┤
//!                                                                                              ▼
//! query: client's address ─► Ranks::find ─► scores by point ─► Step::Proximity             Ranks (immutable)
//! ```
//! The [`Table`] lives in the control plane and learns; [`Ranks`] is what it publishes for queries. All that needs
//! thinking (aging, hysteresis, what covers a prefix that was never measured) is done before publishing, so that a
//! query reads one row.
//!
//! - [`Points`]: what is measured from: a site, or a link of a site.
//! - [`Prefix`], [`Sample`], [`Cell`]: whom, one measurement, and what many come to.
//! - `estimator`: windowed minimum and its moving average for a prefix and a point.
//! - `shown`: a score as queries see it; it changes only for good reason.
//! - [`coordinates`], `medians`: predictions.
//! - [`choose`]: the step itself.

pub mod choose;
pub mod coordinates;
mod estimator;
mod medians;
mod points;
mod prefix;
pub mod ranks;
mod sample;
mod settings;
mod shown;
pub mod table;

pub use choose::{Band, Found, Missed};
pub use points::{Point, PointId, Points};
pub use prefix::Prefix;
pub use ranks::{Ranks, Score};
pub use sample::{Cell, Sample, Source};
pub use settings::{Settings, Weights};
pub use table::{Counters, Table, Wanted};
