//! Good configs, and what they compile to.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::{HEAD, files, good, load};
use portolan_balance::view::Turns;
use portolan_balance::{Ask, Client, Dice, Outcome, Row, Service, ServiceId, Silent, Standing, View, decide};
use portolan_config::{Compiled, load_with};
use portolan_dns::rrtype::RrType;

const REPO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The view of a config with every member up.
fn view(compiled: &Compiled) -> View {
    let service = |policy: &Arc<portolan_balance::Policy>| {
        let facts = vec![portolan_balance::Fact::default(); policy.candidates.len()];
        Arc::new(Service { policy: Arc::clone(policy), standing: Standing::new(policy, &facts) })
    };
    View {
        nets: Arc::clone(&compiled.nets),
        classes: Arc::clone(&compiled.classes),
        services: compiled.policies.iter().map(service).collect(),
        turns: Arc::new(Turns::new(compiled.policies.len())),
        proximity: Arc::default(),
        generation: 1,
    }
}

/// The names of those that a lane chooses from over many dice, and the scope.
fn chosen(compiled: &Compiled, lane: u32, client: &str) -> (Result<Vec<String>, Outcome>, u8) {
    let view = view(compiled);
    let client = Client::whole(client.parse().unwrap(), 0);
    let ask = Ask {
        service: ServiceId(lane),
        client,
        leaf: view.nets.lookup(client.address),
        destination: None,
        payload: &[],
        now_s: 0,
    };
    let mut names = std::collections::BTreeSet::new();
    let mut row = Row::default();
    let mut scope = 0;
    for turn in 0..64_u64 {
        let dice = Dice { entropy: turn.wrapping_mul(0x9e37_79b9_7f4a_7c15), turn };
        let decision = decide(&view, &ask, dice, &mut row, &mut Silent);
        scope = decision.scope;
        if decision.outcome != Outcome::Chosen {
            return (Err(decision.outcome), scope);
        }
        let candidates = &compiled.policies[lane as usize].candidates;
        names.extend(row.picks.iter().map(|id| candidates[usize::from(id.0)].name.clone()));
    }
    (Ok(names.into_iter().collect()), scope)
}

fn names(list: &[&str]) -> Result<Vec<String>, Outcome> {
    Ok(list.iter().map(|&name| name.to_owned()).collect())
}

#[test]
fn the_smallest_file() {
    let compiled = good("version = 1\n[node]\nname = \"n\"\nsite = \"s\"\n[[site]]\nname = \"s\"\n");
    assert_eq!(compiled.dns.listen.len(), 2);
    assert_eq!(compiled.dns.udp_size, 1232);
    assert!(compiled.api.is_none() && compiled.node.state.is_none() && compiled.dns.rrl.is_none());
    assert_eq!(compiled.hash.len(), 64);
}

