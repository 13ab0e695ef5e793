//! A source that counts its operations, for reads whose cost is recorded.
//!
//! Invariants:
//! - It moves exactly as the inner source does, except that no block takes the unchecked fast path.
//!   So every entry on the way is counted.
//! - A block counts as cached if it was in the cache before the read accessed that part of the
//!   table.

use std::sync::Arc;

use crate::base::cursor::Cursor;
use crate::base::error::Result;
use crate::base::key::{Seq, Trailer};
use crate::env::Env;
use crate::sstable::Table;
use crate::util::rank;
use crate::util::sorted_map::{SortedMap, SortedSet};
use crate::util::sync::Mutex;

use crate::iterator::cost::{BlockRead, Entries, EntryLocation, Origin, SourceCost};
use crate::iterator::merging::MergeSource;
use crate::iterator::run::TableRun;
use crate::iterator::run_cursor::{BlobLocation, RunCursor, RunPlace, SourceStandIn, is_inside};
use crate::iterator::shadow::RangeShadow;
use crate::iterator::table_handle::TableHandle;
use crate::iterator::value::Value;

/// The blocks of tables that were cached before a read, and the blocks that the read visited.
#[derive(Default)]
pub struct Blocks {
    noted: SortedMap<u64, ProfiledSource>,
}

debug_by!(Blocks, "Blocks");

struct ProfiledSource {
    handle: Arc<TableHandle>,
    /// Whether the table was not open yet.
    was_closed: bool,
    /// Number of the first block whose cache state was recorded.
    first: usize,
    /// Whether that block and each following one was cached.
    cached: Vec<bool>,
    visited: SortedSet<usize>,
}

impl ProfiledSource {
    fn was_cached(&self, block: usize) -> bool {
        block.checked_sub(self.first).and_then(|i| self.cached.get(i)).copied().unwrap_or(false)
    }
}

impl Blocks {
    /// Records the cache state of the part of a table that a read of these keys may access.
    pub fn note(&mut self, t: &Arc<TableHandle>, from: &[u8], until: Option<&[u8]>) {
        let (first, cached) = t.opened().map_or_else(Default::default, |table| {
            // An iterator may access one block beyond either end.
            let last = table.blocks().len().saturating_sub(1);
            let at = |key: &[u8]| table.locate(key).unwrap_or(last);
            let first = at(from).saturating_sub(1);
            (first, table.cached_blocks(first..(until.map_or(last, at) + 2).min(last + 1)))
        });
        let was_closed = t.opened().is_none();
        self.noted.insert(
            t.meta.id,
            ProfiledSource {
                handle: t.clone(),
                was_closed,
                first,
                cached,
                visited: SortedSet::new(),
            },
        );
    }

    /// Records that the read is positioned in this block.
    pub fn visit(&mut self, t: &Arc<TableHandle>, block: usize) {
        let new = || ProfiledSource {
            handle: t.clone(),
            was_closed: false,
            first: block,
            cached: vec![],
            visited: SortedSet::new(),
        };
        self.noted.get_or_insert_with(t.meta.id, new).visited.insert(block);
    }

    /// Returns the numbers of the tables that were opened for the read.
    pub fn opened(&self) -> Vec<u64> {
        let opened = self.noted.iter().filter(|(_, n)| n.was_closed && n.handle.opened().is_some());
        opened.map(|(id, _)| *id).collect()
    }

    /// Counts blocks that the last move has brought into the cache as read. Call it after the read
    /// has moved by more than one step.
    pub fn note_loaded(&mut self) {
        for noted in self.noted.values_mut() {
            let Some(table) = noted.handle.opened() else { continue };
            let known = if noted.was_closed { table.blocks().len() } else { noted.cached.len() };
            let range = noted.first..noted.first + known;
            let now = table.cached_blocks(range.clone());
            let loaded: Vec<usize> = range
                .zip(now)
                .filter(|(i, now)| *now && !noted.was_cached(*i))
                .map(|(i, _)| i)
                .collect();
            noted.visited.extend(loaded);
        }
    }

    /// Returns the blocks that were read.
    pub fn read(&self) -> Vec<BlockRead> {
        let opened = self.noted.values().filter_map(|n| Some((n, n.handle.opened()?)));
        opened
            .flat_map(|(n, table)| {
                n.visited.iter().map(move |&i| block_read(table, i, n.was_cached(i)))
            })
            .collect()
    }
}

