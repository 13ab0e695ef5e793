//! The output of commands as text: see `tests/data`.
#![allow(clippy::disallowed_methods)] // files under test are made and damaged directly

use super::support;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use firn_kv::{Db, DbOptions, Tree};
use firn_testkit::datadriven::{Case, files, walk};
use firn_wide::{
    CfDef, ColumnParent, Comparator, CounterColumn, KsDef, Malformed, ManualClock, Options,
    Registry, TypeError, Wide,
};
use firn_wide_text::json::{ImportOptions, import};
use support::{Room, dump, options, tree_options};

/// Applies operations to a store: lines of `put TREE KEY VALUE`, `delete TREE KEY`, `delete-range
/// TREE FROM TO`, `flush TREE`, `compact TREE`, `sync`.
fn store(dir: &Path, case: &Case) -> String {
    let db = Db::open_with(
        dir,
        DbOptions { create: true, event_log: !case.has("no-events"), ..options() },
    )
    .unwrap();
    let tree = |name: &str| -> Tree { db.tree(name, tree_options()).unwrap() };
    for line in case.input.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["put", t, k, v] => tree(t).put(k.as_bytes(), v.as_bytes()).unwrap(),
            ["delete", t, k] => tree(t).delete(k.as_bytes()).unwrap(),
            ["delete-range", t, a, b] => tree(t).delete_range(a.as_bytes()..b.as_bytes()).unwrap(),
            ["flush", t] => tree(t).flush().unwrap(),
            ["compact", t] => tree(t).compact().unwrap(),
            ["sync"] => db.sync().unwrap(),
            _ => panic!("unknown operation {line:?}"),
        }
    }
    String::new()
}

/// A type that only this program knows.
struct Own;

impl Comparator for Own {
    fn name(&self) -> &str {
        "com.example.Own"
    }

    fn validate(&self, _: &[u8]) -> Result<(), TypeError> {
        Ok(())
    }

    fn encode(&self, value: &[u8], out: &mut Vec<u8>) -> Result<(), TypeError> {
        out.extend_from_slice(value);
        Ok(())
    }

    fn decode(&self, form: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
        out.extend_from_slice(form);
        Ok(())
    }

    fn from_text(&self, text: &str, out: &mut Vec<u8>) -> Result<(), TypeError> {
        out.extend_from_slice(text.as_bytes());
        Ok(())
    }

    fn to_text(&self, value: &[u8]) -> String {
        String::from_utf8_lossy(value).into_owned()
    }
}

/// Creates families of a keyspace K: lines of `family NAME KEYS NAMES VALUES [SUBCOLUMNS]`, `add
/// FAMILY KEY COLUMN DELTA` and `raw FAMILY KEY VALUE`. Other lines are rows in JSON, which are
/// read before `add` and `raw`. Then all is flushed, except for the lines after `log`.
fn wide(dir: &Path, case: &Case) -> String {
    let mut registry = Registry::new();
    registry.register(Arc::new(Own));
    let clock = Arc::new(ManualClock::new(1_700_000_000_000_000));
    let store = firn_wide::StoreOptions {
        db: DbOptions { create: true, ..options() },
        clock: Some(clock),
        ..firn_wide::StoreOptions::default()
    };
    let wide =
        Wide::open_with(dir, Options { registry: Arc::new(registry), store, ..Options::default() })
            .unwrap();
    let (mut families, mut document, mut later) = (vec![], String::new(), vec![]);
    for line in case.input.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["family", name, keys, names, values, ..] => families.push(CfDef {
                column_type: if words.len() > 5 { "Super".into() } else { "Standard".into() },
                key_validation_class: keys.into(),
                comparator_type: names.into(),
                subcomparator_type: words.get(5).map(|s| (*s).to_owned()),
                default_validation_class: values.into(),
                ..CfDef::new("K", name)
            }),
            ["add" | "raw", ..] => later.push(words),
            _ => document += &format!("{line}\n"),
        }
    }
    wide.system_add_keyspace(&KsDef { cf_defs: families, ..KsDef::new("K") }).unwrap();
    let k = wide.keyspace("K").unwrap();
    let (document, log) = document.split_once("log\n").unwrap_or((&document, ""));
    let import = |text: &str| {
        import(&k, text.as_bytes(), &ImportOptions::default(), &mut |_, _| {}).map(drop).unwrap()
    };
    import(document);
    let tree = |name: &str| {
        let id = wide.schema().family("K", name).unwrap().id();
        wide.store().family(id).unwrap().tree().clone()
    };
    for words in later {
        match words[..] {
            ["add", f, key, column, n] => {
                let column = CounterColumn::new(column, n.parse().unwrap());
                k.add(key.as_bytes(), &ColumnParent::new(f), &column).unwrap();
            }
            ["raw", f, key, value] => tree(f).put(key.as_bytes(), value.as_bytes()).unwrap(),
            _ => panic!("unknown line {words:?}"),
        }
    }
    for family in wide.schema().families() {
        tree(family.name()).flush().unwrap();
    }
    import(log);
    wide.store().db().sync().unwrap();
    String::new()
}

