//! Slow start: the share that a recovered target gets (M 2.9).

use std::time::Duration;

/// The whole share.
const WHOLE: u128 = 256;

/// First nothing, then a share that grows to the whole. It starts anew with every recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ramp {
    /// No new clients for this long.
    pub standby: Duration,
    /// Then a growing share over this long.
    pub ramp_up: Duration,
}

impl Ramp {
    /// The share in 1/256, this long after a recovery; none when it is the whole again.
    pub fn share(&self, recovered_for: Duration) -> Option<u16> {
        let Some(ramping) = recovered_for.checked_sub(self.standby) else { return Some(0) };
        if ramping >= self.ramp_up {
            return None;
        }
        let share = WHOLE * ramping.as_nanos() / self.ramp_up.as_nanos();
        // Past its standby a target gets at least the smallest share, or it would never be tried.
        u16::try_from(share.max(1)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares() {
        let seconds = Duration::from_secs;
        let ramp = Ramp { standby: seconds(10), ramp_up: seconds(60) };
        for (after, share) in
            [(0, Some(0)), (9, Some(0)), (10, Some(1)), (40, Some(128)), (69, Some(251)), (70, None)]
        {
            assert_eq!(ramp.share(seconds(after)), share, "{after}");
        }
        assert_eq!(Ramp::default().share(Duration::ZERO), None);
    }
}
