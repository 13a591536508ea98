//! The client of the API, over a unix socket or TCP.

use crate::types::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::PathBuf;
use std::time::Duration;

/// Loading big tables takes its time; everything else is quick.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(120);
const TIMEOUT: Duration = Duration::from_secs(10);
/// Who watches frames does so until he leaves.
const WATCHING: Duration = Duration::from_secs(365 * 86_400);
/// No line is longer: a frame as JSON, with its text.
const LINE_MAX: usize = 64 << 20;

/// Where a node's API is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A unix socket.
    Socket(PathBuf),
    /// `http://host:port`, with a bearer token.
    Tcp {
        /// The base, without a path.
        url: String,
        /// The token.
        token: String,
    },
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Socket(path) => write!(f, "{}", path.display()),
            Self::Tcp { url, .. } => f.write_str(url),
        }
    }
}

/// Why a request brought nothing.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody answers there.
    #[error("cannot reach a node at {endpoint}: {cause}")]
    Unreachable {
        /// Where it was tried.
        endpoint: String,
        /// The system's words.
        cause: String,
    },
    /// The node said no.
    #[error("{0}")]
    Refused(Box<ApiError>),
    /// The answer was not understood.
    #[error("the node at {endpoint} answered in another form (is it another version?): {cause}")]
    Strange {
        /// Who answered.
        endpoint: String,
        /// What was wrong with it.
        cause: String,
    },
}

/// A client of one node.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    endpoint: Endpoint,
}

impl Client {
    /// A client; nothing is sent yet.
    pub fn new(endpoint: Endpoint) -> Result<Self, ClientError> {
        let builder = reqwest::Client::builder().no_proxy().timeout(TIMEOUT);
        let builder = match &endpoint {
            Endpoint::Socket(path) => builder.unix_socket(path.clone()),
            Endpoint::Tcp { .. } => builder,
        };
        let http = builder.build().map_err(|error| unreachable(&endpoint, &error))?;
        Ok(Self { http, endpoint })
    }

    /// The program's version.
    pub async fn version(&self) -> Result<Version, ClientError> {
        self.get("/v1/version", &()).await
    }

    /// The node in one look.
    pub async fn status(&self) -> Result<Status, ClientError> {
        self.get("/v1/status", &()).await
    }

    /// The services whose name matches.
    pub async fn services(&self, query: &ServicesQuery) -> Result<Vec<ServiceStatus>, ClientError> {
        self.get("/v1/services", query).await
    }

    /// All checks.
    pub async fn checks(&self) -> Result<Vec<CheckStatus>, ClientError> {
        self.get("/v1/checks", &()).await
    }

    /// What would be answered, and why.
    pub async fn explain(&self, query: &ExplainQuery) -> Result<Explained, ClientError> {
        self.get("/v1/explain", query).await
    }

    /// All forced states.
    pub async fn forced(&self) -> Result<Vec<ForcedEntry>, ClientError> {
        self.get("/v1/force", &()).await
    }

    /// Forces the state of members.
    pub async fn force(&self, request: &ForceRequest) -> Result<ForceResult, ClientError> {
        self.post("/v1/force", request, TIMEOUT).await
    }

    /// Reports a load.
    pub async fn load(&self, report: &LoadReport) -> Result<LoadResult, ClientError> {
        self.post("/v1/load", report, TIMEOUT).await
    }

    /// Makes the node read its config again.
    pub async fn reload(&self) -> Result<ReloadResult, ClientError> {
        self.post("/v1/reload", &(), RELOAD_TIMEOUT).await
    }

    /// What the tables say of an address.
    pub async fn lookup(&self, query: &LookupQuery) -> Result<TableLookup, ClientError> {
        self.get("/v1/tables/lookup", query).await
    }

    /// The other nodes; none without `[peers]`.
    pub async fn peers(&self) -> Result<Option<PeersStatus>, ClientError> {
        self.get("/v1/peers", &()).await
    }

