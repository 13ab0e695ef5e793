//! Failing operations, crashes and power cuts at any step, damage, concurrent runs.
#![allow(clippy::disallowed_methods, reason = "threads of tests")]

use super::common;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use common::{BACKUPS, STORE, content, create, folder, memory, restored, small};
use firn_backup::{
    BackupRepository, BackupStorage, FolderStorage, KeepRule, Pacing, StorageFile, StoredFile,
};
use firn_crash::{CrashEnv, Cut, Fault, FaultEnv};
use firn_kv::MemEnv;
use firn_kv::{Db, Env, Error, ErrorKind, Result, TreeOptions};

const ONE: KeepRule = KeepRule::newest(1);

/// Creates a store with a backup of an earlier state, and new data to copy.
fn prepared(env: &Arc<dyn Env>) -> (Db, String) {
    let db = Db::open_in(env.clone(), STORE, small()).unwrap();
    let apart = TreeOptions { blob_threshold: 16, ..TreeOptions::default() };
    let tree = db.tree("t", apart).unwrap();
    tree.put("old", "1").unwrap();
    tree.put("long", "a value in a blob file").unwrap();
    let first = create(&folder(env), &db).unwrap().id;
    tree.put("new", "2").unwrap();
    tree.delete("old").unwrap();
    tree.compact().unwrap();
    db.tree("u", TreeOptions::default()).unwrap().put("k", "v").unwrap();
    (db, first)
}

/// Checks that all listed backups are valid, and that all leftovers can be removed.
fn check(env: &Arc<dyn Env>, what: &str) -> Vec<String> {
    let backups = folder(env);
    let verdict = backups.verify(None, &mut Pacing::default()).unwrap();
    assert!(verdict.is_sound(), "{what}: {:?}", verdict.findings);
    let listed = backups.list().unwrap();
    let ids: Vec<String> = listed.into_iter().map(|b| b.id).collect();
    for id in &ids {
        restored(env, &backups, id);
    }
    backups.prune(KeepRule::default(), true).unwrap();
    let left = backups.plan_prune(KeepRule::default()).unwrap();
    assert_eq!((left.files, left.kept), (0, ids.clone()), "{what}");
    ids
}

#[test]
fn a_crash_at_any_step_of_a_backup_leaves_whole_backups() {
    let (mem, env) = memory(1);
    let (db, first) = prepared(&env);
    let held = content(&db);
    mem.start_journal();
    let second = create(&folder(&env), &db).unwrap().id;
    let (mut before, mut after) = (0, 0);
    for at in 0..=mem.journal_len() {
        for cut in [Cut::Process, Cut::PowerNone, Cut::PowerRandom(at as u64)] {
            let image: Arc<dyn Env> = Arc::new(mem.crash_image(at, &cut));
            let what = format!("after {at} operations, {cut:?}");
            let ids = check(&image, &what);
            assert_eq!(ids.first(), Some(&first), "{what}");
            if ids.len() == 2 {
                assert!(restored(&image, &folder(&image), &second) == held, "{what}");
                after += 1;
            } else {
                before += 1;
            }
            // The store continues, and the next backup removes the leftovers of the interrupted
            // one.
            let db = Db::open_in(image.clone(), STORE, small()).unwrap();
            create(&folder(&image), &db).unwrap();
            let names = image.list(Path::new(STORE)).unwrap();
            assert!(!names.iter().any(|n| n.starts_with("backup-")), "{what}: {names:?}");
        }
    }
    let whole = Arc::new(mem.crash_image(mem.journal_len(), &Cut::PowerNone)) as Arc<dyn Env>;
    assert_eq!(check(&whole, "in the end"), [first, second], "acknowledged writes are durable");
    assert!(before > 20 && after >= 3, "{before} before, {after} after");
}

