//! Members that are learned: the same candidates at every node, whatever came first.
#![allow(clippy::unwrap_used, clippy::wildcard_enum_match_arm, reason = "a test may panic")]

mod common;

use std::net::IpAddr;
use std::sync::Arc;

use common::{HEAD, load};
use portolan_balance::policy::{Fallback, Step};
use portolan_balance::view::Turns;
use portolan_balance::{Ask, Client, Dice, Outcome, Row, Service, ServiceId, Silent, Standing, View, decide};
use portolan_config::{Compiled, LearnedServer, Origin, PeerLossWord};

const PEERS: &str = r#"
[peers]
listen = "0.0.0.0:7353"
identity = "pki/n1"
members = [
  { name = "n2", site = "b", address = "203.0.113.5:7353", pin = "sha256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU" },
]
"#;

/// A config with peers and this service, which may have warnings.
fn compile(more: &str) -> Compiled {
    load(&format!("{HEAD}{PEERS}{more}"), &[]).unwrap_or_else(|problems| panic!("{}", problems.render(false)))
}

fn service(keys: &str, members: &str) -> String {
    format!("[[service]]\nname = \"www.example.com\"\n{keys}\nmembers = {members}\n")
}

fn told(author: &str, site: &str, link: Option<&str>, address: &str) -> LearnedServer {
    LearnedServer {
        author: author.into(),
        name: format!("www-{site}"),
        service: "www.example.com.".into(),
        address: address.parse().unwrap(),
        site: site.into(),
        link: link.map(str::to_owned),
        weight: 1,
        tier: 1,
        connections_max: None,
    }
}

fn learn(compiled: &Compiled, servers: &[LearnedServer]) -> Compiled {
    compiled.with_learned(servers).unwrap_or_else(|problems| panic!("{}", problems.render(false)))
}

/// Names of a lane's candidates with weight and tier.
fn candidates(compiled: &Compiled, lane: usize) -> Vec<(String, u16, u8)> {
    let of = &compiled.policies[lane].candidates;
    of.iter().map(|it| (it.name.clone(), it.weight, it.tier)).collect()
}

fn labels(compiled: &Compiled, lane: usize) -> Vec<String> {
    candidates(compiled, lane).into_iter().map(|(name, ..)| name).collect()
}

/// What a client gets from a lane while every member is up.
fn choice(compiled: &Compiled, lane: u32, client: &str) -> Result<String, Outcome> {
    let service = |policy: &Arc<portolan_balance::Policy>| {
        let facts = vec![portolan_balance::Fact::default(); policy.candidates.len()];
        Arc::new(Service { policy: Arc::clone(policy), standing: Standing::new(policy, &facts) })
    };
    let view = View {
        nets: Arc::clone(&compiled.nets),
        classes: Arc::clone(&compiled.classes),
        services: compiled.policies.iter().map(service).collect(),
        turns: Arc::new(Turns::new(compiled.policies.len())),
        proximity: Arc::default(),
        generation: 1,
    };
    let client = Client::whole(client.parse().unwrap(), 0);
    let leaf = view.nets.lookup(client.address);
    let ask = Ask { service: ServiceId(lane), client, leaf, destination: None, payload: &[], now_s: 0 };
    let mut row = Row::default();
    let decision = decide(&view, &ask, Dice { entropy: 7, turn: 0 }, &mut row, &mut Silent);
    match (decision.outcome, row.picks.first()) {
        (Outcome::Chosen, Some(id)) => {
            Ok(compiled.policies[lane as usize].candidates[usize::from(id.0)].name.clone())
        }
        (outcome, _) => Err(outcome),
    }
}

/// What a node would tell its peers.
fn claims(compiled: &Compiled) -> Vec<LearnedServer> {
    let told = |server: &portolan_config::VirtualServer| LearnedServer {
        author: compiled.node.name.clone(),
        name: server.name.clone(),
        service: server.service.to_string(),
        address: server.address,
        site: compiled.sites[usize::from(server.site.0)].name.clone(),
        link: server
            .link
            .map(|id| compiled.sites[usize::from(id.site.0)].links[usize::from(id.link)].name.clone()),
        weight: server.weight,
        tier: server.tier,
        connections_max: server.connections_max,
    };
    compiled.virtual_servers.iter().map(told).collect()
}

