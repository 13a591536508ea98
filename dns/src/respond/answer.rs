//! One question: the walk from its name to what is answered (RFC 1034 4.3.2, as RFC 6672 and RFC 4592 amend it).
//!
//! ```text
//! find ─┬─ the name ── delegation? referral · lane? decide · RRset? copy · CNAME? copy and follow · else NODATA
//!       ├─ above it ── delegation? referral · DNAME? make a CNAME and follow · wildcard? as the name · else NXDOMAIN
//!       └─ nothing ─── REFUSED, or the end of a chain of aliases
//! ```

mod additional;

use self::additional::Targets;
use super::choose::{Choose, Who};
use crate::catalog::{Catalog, Found, LaneData, MemberData, NONE, Node};
use crate::edns::ExtendedError;
use crate::rrtype::RrType;
use crate::wire::write::{NameAt, Writer};
use crate::wire::{Rcode, hash};
use portolan_balance::{CandidateId, CandidateSet, Decision, Outcome, Row, View};

/// Aliases followed in one answer. Resolvers give up about here, too.
const CHAIN_MAX: usize = 16;

/// What a reply says beside its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) rcode: Rcode,
    pub(crate) is_authoritative: bool,
    /// How many bits of the client decided; 0 where none did.
    pub(crate) scope: u8,
    /// Whether distance would have decided and the client's is not measured.
    pub(crate) is_unmeasured: bool,
    /// Which kind of answer this is, for rate limiting.
    pub(crate) class: Class,
    pub(crate) extended_error: Option<ExtendedError>,
}

/// Kinds of answers that rate limiting counts apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Data, by the hash of its name; wildcards by their own name.
    Data(u64),
    /// Neither data nor an error: NODATA, by zone.
    NoData(u32),
    /// By zone.
    NxDomain(u32),
    /// By delegation.
    Referral(u32),
    /// Everything else.
    Error,
}

impl Answered {
    pub(crate) const fn error(rcode: Rcode, extended_error: Option<ExtendedError>) -> Self {
        Self {
            rcode,
            is_authoritative: false,
            scope: 0,
            is_unmeasured: false,
            class: Class::Error,
            extended_error,
        }
    }
}

/// The question at hand.
pub(crate) struct Question<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) view: &'a View,
    pub(crate) qtype: RrType,
    pub(crate) who: Who,
}

/// What comes after one name.
enum Next<'q> {
    Done,
    Follow(NameAt),
    /// The answer was written from here on; addresses of its targets are to be chosen.
    Beside(Targets<'q>, usize),
}

/// Answers the question for the name at the start of the reply.
pub(crate) fn answer<C: Choose>(
    question: &Question<'_>,
    lower: &[u8],
    hash: u64,
    writer: &mut Writer<'_>,
    row: &mut Row,
    choose: &mut C,
) -> Answered {
    let owner = NameAt { start: crate::wire::HEADER, end: crate::wire::HEADER + lower.len() };
    let mut walk = Walk {
        question,
        writer,
        row,
        choose,
        owner,
        is_first: true,
        dnames: [NONE; CHAIN_MAX],
        out: Answered {
            rcode: Rcode::NOERROR,
            is_authoritative: true,
            scope: 0,
            is_unmeasured: false,
            class: Class::Error,
            extended_error: None,
        },
    };
    let mut next = walk.name(lower, hash);
    if matches!(next, Next::Follow(_)) {
        next = walk.follow(next);
    }
    let mut out = walk.out;
    if let Next::Beside(targets, start) = next
        && !writer.is_truncated()
    {
        out.scope = out.scope.max(additional::write(question, targets, start, writer, row, choose));
    }
    out
}

struct Walk<'q, 'w, 'b, C> {
    question: &'q Question<'q>,
    writer: &'w mut Writer<'b>,
    row: &'w mut Row,
    choose: &'w mut C,
    owner: NameAt,
    is_first: bool,
    /// DNAMEs answered so far, then [`NONE`].
    dnames: [u32; CHAIN_MAX],
    out: Answered,
}

