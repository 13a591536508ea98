//! The routes and the client against each other, over real sockets.

use portolan_api::*;
use std::sync::Arc;

struct Fake;

impl Node for Fake {
    fn status(&self) -> Result<Status, ApiError> {
        panic!("a fault of the node")
    }
    fn services(&self, query: &ServicesQuery) -> Result<Vec<ServiceStatus>, ApiError> {
        Err(ApiError::not_found(format!("no service {:?}", query.name), "did you mean \"www\"?"))
    }
    fn checks(&self) -> Result<Vec<CheckStatus>, ApiError> {
        Ok(Vec::new())
    }
    fn explain(&self, query: &ExplainQuery) -> Result<Explained, ApiError> {
        Ok(Explained { name: query.name.clone(), client: query.from.to_string(), ..Explained::default() })
    }
    fn forced(&self) -> Result<Vec<ForcedEntry>, ApiError> {
        Ok(Vec::new())
    }
    fn force(&self, request: &ForceRequest) -> Result<ForceResult, ApiError> {
        Ok(ForceResult { members: vec![request.target.clone()], generation: 7, warnings: Vec::new() })
    }
    fn load(&self, report: &LoadReport) -> Result<LoadResult, ApiError> {
        assert_eq!(report.ttl_s, 60);
        Ok(LoadResult { members: vec![report.target.clone()] })
    }
    fn reload(&self) -> Result<ReloadResult, ApiError> {
        Err(ApiError::refused("the config was refused", Vec::new(), "error: x\n".into()))
    }
    fn lookup(&self, query: &LookupQuery) -> Result<TableLookup, ApiError> {
        Ok(TableLookup { address: query.address.to_string(), hits: Vec::new() })
    }
    fn peers(&self) -> Result<Option<PeersStatus>, ApiError> {
        Ok(None)
    }
    fn frames(&self, query: &FramesQuery) -> Result<tokio::sync::mpsc::Receiver<FrameSeen>, ApiError> {
        let (sender, receiver) = tokio::sync::mpsc::channel(4);
        for lost in 0..3 {
            let text = query.peer.clone().unwrap_or_default();
            let record = serde_json::json!({ "lost": lost });
            assert!(sender.try_send(FrameSeen { text, record, lost }).is_ok());
        }
        Ok(receiver)
    }
    fn proximity(&self, query: &ProximityQuery) -> Result<ProximityShown, ApiError> {
        let point =
            ProximityPoint { prefix: query.of.clone().unwrap_or_default(), ..ProximityPoint::default() };
        Ok(ProximityShown { points: vec![point], ..ProximityShown::default() })
    }
    fn proximity_export(&self) -> Result<Vec<ProximityPoint>, ApiError> {
        Ok(vec![ProximityPoint::default()])
    }
    fn proximity_set(&self, request: &StaticRequest) -> Result<StaticResult, ApiError> {
        Ok(StaticResult {
            prefix: request.prefix.clone(),
            point: request.site.clone(),
            rtt_us: request.rtt_us,
            before_us: None,
            warnings: Vec::new(),
        })
    }
    fn metrics(&self) -> Result<String, ApiError> {
        Ok("# EOF\n".into())
    }
}

fn node() -> Arc<dyn Node> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Arc::new(Fake)
}

