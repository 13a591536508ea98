//! Everything that README, docs and deploy show is true: configs are accepted, commands run, names exist.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::os::unix::fs::symlink;
use std::path::Path;

use portolan_tests::document::{blocks, documents, inline_code, words};
use portolan_tests::mmdb;
use portolan_tests::netns::{self, Namespace};
use portolan_tests::place::{self, copy_folder, source_root};
use portolan_tests::program::Said;
use portolan_tests::setup::Setup;

/// A folder as the documents' examples expect it: beside a config lie zones, ISP tables, a GeoIP file.
fn folder() -> Setup {
    let setup = Setup::empty();
    let root = source_root();
    copy_folder(&root.join("zones"), &setup.path("zones"));
    symlink(root.join("isp-tables"), setup.path("isp-tables")).unwrap();
    let place =
        "{ \"10.0.0.0/8\": { \"continent\": { \"code\": \"AS\" }, \"country\": { \"iso_code\": \"CN\" },
                   \"location\": { \"latitude\": 39.9, \"longitude\": 116.4 } } }";
    std::fs::write(setup.path("GeoLite2-City.mmdb"), mmdb::from_json(place)).unwrap();
    setup
}

fn accepted(setup: &Setup, place: &str, text: &str) {
    setup.write("portolan.toml", text);
    let said = setup.cli(&["check", "-c", "portolan.toml"]);
    assert_eq!(said.code, 0, "{place} is refused:\n{}", said.text());
}

#[test]
fn whole_configs_are_accepted() {
    let setup = folder();
    let mut count = 0;
    for file in documents() {
        for block in blocks(&file).iter().filter(|block| block.text.starts_with("version = 1")) {
            accepted(&setup, &block.place, &block.text);
            count += 1;
        }
    }
    assert!(count >= 3, "only {count} whole configs found");
}

/// Pieces of a service or of its members, as docs/checks.md shows them.
#[test]
fn pieces_of_checks_are_accepted() {
    let setup = folder();
    let file = source_root().join("docs/checks.md");
    let mut count = 0;
    for block in blocks(&file).iter().filter(|block| block.language == "toml") {
        // a certificate that the piece names
        std::fs::create_dir_all(setup.path("pki")).unwrap();
        std::fs::copy(Path::new("/etc/ssl/certs/ca-certificates.crt"), setup.path("pki/ca.pem")).ok();
        if block.text.contains("ca_file") && !setup.path("pki/ca.pem").exists() {
            continue;
        }
        let config = format!(
            "version = 1\n[node]\nname = \"n1\"\nsite = \"here\"\n[dns]\nlisten = [\"127.0.0.1:5353\"]\n\
             zones = [\"zones/example.com.zone\"]\n[[site]]\nname = \"here\"\n[[service]]\nname = \"app.example.com.\"\n\
             {}\nmembers = [{{ site = \"here\", address = \"192.0.2.10\", port = 8080 }}]\n",
            block.text
        );
        accepted(&setup, &block.place, &config);
        count += 1;
    }
    assert!(count >= 8, "only {count} pieces found");
}

#[test]
fn deployed_configs_are_accepted() {
    let setup = Setup::empty();
    copy_folder(&source_root().join("deploy"), &setup.path("deploy"));
    symlink(source_root().join("isp-tables"), setup.path("isp-tables")).unwrap();
    let mut files = vec!["deploy/portolan.toml".to_owned()];
    for entry in std::fs::read_dir(setup.path("deploy/examples")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".toml") {
            files.push(format!("deploy/examples/{name}"));
        }
    }
    assert!(files.len() >= 4, "{files:?}");
    for file in files {
        let _ = setup.cli(&["check", "-c", &file]).expect(0);
    }
}

