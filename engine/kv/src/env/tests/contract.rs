//! Contract of every environment. The parent module chooses the environments; `tests/env.rs` runs
//! these tests on those of `firn-crash`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Env, ErrorKind, with_every_env};

pub fn put(env: &dyn Env, file: &Path, bytes: &[u8]) {
    let mut f = env.create(file).unwrap();
    f.append(bytes).unwrap();
    f.sync().unwrap();
}

pub fn get(env: &dyn Env, file: &Path) -> Vec<u8> {
    env.read_all(file, 1 << 20).unwrap()
}

/// Covers several write-back strides, and appends that end between two of them.
#[test]
fn long_files_hold_what_was_appended_before_and_after_a_sync() {
    with_every_env(|env, dir| {
        let path = dir.join("f");
        let bytes: Vec<u8> = (0..13_000_000_u32).map(|i| (i % 251) as u8).collect();
        let (one, other) = bytes.split_at(10_000_001);
        let mut f = env.create(&path).unwrap();
        for chunk in one.chunks(3_000_000) {
            f.append(chunk).unwrap();
        }
        f.sync().unwrap();
        drop(f);
        let mut f = env.append(&path).unwrap();
        assert_eq!(f.len(), one.len() as u64);
        for chunk in other.chunks(700_001) {
            f.append(chunk).unwrap();
        }
        f.sync().unwrap();
        assert!(env.read_all(&path, 1 << 24).unwrap() == bytes);
    });
}

#[test]
fn files_grow_at_their_end_and_are_read_anywhere() {
    with_every_env(|env, dir| {
        let path = dir.join("f");
        let mut f = env.create(&path).unwrap();
        assert!(f.is_empty());
        let bytes: Vec<u8> = (0..10_000u32).flat_map(|i| (i as u16).to_le_bytes()).collect();
        for chunk in bytes.chunks(777) {
            f.append(chunk).unwrap();
        }
        f.append(b"").unwrap();
        assert_eq!(f.len(), 20_000);
        f.sync().unwrap();
        env.sync_dir(dir).unwrap();
        assert_eq!(env.file_len(&path).unwrap(), 20_000);
        for map in [false, true] {
            let r = env.open_read(&path, map).unwrap();
            assert_eq!(r.len(), 20_000);
            // The environment maps nothing unless asked.
            assert!(map || r.map().is_none());
            assert!(r.map().is_none_or(|m| m.bytes() == bytes));
            let mut buf = [0; 5000];
            r.read_at(4001, &mut buf).unwrap();
            assert_eq!(buf, bytes[4001..9001]);
            r.read_at(20_000, &mut []).unwrap();
            let e = r.read_at(19_000, &mut buf).unwrap_err();
            assert_eq!(
                (e.kind(), e.file(), e.offset()),
                (ErrorKind::Corruption, Some(&*path), Some(19_000))
            );
            assert_eq!(r.read_at(1 << 40, &mut buf).unwrap_err().kind(), ErrorKind::Corruption);
        }
        let mut f = env.append(&path).unwrap();
        assert_eq!(f.len(), 20_000);
        f.append(b"more").unwrap();
        assert_eq!(f.len(), 20_004);
        assert_eq!(get(&**env, &path)[20_000..], *b"more");
        assert!(env.create(&path).unwrap().is_empty());
        assert_eq!(env.file_len(&path).unwrap(), 0);
        env.append(&dir.join("new")).unwrap().append(b"x").unwrap();
        assert_eq!(get(&**env, &dir.join("new")), b"x");
    });
}

#[test]
fn an_empty_file_opens() {
    with_every_env(|env, dir| {
        put(&**env, &dir.join("empty"), b"");
        let r = env.open_read(&dir.join("empty"), true).unwrap();
        assert!(r.is_empty());
        assert!(r.map().is_none_or(|m| m.bytes().is_empty()));
        assert_eq!(r.read_at(0, &mut [0]).unwrap_err().kind(), ErrorKind::Corruption);
        assert_eq!(get(&**env, &dir.join("empty")), b"");
    });
}

#[test]
fn a_file_longer_than_the_cap_is_refused() {
    with_every_env(|env, dir| {
        let path = dir.join("long");
        put(&**env, &path, &[1; 100]);
        assert_eq!(env.read_all(&path, 100).unwrap().len(), 100);
        let e = env.read_all(&path, 99).unwrap_err();
        assert_eq!((e.kind(), e.file()), (ErrorKind::Corruption, Some(&*path)));
    });
}

