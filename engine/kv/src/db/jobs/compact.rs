//! Runs compactions: executes the job that the policy picks, and installs its tables.
//!
//! Invariants:
//! - The shape is read and the job's inputs are marked busy in one step, so two jobs never hold one
//!   table.
//! - A job's inputs stay live until its outputs are in the manifest. Their files are removed when
//!   the last reader releases them.
//! - A compaction that runs in steps holds the inputs of all steps, and their outputs, until the
//!   last step is done.
//! - A tree is not compacted while its hooks are missing, because its versions could not be folded.

use std::collections::HashSet;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use crate::base::blob_ref::BlobFileMeta;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::events::Event;
use crate::base::hooks::CompactionFilterContext;
use crate::base::key::Seq;
use crate::base::ops::TreeId;
use crate::base::options::{FilterAllocation, TreeOptions};
use crate::compaction::{
    Action, CompactionInput, CompactionJob, CompactionReason, LsmShape, fits, marks_of_each,
    merged_bits, steps,
};
use crate::db::jobs::install;
use crate::db::jobs::pick;
use crate::db::jobs::subcompactions;
use crate::db::observe::Observer;
use crate::iterator::merging::MergeSource;
use crate::iterator::run::{TableRun, tables_of};
use crate::iterator::run_cursor::RunCursor;
use crate::iterator::table_handle::TableHandle;
use crate::iterator::visible::VisibleRange;
use crate::manifest::TableMeta;
use crate::range_del::tombstone::Fragments;
use crate::rewrite::job::{CompactionOutputs, run, unite};
use crate::rewrite::retain::{OlderRuns, OtherRuns, Rules};
use crate::util::nested::nested;
use crate::util::sort::sort_by;
use crate::wal::Lsn;

use crate::db::inner::DbInner;
use crate::db::jobs::install::VersionChange;
use crate::db::jobs::outputs::{PendingOutputs, meta, remove_tables};
use crate::db::jobs::subcompactions::{DividedJob, During, divide};
use crate::db::memory::budget::JobBuffers;
use crate::db::observe::meters::LatencyOp;
use crate::db::observe::pins::{PinKind, PinnedTask};
use crate::db::scheduler::throttle::Account;
use crate::db::versions::tree::{Holder, TreeFiles, TreeInner};
use crate::db::versions::view::{TreeVersion, TreeView};

/// Result of a job.
#[derive(Default)]
struct Ran {
    /// Bytes of table files read and written.
    read: u64,
    written: u64,
    /// Entries of the tables read and of those written.
    entries_in: u64,
    entries_out: u64,
    /// Number of blocks copied without decoding.
    copied: u64,
    /// Ids of input tables.
    removed: Vec<u64>,
    /// Ids of tables written or moved.
    tables: Vec<u64>,
    /// Number of subcompactions.
    pieces: usize,
}

/// Step of a compaction that runs in several, or a whole job.
struct ClaimedStep {
    job: CompactionJob,
    /// Maximum bytes that this step or a later one writes.
    most: u64,
    /// Fingerprint bits of the filters of all steps' outputs, if runs share filter memory.
    filter_bits: Option<f64>,
}

/// Job with the tables that it holds; for a job in steps, one step.
pub struct Claimed {
    tree: Arc<TreeInner>,
    job: CompactionJob,
    /// All steps, and the index of this one.
    steps: Arc<[ClaimedStep]>,
    at: usize,
    /// Parts of the step that rewrite tables.
    parts: Vec<CompactionJob>,
    version: Arc<TreeVersion>,
    options: Arc<TreeOptions>,
    task: Arc<PinnedTask>,
    holder: Holder,
}

/// Tables that are marked busy, until this is dropped.
pub struct BusyTables<'a> {
    pub tree: &'a TreeInner,
    pub ids: Vec<u64>,
}

impl Drop for BusyTables<'_> {
    fn drop(&mut self) {
        let mut files = self.tree.files.lock();
        for t in &self.ids {
            files.busy.remove(t);
            files.merging.remove(t);
        }
    }
}

/// Marks a compaction as running, until this is dropped.
struct CompactionUnderWay<'a> {
    inner: &'a DbInner,
    tree: TreeId,
}

