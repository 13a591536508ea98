//! Whole texts: what they give, and what they are refused for.

/// Texts that load, the first of them the zone file.
pub(crate) struct Good {
    pub(crate) name: &'static str,
    pub(crate) texts: &'static [(&'static str, &'static str)],
    /// Owner, TTL, type and data of all records but the SOA.
    pub(crate) records: &'static [&'static str],
    /// How the warnings begin.
    pub(crate) warnings: &'static [&'static str],
}

const NS: &str = "t. 3600 NS 026e73017500";

pub(crate) const GOOD: &[Good] = &[
    Good {
        name: "order, blanks and parentheses (Z11)",
        texts: &[(
            "z",
            "$ORIGIN t.\n$TTL 1h\n@ IN SOA ns.u. h ( ; c ( \"\n  1 ; serial\n  1h 1h\n\n 1w 1h )\n  NS ns.u.\n\
             a A 192.0.2.1;c\n  \n\t; nothing\n\t300\tIN\tA\t192.0.2.2\t;\"\n\
             b IN 300 a 192.0.2.3\nc 1h30m in A ( 192.0.2.4\n)\nd ( IN ; x\n A ) 192.0.2.5\nIN A 192.0.2.6\n\
             e CLASS1 TYPE1 192.0.2.7",
        )],
        records: &[
            NS,
            "a.t. 300 A c0000201",
            "a.t. 300 A c0000202",
            "b.t. 300 A c0000203",
            "c.t. 5400 A c0000204",
            "d.t. 3600 A c0000205",
            "IN.t. 3600 A c0000206",
            "e.t. 3600 A c0000207",
        ],
        warnings: &["z:12:2: the TTLs of a.t. A differ, from 300 to 3600; 300 is used"],
    },
    Good {
        name: "CRLF, a byte order mark, no newline at the end",
        texts: &[(
            "z",
            "\u{feff}$ORIGIN t.\r\n$TTL 60\r\n@ SOA . . ( 1\r\n 1 1 1 1 )\r\n\r\n  NS ns.u.\r\na TXT \"x\"\r\nb TXT y",
        )],
        records: &["t. 60 NS 026e73017500", "a.t. 60 TXT 0178", "b.t. 60 TXT 0179"],
        warnings: &[],
    },
    Good {
        name: "no $ORIGIN: what is relative is below the SOA's owner",
        texts: &[("z", "t. 60 SOA ns h 1 1 1 1 1\n@ 60 NS ns.u.\na 60 TXT x\n")],
        records: &["t. 60 NS 026e73017500", "a.t. 60 TXT 0178"],
        warnings: &[],
    },
    Good {
        name: "TTLs: $TTL, else the last explicit one, never the SOA's minimum (Z14)",
        texts: &[(
            "z",
            "$ORIGIN t.\n@ SOA ns.u. h 1 1 1 1 77\n@ NS ns.u.\na 50 TXT x\nb TXT y\n$TTL 2m\nc TXT z\n",
        )],
        records: &["t. 3600 NS 026e73017500", "a.t. 50 TXT 0178", "b.t. 50 TXT 0179", "c.t. 120 TXT 017a"],
        warnings: &[
            "z:2:1: the record has no TTL and there is no $TTL before it: 3600, the configured default",
        ],
    },
    Good {
        name: "$INCLUDE with an origin; neither origin nor owner leaks out (Z08)",
        texts: &[
            (
                "d/z",
                "$ORIGIN t.\n$TTL 60\n@ SOA ns.u. h 1 1 1 1 1\n@ NS ns.u.\n$INCLUDE i sub\n TXT after\n\
                 x TXT y\n$INCLUDE \"j\" ; c\n",
            ),
            ("d/i", " TXT inherits\na TXT b\n$ORIGIN deep.t.\na TXT b\n"),
            ("d/j", "a TXT c\n"),
        ],
        records: &[
            "t. 60 NS 026e73017500",
            "t. 60 TXT 08696e686572697473",
            "a.sub.t. 60 TXT 0162",
            "a.deep.t. 60 TXT 0162",
            "t. 60 TXT 056166746572",
            "x.t. 60 TXT 0179",
            "a.t. 60 TXT 0163",
        ],
        warnings: &[],
    },
    Good {
        name: "$GENERATE as BIND has it",
        texts: &[(
            "z",
            "$ORIGIN t.\n$TTL 60\n@ SOA ns.u. h 1 1 1 1 1\n@ NS ns.u.\n\
             $GENERATE 1-2 q$ TXT \"a $\"\n$GENERATE 1-1 r TXT \"\\\"a $\\\"\"\n$GENERATE 1-2 m$ 9 IN MX \"0 m$.u.\"\n\
             $GENERATE 1-1 p$$ TXT x\\$$\n$GENERATE 10-12/2 h${0,4,x}-${-1}-${1,3,o} A 10.0.0.${-3}\n\
             $GENERATE 1-1 ${0,7,n}.n TXT ${170,3,N} ${161,0,X} ${-6,3,d}\n$GENERATE 3-3 c CAA 0 issue \"u; v=$\"\n",
        )],
        records: &[
            "t. 60 NS 026e73017500",
            "q1.t. 60 TXT 01610131",
            "q2.t. 60 TXT 01610132",
            "r.t. 60 TXT 03612031",
            "m1.t. 9 MX 0000026d31017500",
            "m2.t. 9 MX 0000026d32017500",
            "p\\$.t. 60 TXT 03782431",
            "h000a-9-013.t. 60 A 0a000007",
            "h000c-11-015.t. 60 A 0a000009",
            "1.0.0.0.n.t. 60 TXT 03422e41024132032d3035",
            "c.t. 60 CAA 00056973737565753b20763d33",
        ],
        warnings: &[],
    },
    Good {
        name: "names: escapes, underscores, wildcards, case (Z22)",
        texts: &[(
            "z",
            "$ORIGIN t.\n$TTL 60\n@ SOA ns.u. h 1 1 1 1 1\n@ NS ns.u.\n_a._tcp SRV 0 0 0 .\na\\.b TXT x\n\\000\\255 TXT x\n\
             * TXT x\n*.a.*.B TXT x\n\\$TTL TXT x\nA.B TXT x\na.b TXT y\n",
        )],
        records: &[
            "t. 60 NS 026e73017500",
            "_a._tcp.t. 60 SRV 00000000000000",
            "a\\.b.t. 60 TXT 0178",
            "\\000\\255.t. 60 TXT 0178",
            "*.t. 60 TXT 0178",
            "*.a.*.B.t. 60 TXT 0178",
            "\\$TTL.t. 60 TXT 0178",
            "A.B.t. 60 TXT 0178",
            "a.b.t. 60 TXT 0179",
        ],
        warnings: &[],
    },
    Good {
        name: "strings over several lines, in parentheses only (Z12)",
        texts: &[(
            "z",
            "$ORIGIN t.\n$TTL 60\n@ SOA ns.u. h 1 1 1 1 1\n@ NS ns.u.\na TXT ( \"a;b\" ; c\n \"c\nd\"\n e ) f\n",
        )],
        records: &["t. 60 NS 026e73017500", "a.t. 60 TXT 03613b6203630a6401650166"],
        warnings: &[],
    },
    Good {
        name: "duplicates are merged, names whatever their case",
        texts: &[(
            "z",
            "$ORIGIN t.\n$TTL 60\n@ SOA ns.u. h 1 1 1 1 1\n@ NS ns.u.\nT. NS NS.u.\na TXT x\na TXT X\nA TXT x\n",
        )],
        records: &["t. 60 NS 026e73017500", "a.t. 60 TXT 0178", "a.t. 60 TXT 0158"],
        warnings: &["z:5:1: records written twice: 2; each is kept once"],
    },
    Good {
        name: "what delegations and DNAMEs hide",
        texts: &[(
            "z",
            "$ORIGIN t.\n$TTL 60\n@ SOA ns.u. h 1 1 1 1 1\n@ NS ns.u.\nc NS ns.c\nc NS ns.d.c\nns.c A 192.0.2.1\n\
             c TXT x\nx.c TXT x\nd DNAME u.\nx.d A 192.0.2.1\ns.d.c A 192.0.2.1\n",
        )],
        records: &[
            "t. 60 NS 026e73017500",
            "c.t. 60 NS 026e730163017400",
            "c.t. 60 NS 026e7301640163017400",
            "ns.c.t. 60 A c0000201",
            "c.t. 60 TXT 0178",
            "x.c.t. 60 TXT 0178",
            "d.t. 60 DNAME 017500",
            "x.d.t. 60 A c0000201",
            "s.d.c.t. 60 A c0000201",
        ],
        warnings: &[
            "z:6:1: the name server ns.d.c.t. has no address",
            "z:8:1: c.t. is delegated, so its TXT is not answered here",
            "z:9:1: x.c.t. TXT is hidden by the NS of c.t.",
            "z:11:1: x.d.t. A is hidden by the DNAME of d.t.",
        ],
    },
    Good {
        name: "forgotten dots",
        texts: &[(
            "z",
            "$ORIGIN example.com.\n$TTL 60\n@ SOA ns.u. h 1 1 1 1 1\n@ MX 5 mx.example.com\nwww.example.com TXT x\n",
        )],
        records: &[
            "example.com. 60 MX 0005026d78076578616d706c6503636f6d076578616d706c6503636f6d00",
            "www.example.com.example.com. 60 TXT 0178",
        ],
        warnings: &[
            "z:3:1: example.com. has no NS records",
            "z:4:1: example.com. MX: a name ends in the origin twice",
            "z:5:1: www.example.com.example.com. TXT: a name ends in the origin twice",
        ],
    },
    Good {
        name: "servers given by address",
        texts: &[(
            "z",
            "$ORIGIN t.\n$TTL 60\n@ SOA ns.u. h 1 1 1 1 1\n@ NS ns.u.\na NS 192.0.2.1.\nb MX 5 192.0.2.1\n",
        )],
        records: &[
            "t. 60 NS 026e73017500",
            "a.t. 60 NS 0331393201300132013100",
            "b.t. 60 MX 000503313932013001320131017400",
        ],
        warnings: &[
            "z:5:1: the target of a.t. NS is an address (help: give the address",
            "z:6:1: the target of b.t. MX is an address",
        ],
    },
    Good {
        name: "a forgotten dot in a reverse zone",
        texts: &[(
            "z",
            "$ORIGIN 2.0.192.in-addr.arpa.\n$TTL 60\n@ SOA ns.u. h 1 1 1 1 1\n@ NS ns.u.\n1 PTR a.u\n2 PTR b.u.\n",
        )],
        records: &[
            "2.0.192.in-addr.arpa. 60 NS 026e73017500",
            "1.2.0.192.in-addr.arpa. 60 PTR 01610175013201300331393207696e2d61646472046172706100",
            "2.2.0.192.in-addr.arpa. 60 PTR 0162017500",
        ],
        warnings: &["z:5:1: 1.2.0.192.in-addr.arpa. PTR: a name points into its own zone"],
    },
];

