//! docs/configuration.md names every key of the schema with its default, and nothing else.
#![allow(clippy::unwrap_used, clippy::wildcard_enum_match_arm, reason = "a test may panic, and JSON is open")]

use std::collections::BTreeMap;

use serde_json::Value as Json;

/// Key path -> default as TOML, `required`, or `none`.
type Keys = BTreeMap<String, String>;

fn toml_of(value: &Json) -> String {
    match value {
        Json::Array(items) => format!("[{}]", items.iter().map(toml_of).collect::<Vec<_>>().join(", ")),
        Json::Object(map) if map.is_empty() => "{}".into(),
        other => other.to_string(),
    }
}

fn walk(schema: &Json, path: &str, keys: &mut Keys) {
    for part in ["anyOf", "items"] {
        match &schema[part] {
            Json::Array(parts) => parts.iter().for_each(|it| walk(it, path, keys)),
            Json::Object(_) => walk(&schema[part], path, keys),
            _ => {}
        }
    }
    let Some(properties) = schema["properties"].as_object() else { return };
    let required: Vec<&str> =
        schema["required"].as_array().unwrap().iter().filter_map(Json::as_str).collect();
    for (key, property) in properties {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        // members and virtual servers have the service's checks, and a service's own geography is a [[geo]] without its name
        if ["service.members.check", "virtual_server.check", "service.geo"].contains(&path.as_str()) {
            keys.insert(path, "none".into());
            continue;
        }
        let default = match &property["default"] {
            _ if required.contains(&key.as_str()) => "required".into(),
            Json::Null => "none".into(),
            value => toml_of(value),
        };
        keys.insert(path.clone(), default);
        walk(property, &path, keys);
    }
}

/// The tables under each heading that names a path.
fn documented() -> Keys {
    let text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/configuration.md")).unwrap();
    let mut keys = Keys::new();
    let mut path = None;
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix('#') {
            let heading = heading.trim_start_matches('#').trim();
            path = match heading.strip_prefix('`').and_then(|rest| rest.split('`').next()) {
                Some(name) => Some(format!("{name}.")),
                None if heading == "Top level" => Some(String::new()),
                None => None,
            };
            continue;
        }
        let Some(path) = &path else { continue };
        let cells: Vec<&str> = line.split(" | ").collect();
        let [key, _, default, ..] = cells.as_slice() else { continue };
        let Some(key) = key.strip_prefix("| `").and_then(|key| key.strip_suffix('`')) else { continue };
        let default = default.trim_matches('`').to_owned();
        let paths: Vec<String> = match path.as_str() {
            "service.check.*." => ["icmp", "tcp", "http", "https", "dns", "command"]
                .map(|kind| format!("service.check.{kind}."))
                .into(),
            path => vec![path.to_owned()],
        };
        for path in paths {
            assert!(
                keys.insert(format!("{path}{key}"), default.clone()).is_none(),
                "{path}{key} stands twice"
            );
        }
    }
    keys
}

#[test]
fn the_reference_is_the_schema() {
    let mut keys = Keys::new();
    walk(&portolan_config::json_schema(), "", &mut keys);
    let documented = documented();
    let mut wrong = Vec::new();
    for (key, default) in &keys {
        match documented.get(key) {
            None => wrong.push(format!("{key}: not in the reference (default {default})")),
            Some(said) if said != default => {
                wrong.push(format!("{key}: the reference says {said}, the program {default}"))
            }
            Some(_) => {}
        }
    }
    wrong.extend(
        documented.keys().filter(|key| !keys.contains_key(*key)).map(|key| format!("{key}: no such key")),
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(keys.len() > 150, "{} keys", keys.len());
}

#[test]
fn members_have_the_checks_of_services() {
    let schema = portolan_config::json_schema();
    let service = &schema["properties"]["service"]["items"]["properties"];
    let member = &service["members"]["anyOf"][1]["items"]["properties"]["check"]["anyOf"][1];
    let server = &schema["properties"]["virtual_server"]["items"]["properties"]["check"]["anyOf"][1];
    let mut of_service = Keys::new();
    let mut of_member = Keys::new();
    walk(&service["check"], "", &mut of_service);
    walk(member, "", &mut of_member);
    let mut of_server = Keys::new();
    walk(server, "", &mut of_server);
    assert_eq!(of_service, of_member);
    assert_eq!(of_service, of_server);
    assert!(of_service.contains_key("http.path"));
}
