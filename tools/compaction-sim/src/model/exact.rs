//! The exact model: it holds every key, but no value. Memtables, retention, output splits and sizes
//! are the engine's own code: its memtable, its [`job::run_on`] and its table writer, with files
//! that only count. So for one history bytes and tables equal those of the engine byte for byte;
//! `tests/exact.rs` checks that. It is for histories that fit in memory.
//!
//! It has two limits:
//! - It does not copy whole blocks, as the engine does where no other run overlaps them, because it
//!   has no blocks. So it is exact for trees whose blocks are never copied, as those with a summary
//!   hook, and for others as far as their runs overlap. Elsewhere blocks end at other keys, and
//!   tables are a little longer.
//! - It does not write range deletions for key ranges that the deletes of a memtable have emptied,
//!   as a flush of the engine does ([`firn_kv::internals::rewrite::emptied`]). For histories with
//!   long runs of deletes, as those of queues, it predicts some more bytes than the engine writes.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use firn_kv::MemEnv;
use firn_kv::internals::base::blob_ref::BlobHandle;
use firn_kv::internals::base::cursor::Cursor;
use firn_kv::internals::base::facts::TableFacts;
use firn_kv::internals::base::key::{Kind, Seq, Trailer, successor};
use firn_kv::internals::block_cache::Cache;
use firn_kv::internals::compaction::{
    CompactionJob, LsmShape, OutputSplits, RunShape, TableShape, piece_ends,
};
use firn_kv::internals::iterator::opener::TableOpener;
use firn_kv::internals::iterator::run::TableRun;
use firn_kv::internals::iterator::table_handle::TableHandle;
use firn_kv::internals::iterator::visible::VisibleRange;
use firn_kv::internals::manifest::TableMeta;
use firn_kv::internals::memtable::{ArenaPool, Memtable};
use firn_kv::internals::range_del::tombstone::Fragments;
use firn_kv::internals::rewrite::job::{self, Outputs};
use firn_kv::internals::rewrite::retain::{OlderRuns, OtherRuns, Rules};
use firn_kv::internals::sstable::{BlobWriter, TableWriter};
use firn_kv::internals::util::sorted_map::{SortedMap, SortedSet};
use firn_kv::{
    CompactionFilter, CompactionFilterContext, CompactionFilterPass, Compression, DbOptions,
    FilterDecision, ReadMode, Result, Summary, SummaryPass, TreeOptions,
};

use crate::model::blobs::{BlobShare, SimBlobFiles, SimBlobOutput};
use crate::model::size::{ContentSize, Sizes, counted_table, counted_values};
use crate::model::store::{
    LiveKeys, MadeRuns, PhaseCursor, PhaseTurn, SimClock, SimStore, Written,
};
use crate::workload::{SimOp, SimOps, SimWorkload};
use firn_workload::values::ValuePool;

/// A version of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct ExactEntry {
    place: u64,
    trailer: u64,
    /// Sequence number of the write.
    id: u64,
    /// Number of the operation in its phase, which determines its value.
    number: u64,
    /// Time of the write, in microseconds.
    stamp: u64,
    len: u32,
    /// Position of its value in a blob file.
    blob: Option<BlobHandle>,
}

impl ExactEntry {
    fn is_delete(&self) -> bool {
        self.trailer as u8 == Kind::Delete as u8
    }

    /// Returns the sort key: keys ascending, newest first.
    fn order(&self) -> (u64, Reverse<u64>) {
        (self.place, Reverse(self.trailer))
    }
}

/// A memtable, which decides when it is full, and its entries.
struct ExactBuffer {
    mem: Arc<Memtable>,
    entries: Vec<ExactEntry>,
}

/// Expiry by age. The first 8 bytes of a value are its write time in microseconds. A value older
/// than this many microseconds is dropped, if no older version exists. The summary of a table is
/// the time of its newest value, so whole tables are dropped unread.
#[derive(Clone, Copy)]
pub struct ExactTtl(pub u64);

impl ExactTtl {
    /// Returns the tree's options with this as its hooks.
    pub fn hooked(self, options: &TreeOptions) -> TreeOptions {
        TreeOptions {
            compaction_filter: Some(Arc::new(self)),
            summary: Some(Arc::new(self)),
            ..options.clone()
        }
    }

