//! `[[service]]`: names that are answered by choice.

use std::net::IpAddr;
use std::sync::Arc;

use portolan_dns::name::Name;
use serde_json::{Value as Json, json};
use toml::de::DeValue;

use super::check::Checks;
use super::dns::NetOrList;
use super::geo::InlineGeo;
use crate::place::At;
use crate::problem::Problem;
use crate::read::{self, Int, Length, Many, Reader, Real, Seconds, Value, table, words};

table! {
    /// A service.
    pub struct Service {
        /// What is looked up.
        name: At<Name>,
        /// What is answered.
        record: At<Record> = Record::Address,
        /// How long answers may be kept.
        ttl: At<Seconds> = Seconds(30),
        /// Steps, in order; the last one is a scheduler.
        choose: At<Vec<At<StepWord>>> = default_steps(),
        /// Persistence.
        persist: Option<Persist>,
        /// ACL rules, in order.
        acl: Vec<AclRule>,
        /// A geography policy.
        geo: Option<At<GeoOf>>,
        /// Leave out the best site when there is another.
        geo_skip_first: At<bool> = false,
        /// Load.
        load: Load,
        /// How long the fallback's answers may be kept.
        fallback_ttl: Option<At<Seconds>>,
        /// Whether client subnets decide; if not, the resolver's address.
        ecs: bool = true,
        /// Addresses in one answer.
        answers: Int<1, 256> = Int::new(1),
        /// Usable members that a tier needs to be used.
        minimum: At<Int<1, 256>> = Int::new(1),
        /// What answers when no member is usable.
        fallback: At<Fallback> = Fallback::Word(FallbackWord::All),
        /// Health checks of every member.
        check: Checks,
        /// What a member counts as before its first verdict.
        initial: InitialWord = InitialWord::Up,
        /// Slow start.
        ramp: Option<Ramp>,
        /// A member that failed stays out until it is enabled.
        manual_resume: bool = false,
        /// What becomes of learned members when their peer is lost.
        on_peer_loss: At<PeerLossWord> = PeerLossWord::Expire,
        /// What hash schedulers look at.
        hash: Hash,
        /// Services that must have a usable member.
        depends_on: Vec<At<Name>>,
        /// Seed of hashes.
        seed: Int<0, {i64::MAX}> = Int::new(0),
        /// Members.
        members: At<Members>,
    }
}

fn default_steps() -> Vec<At<StepWord>> {
    [StepWord::Acl, StepWord::Proximity, StepWord::Isp, StepWord::Geo, StepWord::WeightedRoundRobin]
        .map(At::from)
        .into()
}

words! {
    /// A step of `choose`.
    pub enum StepWord {
        /// The client stays with its member.
        Persist = "persist",
        /// ACL rules.
        Acl = "acl",
        /// Measured round-trip times.
        Proximity = "proximity",
        /// The client's operator.
        Isp = "isp",
        /// The client's place.
        Geo = "geo",
        /// Load thresholds.
        Load = "load",
        /// In turn.
        RoundRobin = "round-robin",
        /// In turn, in proportion to weight.
        WeightedRoundRobin = "weighted-round-robin",
        /// At random.
        Random = "random",
        /// At random, in proportion to weight.
        WeightedRandom = "weighted-random",
        /// By the client's address.
        SourceHash = "source-hash",
        /// By the client's address and port.
        SourceIpPortHash = "source-ip-port-hash",
        /// By the destination's address.
        DestinationHash = "destination-hash",
        /// By bytes of the UDP payload.
        UdpPayloadHash = "udp-payload-hash",
        /// Highest random weight.
        Rendezvous = "rendezvous",
        /// Maglev's table.
        Maglev = "maglev",
        /// Fewest connections.
        LeastConnections = "least-connections",
        /// Fewest connections for its weight.
        WeightedLeastConnections = "weighted-least-connections",
        /// Shortest time to answer.
        LeastTime = "least-time",
        /// In proportion to free bandwidth.
        Bandwidth = "bandwidth",
        /// Most free bandwidth.
        MaxBandwidth = "max-bandwidth",
        /// The first of the list.
        Priority = "priority",
        /// All of them.
        All = "all",
    }
}

/// What is answered.
#[derive(Clone, Debug)]
pub enum Record {
    /// A and AAAA.
    Address,
    /// CNAME.
    Cname,
    /// SRV.
    Srv(Srv),
    /// MX.
    Mx(Mx),
    /// HTTPS.
    Https(Https),
}

table! {
    /// Records other than addresses and CNAME.
    pub struct RecordTable {
        /// SRV records.
        srv: Option<Srv>,
        /// MX records.
        mx: Option<Mx>,
        /// HTTPS records.
        https: Option<Https>,
    }
}

