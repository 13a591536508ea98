//! Wire behaviour: cases W (gslb.md), 1 to 7 (dns.md) and RFC 8906, packet in, packet out.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Message, Server, query, serve, with_opt};
use portolan_dns::cookie::CookieSecrets;
use portolan_dns::respond::Transport;

const ZONE: &str = "\
example.com. 3600 IN SOA ns.example.com. host.example.com. 1 7200 3600 86400 300
example.com. 3600 IN NS ns.example.com.
ns.example.com. 3600 IN A 192.0.2.1
www.example.com. 300 IN A 192.0.2.10
www.example.com. 300 IN TXT \"hello\"
big.example.com. 300 IN TXT \"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\"
big.example.com. 300 IN TXT \"1123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\"
big.example.com. 300 IN TXT \"2123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\"
big.example.com. 300 IN TXT \"3123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\"
big.example.com. 300 IN TXT \"4123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\"
alias.example.com. 60 IN CNAME www.example.com.
mail.example.com. 60 IN MX 10 www.example.com.
sub.example.com. 60 IN NS ns1.sub.example.com.
sub.example.com. 60 IN NS ns2.sub.example.com.
ns1.sub.example.com. 60 IN A 192.0.2.91
ns2.sub.example.com. 60 IN A 192.0.2.92
";

fn server() -> Server {
    serve(&[ZONE])
}

/// What a reply is, in short: response code, then flags and counts where they matter.
fn short(message: &Option<Message>) -> String {
    let Some(message) = message else { return "silence".into() };
    let aa = if message.aa() { " aa" } else { "" };
    let tc = if message.tc() { " tc" } else { "" };
    let opt = if message.opt.is_some() { " opt" } else { "" };
    format!("{}{aa}{tc}{opt} {}/{}", message.rcode(), message.answer.len(), message.authority.len())
}

/// The query with some of its octets replaced.
fn patched(mut query: Vec<u8>, changes: &[(usize, &[u8])]) -> Vec<u8> {
    for (at, octets) in changes {
        query[*at..*at + octets.len()].copy_from_slice(octets);
    }
    query
}

fn www() -> Vec<u8> {
    query("www.example.com.", "A")
}

fn edns(options: &[(u16, &[u8])]) -> Vec<u8> {
    with_opt(www(), 1232, 0, 0, options)
}

