//! Writes a new store from the parts of an old one, for `salvage` of a store and for `repair`.
//!
//! Invariants: the old directory is only read. The new one did not exist or was empty. Its manifest
//! is written last, so that a partly written store is not taken for a complete one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_kv::internals::base::blob_ref::BlobFileMeta;
use firn_kv::internals::base::key::{Kind, Seq};
use firn_kv::internals::base::ops::{Op, OpReader, TreeId};
use firn_kv::internals::iterator::opener::table_path;
use firn_kv::internals::manifest::{CURRENT, ManifestState, RunState, TableMeta, TreeState};
use firn_kv::internals::sstable::{Table, WriterOptions};
use firn_kv::internals::wal::{SegmentReader, segment_name, segment_number};
use firn_kv::{Error, ErrorKind};
use firn_tools::io;
use firn_tools::output::{Done, Failure, Progress, bytes, things};
use firn_tools::shell;
use serde_json::{Value, json};

use crate::Screen;
use crate::check;
use crate::check::findings;
use crate::check::findings::{Finding, FindingPlace};
use crate::dump::text;
use crate::salvage::finish;
use crate::salvage::losses;
use crate::salvage::losses::Loss;
use crate::salvage::lost_values::{LostEntries, Missing, lessen};
use crate::salvage::rescue::{Rescued, options_of, rescue};
use crate::salvage::unlisted;
use crate::schema::definitions::Definitions;
use crate::store::blobs::{OldStore, StoreBlobs};
use crate::store::log_copy;
use crate::store::names::TreeNames;
use crate::store::target::{env, open_file};

/// Report about the new store.
#[derive(Default)]
pub struct NewStoreReport {
    /// Number of tables copied unchanged.
    pub copied: u64,
    /// Number of tables that could be saved only in part.
    pub rescued: u64,
    /// Number of blob files copied unchanged.
    pub value_files: u64,
    /// Number of entries in the new store's tables.
    pub entries: u64,
    /// Number of bytes of the new store's tables.
    pub bytes: u64,
    /// Number of copied log records.
    pub records: u64,
    /// Losses.
    pub losses: Vec<Loss>,
    /// Notes about the steps and about the result.
    pub notes: Vec<String>,
    /// Unknown facts about the data: it may be lost, or deleted data may be back.
    pub unknown: Vec<String>,
    /// Unknown options. Opening a tree with options sets them again.
    pub unset: Vec<String>,
    /// Indexes that the next opening rebuilds, because entries may be missing.
    pub rebuilt: Vec<String>,
    /// Definitions of the new store's trees.
    pub definitions: Definitions,
    /// Lost definitions restored from their copies: keys and values of records.
    pub restored: Vec<(Vec<u8>, Vec<u8>)>,
    /// Findings of the final check of the new store.
    pub verdict: Vec<Finding>,
    /// Number of entries that the engine read in the new store.
    pub read: u64,
}

/// Creates the directory of a new store, and calls `fill` to write the store. If that fails before
/// a store exists, removes the directory with its content.
///
/// # Errors
/// If the directory exists and is not empty; errors of `fill`.
pub fn make_in(out: &Path, fill: impl FnOnce() -> Done) -> Done {
    make_dir(out)?;
    fill().inspect_err(|_| {
        if !io::is_taken(&out.join(CURRENT)) {
            // Report the original error, not an error of the removal.
            let _ = io::remove_tree(out);
        }
    })
}

fn make_dir(out: &Path) -> Done {
    let env = env();
    if env.list(out).is_ok_and(|names| !names.is_empty()) || io::is_file(out) {
        return Err(Failure::with_next(
            format!("{} is there and not empty", out.display()),
            "name a new directory with --out",
        ));
    }
    Ok(env.create_dir_all(out)?)
}

/// Copies a file durably.
///
/// # Errors
/// I/O errors.
pub fn copy_file(from: &Path, to: &Path) -> firn_kv::Result<()> {
    let env = env();
    let file = env.open_read(from, false)?;
    let mut out = env.create(to)?;
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while at < file.len() {
        let n = (file.len() - at).min(buffer.len() as u64) as usize;
        file.read_at(at, &mut buffer[..n])?;
        out.append(&buffer[..n])?;
        at += n as u64;
    }
    out.sync()
}

