//! Every public method of the store is called by the model, by the crash and fault tests or by the search of interleavings, or
//! `public_api.txt` says why not.

use std::path::Path;

#[test]
fn every_public_method_is_in_a_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let runs = ["model.rs", "model", "history", "crash.rs", "faults.rs", "interleave"].map(|r| root.join("tests").join(r));
    let types = ["Db", "Tree", "Batch", "Snapshot", "Transaction", "Cursor", "Range"];
    let checked = firn_testkit::public_api::check(&root.join("src"), &types, &runs, &root.join("tests/public_api.txt"));
    let (methods, called) = checked.unwrap_or_else(|wrong| panic!("{wrong}"));
    println!("{called} of {methods} public methods are in a run");
    assert!(methods > 60);
}
