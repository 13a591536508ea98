//! The node itself: `[node]`, `[api]`, `[metrics]`, `[log]`, `[[expect]]`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use ipnet::IpNet;
use portolan_dns::name::Name;
use serde_json::{Value as Json, json};
use toml::de::DeValue;

use crate::place::At;
use crate::read::{self, Int, Many, Reader, Value, table, words};

table! {
    /// This node.
    pub struct Node {
        /// Name of this node.
        name: At<String>,
        /// The site it stands at.
        site: At<String>,
        /// Folder of what is kept over a restart.
        state: Option<At<PathBuf>>,
        /// Choices remembered at once for all services with `persist.kind = "table"`.
        persist_entries: At<Int<64, 16_777_216>> = Int::new(1_048_576),
        /// Threads that answer UDP.
        threads: Option<At<Int<1, 256>>>,
    }
}

table! {
    /// The control API.
    pub struct Api {
        /// Path of a unix socket, or a TCP socket.
        listen: At<Many<At<Listen>>>,
        /// File with the token of TCP clients.
        token_file: Option<At<PathBuf>>,
    }
}

/// Where the API listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A unix socket.
    Unix(PathBuf),
    /// A TCP socket.
    Tcp(SocketAddr),
}

impl Value for Listen {
    fn read(node: &read::Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let text = read::text(node, "a path or an address with a port", reader)?;
        if let Ok(socket) = text.parse() {
            return Some(Self::Tcp(socket));
        }
        if !text.contains('/') || text.contains('\0') {
            let help = "give a path with a /, like \"/run/portolan/portolan.sock\", or an address like \"127.0.0.1:8053\"";
            return reader.bad_value(
                node,
                format!("{text:?} is neither a path nor an address with a port"),
                help,
            );
        }
        Some(Self::Unix(text.into()))
    }
    fn schema() -> Json {
        json!({ "type": "string" })
    }
    fn show(&self) -> Json {
        match self {
            Self::Unix(path) => path.to_string_lossy().into(),
            Self::Tcp(socket) => socket.to_string().into(),
        }
    }
}

table! {
    /// A listener for metrics only.
    pub struct Metrics {
        /// Sockets of a plain HTTP listener.
        listen: At<Many<At<SocketAddr>>>,
    }
}

words! {
    /// What is logged.
    pub enum LogLevel {
        /// What somebody must be woken for.
        Error = "error",
        /// What somebody must look at.
        Warn = "warn",
        /// Changes of state.
        Info = "info",
        /// For finding faults.
        Debug = "debug",
        /// Each packet.
        Trace = "trace",
    }
}

words! {
    /// Form of a line.
    pub enum LogFormat {
        /// For people.
        Text = "text",
        /// For programs.
        Json = "json",
    }
}

table! {
    /// Logs.
    pub struct Log {
        /// What is logged.
        level: LogLevel = LogLevel::Info,
        /// Form of a line.
        format: LogFormat = LogFormat::Text,
    }
}

table! {
    /// A test of the operator.
    pub struct Expect {
        /// Where the query comes from.
        client: At<IpAddr>,
        /// Client subnet in the query.
        ecs: Option<At<IpNet>>,
        /// What is asked.
        name: At<Name>,
        /// Record type.
        rtype as "type": At<String> = "A",
        /// Sites and links taken as down.
        down: Many<At<String>>,
        /// Data of the answer, or what there is in its place.
        answer: At<ExpectAnswer>,
    }
}

words! {
    /// An answer without data.
    pub enum ExpectWord {
        /// The name has no data of this type.
        NoData = "nodata",
        /// There is no such name.
        NxDomain = "nxdomain",
        /// A server failure.
        ServFail = "servfail",
        /// Refused.
        Refused = "refused",
    }
}

/// What is expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectAnswer {
    /// These data, in any order, as zone files write them.
    Data(Vec<String>),
    /// No data.
    Word(ExpectWord),
}

impl Value for ExpectAnswer {
    fn read(node: &read::Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        if let DeValue::String(text) = node.get_ref() {
            return Some(match ExpectWord::from_word(text) {
                Some(word) => Self::Word(word),
                None => Self::Data(vec![text.to_string()]),
            });
        }
        let data = Vec::<String>::read(node, reader)?;
        if data.is_empty() {
            return reader.bad_value(node, "the answer is empty", "write \"nodata\" for no data");
        }
        Some(Self::Data(data))
    }
    fn schema() -> Json {
        json!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" }, "minItems": 1 }] })
    }
    fn show(&self) -> Json {
        match self {
            Self::Data(data) => data.clone().into(),
            Self::Word(word) => word.show(),
        }
    }
}