/// A table of the new store, and how it was made.
pub enum TakenNames {
    /// It was sound and has been copied.
    Whole(Arc<Table>),
    /// Part of it could be saved.
    Part(Arc<Table>, Rescued),
    /// Nothing of it could be saved.
    Nothing(Rescued),
}

impl TakenNames {
    /// Returns the new table.
    pub fn table(&self) -> Option<&Arc<Table>> {
        match self {
            TakenNames::Whole(t) | TakenNames::Part(t, _) => Some(t),
            TakenNames::Nothing(_) => None,
        }
    }
}

/// Takes table `id` from the file `from` into `out`. Copies it if it is sound and all its blobs in
/// `files` are; otherwise saves its readable entries. `seq` is the sequence number of an ingested
/// table.
///
/// # Errors
/// `NotFound` if the file is missing; `Incompatible`; I/O errors. Damage is no error.
pub fn take(
    from: &Path,
    out: &Path,
    id: u64,
    seq: Seq,
    fallback: &WriterOptions,
    files: &StoreBlobs<'_>,
) -> firn_kv::Result<TakenNames> {
    let to = table_path(out, id);
    let file = env().open_read(from, false)?;
    let sound = open_file(file, from, id, seq).and_then(|t| {
        t.verify(None, |_| {})?;
        files.has_all_of(&t)
    });
    match sound {
        Ok(true) => {
            copy_file(from, &to)?;
            return Ok(TakenNames::Whole(open_file(env().open_read(&to, false)?, &to, id, seq)?));
        }
        Err(e) if e.kind() != ErrorKind::Corruption => return Err(e),
        _ => {}
    }
    let r = rescue(from, id, &to, id, fallback, Some(files))?;
    match &r.facts {
        Some(_) => Ok(TakenNames::Part(open_file(env().open_read(&to, false)?, &to, id, seq)?, r)),
        None => Ok(TakenNames::Nothing(r)),
    }
}

