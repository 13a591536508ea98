//! What the tests share: a strict decoder of their own, and a small server in memory.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

pub mod world;

use portolan_dns::catalog::{Catalog, ServiceBinding};
use portolan_dns::record::Loaded;
use portolan_dns::respond::{Now, Options, Query, Replies, Snapshot, Transport, Worker, respond};
use portolan_dns::text::{self, Limits};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// A message, its records as text in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub id: u16,
    pub flags: u16,
    pub question: Option<(String, u16, u16)>,
    pub answer: Vec<String>,
    pub authority: Vec<String>,
    pub additional: Vec<String>,
    pub opt: Option<Opt>,
}

/// OPT: its class, TTL and options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opt {
    pub udp_size: u16,
    pub version: u8,
    pub flags: u16,
    pub options: Vec<(u16, Vec<u8>)>,
}

impl Message {
    pub fn aa(&self) -> bool {
        self.flags & 0x0400 != 0
    }
    pub fn tc(&self) -> bool {
        self.flags & 0x0200 != 0
    }
    /// The response code's mnemonic, extended ones included.
    pub fn rcode(&self) -> &'static str {
        let high = self.opt.as_ref().map_or(0, |opt| opt.version_and_rcode().1);
        portolan_dns::wire::Rcode(u16::from(high) << 4 | self.flags & 15).name()
    }
    pub fn option(&self, code: u16) -> Option<&[u8]> {
        self.opt.as_ref()?.options.iter().find(|option| option.0 == code).map(|option| &*option.1)
    }
}

impl Opt {
    fn version_and_rcode(&self) -> (u8, u8) {
        (self.version, self.rcode_high())
    }
    fn rcode_high(&self) -> u8 {
        // kept beside the options under a code that no option has
        self.options.iter().find(|option| option.0 == u16::MAX).map_or(0, |option| option.1[0])
    }
}

/// Decodes strictly: pointers go backwards only, lengths agree, nothing follows the last record.
pub fn decode(bytes: &[u8]) -> Result<Message, String> {
    let word = |at: usize| -> Result<u16, String> {
        let pair = bytes.get(at..at + 2).ok_or(format!("cut off at {at}"))?;
        Ok(u16::from_be_bytes([pair[0], pair[1]]))
    };
    let (id, flags) = (word(0)?, word(2)?);
    let mut at = 12;
    let question = match word(4)? {
        0 => None,
        1 => {
            let (name, end) = name_at(bytes, at)?;
            at = end + 4;
            Some((name, word(end)?, word(end + 2)?))
        }
        n => return Err(format!("{n} questions")),
    };
    let mut sections = [const { Vec::new() }; 3];
    let mut opt = None;
    for (i, section) in sections.iter_mut().enumerate() {
        for _ in 0..word(6 + 2 * i)? {
            let (owner, end) = name_at(bytes, at)?;
            let (rtype, class, ttl_high, ttl_low) =
                (word(end)?, word(end + 2)?, word(end + 4)?, word(end + 6)?);
            let start = end + 10;
            at = start + usize::from(word(end + 8)?);
            let rdata = bytes.get(start..at).ok_or("data cut off")?;
            if rtype == 41 {
                if owner != "." || i != 2 || opt.is_some() {
                    return Err("misplaced OPT".into());
                }
                let mut options = vec![(u16::MAX, vec![(ttl_high >> 8) as u8])];
                options.extend(options_of(rdata)?);
                opt = Some(Opt { udp_size: class, version: ttl_high as u8, flags: ttl_low, options });
                continue;
            }
            let ttl = u32::from(ttl_high) << 16 | u32::from(ttl_low);
            let class = if class == 1 { "IN".to_owned() } else { format!("CLASS{class}") };
            let data = data_text(bytes, rtype, start, at)?;
            section.push(format!("{owner} {ttl} {class} {} {data}", portolan_dns::rrtype::RrType(rtype)));
        }
    }
    if at != bytes.len() {
        return Err(format!("{} octets after the last record", bytes.len() as isize - at as isize));
    }
    let [answer, authority, additional] = sections;
    Ok(Message { id, flags, question, answer, authority, additional, opt })
}

