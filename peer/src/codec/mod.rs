//! Frames ↔ octets. docs/peer-protocol.md draws them; a test holds the two together.
//!
//! A frame is a header of eight octets (length of the body, type, flags, two zeros) and a body of fields. A reader skips and
//! counts what it does not know: frame types, fields, kinds of claims. What it knows must be exactly right.

mod frame;
pub mod item;
pub mod numbers;
mod reader;
mod tlv;

use serde::Serialize;

pub use frame::{Ask, Batch, Code, Frame, Hello, Keepalive, Notice, Outcome, Refusal, Reply};
pub use item::{Builder, Change, Item, KINDS, decode_item, since};

pub use numbers::{field, flag, frame_type, lane, outcome, refusal};
pub use reader::Reader;
use tlv::{Fields, Writer};

use crate::claim::{Lane, MAX_NAME};

/// The oldest version that is understood. It has no persistence entries, operators' words, ASK and REPLY.
pub const LOWEST_VERSION: u16 = 1;
/// The newest version that is understood.
pub const HIGHEST_VERSION: u16 = 2;
/// Octets of a frame's header.
pub const HEADER: usize = 8;
/// Largest body of a frame.
pub const MAX_BODY: usize = 65_536;
/// Largest body before the HELLO of the other side was accepted.
pub const MAX_FIRST_BODY: usize = 4_096;
/// Body at which a batch of claims is closed, so that others need not wait long behind it.
pub const BATCH_BODY: usize = 16_384;
/// Largest claim: one item of a batch.
pub const MAX_CLAIM: usize = 16_384;
/// Most cells in a REPLY.
pub const MAX_CELLS: usize = 16;
/// Longest text of a NOTICE, in octets.
pub const MAX_NOTICE: usize = 512;

/// Why octets are no frame. The connection they came by is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, thiserror::Error)]
pub enum Malformed {
    /// A body longer than allowed.
    #[error("a frame is longer than allowed")]
    TooLong,
    /// A field runs over the end of its body.
    #[error("a field runs over the end of its body")]
    Field,
    /// A value has the wrong length, is no UTF-8, or is out of range.
    #[error("a field's value is wrong")]
    Value,
    /// A field that must be there is not.
    #[error("a field is missing")]
    Missing,
    /// An unknown frame that must not be skipped.
    #[error("an unknown frame that must not be skipped")]
    Critical,
}

/// What a reader passed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Frames of unknown types.
    pub frames: u64,
    /// Fields with unknown ids.
    pub fields: u64,
    /// Claims of unknown kinds.
    pub kinds: u64,
    /// Claims that are malformed.
    pub malformed: u64,
    /// Claims that are too large.
    pub oversize: u64,
}

impl Skipped {
    /// Adds `other`.
    pub fn add(&mut self, other: Self) {
        let Self { frames, fields, kinds, malformed, oversize } = other;
        self.frames += frames;
        self.fields += fields;
        self.kinds += kinds;
        self.malformed += malformed;
        self.oversize += oversize;
    }
}

/// A frame and what was passed over in it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decoded {
    /// The frame.
    pub frame: Frame,
    /// What it held that this version does not know.
    pub skipped: Skipped,
    /// Octets it took, with its header.
    pub octets: usize,
}

/// Decodes one whole frame, header and body.
pub fn decode(octets: &[u8]) -> Result<Decoded, Malformed> {
    let (header, body) = octets.split_first_chunk::<HEADER>().ok_or(Malformed::Field)?;
    let (kind, flags) = (header[4], header[5]);
    let mut skipped = Skipped::default();
    let frame = match kind {
        frame_type::HELLO => Frame::Hello(decode_hello(body, &mut skipped)?),
        frame_type::CLAIMS => Frame::Claims(decode_batch(flags, body, &mut skipped)?),
        frame_type::RESYNC => Frame::Resync(decode_resync(body, &mut skipped)?),
        frame_type::ASK => Frame::Ask(decode_ask(body, &mut skipped)?),
        frame_type::REPLY => Frame::Reply(decode_reply(body, &mut skipped)?),
        frame_type::KEEPALIVE => Frame::Keepalive(decode_keepalive(body, &mut skipped)?),
        frame_type::NOTICE => Frame::Notice(decode_notice(body, &mut skipped)?),
        _ if flags & flag::CRITICAL != 0 => return Err(Malformed::Critical),
        _ => {
            skipped.frames += 1;
            Frame::Unknown(kind)
        }
    };
    Ok(Decoded { frame, skipped, octets: octets.len() })
}

