//! What goes to other nodes and comes from them: cells of the table, and questions to measure a client.
//!
//! ```text
//! mesh events ─► Inbox (bounded) ─► Desk: Table::merge_peer, answers ─► Sent ─► mesh
//! ```
//! Peers' words are claims: an own measurement goes before them, and an entry never gives way to them (P11). What is
//! told is what changed beyond the tolerance, at most so many a turn (cases G15, P10).

use super::desk::Desk;
use super::{Proximity, now_ms};
use crate::engine::lock;
use crate::peers::Line;
use portolan_balance::proximity::{Cell, Points, Prefix, Settings, Source};
use portolan_peer::{Ask, Claim, Outcome, ProximityCell, Published, Refusal as Refused, Reply};
use portolan_probe::proximity::{AskedBy, Refusal, Wanted};
use std::collections::VecDeque;
use std::net::IpAddr;

/// Questions that wait to be sent.
pub(super) const QUESTIONS: usize = 256;
/// Cells of peers that wait to be taken.
const CELLS: usize = 65_536;
/// Questions of peers that wait, and that are being measured.
const ASKS: usize = 256;
/// Cells told in one turn for they have changed, and for there is somebody new: some hundreds and thousands a second.
const AT_ONCE: usize = 100;
const ANEW_AT_ONCE: usize = 500;
/// How long an answer of a peer is waited for.
const DEADLINE_MS: u32 = 10_000;

/// What came from peers and was not looked at yet. Whoever hears peers has more urgent things to do than to wait for
/// the desk.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    cells: VecDeque<(String, ProximityCell)>,
    asks: VecDeque<(u16, String, Ask)>,
    dropped: u64,
}

/// A peer's question that is being measured.
#[derive(Debug)]
pub(super) struct Pending {
    peer: String,
    nonce: u64,
    address: IpAddr,
    until_ms: u64,
}

/// Somebody at these sites is to be asked how far a client is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) sites: Vec<String>,
    /// For whom the address stands.
    pub(super) prefix: Prefix,
    /// A client that has shown here to be there.
    pub(super) address: IpAddr,
}

/// What is to be sent.
#[derive(Debug, Default)]
pub(super) struct Sent {
    cells: Vec<(ProximityCell, u64)>,
    replies: Vec<(String, Reply)>,
    questions: Vec<Question>,
}

impl Proximity {
    /// A node at `site` says what it measured, `age_s` seconds ago beside what the cell itself says.
    pub(crate) fn heard(&self, site: &str, cell: &ProximityCell, age_s: u32) {
        let mut inbox = lock(&self.inbox);
        if inbox.cells.len() >= CELLS {
            inbox.dropped += 1;
            return;
        }
        let age_s = cell.age_s.saturating_add(age_s);
        inbox.cells.push_back((site.to_owned(), ProximityCell { age_s, ..cell.clone() }));
    }

    /// A peer asks; its number is its own for its share of our limits.
    pub(crate) fn asked(&self, number: u16, peer: String, ask: Ask) {
        let mut inbox = lock(&self.inbox);
        if inbox.asks.len() >= ASKS {
            inbox.dropped += 1;
            return;
        }
        inbox.asks.push_back((number, peer, ask));
    }

    /// Everything is to be told anew: there is a new endpoint.
    pub(crate) fn tell_all(&self) {
        lock(&self.desk).tells_all = true;
    }
}

impl Desk {
    /// Looks at what came.
    pub(super) fn hear(&mut self, inbox: Inbox) {
        let Inbox { cells, asks, dropped } = inbox;
        self.counts.inbox_dropped += dropped;
        let now = now_ms();
        for (site, cell) in cells {
            let Some(cell) = cell_of(self.table.points(), &site, &cell) else { continue };
            if self.table.merge_peer(now, cell) {
                self.news.insert(cell.prefix);
            }
        }
        for (number, peer, ask) in asks {
            self.answer(number, peer, &ask);
        }
    }