impl Drop for CompactionUnderWay<'_> {
    fn drop(&mut self) {
        self.inner.scheduler.queue().end_compaction();
        self.inner.scheduler.queue().recheck([self.tree]);
        self.inner.scheduler.queue().signal_done();
    }
}

/// Subcompaction: the share of a part of a job that one thread does.
struct SubcompactionInput {
    part: usize,
    inputs: Vec<Arc<TableRun>>,
    range: VisibleRange,
    /// Range deletions of the inputs.
    tombstones: Arc<Fragments>,
    /// Approximate bytes and entries of the inputs within the range.
    bytes: u64,
    entries: u64,
}

/// Returns the ids of a job's input tables.
fn inputs_of(job: &CompactionJob) -> impl Iterator<Item = u64> {
    nested(&job.inputs, |i| &i.tables).copied()
}

/// Returns the fingerprint bits for a compaction's outputs, if runs share filter memory.
fn shared_bits(options: &TreeOptions, shape: &LsmShape, job: &CompactionJob) -> Option<f64> {
    let usual = |level: u8| options.filter_at(level.into()).bits().into();
    match options.filter_allocation {
        FilterAllocation::ByLevel => None,
        FilterAllocation::Monkey => Some(merged_bits(&shape.runs, job, &usual)),
    }
}

impl Claimed {
    fn change(
        &self,
        removed: Vec<u64>,
        added: Vec<(u8, u64, TableMeta)>,
        values: Vec<BlobFileMeta>,
    ) -> VersionChange<'_> {
        VersionChange { tree: &self.tree, removed, added, values, flushed: None }
    }
}

/// Claims the most urgent job of a tree and marks its tables busy. Also returns `None` when the
/// job has to wait for space until another is done.
pub fn claim(db: &DbInner, tree: &Arc<TreeInner>) -> Result<Option<Arc<Claimed>>> {
    let mut is_custom = false;
    let claimed = claim_by(db, tree, Holder::Background, |options, shape, merging| {
        is_custom = options.custom_policy.is_some();
        Ok(pick::pick_compaction(&db.versions, options, shape)
            .filter(|job| fits(options.active_policy(), shape, merging, job)))
    });
    if is_custom {
        pick::report_policy(&db.observer, tree);
    }
    claimed
}

/// Claims the job that `choose` returns, and marks its tables busy for the holder. `choose`
/// gets the marked shape and the sizes of running compactions.
pub fn claim_by(
    db: &DbInner,
    tree: &Arc<TreeInner>,
    holder: Holder,
    choose: impl FnOnce(&TreeOptions, &LsmShape, &[u64]) -> Result<Option<CompactionJob>>,
) -> Result<Option<Arc<Claimed>>> {
    if tree.is_dropped() || !tree.is_hooked() {
        return Ok(None);
    }
    let mut files = tree.files.lock();
    let view = tree.view.load_full();
    let shape = pick::tree_shape(db, &view, &files);
    let merging: Vec<u64> = files.merging.values().copied().collect();
    let Some(job) = choose(&view.options, &shape, &merging)? else { return Ok(None) };
    if let Err(words) = job.check(&shape) {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            format!("the policy chose a job that is not sound: {words}"),
        ));
    }
    if job.reason == CompactionReason::ReadTriggered {
        tree.read_debt.spend(job.rewritten(&shape));
    }
    // Counted before other threads see the tables as busy, so that the tree never looks idle in
    // between.
    db.scheduler.queue().begin_compaction();
    // Computed for the job as a whole: the outputs of its steps become one run.
    let merges = job.action == Action::Merge;
    let filter_bits = merges.then(|| shared_bits(&view.options, &shape, &job)).flatten();
    let mut steps: Vec<ClaimedStep> = steps(view.options.active_policy(), &shape, job)
        .into_iter()
        .map(|job| ClaimedStep { most: job.rewritten(&shape), job, filter_bits })
        .collect();
    let mut most = 0;
    for step in steps.iter_mut().rev() {
        most = most.max(step.most);
        step.most = most;
    }
    for step in &steps {
        files.busy.extend(inputs_of(&step.job).map(|id| (id, holder)));
    }
    Ok(begin_step(&db.observer, tree, holder, &view, &shape, &mut files, (steps.into(), 0)))
}

