//! `sstable-dump repair`: rebuilds a store with a lost or damaged manifest in a new directory, from
//! its tables and its log.
//!
//! Facts of a manifest and their sources, the most trusted first:
//! - everything: from the newest manifest, if only `CURRENT` is lost or damaged;
//! - names and options of trees, flushed positions, obsolete tables: from the readable frames of a
//!   damaged manifest;
//! - names, flushed positions, obsolete tables, sequence numbers of ingested tables: from the event
//!   log;
//! - trees, hooks, sequence numbers: from the tables' properties;
//! - obsolete tables and the order of runs: from the entries ([`ages`]);
//! - names of trees: from the tables' properties too;
//! - log records that are already in tables: from the tables' properties, which contain their log
//!   positions, and from their sequence numbers;
//! - values outside tables: from the blob files to which tables refer, and for lost tables from
//!   values that contain their own key ([`recovered`](crate::salvage::lost_values));
//! - the store's id: from log segments and tables ([`whose`]);
//! - names of trees of the data model: from the definitions and from the content of the trees
//!   ([`matching`]).
//!
//! The report lists the facts that cannot be recovered.

pub mod ages;
pub mod renames;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use firn_kv::Env as _;
use firn_kv::TreeOptions;
use firn_kv::internals::base::cursor::Cursor as _;
use firn_kv::internals::base::key::Trailer;
use firn_kv::internals::base::ops::{NO_TREE, Op, OpReader, TreeId};
use firn_kv::internals::iterator::opener::table_path;
use firn_kv::internals::manifest::{
    ManifestState, PersistedOptions, RunState, TreeState, manifest_number,
};
use firn_kv::internals::sstable::{Properties, Table, TableCursor, WriterOptions};
use firn_kv::internals::wal;
use firn_tools::io::remove;
use firn_tools::output::{Done, Failure, Progress, things};
use firn_wide::internals::store::TreeName;

use crate::Screen;
use crate::history::evidence::{RecoveredHistory, Sources, gather, nothing, other_stores};
use crate::history::owner::{self, StoreOwner};
use crate::salvage::losses::Loss;
use crate::salvage::lost_values::{LostEntries, Missing};
use crate::salvage::new_store::{
    self, NewStoreReport, TakenNames, lost_table, make_in, meta_of, take,
};
use crate::salvage::rescue::options_of;
use crate::schema::matching::{self, TableContent};
use crate::store::blobs::{OldStore, StoreBlobs};
use crate::store::log_copy;
use crate::store::names::TreeNames;
use crate::store::retry::refuse_open;
use crate::store::survey::survey;
use crate::store::target::{TargetKind, env, kind, open_file, open_values, table_number};

/// Prefix of the names of trees whose own name is lost; their number follows.
pub const NAMELESS: &str = "tree-";

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
Builds a new store in a new directory. It never changes the old one, which must not be open in a program. It uses a sound manifest if
there is one. Otherwise it derives names, options and live tables from the remains of manifests, the event log, the tables and the log,
and reports the facts that nothing proves. It ignores a manifest that is older than the tables, or of another store. It saves the
readable part of damaged tables and of a damaged log. Definitions show the hooks of column families and CQL tables. At the end it opens
and reads the new store. Exit code 1 if anything is or may be lost, 2 if the new store is not sound.

With --rename it rebuilds nothing: it renames misnamed files to their true names, in the store itself and under its lock. It moves files
in the way aside (*.aside), and overwrites and removes nothing. To continue an interrupted run, run it again.

Examples:
  sstable-dump repair firn-data --out repaired
  sstable-dump repair firn-data --out repaired --json | jq '.unknown[]'
  sstable-dump repair firn-data --out repaired --manifest MANIFEST-000007   use this one of several
  sstable-dump repair firn-data --out repaired --without-manifest     ignore all manifests
  sstable-dump repair firn-data --out repaired --store 9c1f5a3e07d2b846   rebuild this one of two stores in one directory
  sstable-dump repair firn-data --rename                              rename misnamed files to their true names";

/// Parses an id in the form that `check`, `props` and `wal` print.
fn store_id(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text, 16).map_err(|_| {
        "an id is 16 hexadecimal digits, as `sstable-dump props` and `wal` show it".into()
    })
}

/// Arguments of `repair`.
#[derive(Args, Clone, Debug)]
pub struct RepairArgs {
    /// The store
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Write the new store to this directory
    #[arg(long, value_name = "NEW", required_unless_present = "rename")]
    pub out: Option<PathBuf>,
    /// Use only tables, log and event log
    #[arg(long, conflicts_with = "manifest")]
    pub without_manifest: bool,
    /// Use this manifest, not the one that CURRENT names
    #[arg(long, value_name = "NAME")]
    pub manifest: Option<String>,
    /// Only rename misnamed files to their true names, in the store itself
    #[arg(long, conflicts_with_all = ["out", "manifest", "without_manifest"])]
    pub rename: bool,
    /// Use the files of this store and no manifest, if the directory has files of several stores
    #[arg(long, value_name = "ID", value_parser = store_id, conflicts_with_all = ["manifest", "rename"])]
    pub store: Option<u64>,
}