#[test]
fn a_crash_at_any_step_of_a_prune_loses_no_retained_backup() {
    let (mem, env) = memory(2);
    let (db, first) = prepared(&env);
    let second = create(&folder(&env), &db).unwrap().id;
    let held = content(&db);
    mem.start_journal();
    assert_eq!(folder(&env).prune(ONE, false).unwrap().removed, [first]);
    let mut lengths = [0, 0];
    for at in 0..=mem.journal_len() {
        for cut in [Cut::Process, Cut::PowerNone, Cut::PowerRandom(at as u64)] {
            let image: Arc<dyn Env> = Arc::new(mem.crash_image(at, &cut));
            let what = format!("after {at} operations, {cut:?}");
            let ids = check(&image, &what);
            assert_eq!(ids.last(), Some(&second), "{what}");
            assert!(restored(&image, &folder(&image), &second) == held, "{what}");
            lengths[ids.len() - 1] += 1;
        }
    }
    assert!(lengths.iter().all(|n| *n > 2), "{lengths:?}");
}

#[test]
fn an_operation_that_fails_leaves_whole_backups_and_another_try_succeeds() {
    for fault in [Fault::Eio, Fault::Enospc, Fault::ShortWrite, Fault::SyncFails] {
        let mut failed = 0;
        for nth in 0.. {
            let mem = CrashEnv::new(nth);
            let env: Arc<dyn Env> = Arc::new(mem.clone());
            let (db, first) = prepared(&env);
            db.close().unwrap();
            let faulty = FaultEnv::new(env.clone());
            let through: Arc<dyn Env> = Arc::new(faulty.clone());
            let db = Db::open_in(through.clone(), STORE, small()).unwrap();
            let began = faulty.count();
            faulty.fail_nth(began + nth, fault);
            let outcome = create(&folder(&through), &db).map(|made| made.id);
            let pruned = outcome.as_ref().map(|_| folder(&through).prune(ONE, false));
            if faulty.count() <= began + nth {
                break;
            }
            faulty.heal();
            let what = format!("{fault:?} of operation {nth}: {outcome:?}");
            failed += u32::from(outcome.is_err() || pruned.is_ok_and(|p| p.is_err()));
            let ids = check(&env, &what);
            match &outcome {
                Ok(id) => assert_eq!(ids.last(), Some(id), "{what}"),
                Err(_) => assert_eq!(ids.first(), Some(&first), "{what}"),
            }
            // A failed sync of the log makes the store read-only, as it should; reopened, it
            // continues.
            drop(db);
            let db = Db::open_in(env.clone(), STORE, small()).unwrap();
            let id = create(&folder(&env), &db).unwrap().id;
            assert!(restored(&env, &folder(&env), &id) == content(&db), "{what}");
        }
        assert!(failed > 10, "{fault:?}: {failed}");
    }
}

#[test]
fn a_restore_that_fails_or_is_cut_off_is_no_store() {
    let (mem, env) = memory(4);
    let (db, first) = prepared(&env);
    let id = create(&folder(&env), &db).unwrap().id;
    let (held, into) = (content(&db), Path::new("/into/new"));
    mem.start_journal();
    let report = folder(&env).restore(&id, into, &mut Pacing::default()).unwrap();
    assert_eq!((report.head.id.as_str(), report.entries > 0), (id.as_str(), true));
    for at in 0..=mem.journal_len() {
        let image: Arc<dyn Env> = Arc::new(mem.crash_image(at, &Cut::PowerRandom(at as u64)));
        let read_only = firn_kv::DbOptions { create: false, read_only: true, ..small() };
        if let Ok(db) = Db::open_in(image, into, read_only) {
            assert!(content(&db) == held, "after {at} operations");
        }
    }
    let mut failed = 0;
    for nth in 0.. {
        let faulty = FaultEnv::new(env.clone());
        let through: Arc<dyn Env> = Arc::new(faulty.clone());
        faulty.fail_nth(nth, Fault::Eio);
        let into = PathBuf::from(format!("/into/{nth}"));
        let outcome = folder(&through).restore(&first, &into, &mut Pacing::default());
        if faulty.count() <= nth {
            break;
        }
        // A store in the directory is complete, even if only its verification failed.
        let read_only = firn_kv::DbOptions { create: false, read_only: true, ..small() };
        match (&outcome, Db::open_in(env.clone(), &into, read_only)) {
            (Ok(_), opened) => assert_eq!(content(&opened.unwrap())["t"].len(), 2, "{nth}"),
            (Err(_), Ok(db)) => assert_eq!(content(&db)["t"].len(), 2, "{nth}"),
            (Err(_), Err(_)) => failed += 1,
        }
    }
    assert!(failed > 10, "{failed}");
}

