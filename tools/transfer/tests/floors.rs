//! Checks that files form no cycles, that modules lead to every file, and that every file has
//! documentation.

use std::path::Path;

use firn_testkit::floors::{FloorPlan, check};

#[test]
fn files_make_no_rings() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (files, _) = check(&src, &FloorPlan::default()).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(files > 20, "{files} files");
}
