//! One round: a prefix is measured from every point, by the first method that is answered.
//!
//! ```text
//! first point:  ICMP x3 ─silent─► DNS x3 ─silent─► TCP x3 ─silent─► lost
//!                  └─ one answered: the others of the three follow, their minimum is the sample
//! other points: the method that was answered; or each method once, where the first point heard nothing
//! ```

use std::net::IpAddr;

use portolan_balance::proximity::{PointId, Sample, Source};

use super::{Method, Outcome, Wanted};

/// A point as a round sees it: where it is, and the address to send from.
pub(super) type Place = (PointId, Option<IpAddr>);

/// A round under way. At most one probe of it is on the road.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) wanted: Wanted,
    places: Vec<Place>,
    methods: Vec<Method>,
    tries: u8,
    /// Which place is being measured, by which method, for which time.
    place: usize,
    method: usize,
    tried: u8,
    best: Option<Best>,
    /// The last method here that really sent something.
    sent_by: Option<Method>,
    /// The method that was answered at a place before.
    answered_by: Option<Method>,
    has_sent: bool,
}

#[derive(Clone, Copy, Debug)]
struct Best {
    rtt_us: u32,
    hops: Option<u8>,
}

/// What follows a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Another one.
    Probe,
    /// Nothing. Tells whether anything was answered; `None` where nothing could be sent.
    End(Option<bool>),
}

impl Round {
    /// A round; none where there is nowhere to measure from, or no method.
    pub(super) fn new(wanted: Wanted, places: Vec<Place>, methods: &[Method], tries: u8) -> Option<Self> {
        (!places.is_empty() && !methods.is_empty()).then(|| Self {
            wanted,
            places,
            methods: methods.to_vec(),
            tries: tries.max(1),
            place: 0,
            method: 0,
            tried: 0,
            best: None,
            sent_by: None,
            answered_by: None,
            has_sent: false,
        })
    }

    /// The probe that is due: how, and from where.
    pub(super) fn due(&self) -> Option<(Method, Option<IpAddr>)> {
        Some((self.method()?, self.places.get(self.place)?.1))
    }

    /// What became of the probe that was due. The sample is that of a point that is done with.
    pub(super) fn step(&mut self, outcome: Outcome) -> (Option<Sample>, Next) {
        self.tried += 1;
        if let Some(method) = self.method().filter(|_| outcome != Outcome::Unable) {
            self.sent_by = Some(method);
            self.has_sent = true;
        }
        if let Outcome::Answered { rtt_us, hops } = outcome {
            let is_better = self.best.is_none_or(|best| rtt_us < best.rtt_us);
            if is_better {
                self.best = Some(Best { rtt_us, hops });
            }
        }
        // A place where all was silent before makes this one cheap until something is heard.
        let is_first = self.place == 0 || self.answered_by.is_some() || self.best.is_some();
        let most = if is_first { self.tries } else { 1 };
        let is_over = match outcome {
            Outcome::Answered { .. } | Outcome::Silent => self.tried >= most,
            // it would be no different the next time
            Outcome::Refused | Outcome::Unable => true,
        };
        if !is_over {
            return (None, Next::Probe);
        }
        self.tried = 0;
        if self.best.is_none() && self.answered_by.is_none() && self.method + 1 < self.methods.len() {
            self.method += 1;
            return (None, Next::Probe);
        }
        let sample = self.leave_place();
        let next = if self.place < self.places.len() {
            Next::Probe
        } else {
            Next::End(self.has_sent.then_some(self.answered_by.is_some()))
        };
        (sample, next)
    }

    /// Goes on to the next place, with what this one has shown.
    fn leave_place(&mut self) -> Option<Sample> {
        let (point, _) = *self.places.get(self.place)?;
        let best = self.best.take();
        if best.is_some() {
            self.answered_by = self.method();
        }
        let sent_by = self.sent_by.take();
        self.place += 1;
        self.method = self
            .answered_by
            .and_then(|answered| self.methods.iter().position(|method| *method == answered))
            .unwrap_or(0);
        Some(Sample {
            prefix: self.wanted.prefix,
            point,
            rtt_us: best.map(|best| best.rtt_us),
            hops: best.and_then(|best| best.hops),
            source: source(sent_by?),
        })
    }

    fn method(&self) -> Option<Method> {
        self.methods.get(self.method).copied()
    }
}

const fn source(method: Method) -> Source {
    match method {
        Method::Icmp => Source::Icmp,
        Method::Dns => Source::DnsProbe,
        Method::Tcp => Source::TcpProbe,
    }
}