/// A name of `labels` labels of 63 octets.
fn long_name(labels: usize) -> Vec<u8> {
    let mut bytes = vec![0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for _ in 0..labels {
        bytes.push(63);
        bytes.extend([b'a'; 63]);
    }
    bytes.extend([0, 0, 1, 0, 1]);
    bytes
}

#[test]
fn odd_packets() {
    let www_end = www().len();
    let trailing = |octets: &[u8]| [www(), octets.to_vec()].concat();
    let two_opts = {
        let mut bytes = with_opt(edns(&[]), 1232, 0, 0, &[]);
        bytes[11] = 2;
        bytes
    };
    let opt_owned = {
        // the name "a" in front of OPT
        let mut bytes = www();
        bytes[11] = 1;
        [bytes, b"\x01a\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00".to_vec()].concat()
    };
    let other = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x00\x00\x04\x7f\x00\x00\x01";
    let after_other = {
        let mut bytes = [www(), other.to_vec()].concat();
        bytes[11] = 1;
        with_opt(bytes, 1232, 0, 0, &[])
    };
    let before_other = {
        let mut bytes = [edns(&[]), other.to_vec()].concat();
        bytes[11] = 2;
        bytes
    };
    let opt_in = |count: usize| patched(edns(&[]), &[(count, &[0, 1]), (10, &[0, 0])]);
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("plain", www(), "NOERROR aa 1/0"),
        ("W01 pointer in the question", patched(www(), &[(12, &[0xc0, 12])]), "FORMERR 0/0"),
        ("W01 forward pointer", patched(www(), &[(16, &[0xc0, 40])]), "FORMERR 0/0"),
        ("W02 name of 257 octets", long_name(4), "FORMERR 0/0"),
        ("name of 193 octets", long_name(3), "REFUSED 0/0"),
        ("label of 64", patched(www(), &[(12, &[64])]), "FORMERR 0/0"),
        ("W03 no class", www()[..www_end - 2].to_vec(), "FORMERR 0/0"),
        ("W03 no type", www()[..www_end - 4].to_vec(), "FORMERR 0/0"),
        ("W03 inside the name", www()[..20].to_vec(), "FORMERR 0/0"),
        ("header alone", www()[..12].to_vec(), "FORMERR 0/0"),
        ("shorter than a header", www()[..11].to_vec(), "silence"),
        ("nothing", Vec::new(), "silence"),
        ("no question", patched(www(), &[(4, &[0, 0])])[..12].to_vec(), "FORMERR 0/0"),
        ("W05 two questions, one there", patched(www(), &[(4, &[0, 2])]), "FORMERR 0/0"),
        (
            "W05 two questions",
            [patched(www(), &[(4, &[0, 2])]), www()[12..].to_vec()].concat(),
            "FORMERR 0/0",
        ),
        ("W06 two OPT", two_opts, "FORMERR opt 0/0"),
        ("W07 OPT with an owner", opt_owned, "FORMERR 0/0"),
        ("OPT in the answer", opt_in(6), "FORMERR 0/0"),
        ("OPT in the authority", opt_in(8), "FORMERR 0/0"),
        ("W08 rdlen past the end", patched(edns(&[]), &[(www_end + 9, &[0, 9])]), "FORMERR 0/0"),
        (
            "W08 option past the end",
            patched(edns(&[(999, b"abc")]), &[(www_end + 13, &[0, 9])]),
            "FORMERR opt 0/0",
        ),
        (
            "W08 three octets of options",
            {
                let mut bytes = patched(edns(&[]), &[(www_end + 9, &[0, 3])]);
                bytes.extend([0, 1, 0]);
                bytes
            },
            "FORMERR opt 0/0",
        ),
        ("W09 version 1", with_opt(www(), 1232, 1, 0, &[]), "BADVERS opt 0/0"),
        ("version 255 with a bad option", with_opt(www(), 1232, 255, 0, &[(8, b"x")]), "BADVERS opt 0/0"),
        ("W10 size 1", with_opt(www(), 1, 0, 0, &[]), "NOERROR aa opt 1/0"),
        ("W11 OPT behind another record", after_other, "NOERROR aa opt 1/0"),
        ("W11 OPT before another record", before_other, "NOERROR aa opt 1/0"),
        ("W12 unknown option", edns(&[(100, b"what")]), "NOERROR aa opt 1/0"),
        ("W12 unknown flags", with_opt(www(), 1232, 0, 0x7fff, &[]), "NOERROR aa opt 1/0"),
        ("W13 IQUERY", patched(www(), &[(2, &[0x08])]), "NOTIMP 0/0"),
        ("STATUS", patched(www(), &[(2, &[0x10])]), "NOTIMP 0/0"),
        ("NOTIFY", patched(www(), &[(2, &[0x20])]), "NOTIMP 0/0"),
        ("UPDATE", patched(www(), &[(2, &[0x28])]), "NOTIMP 0/0"),
        ("W14 DSO", patched(www(), &[(2, &[0x30])]), "NOTIMP 0/0"),
        ("W13 opcode 15", patched(www(), &[(2, &[0x78])]), "NOTIMP 0/0"),
        ("W15 a response", patched(www(), &[(2, &[0x80])]), "silence"),
        ("W17 type 65535", query("www.example.com.", "TYPE65535"), "NOERROR aa 0/1"),
        ("W17 type 0", query("www.example.com.", "TYPE0"), "NOERROR aa 0/1"),
        ("W17 MAILB", query("www.example.com.", "MAILB"), "NOERROR aa 0/1"),
        ("W17 KEY", query("www.example.com.", "KEY"), "NOERROR aa 0/1"),
        ("W17 type 300", query("www.example.com.", "TYPE300"), "NOERROR aa 0/1"),
        ("W17 OPT", query("www.example.com.", "OPT"), "FORMERR 0/0"),
        ("TSIG", query("www.example.com.", "TSIG"), "FORMERR 0/0"),
        ("TKEY", query("www.example.com.", "TKEY"), "FORMERR 0/0"),
        ("AXFR", query("example.com.", "AXFR"), "REFUSED 0/0"),
        ("W19 IXFR", query("example.com.", "IXFR"), "REFUSED 0/0"),
        ("W18 ANY", query("www.example.com.", "ANY"), "NOERROR aa 1/0"),
        ("ANY at the apex", query("example.com.", "ANY"), "NOERROR aa 1/0"),
        ("ANY at an alias", query("alias.example.com.", "ANY"), "NOERROR aa 1/0"),
        ("ANY at nothing", query("nope.example.com.", "ANY"), "NXDOMAIN aa 0/1"),
        ("W20 out of zone", query("www.example.org.", "A"), "REFUSED 0/0"),
        ("W20 above the zone", query("com.", "A"), "REFUSED 0/0"),
        ("W20 root", query(".", "NS"), "REFUSED 0/0"),
        ("class CH", patched(www(), &[(www_end - 2, &[0, 3])]), "REFUSED 0/0"),
        ("class HS", patched(www(), &[(www_end - 2, &[0, 4])]), "REFUSED 0/0"),
        ("class ANY", patched(www(), &[(www_end - 2, &[0, 255])]), "REFUSED 0/0"),
        ("W21 over 512", query("big.example.com.", "TXT"), "NOERROR aa tc 0/0"),
        ("EDNS 512", with_opt(query("big.example.com.", "TXT"), 512, 0, 0, &[]), "NOERROR aa tc opt 0/0"),
        ("EDNS 1232", with_opt(query("big.example.com.", "TXT"), 1232, 0, 0, &[]), "NOERROR aa opt 5/0"),
        ("W23 trailing octets", trailing(b"trailing"), "NOERROR aa 1/0"),
        ("records that are not there", patched(www(), &[(6, &[0xff; 6])]), "FORMERR 0/0"),
    ];
    let mut server = server();
    for (what, bytes, expected) in cases {
        let reply = server.udp(&bytes);
        assert_eq!(short(&reply), expected, "{what}");
        if let Some(reply) = reply {
            assert_eq!(reply.id.to_be_bytes(), bytes[..2], "{what}: the id");
            if let Some(opt) = reply.opt {
                assert_eq!((opt.version, opt.flags & 0x7fff, opt.udp_size), (0, 0, 1232), "{what}");
                assert!(
                    opt.options.iter().all(|(code, _)| *code == u16::MAX || *code == 15),
                    "{what}: {opt:?}"
                );
            }
        }
    }
}