#[test]
fn listed_and_learned_members_mix() {
    let base = compile(&service(
        "",
        r#"[
  { site = "a", link = "x", address = "192.0.2.1" },
  { site = "b", tier = 2 },
  { name = "last", address = "192.0.2.9" },
  { peers = true, weight = 7, tier = 3 },
]"#,
    ));
    assert_eq!(labels(&base, 0), ["a/x 192.0.2.1", "last"]);
    assert_eq!(labels(&base, 1), [] as [&str; 0]);
    let (service, ids) = (&base.services[0], [ServiceId(0), ServiceId(1)]);
    assert!(service.learns && !service.learns_only);
    assert_eq!(service.on_peer_loss, PeerLossWord::Expire);
    assert_eq!(service.lanes, ids);
    let servers = [
        told("n2", "b", None, "192.0.2.20"),
        LearnedServer { weight: 5, tier: 9, ..told("n2", "b", None, "2001:db8::20") },
        told("n3", "a", Some("y"), "192.0.2.3"),
        told("n3", "a", Some("x"), "192.0.2.1"), // listed
        LearnedServer { service: "other.example.com.".into(), ..told("n3", "a", None, "192.0.2.4") },
        LearnedServer { service: "WWW.Example.COM".into(), ..told("n3", "a", None, "192.0.2.2") },
        told("n3", "a", None, "0.0.0.0"),
    ];
    let now = learn(&base, &servers);
    let line = |name: &str, weight, tier| (name.to_owned(), weight, tier);
    assert_eq!(
        candidates(&now, 0),
        [
            line("a/x 192.0.2.1", 1, 1),
            line("b 192.0.2.20", 1, 2),
            line("last", 1, 1),
            line("a 192.0.2.2", 7, 3),
            line("a/y 192.0.2.3", 7, 3),
        ]
    );
    assert_eq!(candidates(&now, 1), [line("b 2001:db8::20", 5, 2)]);
    assert_eq!(now.services[0].members.len(), 6);
    assert_eq!(now.services[0].lanes, ids);
    assert_eq!(now.lanes[1].members[0].member, 2, "the position among all members");
    assert_eq!(now.lanes[0].members[4].capacity_bps, Some(1_000_000_000), "of link y");
    let tally = &now.learned.tally;
    assert_eq!((now.learned.servers, tally.taken, tally.known), (7, 4, 1));
    assert_eq!((tally.unwanted, tally.beyond, tally.unplaced, tally.unusable), (1, 0, 0, 1));
    // large things are the same ones, and what was learned before is gone
    assert!(Arc::ptr_eq(&base.nets, &now.nets) && Arc::ptr_eq(&base.isp, &now.isp));
    assert!(Arc::ptr_eq(&base.classes, &now.classes) && !Arc::ptr_eq(&base.catalog, &now.catalog));
    let later = learn(&now, &servers[..1]);
    assert_eq!(labels(&later, 0), ["a/x 192.0.2.1", "b 192.0.2.20", "last"]);
    assert_eq!(labels(&learn(&later, &[]), 0), labels(&base, 0));
}

