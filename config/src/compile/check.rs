//! Health checks: tables to definitions and targets. A kind is one `match` arm's worth of conversion here.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use portolan_probe::{
    CheckDef, CheckKey, Codes, CommandDef, DefError, DnsDef, Host, HttpDef, IcmpDef, Initial, KindDef, Match,
    Pattern, Require, Roots, Target, TcpDef, Timing, TlsDef, rcode_number, type_number,
};

use crate::files::FileSource;
use crate::gather::resolve;
use crate::place::{At, Span};
use crate::problem::Problem;
use crate::read::{Int, Map};
use crate::spec;
use crate::suggest;

/// The checks of one candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberChecks {
    /// How many must be up.
    pub require: Require,
    /// Which; none: the candidate counts as up.
    pub keys: Vec<CheckKey>,
}

/// A definition, and what it takes to make a target of a member.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    def: Arc<CheckDef>,
    port: Option<u16>,
    address: Option<IpAddr>,
    source: Option<IpAddr>,
    /// Where the check is written.
    at: Span,
}

/// All checks of a `check` table.
#[derive(Clone, Debug)]
pub(crate) struct Checks {
    require: Require,
    of: Vec<Definition>,
}

impl Default for Checks {
    fn default() -> Self {
        Self::NONE
    }
}

impl Checks {
    pub(crate) const NONE: Self = Self { require: Require::All, of: Vec::new() };

    pub(crate) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Where a check is written that has no port, unless the member has one (HC4).
    pub(crate) fn without_port(&self) -> Option<Span> {
        let needs = |of: &&Definition| {
            let kind = of.def.kind();
            let is_command = matches!(kind, KindDef::Command(_));
            of.port.is_none() && kind.usual_port().is_none() && !is_command && kind.has_port()
        };
        self.of.iter().find(needs).map(|of| of.at)
    }

    /// The checks of a member.
    pub(crate) fn of_member(&self, subject: &Subject<'_>, problems: &mut Vec<Problem>) -> MemberChecks {
        let mut keys = Vec::new();
        for Definition { def, port, address, source, at } in &self.of {
            let Some(host) = address.map(Host::Ip).or_else(|| subject.host()) else {
                let problem = Problem::error("missing-key", subject.at, "this member has nothing to check");
                problems.push(problem.see(*at, "the check").help("add check_address, or check = \"none\""));
                continue;
            };
            // HC4: without a port of its own a check goes to the member's
            let is_command = matches!(def.kind(), KindDef::Command(_));
            let port = port.or(subject.port).or(def.kind().usual_port());
            let port = match port {
                Some(port) => port,
                None if is_command || !def.kind().has_port() => 0,
                None => {
                    let message = format!("the {} check has no port", def.kind().name());
                    let problem = Problem::error("missing-key", *at, message)
                        .see(subject.at, "what it checks has none either");
                    problems.push(problem.help("add port = 80 to the check, or a port to what it checks"));
                    continue;
                }
            };
            if let (Host::Ip(ip), Some(source)) = (&host, source)
                && ip.is_ipv4() != source.is_ipv4()
            {
                let message = format!("{ip} cannot be checked from {source}");
                let problem = Problem::error("family", *at, message).see(subject.at, "the member");
                problems
                    .push(problem.help("give this member checks of its own, with a source of its family"));
                continue;
            }
            keys.push(CheckKey::new(Target { host, port, source: *source }, Arc::clone(def)));
        }
        MemberChecks { require: self.require, keys }
    }
}

/// What a member gives to its checks.
pub(crate) struct Subject<'a> {
    pub(crate) port: Option<u16>,
    /// The address answered, when it is one.
    pub(crate) address: Option<IpAddr>,
    pub(crate) check_address: &'a [At<IpAddr>],
    /// The name answered, when it is one.
    pub(crate) target: Option<String>,
    /// Where the member is written.
    pub(crate) at: Span,
}

impl Subject<'_> {
    /// T9: whom to check; `check_address` of the same family, else the only one there is.
    fn host(&self) -> Option<Host> {
        let same = |other: &&At<IpAddr>| self.address.is_none_or(|mine| mine.is_ipv4() == other.is_ipv4());
        let check = self.check_address.iter().find(same).or_else(|| self.check_address.first());
        let address = check.map(|address| address.value).or(self.address);
        address.map(Host::Ip).or_else(|| self.target.clone().map(Host::Name))
    }
}

/// Converts checks; equal definitions are one.
pub(crate) struct Converter<'a> {
    pub(crate) files: &'a dyn FileSource,
    pub(crate) paths: &'a [PathBuf],
    defs: HashMap<CheckDef, Arc<CheckDef>>,
}

impl<'a> Converter<'a> {
    pub(crate) fn new(files: &'a dyn FileSource, paths: &'a [PathBuf]) -> Self {
        Self { files, paths, defs: HashMap::new() }
    }

