//! Checks that every public method of the store is called by three kinds of tests: the model on one
//! thread, tests with several threads, and tests with crashes or failures. `public_api.txt` lists
//! the exceptions and their reasons.

use std::path::Path;

use firn_testkit::public_api::{Runs, check};

#[test]
fn every_public_method_is_in_a_run_of_each_kind() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let below =
        |names: &[&str]| names.iter().map(|n| root.join("tests").join(n)).collect::<Vec<_>>();
    let mut model: Vec<_> = below(&["model.rs", "ttl.rs"]);
    let parts = [
        "bulk",
        "changes",
        "compare",
        "one_step",
        "hooks",
        "place",
        "reads",
        "run",
        "setup",
        "transactions",
        "whole",
    ];
    model.extend(parts.map(|p| root.join(format!("tests/model/{p}.rs"))));
    let mut crash = below(&["crash.rs", "faults.rs", "history", "subscriptions.rs"]);
    crash.push(root.join("../../tools/torture/src"));
    let threads = below(&["model/threads.rs", "interleave.rs", "interleave"]);
    let runs = [("model", model), ("threads", threads), ("crash", crash)]
        .map(|(kind, sources)| Runs { kind, sources });
    let types = [
        "Db",
        "Tree",
        "Batch",
        "Snapshot",
        "Transaction",
        "Cursor",
        "Range",
        "trait Readable",
        "Retry",
        "TtlTree",
        "Subscription",
    ];
    let checked = check(&root.join("src"), &types, &runs, &root.join("tests/public_api.txt"));
    let (methods, called) = checked.unwrap_or_else(|wrong| panic!("{wrong}"));
    println!(
        "of {methods} public methods {called:?} are in a run of the model, of threads, of crashes"
    );
    assert!(methods > 60);
}
