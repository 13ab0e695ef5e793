//! Reads one table file: point reads, and the blocks for cursors.
//!
//! Invariants:
//! - T1: index, filter, tombstones and properties are read when the table is opened and stay in
//!   memory; [`Table::memory`] counts them.
//! - T2: a decoded block is validated (checksum, then structure) once, when it is decoded or first
//!   met in the map, before anything else sees it. A block that fails is an error each time it is
//!   wanted, never a wrong answer. Of a block of one large entry a cursor may look at the key before
//!   the value is decoded: then a value that fails is an error when it is wanted.
//! - T3: a block that is stored as it is, in a mapped file, is served from the map and not cached,
//!   as long as [`Maps`] say so; every other block is decoded into a frame of the cache, to which
//!   the slot with the block's number leads.
//! - T4: a block that is not in memory costs one read of the device at most, whether it is served from
//!   the map or decoded; a walk reads several at once.
//!
//! The path of a point read is: index (one binary search over 8-byte heads), slot, block (one
//! binary search), entry.

use std::cell::Cell;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::filter::BlockFilter;
use super::format::{BLOCK_HEADER, BlockKind, FOOTER, Footer, StoredBlock, block_error};
use super::index::{BlockIndex, BlockInfo, CONTINUES, RAW};
use super::properties::Properties;
use super::search::{Block, prefetch};
use super::tombstones;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::identity::TableIdentity;
use crate::base::key::{Kind, Seq, Trailer};
use crate::base::options::Compression;
use crate::base::reads::ReadCounters;
use crate::base::sync::Mutex;
use crate::base::sync::epoch::{self, Guard};
use crate::base::tombstone::Fragments;
use crate::cache::{Cache, CacheFrame, CacheSlots, CacheStay, FrameRef, InheritedBlock};
use crate::env::{FileMap, ReadFile};

/// An open table.
pub struct Table {
    pub(super) file: Arc<dyn ReadFile>,
    pub(super) path: PathBuf,
    pub(super) id: u64,
    cache: Arc<Cache>,
    slots: Arc<CacheSlots>,
    /// Large blocks without their values; none where no block is large.
    stubs: Arc<CacheSlots>,
    pub(super) index: BlockIndex,
    /// Where blocks are served or decoded from it. The table needs no open file for that.
    map: Option<Arc<dyn FileMap>>,
    /// Whether some block may be served from the map, when `maps` say so.
    mapped: bool,
    maps: Arc<Maps>,
    /// Per block, whether it was found sound in the map.
    checked: Box<[AtomicU64]>,
    pub(super) filter: Option<BlockFilter>,
    /// Whether there was a filter that is not asked.
    pub(super) filter_forgotten: bool,
    tombstones: Arc<Fragments>,
    lift: Seq,
    properties: Properties,
    identity: TableIdentity,
    /// Blocks that have come from other tables as they were, until [`inherit`](Self::inherit).
    heritage: Mutex<Vec<InheritedBlock>>,
    /// What readers did with it and the other tables of its tree.
    reads: Arc<ReadCounters>,
}

debug_by!(Table, "Table", id, path);

/// What the maps of a Db's tables are used for. Shared by its tables, because it may change while
/// they are open.
#[derive(Debug)]
pub struct Maps {
    /// Blocks that are stored as they are are served from the map.
    serve: AtomicBool,
    /// All other blocks are decoded from it, too, instead of being read with a call.
    decode: bool,
}

impl Maps {
    /// For tables of mapped files.
    pub fn new(decode: bool) -> Arc<Maps> {
        Arc::new(Maps { serve: AtomicBool::new(true), decode })
    }

    /// Whether blocks are served from maps from now on. What was handed out stays good.
    pub fn serve(&self, yes: bool) {
        self.serve.store(yes, Ordering::Relaxed);
    }

    /// Whether they are.
    #[inline]
    pub fn serves(&self) -> bool {
        self.serve.load(Ordering::Relaxed)
    }

    /// Whether all other blocks are decoded from them.
    #[inline]
    pub fn decodes(&self) -> bool {
        self.decode
    }
}

/// A physical block of a file that is about to be read.
pub(super) struct BlockPlace<'a> {
    pub file: &'a dyn ReadFile,
    pub path: &'a Path,
    pub id: u64,
    pub kind: BlockKind,
    pub offset: u64,
    pub len: usize,
}