impl Value for Record {
    fn read(node: &read::Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        if let DeValue::String(word) = node.get_ref() {
            return match word.as_ref() {
                "address" => Some(Self::Address),
                "cname" => Some(Self::Cname),
                "srv" | "mx" | "https" => {
                    let help = format!("write record = {{ {word} = {{}} }}");
                    reader.bad_value(node, format!("{word:?} is a table here"), &help)
                }
                word => read::unknown_word(node, word, &["address", "cname", "srv", "mx", "https"], reader),
            };
        }
        let RecordTable { at, srv, mx, https } = RecordTable::read(node, reader)?;
        match (srv, mx, https) {
            (Some(srv), None, None) => Some(Self::Srv(srv)),
            (None, Some(mx), None) => Some(Self::Mx(mx)),
            (None, None, Some(https)) => Some(Self::Https(https)),
            _ => {
                let problem = Problem::error("bad-value", at, "a record table has exactly one key")
                    .help("one of `srv`, `mx`, `https`; for another kind write another [[service]] with the same name");
                reader.fail(problem)
            }
        }
    }
    fn schema() -> Json {
        json!({ "anyOf": [{ "type": "string", "enum": ["address", "cname"] }, RecordTable::schema()] })
    }
    fn show(&self) -> Json {
        match self {
            Self::Address => "address".into(),
            Self::Cname => "cname".into(),
            Self::Srv(_) | Self::Mx(_) | Self::Https(_) => Json::Null,
        }
    }
}

table! {
    /// SRV records.
    pub struct Srv {
        /// Port of members that have none of their own.
        port: Option<At<Int<1, 65535>>>,
        /// Priority in every record.
        priority: Int<0, 65535> = Int::new(0),
    }
}

table! {
    /// MX records.
    pub struct Mx {
        /// Preference in every record.
        preference: Int<0, 65535> = Int::new(10),
    }
}

table! {
    /// HTTPS records.
    pub struct Https {
        /// SvcPriority in every record.
        priority: Int<1, 65535> = Int::new(1),
        /// ALPN protocols.
        alpn: Vec<At<String>>,
        /// Port, when it is not 443.
        port: Option<At<Int<1, 65535>>>,
    }
}

words! {
    /// How a client stays with its member.
    pub enum PersistKind {
        /// Drawn from the client's prefix.
        Hash = "hash",
        /// Remembered.
        Table = "table",
    }
}

table! {
    /// Persistence.
    pub struct Persist {
        /// Drawn or remembered.
        kind: PersistKind,
        /// Bits that make an IPv4 client.
        v4: Int<1, 32> = Int::new(24),
        /// Bits that make an IPv6 client.
        v6: Int<1, 128> = Int::new(48),
        /// A choice is forgotten when it was not asked for so long.
        ttl: At<Seconds> = Seconds(600),
    }
}

table! {
    /// What hash schedulers look at.
    pub struct Hash {
        /// Bits of an IPv4 client that count.
        v4: Int<1, 32> = Int::new(32),
        /// Bits of an IPv6 client that count.
        v6: Int<1, 128> = Int::new(128),
    }
}

table! {
    /// An ACL rule.
    pub struct AclRule {
        /// Clients: prefixes and names of lists.
        from: At<Many<At<NetOrList>>>,
        /// Nothing but these.
        only: Option<At<Many<At<String>>>>,
        /// These when any is usable.
        prefer: Option<At<Many<At<String>>>>,
        /// Not these while another is usable.
        avoid: Option<At<Many<At<String>>>>,
        /// REFUSED.
        refuse: Option<At<bool>>,
    }
}

/// The geography policy of a service.
#[derive(Clone, Debug)]
pub enum GeoOf {
    /// A `[[geo]]`.
    Named(String),
    /// One of its own.
    Inline(Box<InlineGeo>),
}

impl Value for GeoOf {
    fn read(node: &read::Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        match node.get_ref() {
            DeValue::String(name) => Some(Self::Named(name.to_string())),
            DeValue::Table(_) => InlineGeo::read(node, reader).map(|geo| Self::Inline(Box::new(geo))),
            _ => reader.wrong_type(node, "the name of a [[geo]] policy or a table"),
        }
    }
    fn schema() -> Json {
        json!({ "anyOf": [String::schema(), InlineGeo::schema()] })
    }
    fn show(&self) -> Json {
        Json::Null
    }
}

table! {
    /// Load.
    pub struct Load {
        /// Share of capacity from which a member is dropped.
        threshold: Option<At<Real>>,
    }
}

words! {
    /// What answers when no member is usable.
    pub enum FallbackWord {
        /// Every member, as if it were up.
        All = "all",
        /// No data.
        NoData = "nodata",
        /// A server failure.
        ServFail = "servfail",
        /// Refused.
        Refuse = "refuse",
    }
}

/// What answers when no member is usable.
#[derive(Clone, Debug)]
pub enum Fallback {
    /// A word.
    Word(FallbackWord),
    /// These addresses.
    Address(Vec<At<IpAddr>>),
    /// A CNAME.
    Cname(At<Name>),
}

