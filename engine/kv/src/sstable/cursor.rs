//! Iterates over the point entries of one table, in both directions.
//!
//! Invariants beyond those of [`Cursor`]:
//! - R1: while the cursor is valid, `key` holds the whole user key of the entry. The block's prefix
//!   is written once per block, head and rest once per step. Nothing else is copied.
//! - R2: the cursor holds the block's bytes: a frame of the cache, the map of the file, or its own
//!   buffer. So returned references remain valid until the cursor moves.
//! - R3: a long scan ([`Stride`]) caches its blocks while the cache has room. In a full cache, 1 of
//!   its blocks in 16 is cached ([`Cache::admits_passing`](crate::block_cache::Cache)). So other
//!   readers lose few blocks. A repeated scan over more data than the cache holds
//!   still finds some of its blocks. If all blocks were admitted, each would be evicted before the
//!   scan reads it again (bimodal insertion, Qureshi et al., ISCA 2007). Two cases are always
//!   cached: blocks of a recorded scan, and stubs of large blocks whose value is not read, which
//!   are small.
//! - R4: a value may be missing only in a cursor that [defers](Cursor::defer_values) values, for an
//!   entry in its own large block, until the value is requested. Key and trailer are those of the
//!   block.

use std::ops::Range;
use std::sync::Arc;

use super::block_access::{LARGEST_SCRATCH, LoadedBytes, TableValue, part};
use super::copy::WholeBlock;
use super::search::{Block, BlockShape, prefetch};
use super::stream::{Stream, Stride};
use super::stub::Undecoded;
use super::table::Table;
use super::window::BlockWindow;
use crate::base::cursor::Cursor;
use crate::base::error::Result;
use crate::base::key::{Kind, Seq, Trailer, head};
use crate::block_cache::FrameRef;
use crate::counters::reads::should_sample;
use crate::util::prefetch::fetch_line;

enum BlockSource {
    Nothing,
    Frame(FrameRef),
    /// Range in the map of the file.
    Map(Range<usize>),
    Private,
    /// The cursor's own buffer holds the block without its value.
    Stub,
}

impl BlockSource {
    /// Returns the decoded bytes of the current block of `table`.
    #[inline]
    fn bytes<'a>(&'a self, buffer: &'a [u8], table: &'a Table) -> &'a [u8] {
        match self {
            BlockSource::Frame(f) => f,
            BlockSource::Private | BlockSource::Stub => buffer,
            BlockSource::Map(range) => table.mapped_bytes(range.clone()),
            BlockSource::Nothing => &[],
        }
    }
}

/// Maximum bytes of a short key after prefix and head.
const SHORT_REST: usize = 16;

/// Prefetches the next block into the processor's caches, step by step, while the scan reads the
/// current one. Blocks are scattered in memory, so the hardware prefetcher does not find them.
#[derive(Default)]
pub(super) struct Ahead {
    /// Address of the next block; 0 if unknown.
    at: usize,
}

impl Ahead {
    /// The scan is positioned at `entry`, a byte range of its block. Prefetches the same bytes of
    /// the next block.
    #[inline]
    fn step(&self, entry: Range<u32>) {
        const LINES: usize = 8;
        if self.at != 0 {
            let (from, to) = (self.at + entry.start as usize, self.at + entry.end as usize);
            for line in (from / 64..to / 64).take(LINES) {
                fetch_line(std::ptr::without_provenance(64 * line));
            }
        }
    }
}

