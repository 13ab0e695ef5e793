//! Tests that encrypted files behave like plain ones, reveal no content, and cannot be changed
//! undetected.

use std::path::Path;
use std::sync::Arc;

use firn_kv::Env;
use firn_kv::MemEnv;
use firn_kv::{Db, DbOptions, ErrorKind, TreeOptions};

use crate::encrypted::Encrypted;

const KEY: [u8; 32] = [3; 32];

fn both() -> (MemEnv, Encrypted) {
    let mem = MemEnv::new(5);
    (mem.clone(), Encrypted::new(Arc::new(mem), KEY))
}

/// Returns a pseudo-random number for a seed.
fn noise(n: u64) -> u64 {
    let z = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (z ^ (z >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 7
}

/// Appends of all sizes with syncs and reopenings in between, then reads at any offset.
#[test]
fn what_was_appended_is_read_at_any_place() {
    let path = Path::new("/f");
    for seed in 0..60 {
        let (mem, env) = both();
        let mut want = vec![];
        let mut file = env.create(path).unwrap();
        for step in 0..30 {
            let r = noise(seed * 1000 + step);
            let len = [1, 17, 400, 4039, 4040, 4041, 20_000][r as usize % 7];
            // Some runs never sync early, so all slots but the last are full.
            let early = seed % 3 > 0 && (r >> 8).is_multiple_of(4);
            let bytes: Vec<u8> = (0..len).map(|i| (r + i) as u8).collect();
            file.append(&bytes).unwrap();
            want.extend(bytes);
            assert_eq!(file.len(), want.len() as u64);
            if early {
                file.sync().unwrap();
                assert_eq!(env.file_len(path).unwrap(), want.len() as u64);
            }
            if early && (r >> 12).is_multiple_of(3) {
                drop(file);
                file = env.append(path).unwrap();
            }
        }
        drop(file);
        assert_eq!(env.read_all(path, 1 << 20).unwrap(), want, "seed {seed}");
        assert_eq!(env.read_all(path, 10).unwrap_err().kind(), ErrorKind::Corruption);
        let read = env.open_read(path, true).unwrap();
        assert!(read.len() == want.len() as u64 && read.map().is_none());
        for step in 0..50 {
            let from = noise(seed + step) as usize % want.len();
            let mut buf = vec![0; noise(step * 31) as usize % (want.len() - from).min(9000)];
            read.read_at(from as u64, &mut buf).unwrap();
            assert_eq!(buf, want[from..from + buf.len()]);
        }
        let past = read.read_at(want.len() as u64 - 1, &mut [0; 2]).unwrap_err();
        assert_eq!(past.kind(), ErrorKind::Corruption);
        assert_eq!(mem.files(), [path]);
    }
}

/// Returns the text of a file from `from` on, and its encrypted form, which ends the file.
fn end(mem: &MemEnv, path: &Path, from: usize) -> (Vec<u8>, Vec<u8>) {
    let text =
        Encrypted::new(Arc::new(mem.clone()), KEY).read_all(path, 1 << 20).unwrap().split_off(from);
    let mut raw = mem.read_file(path).unwrap();
    (text.clone(), raw.split_off(raw.len() - text.len()))
}

/// Reports whether two encrypted texts used one key stream: their difference is then that of the
/// texts.
fn is_one_stream((a, sealed_a): &(Vec<u8>, Vec<u8>), (b, sealed_b): &(Vec<u8>, Vec<u8>)) -> bool {
    let differ = |x: &[u8], y: &[u8]| x.iter().zip(y).map(|(x, y)| x ^ y).collect::<Vec<_>>();
    assert!(a.len().min(b.len()) > 20);
    differ(a, b) == differ(sealed_a, sealed_b)
}

/// A file loses its end, at a slot's start or within a slot, and is appended to again.
#[test]
fn what_is_appended_where_the_end_was_lost_has_another_key_stream() {
    let path = Path::new("/f");
    for kept in [0, 10, 30, 60] {
        let (mem, env) = both();
        let append = |text: &[u8]| env.append(path).unwrap().append(text).unwrap();
        append(b"what stays");
        append(b"one end, which a power cut will take away");
        let one = end(&mem, path, 10);
        mem.write_file(path, &mem.read_file(path).unwrap()[..64 + 4096 + kept]).unwrap();
        let content = env.file_len(path).unwrap() as usize;
        append(b"the other end, which was appended then");
        assert!(env.read_all(path, 1000).unwrap().starts_with(b"what stays"));
        let other = end(&mem, path, content);
        assert_eq!(other.0, b"the other end, which was appended then", "{kept}");
        assert!(!is_one_stream(&one, &other), "{kept}");
    }
}

/// Two copies of a store are continued independently. Both append to the event log at the same
/// offset.
#[test]
fn copies_of_a_store_share_no_key_stream_from_then_on() {
    let (mem, env) = both();
    store(Arc::new(env)).close().unwrap();
    let path = Path::new("/db/EVENTS.jsonl");
    let content = Encrypted::new(Arc::new(mem.clone()), KEY).file_len(path).unwrap() as usize;
    // Another machine draws other random numbers.
    let copy = MemEnv::new(6);
    copy.create_dir_all(Path::new("/db")).unwrap();
    mem.files().iter().for_each(|f| copy.write_file(f, &mem.read_file(f).unwrap()).unwrap());
    let go_on = |mem: &MemEnv, tree: &str| {
        let db = store(Arc::new(Encrypted::new(Arc::new(mem.clone()), KEY)));
        db.tree(tree, TreeOptions::default()).unwrap().put("k", "v").unwrap();
        db.close().unwrap();
        end(mem, path, content)
    };
    let (one, other) = (go_on(&mem, "here"), go_on(&copy, "there"));
    assert!(one.0 != other.0 && !is_one_stream(&one, &other));
}

#[test]
fn a_log_is_written_at_any_place_and_used_again_with_other_noise() {
    let (mem, env) = both();
    let path = Path::new("/log");
    let mut log = env.create_log(path, 5000).unwrap();
    assert_eq!(log.capacity(), 5000);
    log.write_at(100, b"a record").unwrap();
    log.write_at(3000, b"another").unwrap();
    assert_eq!(log.write_at(4999, b"too long").unwrap_err().kind(), ErrorKind::InvalidArgument);
    let at = |env: &dyn Env, offset, n: usize| {
        let mut buf = vec![0; n];
        env.open_read(path, false).unwrap().read_at(offset, &mut buf).unwrap();
        buf
    };
    assert_eq!((at(&env, 100, 8), at(&env, 3000, 7)), (b"a record".to_vec(), b"another".to_vec()));
    log.sync().unwrap();
    log.shorten(4000).unwrap();
    assert_eq!(env.file_len(path).unwrap(), 4000);
    drop(log);
    // A rewrite of unchanged content gives the same bytes on disk.
    let before = mem.read_file(path).unwrap();
    env.rewrite_log(path).unwrap().write_at(100, b"a record").unwrap();
    assert!(mem.read_file(path).unwrap() == before);
    // In a recycled segment the same text gives other bytes.
    env.reuse_log(path).unwrap().write_at(100, b"a record").unwrap();
    assert_eq!(at(&env, 100, 8), b"a record");
    assert!(mem.read_file(path).unwrap()[164..172] != before[164..172]);
    assert!(at(&env, 3000, 7) != b"another", "stale bytes are noise");
}

fn store(env: Arc<dyn Env>) -> Db {
    let options = DbOptions {
        background_threads: 0,
        wal_segment: 64 << 10,
        memory_budget: 1 << 20,
        ..DbOptions::default()
    };
    Db::open_in(env, "/db", options).unwrap()
}

#[test]
fn files_hold_no_plaintext_and_a_wrong_key_is_reported() {
    let (mem, env) = both();
    let env: Arc<dyn Env> = Arc::new(env);
    let db = store(env.clone());
    let tree = db.tree("a tree of letters", TreeOptions::default()).unwrap();
    (0..2000).for_each(|n| tree.put(format!("a letter {n}"), "dear reader ".repeat(9)).unwrap());
    tree.flush().unwrap();
    tree.put("the last letter", "goodbye").unwrap();
    db.close().unwrap();
    for file in mem.files() {
        let bytes = mem.read_file(&file).unwrap();
        for text in ["letter", "dear", "goodbye", "MANIFEST", "flush"] {
            assert!(
                !bytes.windows(text.len()).any(|w| w == text.as_bytes()),
                "{text:?} is in {}",
                file.display()
            );
        }
    }
    let other = Arc::new(Encrypted::new(Arc::new(mem.clone()), [4; 32]));
    let e = Db::open_in(other, "/db", DbOptions::default()).unwrap_err();
    assert!(e.kind() == ErrorKind::Incompatible && e.to_string().contains("another key"), "{e}");
    let e = Db::open_in(Arc::new(mem), "/db", DbOptions::default()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
    assert_eq!(store(env).existing_tree("a tree of letters").unwrap().len().unwrap(), 2001);
}

/// Changes any bit of a table, exchanges two slots, or truncates a table. Each change is reported
/// as corruption or has no effect.
#[test]
fn a_table_that_was_changed_is_never_read_wrong() {
    let (mem, env) = both();
    let env: Arc<dyn Env> = Arc::new(env);
    let db = store(env.clone());
    let tree = db.tree("t", TreeOptions::default()).unwrap();
    (0..600u32).for_each(|n| {
        tree.put(
            n.to_be_bytes(),
            (0..80).map(|i| noise(n as u64 * 80 + i) as u8).collect::<Vec<_>>(),
        )
        .unwrap()
    });
    tree.flush().unwrap();
    db.close().unwrap();
    drop((tree, db));
    let table =
        mem.files().into_iter().find(|f| f.extension().is_some_and(|e| e == "sst")).unwrap();
    let whole = mem.read_file(&table).unwrap();
    let content =
        |db: &Db| db.existing_tree("t").and_then(|t| t.iter().collect::<firn_kv::Result<Vec<_>>>());
    let want = content(&store(env.clone())).unwrap();
    let check = |bytes: &[u8], what: String| {
        mem.write_file(&table, bytes).unwrap();
        let options = DbOptions { read_only: true, ..DbOptions::default() };
        let got = Db::open_in(env.clone(), "/db", options).and_then(|db| content(&db));
        match got {
            Ok(all) => assert!(all == want, "{what}: read wrong"),
            Err(e) => assert!(
                matches!(e.kind(), ErrorKind::Corruption | ErrorKind::Incompatible),
                "{what}: {e}"
            ),
        }
    };
    let mut noticed = 0;
    for at in (0..whole.len()).step_by(97) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        check(&bytes, format!("a bit of byte {at}"));
        noticed += 1;
    }
    assert!(noticed > 500, "{noticed}");
    let mut bytes = whole.clone();
    bytes[64..64 + 8192].rotate_left(4096);
    check(&bytes, "two slots exchanged".into());
    for len in [0, 30, 64, 4000, whole.len() - 1] {
        check(&whole[..len], format!("cut to {len} bytes"));
    }
    mem.write_file(&table, &whole).unwrap();
    assert!(store(env).verify(|_, _| {}).unwrap().errors.is_empty());
}
