//! Tests the log against an oracle: a plain list of the appended records.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use proptest::prelude::*;

use super::format::{RECORD_HEADER, SEGMENT_HEADER};
use super::testenv::TestEnv;
use super::writer::{MAX_SPARES, YOUNG};
use super::*;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::format_version::FormatVersion;
use crate::base::key::Seq;
use crate::env::Env;

const SEGMENT: u64 = 4096;
const STORE: u64 = 77;

fn dir() -> PathBuf {
    PathBuf::from("db")
}

fn payload(seq: Seq, len: usize) -> Vec<u8> {
    (0..len).map(|i| (seq as usize * 31 + i * 7) as u8).collect()
}

type Seen = Vec<(Seq, Lsn, Vec<u8>)>;

fn replay(env: &TestEnv, from: Lsn) -> Result<(RecoveredLog, Seen)> {
    let mut seen = vec![];
    let r = recover(env, &dir(), from, &mut |seq, end, p| {
        seen.push((seq, end, p.to_vec()));
        Ok(())
    })?;
    Ok((r, seen))
}

fn open(env: &TestEnv, from: Lsn) -> Wal {
    let (r, _) = replay(env, from).unwrap();
    Wal::create(Arc::new(env.clone()), &dir(), STORE, FormatVersion::OLDEST, &r, SEGMENT).unwrap()
}

fn flip(env: &TestEnv, path: &Path, at: usize, bit: u8) {
    env.file(path).now.lock().unwrap()[at] ^= 1 << bit;
}

/// Creates a log with records of these lengths, numbered from 1.
fn written(env: &TestEnv, lens: &[usize]) -> (Wal, Seen) {
    let mut wal = open(env, 0);
    let mut seen = vec![];
    for (i, &len) in lens.iter().enumerate() {
        let seq = i as u64 + 1;
        let p = payload(seq, len);
        let (a, b) = p.split_at(len / 3);
        let end = wal.append(seq, &[a, b]).unwrap();
        seen.push((seq, end, p));
    }
    (wal, seen)
}

#[derive(Clone, Debug)]
enum Step {
    Append(usize),
    Sync,
    Retire(prop::sample::Index),
    Prepare,
    Late,
    Close,
    Crash,
    PowerCut(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => (0usize..700).prop_map(Step::Append),
        1 => (3000usize..12_000).prop_map(Step::Append),
        3 => Just(Step::Sync),
        2 => any::<prop::sample::Index>().prop_map(Step::Retire),
        2 => Just(Step::Prepare),
        1 => Just(Step::Late),
        1 => Just(Step::Close),
        1 => Just(Step::Crash),
        2 => any::<u64>().prop_map(Step::PowerCut),
    ];
    prop::collection::vec(step, 1..120)
}

/// Returns an independent copy of `env`: the state after a crash of the process.
fn image(env: &TestEnv) -> TestEnv {
    let copy = TestEnv::default();
    for (path, file) in env.files.lock().unwrap().iter() {
        copy.put(path, file.now.lock().unwrap().clone());
        *copy.file(path).synced.lock().unwrap() = file.synced.lock().unwrap().clone();
    }
    copy
}

/// Returns the state after a power cut: each 256-byte block is either as written or as last synced.
fn cut(env: &TestEnv, mut seed: u64) -> TestEnv {
    let image = image(env);
    for file in image.files.lock().unwrap().values() {
        let (mut now, synced) = (file.now.lock().unwrap(), file.synced.lock().unwrap().clone());
        for (i, page) in now.chunks_mut(256).enumerate() {
            seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x1234_5678_9abc_def1);
            if (seed >> 61) < 3 {
                let old = synced.get(i * 256..i * 256 + page.len());
                page.copy_from_slice(old.unwrap_or(&vec![0; page.len()]));
            }
        }
    }
    image
}

/// A log under test and the list of its expected records.
struct Model {
    env: TestEnv,
    wal: Wal,
    all: Seen,
    /// Records known to be durable, and records below the floor.
    synced: usize,
    floor: usize,
    late: Vec<PrepareJob>,
}