/// A position in a table. See [`Table::cursor`].
pub struct TableCursor {
    table: Arc<Table>,
    fill_cache: bool,
    source: BlockSource,
    /// The decoded block if the source is `Private`, its stub if the source is `Stub`.
    buffer: Vec<u8>,
    /// Whether values may be missing until they are requested.
    defers: bool,
    /// The stored bytes of the current block if the source is `Stub` and the block was read.
    /// Compactions retain them after decoding the block.
    undecoded: Undecoded,
    block: usize,
    shape: BlockShape,
    /// Bound returned by [`plain_up_to`](Self::plain_up_to) for the current block. If it has none,
    /// the field exceeds every sequence number.
    plain_up_to: Seq,
    /// Whether the current block is known not to be barren.
    fertile: bool,
    valid: bool,
    pos: usize,
    key: Vec<u8>,
    key_len: usize,
    /// Contribution of the current block's prefix to the heads of its keys.
    prefix_head: u64,
    head: u64,
    trailer: Trailer,
    value: Range<u32>,
    ahead: Ahead,
    stream: Stream,
    stride: Stride,
    window: BlockWindow,
}

debug_by!(TableCursor, "TableCursor", block, pos, valid);

impl TableCursor {
    pub(super) fn new(table: Arc<Table>, fill_cache: bool) -> TableCursor {
        TableCursor {
            table,
            fill_cache,
            source: BlockSource::Nothing,
            buffer: vec![],
            defers: false,
            undecoded: Undecoded::default(),
            block: 0,
            shape: BlockShape::default(),
            plain_up_to: Seq::MAX,
            fertile: false,
            valid: false,
            pos: 0,
            key: vec![],
            key_len: 0,
            prefix_head: 0,
            head: 0,
            trailer: Trailer(0),
            value: 0..0,
            ahead: Ahead::default(),
            stream: Stream::new(!fill_cache),
            stride: Stride::default(),
            window: BlockWindow::default(),
        }
    }

    /// Caches all blocks that are read, however long the scan. Recording cursors use it so that
    /// later reads hit the cache.
    pub fn keep_all(&mut self) {
        self.stride.keep_all();
    }

    /// Continues the scan of `before` from the adjacent table.
    pub fn go_on_from(&mut self, before: &TableCursor) {
        self.stride = before.stride.beyond();
    }

    /// Returns the table.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Returns the current block and the entry's position in it.
    pub fn place(&self) -> (usize, usize) {
        (self.block, self.pos)
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        self.source.bytes(&self.buffer, &self.table)
    }

