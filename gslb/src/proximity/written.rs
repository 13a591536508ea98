//! Round-trip times that operators write at run time (PX2), with author, reason and end (T7). They outlive the process.

use super::desk::Desk;
use crate::clock;
use crate::state::{Read, StateDir};
use portolan_api::{ApiError, StaticEntry, StaticRequest, StaticResult};
use portolan_balance::proximity::{PointId, Points, Prefix};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use tracing::info;

/// Most entries.
const MOST: usize = 10_000;
/// Longest text of an author or a reason.
const TEXT_MAX: usize = 500;
/// Longest time that may be given.
const TTL_MAX_S: u64 = 10 * 365 * 86_400;
/// Range of a round-trip time, as in the config.
const RTT_US: std::ops::RangeInclusive<u32> = 1_000..=10_000_000;

/// By prefix, site and link.
type Place = (Prefix, String, Option<String>);

/// What operators wrote, in memory and on disk.
pub(super) struct Written {
    state: Option<StateDir>,
    entries: BTreeMap<Place, Entry>,
    is_changed: bool,
}

struct Entry {
    said: StaticEntry,
    /// On the monotonic clock: a wall clock that jumps ends nothing early (T11).
    ends: Option<Instant>,
}

impl Written {
    /// What is saved; nothing where the file is broken.
    pub(super) fn open(state: Option<StateDir>) -> Self {
        let (now, unix) = (Instant::now(), clock::unix_s());
        let saved = match state.as_ref().map(StateDir::statics) {
            Some(Read::Good(saved)) => saved,
            Some(Read::Missing | Read::Broken) | None => Vec::new(),
        };
        let entries = saved.into_iter().take(MOST).filter_map(|said| {
            let prefix = prefix(&said.prefix).ok()?;
            let left = said.until_unix.map(|until| Duration::from_secs(until.saturating_sub(unix)));
            let ends = left.and_then(|left| now.checked_add(left));
            Some(((prefix, said.site.clone(), said.link.clone()), Entry { said, ends }))
        });
        let mut written = Self { entries: entries.collect(), state, is_changed: false };
        written.expire();
        written
    }

    /// All of them.
    pub(super) fn entries(&self) -> impl Iterator<Item = &StaticEntry> {
        self.entries.values().map(|entry| &entry.said)
    }

    /// Those whose place the config knows.
    pub(super) fn by_point(&self, points: &Points) -> BTreeMap<(Prefix, PointId), u32> {
        let one = |((prefix, site, link), entry): (&Place, &Entry)| {
            Some(((*prefix, points.find(site, link.as_deref())?), entry.said.rtt_us))
        };
        self.entries.iter().filter_map(one).collect()
    }

    /// The one for this prefix and place.
    pub(super) fn get(&self, place: &Place) -> Option<&StaticEntry> {
        self.entries.get(place).map(|entry| &entry.said)
    }

    /// Forgets what is over; true where something was.
    pub(super) fn expire(&mut self) -> bool {
        let now = Instant::now();
        let before = self.entries.len();
        self.entries.retain(|(prefix, site, _), entry| {
            let is_live = entry.ends.is_none_or(|ends| ends > now);
            if !is_live {
                info!(%prefix, site, "a written round-trip time ended");
            }
            is_live
        });
        let is_over = self.entries.len() < before;
        if is_over {
            self.is_changed = true;
            self.save();
        }
        is_over
    }

    /// Saves; what cannot be saved is tried again with the next news. True where the file says all.
    fn save(&mut self) -> bool {
        if self.is_changed {
            let saved = self.state.as_ref().is_none_or(|state| state.save_statics(self.entries().cloned()));
            self.is_changed = !saved;
        }
        !self.is_changed
    }
}