/// Begins step `at`, whose tables are held already. While it runs, the larger of its output and
/// that of later steps counts as being compacted, because there must be space for it.
fn begin_step(
    observer: &Observer,
    tree: &Arc<TreeInner>,
    holder: Holder,
    view: &TreeView,
    shape: &LsmShape,
    files: &mut TreeFiles,
    (steps, at): (Arc<[ClaimedStep]>, usize),
) -> Option<Arc<Claimed>> {
    let ClaimedStep { job, most, filter_bits } = steps.get(at)?;
    if let (true, Some(first)) = (*most > 0, inputs_of(job).next()) {
        files.merging.insert(first, *most);
    }
    let job = job.clone();
    let (version, options) = (view.version.clone(), view.options.clone());
    let tables = version.tables().cloned().collect();
    let task = observer.pins().begin(
        PinKind::Compaction,
        Some((tree.id, &tree.name)),
        job.to_string(),
        tables,
    );
    if let Some(bits) = *filter_bits {
        task.filter_bits(|| bits);
    }
    let parts = job.parts(shape);
    let tree = tree.clone();
    Some(Arc::new(Claimed { tree, job, steps, at, parts, version, options, task, holder }))
}

/// Runs a job with all its steps, and releases its tables, also in a panic. Every claimed job
/// must be passed to it. Returns false when another job conflicts with a step. Then this step
/// and the later ones are skipped, and the tree may need another job.
pub fn run_job(db: &DbInner, claimed: Arc<Claimed>, during: &mut During<'_>) -> Result<bool> {
    let tree = claimed.tree.clone();
    let ids = claimed.steps.iter().flat_map(|s| inputs_of(&s.job)).collect();
    // The job counts as running until its tables are released.
    let _running = CompactionUnderWay { inner: db, tree: tree.id };
    let mut busy = BusyTables { tree: &tree, ids };
    run_steps(db, claimed, &mut busy.ids, during)
}

/// Runs a step and those after it. Their outputs are added to `held`, so that no job mistakes
/// an incomplete run for a small one. Returns false when a step cannot run now. A job that took
/// tables in a gap between the tables of this compaction may be running in its range.
fn run_steps(
    db: &DbInner,
    mut step: Arc<Claimed>,
    held: &mut Vec<u64>,
    during: &mut During<'_>,
) -> Result<bool> {
    loop {
        let made = run_step(db, &step, during)?;
        let (tree, holder) = (step.tree.clone(), step.holder);
        let (steps, at) = (step.steps.clone(), step.at + 1);
        let Some(ClaimedStep { job: next, .. }) = steps.get(at) else { return Ok(true) };
        let merged = inputs_of(&step.job).next();
        // A thread that holds the old version holds the files of the merged tables.
        drop(step);
        tree.check_live()?;
        let mut files = tree.files.lock();
        let view = tree.view.load_full();
        merged.iter().for_each(|first| _ = files.merging.remove(first));
        for id in made {
            if let Entry::Vacant(free) = files.busy.entry(id) {
                free.insert(holder);
                held.push(id);
            }
        }
        let mut shape = pick::tree_shape(db, &view, &files);
        shape.set_busy(next, false);
        if next.check(&shape).is_err() {
            return Ok(false);
        }
        match begin_step(
            &db.observer,
            &tree,
            holder,
            &view,
            &shape,
            &mut files,
            (steps.clone(), at),
        ) {
            Some(next) => step = next,
            None => return Ok(true),
        }
    }
}

