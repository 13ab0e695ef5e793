//! Tests of the manifest: appended edits are read back, torn frames are ignored, damage is
//! detected.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use proptest::prelude::*;
use proptest::sample::Index;

use super::current::current_text;
use super::format::{FRAME, HEADER};
use super::*;
use crate::base::blob_ref::{BlobFileMeta, BlobUse};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::facts::TableFacts;
use crate::base::format_version::FormatVersion;
use crate::base::identity::{LogWriter, TableIdentity};
use crate::base::options::{Compression, FilterAllocation, FilterKind, TreeOptions};
use crate::compaction::policy::{self, Param, ParameterKind, Policy};
use crate::env::Env;
use crate::util::checksum::checksum;
use crate::util::sorted_map::SortedMap;

#[path = "../wal/testenv.rs"]
#[allow(clippy::duplicate_mod)] // sibling modules do not depend on each other, also in tests
mod testenv;
use testenv::TestEnv;

fn dir() -> PathBuf {
    PathBuf::from("db")
}

fn load(env: &TestEnv) -> Result<Option<(ManifestState, u64)>> {
    Manifest::load(env, &dir())
}

/// Any policy with any values, within or outside their bounds.
fn policies() -> impl Strategy<Value = Policy> {
    (prop::sample::select(Policy::ALL.to_vec()), any::<Vec<i32>>(), any::<[u32; 8]>(), any::<f64>())
        .prop_map(|(policy, list, n, x)| {
            let value = |(i, param): (usize, &Param)| match param.kind {
                ParameterKind::Number { .. } => policy::ParameterValue::Number(n[i].into()),
                ParameterKind::Bytes { .. } | ParameterKind::Seconds { .. } => {
                    policy::ParameterValue::Number(u64::from(n[i]) << (n[i] % 32))
                }
                ParameterKind::Factor { .. } => {
                    policy::ParameterValue::Double(if x.is_nan() { 0.0 } else { x })
                }
                ParameterKind::List { .. } => policy::ParameterValue::List(list.clone()),
                ParameterKind::Choice(names) => {
                    policy::ParameterValue::Number(n[i] as u64 % names.len() as u64)
                }
            };
            let values: Vec<_> = policy.params.iter().enumerate().map(value).collect();
            Policy::of(policy.name, &values).unwrap()
        })
}

fn names() -> impl Strategy<Value = Option<String>> {
    prop::option::of("[a-zé ]{0,12}")
}

fn tree_options() -> impl Strategy<Value = PersistedOptions> {
    let compression = prop::sample::select(Compression::ALL.to_vec());
    let filter =
        prop::sample::select(vec![FilterKind::None, FilterKind::Fuse8, FilterKind::Fuse16]);
    let levels = (prop::collection::vec(compression, 1..8), prop::collection::vec(filter, 1..8));
    (levels, policies(), any::<[u64; 4]>(), (names(), names(), names(), names())).prop_map(
        |(l, policy, n, h)| PersistedOptions {
            compression: l.0,
            filter: l.1,
            filter_allocation: [FilterAllocation::ByLevel, FilterAllocation::Monkey]
                [(n[2] % 2) as usize],
            block_size: n[0],
            table_size: n[1],
            memtable_size: n[2],
            blob_threshold: n[0] >> 3,
            blob_gc_percent: (n[1] >> 3) as u8,
            policy,
            tombstone_age_secs: n[3],
            merge_operator: h.0,
            compaction_filter: h.1,
            summary: h.2,
            filter_prefix: h.3,
        },
    )
}

fn table(id: u64, first: u8, last: u8, n: &[u64; 9]) -> Arc<TableMeta> {
    Arc::new(TableMeta {
        facts: TableFacts {
            identity: TableIdentity { store: 77, unique: id },
            id,
            size: n[0],
            entries: n[1],
            deletes: n[2],
            merges: n[3],
            range_deletes: n[4],
            raw_bytes: n[5],
            first_key: vec![first, 0, 0xff],
            last_key: vec![last, 0, 0xff, 7],
            min_seq: n[6] >> 9,
            max_seq: (n[6] >> 9) + (n[7] >> 9),
            oldest_tombstone_micros: (n[8] & 1 == 1).then_some(n[8]),
            values: vec![],
        },
        created_micros: n[7],
        newest_micros: n[7],
        ingested_seq: 0,
    })
}