/// Storage of which each operation can be made to fail, before or after its effect, like a network.
struct FlakyPlace {
    inner: Arc<dyn BackupStorage>,
    done: AtomicU64,
    fails: u64,
    after: bool,
}

impl FlakyPlace {
    fn fail<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let e = || Err(Error::new(ErrorKind::Io, "the network is gone"));
        match self.done.fetch_add(1, Ordering::Relaxed) == self.fails {
            false => work(),
            true if self.after => work().and_then(|_| e()),
            true => e(),
        }
    }
}

impl BackupStorage for FlakyPlace {
    fn address(&self) -> String {
        self.inner.address()
    }
    fn is_empty(&self) -> Result<bool> {
        self.fail(|| self.inner.is_empty())
    }
    fn list(&self, folder: &str) -> Result<Vec<StoredFile>> {
        self.fail(|| self.inner.list(folder))
    }
    fn size(&self, name: &str) -> Result<u64> {
        self.fail(|| self.inner.size(name))
    }
    fn read(&self, name: &str, offset: u64, len: usize) -> Result<Vec<u8>> {
        self.fail(|| self.inner.read(name, offset, len))
    }
    fn create(&self, name: &str) -> Result<Box<dyn StorageFile + '_>> {
        let file = self.fail(|| self.inner.create(name))?;
        Ok(Box::new(FlakyFile { place: self, file }))
    }
    fn remove(&self, names: &[String]) -> Result<()> {
        self.fail(|| self.inner.remove(names))
    }
}

struct FlakyFile<'a> {
    place: &'a FlakyPlace,
    file: Box<dyn StorageFile + 'a>,
}

impl StorageFile for FlakyFile<'_> {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let FlakyFile { place, file } = self;
        place.fail(|| file.append(bytes))
    }
    fn finish(self: Box<Self>) -> Result<()> {
        let FlakyFile { place, file } = *self;
        place.fail(|| file.finish())
    }
}

#[test]
fn a_place_that_fails_at_any_step_loses_nothing() {
    for after in [false, true] {
        let mut failed = 0;
        for fails in 0.. {
            let (_, env) = memory(fails);
            let (db, first) = prepared(&env);
            let inner: Arc<dyn BackupStorage> = Arc::new(FolderStorage::new(env.clone(), BACKUPS));
            let place = Arc::new(FlakyPlace { inner, done: AtomicU64::new(0), fails, after });
            let backups = BackupRepository::new(env.clone(), place.clone());
            let outcome = create(&backups, &db).map(|made| made.id);
            let pruned = outcome.is_ok().then(|| backups.prune(ONE, false));
            if place.done.load(Ordering::Relaxed) <= fails {
                break;
            }
            let what = format!("{fails}, after it was done: {after}: {outcome:?} {pruned:?}");
            failed += u32::from(outcome.is_err() || pruned.is_some_and(|p| p.is_err()));
            let ids = check(&env, &what);
            match &outcome {
                Ok(id) => assert_eq!(ids.last(), Some(id), "{what}"),
                // If only the response was lost, the backup may exist nevertheless, complete, as
                // checked.
                Err(_) => assert_eq!(ids.first(), Some(&first), "{what}"),
            }
            let id = create(&folder(&env), &db).unwrap().id;
            assert!(restored(&env, &folder(&env), &id) == content(&db), "{what}");
        }
        assert!(failed > 10, "{failed}");
    }
}

/// Returns a file in a directory of the repository.
fn file(env: &Arc<dyn Env>, folder: &str, nth: usize) -> PathBuf {
    let dir = Path::new(BACKUPS).join(folder);
    dir.join(&env.list(&dir).unwrap()[nth])
}

