//! Random histories of a typed tree, compared with a `BTreeMap`.

use std::collections::BTreeMap;
use std::ops::Bound;

use firn_kv::{Batch, Db};
use firn_testkit::effort::times_effort;
use firn_typed::{Prefix, TypedTree};
use proptest::collection::vec;
use proptest::prelude::*;

type Name = (String, Option<i8>, Vec<u8>);
type Limits = (Bound<Name>, Bound<Name>);

#[derive(Clone, Debug)]
enum Step {
    Put(Name, u32),
    Delete(Name),
    DeleteRange(Limits),
    DeletePrefix(String, Option<i8>),
    Update(Name, u32),
    Batch(Vec<(Name, Option<u32>)>),
    Transact(Vec<(Name, Option<u32>)>),
    Flush,
    Get(Name),
    Range(Limits),
    Prefix(String, Option<Option<i8>>),
}

fn text() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", "\0", "a", "a\0", "a\u{1}", "b", "ÿ"]).prop_map(str::to_owned)
}

fn number() -> impl Strategy<Value = Option<i8>> {
    prop::option::of(-1..2i8)
}

fn name() -> impl Strategy<Value = Name> {
    (text(), number(), vec(prop_oneof![Just(0u8), Just(255)], 0..2))
}

fn bound() -> impl Strategy<Value = Bound<Name>> {
    prop_oneof![
        name().prop_map(Bound::Included),
        name().prop_map(Bound::Excluded),
        Just(Bound::Unbounded)
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let limits = || (bound(), bound());
    let writes = || vec((name(), prop::option::of(any::<u32>())), 0..5);
    prop_oneof![
        8 => (name(), any::<u32>()).prop_map(|(k, v)| Step::Put(k, v)),
        2 => name().prop_map(Step::Delete),
        1 => limits().prop_map(Step::DeleteRange),
        1 => (text(), number()).prop_map(|(a, b)| Step::DeletePrefix(a, b)),
        2 => (name(), any::<u32>()).prop_map(|(k, v)| Step::Update(k, v)),
        2 => writes().prop_map(Step::Batch),
        2 => writes().prop_map(Step::Transact),
        1 => Just(Step::Flush),
        3 => name().prop_map(Step::Get),
        3 => limits().prop_map(Step::Range),
        3 => (text(), prop::option::of(number())).prop_map(|(a, b)| Step::Prefix(a, b)),
    ]
}

/// Reports whether a range is one that `BTreeMap` accepts.
fn is_ordered((start, end): &Limits) -> bool {
    match (start, end) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
        (Bound::Excluded(a), Bound::Excluded(b)) => a < b,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => {
            a <= b
        }
    }
}

fn within(model: &BTreeMap<Name, u32>, limits: &Limits) -> Vec<(Name, u32)> {
    match is_ordered(limits) {
        true => model.range(limits.clone()).map(|(k, v)| (k.clone(), *v)).collect(),
        false => vec![],
    }
}

fn write(model: &mut BTreeMap<Name, u32>, writes: &[(Name, Option<u32>)]) {
    for (key, value) in writes {
        match value {
            Some(value) => model.insert(key.clone(), *value),
            None => model.remove(key),
        };
    }
}

fn run(steps: &[Step]) -> firn_typed::Result<()> {
    let db = Db::in_memory()?;
    let tree: TypedTree<Name, u32> = TypedTree::open(&db, "t")?;
    let mut model: BTreeMap<Name, u32> = BTreeMap::new();
    for step in steps {
        match step {
            Step::Put(key, value) => {
                tree.put(key, value)?;
                model.insert(key.clone(), *value);
            }
            Step::Delete(key) => {
                tree.delete(key)?;
                model.remove(key);
            }
            Step::DeleteRange(limits) => {
                tree.delete_range(limits.clone())?;
                for (key, _) in within(&model, limits) {
                    model.remove(&key);
                }
            }
            Step::DeletePrefix(a, b) => {
                tree.delete_range(Prefix((a, b)))?;
                model.retain(|key, _| (&key.0, &key.1) != (a, b));
            }
            Step::Update(key, value) => {
                let change = |old: Option<u32>| old.is_none_or(|n| n % 2 == 0).then_some(*value);
                let updated = tree.update(key, change)?;
                let old = model.get(key).copied();
                assert_eq!((updated.old, updated.new), (old, change(old)));
                write(&mut model, &[(key.clone(), updated.new)]);
            }
            Step::Batch(writes) => {
                let mut batch = Batch::new();
                for (key, value) in writes {
                    match value {
                        Some(value) => tree.put_in(&mut batch, key, value)?,
                        None => tree.delete_in(&mut batch, key)?,
                    }
                }
                db.write(batch)?;
                write(&mut model, writes);
            }
            Step::Transact(writes) => {
                db.transact(|tx| {
                    for (key, value) in writes {
                        match value {
                            Some(value) => tree.put_in(tx, key, value)?,
                            None => tree.delete_in(tx, key)?,
                        }
                        assert_eq!(tree.at(tx).get(key)?, *value);
                    }
                    Ok(())
                })?;
                write(&mut model, writes);
            }
            Step::Flush => tree.tree().flush()?,
            Step::Get(key) => {
                assert_eq!(tree.get(key)?, model.get(key).copied());
                assert_eq!(tree.contains(key)?, model.contains_key(key));
            }
            Step::Range(limits) => {
                let expected = within(&model, limits);
                let found = tree.range(limits.clone()).collect::<Result<Vec<_>, _>>()?;
                assert_eq!(found, expected);
                let back = tree.range(limits.clone()).rev().collect::<Result<Vec<_>, _>>()?;
                assert!(back.iter().rev().eq(&expected), "{back:?}");
            }
            Step::Prefix(a, b) => {
                let found = match b {
                    Some(b) => tree.prefix(&(a, b)),
                    None => tree.prefix(&(a,)),
                };
                let found = found.keys().collect::<Result<Vec<_>, _>>()?;
                let begins = |key: &&Name| key.0 == *a && b.is_none_or(|b| key.1 == b);
                assert!(found.iter().eq(model.keys().filter(begins)), "{found:?}");
            }
        }
        let entry = |(key, value): (&Name, &u32)| (key.clone(), *value);
        assert_eq!(tree.first()?, model.first_key_value().map(entry));
        assert_eq!(tree.last()?, model.last_key_value().map(entry));
    }
    assert_eq!(tree.len()?, model.len() as u64);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(times_effort(64) as u32))]

    #[test]
    fn a_typed_tree_is_a_map(steps in vec(step(), 0..60)) {
        run(&steps).unwrap();
    }
}