    /// Returns the time from which a table with this newest put has expired.
    pub fn expires_at(self, newest: u64) -> u64 {
        newest.saturating_add(self.0).saturating_add(1)
    }
}

impl Summary for ExactTtl {
    fn name(&self) -> &str {
        "ttl"
    }

    fn start(&self) -> Box<dyn SummaryPass> {
        Box::new(NewestPut(0))
    }
}

/// Write time of a table's newest put; `u64::MAX` if it has a delete, which does not expire.
struct NewestPut(u64);

impl SummaryPass for NewestPut {
    fn add(&mut self, _key: &[u8], kind: Kind, value: &[u8]) {
        let stamp = value.first_chunk::<8>().map_or(u64::MAX, |b| u64::from_le_bytes(*b));
        self.0 = self.0.max(if kind == Kind::Put { stamp } else { u64::MAX });
    }

    fn finish(self: Box<Self>) -> Vec<u8> {
        self.0.to_le_bytes().to_vec()
    }
}

impl CompactionFilter for ExactTtl {
    fn name(&self) -> &str {
        "ttl"
    }

    fn start(&self, job: CompactionFilterContext) -> Box<dyn CompactionFilterPass> {
        Box::new(TtlPass { before: job.now_micros.saturating_sub(self.0) })
    }

    fn expires_at(&self, summary: &[u8]) -> Option<u64> {
        let newest = summary.try_into().ok().map(u64::from_le_bytes)?;
        (newest < u64::MAX).then(|| ExactTtl::expires_at(*self, newest))
    }
}

struct TtlPass {
    before: u64,
}

impl CompactionFilterPass for TtlPass {
    fn filter(&mut self, _key: &[u8], kind: Kind, value: &[u8], alone: bool) -> FilterDecision {
        let stamp = value.first_chunk::<8>().map_or(u64::MAX, |b| u64::from_le_bytes(*b));
        if alone && kind == Kind::Put && stamp < self.before {
            FilterDecision::Drop
        } else {
            FilterDecision::Keep
        }
    }
}