#[test]
fn families_are_lanes() {
    let compiled = good(&format!(
        r#"{HEAD}[[service]]
name = "www.example.com"
check.tcp = {{ port = 443 }}
fallback = {{ address = ["192.0.2.99", "2001:db8::99"] }}
members = [
  {{ site = "a", link = "x", address = ["192.0.2.1", "2001:db8::1"], weight = 50 }},
  {{ site = "b", address = "192.0.2.2", check_address = "10.0.0.2", inside = "10.0.0.2" }},
  {{ name = "six", address = "2001:db8::3", check = "none" }},
]
"#
    ));
    let types: Vec<RrType> = compiled.lanes.iter().map(|lane| lane.rtype).collect();
    assert_eq!(types, [RrType::A, RrType::AAAA]);
    let of = |lane: usize| {
        compiled.policies[lane].candidates.iter().map(|it| it.name.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(of(0), ["a/x 192.0.2.1", "b 192.0.2.2"]);
    assert_eq!(of(1), ["a/x 2001:db8::1", "six"]);
    assert_eq!(compiled.policies[0].candidates[0].key, compiled.policies[1].candidates[0].key);
    let checks = |lane: usize, at: usize| {
        compiled.lanes[lane].members[at].checks.keys.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(checks(0, 0), ["tcp 192.0.2.1:443"]);
    assert_eq!(checks(0, 1), ["tcp 10.0.0.2:443"]);
    assert_eq!(checks(1, 0), ["tcp [2001:db8::1]:443"]);
    assert!(checks(1, 1).is_empty());
    assert_eq!(compiled.lanes[1].members[1].member, 2);
    assert_eq!(compiled.services[0].members, ["a/x 192.0.2.1", "b 192.0.2.2", "six"]);
    assert_eq!(compiled.services[0].lanes, [ServiceId(0), ServiceId(1)]);
}

/// A family that no member has is there for the fallback alone, and goes by all members' health.
#[test]
fn a_family_of_the_fallback_alone() {
    let all =
        r#"{ site = "a", address = "192.0.2.1" }, { site = "b", address = "192.0.2.2", enabled = false }"#;
    let mixed = r#"{ site = "a", address = "192.0.2.1" }, { site = "b", address = "2001:db8::2" }"#;
    let both = r#"{ address = ["192.0.2.99", "2001:db8::99"] }"#;
    for (members, fallback, wants) in [
        (all, both, &[RrType::A, RrType::AAAA][..]),
        (all, r#"{ cname = "elsewhere.example.net." }"#, &[RrType::A, RrType::AAAA]),
        (all, r#"{ address = "192.0.2.99" }"#, &[RrType::A]),
        (all, "\"all\"", &[RrType::A]),
        (mixed, both, &[RrType::A, RrType::AAAA]),
    ] {
        let compiled = good(&format!(
            "{HEAD}[[service]]\nname = \"www.example.com\"\nchoose = [\"persist\", \"acl\", \"random\"]\n\
             persist = {{ kind = \"table\" }}\nacl = [{{ from = \"10.0.0.0/8\", refuse = true }}]\n\
             check.tcp = {{ port = 80 }}\nfallback = {fallback}\nmembers = [{members}]\n"
        ));
        let types: Vec<RrType> = compiled.lanes.iter().map(|lane| lane.rtype).collect();
        assert_eq!(types, wants, "{members} {fallback}");
        let (Some(v4), Some(v6)) = (compiled.lanes.first(), compiled.lanes.get(1)) else { continue };
        if members == mixed {
            assert_eq!((v4.members.len(), v6.members.len()), (1, 1));
            continue;
        }
        let keys = |lane: &portolan_config::LaneInfo| {
            let of = |it: &portolan_config::MemberInfo| {
                (
                    it.member,
                    it.data.clone(),
                    it.enabled,
                    it.checks.keys.iter().map(ToString::to_string).collect::<Vec<_>>(),
                )
            };
            lane.members.iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(keys(v4), keys(v6), "the same members with the same checks");
        let policy = &compiled.policies[1];
        assert!(policy.persist.is_none() && policy.steps.len() == 1, "{policy:?}");
        assert_eq!(chosen(&compiled, 1, "10.0.0.1").0, Err(Outcome::Refused));
    }
}

#[test]
fn a_members_key_does_not_depend_on_the_order() {
    let text =
        |members: &str| format!("{HEAD}[[service]]\nname = \"www.example.com\"\nmembers = [{members}]\n");
    let one = r#"{ site = "a", address = "192.0.2.1" }"#;
    let two = r#"{ site = "b", address = "192.0.2.2", weight = 7 }"#;
    let keys = |text: String| {
        let compiled = good(&text);
        compiled.policies[0].candidates.iter().map(|it| (it.name.clone(), it.key)).collect::<BTreeMap<_, _>>()
    };
    let forth = keys(text(&format!("{one}, {two}")));
    let back = keys(text(&format!("{two}, {one}")));
    assert_eq!(forth, back);
    assert_eq!(forth.len(), 2);
}

#[test]
fn records_with_targets() {
    let compiled = good(&format!(
        r#"{HEAD}[[service]]
name = "_sip._tcp.example.com"
record = {{ srv = {{ port = 5060, priority = 1 }} }}
members = [{{ site = "a", target = "h.example.net", weight = 3 }}, {{ site = "b", target = "g.example.net", port = 5061 }}]
[[service]]
name = "example.com"
record = {{ mx = {{}} }}
members = [{{ site = "a", target = "mx.example.net" }}]
[[service]]
name = "example.com"
record = {{ https = {{ alpn = ["h3", "h2"] }} }}
check.http = {{}}
members = [{{ site = "a", target = "web.example.net", port = 8443 }}]
[[service]]
name = "cdn.example.com"
record = "cname"
members = [{{ site = "b", target = "cdn.example.net" }}]
"#
    ));
    let types: Vec<RrType> = compiled.lanes.iter().map(|lane| lane.rtype).collect();
    assert_eq!(types, [RrType::SRV, RrType::MX, RrType::HTTPS, RrType::CNAME]);
    let labels: Vec<_> = compiled.policies[0].candidates.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(labels, ["a h.example.net.:5060", "b g.example.net.:5061"]);
    let key = &compiled.lanes[2].members[0].checks.keys[0];
    assert_eq!(key.to_string(), "http web.example.net:8443");
}

#[test]
fn acl_rules_apply_in_order() {
    let compiled = good(&format!(
        r#"{HEAD}[tables.prefixes]
offices = ["203.0.113.0/24", "2001:db8:77::/48"]
[[service]]
name = "www.example.com"
choose = ["acl", "random"]
acl = [
  {{ from = "203.0.113.128/25", prefer = "b" }},
  {{ from = ["offices", "10.0.0.0/8"], only = ["a/x", "m"] }},
  {{ from = "198.18.0.0/15", refuse = true }},
  {{ from = "198.51.100.0/24", avoid = "a" }},
]
members = [
  {{ site = "a", link = "x", address = "192.0.2.1" }},
  {{ site = "a", link = "y", address = "192.0.2.2" }},
  {{ site = "b", address = "192.0.2.3" }},
  {{ name = "m", address = "192.0.2.4" }},
]
"#
    ));
    let (x, y, b, m) = ("a/x 192.0.2.1", "a/y 192.0.2.2", "b 192.0.2.3", "m");
    for (client, wants, scope) in [
        ("203.0.113.200", names(&[b]), 25),
        ("203.0.113.1", names(&[x, m]), 25),
        ("10.1.2.3", names(&[x, m]), 8),
        ("2001:db8:77::1", names(&[x, m]), 48),
        ("198.19.0.1", Err(Outcome::Refused), 15),
        ("198.51.100.1", names(&[b, m]), 24),
        ("192.0.2.77", names(&[x, y, b, m]), 5),
    ] {
        let (got, got_scope) = chosen(&compiled, 0, client);
        assert_eq!(got, wants, "{client}");
        // E01: as wide as the answer is the same, and no wider
        assert!(got_scope >= scope, "{client}: scope {got_scope}, not {scope}");
    }
}

#[test]
fn shared_tables_are_shared() {
    let service = |n: usize| {
        format!(
            "[[service]]\nname = \"s{n}.example.com\"\nchoose = [\"acl\", \"random\"]\nacl = [{{ from = \"10.0.0.0/8\", only = \"a\" }}]\nmembers = [{{ site = \"a\", address = \"192.0.2.{n}\" }}, {{ site = \"b\", address = \"198.51.100.{n}\" }}]\n"
        )
    };
    let compiled = good(&format!("{HEAD}{}{}", service(1), service(2)));
    let table = |lane: usize| {
        let portolan_balance::Step::Acl(table) = &compiled.policies[lane].steps[0] else { panic!("no ACL") };
        Arc::clone(table)
    };
    assert!(Arc::ptr_eq(&table(0), &table(1)));
}

#[test]
fn several_checks_and_numbers_of_them() {
    use portolan_probe::Require;
    let service = |n: usize, require: &str| {
        format!(
            r#"[[service]]
name = "s{n}.example.com"
{require}
check.icmp = {{}}
check.http = [{{ path = "/a" }}, {{ path = "/b", expect = [200, "300-399"], headers = {{ X-Key = "k" }} }}]
check.dns = {{ name = "example.com", type = "SOA" }}
check.command = {{ argv = ["/bin/true"] }}
members = [{{ site = "a", address = "192.0.2.{n}", port = 8080 }}, {{ site = "b", address = "198.51.100.{n}", check.tcp = {{}}, port = 25 }}]
"#
        )
    };
    let compiled = good(&format!(
        "{HEAD}{}{}{}",
        service(1, ""),
        service(2, "check.require = \"any\""),
        service(3, "check.require = 3")
    ));
    let requires: Vec<_> = compiled.lanes.iter().map(|lane| lane.members[0].checks.require).collect();
    assert_eq!(requires, [Require::All, Require::Any, Require::AtLeast(3)]);
    let shown = |at: usize| {
        compiled.lanes[0].members[at].checks.keys.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        shown(0),
        [
            "icmp 192.0.2.1",
            "http 192.0.2.1:8080",
            "http 192.0.2.1:8080",
            "dns 192.0.2.1:8080",
            "command 192.0.2.1:8080"
        ]
    );
    assert_eq!(shown(1), ["tcp 198.51.100.1:25"]);
}

#[test]
fn includes_join() {
    let main = HEAD.replace("version = 1", "version = 1\ninclude = [\"conf.d/*.toml\", \"log.toml\"]");
    let more = [
        (
            "conf.d/b.toml",
            "[[service]]\nname = \"b.example.com\"\nmembers = [{ site = \"b\", address = \"192.0.2.2\" }]\n",
        ),
        (
            "conf.d/a.toml",
            "version = 1\n[[service]]\nname = \"a.example.com\"\nmembers = [{ site = \"a\", address = \"192.0.2.1\" }]\n",
        ),
        ("conf.d/not.txt", "nonsense"),
        ("log.toml", "\u{feff}[log]\r\nlevel = \"debug\"\r\n"),
    ];
    let compiled = load(&main, &more).unwrap_or_else(|problems| panic!("{}", problems.render(false)));
    let names: Vec<_> = compiled.services.iter().map(|service| service.name.to_string()).collect();
    assert_eq!(names, ["a.example.com.", "b.example.com."]);
    assert_eq!(compiled.log_level, portolan_config::LogLevel::Debug);
}

#[test]
fn cookies_and_lists_of_the_dns_server() {
    let main = HEAD.replace(
        "[dns]",
        "[tables]\nprefixes = { resolvers = [\"10.0.0.0/8\"] }\n[dns]\ncookies = { secret_file = \"secret\" }\necs = { allow = [\"resolvers\", \"192.0.2.0/24\"] }\nrrl = { rate = 50, exempt = [\"resolvers\"] }\n",
    );
    let more =
        [("secret", "# the new one\n000102030405060708090a0b0c0d0e0f\nffffffffffffffffffffffffffffffff\n")];
    let compiled = load(&main, &more).unwrap_or_else(|problems| panic!("{}", problems.render(false)));
    let portolan_config::Cookies::Shared(secrets) = &compiled.dns.cookies else {
        panic!("{:?}", compiled.dns.cookies)
    };
    assert_eq!(secrets.current[..3], [0, 1, 2]);
    assert_eq!(secrets.previous, Some([255; 16]));
    let allow = compiled.dns.ecs.allow.as_ref().unwrap();
    let holds = |text: &str| allow.contains(text.parse::<IpAddr>().unwrap());
    assert!(holds("10.1.1.1") && holds("192.0.2.1") && !holds("192.0.3.1"));
    assert_eq!(compiled.dns.rrl.as_ref().unwrap().responses_per_s, 50);
}

#[test]
fn remembered_choices_outlive_a_reload() {
    let text = format!(
        "{HEAD}[[service]]\nname = \"www.example.com\"\npersist = {{ kind = \"table\", ttl = \"5m\" }}\nmembers = [{{ site = \"a\", address = \"192.0.2.1\" }}, {{ site = \"b\", address = \"192.0.2.2\" }}]\n"
    );
    let path = Path::new("/etc/portolan/main.toml");
    let before = good(&text);
    let table = before.remembered.as_ref().unwrap();
    let after = load_with(&files(&text, &[]), path, Some(&before)).unwrap();
    assert!(Arc::ptr_eq(table, after.remembered.as_ref().unwrap()));
    assert!(after.needs_restart(&before).is_empty());
    let larger = text.replace("[node]", "[node]\npersist_entries = 4000000");
    let after = load_with(&files(&larger, &[]), path, Some(&before)).unwrap();
    assert!(!Arc::ptr_eq(table, after.remembered.as_ref().unwrap()));
    // listeners move while the node runs, a node does not
    let elsewhere = text.replace("127.0.0.1:53", "127.0.0.2:53").replace("\"n1\"", "\"n2\"");
    let after = load_with(&files(&elsewhere, &[]), path, Some(&before)).unwrap();
    assert_eq!(after.needs_restart(&before), ["node"]);
    assert_ne!(after.hash, before.hash);
}

#[test]
fn compiling_twice_gives_the_same() {
    let text = std::fs::read_to_string(format!("{REPO}/deploy/examples/three-sites.toml")).unwrap();
    let show = || {
        let path = PathBuf::from(format!("{REPO}/deploy/examples/three-sites.toml"));
        let compiled =
            portolan_config::load(&path).unwrap_or_else(|problems| panic!("{}", problems.render(false)));
        format!("{:?} {:?} {:?}", compiled.policies, compiled.lanes, compiled.classes)
    };
    assert!(text.contains("[[service]]"));
    assert_eq!(show(), show());
}

#[test]
fn operators_choose_links() {
    let path = PathBuf::from(format!("{REPO}/deploy/examples/one-site-two-links.toml"));
    let compiled =
        portolan_config::load(&path).unwrap_or_else(|problems| panic!("{}", problems.render(false)));
    for (client, wants) in [
        ("36.110.1.1", names(&["beijing/ct 192.0.2.10"])),
        ("123.125.0.1", names(&["beijing/cu 198.51.100.10"])),
        ("10.0.0.1", names(&["beijing/ct 192.0.2.10", "beijing/cu 198.51.100.10"])),
    ] {
        assert_eq!(chosen(&compiled, 0, client).0, wants, "{client}");
    }
    assert_eq!(compiled.lanes[0].members[0].capacity_bps, Some(2_000_000_000));
    let down: Vec<_> = compiled.expects.iter().map(|expect| expect.down.len()).collect();
    assert_eq!(down, [0, 0, 0, 3], "both families of www, and mail");
}

/// Geography from an mmdb file to the choice: rules in order, nearest, bias, default, unknown (G02, G06, G07, G09, G10).
#[test]
fn places_choose_sites() {
    use portolan_config::tables::mmdb_write::{Data, MmdbWriter, map};
    let names = |name: &str| map([("names", map([("en", name.into())]))]);
    let record = |continent: &str, country: &str, subdivision: &str, city: &str, at: Option<(f64, f64)>| {
        let mut fields = vec![
            ("continent".to_owned(), map([("code", continent.into())])),
            ("country".to_owned(), map([("iso_code", country.into())])),
            ("subdivisions".to_owned(), Data::List(vec![map([("iso_code", subdivision.into())])])),
            ("city".to_owned(), names(city)),
        ];
        if let Some((lat, lon)) = at {
            fields.push(("location".to_owned(), map([("latitude", lat.into()), ("longitude", lon.into())])));
        }
        Data::Map(fields)
    };
    let mut file = MmdbWriter::new("Test-City", true);
    for (net, record) in [
        ("1.0.0.0/24", record("AS", "CN", "BJ", "Beijing", Some((39.9, 116.4)))),
        ("1.0.1.0/24", record("AS", "CN", "SH", "Shanghai", Some((31.2, 121.5)))),
        ("2.0.0.0/16", record("EU", "FR", "IDF", "Paris", Some((48.9, 2.4)))),
        ("3.0.0.0/8", record("NA", "US", "CA", "Los Angeles", None)),
        ("2a00::/16", record("EU", "DE", "HE", "Frankfurt", Some((50.1, 8.7)))),
    ] {
        file.insert(net.parse().unwrap(), &record);
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("city.mmdb"), file.finish()).unwrap();
    std::fs::write(folder.path().join("example.com.zone"), common::ZONE).unwrap();
    let service = |name: &str, geo: &str| {
        format!(
            "[[service]]\nname = \"{name}.example.com\"\nchoose = [\"geo\", \"random\"]\n{geo}\nmembers = [{{ site = \"a\", address = \"192.0.2.1\" }}, {{ site = \"b\", address = \"192.0.2.2\" }}]\n"
        )
    };
    let text = [
        HEAD.to_owned(),
        "[tables]\ngeo = \"city.mmdb\"\nregions = { west = [\"US\", \"EU\"] }\n".to_owned(),
        "[[geo]]\nname = \"rules\"\nrules = [{ region = \"CN/Shanghai\", sites = [\"b\"] }, { region = \"west\", sites = [[\"a\", \"b\"]] }]\ndefault = [\"a\"]\n".to_owned(),
        service("near", ""),
        service("rules", "geo = \"rules\""),
        service("second", "geo_skip_first = true"),
        service("biased", "geo = { bias = { b = 20000 } }"),
    ]
    .concat();
    let path = folder.path().join("main.toml");
    std::fs::write(&path, text).unwrap();
    let compiled =
        portolan_config::load(&path).unwrap_or_else(|problems| panic!("{}", problems.render(false)));
    let (a, b) = ("a 192.0.2.1", "b 192.0.2.2");
    for (client, near, rules, second, biased) in [
        ("1.0.0.1", vec![a], vec![a], vec![b], vec![b]),
        ("1.0.1.1", vec![a], vec![b], vec![b], vec![b]),
        ("2.0.0.1", vec![b], vec![a, b], vec![a], vec![b]),
        ("2a00::1", vec![b], vec![a, b], vec![a], vec![b]),
        // a country without coordinates is not in the Gulf of Guinea
        ("3.0.0.1", vec![a, b], vec![a, b], vec![a, b], vec![a, b]),
        ("9.9.9.9", vec![a, b], vec![a], vec![a, b], vec![a, b]),
    ] {
        let got: Vec<_> = (0..4).map(|lane| chosen(&compiled, lane, client).0.unwrap()).collect();
        assert_eq!(got, [near, rules, second, biased], "{client}");
    }
    // places that no policy tells apart are one: Beijing and Shanghai differ by a rule, Paris and Frankfurt do not
    assert_eq!(chosen(&compiled, 0, "1.0.0.1").1, 24);
    let values: std::collections::BTreeSet<u32> = compiled.classes.iter().map(|class| class[2]).collect();
    assert_eq!(values.len(), 5, "{values:?}");
}

/// Every whole config in docs/ and deploy/ loads. Those that need a GeoIP file load without it.
#[test]
fn examples_load() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    std::fs::create_dir(root.join("zones")).unwrap();
    std::fs::write(root.join("zones/example.com.zone"), common::ZONE).unwrap();
    std::os::unix::fs::symlink(
        Path::new(REPO).join("isp-tables").canonicalize().unwrap(),
        root.join("isp-tables"),
    )
    .unwrap();
    let text = std::fs::read_to_string(format!("{REPO}/docs/configuration.md")).unwrap();
    let mut count = 0;
    for block in text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
        if !block.starts_with("version") {
            continue;
        }
        count += 1;
        let block = block.replace("geo = \"GeoLite2-City.mmdb\"\n", "");
        let path = root.join("main.toml");
        std::fs::write(&path, block).unwrap();
        let compiled =
            portolan_config::load(&path).unwrap_or_else(|problems| panic!("{}", problems.render(false)));
        for warning in compiled.warnings.iter() {
            assert!(warning.message.contains("GeoIP"), "{}", compiled.warnings.render(false));
        }
    }
    assert_eq!(count, 2);
    for entry in std::fs::read_dir(format!("{REPO}/deploy/examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|it| it == "toml") {
            let compiled =
                portolan_config::load(&path).unwrap_or_else(|problems| panic!("{}", problems.render(false)));
            // the examples come without keys
            let is_key = |message: &str| message.starts_with("there is no file") && message.contains("/pki/");
            assert!(
                compiled.warnings.iter().all(|it| is_key(&it.message)),
                "{}",
                compiled.warnings.render(false)
            );
        }
    }
}

/// Z23: 4,000 names at 14 sites.
#[test]
fn many_services_load_fast() {
    let mut text = String::from(HEAD);
    for site in 0..14 {
        let _ = write!(text, "[[site]]\nname = \"s{site}\"\nlinks = [{{ name = \"l\" }}]\n");
    }
    for service in 0..4000 {
        let _ = write!(
            text,
            "[[service]]\nname = \"w{service}.example.com\"\ncheck.http = {{ path = \"/\" }}\nacl = [{{ from = \"10.0.0.0/8\", prefer = \"s1\" }}]\nmembers = [\n"
        );
        for site in 0..14 {
            let _ = writeln!(
                text,
                "{{ site = \"s{site}\", link = \"l\", address = \"10.{site}.{}.{}\" }},",
                service / 250,
                service % 250
            );
        }
        text.push_str("]\n");
    }
    let started = std::time::Instant::now();
    let compiled = load(&text, &[]).unwrap_or_else(|problems| panic!("{problems}"));
    let took = started.elapsed();
    assert_eq!(compiled.policies.len(), 4000);
    println!("4,000 services of 14 members: {took:?}");
    // without optimisation only a change of order of growth would show
    let limit = if cfg!(debug_assertions) { 20.0 } else { 2.0 };
    assert!(took.as_secs_f64() < limit, "{took:?}");
}

/// A circle of thousands of services is found without running out of stack.
#[test]
fn long_chains_of_dependencies() {
    let mut text = String::from(HEAD);
    for n in 0..3000 {
        let on = if n == 2999 { 0 } else { n + 1 };
        let _ = write!(
            text,
            "[[service]]\nname = \"w{n}.example.com\"\ndepends_on = [\"w{on}.example.com\"]\nmembers = [{{ address = \"10.0.{}.{}\" }}]\n",
            n / 250,
            n % 250
        );
    }
    let problems = load(&text, &[]).unwrap_err();
    assert_eq!(problems.iter().filter(|problem| problem.code == "cycle").count(), 1);
}

/// Cases E01 and E08: private client subnets count where the config knows private prefixes, or where it says so.
#[test]
fn private_subnets_count_where_private_prefixes_are_known() {
    for (ecs, prefix, accepted) in [
        ("", "10.10.0.0/16", true),
        ("", "fd00::/16", true),
        ("", "100.64.3.0/24", true),
        ("", "198.51.100.0/24", false),
        ("", "8.0.0.0/6", false), // holds 10.0.0.0/8, but says nothing of it in particular
        ("ecs.accept_private = false", "10.10.0.0/16", false),
        ("ecs.accept_private = true", "198.51.100.0/24", true),
    ] {
        let compiled = good(&format!(
            "{}[[service]]\nname = \"www.example.com.\"\nchoose = [\"acl\", \"priority\"]\n\
             acl = [{{ from = [\"{prefix}\"], prefer = \"b\" }}]\n\
             members = [{{ site = \"a\", address = \"192.0.2.1\" }}, {{ site = \"b\", address = \"192.0.2.2\" }}]\n",
            HEAD.replace("[dns]\n", &format!("[dns]\n{ecs}\n"))
        ));
        assert_eq!(compiled.dns.ecs.accept_private, accepted, "{ecs} {prefix}");
    }
}
