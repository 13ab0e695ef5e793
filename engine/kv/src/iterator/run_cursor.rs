//! Cursor over a run of tables, and over a source in its place that counts its operations.

use std::sync::Arc;

use crate::base::cursor::Cursor;
use crate::base::error::Result;
use crate::base::key::{Seq, Trailer};
use crate::sstable::{BlobStreams, TableCursor, WholeBlock};
use crate::util::sync::epoch;

use crate::iterator::cost::BlockRead;
use crate::iterator::run::TableRun;
use crate::iterator::table_handle::TableHandle;
use crate::iterator::value::Value;

/// Reports whether `key` is on this side of `edge`: before it going forward, at or after it going
/// backward.
#[inline]
pub fn is_inside(key: &[u8], forward: bool, edge: Option<&[u8]>) -> bool {
    edge.is_none_or(|e| (key < e) == forward)
}

/// A position in a run.
#[derive(Clone, Copy, Debug)]
pub struct RunPlace {
    /// Index of the table in the run.
    pub table: usize,
    /// Index of the block in the table.
    pub block: usize,
    /// Index of the entry in the block.
    pub entry: usize,
}

/// Interface of a source that a run cursor can wrap: a source that counts its operations.
pub trait SourceStandIn: Cursor + Send + Sync {
    /// Skips whole blocks of deletes: see [`TableCursor::pass_deletes`].
    ///
    /// # Errors
    /// Errors of the source.
    fn pass_deletes(&mut self, forward: bool, limit: Option<&[u8]>) -> Result<bool>;

    /// Skips older entries: see [`RunCursor::pass_older`].
    ///
    /// # Errors
    /// Errors of the source.
    fn pass_older(&mut self, seq: Seq, forward: bool, edge: Option<&[u8]>) -> Result<u64>;

    /// Returns an owned handle of the current value, or `None` if not positioned.
    fn pin_value(&self) -> Option<Value>;

    /// Returns the location of the current entry's blob, or `None` if not positioned.
    fn blob(&self) -> Option<BlobLocation>;
}

/// Callback with the cost of reading a blob and the elapsed nanoseconds.
type BlobReadObserver = Box<dyn FnOnce(BlockRead, u64)>;

/// Location of the blob of an entry at which a cursor was positioned.
pub struct BlobLocation {
    handle: Arc<TableHandle>,
    reference: Vec<u8>,
    tell: Option<BlobReadObserver>,
}

debug_by!(BlobLocation, "BlobLocation", handle);

impl BlobLocation {
    /// Sets the callback for a counting source: it is called when the blob is read.
    pub fn observed_by(self, tell: impl FnOnce(BlockRead, u64) + 'static) -> BlobLocation {
        BlobLocation { tell: Some(Box::new(tell)), ..self }
    }

    /// Reads the blob for an iterator with the readahead streams `ahead`; `key` is the key of the
    /// entry.
    ///
    /// # Errors
    /// As [`TableHandle::blob`].
    pub fn fetch(self, key: &[u8], ahead: &mut BlobStreams) -> Result<Value> {
        let Some(tell) = self.tell else {
            return Ok(self.handle.blob(key, &self.reference, Some(ahead))?.into());
        };
        let clock = self.handle.opener().env();
        let from = clock.monotonic_nanos();
        let cost = self.handle.blob_cost(key, &self.reference)?;
        let value = self.handle.blob(key, &self.reference, Some(ahead))?;
        tell(cost, clock.monotonic_nanos().saturating_sub(from));
        Ok(value.into())
    }
}

/// A cursor over a run: a cursor over the current table and access to the neighbouring tables.
///
/// It may wrap a source that counts its operations. Then it never has a table, which every move
/// checks first. So an iterator that is not recorded pays nothing for recording.
pub struct RunCursor {
    run: Arc<TableRun>,
    at: usize,
    table: Option<TableCursor>,
    traced: Option<Box<dyn SourceStandIn>>,
    fill_cache: bool,
    keeps_all: bool,
    /// Whether values may be missing until requested.
    defers: bool,
    /// Table and block that the next seek needs, found by [`approach`](Cursor::approach).
    ahead: Option<(usize, usize)>,
}