fn block_read(table: &Table, i: usize, cached: bool) -> BlockRead {
    let (offset, stored, raw) = table.stored_block(i);
    let origin = match (table.serves_from_map(i), cached) {
        (true, _) => Origin::Map,
        (_, true) => Origin::Cache,
        _ => Origin::File,
    };
    BlockRead {
        table: table.id(),
        offset,
        stored,
        decompressed: origin == Origin::File && !raw,
        origin,
    }
}

/// Counts of one source during an iteration.
pub struct Count {
    /// Cost of the source, without the data in the fields below.
    pub cost: SourceCost,
    /// Blocks that were accessed.
    pub blocks: Blocks,
    /// Entries of each table.
    pub tables: SortedMap<u64, Entries>,
}

debug_by!(Count, "Count", cost);

impl Count {
    /// Creates the zero cost of a source.
    pub fn new(location: EntryLocation) -> Count {
        let cost = SourceCost { location, ..SourceCost::default() };
        Count { cost, blocks: Blocks::default(), tables: SortedMap::default() }
    }

    /// Returns the cost of the source so far.
    pub fn report(&self) -> SourceCost {
        let tables = self.tables.iter().map(|(id, e)| (*id, *e)).collect();
        SourceCost {
            opened: self.blocks.opened(),
            blocks: self.blocks.read(),
            tables,
            ..self.cost.clone()
        }
    }

    /// Counts an entry of the source, and of its table unless it is a memtable.
    pub fn entries(&mut self, table: Option<u64>, count: impl Fn(&mut Entries)) {
        count(&mut self.cost.entries);
        if let Some(id) = table {
            count(self.tables.get_or_default(id));
        }
    }
}

/// Shared state of the sources of one iterator.
pub struct TraceContext {
    /// Read point.
    pub read: Seq,
    /// Clock.
    pub env: Arc<dyn Env>,
}

debug_by!(TraceContext, "TraceContext", read);

/// A source that counts its operations.
pub struct Traced {
    inner: MergeSource,
    count: Arc<Mutex<Count, rank::Counted>>,
    /// Range deletions of all sources.
    shadow: RangeShadow,
    walk: Arc<TraceContext>,
}

debug_by!(Traced, "Traced", inner);

impl Traced {
    /// Wraps `inner` and counts into `count`. `shadow` contains all range deletions that apply to
    /// the reader.
    pub(crate) fn new(
        inner: MergeSource,
        count: Arc<Mutex<Count, rank::Counted>>,
        shadow: RangeShadow,
        walk: Arc<TraceContext>,
    ) -> Traced {
        Traced { inner, count, shadow, walk }
    }

    fn run(&self) -> Option<&RunCursor> {
        if let MergeSource::Run(c) = &self.inner { Some(c) } else { None }
    }

    /// Moves the source and counts the entry that it reaches. Counts nothing if `to` returns
    /// `false` for no movement.
    fn step(&mut self, to: &mut dyn FnMut(&mut MergeSource) -> Result<bool>) -> Result<bool> {
        let from = self.walk.env.monotonic_nanos();
        let done = to(&mut self.inner);
        let took = self.walk.env.monotonic_nanos().saturating_sub(from);
        let counts = *done.as_ref().unwrap_or(&false) && self.inner.valid();
        let cover = if counts { self.shadow.covering(self.inner.key())?.unwrap_or(0) } else { 0 };
        let mut count = self.count.lock();
        count.cost.nanos += took;
        let place = self
            .run()
            .and_then(|c| Some((c.run().tables.get(c.place()?.table)?, c.place()?.block)));
        if let Some((table, block)) = place {
            count.blocks.visit(table, block);
        }
        if counts {
            let (read, t) = (self.walk.read, self.inner.trailer());
            count.entries(place.map(|(table, _)| table.meta.id), |e| e.count(t, read, cover));
        }
        done
    }

    fn go(&mut self, to: &mut dyn FnMut(&mut MergeSource) -> Result<()>) -> Result<()> {
        self.step(&mut |s| to(s).map(|()| true)).map(|_| ())
    }

    fn seek_by(&mut self, to: &mut dyn FnMut(&mut MergeSource) -> Result<()>) -> Result<()> {
        self.count.lock().cost.seeks += 1;
        self.go(to)
    }

