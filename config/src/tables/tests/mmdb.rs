//! mmdb files: both layouts, both families, and what is broken (cases G02, G06, G11, G13, 25-31).

use std::net::IpAddr;
use std::path::Path;

use super::super::mmdb_write::{Data, MmdbWriter, map};
use super::*;

fn open(bytes: Vec<u8>) -> Result<Mmdb, TableProblem> {
    Mmdb::from_bytes(Path::new("t.mmdb"), bytes)
}

fn geo(writer: &MmdbWriter) -> Result<GeoTable, TableProblem> {
    load_geo(&open(writer.finish())?)
}

fn record<'a>(table: &'a GeoTable, addr: &str) -> &'a GeoRecord {
    &table.records[table.runs.value(addr.parse::<IpAddr>().unwrap()) as usize]
}

/// MaxMind's nested layout.
fn nested(country: &str, subdivisions: &[&str], city: &str, location: Option<(f64, f64)>) -> Data {
    let subdivision =
        |code: &&str| map([("iso_code", (*code).into()), ("names", map([("en", "name".into())]))]);
    let Data::Map(mut fields) = map([
        ("continent", map([("code", "EU".into())])),
        ("country", map([("iso_code", country.into())])),
        ("subdivisions", Data::List(subdivisions.iter().map(subdivision).collect())),
        ("city", map([("geoname_id", 42.into()), ("names", map([("de", "x".into()), ("en", city.into())]))])),
    ]) else {
        unreachable!()
    };
    if let Some((latitude, longitude)) = location {
        fields
            .push(("location".into(), map([("latitude", latitude.into()), ("longitude", longitude.into())])));
    }
    Data::Map(fields)
}

fn cities(v6: bool) -> MmdbWriter {
    let mut writer = MmdbWriter::new("GeoLite2-City", v6);
    writer
        .insert("81.0.0.0/8".parse().unwrap(), &nested("FR", &["IDF", "75"], "Paris", Some((48.85, 2.35))))
        .insert("81.1.0.0/16".parse().unwrap(), &nested("FR", &[], "", None))
        .insert("81.2.0.0/16".parse().unwrap(), &nested("FR", &[], "", Some((0.0, 0.0))))
        .insert("81.3.0.0/16".parse().unwrap(), &nested("FR", &[], "", Some((99.0, 2.0))));
    writer
}

#[test]
fn nested_layout() {
    for v6 in [false, true] {
        let table = geo(&cities(v6)).unwrap();
        let paris = GeoRecord {
            continent: "EU".into(),
            country: "FR".into(),
            subdivisions: vec!["IDF".into(), "75".into()],
            city: "Paris".into(),
            geoname_id: Some(42),
            location: Some((48.85, 2.35)),
        };
        assert_eq!(record(&table, "81.0.0.1"), &paris);
        assert_eq!(record(&table, "::ffff:81.0.0.1"), &paris, "case 25");
        // case G02: without coordinates, or at (0, 0), or nowhere on Earth
        for addr in ["81.1.0.1", "81.2.0.1", "81.3.0.1"] {
            let record = record(&table, addr);
            assert_eq!((record.country.as_str(), record.location), ("FR", None), "{addr}");
        }
        // cases G13, 25, 31: unknown, whatever the family
        for addr in ["17.1.0.0", "10.0.0.1", "127.0.0.1", "2001:db8::1", "::1", "::81.0.0.1"] {
            assert_eq!(table.runs.value(addr.parse().unwrap()), 0, "{addr}");
        }
        assert_eq!(table.records.len(), 3, "equal records are kept once");
    }
}

#[test]
fn flat_layout() {
    let flat = map([
        ("country_code", "fr".into()),
        ("state1", "Île-de-France".into()),
        ("city", "Paris".into()),
        ("latitude", 48.85.into()),
        ("longitude", "2.35".into()),
    ]);
    let mut writer = MmdbWriter::new("ipLocationDb", true);
    writer
        .insert("2001:db8::/32".parse().unwrap(), &flat)
        .insert("1.0.0.0/8".parse().unwrap(), &map([("country_code", "DE".into())]));
    let table = geo(&writer).unwrap();
    let paris = GeoRecord {
        country: "FR".into(),
        subdivisions: vec!["Île-de-France".into()],
        city: "Paris".into(),
        location: Some((48.85, 2.35)),
        ..GeoRecord::default()
    };
    assert_eq!(record(&table, "2001:db8::1"), &paris);
    assert_eq!(record(&table, "1.2.3.4"), &GeoRecord { country: "DE".into(), ..GeoRecord::default() });
}

/// The IPv4 part of an IPv6 file can be reached by several ways and is read once.
#[test]
fn aliases_are_not_read_twice() {
    let mut writer = cities(true);
    for alias in ["::ffff:0:0/96", "2002::/16", "2001::/32"] {
        writer.alias_v4(alias.parse().unwrap());
    }
    let table = geo(&writer).unwrap();
    assert_eq!(table.runs.v6, []);
    assert_eq!(table.runs.v4, geo(&cities(true)).unwrap().runs.v4);
}

