//! Zone files as people have them: what they give, what they are refused for, and where.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use portolan_dns::fuzz::fuzz_zone_text;
use portolan_dns::name::Name;
use portolan_dns::rrtype::RrType;
use portolan_dns::text::{Fault, Files, Limits, Loaded, load};
use proptest::prelude::*;

#[path = "zone_text/cases.rs"]
mod cases;

const HEAD: &str = "$ORIGIN t.\n$TTL 300\n@ SOA ns h 1 1h 1h 1h 1h\n";

/// Loads texts by name; the first is the zone file.
fn load_texts(texts: &[(&str, &str)]) -> Result<Loaded, Vec<Fault>> {
    let mut source: BTreeMap<String, Vec<u8>> =
        texts.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect();
    load(&mut source, texts[0].0, &Limits::default())
}

/// The records as lines of owner, TTL, type and data; the SOA is left out.
fn lines(zone: &Loaded) -> Vec<String> {
    let data = zone.records.iter().filter(|record| record.rtype != RrType::SOA);
    data.map(|r| format!("{} {} {} {}", r.owner, r.ttl, r.rtype, hex(&r.rdata))).collect()
}

fn hex(octets: &[u8]) -> String {
    octets.iter().fold(String::new(), |mut text, octet| {
        let _ = write!(text, "{octet:02x}");
        text
    })
}

fn table(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split_once(" => ").expect(line))
}

#[test]
fn data_of_every_type() {
    for (text, want) in table(include_str!("zone_text/rdata.txt")) {
        let zone =
            load_texts(&[("z", &format!("{HEAD}x {text}\n"))]).unwrap_or_else(|f| panic!("{text}: {f:?}"));
        assert_eq!(hex(&zone.records[1].rdata), want, "{text}");
        // the generic form of the same data is taken as well (RFC 3597 5)
        let (rtype, data) = (zone.records[1].rtype, &zone.records[1].rdata);
        let generic = format!("{HEAD}x {rtype} \\# {} {want}\n", data.len());
        let again = load_texts(&[("z", &generic)]).unwrap_or_else(|f| panic!("{generic}: {f:?}"));
        assert_eq!(again.records[1].rdata, *data, "{generic}");
    }
}

#[test]
fn data_that_is_refused() {
    for (text, want) in table(include_str!("zone_text/refused.txt")) {
        let faults = load_texts(&[("z", &format!("{HEAD}x {text}\nns A 192.0.2.1\n"))]).expect_err(text);
        let found: Vec<String> =
            faults.iter().map(|f| format!("{}: {}", i64::from(f.place.column) - 2, f.message)).collect();
        assert_eq!(found, [want], "{text}");
        assert_eq!((faults[0].file.as_str(), faults[0].place.line), ("z", 4), "{text}");
    }
}

#[test]
fn whole_texts() {
    for case in cases::GOOD {
        let zone = load_texts(case.texts).unwrap_or_else(|faults| panic!("{}: {faults:?}", case.name));
        assert_eq!(lines(&zone), case.records, "{}", case.name);
        let warnings: Vec<String> =
            zone.warnings.iter().map(|w| Fault::new(w.clone(), &zone.files).to_string()).collect();
        assert_eq!(warnings.len(), case.warnings.len(), "{}: {warnings:#?}", case.name);
        for (found, want) in warnings.iter().zip(case.warnings) {
            assert!(found.starts_with(want), "{}:\n found {found}\n want  {want}", case.name);
        }
    }
}

#[test]
fn whole_texts_that_are_refused() {
    for (name, texts, want) in cases::BAD {
        let faults = load_texts(texts).expect_err(name);
        let found: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), want.len(), "{name}: {found:#?}");
        for (found, want) in found.iter().zip(*want) {
            assert!(found.starts_with(want), "{name}:\n found {found}\n want  {want}");
        }
    }
}

#[test]
fn long_texts_are_split_and_long_strings_refused() {
    let long = "a".repeat(600);
    let zone = load_texts(&[("z", &format!("{HEAD}x TXT \"{long}\"\n"))]).unwrap();
    let data = &zone.records[1].rdata;
    assert_eq!((data.len(), data[0], data[256], data[512]), (603, 255, 255, 90));
    // escapes count as the octet they stand for
    let zone = load_texts(&[("z", &format!("{HEAD}x TXT \"{}\"\n", "\\065".repeat(255)))]).unwrap();
    assert_eq!(zone.records[1].rdata.len(), 256);
    for (text, message) in [
        (format!("x HINFO \"{long}\" b"), "the text is 600 octets long; 255 fit"),
        (
            format!("x A {}", "1".repeat(100_000)),
            "\"1111111111111111111111111111111111111111111111111111111111",
        ),
        (
            format!("x AAAA {}::1", "1".repeat(100_000)),
            "\"1111111111111111111111111111111111111111111111111111",
        ),
        (
            format!("x TXT {}", format!("\"{}\" ", "a".repeat(255)).repeat(257)),
            "the data is 65792 octets long",
        ),
        (format!("{long} A 192.0.2.1"), "bad name"),
    ] {
        let faults = load_texts(&[("z", &format!("{HEAD}{text}\n"))]).unwrap_err();
        assert!(faults[0].message.starts_with(message), "{}", faults[0]);
        assert!(faults[0].message.len() < 200);
    }
}

#[test]
fn problems_are_capped() {
    let text = format!("{HEAD}{}", "x A bad\n".repeat(100));
    assert_eq!(load_texts(&[("z", &text)]).unwrap_err().len(), 20);
    let text = format!("{HEAD}{}", "www.other. A 192.0.2.1\n".repeat(100));
    assert_eq!(load_texts(&[("z", &text)]).unwrap_err().len(), 20);
}

