//! Records as text and JSON.

use super::{Direction, Record};
use crate::codec::{Change, Decoded, Frame, Skipped};
use crate::pki::certificate::Date;
use serde::Serialize;
use std::fmt;

/// A record for programs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Traced {
    /// When, by the clock of the node that wrote it.
    pub at: String,
    /// `received` or `sent`.
    pub direction: &'static str,
    /// The peer.
    pub peer: String,
    /// The connection.
    pub conn: u64,
    /// Octets on the way.
    pub octets: usize,
    /// What it says; none when it is no frame.
    pub frame: Option<Frame>,
    /// What this version did not know in it.
    pub skipped: Option<Skipped>,
    /// Why it is no frame.
    pub error: Option<String>,
}

/// A record for people: a line, and one for each claim in it.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a>(pub &'a Record);

impl Record {
    /// For programs.
    #[must_use]
    pub fn traced(&self) -> Traced {
        let Self { direction, peer, conn, octets, .. } = self;
        let (frame, skipped, error) = match self.decode() {
            Ok(Decoded { frame, skipped, .. }) => {
                (Some(frame), (skipped != Skipped::default()).then_some(skipped), None)
            }
            Err(error) => (None, None, Some(error.to_string())),
        };
        let direction = match direction {
            Direction::Received => "received",
            Direction::Sent => "sent",
        };
        let (at, peer) = (self.at(), peer.clone());
        Traced { at, direction, peer, conn: *conn, octets: octets.len(), frame, skipped, error }
    }

    /// For people.
    #[must_use]
    pub fn told(&self) -> Told<'_> {
        Told(self)
    }

    fn at(&self) -> String {
        let seconds = Date(i64::try_from(self.at_unix_ms / 1000).unwrap_or(i64::MAX)).to_string();
        format!("{}.{:03}Z", seconds.trim_end_matches('Z'), self.at_unix_ms % 1000)
    }
}

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let record = self.0;
        let arrow = match record.direction {
            Direction::Received => "<-",
            Direction::Sent => "->",
        };
        write!(f, "{} {arrow} {} #{} ", record.at(), record.peer, record.conn)?;
        let octets = record.octets.len();
        let Decoded { frame, skipped, .. } = match record.decode() {
            Ok(decoded) => decoded,
            Err(error) => {
                let first: Vec<_> = record.octets.iter().take(32).map(|byte| format!("{byte:02x}")).collect();
                return write!(f, "no frame ({octets} octets): {error}; it begins {}", first.join(" "));
            }
        };
        match &frame {
            Frame::Hello(hello) => write!(f, "HELLO {}", json(hello))?,
            Frame::Claims(batch) => {
                let (count, number, lane) = (batch.items.len(), batch.number, json(&batch.lane));
                let sync = if batch.is_sync { ", full sync" } else { "" };
                let begin = if batch.is_begin { ", begins" } else { "" };
                let end = if batch.is_end { ", ends" } else { "" };
                let lane = lane.trim_matches('"');
                write!(f, "CLAIMS {lane} {number} ({count} items, {octets} octets{sync}{begin}{end})")?;
            }
            Frame::Resync(lane) => write!(f, "RESYNC {}", json(lane).trim_matches('"'))?,
            Frame::Ask(ask) => write!(f, "ASK {}", json(ask))?,
            Frame::Reply(reply) => write!(f, "REPLY {}", json(reply))?,
            Frame::Keepalive(keepalive) => write!(f, "KEEPALIVE {}", json(keepalive))?,
            Frame::Notice(notice) => write!(f, "NOTICE {}", json(notice))?,
            Frame::Unknown(kind) => write!(f, "unknown frame of type {kind} ({octets} octets)")?,
        }
        if skipped != Skipped::default() {
            write!(f, " skipped {}", json(&skipped))?;
        }
        if let Frame::Claims(batch) = &frame {
            for item in &batch.items {
                let lifetime = item.lifetime_ms.map_or(String::new(), |left| format!(" for {left} ms"));
                match &item.change {
                    Change::Set(claim) => write!(f, "\n    {}{lifetime} {}", item.sequence, json(claim))?,
                    Change::Withdrawn(key) => write!(f, "\n    {} withdrawn {}", item.sequence, json(key))?,
                }
            }
        }
        Ok(())
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|error| format!("({error})"))
}