/// Cases 25 and 29: a file without an IPv4 part knows nothing of IPv4.
#[test]
fn no_ipv4_subtree() {
    let mut writer = MmdbWriter::new("Test", true);
    writer.insert("::/64".parse().unwrap(), &nested("FR", &[], "", None));
    let table = geo(&writer).unwrap();
    assert_eq!(table.runs.v4, []);
    assert_eq!(record(&table, "::1").country, "FR");
    assert_eq!(record(&table, "1.2.3.4").country, "");
    writer.insert("2000::/3".parse().unwrap(), &nested("DE", &[], "", None));
    assert_eq!(record(&geo(&writer).unwrap(), "2001:db8::1").country, "DE");
}

/// Case 26 is every file here: the writer leaves `description` empty, which strict verification refuses.
#[test]
fn as_numbers() {
    let mut nested = MmdbWriter::new("GeoLite2-ASN", true);
    let mut flat = MmdbWriter::new("ipLocationDb", false);
    for (prefix, asn, name) in [
        ("1.0.0.0/24", 13335, "Cloudflare, Inc."),
        ("36.96.0.0/12", 4134, "Chinanet"),
        ("36.110.0.0/16", 4809, "CN2"),
    ] {
        let number =
            map([("autonomous_system_number", asn.into()), ("autonomous_system_organization", name.into())]);
        let text = map([
            ("autonomous_system_number", asn.to_string().as_str().into()),
            ("autonomous_system_organization", name.into()),
        ]);
        nested.insert(prefix.parse().unwrap(), &number);
        flat.insert(prefix.parse().unwrap(), &text);
    }
    nested.insert("240e::/20".parse().unwrap(), &map([("autonomous_system_number", 4134.into())]));
    let telecom = IspSource { name: "chinatelecom".into(), asns: vec![4134, 4809], ..IspSource::default() };
    for (file, v6) in [(&nested, &["chinatelecom"][..]), (&flat, &[])] {
        let mmdb = open(file.finish()).unwrap();
        let tables = load_isp(std::slice::from_ref(&telecom), Some(&mmdb), None).unwrap();
        assert_eq!(operators(&tables, "36.110.1.1"), ["chinatelecom"]);
        assert_eq!(operators(&tables, "36.100.1.1"), ["chinatelecom"]);
        assert_eq!(operators(&tables, "240e::1"), v6);
        assert_eq!(operators(&tables, "1.0.0.1"), [""; 0]);
        assert_eq!(tables.explain("36.110.1.1".parse().unwrap())[0].file, Path::new("t.mmdb"));
        assert_eq!(tables.files[0].modified_unix_s, Some(1_700_000_000), "R20: a database knows its own age");
    }
    // R12, when a database is shared: each operator is compared with itself
    let mut fewer = MmdbWriter::new("GeoLite2-ASN", true);
    for (prefix, asn) in [("1.0.0.0/24", 13335), ("36.96.0.0/12", 4134)] {
        fewer.insert(prefix.parse().unwrap(), &map([("autonomous_system_number", asn.into())]));
    }
    let sources =
        [IspSource { name: "cloudflare".into(), asns: vec![13335], ..IspSource::default() }, telecom];
    let running = load_isp(&sources, Some(&open(nested.finish()).unwrap()), None).unwrap();
    let problems =
        load_isp(&sources, Some(&open(fewer.finish()).unwrap()), Some(&running)).expect_err("shrunk");
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].message.starts_with("only 1 entries, the running table has "), "{}", problems[0]);
    // by another key, from a file of its own; and when nothing fits
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("asn.mmdb");
    std::fs::write(&file, nested.finish()).unwrap();
    let key = "autonomous_system_organization".to_owned();
    let mut by_name = IspSource {
        name: "cf".into(),
        names: vec!["cloudflare, inc.".into()],
        key,
        files: vec![file],
        ..IspSource::default()
    };
    assert_eq!(operators(&load_isp(std::slice::from_ref(&by_name), None, None).unwrap(), "1.0.0.9"), ["cf"]);
    by_name.names = vec!["nobody".into()];
    let problems = load_isp(&[by_name], None, None).expect_err("nothing fits");
    assert!(
        problems[0].message.starts_with("no network has autonomous_system_organization"),
        "{}",
        problems[0]
    );
}

