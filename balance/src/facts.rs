//! What is so now: states, loads and operators' words. Facts come from checks, the API, and later from peers.

/// What checks say of a candidate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Checks pass, or there are none.
    #[default]
    Up,
    /// Checks fail.
    Down,
    /// No verdict yet and nothing saved; counts as `initial` says (T1).
    Unknown {
        /// `initial = up | down`.
        counts_as_up: bool,
    },
}

impl State {
    /// Whether the candidate may be answered as far as checks go.
    #[must_use]
    pub fn is_usable(self) -> bool {
        match self {
            Self::Up | Self::Unknown { counts_as_up: true } => true,
            Self::Down | Self::Unknown { counts_as_up: false } => false,
        }
    }
}

/// An operator's word, stronger than checks (T7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forced {
    /// Usable whatever the checks say.
    Up,
    /// Not usable whatever the checks say.
    Down,
    /// No new clients; the ones there may finish (slow shutdown).
    Drain,
    /// Out of service.
    Disabled,
}

/// What is known of a candidate's load. `None` is "not reported".
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Share of its capacity in use, 0.0 idle, 1.0 full; may exceed 1.
    pub share: Option<f32>,
    /// Open connections.
    pub connections: Option<u32>,
    /// Bandwidth in use, bits per second.
    pub bandwidth_bps: Option<u64>,
    /// Bandwidth there is, bits per second.
    pub bandwidth_max_bps: Option<u64>,
    /// Time to answer, microseconds.
    pub response_us: Option<u32>,
}

impl Load {
    /// Bandwidth still free, bits per second; 0 when unknown.
    #[must_use]
    pub fn bandwidth_free_bps(&self) -> u64 {
        self.bandwidth_max_bps.unwrap_or(0).saturating_sub(self.bandwidth_bps.unwrap_or(0))
    }
}

/// All that is known of one candidate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Fact {
    /// What checks say.
    pub state: State,
    /// What an operator says.
    pub forced: Option<Forced>,
    /// Share of its weight a recovering candidate gets, in 1/256 (slow start, M 2.9); `None` is all of it.
    pub ramp: Option<u16>,
    /// Its load.
    pub load: Load,
}

/// Why a candidate is not among those that can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It can be chosen.
    Usable,
    /// Its checks fail.
    CheckFailed,
    /// No verdict yet, and `initial = "down"`.
    NoVerdict,
    /// Forced down by an operator.
    ForcedDown,
    /// Draining: no new clients.
    Draining,
    /// Disabled by an operator.
    Disabled,
    /// Recovered, but not yet given any share (slow start's standby).
    Standby,
    /// Over its load threshold or connection limit.
    OverLimit,
    /// Weight 0: used only when nothing with a weight is left (case L03).
    WeightZero,
}

impl Why {
    /// The reason in words.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Usable => "usable",
            Self::CheckFailed => "its checks fail",
            Self::NoVerdict => "no check verdict yet and initial = \"down\"",
            Self::ForcedDown => "forced down by an operator",
            Self::Draining => "draining",
            Self::Disabled => "disabled by an operator",
            Self::Standby => "recovered, waiting out its slow start",
            Self::OverLimit => "over its load threshold or limit",
            Self::WeightZero => "weight 0",
        }
    }
}
