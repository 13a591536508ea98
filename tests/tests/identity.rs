//! `check` says what `run` would refuse: of this node's key and certificate, and of its own pin given to a peer.
#![allow(clippy::unwrap_used, reason = "a test")]

use portolan_tests::setup::Setup;

const CONFIG: &str = "version = 1
[node]
name = \"n1\"
site = \"here\"
[dns]
listen = [\"@dns@\"]
zones = [\"@common@/choose.zone\"]
[peers]
listen = \"127.0.0.1:7353\"
identity = \"pki/n1\"
members = [{ name = \"n2\", site = \"there\", address = \"127.0.0.2:7353\", pin = \"@pin@\" }]
[[site]]
name = \"here\"
[[site]]
name = \"there\"
";

/// Two nodes' keys and the config of the first.
fn setup() -> Setup {
    let mut setup = Setup::empty();
    for args in [&["pki", "init", "pki"][..], &["pki", "issue", "pki", "n1"], &["pki", "issue", "pki", "n2"]]
    {
        let _ = setup.cli(args).expect(0);
    }
    let pin = setup.cli(&["pki", "pin", "pki", "n2"]).expect(0).stdout;
    setup.set("pin", pin.trim());
    setup.write("portolan.toml", CONFIG);
    let _ = setup.cli(&["check", "-c", "portolan.toml"]).expect(0);
    setup
}

fn refused(setup: &Setup, words: &[&str]) {
    let check = setup.cli(&["check", "-c", "portolan.toml"]).expect(1);
    let run = setup.cli(&["run", "-c", "portolan.toml"]).expect(1);
    for word in words {
        assert!(check.text().contains(word), "check has no word about {word}: {}", check.text());
        assert!(run.text().contains(word), "run has no word about {word}: {}", run.text());
    }
}

#[test]
fn files_that_are_no_identity() {
    for (file, text, words) in [
        ("pki/n1.key", "garbage", &["n1.key", "no private key"][..]),
        ("pki/n1.crt", "", &["n1.crt", "no certificate"]),
        ("pki/ca.crt", "garbage", &["ca.crt", "no certificate", "trust pins alone"]),
    ] {
        let setup = setup();
        std::fs::write(setup.path(file), text).unwrap();
        refused(&setup, words);
    }
    let setup = setup();
    std::fs::copy(setup.path("pki/n2.key"), setup.path("pki/n1.key")).unwrap();
    refused(&setup, &["n1.key", "does not belong to"]);
}

#[test]
fn a_certificate_that_ends_soon_is_warned_about() {
    let setup = setup();
    let _ = setup.cli(&["pki", "issue", "pki", "n1", "--renew", "--days", "3"]).expect(0);
    let said = setup.cli(&["check", "-c", "portolan.toml"]).expect(0);
    assert!(said.text().contains("certificate expires in"), "{}", said.text());
}

/// Also where the key is not: the certificate tells it.
#[test]
fn the_own_pin_given_to_a_peer() {
    let mut setup = setup();
    let own = setup.cli(&["pki", "pin", "pki", "n1"]).expect(0).stdout;
    setup.set("pin", own.trim());
    setup.write("portolan.toml", CONFIG);
    refused(&setup, &["n2", "this node's own", "pki pin DIR n2"]);
    std::fs::remove_file(setup.path("pki/n1.key")).unwrap();
    let said = setup.cli(&["check", "-c", "portolan.toml"]).expect(1);
    assert!(said.text().contains("this node's own"), "{}", said.text());
}

#[test]
fn secrets_that_are_elsewhere() {
    let setup = setup();
    std::fs::remove_dir_all(setup.path("pki")).unwrap();
    let said = setup.cli(&["check", "-c", "portolan.toml"]).expect(0);
    assert!(said.text().contains("there is no file"), "{}", said.text());
}
