//! Writes a new store from the parts of an old one, for `salvage` of a store and for `repair`.
//!
//! Invariants: the old directory is only read. The new one did not exist or was empty. Its manifest
//! is written last, so that a partly written store is not taken for a complete one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use firn_kv::internals::base::blob_ref::BlobFileMeta;
use firn_kv::internals::base::key::Kind;
use firn_kv::internals::base::ops::{Op, OpReader, TreeId};
use firn_kv::internals::iterator::opener::table_path;
use firn_kv::internals::manifest::{
    CURRENT, ManifestState, RunState, SnapshotDue, TableMeta, TreeState,
};
use firn_kv::internals::wal::{self, segment_name};
use firn_kv::{Error, ErrorKind};
use firn_tools::io;
use firn_tools::output::{Done, Failure, Progress, things};

use crate::check;
use crate::check::findings::FindingTree;
use crate::salvage::losses::Loss;
use crate::salvage::lost_values::{LostEntries, ValueRecovery, subtract_recovered};
use crate::salvage::report::NewStoreReport;
use crate::salvage::table::{TakenTable, meta_of, options_of, take};
use crate::salvage::{finish, unlisted};
use crate::store::blobs::{OldStore, StoreBlobs};
use crate::store::log_copy;
use crate::store::names::FileNames;
use crate::store::target::{copy_file, env, open_file};

/// Creates the directory of a new store, and calls `fill` to write the store. If that fails before
/// a store exists, removes the directory with its content.
///
/// # Errors
/// If the directory exists and is not empty; errors of `fill`.
pub fn make_in(out: &Path, fill: impl FnOnce() -> Done) -> Done {
    let env = env();
    if env.list(out).is_ok_and(|names| !names.is_empty()) || io::is_file(out) {
        return Err(Failure::with_next(
            format!("{} is there and not empty", out.display()),
            "name a new directory with --out",
        ));
    }
    env.create_dir_all(out)?;
    fill().inspect_err(|_| {
        if !io::is_taken(&out.join(CURRENT)) {
            // Report the original error, not an error of the removal.
            let _ = io::remove_tree(out);
        }
    })
}

/// Copies the blob files to which tables of `runs` refer.
///
/// # Errors
/// I/O errors.
pub fn copy_blob_files(
    old: OldStore<'_>,
    runs: &[Arc<RunState>],
    report: &mut NewStoreReport,
) -> firn_kv::Result<BTreeMap<u64, Arc<BlobFileMeta>>> {
    let tables = runs.iter().flat_map(|r| &r.tables);
    let used: BTreeSet<u64> = tables.flat_map(|t| &t.values).map(|u| u.file).collect();
    let mut all = BTreeMap::new();
    for id in used {
        copy_file(&old.files.path(id), &table_path(old.out, id))?;
        let facts = old.files.facts(id)?;
        report.blob_files += 1;
        report.bytes += facts.size;
        all.insert(id, facts);
    }
    Ok(all)
}

/// Recovers values of lost tables from blob files, and puts them into a run of their own. `from` is
/// the index of the tree's first loss in the report.
///
/// # Errors
/// I/O errors; damage is no error.
pub fn recover_values(
    missing: ValueRecovery<'_>,
    next_file: &mut u64,
    from: usize,
    report: &mut NewStoreReport,
) -> Done<Vec<Arc<RunState>>> {
    let mut runs = missing.tree.runs.clone();
    if missing.lost.is_empty() {
        return Ok(runs);
    }
    let numbers = runs.iter().map(|r| r.number + 1).max().unwrap_or(0);
    let id = numbers.max(*next_file);
    let found = missing.recover(id)?;
    subtract_recovered(&mut report.losses, from, &found.live, missing.lost);
    let Some(facts) = found.table else { return Ok(runs) };
    *next_file = id + 1;
    report.entries += facts.entries;
    report.bytes += facts.size;
    report.notes.push(format!(
        "{} of lost tables of tree {:?} found again in blob files: table {id} has them",
        things(facts.entries, "value was", "values were"),
        missing.tree.name
    ));
    for (file, n) in found.doubtful {
        report.unknown.push(format!(
            "which of {} of blob file {file}, to which no remaining table refers, had been deleted: all without a \
             known newer entry have been taken, so that deleted ones may be back",
            things(n, "value", "values")
        ));
    }
    let path = table_path(missing.old.out, id);
    let t = open_file(env().open_read(&path, false)?, &path, id, 0)?;
    let tables = vec![Arc::new(meta_of(&t, None))];
    runs.insert(0, Arc::new(RunState { level: 0, number: id, tables }));
    Ok(runs)
}

