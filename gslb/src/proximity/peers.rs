//! What goes to other nodes and comes from them: cells of the table, and questions to measure a client.
//!
//! Peers' words are claims: an own measurement goes before them, and an entry never gives way to them (P11). What is
//! told is what changed beyond the tolerance (cases G15, P10); the table sees to both.

use super::desk::Desk;
use super::{Proximity, now_ms};
use crate::engine::lock;
use portolan_balance::proximity::{Cell, Points, Prefix, Settings, Source};
use portolan_peer::ProximityCell;
use portolan_probe::proximity::{AskedBy, Refusal, Wanted};
use std::net::IpAddr;

/// Questions that wait to be sent.
pub(super) const QUESTIONS: usize = 256;

/// Somebody at these sites is to be asked how far a client is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Whose nodes to ask.
    pub sites: Vec<String>,
    /// For whom the address stands.
    pub prefix: Prefix,
    /// A client that has shown here to be there.
    pub address: IpAddr,
}

/// What a peer's question comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is known, and fresh.
    Known(Vec<ProximityCell>),
    /// It is being measured; the cells follow by themselves.
    Queued,
    /// It is not measured.
    Refused(Refusal),
}

impl Proximity {
    /// Own cells that peers are to be told of, at most `most`, with how long they hold. Each is given out once.
    #[must_use]
    pub fn cells_to_publish(&self, most: usize) -> Vec<(ProximityCell, u64)> {
        let mut desk = lock(&self.desk);
        let cells = desk.table.changed(now_ms(), most);
        cells.iter().filter_map(|cell| desk.told(cell)).collect()
    }

    /// Every own cell: what is to be told after the list of claims was lost.
    #[must_use]
    pub fn all_cells(&self) -> Vec<(ProximityCell, u64)> {
        let desk = lock(&self.desk);
        desk.table.own_cells(now_ms()).filter_map(|cell| desk.told(&cell)).collect()
    }

    /// Takes what a node at `site` measured. False where nothing changed: it is of a place that is not the author's,
    /// older than what is known, or there is no room.
    pub fn take_cell(&self, site: &str, cell: &ProximityCell) -> bool {
        lock(&self.desk).take_cell(site, cell)
    }

    /// Clients that peers are to measure from their sites.
    #[must_use]
    pub fn questions(&self) -> Vec<Question> {
        lock(&self.desk).questions.drain(..).collect()
    }

    /// Answers a peer, known by its number: from what is known when it is fresh, else by a probe within its limits
    /// and ours (P11).
    #[must_use]
    pub fn answer(&self, peer: u16, prefix: (IpAddr, u8), address: IpAddr) -> Answer {
        lock(&self.desk).answer(peer, prefix, address)
    }
}

impl Desk {
    fn told(&self, cell: &Cell) -> Option<(ProximityCell, u64)> {
        let point = self.table.points().get(cell.point)?;
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

    fn take_cell(&mut self, site: &str, cell: &ProximityCell) -> bool {
        let taken = cell_of(self.table.points(), site, cell);
        taken.is_some_and(|cell| self.table.merge_peer(now_ms(), cell))
    }

    fn answer(&mut self, peer: u16, prefix: (IpAddr, u8), address: IpAddr) -> Answer {
        let now = now_ms();
        let known = self.table.cells_of(now, address);
        let is_fresh =
            |cell: &&Cell| !cell.is_peers && u64::from(cell.age_s) * 1000 < self.table.settings().probe_ms;
        let known: Vec<ProximityCell> =
            known.iter().filter(is_fresh).filter_map(|cell| Some(self.told(cell)?.0)).collect();
        if !known.is_empty() {
            return Answer::Known(known);
        }
        let own = self.lengths().prefix_of(address);
        if !Prefix::new(prefix.0, prefix.1).covers(&own) {
            return Answer::Refused(Refusal::WrongPrefix);
        }
        match self.wish(Wanted { address, prefix: own, asked_by: AskedBy::Peer(peer) }) {
            Ok(()) | Err(Refusal::Waiting) => Answer::Queued,
            Err(refusal) => Answer::Refused(refusal),
        }
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
