//! The file of what was measured, little end first. Points go by name, so that another order of sites changes nothing.
//!
//! ```text
//! "PORTPRX1" · unix seconds (8) · points (2) · [ site (1 + n) · link (1 + n), empty is none ]*
//!            · [ family and length (2) · bits (16) · point (2) · rtt µs (4) · loss (2) · hops (1) · samples (4)
//!                · source (1) · is_peers (1) · confidence (1) · age s (4) ]* · FNV-1a of all before (8)
//! ```

use portolan_balance::proximity::{Cell, PointId, Points, Prefix, Source};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const MAGIC: &[u8; 8] = b"PORTPRX1";
const RECORD: usize = 38;

/// A file that was read.
pub(super) struct Saved<'a> {
    /// When it was written.
    pub(super) unix_s: u64,
    points: Vec<(&'a str, Option<&'a str>)>,
    records: &'a [[u8; RECORD]],
}

pub(super) fn encode(unix_s: u64, points: &Points, cells: impl Iterator<Item = Cell>) -> Vec<u8> {
    let mut octets = MAGIC.to_vec();
    octets.extend(unix_s.to_le_bytes());
    octets.extend((points.len() as u16).to_le_bytes());
    for (_, point) in points.iter() {
        for name in [point.site.as_str(), point.link.as_deref().unwrap_or_default()] {
            // the config allows no names so long
            let name = name.as_bytes().get(..usize::from(u8::MAX)).unwrap_or(name.as_bytes());
            octets.push(name.len() as u8);
            octets.extend(name);
        }
    }
    for cell in cells {
        let (family, bits) = match cell.prefix.address() {
            IpAddr::V4(v4) => (4, u128::from(v4.to_bits())),
            IpAddr::V6(v6) => (6, v6.to_bits()),
        };
        octets.extend([family, cell.prefix.length()]);
        octets.extend(bits.to_le_bytes());
        octets.extend(cell.point.0.to_le_bytes());
        octets.extend(cell.rtt_us.to_le_bytes());
        octets.extend(cell.loss_permille.to_le_bytes());
        octets.push(cell.hops);
        octets.extend(cell.samples.to_le_bytes());
        octets.extend([cell.source.code(), u8::from(cell.is_peers), cell.confidence]);
        octets.extend(cell.age_s.to_le_bytes());
    }
    let sum = sum(&octets);
    octets.extend(sum.to_le_bytes());
    octets
}

/// What a file holds; none where it is not of this form, or not as it was written.
pub(super) fn decode(octets: &[u8]) -> Option<Saved<'_>> {
    let (content, written) = octets.split_last_chunk()?;
    if u64::from_le_bytes(*written) != sum(content) {
        return None;
    }
    let rest = content.strip_prefix(MAGIC)?;
    let (unix_s, rest) = rest.split_first_chunk()?;
    let (count, mut rest) = rest.split_first_chunk()?;
    let mut points = Vec::new();
    for _ in 0..u16::from_le_bytes(*count) {
        let (site, link);
        (site, rest) = name(rest)?;
        (link, rest) = name(rest)?;
        points.push((site, Some(link).filter(|link| !link.is_empty())));
    }
    let (records, []) = rest.as_chunks() else { return None };
    Some(Saved { unix_s: u64::from_le_bytes(*unix_s), points, records })
}

fn name(octets: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = octets.split_first()?;
    let (name, rest) = rest.split_at_checked(usize::from(*length))?;
    Some((std::str::from_utf8(name).ok()?, rest))
}

impl Saved<'_> {
    /// The cells of points that there still are.
    pub(super) fn cells(&self, points: &Points) -> impl Iterator<Item = Cell> {
        let ids: Vec<Option<PointId>> =
            self.points.iter().map(|(site, link)| points.find(site, *link)).collect();
        self.records.iter().filter_map(move |record| cell(record, &ids))
    }
}