#[test]
fn utf16_and_odd_octets() {
    for (text, message) in [
        (&b"\xff\xfe$\0O\0"[..], "the file is in UTF-16"),
        (b"t. SOA . . 1 1 1 1 1\nb\xfcrger A 192.0.2.1\n", "the name \"b\u{fffd}rger\" is not ASCII"),
    ] {
        let mut source = BTreeMap::from([("z".to_owned(), text.to_vec())]);
        let faults = load(&mut source, "z", &Limits::default()).unwrap_err();
        assert!(faults[0].message.starts_with(message), "{}", faults[0]);
    }
    // text is octets, whatever their encoding
    let mut source =
        BTreeMap::from([("z".to_owned(), b"t. 1 SOA . . 1 1 1 1 1\nx.t. 1 TXT \xfc\n".to_vec())]);
    assert_eq!(&*load(&mut source, "z", &Limits::default()).unwrap().records[1].rdata, b"\x01\xfc");
}

#[test]
fn files_include_files_beside_them() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("zone_text_files");
    fs::create_dir_all(folder.join("sub")).unwrap();
    fs::write(folder.join("z"), format!("{HEAD}$INCLUDE sub/a\n$INCLUDE sub\n$INCLUDE none\n")).unwrap();
    fs::write(folder.join("sub/a"), "a A 192.0.2.1\n$INCLUDE b\n").unwrap();
    fs::write(folder.join("sub/b"), "b A bad\n").unwrap();
    let faults = load(&mut Files, folder.join("z").to_str().unwrap(), &Limits::default()).unwrap_err();
    let place = |f: &Fault| (Path::new(&f.file).file_name().unwrap().to_owned(), f.place.line);
    assert_eq!(
        faults.iter().map(place).collect::<Vec<_>>(),
        [("b".into(), 1), ("z".into(), 5), ("z".into(), 6)]
    );
    assert!(faults[1].message.ends_with("not a regular file"), "{}", faults[1]);
    let faults = load(&mut Files, folder.join("nowhere").to_str().unwrap(), &Limits::default()).unwrap_err();
    assert!(faults[0].to_string().contains("nowhere: cannot read"), "{}", faults[0]);
}

#[test]
fn the_example_zones_load_without_a_word() {
    let zones = Path::new(env!("CARGO_MANIFEST_DIR")).join("../zones");
    let mut loaded = 0;
    for entry in fs::read_dir(zones).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "zone") {
            let zone = load(&mut Files, path.to_str().unwrap(), &Limits::default());
            let zone = zone.unwrap_or_else(|faults| panic!("{faults:#?}"));
            assert_eq!(zone.warnings, [], "{path:?}");
            let named: Name = path.file_stem().unwrap().to_str().unwrap().parse().unwrap();
            assert_eq!(zone.origin, named, "the examples are named after their zones");
            loaded += 1;
        }
    }
    assert!(loaded >= 3, "{loaded}");
}

#[test]
fn the_corpus_replays() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/zone_text");
    let mut texts = 0;
    for entry in fs::read_dir(corpus).unwrap() {
        fuzz_zone_text(&fs::read(entry.unwrap().path()).unwrap());
        texts += 1;
    }
    assert!(texts >= 10, "{texts}");
}

proptest! {
    #[test]
    fn any_octets(octets in prop::collection::vec(any::<u8>(), 0..400)) {
        fuzz_zone_text(&octets);
    }

    /// Words that mean something, in any order.
    #[test]
    fn any_words(words in prop::collection::vec(prop::sample::select(WORDS), 0..60)) {
        let mut text = HEAD.to_owned();
        for word in words {
            text.push_str(word);
            if !word.ends_with('\n') {
                text.push(' ');
            }
        }
        fuzz_zone_text(text.as_bytes());
    }

    /// One octet changed in a good text.
    #[test]
    fn a_slip_of_the_finger(at in any::<prop::sample::Index>(), octet in any::<u8>()) {
        let mut text = HEAD.as_bytes().to_vec();
        for (data, _) in table(include_str!("zone_text/rdata.txt")) {
            text.extend(format!("x{} {data}\n", text.len()).into_bytes());
        }
        let at = at.index(text.len());
        text[at] = octet;
        fuzz_zone_text(&text);
    }
}

const WORDS: &[&str] = &[
    "\n",
    "\n",
    "\nx ",
    "\n@ ",
    "\n* ",
    "$ORIGIN",
    "$TTL",
    "$INCLUDE",
    "\n$GENERATE",
    "1-5",
    "x$",
    "${0,3,n}",
    "(",
    ")",
    ";",
    "\"",
    "\"a b\"",
    "\\",
    "\\#",
    "\\001",
    "3",
    "abcdef",
    "IN",
    "CH",
    "300",
    "1h",
    "A",
    "192.0.2.1",
    "AAAA",
    "::1",
    "NS",
    "CNAME",
    "DNAME",
    "a",
    "b.t.",
    "MX",
    "TXT",
    "SOA",
    "ns h 1 1 1 1 1",
    "HTTPS",
    "1 .",
    "alpn=h2",
    ".",
    "mandatory=alpn",
    "key5=\"x",
    "NSEC",
    "LOC",
    "0 N 0 W 0",
    "CAA",
    "issue",
    "RRSIG",
    "TYPE65534",
    "APL",
    "1:0.0.0.0/0",
];