#[tokio::test]
async fn the_client_reads_what_the_routes_say() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/api.sock");
    let server = serve::unix(&path, node()).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o660);
    let client = Client::new(Endpoint::Socket(path.clone())).unwrap();

    assert_eq!(client.version().await.unwrap().api, 1);
    assert_eq!(client.peers().await.unwrap(), None);
    let mut frames = client.frames(&FramesQuery { peer: Some("fra1".into()) }).await.unwrap();
    for lost in 0..3 {
        let frame = frames.next().await.unwrap().unwrap();
        assert_eq!((frame.text.as_str(), frame.lost, &frame.record["lost"]), ("fra1", lost, &lost.into()));
    }
    assert_eq!(frames.next().await.unwrap(), None);
    let query = ExplainQuery {
        name: "www.example.com.".into(),
        rrtype: "A".into(),
        from: "192.0.2.1".parse().unwrap(),
        ecs: Some("198.51.100.0/24".into()),
        entropy: Some(u64::MAX),
        turn: None,
    };
    assert_eq!(client.explain(&query).await.unwrap().client, "192.0.2.1");
    let request = ForceRequest {
        target: "site:beijing".into(),
        action: ForceAction::Drain,
        author: "ops".into(),
        reason: "maintenance".into(),
        ttl_s: Some(60),
    };
    assert_eq!(client.force(&request).await.unwrap().generation, 7);
    let report: LoadReport = LoadReport {
        target: "www".into(),
        share: Some(0.5),
        connections: None,
        bandwidth_bps: None,
        bandwidth_max_bps: None,
        response_us: None,
        ttl_s: 60,
    };
    assert_eq!(client.load(&report).await.unwrap().members, ["www"]);
    assert_eq!(client.metrics().await.unwrap(), "# EOF\n");
    let query = ProximityQuery { of: Some("36.110.0.0/16".into()), limit: None };
    assert_eq!(client.proximity(&query).await.unwrap().points[0].prefix, "36.110.0.0/16");
    assert_eq!(client.proximity_export().await.unwrap().len(), 1);
    let request = StaticRequest {
        prefix: "36.110.0.0/16".into(),
        site: "beijing".into(),
        link: None,
        rtt_us: Some(12_000),
        author: String::new(),
        reason: String::new(),
        ttl_s: None,
    };
    assert_eq!(client.proximity_set(&request).await.unwrap().rtt_us, Some(12_000));
    let lookup = client.lookup(&LookupQuery { address: "::1".parse().unwrap() }).await.unwrap();
    assert_eq!(lookup.address, "::1");

    // a second node on the same socket is refused, the first stays
    assert!(serve::unix(&path, node()).is_err());
    let refused = |result: ClientError| match result {
        ClientError::Refused(error) => *error,
        other @ (ClientError::Unreachable { .. } | ClientError::Strange { .. }) => panic!("{other}"),
    };
    let error = refused(client.reload().await.unwrap_err());
    assert_eq!((error.status, error.rendered.as_deref()), (422, Some("error: x\n")));
    let error = refused(client.services(&ServicesQuery { name: Some("w".into()) }).await.unwrap_err());
    assert_eq!((error.status, error.remedy.is_some()), (404, true));
    // a panic in the node is an answer, not the end
    assert_eq!(refused(client.status().await.unwrap_err()).status, 500);
    assert!(client.checks().await.unwrap().is_empty());

    drop(server);
    assert!(!path.exists());
    assert!(matches!(client.version().await, Err(ClientError::Unreachable { .. })));
}

#[tokio::test]
async fn a_stale_socket_is_replaced_and_a_file_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let stale = dir.path().join("stale.sock");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    assert!(serve::unix(&stale, node()).is_ok());
    let file = dir.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    assert!(serve::unix(&file, node()).is_err());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
}

#[tokio::test]
async fn tcp_wants_the_token() {
    let server = serve::tcp("127.0.0.1:0".parse().unwrap(), "secret", node()).unwrap();
    let url = format!("http://{}", server.address().unwrap());
    for (token, good) in [("secret", true), ("secreT", false), ("", false), ("secretsecret", false)] {
        let client = Client::new(Endpoint::Tcp { url: url.clone(), token: token.into() }).unwrap();
        assert_eq!(client.version().await.is_ok(), good, "{token:?}");
    }
}

#[test]
fn the_document_in_git_is_the_one_the_types_make() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
    let made = openapi::document();
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(path, &made).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        kept == made,
        "api/openapi.json is not what the types say: UPDATE_OPENAPI=1 cargo test -p portolan-api"
    );
}
