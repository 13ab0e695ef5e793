//! The log: many segments, one that is only reserved, and meaningless bytes after its end.
#![allow(clippy::disallowed_methods, reason = "a test damages the log of its own store")]

use std::path::Path;

use firn_kv::{Db, DbOptions, Result};

use super::{Dir, tree};

/// Minimum size of a segment.
const SEGMENT: u64 = 64 << 10;

fn small() -> DbOptions {
    DbOptions { wal_segment: SEGMENT, background_threads: 0, ..DbOptions::default() }
}

/// Returns the files that a process killed now would leave.
fn image(dir: &Dir) -> Dir {
    let copy = Dir::new();
    std::fs::create_dir(&copy.0).unwrap();
    for file in dir.files("") {
        std::fs::copy(&file, copy.0.join(file.file_name().unwrap())).unwrap();
    }
    copy
}

/// Returns the end of a segment's nonzero bytes.
fn end(segment: &Path) -> usize {
    std::fs::read(segment).unwrap().iter().rposition(|b| *b != 0).unwrap() + 1
}

fn write_at(file: &Path, at: usize, bytes: &[u8]) {
    let mut content = std::fs::read(file).unwrap();
    content.resize(content.len().max(at + bytes.len()), 0);
    content[at..at + bytes.len()].copy_from_slice(bytes);
    std::fs::write(file, content).unwrap();
}

fn found(dir: &Dir) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let db = dir.open_with(small());
    tree(&db, "t").iter().map(|pair| pair.map(|(k, v)| (k.to_vec(), v.to_vec()))).collect()
}

#[test]
fn many_segments_are_read_again_after_an_end_and_after_a_crash() -> Result<()> {
    let dir = Dir::new();
    let db = dir.open_with(small());
    let t = tree(&db, "t");
    for i in 0..3u8 {
        t.put([i], [i; SEGMENT as usize / 2])?;
    }
    let crashed = image(&dir);
    drop((t, db));
    assert!(dir.files(".wal").len() >= 2);
    for dir in [&dir, &crashed] {
        for _ in 0..2 {
            assert_eq!(found(dir)?, [0, 1, 2].map(|i| (vec![i], vec![i; SEGMENT as usize / 2])));
        }
    }
    Ok(())
}

#[test]
fn a_segment_that_was_only_reserved_is_not_missed() -> Result<()> {
    let dir = Dir::new();
    let db = dir.open_with(small());
    tree(&db, "t").put("a", "a")?;
    let crashed = image(&dir);
    let (used, reserved): (Vec<_>, Vec<_>) = crashed
        .files(".wal")
        .into_iter()
        .partition(|f| std::fs::read(f).unwrap().iter().any(|b| *b != 0));
    assert_eq!(used.len(), 1);
    for file in reserved {
        std::fs::remove_file(file).unwrap();
    }
    assert_eq!(found(&crashed)?, [(b"a".to_vec(), b"a".to_vec())]);
    Ok(())
}

#[test]
fn bytes_behind_the_end_of_the_log_mean_nothing() -> Result<()> {
    let dir = Dir::new();
    let db = dir.open_with(small());
    let t = tree(&db, "t");
    let segment = |dir: &Dir| dir.files(".wal").into_iter().next().unwrap();
    let before = end(&segment(&dir));
    for key in ["abc", "def", "ghj"] {
        t.put(key, "value")?;
    }
    let crashed = image(&dir);
    let log = std::fs::read(segment(&crashed)).unwrap();
    let ended = end(&segment(&crashed));
    let records = &log[before..ended];
    drop((t, db));
    // Some text, the beginning of records, their last bytes, and a copy of all of them: each
    // several times.
    let junk: [&[u8]; 4] =
        [b"09pmu35w3a9mp53bao9upw3ab5up", &records[..12], &records[records.len() - 4..], records];
    let expected = ["abc", "def", "ghj"].map(|k| (k.as_bytes().to_vec(), b"value".to_vec()));
    for (i, bytes) in junk.iter().enumerate() {
        for times in [1, 5] {
            let dir = image(&crashed);
            write_at(&segment(&dir), ended, &bytes.repeat(times));
            for _ in 0..2 {
                assert_eq!(found(&dir)?, expected, "bytes {i}, {times} times");
            }
        }
    }
    // The log of a closed store has an end marker.
    let closed = Db::open_with(&dir.0, DbOptions { read_only: true, ..small() })?;
    assert_eq!(tree(&closed, "t").len()?, 3);
    drop(closed);
    for bytes in junk {
        let copy = image(&dir);
        let last = copy.files(".wal").into_iter().next_back().unwrap();
        write_at(&last, std::fs::metadata(&last).unwrap().len() as usize, bytes);
        assert_eq!(found(&copy)?, expected);
    }
    Ok(())
}
