//! Typed trees: every call, batches, transactions, snapshots, and errors.

use firn_kv::{Batch, Db, Durability, ErrorKind, TreeOptions};
use firn_typed::{EntryPart, Error, Postcard, Prefix, TypedTree};
use serde::{Deserialize, Serialize};

fn db() -> Db {
    Db::in_memory().unwrap()
}

fn scores(db: &Db) -> TypedTree<(String, u32), i64> {
    let tree = TypedTree::open(db, "scores").unwrap();
    for (name, round, score) in [("ann", 1, 30), ("ann", 2, -5), ("anna", 1, 8), ("bo", 1, 0)] {
        tree.put(&(name, round), &score).unwrap();
    }
    tree
}

fn values(range: firn_typed::TypedRange<(String, u32), i64>) -> Vec<i64> {
    range.map(|item| item.unwrap().1).collect()
}

#[test]
fn reads_return_typed_entries() {
    let tree = scores(&db());
    assert_eq!(tree.get(&("ann", 2)).unwrap(), Some(-5));
    assert_eq!(tree.get(&("ann".to_owned(), 3)).unwrap(), None);
    assert!(tree.contains(&("bo", 1)).unwrap() && !tree.contains(&("bo", 2)).unwrap());
    assert_eq!(tree.multi_get(&[("bo", 1), ("bo", 2)]).unwrap(), [Some(0), None]);
    assert_eq!(values(tree.range(("ann", 2)..("bo", 0))), [-5, 8]);
    assert_eq!(values(tree.range(("ann", 2)..=("bo", 1))), [-5, 8, 0]);
    assert_eq!(values(tree.range(..("ann", 2))), [30]);
    assert_eq!(values(tree.prefix(&("ann",))), [30, -5]);
    assert_eq!(values(tree.range(Prefix(("anna",)))), [8]);
    assert_eq!(values(tree.iter()), [30, -5, 8, 0]);
    assert_eq!(
        (&tree).into_iter().rev().map(|item| item.unwrap().1).collect::<Vec<_>>(),
        [0, 8, -5, 30]
    );
    let rounds: Vec<u32> = tree.iter().keys().rev().map(|key| key.unwrap().1).collect();
    assert_eq!(rounds, [1, 1, 2, 1]);
    let lengths = tree.iter().map_views(|key, _| key.0.len()).rev().map(Result::unwrap);
    assert_eq!(lengths.collect::<Vec<_>>(), [2, 4, 3, 3]);
    assert_eq!(tree.first().unwrap(), Some((("ann".to_owned(), 1), 30)));
    assert_eq!(tree.last().unwrap(), Some((("bo".to_owned(), 1), 0)));
    assert!(tree.len().unwrap() == 4 && !tree.is_empty().unwrap());
    assert_eq!(tree.clone().tree().name(), "scores");
}

#[test]
fn deletes_of_ranges_and_prefixes() {
    let tree = scores(&db());
    tree.delete(&("ann", 1)).unwrap();
    tree.delete_range(Prefix(("anna",))).unwrap();
    assert_eq!(values(tree.iter()), [-5, 0]);
    tree.delete_range(("ann", 0)..).unwrap();
    assert!(tree.is_empty().unwrap());
    tree.put(&("x", 1), &1).unwrap();
    tree.clear().unwrap();
    assert_eq!(tree.first().unwrap(), None);
}

#[test]
fn prefixes_of_ff_reach_the_end() {
    let tree: TypedTree<(u8, u8), ()> = TypedTree::open(&db(), "t").unwrap();
    let bytes: TypedTree<Vec<u8>, ()> = TypedTree::open(&db(), "t").unwrap();
    for key in [(254, 255), (255, 0), (255, 255)] {
        tree.put(&key, &()).unwrap();
        bytes.put(&[key.0, key.1], &()).unwrap();
    }
    assert_eq!(tree.prefix(&(255,)).count(), 2);
    assert_eq!(tree.prefix(&(254,)).count(), 1);
    assert_eq!(bytes.prefix(&[255]).count(), 2);
    assert_eq!(bytes.prefix(&[254, 255]).count(), 1);
    assert_eq!(bytes.prefix(&[]).count(), 3);
}

