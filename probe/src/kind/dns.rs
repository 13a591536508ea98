//! DNS: one query, and the right code, and optionally the right address, in the answer.
//!
//! The few octets are written here by hand: this crate needs one query and a walk over the answer, not a DNS library.

use std::net::IpAddr;

use super::{Exchange, Step, Verdict, What};
use crate::def::DefError;

/// Options of `check.dns`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DnsDef {
    /// `name`: what is asked for.
    pub name: String,
    /// `type`: the record type's number; see [`type_number`].
    pub rtype: u16,
    /// `rcode`: the expected response code; see [`rcode_number`].
    pub rcode: u8,
    /// `answer`: an address that must be among the answer's A or AAAA records.
    pub answer: Option<IpAddr>,
    /// `recursion`: set RD, to check a resolver.
    pub recursion: bool,
    /// `tcp`: ask over TCP instead of UDP.
    pub tcp: bool,
}

impl Default for DnsDef {
    /// The root's NS set: every authoritative server answers it somehow, every resolver well.
    fn default() -> Self {
        Self { name: ".".into(), rtype: 2, rcode: 0, answer: None, recursion: false, tcp: false }
    }
}

/// The number of a record type by its name, or of the form `TYPE65`.
pub fn type_number(name: &str) -> Option<u16> {
    const NAMES: [(&str, u16); 18] = [
        ("A", 1),
        ("NS", 2),
        ("CNAME", 5),
        ("SOA", 6),
        ("PTR", 12),
        ("MX", 15),
        ("TXT", 16),
        ("AAAA", 28),
        ("SRV", 33),
        ("NAPTR", 35),
        ("DS", 43),
        ("DNSKEY", 48),
        ("TLSA", 52),
        ("SVCB", 64),
        ("HTTPS", 65),
        ("SPF", 99),
        ("ANY", 255),
        ("CAA", 257),
    ];
    let name = name.to_ascii_uppercase();
    NAMES
        .iter()
        .find_map(|(known, number)| (*known == name).then_some(*number))
        .or_else(|| name.strip_prefix("TYPE")?.parse().ok())
}

/// The number of a response code by its name.
pub fn rcode_number(name: &str) -> Option<u8> {
    RCODES.iter().position(|known| known.eq_ignore_ascii_case(name)).and_then(|at| u8::try_from(at).ok())
}

/// RFC 1035 4.1.1 and RFC 2136 2.2, in the order of their numbers.
const RCODES: [&str; 11] = [
    "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET",
    "NOTAUTH", "NOTZONE",
];

fn rcode_name(code: u8) -> String {
    RCODES.get(usize::from(code)).map_or_else(|| format!("RCODE{code}"), |name| (*name).to_owned())
}

impl DnsDef {
    pub(super) fn problems(&self, errors: &mut Vec<DefError>) {
        if let Err(problem) = encode_name(&self.name) {
            errors.push(DefError::new("name", format!("{:?} {problem}", self.name)));
        }
        if self.rcode > 15 {
            errors.push(DefError::new("rcode", format!("{} is more than 15", self.rcode)));
        }
        let family = match self.answer {
            None => return,
            Some(IpAddr::V4(_)) => (1, "A"),
            Some(IpAddr::V6(_)) => (28, "AAAA"),
        };
        if self.rtype != family.0 {
            errors.push(DefError::new("answer", format!("can only come with type = \"{}\"", family.1)));
        }
    }

    pub(super) fn exchange(&self, entropy: u64) -> Box<dyn Exchange> {
        let id = (entropy as u16).to_be_bytes();
        let mut question = encode_name(&self.name).unwrap_or_else(|_| vec![0]);
        question.extend_from_slice(&self.rtype.to_be_bytes());
        question.extend_from_slice(&[0, 1]); // class IN
        Box::new(Conversation { def: self.clone(), id, question, seen: Vec::new() })
    }
}

/// A name in wire form (RFC 1035 3.1).
fn encode_name(name: &str) -> Result<Vec<u8>, &'static str> {
    let mut wire = Vec::new();
    let labels = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() {
        return Err("is empty; the root is \".\"");
    }
    for label in labels.split('.').filter(|_| !labels.is_empty()) {
        if label.bytes().any(|byte| !byte.is_ascii_graphic() || byte == b'\\') {
            return Err("holds characters that no checked name needs; give plain ASCII labels");
        }
        match u8::try_from(label.len()) {
            Ok(length @ 1..=63) => wire.push(length),
            _ => return Err("has a label that is not 1 to 63 octets long"),
        }
        wire.extend_from_slice(label.as_bytes());
    }
    wire.push(0);
    if wire.len() > 255 { Err("is longer than 255 octets") } else { Ok(wire) }
}

struct Conversation {
    def: DnsDef,
    id: [u8; 2],
    question: Vec<u8>,
    /// On TCP, what has arrived of the answer and its length prefix.
    seen: Vec<u8>,
}

