//! HTTP checks against real servers with real oddities (dns.md case 25, gslb.md case H11).
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{After, key, key_with, refusing, serve, timing};
use portolan_probe::{Codes, Host, HttpDef, KindDef, Match, Pattern, Verdict, What, check_once};

fn http(edit: impl FnOnce(&mut HttpDef)) -> HttpDef {
    let mut def = HttpDef::default();
    edit(&mut def);
    def
}

fn expect(items: &[&str]) -> HttpDef {
    http(|def| def.expect = Codes::parse(items.iter().copied()).unwrap())
}

fn body(text: &str) -> HttpDef {
    http(|def| def.body = Some(Match::Text(text.into())))
}

fn regex(text: &str) -> HttpDef {
    http(|def| def.body = Some(Match::Regex(Pattern::new("body_regex", text).unwrap())))
}

#[tokio::test]
async fn oddities() {
    const CHUNKED: &[&str] = &[
        "HTTP/1.1 200 OK\r\nTransfer-",
        "Encoding: chunked\r\n\r",
        "\n4\r",
        "\nall \r\n4\r\nwell\r",
        "\n0\r\n\r\n",
    ];
    const SPLIT: &[&str] = &["HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nal", "l w", "ell"];
    const REDIRECT: &[&str] = &["HTTP/1.1 302 Found\r\nLocation: http://elsewhere.example/\r\n\r\n"];
    use After::{Close, Reset, Stay};
    // name, definition, the answer's pieces, what the server does then, what is wrong
    type Row = (&'static str, HttpDef, &'static [&'static str], After, Option<What>);
    let table: Vec<Row> = vec![
        ("204", expect(&["200", "204"]), &["HTTP/1.1 204 No Content\r\n\r\n"], Stay, None),
        ("redirect is not followed", http(|_| ()), REDIRECT, Close, Some(What::Mismatch)),
        ("redirect wanted", expect(&["300-399"]), REDIRECT, Close, None),
        ("chunked body match", body("all well"), CHUNKED, Stay, None),
        ("chunked body regex", regex("^all w.ll$"), CHUNKED, Stay, None),
        ("body split over packets", body("all well"), SPLIT, Stay, None),
        ("regex over split body", regex("^all well$"), SPLIT, Stay, None),
        ("body does not match", body("ill"), SPLIT, Stay, Some(What::Mismatch)),
        ("HTTP/1.0", body("old"), &["HTTP/1.0 200 OK\n\n", "so old"], Close, None),
        (
            "no length, server never closes",
            body("here"),
            &["HTTP/1.1 200 OK\r\n\r\n", "I am here"],
            Stay,
            None,
        ),
        ("server never closes, code decides", http(|_| ()), &["HTTP/1.1 200 OK\r\n\r\n"], Stay, None),
        ("never an end of the head", http(|_| ()), &["HTTP/1.1 200 OK\r\n"], Stay, Some(What::Timeout)),
        ("never an answer", http(|_| ()), &[], Stay, Some(What::Timeout)),
        ("closed without an answer", http(|_| ()), &[], Close, Some(What::Closed)),
        ("reset without an answer", http(|_| ()), &[], Reset, Some(What::Closed)),
        (
            "body cut short",
            body("x"),
            &["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab"],
            Close,
            Some(What::Closed),
        ),
        ("not HTTP", http(|_| ()), &["220 mail.example ESMTP\r\n"], Stay, Some(What::Protocol)),
        ("500", http(|_| ()), &["HTTP/1.1 500 Oops\r\n\r\n"], Close, Some(What::Mismatch)),
    ];
    for (name, def, pieces, after, want) in table {
        let pieces: Vec<_> = pieces.iter().map(|piece| piece.as_bytes().to_vec()).collect();
        let (address, _) = serve("127.0.0.1:0", after, move |_| pieces.clone()).await;
        let limit = if want == Some(What::Timeout) { 100 } else { 5000 };
        let key =
            key_with(KindDef::Http(def), Host::Ip(address.ip()), address.port(), None, timing(1000, limit));
        let verdict = check_once(&key).await;
        let got = match &verdict {
            Verdict::Good { .. } => None,
            Verdict::Bad(reason) => Some(reason.what),
        };
        assert_eq!(got, want, "{name}: {verdict:?}");
    }
}

/// A server that wants the right Host, a User-Agent and a key, and answers with its load.
#[tokio::test]
async fn demanding_server() {
    let (address, _) = serve("[::1]:0", After::Close, |request| {
        let has = |line: &str| request.contains(&format!("\r\n{line}"));
        let ok =
            has("Host: www.example.com\r\n") && has("User-Agent: portolan-check/") && has("X-API-Key: k\r\n");
        let status = if ok { "200 OK" } else { "403 Forbidden" };
        vec![format!("HTTP/1.1 {status}\r\nX-Load: 0.25\r\n\r\n").into_bytes()]
    })
    .await;
    let full = http(|def| {
        def.host = Some("www.example.com".into());
        def.headers = vec![("X-API-Key".into(), "k".into())];
        def.load_header = Some("X-Load".into());
    });
    let verdict = check_once(&key(KindDef::Http(full.clone()), address)).await;
    assert_eq!(verdict, Verdict::Good { note: "200 OK".into(), load: Some(0.25) });

    let wrong_host = HttpDef { host: None, ..full.clone() };
    let no_key = HttpDef { headers: Vec::new(), ..full.clone() };
    let no_agent = HttpDef { headers: vec![("User-Agent".into(), "x".into())], ..full };
    for def in [wrong_host, no_key, no_agent] {
        let verdict = check_once(&key(KindDef::Http(def), address)).await;
        assert!(verdict.to_text().starts_with("mismatch: 403 Forbidden, expected 200"), "{verdict:?}");
    }
}

#[tokio::test]
async fn names_and_refusals() {
    let (address, _) =
        serve("127.0.0.1:0", After::Close, |_| vec![b"HTTP/1.1 200 OK\r\n\r\n".to_vec()]).await;
    let by_name = |name: &str, port| {
        key_with(KindDef::Http(HttpDef::default()), Host::Name(name.into()), port, None, timing(1000, 5000))
    };
    assert!(check_once(&by_name("localhost", address.port())).await.is_good());
    let verdict = check_once(&by_name("nowhere.invalid", 80)).await;
    assert!(matches!(&verdict, Verdict::Bad(reason) if reason.what == What::Resolve), "{verdict:?}");

    let (closed, _refusing) = refusing();
    let verdict = check_once(&key(KindDef::Http(HttpDef::default()), closed)).await;
    assert!(matches!(&verdict, Verdict::Bad(reason) if reason.what == What::Connect), "{verdict:?}");
}

trait Text {
    fn to_text(&self) -> String;
}

impl Text for Verdict {
    fn to_text(&self) -> String {
        match self {
            Self::Good { note, .. } => note.clone(),
            Self::Bad(reason) => reason.to_string(),
        }
    }
}
