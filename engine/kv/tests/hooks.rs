//! Data that compactions may drop. The tests use a `CompactionFilter` hook (a compaction filter)
//! that expires values, as an upper layer would, and `Fifo` with limits. They compare seeded
//! histories with a map. Read results never depend on whether a compaction has run.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firn_crash::{CrashEnv, Cut};
use firn_kv::Env;
use firn_kv::internals::base::key::Kind;
use firn_kv::policy::Movement;
use firn_kv::policy::{Fifo, LazyLeveled, Leveled, Tiered, Unified};
use firn_kv::{
    CompactionFilter, CompactionFilterContext, CompactionFilterPass, Db, DbOptions, FilterDecision,
    MergeOperator, MergeResult, Policy, Snapshot, Summary, SummaryPass, Tree, TreeOptions,
};
use firn_testkit::rng::Rng;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Compaction filter for values that begin with the second of their expiry.
struct Expiry;

fn expiry(value: &[u8]) -> u64 {
    value.first_chunk().map_or(u64::MAX, |b| u64::from_be_bytes(*b))
}

impl CompactionFilter for Expiry {
    fn name(&self) -> &str {
        "expiry"
    }
    fn start(&self, job: CompactionFilterContext) -> Box<dyn CompactionFilterPass> {
        Box::new(ExpiryPass(job.now_micros / 1_000_000))
    }
}

struct ExpiryPass(u64);

impl CompactionFilterPass for ExpiryPass {
    fn filter(&mut self, _: &[u8], kind: Kind, value: &[u8], alone: bool) -> FilterDecision {
        match kind {
            // An older version that is not expired may exist. Then a short stub must stay to hide
            // it.
            Kind::Put if expiry(value) < self.0 && alone => FilterDecision::Drop,
            Kind::Put if expiry(value) < self.0 => {
                FilterDecision::Replace(expiry(value).to_be_bytes().to_vec())
            }
            _ => FilterDecision::Keep,
        }
    }
}

fn seconds(env: &CrashEnv) -> u64 {
    env.wall_micros() / 1_000_000
}

fn unexpired(items: impl Iterator<Item = (Vec<u8>, Vec<u8>)>, now: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
    items.filter(|(_, v)| expiry(v) >= now).collect()
}

fn items(range: firn_kv::Range) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    range.map(Result::unwrap).map(|(k, v)| (k.to_vec(), v.to_vec()))
}

fn open(env: &CrashEnv, options: TreeOptions) -> (Db, Tree) {
    let db = DbOptions {
        background_threads: 0,
        memory_budget: 8 << 20,
        wal_segment: 256 << 10,
        ..DbOptions::default()
    };
    let db = Db::open_in(Arc::new(env.clone()), "/db", db).unwrap();
    let tree = db.tree("t", options).unwrap();
    (db, tree)
}

fn options(policy: Policy) -> TreeOptions {
    TreeOptions { memtable_size: 64 << 10, table_size: 64 << 10, policy, ..TreeOptions::default() }
}

fn key(rng: &mut Rng) -> Vec<u8> {
    format!("key{:04}", rng.below(400)).into_bytes()
}

/// A snapshot with the state and the second of its creation.
struct Frozen(Snapshot, Map, u64);

fn check(tree: &Tree, map: &Map, frozen: &Option<Frozen>, now: u64, what: &str) {
    let want = unexpired(map.clone().into_iter(), now);
    assert!(unexpired(items(tree.iter()), now) == want, "{what}: forward");
    let mut back = unexpired(items(tree.iter()).collect::<Vec<_>>().into_iter().rev(), now);
    back.reverse();
    assert!(back == want, "{what}: backward");
    if let Some(Frozen(snapshot, map, then)) = frozen {
        let want = unexpired(map.clone().into_iter(), *then);
        assert!(unexpired(items(snapshot.range(tree, ..)), *then) == want, "{what}: snapshot");
    }
}

