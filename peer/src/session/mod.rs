//! One connection's state machine.
//!
//! ```text
//!            connected            HELLO accepted         urgent lane synced
//!   (none) ─────────────► Greeting ─────────────► Syncing ─────────────────► Up ◄───────────► Silent
//!                            │                       │     2/3 hold silent ▲ │ any frame ▲      │
//!             no HELLO in    │     malformed, flood, │                     └─┴───────────┘      │ hold
//!             handshake_ms,  │     replaced          │                       │                  │
//!             HELLO refused  ▼                       ▼                       ▼                  ▼
//!                         Closing (a NOTICE is left to send) ◄───────────────┴──────────────────┘
//!                            │ disconnected
//!                            ▼
//!                          (none)
//! ```
//!
//! Timers: handshake (Greeting), keepalive (to send), silence and hold (to hear), resync (a lane to ask for anew).

mod counters;
mod inbox;
mod outbox;

use std::collections::VecDeque;

use crate::bucket::Bucket;
use crate::claim::Lane;
use crate::codec::{
    Batch, Code, Decoded, Frame, Hello, Keepalive, MAX_BODY, MAX_FIRST_BODY, Malformed, Notice, Reader,
    decode, frame_type,
};
use crate::mesh::{ConnId, Limits};
use crate::own::{Own, SlotId};
pub use counters::Counters;
use inbox::Inbox;
pub(crate) use inbox::Verdict;
use outbox::Outbox;

/// Frames other than claims that wait to be sent; more are dropped and counted.
const MAX_CONTROL: usize = 256;
/// A receiver takes this many seconds' worth of its rates at once.
pub const BURST_S: u64 = 4;
/// A hold below this is taken as this.
pub const MIN_HOLD_MS: u64 = 300;
/// A rate of octets below this is taken as this: one batch must fit.
pub const MIN_BYTES_PER_S: u32 = 65_536;
/// Pause before a lane that was lost to a flood is asked for anew, and between such questions.
const RESYNC_PAUSE_MS: u64 = 1_000;
/// Window in which floods are counted.
const FLOOD_WINDOW_MS: u64 = 10_000;

/// Where a connection is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Our HELLO is on its way, theirs is awaited until then.
    Greeting { until_ms: u64 },
    /// HELLOs were exchanged.
    Up,
    /// A NOTICE may still be sent; nothing is heard.
    Closing,
}

/// What a frame means to the mesh.
pub(crate) enum Heard {
    /// Nothing more.
    Nothing,
    /// The HELLO, to be judged.
    Hello(Hello),
    /// A batch, judged.
    Batch(Batch, Verdict),
    /// A question or an answer.
    Other(Frame),
    /// The connection must be closed.
    Broken(Code, String),
}

/// One connection.
pub(crate) struct Session {
    pub(crate) conn: ConnId,
    pub(crate) peer: String,
    pub(crate) state: State,
    pub(crate) version: u16,
    pub(crate) epoch: u64,
    pub(crate) counters: Counters,
    pub(crate) rtt_ms: Option<u32>,
    pub(crate) heard_ms: u64,
    pub(crate) is_silent: bool,
    /// The peer gave a reason or a warning.
    pub(crate) has_notice: bool,
    pub(crate) inbox: [Inbox; 2],
    outbox: [Outbox; 2],
    reader: Reader,
    control: VecDeque<Vec<u8>>,
    hold_ms: u64,
    keepalive_ms: u64,
    next_keepalive_ms: u64,
    /// Their last stamp and when it came.
    stamp: Option<(u64, u64)>,
    claims_in: Bucket,
    bytes_in: Bucket,
    resyncs_in: Bucket,
    claims_out: Bucket,
    bytes_out: Bucket,
    most_items: usize,
    limits: Limits,
    floods: u32,
    floods_since_ms: u64,
}