/// W30: RD is copied, RA and AD and CD and Z are clear, DO is copied.
#[test]
fn flags() {
    let mut server = server();
    for (flags, expected) in
        [(0x0000, 0x8400), (0x0100, 0x8500), (0x0130, 0x8500), (0x0070, 0x8400), (0x07f0, 0x8500)]
    {
        let reply = server.udp(&patched(www(), &[(2, &u16::to_be_bytes(flags))])).unwrap();
        assert_eq!(reply.flags, expected, "{flags:04x}");
    }
    for (sent, expected) in [(0x8000, 0x8000), (0, 0), (0xffff, 0x8000)] {
        let reply = server.udp(&with_opt(www(), 1232, 0, sent, &[])).unwrap();
        assert_eq!(reply.opt.unwrap().flags, expected);
    }
}

/// W24: the question comes back octet for octet, and owners point to it.
#[test]
fn question_case_is_kept() {
    let mut server = server();
    let bytes = query("wWw.ExAmPlE.cOm.", "A");
    let reply = server.send(&bytes, "192.0.2.1", Transport::Udp).unwrap();
    assert_eq!(reply[12..bytes.len()], bytes[12..]);
    assert_eq!(reply[bytes.len()..], *b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x01\x2c\x00\x04\xc0\x00\x02\x0a");
    let reply = server.send(&query("NoPe.eXample.com.", "A"), "192.0.2.1", Transport::Udp).unwrap();
    // the SOA's owner points at "eXample.com."
    assert_eq!(reply[34..37], [0xc0, 17, 0]);
}

/// dns.md 4, 16, RFC 9471: what is left out, and when that is said.
#[test]
fn truncation() {
    let mut zone = String::from(ZONE);
    for i in 0..20 {
        zone.push_str(&format!("many.example.com. 60 IN MX {i} host{i}.example.com.\nhost{i}.example.com. 60 IN AAAA 2001:db8::{i:x}\n"));
        zone.push_str(&format!("deep.example.com. 60 IN NS n{i}.deep.example.com.\nn{i}.deep.example.com. 60 IN AAAA 2001:db8::{i:x}\n"));
        zone.push_str(&format!("side.example.com. 60 IN NS host{i}.example.com.\n"));
    }
    let mut server = serve(&[&zone]);
    // name, type, EDNS size; answers, authority and additional records, TC
    for (name, rtype, size, answers, authorities, additionals, tc) in [
        ("many.example.com.", "MX", 512, 20, 0, 0..20, false),
        ("many.example.com.", "MX", 700, 20, 0, 1..20, false),
        ("many.example.com.", "MX", 4096, 20, 0, 20..21, false),
        ("x.deep.example.com.", "A", 512, 0, 20, 1..20, true),
        ("x.deep.example.com.", "A", 1232, 0, 20, 20..21, false),
        ("x.side.example.com.", "A", 512, 0, 20, 0..20, false),
        ("x.sub.example.com.", "A", 512, 0, 2, 2..3, false),
    ] {
        let bytes = with_opt(query(name, rtype), size, 0, 0, &[]);
        let raw = server.send(&bytes, "192.0.2.1", Transport::Udp).unwrap();
        assert!(raw.len() <= usize::from(size.min(1232)), "{name} {size}");
        let reply = common::decode(&raw).unwrap();
        let counts = (reply.answer.len(), reply.authority.len());
        assert_eq!((counts, reply.tc()), ((answers, authorities), tc), "{name} {size}");
        assert!(additionals.contains(&reply.additional.len()), "{name} {size}: {}", reply.additional.len());
        let tcp = common::decode(&server.send(&bytes, "192.0.2.1", Transport::Tcp).unwrap()).unwrap();
        assert!(!tcp.tc() && tcp.additional.len() >= reply.additional.len(), "{name}");
    }
}

/// dns.md 18, RFC 7873, RFC 9018.
#[test]
fn cookies() {
    let mut server = server();
    server.now.unix_s = 1_700_000_000;
    let with = |data: &[u8]| edns(&[(10, data)]);
    // off: ignored whatever it holds
    for data in [&[1; 8][..], &[1; 3]] {
        let reply = server.udp(&with(data)).unwrap();
        assert_eq!((reply.rcode(), reply.option(10)), ("NOERROR", None));
    }
    server.options(|options| options.cookies = Some(CookieSecrets { current: [1; 16], previous: None }));
    for length in [0, 1, 7, 9, 15, 41] {
        let reply = server.udp(&with(&vec![1; length])).unwrap();
        assert_eq!((reply.rcode(), reply.option(10)), ("FORMERR", None), "{length}");
    }
    let first = server.udp(&with(&[9; 8])).unwrap();
    let cookie = first.option(10).unwrap().to_vec();
    assert_eq!((first.rcode(), cookie.len(), &cookie[..8]), ("NOERROR", 24, &[9; 8][..]));
    // a bad server part is as good as none: answered in full, with a good one
    let mut bad = cookie.clone();
    bad[23] ^= 1;
    for data in [&cookie, &bad, &vec![9; 16], &vec![9; 40]] {
        let reply = server.udp(&with(data)).unwrap();
        assert_eq!((reply.rcode(), reply.answer.len()), ("NOERROR", 1));
        assert_eq!(reply.option(10).unwrap()[..8], data[..8]);
    }
    let stats = server.worker.stats();
    assert_eq!((stats.cookie_good.get(), stats.cookie_other.get()), (1, 4));
    // the secret rolls: the old cookie still counts, once more it does not
    server.options(|options| {
        options.cookies = Some(CookieSecrets { current: [2; 16], previous: Some([1; 16]) })
    });
    server.udp(&with(&cookie)).unwrap();
    assert_eq!(stats.cookie_good.get(), 2);
    server.options(|options| {
        options.cookies = Some(CookieSecrets { current: [3; 16], previous: Some([2; 16]) })
    });
    server.udp(&with(&cookie)).unwrap();
    assert_eq!(stats.cookie_good.get(), 2);
    // RFC 7873 5.4: a query for a cookie alone
    let mut alone = vec![0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    alone = with_opt(alone, 1232, 0, 0, &[(10, &[9; 8])]);
    let reply = server.udp(&alone).unwrap();
    assert_eq!(
        (reply.rcode(), reply.question.is_none(), reply.option(10).map(<[u8]>::len)),
        ("NOERROR", true, Some(24))
    );
}

/// W28, RFC 5001, RFC 4892.
#[test]
fn identity() {
    let chaos = |name: &str, rtype: &str| {
        let bytes = query(name, rtype);
        let end = bytes.len();
        patched(bytes, &[(end - 2, &[0, 3])])
    };
    let mut server = server();
    assert_eq!(server.udp(&edns(&[(3, b"")])).unwrap().option(3), None);
    for name in ["version.bind.", "version.server.", "id.server.", "hostname.bind.", "authors.bind."] {
        assert_eq!(short(&server.udp(&chaos(name, "TXT"))), "REFUSED 0/0", "{name}");
    }
    server.options(|options| {
        options.nsid = Some(b"bj1".to_vec());
        options.version_bind = Some("Portolan".into());
        options.id_server = Some("bj1".into());
    });
    assert_eq!(server.udp(&edns(&[(3, b"")])).unwrap().option(3), Some(&b"bj1"[..]));
    assert_eq!(server.udp(&edns(&[(3, b"payload")])).unwrap().option(3), Some(&b"bj1"[..]));
    assert_eq!(server.udp(&edns(&[])).unwrap().option(3), None);
    for (name, text) in [
        ("VERSION.bind.", "Portolan"),
        ("version.server.", "Portolan"),
        ("id.server.", "bj1"),
        ("hostname.bind.", "bj1"),
    ] {
        let reply = server.udp(&chaos(name, "TXT")).unwrap();
        assert_eq!(reply.answer, [format!("{} 0 CLASS3 TXT \"{text}\"", name.to_lowercase())]);
    }
    assert_eq!(short(&server.udp(&chaos("version.bind.", "A"))), "REFUSED 0/0");
    assert_eq!(short(&server.udp(&chaos("authors.bind.", "TXT"))), "REFUSED 0/0");
}

/// RFC 8914: a refusal says why, where the client speaks EDNS.
#[test]
fn extended_errors() {
    let mut server = server();
    let ask = |name: &str, rtype: &str| with_opt(query(name, rtype), 1232, 0, 0, &[]);
    for (name, rtype, code) in [
        ("www.example.org.", "A", Some(20_u16)),
        ("example.com.", "AXFR", Some(18)),
        ("www.example.com.", "A", None),
        ("nope.example.com.", "A", None),
    ] {
        let reply = server.udp(&ask(name, rtype)).unwrap();
        assert_eq!(reply.option(15), code.map(u16::to_be_bytes).as_ref().map(|code| &code[..]), "{name}");
    }
    server.options(|options| options.extended_errors = false);
    assert_eq!(server.udp(&ask("www.example.org.", "A")).unwrap().option(15), None);
}

/// W29: many names to compress cost their number, not its square; the reply is whole.
#[test]
fn many_distinct_names() {
    let mut zone = String::from(ZONE);
    for i in 0..1500 {
        zone.push_str(&format!("all.example.com. 60 IN MX {i} a{i}.b{i}.example.net.\n"));
    }
    let mut server = serve(&[&zone]);
    let reply = server.ask("all.example.com.", "MX");
    assert_eq!((reply.answer.len(), reply.tc()), (1500, false));
}

/// Every prefix of a packet and every flipped bit gets a reply that decodes, or none.
#[test]
fn damaged_packets() {
    let mut server = server();
    server.options(|options| options.cookies = Some(CookieSecrets { current: [1; 16], previous: None }));
    let whole = edns(&[(8, &[0, 1, 24, 0, 192, 0, 2]), (10, &[7; 24]), (3, b"")]);
    for end in 0..whole.len() {
        server.udp(&whole[..end]);
    }
    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        if let Some(reply) = server.udp(&bytes) {
            assert_eq!(reply.id.to_be_bytes(), bytes[..2]);
        }
    }
}