fn expire(seed: u64, policy: Policy) -> u64 {
    let mut rng = Rng::new(seed);
    let mut env = CrashEnv::new(seed);
    let all = TreeOptions { compaction_filter: Some(Arc::new(Expiry)), ..options(policy.clone()) };
    let (mut db, mut tree) = open(&env, all.clone());
    let (mut map, mut frozen, mut purged) = (Map::new(), None, 0);
    for step in 0..3000 {
        let now = seconds(&env);
        match rng.below(400) {
            0..300 => {
                let (k, until) = (key(&mut rng), now + rng.below(100));
                let mut value = until.to_be_bytes().to_vec();
                value.resize(8 + rng.below(150) as usize, rng.next_u64() as u8);
                tree.put(&k, &value).unwrap();
                map.insert(k, value);
            }
            300..340 => {
                let k = key(&mut rng);
                tree.delete(&k).unwrap();
                map.remove(&k);
            }
            340..344 => {
                let (a, b) = (key(&mut rng), key(&mut rng));
                tree.delete_range((&a).min(&b)..(&a).max(&b)).unwrap();
                map.retain(|k, _| k < (&a).min(&b) || k >= (&a).max(&b));
            }
            344..350 => frozen = Some(Frozen(db.snapshot(), map.clone(), now)),
            350..355 => frozen = None,
            355..360 => tree.compact().unwrap(),
            360..364 => tree.flush().unwrap(),
            364..366 => {
                frozen = None;
                purged += db.stats().dropped_by_filter;
                drop((db, tree));
                env = env.crash_image(0, &Cut::Process);
                (db, tree) = open(&env, all.clone());
            }
            366..380 => env.advance(Duration::from_secs(rng.below(40))),
            380..384 => {
                check(&tree, &map, &frozen, now, &format!("{policy:?}, seed {seed}, step {step}"))
            }
            _ => {
                let k = key(&mut rng);
                let live = |v: &Vec<u8>| expiry(v) >= now;
                let got = tree.get(&k).unwrap().map(|v| v.to_vec()).filter(live);
                assert_eq!(
                    got,
                    map.get(&k).cloned().filter(live),
                    "{policy:?}, seed {seed}, step {step}"
                );
            }
        }
    }
    frozen = None;
    env.advance(Duration::from_secs(1000));
    tree.compact().unwrap();
    check(&tree, &map, &frozen, seconds(&env), "at the end");
    assert_eq!(tree.iter().count(), 0, "a full compaction drops all expired values");
    purged + db.stats().dropped_by_filter
}

fn policies() -> [Policy; 4] {
    [
        Policy::default(),
        Policy::Leveled(Leveled {
            level0_runs: 2,
            ratio: 4,
            base: 128 << 10,
            movement: Movement::default(),
            ..Leveled::default()
        }),
        Policy::LazyLeveled(LazyLeveled { ratio: 3, ..LazyLeveled::default() }),
        Policy::Unified(Unified {
            scaling: vec![2, -2, 0],
            target_table: 64 << 10,
            base_shards: 2,
            ..Unified::default()
        }),
    ]
}

#[test]
fn what_has_expired_is_forgotten_and_uncovers_nothing() {
    for policy in policies() {
        let purged: u64 = (1..=2).map(|seed| expire(seed, policy.clone())).sum();
        assert!(purged > 1000, "{policy:?}: {purged} purged");
    }
}

/// Returns the bytes of table files in the directory.
fn table_bytes(env: &CrashEnv) -> u64 {
    let names = env.list(Path::new("/db")).unwrap();
    names
        .iter()
        .filter(|n| n.ends_with(".sst"))
        .map(|n| env.file_len(&Path::new("/db").join(n)).unwrap())
        .sum()
}

