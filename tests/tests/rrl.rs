//! Response rate limiting under a flood of one network (dns.md 19).
#![allow(clippy::unwrap_used, reason = "a test")]

use std::net::{SocketAddr, UdpSocket};

use portolan_tests::netns::Namespace;
use portolan_tests::node::Node;
use portolan_tests::setup::Setup;
use portolan_tests::stream::Stream;
use portolan_tests::wire::{A, Message, PATIENCE, Response, option};

const SERVER: &str = "10.8.0.1:53";
const COOKIE: u16 = 10;
const CLIENT_COOKIE: [u8; 8] = [7; 8];

fn server() -> SocketAddr {
    SERVER.parse().unwrap()
}

fn start(namespace: &Namespace, rrl: &str) -> Node {
    namespace.interface("net", &["10.8.0.1/16", "10.8.1.1/16", "10.8.1.77/16", "10.8.2.1/16", "10.8.3.1/16"]);
    let mut setup = Setup::config(&format!(
        "version = 1\n[node]\nname = \"n1\"\nsite = \"here\"\n[dns]\nlisten = [\"{SERVER}\"]\n\
         zones = [\"@common@/choose.zone\"]\nrrl = {{ {rrl} }}\n[[site]]\nname = \"here\"\n"
    ));
    setup.listen(server()).within(namespace);
    setup.start()
}

struct Client {
    socket: UdpSocket,
    /// A good server cookie: never limited.
    cookie: Vec<u8>,
}

/// What a client has got.
#[derive(Debug, Default, PartialEq, Eq)]
struct Got {
    whole: usize,
    truncated: usize,
}

impl Client {
    /// Gets itself a cookie.
    fn at(address: &str) -> Self {
        let socket = UdpSocket::bind((address, 0)).unwrap();
        socket.connect(server()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut client = Self { socket, cookie: CLIENT_COOKIE.to_vec() };
        let query = client.with_cookie("ns1.choose.test.");
        client.socket.send(&query.bytes()).unwrap();
        let response = client.receive();
        let (_, cookie) = response.options.iter().find(|(code, _)| *code == COOKIE).unwrap();
        client.cookie.clone_from(cookie);
        client
    }

    fn with_cookie(&self, name: &str) -> Message {
        Message::query(name, A).edns(1232, &option(COOKIE, &self.cookie))
    }

    fn receive(&self) -> Response {
        let mut buffer = [0; 4096];
        let length = self.socket.recv(&mut buffer).expect("an answer with a good cookie always comes");
        Response::parse(&buffer[..length]).unwrap()
    }

    /// Asks so often; after each few a question with a cookie, whose answer says that the others have been dealt with.
    fn ask(&self, count: usize, query: impl Fn() -> Message) -> Got {
        let mut got = Got::default();
        for begin in (0..count).step_by(20) {
            let marker = self.with_cookie("ns1.choose.test.");
            for _ in begin..count.min(begin + 20) {
                let mut query = query();
                while query.id() == marker.id() {
                    query = Message::query("ns1.choose.test.", A);
                }
                self.socket.send(&query.bytes()).unwrap();
            }
            self.socket.send(&marker.bytes()).unwrap();
            loop {
                let response = self.receive();
                if response.id == marker.id() {
                    assert_eq!(response.addresses.len(), 1, "the marker is answered whole");
                    break;
                }
                if response.has(0x0200) { got.truncated += 1 } else { got.whole += 1 }
            }
        }
        got
    }
}

fn same_question() -> Message {
    Message::query("ns1.choose.test.", A)
}

#[test]
fn a_flood_from_one_network_is_limited_and_nobody_else() {
    let Some(namespace) = Namespace::new() else { return };
    let _node = start(&namespace, "rate = 10, slip = 2, exempt = [\"10.8.3.0/24\"]");
    namespace.inside(|| {
        // the cookies first: a flooded network gets none
        let clients = ["10.8.1.1", "10.8.1.77", "10.8.2.1", "10.8.3.1"].map(Client::at);
        let [flooder, neighbour, other, exempt] = &clients;
        let flood = flooder.ask(1_000, same_question);
        assert!(flood.whole >= 5 && flood.whole <= 150, "rate 10: {flood:?}");
        assert!(flood.truncated >= 300 && flood.truncated <= 510, "every second one slips: {flood:?}");

        // the same network has one budget
        let neighbour = neighbour.ask(20, same_question);
        assert!(neighbour.whole <= 15, "{neighbour:?}");
        // other networks are untouched
        let other = other.ask(5, same_question);
        assert_eq!(other, Got { whole: 5, truncated: 0 });
        let exempt = exempt.ask(500, same_question);
        assert_eq!(exempt, Got { whole: 500, truncated: 0 });

        // with a good cookie the flooded network gets all
        let all = flooder.ask(300, || flooder.with_cookie("ns1.choose.test."));
        assert_eq!(all, Got { whole: 300, truncated: 0 });
        // and over TCP
        let mut stream = Stream::connect(server());
        for _ in 0..100 {
            stream.send(&same_question().bytes());
            assert!(!Response::parse(&stream.message()).unwrap().has(0x0200));
        }
    });
}

/// Answers that say "no such name" have one budget, whatever the names: random subdomains do not get around it.
#[test]
fn random_names_share_a_budget() {
    let Some(namespace) = Namespace::new() else { return };
    let _node = start(&namespace, "rate = 10, slip = 0");
    namespace.inside(|| {
        let random = || Message::query(&format!("x{}.choose.test.", fastrand::u64(..)), A);
        let [flooder, neighbour] = ["10.8.1.1", "10.8.1.77"].map(Client::at);
        let flood = flooder.ask(500, random);
        assert!(flood.whole <= 100 && flood.truncated == 0, "{flood:?}");
        // a name with data is another class
        let data = neighbour.ask(5, same_question);
        assert_eq!(data, Got { whole: 5, truncated: 0 });
    });
}

/// A bad cookie is as good as none.
#[test]
fn a_forged_cookie_does_not_exempt() {
    let Some(namespace) = Namespace::new() else { return };
    let _node = start(&namespace, "rate = 10, slip = 0");
    namespace.inside(|| {
        let forged = || Message::query("ns1.choose.test.", A).edns(1232, &option(COOKIE, &[9; 24]));
        let flood = Client::at("10.8.1.1").ask(500, forged);
        assert!(flood.whole <= 100, "{flood:?}");
    });
}