impl BlockPlace<'_> {
    /// An error about this block.
    pub fn corrupt(&self, what: &str) -> Error {
        block_error(what).at(self.path, self.offset).block(self.kind.name())
    }

    /// Checks the block's bytes, which are `at_hand` or else read into a buffer, and gives them to
    /// `f`.
    pub fn stored<R>(
        &self,
        at_hand: Option<BytesAtHand<'_>>,
        f: impl FnOnce(StoredBlock<'_>) -> Result<R, &'static str>,
    ) -> Result<R> {
        let check = |block: &[u8]| {
            StoredBlock::check(block, self.kind, self.id, self.offset)
                .and_then(f)
                .map_err(|e| self.corrupt(e))
        };
        let end = self.offset.saturating_add(self.len as u64);
        if end > self.file.len() {
            return Err(self.corrupt("a block beyond the end of the file"));
        }
        if let Some(block) = at_hand.and_then(|bytes| bytes.get(self.offset, self.len)) {
            return check(block);
        }
        let mut block = SCRATCH.take();
        if block.len() < self.len {
            block.resize(self.len, 0);
        }
        let stored = &mut block[..self.len];
        let read = self.file.read_at(self.offset, stored).and_then(|()| check(stored));
        if block.len() <= LARGEST_SCRATCH {
            SCRATCH.set(block);
        }
        read
    }

    /// The same with the decompressed bytes, read in one piece.
    pub fn raw<R>(&self, f: impl FnOnce(&[u8]) -> Result<R, &'static str>) -> Result<R> {
        self.stored(
            None,
            |s| if s.codec == Compression::None { f(s.bytes) } else { f(&s.to_vec()?) },
        )
    }
}

/// Bytes of a file that are in memory: its map, or what a walk has read of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct BytesAtHand<'a> {
    begin: u64,
    bytes: &'a [u8],
}

impl<'a> BytesAtHand<'a> {
    /// Bytes that begin at this offset in the file.
    pub fn new(begin: u64, bytes: &'a [u8]) -> BytesAtHand<'a> {
        BytesAtHand { begin, bytes }
    }

    /// The map of the whole file.
    pub fn map(bytes: &'a [u8]) -> BytesAtHand<'a> {
        BytesAtHand { begin: 0, bytes }
    }

    /// So many bytes from an offset in the file on, if all of them are there.
    pub fn get(&self, offset: u64, len: usize) -> Option<&'a [u8]> {
        let from = usize::try_from(offset.checked_sub(self.begin)?).ok()?;
        self.bytes.get(from..from.checked_add(len)?)
    }
}

/// Buffers for stored blocks are kept up to this length: that of a thread, into which it reads them,
/// and those of cursors.
pub(super) const LARGEST_SCRATCH: usize = 64 << 10;

thread_local! {
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(vec![]) };
}

/// Checks the structure of a decoded data block.
pub(super) fn validate(raw: &[u8]) -> Result<(), &'static str> {
    Block::new(raw).ok_or("a data block that is cut off")?.validate()
}

/// Decodes a data block into `buffer`, which becomes exactly as long.
fn decode_into(block: &StoredBlock<'_>, buffer: &mut Vec<u8>) -> Result<(), &'static str> {
    buffer.resize(block.raw_len, 0);
    block.unpack(buffer)?;
    validate(buffer)
}

/// The entries of a decoded data block, for tools that walk a file by its blocks'
/// [headers](super::format::BlockHeader) alone. What is wrong, if the block is not sound.
pub fn block_entries(
    raw: &[u8],
) -> Result<impl Iterator<Item = (Vec<u8>, Trailer, &[u8])>, &'static str> {
    validate(raw)?;
    let block = Block::new(raw).ok_or("a data block that is cut off")?;
    Ok((0..block.len()).map(move |i| {
        let (entry, mut key) = (block.entry(i), vec![]);
        block.key_into(i, &mut key);
        (key, entry.trailer, entry.value)
    }))
}

/// Decoded blocks of a table that has just been written.
#[derive(Debug, Default)]
pub struct WarmBlocks {
    /// Those for which the cache had room, by their numbers.
    pub frames: Vec<(u32, FrameRef)>,
    /// Those that are cached as blocks of the tables from which they have come.
    pub inherited: Vec<InheritedBlock>,
}

