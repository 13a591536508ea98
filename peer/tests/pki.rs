//! Keys and certificates in folders, as `portolan pki` makes them.
#![allow(clippy::unwrap_used, reason = "a test")]

use portolan_peer::pki::make::{CA_DAYS, MAX_DAYS, NODE_DAYS};
use portolan_peer::pki::{self, Identity, Making, PkiError};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::TempDir;

/// 2026-12-01
const NOW_S: i64 = 1_796_083_200;
const DAY_S: i64 = 86_400;

fn making() -> Making {
    Making { days: None, force: false, renew: false, now_s: NOW_S }
}

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    pki::init(folder.path(), &making()).unwrap();
    folder
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_newcomer_gets_all_that_is_needed() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("etc/pki");
    let ca = pki::init(&folder, &making()).unwrap();
    assert_eq!(ca.not_after_s, NOW_S + i64::from(CA_DAYS) * DAY_S);
    let issued = pki::issue(&folder, "bj1", &making()).unwrap();
    assert_eq!(issued.not_after_s, NOW_S + i64::from(NODE_DAYS) * DAY_S);
    assert_eq!(issued.not_after(), "2028-11-30T00:00:00Z");
    assert_eq!(names(&folder), ["bj1.crt", "bj1.key", "ca.crt", "ca.key"]);
    assert_eq!(mode(&folder), 0o700);
    for (name, wanted) in [("bj1.crt", 0o644), ("bj1.key", 0o600), ("ca.crt", 0o644), ("ca.key", 0o600)] {
        assert_eq!(mode(&folder.join(name)), wanted, "{name}");
    }
    let identity = Identity::load(&folder.join("bj1")).unwrap();
    assert_eq!(identity.pin(), issued.pin);
    assert_eq!(pki::pin(&folder, "bj1").unwrap(), issued.pin);
    assert_eq!(identity.warnings(NOW_S), Vec::<String>::new());
    assert_eq!(identity.validity().not_before_s, NOW_S - DAY_S);
    assert_eq!(identity.expires_in(NOW_S).as_secs(), u64::from(NODE_DAYS) * 86_400);
    assert_ne!(pki::issue(&folder, "fra1", &making()).unwrap().pin, issued.pin);
}

#[test]
fn nothing_is_overwritten_unless_said() {
    let folder = folder();
    let first = pki::issue(folder.path(), "bj1", &making()).unwrap();
    let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
    let (ca, key, certificate) = (read("ca.key"), read("bj1.key"), read("bj1.crt"));

    let again = pki::issue(folder.path(), "bj1", &making()).unwrap_err();
    assert!(matches!(again, PkiError::Exists { .. }), "{again}");
    assert!(again.to_string().contains("--renew"), "{again}");
    let again = pki::init(folder.path(), &making()).unwrap_err();
    assert!(again.to_string().contains("--force"), "{again}");
    assert_eq!((&ca, &key, &certificate), (&read("ca.key"), &read("bj1.key"), &read("bj1.crt")));

    // a key whose certificate was lost is kept, too
    fs::remove_file(folder.path().join("bj1.crt")).unwrap();
    pki::issue(folder.path(), "bj1", &making()).unwrap_err();
    assert_eq!(key, read("bj1.key"));

    let renewed = pki::issue(folder.path(), "bj1", &Making { renew: true, ..making() }).unwrap();
    assert_eq!(renewed.pin, first.pin);
    assert_eq!(key, read("bj1.key"));
    assert_ne!(certificate, read("bj1.crt"), "a new serial number at least");

    let forced = pki::issue(folder.path(), "bj1", &Making { force: true, ..making() }).unwrap();
    assert_ne!(forced.pin, first.pin);
    assert_eq!(mode(&folder.path().join("bj1.key")), 0o600);
    assert_eq!(names(folder.path()), ["bj1.crt", "bj1.key", "ca.crt", "ca.key"], "no remains");
}

