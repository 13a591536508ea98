//! The zone: 1,000 static names in four shapes, and the dynamic names as each server writes them.

use std::fmt::Write;

use super::{LINKS, SITES, candidate, weight};

/// The zone's name, without the final dot.
pub const ORIGIN: &str = "bench.test";
/// Static names in the zone.
pub const STATIC_NAMES: usize = 1_000;
/// Names answered per client.
pub const DYNAMIC_NAMES: usize = 16;

/// Label texts that a name's number stands behind; names of a shape are equally long, so a batch can be segmented.
pub const SHAPES: [&str; 4] = ["n", "host-", "www.shop-", "cdn-edge.node-"];

/// How a server's zone file holds the dynamic names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DynamicAs {
    /// Not at all: the static comparison, and servers that know the names from elsewhere.
    Nothing,
    /// One plain record, which a module replaces (Knot).
    Default,
    /// gdnsd's DYNA.
    Dyna,
    /// PowerDNS's LUA: a weighted random choice.
    LuaWeighted,
    /// PowerDNS's LUA: a choice among those whose port answers.
    LuaIfPortUp(u16),
}

/// The static name with number `index`, relative to the origin. Numbers from [`STATIC_NAMES`] on do not exist.
pub fn static_name(index: usize) -> String {
    format!("{}{index:04}", SHAPES[index % SHAPES.len()])
}

/// The dynamic name with number `index`, relative to the origin.
pub fn dynamic_name(index: usize) -> String {
    format!("d{index:02}")
}

/// Whether the name has an AAAA record.
pub fn has_aaaa(index: usize) -> bool {
    index % 4 == 1
}

/// The zone as a master file.
pub fn text(dynamic: DynamicAs) -> String {
    let mut zone = format!(
        "$ORIGIN {ORIGIN}.\n$TTL 300\n\
         @ IN SOA ns1 hostmaster 1 7200 900 1209600 300\n@ IN NS ns1\n@ IN NS ns2\n\
         ns1 IN A 192.0.2.1\nns2 IN A 192.0.2.2\n"
    );
    for index in 0..STATIC_NAMES {
        let name = static_name(index);
        let (high, low) = (index / 200, index % 200 + 10);
        // writing to a String cannot fail
        let _ = if index % 10 == 9 {
            writeln!(zone, "{name} IN CNAME {}", static_name(index - 9))
        } else {
            writeln!(zone, "{name} IN A 198.51.{high}.{low}")
        };
        if index % 10 != 9 && index % 5 == 0 {
            let _ = writeln!(zone, "{name} IN A 203.0.{high}.{low}");
        }
        if index % 10 != 9 && has_aaaa(index) {
            let _ = writeln!(zone, "{name} IN AAAA 2001:db8:{high}::{low}");
        }
    }
    for index in 0..DYNAMIC_NAMES {
        let name = dynamic_name(index);
        let _ = match dynamic {
            DynamicAs::Nothing => Ok(()),
            DynamicAs::Default => writeln!(zone, "{name} 30 IN A {}", candidate(0, 0)),
            DynamicAs::Dyna => writeln!(zone, "{name} 30 DYNA geoip!www"),
            DynamicAs::LuaWeighted => {
                let choices = candidates(|site, link| {
                    format!("{{{}, '{}'}}", weight(site, link), candidate(site, link))
                });
                writeln!(zone, "{name} 30 IN LUA A \"pickwrandom({{{choices}}})\"")
            }
            DynamicAs::LuaIfPortUp(port) => {
                let choices = candidates(|site, link| format!("'{}'", candidate(site, link)));
                writeln!(zone, "{name} 30 IN LUA A \"ifportup({port}, {{{choices}}})\"")
            }
        };
    }
    zone
}

fn candidates(one: impl Fn(usize, usize) -> String) -> String {
    let all: Vec<String> = (0..SITES * LINKS).map(|index| one(index / LINKS, index % LINKS)).collect();
    all.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_shape_are_equally_long_also_when_they_do_not_exist() {
        for shape in 0..SHAPES.len() {
            let lengths: std::collections::HashSet<usize> =
                (shape..9_000).step_by(SHAPES.len()).map(|index| static_name(index).len()).collect();
            assert_eq!(lengths.len(), 1, "shape {shape}");
        }
    }

    #[test]
    fn every_static_name_is_in_the_zone() {
        let zone = text(DynamicAs::Nothing);
        for index in 0..STATIC_NAMES {
            assert!(zone.contains(&format!("\n{} IN ", static_name(index))), "{index}");
        }
        assert!(!zone.contains(&static_name(STATIC_NAMES)));
    }
}
