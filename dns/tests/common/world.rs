//! Services and the zone around them, for the tests of what decisions answer.

use super::{Message, Server, query, with_opt};
use portolan_balance::facts::{Fact, State};
use portolan_balance::nets::{DIMS, Nets, Run, Runs};
use portolan_balance::policy::IspTable;
use portolan_balance::view::Turns;
use portolan_balance::{
    Candidate, CandidateId, CandidateSet, Fallback, Policy, Scheduler, Service, ServiceId, Standing, Step,
    View,
};
use portolan_dns::catalog::{Lane, ServiceBinding};
use portolan_dns::name::Name;
use portolan_dns::record::Loaded;
use portolan_dns::respond::Transport;
use portolan_dns::rrtype::RrType;
use std::net::IpAddr;
use std::sync::Arc;

pub const ZONE: &str = "\
example.com. 3600 IN SOA ns.example.com. host.example.com. 1 7200 3600 86400 300
example.com. 3600 IN NS ns.example.com.
example.com. 3600 IN NS www.example.com.
ns.example.com. 3600 IN A 192.0.2.1
static.example.com. 300 IN A 192.0.2.10
www.example.com. 300 IN AAAA 2001:db8::80
www.example.com. 300 IN TXT \"beside\"
www.example.com. 300 IN A 198.51.100.99
mail.example.com. 300 IN MX 10 www.example.com.
chain.example.com. 60 IN CNAME link.example.com.
link.example.com. 60 IN CNAME www.example.com.
old.example.com. 60 IN DNAME new.example.com.
*.wild.example.com. 60 IN CNAME www.example.com.
foo.app.example.com. 300 IN TXT \"only text\"
gone.example.com. 60 IN CNAME nodata.example.com.
";

/// Services being put together.
pub struct World {
    pub services: Vec<Arc<Service>>,
    pub bindings: Vec<ServiceBinding>,
    isp: Runs,
    acl: Runs,
}

pub fn v4(text: &str) -> Vec<u8> {
    text.parse::<std::net::Ipv4Addr>().unwrap().octets().to_vec()
}

pub fn wire(name: &str) -> Vec<u8> {
    name.parse::<Name>().unwrap().as_wire().to_vec()
}

impl World {
    pub fn new() -> Self {
        // operator 1 has 10.10/16, operator 2 has 10.20/16 and 198.51.100/24 (case E01)
        let run = |first: &str, last: &str, value| Run {
            first: u32::from(first.parse::<std::net::Ipv4Addr>().unwrap()),
            last: u32::from(last.parse::<std::net::Ipv4Addr>().unwrap()),
            value,
        };
        let isp = Runs {
            v4: vec![
                run("10.10.0.0", "10.10.255.255", 1),
                run("10.20.0.0", "10.20.255.255", 2),
                run("198.51.100.0", "198.51.100.255", 2),
            ],
            v6: Vec::new(),
        };
        let acl = Runs { v4: vec![run("203.0.113.0", "203.0.113.255", 1)], v6: Vec::new() };
        Self { services: Vec::new(), bindings: Vec::new(), isp, acl }
    }

    /// A service with members of one type; `change` may alter its policy, `down` lists members that fail.
    pub fn add(
        &mut self,
        name: &str,
        rtype: RrType,
        members: &[Vec<u8>],
        down: &[usize],
        change: impl FnOnce(&mut Policy),
    ) -> &mut ServiceBinding {
        let candidates: Vec<Candidate> = (0..members.len())
            .map(|i| Candidate {
                name: format!("m{i}"),
                key: i as u64 + 1,
                site: None,
                weight: 1,
                tier: 1,
                load_threshold: None,
                connections_max: None,
            })
            .collect();
        let tiers = Policy::tiers_of(&candidates);
        let mut policy = Policy {
            name: name.into(),
            candidates,
            steps: Vec::new(),
            scheduler: Scheduler::Priority,
            persist: None,
            minimum: 1,
            answers: 1,
            ttl_s: 30,
            fallback: Fallback::All,
            seed: 7,
            tiers,
            consulted: [false; DIMS],
        };
        change(&mut policy);
        policy.consulted = Policy::consulted_by(&policy.steps);
        let facts: Vec<Fact> = (0..members.len())
            .map(|i| Fact {
                state: if down.contains(&i) { State::Down } else { State::Up },
                ..Fact::default()
            })
            .collect();
        let service = ServiceId(self.services.len() as u32);
        let standing = Standing::new(&policy, &facts);
        self.services.push(Arc::new(Service { policy: Arc::new(policy), standing }));
        let lane = Lane {
            rtype,
            service,
            members: members.iter().map(|data| data.clone().into()).collect(),
            fixed: Vec::new(),
            fixed_cname: None,
            ttl: 30,
            fallback_ttl: 5,
        };
        self.bindings.push(ServiceBinding { name: name.parse().unwrap(), lanes: vec![lane], ecs: true });
        self.bindings.last_mut().unwrap()
    }

    pub fn server(self) -> Server {
        self.server_of(super::load(&[ZONE]))
    }

    /// The same in zones of the caller's.
    pub fn server_of(self, zones: Vec<Loaded>) -> Server {
        let mut server = Server::new(zones, self.bindings);
        let (nets, classes) = Nets::build([&self.acl, &self.isp, &Runs::default()]);
        server.snapshot.view = Arc::new(View {
            nets: Arc::new(nets),
            classes: classes.into(),
            turns: Arc::new(Turns::new(self.services.len())),
            services: self.services,
            proximity: Arc::default(),
            generation: 1,
        });
        server.options(|options| options.ecs.accept_private = true);
        server
    }
}

/// The client's operator picks the member; others get the first.
pub fn by_operator(policy: &mut Policy) {
    let set = |ids: &[u8]| ids.iter().map(|&id| CandidateId(id)).collect::<CandidateSet>();
    let table = IspTable { members_of: vec![CandidateSet::EMPTY, set(&[1]), set(&[2])] };
    policy.steps = vec![Step::Isp(Arc::new(table))];
}

pub fn addresses() -> Vec<Vec<u8>> {
    ["192.0.2.100", "192.0.2.101", "192.0.2.102"].map(v4).to_vec()
}

pub fn world() -> World {
    let mut world = World::new();
    world.add("www.example.com.", RrType::A, &addresses(), &[], by_operator);
    world
}

pub fn option(address: &str, source: u8) -> Vec<u8> {
    let (family, octets) = match address.parse::<IpAddr>().unwrap() {
        IpAddr::V4(address) => (1, address.octets().to_vec()),
        IpAddr::V6(address) => (2, address.octets().to_vec()),
    };
    let mut data = vec![0, family, source, 0];
    data.extend_from_slice(&octets[..usize::from(source).div_ceil(8)]);
    data
}

pub fn ask_ecs(server: &mut Server, name: &str, rtype: &str, ecs: &[u8], source: &str) -> Message {
    let bytes = with_opt(query(name, rtype), 1232, 0, 0, &[(8, ecs)]);
    super::decode(&server.send(&bytes, source, Transport::Udp).unwrap()).unwrap()
}