table! {
    /// Fixed answers.
    pub struct FallbackTable {
        /// These addresses.
        address: Option<Many<At<IpAddr>>>,
        /// A CNAME to this name.
        cname: Option<At<Name>>,
    }
}

impl Value for Fallback {
    fn read(node: &read::Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        if let DeValue::String(_) = node.get_ref() {
            return FallbackWord::read(node, reader).map(Self::Word);
        }
        let FallbackTable { at, address, cname } = FallbackTable::read(node, reader)?;
        match (address, cname) {
            (Some(addresses), None) if !addresses.0.is_empty() => Some(Self::Address(addresses.0)),
            (None, Some(name)) => Some(Self::Cname(name)),
            _ => {
                let problem = Problem::error("bad-value", at, "a fallback table has exactly one key");
                reader.fail(
                    problem.help(
                        "write { address = [\"192.0.2.1\"] } or { cname = \"elsewhere.example.net.\" }",
                    ),
                )
            }
        }
    }
    fn schema() -> Json {
        json!({ "anyOf": [FallbackWord::schema(), FallbackTable::schema()] })
    }
    fn show(&self) -> Json {
        match self {
            Self::Word(word) => word.show(),
            Self::Address(_) | Self::Cname(_) => Json::Null,
        }
    }
}

words! {
    /// What an unknown member counts as.
    pub enum InitialWord {
        /// Usable.
        Up = "up",
        /// Not usable.
        Down = "down",
    }
}

table! {
    /// Slow start.
    pub struct Ramp {
        /// After recovery, first no clients at all for this long.
        standby: At<Length> = Length::secs(0),
        /// Then a share that grows to the whole over this time.
        ramp_up: At<Length> = Length::secs(60),
    }
}

words! {
    /// What becomes of learned members when their peer is lost.
    pub enum PeerLossWord {
        /// They leave after `hold`.
        Expire = "expire",
        /// They stay as they were last.
        Keep = "keep",
        /// The service's own checks decide.
        DirectCheck = "direct-check",
    }
}

/// The members of a service.
#[derive(Clone, Debug)]
pub struct Members(pub Vec<Arc<Member>>);

impl Value for Members {
    fn read(node: &read::Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        match node.get_ref() {
            DeValue::String(word) if word == "peers" => {
                let at = reader.span(node);
                let all = Member { at, peers: true, ..Member::absent()? };
                Some(Self(vec![Arc::new(all)]))
            }
            DeValue::String(word) => read::unknown_word(node, word, &["peers"], reader),
            DeValue::Array(_) => Vec::read(node, reader).map(Self),
            _ => reader.wrong_type(node, "a list of members or \"peers\""),
        }
    }
    fn schema() -> Json {
        json!({ "anyOf": [{ "type": "string", "enum": ["peers"] }, Vec::<Member>::schema()] })
    }
    fn show(&self) -> Json {
        Json::Null
    }
}

table! {
    /// A member.
    pub struct Member {
        /// For references, commands and reports.
        name: Option<At<String>>,
        /// All virtual servers that name the service.
        peers: bool = false,
        /// The site it is at.
        site: Option<At<String>>,
        /// The link of the site that its address belongs to.
        link: Option<At<String>>,
        /// What is answered: at most one address of each family.
        address: Many<At<IpAddr>>,
        /// What CNAME, SRV, MX and HTTPS services answer.
        target: Option<At<Name>>,
        /// Port of the member.
        port: Option<At<Int<1, 65535>>>,
        /// What is checked, when it is not `address`.
        check_address: Many<At<IpAddr>>,
        /// Address of the member behind NAT.
        inside: Many<At<IpAddr>>,
        /// Share.
        weight: At<Int<0, 65535>> = Int::new(1),
        /// The first tier with enough usable members is used.
        tier: At<Int<1, 255>> = Int::new(1),
        /// Checks in place of the service's, or "none".
        check: Option<MemberCheck>,
        /// In place of the service's `load.threshold`.
        load_threshold: Option<At<Real>>,
        /// Connections it may have.
        connections_max: Option<At<Int<1, 4_294_967_295>>>,
        /// `false` takes it out of service.
        enabled: bool = true,
    }
}

/// The checks of a member.
#[derive(Clone, Debug)]
pub enum MemberCheck {
    /// None: it counts as up.
    None,
    /// In place of the service's.
    Own(Box<Checks>),
}

impl Value for MemberCheck {
    fn read(node: &read::Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        match node.get_ref() {
            DeValue::String(word) if word == "none" => Some(Self::None),
            DeValue::String(word) => read::unknown_word(node, word, &["none"], reader),
            DeValue::Table(_) => Checks::read(node, reader).map(|checks| Self::Own(Box::new(checks))),
            _ => reader.wrong_type(node, "a table of checks or \"none\""),
        }
    }
    fn schema() -> Json {
        json!({ "anyOf": [{ "type": "string", "enum": ["none"] }, Checks::schema()] })
    }
    fn show(&self) -> Json {
        Json::Null
    }
}
