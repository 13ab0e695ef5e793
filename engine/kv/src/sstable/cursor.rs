//! Walks the point entries of one table, in both directions.
//!
//! Invariants beyond those of [`Cursor`]:
//! - R1: while the cursor is valid, `key` holds the whole user key of the entry: the block's prefix
//!   is written once per block, head and rest once per step. Nothing else is copied.
//! - R2: the block's bytes are held by the cursor (a frame of the cache, the map of the file, or
//!   the cursor's own buffer), so what it hands out stays where it is until the cursor moves.
//! - R3: what a walk that is long ([`Stride`]) reads goes into the cache while there is room, and one
//!   block in 16 into one that is full ([`Cache::admits_passing`](crate::cache::Cache)). So it evicts
//!   little of what others read, and one that comes again and again over more than the cache holds
//!   finds what was there; else each block would go before the walk comes to it again (the bimodal
//!   insertion of Qureshi et al., ISCA 2007). What a recorded walk reads goes into the cache always,
//!   and what is known of a large block whose value nobody wants, which is small.
//! - R4: a value may be missing only of a cursor that [defers](Cursor::defer_values), of an entry that
//!   has a large block to itself, until it is asked for. Key and trailer are those of the block.

use std::ops::Range;
use std::sync::Arc;

use super::copy::WholeBlock;
use super::search::{Block, BlockShape, prefetch};
use super::stream::{Stream, Stride};
use super::stub::Undecoded;
use super::table::{BytesAtHand, LARGEST_SCRATCH, Table, TableValue, part};
use super::window::BlockWindow;
use crate::base::cursor::Cursor;
use crate::base::error::Result;
use crate::base::key::{Kind, Seq, Trailer, head};
use crate::base::prefetch::fetch_line;
use crate::base::reads::is_looked_at;
use crate::cache::FrameRef;

enum BlockSource {
    Nothing,
    Frame(FrameRef),
    /// Where in the map of the file.
    Map(Range<usize>),
    Private,
    /// The cursor's own buffer has the block without its value.
    Stub,
}

impl BlockSource {
    /// The decoded bytes of the current block of `table`.
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

/// So many bytes of a key at most follow prefix and head where it is short.
const SHORT_REST: usize = 16;

/// Asks the memory for the block that a walk comes to next while it walks this one, step by step:
/// blocks lie scattered, so the processor does not foresee them.
#[derive(Default)]
pub(super) struct Ahead {
    /// Where that block begins; 0 when it is not known.
    at: usize,
}

impl Ahead {
    /// A walk stands on `entry`, bytes of its block: asks for the same bytes of the other one.
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
    /// The decoded block where the source is `Private`, what is known of it where it is `Stub`.
    buffer: Vec<u8>,
    /// Whether values may be missing until they are asked for.
    defers: bool,
    /// The current block as it is stored, where the source is `Stub` and it was read; in merges also
    /// where it was decoded then.
    undecoded: Undecoded,
    block: usize,
    shape: BlockShape,
    /// The bound of [`plain_up_to`](Self::plain_up_to) of the current block; of one that has none
    /// more than any sequence number.
    plain_up_to: Seq,
    /// Whether the current block was found not to be barren.
    fertile: bool,
    valid: bool,
    pos: usize,
    key: Vec<u8>,
    key_len: usize,
    /// What the prefix of the current block gives to the heads of its keys.
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

    /// What is read goes into the cache, however long the walk: who records what it does finds it
    /// there.
    pub fn keep_all(&mut self) {
        self.stride.keep_all();
    }

    /// Goes on with the walk that `before` has been on in the table beside.
    pub fn go_on_from(&mut self, before: &TableCursor) {
        self.stride = before.stride.beyond();
    }

