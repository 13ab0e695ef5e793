//! Checks the module layers. A module imports only from lower floors, files of a module form no new
//! import cycles, and every file has a module doc.

use std::path::Path;

use firn_testkit::floors::{FloorPlan, check};

/// Modules of one floor do not import each other, except that options in `base` name a policy.
const PLAN: FloorPlan<'_> = FloorPlan {
    floors: &[
        ("compaction", 1),
        ("util", 0),
        ("base", 2),
        ("env", 3),
        ("block_cache", 3),
        ("range_del", 3),
        ("counters", 3),
        ("wal", 4),
        ("memtable", 4),
        ("sstable", 4),
        ("manifest", 4),
        ("iterator", 5),
        ("rewrite", 6),
        ("db", 7),
        ("internals", 8),
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
