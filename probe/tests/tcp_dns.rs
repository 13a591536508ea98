//! TCP and DNS checks, source addresses and time limits against real sockets.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use common::{key, key_with, refusing, timing, until_bound};
use portolan_probe::{DnsDef, Host, KindDef, Match, TcpDef, Verdict, What, check_once};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, UdpSocket},
    time::timeout,
};

fn what(verdict: &Verdict) -> Option<What> {
    match verdict {
        Verdict::Good { .. } => None,
        Verdict::Bad(reason) => Some(reason.what),
    }
}

/// Greets with the client's address, then repeats what it is told, in upper case, octet by octet.
async fn parrot() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, from)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = stream.write_all(format!("hello {}\r\n", from.ip()).as_bytes()).await;
                let mut buffer = [0; 100];
                while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                    for byte in &buffer[..count] {
                        let _ = stream.write_all(&[byte.to_ascii_uppercase()]).await;
                    }
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn tcp() {
    let parrot = parrot().await;
    let (closed, _refusing) = refusing();
    let talk = |send: Option<&str>, expect: Option<&str>| {
        let expect = expect.map(|text| Match::Text(text.into()));
        KindDef::Tcp(TcpDef { send: send.map(|text| text.as_bytes().to_vec()), expect })
    };
    let table = [
        (talk(None, None), parrot, None, None),
        (talk(None, None), closed, None, Some(What::Connect)),
        (talk(None, Some("hello 127.0.0.1")), parrot, None, None),
        (talk(Some("ping\r\n"), Some("PING")), parrot, None, None),
        (talk(Some("ping\r\n"), Some("pong")), parrot, None, Some(What::Timeout)),
        // HC6
        (talk(None, Some("hello 127.0.0.7")), parrot, Some("127.0.0.7"), None),
        (talk(None, None), parrot, Some("192.0.2.254"), Some(What::Local)),
        (talk(None, None), parrot, Some("::1"), Some(What::Local)),
    ];
    for (kind, address, source, want) in table {
        let limit = if want == Some(What::Timeout) { 200 } else { 5000 };
        let source = source.map(|text| text.parse::<IpAddr>().unwrap());
        let key = key_with(kind, Host::Ip(address.ip()), address.port(), source, timing(1000, limit));
        let verdict = check_once(&key).await;
        assert_eq!(what(&verdict), want, "{key:?}: {verdict:?}");
    }
}

/// Answers over UDP and TCP with the code and the address that the first label says: `refused`, or `a192-0-2-7`.
/// Before each UDP answer comes a forged one.
async fn dns_server() -> SocketAddr {
    fn reply(query: &[u8]) -> Vec<u8> {
        let label = String::from_utf8_lossy(&query[13..13 + usize::from(query[12])]).into_owned();
        let mut reply = query.to_vec();
        reply[2] |= 0x80;
        if label == "refused" {
            reply[3] = 5;
        } else if let Ok(address) = label[1..].replace('-', ".").parse::<Ipv4Addr>() {
            reply[7] = 1;
            reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
            reply.extend(address.octets());
        }
        reply
    }
    let (udp, tcp) = until_bound(async || {
        let udp = UdpSocket::bind("127.0.0.1:0").await?;
        let tcp = TcpListener::bind(udp.local_addr()?).await?;
        Ok((udp, tcp))
    })
    .await;
    let address = udp.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = [0; 512];
        while let Ok((count, from)) = udp.recv_from(&mut buffer).await {
            if buffer[13] == b's' {
                continue; // silent
            }
            let mut forged = reply(&buffer[..count]);
            forged[0] ^= 0x55;
            forged[3] ^= 2;
            let _ = udp.send_to(&forged, from).await;
            let _ = udp.send_to(&reply(&buffer[..count]), from).await;
        }
    });
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = tcp.accept().await {
            let mut buffer = [0; 512];
            let count = stream.read(&mut buffer).await.unwrap_or(0);
            let answer = reply(&buffer[2..count]);
            let _ = stream.write_all(&(answer.len() as u16).to_be_bytes()).await;
            let _ = stream.write_all(&answer).await;
        }
    });
    address
}

