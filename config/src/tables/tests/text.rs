//! Text tables: what is read, and what is refused where and with which remedy (R1-R7, R10, R11, R17, case 23).

use std::path::Path;

use super::super::fuzz_isp_text;
use super::*;

fn read(text: &[u8], source: &IspSource) -> Result<IspTables, Vec<TableProblem>> {
    isp_from_text(text, source, Path::new("t.txt"))
}

fn chinanet() -> IspSource {
    IspSource { name: "chinanet".into(), ..IspSource::default() }
}

/// Name, content, entries / duplicates / masked, addresses with their operators.
type Accepted = (&'static str, &'static str, [usize; 3], &'static [(&'static str, &'static [&'static str])]);

const ACCEPTED: &[Accepted] = &[
    ("R1: no final newline", "1.0.0.0/24", [1, 0, 0], &[("1.0.0.9", &["chinanet"]), ("1.0.1.0", &[])]),
    ("R1: CRLF and BOM", "\u{feff}1.0.0.0/24\r\n1.0.2.0/24\r\n", [2, 0, 0], &[("1.0.2.1", &["chinanet"])]),
    (
        "R2: comments",
        "# head\n; other\n// third\n1.0.0.0/24 # tail\n1.0.1.0/24\t; tail\n1.0.2.0/24 // tail\n\n  \n",
        [3, 0, 0],
        &[("1.0.2.1", &["chinanet"])],
    ),
    (
        "R3: hosts",
        "1.0.0.1\n2001:db8::1\n",
        [2, 0, 0],
        &[("1.0.0.1", &["chinanet"]), ("1.0.0.2", &[]), ("2001:db8::1", &["chinanet"])],
    ),
    (
        "R3: ranges stay ranges, spaces allowed",
        "1.0.0.0-1.0.0.255\n2.0.0.3 - 2.0.0.5 # odd\n2001:db8::-2001:db8::ff\n",
        [3, 0, 0],
        &[
            ("1.0.0.255", &["chinanet"]),
            ("2.0.0.4", &["chinanet"]),
            ("2.0.0.6", &[]),
            ("2001:db8::ff", &["chinanet"]),
        ],
    ),
    (
        "R4: host bits are cut and counted",
        "1.0.0.7/24\n2001:db8::1/32\n",
        [2, 0, 2],
        &[("1.0.0.200", &["chinanet"])],
    ),
    (
        "R5: IPv4-mapped prefixes, hosts and ranges",
        "::ffff:1.2.3.0/120\n::ffff:9.9.9.9\n::ffff:7.0.0.0-::ffff:7.0.0.9\n",
        [3, 0, 0],
        &[
            ("1.2.3.4", &["chinanet"]),
            ("::ffff:1.2.3.4", &["chinanet"]),
            ("9.9.9.9", &["chinanet"]),
            ("7.0.0.9", &["chinanet"]),
        ],
    ),
    (
        "R6: duplicates",
        "1.0.0.0/24\n1.0.0.0/24\n1.0.0.0-1.0.0.255\n",
        [1, 2, 0],
        &[("1.0.0.1", &["chinanet"])],
    ),
    (
        "R7: one prefix, two operators, two lines or one",
        "1.0.0.0/24 unicom\n1.0.0.0/24 chinanet\n2.0.0.0/24\tunicom,cernet\n",
        [4, 0, 0],
        &[("1.0.0.1", &["chinanet", "unicom"]), ("2.0.0.1", &["cernet", "unicom"])],
    ),
    ("R8", "1.0.0.0/8 a,b\n1.0.0.0/24 c\n", [3, 0, 0], &[("1.0.0.1", &["c"]), ("1.0.1.1", &["a", "b"])]),
    (
        "R9: holes, of the file's operator, of one named, of all",
        "1.0.0.0/8\n1.0.0.0/8 b\n!1.1.0.0/16\n!1.2.0.0/16 b\n! 1.3.0.0/16 *\n",
        [5, 0, 0],
        &[("1.1.0.1", &["b"]), ("1.2.0.1", &["chinanet"]), ("1.3.0.1", &[]), ("1.4.0.1", &["b", "chinanet"])],
    ),
    (
        "C: prefix,operator with header, quotes and spaces",
        "network,operator\n1.0.0.0/24,unicom\n\"1.0.1.0/24\" , \"unicom,cernet\"\n1.0.2.0/24,13335\n",
        [4, 0, 0],
        &[("1.0.0.1", &["unicom"]), ("1.0.1.1", &["cernet", "unicom"]), ("1.0.2.1", &["chinanet"])],
    ),
    (
        "C: start,end,asn,organisation; other networks are not ours (case 23)",
        "start,end,asn,org\n1.0.0.0,1.0.0.255,13335,\"Cloudflare, Inc.\"\n1.0.1.0,1.0.1.255,AS4134,\"say \"\"x\"\" # y\"\n8.8.8.0,8.8.8.255,15169,Google\n",
        [2, 0, 0],
        &[("1.0.0.1", &["chinanet"]), ("1.0.1.1", &["chinanet"]), ("8.8.8.8", &[])],
    ),
    (
        "C: numeric ends, both families; by organisation; no third field",
        "16777216,16777471,13335\n42540766411282592856903984951653826560,42540766411282592856903984951653826815,1,our net\n3.0.0.0,3.0.0.9\n",
        [3, 0, 0],
        &[("1.0.0.1", &["chinanet"]), ("2001:db8::ff", &["chinanet"]), ("3.0.0.9", &["chinanet"])],
    ),
];