fn decode_hello(body: &[u8], skipped: &mut Skipped) -> Result<Hello, Malformed> {
    let (mut lowest, mut highest, mut node, mut site, mut epoch) = (None, None, None, None, None);
    let (mut config, mut hold_ms, mut claims_per_s, mut bytes_per_s, mut keys) =
        (None, None, None, None, None);
    for field in Fields(body) {
        let field = field?;
        match field.id {
            field::hello::LOWEST => lowest = Some(field.u16()?),
            field::hello::HIGHEST => highest = Some(field.u16()?),
            field::hello::NODE => node = Some(field.text(MAX_NAME)?),
            field::hello::SITE => site = Some(field.text(MAX_NAME)?),
            field::hello::EPOCH => epoch = Some(field.u64()?),
            field::hello::CONFIG => config = Some(field.text(MAX_NAME)?),
            field::hello::HOLD_MS => hold_ms = Some(field.u32()?),
            field::hello::CLAIMS_PER_S => claims_per_s = Some(field.u32()?),
            field::hello::BYTES_PER_S => bytes_per_s = Some(field.u32()?),
            field::hello::KEYS => keys = Some(field.u32()?),
            _ => skipped.fields += 1,
        }
    }
    let missing = Malformed::Missing;
    Ok(Hello {
        lowest: lowest.ok_or(missing)?,
        highest: highest.ok_or(missing)?,
        node: node.ok_or(missing)?,
        site: site.ok_or(missing)?,
        epoch: epoch.ok_or(missing)?,
        config: config.unwrap_or_default(),
        hold_ms: hold_ms.ok_or(missing)?,
        claims_per_s: claims_per_s.unwrap_or(u32::MAX),
        bytes_per_s: bytes_per_s.unwrap_or(u32::MAX),
        keys: keys.unwrap_or(u32::MAX),
    })
}

fn decode_lane(number: u8) -> Result<Lane, Malformed> {
    match number {
        lane::URGENT => Ok(Lane::Urgent),
        lane::BULK => Ok(Lane::Bulk),
        _ => Err(Malformed::Value),
    }
}

fn lane_number(lane: Lane) -> u8 {
    match lane {
        Lane::Urgent => lane::URGENT,
        Lane::Bulk => lane::BULK,
    }
}

fn decode_batch(flags: u8, body: &[u8], skipped: &mut Skipped) -> Result<Batch, Malformed> {
    let (mut lane, mut number, mut items) = (None, None, Vec::new());
    for field in Fields(body) {
        let field = field?;
        match field.id {
            field::claims::LANE => lane = Some(decode_lane(field.u8()?)?),
            field::claims::NUMBER => number = Some(field.u64()?),
            field::claims::ITEM => items.extend(decode_item(field.octets(), skipped)),
            _ => skipped.fields += 1,
        }
    }
    let (is_begin, is_end) = (flags & flag::SYNC_BEGIN != 0, flags & flag::SYNC_END != 0);
    Ok(Batch {
        lane: lane.ok_or(Malformed::Missing)?,
        number: number.ok_or(Malformed::Missing)?,
        is_sync: flags & flag::SYNC != 0,
        is_begin,
        is_end,
        items,
    })
}

fn decode_resync(body: &[u8], skipped: &mut Skipped) -> Result<Lane, Malformed> {
    let mut lane = None;
    for field in Fields(body) {
        let field = field?;
        match field.id {
            field::resync::LANE => lane = Some(decode_lane(field.u8()?)?),
            _ => skipped.fields += 1,
        }
    }
    lane.ok_or(Malformed::Missing)
}

fn decode_ask(body: &[u8], skipped: &mut Skipped) -> Result<Ask, Malformed> {
    let (mut nonce, mut prefix, mut address, mut deadline_ms) = (None, None, None, None);
    for field in Fields(body) {
        let field = field?;
        match field.id {
            field::ask::NONCE => nonce = Some(field.u64()?),
            field::ask::PREFIX => prefix = Some(field.prefix()?),
            field::ask::ADDRESS => address = Some(field.address()?),
            field::ask::DEADLINE_MS => deadline_ms = Some(field.u32()?),
            _ => skipped.fields += 1,
        }
    }
    let missing = Malformed::Missing;
    Ok(Ask {
        nonce: nonce.ok_or(missing)?,
        prefix: prefix.ok_or(missing)?,
        address: address.ok_or(missing)?,
        deadline_ms: deadline_ms.ok_or(missing)?,
    })
}

fn decode_reply(body: &[u8], skipped: &mut Skipped) -> Result<Reply, Malformed> {
    let (mut nonce, mut number, mut refusal, mut cells) = (None, None, 0, Vec::new());
    for field in Fields(body) {
        let field = field?;
        match field.id {
            field::reply::NONCE => nonce = Some(field.u64()?),
            field::reply::OUTCOME => number = Some(field.u8()?),
            field::reply::REFUSAL => refusal = field.u8()?,
            field::reply::CELL if cells.len() == MAX_CELLS => skipped.oversize += 1,
            field::reply::CELL => match item::decode_cell(field.octets(), skipped) {
                Ok(cell) => cells.push(cell),
                Err(_) => skipped.malformed += 1,
            },
            _ => skipped.fields += 1,
        }
    }
    let outcome = match number.ok_or(Malformed::Missing)? {
        outcome::MEASURED => Outcome::Measured,
        outcome::KNOWN => Outcome::Known,
        outcome::SILENT => Outcome::Silent,
        // an outcome of a later version helps as little as a refusal
        _ => Outcome::Refused(Refusal::of(refusal)),
    };
    Ok(Reply { nonce: nonce.ok_or(Malformed::Missing)?, outcome, cells })
}

