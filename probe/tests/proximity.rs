//! Real probes: on loopback, and in namespaces where hosts are deaf (link.md cases 32, 35, 37, 38; gslb.md case G14).
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

mod common;

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    os::unix::process::CommandExt,
    process::Command,
    time::{Duration, Instant},
};

use common::{eventually, until_bound};
use portolan_balance::proximity::{PointId, Sample, Source};
use portolan_probe::proximity::{
    AddressRules, AskedBy, Evidence, Lengths, Limits, Method, Policy, Prefixes, Prober, ProberSettings,
    Refusal, Sender, Wanted,
};
use tokio::{
    net::{TcpListener, UdpSocket},
    sync::mpsc::Receiver,
    time::timeout,
};

/// Raw sockets and namespaces need root; without it these tests have nothing to say.
fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

/// Every address by itself, the private ones and loopback, too.
fn policy(methods: &[Method]) -> Policy {
    let nets = [("127.0.0.0", 8), ("10.0.0.0", 8), ("::1", 128), ("fd00::", 8)];
    let also: Prefixes = nets.into_iter().map(|(net, length)| (net.parse().unwrap(), length)).collect();
    Policy {
        enabled: true,
        addresses: AddressRules { also, ..AddressRules::default() },
        lengths: Lengths { v4: 32, v6: 64 },
        methods: methods.to_vec(),
        senders: vec![Sender { point: PointId(0), v4: None, v6: None }],
        limits: Limits { timeout_ms: 400, gap_ms: 1, ..Limits::default() },
        ..Policy::default()
    }
}

fn wanted(policy: &Policy, address: IpAddr) -> Wanted {
    Wanted::by_query(address, None, Evidence::Cookie, policy.lengths).unwrap()
}

/// One round of an address: its samples, by point.
async fn measure(settings: ProberSettings, policy: Policy, address: &str) -> Vec<Sample> {
    let wanted = wanted(&policy, address.parse().unwrap());
    let points = policy.senders.len();
    let (prober, mut samples) = Prober::spawn(settings, policy);
    prober.wish(wanted).unwrap();
    take(&mut samples, points).await
}

async fn take(samples: &mut Receiver<Sample>, count: usize) -> Vec<Sample> {
    let mut found = Vec::new();
    while found.len() < count {
        let sample = timeout(Duration::from_secs(20), samples.recv()).await;
        found.push(sample.unwrap_or_else(|_| panic!("only {found:?}")).unwrap());
    }
    found.sort_unstable_by_key(|sample| sample.point);
    found
}

fn at_port(port: u16) -> ProberSettings {
    ProberSettings {
        port: Some(port),
        contact: "https://example.net/probes".into(),
        ..ProberSettings::default()
    }
}

/// A server that refuses every query, from the address it was asked at, and tells who asked.
async fn dns_server(address: &str) -> (u16, Receiver<(Vec<u8>, SocketAddr)>) {
    let socket = UdpSocket::bind((address, 0)).await.unwrap();
    let port = socket.local_addr().unwrap().port();
    let (sender, receiver) = tokio::sync::mpsc::channel(64);
    tokio::spawn(async move {
        let mut buffer = [0; 512];
        while let Ok((count, from)) = socket.recv_from(&mut buffer).await {
            let mut reply = buffer[..count].to_vec();
            reply[2] |= 0x80;
            reply[3] |= 5;
            // somebody else's answer first: it must not count
            let mut forged = reply.clone();
            forged[0] ^= 0xff;
            let _ = socket.send_to(&forged, from).await;
            let _ = socket.send_to(&reply, from).await;
            let _ = sender.try_send((buffer[..count].to_vec(), from));
        }
    });
    (port, receiver)
}

#[tokio::test]
async fn echoes() {
    if !is_root() {
        return;
    }
    for (address, hops) in [("127.3.2.1", Some(0)), ("::1", None)] {
        let found = measure(at_port(9), policy(&[Method::Icmp]), address).await;
        let [Sample { prefix, rtt_us: Some(rtt_us), source: Source::Icmp, .. }] = found[..] else {
            panic!("{address}: {found:?}")
        };
        assert_eq!(prefix, Lengths { v4: 32, v6: 64 }.prefix_of(address.parse().unwrap()));
        assert!(rtt_us < 400_000, "{address}: {rtt_us}");
        assert_eq!(found[0].hops, hops, "{address}");
    }
}

