//! Real echoes on loopback (link.md cases 34, 35, 37, 38).
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use std::{net::IpAddr, os::unix::process::CommandExt, process::Command, time::Duration};

use common::{eventually, key_with, timing};
use portolan_probe::{CheckKey, Host, IcmpDef, KindDef, Runner, RunnerSettings, Verdict, What, check_once};

fn echo(address: &str, source: Option<&str>, interval_ms: u64) -> CheckKey {
    let source = source.map(|text| text.parse::<IpAddr>().unwrap());
    let kind = KindDef::Icmp(IcmpDef::default());
    key_with(kind, Host::Ip(address.parse().unwrap()), 0, source, timing(interval_ms, 3000))
}

/// Raw sockets and namespaces need root; without it these tests have nothing to say.
fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

#[tokio::test]
async fn both_families_and_sources() {
    if !is_root() {
        return;
    }
    let table = [
        ("127.0.0.1", None, None),
        ("::1", None, None),
        ("127.0.0.1", Some("127.0.0.9"), None),
        // HC6: nothing is sent from an address that is not ours, or of the other family.
        ("127.0.0.1", Some("192.0.2.254"), Some(What::Local)),
        ("::1", Some("2001:db8::1"), Some(What::Local)),
        ("127.0.0.1", Some("::1"), Some(What::Local)),
    ];
    for (address, source, want) in table {
        let verdict = check_once(&echo(address, source, 1000)).await;
        let got = match &verdict {
            Verdict::Good { .. } => None,
            Verdict::Bad(reason) => Some(reason.what),
        };
        assert_eq!(got, want, "{address} from {source:?}: {verdict:?}");
    }
}

/// Many checks share one socket; ending some of them, in the middle of a run or not, disturbs no other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removed_checks_do_not_disturb_the_others() {
    if !is_root() {
        return;
    }
    let all: Vec<_> = (1..=200).map(|last| echo(&format!("127.0.1.{last}"), None, 50)).collect();
    let (runner, mut events) = Runner::spawn(RunnerSettings::default());
    tokio::spawn(async move { while events.recv().await.is_some() {} });
    for round in 0..10 {
        runner.apply(all.iter().skip(round % 2 * 100).cloned());
        // No waiting for anything: the sets are to change in the middle of runs.
        tokio::time::sleep(Duration::from_millis(7)).await;
    }
    runner.apply(all[100..].iter().cloned());
    eventually("each has 5 more answers", || runner.snapshot().iter().all(|line| line.stats.good >= 5)).await;
    assert!(runner.snapshot().iter().all(|line| line.stats.bad == 0), "{:?}", runner.totals());
}

/// link.md case 32: a burst of echoes loses none in the socket.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_loses_no_answer() {
    if !is_root() {
        return;
    }
    let all: Vec<_> =
        (0..2000).map(|at| echo(&format!("127.1.{}.{}", at / 200, at % 200 + 1), None, 60_000)).collect();
    let (runner, mut events) = Runner::spawn(RunnerSettings { burst: 2000, ..RunnerSettings::default() });
    tokio::spawn(async move { while events.recv().await.is_some() {} });
    runner.apply(all);
    eventually("each has a verdict", || runner.totals().good + runner.totals().bad == 2000).await;
    assert_eq!(runner.totals().bad, 0);
}

/// Without privilege the verdict says what to do; with the sysctl open, echoes work without it.
#[test]
fn privilege() {
    if !is_root() {
        return;
    }
    let run_as_nobody = |prepare: &str, want: &str| {
        let own = std::env::current_exe().unwrap();
        let own = own.to_str().unwrap();
        // A copy that anyone can read: the folder of the build may be closed to others.
        let script = format!(
            "set -e; ip link set lo up; echo '{prepare}' > /proc/sys/net/ipv4/ping_group_range; \
             dir=$(mktemp -d); chmod 755 $dir; cp {own} $dir/test; \
             setpriv --reuid 65534 --regid 65534 --clear-groups $dir/test --exact --ignored as_nobody; \
             code=$?; rm -r $dir; exit $code"
        );
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", &script]).env("WANT", want).process_group(0);
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{want}: {text}");
    };
    run_as_nobody("1 0", "no right to send ICMP; give CAP_NET_RAW");
    run_as_nobody("0 2147483647", "answered in");
}

/// A router's "unreachable" is not an answer: behind the second namespace, which forwards, there is nothing.
#[test]
fn errors_of_routers_are_bad() {
    if !is_root() {
        return;
    }
    let own = std::env::current_exe().unwrap();
    // The router's namespace lives as long as its `sleep`; the link goes up when that has its own namespace.
    let script = r#"set -e; ip link set lo up
        unshare --net sleep 60 & router=$!; trap 'kill $router' EXIT
        while [ "$(readlink /proc/$router/ns/net)" = "$(readlink /proc/$$/ns/net)" ]; do :; done
        ip link add here type veth peer name there netns $router
        ip address add 10.77.0.1/24 dev here; ip -6 address add fd77::1/64 dev here nodad; ip link set here up
        nsenter --net=/proc/$router/ns/net sh -c '
            ip address add 10.77.0.2/24 dev there; ip -6 address add fd77::2/64 dev there nodad
            ip link set there up
            echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding
            ip route add unreachable 10.78.0.0/24; ip -6 route add unreachable fd78::/64'
        ip route add 10.78.0.0/24 via 10.77.0.2; ip -6 route add fd78::/64 via fd77::2
        "$OWN" --exact --ignored behind_a_router"#;
    let output = Command::new("unshare")
        .args(["--net", "bash", "-c", script])
        .env("OWN", own)
        .env("WANT", "ICMP error type")
        .output()
        .unwrap();
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "{text}{errors}");
}

#[tokio::test]
#[ignore = "run by `errors_of_routers_are_bad` in a namespace with a router"]
async fn behind_a_router() {
    let Ok(want) = std::env::var("WANT") else { return };
    for (address, good) in [("10.77.0.2", true), ("10.78.0.1", false), ("fd77::2", true), ("fd78::1", false)]
    {
        let verdict = check_once(&echo(address, None, 1000)).await;
        assert_eq!(verdict.is_good(), good, "{address}: {verdict:?}");
        if let Verdict::Bad(reason) = verdict {
            assert!(reason.detail.contains(&want), "{address}: {reason}");
        }
    }
}

#[tokio::test]
#[ignore = "run by `privilege` as another user"]
async fn as_nobody() {
    let Ok(want) = std::env::var("WANT") else { return };
    for address in ["127.0.0.1", "::1"] {
        let text = match check_once(&echo(address, None, 1000)).await {
            Verdict::Good { note, .. } => note,
            Verdict::Bad(reason) => reason.detail,
        };
        assert!(text.starts_with(&want), "{address}: {text}");
    }
}
