//! `check.*`: health checks. A new kind is a table here and a conversion in `compile::check`.

use std::net::IpAddr;
use std::path::PathBuf;

use portolan_dns::name::Name;
use serde_json::{Value as Json, json};
use toml::de::DeValue;

use crate::place::At;
use crate::read::{self, Int, Length, Many, Map, Reader, Value, table};

table! {
    /// Checks of a member, by kind.
    pub struct Checks {
        /// How many of a member's checks must pass.
        require: At<Require> = Require::All,
        /// An echo.
        icmp: Many<IcmpCheck>,
        /// A connection.
        tcp: Many<TcpCheck>,
        /// A request.
        http: Many<HttpCheck>,
        /// A request over TLS.
        https: Many<HttpsCheck>,
        /// A query.
        dns: Many<DnsCheck>,
        /// A program.
        command: Many<CommandCheck>,
    }
}

/// How many checks must pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Require {
    /// Every one.
    All,
    /// One.
    Any,
    /// So many.
    AtLeast(u8),
}

impl Value for Require {
    fn read(node: &read::Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        match node.get_ref() {
            DeValue::String(word) => match word.as_ref() {
                "all" => Some(Self::All),
                "any" => Some(Self::Any),
                word => read::unknown_word(node, word, &["all", "any"], reader),
            },
            DeValue::Integer(_) => {
                Int::<1, 255>::read(node, reader).map(|number| Self::AtLeast(number.get()))
            }
            _ => reader.wrong_type(node, "\"all\", \"any\" or a number"),
        }
    }
    fn schema() -> Json {
        json!({ "anyOf": [{ "type": "string", "enum": ["all", "any"] }, Int::<1, 255>::schema()] })
    }
    fn show(&self) -> Json {
        match self {
            Self::All => "all".into(),
            Self::Any => "any".into(),
            Self::AtLeast(number) => (*number).into(),
        }
    }
}

/// What every check has, whatever its kind.
#[derive(Clone, Debug)]
pub struct Common {
    /// Where the check stands.
    pub at: crate::place::Span,
    /// From one start to the next.
    pub interval: At<Length>,
    /// For the whole check.
    pub timeout: At<Length>,
    /// Good verdicts in a row that bring a member up.
    pub rise: Int<1, 1000>,
    /// Bad verdicts in a row that take it down.
    pub fall: Int<1, 1000>,
    /// Percent by which each interval varies.
    pub jitter: Int<0, 50>,
    /// How long a member must stay bad before it counts as down.
    pub failover_delay: At<Length>,
    /// How long it must stay good before it counts as up again.
    pub failback_delay: At<Length>,
    /// Checked in place of the member's address.
    pub address: Option<At<IpAddr>>,
    /// Local address to check from.
    pub source: Option<At<IpAddr>>,
}

