//! An opening refuses files with valid checksums whose values are out of bounds.

use std::path::Path;
use std::sync::Arc;

use firn_kv::MemEnv;
use firn_kv::internals::base::format_version::FormatVersion;
use firn_kv::internals::base::key::{Kind, MAX_SEQ};
use firn_kv::internals::base::ops::{Op, encode};
use firn_kv::internals::manifest::Manifest;
use firn_kv::internals::wal::{Wal, recover};
use firn_kv::{Db, DbOptions, ErrorKind, TreeOptions};

fn open(env: &MemEnv) -> firn_kv::Result<Db> {
    Db::open_in(
        Arc::new(env.clone()),
        "/db",
        DbOptions { background_threads: 0, wal_segment: 64 << 10, ..DbOptions::default() },
    )
}

fn store() -> MemEnv {
    let env = MemEnv::new(0);
    open(&env).unwrap().tree("t", TreeOptions::default()).unwrap();
    env
}

#[test]
fn a_record_that_runs_over_the_last_sequence_number() {
    for (seq, fits) in [(MAX_SEQ - 2, true), (MAX_SEQ - 1, true), (MAX_SEQ, false)] {
        let env = store();
        let mut ops = vec![];
        for key in [b"a", b"b"] {
            encode(&mut ops, 1, Op::Point { kind: Kind::Put, key, value: b"" });
        }
        let end = recover(&env, Path::new("/db"), 0, &mut |_, _, _| Ok(())).unwrap();
        let mut wal = Wal::create(
            Arc::new(env.clone()),
            Path::new("/db"),
            300,
            FormatVersion::OLDEST,
            &end,
            64 << 10,
        )
        .unwrap();
        let (mut state, number) = Manifest::load(&env, Path::new("/db")).unwrap().unwrap();
        state.writers.push(wal.writer());
        Manifest::create(&env, Path::new("/db"), number + 1, &state).unwrap();
        wal.append(seq, &[&ops]).unwrap();
        drop(wal);
        assert_eq!(
            open(&env).err().map(|e| e.kind()),
            (!fits).then_some(ErrorKind::Corruption),
            "{seq}"
        );
    }
}

#[test]
fn options_out_of_bounds() {
    let env = store();
    let (mut state, number) = Manifest::load(&env, Path::new("/db")).unwrap().unwrap();
    state.trees.values_mut().for_each(|t| t.options.memtable_size = u64::MAX);
    Manifest::create(&env, Path::new("/db"), number + 1, &state).unwrap();
    let e = open(&env).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Incompatible);
    assert!(e.to_string().contains("memtable_size"), "{e}");
}