/// Operations on a tree in the log.
#[derive(Default)]
struct InLog {
    /// Positions after records with operations on the tree, and the first sequence numbers of the
    /// records.
    records: Vec<(u64, u64)>,
    merges: u64,
}

/// Returns the options for tables of a tree, from the recovered facts.
fn fallback(e: &RecoveredHistory, tree: TreeId) -> WriterOptions {
    match e.trees.get(&tree).and_then(|t| t.options.as_ref()) {
        Some(o) => options_of(tree, o),
        None => WriterOptions { tree, ..WriterOptions::default() },
    }
}

/// Returns the file from which table `id` was taken.
fn path_of(names: &TreeNames, dir: &Path, id: u64) -> PathBuf {
    names.table(id).unwrap_or_else(|| table_path(dir, id))
}

/// Files that could be taken over.
struct TakenFiles {
    tables: Vec<Arc<Table>>,
    /// Existing blob files, with the tree in their properties.
    values: BTreeMap<u64, Option<TreeId>>,
    /// Whether a known table is missing.
    gone: bool,
}

/// Takes over every table that may be live and does not belong to another store. `log` is the range
/// of sequence numbers in the log.
fn take_all(
    old: OldStore<'_>,
    e: &RecoveredHistory,
    whose: &StoreOwner,
    log: &Range<u64>,
    report: &mut NewStoreReport,
) -> Done<TakenFiles> {
    let OldStore { names, dir, out, files } = old;
    let mut ids: Vec<u64> = names.list(dir)?.iter().filter_map(|n| table_number(n)).collect();
    ids.sort_unstable();
    let all: BTreeSet<u64> = ids.iter().copied().collect();
    let progress = Progress::operations("repair", Some(ids.len() as u64));
    let (mut tables, mut strays, mut values) = (vec![], vec![], BTreeMap::new());
    let foreign = e.foreign(names, dir)?;
    for (i, id) in ids.into_iter().enumerate() {
        progress.at(i as u64);
        let Some(path) = names.table(id).filter(|_| !e.dead.contains(&id)) else { continue };
        if let Some(store) = whose.stranger(id) {
            report.losses.push(lost_table(path, &owner::words(store), None));
            continue;
        }
        if foreign.contains(&id) {
            report.losses.push(lost_table(
                path,
                "the event log has another table with this number: this one is of another store or time",
                None,
            ));
            continue;
        }
        if let Some(tree) = value_file(&path, id) {
            values.insert(id, tree);
            continue;
        }
        let tree = e.tree_of(id);
        let options = fallback(e, tree.unwrap_or(0));
        let taken = match take(&path, out, id, e.ingested_seq(id), &options, files) {
            Err(err) if new_store::is_unreadable(&err, &path) => {
                report.losses.push(new_store::unreadable(&err, &path));
                continue;
            }
            taken => taken?,
        };
        match &taken {
            TakenNames::Part(t, r) if r.properties.is_none() && tree.is_none() => {
                strays.push((t.clone(), taken))
            }
            // A trusted manifest would name the table if it had ever been finished.
            TakenNames::Nothing(_)
                if tree.is_none() && env().file_len(&path)? == 0 && e.whole.is_some() =>
            {
                report
                    .notes
                    .push(format!("table {id} is left out: it is empty, so it was never finished"));
            }
            TakenNames::Nothing(_) if tree.is_none() && env().file_len(&path)? == 0 => {
                report
                    .unknown
                    .push(format!("whether table {id}, which is empty, was never finished or has lost all that it held"));
            }
            _ => {
                let before = report.losses.len();
                report.note(&taken, &path);
                let its = taken.table().map(|t| t.properties().tree).or(tree);
                report.losses[before..].iter_mut().for_each(|l| l.tree = l.tree.or(its));
                tables.extend(taken.table().cloned());
            }
        }
    }
    let mut along: BTreeMap<u64, u64> = BTreeMap::new();
    for store in tables
        .iter()
        .map(|t: &Arc<Table>| t.identity().store)
        .filter(|s| *s != 0 && Some(*s) != whose.id)
    {
        *along.entry(store).or_default() += 1;
    }
    report.notes.extend(along.into_iter().map(|(store, n)| {
        format!(
            "{} written by another store (id {store:016x}), of which there is no log here: taken, as a checkpoint keeps the tables of the \
             store that it was made of",
            things(n, "table was", "tables were")
        )
    }));
    let gone = say_what_is_gone(dir, e, &all, report);
    tables.retain(|t| {
        !e.dropped.contains(&t.properties().tree) || remove(&table_path(out, t.id())).is_err()
    });
    for (t, taken) in strays {
        if let Some(t) =
            take_stray(&path_of(names, dir, t.id()), out, t, taken, &tables, e, log, files, report)?
        {
            tables.push(t);
        }
    }
    // A file to which tables refer is no table, however little of it remains. Their losses include
    // it.
    let used = tables.iter().flat_map(|t| &t.properties().values).map(|u| u.file);
    let used: BTreeSet<PathBuf> = used.map(|id| path_of(names, dir, id)).collect();
    report.losses.retain(|l| l.what == "log" || !used.contains(&l.file));
    Ok(TakenFiles { tables, values, gone })
}