impl Desk {
    /// Does what an operator says.
    pub(super) fn write(&mut self, request: &StaticRequest) -> Result<StaticResult, ApiError> {
        let StaticRequest { prefix: text, site, link, rtt_us, author, reason, ttl_s } = request;
        check(author, reason, *ttl_s)?;
        let prefix = prefix(text)?;
        let Some(point) = self.table.points().find(site, link.as_deref()) else {
            let names: Vec<String> =
                self.table.points().iter().map(|(id, _)| self.table.points().name(id)).collect();
            let place = link.as_ref().map_or_else(|| site.clone(), |link| format!("{site}/{link}"));
            let remedy = format!("the config has {}", names.join(", "));
            return Err(ApiError::not_found(format!("no site or link is called {place}"), remedy));
        };
        let longest = if prefix.is_v6() { self.lengths().v6 } else { self.lengths().v4 };
        if prefix.length() > longest {
            let error = format!("{prefix} is longer than the /{longest} that makes a client");
            return Err(ApiError::bad_request(error, "give the prefix that it lies in"));
        }
        let place = (prefix, site.clone(), link.clone());
        let before = self.written.get(&place).cloned();
        match rtt_us {
            Some(rtt_us) => {
                if !RTT_US.contains(rtt_us) {
                    let error = format!("a round-trip time of {rtt_us} µs is outside 1 ms to 10 s");
                    return Err(ApiError::bad_request(error, "write it like 12ms"));
                }
                if self.written.entries.len() >= MOST && before.is_none() {
                    let error = format!("{MOST} round-trip times are written already");
                    return Err(ApiError::bad_request(error, "`portolan proximity unset` takes one away"));
                }
                let (now, at_unix) = (Instant::now(), clock::unix_s());
                let said = StaticEntry {
                    prefix: prefix.to_string(),
                    site: site.clone(),
                    link: link.clone(),
                    rtt_us: *rtt_us,
                    author: author.clone(),
                    reason: reason.clone(),
                    at_unix,
                    until_unix: ttl_s.map(|ttl| at_unix.saturating_add(ttl)),
                };
                let ends = ttl_s.and_then(|ttl| now.checked_add(Duration::from_secs(ttl)));
                self.written.entries.insert(place, Entry { said, ends });
            }
            None if self.written.entries.remove(&place).is_none() => {
                let name = self.table.points().name(point);
                let error = format!("no operator wrote a round-trip time from {name} to {prefix}");
                let remedy = if self.fixed.contains_key(&(prefix, point)) {
                    "this one is in the config: change it there, and reload"
                } else {
                    "`portolan proximity show` lists them"
                };
                return Err(ApiError::not_found(error, remedy));
            }
            None => {}
        }
        info!(%prefix, site, link, rtt_us, author, reason, ttl_s, "a round-trip time was written");
        self.written.is_changed = true;
        let mut warnings = Vec::new();
        if !self.written.save() {
            warnings
                .push("this could not be saved: a restart would not know it; the log has the cause".into());
        }
        if !self.is_used {
            warnings.push("no service goes by distance: `proximity` is in no `choose`".into());
        }
        self.write_statics();
        Ok(StaticResult {
            prefix: prefix.to_string(),
            point: self.table.points().name(point),
            rtt_us: *rtt_us,
            before_us: before.map(|before| before.rtt_us),
            warnings,
        })
    }
}

fn check(author: &str, reason: &str, ttl_s: Option<u64>) -> Result<(), ApiError> {
    for (what, text) in [("author", author), ("reason", reason)] {
        if text.len() > TEXT_MAX || text.contains(char::is_control) {
            let remedy = format!("give at most {TEXT_MAX} characters without control characters");
            return Err(ApiError::bad_request(format!("the {what} is too long or strange"), remedy));
        }
    }
    if let Some(ttl) = ttl_s.filter(|ttl| !(1..=TTL_MAX_S).contains(ttl)) {
        let error = format!("a ttl of {ttl} s is outside 1 to {TTL_MAX_S}");
        return Err(ApiError::bad_request(error, "leave the ttl out for one without an end"));
    }
    Ok(())
}

/// A prefix as people write it; an address alone is a whole one.
pub(super) fn prefix(text: &str) -> Result<Prefix, ApiError> {
    let wrong = || {
        ApiError::bad_request(format!("{text:?} is no prefix"), "write it like 192.0.2.0/24 or 2001:db8::/48")
    };
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, length.parse::<u8>().map_err(|_| wrong())?),
        None => (text, u8::MAX),
    };
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    if length > most && text.contains('/') { Err(wrong()) } else { Ok(Prefix::new(address, length)) }
}
