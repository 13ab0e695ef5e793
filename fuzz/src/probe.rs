//! Runs all reads on an open table, and checks their consistency.

use std::sync::Arc;

use firn_kv::Result;

use firn_kv::fs::ReadFile;
use firn_kv::internals::base::cursor::Cursor;
use firn_kv::internals::base::key::{MAX_SEQ, Trailer};
use firn_kv::internals::block_cache::Cache;
use firn_kv::internals::sstable::{Table, TableCursor};
use firn_kv::internals::util::hash::key_hash;

use crate::{Bytes, nowhere};

/// An entry, as a cursor shows it.
pub type Entry = (Vec<u8>, Trailer, Vec<u8>);

/// Opens `content` as table `id`.
pub fn open(content: Vec<u8>, id: u64, mapped: bool) -> Result<Arc<Table>> {
    let (file, cache) = file(content, mapped);
    Table::open(file, nowhere(), id, cache)
}

/// Returns a file with these contents, and a small cache.
pub fn file(content: Vec<u8>, mapped: bool) -> (Arc<dyn ReadFile>, Arc<Cache>) {
    (Arc::new(Bytes { content, mapped }), Cache::new(256 << 10))
}

fn walk(c: &mut TableCursor, forward: bool) -> Result<Vec<Entry>> {
    let mut seen = vec![];
    if forward {
        c.first()?
    } else {
        c.last()?
    }
    while c.valid() {
        seen.push((c.key().to_vec(), c.trailer(), c.value().to_vec()));
        if forward { c.next()? } else { c.prev()? }
    }
    Ok(seen)
}

/// Scans, seeks and reads with these probes. Checks the results of a table that verifies; any other
/// table must only terminate. Returns the entries of a table that verifies.
pub fn interrogate(table: &Arc<Table>, probes: &[&[u8]]) -> Option<Vec<Entry>> {
    let sound = table.verify(None, |_| ()).is_ok();
    let blocks = table.blocks().len();
    let (mut a, mut b) = (table.cursor(true), table.cursor(false));
    let forward = walk(&mut a, true);
    let mut backward = walk(&mut b, false);
    let guard = firn_kv::internals::util::epoch::pin();
    for p in probes {
        let hash = (table.properties().filter_prefix.is_empty()).then(|| key_hash(p));
        let hit = table
            .get(p, hash, MAX_SEQ, &guard)
            .map(|h| h.map(|h| (h.trailer, h.value().to_vec(), h.pin().to_vec())));
        for c in [&mut a, &mut b] {
            let sought = c
                .seek(p, Trailer::NEWEST)
                .map(|()| c.valid().then(|| (c.key().to_vec(), c.trailer(), c.value().to_vec())));
            let before = c.seek_before(p).map(|()| c.valid().then(|| c.key().to_vec()));
            if !sound {
                continue;
            }
            let (Ok(sought), Ok(before), Ok(hit), Ok(all)) = (sought, before, &hit, &forward)
            else {
                panic!("a sound table fails")
            };
            let at = all.partition_point(|e| e.0.as_slice() < *p);
            assert_eq!(sought, all.get(at).cloned(), "seek {p:?}");
            assert_eq!(before, at.checked_sub(1).map(|i| all[i].0.clone()), "seek_before {p:?}");
            let newest = all.get(at).filter(|e| e.0 == *p).map(|e| (e.1, e.2.clone(), e.2.clone()));
            assert_eq!(*hit, newest, "get {p:?}");
        }
        table.offset_of(p);
        table.tombstones().newest_covering(p, MAX_SEQ);
    }
    assert_eq!(table.blocks().count(), blocks);
    if !sound {
        return None;
    }
    if let Ok(b) = &mut backward {
        b.reverse();
    }
    let (Ok(forward), Ok(backward)) = (forward, backward) else { panic!("a sound table fails") };
    assert_eq!(forward, backward);
    Some(forward)
}
