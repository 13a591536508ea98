//! HTTP and HTTPS: one request, and the right code, and optionally the right body, in the answer.
//!
//! A redirect is an answer like any other and is not followed: `expect` says whether it is good.

use std::{fmt, net::IpAddr, path::PathBuf};

use super::{Exchange, Step, Verdict, What, command::parse_load, http_answer::Answer, one_line};
use crate::{
    def::DefError,
    matcher::{Match, Search},
    target::{Host, Target},
};

/// What servers see unless `headers` holds a User-Agent; some refuse requests without one (case H11).
const USER_AGENT: &str = concat!("portolan-check/", env!("CARGO_PKG_VERSION"));

/// The most of a body that can be asked for.
const BODY_LIMIT: usize = 16 << 20;

/// Options of `check.http` and `check.https`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HttpDef {
    /// `method`: the request's method.
    pub method: String,
    /// `path`: path and query of the request.
    pub path: String,
    /// `host`: the Host header; by default the target's name or address, with the port where it is not the usual one.
    pub host: Option<String>,
    /// `headers`: more headers, in this order. A User-Agent here replaces our own.
    pub headers: Vec<(String, String)>,
    /// `expect`: the codes that are good.
    pub expect: Codes,
    /// `body` (a text) or `body_regex` (a pattern): what the body must contain.
    pub body: Option<Match>,
    /// `body_limit`: how many octets of the body are read and searched.
    pub body_limit: usize,
    /// `load_header`: the header in which the server reports its load, as `0.42` or `42%`.
    pub load_header: Option<String>,
    /// With TLS this is `check.https`, whose table also holds the options of [`TlsDef`].
    pub tls: Option<TlsDef>,
}

impl Default for HttpDef {
    fn default() -> Self {
        Self {
            method: "GET".into(),
            path: "/".into(),
            host: None,
            headers: Vec::new(),
            expect: Codes::default(),
            body: None,
            body_limit: 64 * 1024,
            load_header: None,
            tls: None,
        }
    }
}

/// How the server's certificate is looked at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TlsDef {
    /// `server_name`: the name sent (SNI) and looked for in the certificate; by default `host`, else the target's
    /// name or address.
    pub server_name: Option<String>,
    /// `verify`: with `false` any certificate is accepted, also an expired one; the handshake must still succeed.
    pub verify: bool,
    /// `ca_file`: the certificates that are trusted, by default the machine's.
    pub roots: Roots,
}

impl Default for TlsDef {
    fn default() -> Self {
        Self { server_name: None, verify: true, roots: Roots::Machine }
    }
}

/// Whose certificates are trusted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Roots {
    /// Those of the machine.
    Machine,
    /// Those in this PEM file.
    File(PathBuf),
}

/// A set of response codes, as ranges in the order given. Its default is 200.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Codes(Vec<(u16, u16)>);

impl Default for Codes {
    fn default() -> Self {
        Self(vec![(200, 200)])
    }
}

impl Codes {
    /// Reads the items of an `expect` list: `200`, `200-299`.
    pub fn parse<'a>(items: impl IntoIterator<Item = &'a str>) -> Result<Self, DefError> {
        let mut ranges = Vec::new();
        for item in items {
            let (low, high) = item.split_once('-').unwrap_or((item, item));
            match (low.trim().parse(), high.trim().parse()) {
                (Ok(low), Ok(high)) if (100..=999).contains(&low) && (low..=999).contains(&high) => {
                    ranges.push((low, high));
                }
                _ => {
                    let problem =
                        format!("{item:?} is no response code; give 200, \"200-299\" or a list of these");
                    return Err(DefError::new("expect", problem));
                }
            }
        }
        if ranges.is_empty() {
            return Err(DefError::new("expect", "is empty: no answer could be good"));
        }
        Ok(Self(ranges))
    }

    fn contains(&self, code: u16) -> bool {
        self.0.iter().any(|(low, high)| (*low..=*high).contains(&code))
    }
}

impl fmt::Display for Codes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (low, high)) in self.0.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { ", " })?;
            if low == high { write!(f, "{low}")? } else { write!(f, "{low}-{high}")? }
        }
        Ok(())
    }
}

impl fmt::Debug for Codes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Codes({self})")
    }
}

