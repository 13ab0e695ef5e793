//! Checks that modules import only lower floors, that the files of a module form no new import
//! cycles, and that every file has a module comment.

use std::path::Path;

use firn_testkit::floors::{FloorPlan, check};

/// Modules of one floor that import each other: tokens have types, and compaction filters depend on
/// the layout of keys.
const PLAN: FloorPlan<'_> = FloorPlan {
    floors: &[
        ("base", 0),
        ("types", 0),
        ("ring", 0),
        ("key", 1),
        ("cell", 1),
        ("schema", 1),
        ("store", 2),
        ("api", 3),
        ("internals", 4),
    ],
    neighbours: &[("types", "base"), ("ring", "base"), ("ring", "types"), ("cell", "key")],
    rings: include_str!("rings.txt"),
};

#[test]
fn imports_go_downwards_and_files_make_no_new_rings() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (files, imports) = check(&src, &PLAN).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(files > 20 && imports > 50, "{files} files, {imports} imports");
}