/// "A first hour", step by step, in a network of its own because the config has a port of its own.
#[test]
fn the_first_hour_of_the_readme() {
    let Some(namespace) = Namespace::new() else { return };
    let readme = std::fs::read_to_string(source_root().join("README.md")).unwrap();
    let hour = readme.split("## A first hour").nth(1).unwrap().split("\n## ").next().unwrap();
    let mut setup = folder();
    let config = blocks(&source_root().join("README.md"))
        .into_iter()
        .find(|it| it.text.starts_with("version = 1"))
        .unwrap();
    setup.write("portolan.toml", &config.text);
    setup.listen("127.0.0.1:5353".parse().unwrap()).within(&namespace);

    let commands: Vec<_> =
        inline_code(hour).into_iter().filter(|code| code.starts_with("portolan ")).collect();
    let (offline, online): (Vec<_>, Vec<_>) = commands.iter().partition(|command| command.contains(" -c "));
    for command in offline.iter().filter(|command| !command.starts_with("portolan run")) {
        let words = words(command);
        let args: Vec<_> = words[1..].iter().map(String::as_str).collect();
        let said = setup.cli(&args);
        assert_eq!(said.code, 0, "README: `{command}`\n{}", said.text());
    }
    assert!(online.len() >= 4, "{online:?}");

    let node = setup.start();
    let dig = inline_code(hour).into_iter().find(|code| code.starts_with("dig ")).unwrap();
    let words_of_dig = words(&dig);
    let mut command = netns::command(Some(namespace.name()), Path::new("dig"));
    let said = Said::by(command.args(&words_of_dig[1..])).expect(0);
    assert!(said.stdout.contains("192.0.2.10"), "README: `{dig}`\n{}", said.stdout);
    for command in online {
        let words = words(command);
        let args: Vec<_> = words[1..].iter().map(String::as_str).collect();
        let said = node.cli(&[&args[..], &["--socket", "portolan.sock"]].concat());
        // nobody has built the servers of the example yet, and `status` says so by its exit code
        let expected = i32::from(command.ends_with(" status"));
        assert_eq!(said.code, expected, "README: `{command}`\n{}", said.text());
    }
}

/// Every command that docs/operations.md names exists, and every metric.
#[test]
fn commands_and_metrics_of_the_operations_page() {
    let page = std::fs::read_to_string(source_root().join("docs/operations.md")).unwrap();
    let setup = folder();
    for command in inline_code(&page).iter().filter(|code| code.starts_with("portolan ")) {
        // the words before the first argument
        let words: Vec<_> = command
            .split(' ')
            .skip(1)
            .take_while(|word| word.chars().all(|letter| letter.is_ascii_lowercase()))
            .chain(["--help"])
            .collect();
        let said = setup.cli(&words);
        assert_eq!(said.code, 0, "docs/operations.md: `{command}`\n{}", said.text());
    }

    // a peer that never comes is enough for its metrics
    let mut setup = setup;
    let _ = setup.cli(&["pki", "init", "pki"]).expect(0);
    let _ = setup.cli(&["pki", "issue", "pki", "n1"]).expect(0);
    let pin = setup.cli(&["pki", "issue", "pki", "n2", "--json"]).expect(0).json()["pin"].clone();
    setup.set("peers", place::own_socket()).set("absent", place::own_socket()).set("pin", pin);
    setup.write(
        "portolan.toml",
        "version = 1\n[node]\nname = \"n1\"\nsite = \"here\"\n[dns]\nlisten = [\"@dns@\"]\n\
         zones = [\"zones/example.com.zone\"]\n[tables]\nisp = \"isp-tables/\"\n[api]\nlisten = \"./api.sock\"\n\
         [peers]\nlisten = \"@peers@\"\nidentity = \"pki/n1\"\n\
         members = [{ name = \"n2\", site = \"here\", address = \"@absent@\", pin = @pin@ }]\n\
         [[site]]\nname = \"here\"\n[[service]]\nname = \"app.example.com.\"\nmembers = [{ address = \"192.0.2.10\" }]\n",
    );
    let node = setup.start();
    let _ = node.dig("app.example.com. A +subnet=36.110.1.0/24");
    let _ = node.cli(&["reload"]).expect(0);
    let served = node.curl(&["-f"], "/metrics").expect(0).stdout;
    let table = page.split("\n## Metrics").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let names: Vec<_> = rows.flat_map(|row| inline_code(row.split('|').nth(1).unwrap())).collect();
    assert!(names.len() > 15, "{names:?}");
    let missing: Vec<_> = names
        .iter()
        .filter(|name| {
            let family = format!("portolan_{}", name.trim_end_matches("_total"));
            !served
                .lines()
                .any(|line| line.starts_with(&format!("# TYPE {family} ")) || line.starts_with(&family))
        })
        .collect();
    assert!(
        missing.is_empty(),
        "docs/operations.md names metrics that are not served: {missing:?}\n{served}"
    );
    let unnamed: Vec<_> = served
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE portolan_")?.split(' ').next())
        .filter(|family| !names.iter().any(|name| name.trim_end_matches("_total") == *family))
        .collect();
    assert!(unnamed.is_empty(), "docs/operations.md does not name: {unnamed:?}");
}

/// Links between documents lead somewhere.
#[test]
fn links_lead_to_files() {
    for file in documents() {
        let text = std::fs::read_to_string(&file).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = link.split('#').next().unwrap();
            if path.is_empty() || path.contains("://") {
                continue;
            }
            assert!(file.parent().unwrap().join(path).exists(), "{}: {link} leads nowhere", file.display());
        }
    }
}