impl<'q, C: Choose> Walk<'q, '_, '_, C> {
    /// Goes on from alias to alias. Apart, because its places for a chain of names are not free to make ready.
    #[cold]
    #[inline(never)]
    fn follow(&mut self, mut next: Next<'q>) -> Next<'q> {
        let mut seen = [self.owner; CHAIN_MAX];
        let mut scratch = [0; 256];
        for count in 1..CHAIN_MAX {
            let Next::Follow(name) = next else { break };
            let wire = self.writer.name(name);
            // a loop ends where it would repeat itself
            let is_loop =
                seen.iter().take(count).any(|before| self.writer.name(*before).eq_ignore_ascii_case(wire));
            if is_loop {
                return Next::Done;
            }
            let hash = hash::lower_and_hash(wire, &mut scratch);
            let len = wire.len();
            if let Some(place) = seen.get_mut(count) {
                *place = name;
            }
            self.owner = name;
            self.is_first = false;
            next = self.name(scratch.get(..len).unwrap_or_default(), hash);
        }
        next
    }

    #[inline]
    fn name(&mut self, lower: &[u8], hash: u64) -> Next<'q> {
        let catalog = self.question.catalog;
        match catalog.find(lower, hash) {
            Found::Exact(id) => match catalog.node(id) {
                Some(node) => self.exact(node, hash),
                None => Next::Done,
            },
            Found::Below(id, front) => match catalog.node(id) {
                Some(node) => self.below(id, node, front),
                None => Next::Done,
            },
            Found::Nothing => {
                if self.is_first {
                    self.out = Answered::error(Rcode::REFUSED, Some(ExtendedError::NotAuthoritative));
                }
                Next::Done
            }
        }
    }