    #[inline]
    fn view(&self) -> Block<'_> {
        Block::resume(self.bytes(), self.shape)
    }

    /// Makes block `i` the current one. The cursor is invalid until [`stand`](Self::stand).
    fn load(&mut self, i: usize) -> Result<()> {
        self.valid = false;
        if self.block == i && !matches!(self.source, BlockSource::Nothing) {
            return Ok(());
        }
        self.pass_stub();
        self.undecoded.forget();
        self.source = BlockSource::Nothing;
        self.fertile = false;
        self.block = i;
        self.stride.come_to(i, self.table.index.place(i).1);
        self.source = if self.table.is_mapped(i) {
            let asked = self.stream.read(&self.table, i);
            self.count(true);
            BlockSource::Map(self.table.mapped_block(i, asked)?)
        } else if let Some(frame) = self.table.cached(i, self.fill_cache) {
            self.count(false);
            BlockSource::Frame(frame)
        } else if self.defers(i) && self.find_stub(i) {
            BlockSource::Stub
        } else {
            self.stream.read(&self.table, i);
            if self.table.map_to_decode().is_none() {
                self.window.come_to(&self.table, i, &self.stride);
            }
            let read = if self.defers(i) { self.load_deferred(i) } else { self.load_whole(i) };
            // A retry must read the block again.
            read.inspect_err(|_| self.window.forget())?
        };
        if matches!(self.source, BlockSource::Frame(_) | BlockSource::Map(_))
            && self.buffer.capacity() > LARGEST_SCRATCH
        {
            self.buffer = vec![];
        }
        prefetch(self.bytes());
        let Some(block) = Block::new(self.bytes()) else {
            self.source = BlockSource::Nothing;
            return Err(self.table.place(i).corrupt("a data block that is cut off"));
        };
        (self.shape, self.plain_up_to) = (block.shape(), self.table.plain_up_to(block));
        if matches!(self.source, BlockSource::Stub) {
            // Readers skip the trailer check in a plain block and would read the missing value.
            self.plain_up_to = Seq::MAX;
        }
        self.ahead.at = 0;
        let prefix =
            Block::resume(self.source.bytes(&self.buffer, &self.table), self.shape).prefix();
        if self.key.len() < prefix.len() + 8 {
            // Grows the buffer instead of allocating a zeroed one, for which allocators take a
            // slower path.
            self.key.resize(prefix.len() + 64, 0);
        }
        self.key[..prefix.len()].copy_from_slice(prefix);
        self.prefix_head = head(prefix);
        Ok(())
    }

    /// Reads and decodes block `i`.
    fn load_whole(&mut self, i: usize) -> Result<BlockSource> {
        let TableCursor { table, window, buffer, fill_cache, stride, .. } = self;
        let loaded_bytes = loaded_bytes(table, window);
        if *fill_cache && let Some(stay) = stride.keeps(table) {
            return Ok(BlockSource::Frame(table.load(i, loaded_bytes, stay)?));
        }
        table.load_into(i, loaded_bytes, buffer).map_err(|e| table.with_keys(i, e))?;
        if *fill_cache {
            table.count_read(i);
        }
        Ok(BlockSource::Private)
    }

    /// Reports whether the value of block `i` can be deferred.
    fn defers(&self, i: usize) -> bool {
        self.defers && self.table.index.is_large(i)
    }

    /// Loads the cached stub of block `i`, if any. Compactions do not use it, because they must
    /// read every retained block.
    fn find_stub(&mut self, i: usize) -> bool {
        self.fill_cache && self.table.cached_stub(i, &mut self.buffer)
    }

    /// Leaves the current block. If its value was never requested, caches the stub of a block that
    /// was read, and counts a stub from the cache as a hit.
    #[inline]
    fn pass_stub(&self) {
        if matches!(self.source, BlockSource::Stub) && self.fill_cache {
            match self.undecoded.stored() {
                Some(_) => self.table.keep_stub(self.block, &self.buffer),
                None => self.count(false),
            }
        }
    }

    /// Reads block `i` without decoding its value. Decodes the whole block if its key is too long
    /// or its codec requires it.
    fn load_deferred(&mut self, i: usize) -> Result<BlockSource> {
        let TableCursor { table, undecoded, buffer, fill_cache, stride, window, .. } = self;
        let read = table.place(i).stored(loaded_bytes(table, window), |s| {
            Ok(if undecoded.take(&s, buffer) {
                table.check_place(i, buffer)?;
                Ok(BlockSource::Stub)
            } else if *fill_cache && let Some(stay) = stride.keeps(table) {
                table.complete(i, &s, stay).map(BlockSource::Frame)
            } else {
                table.complete_into(i, &s, buffer).map(|()| BlockSource::Private)
            })
        });
        let source = read.map_err(|e| table.with_keys(i, e))??;
        if *fill_cache {
            table.count_read(i);
        }
        Ok(source)
    }

    /// Decodes the block of which only the stub is decoded. Compactions retain the stored bytes
    /// too, because they may still copy the block.
    #[cold]
    fn decode_stub(&mut self) -> Result<()> {
        self.valid = false;
        self.source = BlockSource::Nothing;
        let i = self.block;
        self.source = match (self.table.cached(i, self.fill_cache), self.undecoded.stored()) {
            (Some(frame), None) => {
                self.count(false);
                BlockSource::Frame(frame)
            }
            (Some(frame), Some(_)) => BlockSource::Frame(frame),
            (None, None) => self.load_whole(i)?,
            (None, Some(stored)) => {
                let keeps = || self.stride.keeps(&self.table);
                match self.fill_cache.then(keeps).flatten() {
                    Some(stay) => BlockSource::Frame(self.table.complete(i, &stored, stay)?),
                    None => {
                        self.table.complete_into(i, &stored, &mut self.buffer)?;
                        BlockSource::Private
                    }
                }
            }
        };
        if self.fill_cache {
            self.undecoded.forget();
        }
        let Some(block) = Block::new(self.bytes()) else {
            self.source = BlockSource::Nothing;
            return Err(self.table.place(i).corrupt("a data block that is cut off"));
        };
        self.shape = block.shape();
        self.stand(0);
        Ok(())
    }

    /// Counts a block access for the table's read counters. Compactions do not count as readers.
    #[inline]
    fn count(&self, is_mapped: bool) {
        if self.fill_cache && should_sample() {
            self.table.count_block(is_mapped);
        }
    }

    /// Positions the cursor at entry `pos` of the current block, which must have it.
    #[inline]
    fn stand(&mut self, pos: usize) {
        let block = Block::resume(self.source.bytes(&self.buffer, &self.table), self.shape);
        let prefix_len = self.shape.prefix_len();
        let entry = block.entry(pos);
        let h = block.head(pos);
        let end = prefix_len + 8 + entry.rest.len().max(SHORT_REST);
        if self.key.len() < end {
            self.key.resize(2 * end, 0);
        }
        let key = &mut self.key[prefix_len..end];
        key[..8].copy_from_slice(&h.to_be_bytes());
        // A copy of fixed length needs no call. Excess bytes of the value are after the key and
        // ignored.
        match block.after_head(&entry).first_chunk::<SHORT_REST>() {
            Some(rest) if entry.rest.len() <= SHORT_REST => {
                key[8..8 + SHORT_REST].copy_from_slice(rest);
            }
            _ => key[8..8 + entry.rest.len()].copy_from_slice(entry.rest),
        }
        self.head = self.prefix_head | h.checked_shr(8 * prefix_len as u32).unwrap_or(0);
        self.value = entry.value_range();
        self.ahead.step((self.value.start.saturating_sub(16))..self.value.end);
        self.trailer = self.table.lifted(entry.trailer);
        self.key_len = prefix_len + entry.suffix_len;
        self.pos = pos;
        self.valid = true;
    }

    /// Prefetches block `i`, if it exists, because the scan will reach it next.
    #[inline]
    fn look_ahead(&mut self, i: usize) {
        if matches!(self.source, BlockSource::Frame(_)) {
            self.ahead.at = self.table.address(i);
            self.ahead.step(0..448);
        }
    }

    /// Prefetches the entries that a short scan after a seek would read. The length of the scan is
    /// not known yet.
    #[inline]
    fn look_near(&mut self) {
        const NEAR: usize = 12;
        if self.valid {
            let from = self.bytes().as_ptr().addr() + self.value.end as usize;
            for line in 1..8 {
                fetch_line(std::ptr::without_provenance(from + 64 * line));
            }
            if self.shape.len() - self.pos < NEAR {
                self.look_ahead(self.block + 1);
            }
        }
    }

    /// Positions the cursor at `pos` of the current block, or at the first entry after it.
    #[inline]
    fn stand_or_go_on(&mut self, pos: usize) -> Result<()> {
        if pos < self.shape.len() {
            self.stand(pos);
        } else if self.block + 1 < self.table.index.len() {
            self.load(self.block + 1)?;
            self.look_ahead(self.block + 1);
            self.stand(0);
        } else {
            self.valid = false;
        }
        Ok(())
    }

    /// Seeks the first entry at or after `(key, at)`, given the block that the index returned for
    /// `key`.
    ///
    /// # Errors
    /// Those of [`Cursor::seek`].
    pub fn seek_from(&mut self, i: usize, key: &[u8], at: Trailer) -> Result<()> {
        self.valid = false;
        if i >= self.table.index.len() {
            return Ok(());
        }
        debug_assert_eq!(i, self.table.index.find(key), "the index has this block");
        self.load(i)?;
        let mut pos = self.view().seek(key, at).0;
        if pos == self.shape.len() && self.table.index.flags(i) & super::index::CONTINUES != 0 {
            let table = self.table.clone();
            let i = table.seek_run(i + 1, |b| {
                self.load(b)?;
                Ok(self.view().seek(key, at).0 == self.shape.len())
            })?;
            self.load(i)?;
            pos = self.view().seek(key, at).0;
        }
        self.stand_or_go_on(pos)?;
        self.look_near();
        // In an ingested table the stored trailer is older than the effective one.
        if self.table.lift() != 0 && self.valid && self.trailer > at && self.key() == key {
            return self.next();
        }
        Ok(())
    }

    /// Returns an upper bound of the sequence numbers of a plain block. All entries of the block
    /// must be puts, and no user key occurs twice, here or in a neighbouring block. A reader at or
    /// above the bound sees every entry and need not check trailers. Returns `None` otherwise, and
    /// while the cursor is invalid.
    #[inline]
    pub fn plain_up_to(&self) -> Option<Seq> {
        (self.valid && self.plain_up_to != Seq::MAX).then_some(self.plain_up_to)
    }

    /// Skips the current block and following ones in scan direction while they contain only deletes
    /// and all their keys are on this side of `limit`. Then positions the cursor at the next entry.
    ///
    /// No reader sees anything of the skipped blocks. The caller must ensure that older tables'
    /// versions of those keys stay hidden too. Returns false if the cursor did not move.
    pub fn pass_deletes(&mut self, forward: bool, limit: Option<&[u8]>) -> Result<bool> {
        if !self.valid || self.fertile || !self.table.index.is_dense(self.block) {
            return Ok(false);
        }
        let blocks = self.table.index.len();
        let end = limit.map(|key| self.table.index.find(key));
        let (from, mut i) = (self.block, self.block);
        while i < blocks
            && end.is_none_or(|e| if forward { i < e } else { i > e })
            && self.is_barren(i)?
        {
            i = if forward { i + 1 } else { i.wrapping_sub(1) };
        }
        self.valid = i == from;
        if i != from && i < blocks {
            self.load(i)?;
            self.stand(if forward { 0 } else { self.shape.len() - 1 });
        }
        Ok(i != from)
    }

    /// Reports whether block `i` contains only deletes. May make it the current block and
    /// invalidate the cursor.
    fn is_barren(&mut self, i: usize) -> Result<bool> {
        if !self.table.index.is_dense(i) || self.table.index.is_barren(i) {
            return Ok(self.table.index.is_dense(i));
        }
        let properties = self.table.properties();
        if properties.deletes < properties.entries {
            self.load(i)?;
            let block = self.view();
            if !(0..block.len()).all(|pos| block.entry(pos).trailer.kind() == Some(Kind::Delete)) {
                self.fertile = true;
                return Ok(false);
            }
        }
        self.table.index.set_barren(i);
        Ok(true)
    }

    /// Reports whether the cursor is at the first entry of a block.
    #[inline]
    pub fn is_at_start(&self) -> bool {
        self.valid && self.pos == 0
    }

    /// Reports whether the cursor is at the only entry of a block.
    #[inline]
    pub fn is_lone(&self) -> bool {
        self.valid && self.shape.len() == 1
    }

    /// Returns the current block if the cursor is at its start and the block can be copied.
    #[inline]
    pub fn whole_block(&self) -> Option<WholeBlock<'_>> {
        if self.is_at_start() {
            let is_cached = matches!(self.source, BlockSource::Frame(_));
            let read = self.undecoded.stored();
            if matches!(self.source, BlockSource::Stub) && read.is_none() {
                return None;
            }
            let loaded_bytes = loaded_bytes(&self.table, &self.window);
            let (block, first) = (self.view(), self.key());
            WholeBlock::new(&self.table, self.block, block, first, is_cached, read, loaded_bytes)
        } else {
            None
        }
    }

    /// Moves to the first entry after the current block.
    pub fn pass_block(&mut self) -> Result<()> {
        if self.valid { self.stand_or_go_on(self.shape.len()) } else { Ok(()) }
    }

    /// Returns the value with its own reference, valid after the cursor moves. Copies only if the
    /// block is in the cursor's own buffer.
    pub fn pin_value(&self) -> TableValue {
        let value = self.value.clone();
        match &self.source {
            BlockSource::Frame(f) => TableValue::frame(f.clone(), value),
            BlockSource::Map(_) => self.table.map_value(self.block, value),
            BlockSource::Private | BlockSource::Stub | BlockSource::Nothing => {
                TableValue::copy(self.value())
            }
        }
    }
}

