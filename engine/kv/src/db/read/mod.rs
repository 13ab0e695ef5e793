//! The read path of one key: reads memtables, then runs, newest first, until a version decides.
//!
//! Invariants:
//! - The view is loaded before the read point. One key whose newest version is no operand needs no
//!   more. Versions that the view lacks are newer than the call, and its memtable has even newer
//!   ones. Several keys, and operands, are read [at one moment](TreeInner::consistent_view).
//! - Without operands, the first visible version decides. A range deletion in a newer source hides
//!   all older sources.
//! - The key is hashed once, or twice if filters hold prefixes.

pub mod bounds;
pub mod lookup;
pub mod sources;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::hooks::MergeResult;
use crate::base::key::{Kind, Seq};
use crate::db::commit::CommitPipeline;
use crate::db::observe::Observer;
use crate::iterator::operands::OperandRun;
use crate::iterator::table_handle::TableHandle;
use crate::iterator::value::Value;
use crate::iterator::visible::fold;
use crate::sstable::Table;
use crate::util::hash::key_hash;
use crate::util::sync::epoch::{self, Guard};

use crate::db::commit::mem_handle::MemHandle;
#[cfg(feature = "explain")]
use crate::db::explain::profile::ReadProfile;
use crate::db::inner::DbInner;
use crate::db::observe::meters::{LatencyOp, SampleToken};
use crate::db::observe::read_observer::{CountedRead, ReadObserver, SearchedSource};
use crate::db::read::lookup::{filter_hash, unknown_kind, versions};
use crate::db::versions::tree::TreeInner;
use crate::db::versions::view::TreeView;

/// Number of keys of a multi-get that are prefetched together: about as many cache misses as a core
/// has in flight.
const AHEAD: usize = 16;
/// Number of keys of a multi-get whose blocks are requested from the device together: about as many
/// reads as keep a device busy.
const TOGETHER: usize = 64;

/// Probable location of a key's value: the first table that may have it, and the block.
type ReadPlace<'g> = Option<(&'g Table, usize)>;

/// Result of a lookup in one source.
enum LookupResult {
    /// The source has no version; search older sources.
    Nothing,
    /// The key is deleted.
    Absent,
    /// The key has this value.
    Present(Value),
    /// The newest version is a merge operand.
    Operand,
}

/// Returns the newest value of `key`.
#[inline]
pub fn get(db: &DbInner, tree: &TreeInner, key: &[u8]) -> Result<Option<Value>> {
    #[cfg(feature = "explain")]
    if db.observer.meters().is_recording() {
        return get_profiled(&db.commit, tree, key, None);
    }
    let turn = db.observer.meters().begin();
    if turn.is_none() {
        get_newest(&db.commit, tree, key, &mut ())
    } else {
        get_sampled(db, tree, key, None, turn)
    }
}

#[inline]
fn get_newest(
    commit: &CommitPipeline,
    tree: &TreeInner,
    key: &[u8],
    observer: &mut impl ReadObserver,
) -> Result<Option<Value>> {
    let guard = epoch::pin();
    let view = tree.view.load(&guard);
    // A tree is marked as dropped before it is emptied.
    tree.check_live()?;
    match search(view, key, commit.read_point(), &guard, observer)? {
        FoundVersion::Operands => {
            let (view, read) = tree.consistent_view(commit.visible(), &guard);
            tree.check_live()?;
            gather(view, key, read, &guard, &mut ())
        }
        FoundVersion::Is(value) => Ok(value),
    }
}

#[inline]
fn get_in_view(
    _db: &DbInner,
    tree: &TreeInner,
    key: &[u8],
    read: Seq,
    observer: &mut impl ReadObserver,
) -> Result<Option<Value>> {
    let guard = epoch::pin();
    let view = tree.view.load(&guard);
    tree.check_live()?;
    search_all(view, key, read, &guard, observer)
}

