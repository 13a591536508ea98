//! What comes from peers and goes to them: news, operators' words, and this node's claims.

use super::Publisher;
use crate::clock;
use crate::peers::hearsay::{Age, Hearsay, News};
use crate::peers::words::{self, RESUME_S, Target};
use crate::roster::{MemberAt, Roster};
use portolan_api::{ForceAction, ForceRequest, ForcedEntry};
use portolan_config::{Compiled, LearnedServer};
use portolan_peer::{Act, Claim, Word};
use std::time::Instant;
use tracing::info;

/// What was taken from peers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// News.
    pub count: u64,
    /// Microseconds until they were in force, summed over batches.
    pub took_us: u64,
}

impl Publisher {
    /// Takes what peers say. States are in force when this returns; whether members have changed, too.
    pub fn hear(&self, news: Vec<News>) -> bool {
        let begin = Instant::now();
        let mut ledger = self.lock();
        let count = news.len() as u64;
        let (changes, dirty) = ledger.hear(news);
        self.publish(&mut ledger, dirty);
        ledger.counted.count += count;
        ledger.counted.took_us += u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX);
        drop(ledger);
        self.wake.notify_one();
        if changes.is_structural || !changes.servers.is_empty() {
            self.heard.notify_one();
        }
        changes.is_structural
    }

    /// What was taken from peers since the start.
    #[must_use]
    pub fn news_counted(&self) -> Counted {
        self.lock().counted
    }

    /// The members that peers tell of.
    #[must_use]
    pub fn learned(&self) -> Vec<LearnedServer> {
        self.lock().hearsay.learned()
    }

    /// Looks at what was heard.
    pub fn hearsay<T>(&self, look: impl FnOnce(&Hearsay) -> T) -> T {
        look(&self.lock().hearsay)
    }

    /// Who has told of something.
    #[must_use]
    pub fn authors(&self) -> Vec<String> {
        self.lock().hearsay.authors().map(str::to_owned).collect()
    }

    /// Authors of whom nothing can be expected, and those that may come yet.
    pub fn lost(&self) -> impl Fn(&str) -> bool + use<> {
        let ages: std::collections::BTreeMap<String, Age> =
            self.lock().hearsay.counts().map(|(author, age, _)| (author.to_owned(), age)).collect();
        move |author: &str| ages.get(author).is_none_or(|age| *age == Age::Lost)
    }

    /// Takes up the words of an earlier process, and tells all nodes what is forced here and was never told.
    pub(crate) fn recall(&self, words: Vec<Word>) {
        self.line.recall(words);
        let forced = self.lock().words.entries();
        let is_told = |entry: &ForcedEntry| {
            let target = Target::Member(entry.service.clone(), entry.member.clone()).to_string();
            self.line.look(|mesh| mesh.word(&target).is_some()).unwrap_or(true)
        };
        let untold: Vec<ForcedEntry> = forced.into_iter().filter(|entry| !is_told(entry)).collect();
        self.tell_changes(&[], &untold);
    }

    /// Forgets what those have told that are no peers any more.
    pub(crate) fn dismiss_others(&self, config: &Compiled) {
        let peers = config.peers.as_ref().map(|peers| peers.members.as_slice()).unwrap_or_default();
        let gone = self.authors().into_iter().filter(|author| peers.iter().all(|peer| peer.name != *author));
        let news: Vec<News> = gone.map(News::Dismissed).collect();
        self.hear(news);
    }

    /// Claims this node's virtual servers, and what its config says, anew.
    pub(crate) fn claim_all(&self, of_config: Vec<Claim>) {
        let mut ledger = self.lock();
        ledger.unclaimed = (0..ledger.plan.roster.servers.len()).collect();
        let mut claims = ledger.claims(&self.runner);
        claims.extend(of_config);
        self.line.publish_all(claims);
    }

    /// Reads the file of forced states again. What an operator changed in it all nodes are told.
    pub fn reload_words(&self) {
        let mut ledger = self.lock();
        let before = ledger.words.entries();
        ledger.words.reload();
        let after = ledger.words.entries();
        drop(ledger);
        self.tell_changes(&before, &after);
    }

    /// Tells all nodes what differs between these forced states.
    pub(crate) fn tell_changes(&self, before: &[ForcedEntry], after: &[ForcedEntry]) {
        let now_unix = clock::unix_s();
        let target = |entry: &ForcedEntry| Target::Member(entry.service.clone(), entry.member.clone());
        for entry in after.iter().filter(|entry| !before.contains(entry)) {
            let lifetime_s = words::lifetime_s(entry, now_unix);
            let target = target(entry).to_string();
            self.line.speak(&target, words::act(entry.action), &entry.author, &entry.reason, lifetime_s);
        }
        for entry in before {
            if !after.iter().any(|one| target(one) == target(entry)) {
                self.line.speak(
                    &target(entry).to_string(),
                    Act::Lift,
                    "",
                    "the file of forced states",
                    RESUME_S,
                );
            }
        }
    }

    /// Tells all nodes what an operator said here (T7).
    pub(super) fn tell_words(&self, roster: &Roster, members: &[MemberAt], request: &ForceRequest) {
        if !self.line.is_open() {
            return;
        }
        let ForceRequest { target: _, action, author, reason, ttl_s } = request;
        let lifetime_s = ttl_s.map_or(u32::MAX, |ttl| u32::try_from(ttl).unwrap_or(u32::MAX));
        for (service, member) in members.iter().filter_map(|&at| roster.get(at)) {
            let who = || (service.name.clone(), member.name.clone());
            let target = Target::Member(who().0, who().1).to_string();
            if *action == ForceAction::Enable {
                let is_held = self.line.look(|mesh| mesh.word(&target).is_some()).unwrap_or(false);
                if is_held {
                    self.line.speak(&target, Act::Lift, author, reason, RESUME_S);
                }
                if service.manual_resume {
                    let target = Target::Resume(who().0, who().1).to_string();
                    self.line.speak(&target, Act::Resume, author, reason, RESUME_S);
                }
                continue;
            }
            self.line.speak(&target, words::act(*action), author, reason, lifetime_s);
        }
    }

    /// A word holds now at all nodes, or none does any more.
    pub(crate) fn heed(&self, target: &str, word: Option<&Word>) {
        let now_unix = clock::unix_s();
        let mut ledger = self.lock();
        let (service, is_changed) = match (Target::parse(target), word) {
            (Some(Target::Member(service, member)), word) => {
                let entry = word.and_then(|word| words::entry(&service, &member, word, now_unix));
                let is_changed = ledger.words.heed(&service, &member, entry);
                if is_changed {
                    let (act, author, origin) =
                        word.map_or((Act::Lift, "", ""), |word| (word.act, &word.author, &word.origin));
                    info!(service, member, ?act, author, origin, "an operator's word");
                }
                (service, is_changed)
            }
            (Some(Target::Resume(service, member)), Some(word)) if word.act == Act::Resume => {
                let is_changed = ledger.words.resume(&service, &member);
                if is_changed {
                    info!(service, member, author = word.author, origin = word.origin, "may serve again");
                }
                (service, is_changed)
            }
            (Some(Target::Resume(..)) | None, _) => return,
        };
        if is_changed {
            let services = ledger.plan.roster.services.iter().enumerate();
            let dirty = services.filter(|(_, one)| one.name == service).map(|(at, _)| at).collect();
            self.publish(&mut ledger, dirty);
        }
        drop(ledger);
        self.wake.notify_one();
        self.heard.notify_one();
    }

    /// The same of a word that may have been heeded before: only states, nothing that is done once.
    pub(crate) fn heed_state(&self, word: &Word) {
        if word.act != Act::Resume {
            self.heed(&word.target, Some(word));
        }
    }
}
