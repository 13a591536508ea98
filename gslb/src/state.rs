//! What outlives the process: check states and what peers said (T1), operators' words (T7), remembered choices and
//! measured distances, in `[node] state = DIR`.
//!
//! A file is written beside its place and renamed over it, so it is whole or the old one. A file that is broken is
//! refused whole, said so, and set aside when the next one is written (case O05); it is never fatal.

mod choices;

use crate::clock;
use crate::peers::saved::Heard;
use portolan_api::{ForcedEntry, StaticEntry};
use portolan_balance::persist::Table;
use portolan_probe::Saved;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::{error, warn};

/// Version of the files' form.
const VERSION: u32 = 1;
const CHECKS: &str = "checks.json";
const FORCED: &str = "forced.json";
const PEERS: &str = "peers.json";
const CHOICES: &str = "choices.bin";
const STATICS: &str = "proximity-set.json";
const MEASURED: &str = "proximity.bin";
/// Held locked by the node that uses the folder.
const LOCK: &str = "lock";

/// The folder.
#[derive(Clone, Debug)]
pub struct StateDir {
    dir: PathBuf,
    /// The lock goes with the last of its users.
    _lock: Arc<File>,
}

/// What a file holds, or why not.
#[derive(Debug)]
pub enum Read<T> {
    /// It is there and good.
    Good(T),
    /// It is not there.
    Missing,
    /// It is there, but of no use; said so already.
    Broken,
}

/// What operators said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Words {
    /// Forced states.
    pub forced: Vec<ForcedEntry>,
    /// Members of services with `manual_resume` that failed and wait for `portolan enable`.
    #[serde(default)]
    pub waiting: Vec<Waiting>,
}

/// A member that waits for an operator (T16).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waiting {
    /// The service.
    pub service: String,
    /// The member.
    pub member: String,
}

#[derive(Serialize, Deserialize)]
struct Envelope<T> {
    version: u32,
    #[serde(flatten)]
    content: T,
}

#[derive(Serialize, Deserialize)]
struct Checks {
    checks: BTreeMap<String, Saved>,
}

#[derive(Serialize, Deserialize)]
struct Statics {
    entries: Vec<StaticEntry>,
}