impl Model {
    fn new() -> Model {
        let env = TestEnv::default();
        let wal = open(&env, 0);
        Model { env, wal, all: vec![], synced: 0, floor: 0, late: vec![] }
    }

    fn floor_lsn(&self) -> Lsn {
        self.floor.checked_sub(1).map_or(0, |i| self.all[i].1)
    }

    fn reopen(&mut self, env: TestEnv, whole: bool) {
        let (r, seen) = replay(&env, self.floor_lsn()).unwrap();
        let k = self.floor + seen.len();
        assert!(
            k >= self.synced && k <= self.all.len(),
            "{k} of {}, synced {}",
            self.all.len(),
            self.synced
        );
        assert_eq!(seen, self.all[self.floor..k]);
        assert!(!whole || (r.end == self.wal.end() && r.torn.is_none() && k == self.all.len()));
        self.all.truncate(k);
        assert!(r.end >= self.all.last().map_or(0, |a| a.1));
        self.late.clear();
        self.wal = open(&env, self.floor_lsn());
        (self.env, self.synced) = (env, k);
        // Records that the new writer has voided stay void.
        let (again, seen) = replay(&self.env, self.floor_lsn()).unwrap();
        assert_eq!((again.end, seen), (r.end, self.all[self.floor..].to_vec()));
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Append(len) => {
                let seq = self.all.last().map_or(1, |a| a.0 + 1);
                let p = payload(seq, *len);
                let end = self.wal.append(seq, &[&p[..len / 2], &[], &p[len / 2..]]).unwrap();
                assert_eq!(end, self.wal.end());
                self.all.push((seq, end, p));
            }
            Step::Sync => {
                self.wal.syncer().sync(self.wal.end()).unwrap();
                assert_eq!(self.wal.syncer().synced(), self.wal.end());
                self.synced = self.all.len();
            }
            Step::Retire(i) => {
                if !self.all.is_empty() {
                    self.floor = self.floor.max(i.index(self.all.len()) + 1);
                    self.wal.retire(self.floor_lsn()).remove().unwrap();
                }
            }
            Step::Prepare => {
                if let Some(job) = self.wal.prepare_next() {
                    job.run(&|| false).unwrap();
                }
            }
            Step::Late => match self.late.pop() {
                Some(job) => job.run(&|| false).unwrap(),
                None => self.late.extend(self.wal.prepare_next()),
            },
            Step::Close => {
                self.late.clear();
                let (end, floor) = (self.wal.end(), self.floor_lsn());
                std::mem::replace(&mut self.wal, open(&TestEnv::default(), 0)).close().unwrap();
                self.synced = self.all.len();
                let (r, _) = replay(&self.env, floor).unwrap();
                assert_eq!((r.end, r.durable, r.closed, r.torn), (end, end, true, None));
                self.wal = open(&self.env, floor);
            }
            Step::Crash => self.reopen(image(&self.env), true),
            Step::PowerCut(seed) => self.reopen(cut(&self.env, *seed), false),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn what_recovery_shows_is_a_prefix_with_all_that_was_synced(steps in steps()) {
        let mut m = Model::new();
        for s in &steps {
            m.step(s);
        }
        m.reopen(image(&m.env), true);
    }

    #[test]
    fn damage_never_gives_a_wrong_record(steps in steps(), file: prop::sample::Index, at: prop::sample::Index, len in 1usize..40, x in 1u8..) {
        let mut m = Model::new();
        for s in &steps {
            m.step(s);
        }
        let image = image(&m.env);
        let paths: Vec<_> = image.files.lock().unwrap().keys().cloned().collect();
        let path = &paths[file.index(paths.len())];
        {
            let f = image.file(path);
            let mut bytes = f.now.lock().unwrap();
            let at = at.index(bytes.len());
            bytes.iter_mut().skip(at).take(len).for_each(|b| *b ^= x);
        }
        match replay(&image, m.floor_lsn()) {
            Ok((_, seen)) => prop_assert!(m.all[m.floor..].starts_with(&seen)),
            Err(e) => {
                prop_assert!(e.kind() == ErrorKind::Corruption && e.file().is_some() && e.offset().is_some());
                match e.block_kind() {
                    Some("wal segment header") => prop_assert_eq!(e.file(), Some(path.as_path())),
                    kind => prop_assert_eq!(kind, Some("wal record")),
                }
            }
        }
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..600), head: bool, number in 1u64..3) {
        let env = TestEnv::default();
        let mut file = bytes;
        if head {
            let h = format::SegmentHeader { version: FormatVersion::OLDEST, number, base: 8, synced: 0, previous: 0, capacity: 1, store: STORE, writer: 5 };
            file.splice(..file.len().min(80), h.encode());
            // Bytes of the right generation and kind, so that the reader treats them as candidates.
            for at in (80..file.len().saturating_sub(32)).step_by(24) {
                file[at + 8..at + 16].copy_from_slice(&[number as u8 + 5, 0, 0, 0, 1, 0, 0, 0]);
            }
        }
        env.put(&dir().join(segment_name(number)), file);
        let _ = replay(&env, 0);
        let _ = replay(&env, 8);
        let mut r = SegmentReader::open(&env, &dir(), number).unwrap();
        while let Some(item) = r.next().unwrap() {
            prop_assert!(matches!(item, LogItem::Damage(_)));
        }
    }
}