debug_by!(RunCursor, "RunCursor", at);

impl RunCursor {
    /// Creates a cursor over `run`. `fill_cache` sets whether decoded blocks are put into the cache
    /// (see [`Table::cursor`](crate::sstable::Table::cursor)).
    pub fn new(run: Arc<TableRun>, fill_cache: bool) -> RunCursor {
        RunCursor {
            run,
            at: usize::MAX,
            table: None,
            traced: None,
            fill_cache,
            keeps_all: false,
            defers: false,
            ahead: None,
        }
    }

    /// Creates a cursor as [`new`](RunCursor::new), for callers that look in the cache for the
    /// blocks that it has read: see [`TableCursor::keep_all`].
    pub fn recorded(run: Arc<TableRun>) -> RunCursor {
        RunCursor { keeps_all: true, ..RunCursor::new(run, true) }
    }

    /// Creates a cursor that wraps `traced`.
    pub fn traced(traced: impl SourceStandIn + 'static) -> RunCursor {
        let nothing = Arc::new(TableRun::new(0, 0, vec![]));
        RunCursor { traced: Some(Box::new(traced)), ..RunCursor::new(nothing, false) }
    }

    fn enter(&mut self, i: usize) -> Result<Option<&mut TableCursor>> {
        if i != self.at || self.table.is_none() {
            self.table = None;
            let Some(handle) = self.run.tables.get(i) else { return Ok(None) };
            let table = self.table.insert(handle.table()?.cursor(self.fill_cache));
            if self.defers {
                table.defer_values();
            }
            if self.keeps_all {
                table.keep_all();
            }
            self.at = i;
        }
        Ok(self.table.as_mut())
    }

    /// Enters the neighbouring table `i` and passes it the readahead state of the current one.
    fn enter_beside(&mut self, i: usize) -> Result<Option<&mut TableCursor>> {
        let before = self.table.take();
        let mut entered = self.enter(i)?;
        if let (Some(table), Some(before)) = (&mut entered, &before) {
            table.go_on_from(before);
        }
        Ok(entered)
    }

    /// Tables may contain only range tombstones, so the next entry may be several tables further.
    fn skip_forward(&mut self) -> Result<()> {
        while self.table.as_ref().is_some_and(|t| !t.valid()) {
            match self.enter_beside(self.at + 1)? {
                Some(t) => t.first()?,
                None => break,
            }
        }
        Ok(())
    }

    fn skip_backward(&mut self) -> Result<()> {
        while self.table.as_ref().is_some_and(|t| !t.valid()) {
            if self.at == 0 {
                self.table = None;
                break;
            }
            if let Some(t) = self.enter_beside(self.at - 1)? {
                t.last()?;
            }
        }
        Ok(())
    }

    /// Returns the run.
    pub fn run(&self) -> &TableRun {
        &self.run
    }

    /// Returns the current position.
    pub fn place(&self) -> Option<RunPlace> {
        let t = self.table.as_ref().filter(|t| t.valid())?;
        let (block, entry) = t.place();
        Some(RunPlace { table: self.at, block, entry })
    }

    /// Reports whether the current entry is the first of a block.
    #[inline]
    pub fn is_at_start(&self) -> bool {
        self.table.as_ref().is_some_and(|t| t.is_at_start())
    }

    /// Reports whether the current entry is the only one of a block.
    #[inline]
    pub fn is_lone(&self) -> bool {
        self.table.as_ref().is_some_and(|t| t.is_lone())
    }

