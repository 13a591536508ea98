//! The hot path: a batch of queries in, a batch of replies out. No I/O, no lock, no allocation a query.
//!
//! ```text
//! all:  parse, hash the name, find the client ─► prefetch its slot and its prefix
//! all:  read the slot ─► prefetch the node, and the prefix's second step
//! all:  read the node: what is likely asked ─► prefetch its records, or the service and the prefix's third step
//! all:  look up the client of a service ─► prefetch the policy, and where to find its distances
//! all:  find these ─► prefetch their row (only where distances are known)
//! each: find, decide, copy ─► rate limit ─► OPT, header
//! ```
//! Staging the batch hides the memory's latency, which is most of what a query costs in user space.

mod answer;
mod batch;
mod chaos;
mod choose;
mod measured;
mod options;
mod stats;

pub use batch::{Now, Query, Replies, Transport};
pub use choose::Explained;
pub use options::{Options, Snapshot};
pub use stats::{Counter, WorkerStats};

pub use crate::wire::parse::DropReason;

pub(crate) use answer::{Answered, Class};
pub(crate) use choose::{Choose, Recorded, Who};

use crate::edns::ExtendedError;
use crate::measure::Credit;
use crate::rrl::Verdict as Limit;
use crate::rrtype::RrType;
use crate::wire::parse::{self, Parsed, Verdict};
use crate::wire::write::{OptOut, Writer};
use crate::wire::{MESSAGE_MAX, Rcode, UDP_MIN, flag};
use answer::Question;
use choose::{Live, Random};
use portolan_balance::nets::Leaf;
use portolan_balance::{Row, ServiceId};
use std::net::IpAddr;
use std::sync::Arc;

/// Class IN (RFC 1035 3.2.4) and CH.
const IN: u16 = 1;
const CH: u16 = 3;
/// Room for the longest name, in words of eight octets.
const NAME_ROOM: usize = 256;
/// Most octets of an identifier that are sent.
const NSID_MAX: usize = 128;

/// One thread's scratch, dice and counters.
#[derive(Debug)]
pub struct Worker {
    items: Vec<Item>,
    /// The names of a batch's questions, in lower case, one behind the other.
    names: Vec<u8>,
    row: Row,
    random: Random,
    credit: Credit,
    stats: Arc<WorkerStats>,
}

/// A query between the stages.
#[derive(Clone, Copy, Debug)]
struct Item {
    parsed: Parsed,
    /// The client subnet to decide by.
    subnet: Option<(IpAddr, u8)>,
    /// The node that the name's hash leads to.
    node: Option<u32>,
    /// What the prefix tables say of the client, where this service is to decide.
    known: Option<(ServiceId, Leaf)>,
    /// Where among the worker's names the question's is, in lower case.
    name: u32,
}

impl Item {
    const EMPTY: Self = Self { parsed: Parsed::NOTHING, subnet: None, node: None, known: None, name: 0 };

    #[inline]
    const fn name_at(&self) -> usize {
        self.name as usize
    }

    /// The address that decides, where nothing forbids to go by the subnet.
    #[inline]
    fn client(&self, query: &Query<'_>) -> IpAddr {
        self.subnet.map_or_else(|| query.source.ip(), |(address, _)| address)
    }

    fn who(&self, query: &Query<'_>, now: Now) -> Who {
        Who { source: query.source, subnet: self.subnet, known: self.known, now_s: now.mono_s() }
    }
}

impl Worker {
    /// A worker whose dice start from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            items: Vec::new(),
            names: Vec::new(),
            row: Row::default(),
            random: Random(seed),
            credit: Credit::default(),
            stats: Arc::default(),
        }
    }

    /// The entropy of the next decision, for explaining it beforehand.
    #[must_use]
    pub fn next_entropy(&self) -> u64 {
        self.random.clone().next()
    }

    /// Its counters.
    #[must_use]
    pub fn stats(&self) -> Arc<WorkerStats> {
        Arc::clone(&self.stats)
    }
}