/// Returns the tree in the properties of blob file `id`, or `Some(None)` if they are lost. Returns
/// `None` if the file is no blob file, or if that cannot be determined any more.
fn value_file(path: &Path, id: u64) -> Option<Option<TreeId>> {
    // An unreadable file is reported when it is read as a table.
    let file = env().open_read(path, false).ok()?;
    if let Ok(values) = open_values(file.clone(), path, id) {
        return Some(Some(values.properties().tree));
    }
    if open_file(file.clone(), path, id, 0).is_ok() {
        return None;
    }
    let s = survey(file, path, id).ok().filter(|s| s.is_of_values())?;
    Some(s.properties.map(|p| p.tree))
}

/// Reports tables that were live and are not in `all`, the existing ones. Returns whether there are
/// any.
fn say_what_is_gone(
    dir: &Path,
    e: &RecoveredHistory,
    all: &BTreeSet<u64>,
    report: &mut NewStoreReport,
) -> bool {
    let gone: Vec<u64> = e.live().into_iter().filter(|id| !all.contains(id)).collect();
    // The sources may end before a compaction of the missing tables into the newest one.
    if e.by_name.values().flatten().max() < all.last() {
        let ids: Vec<String> = gone.iter().map(u64::to_string).collect();
        if !ids.is_empty() {
            report.unknown.push(format!(
                "whether table {} has been merged into newer ones, or is lost",
                ids.join(", ")
            ));
        }
        return !gone.is_empty();
    }
    for &id in &gone {
        let reason = "the file is missing, and nothing shows that it was merged into others";
        report.losses.push(lost_table(table_path(dir, id), reason, e.metas.get(&id)));
    }
    !gone.is_empty()
}

/// Reports whether `tables` contain every entry of `t`: the same key with the same value. Sequence
/// numbers are not compared, because compactions to the last level remove them.
fn is_contained(t: &Arc<Table>, tables: &[Arc<Table>], files: &StoreBlobs<'_>) -> Done<bool> {
    let mut others: Vec<_> = tables.iter().map(|t| t.cursor(false)).collect();
    let mut c = t.cursor(false);
    c.first()?;
    while c.valid() {
        let mut found = false;
        for o in &mut others {
            o.seek(c.key(), Trailer::NEWEST)?;
            while !found && o.valid() && o.key() == c.key() {
                let same = o.value() == c.value() && o.trailer().kind() == c.trailer().kind();
                found = same || {
                    let seen = |c: &TableCursor| files.shown(c.key(), c.trailer(), c.value());
                    seen(o).ok().zip(seen(&c).ok()).is_some_and(|(a, b)| a == b)
                };
                o.next()?;
            }
        }
        if !found {
            return Ok(false);
        }
        c.next()?;
    }
    Ok(true)
}

/// Takes over a table without properties that no source mentions: it was never finished, or was
/// truncated. Leaves it out if the log or other tables have all its entries. Otherwise it belongs
/// to the tree whose tables share entries with it.
#[allow(clippy::too_many_arguments)] // all that is known of a table comes from different places
fn take_stray(
    path: &Path,
    out: &Path,
    t: Arc<Table>,
    taken: TakenNames,
    tables: &[Arc<Table>],
    e: &RecoveredHistory,
    log: &Range<u64>,
    files: &StoreBlobs<'_>,
    report: &mut NewStoreReport,
) -> Done<Option<Arc<Table>>> {
    let (id, new) = (t.id(), table_path(out, t.id()));
    let p = t.properties();
    let (mut tree, mut contained) = (None, false);
    for candidate in tables.iter().map(|t| t.properties().tree).collect::<BTreeSet<_>>() {
        let its: Vec<_> = tables
            .iter()
            .filter(|t| t.properties().tree == candidate)
            .chain([&t])
            .cloned()
            .collect();
        if ages::compare(&its)?.shares(its.len() - 1) {
            tree = Some(candidate);
        }
        contained |= p.range_deletes == 0 && is_contained(&t, &its[..its.len() - 1], files)?;
    }
    let logged = tree.is_none() && log.contains(&p.min_seq) && log.contains(&p.max_seq);
    if contained || logged {
        let place = if contained { "in other tables" } else { "in the log" };
        report.notes.push(format!(
            "table {id} is left out: it was not finished, or cut off, and all that is left of it is {place} too"
        ));
        remove(&new).map_err(|e| Failure::file("remove", &new, &e))?;
        return Ok(None);
    }
    let Some(tree) = tree else {
        report.unknown.push(format!(
            "{}: its properties are lost, and with them the tree it belongs to: 0 is taken",
            path.display()
        ));
        report.note(&taken, path);
        return Ok(Some(t));
    };
    drop((t, taken));
    remove(&new).map_err(|e| Failure::file("remove", &new, &e))?;
    let taken = take(path, out, id, 0, &fallback(e, tree), files)?;
    report.note(&taken, path);
    Ok(taken.table().cloned())
}

