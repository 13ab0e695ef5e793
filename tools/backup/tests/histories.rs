//! Random histories of writes, compactions, backups, prunes and restores, compared with a model;
//! very small and large stores; moved tables.

use super::common;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::{BACKUPS, Model, Modelled, STORE, content, create, folder, memory, restored, small};
use firn_backup::{BackupRepository, BackupStorage, FolderStorage, KeepRule, Pacing};
use firn_kv::{Db, ErrorKind, TreeOptions};
use firn_testkit::rng::Rng;

/// Plays a history with backups at `place`.
fn play(seed: u64, place: impl FnOnce(&Arc<dyn firn_kv::Env>) -> Arc<dyn BackupStorage>) {
    let (mem, env) = memory(seed);
    let backups = BackupRepository::new(env.clone(), place(&env));
    let mut rng = Rng::new(seed);
    let mut store = Modelled::new(&env);
    let mut kept: Vec<(String, Model)> = vec![];
    for _ in 0..rng.range(5..60) {
        match rng.below(10) {
            0..5 => store.change(&mut rng),
            5 | 6 => {
                let made = create(&backups, &store.db).unwrap();
                assert!(made.copied_bytes <= made.head.bytes, "seed {seed}");
                let again = create(&backups, &store.db).unwrap();
                assert_eq!(again.copied_tables, 0, "seed {seed}: nothing was written between");
                kept.extend([(made.id, store.model.clone()), (again.id, store.model.clone())]);
            }
            7 => {
                let newest = rng.range(1..6);
                mem.advance(Duration::from_secs(rng.below(100)));
                let rule = KeepRule { newest: Some(newest), days: None, ..KeepRule::default() };
                let would = backups.plan_prune(rule).unwrap();
                let pruned = backups.prune(rule, false).unwrap();
                assert_eq!(would, pruned, "seed {seed}");
                kept.drain(..kept.len().saturating_sub(newest as usize));
                let ids: Vec<_> = kept.iter().map(|(id, _)| id.clone()).collect();
                assert_eq!(pruned.kept, ids, "seed {seed}");
                match backups.verify(None, &mut Pacing::default()) {
                    Ok(verdict) => assert!(verdict.is_sound(), "seed {seed}"),
                    // An empty storage is never called valid.
                    Err(e) => assert!(kept.is_empty() && e.kind() == ErrorKind::NotFound, "{e}"),
                }
                assert_eq!(backups.plan_prune(rule).unwrap().files, 0, "seed {seed}");
            }
            8 => store.reopen(),
            _ => {
                if let Some((id, model)) = rng.choose(&kept) {
                    assert!(restored(&env, &backups, id) == *model, "seed {seed}, backup {id}");
                }
            }
        }
        mem.advance(Duration::from_millis(700));
    }
    assert!(content(&store.db) == store.model, "seed {seed}");
    for (id, model) in &kept {
        assert!(restored(&env, &backups, id) == *model, "seed {seed}, backup {id}");
    }
    let left = env.list(Path::new(STORE)).unwrap();
    assert!(!left.iter().any(|n| n.starts_with("backup-")), "seed {seed}: {left:?}");
}

#[test]
fn a_restore_equals_the_backup() {
    // `FIRN_BACKUP_SEEDS=n` plays more.
    let seeds = std::env::var("FIRN_BACKUP_SEEDS").ok().and_then(|n| n.parse().ok());
    for seed in 0..seeds.unwrap_or(40) {
        play(seed, |env| Arc::new(FolderStorage::new(env.clone(), BACKUPS)));
    }
}

#[cfg(feature = "s3")]
#[test]
fn objects_are_as_good_as_a_folder() {
    use firn_backup::ObjectStorage;
    use object_store::memory::InMemory;
    for seed in 100..120 {
        let prefix = if seed % 2 == 0 { "" } else { "stores/one" };
        play(seed, |_| {
            let objects = Arc::new(InMemory::new());
            Arc::new(ObjectStorage::new(objects, prefix, "memory:///stores/one").unwrap())
        });
    }
}

#[test]
fn an_empty_store_and_one_of_a_thousand_trees() {
    let (_, env) = memory(1);
    let backups = folder(&env);
    assert!(backups.list().unwrap().is_empty());
    assert_eq!(backups.newest().unwrap_err().kind(), ErrorKind::NotFound);
    let db = Db::open_in(env.clone(), STORE, small()).unwrap();
    let empty = create(&backups, &db).unwrap();
    assert_eq!((empty.head.tables, empty.head.trees), (0, 0));
    let trees: Vec<_> = (0..1000).map(|n| (format!("tree-{n}"), TreeOptions::default())).collect();
    for (n, tree) in db.trees(trees).unwrap().iter().enumerate() {
        tree.put(format!("key-{n}"), format!("value-{n}")).unwrap();
    }
    let many = create(&backups, &db).unwrap();
    assert_eq!((many.head.tables, many.copied_tables, many.head.trees), (1000, 1000, 1000));
    db.existing_tree("tree-7").unwrap().put("one", "more").unwrap();
    let more = create(&backups, &db).unwrap();
    assert_eq!(more.copied_tables, 1, "only tables written since");
    assert!(restored(&env, &backups, &empty.id).is_empty());
    assert!(restored(&env, &backups, &more.id) == content(&db));
    assert_eq!(restored(&env, &backups, &many.id)["tree-7"].len(), 1);
    assert_eq!(backups.newest().unwrap().head.id, more.id);
}