/// Copies the blob files to which tables of `runs` refer.
///
/// # Errors
/// I/O errors.
pub fn take_values(
    files: &StoreBlobs<'_>,
    out: &Path,
    runs: &[Arc<RunState>],
    report: &mut NewStoreReport,
) -> firn_kv::Result<BTreeMap<u64, Arc<BlobFileMeta>>> {
    let tables = runs.iter().flat_map(|r| &r.tables);
    let used: BTreeSet<u64> = tables.flat_map(|t| &t.values).map(|u| u.file).collect();
    let mut all = BTreeMap::new();
    for id in used {
        copy_file(&files.path(id), &table_path(out, id))?;
        let facts = files.facts(id)?;
        report.value_files += 1;
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
pub fn recover(
    missing: Missing<'_>,
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
    lessen(&mut report.losses, from, &found.live, missing.lost);
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

/// Reports whether the error means that the system cannot read `from`. Other files may still be
/// readable.
pub fn is_unreadable(e: &Error, from: &Path) -> bool {
    e.kind() == ErrorKind::Io && e.file() == Some(from)
}

/// Returns the loss of a file that cannot be read.
pub fn unreadable(e: &Error, from: &Path) -> Loss {
    Loss {
        file: from.to_path_buf(),
        offset: e.offset(),
        len: 0,
        what: "table",
        reason: format!(
            "{}; make the file readable, or copy what can be read of it to a place that is, and try again",
            e.message()
        ),
        entries: None,
        keys: None,
        tree: None,
        place: None,
    }
}

/// Returns the manifest's metadata of a table, from the table's properties. Fields that only the
/// old manifest knows come from `was`.
pub fn meta_of(t: &Table, was: Option<&TableMeta>) -> TableMeta {
    let p = t.properties();
    let mut facts = p.facts(t.id(), t.identity(), t.size());
    let ingested_seq = was.map_or(0, |m| m.ingested_seq);
    if ingested_seq > 0 {
        (facts.min_seq, facts.max_seq) = (ingested_seq, ingested_seq);
    }
    TableMeta {
        facts,
        created_micros: was.map_or(p.created_micros, |m| m.created_micros),
        newest_micros: was.map_or(p.created_micros, |m| m.newest_micros),
        ingested_seq,
    }
}

impl NewStoreReport {
    /// Adds notes about files under wrong names.
    pub fn tell(&mut self, names: &TreeNames) {
        for t in names.told() {
            let file = t.error.file().unwrap_or(Path::new("")).display();
            let is_segment = t.error.file().is_some_and(|f| segment_number(&name(f)).is_some());
            let read = match t.read {
                Some(_) => ": it has been read as such",
                None if t.foreign => {
                    ": left out (`sstable-dump repair --without-manifest` takes it all the same)"
                }
                None => "",
            };
            let words = format!("{file}: {}{read}", t.error.message());
            // If a table should be in this place, it will be reported as lost.
            let says = if t.foreign && is_segment { &mut self.unknown } else { &mut self.notes };
            says.push(words);
        }
        self.notes.extend(names.strays());
    }

    /// Reports whether the new store certainly has all data of the old one.
    pub fn is_whole(&self) -> bool {
        self.losses.is_empty() && self.unknown.is_empty()
    }

    /// Reports whether data of this tree may be lost: part of its tables or of the log, or by a
    /// fact that is unknown.
    pub fn may_have_lost(&self, tree: Option<TreeId>) -> bool {
        !self.unknown.is_empty()
            || !self.unset.is_empty()
            || self.losses.iter().any(|l| l.tree.is_none() || l.tree == tree)
    }

    /// Adds the result of taking over a table.
    pub fn note(&mut self, taken: &TakenNames, path: &Path) {
        let (table, part) = match taken {
            TakenNames::Whole(t) => {
                self.copied += 1;
                (Some(t), None)
            }
            TakenNames::Part(t, r) => {
                self.rescued += 1;
                (Some(t), Some(r))
            }
            TakenNames::Nothing(r) => (None, Some(r)),
        };
        if let Some(t) = table {
            self.entries += t.properties().entries;
            self.bytes += t.size();
        }
        if let Some(r) = part {
            self.losses.extend(r.losses.iter().cloned());
            let anew = if r.rebuilt.is_empty() {
                String::new()
            } else {
                format!("; made anew: {}", r.rebuilt.join(", "))
            };
            self.notes.push(format!("{}: {}{anew}", path.display(), r.summary()));
            self.notes.extend(r.notes.iter().map(|n| format!("{}: {n}", path.display())));
        }
    }
}

/// Returns the missing entries of a table in the manifest, from its losses.
fn lost_of(m: &TableMeta, path: &Path, losses: &[Loss]) -> Option<LostEntries> {
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
    let OldStore { names, dir, out, files } = old;
    let mut lost = vec![];
    let fallback = options_of(tree.id, &tree.options);
    let mut runs = vec![];
    let before = report.losses.len();
    for run in &tree.runs {
        let mut tables = vec![];
        for m in &run.tables {
            let path = names.table(m.id).unwrap_or_else(|| table_path(dir, m.id));
            let so_far = report.losses.len();
            let taken = match names.table(m.id) {
                Some(path) if io::not_a_file(&path).is_some() => {
                    Err(Error::new(ErrorKind::NotFound, "what has its name is no file")
                        .in_file(path))
                }
                Some(path) => take(&path, out, m.id, m.ingested_seq, &fallback, files),
                None => Err(Error::new(ErrorKind::NotFound, "under this name is another table")),
            };
            match taken {
                Ok(mut taken) => {
                    if let TakenNames::Part(_, r) | TakenNames::Nothing(r) = &mut taken {
                        r.count_losses(m);
                    }
                    report.note(&taken, &path);
                    tables.extend(taken.table().map(|t| Arc::new(meta_of(t, Some(m)))));
                }
                Err(e) if e.kind() == ErrorKind::NotFound => report.losses.push(lost_table(
                    path.clone(),
                    &match names.table(m.id).map(|path| io::not_a_file(&path)) {
                        Some(Some(other)) => format!("{other} has its name, and it is not found"),
                        Some(None) => "the file is missing".to_owned(),
                        None => "another table has its name, and it is not found".to_owned(),
                    },
                    Some(m),
                )),
                Err(e) if is_unreadable(&e, &path) => report.losses.push(Loss {
                    entries: Some(m.entries),
                    keys: Some((m.first_key.clone(), m.last_key.clone())),
                    ..unreadable(&e, &path)
                }),
                Err(e) => return Err(e.into()),
            }
            lost.extend(lost_of(m, &path, &report.losses[so_far..]));
            at(m.size);
        }
        if !tables.is_empty() {
            runs.push(Arc::new(RunState { tables, level: run.level, number: run.number }));
        }
    }
    report.losses[before..].iter_mut().for_each(|l| l.tree = Some(tree.id));
    let taken = TreeState { runs, ..tree.clone() };
    let missing = Missing {
        old,
        tree: &taken,
        uses: tree.uses().into_iter().collect(),
        lost: &lost,
        floor,
        store,
    };
    let runs = recover(missing, next_file, before, report)?;
    let values = take_values(files, out, &runs, report)?;
    values.values().for_each(|v| at(v.size));
    Ok(TreeState { runs, values: values.into_iter().collect(), ..taken })
}

/// Takes over all tables that `state` names, then calls [`finish()`].
///
/// # Errors
/// I/O errors; damage is no error.
pub fn write(
    names: &mut TreeNames,
    dir: &Path,
    out: &Path,
    mut state: ManifestState,
    report: &mut NewStoreReport,
) -> Done {
    names.fit(Some(&state))?;
    report.tell(names);
    for e in names.hide_strangers(&state)? {
        let reason = format!(
            "{}: left out (`sstable-dump repair --without-manifest` takes it all the same)",
            e.message()
        );
        let file = e.file().unwrap_or(dir).to_path_buf();
        let (offset, len, entries, keys) = (None, 0, None, None);
        report.losses.push(Loss {
            tree: None,
            place: None,
            file,
            offset,
            len,
            what: "log",
            reason,
            entries,
            keys,
        });
    }
    let trees = || state.trees.values();
    let total = trees().flat_map(TreeState::tables).map(|t| t.size).sum::<u64>()
        + trees().flat_map(|t| t.values.values()).map(|v| v.size).sum::<u64>();
    let progress = Progress::bytes("salvage", Some(total));
    let mut done = 0;
    let files = &StoreBlobs::told_by(names, dir, &state);
    let old = OldStore { names, dir, out, files };
    let known = (state.wal_floor, state.id);
    for tree in state.trees.values_mut() {
        *tree = take_tree(old, tree, known, &mut state.next_file, report, &mut |n| {
            done += n;
            progress.at(done);
        })?;
    }
    finish(names, dir, out, state, report)
}

/// Returns the loss of a missing table.
pub fn lost_table(file: PathBuf, reason: &str, m: Option<&TableMeta>) -> Loss {
    Loss {
        tree: None,
        place: None,
        file,
        offset: None,
        len: m.map_or(0, |m| m.size),
        what: "table",
        reason: reason.into(),
        entries: m.map(|m| m.entries),
        keys: m.map(|m| (m.first_key.clone(), m.last_key.clone())),
    }
}

/// Returns the loss of a log segment that belongs to another store.
pub fn foreign_segment(file: PathBuf, words: &str) -> Loss {
    lost_log(file, 0, words.into(), None)
}

fn lost_log(file: PathBuf, len: u64, reason: String, entries: Option<u64>) -> Loss {
    Loss {
        tree: None,
        place: None,
        file,
        offset: None,
        len,
        what: "log",
        reason,
        entries,
        keys: None,
    }
}

/// Replays more of the log for trees with lost table entries, if older segments still exist. Their
/// records are newer than the remaining entries, or equal. A log with holes is excluded, because it
/// may lack the replacement of an entry. A tree with merge operands is excluded, because they would
/// count twice.
fn replay_lost(
    names: &TreeNames,
    dir: &Path,
    state: &mut ManifestState,
    report: &mut NewStoreReport,
) -> Done {
    let lost: BTreeSet<TreeId> = report
        .losses
        .iter()
        .filter(|l| matches!(l.what, "data" | "table" | "value" | "tombstones"))
        .filter_map(|l| l.tree)
        .collect();
    let floor = log_copy::unbroken(names, dir)?;
    let is_wanted =
        |t: &TreeState| lost.contains(&t.id) && floor < t.flushed && t.options.merge.is_none();
    if !state.trees.values().any(is_wanted) {
        return Ok(());
    }
    let mut merges = BTreeSet::new();
    let mut found: BTreeMap<TreeId, u64> = BTreeMap::new();
    let log = log_copy::copy(names, dir, None, floor, &mut |_, _, payload| {
        for (tree, op) in OpReader::new(payload).flatten() {
            *found.entry(tree).or_default() += 1;
            if matches!(op, Op::Point { kind: Kind::Merge, .. }) {
                merges.insert(tree);
            }
        }
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
/// move back to the end of the log, after which nothing is written yet.
fn take_log(
    names: &TreeNames,
    dir: &Path,
    out: &Path,
    state: &mut ManifestState,
    report: &mut NewStoreReport,
) -> Done<BTreeSet<TreeId>> {
    let mut merges = BTreeSet::new();
    let known_seq = state.last_seq;
    let mut last_seq = state.last_seq;
    let log = log_copy::copy(names, dir, Some(out), state.wal_floor, &mut |seq, _, payload| {
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
    report.losses.extend(log.losses);
    report.notes.extend(log.notes);
    let flushed = state.trees.values().map(|t| t.flushed).max().unwrap_or(0);
    let end = if log.counts { log.end.max(state.wal_floor) } else { state.wal_floor };
    let lost_end = log_copy::lost_end(names, dir)?;
    // This tool creates such a store if the log is lost.
    let has_no_log = names.live().is_some() && state.writers.is_empty();
    report.unknown.extend(log_copy::mixed(names, dir)?);
    if flushed > end {
        let file = lost_end.map_or_else(|| dir.to_path_buf(), |n| dir.join(segment_name(n)));
        // Sequence numbers that tables and the manifest have but the log lacks. Some may be in
        // tables.
        let most = log.next_seq.map(|next| (known_seq + 1).saturating_sub(next));
        let what =
            if log.any { "the log ends there, its end is missing" } else { "there is no log" };
        let reason = format!(
            "{what}, though it had reached position {flushed}; of the later writes, only those in tables are left"
        );
        report.losses.push(lost_log(file, flushed - end, reason, most));
    } else if let Some(n) = lost_end {
        report.losses.push(lost_log(dir.join(segment_name(n)), 0, log_copy::LOST_END.into(), None));
    } else if let Some(words) = log_copy::may_go_on(names, dir)? {
        report.unknown.push(words);
    } else if !log.any && !has_no_log {
        report
            .unknown
            .push("there is no log: the last writes that were not yet in a table are lost, and their number is unknown".into());
    }
    if log.counts && log.start > state.wal_floor {
        let words = "the log begins after the position from which it is needed: its first segments are missing";
        let missing =
            SegmentReader::open(names, dir, log.first_number)?.header().map_or(0, |h| h.previous);
        let file = if missing > 0 { dir.join(segment_name(missing)) } else { dir.to_path_buf() };
        report.losses.push(lost_log(file, log.start - state.wal_floor, words.into(), None));
        state.wal_floor = log.start;
    }
    // Only a guessed floor is inside a record. Reading must begin at the start of a record.
    state.wal_floor = log.before_floor.unwrap_or(state.wal_floor);
    for t in state.trees.values_mut() {
        t.flushed = t.flushed.min(end);
    }
    Ok(merges)
}

/// Copies the log, writes the manifest, updates the data model, and checks the result with the
/// engine.
///
/// # Errors
/// I/O errors; damage is no error.
pub fn finish(
    names: &TreeNames,
    dir: &Path,
    out: &Path,
    mut state: ManifestState,
    report: &mut NewStoreReport,
) -> Done {
    replay_lost(names, dir, &mut state, report)?;
    let mut merges = take_log(names, dir, out, &mut state, report)?;
    merges.extend(state.trees.values().filter(|t| t.tables().any(|m| m.merges > 0)).map(|t| t.id));
    env().sync_dir(out)?;
    state.writers = firn_kv::internals::wal::writers(&*env(), out)?;
    state.check().map_err(|e| e.context("the new store's state is not sound"))?;
    finish::write_manifest(out, &state)?;
    finish::trees(out, &mut state, &merges, report)?;
    if let Err(e) = finish::records(out, &state, report) {
        report.unknown.push(format!(
            "whether indexes and records of the store are right: they could not be made anew: {e}"
        ));
    }
    for l in &mut report.losses {
        if let Some(t) = l.tree.and_then(|id| state.trees.get(&id)) {
            l.place = Some(FindingPlace {
                tree: t.name.clone(),
                defined: report.definitions.of_tree(&t.name).cloned(),
            });
        }
    }
    let lossy = report.losses.iter().filter_map(|l| l.tree).collect();
    report.unknown.extend(unlisted::in_words(names, dir, out, &state, &lossy)?);
    let f = check::check(out)?;
    report.read = f.read;
    report.verdict = f.all;
    Ok(())
}

/// Prints the saved data and the losses. Returns [`Failure::Found`] if there are losses, another
/// failure if the new store is not sound.
///
/// # Errors
/// As described above; errors of the output.
pub fn print(screen: &mut Screen<'_>, dir: &Path, out: &Path, r: &NewStoreReport) -> Done {
    let style = screen.style;
    if screen.json {
        let v = json!({
            "from": dir.display().to_string(), "to": out.display().to_string(), "tables_copied": r.copied, "tables_rescued": r.rescued,
            "value_files": r.value_files,
            "entries": r.entries, "bytes": r.bytes, "log_records": r.records, "notes": r.notes,
            "unknown": r.unknown.iter().chain(&r.unset).collect::<Vec<_>>(),
            "losses": r.losses.iter().map(Loss::json).collect::<Vec<Value>>(), "indexes_to_rebuild": r.rebuilt,
            "sound": r.verdict.is_empty(), "read": r.read, "errors": r.verdict.iter().map(Finding::json).collect::<Vec<_>>(),
        });
        writeln!(screen.out, "{v:#}")?;
    } else {
        let log = if r.records > 0 {
            format!(", {} of the log", things(r.records, "record", "records"))
        } else {
            String::new()
        };
        let values = match r.value_files {
            0 => String::new(),
            n => format!(", {}", things(n, "blob file", "blob files")),
        };
        writeln!(
            screen.out,
            "{}: {} whole and {} in part{values}, {}, {}{log}",
            out.display(),
            things(r.copied, "table", "tables"),
            r.rescued,
            things(r.entries, "entry", "entries"),
            bytes(r.bytes)
        )?;
        print_losses(screen, &r.losses)?;
        for index in &r.rebuilt {
            writeln!(
                screen.out,
                "to be built anew: {index}: it may lack entries, and is built when the store is opened next"
            )?;
        }
        for n in &r.notes {
            writeln!(screen.out, "note: {n}")?;
        }
        for u in r.unknown.iter().chain(&r.unset) {
            writeln!(screen.out, "{} {u}", style.bad("not known:"))?;
        }
        if r.verdict.is_empty() {
            let read = things(r.read, "pair", "pairs");
            writeln!(
                screen.out,
                "the new store has been checked: {}; the engine opened it and read {read}",
                style.good("sound")
            )?;
        } else {
            findings::print_findings(screen, out, &r.verdict)?;
        }
    }
    if !r.verdict.is_empty() {
        let here = shell::path(dir);
        return Err(Failure::with_next(
            format!("{}: the new store is NOT sound, see above; keep the old one", out.display()),
            format!(
                "`sstable-dump repair {here} --out OTHER --without-manifest` goes by the tables and the log alone"
            ),
        ));
    }
    if r.is_whole() { Ok(()) } else { Err(Failure::Found) }
}

/// Prints losses and their meaning.
///
/// # Errors
/// If the output cannot be written.
pub fn print_losses(screen: &mut Screen<'_>, losses: &[Loss]) -> Done {
    if losses.is_empty() {
        return Ok(writeln!(screen.out, "{}", screen.style.good("nothing is lost"))?);
    }
    let known: u64 = losses.iter().filter(|l| l.what != "log").filter_map(|l| l.entries).sum();
    let all_known = losses.iter().all(|l| l.entries.is_some());
    let ops: u64 = losses.iter().filter(|l| l.what == "log").filter_map(|l| l.entries).sum();
    let mut parts = vec![];
    if known > 0 {
        parts.push(things(known, "entry", "entries"));
    }
    if ops > 0 {
        parts.push(format!("{} of the log", things(ops, "operation", "operations")));
    }
    if !all_known {
        parts.push("an unknown number more".into());
    }
    writeln!(
        screen.out,
        "{} {}",
        screen.style.bad("lost:"),
        if parts.is_empty() { "nothing that counts".into() } else { parts.join(" and ") }
    )?;
    losses::print_losses(screen, losses)?;
    let keys = losses.iter().any(|l| l.keys.is_some());
    if keys {
        writeln!(
            screen.out,
            "  a read of these keys now finds the entries of older tables, even if the lost entry had deleted or replaced them"
        )?;
    }
    Ok(())
}

/// Returns a path as it is shown in messages.
pub fn name(path: &Path) -> String {
    path.file_name().map_or_else(
        || text::key(path.as_os_str().as_encoded_bytes()),
        |n| PathBuf::from(n).display().to_string(),
    )
}