#[test]
fn what_a_log_discards_takes_nothing_before_it_and_no_length() {
    with_every_env(|env, dir| {
        let path = dir.join("log");
        let len = 300_000;
        let mut log = env.create_log(&path, len).unwrap();
        log.prepare(0, len);
        let bytes: Vec<u8> = (0..100_000u32).map(|i| (i % 251) as u8 + 1).collect();
        log.write_at(0, &bytes).unwrap();
        for from in [u64::MAX, u64::MAX - 1, len, len - 1, 100_000] {
            log.discard_from(from);
        }
        // Like the mark at the end of a log.
        log.write_at(99_990, b"the mark..").unwrap();
        log.sync().unwrap();
        assert_eq!((log.capacity(), env.file_len(&path).unwrap()), (len, len));
        let read = get(&**env, &path);
        assert_eq!(read[..99_990], bytes[..99_990]);
        assert_eq!(read[99_990..100_000], *b"the mark..");
        log.shorten(100_000).unwrap();
        drop(log);
        assert_eq!(env.file_len(&path).unwrap(), 100_000);
        assert_eq!(get(&**env, &path)[..99_990], bytes[..99_990]);
    });
}

#[test]
fn logs_have_a_fixed_size_and_keep_stale_bytes() {
    with_every_env(|env, dir| {
        let path = dir.join("log");
        put(&**env, &path, b"something old, which goes away");
        let log = env.create_log(&path, 10_000).unwrap();
        assert_eq!(log.capacity(), 10_000);
        assert_eq!(env.file_len(&path).unwrap(), 10_000);
        assert_eq!(get(&**env, &path), [0; 10_000]);
        log.prepare(0, 10_000);
        log.prepare(9_000, u64::MAX);
        log.prepare(u64::MAX, 1);
        log.write_at(4_090, b"across a page").unwrap();
        log.write_at(9_996, b"last").unwrap();
        log.write_at(10_000, b"").unwrap();
        for (offset, bytes) in
            [(9_997, &b"last"[..]), (10_001, b""), (u64::MAX, b"x"), (10_000, b"x")]
        {
            assert_eq!(log.write_at(offset, bytes).unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
        log.sync().unwrap();
        assert_eq!(get(&**env, &path)[4_090..4_103], *b"across a page");
        drop(log);
        let to = dir.join("log2");
        env.rename(&path, &to).unwrap();
        let log = env.reuse_log(&to).unwrap();
        assert_eq!(log.capacity(), 10_000);
        log.write_at(4_090, b"ACROSS").unwrap();
        assert_eq!(get(&**env, &to)[4_090..4_103], *b"ACROSS a page");
        assert_eq!(get(&**env, &to)[9_996..], *b"last");
        assert_eq!(
            env.create_log(&dir.join("none"), 0).err().unwrap().kind(),
            ErrorKind::InvalidArgument
        );
        assert_eq!(env.file_len(&dir.join("none")).unwrap_err().kind(), ErrorKind::NotFound);
        put(&**env, &dir.join("empty"), b"");
        assert_eq!(
            env.reuse_log(&dir.join("empty")).err().unwrap().kind(),
            ErrorKind::InvalidArgument
        );
    });
}

#[test]
fn many_threads_write_one_log() {
    with_every_env(|env, dir| {
        let log = env.create_log(&dir.join("log"), 4 * 1000 * 8).unwrap();
        let log = &*log;
        std::thread::scope(|s| {
            for t in 0..4u64 {
                s.spawn(move || {
                    for i in (t..4000).step_by(4) {
                        log.write_at(i * 8, &i.to_le_bytes()).unwrap();
                    }
                });
            }
        });
        let want: Vec<u8> = (0..4000u64).flat_map(u64::to_le_bytes).collect();
        assert!(get(&**env, &dir.join("log")) == want);
    });
}

#[test]
fn names_are_created_moved_linked_and_removed() {
    with_every_env(|env, dir| {
        let p = |name: &str| dir.join(name);
        for name in ["c", "a", "b"] {
            put(&**env, &p(name), name.as_bytes());
        }
        env.create_dir_all(&p("x/y")).unwrap();
        env.create_dir_all(&p("x/y")).unwrap();
        assert_eq!(env.list(dir).unwrap(), ["a", "b", "c", "x"]);
        env.rename(&p("a"), &p("b")).unwrap();
        env.rename(&p("c"), &p("x/y/c")).unwrap();
        assert_eq!(env.list(dir).unwrap(), ["b", "x"]);
        assert_eq!(env.list(&p("x/y")).unwrap(), ["c"]);
        assert_eq!(get(&**env, &p("b")), b"a");
        env.hard_link(&p("b"), &p("b2")).unwrap();
        env.append(&p("b2")).unwrap().append(b"!").unwrap();
        assert_eq!(get(&**env, &p("b")), b"a!");
        env.rename(&p("b"), &p("b2")).unwrap();
        assert_eq!(env.list(dir).unwrap(), ["b", "b2", "x"], "two names of one file stay two");
        let reader = env.open_read(&p("b"), false).unwrap();
        env.remove(&p("b")).unwrap();
        env.remove(&p("b2")).unwrap();
        env.sync_dir(dir).unwrap();
        let mut buf = [0; 2];
        reader.read_at(0, &mut buf).unwrap();
        assert_eq!(buf, *b"a!");
        assert_eq!(env.remove_dir(&p("x/y")).unwrap_err().kind(), ErrorKind::Io);
        env.remove(&p("x/y/c")).unwrap();
        env.remove_dir(&p("x/y")).unwrap();
        assert!(env.list(&p("x")).unwrap().is_empty());
    });
}

#[test]
fn what_is_not_there_is_not_found_and_the_error_names_it() {
    with_every_env(|env, dir| {
        let p = dir.join("none");
        let errors = [
            env.list(&p).err(),
            env.sync_dir(&p).err(),
            env.file_len(&p).err(),
            env.open_read(&p, true).err(),
            env.read_all(&p, 10).err(),
            env.create(&p.join("f")).err(),
            env.append(&p.join("f")).err(),
            env.create_log(&p.join("f"), 10).err(),
            env.reuse_log(&p).err(),
            env.rename(&p, &dir.join("to")).err(),
            env.hard_link(&p, &dir.join("to")).err(),
            env.remove(&p).err(),
            env.remove_dir(&p).err(),
            env.lock(&p.join("LOCK")).err(),
        ];
        for e in errors {
            let e = e.unwrap();
            assert_eq!(e.kind(), ErrorKind::NotFound, "{e}");
            assert!(e.file().unwrap().starts_with(&p), "{e}");
        }
        put(&**env, &dir.join("f"), b"1");
        put(&**env, &dir.join("g"), b"2");
        assert_eq!(
            env.hard_link(&dir.join("f"), &dir.join("g")).unwrap_err().kind(),
            ErrorKind::Io
        );
        assert_eq!(env.create_dir_all(&dir.join("f/sub")).unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(env.create(dir).err().unwrap().kind(), ErrorKind::Io);
        assert_eq!(env.remove(dir).unwrap_err().kind(), ErrorKind::Io);
    });
}

#[test]
fn one_lock_at_a_time() {
    with_every_env(|env, dir| {
        let path = dir.join("LOCK");
        let lock = env.lock(&path).unwrap();
        let e = env.lock(&path).err().unwrap();
        assert_eq!((e.kind(), e.file()), (ErrorKind::Locked, Some(&*path)));
        let other = env.lock(&dir.join("OTHER")).unwrap();
        drop(lock);
        let again = env.lock(&path).unwrap();
        drop((again, other));
        env.lock(&path).unwrap();
    });
}

#[test]
fn clocks_threads_and_randomness() {
    with_every_env(|env, _| {
        let (wall, mono) = (env.wall_micros(), env.monotonic_nanos());
        assert!(wall > 1_500_000_000_000_000);
        env.sleep(Duration::from_millis(2));
        assert!(env.monotonic_nanos() >= mono + 2_000_000);
        let done = Arc::new(AtomicU64::new(0));
        let seen = done.clone();
        let work = move || {
            assert_eq!(std::thread::current().name(), Some("firn-worker"));
            seen.store(7, Ordering::SeqCst);
        };
        env.spawn("firn-worker", Box::new(work)).unwrap().join();
        assert_eq!(done.load(Ordering::SeqCst), 7);
        let drawn: std::collections::BTreeSet<u64> = (0..100).map(|_| env.random()).collect();
        assert!(drawn.len() == 100);
    });
}
