//! What fuzzed packets are answered from: zones with a bit of everything, and services of all kinds.
//!
//! No scheduler here takes turns and nothing is remembered, so that a reply depends on its packet alone.

use crate::catalog::{Catalog, Lane, ServiceBinding};
use crate::cookie::CookieSecrets;
use crate::name::Name;
use crate::respond::{Options, Snapshot};
use crate::rrtype::RrType;
use crate::text::{Limits, load};
use portolan_balance::facts::{Fact, State};
use portolan_balance::nets::{DIMS, Nets, Run, Runs};
use portolan_balance::policy::{AclAction, AclRule, AclTable, IspTable};
use portolan_balance::view::Turns;
use portolan_balance::{
    Candidate, CandidateId, CandidateSet, Fallback, Policy, Scheduler, Service, ServiceId, Standing, Step,
    View,
};
use std::sync::{Arc, LazyLock};

const ZONE: &[u8] = b"\
example.com. 3600 IN SOA ns.example.com. host.example.com. 1 7200 3600 86400 300
example.com. 3600 IN NS ns.example.com.
ns.example.com. 3600 IN A 192.0.2.1
a.example.com. 60 IN AAAA 2001:db8::1
a.example.com. 60 IN MX 1 ns.example.com.
a.example.com. 60 IN MX 2 s.example.com.
a.example.com. 60 IN MX 3 x.t.example.com.
c.example.com. 60 IN CNAME a.example.com.
l.example.com. 60 IN CNAME m.example.com.
m.example.com. 60 IN CNAME l.example.com.
d.example.com. 60 IN DNAME example.com.
e.example.com. 60 IN DNAME e.e.example.com.
*.w.example.com. 60 IN CNAME s.example.com.
*.h.example.com. 60 IN HTTPS 1 . alpn=h2
z.example.com. 60 IN NS ns.z.example.com.
ns.z.example.com. 60 IN A 192.0.2.9
";

/// The world with the settings that four bits of `settings` choose; made once.
pub(super) fn snapshot(settings: u8) -> Option<&'static Snapshot> {
    static ALL: LazyLock<Vec<Snapshot>> = LazyLock::new(|| all().unwrap_or_default());
    ALL.get(usize::from(settings >> 1 & 7))
}

fn all() -> Option<Vec<Snapshot>> {
    let zone = load(&mut super::Echo(ZONE, 0), "zone", &Limits::default()).ok()?;
    let mut world = World::default();
    world.services()?;
    let (catalog, _) = Catalog::build(vec![zone], world.bindings).ok()?;
    let catalog = Arc::new(catalog);
    // a client's operator: 10/8 has the first, 2001:db8::/32 the second; 203.0.113/24 is refused
    let run = |first, last, value| Run { first, last, value };
    let isp = Runs {
        v4: vec![run(0x0a00_0000, 0x0aff_ffff, 1)],
        v6: vec![Run { first: 0x2001_0db8 << 96, last: (0x2001_0db9 << 96) - 1, value: 2 }],
    };
    let acl = Runs { v4: vec![run(0xcb00_7100, 0xcb00_71ff, 1)], v6: Vec::new() };
    let mut dims = [const { Runs { v4: Vec::new(), v6: Vec::new() } }; DIMS];
    for (dim, runs) in dims.iter_mut().zip([acl, isp]) {
        *dim = runs;
    }
    let (nets, classes) = Nets::build(dims.each_ref());
    let view = Arc::new(View {
        nets: Arc::new(nets),
        classes: classes.into(),
        turns: Arc::new(Turns::new(world.compiled.len())),
        services: world.compiled,
        proximity: Arc::default(),
        generation: 1,
    });
    let options = |bits: usize| {
        let mut options = Options { extended_errors: bits & 1 != 0, ..Options::default() };
        options.ecs.enabled = bits & 2 != 0;
        options.ecs.accept_private = true;
        if bits & 4 != 0 {
            options.cookies = Some(CookieSecrets { current: [7; 16], previous: None });
            options.nsid = Some(vec![b'n'; 200]);
            options.id_server = Some("x".repeat(300));
        }
        options
    };
    let snapshot = |bits| Snapshot {
        catalog: Arc::clone(&catalog),
        view: Arc::clone(&view),
        options: Arc::new(options(bits)),
    };
    Some((0..8).map(snapshot).collect())
}

#[derive(Default)]
struct World {
    compiled: Vec<Arc<Service>>,
    bindings: Vec<ServiceBinding>,
}