#[test]
fn accepted_forms() {
    for (name, text, counts, wanted) in ACCEPTED {
        let source = IspSource { asns: vec![13335, 4134], names: vec!["Our Net".into()], ..chinanet() };
        let tables = read(text.as_bytes(), &source).unwrap_or_else(|problems| panic!("{name}: {problems:?}"));
        let stats = &tables.files[0];
        assert_eq!([stats.entries, stats.duplicates, stats.masked], *counts, "{name}");
        for (addr, set) in *wanted {
            assert_eq!(operators(&tables, addr), *set, "{name}: {addr}");
        }
        fuzz_isp_text(text.as_bytes());
    }
}

/// Content, the place and a part of the message that must be told.
const REFUSED: &[(&str, &str, &str)] = &[
    ("1.0.0.0/24\nhello\n", "t.txt:2:1:", "`hello` is not an address"),
    ("  1.0.0.0/33\n", "t.txt:1:3:", "`33` is not a prefix length"),
    ("1.0.0.0/+8\n", "t.txt:1:1:", "`+8` is not a prefix length"),
    ("2001:db8::/129\n", "t.txt:1:1:", "from 0 to 128"),
    ("1.0.0.0/\n", "t.txt:1:1:", "not a prefix length"),
    ("1.0.0/24\n", "t.txt:1:1:", "`1.0.0` is not an address"),
    ("1.0.0.9-1.0.0.1\n", "t.txt:1:1:", "swap"),
    ("1.0.0.0-::1\n", "t.txt:1:1:", "address family"),
    ("::ffff:0:0/90\n", "t.txt:1:1:", "IPv4-mapped"),
    ("::-2001::\n", "t.txt:1:1:", "IPv4-mapped"),
    ("0.0.0.0/0\n", "t.txt:1:1:", "allow_default"),
    ("::/0\n", "t.txt:1:1:", "allow_default"),
    ("0.0.0.0-255.255.255.255\n", "t.txt:1:1:", "allow_default"),
    ("1.0.0.0/8 a,,b\n", "t.txt:1:11:", "not an operator's name"),
    ("1.0.0.0/8 a b\n", "t.txt:1:11:", "not an operator's name"),
    ("1.0.0.0/8 *\n", "t.txt:1:10:", "no operator"),
    ("1.0.0.0/8,\n", "t.txt:1:11:", "too few fields"),
    ("1.0.0.0/8,a,b\n", "t.txt:1:13:", "double quotes"),
    ("1.0.0.0,1.0.0.9,13335,Cloudflare, Inc.\n", "t.txt:1:35:", "double quotes"),
    ("1.0.0.0,1.0.0.9,13335,\"Cloudflare\n", "t.txt:1:23:", "does not end"),
    ("1.0.0.0,1.0.0.9,\"13335\"x\n", "t.txt:1:24:", "after a quoted field"),
    ("1.0.0.0,1.0.0.9,99999999999\n", "t.txt:1:17:", "not an AS number"),
    ("1.0.0.0,1.0.0.9,13335\n", "t.txt:1:1:", "asns ="),
    ("地址\n", "t.txt:1:1:", "`地址` is not an address"),
    ("!\n", "t.txt:1:2:", "not an address"),
    ("fe80::1%eth0\n", "t.txt:1:1:", "not an address"),
];