/// WP-C10: a node's own virtual servers are members like those of its peers, and hashes agree (T10).
#[test]
fn every_node_has_the_same_candidates() {
    let server = |name: &str, link: &str, address: &str| {
        format!(
            "[[virtual_server]]\nname = \"{name}\"\nservice = \"www.example.com\"\naddress = \"{address}\"\n{link}\nmode = \"external\"\nports = 443\ncheck.tcp = {{}}\n"
        )
    };
    let www = service("choose = [\"rendezvous\"]", "\"peers\"");
    let at_a =
        compile(&(server("one", "link = \"x\"", "192.0.2.1") + &server("six", "", "2001:db8::1") + &www));
    let at_b = load(
        &format!(
            "{HEAD}{}{}{www}",
            PEERS.replace("n2", "n1").replace("site = \"b\"", "site = \"a\""),
            server("two", "", "192.0.2.2")
        )
        .replace("name = \"n1\"\nsite = \"a\"", "name = \"n2\"\nsite = \"b\""),
        &[],
    )
    .unwrap_or_else(|problems| panic!("{}", problems.render(false)));
    assert!(at_a.virtual_servers.iter().all(|server| server.is_member));
    assert_eq!(at_a.virtual_servers[0].ports, [(443, 443)]);
    assert_eq!(labels(&at_a, 0), ["a/x 192.0.2.1"], "its own is there from the start");
    assert!(at_a.services[0].learns_only);
    let (now_a, now_b) = (learn(&at_a, &claims(&at_b)), learn(&at_b, &claims(&at_a)));
    for lane in 0..2 {
        assert_eq!(now_a.policies[lane].candidates, now_b.policies[lane].candidates);
    }
    assert_eq!(labels(&now_a, 0), ["a/x 192.0.2.1", "b 192.0.2.2"]);
    for client in 0..64 {
        let client = format!("198.51.100.{client}");
        assert_eq!(choice(&now_a, 0, &client), choice(&now_b, 0, &client), "{client}");
    }
    // a listed member at the same place is the same one
    let listed = compile(&service("", r#"[{ site = "a", link = "x", address = "192.0.2.1" }]"#));
    assert_eq!(listed.policies[0].candidates[0].key, now_b.policies[0].candidates[0].key);
    // who says so, and whose checks count
    let origins = |compiled: &Compiled| {
        compiled.lanes[0].members.iter().map(|it| it.origin.clone()).collect::<Vec<_>>()
    };
    assert!(
        matches!(&origins(&now_a)[..], [Origin::Local(0), Origin::Learned(by)] if by[0].author == "n2" && by[0].name == "two")
    );
    assert!(matches!(&origins(&now_b)[..], [Origin::Learned(_), Origin::Local(0)]));
    let checks = |compiled: &Compiled, at: usize| -> Vec<String> {
        compiled.lanes[0].members[at].checks.keys.iter().map(ToString::to_string).collect()
    };
    assert_eq!(checks(&now_a, 0), ["tcp 192.0.2.1:443"]);
    assert_eq!(
        checks(&now_a, 0),
        now_a.virtual_servers[0].checks.keys.iter().map(ToString::to_string).collect::<Vec<_>>()
    );
    assert!(checks(&now_a, 1).is_empty(), "its own node checks it");
}

/// Two nodes of one site tell of the same address; a node's own word is stronger than theirs.
#[test]
fn one_address_of_several_nodes_is_one_member() {
    let base = compile(&service("", "\"peers\""));
    let servers = [
        LearnedServer { weight: 3, ..told("n3", "b", None, "192.0.2.20") },
        LearnedServer { weight: 2, ..told("n2", "b", None, "::ffff:192.0.2.20") },
    ];
    for servers in [servers.to_vec(), servers.iter().rev().cloned().collect()] {
        let now = learn(&base, &servers);
        assert_eq!(candidates(&now, 0), [("b 192.0.2.20".to_owned(), 2, 1)]);
        let Origin::Learned(by) = &now.lanes[0].members[0].origin else { panic!() };
        assert_eq!(by.iter().map(|it| it.author.as_str()).collect::<Vec<_>>(), ["n2", "n3"]);
        assert_eq!((now.learned.tally.taken, now.learned.tally.known), (1, 1));
    }
}

#[test]
fn places_that_are_not_known_here_are_counted_and_used() {
    let base = compile(&service(
        "choose = [\"acl\", \"geo\", \"rendezvous\"]\nacl = [{ from = \"10.0.0.0/8\", only = \"b\" }]",
        "\"peers\"",
    ));
    let now = learn(
        &base,
        &[
            told("n9", "mars", Some("z"), "192.0.2.40"),
            told("n9", "mars", None, "192.0.2.41"),
            told("n2", "b", Some("z"), "192.0.2.20"),
        ],
    );
    assert_eq!(labels(&now, 0), ["b/z 192.0.2.20", "mars 192.0.2.41", "mars/z 192.0.2.40"]);
    let sites: Vec<bool> = now.policies[0].candidates.iter().map(|it| it.site.is_some()).collect();
    assert_eq!(sites, [true, false, false]);
    assert_eq!(now.learned.tally.unplaced, 3);
    let shown = now.learned.warnings.to_string();
    for part in [
        "peer \"n9\" has 2 virtual servers at site \"mars\"",
        "peer \"n2\" has 1 virtual server at site \"b\"",
        "[[site]]",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    assert_eq!(choice(&now, 0, "10.0.0.1").unwrap(), "b/z 192.0.2.20", "the rule means the site");
    // the same key as at a node that knows the place
    let knows = learn(
        &load(
            &format!(
                "{HEAD}[[site]]\nname = \"mars\"\nlinks = [{{ name = \"z\" }}]\n{PEERS}{}",
                service("", "\"peers\"")
            ),
            &[],
        )
        .unwrap(),
        &[told("n9", "mars", Some("z"), "192.0.2.40")],
    );
    assert_eq!(knows.policies[0].candidates[0].key, now.policies[0].candidates[2].key);
}

/// Of more than 256 the same ones stay at every node, in whatever order they came, and some of every site.
#[test]
fn a_service_is_bounded() {
    let base = compile(&service("", r#"[{ address = "192.0.2.1" }, { peers = true }]"#));
    let mut servers: Vec<LearnedServer> = (0..400_u32)
        .map(|n| {
            let site = if n < 5 { "z".to_owned() } else { format!("s{}", n % 3) };
            let address = IpAddr::from([10, 0, (n >> 8) as u8, n as u8]).to_string();
            LearnedServer { tier: if n < 20 { 2 } else { 1 }, ..told("n2", &site, None, &address) }
        })
        .collect();
    let now = learn(&base, &servers);
    assert_eq!(now.services[0].members.len(), 256);
    assert_eq!(now.policies[0].candidates.len(), 256);
    assert_eq!((now.learned.tally.taken, now.learned.tally.beyond), (255, 145));
    let shown = now.learned.warnings.to_string();
    assert!(shown.contains("has 400 virtual servers, 145 more than it can take in"), "{shown}");
    let at = |site: &str| labels(&now, 0).iter().filter(|name| name.starts_with(&format!("{site} "))).count();
    assert_eq!([at("s0"), at("s1"), at("s2"), at("z")], [85, 85, 85, 0], "the lowest tier, as many of each");
    servers.reverse();
    assert_eq!(labels(&learn(&base, &servers), 0), labels(&now, 0));
    servers.iter_mut().for_each(|server| server.tier = 1);
    let now = learn(&base, &servers);
    let of_z = labels(&now, 0).iter().filter(|name| name.starts_with("z ")).count();
    assert_eq!(of_z, 5, "a small site is not crowded out");
}

#[test]
fn direct_checks_are_the_services_own() {
    let servers = [told("n2", "b", None, "192.0.2.20"), told("n2", "b", None, "2001:db8::20")];
    for (keys, members, wants) in [
        ("check.tcp = { port = 443 }", "\"peers\"", vec![]),
        ("on_peer_loss = \"keep\"\ncheck.tcp = { port = 443 }", "\"peers\"", vec![]),
        (
            "on_peer_loss = \"direct-check\"\ncheck.tcp = { port = 443 }",
            "\"peers\"",
            vec!["tcp 192.0.2.20:443", "tcp [2001:db8::20]:443"],
        ),
        (
            "on_peer_loss = \"direct-check\"\ncheck.tcp = {}",
            "[{ site = \"b\", port = 80 }]",
            vec!["tcp 192.0.2.20:80", "tcp [2001:db8::20]:80"],
        ),
        (
            "on_peer_loss = \"direct-check\"",
            "[{ site = \"b\", check.icmp = {} }]",
            vec!["icmp 192.0.2.20", "icmp [2001:db8::20]"],
        ),
        // a check from an address of the other family is none
        (
            "on_peer_loss = \"direct-check\"\ncheck.tcp = { port = 443, source = \"192.0.2.1\" }",
            "\"peers\"",
            vec!["tcp 192.0.2.20:443"],
        ),
    ] {
        let now = learn(&compile(&service(keys, members)), &servers);
        let keys = now.lanes.iter().flat_map(|lane| &lane.members).flat_map(|member| &member.checks.keys);
        assert_eq!(keys.map(ToString::to_string).collect::<Vec<_>>(), wants, "{members}");
    }
}

/// Z21: a family without members has no data while the other has some; without any members the fallback answers.
#[test]
fn a_family_without_members() {
    let six = [told("n2", "b", None, "2001:db8::20")];
    for (fallback, alone, beside) in [
        ("\"all\"", Outcome::NoData, Outcome::NoData),
        ("\"servfail\"", Outcome::ServFail, Outcome::NoData),
        ("\"refuse\"", Outcome::Refused, Outcome::NoData),
        ("{ address = \"2001:db8::99\" }", Outcome::NoData, Outcome::NoData),
        // with a fixed address the family is there for the fallback alone: its members' health decides
        ("{ address = \"192.0.2.99\" }", Outcome::Fixed, Outcome::Chosen),
        ("{ cname = \"elsewhere.example.net.\" }", Outcome::Fixed, Outcome::Chosen),
    ] {
        let base = compile(&service(&format!("fallback = {fallback}"), "\"peers\""));
        let outcome = |compiled: &Compiled| {
            choice(compiled, 0, "198.51.100.1").map_or_else(|it| it, |_| Outcome::Chosen)
        };
        assert_eq!(outcome(&base), alone, "{fallback}");
        let now = learn(&base, &six);
        assert_eq!(outcome(&now), beside, "{fallback}");
        assert_eq!(choice(&now, 1, "2001:db8:1::1").unwrap(), "b 2001:db8::20");
        assert_eq!((base.policies.len(), now.policies.len()), (2, 2));
    }
    let base = compile(&service("", "\"peers\""));
    let now = learn(&base, &six);
    assert_eq!(now.policies[0].fallback, Fallback::NoData);
    assert_eq!(now.policies[0].consulted, [false; 3], "T3: negative answers do not vary");
}

/// Every step works for members that are learned.
#[test]
fn steps_see_learned_members() {
    let text = format!(
        "{}[[isp]]\nname = \"op\"\nprefixes = [\"198.51.100.0/24\"]\n[[isp]]\nname = \"po\"\nprefixes = [\"203.0.113.0/24\"]\n{PEERS}{}",
        HEAD.replace(
            "{ name = \"x\" }, { name = \"y\"",
            "{ name = \"x\", isp = \"op\" }, { name = \"y\", isp = \"po\", cost = 7"
        ),
        service(
            "choose = [\"persist\", \"acl\", \"proximity\", \"isp\", \"load\", \"priority\"]\npersist = { kind = \"hash\" }\nacl = [{ from = \"10.0.0.0/8\", avoid = [\"a/x\", \"a/y\"] }]",
            "\"peers\""
        ),
    );
    let base = load(&text, &[]).unwrap_or_else(|problems| panic!("{}", problems.render(false)));
    let now = learn(
        &base,
        &[
            told("n2", "b", None, "192.0.2.20"),
            LearnedServer { connections_max: Some(10), ..told("n3", "a", Some("x"), "192.0.2.1") },
            told("n3", "a", Some("y"), "192.0.2.2"),
        ],
    );
    assert_eq!(now.policies[0].candidates[0].connections_max, Some(10));
    assert!(now.policies[0].steps.iter().any(|step| matches!(step, Step::Load)));
    for (client, wanted) in
        [("198.51.100.1", "a/x 192.0.2.1"), ("203.0.113.1", "a/y 192.0.2.2"), ("10.0.0.1", "b 192.0.2.20")]
    {
        assert_eq!(choice(&now, 0, client).unwrap(), wanted, "{client}");
    }
    let points = now.policies[0].steps.iter().find_map(|step| match step {
        Step::Proximity { members_at, .. } => Some(members_at.len()),
        _ => None,
    });
    assert_eq!(points, Some(3));
    assert!(
        base.policies[0].steps.iter().all(|step| !matches!(step, Step::Proximity { .. })),
        "nothing to compare yet"
    );
    assert_eq!(now.points.iter().map(|(_, point)| point.cost).sum::<f32>(), 7.0);
}

/// What every node says alike has one digest, however it is written; what differs is named.
#[test]
fn what_all_nodes_say_alike() {
    let www = service("", r#"[{ site = "b" }, { site = "a", address = "192.0.2.1" }]"#);
    let base = compile(&www);
    let same =
        |text: &str| load(text, &[]).unwrap_or_else(|problems| panic!("{}", problems.render(false))).shared;
    let whole = format!("{HEAD}{PEERS}{www}");
    let a_node_of_its_own = whole
        .replace("name = \"n1\"\nsite = \"a\"", "name = \"n3\"\nsite = \"b\"")
        .replace("127.0.0.1:53", "127.0.0.2:53")
        .replace("7353", "7354")
        .replace("[[service]]", "# a word\n[proximity]\nentries = 2000\n[[service]]\ncheck.icmp = {}\n");
    assert_eq!(same(&a_node_of_its_own), base.shared);
    let turned = whole.replace("[[site]]\nname = \"b\"\nlocation = { lat = 50.1, lon = 8.7 }\n", "")
        + "[[site]]\nname = \"b\"\nlocation = { lon = 8.70, lat = 50.1 }\n";
    assert_eq!(same(&turned), base.shared, "the order of sites says nothing");
    for (part, from, to) in [
        ("sites", "lat = 50.1", "lat = 50.2"),
        ("sites", "{ name = \"x\" }", "{ name = \"x\", cost = 1 }"),
        ("services", "address = \"192.0.2.1\"", "address = \"192.0.2.2\""),
        (
            "services",
            "[{ site = \"b\" }, { site = \"a\", address = \"192.0.2.1\" }]",
            "[{ site = \"a\", address = \"192.0.2.1\" }, { site = \"b\" }]",
        ),
        ("services", "[[service]]\n", "[[service]]\nseed = 1\n"),
        ("services", "[[service]]\n", "[[service]]\nacl = [{ from = \"10.0.0.0/8\", refuse = true }]\n"),
        ("proximity", "[[service]]\n", "[proximity]\nv4 = 20\n[[service]]\n"),
        ("lists", "[[service]]\n", "[tables.prefixes]\nl = \"10.0.0.0/8\"\n[[service]]\n"),
    ] {
        assert!(whole.contains(from), "{from}");
        let other = same(&whole.replace(from, to));
        assert_ne!(other.digest, base.shared.digest, "{to}");
        let differing: Vec<&str> = base
            .shared
            .parts
            .iter()
            .zip(&other.parts)
            .filter(|(a, b)| a != b)
            .map(|(a, _)| a.0.as_str())
            .collect();
        assert_eq!(differing, [part], "{to}");
    }
    assert!(base.table_ids().is_empty());
    assert_eq!(learn(&base, &[told("n2", "b", None, "192.0.2.20")]).shared, base.shared);
}

/// A config where nothing is learned is the same one.
#[test]
fn nothing_to_learn() {
    let base = compile(&service("", r#"[{ site = "a", address = "192.0.2.1" }]"#));
    let now = learn(&base, &[told("n2", "b", None, "192.0.2.20")]);
    assert_eq!(labels(&now, 0), ["a 192.0.2.1"]);
    assert_eq!(now.policies.len(), 1, "and has no family more");
    assert_eq!(now.learned.tally.unwanted, 1);
    assert!(Arc::ptr_eq(&base.catalog, &now.catalog));
}

/// The two nodes of deploy/examples say the same of what they share, and know the same members.
#[test]
fn the_pair_of_the_examples() {
    let node = |name: &str| {
        let path = format!("{}/../deploy/examples/two-sites-{name}.toml", env!("CARGO_MANIFEST_DIR"));
        portolan_config::load(path.as_ref()).unwrap_or_else(|problems| panic!("{}", problems.render(false)))
    };
    let (bj1, fra1) = (node("bj1"), node("fra1"));
    assert_eq!(bj1.shared, fra1.shared);
    assert_eq!(bj1.table_ids(), fra1.table_ids());
    assert_eq!(bj1.table_ids().len(), 1);
    for (node, other) in [(&bj1, &fra1), (&fra1, &bj1)] {
        let peer = &node.peers.as_ref().unwrap().members[0];
        assert_eq!(peer.name, other.node.name);
        assert_eq!(node.sites[usize::from(peer.site.0)], other.sites[usize::from(other.node.site.0)]);
    }
    let (now_bj1, now_fra1) = (learn(&bj1, &claims(&fra1)), learn(&fra1, &claims(&bj1)));
    for lane in 0..4 {
        assert_eq!(now_bj1.policies[lane].candidates, now_fra1.policies[lane].candidates);
    }
    assert_eq!(
        labels(&now_fra1, 0),
        ["beijing/ct 192.0.2.10", "beijing/cu 198.51.100.10", "frankfurt 203.0.113.10"]
    );
    // China Telecom, from either node
    for node in [&now_bj1, &now_fra1] {
        assert_eq!(choice(node, 0, "36.110.1.1").unwrap(), "beijing/ct 192.0.2.10");
        assert_eq!(choice(node, 2, "36.110.1.1").unwrap(), "beijing 192.0.2.31", "the first tier");
    }
}