    /// Returns the block whose first entry is current: see [`TableCursor::whole_block`].
    #[inline]
    pub fn whole_block(&self) -> Option<WholeBlock<'_>> {
        self.table.as_ref().and_then(|t| t.whole_block())
    }

    /// Moves to the first entry after the current block.
    pub fn pass_block(&mut self) -> Result<()> {
        if let Some(t) = &mut self.table {
            t.pass_block()?;
        }
        self.skip_forward()
    }

    /// Skips whole blocks of deletes: see [`TableCursor::pass_deletes`]. Returns `true` if it
    /// moved.
    pub fn pass_deletes(&mut self, forward: bool, limit: Option<&[u8]>) -> Result<bool> {
        if let Some(t) = &mut self.traced {
            return t.pass_deletes(forward, limit);
        }
        let mut moved = false;
        while let Some(t) = &mut self.table
            && t.pass_deletes(forward, limit)?
        {
            moved = true;
            if !t.valid() {
                if forward { self.skip_forward() } else { self.skip_backward() }?;
            }
        }
        Ok(moved)
    }

    /// Skips all entries older than `seq`, up to the first that is not or that is beyond `edge`.
    /// Beyond means at or after `edge` going forward, before it going backward. Tables with only
    /// older entries are not read. Returns the number of steps.
    pub fn pass_older(&mut self, seq: Seq, forward: bool, edge: Option<&[u8]>) -> Result<u64> {
        if let Some(t) = &mut self.traced {
            return t.pass_older(seq, forward, edge);
        }
        let mut steps = 0;
        while self.valid() && self.trailer().seq() < seq && is_inside(self.key(), forward, edge) {
            steps += 1;
            let older = |t: &Arc<TableHandle>| t.meta.max_seq < seq;
            if !self.run.tables.get(self.at).is_some_and(older) {
                if forward { self.next() } else { self.prev() }?;
                continue;
            }
            // Find the next table that reaches beyond the edge or contains a newer entry.
            let (before, after) = (&self.run.tables[..self.at], &self.run.tables[self.at..]);
            let stop = if forward {
                let ends = |t: &Arc<TableHandle>| !is_inside(&t.meta.last_key, true, edge);
                after.iter().position(|t| ends(t) || !older(t)).map(|i| self.at + i)
            } else {
                let begins = |t: &Arc<TableHandle>| !is_inside(&t.meta.first_key, false, edge);
                if begins(&after[0]) {
                    Some(self.at)
                } else {
                    before.iter().rposition(|t| begins(t) || !older(t))
                }
            };
            self.jump(stop, seq, forward, edge)?;
        }
        Ok(steps)
    }

    /// Moves to the edge in table `stop` if all of that table is older than `seq`, otherwise to its
    /// first entry in the direction of movement.
    fn jump(
        &mut self,
        stop: Option<usize>,
        seq: Seq,
        forward: bool,
        edge: Option<&[u8]>,
    ) -> Result<()> {
        let Some(i) = stop else {
            self.table = None;
            return Ok(());
        };
        let older = self.run.tables[i].meta.max_seq < seq;
        if let Some(t) = self.enter(i)? {
            match edge.filter(|_| older) {
                Some(key) if forward => t.seek(key, Trailer::NEWEST),
                Some(key) => t.seek_before(key),
                None if forward => t.first(),
                None => t.last(),
            }?;
        }
        if forward { self.skip_forward() } else { self.skip_backward() }
    }

    /// Returns a bound on the sequence numbers of the current block, if the block holds only puts
    /// of distinct keys.
    #[inline]
    pub fn plain_up_to(&self) -> Option<Seq> {
        self.table.as_ref().and_then(|t| t.plain_up_to())
    }

    /// Returns the location of the current entry's blob, or `None` if not positioned.
    pub fn blob(&self) -> Option<BlobLocation> {
        match (&self.table, self.run.tables.get(self.at)) {
            (Some(t), Some(handle)) => {
                let (handle, reference) = (handle.clone(), t.value().to_vec());
                Some(BlobLocation { handle, reference, tell: None })
            }
            _ => self.traced.as_ref().and_then(|t| t.blob()),
        }
    }

    /// Returns an owned handle of the current value, or `None` if not positioned.
    pub fn pin_value(&self) -> Option<Value> {
        match &self.table {
            Some(t) => Some(t.pin_value().into()),
            None => self.traced.as_ref().and_then(|t| t.pin_value()),
        }
    }
}

impl Cursor for RunCursor {
    #[inline]
    fn valid(&self) -> bool {
        match &self.table {
            Some(t) => t.valid(),
            None => self.traced.as_ref().is_some_and(|t| t.valid()),
        }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        match &self.table {
            Some(t) => t.key(),
            None => self.traced.as_ref().map_or(&[], |t| t.key()),
        }
    }

