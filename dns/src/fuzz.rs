//! Fuzz targets as plain functions: any octets in, no panic, no hang. The corpora are in `dns/fuzz/corpus/`.

mod world;

use crate::text::{Limits, Loaded, Source, load};

/// Loads `data` as a zone file that includes itself under every name it asks for.
/// Whatever loads is a zone that loads again after it was written out.
pub fn fuzz_zone_text(data: &[u8]) {
    let limits =
        Limits { include_depth: 3, includes: 20, octets: 1 << 20, generated: 1000, ..Limits::default() };
    let Ok(zone) = load(&mut Echo(data, 0), "fuzz.zone", &limits) else { return };
    let text = written(&zone);
    let again = load(&mut Echo(text.as_bytes(), 0), "fuzz.zone", &limits);
    match again {
        Ok(again) => assert_eq!(shape(&again), shape(&zone), "the zone changes when written: {text}"),
        Err(faults) => panic!("written out it does not load: {faults:?}\n{text}"),
    }
}

/// The same text for every file, each under a name of its own.
struct Echo<'d>(&'d [u8], u32);

impl Source for Echo<'_> {
    fn read(&mut self, path: &str, _: Option<&str>) -> Result<(String, Vec<u8>), String> {
        self.1 += 1;
        Ok((format!("{path} {}", self.1), self.0.to_vec()))
    }
}

/// The zone with its data in the generic form.
fn written(zone: &Loaded) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    for record in &zone.records {
        let _ = write!(
            text,
            "{} {} TYPE{} \\# {} ",
            record.owner,
            record.ttl,
            record.rtype.0,
            record.rdata.len()
        );
        for octet in &record.rdata {
            let _ = write!(text, "{octet:02x}");
        }
        text.push('\n');
    }
    text
}

fn shape(zone: &Loaded) -> Vec<(&[u8], u32, u16, &[u8])> {
    let records = zone.records.iter();
    records.map(|record| (record.owner.as_wire(), record.ttl, record.rtype.0, &*record.rdata)).collect()
}

/// Answers `data` as a packet of a small fixed world, over both transports.
///
/// The first octet chooses the settings and the source; the rest is the packet. A reply echoes the id and the question,
/// keeps its limit, decodes by hickory-proto, and is what `explain` says it is.
pub fn fuzz_packet(data: &[u8]) {
    use crate::respond::{Now, Query, Recorded, Replies, Transport, Worker, respond, respond_recorded};
    let Some((&settings, bytes)) = data.split_first() else { return };
    let Some(snapshot) = world::snapshot(settings) else { panic!("the world does not load") };
    let source = match settings & 1 {
        0 => ([192, 0, 2, 53], 4000).into(),
        _ => ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x53], 4000).into(),
    };
    let mut worker = Worker::new(u64::from(settings));
    let mut replies = Replies::new(2, 65_535);
    let now = Now { mono_ms: 1, unix_s: 1_700_000_000 };
    let batch = [Transport::Tcp, Transport::Udp].map(|transport| Query { bytes, source, transport });
    let mut recorded = Recorded { turn: None, entropy: worker.next_entropy(), decisions: Vec::new() };
    let explained = batch.first().and_then(|query| respond_recorded(snapshot, query, now, &mut recorded));
    respond(&mut worker, snapshot, &batch, &mut replies, now);
    assert_eq!(replies.get(0), explained.as_deref(), "explain says something else");
    for (slot, limit) in [(0, 65_535), (1, 1232)] {
        let Some(reply) = replies.get(slot) else {
            let is_response = bytes.get(2).is_some_and(|flags| flags & 0x80 != 0);
            assert!(bytes.len() < 12 || is_response, "a query without a reply");
            continue;
        };
        assert!((12..=limit).contains(&reply.len()), "{} octets", reply.len());
        assert_eq!(reply.get(..2), bytes.get(..2), "the id");
        assert!(reply.get(2).is_some_and(|flags| flags & 0x80 != 0), "no response");
        check_reply(bytes, reply);
    }
}

/// What holds for every reply.
fn check_reply(query: &[u8], reply: &[u8]) {
    use hickory_proto::op::{Message, ResponseCode};
    // a name of the query may be one that hickory-proto does not read back, but its records must be there
    match Message::from_vec(reply) {
        Ok(message) => {
            assert!(message.queries.len() <= 1);
            let has_question = !message.queries.is_empty();
            assert!(!has_question || reply.get(12..16) == query.get(12..16), "the question");
            let is_error = message.metadata.response_code == ResponseCode::FormErr;
            assert!(!is_error || message.answers.is_empty(), "an answer beside FORMERR");
            // behind a chain of aliases a referral may lack only glue that must be there (RFC 9471)
            let is_whole = message.answers.is_empty() || !message.authorities.is_empty();
            assert!(!message.metadata.truncation || is_whole, "a truncated RRset");
            assert!(!message.metadata.recursion_available && !message.metadata.authentic_data);
        }
        // nor does it know a client subnet of no family, which is echoed as it came (case E05)
        Err(error) if error.to_string().contains("unknown address family: 0x0") => {}
        Err(error) => panic!("the reply does not decode: {error}: {reply:02x?}"),
    }
}