#[test]
fn refused_lines() {
    for (text, place, part) in REFUSED {
        let problems = read(text.as_bytes(), &chinanet()).expect_err(text);
        let told = problems[0].to_string();
        assert!(told.starts_with(place) && told.contains(part), "{text:?}: {told}");
        assert!(!problems[0].help.is_empty());
        // R11: tolerated when the operator says so
        let tolerant = IspSource { max_bad_lines: 1, ..chinanet() };
        let text = format!("{text}\n9.0.0.0/8\n");
        let tables = read(text.as_bytes(), &tolerant).unwrap();
        assert_eq!(
            (operators(&tables, "9.0.0.1"), tables.files[0].bad_lines),
            (vec!["chinanet".to_owned()], 1)
        );
        assert_eq!(tables.warnings(0, STALE_AFTER_S).len(), 1);
        fuzz_isp_text(text.as_bytes());
    }
}

#[test]
fn switches() {
    let strict = IspSource { strict: true, ..chinanet() };
    let told = read(b"1.0.0.0/24\n1.0.0.1/24\n", &strict).expect_err("R4")[0].to_string();
    assert!(told.starts_with("t.txt:2:1: host bits"), "{told}");
    let open = IspSource { allow_default: true, ..chinanet() };
    assert_eq!(operators(&read(b"0.0.0.0/0", &open).unwrap(), "8.8.8.8"), ["chinanet"]);
    let nameless = IspSource::default();
    assert_eq!(operators(&read(b"1.0.0.0/8 b", &nameless).unwrap(), "1.0.0.1"), ["b"]);
    assert!(read(b"1.0.0.0/8", &nameless).is_err());
}

#[test]
fn the_first_twenty_bad_lines_are_shown() {
    let problems = read("x\n".repeat(100).as_bytes(), &chinanet()).expect_err("R11");
    assert_eq!(problems.len(), 21);
    assert_eq!(problems[19].line, Some(20));
    assert!(problems[20].message.contains("80 more"), "{}", problems[20]);
}

#[test]
fn lines_have_a_limit() {
    let long = format!("1.0.0.0/24 # {}\n", "x".repeat(4096));
    let told = read(long.as_bytes(), &chinanet()).expect_err("R17")[0].to_string();
    assert!(told.contains("longer than 4096"), "{told}");
    let binary = read(b"1.0.0.0/24\n\xff\xfe\n", &chinanet()).expect_err("R1");
    assert_eq!((binary[0].line, binary[0].message.as_str()), (Some(2), "the line is not UTF-8"));
}

/// R14: the id depends on what the table answers, not on how it is written.
#[test]
fn id_is_canonical() {
    let id = |text: &str| read(text.as_bytes(), &chinanet()).unwrap().id;
    let one = id("1.0.0.0/24\n1.0.1.0/24\n2001:db8::/32 b\n");
    assert_eq!(one, id("# other\n2001:db8::/33 b\n2001:db8:8000::/33 b\n1.0.0.0/23\n1.0.0.0/25\n"));
    assert_ne!(one, id("1.0.0.0/24\n1.0.1.0/24\n2001:db8::/32 c\n"));
    // sha256sum of "1.0.0.0-1.0.1.255 chinanet\n2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff b\n"
    assert_eq!(one, "382d77869fb2b34cc88881fb851f02e52b765670da36d22d066160c6f3f3bbba");
}

#[test]
fn committed_corpus() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/isp_text");
    let mut replayed = 0;
    for found in std::fs::read_dir(&corpus).unwrap() {
        fuzz_isp_text(&std::fs::read(found.unwrap().path()).unwrap());
        replayed += 1;
    }
    assert!(replayed >= 10, "{replayed} files in {}", corpus.display());
}

proptest::proptest! {
    /// Anything like a table, and anything at all.
    #[test]
    fn never_panics(
        lines in proptest::collection::vec("!?[0-9a-f:./,\"# *-]{0,24}[a-z,\" 0-9]{0,8}", 0..12),
        bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200),
    ) {
        fuzz_isp_text(lines.join("\n").as_bytes());
        fuzz_isp_text(&bytes);
    }
}