/// Where a block's decoded bytes are while they are looked at.
pub(super) enum HeldBlock<'g> {
    Guarded(&'g CacheFrame),
    Map(&'g [u8]),
    Owned(FrameRef),
}

impl HeldBlock<'_> {
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match self {
            HeldBlock::Guarded(f) => f,
            HeldBlock::Map(b) => b,
            HeldBlock::Owned(f) => f,
        }
    }
}

/// An entry that a point read found.
pub struct TableHit<'g> {
    /// Sequence number and kind.
    pub trailer: Trailer,
    table: &'g Table,
    block: usize,
    held: HeldBlock<'g>,
    value: Range<u32>,
}

debug_by!(TableHit<'_>, "Hit", trailer, block);

impl TableHit<'_> {
    /// The value: empty for deletes.
    #[inline]
    pub fn value(&self) -> &[u8] {
        part(self.held.bytes(), self.value.start as usize..self.value.end as usize)
    }

    /// The value, held without the guard.
    pub fn pin(&self) -> TableValue {
        match &self.held {
            HeldBlock::Guarded(f) => TableValue::frame(f.to_ref(), self.value.clone()),
            HeldBlock::Owned(f) => TableValue::frame(f.clone(), self.value.clone()),
            HeldBlock::Map(_) => self.table.map_value(self.block, self.value.clone()),
        }
    }
}

/// A part of what has been checked: entries lie in their blocks, or the block would not have been
/// decoded.
#[inline]
pub(super) fn part(bytes: &[u8], range: Range<usize>) -> &[u8] {
    debug_assert!(
        range.start <= range.end && range.end <= bytes.len(),
        "{range:?} of {} bytes",
        bytes.len()
    );
    bytes.get(range).unwrap_or_default()
}

/// A value that holds what it lies in.
#[derive(Clone)]
pub struct TableValue(TableOwner);

debug_by!(TableValue, "TableValue");

#[derive(Clone)]
enum TableOwner {
    Frame(FrameRef, Range<u32>),
    Map(Arc<dyn FileMap>, Range<u64>),
    Copy(Arc<[u8]>),
}

impl TableValue {
    pub(super) fn frame(frame: FrameRef, value: Range<u32>) -> TableValue {
        TableValue(TableOwner::Frame(frame, value))
    }

    pub(super) fn map(map: Arc<dyn FileMap>, value: Range<u64>) -> TableValue {
        TableValue(TableOwner::Map(map, value))
    }

    pub(super) fn copy(value: &[u8]) -> TableValue {
        TableValue(TableOwner::Copy(value.into()))
    }
}

impl Deref for TableValue {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            TableOwner::Frame(f, r) => part(f, r.start as usize..r.end as usize),
            TableOwner::Map(m, r) => part(m.bytes(), r.start as usize..r.end as usize),
            TableOwner::Copy(b) => b,
        }
    }
}

impl Table {
    /// Opens the table `id`, which `file` must be; `path` is for errors. Reads footer, properties,
    /// index, filter and tombstones: nothing that grows with the data but those.
    ///
    /// # Errors
    /// `Corruption` with the place for anything that is not sound, `Incompatible` for a newer
    /// format, whatever the file says.
    pub fn open(
        file: Arc<dyn ReadFile>,
        path: &Path,
        id: u64,
        cache: Arc<Cache>,
    ) -> Result<Arc<Table>> {
        Self::open_ingested(file, path, id, cache, 0)
    }

    /// The same for a table that was ingested: its entries are puts of distinct keys, written
    /// without sequence numbers, and all of them have `seq`, which only the manifest knows. 0 is
    /// for other tables.
    ///
    /// # Errors
    /// As [`open`](Table::open).
    pub fn open_ingested(
        file: Arc<dyn ReadFile>,
        path: &Path,
        id: u64,
        cache: Arc<Cache>,
        seq: Seq,
    ) -> Result<Arc<Table>> {
        Self::open_with(file, path, id, cache, seq, Maps::new(true))
    }

