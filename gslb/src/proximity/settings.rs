//! A config as the parts that measure take it.

use portolan_balance::policy::SiteId;
use portolan_balance::proximity::{PointId, Points, Prefix, Ranks, Table};
use portolan_balance::{Policy as Choice, Step};
use portolan_config::{Active, Compiled, LinkId, Solicit};
use portolan_dns::ecs::PrefixSet;
use portolan_dns::measure::MeasureSettings;
use portolan_probe::proximity::{
    AddressRules, Lengths, Limits, Method, PassiveSettings, Policy, Prefixes, Sender,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;

/// Whether any service goes by distance.
pub(super) fn is_used(config: &Compiled) -> bool {
    config.policies.iter().any(|policy| goes_by_distance(policy))
}

/// Whether a service goes by distance.
pub(super) fn goes_by_distance(policy: &Choice) -> bool {
    policy.steps.iter().any(|step| matches!(step, Step::Proximity { .. }))
}

/// How long measured prefixes are.
pub(super) fn lengths(config: &Compiled) -> Lengths {
    let settings = config.proximity.settings.clamped();
    Lengths { v4: settings.v4, v6: settings.v6 }
}

/// What queries tell, and which clients are asked to come by TCP.
pub(super) fn measure(config: &Compiled) -> MeasureSettings {
    let Lengths { v4, v6 } = lengths(config);
    let proximity = &config.proximity;
    let anycast = proximity.anycast.iter().map(|net| (net.addr(), net.prefix_len()));
    let opted_out = proximity.active.iter().flat_map(|active| &active.exclude);
    let exempt = anycast.chain(opted_out.map(|net| (net.addr(), net.prefix_len())));
    let usual = MeasureSettings {
        tell: is_used(config),
        v4_prefix: v4,
        v6_prefix: v6,
        exempt: PrefixSet::new(exempt),
        ..MeasureSettings::default()
    };
    match &proximity.solicit {
        None => usual,
        Some(Solicit { share, every }) => MeasureSettings {
            solicit: true,
            per_million: (share * 1_000_000.0) as u32,
            every_s: u32::try_from(every.as_secs()).unwrap_or(u32::MAX),
            ..usual
        },
    }
}

/// Whose handshakes are measured, and for which point.
pub(super) fn passive(config: &Compiled) -> PassiveSettings {
    PassiveSettings {
        lengths: lengths(config),
        links: own_links(config),
        site: own_site(config).and_then(|site| config.points.find(site, None)),
        // an opt-out is one of probes: a client that comes by itself is bothered by nothing
        addresses: AddressRules {
            opted_out: Prefixes::default(),
            also: Prefixes::default(),
            ..rules(config)
        },
    }
}

/// What may be probed, from where, and how.
pub(super) fn policy(config: &Compiled) -> Policy {
    let policy = Policy { addresses: rules(config), lengths: lengths(config), ..Policy::default() };
    let Some(active) = &config.proximity.active else { return policy };
    let Active { icmp, dns, tcp, rate, in_flight, exclude: _, also: _, trust_peers, contact: _ } = active;
    let methods = [(icmp, Method::Icmp), (dns, Method::Dns), (tcp, Method::Tcp)];
    let ecs = &config.dns.ecs;
    Policy {
        enabled: true,
        limits: Limits {
            per_s: *rate,
            in_flight: *in_flight,
            interval_ms: config.proximity.settings.probe_ms,
            ..Limits::default()
        },
        methods: methods.iter().filter(|(is_on, _)| **is_on).map(|(_, method)| *method).collect(),
        senders: senders(config),
        // whose word on subnets is taken for answers is believed here, too; where that is everybody's, nobody's is
        trusted_resolvers: ecs.allow.iter().filter(|_| ecs.enabled).flat_map(PrefixSet::prefixes).collect(),
        trust_peers: *trust_peers,
        ..policy
    }
}

fn rules(config: &Compiled) -> AddressRules {
    let active = config.proximity.active.as_ref();
    let opted_out = active.iter().flat_map(|active| &active.exclude);
    let also = active.iter().flat_map(|active| &active.also);
    AddressRules {
        opted_out: opted_out.map(|net| (net.addr(), net.prefix_len())).collect(),
        own: own(config).into_iter().map(|address| (address, u8::MAX)).collect(),
        anycast: config.proximity.anycast.iter().map(|net| (net.addr(), net.prefix_len())).collect(),
        also: also.map(|net| (net.addr(), net.prefix_len())).collect(),
    }
}

/// Addresses of ours: listeners, virtual servers, members, peers. None of them is a client.
fn own(config: &Compiled) -> BTreeSet<IpAddr> {
    let listeners = config.dns.listen.iter().map(|at| at.ip());
    let peers = config.peers.iter().flat_map(|peers| {
        let members = peers.members.iter().map(|peer| peer.address.ip());
        std::iter::once(peers.listen.ip()).chain(members)
    });
    let servers = config.virtual_servers.iter().flat_map(|server| [Some(server.address), server.inside]);
    let members = config.lanes.iter().flat_map(|lane| &lane.members);
    let members = members.flat_map(|member| [member.data.parse().ok(), member.inside]);
    let all = listeners.chain(peers).chain(servers.flatten()).chain(members.flatten());
    all.filter(|address| !address.is_unspecified()).collect()
}

fn own_site(config: &Compiled) -> Option<&str> {
    config.sites.get(usize::from(config.node.site.0)).map(|site| site.name.as_str())
}

fn point_of(config: &Compiled, link: LinkId) -> Option<PointId> {
    let site = config.sites.get(usize::from(link.site.0))?;
    let link = site.links.get(usize::from(link.link))?;
    config.points.find(&site.name, Some(&link.name))
}

/// The addresses of this machine that belong to links of its site: those of virtual servers and members there.
fn own_links(config: &Compiled) -> Vec<(IpAddr, PointId)> {
    let here: SiteId = config.node.site;
    let mut links = BTreeSet::new();
    let mut add = |link: Option<LinkId>, address: Option<IpAddr>| {
        let point = link.filter(|link| link.site == here).and_then(|link| point_of(config, link));
        links.extend(address.zip(point));
    };
    for server in &config.virtual_servers {
        add(server.link, Some(server.address));
        add(server.link, server.inside);
    }
    for member in config.lanes.iter().flat_map(|lane| &lane.members) {
        add(member.link, member.data.parse().ok());
        add(member.link, member.inside);
    }
    links.into_iter().filter(|(address, _)| is_here(*address)).collect()
}

/// Whether this machine has the address.
fn is_here(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// Where probes leave from: each link of which this machine has an address; without any, the site as a whole, by the
/// way that the system chooses.
fn senders(config: &Compiled) -> Vec<Sender> {
    let mut senders: Vec<Sender> = Vec::new();
    for (address, point) in own_links(config) {
        let at = senders.iter().position(|sender| sender.point == point).unwrap_or_else(|| {
            senders.push(Sender { point, v4: None, v6: None });
            senders.len() - 1
        });
        if let Some(sender) = senders.get_mut(at) {
            match address {
                IpAddr::V4(v4) => sender.v4 = sender.v4.or(Some(v4)),
                IpAddr::V6(v6) => sender.v6 = sender.v6.or(Some(v6)),
            }
        }
    }
    if senders.is_empty()
        && let Some(point) = own_site(config).and_then(|site| config.points.find(site, None))
    {
        senders.push(Sender { point, v4: None, v6: None });
    }
    senders
}

/// What nobody ranks: resolvers at many places.
pub(super) fn excluded(config: &Compiled) -> Vec<Prefix> {
    config.proximity.anycast.iter().map(|net| Prefix::new(net.addr(), net.prefix_len())).collect()
}

/// The round-trip times that the config itself says.
pub(super) fn fixed(config: &Compiled) -> BTreeMap<(Prefix, PointId), u32> {
    let fixed = config.proximity.fixed.iter();
    let one = |entry: &portolan_config::Static| {
        let prefix = Prefix::new(entry.prefix.addr(), entry.prefix.prefix_len());
        ((prefix, entry.point), entry.rtt_us)
    };
    fixed.map(one).collect()
}

/// Ranks by what the config itself says, for decisions without a node.
#[must_use]
pub fn fixed_ranks(config: &Compiled) -> Arc<Ranks> {
    let mut table = Table::new(config.proximity.settings, Points::clone(&config.points));
    for ((prefix, point), rtt_us) in fixed(config) {
        table.set_static(prefix, point, rtt_us);
    }
    table.set_excluded(&excluded(config));
    table.publish(super::now_ms()).unwrap_or_default()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A node at a site with two links; this machine has the address of one.
    pub(in crate::proximity) fn compiled(more: &str) -> Compiled {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(
            dir.path().join("zone"),
            "$ORIGIN example.com.\n@ 60 SOA ns hostmaster 1 3600 600 86400 60\n@ 60 NS ns\nns 60 A 192.0.2.53\n",
        )
        .unwrap();
        let text = format!(
            r#"version = 1
[node]
name = "n1"
site = "here"
[dns]
listen = ["127.77.0.1:53"]
zones = ["zone"]
[tables]
isp = "isp"
[[site]]
name = "there"
[[site]]
name = "here"
links = [{{ name = "ct", isp = "chinanet" }}, {{ name = "cu", isp = "unicom" }}]
[[service]]
name = "www.example.com."
choose = ["proximity", "priority"]
members = [
  {{ address = "127.77.0.2", site = "here", link = "ct" }},
  {{ address = "198.51.100.2", site = "here", link = "cu" }},
  {{ address = "198.51.100.3", site = "there" }},
]
{more}"#
        );
        std::fs::create_dir(dir.path().join("isp")).unwrap();
        for operator in ["chinanet", "unicom"] {
            std::fs::write(dir.path().join(format!("isp/{operator}.txt")), "203.0.113.0/24\n").unwrap();
        }
        let path = dir.path().join("portolan.toml");
        std::fs::write(&path, text).unwrap();
        portolan_config::load(&path).unwrap_or_else(|problems| panic!("{}", problems.render(false)))
    }

    #[test]
    fn probes_leave_from_the_links_that_are_here() {
        let config = compiled("");
        assert!(is_used(&config));
        let off = policy(&config);
        assert!(!off.enabled && off.senders.is_empty());
        let config = compiled(
            "[proximity.active]\nicmp = true\ntcp = true\nrate = 7\nexclude = [\"5.6.7.0/24\"]\ncontact = \"x\"\n",
        );
        let policy = policy(&config);
        let ct = config.points.find("here", Some("ct")).unwrap();
        let sender = Sender { point: ct, v4: Some([127, 77, 0, 2].into()), v6: None };
        assert_eq!((policy.enabled, policy.limits.per_s, policy.senders), (true, 7, vec![sender]));
        assert_eq!(policy.methods, [Method::Icmp, Method::Tcp]);
        for (address, refusal) in [
            ("5.6.7.8", Some("opted-out")),
            ("198.51.100.3", Some("documentation")),
            ("127.77.0.1", Some("loopback")),
            ("8.8.8.8", Some("anycast")),
            ("5.6.8.8", None),
        ] {
            let found = policy.addresses.check(address.parse().unwrap()).err();
            assert_eq!(found.map(|refusal| refusal.name()), refusal, "{address}");
        }
        // what a client brings by itself is taken from those who opted out of probes, too
        let passive = passive(&config);
        assert_eq!(passive.links, [([127, 77, 0, 2].into(), ct)]);
        assert!(!passive.addresses.opted_out.contains([5, 6, 7, 8].into()));
        assert!(passive.addresses.own.contains([198, 51, 100, 3].into()));
    }

    #[test]
    fn subnets_are_believed_of_named_resolvers_only() {
        let on = "[proximity.active]\nicmp = true\ncontact = \"x\"\n";
        let config = compiled(on);
        assert!(!policy(&config).trusted_resolvers.contains([192, 0, 2, 9].into()));
        let config = compiled(&format!("[dns.ecs]\nallow = [\"192.0.2.0/28\"]\n{on}"));
        let trusted = policy(&config).trusted_resolvers;
        for (last, expected) in [(9, true), (16, false)] {
            assert_eq!(trusted.contains([192, 0, 2, last].into()), expected, "{last}");
        }
    }
}
