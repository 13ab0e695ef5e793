//! A module imports only lower floors, and every file says what it is.

use std::path::Path;

use firn_testkit::floors::{Plan, check};

/// Siblings do not know each other, but options in `base` name a policy.
const PLAN: Plan<'_> = Plan {
    floors: &[
        ("compaction", 0),
        ("base", 0),
        ("env", 1),
        ("cache", 1),
        ("wal", 2),
        ("memtable", 2),
        ("sstable", 2),
        ("manifest", 2),
        ("merge", 3),
        ("db", 4),
    ],
    neighbours: &[("base", "compaction")],
};

#[test]
fn imports_go_downwards_and_every_file_says_what_it_is() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (files, imports) = check(&src, &PLAN).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(files > 50 && imports > 100, "{files} files, {imports} imports");
}