impl HttpDef {
    pub(super) fn problems(&self, errors: &mut Vec<DefError>) {
        if !is_token(&self.method) {
            errors.push(DefError::new("method", format!("{:?} is no HTTP method", self.method)));
        }
        let visible = |text: &str| text.chars().all(|c| c.is_ascii_graphic());
        if !(self.path.starts_with('/') || self.path == "*") || !visible(&self.path) {
            let problem = "must begin with / and hold no space; write others as %20".to_owned();
            errors.push(DefError::new("path", format!("{:?} {problem}", self.path)));
        }
        if let Some(host) = &self.host
            && (host.is_empty() || !visible(host))
        {
            errors.push(DefError::new("host", format!("{host:?} is no host name")));
        }
        for (name, value) in &self.headers {
            if !is_token(name) {
                errors.push(DefError::new("headers", format!("{name:?} is no header name")));
            } else if name.eq_ignore_ascii_case("host") {
                errors.push(DefError::new("headers", "give the Host header as host = \"…\""));
            }
            one_line("headers", value, errors);
        }
        if let Some(name) = &self.load_header
            && !is_token(name)
        {
            errors.push(DefError::new("load_header", format!("{name:?} is no header name")));
        }
        if self.body_limit > BODY_LIMIT {
            errors
                .push(DefError::new("body_limit", format!("{} is more than {BODY_LIMIT}", self.body_limit)));
        }
        if let Some(name) = self.tls.as_ref().and_then(|tls| tls.server_name.as_deref())
            && rustls_pki_types::ServerName::try_from(name).is_err()
        {
            errors.push(DefError::new("server_name", format!("{name:?} is neither a name nor an address")));
        }
    }

    /// The name for SNI and the certificate.
    pub(super) fn server_name(&self, tls: &TlsDef, target: &Target) -> String {
        let bare = |host: &Host| match host {
            Host::Ip(address) => address.to_string(),
            Host::Name(name) => name.clone(),
        };
        match (&tls.server_name, &self.host) {
            (Some(name), _) => name.clone(),
            (None, Some(host)) => without_port(host).to_owned(),
            (None, None) => bare(&target.host),
        }
    }

    pub(super) fn exchange(&self, target: &Target) -> Box<dyn Exchange> {
        let answer = Answer::new(self.method != "HEAD", self.body_limit);
        Box::new(Conversation {
            request: self.request(target),
            body: self.body.clone().map(Search::new),
            def: self.clone(),
            answer,
        })
    }

    fn request(&self, target: &Target) -> Vec<u8> {
        let usual_port = if self.tls.is_some() { 443 } else { 80 };
        let host = match &self.host {
            Some(host) => host.clone(),
            None if target.port == usual_port => target.host.to_string(),
            None => format!("{}:{}", target.host, target.port),
        };
        let mut text = format!("{} {} HTTP/1.1\r\nHost: {host}\r\n", self.method, self.path);
        let given = |name: &str| self.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        for (name, value) in [("User-Agent", USER_AGENT), ("Accept", "*/*"), ("Connection", "close")] {
            if !given(name) {
                text.push_str(&format!("{name}: {value}\r\n"));
            }
        }
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        text.into_bytes()
    }
}

/// RFC 9110 5.6.2.
fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

fn without_port(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    match host.rsplit_once(':') {
        Some((name, port)) if host.parse::<IpAddr>().is_err() && port.parse::<u16>().is_ok() => name,
        _ => host,
    }
}

struct Conversation {
    def: HttpDef,
    request: Vec<u8>,
    body: Option<Search>,
    answer: Answer,
}

impl Exchange for Conversation {
    fn start(&mut self) -> Step {
        Step::Send(std::mem::take(&mut self.request))
    }

    fn received(&mut self, bytes: &[u8]) -> Step {
        match self.answer.push(bytes) {
            Err(problem) => Step::Done(Verdict::bad(What::Protocol, problem)),
            Ok(()) => self.judge().map_or(Step::More, Step::Done),
        }
    }

    fn closed(&mut self) -> Verdict {
        match self.answer.close() {
            Err(problem) => Verdict::bad(What::Closed, problem),
            Ok(()) => self.judge().unwrap_or_else(|| Verdict::bad(What::Closed, "closed too early")),
        }
    }
}