#[test]
fn a_table_that_a_merge_moves_is_not_copied_again() {
    let (_, env) = memory(2);
    let backups = folder(&env);
    let db = Db::open_in(env.clone(), STORE, small()).unwrap();
    let options = TreeOptions {
        policy: "tiered:min_runs=64:max_runs=64".parse().unwrap(),
        table_size: 64 << 10,
        ..TreeOptions::default()
    };
    let tree = db.tree("t", options).unwrap();
    let mut rng = Rng::new(2);
    for n in 0u32..12_000 {
        let mut value = vec![0; 100];
        rng.fill(&mut value);
        tree.put(n.to_be_bytes(), value).unwrap();
    }
    tree.flush().unwrap();
    let runs = |db: &Db| db.stats().trees[0].runs.len();
    let (before, made) = (runs(&db), create(&backups, &db).unwrap());
    // Nothing overlaps, so the tables are moved to one run unchanged.
    tree.compact().unwrap();
    assert_eq!((before > 1, runs(&db), db.stats().compaction_written), (true, 1, 0));
    let after = create(&backups, &db).unwrap();
    assert_eq!((after.copied_tables, after.head.tables), (0, made.head.tables));
    assert!(made.head.tables > 10);
    for id in [&made.id, &after.id] {
        assert!(restored(&env, &backups, id) == content(&db));
    }
}

#[test]
fn a_restored_store_goes_on_with_the_tables_that_are_there() {
    let (_, env) = memory(3);
    let backups = folder(&env);
    let db = Db::open_in(env.clone(), STORE, small()).unwrap();
    db.tree("t", TreeOptions::default()).unwrap().put("k", "v").unwrap();
    let first = create(&backups, &db).unwrap();
    assert_eq!(first.head.store, format!("{:016x}", db.identity()));
    let again = Path::new("/again");
    backups.restore(&first.id, again, &mut Pacing::default()).unwrap();
    let other = Db::open_in(env.clone(), again, small()).unwrap();
    assert_ne!(other.identity(), db.identity(), "a store of its own");
    let e = backups.restore(&first.id, again, &mut Pacing::default()).unwrap_err();
    assert!(e.to_string().contains("not empty"), "{e}");
    let second = backups.create(&other, &mut Pacing::default()).unwrap();
    assert_eq!(second.copied_tables, 0);
    // The newest of each store stays.
    let rule = KeepRule { newest: Some(1), days: None, ..KeepRule::default() };
    let mut both = vec![first.id, second.id];
    both.sort();
    let mut kept = backups.prune(rule, false).unwrap().kept;
    kept.sort();
    assert_eq!(kept, both);
    assert!(backups.newest().unwrap_err().to_string().contains("several stores"));
}

#[test]
fn a_prune_keeps_by_count_and_by_age() {
    let (mem, env) = memory(5);
    let backups = folder(&env);
    let db = Db::open_in(env.clone(), STORE, small()).unwrap();
    let tree = db.tree("t", TreeOptions::default()).unwrap();
    let mut ids = vec![];
    for day in 0..6 {
        tree.put("k", format!("{day}")).unwrap();
        ids.push(create(&backups, &db).unwrap().id);
        mem.advance(Duration::from_secs(24 * 3600));
    }
    let kept = |newest, days| {
        backups.plan_prune(KeepRule { newest, days, ..KeepRule::default() }).unwrap().kept
    };
    assert_eq!(kept(None, None), ids);
    assert_eq!(kept(Some(2), None), ids[4..]);
    assert_eq!(kept(None, Some(4)), ids[3..]);
    assert_eq!(kept(Some(2), Some(4)), ids[3..]);
    assert_eq!(kept(None, Some(1)), ids[5..], "the newest stays");
    let rule = KeepRule { newest: Some(4), days: Some(2), ..KeepRule::default() };
    assert_eq!(backups.prune(rule, false).unwrap().removed, ids[..2]);
    assert_eq!(restored(&env, &backups, &ids[2])["t"][&b"k"[..]], b"2");
    assert_eq!(kept(None, None), ids[2..]);
}

#[test]
fn a_plan_lists_the_copies_of_a_backup() {
    let (_, env) = memory(4);
    let backups = folder(&env);
    let db = Db::open_in(env.clone(), STORE, small()).unwrap();
    let tree = db.tree("t", TreeOptions::default()).unwrap();
    tree.put("k", "v").unwrap();
    tree.flush().unwrap();
    let plan = backups.plan(Path::new(STORE)).unwrap();
    assert!(backups.list().unwrap().is_empty() && env.list(Path::new(BACKUPS)).is_err());
    let made = create(&backups, &db).unwrap();
    assert_eq!((plan.new_tables, plan.new_bytes), (made.copied_tables, made.copied_bytes));
    let plan = backups.plan(Path::new(STORE)).unwrap();
    assert_eq!((plan.tables, plan.bytes, plan.new_tables), (1, made.head.bytes, 0));
    let none = backups.plan(Path::new("/nowhere")).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::NotFound);
}