/// Step of a history, applied to the state at that point.
#[derive(Clone, Debug)]
enum Step {
    Create(PersistedOptions),
    Drop(usize),
    SetOptions(usize, PersistedOptions),
    Flush(usize, u8, [u64; 9]),
    Move(usize, usize, u8),
    Counters(u64, u64, u64),
    Opened(u64, usize),
    Subscribe(u8, u64, u32),
    Unsubscribe(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => tree_options().prop_map(Step::Create),
        1 => any::<usize>().prop_map(Step::Drop),
        1 => (any::<usize>(), tree_options()).prop_map(|(i, o)| Step::SetOptions(i, o)),
        6 => (any::<usize>(), 1u8..5, any::<[u64; 9]>()).prop_map(|(i, n, m)| Step::Flush(i, n, m)),
        3 => (any::<usize>(), any::<usize>(), 0u8..4).prop_map(|(i, t, l)| Step::Move(i, t, l)),
        1 => (any::<u32>(), any::<u32>(), any::<u32>()).prop_map(|(a, b, c)| Step::Counters(a as u64, b as u64, c as u64)),
        1 => (any::<u64>(), any::<usize>()).prop_map(|(id, gone)| Step::Opened(id, gone)),
        1 => (any::<u8>(), any::<u64>(), any::<u32>()).prop_map(|(n, max, at)| Step::Subscribe(n, max, at)),
        1 => any::<usize>().prop_map(Step::Unsubscribe),
    ]
}

fn edit(state: &ManifestState, step: &Step) -> Option<Edit> {
    let pick = |i: &usize| state.trees.keys().nth(i % state.trees.len().max(1)).copied();
    Some(match step {
        Step::Create(options) => Edit::CreateTree {
            id: state.next_tree,
            name: format!("tree {}", state.next_tree),
            options: options.clone(),
            flushed: state.wal_floor,
        },
        Step::Drop(i) => Edit::DropTree { id: pick(i)? },
        Step::SetOptions(i, options) => Edit::SetOptions { id: pick(i)?, options: options.clone() },
        Step::Flush(i, n, m) => {
            let tree = pick(i)?;
            let run = state.next_file;
            // Every second flush has a blob file, to which all its tables refer.
            let file = run + *n as u64;
            let with_values = run.is_multiple_of(2) && *n > 0;
            let added = (0..*n).map(|k| {
                let mut t = (*table(run + k as u64, 2 * k, 2 * k + 1, m)).clone();
                if with_values {
                    t.values = vec![BlobUse { file, values: 3, bytes: 300 }];
                }
                AddedTable { level: 0, run, table: Arc::new(t) }
            });
            let facts = BlobFileMeta {
                id: file,
                identity: TableIdentity { store: 5, unique: file },
                size: 300 * *n as u64 + 100,
                values: 3 * *n as u64,
                bytes: 300 * *n as u64,
                raw_bytes: 250 * *n as u64,
            };
            Edit::Tables {
                tree,
                removed: vec![],
                added: added.collect(),
                flushed: Some(state.trees[&tree].flushed + 8),
                values: with_values.then(|| Arc::new(facts)).into_iter().collect(),
            }
        }
        Step::Move(i, t, level) => {
            let tree = pick(i)?;
            let tables: Vec<_> = state.trees[&tree].tables().cloned().collect();
            if tables.is_empty() {
                return None;
            }
            let t = tables[t % tables.len()].clone();
            let added = vec![AddedTable { level: *level, run: t.id, table: t.clone() }];
            Edit::Tables { tree, removed: vec![t.id], added, flushed: None, values: vec![] }
        }
        Step::Counters(a, b, c) => Edit::Counters { next_file: *a, last_seq: *b, wal_floor: *c },
        Step::Opened(id, gone) => {
            let mut writers = state.writers.clone();
            let last = writers.last().copied().unwrap_or_default();
            writers.drain(..gone % (writers.len() + 1));
            writers.push(LogWriter { from: last.from + 1, id: *id, base: last.base + 8 });
            Edit::LogWriters { writers }
        }
        Step::Subscribe(n, max_log_bytes, at) => Edit::SetSubscription(SubscriptionState {
            name: format!("consumer {}", n % 5),
            seq: (*at).into(),
            position: 8 * u64::from(*at),
            max_log_bytes: *max_log_bytes,
            snapshot_due: [SnapshotDue::No, SnapshotDue::New, SnapshotDue::Lost][*n as usize % 3],
        }),
        Step::Unsubscribe(n) => {
            let names: Vec<_> = state.subscriptions.keys().collect();
            Edit::DropSubscription { name: (*names.get(n % names.len().max(1))?).clone() }
        }
    })
}

