//! What `proximity show` and `export` say.

use super::desk::Desk;
use super::now_ms;
use super::written::prefix as prefix_of;
use crate::explain;
use portolan_api::{
    ApiError, ProximityPoint, ProximityQuery, ProximityScore, ProximityShown, ProximityUsed, StaticEntry,
};
use portolan_balance::View;
use portolan_balance::nets::Dim;
use portolan_balance::proximity::choose::Told;
use portolan_balance::proximity::ranks::{Kind, Row};
use portolan_balance::proximity::{Cell, PointId, Prefix, Source};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Prefixes shown where nobody says how many.
const LIMIT: u32 = 100;
/// Most prefixes that can be asked for.
const LIMIT_MAX: u32 = 10_000;

impl Desk {
    pub(super) fn show(&self, query: &ProximityQuery, view: &View) -> Result<ProximityShown, ApiError> {
        let ProximityQuery { of, limit } = query;
        let limit = limit.unwrap_or(LIMIT).clamp(1, LIMIT_MAX) as usize;
        let within = of.as_deref().map(prefix_of).transpose()?;
        let address: Option<IpAddr> = of.as_deref().and_then(|of| of.parse().ok());
        // an address is of its entry, which may be shorter; a prefix is around those within it, or within one
        let is_asked =
            |prefix: &Prefix| within.is_none_or(|within| prefix.covers(&within) || within.covers(prefix));
        let mut prefixes = BTreeSet::new();
        let mut is_cut = false;
        let points: Vec<ProximityPoint> = self
            .all(view)
            .filter(|(prefix, _)| is_asked(prefix))
            .take_while(|(prefix, _)| {
                is_cut = prefixes.len() >= limit && !prefixes.contains(prefix);
                prefixes.insert(*prefix);
                !is_cut
            })
            .map(|(_, point)| point)
            .collect();
        let used = address.map(|address| self.used(address, view));
        Ok(ProximityShown { prefixes: self.table.len() as u64, points, is_cut, used })
    }

    pub(super) fn export(&self) -> Vec<ProximityPoint> {
        let ranks = self.ranks();
        let view = View { proximity: ranks, ..View::empty() };
        self.all(&view).map(|(_, point)| point).collect()
    }

    /// Statics first, then what was measured, each in the order of prefixes.
    fn all<'a>(&'a self, view: &'a View) -> impl Iterator<Item = (Prefix, ProximityPoint)> + 'a {
        let statics = self.table.statics().map(|(prefix, point, rtt_us)| {
            let written = self
                .written
                .entries()
                .find(|entry| entry.prefix == prefix.to_string() && self.point_of(entry) == Some(point));
            let words = written.map_or_else(|| "config".into(), written_by);
            let cell = Cell {
                prefix,
                point,
                rtt_us,
                loss_permille: 0,
                hops: 0,
                samples: 0,
                source: Source::Static,
                is_peers: false,
                confidence: u8::MAX,
                age_s: 0,
            };
            (prefix, ProximityPoint { written: Some(words), ..self.point(&cell, view) })
        });
        let measured = self.table.entries(now_ms()).map(|cell| (cell.prefix, self.point(&cell, view)));
        statics.chain(measured)
    }

    fn point_of(&self, entry: &StaticEntry) -> Option<PointId> {
        self.table.points().find(&entry.site, entry.link.as_deref())
    }

    fn point(&self, cell: &Cell, view: &View) -> ProximityPoint {
        let point = self.table.points().get(cell.point);
        let now_s = (now_ms() / 1000) as u32;
        let looked = view.proximity.find(cell.prefix.address(), u8::MAX, 0);
        let score = looked.row.and_then(|row| row.score(cell.point, now_s));
        ProximityPoint {
            prefix: cell.prefix.to_string(),
            site: point.map_or_else(String::new, |point| point.site.clone()),
            link: point.and_then(|point| point.link.clone()),
            rtt_us: cell.rtt_us,
            loss_permille: cell.loss_permille,
            hops: (cell.hops > 0).then_some(cell.hops),
            samples: cell.samples,
            source: cell.source.text().into(),
            by_peer: cell.is_peers,
            confidence: cell.confidence,
            age_s: cell.age_s,
            score_us: score.map(|score| score.us),
            written: None,
        }
    }

    /// What a query from this address goes by.
    fn used(&self, address: IpAddr, view: &View) -> ProximityUsed {
        let address = address.to_canonical();
        let now_s = (now_ms() / 1000) as u32;
        let class = view.nets.lookup(address).class.0 as usize;
        let operators = view.classes.get(class).map_or(0, |class| class[Dim::Isp as usize]);
        let ranks = &view.proximity;
        let Some(row) = ranks.find(address, u8::MAX, operators).row else {
            return ProximityUsed {
                address: address.to_string(),
                row: "none".into(),
                prefix: ranks.key(address).to_string(),
                why: "nothing is known of this client, of those around it, or of its operator: the next step of \
                      `choose` decides"
                    .into(),
                next: Some(self.next(address)),
                scores: Vec::new(),
            };
        };
        let head = row.head();
        let told = Told {
            prefix: Prefix::new(address, head.length),
            head,
            age_s: head.age_s(now_s),
            silent_age_s: head.silent_age_s(now_s),
        };
        ProximityUsed {
            address: address.to_string(),
            row: kind(head.kind).into(),
            prefix: told.prefix.to_string(),
            why: explain::row(&told),
            next: (!explain::is_measured(&told)).then(|| self.next(address)),
            scores: self.scores(&row, now_s),
        }
    }

    fn scores(&self, row: &Row<'_>, now_s: u32) -> Vec<ProximityScore> {
        let points = self.table.points();
        let one = |(id, _)| {
            let score = row.score(id, now_s)?;
            Some(ProximityScore {
                point: points.name(id),
                score_us: score.us,
                source: score.source.text().into(),
                by_peer: score.is_peers,
                is_guess: score.is_weak,
                is_outranked: score.is_outranked,
            })
        };
        let mut scores: Vec<_> = points.iter().filter_map(one).collect();
        scores.sort_by_key(|score| (score.is_outranked, score.score_us));
        scores
    }
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Own => "own",
        Kind::Covering => "covering",
        Kind::Operator => "operator",
        Kind::Written => "static",
        Kind::Skipped => "skipped",
    }
}

fn written_by(entry: &StaticEntry) -> String {
    let reason = if entry.reason.is_empty() { String::new() } else { format!(": {}", entry.reason) };
    let author = if entry.author.is_empty() { "somebody" } else { &entry.author };
    format!("{author}{reason}")
}
