//! `portolan pki`: what a newcomer does, and its exit codes and JSON.
#![allow(clippy::unwrap_used, reason = "a test")]

use portolan_tests::setup::Setup;

#[test]
fn keys_of_three_nodes() {
    let setup = Setup::empty();
    let said = setup.cli(&["pki", "init", "pki"]).expect(0);
    assert!(said.text().contains("pki issue pki NAME"), "{}", said.text());
    let mut pins = Vec::new();
    for name in ["bj1", "fra1", "nyc1"] {
        let said = setup.cli(&["pki", "issue", "pki", name]).expect(0);
        let pin = setup.cli(&["pki", "pin", "pki", name]).expect(0).stdout.trim().to_owned();
        assert!(pin.starts_with("sha256:") && said.text().contains(&pin), "{pin}\n{}", said.text());
        assert!(said.text().contains(&format!("identity = \"pki/{name}\"")), "{}", said.text());
        pins.push(pin);
    }
    pins.dedup();
    assert_eq!(pins.len(), 3);

    let again = setup.cli(&["pki", "issue", "pki", "bj1"]).expect(1);
    assert!(again.text().contains("--renew") && again.text().contains("--force"), "{}", again.text());
    let renewed =
        setup.cli(&["pki", "issue", "pki", "bj1", "--renew", "--days", "30", "--json"]).expect(0).json();
    assert_eq!(renewed["pin"], pins[0].as_str());
    assert_eq!(renewed["key"], "pki/bj1.key");
    let forced = setup.cli(&["pki", "issue", "pki", "bj1", "--force", "--json"]).expect(0).json();
    assert_ne!(forced["pin"], pins[0].as_str());
    let pin = setup.cli(&["pki", "pin", "pki", "bj1", "--json"]).expect(0).json();
    assert_eq!((&pin["pin"], &pin["name"]), (&forced["pin"], &serde_json::json!("bj1")));

    let _ = setup.cli(&["pki", "init", "pki"]).expect(1);
    let _ = setup.cli(&["pki", "issue", "nowhere", "bj1"]).expect(1);
    let _ = setup.cli(&["pki", "issue", "pki", "bj1", "--force", "--renew"]).expect(2);
    let refused = setup.cli(&["pki", "issue", "pki", "ca", "--json"]).expect(1).json();
    assert!(refused["error"].as_str().is_some_and(|error| error.contains("node's name")), "{refused}");
}