#[test]
fn every_flipped_bit_of_a_finished_log_is_found_or_harmless() {
    let env = TestEnv::default();
    let (wal, all) = written(&env, &[100, 0, 900, 2000, 1500, 13, 60, 3000, 5, 40]);
    wal.close().unwrap();
    assert_eq!(replay(&env, 0).unwrap().1, all);
    let paths: Vec<_> = env.files.lock().unwrap().keys().cloned().collect();
    assert!(paths.len() >= 3);
    let (mut found, mut harmless) = (0, 0);
    for path in paths {
        for at in 0..env.bytes(&path).len() {
            let bit = (at * 5 % 8) as u8;
            flip(&env, &path, at, bit);
            match replay(&env, 0) {
                Ok((_, seen)) => {
                    assert_eq!(seen, all, "{} {at}", path.display());
                    harmless += 1;
                }
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
                    found += 1;
                }
            }
            flip(&env, &path, at, bit);
        }
    }
    assert!(found > 7_000 && harmless > 500, "{found} {harmless}");
}

/// Returns the bytes that recovery reads of a log, and the number of files it opens.
fn reading(env: &TestEnv) -> (u64, u64) {
    let before = (env.read.load(Ordering::Relaxed), env.opened.load(Ordering::Relaxed));
    replay(env, 0).unwrap();
    (env.read.load(Ordering::Relaxed) - before.0, env.opened.load(Ordering::Relaxed) - before.1)
}

#[test]
fn a_closed_log_has_no_reserve_and_nothing_is_read_twice() {
    let env = TestEnv::default();
    let (wal, all) = written(&env, &[100, 200, 300]);
    let syncs = env.syncs.load(Ordering::Relaxed);
    wal.close().unwrap();
    assert_eq!(env.syncs.load(Ordering::Relaxed), syncs + 1);
    let path = dir().join(segment_name(1));
    let len = SEGMENT_HEADER + all[2].1 + RECORD_HEADER;
    assert_eq!(env.bytes(&path).len() as u64, len);
    // The header during listing and again during reading, the mark during listing, and everything
    // once.
    let (read, opened) = reading(&env);
    assert!(
        read <= len + SEGMENT_HEADER + RECORD_HEADER && opened == 2,
        "{read} of {len}, {opened} opened"
    );
    // A new writer syncs only its own segment. If it writes nothing, its close needs no sync.
    let (r, _) = replay(&env, 0).unwrap();
    let syncs = env.syncs.load(Ordering::Relaxed);
    Wal::create(Arc::new(env.clone()), &dir(), STORE, FormatVersion::OLDEST, &r, SEGMENT)
        .unwrap()
        .close()
        .unwrap();
    assert_eq!(env.syncs.load(Ordering::Relaxed), syncs + 1);
    assert_eq!(
        env.bytes(&dir().join(segment_name(2))).len() as u64,
        SEGMENT_HEADER + RECORD_HEADER
    );
    let (again, seen) = replay(&env, 0).unwrap();
    assert_eq!((again.end, again.closed, again.torn, seen), (all[2].1, true, None, all));
}

