//! Questions by dig, and its output as data.

use std::fmt;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::Command;

use crate::netns;
use crate::program::Said;

/// dig (or kdig), set up for a server.
#[derive(Clone)]
pub struct Dig {
    server: SocketAddr,
    source: Option<IpAddr>,
    namespace: Option<String>,
}

impl Dig {
    /// For the server at this socket.
    #[must_use]
    pub fn new(server: SocketAddr) -> Self {
        Self { server, source: None, namespace: None }
    }

    /// Runs in this namespace.
    #[must_use]
    pub fn within(self, namespace: Option<&str>) -> Self {
        Self { namespace: namespace.map(str::to_owned), ..self }
    }

    /// Asks from this address.
    #[must_use]
    pub fn from(self, source: IpAddr) -> Self {
        Self { source: Some(source), ..self }
    }

    /// Asks another server.
    #[must_use]
    pub fn at(self, server: SocketAddr) -> Self {
        Self { server, ..self }
    }

    /// Asks: name, type and options as on dig's command line.
    ///
    /// # Panics
    /// When nothing answers.
    #[must_use]
    pub fn ask(&self, question: &str) -> Reply {
        self.try_ask(question).unwrap_or_else(|said| panic!("no answer to `{question}`:\n{said}"))
    }

    /// Asks; what dig said when nothing answers.
    pub fn try_ask(&self, question: &str) -> Result<Reply, String> {
        let said = Said::by(&mut self.command(question));
        Reply::parse(&said.stdout).ok_or_else(|| said.text())
    }

    /// Asks many questions from one process, in order.
    #[must_use]
    pub fn ask_all(&self, questions: &[String]) -> Vec<Reply> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        for question in questions {
            writeln!(file, "{} {question}", self.options().join(" ")).unwrap();
        }
        let mut command = netns::command(self.namespace.as_deref(), Path::new("dig"));
        let said = Said::by(command.arg("-r").arg("-f").arg(file.path()));
        let replies: Vec<_> = said.stdout.split(";; Got answer:").skip(1).filter_map(Reply::parse).collect();
        assert_eq!(replies.len(), questions.len(), "dig answers some questions only:\n{}", said.text());
        replies
    }

    /// Asks with kdig in place of dig; its output as it is.
    #[must_use]
    pub fn kdig(&self, question: &str) -> String {
        let mut command = netns::command(self.namespace.as_deref(), Path::new("kdig"));
        command.args([format!("@{}", self.server.ip()), "-p".into(), self.server.port().to_string()]);
        Said::by(command.args(["+timeout=5", "+retry=0"]).args(question.split_whitespace())).text()
    }

    fn command(&self, question: &str) -> Command {
        let mut command = netns::command(self.namespace.as_deref(), Path::new("dig"));
        // the user's .digrc changes nothing
        command.arg("-r").args(self.options()).args(question.split_whitespace());
        command
    }

    fn options(&self) -> Vec<String> {
        let server = format!("@{}", self.server.ip());
        let mut options =
            vec![server, "-p".into(), self.server.port().to_string(), "+time=5".into(), "+tries=1".into()];
        if let Some(source) = self.source {
            options.extend(["-b".into(), source.to_string()]);
        }
        options
    }
}

/// A resource record as dig shows it, class IN left out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record {
    /// Owner.
    pub owner: String,
    /// TTL in seconds.
    pub ttl: u32,
    /// Type, with the class in front when it is not IN.
    pub rrtype: String,
    /// Data in presentation form, single blanks between fields.
    pub data: String,
}