fn decode_keepalive(body: &[u8], skipped: &mut Skipped) -> Result<Keepalive, Malformed> {
    let mut keepalive = Keepalive::default();
    for field in Fields(body) {
        let field = field?;
        match field.id {
            field::keepalive::STAMP => keepalive.stamp = field.u64()?,
            field::keepalive::ECHO => keepalive.echo = field.u64()?,
            field::keepalive::DELAY_MS => keepalive.delay_ms = field.u32()?,
            _ => skipped.fields += 1,
        }
    }
    Ok(keepalive)
}

fn decode_notice(body: &[u8], skipped: &mut Skipped) -> Result<Notice, Malformed> {
    let (mut code, mut text) = (None, String::new());
    for field in Fields(body) {
        let field = field?;
        match field.id {
            field::notice::CODE => code = Some(field.u16()?),
            field::notice::TEXT => text = field.text(MAX_NOTICE)?,
            _ => skipped.fields += 1,
        }
    }
    Ok(Notice { code: Code::of(code.ok_or(Malformed::Missing)?), text })
}

impl Frame {
    /// The frame as octets.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Writer(vec![0; HEADER]);
        let kind = match self {
            Self::Hello(hello) => encode_hello(&mut body, hello),
            Self::Claims(batch) => return encode_batch(batch),
            Self::Resync(lane) => {
                body.u8(field::resync::LANE, lane_number(*lane));
                frame_type::RESYNC
            }
            Self::Ask(ask) => {
                body.u64(field::ask::NONCE, ask.nonce);
                body.prefix(field::ask::PREFIX, ask.prefix);
                body.address(field::ask::ADDRESS, ask.address);
                body.u32(field::ask::DEADLINE_MS, ask.deadline_ms);
                frame_type::ASK
            }
            Self::Reply(reply) => encode_reply(&mut body, reply),
            Self::Keepalive(keepalive) => {
                body.u64(field::keepalive::STAMP, keepalive.stamp);
                body.u64(field::keepalive::ECHO, keepalive.echo);
                body.u32(field::keepalive::DELAY_MS, keepalive.delay_ms);
                frame_type::KEEPALIVE
            }
            Self::Notice(notice) => {
                body.u16(field::notice::CODE, notice.code.number());
                body.cut_text(field::notice::TEXT, &notice.text, MAX_NOTICE);
                frame_type::NOTICE
            }
            Self::Unknown(kind) => *kind,
        };
        finish(body.0, kind, 0)
    }
}

/// Writes the header into the first octets of `frame`.
fn finish(mut frame: Vec<u8>, kind: u8, flags: u8) -> Vec<u8> {
    let length = u32::try_from(frame.len() - HEADER).unwrap_or(u32::MAX);
    if let Some(header) = frame.first_chunk_mut::<HEADER>() {
        header[..4].copy_from_slice(&length.to_be_bytes());
        header[4..].copy_from_slice(&[kind, flags, 0, 0]);
    }
    frame
}

fn encode_hello(body: &mut Writer, hello: &Hello) -> u8 {
    let Hello { lowest, highest, node, site, epoch, config, hold_ms, claims_per_s, bytes_per_s, keys } =
        hello;
    body.u16(field::hello::LOWEST, *lowest);
    body.u16(field::hello::HIGHEST, *highest);
    body.text(field::hello::NODE, node);
    body.text(field::hello::SITE, site);
    body.u64(field::hello::EPOCH, *epoch);
    body.text(field::hello::CONFIG, config);
    body.u32(field::hello::HOLD_MS, *hold_ms);
    body.u32(field::hello::CLAIMS_PER_S, *claims_per_s);
    body.u32(field::hello::BYTES_PER_S, *bytes_per_s);
    body.u32(field::hello::KEYS, *keys);
    frame_type::HELLO
}

fn encode_reply(body: &mut Writer, reply: &Reply) -> u8 {
    body.u64(field::reply::NONCE, reply.nonce);
    let (number, refusal) = match reply.outcome {
        Outcome::Measured => (outcome::MEASURED, None),
        Outcome::Known => (outcome::KNOWN, None),
        Outcome::Silent | Outcome::TimedOut => (outcome::SILENT, None),
        Outcome::Refused(refusal) => (outcome::REFUSED, Some(refusal.number())),
    };
    body.u8(field::reply::OUTCOME, number);
    if let Some(refusal) = refusal {
        body.u8(field::reply::REFUSAL, refusal);
    }
    for cell in reply.cells.iter().take(MAX_CELLS) {
        body.octets(field::reply::CELL, &item::encode_cell(cell));
    }
    frame_type::REPLY
}

fn encode_batch(batch: &Batch) -> Vec<u8> {
    let mut builder = Builder::new(batch.lane, batch.number);
    for item in &batch.items {
        builder.push(item);
    }
    builder.finish(batch.is_sync, batch.is_begin, batch.is_end)
}