/// Returns the options of a tree from the properties of one of its tables.
pub fn options_by(p: &Properties) -> PersistedOptions {
    let some = |name: &String| (!name.is_empty()).then(|| name.clone());
    PersistedOptions {
        block_size: p.block_size.clamp(512, 65_536),
        compression: vec![p.compression],
        merge: some(&p.merge),
        purge: some(&p.purge),
        summary: some(&p.summary),
        filter_prefix: some(&p.filter_prefix),
        ..PersistedOptions::of(&TreeOptions::default())
    }
}

/// Returns the runs of a tree; removes obsolete tables from `out`.
fn runs_of(
    names: &TreeNames,
    dir: &Path,
    out: &Path,
    tables: &[Arc<Table>],
    e: &RecoveredHistory,
    report: &mut NewStoreReport,
) -> Done<Vec<Arc<RunState>>> {
    let ages = ages::compare(tables)?;
    let mut alive: BTreeSet<usize> = (0..tables.len()).collect();
    let id = |i: usize| tables[i].id();
    for d in ages.dead(tables) {
        alive.remove(&d.table);
        let others: Vec<String> = d.instead.iter().map(|&i| id(i).to_string()).collect();
        let why = if d.unfinished {
            "a compaction of them that was not finished"
        } else {
            "it was merged into them"
        };
        report.notes.push(format!(
            "table {} is left out: its entries are in {} too: {why}",
            id(d.table),
            others.join(", ")
        ));
        leave_out(out, &tables[d.table], report)?;
        let path = path_of(names, dir, id(d.table));
        match report.losses.iter().any(|l| l.file == path) {
            true => report.rescued = report.rescued.saturating_sub(1),
            false => report.copied = report.copied.saturating_sub(1),
        }
        // An unfinished table has lost nothing.
        report.losses.retain(|l| l.file != path);
    }
    let unsettled: Vec<String> = alive
        .iter()
        .filter(|&&i| {
            tables[i].properties().max_seq == 0
                && tables[i].properties().entries > 0
                && e.ingested_seq(id(i)) == 0
        })
        .map(|&i| id(i).to_string())
        .collect();
    if unsettled.len() > 1 || (unsettled.len() == 1 && alive.len() > 1) {
        // If a source names the obsolete tables, they have already been left out.
        let says = if e.tells_nothing() { &mut report.unknown } else { &mut report.notes };
        says.push(format!(
            "table {}: no sequence numbers: merged all the way down, or bulk-loaded; they are taken for the oldest, the one with \
             the higher number for the newer. Should inputs of such a merge be left over, they hide what is newer",
            unsettled.join(", ")
        ));
    }
    let (runs, guessed) = ages.runs(tables, &alive);
    if guessed {
        report.unknown.push(
            "tables contradict each other about which is newer: dead ones may be among them; the larger numbers win".into(),
        );
    }
    let meta = |&i: &usize| {
        let mut was = e.metas.get(&id(i)).cloned();
        if was.is_none() && e.ingested_seq(id(i)) > 0 {
            was = Some(meta_of(&tables[i], None));
        }
        let was = was.map(|mut m| {
            m.ingested_seq = e.ingested_seq(id(i));
            m
        });
        Arc::new(meta_of(&tables[i], was.as_ref()))
    };
    let run = |(n, r): (usize, &Vec<usize>)| {
        Arc::new(RunState { level: 0, number: n as u64 + 1, tables: r.iter().map(meta).collect() })
    };
    // Newest first: the highest number.
    Ok(runs.iter().enumerate().map(run).rev().collect())
}

/// Returns the operations in the log on each tree, at `floor` and later, and the last sequence
/// number.
fn read_log(names: &TreeNames, dir: &Path, floor: u64) -> Done<(BTreeMap<TreeId, InLog>, u64)> {
    let mut trees: BTreeMap<TreeId, InLog> = BTreeMap::new();
    let mut last_seq = 0;
    log_copy::copy(names, dir, None, floor, &mut |seq, end, payload| {
        if end <= floor {
            return;
        }
        let mut n = 0;
        for (tree, op) in OpReader::new(payload).flatten() {
            let t = trees.entry(tree).or_default();
            if t.records.last().is_none_or(|r| r.0 < end) {
                t.records.push((end, seq));
            }
            t.merges += u64::from(matches!(
                op,
                Op::Point { kind: firn_kv::internals::base::key::Kind::Merge, .. }
            ));
            n += 1;
        }
        last_seq = last_seq.max(seq.saturating_add(n) - 1);
    })?;
    Ok((trees, last_seq))
}

