//! Range deletions that were split between tables, and keys of the maximum length: sound, and
//! rebuilt without a manifest.
#![allow(clippy::disallowed_methods)] // files under test are damaged directly

use super::support;

use std::fs;

use firn_kv::{Db, MAX_KEY_LEN, TreeOptions};
use firn_testkit::rng::Rng;
use support::{Room, arg, content, copy, dump, options};

#[test]
fn cut_range_deletions_are_sound_and_rebuilt() {
    let room = Room::new("cuts");
    let longest = vec![b'm'; MAX_KEY_LEN];
    let short: &[&[u8]] = &[b"c", b"k", b"t"];
    let long: &[&[u8]] = &[b"c", &longest, b"n"];
    for (name, keys, end) in
        [("short", short, &b"z"[..]), ("longest", long, b"z"), ("zero", short, b"u\0")]
    {
        let (dir, bad, new) = (room.path(name), room.path("bad"), room.path("new"));
        let db = Db::open_with(&dir, options()).unwrap();
        let t =
            db.tree("t", TreeOptions { table_size: 64 << 10, ..TreeOptions::default() }).unwrap();
        for old in [&b"b"[..], b"cc", b"mn", b"t", b"y"] {
            t.put(old, b"old").unwrap();
        }
        t.flush().unwrap();
        t.delete_range(&b"a"[..]..end).unwrap();
        for key in keys {
            // A table is at least eight times as long as its bounds.
            let mut value = vec![0; 100_000 + 16 * key.len()];
            Rng::new(1).fill(&mut value);
            t.put(key, &value).unwrap();
        }
        t.flush().unwrap();
        assert!(t.tables().unwrap().len() > keys.len(), "the deletion has been cut");
        drop((t, db));
        let (text, code) = dump(&["check", &arg(&dir)]);
        assert_eq!(code, 0, "{name}: {text}");
        let truth = content(&dir);
        copy(&dir, &bad);
        for f in fs::read_dir(&bad).unwrap().map(|f| f.unwrap().path()) {
            let name = f.file_name().unwrap().to_str().unwrap();
            if name == "CURRENT" || name.starts_with("MANIFEST") {
                fs::remove_file(&f).unwrap();
            }
        }
        let _ = fs::remove_dir_all(&new);
        let (text, code) = dump(&["repair", &arg(&bad), "--out", &arg(&new)]);
        assert_eq!(code, 0, "{name}: {text}");
        assert_eq!(content(&new), truth, "{name}: {text}");
    }
}