    /// The definitions of a `check` table.
    pub(crate) fn checks(
        &mut self,
        checks: &spec::Checks,
        initial: spec::InitialWord,
        problems: &mut Vec<Problem>,
    ) -> Checks {
        let spec::Checks { at: _, require, icmp, tcp, http, https, dns, command } = checks;
        let (files, paths) = (self.files, self.paths);
        let mut of = Vec::new();
        let mut add = |common: spec::Common,
                       port,
                       kind: Option<KindDef>,
                       keys: &[(&str, Span)],
                       problems: &mut Vec<Problem>| {
            if let Some(kind) = kind {
                of.extend(self.definition(common, port, kind, initial, keys, problems));
            }
        };
        for check in icmp.iter() {
            let kind = KindDef::Icmp(IcmpDef { size: check.size.get() });
            add(check.common(), None, Some(kind), &[("size", check.size.at)], problems);
        }
        for check in tcp.iter() {
            let expect =
                matching("expect_regex", check.expect.as_ref(), check.expect_regex.as_ref(), problems);
            let send = check.send.as_ref().map(|text| text.value.clone().into_bytes());
            add(check.common(), check.port, Some(KindDef::Tcp(TcpDef { send, expect })), &[], problems);
        }
        for check in http.iter() {
            add(
                check.common(),
                check.port,
                http_def(check, problems).map(KindDef::Http),
                &http_keys(check),
                problems,
            );
        }
        for check in https.iter() {
            let (plain, tls) = split(check);
            let mut keys = http_keys(&plain).to_vec();
            keys.extend(check.server_name.as_ref().map(|name| ("server_name", name.at)));
            let roots = match &check.ca_file {
                None => Roots::Machine,
                Some(file) => {
                    let path = resolve(paths, file);
                    if !files.is_file(&path) {
                        let message = format!("there is no file {}", path.display());
                        problems.push(Problem::error("unreadable", file.at, message));
                    }
                    Roots::File(path)
                }
            };
            let def = http_def(&plain, problems);
            let kind = def.map(|def| KindDef::Http(HttpDef { tls: Some(TlsDef { roots, ..tls }), ..def }));
            add(check.common(), check.port, kind, &keys, problems);
        }
        for check in dns.iter() {
            let keys = [("name", check.name.at), ("type", check.rtype.at), ("rcode", check.rcode.at)];
            add(check.common(), check.port, dns_kind(check, problems), &keys, problems);
        }
        for check in command.iter() {
            let kind =
                KindDef::Command(CommandDef { argv: check.argv.value.clone(), env: pairs(&check.env) });
            add(check.common(), check.port, Some(kind), &[("argv", check.argv.at)], problems);
        }
        if let spec::Require::AtLeast(number) = require.value
            && usize::from(number) > of.len()
        {
            let message = format!("{number} checks are required, and there are {}", of.len());
            problems
                .push(Problem::error("bad-value", require.at, message).help("add checks, or require fewer"));
        }
        let require = match require.value {
            spec::Require::All => Require::All,
            spec::Require::Any => Require::Any,
            spec::Require::AtLeast(number) => Require::AtLeast(number.into()),
        };
        Checks { require, of }
    }

    fn definition(
        &mut self,
        common: spec::Common,
        port: Option<At<Int<1, 65535>>>,
        kind: KindDef,
        initial: spec::InitialWord,
        keys: &[(&str, Span)],
        problems: &mut Vec<Problem>,
    ) -> Option<Definition> {
        let spec::Common {
            at,
            interval,
            timeout,
            rise,
            fall,
            jitter,
            failover_delay,
            failback_delay,
            address,
            source,
        } = common;
        let timing = Timing {
            interval: interval.0,
            timeout: timeout.0,
            rise: rise.get(),
            fall: fall.get(),
            jitter_percent: jitter.get(),
            initial: match initial {
                spec::InitialWord::Up => Initial::Up,
                spec::InitialWord::Down => Initial::Down,
            },
            failover_delay: failover_delay.0,
            failback_delay: failback_delay.0,
        };
        if let (Some(address), Some(source)) = (address, source)
            && address.is_ipv4() != source.is_ipv4()
        {
            let message = format!("{} cannot be checked from {}", address.value, source.value);
            let problem = Problem::error("family", source.at, message).see(address.at, "the other family");
            problems.push(problem.help("give addresses of one family"));
        }
        match CheckDef::new(kind, timing) {
            Ok(def) => {
                let def = self.defs.entry(def).or_insert_with_key(|def| Arc::new(def.clone()));
                Some(Definition {
                    def: Arc::clone(def),
                    port: port.map(|port| port.get()),
                    address: address.map(|it| it.value),
                    source: source.map(|it| it.value),
                    at,
                })
            }
            Err(errors) => {
                let times = [
                    ("interval", interval.at),
                    ("timeout", timeout.at),
                    ("failover_delay", failover_delay.at),
                    ("failback_delay", failback_delay.at),
                ];
                for DefError { key, problem } in errors {
                    let found =
                        keys.iter().chain(&times).find(|(name, span)| *name == key && *span != Span::NOWHERE);
                    let span = found.map_or(at, |(_, span)| *span);
                    problems.push(Problem::error("bad-value", span, format!("`{key}`: {problem}")));
                }
                None
            }
        }
    }
}

