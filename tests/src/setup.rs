//! A folder with a config, its zones and tables, ready to be run.
//!
//! In `*.toml` files `@dns@` stands for the node's listener, `@folder@` for the folder, `@isp-tables@` for the shipped
//! tables, `@common@` for `cases/common`, `@dead1@` and `@dead2@` for addresses where nobody listens, and `@NAME@` for
//! what [`Setup::set`] has set. `NAME.mmdb.json` in a case becomes the GeoIP file `NAME.mmdb`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::mmdb;
use crate::netns::Namespace;
use crate::node::Node;
use crate::place;
use crate::program::{Said, portolan};

/// A folder in the making.
pub struct Setup {
    folder: TempDir,
    values: BTreeMap<String, String>,
    dns: SocketAddr,
    namespace: Option<String>,
}

impl Setup {
    /// An empty folder.
    #[must_use]
    pub fn empty() -> Self {
        let folder = tempfile::Builder::new().prefix("portolan-").tempdir().unwrap();
        let mut setup = Self { folder, values: BTreeMap::new(), dns: place::own_socket(), namespace: None };
        setup.set("dns", setup.dns);
        let folder = setup.folder.path().display().to_string();
        setup.set("folder", folder);
        setup.set("common", place::case_folder("common").display());
        setup.set("dead1", place::own_address()).set("dead2", place::own_address());
        setup.set("isp-tables", place::source_root().join("isp-tables").display());
        setup
    }

    /// A copy of `cases/NAME`.
    #[must_use]
    pub fn case(name: &str) -> Self {
        let setup = Self::empty();
        place::copy_folder(&place::case_folder(name), setup.folder.path());
        for entry in std::fs::read_dir(setup.folder.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.to_string_lossy().ends_with(".mmdb.json") {
                let file = mmdb::from_json(&std::fs::read_to_string(&path).unwrap());
                std::fs::write(path.with_extension(""), file).unwrap();
            }
        }
        setup
    }

    /// An empty folder with this as `portolan.toml`.
    #[must_use]
    pub fn config(text: &str) -> Self {
        let setup = Self::empty();
        setup.write("portolan.toml", text);
        setup
    }

    /// What `@name@` stands for.
    pub fn set(&mut self, name: &str, value: impl std::fmt::Display) -> &mut Self {
        self.values.insert(format!("@{name}@"), value.to_string());
        self
    }

    /// Writes a file, with the values in it.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, self.filled(text)).unwrap();
    }

    /// Writes a GeoIP file, described as in `cases/*/*.mmdb.json`.
    pub fn geo(&self, name: &str, json: &str) {
        std::fs::write(self.path(name), mmdb::from_json(json)).unwrap();
    }

    /// A text with the values in it.
    #[must_use]
    pub fn filled(&self, text: &str) -> String {
        fill(text, &self.values)
    }

    /// The path of a file in the folder.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Asks and listens at this address in place of an own one of the loopback.
    pub fn listen(&mut self, dns: SocketAddr) -> &mut Self {
        self.dns = dns;
        self.set("dns", dns)
    }

    /// Runs the node in a network of its own.
    pub fn within(&mut self, namespace: &Namespace) -> &mut Self {
        self.namespace = Some(namespace.name().to_owned());
        self
    }

    /// Puts the values into every `*.toml`.
    pub fn fill(&self) {
        fill_below(self.folder.path(), self);
    }

    /// `portolan ARGS` in the folder, without a node.
    #[must_use]
    pub fn cli(&self, args: &[&str]) -> Said {
        self.fill();
        Said::by(std::process::Command::new(portolan()).args(args).current_dir(self.folder.path()))
    }

    /// Starts the node and waits until it answers.
    #[must_use]
    pub fn start(self) -> Node {
        self.fill();
        Node::start(self.folder, self.dns, self.namespace, self.values)
    }
}

/// A text with values in the places of their names.
pub(crate) fn fill(text: &str, values: &BTreeMap<String, String>) -> String {
    values.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
}

fn fill_below(folder: &Path, setup: &Setup) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        // links lead out of the folder, to files that are not the test's
        if kind.is_dir() {
            fill_below(&path, setup);
        } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "toml") {
            let text = std::fs::read_to_string(&path).unwrap();
            std::fs::write(&path, setup.filled(&text)).unwrap();
        }
    }
}
