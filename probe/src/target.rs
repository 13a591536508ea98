//! Whom to check, and the identity of a check.

use std::{fmt, hash::Hash, net::IpAddr, sync::Arc};

use siphasher::sip128::{Hasher128, SipHasher13};

use crate::def::CheckDef;

/// Where a check goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// The address, or a name that is looked up at every check.
    pub host: Host,
    /// The port; kinds without ports ignore it.
    pub port: u16,
    /// The local address to check from (HC6); none leaves the choice to the system.
    pub source: Option<IpAddr>,
}

impl Target {
    /// A target by address, from whatever local address the system chooses.
    pub fn new(address: IpAddr, port: u16) -> Self {
        Self { host: Host::Ip(address), port, source: None }
    }
}

/// A target's host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// An address.
    Ip(IpAddr),
    /// A name, resolved by the system at each check.
    Name(String),
}

impl fmt::Display for Host {
    /// As in a URL: IPv6 addresses stand in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Self::Ip(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// The identity of a check: a target and a definition. Equal keys are one check, whoever asked for it (T8, H07).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CheckKey {
    target: Target,
    def: Arc<CheckDef>,
}

impl CheckKey {
    /// The key of this definition at this target, in canonical form: v4-mapped addresses become IPv4 ones, names
    /// are lower case without a final dot, and a kind without ports forgets the port.
    pub fn new(target: Target, def: Arc<CheckDef>) -> Self {
        let Target { host, port, source } = target;
        let host = match host {
            Host::Ip(address) => Host::Ip(address.to_canonical()),
            Host::Name(name) => match name.trim_end_matches('.').parse::<IpAddr>() {
                Ok(address) => Host::Ip(address.to_canonical()),
                Err(_) => Host::Name(name.trim_end_matches('.').to_ascii_lowercase()),
            },
        };
        let port = if def.kind().has_port() { port } else { 0 };
        Self { target: Target { host, port, source: source.map(|address| address.to_canonical()) }, def }
    }

    /// Whom is checked.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// How it is checked.
    pub fn def(&self) -> &CheckDef {
        &self.def
    }

    /// The stable text under which a state is saved: `kind host:port digest`. It shows no header or command, since
    /// those may hold secrets.
    pub fn id(&self) -> String {
        // Fixed keys: the same check has the same digest after a restart. Should a later version hash otherwise,
        // saved states are not found and the checks start as unknown, which is safe (T1).
        let mut hasher = SipHasher13::new();
        self.hash(&mut hasher);
        let digest = hasher.finish128();
        format!("{} {:016x}{:016x}", self, digest.h1, digest.h2)
    }
}

impl fmt::Display for CheckKey {
    /// For people: `http 192.0.2.10:80`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.def.kind().name(), self.target.host)?;
        if self.target.port != 0 {
            write!(f, ":{}", self.target.port)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        def::Timing,
        kind::{IcmpDef, KindDef, TcpDef},
    };

    fn key(kind: KindDef, host: Host, port: u16) -> CheckKey {
        let def = CheckDef::new(kind, Timing::default()).unwrap();
        CheckKey::new(Target { host, port, source: None }, Arc::new(def))
    }

    #[test]
    fn spellings_of_one_check_are_one_key() {
        let tcp = || KindDef::Tcp(TcpDef::default());
        let ip = |text: &str| Host::Ip(text.parse().unwrap());
        let name = |text: &str| Host::Name(text.to_owned());
        let same = [
            (key(tcp(), ip("192.0.2.1"), 80), key(tcp(), ip("::ffff:192.0.2.1"), 80)),
            (key(tcp(), name("192.0.2.1"), 80), key(tcp(), ip("192.0.2.1"), 80)),
            (key(tcp(), name("Web.Example.COM."), 80), key(tcp(), name("web.example.com"), 80)),
            (
                key(KindDef::Icmp(IcmpDef::default()), ip("::1"), 80),
                key(KindDef::Icmp(IcmpDef::default()), ip("::1"), 443),
            ),
        ];
        for (a, b) in same {
            assert_eq!(a, b);
            assert_eq!(a.id(), b.id());
        }
        let other = key(tcp(), ip("192.0.2.1"), 81);
        assert_ne!(key(tcp(), ip("192.0.2.1"), 80).id(), other.id());
        assert!(other.id().starts_with("tcp 192.0.2.1:81 "), "{}", other.id());
        assert!(key(tcp(), ip("2001:db8::1"), 81).id().starts_with("tcp [2001:db8::1]:81 "));
    }
}
