//! The kinds of checks: one small file each, and here what all of them have in common.
//!
//! A new kind is a file with a `…Def` (its options), a `problems` (what can be wrong with them) and an
//! [`Exchange`]; and one line in each `match` below.

use crate::{
    def::DefError,
    target::Target,
    verdict::{Exchange, Step, Verdict, What},
};

mod command;
mod dns;
mod http;
mod http_answer;
mod icmp;
mod tcp;

pub(crate) use self::command::{Ended, judge as judge_command};

pub use self::{
    command::CommandDef,
    dns::{DnsDef, rcode_number, type_number},
    http::{Codes, HttpDef, Roots, TlsDef},
    icmp::IcmpDef,
    tcp::TcpDef,
};

/// What is sent and what is expected.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KindDef {
    /// `check.icmp`: an echo is answered.
    Icmp(IcmpDef),
    /// `check.tcp`: a connection opens, and optionally the right bytes come.
    Tcp(TcpDef),
    /// `check.http`, and with `tls` `check.https`: a request is answered with the right code and body.
    Http(HttpDef),
    /// `check.dns`: a query is answered with the right code and address.
    Dns(DnsDef),
    /// `check.command`: a program exits with 0.
    Command(CommandDef),
}

/// How a kind's conversation is carried.
pub(crate) enum Transport<'a> {
    /// A TCP connection.
    Tcp(Box<dyn Exchange>),
    /// TLS on a TCP connection, with this name for SNI and the certificate.
    Tls(&'a TlsDef, String, Box<dyn Exchange>),
    /// Datagrams.
    Udp(Box<dyn Exchange>),
    /// An ICMP echo; the answer is the verdict.
    Icmp(&'a IcmpDef),
    /// A program; its exit and output are judged by [`judge_command`].
    Process(&'a CommandDef),
}

impl KindDef {
    /// The word for this kind in configuration, status and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Icmp(_) => "icmp",
            Self::Tcp(_) => "tcp",
            Self::Http(HttpDef { tls: None, .. }) => "http",
            Self::Http(HttpDef { tls: Some(_), .. }) => "https",
            Self::Dns(_) => "dns",
            Self::Command(_) => "command",
        }
    }

    /// False for kinds that ignore the target's port.
    pub fn has_port(&self) -> bool {
        !matches!(self, Self::Icmp(_))
    }

    /// The port that a check without `port` goes to, for kinds that have a usual one; the others use the member's.
    pub fn usual_port(&self) -> Option<u16> {
        match self {
            Self::Http(HttpDef { tls: None, .. }) => Some(80),
            Self::Http(HttpDef { tls: Some(_), .. }) => Some(443),
            Self::Dns(_) => Some(53),
            Self::Icmp(_) | Self::Tcp(_) | Self::Command(_) => None,
        }
    }

    pub(crate) fn problems(&self, errors: &mut Vec<DefError>) {
        match self {
            Self::Icmp(def) => def.problems(errors),
            Self::Tcp(def) => def.problems(errors),
            Self::Http(def) => def.problems(errors),
            Self::Dns(def) => def.problems(errors),
            Self::Command(def) => def.problems(errors),
        }
    }

    /// The conversation with this target. `entropy` makes it hard to guess where the protocol wants that.
    pub(crate) fn transport(&self, target: &Target, entropy: u64) -> Transport<'_> {
        match self {
            Self::Icmp(def) => Transport::Icmp(def),
            Self::Tcp(def) => Transport::Tcp(def.exchange()),
            Self::Http(def) => match &def.tls {
                None => Transport::Tcp(def.exchange(target)),
                Some(tls) => Transport::Tls(tls, def.server_name(tls, target), def.exchange(target)),
            },
            Self::Dns(def) if def.tcp => Transport::Tcp(def.exchange(entropy)),
            Self::Dns(def) => Transport::Udp(def.exchange(entropy)),
            Self::Command(def) => Transport::Process(def),
        }
    }
}

/// An error for text that would break out of its place on a protocol line.
fn one_line(key: &'static str, text: &str, errors: &mut Vec<DefError>) {
    if text.contains(char::is_control) {
        errors.push(DefError::new(key, format!("{text:?} holds control characters; give one line of text")));
    }
}
