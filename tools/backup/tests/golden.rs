//! The repository in `format-spec/golden-backups/v1`: this version reads all of it, and writes the
//! same records.
//!
//! `FIRN_REWRITE=1` rewrites it after a change of the format.
#![allow(clippy::disallowed_methods, reason = "golden files are read as they are")]

use super::common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::{BACKUPS, STORE, content, create, folder, memory, restored, small};
use firn_backup::{BackupRecord, Pacing};
use firn_kv::{Compression, Db, Env, FilterKind, MemEnv, TreeOptions};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../format-spec/golden-backups/v1")
}

/// Returns all files below a directory, by relative path.
fn files(dir: &Path, below: &str, found: &mut BTreeMap<String, Vec<u8>>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = format!("{below}{}", path.file_name().unwrap().to_str().unwrap());
        if path.is_dir() {
            files(&path, &format!("{name}/"), found);
        } else {
            found.insert(name, std::fs::read(path).unwrap());
        }
    }
}

/// Creates two backups of a small store; the second shares a table with the first.
fn write() {
    let (mem, env) = memory(1);
    let options = || TreeOptions {
        compression: vec![Compression::None],
        filter: vec![FilterKind::None],
        ..TreeOptions::default()
    };
    let db = Db::open_in(env.clone(), STORE, small()).unwrap();
    let fruit = db.tree("fruit", options()).unwrap();
    fruit.put("apple", "red").unwrap();
    create(&folder(&env), &db).unwrap();
    fruit.delete("apple").unwrap();
    db.tree("colours", options()).unwrap().put("red", "1").unwrap();
    create(&folder(&env), &db).unwrap();
    for file in mem.files() {
        if let Ok(name) = file.strip_prefix(BACKUPS) {
            let to = golden().join(name);
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::write(to, mem.read_file(&file).unwrap()).unwrap();
        }
    }
}

#[test]
fn golden_backups_are_read_and_written_the_same() {
    if std::env::var_os("FIRN_REWRITE").is_some_and(|v| v != "0" && !v.is_empty()) {
        std::fs::remove_dir_all(golden()).ok();
        write();
    }
    let mut found = BTreeMap::new();
    files(&golden(), "", &mut found);
    let mem = MemEnv::new(2);
    let env: Arc<dyn Env> = Arc::new(mem.clone());
    let mut records = vec![];
    for (name, bytes) in &found {
        let path = Path::new(BACKUPS).join(name);
        env.create_dir_all(path.parent().unwrap()).unwrap();
        mem.write_file(&path, bytes).unwrap();
        if let Some(id) = name.strip_prefix("backups/") {
            let record = BackupRecord::decode(id, bytes).unwrap();
            assert_eq!(record.encode().unwrap().as_bytes(), bytes);
            records.push(record.head);
        }
    }
    assert_eq!(found["FIRN-BACKUPS"], b"firn backups 1\n");
    assert_eq!(records.iter().map(|h| (h.trees, h.tables)).collect::<Vec<_>>(), [(1, 1), (2, 3)]);
    // The marker, two records, two manifests, three tables.
    assert_eq!(found.len(), 8, "{:?}", found.keys());
    let backups = folder(&env);
    assert!(backups.verify(None, &mut Pacing::default()).unwrap().is_sound());
    let shown = |id: &str| -> Vec<String> {
        let pair = |(k, v): (&Vec<u8>, &Vec<u8>)| {
            format!("{}={}", String::from_utf8_lossy(k), String::from_utf8_lossy(v))
        };
        restored(&env, &backups, id)
            .iter()
            .map(|(tree, held)| format!("{tree}: {:?}", held.iter().map(pair).collect::<Vec<_>>()))
            .collect()
    };
    assert_eq!(shown(&records[0].id), [r#"fruit: ["apple=red"]"#]);
    assert_eq!(shown(&records[1].id), [r#"colours: ["red=1"]"#, "fruit: []"]);
    // New backups can be added to it.
    let db = Db::open_in(env.clone(), STORE, small()).unwrap();
    db.tree("t", TreeOptions::default()).unwrap().put("k", "v").unwrap();
    let id = create(&backups, &db).unwrap().id;
    assert!(restored(&env, &backups, &id) == content(&db));
    assert_eq!(backups.list().unwrap().len(), 3);
}