    #[inline]
    fn exact(&mut self, node: &'q Node, hash: u64) -> Next<'q> {
        let is_ds = self.question.qtype == RrType::DS;
        if node.referral != NONE && !is_ds {
            return self.referral(node.referral);
        }
        if is_ds && let Some(side) = self.question.catalog.node(node.parent_side) {
            return self.data(side, hash);
        }
        if self.question.qtype == RrType::DNAME && node.dname != NONE && self.dnames.contains(&node.dname) {
            // it led here, and is answered already
            return Next::Done;
        }
        self.data(node, hash)
    }

    /// Below the closest encloser: a delegation, a DNAME, a wildcard, or nothing.
    fn below(&mut self, id: u32, node: &'q Node, front: usize) -> Next<'q> {
        let catalog = self.question.catalog;
        if node.referral != NONE {
            return self.referral(node.referral);
        }
        if node.dname != NONE {
            return self.dname(node, front);
        }
        let Some(wildcard) = catalog.node(node.wildcard) else {
            self.class(Class::NxDomain(node.zone));
            return self.negative(node, Rcode::NXDOMAIN);
        };
        // all names that one wildcard makes count as one (see rrl)
        self.data(wildcard, u64::from(id) | 1 << 63)
    }

    /// Data at a name, its own or a wildcard's.
    #[inline]
    fn data(&mut self, node: &'q Node, hash: u64) -> Next<'q> {
        let catalog = self.question.catalog;
        let qtype = self.question.qtype;
        self.class(Class::Data(hash));
        if qtype == RrType::ANY {
            return self.any(node);
        }
        if let Some(lane) = catalog.lane_for(node, qtype) {
            return self.lane(node, lane);
        }
        if let Some(entry) = catalog.entries_of(node).iter().find(|entry| entry.rtype == qtype) {
            let start = self.writer.position();
            self.writer.section(&catalog.pool, &entry.section, self.owner);
            if entry.target_count != 0 {
                return Next::Beside(Targets::Entry(entry), start);
            }
            return Next::Done;
        }
        if let Some(entry) = catalog.entry(node.cname) {
            let data = self.writer.position() + 12;
            self.writer.section(&catalog.pool, &entry.section, self.owner);
            let end = self.writer.position();
            if self.writer.is_truncated() {
                return Next::Done;
            }
            return Next::Follow(NameAt { start: data, end });
        }
        self.class(Class::NoData(node.zone));
        self.negative(node, Rcode::NOERROR)
    }

    /// RFC 8482 4.1: one RRset, the smallest; or 4.2, a made-up HINFO, where only decisions answer.
    fn any(&mut self, node: &'q Node) -> Next<'q> {
        let catalog = self.question.catalog;
        let smallest = catalog.entries_of(node).iter().min_by_key(|entry| entry.section.answer_len);
        if let Some(entry) = catalog.entry(node.cname).or(smallest) {
            self.writer.section(&catalog.pool, &entry.section, self.owner);
        } else if node.lane_count != 0 {
            const HINFO: &[u8] = b"\x00\x0d\x00\x01\x00\x00\x00\x00\x00\x09\x07RFC8482\x00";
            self.writer.record(self.owner.start, HINFO, 3600);
        } else {
            return self.negative(node, Rcode::NOERROR);
        }
        Next::Done
    }

    fn referral(&mut self, id: u32) -> Next<'q> {
        let catalog = self.question.catalog;
        if let Some(entry) = catalog.entry(id) {
            self.writer.section(&catalog.pool, &entry.section, self.owner);
        }
        // behind an alias the answer is ours still (RFC 6604 2.1)
        if self.is_first {
            self.out.is_authoritative = false;
        }
        self.class(Class::Referral(id));
        Next::Done
    }

    fn dname(&mut self, node: &'q Node, front: usize) -> Next<'q> {
        let catalog = self.question.catalog;
        let Some(entry) = catalog.entry(node.dname) else { return Next::Done };
        self.class(Class::Data(u64::from(node.dname)));
        let Some((ttl, target)) = entry.section.first_record(&catalog.pool) else { return Next::Done };
        // a chain may pass one DNAME more than once, and an RRset is answered once
        let before = self.dnames.iter().position(|&id| id == node.dname || id == NONE).unwrap_or(CHAIN_MAX);
        if let Some(place) = self.dnames.get_mut(before).filter(|place| **place == NONE) {
            *place = node.dname;
            let ancestor = NameAt { start: self.owner.start + front, end: self.owner.end };
            self.writer.section(&catalog.pool, &entry.section, ancestor);
        }
        if front + target.len() > crate::name::MAX_NAME {
            self.out.rcode = Rcode::YXDOMAIN;
            return Next::Done;
        }
        match self.writer.synthesized(self.owner, front, target, ttl) {
            // a question for the alias itself is answered
            Some(_) if matches!(self.question.qtype, RrType::CNAME | RrType::ANY) => Next::Done,
            Some(name) => Next::Follow(name),
            None => Next::Done,
        }
    }

    /// SOA in the authority section: NXDOMAIN, also at the end of a chain (RFC 6604 3), or NODATA.
    fn negative(&mut self, node: &'q Node, rcode: Rcode) -> Next<'q> {
        let catalog = self.question.catalog;
        if let Some(zone) = catalog.zones.get(node.zone as usize) {
            self.writer.section(&catalog.pool, &zone.negative, self.owner);
        }
        self.out.rcode = rcode;
        Next::Done
    }

    fn lane(&mut self, node: &'q Node, lane: &'q LaneData) -> Next<'q> {
        let question = self.question;
        let decision = self.choose.decide(question.view, lane, &question.who, self.row);
        match decision.outcome {
            Outcome::Chosen if !lane.members.is_empty() => {
                self.scoped(lane, &decision);
                self.picked(lane, ttl_of(lane, &decision))
            }
            Outcome::Fixed => {
                self.scoped(lane, &decision);
                self.fixed(node, lane)
            }
            // T3: what is not there is not there for anybody; a lane without data is there for its fallback alone
            Outcome::NoData | Outcome::Chosen => {
                self.class(Class::NoData(node.zone));
                self.negative(node, Rcode::NOERROR)
            }
            Outcome::ServFail => self.fail(Rcode::SERVFAIL, ExtendedError::NoReachableAuthority),
            Outcome::Refused => self.fail(Rcode::REFUSED, ExtendedError::Prohibited),
        }
    }

    #[inline]
    fn picked(&mut self, lane: &'q LaneData, ttl: u32) -> Next<'q> {
        let catalog = self.question.catalog;
        let start = self.writer.position();
        let mut is_empty = true;
        let mut last = None;
        for (_, member) in distinct(lane, &self.row.picks) {
            is_empty = false;
            last = self.writer.record(self.owner.start, catalog.pool.stored(member.at, member.len), ttl);
            if lane.rtype == RrType::CNAME {
                // L16: an alias has one target
                break;
            }
        }
        if is_empty {
            // L10
            return self.fail(Rcode::SERVFAIL, ExtendedError::NoReachableAuthority);
        }
        match last {
            Some(name) if lane.rtype == RrType::CNAME => self.follow_unless_asked(name),
            _ if lane.targets != NONE => Next::Beside(Targets::Picks(lane), start),
            _ => Next::Done,
        }
    }

    /// The fallback's records, or its alias.
    fn fixed(&mut self, node: &'q Node, lane: &'q LaneData) -> Next<'q> {
        let pool = &self.question.catalog.pool;
        let ttl = lane.fallback_ttl;
        if let Some(MemberData { at, len, .. }) = lane.fixed_cname {
            return match self.writer.record(self.owner.start, pool.stored(at, len), ttl) {
                Some(name) => self.follow_unless_asked(name),
                None => Next::Done,
            };
        }
        let is_alias = lane.rtype == RrType::CNAME;
        let mut last = None;
        for (i, member) in lane.fixed.iter().enumerate().take(if is_alias { 1 } else { usize::MAX }) {
            if usize::from(member.same_as) == i {
                last = self.writer.record(self.owner.start, pool.stored(member.at, member.len), ttl);
            }
        }
        match last {
            Some(name) if is_alias => self.follow_unless_asked(name),
            None if lane.fixed.is_empty() => self.negative(node, Rcode::NOERROR),
            _ => Next::Done,
        }
    }

    fn follow_unless_asked(&self, name: NameAt) -> Next<'q> {
        if self.question.qtype == RrType::CNAME { Next::Done } else { Next::Follow(name) }
    }

    /// The largest prefix all decisions of the answer hold for (T2).
    #[inline]
    fn scoped(&mut self, lane: &LaneData, decision: &Decision) {
        self.out.scope = self.out.scope.max(scope_of(lane, self.question, decision));
        self.out.is_unmeasured |= decision.is_unmeasured;
    }

    fn fail(&mut self, rcode: Rcode, extended_error: ExtendedError) -> Next<'q> {
        self.writer.clear();
        self.out = Answered::error(rcode, Some(extended_error));
        Next::Done
    }

    /// The first name's class is the answer's.
    #[inline]
    fn class(&mut self, class: Class) {
        if self.is_first {
            self.out.class = class;
        }
    }
}

/// How many bits of the client's subnet a decision went by.
#[inline]
fn scope_of(lane: &LaneData, question: &Question<'_>, decision: &Decision) -> u8 {
    if lane.ecs && question.who.subnet.is_some() { decision.scope } else { 0 }
}

/// Seconds the answer may be kept.
#[inline]
fn ttl_of(lane: &LaneData, decision: &Decision) -> u32 {
    decision.ttl_s.min(if decision.is_fallback { lane.fallback_ttl } else { lane.ttl })
}

/// The picked members with their ids, those of equal data once: an RRset holds no duplicates (RFC 2181 5).
#[inline]
fn distinct<'a>(
    lane: &'a LaneData,
    picks: &'a [CandidateId],
) -> impl Iterator<Item = (usize, &'a MemberData)> {
    let mut seen = CandidateSet::EMPTY;
    picks.iter().filter_map(move |pick| {
        let id = usize::from(pick.0);
        let member = lane.members.get(id)?;
        let same_as = CandidateId(member.same_as);
        if seen.contains(same_as) {
            return None;
        }
        seen.insert(same_as);
        Some((id, member))
    })
}
