//! What was heard of peers, as it outlives the process (T1).

use super::hearsay::Hearsay;
use super::words::{self, Target};
use crate::clock;
use portolan_api::ForcedEntry;
use portolan_config::Compiled;
use portolan_peer::{Act, Claim, Mesh, ServerState, VirtualServer, Word};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Everything that was heard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heard {
    saved_unix: u64,
    servers: Vec<Server>,
    words: Vec<Spoken>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Server {
    author: String,
    name: String,
    service: String,
    address: IpAddr,
    site: String,
    link: Option<String>,
    weight: u16,
    tier: u8,
    state: String,
    reason: String,
    load_permille: Option<u16>,
    connections: Option<u32>,
    capacity: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Spoken {
    target: String,
    act: String,
    origin: String,
    author: String,
    reason: String,
    revision: u64,
    base: u64,
    left_s: u32,
}

const STATES: [(ServerState, &str); 5] = [
    (ServerState::Up, "up"),
    (ServerState::Down, "down"),
    (ServerState::Unknown, "unknown"),
    (ServerState::Drain, "drain"),
    (ServerState::Disabled, "disabled"),
];

const ACTS: [(Act, &str); 6] = [
    (Act::ForceUp, "force-up"),
    (Act::ForceDown, "force-down"),
    (Act::Drain, "drain"),
    (Act::Disable, "disable"),
    (Act::Resume, "resume"),
    (Act::Lift, "lift"),
];

/// A state in a word.
pub(crate) fn state_text(state: ServerState) -> &'static str {
    text_of(&STATES, state)
}

fn text_of<T: PartialEq + Copy>(words: &[(T, &'static str)], value: T) -> &'static str {
    words.iter().find(|(one, _)| *one == value).map_or("", |(_, text)| text)
}

fn value_of<T: Copy>(words: &[(T, &str)], text: &str) -> Option<T> {
    words.iter().find(|(_, word)| *word == text).map(|(value, _)| *value)
}

impl Heard {
    /// What is to be saved.
    pub(crate) fn of(hearsay: &Hearsay, mesh: Option<Vec<Word>>) -> Self {
        let servers = hearsay.servers().map(|(author, _, server)| {
            let VirtualServer {
                name,
                service,
                address,
                site,
                link,
                weight,
                tier,
                state,
                reason,
                load_permille,
                connections,
                capacity,
            } = server.clone();
            let (author, state) = (author.to_owned(), state_text(state).to_owned());
            Server {
                author,
                name,
                service,
                address,
                site,
                link,
                weight,
                tier,
                state,
                reason,
                load_permille,
                connections,
                capacity,
            }
        });
        let words = mesh.unwrap_or_default().into_iter().map(|word| {
            let Word { target, act, origin, author, reason, revision, base, left_s } = word;
            Spoken { target, act: text_of(&ACTS, act).into(), origin, author, reason, revision, base, left_s }
        });
        Self { saved_unix: clock::unix_s(), servers: servers.collect(), words: words.collect() }
    }

    /// The claims of peers that are still configured, as stale ones.
    pub(crate) fn hearsay(&self, compiled: &Compiled, now_ms: u64) -> Hearsay {
        let mut hearsay = Hearsay::default();
        let Some(peers) = &compiled.peers else { return hearsay };
        for saved in &self.servers {
            let is_peer = peers.members.iter().any(|peer| peer.name == saved.author);
            let Some(state) = value_of(&STATES, &saved.state).filter(|_| is_peer) else { continue };
            let Server { author, name, service, address, site, link, weight, tier, reason, .. } =
                saved.clone();
            let server = VirtualServer {
                name,
                service,
                address,
                site,
                link,
                weight,
                tier,
                state,
                reason,
                load_permille: saved.load_permille,
                connections: saved.connections,
                capacity: saved.capacity,
            };
            hearsay.restore(now_ms, &author, server, now_ms);
        }
        hearsay
    }

    /// The words that an earlier process knew, and that still hold by what is forced now. What ends them is kept, too,
    /// so that an old word of a node that was away does not come back.
    pub(crate) fn words(&self, forced: &[ForcedEntry]) -> Vec<Word> {
        let away_s = u32::try_from(clock::unix_s().saturating_sub(self.saved_unix)).unwrap_or(u32::MAX);
        let word = |spoken: &Spoken| {
            let Spoken { target, act, origin, author, reason, revision, base, left_s } = spoken.clone();
            let act = value_of(&ACTS, &act)?;
            let left_s = match Target::parse(&target)? {
                Target::Member(service, member) if act != Act::Lift => {
                    let entry =
                        forced.iter().find(|entry| entry.service == service && entry.member == member)?;
                    words::lifetime_s(entry, clock::unix_s())
                }
                Target::Member(..) | Target::Resume(..) => left_s.saturating_sub(away_s),
            };
            let word = Word { target, act, origin, author, reason, revision, base, left_s };
            (word.left_s > 0).then_some(word)
        };
        self.words.iter().filter_map(word).collect()
    }
}

/// The words that this node repeats, those that end others among them.
pub(crate) fn words_of(mesh: &Mesh) -> Vec<Word> {
    let words = mesh.own_claims().filter_map(|claim| match claim {
        Claim::Word(word) => Some(word.clone()),
        Claim::VirtualServer(_)
        | Claim::Link(_)
        | Claim::Proximity(_)
        | Claim::Persistence(_)
        | Claim::Digest(_) => None,
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_is_what_was_heard() {
        let mut hearsay = Hearsay::default();
        for (number, (state, _)) in STATES.into_iter().enumerate() {
            let server = VirtualServer {
                name: format!("s{number}"),
                service: "www.example.com.".into(),
                address: [192, 0, 2, 1].into(),
                site: "fra".into(),
                link: Some("dtag".into()),
                weight: 3,
                tier: 2,
                state,
                reason: "said so".into(),
                load_permille: Some(7),
                connections: None,
                capacity: Some(9),
            };
            hearsay.restore(5, "fra1", server, 5);
        }
        let word = |act, left_s| Word {
            target: "www.example.com./a".into(),
            act,
            origin: "fra1".into(),
            author: "ops".into(),
            reason: String::new(),
            revision: 3,
            base: 1,
            left_s,
        };
        let saved = Heard::of(&hearsay, Some(vec![word(Act::Lift, 600), word(Act::Drain, 600)]));
        let text = serde_json::to_string(&saved).unwrap();
        let read: Heard = serde_json::from_str(&text).unwrap();
        assert_eq!(read, saved);
        assert_eq!(read.servers.len(), 5);
        // a drain that nobody forces here any more is not repeated
        let words = read.words(&[]);
        assert_eq!((words.len(), words[0].act, words[0].revision), (1, Act::Lift, 3));
    }
}
