//! The sockets of the API and of metrics, kept in step with the config.

use crate::engine::Engine;
use portolan_api::serve::{self, Server};
use portolan_config::Compiled;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tracing::info;

/// One socket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Door {
    Unix(PathBuf),
    Tcp(SocketAddr),
    Metrics(SocketAddr),
}

/// The open sockets.
#[derive(Debug, Default)]
pub struct Doors {
    open: BTreeMap<Door, Server>,
}

/// Why a socket cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open {what}: {cause}")]
pub struct DoorError {
    what: String,
    cause: io::Error,
}

impl Doors {
    /// Opens and closes sockets until they are those of the config. On an error nothing has changed.
    pub fn apply(&mut self, config: &Compiled, engine: &Arc<Engine>) -> Result<(), DoorError> {
        let wanted = wanted(config);
        let token = token(config)?;
        let mut new = BTreeMap::new();
        for door in wanted.iter().filter(|door| !self.open.contains_key(door)) {
            new.insert(door.clone(), open(door, &token, engine)?);
        }
        for server in self.open.values() {
            server.set_token(&token);
        }
        self.open.append(&mut new);
        self.open.retain(|door, _| wanted.contains(door));
        Ok(())
    }

    /// Closes all.
    pub fn close(&mut self) {
        self.open.clear();
    }
}

fn wanted(config: &Compiled) -> Vec<Door> {
    let mut doors: Vec<Door> = config.metrics.iter().map(|&address| Door::Metrics(address)).collect();
    if let Some(api) = &config.api {
        doors.extend(api.unix.iter().cloned().map(Door::Unix));
        doors.extend(api.tcp.iter().copied().map(Door::Tcp));
    }
    doors
}

/// The token of TCP clients; empty where there is no TCP door.
fn token(config: &Compiled) -> Result<String, DoorError> {
    let Some(api) = config.api.as_ref().filter(|api| !api.tcp.is_empty()) else { return Ok(String::new()) };
    let path = api.token_file.clone().unwrap_or_default();
    let failed = |cause| DoorError { what: format!("the token file {}", path.display()), cause };
    // a pipe would wait for its writer
    if !std::fs::metadata(&path).map_err(failed)?.is_file() {
        return Err(failed(io::Error::other("not a regular file")));
    }
    let token = std::fs::read_to_string(&path).map_err(failed)?.trim().to_owned();
    if token.is_empty() {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidData, "it is empty")));
    }
    Ok(token)
}

fn open(door: &Door, token: &str, engine: &Arc<Engine>) -> Result<Server, DoorError> {
    let node = Arc::new(crate::answers::Answers(Arc::downgrade(engine)));
    let (what, opened) = match door {
        Door::Unix(path) => (format!("the API's socket {}", path.display()), serve::unix(path, node)),
        Door::Tcp(address) => (format!("the API's socket {address}"), serve::tcp(*address, token, node)),
        Door::Metrics(address) => (format!("the metrics' socket {address}"), serve::metrics(*address, node)),
    };
    match opened {
        Ok(server) => {
            info!("opened {what}");
            Ok(server)
        }
        Err(cause) => Err(DoorError { what, cause }),
    }
}
