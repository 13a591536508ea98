//! Everything that can be wrong with a config: text -> code, place, message, remedy.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{Case, HEAD, ZONE, case, load};

/// A service with one member at site `a`; `{}` is more of the service.
fn service(more: &str) -> String {
    format!(
        "{HEAD}[[service]]\nname = \"www.example.com.\"\nmembers = [{{ site = \"a\", address = \"192.0.2.1\" }}]\n{more}\n"
    )
}

/// A service whose members are `members`.
fn members(members: &str) -> String {
    format!("{HEAD}[[service]]\nname = \"www.example.com.\"\nmembers = [{members}]\n")
}

fn cases() -> Vec<Case> {
    let head = |from: &str, to: &str| {
        assert!(HEAD.contains(from), "{from}");
        HEAD.replace(from, to)
    };
    vec![
        // form
        case(
            "syntax",
            "version = 1\n[node\nname = 3 4\n".into(),
            &[("error[syntax]", "", "TOML syntax", "")],
        ),
        case(
            "key twice",
            "version = 1\nversion = 1\n".into(),
            &[("error[syntax]", "version = 1\n", "duplicate key", "")],
        ),
        case(
            "several at once",
            members(r#"{ site = "a", adress = "192.0.2.1", wieght = 3 }, { address = 7 }"#),
            &[
                ("error[unknown-key]", "adress", "unknown key `adress`", "did you mean `address`?"),
                ("error[unknown-key]", "wieght", "unknown key `wieght`", "did you mean `weight`?"),
                ("error[wrong-type]", "7", "expected an address, found a whole number", ""),
            ],
        ),
        case(
            "no node",
            "version = 1\n".into(),
            &[("error[missing-key]", "version = 1", "key `node` is missing", "")],
        ),
        case(
            "version",
            head("version = 1", "version = 2"),
            &[("error[bad-value]", "2\n", "only 1 is known here, not 2", "")],
        ),
        case(
            "no unit",
            service(r#"check.tcp = { port = 80, interval = 5 }"#),
            &[("error[bad-value]", "5 }", "has no unit", r#""5s""#)],
        ),
        case(
            "bad duration",
            service(r#"check.tcp = { port = 80, interval = "5 sec" }"#),
            &[("error[bad-value]", "\"5 sec\"", "no duration", "500ms")],
        ),
        case(
            "unknown word",
            service(r#"fallback = "al""#),
            &[("error[bad-value]", "\"al\"", "unknown word \"al\"", "did you mean `all`?")],
        ),
        case(
            "unknown step",
            service(r#"choose = ["geos", "random"]"#),
            &[("error[bad-value]", "\"geos\"", "unknown word", "did you mean `geo`?")],
        ),
        case(
            "kebab key",
            members(r#"{ address = "192.0.2.1", check-address = "192.0.2.2" }"#),
            &[("error[unknown-key]", "check-address", "unknown key", "did you mean `check_address`?")],
        ),
        case(
            "negative weight",
            members(r#"{ address = "192.0.2.1", weight = -1 }"#),
            &[("error[bad-value]", "-1", "-1 is outside 0 to 65535", "")],
        ),
        case(
            "huge number",
            members(r#"{ address = "192.0.2.1", weight = 99999999999999999999 }"#),
            &[("error[bad-value]", "99999999999999999999", "outside 0 to 65535", "")],
        ),
        case(
            "no port",
            head(r#""127.0.0.1:53""#, r#""::1""#),
            &[("error[bad-value]", "\"::1\"", "no address with a port", "[::1]:PORT")],
        ),
        case(
            "prefix bits",
            service(r#"acl = [{ from = "10.1.2.3/8", refuse = true }]"#),
            &[(
                "error[bad-value]",
                "\"10.1.2.3/8\"",
                "bits behind its length",
                "did you mean \"10.0.0.0/8\"?",
            )],
        ),
        case(
            "url as name",
            service("").replace("www.example.com.", "https://www.example.com/"),
            &[("error[bad-value]", "\"https://www.example.com/\"", "no domain name", "without a scheme")],
        ),
        case(
            "record word",
            service(r#"record = "srv""#),
            &[("error[bad-value]", "\"srv\"", "is a table here", "record = { srv = {} }")],
        ),
        case(
            "members learned",
            service("").replace(r#"[{ site = "a", address = "192.0.2.1" }]"#, "\"peers\""),
            &[("error[missing-key]", "\"peers\"", "need [peers]", "list the members")],
        ),
        // form and meaning at once; what was left out is blamed on nobody
        case(
            "one service's form, another's meaning",
            service(
                "colour = \"red\"\n[[service]]\nname = \"two.example.com\"\nttl = 0\nmembers = [{ site = \"nowhere\", address = \"192.0.2.2\" }]",
            ),
            &[
                ("error[unknown-key]", "colour", "unknown key `colour`", ""),
                ("error[bad-value]", "0\n", "0 is outside 1 to 604800", ""),
                ("error[unknown-name]", "\"nowhere\"", "there is no site", ""),
            ],
        ),
        case(
            "a site's form",
            service("acl = [{ from = \"10.0.0.0/8\", only = \"a\" }]\nminimum = 3")
                .replace("name = \"x\" }", "nane = \"x\" }"),
            &[
                ("error[unknown-key]", "nane", "unknown key `nane`", "did you mean `name`?"),
                ("error[missing-key]", "{ nane", "key `name` is missing", ""),
                ("error[bad-value]", "3", "`minimum` is 3", ""),
            ],
        ),
        case(
            "the form of tables, geography, another service",
            service(
                r#"acl = [{ from = "offices", refuse = true }]
geo = "policy"
depends_on = ["two.example.com"]
answers = 300
[[service]]
name = "two.example.com"
nane = 1
[[service]]
name = "three.example.com"
choose = ["acl", "geo", "random"]
acl = [{ from = "offices", refuse = true }]
geo = "policy"
depends_on = ["two.example.com"]
members = []
[[geo]]
name = "policy"
near = true
[tables]
prefix.offices = "10.0.0.0/8""#,
            ),
            &[
                ("error[bad-value]", "300", "300 is outside", ""),
                ("error[unknown-key]", "nane", "unknown key", ""),
                ("error[missing-key]", "[[service]]", "key `members` is missing", ""),
                ("error[unknown-key]", "near", "unknown key", ""),
                ("error[unknown-key]", "prefix", "unknown key", ""),
                ("error[empty]", "[]", "has no members", ""),
            ],
        ),
        case(
            "the form of dns",
            service("minimum = 3").replace("listen = [", "listens = ["),
            &[
                ("error[unknown-key]", "listens", "unknown key", "did you mean `listen`?"),
                ("error[bad-value]", "3", "`minimum` is 3", ""),
            ],
        ),
        case(
            "the form of node",
            service("minimum = 3").replace("name = \"n1\"", "name = 1"),
            &[
                ("error[wrong-type]", "1", "expected a string", ""),
                ("error[bad-value]", "3", "`minimum` is 3", ""),
            ],
        ),
        case(
            "no node, and more",
            service("minimum = 3").replace("[node]\nname = \"n1\"\nsite = \"a\"\n", ""),
            &[
                ("error[missing-key]", "version = 1", "key `node` is missing", ""),
                ("error[bad-value]", "3", "`minimum` is 3", ""),
            ],
        ),
        case(
            "an unknown part may have been any part",
            service("minimum = 3\ngeo = \"policy\"\n[[geos]]\nname = \"policy\""),
            &[
                ("error[unknown-key]", "geos", "unknown key `geos`", "did you mean `geo`?"),
                ("error[bad-value]", "3", "`minimum` is 3", ""),
            ],
        ),
        // node and DNS
        case(
            "node's site",
            head("site = \"a\"", "site = \"aa\""),
            &[("error[unknown-name]", "\"aa\"", "there is no site \"aa\"", "did you mean `a`?")],
        ),
        case(
            "listen twice",
            head(r#"["127.0.0.1:53"]"#, r#"["127.0.0.1:53", "127.0.0.1:53"]"#),
            &[("error[twice]", "\"127.0.0.1:53\"]", "there twice", "remove one")],
        ),
        case(
            "unknown list",
            head("[dns]", "[dns]\necs = { allow = [\"resolvers\"] }"),
            &[(
                "error[unknown-name]",
                "\"resolvers\"",
                "no list \"resolvers\"",
                "add it to [tables.prefixes]",
            )],
        ),
        case(
            "cookie file",
            head("[dns]", "[dns]\ncookies = { secret_file = \"no\" }"),
            &[("error[unreadable]", "\"no\"", "cannot read /etc/portolan/no", "")],
        ),
        case(
            "TCP API",
            format!("{HEAD}[api]\nlisten = \"127.0.0.1:8053\"\n"),
            &[("error[missing-key]", "\"127.0.0.1:8053\"", "let anybody in", "token_file")],
        ),
        case(
            "API word",
            format!("{HEAD}[api]\nlisten = \"unix\"\n"),
            &[("error[bad-value]", "\"unix\"", "neither a path", "127.0.0.1:8053")],
        ),
        case(
            "state is a file",
            head("site = \"a\"", "site = \"a\"\nstate = \"main.toml\""),
            &[("error[unreadable]", "\"main.toml\"", "is no folder", "")],
        ),
        // sites and links
        case(
            "site twice",
            format!("{HEAD}[[site]]\nname = \"b\"\n"),
            &[("error[twice]", "\"b\"\n", "site \"b\" is there twice", "a name of its own")],
        ),
        case(
            "slash in a name",
            head("name = \"b\"", "name = \"b/c\""),
            &[("error[bad-value]", "\"b/c\"", "separates a site from its link", "short word")],
        ),
        case(
            "latitude",
            head("lat = 50.1", "lat = 150"),
            &[("error[bad-value]", "150", "outside -90 to 90", "")],
        ),
        case(
            "operator without a table",
            head(r#"{ name = "x" }"#, r#"{ name = "x", isp = "nosuchisp" }"#),
            &[("error[unknown-name]", "\"nosuchisp\"", "operator \"nosuchisp\" has no table", "")],
        ),
        case(
            "capacity",
            head("\"1Gbps\"", "\"1 gig\""),
            &[("error[bad-value]", "\"1 gig\"", "no bit rate", "1Gbps")],
        ),
        // members
        case(
            "unknown site",
            members(r#"{ site = "c", address = "192.0.2.1" }"#),
            &[("error[unknown-name]", "\"c\"", "no site \"c\"", "known here: `a`, `b`")],
        ),
        case(
            "unknown link",
            members(r#"{ site = "a", link = "xx", address = "192.0.2.1" }"#),
            &[("error[unknown-name]", "\"xx\"", "site \"a\" has no link \"xx\"", "did you mean `x`?")],
        ),
        case(
            "link alone",
            members(r#"{ link = "x", address = "192.0.2.1" }"#),
            &[("error[missing-key]", "\"x\", address", "needs a site", "add site")],
        ),
        case(
            "no address",
            members(r#"{ site = "a" }"#),
            &[("error[missing-key]", "{ site = \"a\" }]", "no address", "add address")],
        ),
        case(
            "two of a family",
            members(r#"{ address = ["192.0.2.1", "192.0.2.2"] }"#),
            &[("error[twice]", "\"192.0.2.2\"", "one IPv4 `address`", "a member of its own")],
        ),
        case("no members", members(""), &[("error[empty]", "[]\n", "has no members", "add members")]),
        case(
            "equal members",
            members(
                r#"{ site = "a", address = "192.0.2.1" }, { site = "a", address = "192.0.2.1", weight = 2 }"#,
            ),
            &[(
                "error[twice]",
                "{ site = \"a\", address = \"192.0.2.1\", weight",
                "there twice",
                "remove one",
            )],
        ),
        case(
            "names twice",
            members(r#"{ name = "m", address = "192.0.2.1" }, { name = "m", address = "192.0.2.2" }"#),
            &[(
                "error[twice]",
                "{ name = \"m\", address = \"192.0.2.2\"",
                "the name \"m\"",
                "name of its own",
            )],
        ),
        case(
            "named like a site",
            members(r#"{ name = "b", site = "a", address = "192.0.2.1" }"#),
            &[("error[twice]", "\"b\", site", "is also a site", "otherwise")],
        ),
        case(
            "all weights 0",
            members(r#"{ address = "192.0.2.1", weight = 0 }, { address = "192.0.2.2", weight = 0 }"#),
            &[("error[weights]", "[{ address", "all weights", "above 0")],
        ),
        case(
            "target of addresses",
            members(r#"{ address = "192.0.2.1", target = "x.example.net." }"#),
            &[("error[bad-value]", "\"x.example.net.\"", "answers no `target`", "record = \"cname\"")],
        ),
        case(
            "too many",
            members(
                &(0..257)
                    .map(|i| format!("{{ address = \"10.0.{}.{}\" }}", i / 256, i % 256))
                    .collect::<Vec<_>>()
                    .join(", "),
            ),
            &[("error[too-many]", "[{ address = \"10.0.0.0\"", "257 members", "split")],
        ),
        case(
            "SRV without port",
            service(r#"record = { srv = {} }"#)
                .replace(r#"address = "192.0.2.1""#, r#"target = "h.example.net.""#),
            &[("error[missing-key]", "{ site = \"a\", target", "has no port", "record.srv")],
        ),
        case(
            "record with two keys",
            service("record = { srv = { port = 1 }, mx = {} }"),
            &[("error[bad-value]", "{ srv", "exactly one key", "another [[service]]")],
        ),
        // services
        case(
            "TTL 0",
            service("ttl = 0"),
            &[("error[bad-value]", "0\n", "0 is outside 1 to 604800", "30 is usual")],
        ),
        case(
            "scheduler first",
            service(r#"choose = ["random", "acl"]"#),
            &[("error[choose]", "\"random\"", "before other steps", "last step")],
        ),
        case(
            "no scheduler",
            service(r#"choose = []"#),
            &[("error[choose]", "[]", "must be a scheduler", "")],
        ),
        case(
            "persist without",
            service(r#"choose = ["persist", "random"]"#),
            &[("error[missing-key]", "[\"persist\"", "needs `persist`", "kind = \"hash\"")],
        ),
        case("minimum", service("minimum = 3"), &[("error[bad-value]", "3\n", "`minimum` is 3", "")]),
        case(
            "name twice",
            service("").clone()
                + "[[service]]\nname = \"WWW.example.com\"\nmembers = [{ address = \"192.0.2.9\" }]\n",
            &[("error[twice]", "\"WWW.example.com\"", "answers A already", "another `record`")],
        ),
        case(
            "outside every zone",
            service("").replace("www.example.com.", "www.example.net."),
            &[("error[zone]", "\"www.example.net.\"", "lies in no served zone", "[dns] zones")],
        ),
        case(
            "below a delegation",
            service("").replace("www.example.com.", "www.sub.example.com."),
            &[("error[zone]", "\"www.sub.example.com.\"", "below a delegation", "")],
        ),
        case(
            "CNAME in the zone",
            service("").replace("www.example.com.", "alias.example.com."),
            &[("error[zone]", "\"alias.example.com.\"", "has a CNAME", "")],
        ),
        case(
            "CNAME beside data",
            service("record = \"cname\"")
                .replace("www.example.com.", "text.example.com.")
                .replace(r#"address = "192.0.2.1""#, r#"target = "h.example.net.""#),
            &[("error[zone]", "\"text.example.com.\"", "TXT", "")],
        ),
        case(
            "several CNAMEs",
            service("record = \"cname\"\nanswers = 2")
                .replace(r#"address = "192.0.2.1""#, r#"target = "h.example.net.""#),
            &[("error[bad-value]", "\"cname\"", "several CNAMEs", "answers = 1")],
        ),
        case(
            "fallback keys",
            service("fallback = {}"),
            &[("error[bad-value]", "{}", "exactly one key", "cname")],
        ),
        case(
            "fallback to itself",
            service("fallback = { cname = \"www.example.com\" }"),
            &[("error[cycle]", "\"www.example.com\"", "alias of itself", "")],
        ),
        case(
            "load threshold",
            service("load = { threshold = 1.5 }"),
            &[("error[bad-value]", "1.5", "not above 0 and at most 1", "0.9")],
        ),
        case(
            "unknown dependency",
            service("depends_on = [\"wwww.example.com.\"]"),
            &[("error[unknown-name]", "\"wwww.example.com.\"", "no service", "www.example.com.")],
        ),
        case(
            "depends on itself",
            service("depends_on = [\"www.example.com.\"]"),
            &[(
                "error[cycle]",
                "\"www.example.com.\"]",
                "www.example.com. -> www.example.com.",
                "depends_on",
            )],
        ),
        case(
            "a circle",
            service("depends_on = [\"b.example.com.\"]")
                + "[[service]]\nname = \"b.example.com.\"\nmembers = [{ address = \"192.0.2.9\" }]\ndepends_on = [\"www.example.com.\"]\n",
            &[(
                "error[cycle]",
                "\"www.example.com.\"]",
                "www.example.com. -> b.example.com. -> www.example.com.",
                "",
            )],
        ),
        // ACL
        case(
            "two actions",
            service(r#"acl = [{ from = "10.0.0.0/8", only = "a", refuse = true }]"#),
            &[("error[bad-value]", "{ from", "exactly one thing", "refuse = true")],
        ),
        case(
            "no action",
            service(r#"acl = [{ from = "10.0.0.0/8" }]"#),
            &[("error[bad-value]", "{ from", "exactly one thing", "")],
        ),
        case(
            "unknown member",
            service(r#"acl = [{ from = "10.0.0.0/8", only = "b" }]"#),
            &[("error[unknown-name]", "\"b\" }]", "no member of this service is \"b\"", "`a`")],
        ),
        case(
            "empty from",
            service(r#"acl = [{ from = [], only = "a" }]"#),
            &[("error[empty]", "[], only", "`from` is empty", "")],
        ),
        // geography
        case(
            "unknown policy",
            service(r#"geo = "near""#),
            &[("error[unknown-name]", "\"near\"", "no [[geo]] policy \"near\"", "add a [[geo]]")],
        ),
        case(
            "no default",
            service(r#"geo = { rules = [{ region = "CN", sites = ["a"] }] }"#),
            &[("error[missing-default]", "{ rules", "`default` is missing", "nearest = true")],
        ),
        case(
            "NA is two things",
            service(r#"geo = { rules = [{ region = "NA", sites = ["a"] }], default = [] }"#),
            &[("error[bad-region]", "\"NA\"", "both a continent and a country", "\"north-america\"")],
        ),
        case(
            "unknown country",
            service(r#"geo = { rules = [{ region = "UK", sites = ["a"] }], default = [] }"#),
            &[("error[bad-region]", "\"UK\"", "no country", "\"GB\"")],
        ),
        case(
            "site twice in a rule",
            service(r#"geo = { rules = [{ region = "CN", sites = ["a", ["a"]] }], default = [] }"#),
            &[("error[twice]", "\"a\"]]", "in this list twice", "")],
        ),
        case(
            "bias",
            service(r#"geo = { nearest = true, bias = { a = 90000 } }"#),
            &[("error[bad-value]", "90000", "20000 km", "")],
        ),
        // checks
        case(
            "TCP check without port",
            service("check.tcp = {}"),
            &[("error[missing-key]", "{}", "tcp check has no port", "port = 80")],
        ),
        case(
            "too many required",
            service("check.icmp = {}\ncheck.require = 2"),
            &[("error[bad-value]", "2\n", "2 checks are required, and there are 1", "")],
        ),
        case(
            "regex",
            service(r#"check.http = { body_regex = "(" }"#),
            &[("error[bad-value]", "\"(\"", "`body_regex`", "")],
        ),
        case(
            "path",
            service(r#"check.http = { path = "healthz" }"#),
            &[("error[bad-value]", "\"healthz\"", "must begin with /", "")],
        ),
        case(
            "code",
            service(r#"check.http = { expect = "2xx" }"#),
            &[("error[bad-value]", "\"2xx\"", "no response code", "")],
        ),
        case(
            "no CA file",
            service(r#"check.https = { ca_file = "ca.pem" }"#),
            &[("error[unreadable]", "\"ca.pem\"", "no file /etc/portolan/ca.pem", "")],
        ),
        case(
            "other family",
            service(r#"check.icmp = { source = "::1" }"#),
            &[("error[family]", "{ source", "192.0.2.1 cannot be checked from ::1", "")],
        ),
        case(
            "unknown kind",
            service("check.smtp = {}"),
            &[("error[unknown-key]", "smtp", "unknown key `smtp`", "")],
        ),
        case(
            "interval",
            service(r#"check.icmp = { interval = "1ms" }"#),
            &[("error[bad-value]", "\"1ms\"", "outside 10ms to 24h", "")],
        ),
        // tests of the operator
        case(
            "expected type",
            format!(
                "{HEAD}[[expect]]\nclient = \"10.0.0.1\"\nname = \"a.example.com\"\ntype = \"AA\"\nanswer = \"nodata\"\n"
            ),
            &[("error[bad-value]", "\"AA\"", "unknown record type", "")],
        ),
        case(
            "expected down",
            format!(
                "{HEAD}[[expect]]\nclient = \"10.0.0.1\"\nname = \"a.example.com\"\ndown = \"b/z\"\nanswer = \"nodata\"\n"
            ),
            &[("error[unknown-name]", "\"b/z\"", "has no link \"z\"", "")],
        ),
        // tables
        case(
            "[[isp]] of nothing",
            format!("{HEAD}[[isp]]\nname = \"o\"\n"),
            &[("error[empty]", "[[isp]]", "names no prefixes", "add files")],
        ),
    ]
}

#[test]
fn every_problem_has_its_place_and_remedy() {
    common::check_cases(cases());
}

#[test]
fn warnings_do_not_stop_a_config() {
    let table = [
        (
            service("").replace("[[service]]", "[[geo]]\nname = \"g\"\n[[service]]"),
            "no service uses the geo policy \"g\"",
        ),
        (
            service("") + "[[isp]]\nname = \"op\"\nprefixes = \"10.0.0.0/8\"\n",
            "no link leads to operator \"op\"",
        ),
        (
            service("").replace(
                "[[site]]\nname = \"b\"",
                "[tables.prefixes]\nlist = [\"10.0.0.0/8\"]\n[[site]]\nname = \"b\"",
            ),
            "nothing uses the list \"list\"",
        ),
        (service(""), "nothing is at site \"b\""),
        (service(r#"choose = ["isp", "random"]"#), "step \"isp\" does nothing: there are no ISP tables"),
        (service(r#"choose = ["geo", "random"]"#), "step \"geo\" does nothing: there is no GeoIP file"),
        (
            service("choose = [\"random\"]\nacl = [{ from = \"10.0.0.0/8\", only = \"a\" }]"),
            "`acl` does nothing",
        ),
        (service("choose = [\"random\"]\npersist = { kind = \"hash\" }"), "`persist` does nothing"),
        (service(r#"choose = ["destination-hash"]"#), "nothing that this scheduler hashes"),
        (
            service(
                r#"geo = { rules = [{ region = "US", sites = ["a"] }, { region = "US/CA", sites = ["a"] }], default = [] }"#,
            ),
            "this rule for US/CA is never reached",
        ),
        (
            service(r#"geo = { rules = [{ region = "US", sites = ["b"] }], default = ["b"] }"#),
            "the geo step never chooses site \"a\"",
        ),
        (
            service(
                r#"acl = [{ from = "10.0.0.0/8", only = "a" }, { from = ["10.1.0.0/16", "10.2.0.1"], refuse = true }]"#,
            ),
            "this rule for 10.1.0.0/16, 10.2.0.1/32 is never reached",
        ),
        (
            members(r#"{ site = "a", address = "192.0.2.1" }, { site = "b", address = "192.0.2.1" }"#),
            "192.0.2.1 is answered for two members",
        ),
        (HEAD.replace("zones = [", "zones = [\"more/*.zone\", "), "cannot list"),
    ];
    for (text, wanted) in table {
        let problems = match load(&text, &[]) {
            Ok(compiled) => compiled.warnings,
            Err(problems) => {
                assert!(wanted == "cannot list", "{}", problems.render(false));
                problems
            }
        };
        let found = problems.iter().any(|problem| {
            problem.message.contains(wanted)
                && problem.place != portolan_config::Where::Span(portolan_config::Span::NOWHERE)
        });
        assert!(found, "{wanted}\n{}", problems.render(false));
    }
}

#[test]
fn a_table_that_cannot_be_read_is_told_once() {
    let folder = tempfile::tempdir().unwrap();
    let text = service("choose = [\"isp\", \"geo\", \"random\"]")
        .replace("{ site = \"a\", ", "{ site = \"a\", link = \"x\", ")
        + "[tables]\nisp = \"none/\"\ngeo = \"broken.mmdb\"\n";
    std::fs::write(folder.path().join("main.toml"), text).unwrap();
    std::fs::write(folder.path().join("example.com.zone"), ZONE).unwrap();
    std::fs::write(folder.path().join("broken.mmdb"), "no database").unwrap();
    let problems = portolan_config::load(&folder.path().join("main.toml")).unwrap_err();
    let shown = problems.render(false);
    assert!(shown.contains("2 errors") && !shown.contains("does nothing"), "{shown}");
}

#[test]
fn included_and_zone_files_are_named() {
    let main = HEAD.replace("version = 1", "version = 1\ninclude = [\"conf.d/*.toml\"]");
    let more = [
        (
            "conf.d/10-www.toml",
            "[[service]]\nname = \"www.example.com.\"\nmembers = [{ adress = \"192.0.2.1\" }]\n",
        ),
        ("conf.d/20-log.toml", "[log]\nlevel = \"inf\"\n"),
        ("conf.d/30-dns.toml", "[dns]\n"),
    ];
    let shown = load(&main, &more).unwrap_err().to_string();
    assert!(
        shown.contains("/etc/portolan/conf.d/10-www.toml:3:14: error[unknown-key]: unknown key `adress`"),
        "{shown}"
    );
    assert!(
        shown.contains("/etc/portolan/conf.d/20-log.toml:2:9: error[bad-value]: unknown word \"inf\""),
        "{shown}"
    );
    assert!(
        shown.contains(
            "/etc/portolan/conf.d/30-dns.toml:1:1: error[twice]: [dns] is already written elsewhere"
        ),
        "{shown}"
    );

    let broken = ZONE.replace("alias CNAME ns", "alias CNAME");
    let shown = load(&service(""), &[("example.com.zone", &broken)]).unwrap_err().to_string();
    assert!(shown.contains("/etc/portolan/example.com.zone:6:"), "{shown}");
    assert!(!shown.contains("no served zone"), "a broken zone is not a missing one\n{shown}");
}

#[test]
fn rendering() {
    let text = members(r#"{ site = "a", address = "192.0.2.1", wieght = 3 }"#);
    let problems = load(&text, &[]).unwrap_err();
    let shown = problems.render(false);
    for part in [
        "error[unknown-key]: unknown key `wieght`",
        "--> /etc/portolan/main.toml:17:49",
        "^^^^^^",
        "did you mean `weight`?",
        "1 error\n",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    assert!(problems.render(true).contains("\x1b["), "colour");
    let json = problems.to_json();
    assert_eq!(json[0]["line"], 17);
    assert_eq!(json[0]["code"], "unknown-key");
    assert_eq!(json[0]["help"], "did you mean `weight`?");
}

/// A key may hold any character, and ends up on a terminal.
#[test]
fn control_characters_are_not_shown() {
    let text = HEAD.replace("[dns]", "[dns]\n\"\\u001b[31mred\" = 1");
    let problems = load(&text, &[]).unwrap_err();
    let shown = problems.to_string() + &problems.render(false);
    assert!(shown.contains("[31mred") && !shown.contains('\u{1b}'), "{shown:?}");
}

#[test]
fn a_missing_file_is_named() {
    let nothing = std::collections::BTreeMap::new();
    let problems =
        portolan_config::load_with(&nothing, std::path::Path::new("/no/main.toml"), None).unwrap_err();
    assert!(
        problems.to_string().starts_with("/no/main.toml: error[unreadable]: cannot read /no/main.toml"),
        "{problems}"
    );
}