impl World {
    fn services(&mut self) -> Option<()> {
        let isp = || {
            let set = |ids: &[u8]| ids.iter().map(|&id| CandidateId(id)).collect::<CandidateSet>();
            Step::Isp(Arc::new(IspTable { members_of: vec![CandidateSet::EMPTY, set(&[1]), set(&[2])] }))
        };
        let acl = || {
            let rule =
                AclRule { from: "bad".into(), action: AclAction::Refuse, members: CandidateSet::EMPTY };
            Step::Acl(Arc::new(AclTable { rules: vec![rule], rule_of: vec![u16::MAX, 0] }))
        };
        let v4 = |count: u8| (0..count).map(|i| vec![192, 0, 2, i].into()).collect::<Vec<Box<[u8]>>>();
        let v6 = |count: u8| (0..count).map(|i| vec![i; 16].into()).collect::<Vec<Box<[u8]>>>();
        let pointing = |front: &[u8], names: &[&str]| {
            let data = |name: &&str| Some([front, name.parse::<Name>().ok()?.as_wire()].concat().into());
            names.iter().map(data).collect::<Option<Vec<Box<[u8]>>>>()
        };
        let hash = Scheduler::SourceHash { v4: 24, v6: 48 };

        self.add("s", RrType::A, v4(4), vec![acl(), isp()], Scheduler::Random, 2)?;
        self.beside(RrType::AAAA, v6(3), vec![isp()], hash, 1)?;
        self.add("*.t", RrType::A, v4(3), vec![], Scheduler::WeightedRandom, 1)?;
        self.add("*.s", RrType::CNAME, pointing(b"", &["s.example.com."])?, vec![], Scheduler::Priority, 1)?;
        self.add("big", RrType::A, v4(255), vec![], Scheduler::All, 255)?;
        let mail =
            ["s.example.com.", "x.t.example.com.", "big.example.com.", "ns.example.com.", "f.example.com."];
        self.add("p", RrType::MX, pointing(&[0, 9], &mail)?, vec![isp()], Scheduler::Random, 3)?;
        self.add("v", RrType::SRV, pointing(&[0, 1, 0, 2, 0, 80], &mail)?, vec![], Scheduler::All, 5)?;
        self.add("*.h", RrType::A, v4(2), vec![isp()], hash, 1)?;
        self.add("f", RrType::A, v4(0), vec![], Scheduler::Priority, 1)?.fixed = v4(2);
        self.add("g", RrType::A, v4(0), vec![], Scheduler::Priority, 1)?.fixed_cname =
            Some("c.example.com.".parse().ok()?);
        Some(())
    }

    /// A service below example.com; without members its only one is down.
    fn add(
        &mut self,
        name: &str,
        rtype: RrType,
        members: Vec<Box<[u8]>>,
        steps: Vec<Step>,
        scheduler: Scheduler,
        answers: u16,
    ) -> Option<&mut Lane> {
        let name = format!("{name}.example.com.").parse().ok()?;
        self.bindings.push(ServiceBinding { name, lanes: Vec::new(), ecs: true });
        self.beside(rtype, members, steps, scheduler, answers)
    }

    /// Another type of the last service.
    fn beside(
        &mut self,
        rtype: RrType,
        members: Vec<Box<[u8]>>,
        steps: Vec<Step>,
        scheduler: Scheduler,
        answers: u16,
    ) -> Option<&mut Lane> {
        let candidate = |i: usize| Candidate {
            name: format!("m{i}"),
            key: i as u64 + 1,
            site: None,
            weight: i as u16 + 1,
            tier: 1,
            load_threshold: None,
            connections_max: None,
        };
        let candidates: Vec<Candidate> = (0..members.len().max(1)).map(candidate).collect();
        let state = if members.is_empty() { State::Down } else { State::Up };
        let facts = vec![Fact { state, ..Fact::default() }; candidates.len()];
        let policy = Policy {
            name: rtype.to_string(),
            tiers: Policy::tiers_of(&candidates),
            candidates,
            consulted: Policy::consulted_by(&steps),
            steps,
            scheduler,
            persist: None,
            minimum: 1,
            answers,
            ttl_s: 30,
            fallback: Fallback::Fixed,
            seed: 7,
        };
        let service = ServiceId(self.compiled.len() as u32);
        let standing = Standing::new(&policy, &facts);
        self.compiled.push(Arc::new(Service { policy: Arc::new(policy), standing }));
        let lanes = &mut self.bindings.last_mut()?.lanes;
        lanes.push(Lane {
            rtype,
            service,
            members,
            fixed: Vec::new(),
            fixed_cname: None,
            ttl: 30,
            fallback_ttl: 5,
        });
        lanes.last_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::present::{Asked, explain_query, present};
    use crate::respond::Now;

    #[test]
    fn services_answer() {
        for (name, rtype, answers, decisions) in [
            ("s", RrType::A, 1, 1),
            ("s", RrType::AAAA, 1, 1),
            ("x.t", RrType::A, 1, 1),
            ("big", RrType::A, 255, 1),
            ("v", RrType::SRV, 5, 6),
            ("x.h", RrType::HTTPS, 1, 1),
            ("f", RrType::A, 2, 1),
            ("a", RrType::MX, 3, 3),
        ] {
            let asked = Asked {
                name: &format!("{name}.example.com.").parse().unwrap(),
                rtype,
                client: "10.0.0.1".parse().unwrap(),
                ecs: None,
                entropy: 1,
                turn: None,
                now: Now::default(),
            };
            let explained = explain_query(snapshot(0).unwrap(), &asked);
            let shown = present(&explained.wire.unwrap()).unwrap();
            assert_eq!(
                (shown.answer.len(), explained.decisions.len()),
                (answers, decisions),
                "{name} {rtype}"
            );
        }
    }
}
