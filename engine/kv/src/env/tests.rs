//! Tests the contract of every environment, on the operating system and in memory alike.
#![allow(clippy::disallowed_methods)] // temporary directories

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Env;
use super::mem::MemEnv;
use super::os::{OsEnv, OsLock};
use crate::base::error::ErrorKind;

mod contract;
use contract::{get, put};

/// A directory for one test, removed after it.
struct TempDir(PathBuf);

impl TempDir {
    fn new(env: &dyn Env) -> TempDir {
        let dir = std::env::temp_dir().join(format!(
            "firn-env-{}-{:016x}",
            std::process::id(),
            env.random()
        ));
        std::fs::create_dir(&dir).unwrap();
        TempDir(dir)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn with_every_env(test: impl Fn(&Arc<dyn Env>, &Path)) {
    for os in [OsEnv::new(), OsEnv::without_maps()] {
        let dir = TempDir::new(&*os);
        test(&os, &dir.0);
    }
    for mem in [MemEnv::new(1), MemEnv::plain()] {
        let mem: Arc<dyn Env> = Arc::new(mem);
        mem.create_dir_all(Path::new("/tmp/test")).unwrap();
        test(&mem, Path::new("/tmp/test"));
    }
}

#[test]
fn files_are_mapped_where_that_is_harmless() {
    let (os, plain) = (OsEnv::new(), OsEnv::without_maps());
    let dir = TempDir::new(&*os);
    put(&*os, &dir.0.join("f"), b"bytes");
    let map = |env: &dyn Env, map| {
        env.open_read(&dir.0.join("f"), map).unwrap().map().map(|m| m.bytes().to_vec())
    };
    assert_eq!(map(&*os, true), cfg!(unix).then(|| b"bytes".to_vec()));
    assert_eq!((map(&*os, false), map(&*plain, true)), (None, None));
}

#[test]
fn a_log_without_a_map_is_shortened() {
    let plain = OsEnv::without_maps();
    let dir = TempDir::new(&*plain);
    let path = dir.0.join("log");
    let mut log = plain.create_log(&path, 1 << 20).unwrap();
    log.write_at(100, b"written").unwrap();
    assert_eq!(log.shorten(0).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(log.shorten((1 << 20) + 1).unwrap_err().kind(), ErrorKind::InvalidArgument);
    log.shorten(4096).unwrap();
    assert_eq!((log.capacity(), plain.file_len(&path).unwrap()), (4096, 4096));
    assert_eq!(log.write_at(4095, b"xy").unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(get(&*plain, &path)[100..107], *b"written");
}

#[test]
fn a_full_device_is_an_error_when_the_log_is_created() {
    let os = OsEnv::new();
    let dir = TempDir::new(&*os);
    if cfg!(unix) {
        assert!(os.free_space(&dir.0).unwrap() > 0);
    }
    let e = os.create_log(&dir.0.join("log"), 1 << 60).err().unwrap();
    // Systems refuse such a length with different errors.
    assert!(!cfg!(unix) || matches!(e.kind(), ErrorKind::NoSpace | ErrorKind::Io), "{e}");
    assert!(os.list(&dir.0).unwrap().is_empty());
    assert_eq!(os.free_space(&dir.0.join("none")), None);
}

#[test]
fn a_device_in_memory_returns_what_was_written() {
    let env = MemEnv::new(1);
    assert_eq!(env.free_space(Path::new("/")), None);
    env.set_free_space(Some(7));
    assert_eq!(env.free_space(Path::new("/")), Some(7));
}

/// A program being started has a copy of each descriptor until its exec.
#[test]
#[cfg(any(target_os = "linux", target_vendor = "apple"))] // others cannot detect a child
fn a_lock_is_given_back_beside_a_copy_of_its_descriptor() {
    let env = OsEnv::new();
    let dir = TempDir::new(&*env);
    let path = dir.0.join("LOCK");
    let file = std::fs::File::create(&path).unwrap();
    file.try_lock().unwrap();
    let _copy = file.try_clone().unwrap();
    let lock = OsLock::new(file);
    assert_eq!(env.lock(&path).err().unwrap().kind(), ErrorKind::Locked);
    drop(lock);
    env.lock(&path).unwrap();
}