#[test]
fn damage_is_reported_with_its_cost_and_advice() {
    let (mem, env) = memory(5);
    let (db, first) = prepared(&env);
    let second = create(&folder(&env), &db).unwrap().id;
    let verify = || folder(&env).verify(None, &mut Pacing::default()).unwrap();
    assert_eq!(verify().backups, 2);
    let mut repaired = 0;
    for nth in 0..env.list(&Path::new(BACKUPS).join("tables")).unwrap().len() {
        let table = file(&env, "tables", nth);
        let good = mem.read_file(&table).unwrap();
        for damage in ["flipped", "cut", "gone"] {
            match damage {
                "flipped" => {
                    let mut bad = good.clone();
                    bad[good.len() / 2] ^= 1;
                    mem.write_file(&table, &bad).unwrap();
                }
                "cut" => mem.write_file(&table, &good[..good.len() - 1]).unwrap(),
                _ => env.remove(&table).unwrap(),
            }
            let verdict = verify();
            let [finding] = &verdict.findings[..] else { panic!("{:?}", verdict.findings) };
            let name = table.file_name().unwrap().to_str().unwrap();
            assert!(finding.error.to_string().contains(name), "{damage}: {}", finding.error);
            assert!(finding.advice.contains("firn backup create"));
            for id in &finding.backups {
                let into = PathBuf::from(format!("/no/{}", env.random()));
                let restore = folder(&env).restore(id, &into, &mut Pacing::default());
                assert_eq!(restore.unwrap_err().kind(), ErrorKind::Corruption);
                assert!(env.list(&into).is_err(), "nothing stays of it");
            }
            let (broken, whole): (Vec<_>, Vec<_>) = folder(&env)
                .list()
                .unwrap()
                .into_iter()
                .partition(|b| finding.backups.contains(&b.id));
            assert_eq!(broken.len(), finding.backups.len());
            whole.iter().for_each(|b| drop(restored(&env, &folder(&env), &b.id)));
            repaired += u32::from(damage != "flipped" && finding.backups.contains(&second));
            if damage != "flipped" && finding.backups.contains(&second) {
                // The advice: the store still has this table.
                create(&folder(&env), &db).unwrap();
                assert!(verify().is_sound(), "{damage}");
            }
            mem.write_file(&table, &good).unwrap();
        }
    }
    assert!(repaired >= 4, "{repaired}");
    for folder_name in ["manifests", "backups"] {
        let path = file(&env, folder_name, 0);
        let good = mem.read_file(&path).unwrap();
        let mut bad = good.clone();
        bad[good.len() / 2] ^= 1;
        mem.write_file(&path, &bad).unwrap();
        let verdict = verify();
        let [finding] = &verdict.findings[..] else { panic!("{:?}", verdict.findings) };
        assert_eq!(finding.backups, std::slice::from_ref(&first));
        if folder_name == "backups" {
            assert!(folder(&env).list().unwrap()[0].record.is_err());
            let e = folder(&env).prune(ONE, false).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Corruption, "its files are unknown: {e}");
        }
        env.remove(&path).unwrap();
        assert_eq!(verify().is_sound(), folder_name == "backups", "an abandoned backup");
        mem.write_file(&path, &good).unwrap();
    }
    assert!(verify().is_sound());
    mem.write_file(&Path::new(BACKUPS).join("FIRN-BACKUPS"), b"firn backups 7\n").unwrap();
    assert_eq!(folder(&env).list().unwrap_err().kind(), ErrorKind::Incompatible);
}

#[test]
fn damage_of_the_store_is_reported_and_not_backed_up() {
    let (mem, env) = memory(6);
    let (db, first) = prepared(&env);
    db.existing_tree("u").unwrap().flush().unwrap();
    let dir = env.list(Path::new(STORE)).unwrap();
    let newest = dir.iter().filter(|n| n.ends_with(".sst")).max().unwrap();
    let path = Path::new(STORE).join(newest);
    let mut bytes = mem.read_file(&path).unwrap();
    bytes[3] ^= 1;
    mem.write_file(&path, &bytes).unwrap();
    let e = create(&folder(&env), &db).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
    assert!(e.to_string().contains(newest.as_str()), "{e}");
    assert_eq!(check(&env, "after rot"), [first]);
}

#[test]
fn a_folder_of_something_else_is_left_alone() {
    let (mem, env) = memory(7);
    env.create_dir_all(Path::new(BACKUPS)).unwrap();
    mem.write_file(&Path::new(BACKUPS).join("letters"), b"dear").unwrap();
    let db = Db::open_in(env.clone(), STORE, small()).unwrap();
    let backups = folder(&env);
    for e in [
        create(&backups, &db).unwrap_err(),
        backups.list().unwrap_err(),
        backups.prune(ONE, true).unwrap_err(),
    ] {
        assert!(e.to_string().contains("no repository of backups"), "{e}");
    }
    assert_eq!(env.list(Path::new(BACKUPS)).unwrap(), ["letters"]);
}