/// Each key shows its last write or is dropped; an older version never reappears. The newest data
/// is present, and the limits on size and age hold.
fn first_in_first_out(seed: u64, max_bytes: u64, max_age_secs: u64) -> usize {
    let mut rng = Rng::new(seed);
    let mut env = CrashEnv::new(seed);
    let all = options(Policy::Fifo(Fifo { max_bytes, max_age_secs, ..Fifo::default() }));
    let (mut db, mut tree) = open(&env, all.clone());
    // Last value and write time of each key.
    let mut map: BTreeMap<Vec<u8>, (Option<Vec<u8>>, u64)> = BTreeMap::new();
    let mut forgotten = 0;
    for step in 0..8_000 {
        let what = format!("seed {seed}, step {step}");
        let now = seconds(&env);
        match rng.below(400) {
            0..360 => {
                let k = format!("key{:05}", rng.below(20_000)).into_bytes();
                let mut value = vec![0; rng.below(250) as usize];
                rng.fill(&mut value);
                tree.put(&k, &value).unwrap();
                map.insert(k, (Some(value), now));
            }
            360..380 => {
                let k = format!("key{:05}", rng.below(20_000)).into_bytes();
                tree.delete(&k).unwrap();
                map.insert(k, (None, now));
            }
            380..384 => env.advance(Duration::from_secs(rng.below(10))),
            384..385 => {
                drop((db, tree));
                env = env.crash_image(0, &Cut::Process);
                (db, tree) = open(&env, all.clone());
            }
            385..390 => {
                let got: BTreeMap<_, _> = items(tree.iter()).collect();
                for (k, v) in &got {
                    assert_eq!(
                        Some(v),
                        map[k].0.as_ref(),
                        "{what}: an older value, or a deleted one, came back"
                    );
                }
                forgotten =
                    map.iter().filter(|(k, (v, _))| v.is_some() && !got.contains_key(*k)).count();
            }
            _ => {
                let k = format!("key{:05}", rng.below(20_000)).into_bytes();
                tree.put(&k, b"newest").unwrap();
                assert_eq!(tree.get(&k).unwrap().as_deref(), Some(&b"newest"[..]), "{what}");
                map.insert(k, (Some(b"newest".to_vec()), now));
            }
        }
        if max_bytes > 0 && step % 20 == 0 {
            let live = db.stats().table_bytes();
            assert!(live <= max_bytes, "{what}: {live} bytes live");
        }
    }
    if max_age_secs > 0 {
        tree.flush().unwrap();
        env.advance(Duration::from_secs(max_age_secs + 1));
        db.wait_idle().unwrap();
        assert_eq!(
            (tree.iter().count(), db.stats().table_bytes()),
            (0, 0),
            "all data exceeds the age limit"
        );
        drop((db, tree));
        let (_db, _tree) = open(&env, all);
        assert_eq!(table_bytes(&env), 0);
    }
    forgotten
}

#[test]
fn fifo_forgets_the_oldest_by_size() {
    for seed in 1..=2 {
        assert!(first_in_first_out(seed, 400 << 10, 0) > 1000);
    }
}

#[test]
fn fifo_forgets_the_oldest_by_age() {
    for seed in 3..=4 {
        assert!(first_in_first_out(seed, 0, 200) > 1000);
    }
    assert!(first_in_first_out(5, 400 << 10, 300) > 1000);
}

/// Prefix of two bytes: a row. The key of two bytes is the row's marker, which decides about the
/// whole row.
struct Rows;

impl firn_kv::FilterPrefix for Rows {
    fn name(&self) -> &str {
        "rows"
    }
    fn prefix_len(&self, key: &[u8]) -> usize {
        key.len().min(2)
    }
    fn shared_len(&self, from: &[u8], until: &[u8]) -> Option<usize> {
        let row = from.get(..2)?;
        (until.starts_with(row) || until == [row[0], row[1] + 1]).then_some(2)
    }
}

impl CompactionFilter for Rows {
    fn name(&self) -> &str {
        "rows"
    }
    fn start(&self, _: CompactionFilterContext) -> Box<dyn CompactionFilterPass> {
        Box::new(Rows)
    }
}

impl CompactionFilterPass for Rows {
    fn filter(&mut self, key: &[u8], _: Kind, _: &[u8], alone: bool) -> FilterDecision {
        if key.len() == 2 && alone { FilterDecision::Drop } else { FilterDecision::Keep }
    }
    fn reach(&mut self, key: &[u8], _: &[u8], end: &mut Vec<u8>) -> bool {
        end.extend_from_slice(&[key[0], key[1] + 1]);
        key.len() == 2
    }
}