    /// Moves a run cursor by more than one entry, and counts the skipped entries into `which`.
    fn leap(
        &mut self,
        forward: bool,
        which: fn(&mut Entries) -> &mut u64,
        to: &mut dyn FnMut(&mut MergeSource) -> Result<bool>,
    ) -> Result<bool> {
        let from = self.run().and_then(RunCursor::place);
        let moved = self.step(to)?;
        if let (true, Some(c), Some(from)) = (moved, self.run(), from) {
            let mut count = self.count.lock();
            count.blocks.note_loaded();
            for (id, n) in between(c.run(), from, c.place(), forward) {
                count.entries(Some(id), |e| *which(e) += n);
            }
        }
        Ok(moved)
    }
}

/// Returns the numbers of entries strictly between two positions of a run, by table. `None` is the
/// end that the cursor has passed.
fn between(run: &TableRun, from: RunPlace, to: Option<RunPlace>, forward: bool) -> Vec<(u64, u64)> {
    let (low, high) = if forward { (Some(from), to) } else { (to, Some(from)) };
    let first = low.map_or(0, |p| p.table);
    let tables = run.tables.iter().enumerate().skip(first);
    let tables = tables.take_while(|(i, _)| high.is_none_or(|p| *i <= p.table));
    let count = |(i, t): (usize, &Arc<TableHandle>)| {
        let until = high.filter(|p| p.table == i).map_or(t.meta.entries, |p| rank(t, p));
        let from = low.filter(|p| p.table == i).map_or(0, |p| rank(t, p) + 1);
        (t.meta.id, until.saturating_sub(from))
    };
    tables.map(count).filter(|(_, n)| *n > 0).collect()
}

/// Returns the number of entries of a table before a position.
fn rank(t: &TableHandle, p: RunPlace) -> u64 {
    let before = t
        .opened()
        .map_or(0, |table| table.blocks().take(p.block).map(|b| u64::from(b.entries)).sum());
    before + p.entry as u64
}

impl SourceStandIn for Traced {
    #[cold]
    fn pass_deletes(&mut self, forward: bool, limit: Option<&[u8]>) -> Result<bool> {
        self.leap(forward, |e| &mut e.skipped_deletes, &mut |s| s.pass_deletes(forward, limit))
    }

    #[cold]
    fn pass_older(&mut self, seq: Seq, forward: bool, edge: Option<&[u8]>) -> Result<u64> {
        if matches!(self.inner, MergeSource::Run(_)) {
            let mut pass =
                |s: &mut MergeSource| s.pass_older(seq, forward, edge).map(|steps| steps > 0);
            return self.leap(forward, |e| &mut e.skipped_covered, &mut pass).map(u64::from);
        }
        let mut steps = 0;
        while self.inner.valid()
            && self.inner.trailer().seq() < seq
            && is_inside(self.inner.key(), forward, edge)
        {
            self.go(&mut |s| if forward { s.next() } else { s.prev() })?;
            steps += 1;
        }
        Ok(steps)
    }

    #[cold]
    fn pin_value(&self) -> Option<Value> {
        self.inner.pin_value()
    }

    #[cold]
    fn blob(&self) -> Option<BlobLocation> {
        let count = self.count.clone();
        let place = self.inner.blob()?;
        Some(place.observed_by(move |read, nanos| {
            let mut count = count.lock();
            count.cost.values.push(read);
            count.cost.nanos += nanos;
        }))
    }
}

impl Cursor for Traced {
    #[cold]
    fn valid(&self) -> bool {
        self.inner.valid()
    }
    #[cold]
    fn key(&self) -> &[u8] {
        self.inner.key()
    }
    #[cold]
    fn trailer(&self) -> Trailer {
        self.inner.trailer()
    }
    #[cold]
    fn value(&self) -> &[u8] {
        self.inner.value()
    }
    #[cold]
    fn fetch_blob(&self, out: &mut Vec<u8>) -> Result<()> {
        self.inner.fetch_blob(out)
    }
    #[cold]
    fn head(&self) -> u64 {
        self.inner.head()
    }
    #[cold]
    fn seek(&mut self, key: &[u8], at: Trailer) -> Result<()> {
        self.seek_by(&mut |s| s.seek(key, at))
    }
    #[cold]
    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.seek_by(&mut |s| s.seek_before(key))
    }
    #[cold]
    fn first(&mut self) -> Result<()> {
        self.seek_by(&mut |s| s.first())
    }
    #[cold]
    fn last(&mut self) -> Result<()> {
        self.seek_by(&mut |s| s.last())
    }
    #[cold]
    fn next(&mut self) -> Result<()> {
        self.go(&mut |s| s.next())
    }
    #[cold]
    fn prev(&mut self) -> Result<()> {
        self.go(&mut |s| s.prev())
    }
}
