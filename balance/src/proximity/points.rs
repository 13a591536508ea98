//! What is measured from.

use crate::geo;
use std::collections::BTreeMap;

/// Most points a node knows.
const MAX_POINTS: usize = 256;

/// Position of a point in [`Points`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PointId(pub u16);

/// A site, or one link of a site.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The site's name.
    pub site: String,
    /// The link's name; none is the site as a whole.
    pub link: Option<String>,
    /// Where it is: tells anycast clients, and where coordinates begin.
    pub place: Option<geo::Point>,
    /// What using it costs, in the operator's unit (PX1).
    pub cost: f32,
    /// Whether this node measures from it.
    pub is_own: bool,
}

/// All points, in the order of the config's sites and links.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Points {
    list: Vec<Point>,
    by_name: BTreeMap<(String, Option<String>), PointId>,
}

impl Points {
    /// Points; those beyond [`MAX_POINTS`] and those of a name that was before are left out.
    #[must_use]
    pub fn new(points: impl IntoIterator<Item = Point>) -> Self {
        let mut made = Self::default();
        for point in points {
            if made.list.len() == MAX_POINTS {
                break;
            }
            let name = (point.site.clone(), point.link.clone());
            if !made.by_name.contains_key(&name) {
                made.by_name.insert(name, PointId(made.list.len() as u16));
                made.list.push(point);
            }
        }
        made
    }

    /// The point of a site or link.
    #[must_use]
    pub fn find(&self, site: &str, link: Option<&str>) -> Option<PointId> {
        self.by_name.get(&(site.to_owned(), link.map(str::to_owned))).copied()
    }

    /// The point that stands for a candidate: its link's, else its site's.
    #[must_use]
    pub fn standing_for(&self, site: &str, link: Option<&str>) -> Option<PointId> {
        link.and_then(|_| self.find(site, link)).or_else(|| self.find(site, None))
    }

    /// The point with this id.
    #[must_use]
    pub fn get(&self, id: PointId) -> Option<&Point> {
        self.list.get(usize::from(id.0))
    }

    /// Every point with its id.
    pub fn iter(&self) -> impl Iterator<Item = (PointId, &Point)> {
        (0..).map(PointId).zip(&self.list)
    }

    /// For each point the others of its site: for a link the site as a whole, for that its links.
    pub(super) fn beside(&self) -> Vec<Vec<PointId>> {
        let fits = |a: &Point, b: &Point| a.site == b.site && a.link.is_some() != b.link.is_some();
        let of = |(_, this): (PointId, &Point)| {
            self.iter().filter(|(_, other)| fits(this, other)).map(|(id, _)| id).collect()
        };
        self.iter().map(of).collect()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// What people see: `site/link` or `site`.
    #[must_use]
    pub fn name(&self, id: PointId) -> String {
        match self.get(id) {
            Some(Point { site, link: Some(link), .. }) => format!("{site}/{link}"),
            Some(Point { site, link: None, .. }) => site.clone(),
            None => format!("point {}", id.0),
        }
    }
}