/// See the module.
pub struct Exact {
    options: Arc<TreeOptions>,
    content: ContentSize,
    pool: Arc<ValuePool>,
    ops: SimOps,
    /// The phases, and the write that has no room yet.
    phases: PhaseCursor,
    next: Option<SimOp>,
    arenas: Arc<ArenaPool>,
    opener: Arc<TableOpener>,
    active: ExactBuffer,
    sealed: VecDeque<Vec<ExactEntry>>,
    tables: BTreeMap<u64, Arc<Vec<ExactEntry>>>,
    next_id: u64,
    next_seq: Seq,
    /// Length and time of the live values, by key.
    live: HashMap<u64, (u32, u64)>,
    live_raw: u64,
    ttl: Option<ExactTtl>,
    /// Times and keys of puts that have not expired, oldest first; empty without expiry.
    expiring: VecDeque<(u64, u64)>,
    /// Bytes of a file at the last level per byte of keys and values.
    per_raw: f64,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Exact {
    /// Creates an empty tree for the workload.
    ///
    /// # Errors
    /// If memory for the memtable is not available.
    pub fn new(options: Arc<TreeOptions>, workload: &SimWorkload) -> Result<Exact> {
        let arenas = ArenaPool::new(1);
        let opener = TableOpener::new(
            Arc::new(MemEnv::new(0)),
            Path::new("/"),
            Cache::new(1 << 20),
            &DbOptions { read_mode: ReadMode::Pread, ..DbOptions::default() },
        );
        let active =
            ExactBuffer { mem: Memtable::new(&arenas, options.memtable_size)?, entries: vec![] };
        let mut content = workload.content.clone();
        if options.compression.iter().all(|&c| c == Compression::None) {
            // Only lengths count then.
            content.random = 0.0;
            content.sample.clear();
        }
        let pool = Arc::new(content.pool());
        let bottom = Sizes::measure(&options, &content, 1, 1, workload.series())?.bottom;
        let per_raw = (bottom.put + bottom.blob) / workload.put_bytes().max(1.0);
        Ok(Exact {
            options,
            content,
            pool,
            ops: SimOps::new(workload),
            phases: PhaseCursor::new(&workload.phases),
            next: None,
            arenas,
            opener: Arc::new(opener),
            active,
            sealed: VecDeque::new(),
            tables: BTreeMap::new(),
            next_id: 1,
            next_seq: 1,
            live: HashMap::new(),
            live_raw: 0,
            ttl: (workload.ttl_micros > 0).then_some(ExactTtl(workload.ttl_micros)),
            expiring: VecDeque::new(),
            per_raw,
            key: vec![],
            value: vec![],
        })
    }

    /// Returns the memory that the next operation takes in a memtable.
    fn next_cost(&self) -> usize {
        let Some(op) = self.next else { return 0 };
        Memtable::cost(self.content.key_len.max(8), op.len as usize)
    }

    /// Adds the operation to the memtable and returns its bytes; `None` if there is no space.
    fn add(&mut self, op: SimOp, stamp: u64) -> Option<f64> {
        let (id, len) = (self.next_seq, op.len as usize);
        self.content.key(op.place, &mut self.key);
        if !self.active.mem.reserve(Memtable::cost(self.key.len(), len)) {
            return None;
        }
        self.value.clear();
        self.value.resize(len, 0);
        let trailer = Trailer::new(id, if op.delete { Kind::Delete } else { Kind::Put });
        self.active.mem.add(&self.key, trailer, &self.value);
        self.active.entries.push(ExactEntry {
            place: op.place,
            trailer: trailer.0,
            id,
            number: op.number,
            stamp,
            len: op.len,
            blob: None,
        });
        self.next_seq += 1;
        let raw = (self.key.len() + len) as u64;
        let before = if op.delete {
            self.live.remove(&op.place)
        } else {
            self.live.insert(op.place, (op.len, stamp))
        };
        if self.ttl.is_some() && !op.delete {
            self.expiring.push_back((stamp, op.place));
        }
        self.live_raw += if op.delete { 0 } else { raw };
        self.live_raw -= before.map_or(0, |(len, _)| self.raw_of(len));
        Some(raw as f64)
    }

    /// Returns the bytes of a key and a value of this length.
    fn raw_of(&self, len: u32) -> u64 {
        self.content.key_len.max(8) as u64 + u64::from(len)
    }

    /// Returns the first keys of all pieces of a flush of these entries but the first.
    fn piece_starts(&self, entries: &[ExactEntry], pieces: usize) -> Vec<Arc<[u8]>> {
        if pieces < 2 {
            return vec![];
        }
        let bytes = |e: &ExactEntry| self.raw_of(if e.is_delete() { 0 } else { e.len });
        let ends = piece_ends(entries.iter().map(|e| (e.place, bytes(e))).collect(), pieces);
        let mut key = vec![];
        let behind = |place: u64| {
            self.content.key(place, &mut key);
            successor(&key).map(Arc::from)
        };
        ends.into_iter().filter_map(behind).collect()
    }

    /// Writes tables of the retained ones of `entries`, which are in order.
    fn make(
        &mut self,
        entries: Vec<ExactEntry>,
        rules: Rules,
        cuts: &OutputSplits,
        place: ExactPlace,
    ) -> Result<MadeRuns> {
        let entries_in = entries.len() as f64;
        let deletes: Vec<(u64, u64)> =
            entries.iter().filter(|e| e.is_delete()).map(|e| (e.id, e.stamp)).collect();
        let now = Rc::new(Cell::new(ExactEntry::default()));
        let walk = ExactWalk::new(entries, self.content.clone(), self.pool.clone(), now.clone());
        let mut out = Counting {
            options: &self.options,
            place,
            next_id: &mut self.next_id,
            now,
            tables: vec![],
            put_blob: None,
        };
        let made = job::run_on(walk, rules, cuts, place.oldest, &mut out)?;
        let contents = out.tables;
        let still: HashSet<u64> =
            contents.iter().flatten().filter(|e| e.is_delete()).map(|e| e.id).collect();
        let gone = deletes.iter().filter(|(id, _)| !still.contains(id));
        let vanished =
            gone.map(|&(_, stamp)| (1.0, place.now_micros.saturating_sub(stamp))).collect();
        let raw_bytes = made.tables.iter().map(|t| t.raw_bytes as f64).sum();
        let of = |f: &TableFacts| {
            let uses = f.values.iter().map(|u| BlobShare {
                file: u.file,
                values: u.values as f64,
                bytes: u.bytes as f64,
            });
            (f.id, uses.collect())
        };
        let uses = made.tables.iter().map(of).collect();
        let values = made.values.iter();
        let values = values
            .map(|v| SimBlobOutput { id: v.id, size: v.size, bytes: v.bytes as f64 })
            .collect();
        let tables = made
            .tables
            .iter()
            .zip(contents)
            .map(|(facts, entries)| self.keep(facts, entries, place))
            .collect();
        Ok(MadeRuns {
            tables,
            values,
            uses,
            entries: made.entries as f64,
            entries_in,
            raw_bytes,
            vanished,
        })
    }

    fn keep(
        &mut self,
        facts: &TableFacts,
        entries: Vec<ExactEntry>,
        place: ExactPlace,
    ) -> TableShape {
        let newest = entries.iter().map(|e| e.stamp).max().filter(|_| facts.deletes == 0);
        let expires_micros = self.ttl.zip(newest).map(|(ttl, newest)| ttl.expires_at(newest));
        self.tables.insert(facts.id, Arc::new(entries));
        let meta = TableMeta {
            facts: facts.clone(),
            created_micros: place.now_micros,
            newest_micros: place.newest_micros,
            ingested_seq: 0,
        };
        TableShape { expires_micros, ..meta.shape() }
    }

    /// Returns the runs older than the job's inputs, as the engine sees them: only their key ranges
    /// are known.
    fn older_runs(&self, shape: &LsmShape, job: &CompactionJob) -> OlderRuns {
        let taken: HashSet<u64> =
            job.inputs.iter().flat_map(|i| i.tables.iter().copied()).collect();
        let newest = shape
            .runs
            .iter()
            .position(|r| r.tables.iter().any(|t| taken.contains(&t.id)))
            .unwrap_or(0);
        let handle = |t: &TableShape| {
            let facts = TableFacts {
                id: t.id,
                first_key: t.first.to_vec(),
                last_key: t.last.to_vec(),
                ..TableFacts::default()
            };
            let meta = TableMeta { facts, ..TableMeta::default() };
            TableHandle::new(Arc::new(meta), self.opener.clone(), Arc::default(), &SortedMap::new())
        };
        let rest = |r: &Arc<RunShape>| {
            let tables: Vec<_> =
                r.tables.iter().filter(|t| !taken.contains(&t.id)).map(handle).collect();
            (!tables.is_empty()).then(|| Arc::new(TableRun::new(r.level, r.number, tables)))
        };
        OlderRuns::new(shape.runs[newest..].iter().filter_map(rest).collect())
    }
}

impl SimStore for Exact {
    fn write(&mut self, ops: u64, clock: SimClock) -> Result<Written> {
        let mut done = Written::default();
        while done.ops < ops {
            if self.next.is_none() {
                let (phase, at) = self.ops.at();
                match self.phases.enter(phase, at, &clock, done.ops) {
                    PhaseTurn::Ended => {
                        done.ended = true;
                        break;
                    }
                    PhaseTurn::Paused => {
                        done.paused = true;
                        break;
                    }
                    PhaseTurn::Over => {
                        self.ops.leave();
                        continue;
                    }
                    PhaseTurn::Operations(_) => {}
                }
                match self.ops.step() {
                    Some(Some(op)) => self.next = Some(op),
                    Some(None) => {
                        done.ops += 1;
                        continue;
                    }
                    None => continue,
                }
            }
            let Some(op) = self.next else { break };
            let Some(bytes) = self.add(op, clock.wall(done.ops + 1)) else {
                done.full = true;
                break;
            };
            self.next = None;
            done.ops += 1;
            done.bytes += bytes;
        }
        Ok(done)
    }

