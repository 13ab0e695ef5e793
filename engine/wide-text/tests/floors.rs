//! Checks that a module imports only lower floors, that files form no new cycles, and that every
//! file has documentation.

use std::path::Path;

use firn_testkit::floors::{FloorPlan, check};

const PLAN: FloorPlan<'_> = FloorPlan {
    floors: &[("text", 0), ("storage_conf", 1), ("files", 1), ("json", 2), ("cli", 2), ("demo", 3)],
    neighbours: &[],
    rings: include_str!("rings.txt"),
};

#[test]
fn imports_go_downwards_and_files_make_no_new_rings() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (files, imports) = check(&src, &PLAN).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(files > 20 && imports >= 8, "{files} files, {imports} imports");
}
