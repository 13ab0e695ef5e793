//! Stores of other engines, written by these engines.
#![allow(clippy::disallowed_methods, reason = "files that the tests damage")]

use super::common::{Temp, message, read, rows};

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use firn_testkit::rng::Rng;
use firn_tools::output::Done;
use firn_transfer::format::TransferFormat;
use firn_transfer::source::{SourceCell, SourceOptions, open};
use heed::CommitOrAbort;
use heed::types::Bytes;

/// Keys and values.
type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// Reads the pairs of a directory, whose format is recognized.
fn pairs(path: &Path, part: Option<&str>) -> Done<Pairs> {
    let format = TransferFormat::of_source(path)?;
    let options = SourceOptions { part: part.map(str::to_owned), ..Default::default() };
    let mut source = open(path, format, &options)?;
    let found = rows(&mut *source, 0)?.rows;
    let pair = |row: &Vec<SourceCell>| match &row[..] {
        [SourceCell::Value(k), SourceCell::Value(v)] => (k.clone(), v.clone()),
        other => panic!("{other:?}"),
    };
    assert!(found.is_sorted_by_key(|row| pair(row).0));
    Ok(found.iter().map(pair).collect())
}

/// Fails on a panic; errors and other contents are allowed.
fn survives_damage(file: &Path, root: &Path) {
    let whole = read(file);
    for at in (0..whole.len()).step_by((whole.len() / 100).max(1)) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x5a;
        fs::write(file, &bytes).unwrap();
        pairs(root, None).ok();
        fs::write(file, &whole[..at]).unwrap();
        pairs(root, None).ok();
    }
    fs::write(file, whole).unwrap();
}

fn leveldb(dir: &Path, rng: &mut Rng) -> Pairs {
    let options = rusty_leveldb::Options {
        create_if_missing: true,
        write_buffer_size: 64 << 10,
        ..rusty_leveldb::Options::default()
    };
    let mut db = rusty_leveldb::DB::open(dir, options).unwrap();
    let mut model = Pairs::new();
    for i in 0..20_000_u64 {
        let key = format!("key {}", rng.below(6_000)).into_bytes();
        if rng.below(5) == 0 {
            db.delete(&key).unwrap();
            model.remove(&key);
        } else {
            let value = vec![i as u8; rng.below(60) as usize];
            db.put(&key, &value).unwrap();
            model.insert(key, value);
        }
    }
    let long = vec![7; 200_000];
    db.put(b"long", &long).unwrap();
    model.insert(b"long".to_vec(), long);
    db.flush().unwrap();
    model
}

#[test]
fn leveldb_has_the_newest_versions() {
    let temp = Temp::new("leveldb");
    let dir = temp.path("db");
    let model = leveldb(&dir, &mut Rng::new(1));
    let names: Vec<String> = fs::read_dir(&dir)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    let tables = names.iter().filter(|n| n.ends_with(".ldb") || n.ends_with(".sst")).count();
    assert!(tables > 2, "{names:?}");
    let before: Vec<_> = names.iter().map(|n| read(&dir.join(n))).collect();
    assert!(pairs(&dir, None).unwrap() == model);
    // Nothing was written.
    assert!(names.iter().map(|n| read(&dir.join(n))).eq(before));
    for name in &names {
        survives_damage(&dir.join(name), &dir);
    }
    let table = names.iter().find(|n| n.ends_with(".ldb") || n.ends_with(".sst")).unwrap();
    let mut bytes = read(&dir.join(table));
    bytes[100] ^= 1;
    fs::write(dir.join(table), bytes).unwrap();
    let said = message(pairs(&dir, None).unwrap_err());
    assert!(said.contains(table.as_str()) && said.contains("checksum"), "{said}");
}

#[allow(unsafe_code, reason = "heed maps files that nobody else changes")]
fn lmdb(dir: &Path, name: Option<&str>, rng: &mut Rng) -> Pairs {
    fs::create_dir_all(dir).unwrap();
    let mut options = heed::EnvOpenOptions::new();
    options.map_size(64 << 20).max_dbs(4);
    // SAFETY: no other process or handle has this new directory.
    let env = unsafe { options.open(dir) }.unwrap();
    let created = env.create_databases_and_commit(env.write_txn().unwrap(), |opener, txn| {
        opener.create_database::<Bytes, Bytes>(txn, name).map(CommitOrAbort::<_, ()>::Commit)
    });
    let Ok(CommitOrAbort::Commit(db)) = created else { panic!("no database") };
    let mut txn = env.write_txn().unwrap();
    let mut model = Pairs::new();
    for i in 0..6_000_u64 {
        let key = format!("key {}", rng.below(3_000)).into_bytes();
        if rng.below(5) == 0 {
            db.delete(&mut txn, &key).unwrap();
            model.remove(&key);
        } else {
            // Some values have overflow pages.
            let length = if rng.below(20) == 0 { 9_000 } else { rng.below(60) };
            let value = vec![i as u8; length as usize];
            db.put(&mut txn, &key, &value).unwrap();
            model.insert(key, value);
        }
        if i % 1_500 == 1_499 {
            txn.commit().unwrap();
            txn = env.write_txn().unwrap();
        }
    }
    txn.commit().unwrap();
    model
}

