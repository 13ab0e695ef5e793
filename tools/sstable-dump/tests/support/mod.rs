//! Runs commands in the test's own process, and provides directories for files.
#![allow(clippy::disallowed_methods)] // files under test are damaged directly

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Parser;
use firn_kv::{Compression, Db, DbOptions, TreeOptions};
use firn_tools::output::Failure;
use sstable_dump::{DumpCli, run};

/// A directory of one test, removed on drop.
pub struct Room(pub PathBuf);

impl Room {
    pub fn new(name: &str) -> Room {
        static ROOMS: AtomicUsize = AtomicUsize::new(0);
        let n = ROOMS.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("firn-dump-{}-{name}-{n}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Room(dir)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the output of a command, and its exit code. An error is printed as the last line.
pub fn dump<S: AsRef<std::ffi::OsStr>>(args: &[S]) -> (String, i32) {
    let args =
        std::iter::once("sstable-dump".into()).chain(args.iter().map(|a| a.as_ref().to_owned()));
    let cli = match DumpCli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(e) => return (e.to_string(), 2),
    };
    let mut out = vec![];
    let done = run(&cli, &mut out);
    let mut text = String::from_utf8_lossy(&out).into_owned();
    let code = match done {
        Ok(()) | Err(Failure::PipeClosed) => 0,
        Err(Failure::Found) => 1,
        Err(Failure::Interrupted) => 130,
        Err(Failure::Engine(e)) => {
            text += &format!("error: {e}\n");
            2
        }
        Err(Failure::Failed { what, next }) => {
            text += &format!("error: {what}\n");
            text += &next.map_or(String::new(), |n| format!(" next: {n}\n"));
            2
        }
    };
    (text, code)
}

pub fn arg(p: &Path) -> String {
    p.display().to_string()
}

/// Returns options with which one history gives one directory.
pub fn options() -> DbOptions {
    DbOptions { background_threads: 0, wal_segment: 64 << 10, ..DbOptions::default() }
}

/// Returns the same for stores of the data model.
pub fn wide_options() -> firn_wide::Options {
    firn_wide::Options {
        store: firn_wide::StoreOptions { db: options(), ..Default::default() },
        ..Default::default()
    }
}

pub fn tree_options() -> TreeOptions {
    TreeOptions { compression: vec![Compression::None], block_size: 512, ..TreeOptions::default() }
}

/// Writes a table of `n` keys, some with two versions and some deleted, and a range deletion, using
/// from-json.
pub fn table(path: &Path, n: u32, block_size: u32) {
    let mut lines = format!(
        "{{\"table\":{{\"id\":1,\"tree\":7,\"block_size\":{block_size},\"compression\":\"none\",\"filter\":\"fuse8\",\"created_micros\":1700000000000000}}}}\n"
    );
    lines += "{\"range_delete\":{\"start\":\"key00003\",\"end\":\"key00005\",\"seqs\":[9]}}\n";
    for i in 0..n {
        let seq = 10 + 2 * i;
        if i % 7 == 3 {
            lines +=
                &format!("{{\"key\":\"key{i:05}\",\"seq\":{},\"kind\":\"delete\"}}\n", seq + 1);
        }
        lines += &format!(
            "{{\"key\":\"key{i:05}\",\"seq\":{seq},\"kind\":\"put\",\"value\":\"value {i} and more of it\"}}\n"
        );
    }
    let json = path.with_extension("jsonl");
    fs::write(&json, lines).unwrap();
    let (text, code) = dump(&["from-json", &arg(&json), "--out", &arg(path)]);
    assert_eq!(code, 0, "{text}");
}

/// Keys and values in order.
pub type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Returns all visible pairs of all trees.
pub fn content(dir: &Path) -> Vec<(String, Pairs)> {
    let db = Db::open_with(dir, DbOptions { create: false, ..options() })
        .unwrap_or_else(|e| panic!("{e}"));
    let mut names = db.tree_names();
    names.sort();
    names
        .into_iter()
        .map(|n| {
            let tree = db.existing_tree(&n).unwrap();
            let pairs =
                tree.iter().map(|p| p.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap()).collect();
            (n, pairs)
        })
        .collect()
}

/// Copies a directory and its subdirectories. Omits a file that is removed during the copy: an open
/// store removes obsolete tables in the background.
pub fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).unwrap();
    for f in fs::read_dir(from).unwrap() {
        let f = f.unwrap();
        match f.path().is_dir() {
            true => copy(&f.path(), &to.join(f.file_name())),
            false => match fs::copy(f.path(), to.join(f.file_name())) {
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                copied => assert!(copied.is_ok(), "{}: {copied:?}", f.path().display()),
            },
        }
    }
}
