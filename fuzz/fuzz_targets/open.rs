//! A store's directory with changed bytes in one or two files, with or without new checksums:
//! opening, reading and writing must end with a result or an error.
#![no_main]

use std::path::Path;
use std::sync::{Arc, OnceLock};

use arbitrary::Arbitrary;
use firn_fuzz::seal_file;
use firn_kv::MemEnv;
use firn_kv::{Db, DbOptions, Result, TreeOptions};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Damage<'a> {
    file: u8,
    seal: bool,
    changes: Vec<(u16, u8)>,
    cut: Option<u16>,
    insert: Option<(u16, &'a [u8])>,
}

fn options() -> DbOptions {
    DbOptions {
        memory_budget: 2 << 20,
        background_threads: 0,
        wal_segment: 64 << 10,
        event_log: false,
        ..DbOptions::default()
    }
}

fn tree_options() -> TreeOptions {
    TreeOptions {
        block_size: 512,
        table_size: 64 << 10,
        memtable_size: 64 << 10,
        ..TreeOptions::default()
    }
}

fn make(env: &MemEnv) -> Result<()> {
    let db = Db::open_in(Arc::new(env.clone()), "/db", options())?;
    let t = db.tree("t", tree_options())?;
    for round in 0..3u32 {
        for i in 0..40u32 {
            t.put(format!("key{:04}", i * 7 + round).as_bytes(), &[i as u8; 30])?;
        }
        t.delete_range("key0050".."key0060")?;
        if round < 2 {
            t.flush()?;
        }
    }
    db.sync()
}

/// Uses a store in every way.
fn try_all(env: &MemEnv) -> Result<()> {
    let db = Db::open_in(Arc::new(env.clone()), "/db", options())?;
    for name in db.tree_names() {
        let Ok(t) = db.existing_tree(&name) else { continue };
        let _ = t.get(b"key0007");
        let _ = t.iter().take(500).count() + t.iter().rev().take(500).count();
    }
    db.verify(|_, _| ())?;
    let t = db.tree("t", tree_options())?;
    t.put(b"new", b"value")?;
    assert_eq!(t.get(b"new")?.as_deref(), Some(&b"value"[..]));
    t.flush()?;
    assert_eq!(t.get(b"new")?.as_deref(), Some(&b"value"[..]));
    t.compact()?;
    drop((t, db));
    let t = Db::open_in(Arc::new(env.clone()), "/db", options())?.tree("t", tree_options())?;
    assert_eq!(t.get(b"new")?.as_deref(), Some(&b"value"[..]));
    Ok(())
}

fuzz_target!(|input: (Damage<'_>, Option<Damage<'_>>)| {
    static BASE: OnceLock<Vec<(std::path::PathBuf, Vec<u8>)>> = OnceLock::new();
    let base = BASE.get_or_init(|| {
        let env = MemEnv::new(1);
        make(&env).expect("a store");
        // The log's segment is mostly empty: only its beginning matters.
        let short = |b: Vec<u8>| b[..b.len().min(8 << 10)].to_vec();
        let files = env.files().into_iter().filter(|f| !f.ends_with("LOCK"));
        files.map(|f| (f.clone(), short(env.read_file(&f).expect("a file")))).collect()
    });
    let env = MemEnv::new(2);
    let _ = firn_kv::Env::create_dir_all(&env, Path::new("/db"));
    let mut files = base.clone();
    for d in [Some(&input.0), input.1.as_ref()].into_iter().flatten() {
        let n = files.len();
        let (path, bytes) = &mut files[d.file as usize % n];
        for &(at, bits) in &d.changes {
            let at = at as usize % bytes.len().max(1);
            if let Some(b) = bytes.get_mut(at) {
                *b ^= bits;
            }
        }
        if let Some((at, new)) = d.insert {
            let at = at as usize % (bytes.len() + 1);
            bytes.splice(at..at, new.iter().copied());
        }
        if let Some(n) = d.cut {
            bytes.truncate(n as usize);
        }
        if d.seal {
            seal_file(path, bytes);
        }
    }
    for (path, bytes) in &files {
        let _ = env.write_file(path, bytes);
    }
    let _ = try_all(&env);
});