impl Exchange for Conversation {
    fn start(&mut self) -> Step {
        let mut query = self.id.to_vec();
        query.extend_from_slice(&[u8::from(self.def.recursion), 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        query.extend_from_slice(&self.question);
        if self.def.tcp {
            // RFC 1035 4.2.2. A query is shorter than 300 octets.
            let length = u16::try_from(query.len()).unwrap_or(u16::MAX);
            query.splice(..0, length.to_be_bytes());
        }
        Step::Send(query)
    }

    fn received(&mut self, bytes: &[u8]) -> Step {
        if !self.def.tcp {
            return self.judge(bytes).map_or(Step::More, Step::Done);
        }
        self.seen.extend_from_slice(bytes);
        let Some((prefix, rest)) = self.seen.split_first_chunk::<2>() else { return Step::More };
        let Some(message) = rest.get(..usize::from(u16::from_be_bytes(*prefix))) else { return Step::More };
        let other = || Verdict::bad(What::Protocol, "the answer belongs to another query");
        Step::Done(self.judge(message).unwrap_or_else(other))
    }

    fn closed(&mut self) -> Verdict {
        Verdict::bad(What::Closed, "closed before the answer was complete")
    }
}

impl Conversation {
    /// The verdict on one message; none when it is not the answer to our query, which on UDP may be forged or late.
    fn judge(&self, message: &[u8]) -> Option<Verdict> {
        let (header, rest) = message.split_first_chunk::<12>()?;
        let [id0, id1, flags0, flags1, qd0, qd1, an0, an1, ..] = *header;
        if [id0, id1] != self.id || flags0 & 0x80 == 0 {
            return None;
        }
        // RFC 9619: one question. A server that could not read the query may leave it out (RFC 1035 4.1.1).
        let rest = match u16::from_be_bytes([qd0, qd1]) {
            0 => rest,
            _ => {
                let (question, rest) = rest.split_at_checked(self.question.len())?;
                question.eq_ignore_ascii_case(&self.question).then_some(rest)?
            }
        };
        let code = flags1 & 0x0f;
        if code != self.def.rcode {
            let want = rcode_name(self.def.rcode);
            return Some(Verdict::bad(What::Mismatch, format!("{}, expected {want}", rcode_name(code))));
        }
        let Some(want) = self.def.answer else { return Some(Verdict::good(rcode_name(code))) };
        Some(match find_address(rest, u16::from_be_bytes([an0, an1]), want) {
            None => Verdict::bad(What::Protocol, "the answer section is cut off or malformed"),
            Some(Found::Yes) => Verdict::good(format!("{} with {want}", rcode_name(code))),
            // RFC 2181 9: what is missing may be in the part that was cut.
            Some(Found::No(_)) if flags0 & 0x02 != 0 => {
                Verdict::bad(What::Mismatch, format!("truncated without {want}; set tcp = true"))
            }
            Some(Found::No(count)) => {
                Verdict::bad(What::Mismatch, format!("{want} is not among {count} addresses"))
            }
        })
    }
}

enum Found {
    Yes,
    No(usize),
}

/// Walks the answer section for an address; none when it does not hold together.
fn find_address(mut rest: &[u8], records: u16, want: IpAddr) -> Option<Found> {
    let mut addresses = 0;
    for _ in 0..records {
        rest = skip_name(rest)?;
        let (fixed, after) = rest.split_first_chunk::<10>()?;
        let [type0, type1, _, _, _, _, _, _, len0, len1] = *fixed;
        let (data, next) = after.split_at_checked(usize::from(u16::from_be_bytes([len0, len1])))?;
        let address = match u16::from_be_bytes([type0, type1]) {
            1 => <[u8; 4]>::try_from(data).ok().map(IpAddr::from),
            28 => <[u8; 16]>::try_from(data).ok().map(IpAddr::from),
            _ => None,
        };
        if address == Some(want) {
            return Some(Found::Yes);
        }
        addresses += usize::from(address.is_some());
        rest = next;
    }
    Some(Found::No(addresses))
}

/// Steps over a name, which ends with the root or with a pointer (RFC 1035 4.1.4). Pointers are not followed.
fn skip_name(mut rest: &[u8]) -> Option<&[u8]> {
    loop {
        let (length, after) = rest.split_first()?;
        match length {
            0 => return Some(after),
            1..=63 => rest = after.get(usize::from(*length)..)?,
            192..=255 => return after.get(1..),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: u64 = 0xabcd;

    fn reply(def: &DnsDef, code: u8, flags0: u8, addresses: &[&str]) -> Vec<u8> {
        let mut message = vec![0xab, 0xcd, 0x80 | flags0, code, 0, 1, 0, addresses.len() as u8, 0, 0, 0, 0];
        message.extend(encode_name(&def.name.to_uppercase()).unwrap());
        message.extend(def.rtype.to_be_bytes());
        message.extend([0, 1]);
        for address in addresses {
            let data = match address.parse().unwrap() {
                IpAddr::V4(address) => address.octets().to_vec(),
                IpAddr::V6(address) => address.octets().to_vec(),
            };
            message.extend([0xc0, 12]);
            message.extend(def.rtype.to_be_bytes());
            message.extend([0, 1, 0, 0, 0, 60, 0, data.len() as u8]);
            message.extend(data);
        }
        message
    }

    fn a(answer: Option<&str>) -> DnsDef {
        let answer = answer.map(|text| text.parse().unwrap());
        DnsDef { name: "www.example.com.".into(), rtype: 1, answer, ..DnsDef::default() }
    }

    #[test]
    fn query_octets() {
        let mut talk = DnsDef { recursion: true, ..a(None) }.exchange(ID);
        let Step::Send(query) = talk.start() else { panic!() };
        assert_eq!(
            query,
            b"\xab\xcd\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x07example\x03com\x00\x00\x01\x00\x01"
        );
        let Step::Send(query) = DnsDef::default().exchange(ID).start() else { panic!() };
        assert_eq!(query, b"\xab\xcd\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x01");
    }

    #[test]
    fn verdicts() {
        let good = |def: &DnsDef, message: &[u8]| match def.exchange(ID).received(message) {
            Step::Done(verdict) => Some(verdict.is_good()),
            Step::More | Step::Send(_) => None,
        };
        let plain = a(None);
        assert_eq!(good(&plain, &reply(&plain, 0, 0, &[])), Some(true));
        assert_eq!(good(&plain, &reply(&plain, 5, 0, &[])), Some(false));
        let nx = DnsDef { rcode: 3, ..a(None) };
        assert_eq!(good(&nx, &reply(&nx, 3, 0, &[])), Some(true));
        assert_eq!(good(&nx, &reply(&nx, 0, 0, &[])), Some(false));
        let with = a(Some("192.0.2.7"));
        assert_eq!(good(&with, &reply(&with, 0, 0, &["192.0.2.1", "192.0.2.7"])), Some(true));
        assert_eq!(good(&with, &reply(&with, 0, 0, &["192.0.2.1"])), Some(false));
        assert_eq!(good(&with, &reply(&with, 0, 2, &[])), Some(false));
        let v6 = DnsDef { rtype: 28, ..a(Some("2001:db8::7")) };
        assert_eq!(good(&v6, &reply(&v6, 0, 0, &["2001:db8::7"])), Some(true));
        // Not ours: another id, a query instead of an answer, another question.
        let mut other = reply(&plain, 0, 0, &[]);
        other[0] ^= 1;
        assert_eq!(good(&plain, &other), None);
        let mut other = reply(&plain, 0, 0, &[]);
        other[2] &= 0x7f;
        assert_eq!(good(&plain, &other), None);
        assert_eq!(good(&plain, &reply(&DnsDef { rtype: 28, ..a(None) }, 0, 0, &[])), None);
    }

    #[test]
    fn tcp_answers_come_in_pieces() {
        let def = DnsDef { tcp: true, ..a(Some("192.0.2.7")) };
        let message = reply(&def, 0, 0, &["192.0.2.7"]);
        let mut framed = (message.len() as u16).to_be_bytes().to_vec();
        framed.extend(message);
        let mut talk = def.exchange(ID);
        let Step::Send(query) = talk.start() else { panic!() };
        assert_eq!(usize::from(query[1]), query.len() - 2);
        let (last, first) = framed.split_last().unwrap();
        assert!(first.iter().all(|byte| talk.received(&[*byte]) == Step::More));
        assert!(matches!(talk.received(&[*last]), Step::Done(verdict) if verdict.is_good()));
    }

    #[test]
    fn any_octets_are_survived() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut dice = fastrand::Rng::with_seed(seed);
        let def = a(Some("192.0.2.7"));
        let whole = reply(&def, 0, 0, &["192.0.2.1", "192.0.2.7"]);
        for _ in 0..20_000 {
            let mut message = whole[..dice.usize(..=whole.len())].to_vec();
            for _ in 0..dice.usize(..4) {
                if let Some(octet) = dice.choice(message.iter_mut()) {
                    *octet = dice.u8(..);
                }
            }
            let _ = def.exchange(ID).received(&message);
            let _ = DnsDef { tcp: true, ..def.clone() }.exchange(ID).received(&message);
        }
    }

    #[test]
    fn names_and_numbers() {
        assert_eq!(type_number("aaaa"), Some(28));
        assert_eq!(type_number("TYPE64"), Some(64));
        assert_eq!(type_number("BOGUS"), None);
        assert_eq!(rcode_number("nxdomain"), Some(3));
        assert_eq!(rcode_number("x"), None);
    }
}