impl Record {
    /// Reads `OWNER TTL [IN|CH] TYPE DATA`; a TTL of `*` is 0.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let owner = words.next()?.to_owned();
        let ttl = words.next()?;
        let ttl = if ttl == "*" { 0 } else { ttl.parse().ok()? };
        let mut rrtype = words.next()?.to_owned();
        if rrtype == "IN" {
            rrtype = words.next()?.to_owned();
        } else if rrtype == "CH" {
            rrtype = format!("CH {}", words.next()?);
        }
        Some(Self { owner, ttl, rrtype, data: words.collect::<Vec<_>>().join(" ") })
    }

    /// The same in lower case: names in owner and data compare without case.
    #[must_use]
    pub fn folded(&self) -> Self {
        Self { owner: self.owner.to_lowercase(), data: self.data.to_lowercase(), ..self.clone() }
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.owner, self.ttl, self.rrtype, self.data)
    }
}

/// A response as dig shows it.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// `NOERROR`, `NXDOMAIN`, …
    pub status: String,
    /// Opcode.
    pub opcode: String,
    /// `qr`, `aa`, `tc`, `rd`, …
    pub flags: Vec<String>,
    /// The OPT record's first line: `version: 0, flags:; udp: 1232`.
    pub edns: Option<String>,
    /// Client subnet: `192.0.2.0/24/24`.
    pub subnet: Option<String>,
    /// The question as sent back.
    pub question: String,
    /// Answer section.
    pub answer: Vec<Record>,
    /// Authority section.
    pub authority: Vec<Record>,
    /// Additional section, without OPT.
    pub additional: Vec<Record>,
    /// Server address that dig has got the answer from: `127.0.0.1#53(127.0.0.1) (UDP)`.
    pub server: String,
    /// Octets.
    pub size: usize,
    /// Everything dig printed.
    pub text: String,
}

impl Reply {
    /// Reads what dig prints for one question.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut reply = Self { text: text.to_owned(), ..Self::default() };
        let mut section = "";
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix(";; ->>HEADER<<- opcode: ") {
                // after TC dig asks anew by TCP and prints only the second answer
                let mut parts = rest.split(", ");
                reply.opcode = parts.next()?.to_owned();
                reply.status = parts.next()?.strip_prefix("status: ")?.to_owned();
            } else if let Some(rest) = line.strip_prefix(";; flags: ") {
                reply.flags = rest.split(';').next()?.split_whitespace().map(str::to_owned).collect();
            } else if let Some(rest) = line.strip_prefix("; EDNS: ") {
                reply.edns = Some(rest.to_owned());
            } else if let Some(rest) = line.strip_prefix("; CLIENT-SUBNET: ") {
                reply.subnet = Some(rest.to_owned());
            } else if let Some(rest) = line.strip_prefix(";; SERVER: ") {
                reply.server = rest.to_owned();
            } else if let Some(rest) = line.strip_prefix(";; MSG SIZE  rcvd: ") {
                reply.size = rest.trim().parse().ok()?;
            } else if let Some(rest) =
                line.strip_prefix(";; ").and_then(|rest| rest.strip_suffix(" SECTION:"))
            {
                section = match rest {
                    "QUESTION" => "question",
                    "ANSWER" => "answer",
                    "AUTHORITY" => "authority",
                    "ADDITIONAL" => "additional",
                    _ => "",
                };
            } else if section == "question" && line.starts_with(';') {
                reply.question =
                    line.trim_start_matches(';').split_whitespace().collect::<Vec<_>>().join(" ");
            } else if !line.is_empty() && !line.starts_with(';') {
                let record = Record::parse(line)?;
                match section {
                    "answer" => reply.answer.push(record),
                    "authority" => reply.authority.push(record),
                    "additional" => reply.additional.push(record),
                    _ => {}
                }
            }
        }
        (!reply.status.is_empty()).then_some(reply)
    }

    /// Whether a flag is set.
    #[must_use]
    pub fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|found| found == flag)
    }

    /// The data of the answer section, sorted.
    #[must_use]
    pub fn data(&self) -> Vec<String> {
        let mut data: Vec<_> = self.answer.iter().map(|record| record.data.clone()).collect();
        data.sort();
        data
    }

    /// The scope of the client subnet in the answer.
    #[must_use]
    pub fn scope(&self) -> Option<u8> {
        self.subnet.as_ref()?.rsplit('/').next()?.parse().ok()
    }
}
