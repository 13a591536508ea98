//! What an answered query tells those who measure clients. Apart from the hot path: most servers measure nobody.

use super::{Answered, Item, Now, Query, Snapshot, Tally, Transport};
use crate::measure::{Evidence, Measure, Sighting};
use crate::wire::write::Writer;
use portolan_balance::{Step, View};

/// A query that was answered.
pub(super) struct Told<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) query: &'a Query<'a>,
    pub(super) item: &'a Item,
    pub(super) answered: &'a Answered,
    pub(super) has_good_cookie: bool,
}

/// Tells of its client where distance counts, and asks it to come by TCP where that is due.
#[cold]
#[inline(never)]
pub(super) fn measured(
    measure: &Measure,
    told: &Told<'_>,
    now: Now,
    tally: Tally<'_>,
    writer: &mut Writer<'_>,
) {
    let Told { snapshot, query, item, answered, has_good_cookie } = *told;
    let source = query.source.ip().to_canonical();
    let is_unmeasured = answered.is_unmeasured;
    let subnet = item.subnet.filter(|_| goes_by_subnet(snapshot, item));
    let evidence = match query.transport {
        Transport::Tcp => Evidence::Stream,
        Transport::Udp if has_good_cookie => Evidence::Cookie,
        Transport::Udp => Evidence::Plain,
    };
    if is_unmeasured || (tally.credit.refreshes() && is_by_distance(&snapshot.view, item)) {
        measure.tell(Sighting { source, subnet, evidence, is_unmeasured }, now.mono_ms);
    }
    match query.transport {
        Transport::Tcp => measure.came(source, now.mono_s()),
        Transport::Udp => {
            measure.earn(tally.credit);
            // a reply that is truncated brings the client here anyway
            if is_unmeasured
                && !writer.is_truncated()
                && measure.solicits(source, subnet, now.mono_s(), tally.credit)
            {
                writer.truncate();
                tally.stats.solicited.add_one();
            }
        }
    }
}

/// Whether the service that was asked for goes by client subnets.
fn goes_by_subnet(snapshot: &Snapshot, item: &Item) -> bool {
    let lane = item.node.and_then(|node| snapshot.catalog.expect(node, item.parsed.qtype));
    lane.is_none_or(|lane| lane.ecs)
}

/// Whether the service that was asked for goes by distance.
fn is_by_distance(view: &View, item: &Item) -> bool {
    let service = item.known.and_then(|(service, _)| view.service(service));
    service
        .is_some_and(|service| service.policy.steps.iter().any(|step| matches!(step, Step::Proximity { .. })))
}