#[test]
fn names_and_days_that_make_no_sense() {
    let folder = folder();
    for name in ["", "ca", "../x", "a/b", ".hidden", "-force", "bj 1", "köln", &"a".repeat(64)] {
        let error = pki::issue(folder.path(), name, &making()).unwrap_err();
        assert!(matches!(error, PkiError::Name { .. }), "{name:?}: {error}");
        assert!(matches!(pki::pin(folder.path(), name), Err(PkiError::Name { .. })), "{name:?}");
    }
    for days in [0, MAX_DAYS + 1, u32::MAX] {
        let error = pki::issue(folder.path(), "bj1", &Making { days: Some(days), ..making() }).unwrap_err();
        assert!(matches!(error, PkiError::Days { .. }), "{error}");
    }
    pki::issue(folder.path(), "bj1", &Making { days: Some(MAX_DAYS), ..making() }).unwrap();
    pki::issue(folder.path(), "node_2.bj-1", &making()).unwrap().load().unwrap();
    assert_eq!(
        names(folder.path()),
        ["bj1.crt", "bj1.key", "ca.crt", "ca.key", "node_2.bj-1.crt", "node_2.bj-1.key"]
    );
}

#[test]
fn errors_name_file_and_remedy() {
    let empty = tempfile::tempdir().unwrap();
    let error = pki::issue(empty.path(), "bj1", &making()).unwrap_err().to_string();
    assert!(error.contains("ca.key does not exist") && error.contains("pki init"), "{error}");
    let error = Identity::load(&empty.path().join("bj1")).unwrap_err().to_string();
    assert!(error.contains("bj1.crt does not exist") && error.contains("pki issue"), "{error}");

    let folder = folder();
    pki::issue(folder.path(), "bj1", &making()).unwrap();
    let error =
        pki::issue(folder.path(), "fra1", &Making { renew: true, ..making() }).unwrap_err().to_string();
    assert!(error.contains("fra1.key does not exist"), "{error}");

    let other = self::folder();
    pki::issue(other.path(), "bj1", &making()).unwrap();
    let copy = |from: &str, to: &str| fs::copy(other.path().join(from), folder.path().join(to)).unwrap();
    copy("bj1.key", "bj1.key");
    let error = Identity::load(&folder.path().join("bj1")).unwrap_err().to_string();
    assert!(error.contains("bj1.key: does not belong to") && error.contains("bj1.crt"), "{error}");

    copy("ca.crt", "ca.crt");
    let error = pki::issue(folder.path(), "fra1", &making()).unwrap_err().to_string();
    assert!(error.contains("ca.crt: does not belong to ca.key"), "{error}");

    for (name, content) in
        [("bj1.crt", ""), ("bj1.crt", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")]
    {
        fs::write(folder.path().join(name), content).unwrap();
        let error = Identity::load(&folder.path().join("bj1")).unwrap_err();
        assert!(matches!(error, PkiError::Content { .. }), "{error}");
    }
    fs::write(folder.path().join("bj1.crt"), vec![b'x'; (1 << 20) + 1]).unwrap();
    let error = Identity::load(&folder.path().join("bj1")).unwrap_err().to_string();
    assert!(error.contains("longer than 1 MiB"), "{error}");
}

#[test]
fn warnings_come_before_peers_refuse() {
    let folder = folder();
    let issued = pki::issue(folder.path(), "bj1", &Making { days: Some(100), ..making() }).unwrap();
    let identity = issued.load().unwrap();
    for (days, wanted) in [
        (0, None),
        (69, None),
        (71, Some("expires in 29 days, at 2027-03-11T00:00:00Z")),
        (101, Some("expired at 2027-03-11T00:00:00Z")),
        (-2, Some("is valid from 2026-11-30T00:00:00Z on, its clock says 2026-11-29T00:00:00Z")),
    ] {
        let warnings = identity.warnings(NOW_S + days * DAY_S);
        assert_eq!(warnings.len(), usize::from(wanted.is_some()), "day {days}: {warnings:?}");
        assert!(warnings.iter().all(|warning| warning.contains(wanted.unwrap())), "day {days}: {warnings:?}");
    }
    fs::set_permissions(&issued.key, fs::Permissions::from_mode(0o640)).unwrap();
    let other = self::folder();
    fs::copy(other.path().join("ca.crt"), folder.path().join("ca.crt")).unwrap();
    let warnings = issued.load().unwrap().warnings(NOW_S);
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].contains("not signed by the ca.crt"), "{warnings:?}");
    assert!(warnings[1].contains("chmod 600"), "{warnings:?}");
}
