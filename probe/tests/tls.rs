//! HTTPS checks against real TLS servers with certificates good and bad.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use common::key;
use portolan_probe::{HttpDef, KindDef, Roots, Runner, RunnerSettings, TlsDef, Verdict, What, check_once};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::{ServerConfig, crypto::ring};
use rustls_pki_types::PrivateKeyDer;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

fn authority() -> Authority {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = params.self_signed(&key).unwrap().pem();
    Authority { issuer: Issuer::new(params, key), pem }
}

/// A server with a certificate for `names`; it answers with the name that the client asked for (SNI).
async fn serve(authority: &Authority, names: &[&str], expired: bool) -> SocketAddr {
    let key = KeyPair::generate().unwrap();
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    if expired {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
    }
    let certificate = params.signed_by(&key, &authority.issuer).unwrap();
    let settings = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(settings));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut buffer = [0; 4096];
            let _ = stream.read(&mut buffer).await;
            let asked = stream.get_ref().1.server_name().unwrap_or("none").to_owned();
            let _ = stream.write_all(format!("HTTP/1.1 200 {asked}\r\n\r\n").as_bytes()).await;
            // No close_notify, as many servers do.
        }
    });
    address
}

fn https(roots: &Path, server_name: Option<&str>, verify: bool) -> KindDef {
    let server_name = server_name.map(Into::into);
    let tls = TlsDef { server_name, verify, roots: Roots::File(roots.to_owned()) };
    KindDef::Http(HttpDef { tls: Some(tls), ..HttpDef::default() })
}

#[tokio::test]
async fn certificates() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| -> PathBuf {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let (ours, theirs) = (authority(), authority());
    let (our_roots, their_roots) = (file("ours.pem", &ours.pem), file("theirs.pem", &theirs.pem));
    let good = serve(&ours, &["www.example.com"], false).await;
    let expired = serve(&ours, &["www.example.com"], true).await;
    let by_address = serve(&ours, &["127.0.0.1"], false).await;
    let name = Some("www.example.com");

    let table = [
        ("good", good, https(&our_roots, name, true), Ok("200 www.example.com")),
        ("other authority", good, https(&their_roots, name, true), Err(What::Tls)),
        ("wrong name", good, https(&our_roots, Some("ftp.example.com"), true), Err(What::Tls)),
        ("address is not the name", good, https(&our_roots, None, true), Err(What::Tls)),
        ("expired", expired, https(&our_roots, name, true), Err(What::Tls)),
        ("expired, not verified", expired, https(&our_roots, name, false), Ok("200 www.example.com")),
        ("wrong name, not verified", good, https(&our_roots, Some("a.example"), false), Ok("200 a.example")),
        ("not verified needs no name", good, https(&our_roots, None, false), Ok("200 none")),
        ("certificate for an address", by_address, https(&our_roots, None, true), Ok("200 none")),
        ("no such file", good, https(Path::new("/nonexistent.pem"), name, true), Err(What::Local)),
        ("empty file", good, https(&file("empty.pem", ""), name, true), Err(What::Local)),
    ];
    for (case, address, kind, want) in table {
        let verdict = check_once(&key(kind, address)).await;
        let got = match &verdict {
            Verdict::Good { note, .. } => Ok(note.as_str()),
            Verdict::Bad(reason) => Err(reason.what),
        };
        assert_eq!(got, want, "{case}: {verdict:?}");
    }

    // The machine's own roots are used, and do not know ours; a machine without any says so.
    let KindDef::Http(mut def) = https(&our_roots, name, true) else { panic!() };
    def.tls = def.tls.map(|tls| TlsDef { roots: Roots::Machine, ..tls });
    let verdict = check_once(&key(KindDef::Http(def), good)).await;
    let wants = [What::Tls, What::Local];
    assert!(matches!(&verdict, Verdict::Bad(reason) if wants.contains(&reason.what)), "{verdict:?}");

    // The Host header gives the name when server_name does not.
    let KindDef::Http(mut def) = https(&our_roots, None, true) else { panic!() };
    def.host = Some("www.example.com:8443".into());
    assert!(check_once(&key(KindDef::Http(def), good)).await.is_good());
}

/// A renewed `ca_file` is noticed by a running check, without a reload.
#[tokio::test]
async fn a_changed_ca_file_is_read_anew() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("roots.pem");
    let (ours, theirs) = (authority(), authority());
    std::fs::write(&file, &theirs.pem).unwrap();
    let address = serve(&ours, &["www.example.com"], false).await;
    let host = portolan_probe::Host::Ip(address.ip());
    let kind = https(&file, Some("www.example.com"), true);
    let key = common::key_with(kind, host, address.port(), None, common::timing(20, 5000));
    let (runner, _events) = Runner::spawn(RunnerSettings::default());
    runner.apply([key]);
    common::eventually("it is refused", || runner.totals().bad >= 2).await;
    let new = folder.path().join("new.pem");
    std::fs::write(&new, &ours.pem).unwrap();
    std::fs::rename(new, &file).unwrap();
    common::eventually("it is accepted", || runner.totals().good >= 2).await;
}

#[tokio::test]
async fn plain_and_silent_servers() {
    let folder = tempfile::tempdir().unwrap();
    let roots = folder.path().join("roots.pem");
    std::fs::write(&roots, authority().pem).unwrap();
    let (plain, _) =
        common::serve("127.0.0.1:0", common::After::Close, |_| vec![b"HTTP/1.1 200 OK\r\n\r\n".to_vec()])
            .await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    for (address, wants) in [
        (plain, [What::Tls, What::Timeout]),
        (listener.local_addr().unwrap(), [What::Timeout, What::Timeout]),
    ] {
        let kind = https(&roots, Some("a.example"), true);
        let host = portolan_probe::Host::Ip(address.ip());
        let key = common::key_with(kind, host, address.port(), None, common::timing(1000, 200));
        let verdict = check_once(&key).await;
        assert!(matches!(&verdict, Verdict::Bad(reason) if wants.contains(&reason.what)), "{verdict:?}");
    }
}
