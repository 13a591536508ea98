//! What can be wrong with peers, virtual servers, learned members and proximity: text -> code, place, message, remedy.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{Case, HEAD, case, check_cases, files, load};
use std::path::Path;

/// The pins of an empty text and of "a".
const PIN: &str = "sha256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU";
const OTHER: &str = "sha256:ypeBEsobvcr6wjGzmiPcTaeG7/gUfE5yuYB3ha/uSLs";

/// `[peers]` with these keys beside identity, and with these members.
fn peers(keys: &str, members: &str) -> String {
    format!("{HEAD}[peers]\nidentity = \"pki/n1\"\n{keys}\nmembers = [{members}]\n")
}

/// `[peers]` of one peer at site `b`.
fn pair(more: &str) -> String {
    peers(
        "listen = \"0.0.0.0:7353\"",
        &format!(r#"{{ name = "n2", site = "b", address = "203.0.113.5:7353", pin = "{PIN}" }}"#),
    ) + more
}

fn server(more: &str) -> String {
    pair("[[virtual_server]]\nname = \"v\"\nservice = \"www.example.com\"\naddress = \"192.0.2.10\"\n")
        + more
        + "\n[[service]]\nname = \"www.example.com\"\nmembers = \"peers\"\n"
}

fn service(more: &str, members: &str) -> String {
    pair(&format!("[[service]]\nname = \"www.example.com\"\n{more}\nmembers = {members}\n"))
}

fn proximity(more: &str) -> String {
    format!("{HEAD}[proximity]\n{more}\n")
}

fn of_peers() -> Vec<Case> {
    let peer = |name: &str, address: &str, pin: &str| {
        format!(r#"{{ name = "{name}", site = "b", address = "{address}", pin = "{pin}" }}"#)
    };
    let two =
        |first: String, second: String| peers("listen = \"0.0.0.0:7353\"", &format!("{first}, {second}"));
    let one = |keys: &str, address: &str| peers(keys, &peer("n2", address, PIN));
    vec![
        case(
            "no listen, no identity",
            format!("{HEAD}[peers]\nhold = \"3s\"\n"),
            &[
                ("error[missing-key]", "[peers]", "key `listen` is missing", "add `listen"),
                ("error[missing-key]", "[peers]", "key `identity` is missing", ""),
            ],
        ),
        case(
            "itself",
            one("listen = \"0.0.0.0:7353\"", "203.0.113.5:7353").replace("\"n2\"", "\"n1\""),
            &[("error[bad-value]", "\"n1\", site", "\"n1\" is this node itself", "remove it")],
        ),
        case(
            "names",
            two(peer("n2", "203.0.113.5:7353", PIN), peer("n2", "203.0.113.6:7353", OTHER)),
            &[(
                "error[twice]",
                "\"n2\", site = \"b\", address = \"203.0.113.6",
                "\"n2\" is there twice",
                "its own",
            )],
        ),
        case(
            "addresses",
            two(peer("n2", "203.0.113.5:7353", PIN), peer("n3", "203.0.113.5:7353", OTHER)),
            &[(
                "error[twice]",
                "\"203.0.113.5:7353\", pin = \"sha256:yp",
                "two peers are at 203.0.113.5:7353",
                "correct",
            )],
        ),
        case(
            "pins",
            two(peer("n2", "203.0.113.5:7353", PIN), peer("n3", "203.0.113.6:7353", PIN)),
            &[("error[twice]", "\"sha256:47", "two pins are the same", "portolan pki pin")],
        ),
        case(
            "site",
            one("listen = \"0.0.0.0:7353\"", "203.0.113.5:7353")
                .replace("site = \"b\", address", "site = \"c\", address"),
            &[("error[unknown-name]", "\"c\", address", "there is no site \"c\"", "`a`, `b`")],
        ),
        case(
            "pin of another form",
            one("listen = \"0.0.0.0:7353\"", "203.0.113.5:7353").replace("sha256:", "sha1:"),
            &[("error[bad-value]", "\"sha1:", "does not begin with \"sha256:\"", "43 characters of base64")],
        ),
        case(
            "pin in hex",
            one("listen = \"0.0.0.0:7353\"", "203.0.113.5:7353")
                .replace(PIN, "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            &[("error[bad-value]", "\"sha256:e3", "hexadecimal, not base64", "portolan pki pin")],
        ),
        case(
            "no pins",
            one("listen = \"0.0.0.0:7353\"", "203.0.113.5:7353").replace(&format!("\"{PIN}\""), "[]"),
            &[("error[empty]", "[] }", "`pin` is empty", "")],
        ),
        case(
            "host name",
            one("listen = \"0.0.0.0:7353\"", "fra1.example.net:7353"),
            &[("error[bad-value]", "\"fra1.example.net:7353\"", "no address with a port", "192.0.2.1:53")],
        ),
        case(
            "no place at all",
            one("listen = \"0.0.0.0:7353\"", "0.0.0.0:7353"),
            &[("error[bad-value]", "\"0.0.0.0:7353\", pin", "0.0.0.0 is no address of a peer", "reached at")],
        ),
        case(
            "port 0",
            one("listen = \"0.0.0.0:0\"", "203.0.113.5:7353"),
            &[("error[bad-value]", "\"0.0.0.0:0\"", "has no port", "7353")],
        ),
        case(
            "family",
            one("listen = \"0.0.0.0:7353\"", "[2001:db8::5]:7353"),
            &[("error[family]", "\"[2001:db8::5]:7353\"", "listens at no IPv6 address", "\"[::]:7353\"")],
        ),
        case(
            "hold",
            one("listen = \"0.0.0.0:7353\"\nhold = \"200ms\"", "203.0.113.5:7353"),
            &[("error[bad-value]", "\"200ms\"", "outside 300ms to 1h", "3s")],
        ),
        case(
            "keepalive",
            one("listen = \"0.0.0.0:7353\"\nkeepalive = \"2s\"", "203.0.113.5:7353"),
            &[("error[bad-value]", "\"2s\"", "half of `hold`", "leave it out")],
        ),
        case(
            "identity with its ending",
            one("listen = \"0.0.0.0:7353\"", "203.0.113.5:7353").replace("pki/n1", "pki/n1.key"),
            &[("error[bad-value]", "\"pki/n1.key\"", "ends with .key", "\"pki/n1\"")],
        ),
        case(
            "two addresses to listen at",
            one("listen = [\"0.0.0.0:7353\", \"[::]:7353\"]", "203.0.113.5:7353"),
            &[(
                "error[too-many]",
                "\"[::]:7353\"",
                "this version listens for peers at one address",
                "keep the one",
            )],
        ),
        case(
            "nothing to listen at",
            one("listen = []", "203.0.113.5:7353"),
            &[("error[empty]", "[]", "`listen` is empty", "")],
        ),
    ]
}

fn of_servers() -> Vec<Case> {
    let external = "mode = \"external\"\ncheck = \"none\"\n";
    vec![
        case(
            "later modes",
            server("mode = \"nat\"\ncheck = \"none\""),
            &[(
                "error[bad-value]",
                "\"nat\"",
                "no virtual servers of mode \"nat\"",
                "the modes it has: \"external\"",
            )],
        ),
        case(
            "mode",
            server("mode = \"extrenal\""),
            &[("error[bad-value]", "\"extrenal\"", "unknown word", "did you mean `external`?")],
        ),
        case(
            "ports",
            server(&format!("{external}ports = [80, \"90-85\"]")),
            &[("error[bad-value]", "\"90-85\"", "no range of ports", "8000-8100")],
        ),
        case(
            "port twice",
            server(&format!("{external}ports = [\"80-90\", 85]")),
            &[("error[twice]", "85]", "port 85 is there twice", "once")],
        ),
        case(
            "ports of every protocol",
            server(&format!("{external}protocol = \"any\"\nports = 80")),
            &[("error[bad-value]", "80\n", "it has no ports", "leave `ports` out")],
        ),
        case(
            "link",
            server(&format!("{external}link = \"z\"")),
            &[("error[unknown-name]", "\"z\"", "site \"a\" has no link \"z\"", "`x`, `y`")],
        ),
        case(
            "twice",
            server(&format!(
                "{external}[[virtual_server]]\nname = \"v\"\nservice = \"www.example.com\"\naddress = \"192.0.2.10\"\n{external}"
            )),
            &[
                ("error[twice]", "\"v\"", "virtual server \"v\" is there twice", "its own"),
                ("error[twice]", "\"192.0.2.10\"", "serves www.example.com. twice", "several ports"),
            ],
        ),
        case(
            "address",
            server(external).replace("\"192.0.2.10\"", "\"224.0.0.1\""),
            &[("error[bad-value]", "\"224.0.0.1\"", "no address of a server", "that clients use")],
        ),
        case(
            "check without a port",
            server("mode = \"external\"\ncheck.tcp = {}"),
            &[("error[missing-key]", "{}", "tcp check has no port", "port = 80")],
        ),
        case(
            "a service of names",
            pair(&format!(
                "[[virtual_server]]\nname = \"v\"\nservice = \"www.example.com\"\naddress = \"192.0.2.10\"\n{external}\
                 [[service]]\nname = \"www.example.com\"\nrecord = \"cname\"\nmembers = [{{ target = \"h.example.net.\" }}]\n"
            )),
            &[(
                "error[family]",
                "\"www.example.com\"\naddress".split('\n').next().unwrap(),
                "answers no addresses",
                "record = \"address\"",
            )],
        ),
    ]
}

fn of_members() -> Vec<Case> {
    let alone =
        |members: &str| format!("{HEAD}[[service]]\nname = \"www.example.com\"\nmembers = {members}\n");
    vec![
        case(
            "word",
            service("", "\"peer\""),
            &[("error[bad-value]", "\"peer\"", "unknown word \"peer\"", "did you mean `peers`?")],
        ),
        case(
            "nobody to learn from",
            alone("[{ peers = true }]"),
            &[("error[missing-key]", "{ peers", "need [peers]", "list the members")],
        ),
        case(
            "a site without peers",
            alone("[{ site = \"b\" }]"),
            &[(
                "error[missing-key]",
                "{ site",
                "no address, and without [peers]",
                "add address = \"192.0.2.10\"",
            )],
        ),
        case(
            "keys of one member",
            service("", "[{ peers = true, name = \"m\", address = \"192.0.2.1\", inside = \"10.0.0.1\" }]"),
            &[
                ("error[bad-value]", "\"m\"", "`name` is of one member", "remove peers = true"),
                ("error[bad-value]", "\"192.0.2.1\"", "`address` is of one member", ""),
                ("error[bad-value]", "\"10.0.0.1\"", "`inside` is of one member", ""),
            ],
        ),
        case(
            "names learn nothing",
            service("record = \"cname\"", "\"peers\""),
            &[("error[family]", "\"peers\"", "this service answers none", "record = \"address\"")],
        ),
        case(
            "direct checks without checks",
            service("on_peer_loss = \"direct-check\"", "\"peers\""),
            &[("error[missing-key]", "\"direct-check\"", "the service has none", "check.tcp")],
        ),
        case(
            "direct checks without a port",
            service("on_peer_loss = \"direct-check\"\ncheck.tcp = {}", "\"peers\""),
            &[("error[missing-key]", "{}", "this check has no port", "add port = 443")],
        ),
        case(
            "loss",
            service("on_peer_loss = \"direct\"", "\"peers\""),
            &[("error[bad-value]", "\"direct\"", "unknown word", "`direct-check`")],
        ),
        case(
            "a place that is nowhere",
            service(
                "acl = [{ from = \"10.0.0.0/8\", only = [\"b\", \"a/x\", \"c\", \"a/z\"] }]",
                "\"peers\"",
            ),
            &[
                ("error[unknown-name]", "\"c\"", "no member of this service is \"c\"", "`a`, `b`"),
                ("error[unknown-name]", "\"a/z\"", "no member of this service is \"a/z\"", ""),
            ],
        ),
    ]
}

fn of_proximity() -> Vec<Case> {
    vec![
        case(
            "longer than a client",
            proximity("v4 = 25"),
            &[("error[bad-value]", "25", "25 is outside 8 to 24", "")],
        ),
        case(
            "weights",
            proximity("weights = { rtt = 0, loss = 1, hops = -1 }"),
            &[("error[bad-value]", "-1", "outside 0 to 10000", "")],
        ),
        case(
            "no weights",
            proximity("weights = { rtt = 0, loss = 1 }"),
            &[("error[weights]", "{ rtt", "all weights", "`rtt`")],
        ),
        case(
            "band",
            proximity("band = { percent = 200, time = \"2s\" }"),
            &[
                ("error[bad-value]", "200", "outside 0 to 100", ""),
                ("error[bad-value]", "\"2s\"", "outside 0ns to 1s", ""),
            ],
        ),
        case(
            "explore",
            proximity("explore = { share = 0.5, limit = \"60ms\" }"),
            &[
                ("error[bad-value]", "0.5", "outside 0 to 0.02", ""),
                ("error[bad-value]", "\"60ms\"", "outside 0ns to 50ms", ""),
            ],
        ),
        case(
            "shorter than the window",
            proximity("window = \"2h\""),
            // the default of passive_ttl stands nowhere; the window is what was written
            &[("error[bad-value]", "\"2h\"", "is longer than `passive_ttl`", "")],
        ),
        case(
            "solicit",
            proximity("passive = { solicit = { share = 0.1, every = \"1s\" } }"),
            &[
                ("error[bad-value]", "0.1", "outside 0 to 0.005", ""),
                ("error[bad-value]", "\"1s\"", "outside 600s to 86400s", ""),
            ],
        ),
        case(
            "rate",
            proximity("active = { icmp = true, contact = \"x\", rate = 2000, in_flight = 101 }"),
            &[
                ("error[bad-value]", "2000", "outside 1 to 1000", ""),
                ("error[bad-value]", "101", "outside 1 to 100", ""),
            ],
        ),
        case(
            "contact",
            proximity("active = { icmp = true, contact = \"bei Ümit\" }"),
            &[("error[bad-value]", "\"bei", "1 to 200 characters of ASCII", "URL")],
        ),
        case(
            "excluded list",
            proximity("active = { icmp = true, contact = \"x\", exclude = [\"shy\"] }"),
            &[("error[unknown-name]", "\"shy\"", "no list \"shy\"", "[tables.prefixes]")],
        ),
        case(
            "static",
            proximity(
                "static = [\n{ prefix = \"10.0.0.0/25\", site = \"a\", rtt = \"5ms\" },\n\
                 { prefix = \"10.0.0.0/8\", site = \"c\", rtt = \"0s\" },\n\
                 { prefix = \"10.0.0.0/8\", site = \"a\", link = \"x\", rtt = \"5ms\" },\n\
                 { prefix = \"10.0.0.0/8\", site = \"a\", link = \"x\", rtt = \"6ms\" }]",
            ),
            &[
                ("error[bad-value]", "\"10.0.0.0/25\"", "longer than the /24", "lies in"),
                ("error[unknown-name]", "\"c\"", "no site", ""),
                ("error[bad-value]", "\"0s\"", "outside 1ms to 10s", ""),
                (
                    "error[twice]",
                    "{ prefix = \"10.0.0.0/8\", site = \"a\", link = \"x\", rtt = \"6ms\"",
                    "there twice",
                    "remove",
                ),
            ],
        ),
    ]
}

#[test]
fn peers_have_their_place_and_remedy() {
    check_cases(of_peers());
}

#[test]
fn virtual_servers_have_their_place_and_remedy() {
    check_cases(of_servers());
}

#[test]
fn learned_members_have_their_place_and_remedy() {
    check_cases(of_members());
}

#[test]
fn proximity_has_its_place_and_remedy() {
    check_cases(of_proximity());
}

#[test]
fn what_is_odd_is_said() {
    let vs = |service: &str, more: &str| {
        format!(
            "[[virtual_server]]\nname = \"v\"\nservice = \"{service}\"\naddress = \"192.0.2.10\"\nmode = \"external\"\n{more}\n"
        )
    };
    let www = "[[service]]\nname = \"www.example.com\"\nmembers = [{ address = \"192.0.2.1\" }]\n";
    let learns = "[[service]]\nname = \"www.example.com\"\nmembers = \"peers\"\n";
    let none = "check = \"none\"";
    let table = [
        (pair(""), "there is no file /etc/portolan/pki/n1.key", "portolan pki issue /etc/portolan/pki n1"),
        (peers("listen = \"0.0.0.0:7353\"", ""), "[peers] has no members", "add members"),
        (
            pair("").replace("0.0.0.0:7353", "127.0.0.1:7353"),
            "cannot be reached from a loopback address",
            "peers can reach",
        ),
        (
            pair(&vs("www.example.com", none)),
            "no service www.example.com. at this node: only peers",
            "add the service",
        ),
        (format!("{HEAD}{}", vs("www.example.com", none)), "nothing takes it in", "members = \"peers\""),
        (
            pair(&(vs("www.example.com", none) + www)),
            "does not take in virtual server \"v\"",
            "{ peers = true }",
        ),
        (pair(&(vs("www.example.com", "") + learns)), "never checked", "check = \"none\""),
        (
            service("on_peer_loss = \"keep\"", "[{ address = \"192.0.2.1\" }]"),
            "`on_peer_loss` does nothing",
            "",
        ),
        (
            service("", "[{ site = \"b\", check.tcp = { port = 80 } }]"),
            "`check` does nothing here",
            "direct-check",
        ),
        (service("check.icmp = {}", "\"peers\""), "all members are learned", "direct-check"),
        (service("", "[{ site = \"a\" }]"), "no peer stands at site \"a\"", "an `address`"),
        (proximity("active = { rate = 5 }"), "`active` probes nothing", "icmp = true"),
        (proximity("active = { icmp = true }"), "do not say who answers for them", "contact ="),
    ];
    let mut wrong = Vec::new();
    for (text, message, help) in table {
        let compiled = load(&text, &[]).unwrap_or_else(|problems| panic!("{}", problems.render(false)));
        let found = compiled.warnings.iter().any(|problem| {
            problem.message.contains(message) && problem.help.as_deref().unwrap_or_default().contains(help)
        });
        if !found {
            wrong.push(format!("{message}, {help}\n{}", compiled.warnings.render(false)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What a part says that was not understood is held against nobody.
#[test]
fn parts_that_are_not_understood_blame_nobody() {
    for (name, text, count) in [
        ("peers", service("", "\"peers\"").replace("identity", "identty"), 2),
        ("a peer's form", service("", "[{ site = \"a\" }]").replace("pin =", "pim ="), 2),
        (
            "a virtual server's form",
            format!(
                "{HEAD}[[virtual_server]]\nname = \"v\"\nservice = \"www.example.com\"\naddress = \"192.0.2.10\"\nmodus = 1\n\
                 [[service]]\nname = \"www.example.com\"\nmembers = \"peers\"\n"
            ),
            2,
        ),
        ("proximity", proximity("static = 1"), 1),
        (
            "node",
            server("mode = \"external\"\nlink = \"x\"\ncheck = \"none\"").replace("name = \"n1\"", "nam = 1"),
            2,
        ),
    ] {
        let problems = load(&text, &[]).unwrap_err();
        assert_eq!(problems.iter().count(), count, "{name}\n{}", problems.render(false));
    }
}

/// A key that others may read is said; one that nobody else may read is not.
#[test]
fn the_key_is_nobody_elses() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for (path, octets) in files(&pair(""), &[("pki/n1.crt", ""), ("pki/n1.key", "")]) {
        let path = root.join(path.strip_prefix("/etc/portolan").unwrap());
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, octets).unwrap();
    }
    for (mode, is_said) in [(0o644, true), (0o640, true), (0o600, false), (0o400, false)] {
        std::fs::set_permissions(root.join("pki/n1.key"), std::fs::Permissions::from_mode(mode)).unwrap();
        let compiled = portolan_config::load(&root.join("main.toml")).unwrap();
        let shown = compiled.warnings.render(false);
        let wanted =
            format!("others may read the key {} (mode {mode:04o})", root.join("pki/n1.key").display());
        assert_eq!(shown.contains(&wanted), is_said, "{shown}");
        assert_eq!(shown.contains("chmod 600"), is_said, "{shown}");
        let peers = compiled.peers.as_ref().unwrap();
        assert_eq!(peers.key, Path::new(root).join("pki/n1.key"));
        assert_eq!(peers.certificate, root.join("pki/n1.crt"));
        assert_eq!(peers.keepalive.as_millis(), 1000);
    }
}