    /// The same for a table whose map is used as `maps` say.
    ///
    /// # Errors
    /// As [`open`](Table::open).
    pub fn open_with(
        file: Arc<dyn ReadFile>,
        path: &Path,
        id: u64,
        cache: Arc<Cache>,
        seq: Seq,
        maps: Arc<Maps>,
    ) -> Result<Arc<Table>> {
        let Some(offset) = file.len().checked_sub(FOOTER as u64) else {
            return Err(Error::corruption("too short for a table file")
                .at(path, 0)
                .block("footer"));
        };
        let mut f = [0; FOOTER];
        file.read_at(offset, &mut f)?;
        let footer = Footer::decode(&f, path, id, offset)?;
        if footer.is_of_values() {
            let e = Error::corruption("this is a value file, where a table should be");
            return Err(e.at(path, offset).block("footer"));
        }
        let part = |kind, offset, len: u32| BlockPlace {
            file: &*file,
            path,
            id,
            kind,
            offset,
            len: len as usize,
        };
        let properties = part(BlockKind::Properties, footer.properties_at(), footer.properties_len)
            .raw(|b| Properties::decode(b).ok_or("properties that cannot be read"))?;
        let index = part(BlockKind::Index, footer.index_at(), footer.index_len).raw(|b| {
            BlockIndex::decode(b, footer.data_len).ok_or("an index that cannot be read")
        })?;
        let filter = match footer.filter_len {
            0 => None,
            len => Some(part(BlockKind::Filter, footer.data_len, len).raw(BlockFilter::decode)?),
        };
        let tombstones = match footer.tombstones_len {
            0 => Arc::default(),
            len => part(BlockKind::Tombstones, footer.tombstones_at(), len)
                .raw(|b| tombstones::decode(b).ok_or("tombstones that cannot be read"))
                .map(Arc::new)?,
        };
        let map = if index.any_raw() || maps.decode { file.map() } else { None };
        let mapped = index.any_raw()
            && map.as_ref().is_some_and(|m| m.bytes().len() as u64 >= footer.data_len);
        let checked = if mapped {
            (0..index.len().div_ceil(64)).map(|_| AtomicU64::new(0)).collect()
        } else {
            Box::default()
        };
        let slots =
            Arc::new(CacheSlots::of_file(footer.identity.unique.wrapping_add(id), index.len()));
        let any_large = (0..index.len()).any(|i| index.is_large(i));
        let stubs = Arc::new(CacheSlots::new(if any_large { index.len() } else { 0 }));
        let path = path.to_path_buf();
        Ok(Arc::new(Table {
            file,
            path,
            id,
            cache,
            slots,
            stubs,
            index,
            map,
            mapped,
            maps,
            checked,
            filter,
            filter_forgotten: false,
            tombstones,
            properties,
            identity: footer.identity,
            heritage: Mutex::default(),
            reads: Arc::default(),
            lift: seq,
        }))
    }

    /// Counts there what readers do from now on.
    pub fn count_reads(&mut self, reads: Arc<ReadCounters>) {
        self.reads = reads;
    }

    /// Counts where the search of `key`, which is looked at, will find its block. One that has to
    /// be read is counted by who reads it.
    pub fn count_search(&self, key: &[u8], guard: &Guard) {
        let i = self.index.find(key);
        if i < self.index.len() && (self.is_mapped(i) || self.slots.peek(i, guard).is_some()) {
            self.count_block(self.is_mapped(i));
        }
    }

    /// Counts what a cursor, that is looked at, finds a block in.
    #[cold]
    pub(super) fn count_block(&self, is_mapped: bool) {
        if is_mapped { self.reads.block_was_mapped() } else { self.reads.block_was_cached() }
    }

    /// Answers without the filter from now on: nobody knows what part of a key is in it.
    pub fn forget_filter(&mut self) {
        self.filter_forgotten |= self.filter.take().is_some();
    }