/// Writes a history. Returns the state after each frame, with the manifest's length.
fn history(env: &TestEnv, groups: &[Vec<Step>]) -> Vec<(ManifestState, u64)> {
    let writers =
        vec![LogWriter { from: 2, id: 9, base: 8 }, LogWriter { from: 3, id: u64::MAX, base: 8 }];
    let mut state = ManifestState {
        id: 77,
        parent: Some(76),
        writers,
        created_micros: 5,
        next_file: 3,
        ..ManifestState::default()
    };
    let mut m = Manifest::create(env, &dir(), 1, &state).unwrap();
    let mut states = vec![(state.clone(), m.size())];
    for g in groups {
        let mut edits = vec![];
        for s in g {
            let Some(e) = edit(&state, s) else { continue };
            // A move may collide with a run whose tables overlap: it is refused, and the state is
            // unchanged.
            let before = state.clone();
            match state.apply(&e) {
                Ok(()) => edits.push(e),
                Err(_) => assert_eq!(state, before),
            }
        }
        state.check().unwrap();
        m.append(&edits).unwrap();
        states.push((state.clone(), m.size()));
    }
    states
}

fn groups(n: usize) -> impl Strategy<Value = Vec<Vec<Step>>> {
    prop::collection::vec(prop::collection::vec(step(), 1..5), 0..n)
}

fn path() -> PathBuf {
    dir().join(manifest_name(1))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn options_and_states_round_trip(groups in groups(12)) {
        let env = TestEnv::default();
        let states = history(&env, &groups);
        let last = &states.last().unwrap().0;
        prop_assert_eq!(&load(&env).unwrap().unwrap().0, last);
        let m = Manifest::create(&env, &dir(), 2, last).unwrap();
        prop_assert_eq!(load(&env).unwrap(), Some((last.clone(), 2)));
        remove_others(&env, &dir(), m.number()).unwrap();
        prop_assert_eq!(env.list(&dir()).unwrap(), ["CURRENT", "MANIFEST-000002"]);
        prop_assert_eq!(load(&env).unwrap(), Some((last.clone(), 2)));
    }

    #[test]
    fn any_bytes_are_decoded_without_panic(bytes: Vec<u8>, groups in groups(3), at: Index, x: u8) {
        let _ = edit::decode_edits(&bytes);
        let _ = CurrentFile::decode(&bytes);
        let env = TestEnv::default();
        history(&env, &groups);
        // Valid frames around invalid content test the decoder alone.
        let log = read(&env, &dir(), 1).unwrap();
        for f in &log.frames {
            let mut payload = edit::encode_edits(&f.edits);
            prop_assert_eq!(&edit::decode_edits(&payload).unwrap(), &f.edits);
            if !payload.is_empty() {
                let at = at.index(payload.len());
                payload[at] = x;
            }
            if let Ok(edits) = edit::decode_edits(&payload) {
                let frame = ManifestFrame { offset: 16, len: 0, checksum: 0, edits };
                let log = Log { path: path(), version: FormatVersion::OLDEST, frames: vec![frame], marks: vec![], end: 0, len: 0 };
                let _ = log.replay();
            }
        }
        env.put(&path(), bytes.clone());
        prop_assert_eq!(load(&env).unwrap_err().kind(), ErrorKind::Corruption);
    }
}

/// Writes a short history with every kind of edit.
fn sample(env: &TestEnv) -> Vec<(ManifestState, u64)> {
    let options = PersistedOptions::of(&TreeOptions::default());
    let n = [4096, 10, 2, 1, 0, 900, 1 << 12, 1 << 13, 3];
    let groups = [
        vec![Step::Create(options.clone()), Step::Create(options.clone())],
        vec![Step::Flush(0, 3, n), Step::Counters(100, 200, 64)],
        vec![Step::Flush(0, 1, n)],
        vec![
            Step::Move(0, 0, 2),
            Step::SetOptions(0, PersistedOptions { block_size: 1, ..options }),
        ],
        vec![Step::Drop(0)],
        vec![Step::Opened(7, 1), Step::Counters(200, 300, 128)],
    ];
    history(env, &groups)
}

