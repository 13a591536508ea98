//! Zonemaster's tests of name servers, in a network of its own with a root of its own.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;

use portolan_tests::netns::{self, Namespace};
use portolan_tests::place;
use portolan_tests::program::{Said, have};
use portolan_tests::setup::Setup;

#[test]
fn zonemaster_finds_no_fault_in_the_name_server() {
    if !have("zonemaster-cli") {
        return;
    }
    let Some(namespace) = Namespace::new() else { return };
    namespace.interface("net", &["10.7.0.1/24", "10.7.0.2/24", "10.7.0.53/24"]);
    let start = |case: &str, address: &str| {
        let mut setup = Setup::case(case);
        setup.listen(format!("{address}:53").parse().unwrap()).within(&namespace);
        setup.start()
    };
    let _root = start("zonemaster-root", "10.7.0.53");
    let _node = start("zonemaster", "10.7.0.1");
    let mut command = netns::command(Some(namespace.name()), Path::new("zonemaster-cli"));
    command.args(["--hints"]).arg(place::case_folder("zonemaster-root").join("hints"));
    command.args(["--no-ipv6", "--level", "INFO", "--raw", "--show-testcase", "--show-module"]);
    for module in ["Nameserver", "Basic", "Consistency", "Delegation", "Syntax", "Zone"] {
        command.args(["--test", module]);
    }
    command.arg("zone.test");
    let said = Said::by(&mut command).expect(0);
    let lines: Vec<_> = said.stdout.lines().filter(|line| line.contains("NAMESERVER")).collect();
    assert!(lines.len() > 10, "zonemaster has tested nothing:\n{}", said.text());
    let faults: Vec<_> =
        said.stdout.lines().filter(|line| line.contains(" ERROR ") || line.contains(" CRITICAL ")).collect();
    assert!(faults.is_empty(), "{faults:#?}\n{}", said.stdout);
}