/// Each point sends from its own address; one without an address of the family stays out.
#[tokio::test]
async fn queries_from_every_point() {
    let (port, mut asked) = dns_server("127.0.0.1").await;
    let sender =
        |id, v4: Option<[u8; 4]>| Sender { point: PointId(id), v4: v4.map(Ipv4Addr::from), v6: None };
    let mut policy = policy(&[Method::Dns]);
    policy.senders = vec![sender(4, Some([127, 0, 0, 41])), sender(7, Some([127, 0, 0, 71]))];
    let found = measure(at_port(port), policy.clone(), "127.0.0.1").await;
    for (sample, point) in found.iter().zip([4, 7]) {
        assert_eq!((sample.point, sample.source), (PointId(point), Source::DnsProbe));
        assert!(sample.rtt_us.is_some(), "{found:?}");
    }
    let mut sources = Vec::new();
    while let Ok((query, from)) = asked.try_recv() {
        // ". NS IN", no recursion wanted
        assert_eq!(query[2..], [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1]);
        sources.push(from.ip().to_string());
    }
    assert_eq!(sources, [["127.0.0.41"; 3], ["127.0.0.71"; 3]].concat());

    let (prober, _samples) = Prober::spawn(at_port(port), policy.clone());
    assert_eq!(prober.wish(wanted(&policy, "::1".parse().unwrap())), Err(Refusal::NoPoint));
}

/// An open port and a closed one answer alike.
#[tokio::test]
async fn connections() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let open = listener.local_addr().unwrap().port();
    let (refusing, _socket) = common::refusing();
    for port in [open, refusing.port()] {
        let found = measure(at_port(port), policy(&[Method::Tcp]), "127.0.0.1").await;
        assert!(matches!(found[..], [Sample { rtt_us: Some(_), source: Source::TcpProbe, .. }]), "{found:?}");
    }
}

/// A closed UDP port says nothing of the way to the host, and the next method is tried at once.
#[tokio::test]
async fn from_method_to_method() {
    let listener = until_bound(async || {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        // nobody is on the UDP port of the same number
        UdpSocket::bind(listener.local_addr()?).await.map(|_| listener)
    });
    let listener = listener.await;
    let port = listener.local_addr().unwrap().port();
    let found = measure(at_port(port), policy(&[Method::Dns, Method::Tcp]), "127.0.0.1").await;
    assert!(matches!(found[..], [Sample { rtt_us: Some(_), source: Source::TcpProbe, .. }]), "{found:?}");
}

/// link.md case 32: 5,000 targets are paced, and none is lost in a socket.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_loses_no_answer() {
    if !is_root() {
        return;
    }
    const COUNT: usize = 5_000;
    let mut policy = policy(&[Method::Icmp]);
    policy.limits = Limits { per_s: 1_000, tries: 1, queue: COUNT, timeout_ms: 900, ..policy.limits };
    let settings = ProberSettings { samples: COUNT, ..at_port(9) };
    let (prober, mut samples) = Prober::spawn(settings, policy.clone());
    let began = Instant::now();
    for n in 0..COUNT {
        let address = IpAddr::from([127, 9, (n / 200) as u8, (n % 200) as u8 + 1]);
        prober.wish(wanted(&policy, address)).unwrap();
    }
    let found = take(&mut samples, COUNT).await;
    let took = began.elapsed();
    let mut times: Vec<u32> = found.iter().filter_map(|sample| sample.rtt_us).collect();
    times.sort_unstable();
    println!("{} of {COUNT} in {took:.1?}, median {} us", times.len(), times[times.len() / 2]);
    assert_eq!(times.len(), COUNT);
    assert!(took >= Duration::from_millis(4_900), "too fast: {took:?}");
    let counters = prober.counters();
    assert_eq!((counters.pace.sent, counters.pace.answered, counters.in_flight), (5_000, 5_000, 0));
}