/// Runs one step. Returns the tables that it wrote or moved.
fn run_step(db: &DbInner, claimed: &Arc<Claimed>, during: &mut During<'_>) -> Result<Vec<u64>> {
    let from = db.observer.meters().now();
    let (tree, job) = (|| claimed.tree.name.clone(), || claimed.job.to_string());
    db.observer.note(|| Event::CompactionBegun {
        tree: tree(),
        job: job(),
        reason: claimed.job.reason.name(),
        inputs: inputs_of(&claimed.job).collect(),
        bytes_in: claimed.inputs(&claimed.job).iter().map(|r| r.size()).sum(),
        level: claimed.job.output_level,
    });
    let done = db.gate.acquire_permit().and_then(|_permit| match claimed.job.action {
        Action::Merge => merge_job(db, claimed, during),
        Action::Move => move_job(db, claimed),
        Action::Drop => drop_job(db, claimed),
    });
    if let Err(e) = &done {
        db.observer.note(|| Event::CompactionFailed { tree: tree(), job: job(), error: e.clone() });
    }
    let ran = done?;
    let nanos = db.env.monotonic_nanos().saturating_sub(from);
    if claimed.job.action == Action::Merge {
        db.observer.meters().record(LatencyOp::Compaction, nanos);
    }
    db.observer.counters().compacted(claimed.job.action, ran.read, ran.written, nanos);
    let tables = ran.tables.clone();
    db.observer.note(|| {
        let (runs, bytes) = claimed.tree.view.load_full().version.extent();
        Event::CompactionEnded {
            tree: tree(),
            job: job(),
            reason: claimed.job.reason.name(),
            bytes_in: ran.read,
            bytes_out: ran.written,
            blocks_copied: ran.copied,
            entries_in: ran.entries_in,
            entries_out: ran.entries_out,
            level: claimed.job.output_level,
            removed: ran.removed,
            tables: ran.tables,
            subcompactions: ran.pieces,
            micros: nanos / 1000,
            runs,
            bytes,
        }
    });
    Ok(tables)
}

fn merge_job(db: &DbInner, c: &Arc<Claimed>, during: &mut During<'_>) -> Result<Ran> {
    let inputs: Vec<Vec<Arc<TableRun>>> = c.parts.iter().map(|part| c.inputs(part)).collect();
    let all: Vec<&Arc<TableHandle>> = inputs.iter().flat_map(|runs| tables_of(runs)).collect();
    let mut ran = Ran {
        read: all.iter().map(|t| t.meta.size).sum(),
        entries_in: all.iter().map(|t| t.meta.entries).sum(),
        ..Ran::default()
    };
    let newest =
        |of: &[Arc<TableRun>]| tables_of(of).map(|t| t.meta.newest_micros).max().unwrap_or(0);
    let newest: Vec<u64> = inputs.iter().map(|of| newest(of)).collect();
    let (claimed, snapshots) = (c.clone(), db.versions.snapshots().list());
    let oldest = snapshots.first().copied();
    let mut pieces = vec![];
    for (part, inputs) in inputs.into_iter().enumerate() {
        divide_part(db, c, part, inputs, &snapshots, &mut pieces)?;
    }
    ran.pieces = pieces.len();
    let newest: Vec<u64> = pieces.iter().map(|p| newest[p.part]).collect();
    let job = DividedJob::Merge(c.holder);
    let made =
        subcompactions::run_divided(db, pieces.len(), job, during, move |inner, i, during| {
            merge_piece(inner, &claimed, &pieces[i], &snapshots, during)
        });
    let made = made
        .and_then(|made| db.env.sync_dir(db.versions.dir()).map(|()| made))
        .inspect_err(|_| remove_tables(db, &c.task.created()))?;
    let now = db.env.wall_micros();
    let (mut tables, mut values) = (c.adopted(), vec![]);
    for (made, newest) in made.into_iter().zip(newest) {
        let new = made.tables.iter().map(|f| meta(f, now, newest));
        ran.written += made.tables.iter().map(|t| t.size).sum::<u64>();
        ran.written += made.values.iter().map(|v| v.size).sum::<u64>();
        ran.entries_out += made.entries;
        ran.copied += made.copied;
        tables.extend(new);
        values.extend(made.values);
        db.observer.counters().dropped(&made.dropped);
    }
    let ran = install_outputs(db, c, tables, values, ran)?;
    if let Some(oldest) = oldest {
        c.tree.files.lock().note_held_back(&ran.tables, oldest);
    }
    Ok(ran)
}