fn cell(record: &[u8; RECORD], ids: &[Option<PointId>]) -> Option<Cell> {
    let mut rest = record.as_slice();
    let [family, length] = take(&mut rest)?;
    let bits = u128::from_le_bytes(take(&mut rest)?);
    let address: IpAddr = match family {
        4 => Ipv4Addr::from_bits(u32::try_from(bits).ok()?).into(),
        6 => Ipv6Addr::from_bits(bits).into(),
        _ => return None,
    };
    let point = u16::from_le_bytes(take(&mut rest)?);
    let rtt_us = u32::from_le_bytes(take(&mut rest)?);
    let loss_permille = u16::from_le_bytes(take(&mut rest)?);
    let [hops] = take(&mut rest)?;
    let samples = u32::from_le_bytes(take(&mut rest)?);
    let [source, is_peers, confidence] = take(&mut rest)?;
    let age_s = u32::from_le_bytes(take(&mut rest)?);
    Some(Cell {
        prefix: Prefix::new(address, length),
        point: ids.get(usize::from(point)).copied().flatten()?,
        rtt_us,
        loss_permille,
        hops,
        samples,
        source: Source::from_code(source)?,
        is_peers: is_peers != 0,
        confidence,
        age_s,
    })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*first)
}

fn sum(octets: &[u8]) -> u64 {
    octets
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, octet| (sum ^ u64::from(*octet)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use portolan_balance::proximity::Point;

    fn points(names: &[(&str, Option<&str>)]) -> Points {
        Points::new(names.iter().map(|(site, link)| Point {
            site: (*site).into(),
            link: link.map(str::to_owned),
            place: None,
            cost: 0.0,
            is_own: false,
        }))
    }

    fn cells() -> [Cell; 2] {
        let cell = Cell {
            prefix: Prefix::new([203, 0, 113, 0].into(), 24),
            point: PointId(1),
            rtt_us: 12_345,
            loss_permille: 7,
            hops: 9,
            samples: 70_000,
            source: Source::Solicited,
            is_peers: false,
            confidence: 200,
            age_s: 4,
        };
        let other = Prefix::new("2001:db8:5::".parse().unwrap(), 48);
        [cell, Cell { prefix: other, point: PointId(0), is_peers: true, source: Source::Icmp, ..cell }]
    }

    #[test]
    fn cells_come_back_by_the_names_of_their_points() {
        let old = points(&[("beijing", None), ("beijing", Some("ct"))]);
        let octets = encode(77, &old, cells().into_iter());
        let saved = decode(&octets).unwrap();
        assert_eq!(saved.unix_s, 77);
        assert!(saved.cells(&old).eq(cells()));
        let new = points(&[("ashburn", None), ("beijing", Some("ct"))]);
        assert_eq!(saved.cells(&new).collect::<Vec<_>>(), [cells()[0]]);
        let moved = points(&[("beijing", Some("ct")), ("beijing", None)]);
        let ids: Vec<_> = saved.cells(&moved).map(|cell| cell.point.0).collect();
        assert_eq!(ids, [0, 1]);
    }

    #[test]
    fn a_file_that_is_not_whole_is_none() {
        let old = points(&[("beijing", None), ("beijing", Some("ct"))]);
        let octets = encode(77, &old, cells().into_iter());
        for length in 0..octets.len() {
            assert!(decode(&octets[..length]).is_none(), "{length}");
        }
        for at in 0..octets.len() {
            let mut broken = octets.clone();
            broken[at] ^= 0x10;
            assert!(decode(&broken).is_none(), "{at}");
        }
        assert!(decode(b"PORTCHO1 is another file altogether").is_none());
    }

    /// A file that somebody made on purpose: whatever it says, nothing panics and nothing strange comes out.
    #[test]
    fn noise_with_a_good_sum() {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        let known = points(&[("a", None), ("b", None)]);
        for _ in 0..2_000 {
            let mut octets = encode(1, &known, cells().into_iter());
            octets.truncate(octets.len() - 8);
            for _ in 0..random.usize(1..20) {
                let at = random.usize(0..octets.len());
                octets[at] = random.u8(..);
            }
            let sum = sum(&octets);
            octets.extend(sum.to_le_bytes());
            for cell in decode(&octets).iter().flat_map(|saved| saved.cells(&known)) {
                assert!(usize::from(cell.point.0) < known.len(), "seed {seed}");
            }
        }
    }
}