#[test]
fn a_manifest_cut_at_any_byte_gives_the_frames_before_or_an_error() {
    let env = TestEnv::default();
    let states = sample(&env);
    let whole = env.bytes(&path());
    for cut in 0..whole.len() {
        for rubbish in [0, 30] {
            let mut bytes = whole[..cut].to_vec();
            bytes.resize(cut + rubbish, 0xee);
            env.put(&path(), bytes);
            // A frame counts once all of it, except for the mark after it, is in the file.
            let want = states.iter().rev().find(|s| s.1 - FRAME as u64 <= cut as u64);
            match (load(&env), want) {
                (Ok(Some((state, 1))), Some(want)) => assert_eq!(state, want.0, "cut at {cut}"),
                (Err(e), None) => {
                    assert!(e.kind() == ErrorKind::Corruption && e.file() == Some(&path()), "{e}")
                }
                (got, _) => panic!("cut at {cut}: {got:?}"),
            }
        }
    }
}

#[test]
fn every_flipped_bit_is_found_or_harmless() {
    let env = TestEnv::default();
    let last = sample(&env).pop().unwrap();
    let mut harmless = 0;
    for file in [path(), dir().join(CURRENT)] {
        let len = env.bytes(&file).len();
        for bit in 0..8 * len {
            env.file(&file).now.lock().unwrap()[bit / 8] ^= 1 << (bit % 8);
            match load(&env) {
                Ok(got) => {
                    assert_eq!(got, Some((last.0.clone(), 1)));
                    harmless += 1;
                }
                Err(e) => {
                    assert_eq!(
                        (e.kind(), e.file()),
                        (ErrorKind::Corruption, Some(file.as_path())),
                        "{e}"
                    );
                    assert!(e.offset().is_some() && e.block_kind().is_some());
                }
            }
            env.file(&file).now.lock().unwrap()[bit / 8] ^= 1 << (bit % 8);
        }
    }
    let marks = read(&env, &dir(), 1).unwrap().frames.len();
    assert_eq!(
        harmless,
        8 * FRAME * marks,
        "marks hold nothing, and a sound frame behind one proves as much"
    );
}

#[test]
fn what_is_missing_is_named() {
    let env = TestEnv::default();
    assert_eq!(load(&env).unwrap(), None);
    sample(&env);
    let current = env.bytes(&dir().join(CURRENT));
    assert_eq!(String::from_utf8(current.clone()).unwrap().lines().nth(1), Some("MANIFEST-000001"));
    env.remove(&dir().join(CURRENT)).unwrap();
    let e = load(&env).unwrap_err();
    assert!(e.kind() == ErrorKind::Corruption && e.to_string().contains("MANIFEST-000001"), "{e}");
    env.put(&dir().join(CURRENT), current);
    env.remove(&path()).unwrap();
    let e = load(&env).unwrap_err();
    assert!(e.kind() == ErrorKind::Corruption && e.file() == Some(&path()), "{e}");
    // A crash before the first CURRENT.
    let env = TestEnv::default();
    Manifest::create(&env, &dir(), 1, &ManifestState::default()).unwrap();
    env.remove(&dir().join(CURRENT)).unwrap();
    assert_eq!(load(&env).unwrap(), None);
    env.put(&path(), env.bytes(&path())[..20].to_vec());
    assert_eq!(load(&env).unwrap(), None);
}

#[test]
fn newer_versions_are_refused_with_both_numbers() {
    let env = TestEnv::default();
    sample(&env);
    let newer = |e: Error, file: &Path| {
        assert_eq!((e.kind(), e.file()), (ErrorKind::Incompatible, Some(file)));
        assert!(e.to_string().contains("version 7") && e.to_string().contains("version 1"), "{e}");
    };
    {
        let file = env.file(&path());
        let mut b = file.now.lock().unwrap();
        b[8] = 7;
        let crc = checksum(1, 0, &[&b[..12]]);
        b[12..16].copy_from_slice(&crc.to_le_bytes());
    }
    newer(load(&env).unwrap_err(), &path());
    env.put(&dir().join(CURRENT), current_text(7, "SOMETHING ELSE").into_bytes());
    newer(load(&env).unwrap_err(), &dir().join(CURRENT));
}

#[test]
fn a_failed_sync_fails_all_later_appends() {
    let env = TestEnv::default();
    let mut m = Manifest::create(&env, &dir(), 1, &ManifestState::default()).unwrap();
    let edit = [Edit::Counters { next_file: 9, last_seq: 9, wal_floor: 8 }];
    env.fail_syncs.store(true, Ordering::Relaxed);
    assert_eq!(m.append(&edit).unwrap_err().kind(), ErrorKind::Io);
    env.fail_syncs.store(false, Ordering::Relaxed);
    let size = m.size();
    assert!(m.append(&edit).is_err());
    assert!(m.size() == size && !m.is_large());
    assert_eq!(load(&env).unwrap().unwrap().0.next_file, 9);
}