/// Returns the bytes of `table` that are already in memory.
fn loaded_bytes<'a>(table: &'a Table, window: &'a BlockWindow) -> Option<LoadedBytes<'a>> {
    table.map_to_decode().or_else(|| Some(window.loaded_bytes()))
}

impl Drop for TableCursor {
    fn drop(&mut self) {
        self.pass_stub();
    }
}

impl Table {
    /// Returns the bound of [`TableCursor::plain_up_to`], or [`Seq::MAX`] for a block without one.
    fn plain_up_to(&self, block: Block<'_>) -> Seq {
        match (self.lift(), block.uniform()) {
            (0, _) if !block.is_plain() => Seq::MAX,
            (0, Some(trailer)) => trailer.seq(),
            (0, None) => self.properties().max_seq,
            (lift, _) => lift,
        }
    }

    /// Returns a cursor over the point entries. With `fill_cache`, it caches blocks that it reads,
    /// except most blocks of a long scan while the cache is full. Blocks that it does not cache are
    /// decoded into the cursor's own buffer.
    pub fn cursor(self: &Arc<Self>, fill_cache: bool) -> TableCursor {
        TableCursor::new(self.clone(), fill_cache)
    }
}

impl Cursor for TableCursor {
    #[inline]
    fn valid(&self) -> bool {
        self.valid
    }