/// End of the positions that each writer of the log assigned.
struct LogEnds {
    /// Writers of segments with records, and the position at which the next writer's segments
    /// begin.
    ends: BTreeMap<u64, u64>,
    /// Start of the log.
    start: u64,
}

impl LogEnds {
    fn of(names: &TreeNames, dir: &Path) -> Done<LogEnds> {
        let mut l = LogEnds { ends: BTreeMap::new(), start: 0 };
        let writers = wal::writers(names, dir)?;
        l.start = writers.first().map_or(0, |w| w.base);
        for (i, w) in writers.iter().enumerate() {
            l.ends.insert(w.id, writers.get(i + 1).map_or(u64::MAX, |next| next.base));
        }
        Ok(l)
    }

    /// Returns the position below which this table, or older ones, have the tree's log records. If
    /// all segments of the table's writer are gone, the position is before the log. Positions that
    /// a later writer assigned again do not count, since the log had lost its end by then.
    fn of_table(&self, p: &Properties) -> u64 {
        p.log_end.min(self.ends.get(&p.log_writer).copied().unwrap_or(self.start))
    }
}

/// Returns the position below which a tree's records are in its tables.
fn flushed(
    (tree, name): (TreeId, &str),
    tables: &[Arc<Table>],
    known: u64,
    has_none: bool,
    log: Option<&InLog>,
    floor: u64,
    report: &mut NewStoreReport,
) -> u64 {
    let max_seq = tables.iter().map(|t| t.properties().max_seq).max().unwrap_or(0);
    let by_seq =
        log.and_then(|l| l.records.iter().rev().find(|r| r.1 <= max_seq)).map_or(floor, |r| r.0);
    let at = by_seq.max(known).max(floor);
    if let Some(l) = log
        && l.merges > 0
        && known == 0
        && !has_none
        && l.records.iter().any(|r| r.0 > at)
    {
        report.unknown.push(format!(
            "tree {tree} {name:?} has merge operands in the log; those that compactions folded all the way down may count twice"
        ));
    }
    at
}

/// Reports whether tables have each sequence number from log position `from` up to `next`, the
/// first number in the existing log. Then nothing in between is missing. Entries that were
/// overwritten before a flush have left no sequence number.
fn has_all_before(
    tables: &[Arc<Table>],
    state: &ManifestState,
    ends: &LogEnds,
    from: u64,
    next: u64,
) -> Done<bool> {
    let ids: BTreeSet<u64> =
        state.trees.values().flat_map(TreeState::tables).map(|m| m.id).collect();
    let live = || tables.iter().filter(|t| ids.contains(&t.id()));
    let before = live().filter(|t| ends.of_table(t.properties()) <= from);
    let before = before.map(|t| t.properties().max_seq).max().unwrap_or(0);
    let mut found = 0;
    for t in live().filter(|t| t.properties().max_seq > before) {
        let mut c = t.cursor(false);
        c.first()?;
        while c.valid() {
            found += u64::from(before < c.trailer().seq() && c.trailer().seq() < next);
            c.next()?;
        }
    }
    Ok(before + found + 1 >= next)
}