/// Adds the subcompactions of a part of a job. There are several if the part writes several
/// tables and other threads may help. A compaction filter must see all of a part, in order.
fn divide_part(
    db: &DbInner,
    c: &Claimed,
    part: usize,
    inputs: Vec<Arc<TableRun>>,
    snapshots: &[Seq],
    pieces: &mut Vec<SubcompactionInput>,
) -> Result<()> {
    let all: Vec<&Arc<TableHandle>> = tables_of(&inputs).collect();
    let bytes: u64 = all.iter().map(|t| t.meta.size).sum();
    let entries: u64 = all.iter().map(|t| t.meta.entries).sum();
    // Bytes read from blob files under garbage collection are not in the sizes of its tables.
    let gc_files = &c.version.values.gc_files;
    let brought = all.iter().flat_map(|t| &t.meta.values);
    let brought = brought.filter(|u| gc_files.contains(&u.file)).map(|u| u.bytes).sum::<u64>();
    let most = match c.options.compaction_filter {
        None => subcompactions::count_subcompactions(
            &db.scheduler,
            bytes + brought,
            c.options.table_size,
        ),
        Some(_) => 1,
    };
    let mut marks = vec![];
    if most > 1 {
        // With many tables, their last keys are sufficient as marks.
        let each = marks_of_each(most, all.len());
        for t in &all {
            if each > 1 {
                marks.extend(t.table()?.landmarks(each));
            } else {
                marks.push((t.meta.last_key.clone(), t.meta.size));
            }
        }
    }
    let mut deletions = vec![];
    for t in all.iter().filter(|t| t.meta.range_deletes > 0) {
        deletions.push(t.table()?.tombstones().clone());
    }
    let tombstones = unite(&deletions, snapshots);
    let ranges = divide(marks, most);
    let n = ranges.len() as u64;
    let of_each = |range| SubcompactionInput {
        part,
        inputs: inputs.clone(),
        range,
        tombstones: tombstones.clone(),
        bytes: bytes / n,
        entries: entries / n,
    };
    pieces.extend(ranges.into_iter().map(of_each));
    Ok(())
}

/// Runs a subcompaction: writes its tables, which no manifest names yet.
fn merge_piece(
    db: &DbInner,
    c: &Claimed,
    piece: &SubcompactionInput,
    snapshots: &[Seq],
    during: &mut During<'_>,
) -> Result<CompactionOutputs> {
    let (part, inputs) = (&c.parts[piece.part], &piece.inputs);
    let all = || tables_of(inputs);
    let rules = Rules {
        range: piece.range.clone(),
        tombstones: piece.tombstones.clone(),
        snapshots: snapshots.to_vec(),
        older_runs: OlderRuns::new(c.older_runs(part)),
        outside: OtherRuns::new(c.rest(part, 0), c.options.filter_prefix.clone()),
        merge_operator: c.options.merge_operator.clone(),
        compaction_filter: c
            .options
            .compaction_filter
            .as_ref()
            .map(|p| p.start(CompactionFilterContext { now_micros: db.env.wall_micros() })),
        gc_files: c.version.values.gc_files.clone(),
        inlines_blobs: c.options.blob_from() == usize::MAX,
        is_compaction: true,
    };
    // Maximum, over the tables, of the log position up to which their entries came.
    let log_end = all()
        .try_fold(0, |end: Lsn, t| t.table().map(|table| end.max(table.properties().log_end)))?;
    let oldest_tombstone = all().filter_map(|t| t.meta.oldest_tombstone_micros).min();
    let sources =
        inputs.iter().map(|r| MergeSource::Run(RunCursor::new(r.clone(), false))).collect();
    let mut account = Account::new(piece.bytes, piece.entries);
    let written = Some(account.written());
    // First waits for the excess of the preceding compaction.
    db.scheduler.wait_for_rate(&mut account, 0, during)?;
    let mut go_on = |entries| {
        let before = account.passed();
        let done = db.scheduler.wait_for_rate(&mut account, entries, during);
        c.task.has_passed(account.passed() - before);
        done
    };
    let mut out = PendingOutputs {
        inner: db,
        tree: &c.tree,
        options: c.options.clone(),
        level: c.job.output_level,
        task: c.task.clone(),
        during: &mut go_on,
        written,
        buffers: JobBuffers::new(&db.memory),
        log_end,
    };
    let made = run(sources, rules, &part.cuts, oldest_tombstone, &mut out);
    db.scheduler.charge_rest(&mut account, made.is_ok());
    made
}

fn move_job(db: &DbInner, c: &Claimed) -> Result<Ran> {
    let inputs = c.inputs(&c.job);
    let tables = tables_of(&inputs).map(|t| (*t.meta).clone()).collect();
    install_outputs(db, c, tables, vec![], Ran::default())
}