#[test]
fn batches_snapshots_and_transactions() {
    let db = db();
    let tree = scores(&db);
    let before = db.snapshot();
    let mut batch = Batch::new();
    tree.put_in(&mut batch, &("cy", 1), &7).unwrap();
    tree.delete_in(&mut batch, &("bo", 1)).unwrap();
    tree.delete_range_in(&mut batch, Prefix(("ann",))).unwrap();
    assert_eq!(batch.len(), 3);
    db.with_durability(Durability::Power).write(batch).unwrap();
    assert_eq!(values(tree.iter()), [8, 7]);

    let then = tree.at(&before);
    assert_eq!(values(then.iter()), [30, -5, 8, 0]);
    assert_eq!(then.get(&("bo", 1)).unwrap(), Some(0));
    assert_eq!(then.get_with(&("bo", 1), |n| n + 1).unwrap(), Some(1));
    assert!(!then.contains(&("cy", 1)).unwrap());
    assert_eq!(values(then.prefix(&("ann",))), [30, -5]);
    assert_eq!(then.first().unwrap().unwrap().1, 30);
    assert_eq!(then.last().unwrap().unwrap().1, 0);
    assert!(then.len().unwrap() == 4 && !then.is_empty().unwrap());

    let total = db.transact(|tx| {
        let all = tree.at(tx).iter().try_fold(0, |sum, item| item.map(|(_, n)| sum + n))?;
        tree.delete_range_in(tx, ..)?;
        tree.put_in(tx, &("all", 1), &all)?;
        tree.delete_in(tx, &("all", 2))?;
        assert_eq!(tree.at(tx).len()?, 1);
        Ok(all)
    });
    assert_eq!(total.unwrap(), 15);
    assert_eq!(values(tree.iter()), [15]);
    assert_eq!(tree.at(&db).get(&("all", 1)).unwrap(), Some(15));

    // A conflict keeps its kind through both errors.
    let conflict = firn_kv::Retry { attempts: 1, ..Default::default() }.transact(&db, |tx| {
        tree.at(tx).get(&("all", 1))?;
        tree.put(&("all", 1), &1)?;
        Ok(tree.put_in(tx, &("all", 1), &2)?)
    });
    assert_eq!(conflict.unwrap_err().kind(), ErrorKind::Conflict);
}

#[test]
fn read_modify_write() {
    let tree: TypedTree<String, String> = TypedTree::open(&db(), "t").unwrap();
    assert_eq!(tree.insert_if_absent("a", "1").unwrap(), None);
    assert_eq!(tree.insert_if_absent("a", "2").unwrap(), Some("1".to_owned()));
    assert_eq!(tree.compare_and_swap("a", Some("1"), Some("3")).unwrap(), Ok(()));
    assert_eq!(tree.compare_and_swap("a", Some("1"), None).unwrap(), Err(Some("3".to_owned())));
    assert_eq!(tree.compare_and_swap("a", None, Some("4")).unwrap(), Err(Some("3".to_owned())));
    let updated = tree.update("a", |old| old.map(|old| old + "!")).unwrap();
    assert_eq!((updated.old.as_deref(), updated.new.as_deref()), (Some("3"), Some("3!")));
    let deleted = tree.with_durability(Durability::Process).update("a", |_| None).unwrap();
    assert!(deleted.new.is_none() && !tree.contains("a").unwrap());
    // The value changes while the function runs: it runs again.
    let mut calls = 0;
    let other = tree.clone();
    let raced = tree.update("b", |old| {
        calls += 1;
        if calls == 1 {
            other.put("b", "faster").unwrap();
        }
        Some(old.unwrap_or_default() + "mine")
    });
    assert_eq!((raced.unwrap().new.as_deref(), calls), (Some("fastermine"), 2));
}

#[test]
fn a_tree_of_texts_is_plain() {
    let db = db();
    let raw = db.tree("fruit", TreeOptions::default()).unwrap();
    raw.put("apple", "red").unwrap();
    let typed: TypedTree<String, String> = TypedTree::new(raw.clone());
    assert_eq!(typed.get("apple").unwrap().as_deref(), Some("red"));
    typed.put("pear", &"green".to_owned()).unwrap();
    assert_eq!(raw.get("pear").unwrap().unwrap(), "green");
    assert_eq!(typed.prefix("ap").count(), 1);
}

