//! `portolan pki`: the keys by which nodes know each other, made without a node.

use crate::clock;
use clap::{Args, Subcommand};
use portolan_api::ApiError;
use portolan_ctl::run::show;
use portolan_ctl::{Exit, output};
use portolan_peer::pki::{self, Issued, Making, PkiError};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The commands.
#[derive(Subcommand, Debug)]
pub(crate) enum Pki {
    /// Make a CA in a folder, once for all nodes
    #[command(
        after_help = "Examples:\n  portolan pki init pki\n  portolan pki init pki --days 3650\n\nMakes DIR/ca.key and DIR/ca.crt. Keep ca.key off the nodes: it is needed only to issue certificates."
    )]
    Init {
        /// The folder; it is made if it does not exist
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        #[command(flatten)]
        how: How,
    },
    /// Make a node's key and certificate, and print the pin that the other nodes need
    #[command(
        after_help = "Examples:\n  portolan pki issue pki bj1\n  portolan pki issue pki bj1 --renew\n\nMakes DIR/NAME.key and DIR/NAME.crt. --renew keeps the key, and with it the pin; --force makes a new key with\na new pin: give the other nodes both pins until the node runs with the new one."
    )]
    Issue {
        /// The folder with the CA
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// The node, named as in its config
        name: String,
        #[command(flatten)]
        how: How,
        /// Keep the node's key and pin, and make a new certificate
        #[arg(long, conflicts_with = "force")]
        renew: bool,
    },
    /// Print the pin of a node's key, for the `[peers]` of the other nodes
    #[command(
        after_help = "Examples:\n  portolan pki pin pki bj1\n  portolan pki pin pki bj1 --json | jq -r .pin"
    )]
    Pin {
        /// The folder with the certificate; the key is not needed
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// The node
        name: String,
    },
}

/// What making keys has in common.
#[derive(Args, Debug, Clone, Copy)]
pub(crate) struct How {
    /// How long the certificate is valid [default: 3650 for the CA, 730 for nodes]
    #[arg(long, value_name = "NUMBER")]
    days: Option<u32>,
    /// Replace the files if they exist; a new key has a new pin
    #[arg(long)]
    force: bool,
}

/// What `init --json` and `issue --json` print.
#[derive(Serialize)]
struct Made {
    certificate: PathBuf,
    key: PathBuf,
    /// Not of the CA: a pin is what peers are known by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pin: Option<String>,
    not_after: String,
}

/// What `pin --json` prints.
#[derive(Serialize)]
struct Pinned<'a> {
    name: &'a str,
    pin: String,
}

/// Does a command.
#[must_use]
pub(crate) fn run(command: &Pki, json: bool) -> Exit {
    let done = match command {
        Pki::Init { folder, how } => init(folder, *how, json),
        Pki::Issue { folder, name, how, renew } => issue(folder, name, *how, *renew, json),
        Pki::Pin { folder, name } => pin(folder, name, json),
    };
    match done {
        Ok(()) => Exit::Good,
        Err(error) if json => {
            output::write_json(&ApiError::new(0, error.to_string(), None));
            Exit::Bad
        }
        Err(error) => {
            output::complain(&format!("error: {error}"));
            Exit::Bad
        }
    }
}

fn init(folder: &Path, how: How, json: bool) -> Result<(), PkiError> {
    let issued = pki::init(folder, &making(how, false))?;
    show(json, &made(&issued, false), || {
        format!(
            "{} (secret)\n{}, valid until {}\n\nNext: portolan pki issue {} NAME, for every node\n",
            issued.key.display(),
            issued.certificate.display(),
            issued.not_after(),
            folder.display()
        )
    });
    Ok(())
}

fn issue(folder: &Path, name: &str, how: How, renew: bool, json: bool) -> Result<(), PkiError> {
    let issued = pki::issue(folder, name, &making(how, renew))?;
    show(json, &made(&issued, true), || {
        format!(
            "{} (secret)\n{}, valid until {}\npin {}\n\n\
             Next: copy both files and ca.crt into a folder on {name}, and name it in its config:\n\
             \x20 [peers]\n  identity = \"pki/{name}\"\n\
             and write the pin into [peers] of the other nodes:\n\
             \x20 {{ name = \"{name}\", site = \"…\", address = \"…\", pin = \"{}\" }}\n",
            issued.key.display(),
            issued.certificate.display(),
            issued.not_after(),
            issued.pin,
            issued.pin
        )
    });
    Ok(())
}

fn pin(folder: &Path, name: &str, json: bool) -> Result<(), PkiError> {
    let pin = pki::pin(folder, name)?.to_string();
    show(json, &Pinned { name, pin: pin.clone() }, || format!("{pin}\n"));
    Ok(())
}

fn making(how: How, renew: bool) -> Making {
    let now_s = i64::try_from(clock::unix_s()).unwrap_or(i64::MAX);
    Making { days: how.days, force: how.force, renew, now_s }
}

fn made(issued: &Issued, with_pin: bool) -> Made {
    Made {
        certificate: issued.certificate.clone(),
        key: issued.key.clone(),
        pin: with_pin.then(|| issued.pin.to_string()),
        not_after: issued.not_after(),
    }
}