    #[inline]
    fn trailer(&self) -> Trailer {
        match &self.table {
            Some(t) => t.trailer(),
            None => self.traced.as_ref().map_or(Trailer(0), |t| t.trailer()),
        }
    }

    #[inline]
    fn value(&self) -> &[u8] {
        match &self.table {
            Some(t) => t.value(),
            None => self.traced.as_ref().map_or(&[], |t| t.value()),
        }
    }

    #[inline]
    fn head(&self) -> u64 {
        match &self.table {
            Some(t) => t.head(),
            None => self.traced.as_ref().map_or(0, |t| t.head()),
        }
    }

    fn defer_values(&mut self) {
        self.defers = true;
        self.table.iter_mut().for_each(|t| t.defer_values());
    }

    #[inline]
    fn complete(&mut self) -> Result<()> {
        self.table.as_mut().map_or(Ok(()), |t| t.complete())
    }

    fn fetch_blob(&self, out: &mut Vec<u8>) -> Result<()> {
        match (&self.table, self.run.tables.get(self.at)) {
            (Some(t), Some(handle)) => handle.blob_into(t.key(), t.value(), out),
            _ => self.traced.as_ref().map_or(Ok(()), |t| t.fetch_blob(out)),
        }
    }

    fn approach(&mut self, key: &[u8], step: usize) -> bool {
        if step == 0 {
            let i = self.run.lower_bound(key);
            let handle = self.run.tables.get(i);
            let table = handle.and_then(|t| t.opened());
            self.ahead = table.and_then(|t| t.locate(key)).map(|b| (i, b));
            return handle.is_none() || table.is_some();
        }
        let Some((i, block)) = self.ahead else { return true };
        let Some(table) = self.run.tables.get(i).and_then(|t| t.opened()) else { return false };
        let guard = epoch::pin();
        if step == 1 {
            return table.fetch_block(block, &guard);
        }
        table.fetch_entry(block, key, &guard);
        true
    }

    fn seek(&mut self, key: &[u8], at: Trailer) -> Result<()> {
        if let Some(t) = &mut self.traced {
            return t.seek(key, at);
        }
        let ahead = self.ahead.take();
        let i = ahead.map_or_else(|| self.run.lower_bound(key), |(i, _)| i);
        if let Some(t) = self.enter(i)? {
            match ahead {
                Some((_, block)) => t.seek_from(block, key, at),
                None => t.seek(key, at),
            }?;
        }
        self.skip_forward()
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        if let Some(t) = &mut self.traced {
            return t.seek_before(key);
        }
        // A table that begins at the key or after it has no entry before the key and need not be
        // opened.
        let tables = &self.run.tables;
        let i = self.ahead.take().map_or_else(|| self.run.lower_bound(key), |(i, _)| i);
        let inside = tables.get(i).is_some_and(|t| t.meta.first_key.as_slice() < key);
        let i = if inside { Some(i) } else { i.checked_sub(1) };
        match i.map(|i| self.enter(i)).transpose()?.flatten() {
            Some(t) if inside => t.seek_before(key)?,
            Some(t) => t.last()?,
            None => self.table = None,
        }
        self.skip_backward()
    }

    fn first(&mut self) -> Result<()> {
        if let Some(t) = &mut self.traced {
            return t.first();
        }
        self.ahead = None;
        if let Some(t) = self.enter(0)? {
            t.first()?;
        }
        self.skip_forward()
    }

    fn last(&mut self) -> Result<()> {
        if let Some(t) = &mut self.traced {
            return t.last();
        }
        self.ahead = None;
        if let Some(t) = self.enter(self.run.tables.len().wrapping_sub(1))? {
            t.last()?;
        }
        self.skip_backward()
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        match &mut self.table {
            Some(t) => {
                t.next()?;
                if t.valid() { Ok(()) } else { self.skip_forward() }
            }
            None => self.traced.as_mut().map_or(Ok(()), |t| t.next()),
        }
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        match &mut self.table {
            Some(t) => {
                t.prev()?;
                if t.valid() { Ok(()) } else { self.skip_backward() }
            }
            None => self.traced.as_mut().map_or(Ok(()), |t| t.prev()),
        }
    }
}