#[test]
fn lmdb_has_all_pairs() {
    let temp = Temp::new("lmdb");
    let (plain, named) = (temp.path("plain"), temp.path("named"));
    let model = lmdb(&plain, None, &mut Rng::new(2));
    assert!(pairs(&plain, None).unwrap() == model);
    assert!(pairs(&plain.join("data.mdb"), None).unwrap() == model);
    let said = message(pairs(&plain, Some("users")).unwrap_err());
    assert!(said.contains("has no database \"users\""), "{said}");
    survives_damage(&plain.join("data.mdb"), &plain);
    let users = lmdb(&named, Some("users"), &mut Rng::new(3));
    let items = lmdb(&named, Some("items"), &mut Rng::new(4));
    assert!(pairs(&named, Some("users")).unwrap() == users);
    assert!(pairs(&named, Some("items")).unwrap() == items);
    let said = message(pairs(&named, None).unwrap_err());
    assert!(said.contains("items, users"), "{said}");
    let empty = temp.path("empty");
    fs::create_dir_all(&empty).unwrap();
    assert!(message(pairs(&empty, None).unwrap_err()).contains("format"));
}

#[cfg(feature = "rocksdb")]
#[test]
fn rocksdb_has_the_pairs_of_a_column_family() {
    use rocksdb::{DB, Options};
    let temp = Temp::new("rocksdb");
    let dir = temp.path("db");
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_write_buffer_size(64 << 10);
    let db = DB::open_cf(&options, &dir, ["default", "users"]).unwrap();
    let (mut rng, mut model) = (Rng::new(5), [Pairs::new(), Pairs::new()]);
    for i in 0..10_000_u64 {
        let which = rng.below(2) as usize;
        let family = db.cf_handle(["default", "users"][which]).unwrap();
        let key = format!("key {}", rng.below(3_000)).into_bytes();
        if rng.below(5) == 0 {
            db.delete_cf(&family, &key).unwrap();
            model[which].remove(&key);
        } else {
            let value = vec![i as u8; rng.below(60) as usize];
            db.put_cf(&family, &key, &value).unwrap();
            model[which].insert(key, value);
        }
    }
    drop(db);
    assert!(pairs(&dir, None).unwrap() == model[0]);
    assert!(pairs(&dir, Some("users")).unwrap() == model[1]);
    let said = message(pairs(&dir, Some("items")).unwrap_err());
    assert!(said.contains("has no column family \"items\""), "{said}");
}

#[cfg(feature = "sqlite")]
#[test]
fn sqlite_has_rows_with_types() {
    use firn_wide::Type;
    let temp = Temp::new("sqlite");
    let path = temp.path("app.sqlite");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE \"odd \"\"name\" (id INTEGER PRIMARY KEY, name TEXT, price REAL, data BLOB, is_new BOOLEAN, at DATETIME, free);
             INSERT INTO \"odd \"\"name\" VALUES (1, 'é', 1.5, x'00ff', 1, '2020-01-01', NULL), (-9223372036854775808, NULL, 2, x'', 0, NULL, 7);",
        )
        .unwrap();
    drop(connection);
    let options = SourceOptions::default();
    let mut source = open(&path, TransferFormat::Sqlite, &options).unwrap();
    let types: Vec<Type> = source.columns().iter().map(|c| c.value_type.clone().unwrap()).collect();
    assert_eq!(
        types,
        [Type::Long, Type::Utf8, Type::Double, Type::Bytes, Type::Boolean, Type::Utf8, Type::Long]
    );
    let found = rows(&mut *source, 0).unwrap().rows;
    let long = |n: i64| SourceCell::Typed(Type::Long, n.to_be_bytes().to_vec());
    assert_eq!((&found[0][0], &found[0][6]), (&long(i64::MIN), &long(7)));
    assert_eq!(found[1][1], SourceCell::Typed(Type::Utf8, "é".into()));
    assert_eq!(found[1][4], long(1));
    assert_eq!(rows(&mut *source, 1).unwrap().rows.len(), 1);
    let query = |sql: &str| {
        let options = SourceOptions { query: Some(sql.into()), ..Default::default() };
        let mut source = open(&path, TransferFormat::Sqlite, &options)?;
        rows(&mut *source, 0).map(|found| found.rows)
    };
    let found = query("SELECT id + 1 AS next FROM \"odd \"\"name\" WHERE id = 1").unwrap();
    assert_eq!(found, [vec![long(2)]]);
    let said = message(query("SELECT absent").unwrap_err());
    assert!(said.contains("no such column"), "{said}");
    let damaged = temp.file("damaged.sqlite", &read(&path)[..3_000]);
    assert!(open(&damaged, TransferFormat::Sqlite, &options).is_err());
    let other = SourceOptions { part: Some("users".into()), ..Default::default() };
    let said = open(&path, TransferFormat::Sqlite, &other).err().map(message).unwrap();
    assert!(said.contains("has no table \"users\""), "{said}");
}
