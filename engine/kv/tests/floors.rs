//! Checks the module layers. A module imports only from lower floors, files of a module form no new
//! import cycles, and every file has a module doc.

use std::path::Path;

use firn_testkit::floors::{FloorPlan, check};

/// Modules of one floor do not import each other, except that options in `base` name a policy.
const PLAN: FloorPlan<'_> = FloorPlan {
    floors: &[
        ("compaction", 0),
        ("util", 0),
        ("base", 1),
        ("env", 2),
        ("block_cache", 2),
        ("range_del", 2),
        ("counters", 2),
        ("wal", 3),
        ("memtable", 3),
        ("sstable", 3),
        ("manifest", 3),
        ("iterator", 4),
        ("rewrite", 5),
        ("db", 6),
        ("internals", 7),
    ],
    neighbours: &[],
    rings: include_str!("rings.txt"),
};

#[test]
fn imports_go_downwards_and_files_make_no_new_rings() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (files, imports) = check(&src, &PLAN).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(files > 50 && imports > 100, "{files} files, {imports} imports");
}
