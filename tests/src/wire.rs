//! Messages octet by octet: what no DNS client would send, and what came back.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

/// IPv4 address.
pub const A: u16 = 1;
/// Name servers.
pub const NS: u16 = 2;
/// Start of authority.
pub const SOA: u16 = 6;
/// Text.
pub const TXT: u16 = 16;
/// IPv6 address.
pub const AAAA: u16 = 28;
/// EDNS.
pub const OPT: u16 = 41;

/// Longest wait for an answer that must come.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// A message in the making: header, then parts as they are appended.
#[derive(Clone, Debug)]
pub struct Message {
    octets: Vec<u8>,
}

impl Message {
    /// Only a header, all counts zero.
    #[must_use]
    pub fn header(flags: u16) -> Self {
        let mut octets = vec![0; 12];
        octets[..2].copy_from_slice(&fastrand::u16(..).to_be_bytes());
        octets[2..4].copy_from_slice(&flags.to_be_bytes());
        Self { octets }
    }

    /// A query without EDNS.
    #[must_use]
    pub fn query(name: &str, rrtype: u16) -> Self {
        Self::header(0).question(name, rrtype, 1)
    }

    /// One more question.
    #[must_use]
    pub fn question(self, name: &str, rrtype: u16, class: u16) -> Self {
        self.raw(&labels(name)).raw(&rrtype.to_be_bytes()).raw(&class.to_be_bytes()).count(4)
    }

    /// An OPT record at the end, with this as its options.
    #[must_use]
    pub fn edns(self, size: u16, options: &[u8]) -> Self {
        self.opt(&[0], size, 0, options)
    }

    /// An OPT record with any owner and any TTL field (extended rcode, version, flags).
    #[must_use]
    pub fn opt(self, owner: &[u8], size: u16, ttl: u32, options: &[u8]) -> Self {
        let length = u16::try_from(options.len()).unwrap();
        self.raw(owner)
            .raw(&OPT.to_be_bytes())
            .raw(&size.to_be_bytes())
            .raw(&ttl.to_be_bytes())
            .raw(&length.to_be_bytes())
            .raw(options)
            .count(10)
    }

    /// Other flags.
    #[must_use]
    pub fn flags(mut self, flags: u16) -> Self {
        self.octets[2..4].copy_from_slice(&flags.to_be_bytes());
        self
    }

    /// Another opcode.
    #[must_use]
    pub fn opcode(self, opcode: u16) -> Self {
        self.flags(opcode << 11)
    }

    /// Any octets at the end.
    #[must_use]
    pub fn raw(mut self, octets: &[u8]) -> Self {
        self.octets.extend_from_slice(octets);
        self
    }

    /// Adds one to the count that stands at this offset: 4 questions, 6 answers, 8 authority, 10 additional.
    #[must_use]
    pub fn count(mut self, offset: usize) -> Self {
        let count = u16::from_be_bytes([self.octets[offset], self.octets[offset + 1]]) + 1;
        self.octets[offset..offset + 2].copy_from_slice(&count.to_be_bytes());
        self
    }

    /// Cut after so many octets.
    #[must_use]
    pub fn cut(mut self, length: usize) -> Self {
        self.octets.truncate(length);
        self
    }

    /// The message's id.
    #[must_use]
    pub fn id(&self) -> u16 {
        u16::from_be_bytes([self.octets[0], self.octets[1]])
    }

    /// The octets.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.octets.clone()
    }
}

/// A name in wire form; dots only separate.
#[must_use]
pub fn labels(name: &str) -> Vec<u8> {
    let mut octets = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        octets.push(u8::try_from(label.len()).unwrap());
        octets.extend_from_slice(label.as_bytes());
    }
    octets.push(0);
    octets
}

/// An EDNS option.
#[must_use]
pub fn option(code: u16, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len()).unwrap();
    [&code.to_be_bytes(), &length.to_be_bytes(), data].concat()
}

/// A client subnet option.
#[must_use]
pub fn subnet(prefix: &str) -> Vec<u8> {
    let (address, length) = prefix.split_once('/').unwrap();
    let length: u8 = length.parse().unwrap();
    let (family, octets) = match address.parse().unwrap() {
        IpAddr::V4(address) => (1, address.octets().to_vec()),
        IpAddr::V6(address) => (2, address.octets().to_vec()),
    };
    let octets = &octets[..usize::from(length).div_ceil(8)];
    option(8, &[&[0, family, length, 0], octets].concat())
}

/// Sends over UDP from an own socket; what came back within the time.
#[must_use]
pub fn udp_within(server: SocketAddr, octets: &[u8], limit: Duration) -> Option<Vec<u8>> {
    let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).unwrap();
    socket.connect(server).unwrap();
    socket.set_read_timeout(Some(limit)).unwrap();
    socket.send(octets).ok()?;
    receive(&socket)
}