    fn seal(&mut self) -> Result<()> {
        let capacity = Memtable::capacity_for(self.options.memtable_size, self.next_cost());
        let fresh = ExactBuffer { mem: Memtable::new(&self.arenas, capacity)?, entries: vec![] };
        self.sealed.push_back(std::mem::replace(&mut self.active, fresh).entries);
        Ok(())
    }

    fn sealed(&self) -> usize {
        self.sealed.len()
    }

    fn next_entries(&self) -> u64 {
        self.sealed.front().map_or(0, |entries| entries.len() as u64)
    }

    fn flush(&mut self, filter_bits: f64, now_micros: u64, pieces: usize) -> Result<MadeRuns> {
        let Some(mut entries) = self.sealed.pop_front().filter(|e| !e.is_empty()) else {
            return Ok(MadeRuns::default());
        };
        entries.sort_unstable_by_key(ExactEntry::order);
        let rules = rules(OlderRuns::new(vec![]), None, false, Arc::default());
        let cuts =
            OutputSplits { size: self.options.table_size, at: self.piece_starts(&entries, pieces) };
        let place = ExactPlace {
            level: 0,
            filter_bits,
            now_micros,
            newest_micros: now_micros,
            oldest: Some(now_micros),
        };
        let made = self.make(entries, rules, &cuts, place)?;
        Ok(made)
    }

