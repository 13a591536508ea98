//! What peers say of their virtual servers, as this node keeps it: also over the end of a claim's life, so that a
//! candidate that is gone can say why. Pure.
//!
//! ```text
//!              heard                silent, or its session lost        `hold` later
//!  restored ─► fresh ─────────────► stale ───────────────────────────► lost: on_peer_loss decides
//!  (as stale)    ▲                    │                                  │
//!                └───── heard again ──┴──────────────────────────────────┘
//! ```
//! Everything that a peer says goes by its age: an author's claims grow old together.

use portolan_config::{Claimant, LearnedServer};
use portolan_peer::{ServerState, VirtualServer};
use std::collections::{BTreeMap, BTreeSet};

/// How old an author's claims are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Age {
    /// The author is heard.
    Fresh,
    /// The author is silent; what it said still counts.
    Stale,
    /// The author has been silent for longer than `hold`.
    Lost,
}

/// One author.
#[derive(Clone, Debug)]
struct Author {
    age: Age,
    /// When it was last heard.
    heard_ms: u64,
    /// Since when it is not fresh.
    since_ms: u64,
    servers: BTreeMap<String, Told>,
}

/// What was said of one virtual server.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// The claim.
    pub server: VirtualServer,
    /// When it came.
    pub received_ms: u64,
    /// Since when its state is what it is, as far as this node saw it change.
    pub changed_ms: Option<u64>,
    /// When it came up after it had been down, for the slow start.
    pub recovered_ms: Option<u64>,
}

/// News of peers.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// A claim is new or changed.
    Claimed(String, VirtualServer),
    /// A virtual server is gone by its author's word.
    Withdrawn(String, String),
    /// All that an author claims.
    All(String, Vec<VirtualServer>),
    /// How old an author's claims are now, and when it was last heard.
    Aged(String, Age, u64),
    /// An author is no longer configured.
    Dismissed(String),
}

/// What follows from news.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Services get other members, or members that are to be checked.
    pub is_structural: bool,
    /// Servers whose facts may differ.
    pub servers: BTreeSet<Claimant>,
}

/// What is said of a candidate, of all who speak for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Heard {
    /// Who says it.
    pub claimant: Claimant,
    /// How old it is.
    pub age: Age,
    /// When the author was last heard.
    pub heard_ms: u64,
    /// What it says.
    pub told: Told,
}

/// What all peers say.
#[derive(Clone, Debug, Default)]
pub struct Hearsay {
    authors: BTreeMap<String, Author>,
}

impl Hearsay {
    /// Takes news, in the order they came.
    pub fn take(&mut self, now_ms: u64, news: Vec<News>) -> Changes {
        let mut changes = Changes::default();
        for one in news {
            match one {
                News::Claimed(author, server) => self.claimed(now_ms, author, server, &mut changes),
                News::Withdrawn(author, name) => self.withdrawn(&author, &name, &mut changes),
                News::All(author, servers) => self.all(now_ms, &author, servers, &mut changes),
                News::Aged(author, age, heard_ms) => {
                    self.aged(now_ms, &author, (age, heard_ms), &mut changes)
                }
                News::Dismissed(author) => {
                    let gone = self.authors.remove(&author);
                    changes.is_structural |= gone.is_some_and(|author| !author.servers.is_empty());
                }
            }
        }
        changes
    }

    /// Takes what an earlier process knew, as stale claims (T1).
    pub fn restore(&mut self, now_ms: u64, author: &str, server: VirtualServer, heard_ms: u64) {
        let author = self.author(now_ms, author);
        (author.age, author.heard_ms) = (Age::Stale, heard_ms);
        let told = Told { received_ms: heard_ms, changed_ms: None, recovered_ms: None, server };
        author.servers.insert(told.server.name.clone(), told);
    }

    fn author(&mut self, now_ms: u64, name: &str) -> &mut Author {
        self.authors.entry(name.to_owned()).or_insert_with(|| Author {
            age: Age::Fresh,
            heard_ms: now_ms,
            since_ms: now_ms,
            servers: BTreeMap::new(),
        })
    }

    fn claimed(&mut self, now_ms: u64, author: String, server: VirtualServer, changes: &mut Changes) {
        let held = &mut self.author(now_ms, &author).servers;
        let old = held.get(&server.name);
        changes.is_structural |= old.is_none_or(|old| !is_same_place(&old.server, &server));
        let is_up = |state| matches!(state, ServerState::Up | ServerState::Drain);
        let (changed_ms, recovered_ms) = match old {
            Some(old) if old.server.state == server.state => (old.changed_ms, old.recovered_ms),
            Some(old) => {
                let is_back = old.server.state == ServerState::Down && is_up(server.state);
                let kept = old.recovered_ms.filter(|_| is_up(server.state));
                (Some(now_ms), if is_back { Some(now_ms) } else { kept })
            }
            None => (None, None),
        };
        changes.servers.insert(Claimant { author, name: server.name.clone() });
        held.insert(server.name.clone(), Told { server, received_ms: now_ms, changed_ms, recovered_ms });
    }

