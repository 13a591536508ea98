//! Fuzz targets as plain functions: any octets in, no panic, no hang. The corpora are in `dns/fuzz/corpus/`.

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