/// Runs an action in the middle of a backup.
fn in_the_middle(
    env: &Arc<dyn Env>,
    db: &Db,
    mut meanwhile: impl FnMut(&BackupRepository),
) -> Result<String> {
    let backups = folder(env);
    let mut once = false;
    let mut pacing = Pacing::default().with_progress(|done, _| {
        if done > 0 && !once {
            once = true;
            meanwhile(&folder(env));
        }
    });
    Ok(backups.create(db, &mut pacing)?.id)
}

#[test]
fn a_prune_waits_for_a_backup_and_two_backups_do_not() {
    let (_, env) = memory(8);
    let (db, first) = prepared(&env);
    let mut beside = String::new();
    let id = in_the_middle(&env, &db, |backups| {
        let e = backups.prune(ONE, false).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Locked);
        assert!(e.to_string().contains("--alone"), "{e}");
        beside = create(backups, &db).unwrap().id;
    })
    .unwrap();
    let mut ids = check(&env, "two at once");
    ids.sort();
    let mut all = [first, id, beside];
    all.sort();
    assert_eq!(ids, all);
}

#[test]
fn a_backup_that_is_pruned_while_it_is_restored_is_not_called_damaged() {
    let (_, env) = memory(11);
    let (db, first) = prepared(&env);
    create(&folder(&env), &db).unwrap();
    let into = Path::new("/again");
    let mut pacing = Pacing::default().with_progress(|_, _| {
        folder(&env).prune(ONE, false).unwrap();
    });
    let e = folder(&env).restore(&first, into, &mut pacing).unwrap_err();
    assert!(e.kind() == ErrorKind::NotFound && e.to_string().contains("it was removed"), "{e}");
    assert!(!env.list(into).is_ok_and(|names| !names.is_empty()), "nothing of it stays");
}

#[test]
fn a_backup_that_stood_still_while_a_prune_went_by_does_not_count() {
    for gone_by in ["held up", "taken for one that is over"] {
        let (mem, env) = memory(9);
        let (db, first) = prepared(&env);
        let e = in_the_middle(&env, &db, |backups| {
            if gone_by == "held up" {
                mem.advance(Duration::from_secs(2 * 3600));
            }
            // To the prune, the copied files are leftovers.
            backups.prune(KeepRule::default(), gone_by != "held up").unwrap();
        })
        .unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::Conflict | ErrorKind::NotFound), "{gone_by}: {e}");
        assert_eq!(check(&env, gone_by), [first]);
        create(&folder(&env), &db).unwrap();
        check(&env, gone_by);
    }
}

#[test]
fn threads_make_backups_while_others_write() {
    let env: Arc<dyn Env> = Arc::new(MemEnv::plain());
    let options = firn_kv::DbOptions { background_threads: 2, ..small() };
    let db = Db::open_in(env.clone(), STORE, options).unwrap();
    let tree = db.tree("t", TreeOptions::default()).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        let writer = s.spawn(|| {
            for n in 0u32.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                // Both or none.
                let mut batch = firn_kv::Batch::new();
                batch.put(&tree, format!("a{}", n % 1000), n.to_be_bytes()).unwrap();
                batch.put(&tree, format!("b{}", n % 1000), n.to_be_bytes()).unwrap();
                db.write(batch).unwrap();
            }
        });
        let makers: Vec<_> = (0..2)
            .map(|_| {
                s.spawn(|| {
                    (0..5).map(|_| create(&folder(&env), &db).unwrap().id).collect::<Vec<_>>()
                })
            })
            .collect();
        let ids: Vec<String> = makers.into_iter().flat_map(|m| m.join().unwrap()).collect();
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap();
        for id in &ids {
            let held = restored(&env, &folder(&env), id).remove("t").unwrap();
            for (key, value) in held.iter().filter(|(k, _)| k.starts_with(b"a")) {
                let twin = [b"b", &key[1..]].concat();
                assert_eq!(held.get(&twin), Some(value), "a batch is whole");
            }
        }
        assert_eq!(check(&env, "threads").len(), 10);
    });
}