/// A name, texts of which the first is the zone file, and how the faults begin.
type Bad = (&'static str, &'static [(&'static str, &'static str)], &'static [&'static str]);

pub(crate) const BAD: &[Bad] = &[
    ("empty", &[("z", "")], &["z:1:1: the zone has no SOA record (help: begin with"]),
    ("no such file", &[("z", "$INCLUDE nothing\n")], &["z:1:1: cannot read \"nothing\": no such text"]),
    (
        "all problems at once, in their order",
        &[(
            "z",
            "$ORIGIN t.\n$TTL 1x\n@ SOA ns h 1 1h 1h 1h\nwww 3600 IN\nb FOO 1\n  \nc.. A 192.0.2.1\n TXT x\nd CH TXT x\n\
             $INCLUD x\ne 300 300 A 192.0.2.1\nf\n$ORIGIN\n$TTL 1 2\ng A (\n192.0.2.1 ))\nh TXT \"x\ni IN A 192.0.2.300\n",
        )],
        &[
            "z:2:6: \"1x\" is not a TTL (help: write seconds",
            "z:3:20: the data ends where seconds (or 1h30m, 2d) is wanted",
            "z:4:1: the line has no record type (help: write for example",
            "z:5:3: \"FOO\" is no record type",
            "z:7:1: bad name \"c..\": the name has an empty label",
            "z:9:3: the class is \"CH\" (help: zones are of class IN",
            "z:10:1: unknown directive \"$INCLUD\"",
            "z:11:7: \"300\" is no record type",
            "z:12:1: the line has no record type",
            "z:13:1: the data ends where the new origin is wanted",
            "z:14:8: \"2\" is left over after the data",
            "z:16:12: \")\" without \"(\"",
            "z:17:7: the quoted string is not closed",
            "z:18:8: \"192.0.2.300\" is not an IPv4 address",
        ],
    ),
    ("parentheses never closed", &[("z", "t. SOA ( 1\n2\n")], &["z:1:8: \"(\" is never closed"]),
    (
        "relative names before any origin (Z10)",
        &[("z", "www 60 A 192.0.2.1\n@ 60 SOA ns h 1 1 1 1 1\n")],
        &[
            "z:1:1: bad name \"www\": the name is relative and no origin is known (help: write the full name",
            "z:2:1: bad name \"@\": the name is relative and no origin is known",
        ],
    ),
    (
        "an indented directive",
        &[("z", "$ORIGIN t.\nx 1 TXT x\n $TTL 60\n")],
        &["z:3:2: \"$TTL\" is no record type (help: begin directives in the first column)"],
    ),
    ("no owner yet", &[("z", " 60 A 192.0.2.1\n")], &["z:1:2: the line begins with a blank"]),
    (
        "owners outside the zone, with the likely remedy",
        &[(
            "z",
            "$ORIGIN example.com.\n$TTL 60\n@ SOA ns.u. h 1 1 1 1 1\nwww. TXT x\nwww.example.org. TXT x\nxexample.com. TXT x\n",
        )],
        &[
            "z:4:1: www. is outside the zone example.com. (help: without the trailing dot it would be www.example.com.)",
            "z:5:1: www.example.org. is outside the zone example.com. (help: correct the name or $ORIGIN",
            "z:6:1: xexample.com. is outside the zone example.com.",
        ],
    ),
    (
        "a second SOA",
        &[("z", "$TTL 60\nt. SOA a b 1 1 1 1 1\nt. SOA a b 2 1 1 1 1\n")],
        &["z:3:1: t. is a second SOA; the first is in line 2 (help: a zone has exactly one"],
    ),
    (
        "CNAME beside other data, two CNAMEs, two DNAMEs (Z16)",
        &[(
            "z",
            "$TTL 60\nt. SOA a b 1 1 1 1 1\na A 192.0.2.1\nA CNAME b\nb CNAME c\nb CNAME d\nd DNAME a\nd DNAME b\n@ CNAME x\n",
        )],
        &[
            "z:4:1: A.t. has a CNAME beside A in line 3 (help: remove one of them",
            "z:6:1: b.t. has more than one CNAME",
            "z:8:1: d.t. has more than one DNAME",
            "z:9:1: t. has a CNAME beside SOA in line 2",
        ],
    ),
    (
        "files that include themselves",
        &[("z", "$INCLUDE a\n"), ("a", "$INCLUDE b\n"), ("b", "\n$INCLUDE a\n")],
        &["b:2:1: \"a\" includes itself"],
    ),
    (
        "problems in an included file carry its name",
        &[("d/z", "$ORIGIN t.\n$INCLUDE a\n"), ("d/a", "x A x\n")],
        &["d/a:1:5: \"x\" is not an IPv4 address"],
    ),
    (
        "$GENERATE",
        &[(
            "z",
            "$ORIGIN t.\n$TTL 60\n$GENERATE\n$GENERATE 2-1 a A 1\n$GENERATE 1-2\n$GENERATE 1-2 a$ A\n$GENERATE 1-2 a$ A 10.0.0.${,}\n\
             $GENERATE 0-1 a${-1,2,x} A 10.0.0.1\n$GENERATE 0-2147483647 a$ A 10.0.0.1\n$GENERATE 250-300 a$ A 10.0.0.$\n\
             $GENERATE 1-2/0 a A 1\n$GENERATE 1-2 a${0,256} A 10.0.0.1\n",
        )],
        &[
            "z:3:1: $GENERATE without a range",
            "z:4:11: \"2-1\" is not a range",
            "z:5:1: $GENERATE without an owner",
            "z:6:1: the data ends where an IPv4 address is wanted",
            "z:7:1: bad ${...} in $GENERATE: \",\" with 1",
            "z:8:1: bad ${...} in $GENERATE: \"-1,2,x\" with 0",
            "z:9:1: $GENERATE makes 2147483648 records;",
            "z:10:1: \"10.0.0.256\" is not an IPv4 address",
            "z:11:11: \"1-2/0\" is not a range",
            "z:12:1: bad ${...} in $GENERATE: \"0,256\" with 1",
        ],
    ),
];