impl Session {
    /// A connection on which our HELLO is ready to be sent.
    pub(crate) fn new(now_ms: u64, conn: ConnId, peer: &str, hello: Hello, rules: Rules) -> Self {
        let Rules { hold_ms, keepalive_ms, handshake_ms, limits } = rules;
        let in_rates = (u64::from(limits.claims_per_s), u64::from(limits.bytes_per_s.max(MIN_BYTES_PER_S)));
        let mut session = Self {
            conn,
            peer: peer.to_owned(),
            state: State::Greeting { until_ms: now_ms.saturating_add(handshake_ms) },
            version: 0,
            epoch: 0,
            counters: Counters::default(),
            rtt_ms: None,
            heard_ms: now_ms,
            is_silent: false,
            has_notice: false,
            inbox: Default::default(),
            outbox: Lane::ALL.map(Outbox::new),
            reader: Reader::new(MAX_FIRST_BODY),
            control: VecDeque::new(),
            hold_ms,
            keepalive_ms,
            next_keepalive_ms: u64::MAX,
            stamp: None,
            claims_in: Bucket::new(now_ms, in_rates.0, in_rates.0 * BURST_S),
            bytes_in: Bucket::new(now_ms, in_rates.1, in_rates.1 * BURST_S),
            resyncs_in: Bucket::new(now_ms, 1, 10),
            claims_out: Bucket::new(now_ms, 1, 1),
            bytes_out: Bucket::new(now_ms, 1, 1),
            most_items: 1,
            limits,
            floods: 0,
            floods_since_ms: now_ms,
        };
        session.control(&Frame::Hello(hello));
        session
    }

    /// Queues a frame other than claims.
    pub(crate) fn control(&mut self, frame: &Frame) -> bool {
        let has_room = self.control.len() < MAX_CONTROL;
        if has_room {
            self.control.push_back(frame.encode());
        } else {
            self.counters.control_dropped += 1;
        }
        has_room
    }

    /// Frames other than claims that wait to be sent.
    pub(crate) fn control_waiting(&self) -> usize {
        self.control.len()
    }

    /// Slots that wait to be sent.
    pub(crate) fn waiting(&self) -> usize {
        self.outbox.iter().map(Outbox::waiting).sum()
    }

    pub(crate) fn is_up(&self) -> bool {
        self.state == State::Up
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.is_up() && self.inbox[Lane::Urgent as usize].is_synced
    }

    /// The HELLO was accepted: both lanes are sent whole.
    pub(crate) fn accept(&mut self, now_ms: u64, hello: &Hello, version: u16, own: &mut Own) {
        self.state = State::Up;
        self.version = version;
        self.epoch = hello.epoch;
        self.reader.set_limit(MAX_BODY);
        // a peer that holds for less must hear from us more often
        let their_hold_ms = u64::from(hello.hold_ms).max(MIN_HOLD_MS);
        self.keepalive_ms = self.keepalive_ms.min(their_hold_ms / 3).max(MIN_HOLD_MS / 3);
        self.next_keepalive_ms = now_ms;
        // half of what it takes, so that clocks of unequal speed do no harm
        let pace = |per_s: u32| {
            let half = u64::from(per_s / 2).max(1);
            Bucket::new(now_ms, half, half * BURST_S)
        };
        self.claims_out = pace(hello.claims_per_s);
        self.bytes_out = pace(hello.bytes_per_s.max(MIN_BYTES_PER_S));
        self.most_items = hello.claims_per_s.max(1) as usize;
        for outbox in &mut self.outbox {
            outbox.sync(own, version);
        }
        self.counters.sessions += 1;
    }

    /// A slot of ours changed.
    pub(crate) fn changed(&mut self, own: &mut Own, id: SlotId) {
        let Some(key) = own.key(id) else { return };
        let is_spoken = crate::codec::since(key) <= self.version;
        if self.is_up() && is_spoken {
            let lane = key.lane();
            self.outbox[lane as usize].push(own, id);
        }
    }

    /// Everything is sent anew, for what waits could not be kept.
    pub(crate) fn sync_all(&mut self, own: &mut Own) {
        for outbox in &mut self.outbox {
            outbox.sync(own, self.version);
        }
    }

    /// Ends the session; the reason is still sent.
    pub(crate) fn close(&mut self, code: Code, text: &str, own: &mut Own) {
        self.control.clear();
        self.state = State::Closing;
        self.control(&Frame::Notice(Notice { code, text: text.to_owned() }));
        self.let_go(own);
    }

    /// Lets go of all slots.
    pub(crate) fn let_go(&mut self, own: &mut Own) {
        for outbox in &mut self.outbox {
            outbox.clear(own);
        }
    }