    fn withdrawn(&mut self, author: &str, name: &str, changes: &mut Changes) {
        let gone = self.authors.get_mut(author).and_then(|held| held.servers.remove(name));
        changes.is_structural |= gone.is_some();
    }

    fn all(&mut self, now_ms: u64, author: &str, servers: Vec<VirtualServer>, changes: &mut Changes) {
        let names: BTreeSet<&str> = servers.iter().map(|server| server.name.as_str()).collect();
        let held = &mut self.author(now_ms, author).servers;
        let before = held.len();
        held.retain(|name, _| names.contains(name.as_str()));
        changes.is_structural |= held.len() != before;
        for server in servers {
            let is_known = self.authors.get(author).and_then(|held| held.servers.get(&server.name));
            if is_known.is_none_or(|told| told.server != server) {
                self.claimed(now_ms, author.to_owned(), server, changes);
            }
        }
        self.aged(now_ms, author, (Age::Fresh, now_ms), changes);
    }

    fn aged(&mut self, now_ms: u64, name: &str, (age, heard_ms): (Age, u64), changes: &mut Changes) {
        let author = self.author(now_ms, name);
        author.heard_ms = heard_ms;
        if author.age == age {
            return;
        }
        // whether members are checked from here hangs on this
        changes.is_structural |= (author.age == Age::Lost) != (age == Age::Lost);
        author.age = age;
        author.since_ms = now_ms;
        let claimant = |server: &String| Claimant { author: name.to_owned(), name: server.clone() };
        changes.servers.extend(author.servers.keys().map(claimant));
    }

    /// What is said of a candidate: the word of one who is heard goes before one who is not, then the first name.
    #[must_use]
    pub fn of(&self, claimants: &[Claimant]) -> Option<Heard> {
        let known = claimants.iter().filter_map(|claimant| {
            let author = self.authors.get(&claimant.author)?;
            let told = author.servers.get(&claimant.name)?;
            Some((author, claimant, told))
        });
        let (author, claimant, told) = known.min_by_key(|(author, claimant, _)| (author.age, *claimant))?;
        let (claimant, told) = (claimant.clone(), told.clone());
        Some(Heard { claimant, age: author.age, heard_ms: author.heard_ms, told })
    }

    /// How old an author's claims are; none where it said nothing yet.
    #[must_use]
    pub fn age(&self, author: &str) -> Option<Age> {
        self.authors.get(author).map(|author| author.age)
    }

    /// Whether nothing can be expected of an author now.
    #[must_use]
    pub fn is_lost(&self, author: &str) -> bool {
        self.age(author).is_none_or(|age| age == Age::Lost)
    }

    /// The authors.
    pub fn authors(&self) -> impl Iterator<Item = &str> {
        self.authors.keys().map(String::as_str)
    }

    /// All virtual servers, with their authors and when they were last heard.
    pub fn servers(&self) -> impl Iterator<Item = (&str, u64, &VirtualServer)> {
        self.authors.iter().flat_map(|(name, author)| {
            author.servers.values().map(|told| (name.as_str(), author.heard_ms, &told.server))
        })
    }

    /// Claims by author and age.
    pub fn counts(&self) -> impl Iterator<Item = (&str, Age, usize)> {
        self.authors.iter().map(|(name, author)| (name.as_str(), author.age, author.servers.len()))
    }

    /// The members that services may take in.
    #[must_use]
    pub fn learned(&self) -> Vec<LearnedServer> {
        let one = |(author, _, server): (&str, u64, &VirtualServer)| LearnedServer {
            author: author.to_owned(),
            name: server.name.clone(),
            service: server.service.clone(),
            address: server.address,
            site: server.site.clone(),
            link: server.link.clone(),
            weight: server.weight,
            tier: server.tier,
            connections_max: server.capacity,
        };
        self.servers().map(one).collect()
    }
}

