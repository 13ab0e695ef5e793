//! Checks that files form no cycles of imports.

use std::path::Path;

use firn_testkit::floors::{FloorPlan, check};

#[test]
fn files_make_no_rings() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (files, _) = check(&src, &FloorPlan::default()).unwrap_or_else(|e| panic!("{e}"));
    assert!(files > 4, "{files} files");
}