#[test]
fn a_range_deletion_is_alone_only_without_older_entries_in_its_range() {
    let env = CrashEnv::new(1);
    let hooks = TreeOptions {
        compaction_filter: Some(Arc::new(Rows)),
        filter_prefix: Some(Arc::new(Rows)),
        ..options(Policy::Tiered(Tiered {
            min_runs: 8,
            max_runs: 8,
            bucket: 2.0,
            ..Tiered::default()
        }))
    };
    let (db, tree) = open(&env, hooks);
    // Write an older table that begins after the marker, so that a compaction of the marker's key
    // does not include it. It either contains the row or does not.
    for (keys, kept) in [(&["bb1", "cc1"][..], true), (&["bd1", "cc1"], false)] {
        keys.iter().for_each(|k| tree.put(k.as_bytes(), b"").unwrap());
        tree.flush().unwrap();
        tree.put(b"bb", b"").unwrap();
        tree.flush().unwrap();
        // A newer key of the same row.
        tree.put(b"bb9", b"").unwrap();
        tree.flush().unwrap();
        let seen = |range: firn_kv::Range| items(range).map(|(k, _)| k).collect::<Vec<_>>();
        let all = seen(tree.iter());
        let row: Vec<_> = all.iter().filter(|k| k.starts_with(b"bb")).cloned().collect();
        assert_eq!(
            seen(tree.range("bb".."bc")),
            row,
            "filters skip only tables without keys in the range"
        );
        tree.compact_range("bb"..="bb").unwrap();
        let there = tree.contains(b"bb").unwrap();
        assert_eq!(there, kept, "{keys:?}");
        tree.delete_range(.."z").unwrap();
        tree.compact().unwrap();
        assert_eq!(tree.iter().count(), 0);
    }
    drop((tree, db));
}

/// Summary that counts entries.
struct Count(u8);

impl Summary for Count {
    fn name(&self) -> &str {
        "count"
    }
    fn start(&self) -> Box<dyn SummaryPass> {
        Box::new(Count(0))
    }
}

impl SummaryPass for Count {
    fn add(&mut self, _: &[u8], _: Kind, _: &[u8]) {
        self.0 += 1;
    }
    fn finish(self: Box<Self>) -> Vec<u8> {
        vec![self.0]
    }
}

#[test]
fn tables_are_listed_with_what_their_summary_says() {
    let env = CrashEnv::new(1);
    let hooks = TreeOptions {
        summary: Some(Arc::new(Count(0))),
        ..options(Policy::Tiered(Tiered {
            min_runs: 8,
            max_runs: 8,
            bucket: 2.0,
            ..Tiered::default()
        }))
    };
    let (db, tree) = open(&env, hooks);
    for keys in [&["a", "c", "e"][..], &["b"]] {
        keys.iter().for_each(|k| tree.put(k.as_bytes(), b"v").unwrap());
        assert!(tree.tables().unwrap().len() < 2, "entries of memtables are in no table");
        tree.flush().unwrap();
    }
    let tables = tree.tables().unwrap();
    let [newer, older] = &tables[..] else { panic!("{tables:?}") };
    assert_eq!(
        (&older.summary[..], &*older.first_key, &*older.last_key, older.entries),
        (&[3][..], &b"a"[..], &b"e"[..], 3)
    );
    assert_eq!(
        (&newer.summary[..], newer.min_seq, newer.max_seq, newer.level),
        (&[1][..], 4, 4, 0)
    );
    assert!(newer.run > older.run && older.bytes > 0);
    assert_eq!(env.file_len(Path::new(&format!("/db/{:08}.sst", older.id))).unwrap(), older.bytes);
    tree.compact().unwrap();
    assert_eq!(tree.tables().unwrap().iter().map(|t| t.summary[0]).collect::<Vec<_>>(), [4]);
    db.drop_tree("t").unwrap();
    assert!(tree.tables().is_err());
}