/// Rebuilds the state of a store without a manifest.
fn rebuild(
    names: &TreeNames,
    dir: &Path,
    out: &Path,
    e: &mut RecoveredHistory,
    whose: &StoreOwner,
    report: &mut NewStoreReport,
) -> Done<ManifestState> {
    let floor = log_copy::unbroken(names, dir)?;
    let (log, last_in_log) = read_log(names, dir, floor)?;
    let first_in_log = log
        .values()
        .filter_map(|t| t.records.first())
        .map(|r| r.1)
        .min()
        .unwrap_or(last_in_log + 1);
    let apart = StoreBlobs::of(names, dir);
    let old = OldStore { names, dir, out, files: &apart };
    let logged = first_in_log..last_in_log + 1;
    let TakenFiles { tables, values, gone } = take_all(old, e, whose, &logged, report)?;
    let mut by_tree: BTreeMap<TreeId, Vec<Arc<Table>>> = BTreeMap::new();
    for t in &tables {
        by_tree.entry(t.properties().tree).or_default().push(t.clone());
    }
    let known: Vec<TreeId> = e.trees.keys().copied().collect();
    // Values of a tree may remain even if all its tables are lost.
    let of_values = values.values().flatten().filter(|_| e.tells_nothing());
    let ids: BTreeSet<TreeId> =
        by_tree.keys().chain(log.keys()).chain(&known).chain(of_values).copied().collect();
    let ends = LogEnds::of(names, dir)?;
    let mut given = BTreeSet::new();
    // If a name was used twice, the newer tree has it: the older one was dropped.
    for &id in ids.iter().rev() {
        let its = by_tree.entry(id).or_default();
        let newest = its.iter().max_by_key(|t| t.id()).map(|t| t.properties().tree_name.clone());
        e.name_tree(id, &its.iter().map(|t| t.id()).collect(), newest, &mut given);
    }
    match_trees(names, dir, out, floor, &mut by_tree, e, report)?;
    let mut state = ManifestState {
        id: whose.id.unwrap_or_else(|| env().random() | 1 << 63),
        created_micros: tables
            .iter()
            .map(|t| t.properties().created_micros)
            .min()
            .unwrap_or_else(|| env().wall_micros()),
        last_seq: e.partial.as_ref().map_or(0, |s| s.last_seq).max(last_in_log),
        ..ManifestState::default()
    };
    let mut behind = vec![];
    for id in ids {
        if id == NO_TREE || e.dropped.contains(&id) {
            continue;
        }
        let its = by_tree.remove(&id).unwrap_or_default();
        let (tree, known) =
            rebuild_tree(names, dir, out, id, &its, e, log.get(&id), &ends, floor, &state, report)?;
        if known < floor {
            behind.push((known, format!("{:?}", tree.name)));
        }
        state.last_seq = tree.tables().map(|t| t.max_seq).fold(state.last_seq, u64::max);
        state.next_tree = state.next_tree.max(id + 1);
        state.trees.insert(id, tree);
    }
    state.next_tree = e
        .dropped
        .iter()
        .filter(|i| **i < NO_TREE - 1)
        .map(|i| i + 1)
        .fold(state.next_tree.max(1), TreeId::max);
    let all = names.list(dir)?;
    let files = all
        .iter()
        .filter_map(|n| table_number(n))
        .chain(e.dead.iter().copied())
        .filter(|n| *n < 1 << 61);
    let from = behind.iter().map(|b| b.0).min().filter(|_| e.log_floor < floor);
    if let Some(from) = from
        && !has_all_before(&tables, &state, &ends, from, first_in_log)?
    {
        let behind: Vec<String> = behind.into_iter().map(|b| b.1).collect();
        report.unknown.push(format!(
            "whether the first segments of the log are missing: it begins at position {floor}, tables are known to hold all earlier \
             writes to all trees but {}, and nothing proves that the log was no longer needed",
            behind.join(", ")
        ));
    }
    let runs = state.trees.values().flat_map(|t| &t.runs).map(|r| r.number);
    state.next_file = files.chain(runs).max().unwrap_or(0) + 1;
    state.next_file =
        e.partial.as_ref().map_or(state.next_file, |s| s.next_file.max(state.next_file));
    state.wal_floor = state.trees.values().map(|t| t.flushed).min().unwrap_or(floor).max(floor);
    let loose = LooseFiles { old, values: &values, gone, floor };
    loose.take_values(&mut state, e, report)?;
    say_what_is_unknown(e, report);
    if tables.is_empty() && log.is_empty() {
        let files = names
            .list(dir)?
            .iter()
            .filter(|n| table_number(n).is_some() || n.ends_with(".wal"))
            .count() as u64;
        report.losses.push(Loss {
            file: dir.to_path_buf(),
            offset: None,
            len: 0,
            what: "store",
            reason: format!(
                "nothing can be read in any of its {}",
                things(files, "table and log segment", "tables and log segments")
            ),
            entries: None,
            keys: None,
            tree: None,
            place: None,
        });
    }
    Ok(state)
}

/// The blob files of a store without a manifest.
struct LooseFiles<'a> {
    old: OldStore<'a>,
    /// Existing blob files, with the tree in their properties.
    values: &'a BTreeMap<u64, Option<TreeId>>,
    /// Whether a known table is missing.
    gone: bool,
    floor: u64,
}