/// Damages a file: inverts the bytes at `at=OFFSET`, `len=N` of them, or one in `every=N`; or
/// `cut=LEN`; or `remove`.
fn damage(path: &Path, case: &Case) -> String {
    if case.has("remove") {
        fs::remove_file(path).unwrap();
        return String::new();
    }
    let mut bytes = fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
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

/// Removes parts that differ each time: the room's path, and times in the first half of this
/// century.
fn without_paths(text: &str, room: &Room) -> String {
    let text = without_random(&text.replace(&format!("{}/", room.0.display()), ""));
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find(" UTC") {
        let from = at.saturating_sub(19);
        out += &rest[..from];
        out += if ["2023-11-14", "2009-", "2030-"].iter().any(|d| rest[from..].starts_with(d)) {
            &rest[from..at + 4]
        } else {
            "NOW"
        };
        rest = &rest[at + 4..];
    }
    let mut text = out + rest;
    // The writer of the log, for tables that have one.
    let mut parts: Vec<String> = text.split("\"log_writer\":").map(str::to_owned).collect();
    for part in parts.iter_mut().skip(1).filter(|p| !p.starts_with('0')) {
        *part = format!("RANDOM{}", part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    text = parts.join("\"log_writer\":");
    let mut parts = text.split("_micros\":").map(str::to_owned).collect::<Vec<_>>();
    for part in parts
        .iter_mut()
        .skip(1)
        .filter(|p| p.starts_with(|c: char| c.is_ascii_digit()) && !p.starts_with("1700000000"))
    {
        *part = format!("NOW{}", part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    parts.join("_micros\":")
}

/// Replaces the random ids of stores, tables and writers by a constant.
fn without_random(text: &str) -> String {
    let is_random = |word: &str| word.len() == 16 && word.bytes().all(|b| b.is_ascii_hexdigit());
    let told = |line: &str| ["store ", "writer ", "clone of it ("].iter().any(|w| line.contains(w));
    let clean = |line: &str| {
        let ends = |c: char| !c.is_ascii_alphanumeric();
        let words = line.split_inclusive(ends).map(|w| match w.trim_end_matches(ends) {
            random if is_random(random) => w.replace(random, "<random>"),
            _ => w.to_owned(),
        });
        words.collect::<String>()
    };
    text.split_inclusive('\n').map(|l| if told(l) { clean(l) } else { l.to_owned() }).collect()
}

#[test]
fn outputs() {
    for file in files(Path::new("tests/data")) {
        let room = Room::new(&format!("golden-{}", file.file_stem().unwrap().to_str().unwrap()));
        walk(&file, |case| {
            let path = case.words().next().map(|n| room.path(n));
            match case.directive.as_str() {
                "store" => store(&path.unwrap(), case),
                "wide" => wide(&path.unwrap(), case),
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
                    let word = |w: &str| {
                        w.strip_prefix('@')
                            .map_or(w.to_owned(), |p| room.path(p).display().to_string())
                    };
                    let args: Vec<String> = case.input.split_whitespace().map(word).collect();
                    let (text, code) = dump(&args);
                    let end = if code == 0 { String::new() } else { format!("exit code {code}\n") };
                    without_paths(&text, &room) + end.as_str()
                }
                other => panic!("unknown block {other:?}"),
            }
        });
    }
}