    #[inline]
    fn key(&self) -> &[u8] {
        &self.key[..self.key_len]
    }

    #[inline]
    fn trailer(&self) -> Trailer {
        self.trailer
    }

    #[inline]
    fn value(&self) -> &[u8] {
        debug_assert!(!matches!(self.source, BlockSource::Stub), "the value was not requested");
        part(self.bytes(), self.value.start as usize..self.value.end as usize)
    }

    #[inline]
    fn head(&self) -> u64 {
        self.head
    }

    fn defer_values(&mut self) {
        self.defers = true;
    }

    #[inline]
    fn complete(&mut self) -> Result<()> {
        if self.valid && matches!(self.source, BlockSource::Stub) {
            self.decode_stub()
        } else {
            Ok(())
        }
    }

    fn seek(&mut self, key: &[u8], at: Trailer) -> Result<()> {
        self.seek_from(self.table.index.find(key), key, at)
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.valid = false;
        let blocks = self.table.index.len();
        let mut i = self.table.index.find(key);
        if i < blocks {
            self.load(i)?;
            let pos = self.view().seek(key, Trailer::NEWEST).0;
            if pos > 0 {
                self.stand(pos - 1);
                return Ok(());
            }
        }
        i = i.min(blocks);
        if i > 0 {
            self.load(i - 1)?;
            self.stand(self.shape.len() - 1);
        }
        Ok(())
    }

    fn first(&mut self) -> Result<()> {
        self.valid = false;
        if self.table.index.len() > 0 {
            self.load(0)?;
            self.stand(0);
        }
        Ok(())
    }

    fn last(&mut self) -> Result<()> {
        self.valid = false;
        if let Some(last) = self.table.index.len().checked_sub(1) {
            self.load(last)?;
            self.stand(self.shape.len() - 1);
        }
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if self.valid { self.stand_or_go_on(self.pos + 1) } else { Ok(()) }
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        if !self.valid {
            return Ok(());
        }
        if let Some(pos) = self.pos.checked_sub(1) {
            self.stand(pos);
        } else if let Some(i) = self.block.checked_sub(1) {
            self.load(i)?;
            self.look_ahead(i.wrapping_sub(1));
            self.stand(self.shape.len() - 1);
        } else {
            self.valid = false;
        }
        Ok(())
    }
}
