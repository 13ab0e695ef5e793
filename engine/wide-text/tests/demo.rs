//! The exact output of the demos. `FIRN_WRITE_DEMOS=1` rewrites it.
// The outputs are files of the repository.
#![allow(clippy::disallowed_methods)]

use std::sync::Arc;

use firn_kv::DbOptions;
use firn_kv::MemEnv;
use firn_wide::{Options, StoreOptions, Wide};
use firn_wide_text::demo;

fn open(env: &Arc<MemEnv>) -> Wide {
    let db = DbOptions { memory_budget: 16 << 20, wal_segment: 256 << 10, ..DbOptions::default() };
    Wide::open_in(
        env.clone(),
        "/demo",
        Options {
            store: StoreOptions { db, clock: None, ..StoreOptions::default() },
            ..Options::default()
        },
    )
    .unwrap()
}

fn check(name: &str, told: &str) {
    let file = format!("{}/tests/demo/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("FIRN_WRITE_DEMOS").is_some() {
        std::fs::write(&file, told).unwrap();
    }
    let expected = std::fs::read_to_string(&file).unwrap();
    assert_eq!(told, expected, "{file} differs");
}

#[test]
fn the_blog() {
    let wide = open(&Arc::new(MemEnv::new(1)));
    check("bloggy", &demo::bloggy(&wide).unwrap());
    let again = demo::bloggy(&wide).unwrap_err();
    assert_eq!(
        again.to_string(),
        "Keyspace names must be case-insensitively unique (\"BloggyAppy\" conflicts with \"BloggyAppy\")"
    );
}

#[test]
fn the_songs() {
    let env = Arc::new(MemEnv::new(2));
    check("songs", &demo::songs(&open(&env), env.clone()).unwrap());
}