#[test]
fn edits_that_do_not_fit_are_refused_and_change_nothing() {
    let env = TestEnv::default();
    let state = sample(&env)[4].0.clone();
    let n = [1; 9];
    let add = |level, run, table| Edit::Tables {
        tree: 0,
        removed: vec![],
        added: vec![AddedTable { level, run, table }],
        flushed: None,
        values: vec![],
    };
    let remove =
        |removed| Edit::Tables { tree: 0, removed, added: vec![], flushed: None, values: vec![] };
    let tables: Vec<_> = state.trees[&0].tables().cloned().collect();
    let run = &state.trees[&0].runs[0];
    let bad = [
        remove(vec![999]),
        remove(vec![tables[0].id; 2]),
        add(5, 5, tables[0].clone()),
        add(run.level, run.number, table(500, 0, 200, &n)),
        add(5, 5, table(500, 3, 2, &n)),
        add(5, 5, table(u64::MAX, 0, 1, &n)),
        Edit::Tables { tree: 9, removed: vec![], added: vec![], flushed: None, values: vec![] },
        Edit::Tables { tree: 0, removed: vec![], added: vec![], flushed: Some(0), values: vec![] },
        Edit::DropTree { id: 9 },
        Edit::SetOptions { id: 9, options: state.trees[&0].options.clone() },
        Edit::CreateTree {
            id: 0,
            name: "x".into(),
            options: state.trees[&0].options.clone(),
            flushed: 0,
        },
        Edit::CreateTree {
            id: 9,
            name: "tree 1".into(),
            options: state.trees[&0].options.clone(),
            flushed: 0,
        },
        Edit::LogWriters {
            writers: vec![
                LogWriter { from: 3, id: 1, base: 8 },
                LogWriter { from: 3, id: 2, base: 8 },
            ],
        },
        Edit::LogWriters {
            writers: vec![
                LogWriter { from: 3, id: 1, base: 8 },
                LogWriter { from: 4, id: 2, base: 0 },
            ],
        },
        Edit::LogWriters { writers: vec![LogWriter::default()] },
        Edit::DropSubscription { name: "missing".into() },
        Edit::SetSubscription(SubscriptionState::default()),
        Edit::SetSubscription(SubscriptionState {
            name: "n".repeat(256),
            ..SubscriptionState::default()
        }),
        Edit::SetSubscription(SubscriptionState {
            name: "far".into(),
            position: u64::MAX,
            ..SubscriptionState::default()
        }),
    ];
    for e in &bad {
        let mut s = state.clone();
        assert_eq!(s.apply(e).unwrap_err().kind(), ErrorKind::Corruption, "{e:?}");
        assert_eq!(s, state);
    }
    let mut s = state.clone();
    s.apply(&add(5, 5, table(500, 0, 200, &n))).unwrap();
    assert_eq!(s.next_file, 501);
    let shown = format!("{:?}", table(500, 65, 66, &n));
    assert_eq!(
        shown,
        "table 500 [A\\x00\\xff .. B\\x00\\xff\\x07] seq 0..0 1 bytes, 1 raw, 1 entries, 1 deletes, 1 merges, 1 range deletes, \
         created 1, oldest tombstone 1"
    );
}

#[test]
fn a_group_of_edits_counts_as_a_whole_or_is_taken_back() {
    let env = TestEnv::default();
    let before = sample(&env)[4].0.clone();
    let mut live = LiveFiles::new(before.clone());
    let opened = edit(&before, &Step::Opened(9, 1)).unwrap();
    let undo = live
        .apply_all(&[opened.clone(), edit(&before, &Step::Counters(700, 800, 900)).unwrap()])
        .unwrap();
    assert!(live.writers != before.writers && live.last_seq == 800);
    live.undo(undo);
    assert_eq!(*live, before);
    assert!(live.apply_all(&[opened, Edit::DropTree { id: 9 }]).is_err());
    assert_eq!(*live, before);
}

