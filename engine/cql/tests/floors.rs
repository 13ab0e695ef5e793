//! Checks that modules import only lower floors, that the files of a module form no new import
//! cycles, and that every file has a module comment.

use std::path::Path;

use firn_testkit::floors::{FloorPlan, check};

/// On floor 0 errors contain those of the syntax; on floor 1 values use the types of columns.
const PLAN: FloorPlan<'_> = FloorPlan {
    floors: &[
        ("syntax", 0),
        ("error", 0),
        ("script", 0),
        ("catalog", 1),
        ("values", 1),
        ("analysis", 2),
        ("exec", 3),
        ("session", 4),
        ("internals", 5),
    ],
    neighbours: &[("error", "syntax"), ("values", "catalog")],
    rings: include_str!("rings.txt"),
};

#[test]
fn imports_go_downwards_and_files_make_no_new_rings() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (files, imports) = check(&src, &PLAN).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(files > 30 && imports > 50, "{files} files, {imports} imports");
}