impl StateDir {
    /// The folder, made if it is not there.
    pub fn open(dir: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(dir)?;
        let lock = File::options().create(true).truncate(false).write(true).open(dir.join(LOCK))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { dir: dir.to_owned(), _lock: Arc::new(lock) }),
            // two nodes would overwrite what the other one learned
            Err(TryLockError::WouldBlock) => Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                "another node uses it: give each node a folder of its own, [node] state",
            )),
            Err(TryLockError::Error(cause)) => Err(cause),
        }
    }

    /// The saved check states.
    #[must_use]
    pub fn checks(&self) -> Vec<(String, Saved)> {
        match self.read::<Checks>(CHECKS) {
            Read::Good(Checks { checks }) => checks.into_iter().collect(),
            Read::Missing | Read::Broken => Vec::new(),
        }
    }

    /// Saves check states.
    pub fn save_checks(&self, checks: Vec<(String, Saved)>) {
        let _ = self.write(CHECKS, Checks { checks: checks.into_iter().collect() });
    }

    /// What peers said.
    #[must_use]
    pub fn heard(&self) -> Heard {
        match self.read::<Heard>(PEERS) {
            Read::Good(heard) => heard,
            Read::Missing | Read::Broken => Heard::default(),
        }
    }

    /// Saves what peers said.
    pub fn save_heard(&self, heard: Heard) {
        let _ = self.write(PEERS, heard);
    }

    /// The saved words of operators.
    #[must_use]
    pub fn words(&self) -> Read<Words> {
        self.read(FORCED)
    }

    /// Saves the words of operators; whether they are saved now.
    #[must_use]
    pub fn save_words(&self, words: &Words) -> bool {
        self.write(FORCED, words.clone())
    }

    /// Puts the saved choices into a table; how many there were.
    #[must_use]
    pub fn restore_choices(&self, table: &Table, now_s: u32) -> usize {
        let path = self.dir.join(CHOICES);
        let octets = match octets_of(&path) {
            Ok(octets) => octets,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return 0,
            Err(error) => {
                error!(path = %path.display(), %error, "the remembered choices cannot be read; they are left out");
                return 0;
            }
        };
        let Some((saved_unix, choices)) = choices::decode(&octets) else {
            error!(path = %path.display(), "the file of remembered choices is broken; it is left out");
            return 0;
        };
        let away_s = u32::try_from(clock::unix_s().saturating_sub(saved_unix)).unwrap_or(u32::MAX);
        let mut count = 0;
        for (key, fingerprint, left_s) in choices {
            if let Some(left_s) = left_s.checked_sub(away_s).filter(|left| *left > 0) {
                table.put(key, u64::from(fingerprint) << 40, now_s.saturating_add(left_s));
                count += 1;
            }
        }
        count
    }

    /// Saves the choices of a table.
    pub fn save_choices(&self, table: &Table, now_s: u32) {
        let path = self.dir.join(CHOICES);
        let octets = choices::encode(clock::unix_s(), table.entries(now_s));
        if let Err(error) = self.replace(&path, &octets) {
            error!(path = %path.display(), %error, "the remembered choices cannot be written");
        }
    }

    /// The saved round-trip times that operators wrote.
    #[must_use]
    pub fn statics(&self) -> Read<Vec<StaticEntry>> {
        match self.read::<Statics>(STATICS) {
            Read::Good(Statics { entries }) => Read::Good(entries),
            Read::Missing => Read::Missing,
            Read::Broken => Read::Broken,
        }
    }

    /// Saves the round-trip times that operators wrote; whether they are saved now.
    #[must_use]
    pub fn save_statics(&self, entries: impl Iterator<Item = StaticEntry>) -> bool {
        self.write(STATICS, Statics { entries: entries.collect() })
    }

    /// The file of what was measured.
    #[must_use]
    pub fn measured(&self) -> Option<Vec<u8>> {
        let path = self.dir.join(MEASURED);
        match octets_of(&path) {
            Ok(octets) => Some(octets),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                error!(path = %path.display(), %error, "the measured distances cannot be read; they are left out");
                None
            }
        }
    }

    /// What it held was of no use: it is kept for whoever wants to know why.
    pub fn set_measured_aside(&self) {
        let path = self.dir.join(MEASURED);
        let aside = self.dir.join(format!("{MEASURED}.broken"));
        let moved = std::fs::rename(&path, &aside);
        let to = if moved.is_ok() { &aside } else { &path };
        error!(path = %to.display(), "the file of measured distances is broken or of another kind; it is left out");
    }

    /// Saves what was measured; whether it is saved now.
    #[must_use]
    pub fn save_measured(&self, octets: &[u8]) -> bool {
        let path = self.dir.join(MEASURED);
        let result = self.replace(&path, octets);
        if let Err(error) = &result {
            error!(path = %path.display(), %error, "the measured distances cannot be written; a restart would not know them");
        }
        result.is_ok()
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Read<T> {
        let path = self.dir.join(name);
        let text = match octets_of(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Read::Missing,
            Err(error) => {
                error!(path = %path.display(), %error, "a state file cannot be read; it is left out");
                return Read::Broken;
            }
        };
        let problem = match serde_json::from_slice::<Envelope<T>>(&text) {
            Ok(Envelope { version: VERSION, content }) => return Read::Good(content),
            Ok(Envelope { version, .. }) => format!("version {version} is not {VERSION}"),
            Err(error) => error.to_string(),
        };
        error!(
            path = %path.display(), problem,
            "a state file is broken and is refused whole; repair it and reload, or remove it"
        );
        Read::Broken
    }

    /// Replaces a file. What goes wrong is logged.
    fn write<T: Serialize + DeserializeOwned>(&self, name: &str, content: T) -> bool {
        let path = self.dir.join(name);
        // what could not be read may hold an operator's words: it is not thrown away
        if matches!(octets_of(&path), Ok(text) if serde_json::from_slice::<Envelope<T>>(&text).is_err()) {
            let aside = self.dir.join(format!("{name}.broken"));
            if std::fs::rename(&path, &aside).is_ok() {
                warn!(path = %aside.display(), "the broken state file was set aside");
            }
        }
        let text = serde_json::to_vec_pretty(&Envelope { version: VERSION, content });
        let result = text.map_err(io::Error::from).and_then(|mut text| {
            text.push(b'\n');
            self.replace(&path, &text)
        });
        if let Err(error) = &result {
            error!(path = %path.display(), %error, "a state file cannot be written; a restart would not know this state");
        }
        result.is_ok()
    }

    fn replace(&self, path: &Path, octets: &[u8]) -> io::Result<()> {
        let beside = path.with_extension("new");
        let mut file = File::create(&beside)?;
        file.write_all(octets)?;
        file.sync_all()?;
        std::fs::rename(&beside, path)?;
        // the rename itself must be on the disk too
        File::open(&self.dir)?.sync_all()
    }
}