/// Runs a get that is timed or counted.
#[cold]
fn get_sampled(
    db: &DbInner,
    tree: &TreeInner,
    key: &[u8],
    read: Option<Seq>,
    turn: SampleToken,
) -> Result<Option<Value>> {
    if !turn.counts() {
        let found = match read {
            Some(read) => get_in_view(db, tree, key, read, &mut ()),
            None => get_newest(&db.commit, tree, key, &mut ()),
        };
        db.observer.meters().end(LatencyOp::Get, turn);
        return found;
    }
    let reads = tree.view.load(&epoch::pin()).reads.clone();
    let mut counted = CountedRead::new(&reads);
    let found = match read {
        Some(read) => get_in_view(db, tree, key, read, &mut counted),
        None => get_newest(&db.commit, tree, key, &mut counted),
    }?;
    counted.finish(found.is_some());
    Ok(found)
}

/// Returns the value of `key` that is visible at `read`.
pub fn get_at(db: &DbInner, tree: &TreeInner, key: &[u8], read: Seq) -> Result<Option<Value>> {
    #[cfg(feature = "explain")]
    if db.observer.meters().is_recording() {
        return get_profiled(&db.commit, tree, key, Some(read));
    }
    let turn = db.observer.meters().begin();
    if turn.is_none() {
        get_in_view(db, tree, key, read, &mut ())
    } else {
        get_sampled(db, tree, key, Some(read), turn)
    }
}

/// Returns the values of several keys, all at one moment.
pub fn multi_get<K: AsRef<[u8]>>(
    commit: &CommitPipeline,
    observer: &Observer,
    tree: &TreeInner,
    keys: &[K],
) -> Result<Vec<Option<Value>>> {
    let guard = epoch::pin();
    let (view, read) = tree.consistent_view(commit.visible(), &guard);
    tree.check_live()?;
    #[cfg(feature = "explain")]
    if observer.meters().is_recording() {
        return keys.iter().map(|k| profile_key(view, k.as_ref(), read, &guard)).collect();
    }
    let counts = observer.meters().begin().counts();
    let mut values = Vec::with_capacity(keys.len());
    for keys in keys.chunks(TOGETHER) {
        let mut places = [None; TOGETHER];
        if keys.len() > 1 {
            locate(view, keys, &mut places, &guard);
        }
        for (keys, places) in keys.chunks(AHEAD).zip(places.chunks(AHEAD)) {
            fetch_ahead(keys, places, &guard);
            for k in keys {
                let k = k.as_ref();
                values.push(if counts {
                    let mut counted = CountedRead::new(&view.reads);
                    let value = search_all(view, k, read, &guard, &mut counted)?;
                    counted.finish(value.is_some());
                    value
                } else {
                    search_all(view, k, read, &guard, &mut ())?
                });
            }
        }
    }
    Ok(values)
}

/// Finds the probable locations of the values of `keys` (at most [`TOGETHER`]). Requests the
/// uncached blocks from the device, so that it reads them in parallel. It changes
/// nothing and its guesses may be wrong.
fn locate<'g, K: AsRef<[u8]>>(
    view: &'g TreeView,
    keys: &[K],
    places: &mut [ReadPlace<'g>],
    guard: &Guard,
) {
    for (place, key) in places.iter_mut().zip(keys) {
        let key = key.as_ref();
        let hash = filter_hash(&view.options, key);
        let mut tables = view.version.runs.iter().filter_map(|r| r.find(key)?.opened());
        *place = tables.find(|t| t.may_contain(hash)).and_then(|t| Some((&**t, t.locate(key)?)));
    }
    for (table, block) in places.iter().flatten() {
        table.ask_device(*block, guard);
    }
}

