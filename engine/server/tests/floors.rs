//! Checks that a module imports only lower floors, that files form no new cycles, and that every
//! file has documentation.

use std::path::Path;

use firn_testkit::floors::{FloorPlan, check};

/// Options name the TLS files and compute the descriptor plan.
const PLAN: FloorPlan<'_> = FloorPlan {
    floors: &[
        ("wire", 0),
        ("transport", 0),
        ("http", 0),
        ("descriptors", 0),
        ("options", 0),
        ("node", 1),
        ("client", 3),
        ("native", 2),
        ("thrift", 2),
        ("server", 3),
        ("internals", 4),
    ],
    neighbours: &[("options", "transport"), ("options", "descriptors"), ("options", "http")],
    rings: include_str!("rings.txt"),
};

#[test]
fn imports_go_downwards_and_files_make_no_new_rings() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (files, imports) = check(&src, &PLAN).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(files > 20 && imports >= 8, "{files} files, {imports} imports");
}