impl LooseFiles<'_> {
    /// Takes over the blob files to which tables refer, and recovers the values of lost tables from
    /// them.
    ///
    /// A value without a reference may belong to a lost table, or it was deleted or replaced. If a
    /// table of the tree is lost or damaged, all values without a newer entry are recovered. If no
    /// source names the former tables, only values of files without any reference are recovered,
    /// since a file exists only as long as a table needs it. In other cases the values are garbage
    /// of compactions.
    fn take_values(
        &self,
        state: &mut ManifestState,
        e: &RecoveredHistory,
        report: &mut NewStoreReport,
    ) -> Done {
        let mut by_tree: BTreeMap<TreeId, BTreeSet<u64>> = BTreeMap::new();
        for (&id, &told) in self.values.iter().filter(|v| !e.is_left_over(*v.0)) {
            match told.or_else(|| self.tree_of(id, state)) {
                Some(tree) => drop(by_tree.entry(tree).or_default().insert(id)),
                None => report.unknown.push(format!(
                    "the tree of blob file {id}, to which no table refers and whose properties are lost: it is left out"
                )),
            }
        }
        let ids: Vec<TreeId> = state.trees.keys().copied().collect();
        for id in ids {
            let Some(tree) = state.trees.get(&id) else { continue };
            let has_lost = |l: &Loss| {
                (l.tree.is_none() || l.tree == Some(id)) && matches!(l.what, "data" | "table")
            };
            let lost = self.gone || report.losses.iter().any(has_lost);
            let mut files = by_tree.remove(&id).unwrap_or_default();
            if !lost {
                files.retain(|file| e.tells_nothing() && !self.is_referred(tree, *file));
            }
            let lost = LostEntries { files, ..LostEntries::default() };
            let missing = Missing {
                old: self.old,
                tree,
                uses: BTreeMap::new(),
                lost: std::slice::from_ref(&lost),
                floor: self.floor,
                store: state.id,
            };
            let from = report.losses.len();
            let runs = new_store::recover(missing, &mut state.next_file, from, report)?;
            let values = new_store::take_values(self.old.files, self.old.out, &runs, report)?;
            let Some(tree) = state.trees.get_mut(&id) else { continue };
            (tree.runs, tree.values) = (runs, values.into_iter().collect());
            state.last_seq = tree.tables().map(|t| t.max_seq).fold(state.last_seq, u64::max);
        }
        Ok(())
    }

    /// Reports whether a table of the tree refers to a blob file. Includes tables that no longer do
    /// in the new store.
    fn is_referred(&self, tree: &TreeState, file: u64) -> bool {
        tree.tables().any(|m| self.old.files.refers(m.id, file).unwrap_or(false))
    }

    /// Returns the tree of a blob file without properties: that of the tables that refer to it, or
    /// the only existing tree.
    fn tree_of(&self, id: u64, state: &ManifestState) -> Option<TreeId> {
        let by_tables = state.trees.values().find(|t| self.is_referred(t, id)).map(|t| t.id);
        let only = || Some(*state.trees.keys().next()?).filter(|_| state.trees.len() == 1);
        by_tables.or_else(only)
    }
}

/// Names trees by their content, and leaves out those of indexes that cannot be identified.
fn match_trees(
    names: &TreeNames,
    dir: &Path,
    out: &Path,
    floor: u64,
    by_tree: &mut BTreeMap<TreeId, Vec<Arc<Table>>>,
    e: &mut RecoveredHistory,
    report: &mut NewStoreReport,
) -> Done {
    by_tree.retain(|id, _| *id != NO_TREE && !e.dropped.contains(id));
    let found = matching::find(&TableContent { names, dir, floor, trees: by_tree }, e)?;
    for (id, name, what) in found.names {
        report.notes.push(format!("tree {id} is {name:?}: by what is in it, {what}"));
        e.trees.entry(id).or_default().name = Some(name);
    }
    for (id, what, hooks) in found.open {
        report.unknown.push(format!("what tree {id} is: by what is in it, {what}"));
        e.hooks.extend(hooks.map(|hooks| (id, hooks)));
    }
    for id in found.indexes {
        report
            .unset
            .push(format!("the index whose entries tree {id} holds: it is left out, and all indexes are built anew"));
        for t in by_tree.remove(&id).unwrap_or_default() {
            leave_out(out, &t, report)?;
        }
        e.dropped.insert(id);
    }
    Ok(())
}

/// Removes a table from the new store again.
fn leave_out(out: &Path, t: &Table, report: &mut NewStoreReport) -> Done {
    let path = table_path(out, t.id());
    remove(&path).map_err(|e| Failure::file("remove", &path, &e))?;
    (report.entries, report.bytes) =
        (report.entries - t.properties().entries, report.bytes - t.size());
    Ok(())
}