    /// The frames between the node and its peers from now on.
    pub async fn frames(&self, query: &FramesQuery) -> Result<Frames, ClientError> {
        let request = self.http.get(self.url("/v1/peers/frames")).query(query).timeout(WATCHING);
        let response = self.send(request).await?;
        Ok(Frames { response, endpoint: self.endpoint.clone(), held: Vec::new() })
    }

    /// What is known of clients' distances.
    pub async fn proximity(&self, query: &ProximityQuery) -> Result<ProximityShown, ClientError> {
        self.get("/v1/proximity", query).await
    }

    /// All of it.
    pub async fn proximity_export(&self) -> Result<Vec<ProximityPoint>, ClientError> {
        self.get("/v1/proximity/export", &()).await
    }

    /// Writes a round-trip time, or takes it away.
    pub async fn proximity_set(&self, request: &StaticRequest) -> Result<StaticResult, ClientError> {
        self.post("/v1/proximity/static", request, TIMEOUT).await
    }

    /// The metrics text.
    pub async fn metrics(&self) -> Result<String, ClientError> {
        let response = self.send(self.http.get(self.url("/metrics"))).await?;
        response.text().await.map_err(|error| strange(&self.endpoint, &error))
    }

    async fn get<T: DeserializeOwned>(&self, path: &str, query: &impl Serialize) -> Result<T, ClientError> {
        self.read(self.http.get(self.url(path)).query(query)).await
    }

    async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        timeout: Duration,
    ) -> Result<T, ClientError> {
        self.read(self.http.post(self.url(path)).timeout(timeout).json(body)).await
    }

    async fn read<T: DeserializeOwned>(&self, request: reqwest::RequestBuilder) -> Result<T, ClientError> {
        self.send(request).await?.json().await.map_err(|error| strange(&self.endpoint, &error))
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<reqwest::Response, ClientError> {
        let request = match &self.endpoint {
            Endpoint::Socket(_) => request,
            Endpoint::Tcp { token, .. } => request.bearer_auth(token),
        };
        let response = request.send().await.map_err(|error| unreachable(&self.endpoint, &error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let error = response.json::<ApiError>().await.map_err(|error| strange(&self.endpoint, &error))?;
        Err(ClientError::Refused(Box::new(error)))
    }

    fn url(&self, path: &str) -> String {
        match &self.endpoint {
            // the host is only a word here: the connection goes to the socket
            Endpoint::Socket(_) => format!("http://portolan{path}"),
            Endpoint::Tcp { url, .. } => format!("{}{path}", url.trim_end_matches('/')),
        }
    }
}

/// Frames as they come.
#[derive(Debug)]
pub struct Frames {
    response: reqwest::Response,
    endpoint: Endpoint,
    held: Vec<u8>,
}

impl Frames {
    /// The next frame; none when the node has ended.
    pub async fn next(&mut self) -> Result<Option<FrameSeen>, ClientError> {
        let strange = |cause: String| ClientError::Strange { endpoint: self.endpoint.to_string(), cause };
        loop {
            if let Some(end) = self.held.iter().position(|octet| *octet == b'\n') {
                let line: Vec<u8> = self.held.drain(..=end).collect();
                return serde_json::from_slice(&line).map(Some).map_err(|error| strange(error.to_string()));
            }
            if self.held.len() > LINE_MAX {
                return Err(strange("a line without an end".into()));
            }
            match self.response.chunk().await {
                Ok(Some(chunk)) => self.held.extend_from_slice(&chunk),
                // a node that ends closes its connections as it is
                Ok(None) | Err(_) => return Ok(None),
            }
        }
    }
}

fn unreachable(endpoint: &Endpoint, error: &reqwest::Error) -> ClientError {
    ClientError::Unreachable { endpoint: endpoint.to_string(), cause: innermost(error) }
}

fn strange(endpoint: &Endpoint, error: &reqwest::Error) -> ClientError {
    ClientError::Strange { endpoint: endpoint.to_string(), cause: innermost(error) }
}

/// The cause at the bottom: "connection refused" instead of "error sending request".
fn innermost(error: &dyn std::error::Error) -> String {
    let mut at = error;
    while let Some(source) = at.source() {
        at = source;
    }
    at.to_string()
}