    fn merge(
        &mut self,
        shape: &LsmShape,
        job: &CompactionJob,
        values: &SimBlobFiles,
        filter_bits: f64,
        now_micros: u64,
    ) -> Result<MadeRuns> {
        let taken: HashSet<u64> =
            job.inputs.iter().flat_map(|i| i.tables.iter().copied()).collect();
        let inputs: Vec<&TableShape> = shape.tables().filter(|t| taken.contains(&t.id)).collect();
        let mut entries: Vec<ExactEntry> = vec![];
        inputs
            .iter()
            .filter_map(|t| self.tables.get(&t.id))
            .for_each(|t| entries.extend_from_slice(t));
        // A stable sort uses the existing sorted runs.
        entries.sort_by_key(ExactEntry::order);
        let purge = self
            .options
            .compaction_filter
            .as_ref()
            .map(|p| p.start(CompactionFilterContext::new(now_micros)));
        let rules = rules(self.older_runs(shape, job), purge, true, values.gc_files().clone());
        let place = ExactPlace {
            level: job.output_level,
            filter_bits,
            now_micros,
            newest_micros: inputs.iter().map(|t| t.newest_micros).max().unwrap_or(0),
            oldest: inputs.iter().filter_map(|t| t.oldest_tombstone_micros).min(),
        };
        self.make(entries, rules, &job.cuts, place)
    }

    fn forget(&mut self, tables: impl Iterator<Item = u64>) {
        tables.for_each(|id| {
            self.tables.remove(&id);
        });
    }

    fn live(&mut self, now_micros: u64) -> LiveKeys {
        while let Some(&(stamp, place)) = self.expiring.front()
            && self.ttl.is_some_and(|ttl| ttl.expires_at(stamp) <= now_micros)
        {
            self.expiring.pop_front();
            if let Some(&(len, written)) = self.live.get(&place)
                && written == stamp
            {
                self.live.remove(&place);
                self.live_raw -= self.raw_of(len);
            }
        }
        LiveKeys { keys: self.live.len() as f64, bytes: self.live_raw as f64 * self.per_raw }
    }

    fn tombstones(&self, now_micros: u64) -> Vec<(f64, u64)> {
        let all = self.tables.values().flat_map(|t| t.iter()).filter(|e| e.is_delete());
        let mut ages: Vec<u64> = all.map(|e| now_micros.saturating_sub(e.stamp)).collect();
        ages.sort_unstable();
        ages.into_iter().map(|age| (1.0, age)).collect()
    }
}

fn rules(
    older_runs: OlderRuns,
    purge: Option<Box<dyn CompactionFilterPass>>,
    is_compaction: bool,
    gc_files: Arc<SortedSet<u64>>,
) -> Rules {
    Rules {
        range: VisibleRange::default(),
        gc_files,
        inlines_blobs: false,
        snapshots: vec![],
        tombstones: Arc::new(Fragments::default()),
        older_runs,
        merge_operator: None,
        compaction_filter: purge,
        is_compaction,
        outside: OtherRuns::new(vec![], None),
    }
}

/// Level and times of new tables, and the average number of filter bits per key.
#[derive(Clone, Copy)]
struct ExactPlace {
    level: u8,
    filter_bits: f64,
    now_micros: u64,
    newest_micros: u64,
    oldest: Option<u64>,
}

/// Creates writers that only count, and records the entries of each table.
struct Counting<'a> {
    options: &'a TreeOptions,
    place: ExactPlace,
    next_id: &'a mut u64,
    /// Entry under the input's cursor.
    now: Rc<Cell<ExactEntry>>,
    tables: Vec<Vec<ExactEntry>>,
    /// Position to which the value of the next added entry was written.
    put_blob: Option<BlobHandle>,
}