/// Switched off in the middle, nothing more is sent; with the last handle everything ends (link.md case 35).
#[tokio::test]
async fn stops_when_told() {
    let (port, mut asked) = dns_server("127.0.0.1").await;
    let mut on = policy(&[Method::Dns]);
    on.limits.per_s = 1;
    let (prober, mut samples) = Prober::spawn(at_port(port), on.clone());
    for last in 1..=9 {
        prober.wish(wanted(&on, [127, 0, 0, last].into())).unwrap();
    }
    asked.recv().await.unwrap();
    prober.set_policy(Policy { enabled: false, ..on.clone() });
    assert_eq!(prober.wish(wanted(&on, [127, 0, 0, 10].into())), Err(Refusal::Off));
    eventually("the queue is empty", || prober.counters().waiting == 0).await;
    drop(prober);
    // the driver's end closes the channel
    while timeout(Duration::from_secs(20), samples.recv()).await.unwrap().is_some() {}
    assert!(samples.is_closed());
}

/// What an operator or a peer asks for is held to the same limits.
#[tokio::test]
async fn nobody_is_probed_twice() {
    let (port, _asked) = dns_server("127.0.0.1").await;
    let policy = policy(&[Method::Dns]);
    let (prober, mut samples) = Prober::spawn(at_port(port), policy.clone());
    let first = Wanted { asked_by: AskedBy::Operator, ..wanted(&policy, [127, 0, 0, 1].into()) };
    prober.wish(first).unwrap();
    take(&mut samples, 1).await;
    eventually("the round is over", || prober.counters().in_flight == 0).await;
    assert_eq!(prober.wish(first), Err(Refusal::TooSoon));
    let (standing, since, left) = prober.standing(&first.prefix).unwrap();
    assert_eq!(standing.silent_rounds, 0);
    assert!(since < Duration::from_secs(60) && left > Duration::from_secs(530), "{since:?} {left:?}");
}

/// Runs an ignored test of this file in a network of its own, after `script`.
fn in_a_namespace(script: &str, test: &str) {
    if !is_root() {
        return;
    }
    let script =
        format!("set -e; ip link set lo up\n{script}\n\"$OWN\" --exact --ignored --nocapture {test}");
    let output = Command::new("unshare")
        .args(["--net", "bash", "-c", &script])
        .env("OWN", std::env::current_exe().unwrap())
        .env("IN_NAMESPACE", "yes")
        .process_group(0)
        .output()
        .unwrap();
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "{text}{errors}");
    print!("{text}");
}

fn is_in_a_namespace() -> bool {
    std::env::var_os("IN_NAMESPACE").is_some()
}

/// Where the net swallows everything, everything was tried, and the target is left alone for longer (case G14).
#[test]
fn silence() {
    // a wire to nobody, who is said to be known
    let script = "ip link add hole type veth peer name end; ip link set hole up; ip link set end up
        ip address add 10.79.0.1/24 dev hole
        ip neighbour add 10.79.0.2 lladdr 02:00:00:00:00:02 nud permanent dev hole";
    in_a_namespace(script, "in_silence");
}

#[tokio::test]
#[ignore = "run by `silence` in a namespace"]
async fn in_silence() {
    if !is_in_a_namespace() {
        return;
    }
    let mut policy = policy(&[]);
    policy.limits = Limits { timeout_ms: 20, interval_ms: 200, silent_rounds: 2, ..policy.limits };
    let (prober, mut samples) = Prober::spawn(at_port(53), policy.clone());
    let target = wanted(&policy, [10, 79, 0, 2].into());
    for round in 1..=3_u32 {
        eventually("it is time", || prober.wish(target).is_ok()).await;
        let found = take(&mut samples, 1).await;
        assert!(matches!(found[..], [Sample { rtt_us: None, hops: None, .. }]), "{found:?}");
        assert_eq!(prober.counters().pace.sent, u64::from(9 * round), "three by each method");
        eventually("the round is over", || prober.counters().in_flight == 0).await;
        let (standing, ..) = prober.standing(&target.prefix).unwrap();
        let wait_ms = standing.free_ms - standing.began_ms;
        assert_eq!((standing.silent_rounds, wait_ms), (round, [200, 400, 800][round as usize - 1]));
    }
}