fn options_of(mut rdata: &[u8]) -> Result<Vec<(u16, Vec<u8>)>, String> {
    let mut options = Vec::new();
    while !rdata.is_empty() {
        let head = rdata.get(..4).ok_or("option cut off")?;
        let len = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let data = rdata.get(4..4 + len).ok_or("option data cut off")?;
        options.push((u16::from_be_bytes([head[0], head[1]]), data.to_vec()));
        rdata = &rdata[4 + len..];
    }
    Ok(options)
}

/// A name as text in lower case, and where it ends.
fn name_at(bytes: &[u8], start: usize) -> Result<(String, usize), String> {
    let (mut at, mut end, mut text, mut octets) = (start, None, String::new(), 1);
    let mut bound = start;
    loop {
        let length = *bytes.get(at).ok_or("name cut off")?;
        match length {
            0 => {
                if text.is_empty() {
                    text.push('.');
                }
                return Ok((text, end.unwrap_or(at + 1)));
            }
            1..=63 => {
                let label = bytes.get(at + 1..at + 1 + usize::from(length)).ok_or("label cut off")?;
                octets += 1 + label.len();
                if octets > 255 {
                    return Err("name too long".into());
                }
                for &octet in label {
                    match octet.to_ascii_lowercase() {
                        octet @ (b'.' | b'\\' | b'"' | b';' | b'(' | b')' | b'@' | b'$') => {
                            text.push('\\');
                            text.push(octet.into());
                        }
                        octet @ 0x21..=0x7e => text.push(octet.into()),
                        octet => text.push_str(&format!("\\{octet:03}")),
                    }
                }
                text.push('.');
                at += 1 + usize::from(length);
            }
            0xc0.. => {
                let low = *bytes.get(at + 1).ok_or("pointer cut off")?;
                end.get_or_insert(at + 2);
                let target = usize::from(length & 0x3f) << 8 | usize::from(low);
                if target >= bound || target < 12 {
                    return Err(format!("pointer at {at} to {target} does not go back"));
                }
                bound = target;
                at = target;
            }
            _ => return Err("bad label".into()),
        }
    }
}

fn data_text(bytes: &[u8], rtype: u16, start: usize, end: usize) -> Result<String, String> {
    let data = &bytes[start..end];
    let names = |mut at: usize, count: usize| -> Result<(String, usize), String> {
        let mut all = Vec::new();
        for _ in 0..count {
            let (name, next) = name_at(bytes, at)?;
            all.push(name);
            at = next;
        }
        Ok((all.join(" "), at))
    };
    let word = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let whole =
        |(text, at): (String, usize)| if at == end { Ok(text) } else { Err("data length".to_owned()) };
    Ok(match rtype {
        1 => <[u8; 4]>::try_from(data).map(std::net::Ipv4Addr::from).map_err(|e| e.to_string())?.to_string(),
        28 => {
            <[u8; 16]>::try_from(data).map(std::net::Ipv6Addr::from).map_err(|e| e.to_string())?.to_string()
        }
        2 | 5 | 12 | 39 => whole(names(start, 1)?)?,
        15 => format!("{} {}", word(start), whole(names(start + 2, 1)?)?),
        33 => {
            let target = whole(names(start + 6, 1)?)?;
            format!("{} {} {} {target}", word(start), word(start + 2), word(start + 4))
        }
        6 => {
            let (names, at) = names(start, 2)?;
            let numbers = bytes.get(at..at + 20).filter(|_| at + 20 == end).ok_or("SOA length")?;
            let numbers: Vec<String> =
                numbers.chunks(4).map(|n| u32::from_be_bytes(n.try_into().unwrap()).to_string()).collect();
            format!("{names} {}", numbers.join(" "))
        }
        16 => {
            let (mut at, mut parts) = (0, Vec::new());
            while at < data.len() {
                let len = usize::from(data[at]);
                let part = data.get(at + 1..at + 1 + len).ok_or("TXT length")?;
                parts.push(format!("\"{}\"", String::from_utf8_lossy(part)));
                at += 1 + len;
            }
            parts.join(" ")
        }
        _ => data.iter().map(|octet| format!("{octet:02x}")).collect(),
    })
}