/// Returns the missing entries of a table in the manifest, from its losses.
fn lost_entries(m: &TableMeta, path: &Path, losses: &[Loss]) -> Option<LostEntries> {
    let mut entries = losses.iter().filter(|l| matches!(l.what, "data" | "table")).peekable();
    if m.values.is_empty() {
        return None;
    }
    entries.peek()?;
    let keys: Option<Vec<_>> = entries.map(|l| l.keys.clone()).collect();
    Some(LostEntries {
        table: path.to_path_buf(),
        range_deletes: m.range_deletes > 0,
        files: m.values.iter().map(|u| u.file).collect(),
        keys: keys.unwrap_or_else(|| vec![(m.first_key.clone(), m.last_key.clone())]),
        // A compaction to the last level removed some sequence numbers.
        seqs: (m.min_seq > 0).then_some((m.min_seq, m.max_seq)),
    })
}

/// Takes over the table `m` of `tree`. Returns its new metadata, or `None` if all of it is lost.
fn take_listed(
    old: OldStore<'_>,
    tree: &TreeState,
    m: &TableMeta,
    report: &mut NewStoreReport,
) -> Done<Option<Arc<TableMeta>>> {
    let path = old.names.path_of(m.id);
    let own = old.names.table(m.id);
    let other = own.as_deref().and_then(io::not_a_file);
    let missing = Err(Error::new(ErrorKind::NotFound, "no file with its name has its content"));
    let taken = match (&own, other) {
        (Some(path), None) => take(
            path,
            old.out,
            m.id,
            m.ingested_seq,
            &options_of(old.format, tree.id, &tree.options),
            old.files,
        ),
        _ => missing,
    };
    match taken {
        Ok(mut taken) => {
            if let TakenTable::Part(_, r) | TakenTable::Nothing(r) = &mut taken {
                r.count_losses(m);
            }
            report.note(&taken, &path);
            Ok(taken.table().map(|t| Arc::new(meta_of(t, Some(m)))))
        }
        Err(e) if e.kind() == ErrorKind::NotFound => {
            let reason = match (&own, other) {
                (_, Some(other)) => format!("{other} has its name, and it is not found"),
                (Some(_), None) => "the file is missing".to_owned(),
                (None, None) => "another table has its name, and it is not found".to_owned(),
            };
            report.losses.push(Loss::table(path, &reason, Some(m)));
            Ok(None)
        }
        Err(e) if is_unreadable(&e, &path) => {
            report.losses.push(Loss {
                entries: Some(m.entries),
                keys: Some((m.first_key.clone(), m.last_key.clone())),
                ..Loss::unreadable(&e, &path)
            });
            Ok(None)
        }
        Err(e) => Err(e.into()),
    }
}

/// Reports whether the error means that the system cannot read `from`. Other files may still be
/// readable.
pub fn is_unreadable(e: &Error, from: &Path) -> bool {
    e.kind() == ErrorKind::Io && e.file() == Some(from)
}

/// Takes over the tables that `tree` names, and their blob files. Returns the new state of the
/// tree. `floor` and `store` are the start of the needed log and the store's id.
fn take_tree(
    old: OldStore<'_>,
    tree: &TreeState,
    (floor, store): (u64, u64),
    next_file: &mut u64,
    report: &mut NewStoreReport,
    at: &mut dyn FnMut(u64),
) -> Done<TreeState> {
    let (mut lost, mut runs) = (vec![], vec![]);
    let before = report.losses.len();
    for run in &tree.runs {
        let mut tables = vec![];
        for m in &run.tables {
            let so_far = report.losses.len();
            tables.extend(take_listed(old, tree, m, report)?);
            let path = old.names.path_of(m.id);
            lost.extend(lost_entries(m, &path, &report.losses[so_far..]));
            at(m.size);
        }
        if !tables.is_empty() {
            runs.push(Arc::new(RunState { tables, level: run.level, number: run.number }));
        }
    }
    report.losses[before..].iter_mut().for_each(|l| l.tree = Some(tree.id));
    let taken = TreeState { runs, ..tree.clone() };
    let uses = tree.uses().into_iter().collect();
    let missing = ValueRecovery { old, tree: &taken, uses, lost: &lost, floor, store };
    let runs = recover_values(missing, next_file, before, report)?;
    let values = copy_blob_files(old, &runs, report)?;
    values.values().for_each(|v| at(v.size));
    Ok(TreeState { runs, values: values.into_iter().collect(), ..taken })
}