    /// The table.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The block in which it stands, and the entry of it.
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
            // Who tries again reads it again.
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
            // Who needs to look at no trailer looks for the value.
            self.plain_up_to = Seq::MAX;
        }
        self.ahead.at = 0;
        let prefix =
            Block::resume(self.source.bytes(&self.buffer, &self.table), self.shape).prefix();
        if self.key.len() < prefix.len() + 8 {
            // Grown, not made of zeros: an allocator hands those out by a longer way.
            self.key.resize(prefix.len() + 64, 0);
        }
        self.key[..prefix.len()].copy_from_slice(prefix);
        self.prefix_head = head(prefix);
        Ok(())
    }

    /// Reads and decodes block `i`.
    fn load_whole(&mut self, i: usize) -> Result<BlockSource> {
        let TableCursor { table, window, buffer, fill_cache, stride, .. } = self;
        let at_hand = at_hand(table, window);
        if *fill_cache && let Some(stay) = stride.keeps(table) {
            return Ok(BlockSource::Frame(table.load(i, at_hand, stay)?));
        }
        table.load_into(i, at_hand, buffer).map_err(|e| table.with_keys(i, e))?;
        if *fill_cache {
            table.count_read(i);
        }
        Ok(BlockSource::Private)
    }

    /// Whether the value of block `i` can wait.
    fn defers(&self, i: usize) -> bool {
        self.defers && self.table.index.is_large(i)
    }

    /// Whether block `i` is cached but for its value. A merge has to read all that it keeps.
    fn find_stub(&mut self, i: usize) -> bool {
        self.fill_cache && self.table.cached_stub(i, &mut self.buffer)
    }

    /// Leaves the current block. If nobody wanted its value it is cached as it is known, where it was
    /// read, and counts as found in the cache, where it was there.
    #[inline]
    fn pass_stub(&self) {
        if matches!(self.source, BlockSource::Stub) && self.fill_cache {
            match self.undecoded.stored() {
                Some(_) => self.table.keep_stub(self.block, &self.buffer),
                None => self.count(false),
            }
        }
    }

    /// Reads block `i` but for its value, and decodes all of it where it has to be: its key is long,
    /// or it is stored in such a way.
    fn load_deferred(&mut self, i: usize) -> Result<BlockSource> {
        let TableCursor { table, undecoded, buffer, fill_cache, stride, window, .. } = self;
        let read = table.place(i).stored(at_hand(table, window), |s| {
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

    /// Decodes the block of which only the key is known. A merge may copy it all the same, so it is
    /// kept as it is stored too.
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

    /// Counts a block for the readers of the table, which merges are not.
    #[inline]
    fn count(&self, is_mapped: bool) {
        if self.fill_cache && is_looked_at() {
            self.table.count_block(is_mapped);
        }
    }

    /// Stands on entry `pos` of the current block, which must have it.
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
        // A copy of known length needs no call. What it takes of the value lies behind the key.
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

    /// The walk will come to block `i` after this one, if there is one.
    #[inline]
    fn look_ahead(&mut self, i: usize) {
        if matches!(self.source, BlockSource::Frame(_)) {
            self.ahead.at = self.table.address(i);
            self.ahead.step(0..448);
        }
    }

    /// After a seek a walk is short or long, nobody knows: asks for what a short one comes to.
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

    /// Stands on `pos` of the current block, or on the first entry behind it.
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

    /// To the first entry at or after `(key, at)`, given the block in which the index has `key`.
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    pub fn seek_from(&mut self, i: usize, key: &[u8], at: Trailer) -> Result<()> {
        self.valid = false;
        if i >= self.table.index.len() {
            return Ok(());
        }
        debug_assert_eq!(i, self.table.index.find(key), "the block is the key's");
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
        // In an ingested table the stored trailer is older than the one that counts.
        if self.table.lift() != 0 && self.valid && self.trailer > at && self.key() == key {
            return self.next();
        }
        Ok(())
    }

    /// When all entries of the current block are puts, and no user key of it occurs twice, here or
    /// in a neighbouring block: a bound on their sequence numbers. A reader at or above it sees
    /// every entry of the block and needs to look at no trailer. `None` otherwise, and while the
    /// cursor is invalid.
    #[inline]
    pub fn plain_up_to(&self) -> Option<Seq> {
        (self.valid && self.plain_up_to != Seq::MAX).then_some(self.plain_up_to)
    }

    /// Passes over the current block and those that follow in the direction of the walk, as long as
    /// they hold nothing but deletes and all of their keys lie on this side of `limit`, and stands
    /// on the next entry then. Nothing of what is passed over is seen by any reader, but what an
    /// older table has of those keys must not be either. False when the cursor stays where it is.
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

    /// Whether block `i` holds nothing but deletes. May make it the current block, and the cursor
    /// invalid.
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

    /// Whether it stands on the first entry of a block.
    #[inline]
    pub fn is_at_start(&self) -> bool {
        self.valid && self.pos == 0
    }

    /// Whether it stands on the only entry of a block.
    #[inline]
    pub fn is_lone(&self) -> bool {
        self.valid && self.shape.len() == 1
    }

    /// The current block, when the cursor stands at its start and it is one that can be copied.
    #[inline]
    pub fn whole_block(&self) -> Option<WholeBlock<'_>> {
        if self.is_at_start() {
            let is_cached = matches!(self.source, BlockSource::Frame(_));
            let read = self.undecoded.stored();
            if matches!(self.source, BlockSource::Stub) && read.is_none() {
                return None;
            }
            let at_hand = at_hand(&self.table, &self.window);
            let (block, first) = (self.view(), self.key());
            WholeBlock::new(&self.table, self.block, block, first, is_cached, read, at_hand)
        } else {
            None
        }
    }

    /// To the first entry behind the current block.
    pub fn pass_block(&mut self) -> Result<()> {
        if self.valid { self.stand_or_go_on(self.shape.len()) } else { Ok(()) }
    }

    /// The value, held beyond the cursor's next step. Costs a copy only when the block is in the
    /// cursor's own buffer.
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

/// The bytes of `table` that need not be read.
fn at_hand<'a>(table: &'a Table, window: &'a BlockWindow) -> Option<BytesAtHand<'a>> {
    table.map_to_decode().or_else(|| Some(window.at_hand()))
}

impl Drop for TableCursor {
    fn drop(&mut self) {
        self.pass_stub();
    }
}

impl Table {
    /// See [`TableCursor::plain_up_to`]; of a block that has no such bound [`Seq::MAX`].
    fn plain_up_to(&self, block: Block<'_>) -> Seq {
        match (self.lift(), block.uniform()) {
            (0, _) if !block.is_plain() => Seq::MAX,
            (0, Some(trailer)) => trailer.seq(),
            (0, None) => self.properties().max_seq,
            (lift, _) => lift,
        }
    }

    /// A cursor over the point entries. With `fill_cache`, blocks that are not cached become so, but
    /// for most of a long walk's where the cache is full; without, and those, they are decoded into a
    /// buffer of the cursor's own.
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
        debug_assert!(!matches!(self.source, BlockSource::Stub), "the value was not asked for");
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
