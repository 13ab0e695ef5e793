//! Checks that every public method of a session, its statements and its results is called by a
//! history, by threads or by a crash test. `public_api.txt` lists where other methods are tested.

use std::path::Path;

use firn_testkit::public_api::{Runs, check};

#[test]
fn every_public_method_is_in_a_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let runs = ["histories.rs", "concurrent.rs", "lost.rs", "living.rs", "select_random.rs"]
        .map(|r| root.join("tests").join(r));
    let types =
        ["Session", "Prepared", "PagedRows", "OwnedRow", "Rows", "Row", "PagingState", "Engine"];
    let runs = [Runs { kind: "run", sources: runs.to_vec() }];
    let checked = check(&root.join("src"), &types, &runs, &root.join("tests/public_api.txt"));
    let (methods, called) = checked.unwrap_or_else(|wrong| panic!("{wrong}"));
    println!("of {methods} public methods {called:?} are in a run");
    assert!(methods > 20);
}