/// Defines a kind of check: a table with the keys that every check has, and its own.
macro_rules! check {
    ($(#[doc = $doc:literal])+ pub struct $name:ident { $($own:tt)* }) => {
        table! {
            $(#[doc = $doc])+
            pub struct $name {
                /// From one start to the next.
                interval: At<Length> = Length::secs(5),
                /// For the whole check.
                timeout: At<Length> = Length::secs(3),
                /// Good verdicts in a row that bring a member up.
                rise: Int<1, 1000> = Int::new(2),
                /// Bad verdicts in a row that take it down.
                fall: Int<1, 1000> = Int::new(3),
                /// Percent by which each interval varies.
                jitter: Int<0, 50> = Int::new(10),
                /// How long a member must stay bad before it counts as down.
                failover_delay: At<Length> = Length::secs(0),
                /// How long it must stay good before it counts as up again.
                failback_delay: At<Length> = Length::secs(0),
                /// Checked in place of the member's address.
                address: Option<At<IpAddr>>,
                /// Local address to check from.
                source: Option<At<IpAddr>>,
                $($own)*
            }
        }

        impl $name {
            /// What every check has.
            pub fn common(&self) -> Common {
                Common {
                    at: self.at,
                    interval: self.interval,
                    timeout: self.timeout,
                    rise: self.rise,
                    fall: self.fall,
                    jitter: self.jitter,
                    failover_delay: self.failover_delay,
                    failback_delay: self.failback_delay,
                    address: self.address,
                    source: self.source,
                }
            }
        }
    };
}

check! {
    /// An echo.
    pub struct IcmpCheck {
        /// Octets of payload.
        size: At<Int<0, 65_507>> = Int::new(56),
    }
}

check! {
    /// A connection.
    pub struct TcpCheck {
        /// Port; without it the member's.
        port: Option<At<Int<1, 65535>>>,
        /// Sent once the connection is open.
        send: Option<At<String>>,
        /// Text that must come.
        expect: Option<At<String>>,
        /// Regular expression that what comes must match.
        expect_regex: Option<At<String>>,
    }
}

check! {
    /// A request.
    pub struct HttpCheck {
        /// Port; without it the member's, else 80.
        port: Option<At<Int<1, 65535>>>,
        /// Path and query.
        path: At<String> = "/",
        /// Method.
        method: At<String> = "GET",
        /// Host header.
        host: Option<At<String>>,
        /// More headers.
        headers: Map<String>,
        /// Good codes.
        expect: At<Codes> = Codes(vec!["200-299".to_owned()]),
        /// Text that must be in the body.
        body: Option<At<String>>,
        /// Regular expression that the body must match.
        body_regex: Option<At<String>>,
        /// Octets of the body that are read and searched.
        body_limit: Int<0, 16_777_216> = Int::new(65_536),
        /// Header in which the server reports its load.
        load_header: Option<At<String>>,
    }
}

check! {
    /// A request over TLS.
    pub struct HttpsCheck {
        /// Port; without it the member's, else 443.
        port: Option<At<Int<1, 65535>>>,
        /// Path and query.
        path: At<String> = "/",
        /// Method.
        method: At<String> = "GET",
        /// Host header.
        host: Option<At<String>>,
        /// More headers.
        headers: Map<String>,
        /// Good codes.
        expect: At<Codes> = Codes(vec!["200-299".to_owned()]),
        /// Text that must be in the body.
        body: Option<At<String>>,
        /// Regular expression that the body must match.
        body_regex: Option<At<String>>,
        /// Octets of the body that are read and searched.
        body_limit: Int<0, 16_777_216> = Int::new(65_536),
        /// Header in which the server reports its load.
        load_header: Option<At<String>>,
        /// Name for SNI and the certificate.
        server_name: Option<At<String>>,
        /// Whether the certificate must be valid for the name.
        verify: bool = true,
        /// Roots to trust in place of the machine's.
        ca_file: Option<At<PathBuf>>,
    }
}

check! {
    /// A query.
    pub struct DnsCheck {
        /// Port; without it the member's, else 53.
        port: Option<At<Int<1, 65535>>>,
        /// What is asked.
        name: At<Name> = Name::root(),
        /// Record type.
        rtype as "type": At<String> = "NS",
        /// Expected response code.
        rcode: At<String> = "NOERROR",
        /// Address that must be in the answer.
        answer: Option<At<IpAddr>>,
        /// Ask for recursion.
        recursion: bool = false,
        /// Ask over TCP.
        tcp: bool = false,
    }
}

check! {
    /// A program.
    pub struct CommandCheck {
        /// Given as PORTOLAN_PORT.
        port: Option<At<Int<1, 65535>>>,
        /// The program and its arguments.
        argv: At<Vec<String>>,
        /// More variables.
        env: Map<String>,
    }
}

/// Response codes that are good: `200`, `"200-299"`, or a list of these.
#[derive(Clone, Debug)]
pub struct Codes(pub Vec<String>);

impl Value for Codes {
    fn read(node: &read::Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let one = |node: &read::Node<'_>, reader: &mut Reader<'_>| match node.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            DeValue::Integer(_) => {
                Int::<100, 999>::read(node, reader).map(|code| code.get::<u16>().to_string())
            }
            _ => reader.wrong_type(node, "a code like 200 or \"200-299\""),
        };
        match node.get_ref() {
            DeValue::Array(items) => {
                let codes: Vec<_> = items.iter().map(|item| one(item, reader)).collect();
                codes.into_iter().collect::<Option<_>>().map(Self)
            }
            _ => one(node, reader).map(|code| Self(vec![code])),
        }
    }
    fn schema() -> Json {
        let one = json!({ "type": ["integer", "string"] });
        json!({ "anyOf": [one, { "type": "array", "items": one }] })
    }
    fn show(&self) -> Json {
        Many(self.0.clone()).show()
    }
}