    /// Whether the table may hold a key with this hash (of the key, or of its filter prefix);
    /// `false` is always right. True without a filter.
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        self.filter.as_ref().is_none_or(|f| f.may_contain(hash))
    }

    /// The newest version of `key` that a reader at `read` sees. With a hash the filter is asked
    /// first; `None` when it was already.
    ///
    /// # Errors
    /// `Corruption` with the place, when the block that must hold the key cannot be used.
    #[inline]
    pub fn get<'g>(
        &'g self,
        key: &[u8],
        hash: Option<u64>,
        read: Seq,
        guard: &'g Guard,
    ) -> Result<Option<TableHit<'g>>> {
        if hash.is_some_and(|h| !self.may_contain(h)) {
            return Ok(None);
        }
        let i = self.index.find(key);
        if i >= self.index.len() {
            return Ok(None);
        }
        let at = Trailer::at(read);
        let held = self.block(i, guard)?;
        let (hit, past) = self.find_in(i, held, key, at)?;
        if past && self.index.flags(i) & CONTINUES != 0 {
            return self.get_in_run(i, key, at, guard);
        }
        Ok(hit)
    }

    /// The block that may hold `key`, and asks the memory for its slot: the first of three steps by
    /// which a read's cache misses can be fetched ahead. None of them changes anything or fails.
    pub fn locate(&self, key: &[u8]) -> Option<usize> {
        let i = self.index.find(key);
        self.slots.prefetch(i);
        (i < self.index.len()).then_some(i)
    }

    /// Where block `i` begins in memory if it is cached, else 0: a hint for
    /// [`Ahead`](super::cursor::Ahead).
    #[inline]
    pub(super) fn address(&self, i: usize) -> usize {
        self.slots.address(i)
    }

    /// Asks the device for block `i`, unless it is cached or served from the map: a read of it will
    /// not have to wait as long.
    pub fn ask_device(&self, i: usize, guard: &Guard) {
        if !self.is_mapped(i) && self.slots.peek(i, guard).is_none() {
            let (offset, len) = self.index.place(i);
            self.will_need(offset, len as u64);
        }
    }

    /// The second step: asks for the part of block `i` that is searched, if the block is cached; else
    /// false.
    pub fn fetch_block(&self, i: usize, guard: &Guard) -> bool {
        let frame = self.slots.peek(i, guard);
        frame.is_some_and(|frame| {
            prefetch(frame);
            true
        })
    }

    /// The third step: searches block `i`, if it is cached, and asks for the entry.
    pub fn fetch_entry(&self, i: usize, key: &[u8], guard: &Guard) {
        if let Some(block) = self.slots.peek(i, guard).and_then(|f| Block::new(f)) {
            block.prefetch_entry(key);
        }
    }

    /// The trailer that an entry counts with.
    #[inline]
    pub(super) fn lifted(&self, trailer: Trailer) -> Trailer {
        if self.lift == 0 { trailer } else { Trailer::new(self.lift, Kind::Put) }
    }

    /// The sequence number of all entries of an ingested table; 0 when they have their own.
    pub(super) fn lift(&self) -> Seq {
        self.lift
    }

    /// The newest version of `key` at or below `at` in block `i`, and whether all of the block is
    /// before that place.
    #[inline]
    fn find_in<'g>(
        &'g self,
        i: usize,
        held: HeldBlock<'g>,
        key: &[u8],
        at: Trailer,
    ) -> Result<(Option<TableHit<'g>>, bool)> {
        prefetch(held.bytes());
        let Some(block) = Block::new(held.bytes()) else {
            return Err(self.place(i).corrupt("a data block that is cut off"));
        };
        let (pos, found) = block.seek(key, at);
        if !found {
            return Ok((None, pos == block.len()));
        }
        let entry = block.entry(pos);
        let (trailer, value) = (self.lifted(entry.trailer), entry.value_range());
        if trailer > at {
            return Ok((None, false));
        }
        Ok((Some(TableHit { trailer, table: self, block: i, held, value }), false))
    }

    /// Goes on behind block `i`, whose last key goes on in the next one and which has nothing at or
    /// after `(key, at)`.
    #[cold]
    fn get_in_run<'g>(
        &'g self,
        i: usize,
        key: &[u8],
        at: Trailer,
        guard: &'g Guard,
    ) -> Result<Option<TableHit<'g>>> {
        let i = self.seek_run(i + 1, |b| {
            let held = self.block(b, guard)?;
            let block = Block::new(held.bytes())
                .ok_or_else(|| self.place(b).corrupt("a data block that is cut off"))?;
            Ok(block.seek(key, at).0 == block.len())
        })?;
        let held = self.block(i, guard)?;
        Ok(self.find_in(i, held, key, at)?.0)
    }

    /// The first block from `low` on that is not wholly `before` a target, within the run of blocks
    /// that go on into each other; the run's last block when there is none. A binary search,
    /// because a key may have a great many versions.
    pub(super) fn seek_run(
        &self,
        mut low: usize,
        mut before: impl FnMut(usize) -> Result<bool>,
    ) -> Result<usize> {
        let mut high = self.index.last_of_run(low);
        while low < high {
            let mid = low + (high - low) / 2;
            if before(mid)? {
                low = mid + 1;
            } else {
                high = mid;
            }
        }
        Ok(low)
    }

    /// The decoded block `i`.
    #[inline]
    fn block<'g>(&'g self, i: usize, guard: &'g Guard) -> Result<HeldBlock<'g>> {
        if self.is_mapped(i) {
            return Ok(HeldBlock::Map(self.mapped_bytes(self.mapped_block(i, false)?)));
        }
        match self.slots.get(i, guard) {
            Some(frame) => Ok(HeldBlock::Guarded(frame)),
            None => {
                let frame = self.load(i, self.map_to_decode(), CacheStay::ProbationQueue)?;
                Ok(HeldBlock::Owned(frame))
            }
        }
    }

    pub(super) fn place(&self, i: usize) -> BlockPlace<'_> {
        let (offset, len) = self.index.place(i);
        BlockPlace {
            file: &*self.file,
            path: &self.path,
            id: self.id,
            kind: BlockKind::Data,
            offset,
            len,
        }
    }

    /// Whether block `i` is served from the map.
    #[inline]
    pub(super) fn is_mapped(&self, i: usize) -> bool {
        self.mapped && self.index.flags(i) & RAW != 0 && self.maps.serves()
    }

    /// The map, when blocks are decoded from it.
    #[inline]
    pub(super) fn map_to_decode(&self) -> Option<BytesAtHand<'_>> {
        if self.maps.decodes() { self.map_bytes().map(BytesAtHand::map) } else { None }
    }

    #[inline]
    fn map_bytes(&self) -> Option<&[u8]> {
        self.map.as_ref().map(|m| m.bytes())
    }

    /// Bytes of the map; empty when they are not there.
    #[inline]
    pub(super) fn mapped_bytes(&self, range: Range<usize>) -> &[u8] {
        part(self.map_bytes().unwrap_or_default(), range)
    }

    /// These bytes of the file will be read soon, from the map or the file.
    pub(super) fn will_need(&self, offset: u64, len: u64) {
        match &self.map {
            Some(map) => map.will_need(offset, len),
            None => self.file.will_need(offset, len),
        }
    }

    /// Where the stored bytes of block `i`, which must be one that [`is_mapped`](Self::is_mapped),
    /// lie in the map. They are checked when the block is met for the first time. `asked`: whether
    /// the device has been asked for it, among others.
    #[inline]
    pub(super) fn mapped_block(&self, i: usize, asked: bool) -> Result<Range<usize>> {
        let (word, bit) = (&self.checked[i / 64], 1 << (i % 64));
        if word.load(Ordering::Acquire) & bit == 0 {
            if !asked {
                // The map reads a page at a fault; this is the whole block in one.
                let (offset, len) = self.index.place(i);
                self.will_need(offset, len as u64);
            }
            let map = self.map_bytes().map(BytesAtHand::map);
            let checked = self.place(i).stored(map, |s| match s.codec {
                Compression::None => validate(s.bytes).and_then(|()| self.check_place(i, s.bytes)),
                _ => Err("a block of another compression than the index says"),
            });
            checked.map_err(|e| self.with_keys(i, e))?;
            word.fetch_or(bit, Ordering::Release);
        }
        let (offset, len) = self.index.place(i);
        Ok(offset as usize + BLOCK_HEADER..offset as usize + len)
    }

    /// The frame of block `i` when it is cached. Without `warm` the frame counts as no hotter for
    /// it.
    pub(super) fn cached(&self, i: usize, warm: bool) -> Option<FrameRef> {
        let guard = epoch::pin();
        let frame = if warm { self.slots.get(i, &guard) } else { self.slots.peek(i, &guard) };
        frame.map(|f| {
            // Before the count, which waits for the frame's first line: so all lines come at once.
            prefetch(f);
            f.to_ref()
        })
    }

    /// Decodes block `i` into a frame of the cache.
    #[cold]
    pub(super) fn load(
        &self,
        i: usize,
        at_hand: Option<BytesAtHand<'_>>,
        stay: CacheStay,
    ) -> Result<FrameRef> {
        let decoded = self.place(i).stored(at_hand, |s| self.decode(i, &s));
        let frame = decoded.map_err(|e| self.with_keys(i, e))?;
        self.count_read(i);
        Ok(self.cache.insert_for(stay, &self.slots, i, frame))
    }

    /// Counts block `i` as read by a reader.
    pub(super) fn count_read(&self, i: usize) {
        self.reads.block_was_read(self.index.place(i).1 as u64);
    }

    /// Decodes block `i`.
    fn decode(&self, i: usize, block: &StoredBlock<'_>) -> Result<FrameRef, &'static str> {
        let mut frame = self.cache.allocate(block.raw_len);
        block.unpack(&mut frame)?;
        validate(&frame)?;
        self.check_place(i, &frame)?;
        Ok(frame.freeze())
    }

    /// Checks that the keys of block `i`, which is valid, are between the index's separators.
    /// Cursors rely on it: they would turn in a circle where keys descend.
    pub(super) fn check_place(&self, i: usize, raw: &[u8]) -> Result<(), &'static str> {
        let block = Block::new(raw).ok_or("a data block that is cut off")?;
        let mut key = Vec::with_capacity(64);
        if let Some(before) = i.checked_sub(1) {
            block.key_into(0, &mut key);
            let least = match self.index.flags(before) & super::index::CONTINUES {
                0 => std::cmp::Ordering::Less,
                _ => std::cmp::Ordering::Equal,
            };
            if self.index.compare_separator(before, &key) != least {
                return Err("a block that begins before the index says");
            }
        }
        block.key_into(block.len() - 1, &mut key);
        match self.index.compare_separator(i, &key) {
            std::cmp::Ordering::Less => Err("a block that ends behind its separator"),
            _ => Ok(()),
        }
    }

    /// Whether a block of a long walk goes into the cache.
    pub(super) fn admits_passing(&self) -> bool {
        self.cache.admits_passing()
    }

    /// Puts into `stub` what is cached of block `i` without its value, if it is.
    pub(super) fn cached_stub(&self, i: usize, stub: &mut Vec<u8>) -> bool {
        let guard = epoch::pin();
        self.stubs.get(i, &guard).is_some_and(|frame| {
            stub.clear();
            stub.extend_from_slice(frame);
            true
        })
    }

    /// Caches what block `i` is without its value.
    pub(super) fn keep_stub(&self, i: usize, stub: &[u8]) {
        let mut frame = self.cache.allocate(stub.len());
        frame.copy_from_slice(stub);
        self.cache.insert(&self.stubs, i, frame.freeze());
    }

    /// Decodes block `i`, which has been read, into a frame of the cache.
    pub(super) fn complete(
        &self,
        i: usize,
        block: &StoredBlock<'_>,
        stay: CacheStay,
    ) -> Result<FrameRef> {
        let decoded =
            self.decode(i, block).map_err(|e| self.with_keys(i, self.place(i).corrupt(e)));
        Ok(self.cache.insert_for(stay, &self.slots, i, decoded?))
    }

    /// Decodes block `i`, which has been read, into `buffer`.
    pub(super) fn complete_into(
        &self,
        i: usize,
        block: &StoredBlock<'_>,
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        decode_into(block, buffer)
            .and_then(|()| self.check_place(i, buffer))
            .map_err(|e| self.with_keys(i, self.place(i).corrupt(e)))
    }

    /// Takes decoded blocks from the writer that made this very table. Those of other tables come
    /// with [`inherit`](Self::inherit).
    pub fn adopt(&self, warm: WarmBlocks) {
        for (i, frame) in warm.frames {
            self.cache.insert(&self.slots, i as usize, frame);
        }
        *self.heritage.lock() = warm.inherited;
    }

    /// Takes over from other tables what of their blocks is in the cache and has gone into this one
    /// as it was: to be called when readers come here and no more there.
    pub fn inherit(&self) {
        let heritage = std::mem::take(&mut *self.heritage.lock());
        self.cache.hand_over(&self.slots, heritage);
    }

    /// Block `i`, which is block `new` of another table too.
    pub(super) fn inherited(&self, i: usize, new: u32) -> InheritedBlock {
        InheritedBlock { from: self.slots.clone(), old: i as u32, new }
    }

    /// Decodes block `i` into `buffer`, which becomes exactly as long as the block; gives how it is
    /// stored.
    pub(super) fn load_into(
        &self,
        i: usize,
        at_hand: Option<BytesAtHand<'_>>,
        buffer: &mut Vec<u8>,
    ) -> Result<Compression> {
        self.place(i).stored(at_hand, |s| {
            decode_into(&s, buffer)?;
            self.check_place(i, buffer)?;
            Ok(s.codec)
        })
    }

    /// A value inside block `i`, which is served from the map.
    pub(super) fn map_value(&self, i: usize, value: Range<u32>) -> TableValue {
        let start = self.index.place(i).0 + BLOCK_HEADER as u64;
        match &self.map {
            Some(map) => {
                TableValue::map(map.clone(), start + value.start as u64..start + value.end as u64)
            }
            None => TableValue::copy(&[]),
        }
    }

    /// For each of these blocks whether it is cached now.
    pub fn cached_blocks(&self, blocks: Range<usize>) -> Vec<bool> {
        let guard = epoch::pin();
        blocks.map(|i| self.slots.peek(i, &guard).is_some()).collect()
    }

    /// Where block `i` begins in the file, what it takes there, and whether it is stored as it is.
    pub fn stored_block(&self, i: usize) -> (u64, u64, bool) {
        let (offset, len) = self.index.place(i);
        (offset, len as u64, self.index.flags(i) & RAW != 0)
    }

    /// Whether block `i` is served from the map of the file.
    pub fn serves_from_map(&self, i: usize) -> bool {
        self.is_mapped(i)
    }

    /// Whether there is a filter to be asked.
    pub fn has_filter(&self) -> bool {
        self.filter.is_some()
    }

    /// The table's range tombstones.
    pub fn tombstones(&self) -> &Arc<Fragments> {
        &self.tombstones
    }

    /// Whether all its entries are puts and no key has two.
    pub fn is_plain(&self) -> bool {
        self.index.is_plain()
    }

    /// What the table knows about itself.
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// Which table it is, wherever its file lies.
    pub fn identity(&self) -> TableIdentity {
        self.identity
    }

    /// Its file id.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Length of its file in bytes.
    pub fn size(&self) -> u64 {
        self.file.len()
    }

    /// Bytes of memory pinned by index, filter, tombstones, properties and slots, not counting
    /// cached blocks.
    pub fn memory(&self) -> usize {
        let filter = self.filter.as_ref().map_or(0, BlockFilter::memory);
        let blocks = 8 * (self.index.len() + self.stubs.len() + self.checked.len());
        size_of::<Table>()
            + self.index.memory()
            + filter
            + blocks
            + self.tombstones.memory()
            + self.properties.memory()
    }

    /// Roughly where in the file `key` is: the offset of the block that may hold it, the end of the
    /// data when there is none.
    pub fn offset_of(&self, key: &[u8]) -> u64 {
        let i = self.index.find(key);
        if i < self.index.len() { self.index.place(i).0 } else { self.index.end() }
    }

    /// The data blocks, in key order.
    pub fn blocks(&self) -> impl ExactSizeIterator<Item = BlockInfo> + '_ {
        (0..self.index.len()).map(|i| self.index.info(i))
    }

    /// Keys between blocks, at most so many and as far apart as can be: no block lies on both sides
    /// of one. With each the bytes of blocks since the one before.
    pub fn landmarks(&self, most: usize) -> Vec<(Vec<u8>, u64)> {
        let n = self.index.len();
        let mut from = 0;
        (1..=most.min(n))
            .map(|i| {
                let last = i * n / most.min(n) - 1;
                let (offset, len) = self.index.place(last);
                let until = offset + len as u64;
                (self.index.info(last).separator, until - std::mem::replace(&mut from, until))
            })
            .collect()
    }

    /// An error about block `i`, with the keys that the block may hold where the error names none:
    /// behind the separator before it, up to its own.
    pub(super) fn with_keys(&self, i: usize, e: Error) -> Error {
        if e.key_range().is_some() || e.kind() != ErrorKind::Corruption {
            return e;
        }
        let first = match i {
            0 => self.properties().first_key.clone(),
            i => self.index.info(i - 1).separator,
        };
        e.keys(&first, &self.index.info(i).separator)
    }
}
