//! What the server says of itself: class CH (RFC 4892).

use super::{Answered, Options};
use crate::rrtype::RrType;
use crate::wire::write::Writer;
use crate::wire::{HEADER, Rcode};

/// Longest text sent; a character string holds no more.
const TEXT_MAX: usize = 255;

/// Answers TXT (or ANY) for the names that have a value; everything else is refused.
pub(super) fn answer(options: &Options, lower: &[u8], qtype: RrType, writer: &mut Writer<'_>) -> Answered {
    let text = match lower {
        b"\x07version\x04bind\x00" | b"\x07version\x06server\x00" => options.version_bind.as_deref(),
        b"\x02id\x06server\x00" | b"\x08hostname\x04bind\x00" => options.id_server.as_deref(),
        _ => None,
    };
    let Some(text) = text.filter(|_| matches!(qtype, RrType::TXT | RrType::ANY)) else {
        return Answered::error(Rcode::REFUSED, None);
    };
    let text = text.as_bytes();
    let text = text.get(..TEXT_MAX).unwrap_or(text);
    // type TXT, class CH, TTL, data length, one character string
    let mut record = [0; 11 + TEXT_MAX];
    let len = text.len() as u16 + 1;
    let [l1, l0] = len.to_be_bytes();
    let head = [0, 16, 0, 3, 0, 0, 0, 0, l1, l0, text.len() as u8];
    if let Some((start, rest)) = record.split_first_chunk_mut::<11>() {
        *start = head;
        if let Some(place) = rest.get_mut(..text.len()) {
            place.copy_from_slice(text);
        }
    }
    writer.record(HEADER, record.get(..11 + text.len()).unwrap_or_default(), 0);
    Answered { is_authoritative: true, ..Answered::error(Rcode::NOERROR, None) }
}