#[test]
fn undecodable_entries_are_errors_with_tree_and_key() {
    let db = db();
    let tree: TypedTree<u16, u32> = TypedTree::open(&db, "numbers").unwrap();
    tree.tree().put([0, 1], [1, 2]).unwrap();
    tree.tree().put([7], [0; 4]).unwrap();
    tree.put(&u16::MAX, &9).unwrap();
    let error = tree.get(&1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the value: cannot decode u32 at offset 0: the bytes end (tree \"numbers\", key \"\\x00\\x01\"); open the tree with its types"
    );
    assert!(matches!(&error, Error::Decode { part: EntryPart::Value, key, .. } if **key == [0, 1]));
    // The text includes the cause, so a printed chain must not repeat it.
    assert!(std::error::Error::source(&error).is_none());
    assert!(tree.update(&1, |_| None).is_err() && tree.contains(&1).unwrap());
    assert!(tree.multi_get(&[1]).is_err() && tree.first().is_err());
    // The iterator goes on after them.
    let items: Vec<_> = tree.iter().collect();
    assert!(matches!(&items[1], Err(Error::Decode { part: EntryPart::Key, .. })), "{items:?}");
    assert_eq!(items[2].as_ref().unwrap(), &(u16::MAX, 9));
    assert_eq!(tree.iter().keys().filter(Result::is_err).count(), 1);
    assert_eq!(
        items[1].as_ref().unwrap_err().to_string(),
        "the key: cannot decode u16 at offset 0: the bytes end (tree \"numbers\", key \"\\x07\"); open the tree with its types"
    );
    let engine: firn_kv::Error = error.into();
    assert_eq!(engine.kind(), ErrorKind::Corruption);
    assert_eq!(engine.message(), "the value: cannot decode u32 at offset 0: the bytes end");
    assert_eq!(
        (engine.tree(), engine.key_range()),
        (Some("numbers"), Some((&[0, 1][..], &[0, 1][..])))
    );
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Shape {
    Circle { radius: f64 },
    Path(Vec<(i32, i32)>),
}

#[test]
fn values_of_serde() {
    let db = db();
    let tree: TypedTree<u64, Postcard<Shape>> = TypedTree::open(&db, "shapes").unwrap();
    let path = Shape::Path((0..100).map(|n| (n, -n)).collect());
    tree.put(&1, &path).unwrap();
    assert_eq!(tree.insert_if_absent(&2, &Shape::Circle { radius: 1.5 }).unwrap(), None);
    assert_eq!(tree.get(&1).unwrap(), Some(path.clone()));
    assert_eq!(tree.get_with(&1, |shape| shape == path).unwrap(), Some(true));
    assert_eq!(tree.update(&2, |_| Some(path.clone())).unwrap().new, Some(path.clone()));
    // The format is stable: the number of the variant, the length, zigzag numbers.
    tree.put(&3, &Shape::Path(vec![(1, -1)])).unwrap();
    assert_eq!(tree.tree().get(3u64.to_be_bytes()).unwrap().unwrap(), [1, 1, 2, 1]);
    for (bytes, offset) in [(&[7][..], 0), (&[1, 0, 0], 2)] {
        tree.tree().put(4u64.to_be_bytes(), bytes).unwrap();
        let error = tree.get(&4).unwrap_err();
        assert!(
            matches!(&error, Error::Decode { source, .. } if source.offset() == offset),
            "{error}"
        );
    }
}

#[test]
fn values_that_cannot_be_encoded_are_errors() {
    #[derive(Debug)]
    struct Endless;
    impl Serialize for Endless {
        fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
            // The format needs the length of a sequence before its elements.
            serde::ser::SerializeSeq::end(to.serialize_seq(None)?)
        }
    }
    impl<'a> Deserialize<'a> for Endless {
        fn deserialize<D: serde::Deserializer<'a>>(_: D) -> Result<Endless, D::Error> {
            Ok(Endless)
        }
    }
    let db = db();
    let tree: TypedTree<u8, Postcard<Endless>> = TypedTree::open(&db, "t").unwrap();
    let error = tree.put(&1, &Endless).unwrap_err();
    assert!(matches!(&error, Error::Encode { tree, .. } if tree == "t"), "{error}");
    let found = db.transact(|tx| Ok(tree.put_in(tx, &1, &Endless)?)).unwrap_err();
    assert_eq!((found.kind(), tree.is_empty().unwrap()), (ErrorKind::InvalidArgument, true));
}

#[test]
fn errors_of_the_engine_keep_their_kind() {
    let (db, other) = (db(), db());
    let tree = scores(&db);
    assert!(
        matches!(tree.at(&other).get(&("a", 1)), Err(Error::Engine(e)) if e.kind() == ErrorKind::InvalidArgument)
    );
    db.drop_tree("scores").unwrap();
    assert!(matches!(tree.get(&("a", 1)), Err(Error::Engine(e)) if e.kind() == ErrorKind::Closed));
    assert!(matches!(tree.iter().next(), Some(Err(Error::Engine(_)))));
}