impl Outputs for Counting<'_> {
    fn create(&mut self) -> Result<TableWriter> {
        let id = *self.next_id;
        *self.next_id += 1;
        self.tables.push(vec![]);
        let ExactPlace { level, filter_bits, now_micros, .. } = self.place;
        Ok(counted_table(self.options, level, id, filter_bits, now_micros))
    }

    fn blob_from(&self) -> usize {
        self.options.blob_from()
    }

    fn create_blob_file(&mut self) -> Result<BlobWriter> {
        let id = *self.next_id;
        *self.next_id += 1;
        Ok(counted_values(self.options, self.place.level, id, self.place.now_micros))
    }

    fn put_blob(&mut self, place: &BlobHandle) {
        self.put_blob = Some(*place);
    }

    fn progress(&mut self, _: u64) -> Result<()> {
        Ok(())
    }

    fn added(&mut self, _key: &[u8], trailer: Trailer) {
        let now = self.now.get();
        let (trailer, blob) = match (self.put_blob.take(), trailer.kind()) {
            (Some(place), _) => (Trailer::new(trailer.seq(), Kind::Blob), Some(place)),
            (None, Some(Kind::Blob)) => (trailer, now.blob),
            (None, _) => (trailer, None),
        };
        if let Some(table) = self.tables.last_mut() {
            table.push(ExactEntry { trailer: trailer.0, blob, ..now });
        }
    }
}

/// A cursor over entries in order.
struct ExactWalk {
    entries: Vec<ExactEntry>,
    at: usize,
    content: ContentSize,
    pool: Arc<ValuePool>,
    now: Rc<Cell<ExactEntry>>,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl ExactWalk {
    fn new(
        entries: Vec<ExactEntry>,
        content: ContentSize,
        pool: Arc<ValuePool>,
        now: Rc<Cell<ExactEntry>>,
    ) -> ExactWalk {
        ExactWalk { at: entries.len(), entries, content, pool, now, key: vec![], value: vec![] }
    }

    fn go(&mut self, at: usize) -> Result<()> {
        self.at = at;
        if let Some(e) = self.entries.get(at) {
            self.now.set(*e);
            self.content.key(e.place, &mut self.key);
            self.value.clear();
            match &e.blob {
                _ if e.is_delete() => {}
                Some(place) => place.encode(&mut self.value),
                None => {
                    let len = e.len as usize;
                    self.content.value(&self.pool, e.number, len, e.stamp, &mut self.value);
                }
            }
        }
        Ok(())
    }
}

impl Cursor for ExactWalk {
    fn valid(&self) -> bool {
        self.at < self.entries.len()
    }

    fn key(&self) -> &[u8] {
        &self.key
    }

    fn trailer(&self) -> Trailer {
        self.entries.get(self.at).map_or(Trailer(0), |e| Trailer(e.trailer))
    }

    fn value(&self) -> &[u8] {
        &self.value
    }

    fn fetch_blob(&self, out: &mut Vec<u8>) -> Result<()> {
        if let Some(e) = self.entries.get(self.at) {
            self.content.value(&self.pool, e.number, e.len as usize, e.stamp, out);
        }
        Ok(())
    }

    fn seek(&mut self, key: &[u8], at: Trailer) -> Result<()> {
        let place = self.content.place(key);
        self.go(self.entries.partition_point(|e| e.order() < (place, Reverse(at.0))))
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let place = self.content.place(key);
        self.go(self.entries.partition_point(|e| e.place < place).wrapping_sub(1))
    }

    fn first(&mut self) -> Result<()> {
        self.go(0)
    }

    fn last(&mut self) -> Result<()> {
        self.go(self.entries.len().wrapping_sub(1))
    }

    fn next(&mut self) -> Result<()> {
        self.go(self.at.saturating_add(1))
    }

    fn prev(&mut self) -> Result<()> {
        self.go(self.at.wrapping_sub(1))
    }
}
