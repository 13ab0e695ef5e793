//! What a store leaves behind in its process when its last handle has gone: nothing, though no other
//! store is used afterwards. The epoch is the process's, so this file has one test.

#![allow(clippy::disallowed_methods)] // the directory of the store is removed directly

use std::sync::Arc;

use firn_kv::{Compression, Db, DbOptions, Env, OpenFiles, OsEnv, TreeOptions};

#[test]
fn nothing_stays_when_the_last_handle_goes() {
    let dir = std::env::temp_dir().join(format!("firn-left-{}", std::process::id()));
    for (threads, closes, tree_last) in
        [(0, true, false), (0, false, true), (1, true, true), (2, false, false), (2, true, true)]
    {
        let env: Arc<dyn Env> = OsEnv::new();
        let files = OpenFiles::new(100);
        // Compressed tables are read through descriptors.
        let lz4 = TreeOptions { compression: vec![Compression::Lz4], ..TreeOptions::default() };
        let options = DbOptions {
            background_threads: threads,
            open_files: Some(files.clone()),
            ..DbOptions::default()
        };
        let db = Db::open_in(env.clone(), &dir, options).unwrap();
        let tree = db.tree("t", lz4).unwrap();
        for round in 0..3 {
            for i in 0..2_000_u32 {
                tree.put(i.to_be_bytes(), [round; 100]).unwrap();
            }
            tree.flush().unwrap();
            assert_eq!(tree.iter().count(), 2_000);
        }
        tree.put("in the memtable", "a value").unwrap();
        assert!(Arc::strong_count(&env) > 1 && files.open() > 0);
        if closes {
            db.close().unwrap();
        }
        // One of them is the last handle.
        if tree_last {
            drop(db);
            drop(tree);
        } else {
            drop(tree);
            drop(db);
        }
        assert_eq!(files.open(), 0, "{threads} threads: files");
        assert_eq!(Arc::strong_count(&env), 1, "{threads} threads: who holds the environment");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