#[test]
fn the_mark_of_a_close_is_trusted_only_at_the_end() {
    let env = TestEnv::default();
    let (wal, all) = written(&env, &[100, 200]);
    wal.close().unwrap();
    let (first, end) = (dir().join(segment_name(1)), all[1].1);
    let ending = |env: &TestEnv| replay(env, 0).unwrap().0;
    // A power cut before the mark reached the device: the log ends in the same place, and nothing
    // is missing.
    let lost = image(&env);
    let at = env.bytes(&first).len() - RECORD_HEADER as usize;
    lost.file(&first).now.lock().unwrap()[at..].fill(0);
    assert_eq!((ending(&lost).end, ending(&lost).closed, ending(&lost).torn), (end, false, None));
    // The same if the file has retained its length, with and without the mark in it.
    for mark in [true, false] {
        let image = image(if mark { &env } else { &lost });
        image.file(&first).now.lock().unwrap().resize(SEGMENT as usize, 0);
        assert_eq!(
            (ending(&image).end, ending(&image).torn),
            (if mark { end + RECORD_HEADER } else { end }, None)
        );
    }
    // A record of a later segment is searched and found despite the mark. Here its header is
    // damaged, and it had been durable.
    let mut next = open(&env, 0);
    next.append(3, &[b"three"]).unwrap();
    next.syncer().sync(next.end()).unwrap();
    next.append(4, &[b"four"]).unwrap();
    assert_eq!(ending(&env).end, next.end());
    flip(&env, &dir().join(segment_name(2)), 20, 0);
    assert_eq!(replay(&env, 0).unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn a_torn_tail_ends_the_log_and_damage_before_synced_bytes_does_not() {
    let env = TestEnv::default();
    let (mut wal, all) = written(&env, &[100, 200, 300]);
    let path = dir().join(segment_name(1));
    let third = 80 + all[1].1 as usize;
    // The last record, half written.
    flip(&env, &path, third + 40, 0);
    let (r, seen) = replay(&env, 0).unwrap();
    assert_eq!(seen, all[..2]);
    let torn = r.torn.unwrap();
    assert_eq!(
        (r.end, torn.offset, torn.records_beyond, &torn.file),
        (all[1].1, third as u64, 0, &path)
    );
    flip(&env, &path, third + 40, 0);
    // A gap before unsynced records: they are discarded and counted.
    flip(&env, &path, 80 + 40, 0);
    let torn = replay(&env, 0).unwrap().0.torn.unwrap();
    assert_eq!((torn.offset, torn.records_beyond, torn.bytes_beyond), (80, 2, all[2].1 - all[0].1));
    assert!(torn.proof.unwrap().contains("same sector"));
    flip(&env, &path, 80 + 40, 0);
    // The same after a later record that proves the first three to be synced.
    wal.syncer().sync(all[2].1).unwrap();
    wal.append(4, &[b"later"]).unwrap();
    flip(&env, &path, 80 + 40, 0);
    let e = replay(&env, 0).unwrap_err();
    assert_eq!(
        (e.kind(), e.file(), e.offset()),
        (ErrorKind::Corruption, Some(path.as_path()), Some(80))
    );
    assert!(e.to_string().contains("salvage"), "{e}");
    // The first record is no longer needed.
    assert_eq!(replay(&env, all[0].1).unwrap().1.len(), 3);
    // The records that can be salvaged.
    let mut reader = SegmentReader::open(&env, &dir(), 1).unwrap();
    let mut found = vec![];
    while let Some(item) = reader.next().unwrap() {
        found.push(match item {
            LogItem::Damage(d) => (d.offset, d.len, 0),
            LogItem::Record(r) => (r.offset, r.size, r.seq),
        });
    }
    assert_eq!(found.iter().map(|f| f.2).collect::<Vec<_>>(), [0, 2, 3, 4]);
    assert_eq!(found[0], (80, all[0].1, 0));
}

#[test]
fn damage_before_unsynced_records_differs_from_a_torn_tail() {
    let env = TestEnv::default();
    let (_wal, all) = written(&env, &[100, 1000, 700, 2800, 300]);
    let path = dir().join(segment_name(1));
    let at = |record: usize| SEGMENT_HEADER as usize + all[record - 1].1 as usize;
    let proof = |env: &TestEnv| replay(env, 0).unwrap().0.torn.and_then(|t| t.proof);
    // Flip bits all over a record of three sectors and over the last one of a segment. Padding is
    // not checked.
    for (record, len) in [(1, 1000), (2, 700)] {
        for bit in (0..8 * (RECORD_HEADER as usize + len)).step_by(13) {
            flip(&env, &path, at(record) + bit / 8, bit as u8 % 8);
            let words = proof(&env).unwrap_or_else(|| panic!("bit {bit} of record {record}"));
            let place =
                format!("with bit {} of the byte at {} turned over", bit % 8, at(record) + bit / 8);
            assert!(words.starts_with(&place), "{words}, not {place}");
            flip(&env, &path, at(record) + bit / 8, bit as u8 % 8);
        }
    }
    // A header destroyed by one bit, followed by records.
    for bit in (0..8 * SEGMENT_HEADER as usize).step_by(5) {
        flip(&env, &dir().join(segment_name(2)), bit / 8, bit as u8 % 8);
        assert!(proof(&env).unwrap().contains("00000002.wal: with bit"), "bit {bit}");
        flip(&env, &dir().join(segment_name(2)), bit / 8, bit as u8 % 8);
    }
    assert_eq!(proof(&env), None);
    // Sectors that never reached the disk, with content of an earlier use or zeros.
    for stale in [0, 0x5a] {
        for sectors in 1..8u32 {
            let image = image(&env);
            let file = image.file(&path);
            let first = at(1) / 512 + 1;
            for sector in (0..3).filter(|s| sectors & 1 << s != 0).map(|s| first + s) {
                file.now.lock().unwrap()[512 * sector..512 * (sector + 1)].fill(stale);
            }
            assert_eq!(proof(&image), None, "{sectors} {stale}");
        }
    }
}

#[test]
fn a_lost_segment_is_noticed_when_it_had_been_synced() {
    let env = TestEnv::default();
    let (wal, all) = written(&env, &[1500; 8]);
    let lost = dir().join(segment_name(2));
    let image = image(&env);
    image.remove(&lost).unwrap();
    let r = replay(&image, 0).unwrap();
    assert_eq!(r.1, all[..2]);
    assert_eq!(r.0.torn.unwrap().records_beyond, 4);
    wal.close().unwrap();
    env.remove(&lost).unwrap();
    assert_eq!(replay(&env, 0).unwrap_err().kind(), ErrorKind::Corruption);
    env.remove(&dir().join(segment_name(1))).unwrap();
    assert_eq!(replay(&env, 0).unwrap_err().kind(), ErrorKind::Corruption);
    let (r, seen) = replay(&TestEnv::default(), 80).unwrap();
    assert_eq!((r.end, r.last_number, r.torn, seen.len()), (80, 0, None, 0));
}

#[test]
fn segments_are_recycled_and_the_rest_removed() {
    let env = TestEnv::default();
    let (mut wal, all) = written(&env, &[1500; 20]);
    assert_eq!(env.list(&dir()).unwrap().len(), 10);
    assert_eq!(wal.live_bytes(), wal.end());
    wal.retire(all[15].1).remove().unwrap();
    assert_eq!(env.list(&dir()).unwrap().len(), 2 + MAX_SPARES);
    assert_eq!(wal.live_bytes(), wal.end() - all[15].1);
    wal.prepare_next().unwrap().run(&|| false).unwrap();
    assert!(wal.prepare_next().is_none());
    for seq in 21..=26 {
        wal.append(seq, &[&payload(seq, 1500)]).unwrap();
    }
    assert_eq!(env.list(&dir()).unwrap().len(), 2 + 3);
    assert!(wal.prepare_next().is_some(), "a job that was dropped does not block the next");
    let (r, seen) = replay(&env, all[15].1).unwrap();
    assert_eq!((seen.len(), r.end), (10, wal.end()));
}

/// A segment with a view becomes a spare when the view is gone. Segments of earlier writers never
/// do, because another handle may have views of them.
#[test]
fn segments_with_views_are_not_recycled() {
    let spares = |env: &TestEnv| env.list(&dir()).unwrap().len();
    let env = TestEnv::default();
    let (mut wal, mut seq) = (written(&env, &[1500]).0, 1);
    assert!(wal.last_payload(1500).is_none(), "nobody has allowed it");
    wal.allow_views();
    let mut views = vec![];
    let mut fill = |wal: &mut Wal, viewed: bool| {
        for _ in 0..4 {
            seq += 1;
            wal.append(seq, &[&payload(seq, 1500)]).unwrap();
            let view = wal.last_payload(1500).unwrap();
            assert_eq!(view.bytes(), payload(seq, 1500));
            views.extend(viewed.then_some(view));
        }
        std::mem::take(&mut views)
    };
    let views = fill(&mut wal, true);
    // The segments of the views before the current one.
    wal.retire(wal.end()).remove().unwrap();
    let with_views = spares(&env);
    let later = fill(&mut wal, true);
    assert!(spares(&env) > with_views, "a viewed segment was recycled");
    drop((views, later));
    wal.retire(wal.end()).remove().unwrap();
    let before = spares(&env);
    fill(&mut wal, false);
    assert_eq!(spares(&env), before, "spares were not recycled");
    let end = wal.end();
    wal.close().unwrap();
    let found = replay(&env, end).unwrap().0;
    let mut next =
        Wal::create(Arc::new(env.clone()), &dir(), STORE, FormatVersion::OLDEST, &found, 4096)
            .unwrap();
    next.retire(next.end()).remove().unwrap();
    assert_eq!(spares(&env), 1, "a segment of an earlier writer was recycled");
}

/// A job may stop for other work, and the next one continues.
#[test]
fn a_segment_is_made_ready_in_several_goes() {
    let env = TestEnv::default();
    let begun = replay(&env, 0).unwrap().0;
    let mut wal =
        Wal::create(Arc::new(env.clone()), &dir(), STORE, FormatVersion::OLDEST, &begun, 4 << 20)
            .unwrap();
    for seq in 1..=1500 {
        wal.append(seq, &[&payload(seq, 1500)]).unwrap();
    }
    let (files, mut goes) = (env.list(&dir()).unwrap().len(), 0);
    while let Some(job) = wal.prepare_next() {
        assert!(wal.prepare_next().is_none(), "one at a time");
        goes += 1;
        // Sometimes the job is dropped without running.
        if goes % 2 == 1 {
            let steps = Cell::new(0);
            job.run(&|| steps.replace(steps.get() + 1) > 0).unwrap();
        }
        assert_eq!(env.list(&dir()).unwrap().len(), files + 1);
    }
    assert!(goes > 2, "{goes}");
    for seq in 1501..=4500 {
        wal.append(seq, &[&payload(seq, 1500)]).unwrap();
    }
    let (r, seen) = replay(&env, 0).unwrap();
    assert_eq!((seen.len(), r.end), (4500, wal.end()));
}

/// The writer need not wait until all pages have been touched, nor create another segment.
#[test]
fn a_segment_is_taken_while_its_pages_are_touched() {
    let env = TestEnv::default();
    let begun = replay(&env, 0).unwrap().0;
    let wal =
        Wal::create(Arc::new(env.clone()), &dir(), STORE, FormatVersion::OLDEST, &begun, 4 << 20)
            .unwrap();
    let (wal, seq) = (RefCell::new(wal), Cell::new(0));
    let append = || {
        seq.set(seq.get() + 1);
        wal.borrow_mut().append(seq.get(), &[&payload(seq.get(), 1500)]).unwrap();
    };
    (0..1500).for_each(|_| append());
    let files = || env.list(&dir()).unwrap().len();
    let (before, job) = (files(), wal.borrow_mut().prepare_next().unwrap());
    let steps = Cell::new(0);
    job.run(&|| {
        (0..3000).for_each(|_| append());
        steps.set(steps.get() + 1);
        false
    })
    .unwrap();
    assert_eq!((steps.get(), files()), (1, before + 1));
    assert!(wal.borrow_mut().prepare_next().is_some());
    let (r, seen) = replay(&env, 0).unwrap();
    assert_eq!((seen.len() as u64, r.end), (seq.get(), wal.borrow().end()));
}

/// A segment that is ready too late does not block the next.
#[test]
fn a_segment_that_was_made_too_late_is_put_by() {
    let env = TestEnv::default();
    let begun = replay(&env, 0).unwrap().0;
    let mut wal =
        Wal::create(Arc::new(env.clone()), &dir(), STORE, FormatVersion::OLDEST, &begun, 4 << 20)
            .unwrap();
    for seq in 1..=1500 {
        wal.append(seq, &[&payload(seq, 1500)]).unwrap();
    }
    let job = wal.prepare_next().unwrap();
    for seq in 1501..=4500 {
        wal.append(seq, &[&payload(seq, 1500)]).unwrap();
    }
    job.run(&|| false).unwrap();
    let files = env.list(&dir()).unwrap().len();
    wal.prepare_next().unwrap().run(&|| false).unwrap();
    // It becomes the next one, under another name.
    assert_eq!(env.list(&dir()).unwrap().len(), files);
    let (r, seen) = replay(&env, 0).unwrap();
    assert_eq!((seen.len(), r.end), (4500, wal.end()));
}

/// Files with old dirty pages are removed, because the system is about to write them back. A synced
/// file is recycled, because it has no dirty pages.
#[test]
fn files_that_have_been_dirty_for_long_are_not_used_again() {
    let files = |env: &TestEnv| env.list(&dir()).unwrap().len();
    for (synced, spares) in [(false, 0), (true, MAX_SPARES)] {
        let env = TestEnv::default();
        let (mut wal, all) = written(&env, &[1500; 20]);
        if synced {
            wal.syncer().sync(wal.end()).unwrap();
        }
        env.nanos.fetch_add(YOUNG, Ordering::Relaxed);
        wal.retire(all[15].1).remove().unwrap();
        assert_eq!(files(&env), 2 + spares);
    }
    // A spare may become too old.
    let env = TestEnv::default();
    let (mut wal, all) = written(&env, &[1500; 20]);
    wal.retire(all[15].1).remove().unwrap();
    assert_eq!(files(&env), 2 + MAX_SPARES);
    env.nanos.fetch_add(YOUNG, Ordering::Relaxed);
    wal.prepare_next().unwrap().run(&|| false).unwrap();
    wal.retire(all[15].1).remove().unwrap();
    assert_eq!(files(&env), 2 + 1);
    (21..=26).for_each(|seq| _ = wal.append(seq, &[&payload(seq, 1500)]).unwrap());
    let (r, seen) = replay(&env, all[15].1).unwrap();
    assert_eq!((seen.len(), r.end), (10, wal.end()));
}

#[test]
fn a_failed_sync_fails_all_later_ones() {
    let env = TestEnv::default();
    let (mut wal, all) = written(&env, &[10, 20]);
    let syncer = wal.syncer();
    syncer.sync(all[0].1).unwrap();
    assert_eq!(syncer.sync(wal.end() + 8).unwrap_err().kind(), ErrorKind::InvalidArgument);
    wal.append(3, &[b"x"]).unwrap();
    env.fail_syncs.store(true, Ordering::Relaxed);
    assert_eq!(syncer.sync(wal.end()).unwrap_err().kind(), ErrorKind::Io);
    env.fail_syncs.store(false, Ordering::Relaxed);
    let before = env.syncs.load(Ordering::Relaxed);
    assert!(syncer.sync(all[0].1).is_err() && syncer.sync(wal.end()).is_err());
    assert_eq!(env.syncs.load(Ordering::Relaxed), before);
    assert_eq!(syncer.synced(), all[1].1);
}

#[test]
#[allow(clippy::disallowed_methods, reason = "an application's own threads")]
fn many_threads_share_syncs_across_segments() {
    let env = TestEnv::default();
    let wal = parking_lot::Mutex::new(open(&env, 0));
    let syncer = wal.lock().syncer();
    std::thread::scope(|s| {
        for t in 0..4u64 {
            let (wal, syncer) = (&wal, &syncer);
            s.spawn(move || {
                for i in 0..50 {
                    let end = wal.lock().append(t * 50 + i, &[&[t as u8; 300]]).unwrap();
                    syncer.sync(end).unwrap();
                    assert!(syncer.synced() >= end);
                }
            });
        }
    });
    // Only synced bytes survive.
    let image = image(&env);
    for file in image.files.lock().unwrap().values() {
        let synced = file.synced.lock().unwrap().clone();
        *file.now.lock().unwrap() = synced;
    }
    assert_eq!(replay(&image, 0).unwrap().1.len(), 200);
}

#[test]
fn arguments_and_versions_are_checked() {
    let env = TestEnv::default();
    for (from, size) in [(4, SEGMENT), (8, 100)] {
        let e = Wal::create(
            Arc::new(env.clone()),
            &dir(),
            STORE,
            FormatVersion::OLDEST,
            &replay(&env, from).unwrap().0,
            size,
        )
        .err();
        assert_eq!(e.map(|e| e.kind()), Some(ErrorKind::InvalidArgument));
    }
    let (mut wal, _) = written(&env, &[10]);
    assert_eq!(wal.append(1 << 56, &[]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let stop = recover(&env, &dir(), 0, &mut |_, _, _| Err(Error::invalid("enough")));
    assert_eq!(stop.unwrap_err().message(), "enough");
    for from in [1 << 62, u64::MAX] {
        assert_eq!(
            replay(&env, from).unwrap_err().kind(),
            ErrorKind::Corruption,
            "found by fuzzing: the walk did not end"
        );
    }
    let path = dir().join(segment_name(1));
    {
        let f = env.file(&path);
        let mut b = f.now.lock().unwrap();
        b[8] = 9;
        let crc = crate::util::checksum::checksum(1, 0, &[&b[..76]]);
        b[76..80].copy_from_slice(&crc.to_le_bytes());
    }
    let e = replay(&env, 0).unwrap_err();
    assert_eq!((e.kind(), e.file()), (ErrorKind::Incompatible, Some(path.as_path())));
    assert!(e.to_string().contains("version 9") && e.to_string().contains("version 1"), "{e}");
}

#[test]
fn names() {
    assert_eq!(segment_name(7), "00000007.wal");
    assert_eq!(segment_number("00000007.wal"), Some(7));
    assert_eq!(segment_number("123456789.wal"), Some(123_456_789));
    for bad in [
        "7.wal",
        "000000007.wal",
        "+0000007.wal",
        "00000007.sst",
        "0000000x.wal",
        ".wal",
        "18446744073709551615.wal",
    ] {
        assert_eq!(segment_number(bad), None, "{bad}");
    }
}