/// Loads zones from text.
pub fn load(zones: &[&str]) -> Vec<Loaded> {
    zones
        .iter()
        .map(|zone| {
            let mut source = BTreeMap::from([("zone".to_owned(), zone.as_bytes().to_vec())]);
            text::load(&mut source, "zone", &Limits::default())
                .unwrap_or_else(|faults| panic!("{zone}\n{faults:#?}"))
        })
        .collect()
}

/// Serves zones without services.
pub fn serve(zones: &[&str]) -> Server {
    Server::new(load(zones), Vec::new())
}

/// A worker on a snapshot.
pub struct Server {
    pub snapshot: Snapshot,
    pub worker: Worker,
    pub now: Now,
}

impl Server {
    pub fn new(zones: Vec<Loaded>, services: Vec<ServiceBinding>) -> Self {
        let (catalog, _) = Catalog::build(zones, services).unwrap();
        Self {
            snapshot: Snapshot {
                catalog: Arc::new(catalog),
                view: Arc::new(portolan_balance::View::empty()),
                options: Arc::new(Options::default()),
            },
            worker: Worker::new(1),
            now: Now::default(),
        }
    }

    pub fn options(&mut self, change: impl FnOnce(&mut Options)) {
        change(Arc::make_mut(&mut self.snapshot.options));
    }

    /// The reply's octets.
    pub fn send(&mut self, bytes: &[u8], source: &str, transport: Transport) -> Option<Vec<u8>> {
        let source: SocketAddr =
            format!("{source}:4000").parse().or_else(|_| format!("[{source}]:4000").parse()).unwrap();
        let mut replies = Replies::new(1, 65_535);
        respond(
            &mut self.worker,
            &self.snapshot,
            &[Query { bytes, source, transport }],
            &mut replies,
            self.now,
        );
        replies.get(0).map(<[u8]>::to_vec)
    }

    /// A plain question over a stream, so that nothing is truncated.
    pub fn ask(&mut self, name: &str, rtype: &str) -> Message {
        let bytes = query(name, rtype);
        decode(&self.send(&bytes, "192.0.2.53", Transport::Tcp).expect("a reply")).unwrap()
    }

    pub fn udp(&mut self, bytes: &[u8]) -> Option<Message> {
        self.send(bytes, "192.0.2.53", Transport::Udp)
            .map(|reply| decode(&reply).unwrap_or_else(|e| panic!("{e}: {reply:02x?}")))
    }
}

/// A query without EDNS.
pub fn query(name: &str, rtype: &str) -> Vec<u8> {
    let name: portolan_dns::name::Name = name.parse().unwrap();
    let rtype: portolan_dns::rrtype::RrType = rtype.parse().unwrap();
    let mut bytes = vec![0xab, 0xcd, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    bytes.extend_from_slice(name.as_wire());
    bytes.extend_from_slice(&rtype.0.to_be_bytes());
    bytes.extend_from_slice(&[0, 1]);
    bytes
}

/// Adds an OPT record.
pub fn with_opt(
    mut query: Vec<u8>,
    udp_size: u16,
    version: u8,
    flags: u16,
    options: &[(u16, &[u8])],
) -> Vec<u8> {
    query[11] += 1;
    query.extend_from_slice(&[0, 0, 41]);
    query.extend_from_slice(&udp_size.to_be_bytes());
    query.extend_from_slice(&[0, version]);
    query.extend_from_slice(&flags.to_be_bytes());
    let mut rdata = Vec::new();
    for (code, data) in options {
        rdata.extend_from_slice(&code.to_be_bytes());
        rdata.extend_from_slice(&(data.len() as u16).to_be_bytes());
        rdata.extend_from_slice(data);
    }
    query.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
    query.extend_from_slice(&rdata);
    query
}

/// Lines in order, so that sections compare as sets.
pub fn sorted(lines: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = lines.iter().map(|line| normal(line)).collect();
    lines.sort();
    lines
}

/// A record line with single spaces; names in lower case, text as written.
pub fn normal(line: &str) -> String {
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.split_once('"') {
        Some((head, text)) => format!("{}\"{text}", keep_type(head)),
        None => keep_type(&line),
    }
}

fn keep_type(line: &str) -> String {
    line.split(' ')
        .enumerate()
        .map(
            |(i, field)| {
                if i == 2 || i == 3 { field.to_ascii_uppercase() } else { field.to_ascii_lowercase() }
            },
        )
        .collect::<Vec<_>>()
        .join(" ")
}
