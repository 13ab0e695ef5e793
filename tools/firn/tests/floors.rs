//! Tests the structure of the modules: no new cycles, every file is reachable and has a module
//! comment.

use std::path::Path;

use firn_testkit::floors::{FloorPlan, check};

#[test]
fn files_make_no_new_rings() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (files, _) =
        check(&src, &FloorPlan { rings: include_str!("rings.txt"), ..FloorPlan::default() })
            .unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(files > 10, "{files} files");
}
