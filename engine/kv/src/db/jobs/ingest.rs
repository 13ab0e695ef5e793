//! Bulk loads sorted data directly into tables, without log and memtable; and drops whole tables.
//!
//! Invariants of an ingestion:
//! - Its entries are written without sequence numbers. All of them get one number, under the write
//!   lock, at the moment when the tables enter the manifest. So they are newer than every write
//!   before and older than every write after, and no snapshot sees them appear.
//! - At that moment no memtable may hold an entry in their key range, because such entries are
//!   older and must be in older runs. So memtables are flushed first, again each time writers add
//!   such entries.

use std::collections::HashSet;
use std::sync::Arc;

use scopeguard::ScopeGuard;

use crate::base::cursor::Cursor as _;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::events::Event;
use crate::base::key::{Kind, Seq, Trailer};
use crate::db::jobs::flush;
use crate::db::jobs::install;
use crate::db::jobs::pick;
use crate::db::write::durable;
use crate::iterator::table_handle::TableHandle;
use crate::manifest::TableMeta;
use crate::rewrite::job::Outputs;
use crate::rewrite::retain::STEP;
use crate::sstable::TableWriter;

use crate::db::inner::DbInner;
use crate::db::jobs::compact::BusyTables;
use crate::db::jobs::install::{VersionChange, check_known};
use crate::db::jobs::outputs::{PendingOutputs, meta, remove_tables};
use crate::db::memory::budget::JobBuffers;
use crate::db::observe::pins::PinKind;
use crate::db::versions::tree::{Holder, TreeInner};
use crate::db::versions::view::TreeView;
use crate::db::write::limits::{check_key, check_value};

/// Maximum number of attempts to flush the memtables for one ingestion, before it fails with a
/// conflict.
const TRIES: usize = 64;

pub fn ingest_entries<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    db: &DbInner,
    tree: &Arc<TreeInner>,
    pairs: impl Iterator<Item = Result<(K, V)>>,
) -> Result<u64> {
    db.gate.check_writable()?;
    let _permit = db.gate.acquire_permit()?;
    let mut go_on = |_| Ok(());
    let options = tree.view.load_full().options.clone();
    let size = options.table_size;
    let task = db.observer.pins().begin(
        PinKind::Ingest,
        Some((tree.id, &tree.name)),
        String::new(),
        vec![],
    );
    // After a failure of the manifest it is unknown whether it names the tables. The next open
    // decides.
    let made = task.clone();
    let remove = || {
        if db.gate.check_writable().is_ok() {
            remove_tables(db, &made.created());
        }
    };
    let in_vain = scopeguard::guard((), |()| remove());
    let mut out = PendingOutputs {
        inner: db,
        tree,
        options,
        level: 0,
        task,
        during: &mut go_on,
        written: None,
        buffers: JobBuffers::new(&db.memory),
        log_end: 0,
    };
    let (tables, n) = write_tables(&mut out, pairs, size)?;
    db.env.sync_dir(db.versions.dir())?;
    // From now on the tables may be live if a later step panics.
    ScopeGuard::into_inner(in_vain);
    if !tables.is_empty() {
        install_ingested(db, tree, tables).inspect_err(|_| remove())?;
    }
    Ok(n)
}

/// Assigns a sequence number to the tables and makes them live.
fn install_ingested(db: &DbInner, tree: &Arc<TreeInner>, mut tables: Vec<TableMeta>) -> Result<()> {
    let (first, last) = match (tables.first(), tables.last()) {
        (Some(f), Some(l)) => (f.first_key.clone(), l.last_key.clone()),
        _ => return Ok(()),
    };
    let ids: Vec<u64> = tables.iter().map(|t| t.id).collect();
    for _ in 0..TRIES {
        flush::flush_tree(db, tree)?;
        // Syncs most of the log before the locks are taken.
        db.commit.sync_log()?;
        // Blocks flushes of this tree: their runs would get newer numbers than the run of this
        // ingestion.
        let _flushing = tree.flushing.lock();
        let mut c = db.versions.lock_catalog();
        check_known(&c, tree)?;
        // Takes the write lock internally. It is taken again below and held over the edit.
        durable::begin_writing(db, &mut c)?;
        let mut files = tree.files.lock();
        let mut w = db.commit.lock();
        let view = tree.view.load_full();
        if !view.sealed.is_empty() || holds(&view, &first, &last)? {
            continue;
        }
        let seq = w.newest() + 1;
        db.commit.visible().wait_below(seq);
        for t in &mut tables {
            (t.min_seq, t.max_seq, t.ingested_seq) = (seq, seq, seq);
        }
        let number = c.take_file();
        let added = tables.into_iter().map(|facts| (0, number, facts)).collect();
        let change = VersionChange { tree, removed: vec![], added, values: vec![], flushed: None };
        // A power cut that loses an earlier write, of any tree, must also lose the ingested
        // data.
        db.commit.sync_to(w.end())?;
        let edit = change.edit();
        durable::log_edits(db, &mut c, vec![edit.clone()])?;
        install::make_visible(db, &c, &mut files, &change, edit)?;
        let until = [last.as_slice(), &[0]].concat();
        tree.empty_ranges.invalidate(&first, &until);
        w.take_seq();
        db.commit.visible().publish(seq, 1);
        drop((w, files, c));
        db.observer.note(|| Event::Ingested { tree: tree.name.clone(), seq, tables: ids });
        pick::tables_changed(db, tree);
        db.memory.rebalance();
        db.signal_work();
        pick::call_workers_for(db, [&**tree]);
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Conflict,
        "other threads wrote into the range to be loaded again and again",
    )
    .keys(&first, &last))
}