    /// Takes octets. Read with [`Self::next`] until there is nothing more.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.state != State::Closing {
            self.counters.bytes_in += bytes.len() as u64;
            self.reader.push(bytes);
        }
    }

    /// The next frame, and what it means.
    pub(crate) fn next(&mut self, now_ms: u64, own: &mut Own) -> Option<Heard> {
        if self.state == State::Closing {
            return None;
        }
        let octets = match self.reader.next_octets() {
            Ok(Some(octets)) => octets,
            Ok(None) => return None,
            Err(error) => return Some(broken(error)),
        };
        self.counters.frames_in += 1;
        if !self.bytes_in.take(now_ms, octets.len() as u64) {
            return Some(self.flooded(now_ms));
        }
        match decode(octets) {
            Ok(decoded) => Some(self.hear(now_ms, decoded, own)),
            Err(error) => Some(broken(error)),
        }
    }

    fn hear(&mut self, now_ms: u64, decoded: Decoded, own: &mut Own) -> Heard {
        let Decoded { frame, skipped, .. } = decoded;
        self.counters.skipped.add(skipped);
        self.heard_ms = now_ms;
        let is_greeting = matches!(self.state, State::Greeting { .. });
        match frame {
            Frame::Hello(hello) if is_greeting => Heard::Hello(hello),
            Frame::Hello(_) => Heard::Broken(Code::Malformed, "a second HELLO".into()),
            Frame::Notice(_) | Frame::Unknown(_) if is_greeting => Heard::Other(frame),
            _ if is_greeting => Heard::Broken(Code::Malformed, "a frame before HELLO".into()),
            Frame::Claims(batch) => self.hear_batch(now_ms, batch),
            Frame::Resync(lane) => self.hear_resync(now_ms, lane, own),
            Frame::Keepalive(keepalive) => {
                self.hear_keepalive(now_ms, keepalive);
                Heard::Nothing
            }
            Frame::Ask(_) | Frame::Reply(_) if self.version < 2 => {
                // a version 1 speaker does not know these types
                self.counters.skipped.frames += 1;
                Heard::Nothing
            }
            Frame::Unknown(_) => Heard::Nothing,
            Frame::Ask(_) | Frame::Reply(_) | Frame::Notice(_) => Heard::Other(frame),
        }
    }

    fn hear_batch(&mut self, now_ms: u64, mut batch: Batch) -> Heard {
        let items = batch.items.len() as u64;
        self.counters.items_in += items;
        if !self.claims_in.take(now_ms, items) {
            return self.flooded(now_ms);
        }
        let (lane, version) = (batch.lane, self.version);
        batch.items.retain(|item| {
            let key = item.change.key();
            let is_fit = key.lane() == lane && crate::codec::since(&key) <= version;
            self.counters.skipped.kinds += u64::from(!is_fit);
            is_fit
        });
        let inbox = &mut self.inbox[lane as usize];
        let verdict = inbox.judge(&batch);
        match verdict {
            Verdict::Replay => self.counters.replays += 1,
            Verdict::Gap => {
                self.counters.gaps += 1;
                inbox.lose(now_ms);
            }
            Verdict::Waiting => self.counters.gaps += 1,
            Verdict::Apply | Verdict::Stage => {}
        }
        Heard::Batch(batch, verdict)
    }

    /// Something was dropped for its rate, so both lanes may have lost a batch.
    fn flooded(&mut self, now_ms: u64) -> Heard {
        self.counters.floods += 1;
        if now_ms.saturating_sub(self.floods_since_ms) > FLOOD_WINDOW_MS {
            (self.floods, self.floods_since_ms) = (0, now_ms);
        }
        self.floods += 1;
        if self.floods > self.limits.floods {
            return Heard::Broken(Code::Flood, format!("{} frames above the rate in 10 s", self.floods));
        }
        if self.is_up() {
            for inbox in &mut self.inbox {
                inbox.lose(now_ms.saturating_add(RESYNC_PAUSE_MS));
            }
        }
        Heard::Nothing
    }

    fn hear_resync(&mut self, now_ms: u64, lane: Lane, own: &mut Own) -> Heard {
        // each costs us a full sync: more than one a second is no honest wish
        if !self.resyncs_in.take(now_ms, 1) {
            return self.flooded(now_ms);
        }
        self.outbox[lane as usize].sync(own, self.version);
        Heard::Nothing
    }

    fn hear_keepalive(&mut self, now_ms: u64, keepalive: Keepalive) {
        self.stamp = Some((keepalive.stamp, now_ms));
        if keepalive.echo != 0 {
            // our own stamp comes back; their clock is not compared with ours (T11)
            let gone_ms = now_ms.saturating_sub(keepalive.echo);
            let rtt_ms = gone_ms.saturating_sub(u64::from(keepalive.delay_ms));
            self.rtt_ms = u32::try_from(rtt_ms).ok();
        }
    }

    /// Does what is due; the reason where the connection must be closed.
    pub(crate) fn tick(&mut self, now_ms: u64) -> Option<(Code, String)> {
        match self.state {
            State::Closing => return None,
            State::Greeting { until_ms } => {
                return (now_ms >= until_ms).then(|| (Code::Handshake, "no HELLO in time".to_owned()));
            }
            State::Up => {}
        }
        let silent_ms = now_ms.saturating_sub(self.heard_ms);
        if silent_ms >= self.hold_ms {
            return Some((Code::Silence, format!("nothing heard for {silent_ms} ms")));
        }
        if now_ms >= self.next_keepalive_ms {
            self.send_keepalive(now_ms);
        }
        for lane in Lane::ALL {
            if self.inbox[lane as usize].resync_at.is_some_and(|at_ms| now_ms >= at_ms) {
                self.inbox[lane as usize].resync_at = Some(now_ms.saturating_add(self.resync_ms()));
                self.counters.resyncs_asked += 1;
                self.control(&Frame::Resync(lane));
            }
        }
        None
    }

    /// Pause until a full sync that did not begin is asked for again.
    fn resync_ms(&self) -> u64 {
        self.hold_ms.max(2 * RESYNC_PAUSE_MS)
    }

    fn send_keepalive(&mut self, now_ms: u64) {
        self.next_keepalive_ms = now_ms.saturating_add(self.keepalive_ms);
        // a slow peer needs the newest alone
        let is_waiting = |frame: &Vec<u8>| frame.get(4) == Some(&frame_type::KEEPALIVE);
        self.control.retain(|frame| !is_waiting(frame));
        let (echo, delay_ms) = match self.stamp {
            Some((stamp, at_ms)) => (stamp, u32::try_from(now_ms.saturating_sub(at_ms)).unwrap_or(u32::MAX)),
            None => (0, 0),
        };
        self.control(&Frame::Keepalive(Keepalive { stamp: now_ms.max(1), echo, delay_ms }));
    }

    /// When nothing was heard for two thirds of the hold time the peer is silent.
    pub(crate) fn silent_at(&self) -> u64 {
        self.heard_ms.saturating_add(self.hold_ms - self.hold_ms / 3)
    }

    /// When [`Self::tick`] or [`Self::transmit`] has something to do.
    pub(crate) fn deadline(&self, now_ms: u64) -> Option<u64> {
        match self.state {
            State::Closing => None,
            State::Greeting { until_ms } => Some(until_ms),
            State::Up => {
                let silent = if self.is_silent { u64::MAX } else { self.silent_at() };
                let hold = self.heard_ms.saturating_add(self.hold_ms);
                let resync = self.inbox.iter().filter_map(|inbox| inbox.resync_at).min();
                let has_claims = self.outbox.iter().any(|outbox| !outbox.is_idle());
                let pace = has_claims.then(|| self.paced_until(now_ms)).flatten();
                let fixed = [silent, hold, self.next_keepalive_ms];
                fixed.into_iter().chain(resync).chain(pace).min()
            }
        }
    }

    fn paced_until(&self, now_ms: u64) -> Option<u64> {
        self.claims_out.ready_at(now_ms).max(self.bytes_out.ready_at(now_ms))
    }

    /// The next frame to send. Claims are made when they can go, so that none waits that is outdated.
    pub(crate) fn transmit(&mut self, now_ms: u64, own: &mut Own) -> Option<Vec<u8>> {
        let frame = match self.control.pop_front() {
            Some(frame) => Some(frame),
            None if self.is_up() => self.transmit_claims(now_ms, own),
            None => None,
        }?;
        self.counters.frames_out += 1;
        self.counters.bytes_out += frame.len() as u64;
        self.bytes_out.owe(now_ms, frame.len() as u64);
        Some(frame)
    }

    fn transmit_claims(&mut self, now_ms: u64, own: &mut Own) -> Option<Vec<u8>> {
        if self.paced_until(now_ms).is_some() {
            return None;
        }
        // a batch above the peer's rate for a second might never be taken
        let most = self.most_items;
        let outgoing = self.outbox.iter_mut().find_map(|outbox| outbox.batch(own, now_ms, most))?;
        self.claims_out.owe(now_ms, outgoing.items as u64);
        self.counters.items_out += outgoing.items as u64;
        self.counters.syncs_sent += u64::from(outgoing.is_end);
        Some(outgoing.frame)
    }
}

/// What a session needs to know of its node's settings.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) hold_ms: u64,
    pub(crate) keepalive_ms: u64,
    pub(crate) handshake_ms: u64,
    pub(crate) limits: Limits,
}

fn broken(error: Malformed) -> Heard {
    Heard::Broken(Code::Malformed, error.to_string())
}