#[tokio::test]
async fn dns() {
    let server = dns_server().await;
    // Connected to somebody else, a socket takes nothing from us: the kernel says that the port is closed.
    let elsewhere = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    elsewhere.connect("127.0.0.1:9").unwrap();
    let closed = elsewhere.local_addr().unwrap();
    let ask = |label: &str, rcode, answer: Option<&str>| DnsDef {
        name: format!("{label}.example.com"),
        rtype: 1,
        rcode,
        answer: answer.map(|text| text.parse().unwrap()),
        ..DnsDef::default()
    };
    let table = [
        (ask("a192-0-2-7", 0, Some("192.0.2.7")), server, None),
        (ask("a192-0-2-7", 0, Some("192.0.2.8")), server, Some(What::Mismatch)),
        (ask("a192-0-2-7", 0, None), server, None),
        (ask("refused", 0, None), server, Some(What::Mismatch)),
        (ask("refused", 5, None), server, None),
        (ask("silent", 0, None), server, Some(What::Timeout)),
        (ask("a192-0-2-7", 0, None), closed, Some(What::Connect)),
        (DnsDef { tcp: true, ..ask("a192-0-2-7", 0, Some("192.0.2.7")) }, server, None),
        (DnsDef { tcp: true, ..ask("refused", 0, None) }, server, Some(What::Mismatch)),
    ];
    for (def, address, want) in table {
        let limit = if want == Some(What::Timeout) { 200 } else { 5000 };
        let key =
            key_with(KindDef::Dns(def), Host::Ip(address.ip()), address.port(), None, timing(1000, limit));
        let verdict = check_once(&key).await;
        assert_eq!(what(&verdict), want, "{key:?}: {verdict:?}");
    }
}

/// link.md case 39: a name with four addresses, none of which answers; the timeout is for all of them together. The
/// name is in a hosts file that only the second process sees.
#[test]
fn the_timeout_covers_all_addresses_of_a_name() {
    let folder = tempfile::tempdir().unwrap();
    let hosts = folder.path().join("hosts");
    let lines: Vec<_> = (1..=4).map(|last| format!("127.0.3.{last} four.example")).collect();
    std::fs::write(&hosts, lines.join("\n") + "\n127.0.0.1 localhost\n").unwrap();
    let own = std::env::current_exe().unwrap();
    let script =
        "mount --bind \"$HOSTS\" /etc/hosts && exec \"$OWN\" --exact --ignored four_silent_addresses";
    let mut command = std::process::Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).env("HOSTS", hosts).env("OWN", own);
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("Operation not permitted") {
        return; // Not root: this test has nothing to say.
    }
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{errors}");
}

#[tokio::test]
#[ignore = "run by `the_timeout_covers_all_addresses_of_a_name` with a hosts file of its own"]
async fn four_silent_addresses() {
    if std::env::var_os("HOSTS").is_none() {
        return;
    }
    let listeners = until_bound(async || {
        let first = TcpListener::bind("127.0.3.1:0").await?;
        let port = first.local_addr()?.port();
        let mut listeners = vec![first];
        for last in 2..=4 {
            listeners.push(TcpListener::bind((Ipv4Addr::new(127, 0, 3, last), port)).await?);
        }
        Ok(listeners)
    })
    .await;
    let port = listeners[0].local_addr().unwrap().port();
    let kind = KindDef::Tcp(TcpDef { send: None, expect: Some(Match::Text("never".into())) });
    let key = key_with(kind, Host::Name("four.example".into()), port, None, timing(1000, 50));
    // The best of some runs: a busy machine may be late, the check itself must not be.
    let mut best = Duration::MAX;
    for _ in 0..10 {
        let started = Instant::now();
        let verdict = check_once(&key).await;
        best = best.min(started.elapsed());
        assert_eq!(what(&verdict), Some(What::Timeout), "{verdict:?}");
        // Each of the four had its share.
        for listener in &listeners {
            timeout(Duration::from_secs(5), listener.accept()).await.unwrap().unwrap();
        }
    }
    // The timer's grain is a millisecond.
    assert!(best >= Duration::from_millis(45) && best <= Duration::from_millis(53), "{best:?}");
}

#[tokio::test]
async fn one_good_address_of_a_name_is_enough() {
    // On ::1 nobody listens, or somebody silent; on 127.0.0.1 the parrot.
    let address = parrot().await;
    let _silent = TcpListener::bind(("::1", address.port())).await;
    let kind = KindDef::Tcp(TcpDef { send: None, expect: Some(Match::Text("hello".into())) });
    let by_name =
        key_with(kind.clone(), Host::Name("localhost".into()), address.port(), None, timing(1000, 1000));
    assert!(check_once(&by_name).await.is_good());
    assert!(check_once(&key(kind, address)).await.is_good());
}