/// Prefetches the memory that reads of `keys` (at most [`AHEAD`]) will access, step by step for all
/// keys together. A read is a chain of cache misses, and the chains of different keys can overlap.
fn fetch_ahead<K: AsRef<[u8]>>(keys: &[K], places: &[ReadPlace<'_>], guard: &Guard) {
    for (table, block) in places.iter().flatten() {
        table.fetch_block(*block, guard);
    }
    for (place, key) in places.iter().zip(keys) {
        if let Some((table, block)) = place {
            table.fetch_entry(*block, key.as_ref(), guard);
        }
    }
}

/// Meaning of the newest version of a key.
enum FoundVersion {
    /// The version decides the value.
    Is(Option<Value>),
    /// The version is a merge operand.
    Operands,
}

/// Returns the value of `key`, with its operands folded.
#[inline]
fn search_all(
    view: &TreeView,
    key: &[u8],
    read: Seq,
    guard: &Guard,
    observer: &mut impl ReadObserver,
) -> Result<Option<Value>> {
    match search(view, key, read, guard, observer)? {
        FoundVersion::Is(value) => Ok(value),
        FoundVersion::Operands => gather(view, key, read, guard, &mut ()),
    }
}

#[inline]
fn search(
    view: &TreeView,
    key: &[u8],
    read: Seq,
    guard: &Guard,
    observer: &mut impl ReadObserver,
) -> Result<FoundVersion> {
    let hash = key_hash(key);
    for m in view.memtables() {
        observer.on_source(SearchedSource::Memtable(m));
        match search_memtable(m, key, hash, read, guard, observer)? {
            LookupResult::Nothing => {}
            LookupResult::Absent => return Ok(FoundVersion::Is(None)),
            LookupResult::Present(v) => return Ok(FoundVersion::Is(Some(v))),
            LookupResult::Operand => return Ok(FoundVersion::Operands),
        }
    }
    observer.on_memtables_done();
    let hash =
        if view.options.filter_prefix.is_some() { filter_hash(&view.options, key) } else { hash };
    for run in &view.version.runs {
        observer.on_source(SearchedSource::Run(run));
        let Some(t) = run.find(key) else { continue };
        match search_table(t, key, hash, read, guard, observer)? {
            LookupResult::Nothing => {}
            LookupResult::Absent => return Ok(FoundVersion::Is(None)),
            LookupResult::Present(v) => return Ok(FoundVersion::Is(Some(v))),
            LookupResult::Operand => return Ok(FoundVersion::Operands),
        }
    }
    Ok(FoundVersion::Is(None))
}

#[inline]
fn search_memtable(
    m: &MemHandle,
    key: &[u8],
    hash: u64,
    read: Seq,
    guard: &Guard,
    observer: &mut impl ReadObserver,
) -> Result<LookupResult> {
    let cover = m.mem.newest_covering(key, read, guard).unwrap_or(0);
    observer.on_cover(cover);
    let maybe = m.mem.may_contain(hash);
    observer.on_filter(None, maybe);
    let found = if maybe {
        observer.on_search(None, key, guard);
        m.mem.get(key, read)
    } else {
        None
    };
    let Some(found) = found else {
        return Ok(if cover > 0 { LookupResult::Absent } else { LookupResult::Nothing });
    };
    observer.on_version(found.trailer, cover);
    if found.trailer.seq() < cover {
        return Ok(LookupResult::Absent);
    }
    Ok(match found.trailer.kind() {
        Some(Kind::Put) => LookupResult::Present(m.mem.pin(&found).into()),
        Some(Kind::Delete) => LookupResult::Absent,
        Some(Kind::Merge) => LookupResult::Operand,
        Some(Kind::Blob) | None => return Err(unknown_kind(key, found.trailer)),
    })
}

#[inline]
fn search_table(
    t: &TableHandle,
    key: &[u8],
    hash: u64,
    read: Seq,
    guard: &Guard,
    observer: &mut impl ReadObserver,
) -> Result<LookupResult> {
    let table = t.table()?;
    let cover = match t.meta.range_deletes {
        0 => 0,
        _ => table.tombstones().newest_covering(key, read).unwrap_or(0),
    };
    observer.on_cover(cover);
    let maybe = table.may_contain(hash);
    observer.on_filter(Some(table), maybe);
    let hit = if maybe {
        observer.on_search(Some(table), key, guard);
        table.get(key, None, read, guard)?
    } else {
        None
    };
    let Some(hit) = hit else {
        observer.on_miss(table, maybe);
        return Ok(if cover > 0 { LookupResult::Absent } else { LookupResult::Nothing });
    };
    let trailer = hit.trailer;
    observer.on_version(trailer, cover);
    if trailer.seq() < cover {
        return Ok(LookupResult::Absent);
    }
    Ok(match trailer.kind() {
        Some(Kind::Put) => LookupResult::Present(hit.pin().into()),
        Some(Kind::Blob) => {
            observer.on_blob(t, key, hit.value())?;
            LookupResult::Present(t.blob(key, hit.value(), None)?.into())
        }
        Some(Kind::Delete) => LookupResult::Absent,
        Some(Kind::Merge) => LookupResult::Operand,
        None => return Err(unknown_kind(key, trailer)),
    })
}

/// Returns the value of `key` visible at `read`, or the newest value without `read`, and records
/// the cost.
#[cfg(feature = "explain")]
#[cold]
fn get_profiled(
    commit: &CommitPipeline,
    tree: &TreeInner,
    key: &[u8],
    read: Option<Seq>,
) -> Result<Option<Value>> {
    let guard = epoch::pin();
    let (view, now) = tree.consistent_view(commit.visible(), &guard);
    tree.check_live()?;
    profile_key(view, key, read.unwrap_or(now), &guard)
}

#[cfg(feature = "explain")]
#[cold]
fn profile_key(view: &TreeView, key: &[u8], read: Seq, guard: &Guard) -> Result<Option<Value>> {
    let mut profile = ReadProfile::of_key(view, key, read);
    // One pass: a second one would find the blocks of the first in the cache.
    let value = match view.options.merge_operator {
        None => search_all(view, key, read, guard, &mut profile),
        Some(_) => gather(view, key, read, guard, &mut profile),
    }?;
    profile.finish_get(view, value.is_some());
    Ok(value)
}

/// Folds the operands of a key. This is not the fast path.
#[cold]
fn gather(
    view: &TreeView,
    key: &[u8],
    read: Seq,
    guard: &Guard,
    observer: &mut impl ReadObserver,
) -> Result<Option<Value>> {
    let Some(merge) = view.options.merge_operator.as_deref() else {
        let words = "the tree holds merge operands; open it with its merge operator";
        return Err(Error::new(ErrorKind::Incompatible, words).keys(key, key));
    };
    let (mut ops, mut base) = (vec![], None);
    let mut done = false;
    let hash = key_hash(key);
    for m in view.memtables() {
        observer.on_source(SearchedSource::Memtable(m));
        let cover = m.mem.newest_covering(key, read, guard).unwrap_or(0);
        observer.on_cover(cover);
        let maybe = m.mem.may_contain(hash);
        observer.on_filter(None, maybe);
        if maybe {
            observer.on_search(None, key, guard);
            let mut c = m.mem.cursor();
            let mut run = OperandRun::default();
            let on_version = |t| observer.on_version(t, cover);
            done = versions(
                &mut c,
                key,
                read,
                cover,
                &mut ops,
                &mut base,
                on_version,
                |c, seq, ops| run.meet(c, key, seq, ops, Some(merge)),
            )?;
            run.finish(key, &mut ops, Some(merge));
        }
        if done || cover > 0 {
            done = true;
            break;
        }
    }
    let hash =
        if view.options.filter_prefix.is_some() { filter_hash(&view.options, key) } else { hash };
    for run in &view.version.runs {
        if done {
            break;
        }
        observer.on_source(SearchedSource::Run(run));
        let Some(t) = run.find(key) else { continue };
        let table = t.table()?;
        let cover = table.tombstones().newest_covering(key, read).unwrap_or(0);
        observer.on_cover(cover);
        let maybe = table.may_contain(hash);
        observer.on_filter(Some(table), maybe);
        let newest: Vec<&[u8]> = ops.iter().map(Vec::as_slice).collect();
        let facts = &table.properties().summary_bytes;
        if !maybe {
            done = cover > 0;
        } else if !newest.is_empty() && merge.is_decided(key, &newest, facts) {
            // No version in this table can win. An older table is checked by its own properties.
            observer.on_decided();
            done = cover > 0;
        } else {
            observer.on_search(Some(table), key, guard);
            let mut c = table.cursor(true);
            if observer.caches_all() {
                c.keep_all();
            }
            let on_version = |t| observer.on_version(t, cover);
            done =
                versions(&mut c, key, read, cover, &mut ops, &mut base, on_version, |_, _, _| {
                    None
                })?;
        }
    }
    if ops.is_empty() {
        // The operand that the first lookup found was deleted before the moment of this second
        // lookup.
        return Ok(base.map(Value::from));
    }
    ops.reverse();
    Ok(match fold(Some(merge), key, base.as_deref(), &ops)? {
        MergeResult::Value(v) => Some(v.into()),
        MergeResult::Absent => None,
    })
}
