//! `[tables]`, `[[isp]]` and `[[site]]`: what is known about clients, and where we are.

use std::path::PathBuf;

use ipnet::IpNet;

use crate::place::At;
use crate::read::{BitRate, Int, Length, Many, Map, Real, table, words};

table! {
    /// Tables about clients.
    pub struct Tables {
        /// Folder of ISP tables.
        isp: Option<At<PathBuf>>,
        /// GeoIP file.
        geo: Option<At<PathBuf>>,
        /// ASN file.
        asn: Option<At<PathBuf>>,
        /// Named lists of prefixes.
        prefixes: Map<Many<At<IpNet>>>,
        /// Named lists of regions.
        regions: Map<Many<At<String>>>,
        /// A table whose file is older is reported as stale.
        stale_after: At<Length> = Length::secs(45 * 86_400),
    }
}

words! {
    /// Strength of a table.
    pub enum LayerWord {
        /// Written by the operator of this node.
        User = "user",
        /// Fetched from a data source.
        Imported = "imported",
        /// Comes with the product.
        Shipped = "shipped",
    }
}

table! {
    /// An operator's table.
    pub struct Isp {
        /// The operator.
        name: At<String>,
        /// Text, CSV or mmdb files.
        files: Many<At<PathBuf>>,
        /// AS numbers of the operator.
        asns: Vec<At<Int<1, 4_294_967_295>>>,
        /// Other values of `key` that mean this operator.
        names: Vec<String>,
        /// Path of the value in mmdb files, with dots.
        key: String = "autonomous_system_number",
        /// Prefixes of the operator.
        prefixes: Many<At<IpNet>>,
        /// Prefixes that are not the operator's.
        exclude: Many<At<IpNet>>,
        /// Strength of this table.
        layer: LayerWord = LayerWord::User,
        /// Digest of the file in hex.
        sha256: Option<At<String>>,
        /// Invalid lines that are passed over in a file.
        max_bad_lines: Int<0, 4_000_000> = Int::new(0),
        /// Bits behind a prefix's length are an error.
        strict: bool = false,
        /// Accept default routes.
        allow_default: bool = false,
        /// Refuse a table that has lost more than so many percent.
        max_shrink: Int<0, 100> = Int::new(30),
    }
}

table! {
    /// A site.
    pub struct Site {
        /// Name of the site.
        name: At<String>,
        /// Where it is.
        location: Option<Location>,
        /// Its links to ISPs.
        links: Vec<Link>,
    }
}

table! {
    /// Where a site is.
    pub struct Location {
        /// Degrees north.
        lat: At<Real>,
        /// Degrees east.
        lon: At<Real>,
        /// ISO 3166-1 code.
        country: Option<At<String>>,
        /// As in a region.
        continent: Option<At<String>>,
    }
}

table! {
    /// A link of a site.
    pub struct Link {
        /// Name of the link, unique in its site.
        name: At<String>,
        /// Operators it leads to, the nearest first.
        isp: Many<At<String>>,
        /// Bandwidth there is.
        capacity: Option<At<BitRate>>,
        /// What it costs to use, for `proximity.weights`.
        cost: Int<0, 1_000_000> = Int::new(0),
    }
}
