//! Tests the structure of the modules.

use std::path::Path;

use firn_testkit::floors::{FloorPlan, check};

#[test]
fn modules_import_only_lower_floors() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let floors = &[
        ("assets", 0),
        ("events", 0),
        ("names", 0),
        ("sample", 0),
        ("explain", 1),
        ("shape", 1),
        ("store", 1),
        ("monitor", 2),
        ("simulate", 2),
        ("statements", 2),
        ("access", 3),
        ("api", 4),
        ("console", 5),
    ];
    let (files, _) = check(&src, &FloorPlan { floors, ..FloorPlan::default() })
        .unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(files > 10, "{files} files");
}