/// Answers a batch. The reply to query `i` is then in slot `i` of `out`; queries beyond its slots are dropped.
pub fn respond(worker: &mut Worker, snapshot: &Snapshot, batch: &[Query<'_>], out: &mut Replies, now: Now) {
    let count = batch.len().min(out.slots());
    if worker.items.len() < count {
        // grows once, to the size of the caller's batches
        worker.items.resize(count, Item::EMPTY);
        worker.names.resize(count * NAME_ROOM, 0);
    }
    out.clear();
    let mut name_at = 0;
    let options = &*snapshot.options;
    let reading = options.reading();
    for (item, query) in worker.items.iter_mut().zip(batch).take(count) {
        let Some(lower) = worker.names.get_mut(name_at..).and_then(|rest| rest.first_chunk_mut()) else {
            break; // there is room for as many of the longest names
        };
        item.name = name_at as u32;
        item.parsed = parse::query(query.bytes, reading, lower);
        name_at += item.parsed.name_len.next_multiple_of(8);
        snapshot.catalog.table.prefetch(item.parsed.hash);
        let ecs = item.parsed.edns.as_ref().and_then(|edns| edns.ecs.as_ref());
        item.subnet = options.ecs.subnet(ecs, query.source.ip());
        snapshot.view.nets.prefetch(&item.client(query));
    }
    for (item, query) in worker.items.iter_mut().zip(batch).take(count) {
        item.node = snapshot.catalog.likely(item.parsed.hash);
        item.known = None;
        snapshot.view.nets.prefetch_second(&item.client(query));
    }
    for (item, query) in worker.items.iter().zip(batch).take(count) {
        if let Some(lane) = item.node.and_then(|node| snapshot.catalog.expect(node, item.parsed.qtype)) {
            choose::prefetch(&snapshot.view, lane);
            snapshot.view.nets.prefetch_third(&item.client(query));
        }
    }
    for (item, query) in worker.items.iter_mut().zip(batch).take(count) {
        let lane = item.node.and_then(|node| snapshot.catalog.expect(node, item.parsed.qtype));
        if let Some(lane) = lane {
            item.known =
                Some((lane.service, choose::look_up_ahead(&snapshot.view, lane, &item.who(query, now))));
        }
    }
    if !snapshot.view.proximity.is_empty() {
        for (item, query) in worker.items.iter().zip(batch).take(count) {
            if let Some((service, _)) = item.known {
                choose::prefetch_distances(&snapshot.view, service, &item.client(query));
            }
        }
    }
    for (i, query) in batch.iter().enumerate() {
        let stats = &worker.stats;
        let by_family = match query.transport {
            Transport::Udp => &stats.udp,
            Transport::Tcp => &stats.tcp,
        };
        let [v4, v6] = by_family;
        if query.source.ip().to_canonical().is_ipv4() {
            v4.add_one()
        } else {
            v6.add_one()
        }
        let Some(item) = worker.items.get(i).filter(|_| i < count) else {
            stats.dropped(DropReason::NoRoom);
            continue;
        };
        let mut choose = Live { random: &mut worker.random, last: None, stats };
        let lower = worker.names.get(item.name_at()..).unwrap_or_default();
        let tally = Tally { stats, credit: &mut worker.credit };
        let length = out.buffer().and_then(|buffer| {
            reply(snapshot, query, item, lower, buffer, now, &mut worker.row, &mut choose, Some(tally))
        });
        out.push(i, length.unwrap_or(0));
    }
}

/// Answers one query for `explain`: the same road with given dice.
pub(crate) fn respond_recorded(
    snapshot: &Snapshot,
    query: &Query<'_>,
    now: Now,
    choose: &mut Recorded,
) -> Option<Vec<u8>> {
    let mut item = Item::EMPTY;
    let mut lower = [0; NAME_ROOM];
    item.parsed = parse::query(query.bytes, snapshot.options.reading(), &mut lower);
    let ecs = item.parsed.edns.as_ref().and_then(|edns| edns.ecs.as_ref());
    item.subnet = snapshot.options.ecs.subnet(ecs, query.source.ip());
    let mut buffer = vec![0; MESSAGE_MAX];
    let length = reply(snapshot, query, &item, &lower, &mut buffer, now, &mut Row::default(), choose, None)?;
    buffer.truncate(length);
    Some(buffer)
}

/// What a worker keeps count with.
struct Tally<'a> {
    stats: &'a WorkerStats,
    credit: &'a mut Credit,
}