impl Conversation {
    /// The verdict, once what has arrived decides it: the code needs the head only, a text in the body stops the
    /// reading where it is found.
    fn judge(&mut self) -> Option<Verdict> {
        let head = self.answer.head()?;
        if !self.def.expect.contains(head.code) {
            let to = head.header("location").map(|place| format!(" to {place}")).unwrap_or_default();
            let detail = format!("{}{to}, expected {}", head.status, self.def.expect);
            return Some(Verdict::bad(What::Mismatch, detail));
        }
        if let Some(body) = &mut self.body {
            let complete = self.answer.is_complete();
            if !body.found(self.answer.body(), complete) {
                let length = self.answer.body().len();
                let detail = format!("{}, but the body ({length} octets read) does not match", head.status);
                return complete.then(|| Verdict::bad(What::Mismatch, detail));
            }
        }
        let load = self.def.load_header.as_deref().and_then(|name| parse_load(head.header(name)?));
        Some(match Verdict::good(head.status.clone()) {
            Verdict::Good { note, .. } => Verdict::Good { note, load },
            bad @ Verdict::Bad(_) => bad,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matcher::Pattern;

    fn target(text: &str) -> Target {
        let address: std::net::SocketAddr = text.parse().unwrap();
        Target::new(address.ip(), address.port())
    }

    #[test]
    fn requests() {
        let request = |def: &HttpDef, to: &str| match def.exchange(&target(to)).start() {
            Step::Send(bytes) => String::from_utf8(bytes).unwrap(),
            Step::More | Step::Done(_) => panic!(),
        };
        let agent = format!("User-Agent: portolan-check/{}\r\n", env!("CARGO_PKG_VERSION"));
        assert_eq!(
            request(&HttpDef::default(), "[::1]:80"),
            format!("GET / HTTP/1.1\r\nHost: [::1]\r\n{agent}Accept: */*\r\nConnection: close\r\n\r\n")
        );
        let def = HttpDef {
            method: "POST".into(),
            path: "/x?y=%20".into(),
            headers: vec![("user-agent".into(), "me".into()), ("X-API-Key".into(), "k".into())],
            ..HttpDef::default()
        };
        assert_eq!(
            request(&def, "127.0.0.1:8080"),
            "POST /x?y=%20 HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAccept: */*\r\nConnection: close\r\nuser-agent: me\r\nX-API-Key: k\r\n\r\n"
        );
        let tls =
            HttpDef { host: Some("a.example:1".into()), tls: Some(TlsDef::default()), ..HttpDef::default() };
        assert!(request(&tls, "127.0.0.1:443").contains("Host: a.example:1\r\n"));
    }

    #[test]
    fn names_for_certificates() {
        for (server_name, host, want) in [
            (Some("b.example"), Some("a.example"), "b.example"),
            (None, Some("a.example:8443"), "a.example"),
            (None, Some("[2001:db8::1]:8443"), "2001:db8::1"),
            (None, Some("2001:db8::1"), "2001:db8::1"),
            (None, None, "::1"),
        ] {
            let tls = TlsDef { server_name: server_name.map(Into::into), ..TlsDef::default() };
            let def = HttpDef { host: host.map(Into::into), ..HttpDef::default() };
            assert_eq!(def.server_name(&tls, &target("[::1]:443")), want);
        }
    }

    #[test]
    fn codes() {
        let codes = Codes::parse(["200", "301-302", " 404 - 410 "]).unwrap();
        assert_eq!(codes.to_string(), "200, 301-302, 404-410");
        for (code, good) in [(200, true), (201, false), (302, true), (404, true), (411, false)] {
            assert_eq!(codes.contains(code), good, "{code}");
        }
        for bad in [&["2xx"][..], &["99"], &["300-200"], &["1000"], &[""], &[]] {
            assert!(Codes::parse(bad.iter().copied()).is_err(), "{bad:?}");
        }
    }

    /// dns.md case 25 and gslb.md case H11, without sockets: an answer in one piece and octet by octet.
    #[test]
    fn answers() {
        let text = |s: &str| Some(Match::Text(s.into()));
        let regex = |s: &str| Some(Match::Regex(Pattern::new("body_regex", s).unwrap()));
        let long = format!("HTTP/1.1 200 OK\r\n\r\n{}needle", "x".repeat(70_000));
        let many = format!("HTTP/1.1 200 OK\r\n{}", "A: b\r\n".repeat(5000));
        // expect, body, answer, good
        let table: &[(&str, Option<Match>, &str, bool)] = &[
            ("200-299", None, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", true),
            ("200-299", None, "HTTP/1.1 204 No Content\r\n\r\n", true),
            ("200-299", None, "HTTP/1.1 301 Moved\r\nLocation: /x\r\n\r\n", false),
            ("301", None, "HTTP/1.1 301 Moved\r\nLocation: /x\r\n\r\n", true),
            ("200", None, "HTTP/1.1 200\r\n\r\n", true),
            ("200", None, "HTTP/1.0 200 OK\n\nold server", true),
            ("200", text("old"), "HTTP/1.0 200 OK\n\nold server", true),
            ("200", text("new"), "HTTP/1.0 200 OK\n\nold server", false),
            ("200", regex("^old.*r$"), "HTTP/1.0 200 OK\r\n\r\nold server", true),
            ("200", None, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", true),
            (
                "200",
                text("hello world"),
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6;x=y\r\nhello \r\n5\r\nworld\r\n0\r\nT: x\r\n\r\n",
                true,
            ),
            (
                "200",
                regex("^hello world$"),
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\nContent-Length: 3\r\n\r\n6\r\nhello \r\n5\r\nworld\r\n0\r\n\r\n",
                true,
            ),
            ("200", text("x"), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nx", false),
            ("200", text("x"), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcx", false),
            (
                "200",
                text("x"),
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
                false,
            ),
            ("200", text("cut"), "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nsho", false),
            ("200", text("ab"), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nab", false),
            ("200", text("ab"), "HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\nab", false),
            ("200", text("ab"), "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab", false),
            ("200", text(""), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true),
            ("200", text("needle"), &long, false),
            ("200", None, &many, false),
            ("200", None, "SSH-2.0-OpenSSH_9\r\n", false),
            ("200", None, "HTTP/1.1 2000 OK\r\n\r\n", false),
            ("200", None, "HTTP/1.1 OK\r\n\r\n", false),
            ("200", None, "HTTP/1.1 200 OK\r\nno end", false),
            ("200", None, "", false),
        ];
        for (expect, body, answer, want) in table {
            for piece in [usize::MAX, 1, 7] {
                let def = HttpDef {
                    expect: Codes::parse([*expect]).unwrap(),
                    body: body.clone(),
                    ..HttpDef::default()
                };
                let verdict = converse(&def, answer.as_bytes(), piece);
                let shown = answer.get(..answer.len().min(120)).unwrap_or_default();
                assert_eq!(verdict.is_good(), *want, "pieces of {piece}: {body:?} {shown:?}: {verdict:?}");
            }
        }
    }

    fn converse(def: &HttpDef, answer: &[u8], piece: usize) -> Verdict {
        let mut talk = def.exchange(&target("127.0.0.1:80"));
        for bytes in answer.chunks(piece.min(answer.len().max(1))) {
            if let Step::Done(verdict) = talk.received(bytes) {
                return verdict;
            }
        }
        talk.closed()
    }

    #[test]
    fn reported_load() {
        let def = HttpDef { load_header: Some("X-Load".into()), ..HttpDef::default() };
        for (line, want) in [("x-load: 0.42\r\n", Some(0.42)), ("X-Load: 85%\r\n", Some(0.85)), ("", None)] {
            let answer = format!("HTTP/1.1 200 OK\r\n{line}\r\n");
            let verdict = converse(&def, answer.as_bytes(), 5);
            assert_eq!(verdict, Verdict::Good { note: "200 OK".into(), load: want });
        }
    }

    #[test]
    fn head_has_no_body() {
        let def =
            HttpDef { method: "HEAD".into(), body: Some(Match::Text("x".into())), ..HttpDef::default() };
        let verdict = converse(&def, b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", 1000);
        assert!(matches!(verdict, Verdict::Bad(reason) if reason.what == What::Mismatch));
    }

    #[test]
    fn any_octets_are_survived() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut dice = fastrand::Rng::with_seed(seed);
        let def = HttpDef { body: Some(Match::Text("needle".into())), ..HttpDef::default() };
        let whole = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 12\r\n\r\n6\r\nhello \r\n0\r\n\r\n";
        for _ in 0..5_000 {
            let mut answer = whole.to_vec();
            for _ in 0..dice.usize(1..5) {
                if let Some(octet) = dice.choice(answer.iter_mut()) {
                    *octet = *dice.choice(b"\r\n0f :H9\xff").unwrap();
                }
            }
            let piece = dice.usize(1..40);
            let _ = converse(&def, &answer, piece);
        }
    }
}
