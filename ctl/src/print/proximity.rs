//! Distances of clients.

use super::columns;
use crate::Paint;
use crate::time::{length, millis};
use portolan_api::{ProximityPoint, ProximityShown, ProximityStatus, ProximityUsed, StaticResult};

/// What is known, and what a query would go by.
#[must_use]
pub fn proximity(it: &ProximityShown, paint: Paint) -> String {
    let mut text = it.used.as_ref().map_or_else(String::new, |used| self::used(used, paint));
    if it.points.is_empty() {
        if it.used.is_none() {
            text += "nothing is known\n";
        }
        return text;
    }
    let heads = ["PREFIX", "FROM", "RTT", "LOSS", "HOPS", "SAMPLES", "SOURCE", "TRUST", "AGE", "SCORE"]
        .map(str::to_owned);
    let rows: Vec<[String; 10]> = std::iter::once(heads).chain(it.points.iter().map(row)).collect();
    text +=
        &columns(&rows, |_, cell, first| if first == "PREFIX" { paint.dim(cell) } else { cell.to_owned() });
    if it.is_cut {
        text += &paint.dim(&format!("there are more: {} prefixes in all; --limit shows more\n", it.prefixes));
    }
    text
}

fn row(it: &ProximityPoint) -> [String; 10] {
    let by = match (&it.written, it.by_peer) {
        (Some(by), _) => format!("static, by {by}"),
        (None, true) => format!("{}, by a peer", it.source),
        (None, false) => it.source.clone(),
    };
    let is_written = it.written.is_some();
    let measured = |text: String| if is_written { "-".to_owned() } else { text };
    [
        it.prefix.clone(),
        place(it),
        millis(it.rtt_us),
        measured(format!("{}.{} %", it.loss_permille / 10, it.loss_permille % 10)),
        it.hops.map_or_else(|| "-".into(), |hops| hops.to_string()),
        measured(it.samples.to_string()),
        by,
        measured(format!("{}/255", it.confidence)),
        measured(length(it.age_s.into())),
        it.score_us.map_or_else(|| "-".into(), millis),
    ]
}

fn place(it: &ProximityPoint) -> String {
    it.link.as_ref().map_or_else(|| it.site.clone(), |link| format!("{}/{link}", it.site))
}

fn used(it: &ProximityUsed, paint: Paint) -> String {
    let mut text = format!("{}: {}\n", paint.bold(&it.address), it.why);
    if let Some(next) = &it.next {
        text += &format!("  next: {next}\n");
    }
    let rows: Vec<[String; 3]> = it
        .scores
        .iter()
        .map(|score| {
            let peer = if score.by_peer { ", by a peer" } else { "" };
            let guess = if score.is_guess { ", a guess to try only" } else { "" };
            let behind = if score.is_outranked { ", behind what the operator wrote" } else { "" };
            [score.point.clone(), millis(score.score_us), format!("{}{peer}{guess}{behind}", score.source)]
        })
        .collect();
    for line in columns(&rows, |_, cell, _| cell.to_owned()).lines() {
        text += &format!("  {line}\n");
    }
    text
}

/// What writing did.
#[must_use]
pub fn written(it: &StaticResult, paint: Paint) -> String {
    let before = it.before_us.map_or_else(String::new, |us| format!(" (it was {})", millis(us)));
    let mut text = match it.rtt_us {
        Some(us) => format!("{} is {} from {}{before}\n", it.prefix, millis(us), it.point),
        None => format!("{} from {}: measurements decide again{before}\n", it.prefix, it.point),
    };
    for warning in &it.warnings {
        text += &format!("{} {warning}\n", paint.warn("warning:"));
    }
    text
}

/// Everything, as CSV (RFC 4180).
#[must_use]
pub fn exported(points: &[ProximityPoint]) -> String {
    let mut text = String::from(
        "prefix,site,link,rtt_us,loss_permille,hops,samples,source,by_peer,confidence,age_s,score_us,written\n",
    );
    for it in points {
        let number = |number: Option<u32>| number.map_or_else(String::new, |number| number.to_string());
        let cells = [
            it.prefix.clone(),
            it.site.clone(),
            it.link.clone().unwrap_or_default(),
            it.rtt_us.to_string(),
            it.loss_permille.to_string(),
            number(it.hops.map(u32::from)),
            it.samples.to_string(),
            it.source.clone(),
            it.by_peer.to_string(),
            it.confidence.to_string(),
            it.age_s.to_string(),
            number(it.score_us),
            it.written.clone().unwrap_or_default(),
        ];
        text += &cells.map(|cell| quoted(&cell)).join(",");
        text.push('\n');
    }
    text
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

/// Measuring in the one look at the node.
pub(super) fn status(it: &ProximityStatus, paint: Paint) -> String {
    let statics = if it.statics > 0 { format!(", {} written", it.statics) } else { String::new() };
    let mut text =
        format!("clients   {} of {} prefixes from {} places{statics}\n", it.prefixes, it.most, it.points);
    let methods = it.methods.iter().map(|method| {
        let all = method.answered + method.lost;
        format!("{} {} of {all}", method.method, method.answered)
    });
    let methods: Vec<String> = methods.collect();
    if !methods.is_empty() {
        text += &format!("          answered: {}\n", methods.join(", "));
    }
    let probing = if it.probing {
        format!(
            "{} probes, {}.{}/s now, {} waiting",
            it.probes,
            it.probes_in_10_s / 10,
            it.probes_in_10_s % 10,
            it.waiting
        )
    } else {
        "no probes".into()
    };
    let asked = if it.solicited > 0 {
        format!(", {} asked to come by TCP, {} came", it.solicited, it.came)
    } else {
        String::new()
    };
    text += &format!("          {probing}{asked}\n");
    let refused: Vec<String> = it.refused.iter().map(|it| format!("{} {}", it.reason, it.count)).collect();
    if !refused.is_empty() {
        text += &format!("          not probed: {}\n", refused.join(", "));
    }
    if it.unsaved > 0 {
        text += &paint
            .bad(&format!("          could not be saved {} times; the log has the cause\n", it.unsaved));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_cells_are_quoted_where_they_must_be() {
        let point = ProximityPoint {
            prefix: "192.0.2.0/24".into(),
            site: "a".into(),
            written: Some("ops: \"line, leased\"".into()),
            ..ProximityPoint::default()
        };
        let text = exported(&[point]);
        assert!(
            text.ends_with("192.0.2.0/24,a,,0,0,,0,,false,0,0,,\"ops: \"\"line, leased\"\"\"\n"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 2);
    }
}