/// Takes over all tables that `state` names, then calls [`finish_store`].
///
/// # Errors
/// I/O errors; damage is no error.
pub fn write(
    names: &mut FileNames,
    out: &Path,
    mut state: ManifestState,
    report: &mut NewStoreReport,
) -> Done {
    names.apply_manifest(Some(&state))?;
    report.add_names(names);
    for e in names.hide_foreign_segments(&state)? {
        let reason = format!(
            "{}: left out (`sstable-dump repair --without-manifest` takes it all the same)",
            e.message()
        );
        report.losses.push(Loss::new("log", e.file().unwrap_or(names.dir()), reason));
    }
    let trees = || state.trees.values();
    let total = trees().flat_map(TreeState::tables).map(|t| t.size).sum::<u64>()
        + trees().flat_map(|t| t.values.values()).map(|v| v.size).sum::<u64>();
    let progress = Progress::bytes("salvage", Some(total));
    let mut done = 0;
    let files = &StoreBlobs::with_metas(names, &state);
    let old = OldStore { names, out, format: state.format, files };
    let known = (state.wal_floor, state.id);
    for tree in state.trees.values_mut() {
        *tree = take_tree(old, tree, known, &mut state.next_file, report, &mut |n| {
            done += n;
            progress.at(done);
        })?;
    }
    // The log that they need is not copied.
    state.subscriptions.values_mut().for_each(|s| s.snapshot_due = SnapshotDue::Lost);
    finish_store(names, out, state, report)
}

/// Replays more of the log for trees with lost table entries, if older segments still exist. Their
/// records are newer than the remaining entries, or equal. A log with holes is excluded, because it
/// may lack the replacement of an entry. A tree with merge operands is excluded, because they would
/// count twice.
fn replay_lost(names: &FileNames, state: &mut ManifestState, report: &mut NewStoreReport) -> Done {
    let lost: BTreeSet<TreeId> = report
        .losses
        .iter()
        .filter(|l| matches!(l.what, "data" | "table" | "value" | "tombstones"))
        .filter_map(|l| l.tree)
        .collect();
    let floor = names.unbroken_log()?;
    let is_wanted = |t: &TreeState| {
        lost.contains(&t.id) && floor < t.flushed && t.options.merge_operator.is_none()
    };
    if !state.trees.values().any(is_wanted) {
        return Ok(());
    }
    let mut merges = BTreeSet::new();
    let mut found: BTreeMap<TreeId, u64> = BTreeMap::new();
    let log = log_copy::each_op(names, floor, &mut |op| {
        *found.entry(op.tree).or_default() += 1;
        merges.extend(op.is_merge().then_some(op.tree));
    })?;
    if !log.losses.is_empty() || !log.counts || log.start > floor {
        return Ok(());
    }
    for t in state.trees.values_mut().filter(|t| is_wanted(t) && !merges.contains(&t.id)) {
        let Some(n) = found.get(&t.id) else { continue };
        t.flushed = floor;
        state.wal_floor = state.wal_floor.min(floor);
        report.notes.push(format!(
            "tree {:?}: the log still holds {}, older ones too: all of them are read again, since tables of the tree are lost",
            t.name,
            things(*n, "operation on it", "operations on it")
        ));
    }
    Ok(())
}

