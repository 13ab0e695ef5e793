//! What commands print, as text: see `tests/data`.
#![allow(clippy::disallowed_methods)] // files under test are made and damaged directly

mod support;

use std::fs;
use std::path::Path;

use firn_kv::{Db, DbOptions, Tree};
use firn_testkit::datadriven::{Case, files, walk};
use support::{Room, dump, options, tree_options};

/// Operations on a store: lines of `put TREE KEY VALUE`, `delete TREE KEY`, `delete-range TREE FROM TO`, `flush TREE`, `compact TREE`,
/// `sync`.
fn store(dir: &Path, case: &Case) -> String {
    let db = Db::open_with(dir, DbOptions { create: true, event_log: !case.has("no-events"), ..options() }).unwrap();
    let tree = |name: &str| -> Tree { db.tree(name, tree_options()).unwrap() };
    for line in case.input.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["put", t, k, v] => tree(t).put(k.as_bytes(), v.as_bytes()).unwrap(),
            ["delete", t, k] => tree(t).delete(k.as_bytes()).unwrap(),
            ["delete-range", t, a, b] => tree(t).delete_range(a.as_bytes(), b.as_bytes()).unwrap(),
            ["flush", t] => tree(t).flush().unwrap(),
            ["compact", t] => tree(t).compact().unwrap(),
            ["sync"] => db.sync().unwrap(),
            _ => panic!("what is {line:?}?"),
        }
    }
    String::new()
}

/// Damages a file: `at=OFFSET` bytes are turned over, `len=N` of them, or one in `every=N`; or `cut=LEN`; or `remove`.
fn damage(path: &Path, case: &Case) -> String {
    if case.has("remove") {
        fs::remove_file(path).unwrap();
        return String::new();
    }
    let mut bytes = fs::read(path).unwrap();
    if case.has("cut") {
        bytes.truncate(case.parse("cut", 0));
    } else {
        let at: usize = case.parse("at", 0);
        let step = case.parse("every", 1);
        bytes[at..at + case.parse("len", 1)].iter_mut().step_by(step).for_each(|b| *b ^= 0xff);
    }
    fs::write(path, bytes).unwrap();
    String::new()
}

/// Without what is different every time: the room's path and moments of this century's first half.
fn settled(text: &str, room: &Room) -> String {
    let text = text.replace(&format!("{}/", room.0.display()), "");
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find(" UTC") {
        let from = at.saturating_sub(19);
        out += &rest[..from];
        out += if rest[from..].starts_with("2023-11-14") { &rest[from..at + 4] } else { "NOW" };
        rest = &rest[at + 4..];
    }
    out + rest
}

#[test]
fn outputs() {
    for file in files(Path::new("tests/data")) {
        let room = Room::new(&format!("golden-{}", file.file_stem().unwrap().to_str().unwrap()));
        walk(&file, |case| {
            let path = case.words().next().map(|n| room.path(n));
            match case.directive.as_str() {
                "store" => store(&path.unwrap(), case),
                "damage" => damage(&path.unwrap(), case),
                "dir" => {
                    fs::create_dir_all(path.unwrap()).unwrap();
                    String::new()
                }
                "move" => {
                    let to = room.path(case.words().nth(1).unwrap());
                    fs::rename(path.unwrap(), to).unwrap();
                    String::new()
                }
                "copy" => {
                    let to = room.path(case.words().nth(1).unwrap());
                    let from = path.unwrap();
                    if from.is_dir() {
                        support::copy(&from, &to)
                    } else {
                        fs::copy(from, to).map(|_| ()).unwrap()
                    }
                    String::new()
                }
                "file" => {
                    let path = path.unwrap();
                    fs::create_dir_all(path.parent().unwrap()).unwrap();
                    fs::write(path, &case.input).unwrap();
                    String::new()
                }
                "table" => {
                    let path = path.unwrap();
                    fs::create_dir_all(path.parent().unwrap()).unwrap();
                    support::table(&path, case.parse("entries", 50), case.parse("block", 512));
                    String::new()
                }
                "run" => {
                    // Words that begin with @ are paths in the room.
                    let word = |w: &str| w.strip_prefix('@').map_or(w.to_owned(), |p| room.path(p).display().to_string());
                    let args: Vec<String> = case.input.split_whitespace().map(word).collect();
                    let (text, code) = dump(&args);
                    let end = if code == 0 { String::new() } else { format!("exit code {code}\n") };
                    settled(&text, &room) + &end
                }
                other => panic!("what is {other:?}?"),
            }
        });
    }
}
