//! Answers leave from the address that was asked (dns.md 17), on hosts with several, over both families.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::net::{IpAddr, SocketAddr, UdpSocket};

use portolan_tests::netns::Namespace;
use portolan_tests::node::Node;
use portolan_tests::setup::Setup;
use portolan_tests::wire::{A, Message, PATIENCE};

const SERVER: &[&str] = &["10.9.0.1/24", "10.9.0.2/24", "10.9.0.3/24", "fd09::1/64", "fd09::2/64"];
/// Addresses that are not on the interface through which the queries come.
const ELSEWHERE: &[&str] = &["10.99.0.1/32", "10.99.0.2/32", "fd99::1/128"];

fn start(namespace: &Namespace, listen: &str) -> Node {
    let mut setup = Setup::config(&format!(
        "version = 1\n[node]\nname = \"n1\"\nsite = \"here\"\n[dns]\nlisten = [{listen}]\n\
         zones = [\"@common@/choose.zone\"]\n[[site]]\nname = \"here\"\n\
         [[service]]\nname = \"www.choose.test.\"\nmembers = [{{ address = \"192.0.2.1\" }}]\n"
    ));
    setup.listen("10.9.0.1:53".parse().unwrap()).within(namespace);
    setup.start()
}

/// Sends from an unconnected socket, so that an answer from anywhere is seen; where it came from.
fn answered_from(client: Option<&str>, server: &str) -> IpAddr {
    let server: SocketAddr = SocketAddr::new(server.parse().unwrap(), 53);
    let any = if server.is_ipv4() { "0.0.0.0" } else { "::" };
    let socket = UdpSocket::bind((client.unwrap_or(any), 0)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.send_to(&Message::query("www.choose.test.", A).bytes(), server).unwrap();
    let (_, from) =
        socket.recv_from(&mut [0; 512]).unwrap_or_else(|error| panic!("{server} is silent: {error}"));
    assert_eq!(from.port(), 53);
    from.ip()
}

fn bare(prefix: &str) -> &str {
    prefix.split('/').next().unwrap()
}

#[test]
fn within_one_host() {
    let Some(namespace) = Namespace::new() else { return };
    namespace.interface("net", SERVER);
    for listen in [
        "\"0.0.0.0:53\", \"[::]:53\"",
        "\"10.9.0.1:53\", \"10.9.0.2:53\", \"10.9.0.3:53\", \"[fd09::1]:53\", \"[fd09::2]:53\"",
    ] {
        let node = start(&namespace, listen);
        let addresses = || SERVER.iter().map(|prefix| bare(prefix));
        for server in addresses() {
            for client in addresses().filter(|client| client.contains(':') == server.contains(':')) {
                let from = namespace.inside(|| answered_from(Some(client), server));
                assert_eq!(from, server.parse::<IpAddr>().unwrap(), "{client} -> {server}");
            }
            // dig takes an answer only from the address it asked; TCP has no choice
            let at = SocketAddr::new(server.parse().unwrap(), 53);
            for transport in ["+notcp", "+tcp"] {
                let reply = node.digger().at(at).ask(&format!("www.choose.test. A {transport}"));
                assert_eq!(reply.data(), ["192.0.2.1"]);
            }
        }
    }
}

/// Over a wire, to addresses on the server's loopback as with a service address announced by a routing protocol.
#[test]
fn over_a_wire() {
    let (Some(server), Some(client)) = (Namespace::new(), Namespace::new()) else { return };
    server.wire("net", &client, "net");
    for prefix in SERVER {
        server.address("net", prefix);
    }
    for prefix in ELSEWHERE {
        server.address("lo", prefix);
    }
    client.address("net", "10.9.0.200/24");
    client.address("net", "fd09::200/64");
    client.ip("route add 10.99.0.0/24 via 10.9.0.1");
    client.ip("route add fd99::/64 via fd09::1");
    let _node = start(&server, "\"0.0.0.0:53\", \"[::]:53\"");
    for asked in SERVER.iter().chain(ELSEWHERE).map(|prefix| bare(prefix)) {
        let from = client.inside(|| answered_from(None, asked));
        assert_eq!(from, asked.parse::<IpAddr>().unwrap());
    }
}
