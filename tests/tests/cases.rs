//! Every folder of `cases/` with a `case.txt`: a node with its config, and the conversation.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;

use portolan_tests::place::crate_folder;
use portolan_tests::script;
use portolan_tests::setup::Setup;

macro_rules! cases {
    ($($function:ident = $folder:literal),* $(,)?) => {
        /// The folders, each with a test of its own.
        const CASES: &[&str] = &[$($folder),*];

        $(#[test]
        fn $function() {
            script::run(&Setup::case($folder).start(), $folder);
        })*
    };
}

cases! {
    acl = "acl",
    answers = "answers",
    ecs_off = "ecs-off",
    ecs_public = "ecs-public",
    ecs_scope = "ecs-scope",
    fallback = "fallback",
    geo = "geo",
    isp = "isp",
    records = "records",
    siblings = "siblings",
    tiers = "tiers",
    zone_text = "zone-text",
}

#[test]
fn no_case_is_forgotten() {
    let folders = std::fs::read_dir(crate_folder().join("cases")).unwrap();
    let scripted: BTreeSet<_> = folders
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().join("case.txt").exists())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    assert_eq!(scripted, CASES.iter().map(|case| (*case).to_owned()).collect());
}
