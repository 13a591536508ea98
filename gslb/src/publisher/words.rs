//! Operators' words: forced states and members that wait for one (T7, T16, H10).

use crate::clock;
use crate::roster::{MemberAt, Roster};
use crate::state::{Read, StateDir, Waiting, Words};
use portolan_api::{ApiError, ForceAction, ForceRequest, ForcedEntry};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// Longest text of an author or a reason.
const TEXT_MAX: usize = 500;
/// Longest time a forced state may be given.
const TTL_MAX_S: u64 = 10 * 365 * 86_400;

/// What operators said, in memory and on disk.
#[derive(Debug)]
pub(super) struct WordBook {
    state: Option<StateDir>,
    /// By service and member.
    said: BTreeMap<(String, String), Word>,
    waiting: BTreeSet<Waiting>,
    /// Whether the file does not say this yet.
    is_changed: bool,
}

#[derive(Debug)]
struct Word {
    entry: ForcedEntry,
    /// On the monotonic clock: a wall clock that jumps ends nothing early (T11).
    ends: Option<Instant>,
}

impl WordBook {
    /// The saved words; none where the file is broken.
    pub(super) fn open(state: Option<StateDir>) -> Self {
        let mut book = Self { state, said: BTreeMap::new(), waiting: BTreeSet::new(), is_changed: false };
        if let Some(Read::Good(words)) = book.state.as_ref().map(StateDir::words) {
            book.replace(words);
        }
        book
    }

    /// Reads the file again: what is in it holds, a missing one clears all, a broken one changes nothing (O05).
    pub(super) fn reload(&mut self) {
        // a disk that was full: the file is older than what was said since (T7)
        self.save_if_changed();
        if self.is_changed {
            warn!("the forced states in force are not in their file; they stay");
            return;
        }
        match self.state.as_ref().map(StateDir::words) {
            Some(Read::Good(words)) => self.replace(words),
            Some(Read::Missing) => {
                if !self.said.is_empty() {
                    info!(count = self.said.len(), "the file of forced states is gone: all are cleared");
                }
                self.replace(Words::default());
            }
            Some(Read::Broken) => warn!("the forced states in force stay"),
            None => {}
        }
    }

    fn replace(&mut self, words: Words) {
        let (now, unix) = (Instant::now(), clock::unix_s());
        let live = words.forced.into_iter().filter(|entry| entry.action != ForceAction::Enable);
        self.said = live
            .map(|entry| {
                let left = entry.until_unix.map(|until| Duration::from_secs(until.saturating_sub(unix)));
                let ends = left.and_then(|left| now.checked_add(left));
                ((entry.service.clone(), entry.member.clone()), Word { entry, ends })
            })
            .collect();
        self.waiting = words.waiting.into_iter().collect();
        self.expire(now);
    }

    /// The forced state of a member.
    pub(super) fn of(&self, service: &str, member: &str) -> Option<&ForcedEntry> {
        self.said.get(&(service.to_owned(), member.to_owned())).map(|word| &word.entry)
    }

    /// All forced states.
    pub(super) fn entries(&self) -> Vec<ForcedEntry> {
        self.said.values().map(|word| word.entry.clone()).collect()
    }

    /// Whether a member waits for an operator.
    pub(super) fn is_waiting(&self, service: &str, member: &str) -> bool {
        self.waiting.contains(&Waiting { service: service.into(), member: member.into() })
    }

    /// A member failed that comes back only by an operator's word.
    pub(super) fn wait(&mut self, service: &str, member: &str) {
        if self.waiting.insert(Waiting { service: service.into(), member: member.into() }) {
            info!(service, member, "failed; it waits for `portolan enable`");
            self.is_changed = true;
        }
    }

    /// Notes what an operator says of members, and saves it. Returns warnings.
    pub(super) fn say(
        &mut self,
        roster: &Roster,
        members: &[MemberAt],
        request: &ForceRequest,
    ) -> Result<Vec<String>, ApiError> {
        for (what, text) in [("author", &request.author), ("reason", &request.reason)] {
            if text.len() > TEXT_MAX || text.contains(char::is_control) {
                let remedy = format!("give at most {TEXT_MAX} characters without control characters");
                return Err(ApiError::bad_request(format!("the {what} is too long or strange"), remedy));
            }
        }
        if let Some(ttl) = request.ttl_s.filter(|ttl| !(1..=TTL_MAX_S).contains(ttl)) {
            let error = format!("a ttl of {ttl} s is outside 1 to {TTL_MAX_S}");
            return Err(ApiError::bad_request(error, "leave the ttl out for one without an end"));
        }
        let (now, at_unix) = (Instant::now(), clock::unix_s());
        let mut warnings = Vec::new();
        for (service, member) in members.iter().filter_map(|&at| roster.get(at)) {
            let who = (service.name.clone(), member.name.clone());
            if request.action == ForceAction::Enable {
                self.said.remove(&who);
                self.waiting.remove(&Waiting { service: who.0, member: who.1 });
                if member.is_disabled {
                    warnings.push(format!("{}/{} is disabled by the config", service.name, member.name));
                }
                continue;
            }
            let entry = ForcedEntry {
                service: who.0.clone(),
                member: who.1.clone(),
                action: request.action,
                author: request.author.clone(),
                reason: request.reason.clone(),
                at_unix,
                until_unix: request.ttl_s.map(|ttl| at_unix.saturating_add(ttl)),
            };
            let ends = request.ttl_s.and_then(|ttl| now.checked_add(Duration::from_secs(ttl)));
            self.said.insert(who, Word { entry, ends });
        }
        self.is_changed = true;
        self.save_if_changed();
        if self.is_changed {
            warnings
                .push("this could not be saved: a restart would not know it; the log has the cause".into());
        }
        Ok(warnings)
    }