/// Copies the log, and limits the positions in `state` to its end. The engine refuses a log that
/// ends before a flushed position of a tree. The lost records cannot be restored, so the positions
/// move back to the end of the log, after which nothing is written yet. Returns the trees with
/// merge operands in the log.
fn copy_log(
    names: &FileNames,
    out: &Path,
    state: &mut ManifestState,
    report: &mut NewStoreReport,
) -> Done<BTreeSet<TreeId>> {
    let mut merges = BTreeSet::new();
    let known_seq = state.last_seq;
    let mut last_seq = state.last_seq;
    let log = log_copy::copy(names, Some(out), state.wal_floor, &mut |seq, _, payload| {
        let mut n = 0;
        for (tree, op) in OpReader::new(payload).flatten() {
            if matches!(op, Op::Point { kind: Kind::Merge, .. }) {
                merges.insert(tree);
            }
            n += 1;
        }
        last_seq = last_seq.max(seq.saturating_add(n.max(1)) - 1);
    })?;
    state.last_seq = last_seq;
    report.records = log.records;
    report.losses.extend_from_slice(&log.losses);
    report.notes.extend_from_slice(&log.notes);
    let end = if log.counts { log.end.max(state.wal_floor) } else { state.wal_floor };
    report_lost_end(names, state, &log, (end, known_seq), report)?;
    let file = |number| names.dir().join(segment_name(number));
    if log.counts && log.start > state.wal_floor {
        let missing = names.open_segment(log.first_number)?.header().map_or(0, |h| h.previous);
        let file = if missing > 0 { file(missing) } else { names.dir().to_path_buf() };
        let reason = "the log begins after the position from which it is needed: its first segments are missing";
        let len = log.start - state.wal_floor;
        report.losses.push(Loss { len, ..Loss::new("log", file, reason) });
        state.wal_floor = log.start;
    }
    // Only a guessed floor is inside a record. Reading must begin at the start of a record.
    state.wal_floor = log.before_floor.unwrap_or(state.wal_floor);
    for t in state.trees.values_mut() {
        t.flushed = t.flushed.min(end);
    }
    Ok(merges)
}

/// Reports records that are, or may be, missing after the `end` of the log. `known_seq` is the last
/// sequence number in the manifest.
fn report_lost_end(
    names: &FileNames,
    state: &ManifestState,
    log: &log_copy::CopiedLog,
    (end, known_seq): (u64, u64),
    report: &mut NewStoreReport,
) -> Done {
    report.unknown.extend(log_copy::foreign_predecessor(names)?);
    let flushed = state.trees.values().map(|t| t.flushed).max().unwrap_or(0);
    let lost_end = log_copy::lost_end(names)?.map(|n| names.dir().join(segment_name(n)));
    // This tool creates such a store if the log is lost.
    let has_no_log = names.live().is_some() && state.writers.is_empty();
    if flushed > end {
        let what =
            if log.any { "the log ends there, its end is missing" } else { "there is no log" };
        let reason = format!(
            "{what}, though it had reached position {flushed}; of the later writes, only those in tables are left"
        );
        report.losses.push(Loss {
            len: flushed - end,
            // Sequence numbers that tables and the manifest have but the log lacks. Some may be
            // in tables.
            entries: log.next_seq.map(|next| (known_seq + 1).saturating_sub(next)),
            ..Loss::new("log", lost_end.as_deref().unwrap_or(names.dir()), reason)
        });
    } else if let Some(file) = lost_end {
        report.losses.push(Loss::new("log", file, log_copy::LOST_END));
    } else if let Some(words) = log_copy::may_lack_end(names)? {
        report.unknown.push(words);
    } else if !log.any && !has_no_log {
        report
            .unknown
            .push("there is no log: the last writes that were not yet in a table are lost, and their number is unknown".into());
    }
    Ok(())
}

/// Copies the log, writes the manifest, updates the data model, and checks the result with the
/// engine.
///
/// # Errors
/// I/O errors; damage is no error.
pub fn finish_store(
    names: &FileNames,
    out: &Path,
    mut state: ManifestState,
    report: &mut NewStoreReport,
) -> Done {
    replay_lost(names, &mut state, report)?;
    let mut merges = copy_log(names, out, &mut state, report)?;
    merges.extend(state.trees.values().filter(|t| t.tables().any(|m| m.merges > 0)).map(|t| t.id));
    env().sync_dir(out)?;
    state.writers = wal::writers(&*env(), out)?;
    state.check().map_err(|e| e.context("the new store's state is not sound"))?;
    finish::write_manifest(out, &state)?;
    finish::set_tree_hooks(out, &mut state, &merges, report)?;
    if let Err(e) = finish::renew_records(out, &state, report) {
        report.unknown.push(format!(
            "whether indexes and records of the store are right: they could not be made anew: {e}"
        ));
    }
    for l in &mut report.losses {
        if let Some(t) = l.tree.and_then(|id| state.trees.get(&id)) {
            l.place = Some(FindingTree {
                tree: t.name.clone(),
                defined: report.definitions.of_tree(&t.name).cloned(),
            });
        }
    }
    let damaged_trees = report.losses.iter().filter_map(|l| l.tree).collect();
    report.unknown.extend(unlisted::describe_unlisted(names, out, &state, &damaged_trees)?);
    let f = check::check(out)?;
    report.read = f.read;
    report.verdict = f.all;
    Ok(())
}