fn pairs(map: &Map<String>) -> Vec<(String, String)> {
    map.iter().map(|(key, value)| (key.value.clone(), value.clone())).collect()
}

/// What an answer must contain: a text, or a pattern.
fn matching(
    key: &'static str,
    text: Option<&At<String>>,
    regex: Option<&At<String>>,
    problems: &mut Vec<Problem>,
) -> Option<Match> {
    if let (Some(text), Some(regex)) = (text, regex) {
        let problem =
            Problem::error("bad-value", regex.at, format!("`{key}` stands in place of the plain text"));
        problems.push(problem.see(text.at, "the plain text").help("keep one of the two"));
    }
    if let Some(regex) = regex {
        return match Pattern::new(key, &regex.value) {
            Ok(pattern) => Some(Match::Regex(pattern)),
            Err(DefError { key, problem }) => {
                problems.push(Problem::error("bad-value", regex.at, format!("`{key}`: {problem}")));
                None
            }
        };
    }
    text.map(|text| Match::Text(text.value.clone()))
}

fn http_def(check: &spec::HttpCheck, problems: &mut Vec<Problem>) -> Option<HttpDef> {
    let body = matching("body_regex", check.body.as_ref(), check.body_regex.as_ref(), problems);
    let expect = match Codes::parse(check.expect.0.iter().map(String::as_str)) {
        Ok(codes) => codes,
        Err(DefError { key, problem }) => {
            problems.push(Problem::error("bad-value", check.expect.at, format!("`{key}`: {problem}")));
            return None;
        }
    };
    Some(HttpDef {
        method: check.method.value.clone(),
        path: check.path.value.clone(),
        host: check.host.as_ref().map(|host| host.value.clone()),
        headers: pairs(&check.headers),
        expect,
        body,
        body_limit: check.body_limit.get::<u32>() as usize,
        load_header: check.load_header.as_ref().map(|name| name.value.clone()),
        tls: None,
    })
}

/// The places of the keys that [`CheckDef::new`] looks at.
fn http_keys(check: &spec::HttpCheck) -> [(&'static str, Span); 6] {
    let at = |text: Option<&At<String>>| text.map_or(Span::NOWHERE, |it| it.at);
    [
        ("path", check.path.at),
        ("method", check.method.at),
        ("host", at(check.host.as_ref())),
        ("expect", check.expect.at),
        ("load_header", at(check.load_header.as_ref())),
        ("headers", check.headers.0.first().map_or(Span::NOWHERE, |(key, _)| key.at)),
    ]
}

/// An HTTPS check is an HTTP check and what is about TLS.
fn split(check: &spec::HttpsCheck) -> (spec::HttpCheck, TlsDef) {
    let spec::HttpsCheck {
        at,
        interval,
        timeout,
        rise,
        fall,
        jitter,
        failover_delay,
        failback_delay,
        address,
        source,
        port,
        path,
        method,
        host,
        headers,
        expect,
        body,
        body_regex,
        body_limit,
        load_header,
        server_name,
        verify,
        ca_file: _,
    } = check.clone();
    let plain = spec::HttpCheck {
        at,
        interval,
        timeout,
        rise,
        fall,
        jitter,
        failover_delay,
        failback_delay,
        address,
        source,
        port,
        path,
        method,
        host,
        headers,
        expect,
        body,
        body_regex,
        body_limit,
        load_header,
    };
    (plain, TlsDef { server_name: server_name.map(|name| name.value), verify, roots: Roots::Machine })
}

fn dns_kind(check: &spec::DnsCheck, problems: &mut Vec<Problem>) -> Option<KindDef> {
    let rtype = type_number(&check.rtype);
    if rtype.is_none() {
        let mut problem = Problem::error(
            "bad-value",
            check.rtype.at,
            format!("unknown record type {:?}", check.rtype.value),
        );
        problem.help =
            suggest::nearest(&check.rtype, ["A", "AAAA", "NS", "SOA", "CNAME", "MX", "TXT", "SRV", "HTTPS"])
                .map(|near| format!("did you mean {near:?}?"))
                .or_else(|| Some("write a type like \"A\", or TYPE and its number".to_owned()));
        problems.push(problem);
    }
    let rcode = rcode_number(&check.rcode);
    if rcode.is_none() {
        let message = format!("unknown response code {:?}", check.rcode.value);
        problems.push(
            Problem::error("bad-value", check.rcode.at, message)
                .help("write one like \"NOERROR\" or \"REFUSED\""),
        );
    }
    Some(KindDef::Dns(DnsDef {
        name: check.name.to_string(),
        rtype: rtype?,
        rcode: rcode?,
        answer: check.answer.map(|address| address.value),
        recursion: check.recursion,
        tcp: check.tcp,
    }))
}
