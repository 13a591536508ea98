use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

#[test]
fn text_to_wire() {
    let origin: Name = "Example.org.".parse().unwrap();
    let long = "a".repeat(63);
    let cases: &[(&str, Result<&[u8], NameError>)] = &[
        (".", Ok(b"\x00")),
        ("@", Ok(b"\x07Example\x03org\x00")),
        ("a.", Ok(b"\x01a\x00")),
        ("_a._tcp", Ok(b"\x02_a\x04_tcp\x07Example\x03org\x00")),
        (r"a\.b.", Ok(b"\x03a.b\x00")),
        (r"a\046b.", Ok(b"\x03a.b\x00")),
        (r"\000\255.", Ok(b"\x02\x00\xff\x00")),
        (r"\@.", Ok(b"\x01@\x00")),
        ("*.x.", Ok(b"\x01*\x01x\x00")),
        ("", Err(NameError::Empty)),
        ("..", Err(NameError::EmptyLabel)),
        (".a.", Err(NameError::EmptyLabel)),
        ("a..b", Err(NameError::EmptyLabel)),
        (r"a\", Err(NameError::BadEscape)),
        (r"\256.", Err(NameError::BadEscape)),
        (r"\03b.", Err(NameError::BadEscape)),
        (&format!("{long}a."), Err(NameError::LabelTooLong)),
        (&format!("{long}.{long}.{long}.{long}."), Err(NameError::TooLong)),
    ];
    for (text, want) in cases {
        let got = Name::parse(text, Some(&origin));
        assert_eq!(got.as_ref().map(Name::as_wire), want.as_ref().copied(), "{text}");
    }
    assert_eq!(Name::parse("a", None), Err(NameError::Relative));
    assert_eq!(Name::parse("@", None), Err(NameError::Relative));
}

#[test]
fn sizes_at_the_limit() {
    let labels = "a.".repeat(127);
    let name: Name = labels.parse().unwrap();
    assert_eq!((name.as_wire().len(), name.label_count()), (255, 127));
    assert_eq!(name.child(b"a"), Err(NameError::TooLong));
    assert_eq!("a.".repeat(128).parse::<Name>(), Err(NameError::TooLong));
    assert_eq!(Name::parse(&"a.".repeat(127), Some(&name)), Ok(name.clone()));
    assert_eq!(Name::parse("b", Some(&name)), Err(NameError::TooLong));
    let mut shorter = name;
    for left in (0..127).rev() {
        shorter = shorter.parent().unwrap();
        assert_eq!(shorter.label_count(), left);
    }
    assert!(shorter.is_root() && shorter.parent().is_none());
    let name: Name = "a.bc.d.".parse().unwrap();
    let suffixes: Vec<_> = (0..5).map(|labels| name.suffix(labels).map(|name| name.to_string())).collect();
    let want = [".", "d.", "bc.d.", "a.bc.d."].map(|text| Some(text.to_owned()));
    assert_eq!(suffixes, [&want[..], &[None]].concat());
}

#[test]
fn wire_is_taken_whole_or_not_at_all() {
    for bad in [&b""[..], b"\x01", b"\x01a", b"\x01a\x00\x00", b"\xc0\x0c", b"\x40a\x00"] {
        assert_eq!(Name::from_wire(bad), Err(NameError::BadWire), "{bad:?}");
    }
    assert_eq!(Name::from_wire(&[&b"\x01a"[..].repeat(128), &b"\x00"[..]].concat()), Err(NameError::TooLong));
}

#[test]
fn below() {
    let cases = [
        ("a.Example.", "eXample.", true),
        ("example.", "example.", true),
        ("example.", "a.example.", false),
        ("badexample.", "example.", false),
        ("example.", ".", true),
        (r"a\.example.", "example.", false),
        // the tail matches octet by octet, but inside a label
        (r"x\001a.", "a.", false),
    ];
    for (name, ancestor, want) in cases {
        let (name, ancestor): (Name, Name) = (name.parse().unwrap(), ancestor.parse().unwrap());
        assert_eq!(name.is_under(&ancestor), want, "{name} {ancestor}");
    }
}

#[test]
fn canonical_order() {
    // RFC 4034 6.1, with the root in front
    let sorted = [
        ".",
        "example.",
        "a.example.",
        "yljkjljk.a.example.",
        "Z.a.example.",
        "zABC.a.EXAMPLE.",
        "z.example.",
        r"\001.z.example.",
        "*.z.example.",
        r"\200.z.example.",
    ];
    let names: Vec<Name> = sorted.iter().map(|text| text.parse().unwrap()).collect();
    for (i, a) in names.iter().enumerate() {
        for (j, b) in names.iter().enumerate() {
            assert_eq!(a.cmp(b), i.cmp(&j), "{a} {b}");
        }
    }
}

#[test]
fn case_does_not_matter_for_sets() {
    let set: HashSet<Name> = ["WWW.example.".parse().unwrap()].into();
    assert!(set.contains(&"www.EXAMPLE.".parse().unwrap()));
    assert!("*.a.".parse::<Name>().unwrap().is_wildcard());
    assert!(!"*a.".parse::<Name>().unwrap().is_wildcard());
    assert_eq!("A.b.".parse::<Name>().unwrap().to_lowercase().to_string(), "a.b.");
}

proptest! {
    #[test]
    fn text_round_trip(labels in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..20), 0..12)) {
        let mut name = Name::root();
        for label in &labels {
            name = name.child(label).unwrap();
        }
        let text = name.to_string();
        let back: Name = text.parse().unwrap();
        prop_assert_eq!(back.as_wire(), name.as_wire());
        prop_assert_eq!(Name::from_wire(name.as_wire()).unwrap(), name);
    }

    #[test]
    fn any_text_is_a_name_or_an_error(text in ".{0,80}") {
        if let Ok(name) = text.parse::<Name>() {
            prop_assert_eq!(name.to_string().parse::<Name>().unwrap(), name);
        }
    }

    #[test]
    fn any_octets_are_a_name_or_an_error(octets in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(name) = Name::from_wire(&octets) {
            prop_assert_eq!(name.as_wire(), &octets[..]);
        }
    }
}