/// A host that is deaf for echoes, and one that has only TCP; then IPv6 and hops over a wire (link.md case 38).
#[test]
fn deaf_hosts() {
    let script = r#"
        unshare --net sleep 60 & host=$!; trap 'kill $host' EXIT
        while [ "$(readlink /proc/$host/ns/net)" = "$(readlink /proc/$$/ns/net)" ]; do :; done
        ip link add here type veth peer name there netns $host
        ip address add 10.77.0.1/24 dev here; ip address add 10.77.0.7/24 dev here
        ip -6 address add fd77::1/64 dev here nodad; ip link set here up
        nsenter --net=/proc/$host/ns/net sh -c '
            ip link set lo up
            ip address add 10.77.0.2/24 dev there; ip -6 address add fd77::2/64 dev there nodad
            ip address add 10.78.0.1/32 dev lo
            ip link set there up'
        ip route add 10.78.0.0/24 via 10.77.0.2
        export HOST=$host"#;
    in_a_namespace(script, "over_a_wire");
}

#[tokio::test]
#[ignore = "run by `deaf_hosts` in a namespace"]
async fn over_a_wire() {
    if !is_in_a_namespace() {
        return;
    }
    let mut policy = policy(&[]);
    let sender = |id, v4: [u8; 4]| Sender { point: PointId(id), v4: Some(v4.into()), v6: None };
    policy.senders = vec![sender(1, [10, 77, 0, 1]), sender(2, [10, 77, 0, 7])];
    for address in ["10.77.0.2", "10.78.0.1"] {
        let found = measure(at_port(53), policy.clone(), address).await;
        for sample in &found {
            assert_eq!((sample.rtt_us.is_some(), sample.hops, sample.source), (true, Some(0), Source::Icmp));
        }
    }
    policy.senders = vec![Sender { point: PointId(1), v4: None, v6: Some("fd77::1".parse().unwrap()) }];
    let found = measure(at_port(53), policy.clone(), "fd77::2").await;
    assert!(matches!(found[..], [Sample { rtt_us: Some(_), source: Source::Icmp, .. }]), "{found:?}");

    // deaf for echoes: its closed TCP port still answers
    let host = std::env::var("HOST").unwrap();
    let deafen = "echo 1 > /proc/sys/net/ipv4/icmp_echo_ignore_all";
    let namespace = format!("--net=/proc/{host}/ns/net");
    let status = Command::new("nsenter").args([&namespace, "sh", "-c", deafen]).status().unwrap();
    assert!(status.success());
    policy.senders = vec![sender(1, [10, 77, 0, 1])];
    let found = measure(at_port(53), policy, "10.77.0.2").await;
    assert!(matches!(found[..], [Sample { rtt_us: Some(_), source: Source::TcpProbe, .. }]), "{found:?}");
}

