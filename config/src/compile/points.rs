//! What clients' distances are measured from: each site, and each of its links.

use portolan_balance::proximity::{Point, PointId, Points};

use super::member::Member;
use super::names::Sites;

/// The points, in the order of the config; those of the site `own` are this node's.
pub(crate) fn points(sites: &Sites, own: &str) -> Points {
    Points::new(sites.list.iter().flat_map(|site| {
        let links = site.links.iter().map(|link| (Some(link.name.clone()), link.cost as f32));
        std::iter::once((None, 0.0)).chain(links).map(|(link, cost)| Point {
            site: site.name.clone(),
            link,
            place: site.location,
            cost,
            is_own: site.name == own,
        })
    }))
}

/// The point that stands for a member.
pub(crate) fn point_of(points: &Points, sites: &Sites, member: &Member) -> Option<PointId> {
    let link = member.link.and_then(|id| sites.link(id)).map(|link| link.name.as_str());
    points.standing_for(sites.name(member.site?), link)
}