/// A tree whose every node has one and the same node on both sides: 2^100 ways to the end.
fn endless(v6: bool, end: impl Fn(&mut MmdbWriter)) -> Vec<u8> {
    let mut writer = MmdbWriter::new("Test", v6);
    end(&mut writer);
    let mut bytes = writer.finish();
    let nodes = bytes.windows(16).position(|window| window == [0; 16]).unwrap() / 8;
    // make each node's empty half a copy of its other half
    for node in 0..nodes {
        let (left, right) = (node * 8, node * 8 + 4);
        let empty = (nodes as u32).to_be_bytes();
        if bytes[left..left + 4] == empty {
            bytes.copy_within(right..right + 4, left);
        } else if bytes[right..right + 4] == empty {
            bytes.copy_within(left..left + 4, right);
        }
    }
    bytes
}

/// Cases G11 and 28: refused with a reason or empty; never a panic, a hang or a heap of memory.
#[test]
fn broken_files() {
    let good = cities(true).finish();
    let with = |name: &str, value: Data| cities(true).metadata(name, value).finish();
    let deep = (0..600).fold(Data::U32(1), |inner, _| Data::List(vec![inner]));
    let mut deep_record = MmdbWriter::new("Test", false);
    deep_record.insert("1.0.0.0/8".parse().unwrap(), &map([("country_code", deep)]));
    let mut wide_record = MmdbWriter::new("Test", false);
    wide_record.insert("1.0.0.0/8".parse().unwrap(), &Data::List(vec![Data::U32(1); 100_000]));
    let place = nested("FR", &[], "", None);
    let v4_ways = endless(true, |writer| {
        writer.insert("1.0.0.0/8".parse().unwrap(), &place).alias_v4("8000::/60".parse().unwrap());
    });
    let mut nothing = endless(true, |writer| {
        writer.insert("8000::/100".parse().unwrap(), &place);
    });
    // the one record is taken away, so that every way ends in nothing
    let count = (nothing.windows(16).position(|window| window == [0; 16]).unwrap() / 8) as u32;
    for half in nothing.chunks_exact_mut(4).take(count as usize * 2) {
        if u32::from_be_bytes([half[0], half[1], half[2], half[3]]) > count {
            half.copy_from_slice(&count.to_be_bytes());
        }
    }
    let mut no_place = MmdbWriter::new("ASN", false);
    no_place.insert("1.0.0.0/8".parse().unwrap(), &map([("autonomous_system_number", 1.into())]));
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("nothing", Vec::new(), "could not find MaxMind DB metadata"),
        ("text", b"<html>not found</html>".to_vec(), "could not find MaxMind DB metadata"),
        ("marker only", b"\xab\xcd\xefMaxMind.com".to_vec(), "unexpected end of buffer"),
        ("cut", good[..good.len() - 40].to_vec(), "invalid database"),
        ("cut in the tree", good[..100].to_vec(), "could not find MaxMind DB metadata"),
        ("more nodes than there are", with("node_count", 100_000_000.into()), "extends beyond"),
        ("no nodes", with("node_count", 0.into()), "node_count"),
        ("odd record size", with("record_size", Data::U16(33)), "record_size"),
        ("another family", with("ip_version", Data::U16(5)), "ip_version"),
        ("another format", with("binary_format_major_version", Data::U16(3)), "major_version"),
        ("nesting", deep_record.finish(), "nests too deeply"),
        ("a huge record", wide_record.finish(), "resource limit"),
        (
            "endless to a record",
            endless(true, |writer| {
                writer.insert("8000::/100".parse().unwrap(), &place);
            }),
            "more networks than its node count allows",
        ),
        ("endless to nothing", nothing, "larger than its node count"),
        ("endless by ways to IPv4", v4_ways, "more networks than its node count allows"),
        ("an AS file", no_place.finish(), "no network of this ASN file has a place"),
    ];
    for (name, bytes, part) in cases {
        let problem = match open(bytes).and_then(|mmdb| load_geo(&mmdb)) {
            Ok(table) => panic!("{name}: accepted, {} records", table.records.len()),
            Err(problem) => problem,
        };
        assert!(problem.file == Path::new("t.mmdb") && problem.message.contains(part), "{name}: {problem}");
    }
    let missing = Mmdb::open(Path::new("/nonexistent/x.mmdb")).expect_err("no such file");
    assert!(missing.message.starts_with("cannot be read"), "{missing}");
}

/// One byte wrong anywhere, and the file cut anywhere.
#[test]
fn damaged_files_do_no_harm() {
    let mut writer = MmdbWriter::new("T", false);
    writer
        .insert("128.0.0.0/2".parse().unwrap(), &nested("FR", &["IDF"], "Paris", Some((48.85, 2.35))))
        .insert("192.0.0.0/4".parse().unwrap(), &nested("DE", &[], "", None));
    let good = writer.finish();
    for at in 0..good.len() {
        let _ = open(good[..at].to_vec()).and_then(|mmdb| load_geo(&mmdb));
        for flip in [0x01, 0x80, 0xff] {
            let mut bytes = good.clone();
            bytes[at] ^= flip;
            let _ = open(bytes).and_then(|mmdb| load_geo(&mmdb));
        }
    }
}