    /// What is to be sent now.
    pub(super) fn sent(&mut self, is_due: bool) -> Sent {
        let now = now_ms();
        let mut replies = std::mem::take(&mut self.replies);
        let pending = std::mem::take(&mut self.pending);
        for it in pending {
            let cells = self.fresh(it.address);
            let outcome = match (cells.is_empty(), now < it.until_ms) {
                (false, _) => Outcome::Measured,
                (true, false) => Outcome::Silent,
                (true, true) => {
                    self.pending.push(it);
                    continue;
                }
            };
            replies.push((it.peer, Reply { nonce: it.nonce, outcome, cells }));
        }
        let questions = self.questions.drain(..).collect();
        let mut cells = Vec::new();
        if is_due {
            if std::mem::take(&mut self.tells_all) {
                self.told_anew = self.table.own_cells(now).map(|cell| (now, cell)).collect();
            }
            let rest = self.told_anew.len().saturating_sub(ANEW_AT_ONCE);
            let anew = self.told_anew.split_off(rest).into_iter().map(|(then, cell)| {
                let age_s = u32::try_from(now.saturating_sub(then) / 1000).unwrap_or(u32::MAX);
                Cell { age_s: cell.age_s.saturating_add(age_s), ..cell }
            });
            // what has changed meanwhile comes last, and so holds
            let told: Vec<Cell> = anew.chain(self.table.changed(now, AT_ONCE)).collect();
            cells = told.iter().filter_map(|cell| self.told(cell)).collect();
        }
        Sent { cells, replies, questions }
    }

    fn told(&self, cell: &Cell) -> Option<(ProximityCell, u64)> {
        let point = self.table.points().get(cell.point).filter(|point| point.is_own)?;
        let said = ProximityCell {
            prefix: (cell.prefix.address(), cell.prefix.length()),
            site: point.site.clone(),
            link: point.link.clone(),
            rtt_us: cell.rtt_us,
            loss_permille: cell.loss_permille,
            hops: cell.hops,
            samples: cell.samples,
            source: cell.source.code(),
            confidence: cell.confidence,
            age_s: cell.age_s,
        };
        Some((said, left_ms(cell, self.table.settings())))
    }

    /// Own cells of an address that were measured not long ago.
    fn fresh(&self, address: IpAddr) -> Vec<ProximityCell> {
        let most_ms = self.table.settings().probe_ms;
        let is_fresh = |cell: &&Cell| !cell.is_peers && u64::from(cell.age_s) * 1000 < most_ms;
        let cells = self.table.cells_of(now_ms(), address);
        cells.iter().filter(is_fresh).filter_map(|cell| Some(self.told(cell)?.0)).collect()
    }

    /// From what is known when it is fresh, else by a probe, within the asker's limits and ours (P11).
    fn answer(&mut self, number: u16, peer: String, ask: &Ask) {
        let Ask { nonce, prefix: (net, length), address, deadline_ms } = *ask;
        let cells = self.fresh(address);
        if !cells.is_empty() {
            self.replies.push((peer, Reply { nonce, outcome: Outcome::Known, cells }));
            return;
        }
        let prefix = self.lengths().prefix_of(address);
        let result = if Prefix::new(net, length).covers(&prefix) {
            self.wish(Wanted { address, prefix, asked_by: AskedBy::Peer(number) })
        } else {
            Err(Refusal::WrongPrefix)
        };
        let refusal = match result {
            Ok(()) | Err(Refusal::Waiting) if self.pending.len() < ASKS => {
                let until_ms = now_ms() + u64::from(deadline_ms.min(DEADLINE_MS));
                self.pending.push(Pending { peer, nonce, address, until_ms });
                return;
            }
            Ok(()) | Err(Refusal::Waiting) => Refusal::QueueFull,
            Err(refusal) => refusal,
        };
        let outcome = Outcome::Refused(refused(refusal));
        self.replies.push((peer, Reply { nonce, outcome, cells: Vec::new() }));
    }
}