/// Returns the tree, and the position below which its tables are known to have all its records.
#[allow(clippy::too_many_arguments)] // all that is known of a tree comes from different places
fn rebuild_tree(
    names: &TreeNames,
    dir: &Path,
    out: &Path,
    id: TreeId,
    tables: &[Arc<Table>],
    e: &RecoveredHistory,
    log: Option<&InLog>,
    ends: &LogEnds,
    floor: u64,
    state: &ManifestState,
    report: &mut NewStoreReport,
) -> Done<(TreeState, u64)> {
    let facts = e.trees.get(&id).cloned().unwrap_or_default();
    let taken = |name: &String| state.tree_named(name).is_some();
    let name = facts.name.filter(|n| !taken(n)).unwrap_or_else(|| {
        report.unknown.push(format!("the name of tree {id}: it is called \"{NAMELESS}{id}\" now"));
        format!("{NAMELESS}{id}")
    });
    let options = facts.options.unwrap_or_else(|| {
        let by = tables.iter().max_by_key(|t| t.id()).map(|t| options_by(t.properties()));
        by.or_else(|| e.hooks.get(&id).cloned()).unwrap_or_else(|| {
            if TreeName::parse(&name).is_none() {
                report.unset.push(format!(
                    "the hooks of tree {id} {name:?}, which is in the log only: none are taken"
                ));
            }
            PersistedOptions::of(&TreeOptions::default())
        })
    });
    let runs = runs_of(names, dir, out, tables, e, report)?;
    let by_tables = tables.iter().map(|t| ends.of_table(t.properties())).max().unwrap_or(0);
    let known = facts.flushed.max(by_tables);
    // The sources of the tree would also mention its tables.
    let has_none = tables.is_empty() && e.has_source && !e.has_tables_of(id, &name);
    let flushed = flushed((id, &name), tables, known, has_none, log, floor, report);
    let count: usize = runs.iter().map(|r| r.tables.len()).sum();
    let (tables, runs_word) =
        (things(count as u64, "table", "tables"), things(runs.len() as u64, "run", "runs"));
    report.notes.push(format!("tree {id} {name:?}: {tables} in {runs_word}"));
    Ok((TreeState { id, name, options, flushed, runs, values: Default::default() }, known))
}

fn say_what_is_unknown(e: &RecoveredHistory, report: &mut NewStoreReport) {
    if e.trees.values().all(|t| t.options.is_none()) {
        report.unset.push(
            "the trees' policies, sizes of tables and of memtables: the defaults are taken; opening a tree with options sets them".into(),
        );
    }
    if e.tells_nothing() && !e.has_source {
        report.unknown.push(
            "which tables had been dropped without being merged, with a tree or a range: all that are there have been taken, so that \
             data dropped last may be back"
                .into(),
        );
    }
}

/// Writes the new store to `out`: by a complete manifest of `sources`, or else by the tables.
fn make(
    args: &RepairArgs,
    names: &mut TreeNames,
    sources: Sources,
    out: &Path,
    report: &mut NewStoreReport,
) -> Done {
    let dir = &args.dir;
    let mut e = gather(names, dir, sources)?;
    report.notes.append(&mut e.notes);
    match e.whole.take() {
        Some((state, number)) => {
            let others = other_stores(names, dir, number, &state)?;
            report.notes.extend(others.iter().map(|e| format!("{e}; `--manifest` takes that one")));
            *names = TreeNames::with_folders(dir)?;
            new_store::write(names, dir, out, state, report)
        }
        None => {
            let whose = owner::look(names, dir, args.store.or(e.partial.as_ref().map(|s| s.id)))?;
            for (name, store) in whose.foreign_segments() {
                report
                    .losses
                    .push(new_store::foreign_segment(dir.join(&name), &owner::words(store)));
                names.hide(name);
            }
            names.fit(None)?;
            report.tell(names);
            let state = rebuild(names, dir, out, &mut e, &whose, report)?;
            new_store::finish(names, dir, out, state, report)
        }
    }
}

/// Runs `repair`.
pub fn run(screen: &mut Screen<'_>, args: &RepairArgs) -> Done {
    let dir = &args.dir;
    if kind(dir)? != TargetKind::Store {
        return Err(Failure::with_next(
            "this is a file",
            "name the store's directory; `salvage` saves single files",
        ));
    }
    let Some(out) = &args.out else { return renames::run(screen, dir) };
    refuse_open(dir)?;
    let mut names = TreeNames::of(dir)?;
    if !names
        .list(dir)?
        .iter()
        .any(|n| table_number(n).is_some() || n.ends_with(".wal") || n.starts_with("MANIFEST-"))
    {
        return Err(nothing(dir).into());
    }
    let sources = match &args.manifest {
        _ if args.without_manifest || args.store.is_some() => Sources::None,
        None => Sources::All,
        Some(name) => Sources::Only(chosen(&names, dir, name)?),
    };
    let mut report = NewStoreReport::default();
    make_in(out, || make(args, &mut names, sources, out, &mut report))?;
    new_store::print(screen, dir, out, &report)
}

/// Returns the number of the manifest that the user gave by name or number.
fn chosen(names: &TreeNames, dir: &Path, name: &str) -> Done<u64> {
    let last = Path::new(name).file_name().and_then(|n| n.to_str()).unwrap_or(name);
    let there: Vec<String> =
        names.list(dir)?.into_iter().filter(|n| manifest_number(n).is_some()).collect();
    let number = manifest_number(last).or(last.parse().ok());
    number.filter(|n| there.iter().any(|t| manifest_number(t) == Some(*n))).ok_or_else(|| {
        let next = if there.is_empty() {
            "there is none; leave --manifest out".into()
        } else {
            format!("there are: {}", there.join(", "))
        };
        Failure::with_next(format!("there is no manifest {name} in {}", dir.display()), next)
    })
}