/// Writes the reply to one query; `None` is silence.
#[inline]
#[allow(clippy::too_many_arguments)]
fn reply<C: Choose>(
    snapshot: &Snapshot,
    query: &Query<'_>,
    item: &Item,
    lower: &[u8],
    buffer: &mut [u8],
    now: Now,
    row: &mut Row,
    choose: &mut C,
    tally: Option<Tally<'_>>,
) -> Option<usize> {
    let options = &*snapshot.options;
    let parsed = &item.parsed;
    let stats = tally.as_ref().map(|tally| tally.stats);
    if let Verdict::Drop(reason) = parsed.verdict {
        if let Some(stats) = stats {
            stats.dropped(reason);
        }
        return None;
    }
    let source = query.source.ip().to_canonical();
    let limit = match (query.transport, &parsed.edns) {
        (Transport::Tcp, _) => MESSAGE_MAX,
        (Transport::Udp, None) => UDP_MIN,
        // W10: less than 512 is taken as 512
        (Transport::Udp, Some(edns)) => usize::from(edns.udp_size.min(options.udp_size)).max(UDP_MIN),
    };
    let mut writer = Writer::new(buffer, query.bytes, parsed.question_len(), limit)?;
    let has_good_cookie = parsed.edns.as_ref().and_then(|edns| edns.cookie.as_ref()).is_some_and(|cookie| {
        options.cookies.as_ref().is_some_and(|secrets| secrets.is_valid(cookie, source, now.unix_s))
    });
    let mut opt = parsed.edns.as_ref().map(|edns| OptOut {
        udp_size: options.udp_size,
        dnssec_ok: edns.dnssec_ok && parsed.verdict != Verdict::Error(Rcode::BADVERS),
        nsid: options.nsid.as_deref().filter(|_| edns.nsid).map(|id| id.get(..NSID_MAX).unwrap_or(id)),
        // a fresh server part each time: the client's clock may run on (RFC 9018 4.3)
        cookie: edns
            .cookie
            .zip(options.cookies.as_ref())
            .map(|(cookie, secrets)| (cookie.client, secrets.make(&cookie.client, source, now.unix_s))),
        ecs: edns.ecs.map(|ecs| (ecs, 0)),
        extended_error: None,
    });
    if let Some(opt) = &opt {
        writer.reserve(opt);
    }

    let answered = match parsed.verdict {
        Verdict::Answer => dispatch(snapshot, parsed, lower, item.who(query, now), &mut writer, row, choose),
        Verdict::Error(rcode) => Answered::error(rcode, None),
        Verdict::Drop(_) => return None,
    };

    if let Some(rrl) = &options.rrl
        && query.transport == Transport::Udp
        && !has_good_cookie
    {
        match rrl.check(source, answered.class, now.mono_ms) {
            Limit::Pass => {}
            Limit::Slip => {
                writer.truncate();
                if let Some(stats) = stats {
                    stats.slipped.add_one();
                }
            }
            Limit::Drop => {
                if let Some(stats) = stats {
                    stats.dropped(DropReason::RateLimited);
                }
                return None;
            }
        }
    }
    if let (Some(measure), Some(tally)) = (&options.measure, tally)
        && parsed.verdict == Verdict::Answer
    {
        let told = measured::Told { snapshot, query, item, answered: &answered, has_good_cookie };
        measured::measured(measure, &told, now, tally, &mut writer);
    }
    if let Some(opt) = &mut opt {
        if let Some((ecs, scope)) = &mut opt.ecs {
            *scope = ecs.scope_on_wire(answered.scope);
        }
        opt.extended_error = answered.extended_error.filter(|_| options.extended_errors);
    }
    if let Some(stats) = stats {
        count(stats, parsed, answered.rcode, has_good_cookie, writer.is_truncated());
    }
    // W30: RD is copied; AD, CD, RA and Z stay clear. An unknown opcode is echoed (RFC 1035 4.1.1)
    let aa = if answered.is_authoritative { flag::AA } else { 0 };
    let flags = parsed.flags & (flag::RD | flag::OPCODE) | aa;
    Some(writer.finish(flags, answered.rcode.0, opt.as_ref()))
}

#[inline]
fn count(stats: &WorkerStats, parsed: &Parsed, rcode: Rcode, has_good_cookie: bool, is_truncated: bool) {
    stats.replied(rcode);
    if is_truncated {
        stats.truncated.add_one();
    }
    let Some(edns) = &parsed.edns else { return };
    stats.edns.add_one();
    if edns.ecs.is_some() {
        stats.ecs.add_one();
    }
    if edns.cookie.is_some() {
        if has_good_cookie { stats.cookie_good.add_one() } else { stats.cookie_other.add_one() }
    }
}

/// Sends a well-formed question where it belongs: classes and query types first.
#[inline]
fn dispatch<C: Choose>(
    snapshot: &Snapshot,
    parsed: &Parsed,
    lower: &[u8],
    who: Who,
    writer: &mut Writer<'_>,
    row: &mut Row,
    choose: &mut C,
) -> Answered {
    let lower = lower.get(..parsed.name_len).unwrap_or_default();
    match parsed.qclass {
        IN => {}
        CH => return chaos::answer(&snapshot.options, lower, parsed.qtype, writer),
        _ => return Answered::error(Rcode::REFUSED, Some(ExtendedError::NotSupported)),
    }
    match parsed.qtype {
        // W17, dns.md 5: no record and no question is of these types
        RrType::OPT | RrType::TSIG | RrType::TKEY => return Answered::error(Rcode::FORMERR, None),
        // W19: zones are not transferred
        RrType::AXFR | RrType::IXFR => {
            return Answered::error(Rcode::REFUSED, Some(ExtendedError::Prohibited));
        }
        _ => {}
    }
    let question = Question { catalog: &snapshot.catalog, view: &snapshot.view, qtype: parsed.qtype, who };
    answer::answer(&question, lower, parsed.hash, writer, row, choose)
}