impl Sent {
    /// Sends it. How many cells the mesh had no room for.
    pub(super) fn by(self, line: &Line) -> u64 {
        let Self { cells, replies, questions } = self;
        if (cells.is_empty() && replies.is_empty() && questions.is_empty()) || !line.is_open() {
            return 0;
        }
        let sent = line.change(|mesh, now_ms| {
            for (peer, reply) in replies {
                // one that is gone has its deadline
                let _ = mesh.reply(now_ms, &peer, reply);
            }
            for Question { sites, prefix, address } in questions {
                for site in sites {
                    let peers = mesh.settings().peers.iter().filter(|peer| peer.site == site);
                    let names: Vec<String> = peers.map(|peer| peer.name.clone()).collect();
                    let ask = Ask {
                        nonce: fastrand::u64(..),
                        prefix: (prefix.address(), prefix.length()),
                        address,
                        deadline_ms: DEADLINE_MS,
                    };
                    // any node there measures from there
                    let _ = names.iter().any(|name| mesh.ask(now_ms, name, ask).is_ok());
                }
            }
            let mut untold = 0;
            for (cell, left_ms) in cells {
                match mesh.publish(now_ms, Claim::Proximity(cell), Some(left_ms)) {
                    Published::Changed | Published::Same => {}
                    Published::Refused(_) | Published::Full => untold += 1,
                }
            }
            untold
        });
        sent.unwrap_or(0)
    }
}

/// A peer's cell by our points; none where it speaks for a place that is not its own, or names none of ours.
fn cell_of(points: &Points, site: &str, cell: &ProximityCell) -> Option<Cell> {
    let ProximityCell {
        prefix: (address, length),
        site: of,
        link,
        rtt_us,
        loss_permille,
        hops,
        samples,
        source,
        confidence,
        age_s,
    } = cell;
    if of != site {
        return None;
    }
    Some(Cell {
        prefix: Prefix::new(*address, *length),
        point: points.find(of, link.as_deref())?,
        rtt_us: *rtt_us,
        loss_permille: *loss_permille,
        hops: *hops,
        samples: *samples,
        source: Source::from_code(*source)?,
        is_peers: true,
        confidence: *confidence,
        age_s: *age_s,
    })
}

/// How long a cell still holds.
fn left_ms(cell: &Cell, settings: &Settings) -> u64 {
    let ttl_ms = if cell.source.is_passive() { settings.passive_ttl_ms } else { settings.active_ttl_ms };
    ttl_ms.saturating_sub(u64::from(cell.age_s) * 1000)
}

fn refused(refusal: Refusal) -> Refused {
    match refusal {
        Refusal::Off | Refusal::NoPoint => Refused::Off,
        Refusal::OptedOut => Refused::OptOut,
        Refusal::NotEarned | Refusal::UntrustedSubnet => Refused::Unseen,
        Refusal::PeerRate => Refused::Rate,
        Refusal::Waiting
        | Refusal::TooSoon
        | Refusal::BackedOff
        | Refusal::QueueFull
        | Refusal::TableFull
        | Refusal::WaitedTooLong => Refused::Budget,
        Refusal::Unspecified
        | Refusal::Loopback
        | Refusal::Private
        | Refusal::LinkLocal
        | Refusal::Multicast
        | Refusal::Broadcast
        | Refusal::Documentation
        | Refusal::Bogon
        | Refusal::Own
        | Refusal::Anycast
        | Refusal::WrongPrefix => Refused::Target,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use portolan_balance::proximity::Point;

    /// A node speaks for its own site only, and of places that we know.
    #[test]
    fn whose_cells_are_taken() {
        let point = |site: &str, link: Option<&str>| Point {
            site: site.into(),
            link: link.map(str::to_owned),
            place: None,
            cost: 0.0,
            is_own: false,
        };
        let points = Points::new([point("here", None), point("there", None), point("there", Some("ct"))]);
        let cell = |site: &str, link: Option<&str>, source| ProximityCell {
            prefix: ([192, 0, 2, 0].into(), 24),
            site: site.into(),
            link: link.map(str::to_owned),
            rtt_us: 5_000,
            loss_permille: 0,
            hops: 0,
            samples: 1,
            source,
            confidence: 9,
            age_s: 3,
        };
        for (author, site, link, source, expected) in [
            ("there", "there", None, 4, Some(1)),
            ("there", "there", Some("ct"), 1, Some(2)),
            ("there", "there", Some("cu"), 1, None),
            ("there", "here", None, 4, None),
            ("mars", "mars", None, 4, None),
            ("there", "there", None, 99, None),
        ] {
            let taken = cell_of(&points, author, &cell(site, link, source));
            assert_eq!(taken.map(|cell| cell.point.0), expected, "{author} {site} {link:?} {source}");
            assert!(taken.is_none_or(|cell| cell.is_peers));
        }
    }
}