    /// Takes what all nodes hold on a member, or that nothing does; whether that is news.
    pub(super) fn heed(&mut self, service: &str, member: &str, entry: Option<ForcedEntry>) -> bool {
        let who = (service.to_owned(), member.to_owned());
        let held = self.said.get(&who).map(|word| &word.entry);
        match (held, entry) {
            (None, None) => return false,
            (Some(held), Some(entry)) if is_same(held, &entry) => return false,
            (_, Some(entry)) => {
                let left = entry.until_unix.map(|until| until.saturating_sub(entry.at_unix));
                let ends = left.and_then(|left| Instant::now().checked_add(Duration::from_secs(left)));
                self.said.insert(who, Word { entry, ends });
            }
            (Some(_), None) => {
                self.said.remove(&who);
            }
        }
        self.is_changed = true;
        self.save_if_changed();
        true
    }

    /// Ends a member's wait for an operator; whether it waited.
    pub(super) fn resume(&mut self, service: &str, member: &str) -> bool {
        let waited = self.waiting.remove(&Waiting { service: service.into(), member: member.into() });
        self.is_changed |= waited;
        self.save_if_changed();
        waited
    }

    /// Forgets what is over. Returns about whom it was.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<(String, String)> {
        let mut over = Vec::new();
        self.said.retain(|who, word| {
            let is_live = word.ends.is_none_or(|ends| ends > now);
            if !is_live {
                info!(
                    service = who.0,
                    member = who.1,
                    action = word.entry.action.text(),
                    "a forced state ended"
                );
                over.push(who.clone());
            }
            is_live
        });
        if !over.is_empty() {
            self.is_changed = true;
            self.save_if_changed();
        }
        over
    }

    /// When forced states end.
    pub(super) fn ends(&self) -> impl Iterator<Item = Instant> {
        self.said.values().filter_map(|word| word.ends)
    }

    /// Saves when there is something new; what cannot be saved is tried again with the next news.
    pub(super) fn save_if_changed(&mut self) {
        if !self.is_changed {
            return;
        }
        let words = || Words { forced: self.entries(), waiting: self.waiting.iter().cloned().collect() };
        self.is_changed = self.state.as_ref().is_some_and(|state| !state.save_words(&words()));
    }
}

/// Whether both say the same. Their ends come from different clocks, and differ by the way.
fn is_same(held: &ForcedEntry, entry: &ForcedEntry) -> bool {
    let ends = match (held.until_unix, entry.until_unix) {
        (Some(held), Some(entry)) => held.abs_diff(entry) <= 2,
        (held, entry) => held == entry,
    };
    (held.action, &held.author, &held.reason) == (entry.action, &entry.author, &entry.reason) && ends
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roster::{RosterMember, RosterService};

    #[test]
    fn what_could_not_be_saved_outlives_a_reload() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(dir.path()).unwrap();
        let member = RosterMember { name: "ct".into(), ..RosterMember::default() };
        let service =
            RosterService { name: "www.".into(), members: vec![member], ..RosterService::default() };
        let roster = Roster { services: vec![service], ..Roster::default() };
        let at = [MemberAt { service: 0, member: 0 }];
        let drain = ForceRequest {
            target: "*".into(),
            action: ForceAction::Drain,
            author: "ops".into(),
            reason: String::new(),
            ttl_s: None,
        };
        let enable = ForceRequest { action: ForceAction::Enable, ..drain.clone() };
        // a folder in the way of the new file: as good as a full disk, also for root
        let in_the_way = dir.path().join("forced.new");
        let mut book = WordBook::open(Some(state));
        for (request, count) in [(&drain, 1), (&enable, 0), (&drain, 1)] {
            std::fs::create_dir(&in_the_way).unwrap();
            assert_eq!(book.say(&roster, &at, request).unwrap().len(), 1);
            book.reload();
            assert_eq!(book.entries().len(), count);
            std::fs::remove_dir(&in_the_way).unwrap();
            // the disk has room again
            book.reload();
            assert_eq!(book.entries().len(), count);
            assert_eq!(WordBook::open(book.state.clone()).entries().len(), count);
        }
        std::fs::remove_file(dir.path().join("forced.json")).unwrap();
        book.reload();
        assert!(book.entries().is_empty());
    }

    #[test]
    fn what_all_nodes_hold_is_news_once() {
        let mut book = WordBook::open(None);
        let entry = |until_unix| ForcedEntry {
            service: "www.".into(),
            member: "ct".into(),
            action: ForceAction::Drain,
            author: "ops".into(),
            reason: String::new(),
            at_unix: 100,
            until_unix,
        };
        for (heard, is_news) in [
            (None, false),
            (Some(entry(Some(200))), true),
            (Some(entry(Some(201))), false),
            (Some(entry(Some(300))), true),
            (Some(entry(None)), true),
            (None, true),
            (None, false),
        ] {
            assert_eq!(book.heed("www.", "ct", heard.clone()), is_news, "{heard:?}");
        }
        book.wait("www.", "ct");
        assert!(book.resume("www.", "ct") && !book.resume("www.", "ct"));
    }
}