/// Installs the outputs of a job in place of its inputs.
fn install_outputs(
    db: &DbInner,
    c: &Claimed,
    mut tables: Vec<TableMeta>,
    values: Vec<BlobFileMeta>,
    ran: Ran,
) -> Result<Ran> {
    let removed: Vec<u64> = inputs_of(&c.job).collect();
    sort_by(&mut tables, |a, b| a.first_key.cmp(&b.first_key));
    let ran =
        Ran { removed: removed.clone(), tables: tables.iter().map(|t| t.id).collect(), ..ran };
    let place = |t| (c.job.output_level, c.job.output_run, t);
    install::install_changes(
        db,
        vec![c.change(removed, tables.into_iter().map(place).collect(), values)],
    )?;
    let (view, made) = (c.tree.view.load_full(), HashSet::<u64>::from_iter(ran.tables.clone()));
    let tables = view.version.tables().filter(|t| made.contains(&t.meta.id));
    tables.filter_map(|t| t.opened()).for_each(|t| t.inherit());
    Ok(ran)
}

fn drop_job(db: &DbInner, c: &Claimed) -> Result<Ran> {
    let inputs = c.inputs(&c.job);
    let tables = || tables_of(&inputs);
    let _none_new = db.versions.snapshots().block_new();
    if db.versions.snapshots().may_be_seen(tables().map(|t| t.meta.min_seq).min()) {
        // A snapshot was taken since the job was picked.
        return Ok(Ran::default());
    }
    let ids: Vec<u64> = tables().map(|t| t.meta.id).collect();
    install::install_changes(db, vec![c.change(ids.clone(), vec![], vec![])])?;
    Ok(Ran { removed: ids, ..Ran::default() })
}

impl Claimed {
    /// Returns the inputs of the job, or of a part of it, as runs, newest first.
    fn inputs(&self, job: &CompactionJob) -> Vec<Arc<TableRun>> {
        let of = |i: &CompactionInput| {
            let run = self.version.runs.iter().find(|r| r.level == i.level && r.number == i.run)?;
            let taken: HashSet<u64> = i.tables.iter().copied().collect();
            let tables =
                run.tables.iter().filter(|t| taken.contains(&t.meta.id)).cloned().collect();
            Some(Arc::new(TableRun::new(i.level, i.run, tables)))
        };
        let inputs: Vec<Arc<TableRun>> = job.inputs.iter().filter_map(of).collect();
        debug_assert_eq!(
            inputs.iter().map(|r| r.tables.len()).sum::<usize>(),
            self.taken(job).len(),
            "a job's tables must be in its version"
        );
        inputs
    }

    /// Returns the tables that are moved to the output without rewriting.
    fn adopted(&self) -> Vec<TableMeta> {
        let adopted: HashSet<u64> = self.job.adopted.iter().copied().collect();
        let tables = self.version.tables().filter(|t| adopted.contains(&t.meta.id));
        tables.map(|t| (*t.meta).clone()).collect()
    }

    /// Returns all data older than a part's inputs: the runs after the oldest input, and the
    /// remaining tables of the input runs and of runs between them. Including the latter is
    /// correct, because they are in other key ranges or newer than the entries that are checked.
    fn older_runs(&self, part: &CompactionJob) -> Vec<Arc<TableRun>> {
        let taken = self.taken(part);
        let newest = self
            .version
            .runs
            .iter()
            .position(|r| r.tables.iter().any(|t| taken.contains(&t.meta.id)));
        debug_assert!(newest.is_some(), "a job's tables must be in its version");
        self.rest(part, newest.unwrap_or(0))
    }

    fn taken(&self, job: &CompactionJob) -> HashSet<u64> {
        inputs_of(job).collect()
    }

    /// Returns the tables that a part does not take from the runs from index `newest` on, whether
    /// or not these runs are in the job.
    fn rest(&self, part: &CompactionJob, newest: usize) -> Vec<Arc<TableRun>> {
        let taken = self.taken(part);
        let rest = |r: &Arc<TableRun>| {
            let tables: Vec<_> =
                r.tables.iter().filter(|t| !taken.contains(&t.meta.id)).cloned().collect();
            (!tables.is_empty()).then(|| Arc::new(TableRun::new(r.level, r.number, tables)))
        };
        self.version.runs[newest..].iter().filter_map(rest).collect()
    }
}
