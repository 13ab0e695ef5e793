//! Checks that every public method of the store, of Thrift's operations and of the builder is
//! called by a model test, a crash test or a thread test. `public_api.txt` lists where other
//! methods are tested.

use std::path::Path;

use firn_testkit::public_api::{Runs, check};

#[test]
fn every_public_method_is_in_a_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // The histories of CQL use the store too.
    let runs = [
        "tests/store",
        "tests/threads.rs",
        "../cql/tests/histories.rs",
        "../cql/tests/concurrent.rs",
        "../cql/tests/lost.rs",
    ];
    let runs = runs.map(|r| root.join(r));
    let types = [
        "CellStore",
        "Family",
        "StoreFamily",
        "Mutation",
        "StoreMutation",
        "SliceReader",
        "StoreView",
        "IndexScan",
        "CellValue",
        "Slice",
        "StoreSlice",
        "Partitions",
        "PurgeReport",
        "Wide",
        "Keyspace",
        "KeyspaceSchema",
        "ColumnFamily",
        "Row",
        "Rows",
        "Find",
        "Batch",
        "RowReader",
    ];
    let runs = [Runs { kind: "run", sources: runs.to_vec() }];
    let checked = check(&root.join("src"), &types, &runs, &root.join("tests/public_api.txt"));
    let (methods, called) = checked.unwrap_or_else(|wrong| panic!("{wrong}"));
    println!("of {methods} public methods {called:?} are in a run");
    assert!(methods > 100);
}