/// What a file holds. Only files are opened: a pipe would wait for its writer.
fn octets_of(path: &Path) -> io::Result<Vec<u8>> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    std::fs::read(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use portolan_api::ForceAction;

    fn words() -> Words {
        let entry = ForcedEntry {
            service: "www.example.com.".into(),
            member: "ct1".into(),
            action: ForceAction::Drain,
            author: "ops".into(),
            reason: "kernel update".into(),
            at_unix: 1_700_000_000,
            until_unix: Some(1_700_003_600),
        };
        let waiting = Waiting { service: "www.example.com.".into(), member: "cu1".into() };
        Words { forced: vec![entry], waiting: vec![waiting] }
    }

    #[test]
    fn words_come_back_as_they_were() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(&dir.path().join("a/b")).unwrap();
        assert!(matches!(state.words(), Read::Missing));
        assert!(state.save_words(&words()));
        assert!(matches!(state.words(), Read::Good(read) if read == words()));
        assert!(!dir.path().join("a/b/forced.new").exists());
        assert!(state.checks().is_empty());
    }

    #[test]
    fn a_folder_belongs_to_one_node() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(dir.path()).unwrap();
        let other = StateDir::open(dir.path()).unwrap_err();
        assert!(other.to_string().contains("another node uses it"), "{other}");
        let user = state.clone();
        drop(state);
        assert!(StateDir::open(dir.path()).is_err());
        drop(user);
        assert!(StateDir::open(dir.path()).is_ok());
    }

    #[test]
    fn choices_come_back_as_they_were() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(dir.path()).unwrap();
        let (table, back) = (Table::new(64), Table::new(64));
        assert_eq!(state.restore_choices(&back, 7), 0);
        table.put(5, 9 << 40, 1000);
        table.put(6, 8 << 40, 10);
        state.save_choices(&table, 10);
        assert_eq!(state.restore_choices(&back, 7), 1);
        assert_eq!((back.get(5, 900), back.get(6, 7)), (Some(9), None));
        std::fs::write(dir.path().join(CHOICES), "nonsense").unwrap();
        assert_eq!(state.restore_choices(&back, 7), 0);
    }

    #[test]
    fn a_broken_file_is_refused_whole_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(dir.path()).unwrap();
        assert!(state.save_words(&words()));
        let path = dir.path().join(FORCED);
        let good = std::fs::read_to_string(&path).unwrap();
        for broken in [
            good[..good.len() / 2].to_owned(),
            good.replace("drain", "dra1n"),
            good.replace("\"version\": 1", "\"version\": 9"),
            good.replace("\"author\"", "\"auth0r\""),
            String::new(),
            "\0\0".into(),
        ] {
            std::fs::write(&path, &broken).unwrap();
            assert!(matches!(state.words(), Read::Broken), "{broken}");
        }
        std::fs::write(&path, "{").unwrap();
        assert!(state.save_words(&words()));
        assert!(matches!(state.words(), Read::Good(_)));
        assert_eq!(std::fs::read_to_string(dir.path().join("forced.json.broken")).unwrap(), "{");
    }

    #[test]
    fn what_is_no_file_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(dir.path()).unwrap();
        for name in [FORCED, CHECKS, CHOICES] {
            let path = dir.path().join(name);
            let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
            assert!(made.success());
        }
        assert!(matches!(state.words(), Read::Broken));
        assert!(state.checks().is_empty());
        assert_eq!(state.restore_choices(&Table::new(64), 7), 0);
        assert!(state.save_words(&words()));
        assert!(matches!(state.words(), Read::Good(_)));
    }
}
