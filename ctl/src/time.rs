//! Times for people, and durations as people write them.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970.
pub(crate) fn now_unix() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs())
}

/// A length of time with its two largest units: `3 h 2 min`.
pub(crate) fn length(seconds: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3600, "h"), (60, "min"), (1, "s")];
    let Some(at) = UNITS.iter().position(|(size, _)| seconds >= *size) else { return "0 s".into() };
    let (size, unit) = UNITS[at];
    let first = format!("{} {unit}", seconds / size);
    match UNITS.get(at + 1) {
        Some((next, unit)) if seconds % size >= *next => format!("{first} {} {unit}", seconds % size / next),
        Some(_) | None => first,
    }
}

/// How long since: `3 h 2 min`.
pub(crate) fn age(unix: u64) -> String {
    length(now_unix().saturating_sub(unix))
}

/// How long ago: `3 h 2 min ago`.
pub(crate) fn ago(unix: u64) -> String {
    format!("{} ago", age(unix))
}

/// How long until.
pub(crate) fn until(unix: u64) -> String {
    format!("for {} more", length(unix.saturating_sub(now_unix())))
}

/// `90`, `30s`, `15m`, `2h`, `1d` or a sum of them, as seconds.
pub(crate) fn parse_seconds(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no length of time: write 90, 30s, 15m, 2h, 1d or 1h30m");
    if let Ok(seconds) = text.parse() {
        return Ok(seconds);
    }
    let (mut total, mut number) = (0_u64, String::new());
    for c in text.chars() {
        if c.is_ascii_digit() {
            number.push(c);
            continue;
        }
        let size = match c {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            _ => return Err(wrong()),
        };
        let count: u64 = number.parse().map_err(|_| wrong())?;
        total = count.checked_mul(size).and_then(|part| total.checked_add(part)).ok_or_else(wrong)?;
        number.clear();
    }
    if number.is_empty() && !text.is_empty() { Ok(total) } else { Err(wrong()) }
}

/// `12ms`, `1.5ms` or `0.2s`, as microseconds.
pub(crate) fn parse_micros(text: &str) -> Result<u32, String> {
    let wrong = || format!("{text:?} is no round-trip time: write 12ms, 1.5ms or 0.2s");
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
    let (number, unit) = text.split_at(at);
    let size = match unit {
        "us" | "µs" => 1.0,
        "ms" => 1_000.0,
        "s" => 1_000_000.0,
        _ => return Err(wrong()),
    };
    let micros = number.parse::<f64>().map_err(|_| wrong())? * size;
    if micros.is_finite() && (0.0..=f64::from(u32::MAX)).contains(&micros) {
        Ok(micros.round() as u32)
    } else {
        Err(wrong())
    }
}

/// Microseconds as people read them: `12.3 ms`.
pub(crate) fn millis(us: u32) -> String {
    format!("{}.{} ms", us / 1000, us % 1000 / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths() {
        for (seconds, text) in
            [(0, "0 s"), (59, "59 s"), (60, "1 min"), (3725, "1 h 2 min"), (3605, "1 h"), (90_000, "1 d 1 h")]
        {
            assert_eq!(length(seconds), text);
        }
        for (text, seconds) in [("90", 90), ("30s", 30), ("1h30m", 5400), ("1d", 86_400), ("0s", 0)] {
            assert_eq!(parse_seconds(text), Ok(seconds), "{text}");
        }
        for (text, micros) in [("12ms", 12_000), ("1.5ms", 1_500), ("800us", 800), ("1s", 1_000_000)] {
            assert_eq!(parse_micros(text), Ok(micros), "{text}");
        }
        for text in ["", "12", "ms", "1.2.3ms", "-1ms", "9999999s", "5m", "NaNms"] {
            assert!(parse_micros(text).is_err(), "{text}");
        }
        for text in ["", "x", "5x", "m", "1h30", "99999999999999999999d", "-1"] {
            assert!(parse_seconds(text).is_err(), "{text}");
        }
    }
}