/// Sends over UDP, then a query known to be answered. What came back to the first, none if only the second one was
/// answered: a socket's datagrams are worked on in order.
#[must_use]
pub fn udp(server: SocketAddr, octets: &[u8]) -> Option<Vec<u8>> {
    let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).unwrap();
    socket.connect(server).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut sentinel = Message::query("sentinel.invalid.", SOA);
    while octets.starts_with(&sentinel.id().to_be_bytes()) {
        sentinel = Message::query("sentinel.invalid.", SOA);
    }
    socket.send(octets).unwrap();
    socket.send(&sentinel.bytes()).unwrap();
    let first = receive(&socket).expect("the server answers no more");
    if first.starts_with(&sentinel.id().to_be_bytes()) { None } else { Some(first) }
}

fn receive(socket: &UdpSocket) -> Option<Vec<u8>> {
    let mut buffer = vec![0; 65_535];
    let length = socket.recv(&mut buffer).ok()?;
    buffer.truncate(length);
    Some(buffer)
}

/// What a response says, as far as the cases look at it.
#[derive(Clone, Debug, Default)]
pub struct Response {
    /// Id.
    pub id: u16,
    /// The flag word.
    pub flags: u16,
    /// Response code, with the upper bits that OPT carries.
    pub rcode: u16,
    /// Questions, answers, authority, additional (OPT among them).
    pub counts: [u16; 4],
    /// Octets of the question section's first question.
    pub question: Vec<u8>,
    /// EDNS version, when there is an OPT record.
    pub edns: Option<u8>,
    /// EDNS flags.
    pub edns_flags: u16,
    /// UDP size in OPT.
    pub udp_size: u16,
    /// EDNS options.
    pub options: Vec<(u16, Vec<u8>)>,
    /// Types of the records in answer, authority and additional.
    pub types: [Vec<u16>; 3],
    /// Data of the A and AAAA records in the answer section.
    pub addresses: Vec<IpAddr>,
    /// Octets in all.
    pub size: usize,
}

impl Response {
    /// Whether a bit of the flag word is set: `0x8000` QR, `0x0400` AA, `0x0200` TC, `0x0100` RD, `0x0080` RA, `0x0040`
    /// Z, `0x0020` AD, `0x0010` CD.
    #[must_use]
    pub fn has(&self, bit: u16) -> bool {
        self.flags & bit != 0
    }

    /// Reads a response; the reason when it is malformed.
    pub fn parse(octets: &[u8]) -> Result<Self, String> {
        let mut reader = Reader { octets, at: 0 };
        let mut it = Self { size: octets.len(), id: reader.u16()?, flags: reader.u16()?, ..Self::default() };
        it.rcode = it.flags & 15;
        for count in &mut it.counts {
            *count = reader.u16()?;
        }
        for number in 0..it.counts[0] {
            let begin = reader.at;
            reader.name()?;
            reader.take(4)?;
            if number == 0 {
                it.question = octets[begin..reader.at].to_vec();
            }
        }
        for (section, count) in it.counts[1..].iter().enumerate() {
            for _ in 0..*count {
                reader.name()?;
                let (rrtype, class, ttl) = (reader.u16()?, reader.u16()?, reader.u32()?);
                let length = reader.u16()?;
                let data = reader.take(length.into())?;
                it.types[section].push(rrtype);
                if section == 0 {
                    it.addresses.extend(address(rrtype, data));
                }
                if rrtype == OPT {
                    it.rcode |= u16::try_from(ttl >> 24).unwrap() << 4;
                    it.edns = Some(u8::try_from(ttl >> 16 & 255).unwrap());
                    it.edns_flags = u16::try_from(ttl & 0xffff).unwrap();
                    it.udp_size = class;
                    it.options = options(data)?;
                }
            }
        }
        if reader.at == octets.len() {
            Ok(it)
        } else {
            Err(format!("{} octets too many", octets.len() - reader.at))
        }
    }
}

fn address(rrtype: u16, data: &[u8]) -> Option<IpAddr> {
    match rrtype {
        A => <[u8; 4]>::try_from(data).ok().map(IpAddr::from),
        AAAA => <[u8; 16]>::try_from(data).ok().map(IpAddr::from),
        _ => None,
    }
}

fn options(data: &[u8]) -> Result<Vec<(u16, Vec<u8>)>, String> {
    let mut reader = Reader { octets: data, at: 0 };
    let mut options = Vec::new();
    while reader.at < data.len() {
        let (code, length) = (reader.u16()?, reader.u16()?);
        options.push((code, reader.take(length.into())?.to_vec()));
    }
    Ok(options)
}

struct Reader<'a> {
    octets: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let octets = self.octets.get(self.at..self.at + length).ok_or("cut short")?;
        self.at += length;
        Ok(octets)
    }

    fn u16(&mut self) -> Result<u16, String> {
        self.take(2).map(|octets| u16::from_be_bytes([octets[0], octets[1]]))
    }

    fn u32(&mut self) -> Result<u32, String> {
        Ok(u32::from(self.u16()?) << 16 | u32::from(self.u16()?))
    }

    fn name(&mut self) -> Result<(), String> {
        loop {
            match self.take(1)?[0] {
                0 => return Ok(()),
                length @ 1..=63 => self.take(length.into()).map(drop)?,
                192.. => return self.take(1).map(drop),
                length => return Err(format!("label type {length}")),
            }
        }
    }
}