/// link.md case 32 over a way of 20 ms: the burst must not make it look longer.
#[test]
fn a_long_way() {
    in_a_namespace("", "over_20_ms");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by `a_long_way` in a namespace"]
async fn over_20_ms() {
    if !is_in_a_namespace() {
        return;
    }
    const COUNT: usize = 5_000;
    const WAY: Duration = Duration::from_millis(20);
    let _far = tunnel::far_net("far0", WAY);
    for args in ["address add 10.80.0.1/32 dev far0", "link set far0 up", "route add 10.81.0.0/16 dev far0"] {
        assert!(Command::new("ip").args(args.split(' ')).status().unwrap().success());
    }
    let mut policy = policy(&[Method::Icmp]);
    policy.limits = Limits { per_s: 1_000, tries: 1, queue: COUNT, timeout_ms: 900, ..policy.limits };
    let settings = ProberSettings { samples: COUNT, ..at_port(9) };
    let (prober, mut samples) = Prober::spawn(settings, policy.clone());
    for n in 0..COUNT {
        prober.wish(wanted(&policy, [10, 81, (n / 200) as u8, (n % 200) as u8 + 1].into())).unwrap();
    }
    let found = take(&mut samples, COUNT).await;
    let mut times_us: Vec<u32> = found.iter().filter_map(|sample| sample.rtt_us).collect();
    times_us.sort_unstable();
    let at = |permille: usize| times_us[times_us.len() * permille / 1000];
    println!("{} of {COUNT}: {} {} {} us at 0, 50, 95 %", times_us.len(), at(0), at(500), at(950));
    assert_eq!(times_us.len(), COUNT);
    assert!(at(0) >= 20_000, "{}", at(0));
    assert!(at(500) < 22_000, "the median is off by more than 10 %: {}", at(500));
    // the answers came over one router, which took one from 64
    assert!(found.iter().all(|sample| sample.hops == Some(1)));
}

/// A network behind a wire of our own: it answers every echo, but late.
mod tunnel {
    #![allow(unsafe_code)] // one ioctl

    use std::{
        fs::File,
        io::{Read, Write},
        os::fd::AsRawFd,
        sync::mpsc::channel,
        time::{Duration, Instant},
    };

    /// Makes the interface; it is gone when this is dropped.
    pub(super) fn far_net(name: &str, way: Duration) -> File {
        let file = File::options().read(true).write(true).open("/dev/net/tun").unwrap();
        // struct ifreq: the name, then IFF_TUN | IFF_NO_PI
        let mut request = [0_u8; 40];
        request[..name.len()].copy_from_slice(name.as_bytes());
        request[16..18].copy_from_slice(&0x1001_u16.to_ne_bytes());
        // SAFETY: TUNSETIFF reads and writes one ifreq, of 40 octets, which lives through the call.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), 0x4004_54ca, request.as_mut_ptr()) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        let (mut reader, mut writer) = (file.try_clone().unwrap(), file.try_clone().unwrap());
        let (sender, receiver) = channel::<(Instant, Vec<u8>)>();
        std::thread::spawn(move || {
            let mut buffer = [0; 2048];
            while let Ok(count) = reader.read(&mut buffer) {
                let due = Instant::now() + way;
                if let Some(answer) = answer(&buffer[..count]) {
                    let _ = sender.send((due, answer));
                }
            }
        });
        std::thread::spawn(move || {
            for (due, answer) in receiver {
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                let _ = writer.write_all(&answer);
            }
        });
        file
    }

    /// The answer to an ICMP echo.
    fn answer(packet: &[u8]) -> Option<Vec<u8>> {
        if packet.len() < 28 || packet[0] != 0x45 || packet[9] != 1 || packet[20] != 8 {
            return None;
        }
        let mut answer = packet.to_vec();
        answer[12..16].copy_from_slice(&packet[16..20]);
        answer[16..20].copy_from_slice(&packet[12..16]);
        answer[8] = 63;
        answer[20] = 0;
        for (checksum, from, to) in [(10, 0, 20), (22, 20, packet.len())] {
            answer[checksum..checksum + 2].fill(0);
            let sum = answer[from..to].chunks(2).fold(0_u32, |sum, pair| {
                sum + (u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
            });
            let sum = (sum & 0xffff) + (sum >> 16);
            let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
            answer[checksum..checksum + 2].copy_from_slice(&sum.to_be_bytes());
        }
        Some(answer)
    }
}

/// link.md case 37: without the right to send echoes the other methods measure.
#[test]
fn privilege() {
    let script = r#"
        echo "$RANGE" > /proc/sys/net/ipv4/ping_group_range
        dir=$(mktemp -d); chmod 755 $dir; cp "$OWN" $dir/test; trap 'rm -r $dir' EXIT
        OWN=$dir/as_nobody; printf '#!/bin/sh\nexec setpriv --reuid 65534 --regid 65534 --clear-groups %s/test "$@"' $dir > $OWN
        chmod 755 $OWN"#;
    for (range, source) in [("1 0", "dns"), ("0 2147483647", "icmp")] {
        in_a_namespace(&format!("export SOURCE={source} RANGE='{range}'\n{script}"), "as_nobody");
    }
}

#[tokio::test]
#[ignore = "run by `privilege` as another user"]
async fn as_nobody() {
    let Ok(expected) = std::env::var("SOURCE") else { return };
    let (port, _asked) = dns_server("127.0.0.1").await;
    let found = measure(at_port(port), policy(&[]), "127.0.0.1").await;
    let expected = if expected == "dns" { Source::DnsProbe } else { Source::Icmp };
    assert_eq!(found[0].source, expected, "{found:?}");
    assert!(found[0].rtt_us.is_some());
}