#[test]
fn another_writer_continues_only_after_an_end_mark() {
    let env = TestEnv::default();
    let states = sample(&env);
    let whole = env.bytes(&path());
    let opened = |state: &ManifestState| vec![edit(state, &Step::Opened(9, 0)).unwrap()];
    for cut in HEADER..=whole.len() {
        for rubbish in [0, 8, 30] {
            let mut bytes = whole[..cut].to_vec();
            bytes.resize(cut + rubbish, 0);
            env.put(&path(), bytes.clone());
            let end = Manifest::find(&env, &dir()).ok().flatten().and_then(|found| found.end);
            let want = states.iter().find(|s| s.1 == cut as u64 && rubbish == 0);
            assert_eq!(end.is_some(), want.is_some(), "cut at {cut}, then {rubbish}");
            let (Some(end), Some((state, _))) = (end, want) else { continue };
            let mut m = Manifest::go_on(&env, &dir(), 1, end).unwrap();
            m.append(&opened(state)).unwrap();
            let mut state = state.clone();
            state.apply(&opened(&state)[0]).unwrap();
            assert_eq!(
                (load(&env).unwrap(), m.size()),
                (Some((state, 1)), env.bytes(&path()).len() as u64)
            );
            assert!(Manifest::find(&env, &dir()).unwrap().unwrap().end.is_some() && !m.is_large());
            // The file has changed since.
            assert!(Manifest::go_on(&env, &dir(), 1, end).is_none());
        }
    }
}

#[test]
fn a_long_manifest_is_not_gone_on_with() {
    let env = TestEnv::default();
    let counters = |n| [Edit::Counters { next_file: n, last_seq: n, wal_floor: n }];
    let longest = |state: &ManifestState| {
        let mut m = Manifest::create(&env, &dir(), 1, state).unwrap();
        let first = m.size();
        let is_clean = || Manifest::find(&env, &dir()).unwrap().unwrap().end.is_some();
        assert!(is_clean());
        let mut n = 0;
        while is_clean() {
            n += 1;
            m.append(&counters(n)).unwrap();
        }
        (first, m.size())
    };
    let (first, size) = longest(&ManifestState::default());
    assert!(first < 100 && (16 << 10..17 << 10).contains(&size), "{first} {size}");
    let options = PersistedOptions::of(&TreeOptions::default());
    let tree = |id| TreeState {
        id,
        name: format!("tree {id}"),
        options: options.clone(),
        flushed: 0,
        runs: vec![],
        values: SortedMap::new(),
    };
    let trees = (0..300).map(|id| (id, tree(id))).collect();
    let (first, size) =
        longest(&ManifestState { trees, next_tree: 300, ..ManifestState::default() });
    assert!(first > 20 << 10 && (2 * first..2 * first + 100).contains(&size), "{first} {size}");
}

#[test]
fn hooks_are_compared_by_name() {
    struct Concat;
    impl crate::base::hooks::MergeOperator for Concat {
        fn name(&self) -> &str {
            "concat"
        }
        fn full_merge(
            &self,
            _: &[u8],
            _: Option<&[u8]>,
            _: &[&[u8]],
        ) -> Result<crate::base::hooks::MergeResult> {
            Ok(crate::base::hooks::MergeResult::Absent)
        }
    }
    let with = TreeOptions {
        merge_operator: Some(Arc::new(Concat)),
        block_size: 777,
        ..TreeOptions::default()
    };
    let kept = PersistedOptions::of(&with);
    assert_eq!(kept.merge_operator.as_deref(), Some("concat"));
    assert!(kept.check_hooks("t", &with).is_ok());
    let e = kept.check_hooks("t", &TreeOptions::default()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Incompatible);
    assert!(e.to_string().contains("\"concat\"") && e.to_string().contains("none"), "{e}");
    let back = kept.with_hooks_of(&TreeOptions::default());
    assert!(back.block_size == 777 && back.merge_operator.is_none());
}

#[test]
fn counters_out_of_bounds_are_refused() {
    assert_eq!(manifest_number("MANIFEST-000007"), Some(7));
    assert_eq!(manifest_number("MANIFEST-18446744073709551615"), None);
    let sound = ManifestState {
        next_file: 1 << 62,
        last_seq: crate::base::key::MAX_SEQ,
        wal_floor: 1 << 62,
        ..ManifestState::default()
    };
    sound.check().unwrap();
    for bad in [
        ManifestState { last_seq: sound.last_seq + 1, ..sound.clone() },
        ManifestState { next_file: sound.next_file + 1, ..sound.clone() },
        ManifestState { wal_floor: u64::MAX, ..sound.clone() },
    ] {
        assert_eq!(bad.check().unwrap_err().kind(), ErrorKind::Corruption);
        let env = TestEnv::default();
        Manifest::create(&env, &dir(), 1, &bad).unwrap();
        assert_eq!(load(&env).unwrap_err().kind(), ErrorKind::Corruption);
    }
}