/// Without the hook, a prefix filter cannot be used; this is no corruption.
#[test]
fn a_store_without_its_prefixes_is_sound() {
    let env = CrashEnv::new(1);
    let (db, tree) =
        open(&env, TreeOptions { filter_prefix: Some(Arc::new(Rows)), ..TreeOptions::default() });
    (0..500u32).for_each(|i| tree.put(format!("b{i:03}").as_bytes(), b"value").unwrap());
    tree.flush().unwrap();
    drop((tree, db));
    let db = Db::open_in(
        Arc::new(env),
        "/db",
        DbOptions { background_threads: 0, ..DbOptions::default() },
    )
    .unwrap();
    let found = db.verify(|_, _| {}).unwrap();
    assert!(found.errors.is_empty() && found.entries == 500, "{:?}", found.errors);
}

/// Merge operator that adds numbers, and a compaction filter that drops keys whose sum is zero. It
/// records the calls of a compaction.
#[derive(Default)]
struct Counters {
    judged: Mutex<Vec<(Vec<u8>, i64)>>,
}

fn number(bytes: &[u8]) -> i64 {
    i64::from_le_bytes(bytes.try_into().unwrap())
}

impl MergeOperator for Counters {
    fn name(&self) -> &str {
        "sum"
    }
    fn full_merge(
        &self,
        _: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> firn_kv::Result<MergeResult> {
        let sum: i64 = base.into_iter().chain(operands.iter().copied()).map(number).sum();
        Ok(MergeResult::Value(sum.to_le_bytes().to_vec()))
    }
}

struct DropZeros(Arc<Counters>);

impl CompactionFilter for DropZeros {
    fn name(&self) -> &str {
        "zeros"
    }
    fn start(&self, _: CompactionFilterContext) -> Box<dyn CompactionFilterPass> {
        Box::new(DropZeros(self.0.clone()))
    }
}

impl CompactionFilterPass for DropZeros {
    fn filter(&mut self, key: &[u8], _: Kind, value: &[u8], alone: bool) -> FilterDecision {
        self.0.judged.lock().unwrap().push((key.to_vec(), number(value)));
        if alone && number(value) == 0 { FilterDecision::Drop } else { FilterDecision::Keep }
    }
}

/// One compaction passes each key's newest version to the filter once, in ascending order, folded
/// or not.
#[test]
fn a_compaction_shows_the_purge_hook_every_key_once() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let env = CrashEnv::new(seed);
        let hook = Arc::new(Counters::default());
        let tree_options = TreeOptions {
            merge_operator: Some(hook.clone()),
            compaction_filter: Some(Arc::new(DropZeros(hook.clone()))),
            ..options(Policy::Tiered(Tiered {
                min_runs: 4,
                max_runs: 8,
                bucket: 3.0,
                ..Tiered::default()
            }))
        };
        let (db, tree) = open(&env, tree_options);
        let mut sums: BTreeMap<Vec<u8>, i64> = BTreeMap::new();
        for step in 0..300 {
            let (key, n) = (format!("{:02}", rng.below(40)).into_bytes(), rng.below(5) as i64 - 2);
            match rng.below(6) {
                0 => {
                    tree.put(&key, n.to_le_bytes()).unwrap();
                    sums.insert(key, n);
                }
                1 => {
                    tree.delete(&key).unwrap();
                    sums.remove(&key);
                }
                _ => {
                    tree.merge(&key, n.to_le_bytes()).unwrap();
                    *sums.entry(key).or_default() += n;
                }
            }
            if step % 50 == 49 && rng.below(2) == 0 {
                tree.flush().unwrap();
            }
        }
        hook.judged.lock().unwrap().clear();
        tree.compact().unwrap();
        let judged = std::mem::take(&mut *hook.judged.lock().unwrap());
        assert!(judged.is_sorted_by(|a, b| a.0 < b.0), "seed {seed}: {judged:?}");
        // An earlier compaction may have dropped a zero.
        sums.retain(|_, n| *n != 0);
        let others = judged.into_iter().filter(|(_, n)| *n != 0);
        assert!(others.eq(sums.clone()), "seed {seed}: not all of {sums:?} were shown");
        let left = items(tree.iter()).map(|(k, v)| (k, number(&v)));
        assert!(left.eq(sums), "seed {seed}: zeros are left after one compaction");
        drop(db);
    }
}