/// Whether both are the same candidate, with the same share.
fn is_same_place(a: &VirtualServer, b: &VirtualServer) -> bool {
    let place = |server: &VirtualServer| {
        let VirtualServer { name, service, address, site, link, weight, tier, capacity, .. } = server;
        let texts = (name.clone(), service.clone(), site.clone(), link.clone());
        (texts, *address, *weight, *tier, *capacity)
    };
    place(a) == place(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &str, state: ServerState) -> VirtualServer {
        VirtualServer {
            name: name.into(),
            service: "www.example.com.".into(),
            address: [192, 0, 2, 1].into(),
            site: "fra".into(),
            link: None,
            weight: 1,
            tier: 1,
            state,
            reason: String::new(),
            load_permille: None,
            connections: None,
            capacity: None,
        }
    }

    fn claimant(author: &str, name: &str) -> Claimant {
        Claimant { author: author.into(), name: name.into() }
    }

    fn claimed(author: &str, name: &str, state: ServerState) -> News {
        News::Claimed(author.into(), server(name, state))
    }

    #[test]
    fn states_are_no_new_members() {
        let mut hearsay = Hearsay::default();
        let first = hearsay.take(1, vec![claimed("fra1", "www", ServerState::Up)]);
        assert!(first.is_structural && first.servers.contains(&claimant("fra1", "www")));
        let down = hearsay.take(2, vec![claimed("fra1", "www", ServerState::Down)]);
        assert!(!down.is_structural && down.servers.len() == 1);
        let moved = VirtualServer { weight: 9, ..server("www", ServerState::Down) };
        assert!(hearsay.take(3, vec![News::Claimed("fra1".into(), moved)]).is_structural);
        let heard = |hearsay: &Hearsay| hearsay.of(&[claimant("fra1", "www")]).unwrap().told;
        assert_eq!((heard(&hearsay).changed_ms, heard(&hearsay).recovered_ms), (Some(2), None));
        hearsay.take(7, vec![claimed("fra1", "www", ServerState::Up)]);
        assert_eq!((heard(&hearsay).changed_ms, heard(&hearsay).recovered_ms), (Some(7), Some(7)));
        assert!(hearsay.take(8, vec![News::Withdrawn("fra1".into(), "www".into())]).is_structural);
        assert_eq!(hearsay.of(&[claimant("fra1", "www")]), None);
    }

    #[test]
    fn an_author_grows_old_and_young_again() {
        let mut hearsay = Hearsay::default();
        hearsay.take(1, vec![claimed("fra1", "a", ServerState::Up), claimed("fra1", "b", ServerState::Up)]);
        for (age, is_structural) in [
            (Age::Stale, false),
            (Age::Lost, true),
            (Age::Lost, false),
            (Age::Stale, true),
            (Age::Fresh, false),
        ] {
            let changes = hearsay.take(9, vec![News::Aged("fra1".into(), age, 5)]);
            assert_eq!(changes.is_structural, is_structural, "{age:?}");
            assert_eq!(hearsay.age("fra1"), Some(age));
        }
        assert_eq!(hearsay.learned().len(), 2, "also what is lost stays a member, to say why it is out");
        assert!(hearsay.is_lost("iad1") && !hearsay.is_lost("fra1"));
    }

    #[test]
    fn a_whole_sync_takes_away_what_is_not_in_it() {
        let mut hearsay = Hearsay::default();
        hearsay.restore(10, "fra1", server("old", ServerState::Up), 0);
        hearsay.restore(10, "fra1", server("kept", ServerState::Up), 0);
        assert_eq!(hearsay.age("fra1"), Some(Age::Stale));
        let same = vec![server("kept", ServerState::Up)];
        let changes = hearsay.take(11, vec![News::All("fra1".into(), same.clone())]);
        assert!(changes.is_structural);
        assert_eq!(hearsay.servers().count(), 1);
        assert_eq!(hearsay.age("fra1"), Some(Age::Fresh));
        assert_eq!(hearsay.take(12, vec![News::All("fra1".into(), same)]), Changes::default());
        assert!(hearsay.take(13, vec![News::Dismissed("fra1".into())]).is_structural);
    }

    #[test]
    fn who_is_heard_speaks_for_a_server_that_two_claim() {
        let mut hearsay = Hearsay::default();
        hearsay.take(1, vec![claimed("a", "www", ServerState::Up), claimed("b", "www", ServerState::Down)]);
        let both = [claimant("a", "www"), claimant("b", "www")];
        let speaker = |hearsay: &Hearsay| hearsay.of(&both).unwrap().claimant.author;
        assert_eq!(speaker(&hearsay), "a");
        hearsay.take(2, vec![News::Aged("a".into(), Age::Lost, 1)]);
        assert_eq!(speaker(&hearsay), "b");
        hearsay.take(3, vec![News::Aged("b".into(), Age::Lost, 1)]);
        assert_eq!(speaker(&hearsay), "a");
    }
}