/// Drops tables from `older` that no snapshot and no job needs. All their keys have been
/// deleted by `deletion`, which stays in a table. The caller proves that they hold nothing
/// newer, because they existed before the deletion. Their sequence numbers do not prove it:
/// compactions set them to 0 for entries that every reader sees.
pub fn drop_tables(
    db: &DbInner,
    tree: &TreeInner,
    older: &HashSet<u64>,
    deletion: Seq,
) -> Result<()> {
    let gone: Vec<u64> = {
        let mut files = tree.files.lock();
        let view = tree.view.load_full();
        // A snapshot taken from now on sees the deletion.
        let snapshots = db.versions.snapshots().list();
        let seen = |t: &TableMeta| snapshots.iter().any(|s| (t.min_seq..deletion).contains(s));
        let free = |t: &&Arc<TableHandle>| {
            older.contains(&t.meta.id) && !seen(&t.meta) && !files.busy.contains_key(&t.meta.id)
        };
        let tables = view.version.tables();
        let gone: Vec<u64> = tables.filter(free).map(|t| t.meta.id).collect();
        files.busy.extend(gone.iter().map(|&id| (id, Holder::Caller)));
        gone
    };
    if gone.is_empty() {
        return Ok(());
    }
    let _busy = BusyTables { tree, ids: gone.clone() };
    let done = install::install_changes(
        db,
        vec![VersionChange {
            tree,
            removed: gone.clone(),
            added: vec![],
            values: vec![],
            flushed: None,
        }],
    );
    if done.is_ok() {
        db.observer.note(|| Event::TablesDropped { tree: tree.name.clone(), removed: gone });
    }
    done.map(|_| ())
}

/// Writes pairs in ascending key order into tables of about `size` bytes. Returns their metadata
/// and the number of pairs.
fn write_tables<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    out: &mut PendingOutputs<'_>,
    pairs: impl Iterator<Item = Result<(K, V)>>,
    size: u64,
) -> Result<(Vec<TableMeta>, u64)> {
    let now = out.inner.env.wall_micros();
    let (mut tables, mut writer, mut last, mut n) = (vec![], None::<TableWriter>, vec![], 0u64);
    for pair in pairs {
        let (key, value) = pair?;
        let (key, value) = (key.as_ref(), value.as_ref());
        check_key(key)?;
        check_value(value)?;
        if n > 0 && key <= last.as_slice() {
            return Err(Error::invalid("the pairs are not in strictly ascending key order")
                .keys(&last, key));
        }
        if let Some(w) = writer.take_if(|w| w.estimated_size() >= size) {
            tables.push(meta(&w.finish()?, now, now));
        }
        let w = match &mut writer {
            Some(w) => w,
            None => writer.insert(out.create()?),
        };
        w.add(key, Trailer::new(0, Kind::Put), value)?;
        last.clear();
        last.extend_from_slice(key);
        n += 1;
        if n.is_multiple_of(STEP) {
            out.holds(w.buffered());
        }
    }
    if let Some(w) = writer {
        tables.push(meta(&w.finish()?, now, now));
    }
    Ok((tables, n))
}

/// Reports whether the active memtable has an entry or a range deletion in `[first, last]`.
fn holds(view: &TreeView, first: &[u8], last: &[u8]) -> Result<bool> {
    let mem = &view.active.mem;
    view.active.wait_for_writers();
    let mut c = mem.cursor();
    c.seek(first, Trailer::NEWEST)?;
    let entries = c.valid() && c.key() <= last;
    Ok(entries || mem.deletions().iter().any(|d| d.touches(first, last)))
}
